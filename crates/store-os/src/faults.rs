//! Where a test may stand before a system call: to fail it, or to hold it.

use std::fmt;

use rustix::io::Errno;

/// The calls that can be failed or held.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Call {
    /// Reserving a segment's space.
    Allocate,
    /// `fdatasync` or `msync` of a segment.
    Sync,
    /// `pwrite` of staged bytes.
    Write,
}

/// Asked before each [`Call`]; an error stands in for the call's own.
///
/// May block: that is how a slow device is made without sleeping.
pub trait Faults: Send + Sync {
    /// Whether the call goes ahead.
    ///
    /// # Errors
    ///
    /// What the call shall fail with.
    fn before(&self, call: Call) -> Result<(), Errno>;
}

/// The faults of a log: none outside tests.
#[derive(Clone, Default)]
pub(crate) struct Injected {
    #[cfg(feature = "_faults")]
    pub(crate) faults: Option<std::sync::Arc<dyn Faults>>,
}

impl Injected {
    #[cfg_attr(
        not(feature = "_faults"),
        expect(
            clippy::unnecessary_wraps,
            clippy::unused_self,
            reason = "nothing fails outside tests"
        )
    )]
    pub(crate) fn before(&self, call: Call) -> Result<(), Errno> {
        #[cfg(feature = "_faults")]
        if let Some(faults) = &self.faults {
            return faults.before(call);
        }
        let _ = call;
        Ok(())
    }
}

impl fmt::Debug for Injected {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Injected")
    }
}
