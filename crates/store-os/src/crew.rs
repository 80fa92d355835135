//! Threads of a log.

use std::io;

use crate::sync::{Builder, JoinHandle};

/// Threads that end together. Dropped, they are left to themselves.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    members: Vec<JoinHandle<()>>,
}

impl Crew {
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        self.members.push(Builder::new().name(format!("log-{name}")).spawn(run)?);
        Ok(())
    }

    /// Whether no thread was started, or all have been joined.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Waits until all have ended.
    pub(crate) fn join(&mut self) {
        for member in self.members.drain(..) {
            // One that panicked has poisoned the log, which says so.
            let _ = member.join();
        }
    }
}
