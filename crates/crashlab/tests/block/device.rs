//! The emulated disk by itself: what reaches it, and how long it takes.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::time::Duration;

use crashlab::block::{Error, FsKind, Keep, Timing};
use group_commit::GroupCommit;
use store_core::{Message, QueueId, SegmentSize, Wait};
use store_os::{Io, Log, LogOptions, Preallocate};

use crate::support::{Bench, usable};

/// A file whose blocks are written.
fn written(bench: &Bench) -> File {
    let path = bench.root().join("file");
    std::fs::write(&path, vec![1; 1 << 20]).unwrap();
    let file = File::options().write(true).open(&path).unwrap();
    file.sync_all().unwrap();
    file
}

#[test]
fn a_sync_of_a_written_file_is_one_write_and_one_flush() {
    for kind in usable(&[FsKind::Ext4, FsKind::Xfs]) {
        let bench = Bench::new(kind, "noatime");
        let file = written(&bench);
        // What the file system still had to write is written.
        rustix::fs::syncfs(&file).unwrap();
        let before = bench.disk.counters().unwrap();
        for at in 0..10 {
            file.write_all_at(&[2; 512], at * 8192).unwrap();
            file.sync_data().unwrap();
        }
        let after = bench.disk.counters().unwrap();
        assert_eq!((after.writes - before.writes, after.flushes - before.flushes), (10, 10));
        assert_eq!(after.write_bytes - before.write_bytes, 10 * 4096, "{kind}");
    }
}

/// What a log gives to the device for a record that one producer waits for: the pages that it
/// touches and one flush, whatever the file system; no inode, no journal, no whole folio.
#[test]
fn a_sync_of_a_record_writes_the_pages_that_it_touches() {
    for (kind, arguments) in
        [(FsKind::Ext4, &[][..]), (FsKind::Ext4, &["-O", "^has_journal"]), (FsKind::Xfs, &[])]
    {
        if usable(&[kind]).is_empty() {
            continue;
        }
        let bench = Bench::made_with(kind, arguments, "noatime");
        let options = LogOptions {
            segment_size: SegmentSize::new(1 << 20).unwrap(),
            io: Some(Io::Positioned),
            preallocate: Preallocate::Zero,
            ..LogOptions::default()
        };
        let log = Log::open(&bench.log(), options, GroupCommit::default()).unwrap();
        let queue = log.queue(b"orders", QueueId::new(0)).unwrap();
        let message = Message { body: &[7; 1024], ..Message::default() };
        let append = || log.append_and_wait(&queue, &message, Wait::Yes).unwrap().unwrap();
        append();
        // The segment ahead is made and the first checkpoint written, and all of it is synced.
        std::thread::sleep(Duration::from_millis(1200));
        rustix::fs::syncfs(File::open(bench.root()).unwrap()).unwrap();
        let before = bench.disk.counters().unwrap();
        let mut pages = 0;
        for _ in 0..100 {
            let appended = append();
            pages += (appended.end().get() - 1) / 4096 - appended.offset.get() / 4096 + 1;
        }
        let after = bench.disk.counters().unwrap();
        log.abandon();
        let (written, flushes) =
            (after.write_bytes - before.write_bytes, after.flushes - before.flushes);
        let share = written * 10 / (pages * 4096);
        assert!(
            (10..=12).contains(&share) && (100..=105).contains(&flushes),
            "{kind} {arguments:?}: {written} bytes for {pages} pages, {flushes} flushes"
        );
    }
}

#[test]
fn a_view_is_as_the_disk_was_and_writing_it_does_not_change_the_disk() {
    for kind in usable(&FsKind::ALL) {
        let bench = Bench::new(kind, "");
        let file = written(&bench);
        let view = bench.disk.cut(Keep::None, 1).unwrap();
        file.write_all_at(&[2; 4096], 0).unwrap();
        file.sync_all().unwrap();
        let later = bench.disk.cut(Keep::None, 1).unwrap();
        assert!(view.position() < later.position());
        let mounted = [view.mount().unwrap(), later.mount().unwrap()];
        let first = |root: &std::path::Path| std::fs::read(root.join("file")).unwrap()[0];
        assert_eq!(mounted.each_ref().map(|view| first(view.path())), [1, 2], "{kind}");
        std::fs::write(mounted[0].path().join("file"), b"7").unwrap();
        assert_eq!((first(mounted[0].path()), first(bench.root())), (b'7', 2), "{kind}");
        for view in mounted {
            view.unmount().unwrap();
        }
    }
}

#[test]
fn a_disk_faster_than_twice_the_machine_is_refused_and_a_slower_one_is_not() {
    for kind in usable(&[FsKind::Ext4]) {
        let bench = Bench::new(kind, "");
        let fast = Timing { flush: Duration::from_nanos(100), ..Timing::INSTANT };
        let refused = bench.disk.calibrate(fast, bench.root());
        assert!(matches!(refused, Err(Error::TooFast(_))), "{refused:?}");
        let slow = Timing { flush: Duration::from_millis(40), ..Timing::INSTANT };
        let calibrated = bench.disk.calibrate(slow, bench.root()).unwrap();
        assert!(calibrated.floor < calibrated.asked, "{calibrated:?}");
        assert!(
            calibrated.obtained >= slow.flush.saturating_sub(calibrated.floor),
            "{calibrated:?}"
        );
        println!("{calibrated:?}");
    }
}
