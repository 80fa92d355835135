//! Exact instruction counts of asking a strategy what to do: gungraun runs this under valgrind's
//! callgrind, and fails where a count is above its limit.
//!
//! A whole append cannot be counted: under valgrind rustix does not find the kernel's clock.
//!
//! A limit is a tenth above what was counted, for other compilers and processors; who makes a count
//! lower, lowers its limit.
#![expect(missing_docs, reason = "gungraun's macros make items without docs")]

use std::hint::black_box;

use commit_realtime::CommitRealtime;
use flush_realtime::FlushRealtime;
use group_commit::GroupCommit;
use gungraun::{
    Callgrind, EventKind, LibraryBenchmarkConfig, library_benchmark, library_benchmark_group, main,
};
use store_core::{FlushStrategy, Lane, LogOffset, Nanos, Observed, Watermarks};

fn at_most(instructions: u64) -> LibraryBenchmarkConfig {
    let mut callgrind = Callgrind::default();
    callgrind.hard_limits([(EventKind::Ir, instructions)]);
    let mut config = LibraryBenchmarkConfig::default();
    config.tool(callgrind);
    config
}

#[library_benchmark]
#[bench::group_commit(args = (Box::new(GroupCommit::default())), config = at_most(230))]
#[bench::flush_realtime(args = (Box::new(FlushRealtime::default())), config = at_most(200))]
#[bench::commit_realtime(args = (Box::new(CommitRealtime::default())), config = at_most(205))]
fn poll(mut strategy: Box<dyn FlushStrategy>) {
    let end = LogOffset::new(300);
    let seen = Observed {
        marks: Watermarks::new(end, end, LogOffset::ZERO),
        wanted: end,
        waiting: 3,
        woken: true,
        ..Observed::default()
    };
    let _ = black_box(strategy.poll(Lane::Flush, Nanos::from_millis(1), black_box(&seen)));
}

// What follows a sync: it is noted, and the next look finds nobody waiting.
#[library_benchmark]
#[bench::group_commit(args = (Box::new(GroupCommit::default())), config = at_most(195))]
#[bench::flush_realtime(args = (Box::new(FlushRealtime::default())), config = at_most(212))]
#[bench::commit_realtime(args = (Box::new(CommitRealtime::default())), config = at_most(220))]
fn done(mut strategy: Box<dyn FlushStrategy>) {
    let end = LogOffset::new(300);
    let seen =
        Observed { marks: Watermarks::new(end, end, end), wanted: end, ..Observed::default() };
    strategy.on_done(Lane::Flush, Nanos::from_millis(1), black_box(&seen));
    let _ = black_box(strategy.poll(Lane::Flush, Nanos::from_millis(1), black_box(&seen)));
}

library_benchmark_group!(name = strategies, benchmarks = [poll, done]);
main!(library_benchmark_groups = strategies);
