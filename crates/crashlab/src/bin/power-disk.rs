//! The process behind an emulated disk. Started by `crashlab::block`, with a socket as its standard
//! input.
#![forbid(unsafe_code)]

use std::ffi::OsString;
use std::process::ExitCode;

fn main() -> ExitCode {
    let arguments: Vec<OsString> = std::env::args_os().skip(1).collect();
    match crashlab::block::serve_from_arguments(&arguments) {
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
