//! An appended record on its way to its acknowledgement: a blocking wait, or a future.

use std::future::Future;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll};

use store_core::Nanos;

use crate::append::Appended;
use crate::error::AckError;
use crate::shared::Shared;

/// A record in the log whose producer has not been told "ok" yet.
///
/// [`wait`](Self::wait) blocks; awaiting it does not, and needs no particular executor. Either ends
/// once, when the strategy's promise holds for the record, the log fails or is closed, or the
/// strategy's deadline passes. Dropping a ticket changes nothing: the record is in the log.
#[must_use = "the record is durable only when its ticket says so"]
#[derive(Debug)]
pub struct Ticket {
    appended: Appended,
    state: State,
}

#[derive(Debug)]
enum State {
    /// A flush is to be waited for.
    Flushing(Pending),
    /// Nothing is.
    Known(Result<(), AckError>),
}

#[derive(Debug)]
struct Pending {
    shared: Arc<Shared>,
    deadline: Option<Nanos>,
    /// Names this ticket among the futures that wait; `None` until polled.
    registered: Option<u64>,
}

impl Ticket {
    /// A ticket for a record whose promise already holds.
    pub(crate) fn ready(appended: Appended) -> Self {
        Self { appended, state: State::Known(Ok(())) }
    }

    /// A ticket for a record that is in the log, but whose promise failed.
    pub(crate) fn failed(appended: Appended, error: AckError) -> Self {
        Self { appended, state: State::Known(Err(error)) }
    }

    /// A ticket for a record that is to be flushed.
    pub(crate) fn flushing(shared: Arc<Shared>, appended: Appended) -> Self {
        let deadline = shared.answers.timeout.map(|timeout| shared.now().after(timeout));
        Self { appended, state: State::Flushing(Pending { shared, deadline, registered: None }) }
    }

    /// Where the record went.
    pub fn appended(&self) -> Appended {
        self.appended
    }

    /// Whether waiting would return at once.
    pub fn is_done(&self) -> bool {
        self.outcome().is_some()
    }

    /// What waiting would return at once; `None` while it would block.
    ///
    /// # Errors
    ///
    /// As [`wait`](Self::wait).
    pub fn outcome(&self) -> Option<Result<Appended, AckError>> {
        let outcome = match &self.state {
            State::Flushing(Pending { shared, deadline, .. }) => {
                let overdue = || deadline.is_some_and(|deadline| deadline <= shared.now());
                let outcome = shared.progress.outcome(self.appended.end());
                outcome.or_else(|| overdue().then_some(Err(AckError::FlushTimedOut)))?
            }
            State::Known(outcome) => outcome.clone(),
        };
        Some(outcome.map(|()| self.appended))
    }

    /// Blocks until the record is acknowledged.
    ///
    /// # Errors
    ///
    /// [`AckError::FlushTimedOut`] at the strategy's deadline, however long a sync takes;
    /// [`AckError::Poisoned`] if a write or sync failed; [`AckError::Closed`] if the log went away.
    /// The record is in the log in every case.
    pub fn wait(self) -> Result<Appended, AckError> {
        let end = self.appended.end();
        match &self.state {
            State::Flushing(pending) => pending.shared.progress.wait(end, pending.deadline)?,
            State::Known(outcome) => outcome.clone()?,
        }
        Ok(self.appended)
    }
}

impl Future for Ticket {
    type Output = Result<Appended, AckError>;

    fn poll(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<Self::Output> {
        let appended = self.appended;
        let pending = match &mut self.state {
            State::Flushing(pending) => pending,
            State::Known(outcome) => return Poll::Ready(outcome.clone().map(|()| appended)),
        };
        let Pending { shared, deadline, registered } = pending;
        let outcome = shared.progress.poll(registered, appended.end(), context.waker(), *deadline);
        if outcome.is_pending() && deadline.is_some_and(|deadline| deadline <= shared.now()) {
            return Poll::Ready(Err(AckError::FlushTimedOut));
        }
        outcome.map(|outcome| outcome.map(|()| appended))
    }
}

impl Drop for Ticket {
    fn drop(&mut self) {
        if let State::Flushing(Pending { shared, registered: Some(ticket), .. }) = &self.state {
            shared.progress.unregister(*ticket, self.appended.end());
        }
    }
}
