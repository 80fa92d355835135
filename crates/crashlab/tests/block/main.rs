//! Power cuts, faults and kills on real file systems, on a disk in user space.
//!
//! Needs root, `/dev/fuse`, loop devices and the tools of each file system; what is missing is
//! said, and left out.
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
#![expect(clippy::print_stdout, reason = "figures, for who asks for a passing test's output")]

mod controls;
mod cuts;
mod device;
mod faults;
mod kills;
mod support;
