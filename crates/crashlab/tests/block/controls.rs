//! Broken promises that must be caught: otherwise the other tests prove nothing.

use crashlab::block::FsKind;
use crashlab::load::{Lie, Strategy};

use crate::support::{Bench, cut_under_load, say, steady, usable};

fn is_caught(strategy: Strategy, mount_options: &str, cuts: u64) {
    for kind in usable(&[FsKind::Ext4]) {
        let bench = Bench::new(kind, mount_options);
        let tally = cut_under_load(&bench, strategy, &steady(), cuts);
        assert!(tally.caught() > 0, "{} {mount_options}: {tally:?}", strategy.name());
    }
}

#[test]
fn acknowledging_before_the_sync_is_caught() {
    is_caught(Strategy::Lying(Lie::AckBeforeSync), "", 12);
}

#[test]
fn sync_file_range_instead_of_a_sync_is_caught() {
    if usable(&[FsKind::Xfs]).is_empty() {
        say("left out: sync_file_range is called by xfs_io, which is in xfsprogs as well");
        return;
    }
    is_caught(Strategy::Lying(Lie::SyncFileRange), "", 6);
}

#[test]
fn a_mount_without_barriers_is_caught() {
    is_caught(Strategy::GroupCommit, "nobarrier", 12);
}
