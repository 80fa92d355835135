//! Signals that ask the program to end: seen as a flag, so that what was done is kept.

use std::io::Read;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use anyhow::{Context, Result};
use signal_hook::flag;
use signal_hook::low_level::pipe;

use crate::exit;

/// Lets Ctrl-C, SIGTERM, SIGQUIT and SIGHUP do nothing: for a process that ends with another one.
pub(crate) fn pass_over() -> Result<()> {
    for signal in signal_hook::consts::TERM_SIGNALS.iter().chain(&[signal_hook::consts::SIGHUP]) {
        flag::register(*signal, Arc::new(AtomicBool::new(false))).context(CANNOT_CATCH)?;
    }
    Ok(())
}

/// A flag that Ctrl-C, SIGTERM, SIGQUIT or SIGHUP sets. A second signal ends the program at once,
/// but for the kernel's settings, which are put back first; a third does not wait for that.
pub(crate) fn flag() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let ending = Arc::new(AtomicBool::new(false));
    let (told, tell) = UnixStream::pair().context(CANNOT_CATCH)?;
    let signals = signal_hook::consts::TERM_SIGNALS.iter().chain(&[signal_hook::consts::SIGHUP]);
    for signal in signals.filter(|signal| !is_ignored(**signal)) {
        let code = i32::from(exit::INTERRUPTED);
        flag::register_conditional_shutdown(*signal, code, Arc::clone(&ending))
            .and_then(|_| flag::register(*signal, Arc::clone(&interrupted)))
            .and_then(|_| pipe::register(*signal, tell.try_clone()?))
            .context(CANNOT_CATCH)?;
    }
    // A handler may do next to nothing, least of all write files; so a thread waits for its word.
    thread::Builder::new()
        .name("signals".to_owned())
        .spawn(move || end_at_the_second(told, &ending))
        .context(CANNOT_CATCH)?;
    Ok(interrupted)
}

/// Ends the program when the second signal is told.
fn end_at_the_second(mut told: UnixStream, ending: &AtomicBool) {
    // If nobody can tell any more, there is nothing to wait for.
    if told.read_exact(&mut [0; 2]).is_err() {
        return;
    }
    ending.store(true, Ordering::SeqCst);
    if let Err(error) = harness::sysctl::restore_now() {
        say!("error: {error:#}");
    }
    signal_hook::low_level::exit(i32::from(exit::INTERRUPTED));
}

const CANNOT_CATCH: &str = "cannot catch signals";

/// Whether whoever started this program had it ignore a signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}

#[cfg(test)]
mod tests {
    use std::io::{BufRead, BufReader};
    use std::path::Path;
    use std::process::{Command, Stdio};

    use harness::sysctl::{DirtySettings, Guard, Key, Roots};

    use super::*;

    /// Not a test by itself: a program that does not end when it is asked to.
    #[test]
    fn busy_child() {
        let Ok(dir) = std::env::var(CHILD_DIR) else { return };
        let interrupted = flag().unwrap();
        let mut guard = Guard::take(&Roots::imitated(Path::new(&dir)).unwrap()).unwrap();
        let mut asked = DirtySettings::default();
        asked.set(Key::Ratio, 50).unwrap();
        guard.apply(&asked, &[]).unwrap();
        println!("\nchanged");
        while !interrupted.load(Ordering::SeqCst) {
            thread::park_timeout(std::time::Duration::from_millis(1));
        }
        println!("\nheard");
        // Until it is killed, or nobody is left who could.
        let _ = std::io::stdin().read_to_end(&mut Vec::new());
    }

    /// Whether this process ignores a signal, and so its children do: `nohup` and a shell's `&` see
    /// to that, and whoever is started so is not to hear it.
    fn is_ignored(number: u32) -> bool {
        let status = std::fs::read_to_string("/proc/self/status").unwrap();
        let ignored = status.lines().find_map(|line| line.strip_prefix("SigIgn:")).unwrap();
        u64::from_str_radix(ignored.trim(), 16).unwrap() >> (number - 1) & 1 == 1
    }

    #[test]
    fn a_second_signal_ends_at_once_and_restores() {
        let dir = tempfile::tempdir().unwrap();
        let ratio = || std::fs::read_to_string(dir.path().join("vm/dirty_ratio")).unwrap();
        for (signal, number) in [("INT", 2), ("TERM", 15), ("HUP", 1)] {
            if is_ignored(number) {
                continue;
            }
            let mut child = Command::new(std::env::current_exe().unwrap())
                .args(["--exact", "signals::tests::busy_child", "--nocapture"])
                .env(CHILD_DIR, dir.path())
                .stdin(Stdio::piped())
                .stdout(Stdio::piped())
                .spawn()
                .unwrap();
            let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
            let mut wait_for = |word: &str| lines.any(|line| line.unwrap() == word);
            let pid = child.id().to_string();
            let kill = || Command::new("kill").args(["-s", signal, &pid]).status().unwrap();
            assert!(wait_for("changed"), "{signal}");
            assert_eq!(ratio(), "50\n");
            assert!(kill().success());
            assert!(wait_for("heard"), "{signal}: the first is only a word");
            assert_eq!(ratio(), "50\n");
            assert!(kill().success());
            // Held open, which waiting would not: the child is to end by the signal alone.
            let open = child.stdin.take();
            let code = child.wait().unwrap().code();
            drop(open);
            assert_eq!(code, Some(i32::from(exit::INTERRUPTED)), "{signal}");
            assert_eq!(ratio(), "20\n", "{signal}");
        }
    }

    const CHILD_DIR: &str = "FLUSHMARK_SIGNALS_DIR";
}
