//! Printing that survives a reader who has gone: talk on stderr, data on stdout.

use std::io::{ErrorKind, Write};

use anyhow::{Context, Result};

/// Says a line on stderr. If nobody can hear it, the work goes on.
macro_rules! say {
    ($($part:tt)*) => {
        $crate::say::err(format_args!($($part)*))
    };
}

pub(crate) fn err(line: std::fmt::Arguments<'_>) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Writes data to stdout. A reader that stopped reading is no error; a full disk is.
pub(crate) fn out(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => {
            Err(error).context("cannot write to standard output")
        }
        _ => Ok(()),
    }
}
