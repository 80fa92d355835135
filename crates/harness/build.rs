//! Hands down which compiler builds the harness and how: a result says so.

use std::process::Command;

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    let get = |name: &str| std::env::var(name).unwrap_or_default();
    let version = Command::new(get("RUSTC")).arg("--version").output();
    let version = version.map(|told| String::from_utf8_lossy(&told.stdout).trim().to_owned());
    // `rustc 1.95.0 (59807616e 2026-04-14)`: the hash in brackets says no more than the number.
    let version = version.unwrap_or_else(|_| "rustc not known".to_owned());
    let version = version.split(" (").next().unwrap_or(&version);
    let flags = get("CARGO_ENCODED_RUSTFLAGS");
    let shown: Vec<&str> = flags
        .split('\u{1f}')
        .filter(|flag| flag.contains("target-cpu") || flag.contains("target-feature"))
        .map(|flag| flag.trim_start_matches("-C"))
        .collect();
    println!("cargo::rustc-env=HARNESS_RUSTC={version}");
    println!("cargo::rustc-env=HARNESS_OPT_LEVEL={}", get("OPT_LEVEL"));
    println!("cargo::rustc-env=HARNESS_RUSTFLAGS={}", shown.join(" "));
}
