//! Signals that ask the program to end: seen as a flag, so that what was done is kept.

use std::sync::Arc;
use std::sync::atomic::AtomicBool;

use anyhow::{Context, Result};

use crate::exit;

/// Lets Ctrl-C, SIGTERM, SIGQUIT and SIGHUP do nothing: for a process that ends with another one.
pub(crate) fn pass_over() -> Result<()> {
    for signal in signal_hook::consts::TERM_SIGNALS.iter().chain(&[signal_hook::consts::SIGHUP]) {
        signal_hook::flag::register(*signal, Arc::new(AtomicBool::new(false)))
            .context("cannot catch signals")?;
    }
    Ok(())
}

/// A flag that Ctrl-C, SIGTERM, SIGQUIT or SIGHUP sets. A second signal ends the program at once.
pub(crate) fn flag() -> Result<Arc<AtomicBool>> {
    let interrupted = Arc::new(AtomicBool::new(false));
    let signals = signal_hook::consts::TERM_SIGNALS.iter().chain(&[signal_hook::consts::SIGHUP]);
    for signal in signals.filter(|signal| !is_ignored(**signal)) {
        let armed = Arc::clone(&interrupted);
        let code = i32::from(exit::INTERRUPTED);
        signal_hook::flag::register_conditional_shutdown(*signal, code, armed)
            .and_then(|_| signal_hook::flag::register(*signal, Arc::clone(&interrupted)))
            .context("cannot catch signals")?;
    }
    Ok(interrupted)
}

/// Whether whoever started this program had it ignore a signal, as `nohup` does.
fn is_ignored(signal: i32) -> bool {
    let status = std::fs::read_to_string("/proc/self/status").unwrap_or_default();
    let mask = status.lines().find_map(|line| line.strip_prefix("SigIgn:"));
    let mask = mask.and_then(|mask| u64::from_str_radix(mask.trim(), 16).ok()).unwrap_or(0);
    u32::try_from(signal - 1).is_ok_and(|bit| mask.checked_shr(bit).unwrap_or(0) & 1 == 1)
}
