//! Threads of a log, which can be waited for only so long.

use std::io;
use std::sync::{Arc, Condvar, Mutex, PoisonError};
use std::thread::{self, JoinHandle};
use std::time::Duration;

/// Threads that end together. Dropped, they are left to themselves.
#[derive(Debug, Default)]
pub(crate) struct Crew {
    members: Vec<JoinHandle<()>>,
    running: Arc<Running>,
}

impl Crew {
    pub(crate) fn spawn(
        &mut self,
        name: &str,
        run: impl FnOnce() + Send + 'static,
    ) -> io::Result<()> {
        let runs = Runs::begin(&self.running);
        let run = move || {
            let _runs = runs;
            run();
        };
        self.members.push(thread::Builder::new().name(format!("log-{name}")).spawn(run)?);
        Ok(())
    }

    /// Whether no thread was started, or all have been joined.
    pub(crate) fn is_empty(&self) -> bool {
        self.members.is_empty()
    }

    /// Waits until all have ended, at most `limit`; whether they have.
    pub(crate) fn join_within(&mut self, limit: Duration) -> bool {
        let Running { count, ended } = &*self.running;
        let count = count.lock().unwrap_or_else(PoisonError::into_inner);
        let waited = ended.wait_timeout_while(count, limit, |count| *count > 0);
        if *waited.unwrap_or_else(PoisonError::into_inner).0 > 0 {
            return false;
        }
        for member in self.members.drain(..) {
            // One that panicked has poisoned the log, which says so.
            let _ = member.join();
        }
        true
    }
}

#[derive(Debug, Default)]
struct Running {
    count: Mutex<usize>,
    ended: Condvar,
}

/// Counts a thread while it runs, also if it panics.
struct Runs(Arc<Running>);

impl Runs {
    fn begin(running: &Arc<Running>) -> Self {
        *running.count.lock().unwrap_or_else(PoisonError::into_inner) += 1;
        Self(Arc::clone(running))
    }
}

impl Drop for Runs {
    fn drop(&mut self) {
        *self.0.count.lock().unwrap_or_else(PoisonError::into_inner) -= 1;
        self.0.ended.notify_all();
    }
}
