//! Init of the virtual machine whose kernel is killed; see `crashlab::vm`.

fn main() -> std::io::Result<std::convert::Infallible> {
    crashlab::vm::guest::run()
}
