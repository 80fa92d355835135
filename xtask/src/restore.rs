//! `cargo xtask restore`: the kernel's settings as they were before a run that was killed.

use std::io::{self, Write};

use anyhow::{Context, Result};
use harness::sysctl::{self, Leftover, Restored, Roots};

use crate::{exit, say};

/// Put back the kernel settings (vm.dirty_*, limits of disks) that a killed run left
///
/// A run puts them back itself, however it ends, unless it is killed with SIGKILL. Then the next
/// run does, or this task; it takes root. While a run is at work nothing is touched.
///
/// Exit codes: 0 all is as it was, or there was nothing to put back; 3 it could not be done.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<u8> {
    restore(&Roots::machine())
}

fn restore(roots: &Roots) -> Result<u8> {
    match sysctl::restore_leftover(roots) {
        Ok(leftover) => say::stream(|out| tell(out, &leftover).context(say::CANNOT_WRITE)),
        Err(error) => {
            say!("error: {error:#}");
            Ok(exit::ENVIRONMENT)
        }
    }
}

/// What became of it; the exit code.
fn tell(out: &mut dyn Write, leftover: &Leftover) -> io::Result<u8> {
    match leftover {
        Leftover::Failed { file, pid, restored } => {
            writeln!(out, "not all that process {pid} had changed could be put back:")?;
            list(out, restored)?;
            writeln!(out, "{} stays; try again as root", file.display())?;
            return Ok(exit::ENVIRONMENT);
        }
        Leftover::None => writeln!(out, "nothing to put back")?,
        Leftover::OtherBoot { file } => {
            writeln!(out, "nothing to put back: the machine was started anew since a run was")?;
            writeln!(out, "killed; {} is removed", file.display())?;
        }
        Leftover::Restored { pid, restored } if restored.changes.is_empty() => {
            writeln!(out, "nothing to put back: process {pid} was killed before it changed any")?;
            writeln!(out, "setting, or all are as they were already")?;
        }
        Leftover::Restored { pid, restored } => {
            writeln!(out, "put back what process {pid} had changed:")?;
            list(out, restored)?;
        }
    }
    Ok(exit::OK)
}

fn list(out: &mut dyn Write, restored: &Restored) -> io::Result<()> {
    for change in &restored.changes {
        writeln!(out, "  {change}")?;
    }
    for device in &restored.gone {
        writeln!(out, "  bdi/{device} is no longer there")?;
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use harness::sysctl::{DirtySettings, Guard, Key};

    fn told(leftover: &Leftover) -> (String, u8) {
        let mut out = Vec::new();
        let code = tell(&mut out, leftover).unwrap();
        let text = String::from_utf8(out).unwrap();
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
        (text, code)
    }

    #[test]
    fn what_became_of_the_settings_is_told() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::imitated(dir.path()).unwrap();
        let left = |refused: &str| {
            let mut guard = Guard::take(&roots).unwrap();
            let mut asked = DirtySettings::default();
            asked.set(Key::Ratio, 50).unwrap();
            asked.set(Key::BackgroundRatio, 50).unwrap();
            guard.apply(&asked, &[]).unwrap();
            // Its own restoring fails; what is left is then a killed run's.
            std::fs::write(dir.path().join("vm/refuse"), "dirty_ratio 5\n").unwrap();
            drop(guard);
            std::fs::write(dir.path().join("vm/refuse"), refused).unwrap();
            sysctl::restore_leftover(&roots).unwrap()
        };
        let pid = std::process::id();
        let (text, code) = told(&left(""));
        assert_eq!(
            text,
            format!("put back what process {pid} had changed:\n  vm.dirty_ratio 50 -> 20\n")
        );
        assert_eq!(code, exit::OK);
        let failed = left("dirty_ratio 13\n");
        let mut out = Vec::new();
        assert_eq!(tell(&mut out, &failed).unwrap(), exit::ENVIRONMENT);
        let text = String::from_utf8(out).unwrap();
        assert!(text.contains("\n  only root may write vm.dirty_ratio (to be 20)\n"), "{text}");
        std::fs::write(dir.path().join("vm/refuse"), "").unwrap();
        assert_eq!(restore(&roots).unwrap(), exit::OK);
        assert_eq!(told(&Leftover::None), ("nothing to put back\n".to_owned(), exit::OK));
    }

    #[test]
    fn a_run_at_work_and_a_damaged_file_are_left_alone() {
        let dir = tempfile::tempdir().unwrap();
        let roots = Roots::imitated(dir.path()).unwrap();
        let guard = Guard::take(&roots).unwrap();
        assert_eq!(restore(&roots).unwrap(), exit::ENVIRONMENT);
        drop(guard);
        assert_eq!(restore(&roots).unwrap(), exit::OK);
        std::fs::write(dir.path().join("run/flushmark-restore.json"), "{").unwrap();
        assert_eq!(restore(&roots).unwrap(), exit::ENVIRONMENT);
    }
}
