//! Makes `crate::sync` give shuttle's types.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    println!("cargo::rustc-cfg=modelled");
    println!("cargo::rustc-cfg=modelled=\"shuttle\"");
}
