//! Which program makes a record, and how it was called.

use std::path::Path;
use std::process::Command;

use anyhow::{Context, Result};
use harness::results::Origin;

/// This program, as it was called.
pub(crate) fn origin() -> Origin {
    Origin::here(&command(), revision(&crate::root()).as_ref())
}

/// The command as the user can give it again.
fn command() -> Vec<String> {
    ["cargo", "xtask"].map(str::to_owned).into_iter().chain(std::env::args().skip(1)).collect()
}

/// The checkout's revision and whether it has changes, those of profiles apart; `None` without git.
fn revision(root: &Path) -> Option<(String, bool)> {
    let git = |arguments: &[&str]| -> Result<String> {
        let output = Command::new("git").arg("-C").arg(root).args(arguments).output()?;
        anyhow::ensure!(output.status.success(), "git failed");
        String::from_utf8(output.stdout).context("git")
    };
    let revision = git(&["rev-parse", "HEAD"]).ok()?;
    // A profile of one's own is no other program, and its text stands in the results.
    let dirty = !git(&["status", "--porcelain", "--", ".", ":!profiles"]).ok()?.trim().is_empty();
    Some((revision.trim().to_owned(), dirty))
}
