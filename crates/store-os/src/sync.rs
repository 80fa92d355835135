//! What the threads of a log share and wait on, in one place: std's and the kernel's, or those of a
//! model checker.
//!
//! The packages `under-loom` and `under-shuttle` build this crate's sources with the checker's
//! types in their stead (`cfg(modelled)`), and run the same code through many interleavings: see
//! each `models` (`docs/adr/0018`). What other threads than a log's share (scans, surveys, the
//! registry of open directories) does not come from here.

#[cfg(modelled = "loom")]
mod loom_atomics;
#[cfg(modelled)]
mod modelled;
mod places;
#[cfg(not(modelled))]
mod system;

#[cfg(modelled = "loom")]
pub(crate) use loom_atomics::*;
#[cfg(modelled)]
pub(crate) use modelled::*;
pub(crate) use places::Places;
#[cfg(not(modelled))]
pub(crate) use system::*;
