//! The process behind an emulated disk, or with `posix` as its first argument behind an emulated
//! file system. Started by `crashlab::block` and `crashlab::posix`, with a socket as its standard
//! input.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    let served = match arguments.split_first() {
        Some((task, rest)) if task == "posix" => crashlab::posix::serve_from_arguments(rest),
        _ => crashlab::block::serve_from_arguments(&arguments),
    };
    match served {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            #[expect(clippy::print_stderr, reason = "a program says why it ends")]
            {
                eprintln!("power-disk: {error}");
            }
            ExitCode::FAILURE
        }
    }
}
