//! What every process does that serves a file system to its owner.

use std::io::{self, BufRead, BufReader, Write};
use std::num::NonZeroU64;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::thread;
use std::time::Duration;

use fuser::{Config, Filesystem, MountOption, Session};
use rustix::process::{Pid, getppid};

use super::protocol::QUIT;

/// Serves `served` at the directory `at` until the owner at the other end of `control` says so or
/// is gone. `answer` is given each line of the owner's and gives the words of the answer. After
/// `at_end` nothing may be stuck.
///
/// # Errors
///
/// If the directory cannot be mounted on, or the control socket fails.
pub(crate) fn serve_file_system<F: Filesystem + Send + Sync + 'static>(
    control: &UnixStream,
    at: &Path,
    served: F,
    threads: usize,
    answer: impl Fn(&str) -> Result<String, String>,
    at_end: impl FnOnce(),
) -> io::Result<()> {
    // Memory that this process asks for must not wait for writes that only it can do. Where the
    // kernel refuses (no CAP_SYS_RESOURCE), it goes without: that is for want of memory alone.
    let _ = rustix::process::configure_io_flusher_behavior(true);
    // Otherwise every wait is up to 50 µs too long. Threads inherit it.
    let _ = rustix::thread::set_current_timer_slack(NonZeroU64::new(1));
    let owner = getppid();
    let mut config = Config::default();
    config.mount_options = vec![
        MountOption::FSName(super::private::SOURCE.to_owned()),
        MountOption::DefaultPermissions,
    ];
    config.n_threads = Some(threads);
    let session = Session::new(served, at, &config)?;
    // Before there are threads, which must not see it either.
    super::private::leave().map_err(io::Error::other)?;
    let session = session.spawn()?;
    let mut lines = BufReader::new(control.try_clone()?).lines();
    let mut control = control;
    writeln!(control, "ok ready")?;
    watch(owner, control.try_clone()?)?;
    while let Some(Ok(line)) = lines.next() {
        if line == QUIT {
            break;
        }
        match answer(&line) {
            Ok(words) => writeln!(control, "ok {words}")?,
            Err(said) => writeln!(control, "error {said}")?,
        }
    }
    at_end();
    // Whoever still has something open gets errors from here on.
    drop(session);
    Ok(())
}

/// Ends the control connection when the owner was killed but cannot die, because one of its threads
/// waits for this disk.
fn watch(owner: Option<Pid>, control: UnixStream) -> io::Result<()> {
    let Some(owner) = owner else {
        return Ok(());
    };
    let status = format!("/proc/{}/status", owner.as_raw_nonzero());
    thread::Builder::new().name("watch".to_owned()).spawn(move || {
        while !std::fs::read_to_string(&status).is_ok_and(|status| is_dying(&status)) {
            thread::sleep(WATCH_EVERY);
        }
        let _ = control.shutdown(std::net::Shutdown::Both);
    })?;
    Ok(())
}

/// Whether a process is a zombie or has SIGKILL to come (`proc_pid_status(5)`).
fn is_dying(status: &str) -> bool {
    status.lines().any(|line| {
        let (name, value) = line.split_once(':').unwrap_or((line, ""));
        match name {
            "State" => value.trim_start().starts_with('Z'),
            "ShdPnd" | "SigPnd" => {
                let pending = u64::from_str_radix(value.trim(), 16).unwrap_or(0);
                pending & (1 << (SIGKILL - 1)) != 0
            }
            _ => false,
        }
    })
}

const WATCH_EVERY: Duration = Duration::from_millis(200);
const SIGKILL: u32 = 9;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_process_that_was_killed_and_cannot_die_is_known() {
        let status = |state: &str, own: &str, shared: &str| {
            format!("Name:\tx\nState:\t{state}\nSigPnd:\t{own}\nShdPnd:\t{shared}\n")
        };
        let none = "0000000000000000";
        let kill = "0000000000000100";
        assert!(!is_dying(&status("S (sleeping)", none, "0000000000004002")));
        assert!(is_dying(&status("D (disk sleep)", none, kill)));
        assert!(is_dying(&status("D (disk sleep)", kill, none)));
        assert!(is_dying(&status("Z (zombie)", none, none)));
    }
}
