//! Printing that survives a reader who has gone: talk on stderr, data on stdout.

use std::io::{ErrorKind, IsTerminal, Write};

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

/// How wide a table may be: as the terminal that stdout is, else as most are.
pub(crate) fn columns() -> usize {
    let stdout = std::io::stdout();
    let size = stdout.is_terminal().then(|| rustix::termios::tcgetwinsize(&stdout));
    let columns = size.and_then(Result::ok).map(|size| usize::from(size.ws_col));
    columns.filter(|columns| *columns > 0).unwrap_or(USUAL_COLUMNS)
}

/// Of a terminal, and of what is no terminal.
const USUAL_COLUMNS: usize = 80;

/// What an error of stdout is said to be; everything else that fails has a context of its own.
pub(crate) const CANNOT_WRITE: &str = "cannot write to standard output";
