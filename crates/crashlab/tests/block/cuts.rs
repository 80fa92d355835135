//! Power cuts on real file systems: what was promised is there.

use crashlab::block::FsKind;

use crate::support::{Bench, STRATEGIES, cut_under_load, steady, usable};

fn cuts_break_no_promise(kind: FsKind, each: u64) {
    for kind in usable(&[kind]) {
        for strategy in STRATEGIES {
            let bench = Bench::new(kind, "");
            let tally = cut_under_load(&bench, strategy, &steady(), each);
            let name = strategy.name();
            assert_eq!(tally.violations, [""; 0], "{kind}, {name}");
            assert_eq!((tally.judged, tally.not_mountable), (each, 0), "{kind}, {name}: {tally:?}");
            println!("{kind}, {name}: {tally:?}");
        }
    }
}

#[test]
fn power_cuts_on_ext4_break_no_promise() {
    cuts_break_no_promise(FsKind::Ext4, 20);
}

#[test]
fn power_cuts_on_xfs_break_no_promise() {
    cuts_break_no_promise(FsKind::Xfs, 4);
}

#[test]
fn power_cuts_on_btrfs_break_no_promise() {
    cuts_break_no_promise(FsKind::Btrfs, 4);
}
