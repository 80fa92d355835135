//! The benchmark: profiles, load, measurement, results, charts and report.
//!
//! [`run::run`] measures a [`profile::Sweep`] on the disk of a directory and leaves a result
//! directory. Everything a person reads is made from recorded results alone, by [`table`],
//! [`chart`] and [`report`]. Nothing here prints.
#![forbid(unsafe_code)]

pub mod broker_words;
pub mod capacity;
pub mod card;
pub mod cell;
pub mod chart;
pub mod clock;
pub mod compare;
pub mod comparison;
pub mod disk;
pub mod disks;
pub mod distribution;
pub mod environment;
pub mod exposure;
pub mod format;
pub mod limits;
pub mod live;
pub mod load;
pub mod machine;
pub mod output;
pub mod powercut;
pub mod profile;
pub mod random;
pub mod raw;
pub mod recorded;
pub mod recorder;
pub mod rendering;
pub mod report;
pub mod results;
#[cfg(test)]
mod results_fixture;
pub mod run;
pub mod search;
pub mod series;
pub mod statistics;
pub mod strategy;
pub mod summary;
pub mod sysctl;
pub mod table;
pub mod validity;
pub mod verdict;
pub mod vmstat;
pub mod workdir;
