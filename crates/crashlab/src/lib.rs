//! Devices whose power can be cut, and what decides whether a log kept its promises through it.
#![forbid(unsafe_code)]
#![cfg(target_os = "linux")]

pub mod block;
pub mod check;
pub mod device;
pub mod load;
pub mod payload;
pub mod posix;
pub mod random;
pub mod sim;
pub mod vm;
pub mod witness;
