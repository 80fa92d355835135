//! A simulated disk under a virtual clock, and logs that live and crash on it.
//!
//! One seed is one run ([`Plan::of`], [`run`]): a log of the real code, on files in memory
//! ([`device::files`](crate::device::files)), under producers, lanes and a keeper whose time is
//! virtual. What happens goes into a journal. When a life is over, crashes are tried at random
//! positions of its journal: of the process, which leaves the page cache, and of the power, which
//! leaves what the disk may have kept. Each state is opened and checked; with one of them the next
//! life begins.
//!
//! Only what the traits of `store-os` let through is simulated. Interleavings of threads within a
//! call are not: each step of a lane is whole.

mod disk;
mod faults;
mod finding;
mod journal;
mod lies;
mod life;
mod many;
mod plan;
mod playback;
mod run;
mod shrink;
mod timing;
mod world;

pub use faults::{Call, Fault};
pub use finding::{Failure, Finding, Wrong};
pub use journal::{Entry, Told, What};
pub use lies::Lie;
pub use many::{Enough, Totals, run_many, run_plans};
pub use plan::{Life, Machine, NAMES, Plan, Strategy};
pub use playback::Playback;
pub use run::{Outcome, record, run};
pub use shrink::shrink;
pub use timing::Timing;
