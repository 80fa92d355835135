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

/// Lets `write` write to stdout, buffered, and gives its exit code. A reader that stopped reading
/// (`| head`) has what it wanted: the exit code is then that of success.
pub(crate) fn stream(write: impl FnOnce(&mut dyn Write) -> Result<u8>) -> Result<u8> {
    let mut stdout = std::io::BufWriter::new(std::io::stdout().lock());
    let result =
        write(&mut stdout).and_then(|code| stdout.flush().context(CANNOT_WRITE).map(|()| code));
    match result {
        Err(error) if is_broken_pipe(&error) => Ok(crate::exit::OK),
        other => other,
    }
}

fn is_broken_pipe(error: &anyhow::Error) -> bool {
    error
        .downcast_ref::<std::io::Error>()
        .is_some_and(|error| error.kind() == ErrorKind::BrokenPipe)
}

/// Writes data to stdout. A reader that stopped reading is no error; a full disk is.
pub(crate) fn out(text: &str) -> Result<()> {
    let mut stdout = std::io::stdout().lock();
    match stdout.write_all(text.as_bytes()).and_then(|()| stdout.flush()) {
        Err(error) if error.kind() != ErrorKind::BrokenPipe => Err(error).context(CANNOT_WRITE),
        _ => Ok(()),
    }
}

/// What an error of stdout is said to be; everything else that fails has a context of its own.
pub(crate) const CANNOT_WRITE: &str = "cannot write to standard output";
