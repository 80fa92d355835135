//! Real disks that are full, or go away, under a log: error values, no signal, and nothing lost
//! that was promised.
//!
//! Needs root, and the tools of the file systems; what is left out is said.

use std::fs;
use std::path::Path;
use std::process::Command;

use rustix::io::Errno;
use store_core::{LogOffset, Message, SegmentSize, Wait};
use store_os::{
    AckError, AppendError, Appended, CloseError, Io, Log, LogOptions, Op, OpenError, Preallocate,
};

use crate::disks::{Disk, Fs, aloud, has_tool, on_each, run, signal_on};
use crate::support::{Kind, put, queue, small};

/// Segments that a small disk is soon full of.
fn options(preallocate: Preallocate) -> LogOptions {
    LogOptions {
        segment_size: SegmentSize::new(SEGMENT).unwrap(),
        staging_bytes: 256 << 10,
        max_message_bytes: 32 << 10,
        preallocate,
        ..small()
    }
}

const SEGMENT: u64 = 512 << 10;

/// The strategies with the ways of writing and of making segments that they are used with.
fn cases() -> impl Iterator<Item = (Kind, Preallocate)> {
    let zeroed = (Kind::Sync(Io::Positioned), Preallocate::Zero);
    Kind::ALL.map(|kind| (kind, Preallocate::Fallocate)).into_iter().chain([zeroed])
}

/// What a producer was told "ok" for.
#[derive(Debug, Default)]
struct Acked(Vec<(Appended, Vec<u8>)>);

/// Why a producer was told something else.
#[derive(Debug)]
enum Refused {
    Ack(AckError),
    Append(AppendError),
}

impl Acked {
    /// Appends `count` records, or what of them the log takes.
    fn append(&mut self, log: &Log, count: u32) -> Result<(), Refused> {
        let handle = queue(log, "T");
        for number in 0..count {
            let mut body = vec![7; 12_000];
            body[..4].copy_from_slice(&number.to_be_bytes());
            let message = Message { body: &body, ..Message::default() };
            let told = log.append_and_wait(&handle, &message, Wait::Yes);
            let appended = told.map_err(Refused::Append)?.map_err(Refused::Ack)?;
            self.0.push((appended, body));
        }
        Ok(())
    }

    /// Appends until the log refuses.
    fn append_all(&mut self, log: &Log) -> Refused {
        self.append(log, 10_000).expect_err("the disk is never full")
    }

    /// All of it below `upto` is in the log.
    #[track_caller]
    fn check(&self, log: &Log, upto: LogOffset, what: &str) {
        for (appended, body) in self.0.iter().filter(|(appended, _)| appended.end() <= upto) {
            let mut cursor = log.cursor(appended.offset);
            let record = cursor.next_record().unwrap();
            let record = record.unwrap_or_else(|| panic!("{what}: {appended:?} is gone"));
            assert!(record.body() == body, "{what}: {appended:?} is another");
        }
    }
}

const ALL: LogOffset = LogOffset::MAX;

/// The next segment cannot be made: the error says where and how much is needed.
#[track_caller]
fn check_refusal(refused: &Refused, source: Errno, disk: &Disk, what: &str) {
    let Refused::Append(AppendError::Segment(error)) = refused else {
        panic!("{what}: {refused:?}")
    };
    assert_eq!(error.op, Op::Allocate { bytes: SEGMENT }, "{what}: {error}");
    assert_eq!(error.source, source, "{what}");
    assert!(error.path.starts_with(disk.store().join("commitlog")), "{what}: {error}");
    let text = refused_text(refused);
    let path = error.path.display().to_string();
    assert!(text.contains(&path) && text.contains("524288 bytes"), "{what}: {text}");
}

fn refused_text(refused: &Refused) -> String {
    match refused {
        Refused::Ack(error) => error.to_string(),
        Refused::Append(error) => error.to_string(),
    }
}

#[test]
fn a_full_disk_is_an_error_that_passes_and_takes_nothing() {
    let test = "full_disk::a_full_disk_is_an_error_that_passes_and_takes_nothing";
    on_each(&Fs::ALL, test, |disk| {
        for (kind, preallocate) in cases() {
            let what = format!("{:?}, {kind:?}, {preallocate:?}", disk.fs);
            disk.fill(4 * SEGMENT);
            let log = kind.open(&disk.store(), options(preallocate));
            let mut acked = Acked::default();
            let refused = acked.append_all(&log);
            assert!(acked.0.len() > 40, "{what}: only {} records", acked.0.len());
            check_refusal(&refused, Errno::NOSPC, disk, &what);
            disk.clear();
            // Without reopening.
            acked.append(&log, 50).unwrap();
            log.close().unwrap();
            disk.remount();
            let log = kind.open(&disk.store(), options(preallocate));
            acked.check(&log, ALL, &what);
            acked.append(&log, 1).unwrap();
            log.close().unwrap();
            fs::remove_dir_all(disk.store()).unwrap();
        }
    });
}

#[test]
fn a_disk_that_others_fill_up_leaves_a_log_the_space_it_has() {
    let test = "full_disk::a_disk_that_others_fill_up_leaves_a_log_the_space_it_has";
    on_each(&Fs::ALL, test, |disk| {
        for (kind, preallocate) in cases() {
            let what = format!("{:?}, {kind:?}, {preallocate:?}", disk.fs);
            disk.fill(6 * SEGMENT);
            let log = kind.open(&disk.store(), options(preallocate));
            let mut acked = Acked::default();
            acked.append(&log, 20).unwrap();
            disk.fill_up();
            let refused = acked.append_all(&log);
            // At least to the end of the segment that has its space.
            assert!(acked.0.len() > 40, "{what}: {}, {refused:?}", acked.0.len());
            check_refusal(&refused, Errno::NOSPC, disk, &what);
            let closed = log.close();
            assert!(matches!(closed, Ok(()) | Err(CloseError::System(_))), "{closed:?}");
            // The disk is full still.
            let log = kind.open(&disk.store(), options(preallocate));
            acked.check(&log, ALL, &what);
            drop(log);
            disk.clear();
            disk.remount();
            let log = kind.open(&disk.store(), options(preallocate));
            acked.check(&log, ALL, &what);
            acked.append(&log, 50).unwrap();
            log.close().unwrap();
            fs::remove_dir_all(disk.store()).unwrap();
        }
    });
}

#[test]
fn a_store_without_its_small_files_on_a_full_disk_opens_or_says_why_not() {
    let test = "full_disk::a_store_without_its_small_files_on_a_full_disk_opens_or_says_why_not";
    on_each(&Fs::ALL, test, |disk| {
        let kind = Kind::Sync(Io::Positioned);
        disk.fill(6 * SEGMENT);
        let mut acked = Acked::default();
        let log = kind.open(&disk.store(), options(Preallocate::Fallocate));
        acked.append(&log, 20).unwrap();
        log.close().unwrap();
        for name in ["lock", "abort", "checkpoint", "recovery-point.0", "recovery-point.1"] {
            let _ = fs::remove_file(disk.store().join(name));
        }
        disk.fill_up();
        match kind.try_open(&disk.store(), options(Preallocate::Fallocate)) {
            Ok(log) => {
                acked.check(&log, ALL, "on a full disk");
                acked.append(&log, 1).unwrap();
            }
            Err(OpenError::System(error)) => {
                assert!(error.is_out_of_space(), "{error}");
                assert!(error.path.starts_with(disk.store()), "{error}");
            }
            Err(error) => panic!("{error:?}"),
        }
        disk.clear();
        disk.remount();
        let log = kind.open(&disk.store(), options(Preallocate::Fallocate));
        acked.check(&log, ALL, "with space again");
        acked.append(&log, 50).unwrap();
        log.close().unwrap();
    });
}

/// Without reserved space a full disk fails a write: the log is poisoned, and keeps its promises.
#[test]
fn a_full_disk_poisons_a_log_whose_space_was_not_reserved_and_takes_nothing() {
    let test =
        "full_disk::a_full_disk_poisons_a_log_whose_space_was_not_reserved_and_takes_nothing";
    on_each(&Fs::ALL, test, |disk| {
        for kind in [Kind::Sync(Io::Direct), Kind::Sync(Io::Positioned), Kind::Staged] {
            let what = format!("{:?}, {kind:?}", disk.fs);
            disk.fill(4 * SEGMENT);
            let log = kind.open(&disk.store(), options(Preallocate::None));
            let mut acked = Acked::default();
            let refused = acked.append_all(&log);
            assert!(acked.0.len() > 40, "{what}: only {} records", acked.0.len());
            let cause = match &refused {
                Refused::Ack(AckError::Poisoned(poison))
                | Refused::Append(AppendError::Poisoned(poison)) => &poison.first,
                // The file itself could not be made any more.
                Refused::Append(AppendError::Segment(error)) => error,
                refused => panic!("{what}: {refused:?}"),
            };
            assert!(cause.is_out_of_space(), "{what}: {cause}");
            continue_after(disk, kind, &acked, log, &what);
        }
    });
}

/// What was promised is there after reopening with space again.
fn continue_after(disk: &Disk, kind: Kind, acked: &Acked, log: Log, what: &str) {
    // Staged records are promised to no crash; of the others each is flushed.
    let promised = if matches!(kind, Kind::Staged) { log.marks().flushed() } else { ALL };
    drop(log);
    disk.clear();
    disk.remount();
    let log = kind.open(&disk.store(), options(Preallocate::None));
    acked.check(&log, promised, what);
    put(&log, &queue(&log, "T"), b"the log goes on");
    log.close().unwrap();
    fs::remove_dir_all(disk.store()).unwrap();
}

/// A quota as btrfs has it: the disk is not full, but a directory's share of it is used up.
#[test]
fn a_used_up_quota_is_an_error_that_passes_and_takes_nothing() {
    let test = "full_disk::a_used_up_quota_is_an_error_that_passes_and_takes_nothing";
    on_each(&[Fs::Btrfs], test, |disk| {
        let btrfs = |args: &[&str], place: &Path| run(Command::new("btrfs").args(args).arg(place));
        btrfs(&["quota", "enable"], disk.path());
        for kind in Kind::ALL {
            let what = format!("{kind:?}");
            btrfs(&["-q", "subvolume", "create"], &disk.store());
            btrfs(&["qgroup", "limit", "3M"], &disk.store());
            let log = kind.open(&disk.store(), options(Preallocate::Fallocate));
            let mut acked = Acked::default();
            let refused = acked.append_all(&log);
            check_refusal(&refused, Errno::DQUOT, disk, &what);
            btrfs(&["qgroup", "limit", "none"], &disk.store());
            acked.append(&log, 50).unwrap();
            log.close().unwrap();
            disk.remount();
            let log = kind.open(&disk.store(), options(Preallocate::Fallocate));
            acked.check(&log, ALL, &what);
            log.close().unwrap();
            btrfs(&["-q", "subvolume", "delete"], &disk.store());
        }
    });
}

/// What ext4 does when it finds itself damaged (`errors=remount-ro`).
#[test]
fn a_disk_that_becomes_read_only_is_an_error_and_what_was_flushed_is_there() {
    let test = "full_disk::a_disk_that_becomes_read_only_is_an_error_and_what_was_flushed_is_there";
    on_each(&[Fs::Ext4], test, |disk| {
        for kind in Kind::ALL {
            let what = format!("{kind:?}");
            run(Command::new("mount").args(["-o", "remount,errors=remount-ro"]).arg(disk.path()));
            let trigger = format!("/sys/fs/ext4/{}/trigger_fs_error", disk.device());
            goes_away(disk, kind, &what, || fs::write(&trigger, "a test").unwrap());
        }
    });
}

/// What xfs does when it finds itself damaged, or its device gone.
#[test]
fn a_disk_that_is_shut_down_is_an_error_and_what_was_flushed_is_there() {
    let test = "full_disk::a_disk_that_is_shut_down_is_an_error_and_what_was_flushed_is_there";
    on_each(&[Fs::Xfs], test, |disk| {
        if !has_tool("xfs_io") {
            return aloud("xfs is not shut down: xfs_io is missing, install xfsprogs");
        }
        for kind in [Kind::Sync(Io::Positioned), Kind::Timed(Io::Positioned), Kind::Staged] {
            goes_away(disk, kind, &format!("{kind:?}"), || shut_down(disk));
        }
    });
}

fn shut_down(disk: &Disk) {
    run(Command::new("xfs_io").args(["-x", "-c", "shutdown"]).arg(disk.path()));
}

/// The disk goes away under a log: an error value, and what was flushed is there when it is back.
fn goes_away(disk: &Disk, kind: Kind, what: &str, go: impl Fn()) {
    let log = kind.open(&disk.store(), options(Preallocate::Fallocate));
    let mut acked = Acked::default();
    acked.append(&log, 20).unwrap();
    go();
    let refused = acked.append_all(&log);
    if let Refused::Append(AppendError::Segment(error)) = &refused {
        // Under a mapping a timed flush may come later than that.
        assert!(matches!(error.source, Errno::ROFS | Errno::IO), "{what}: {error}");
    } else {
        let (Refused::Ack(AckError::Poisoned(poison))
        | Refused::Append(AppendError::Poisoned(poison))) = &refused
        else {
            panic!("{what}: {refused:?}")
        };
        assert!(matches!(poison.first.source, Errno::ROFS | Errno::IO), "{what}: {poison}");
        assert!(poison.first.path.starts_with(disk.store()), "{what}: {poison}");
    }
    let flushed = log.marks().flushed();
    if let Kind::Sync(_) = kind {
        let acked_end = acked.0.last().unwrap().0.end();
        assert!(acked_end <= flushed, "{what}: {acked_end} was acknowledged, {flushed} flushed");
    }
    let closed = log.close();
    assert!(matches!(closed, Err(CloseError::Poisoned { .. })), "{what}: {closed:?}");
    // Reopening says what is wrong.
    match kind.try_open(&disk.store(), options(Preallocate::Fallocate)).map(|_| ()) {
        Err(OpenError::System(error)) => {
            assert!(matches!(error.source, Errno::ROFS | Errno::IO), "{what}: {error}");
        }
        other => panic!("{what}: {other:?}"),
    }
    disk.remount();
    let log = kind.open(&disk.store(), options(Preallocate::Fallocate));
    assert!(flushed <= log.recovery().end, "{what}: {:?}", log.recovery());
    acked.check(&log, flushed, what);
    put(&log, &queue(&log, "T"), b"goes on");
    log.close().unwrap();
    fs::remove_dir_all(disk.store()).unwrap();
}

/// Kept, and said in `docs/ASSUMPTIONS.md` 8: a store into a mapping cannot fail otherwise.
/// Positioned writes get an error value, as the test above shows.
#[test]
fn under_a_mapping_a_disk_that_is_shut_down_is_a_signal() {
    let test = "full_disk::under_a_mapping_a_disk_that_is_shut_down_is_a_signal";
    let signal = signal_on(Fs::Xfs, test, |disk| {
        let log = Kind::Sync(Io::Mapped).open(&disk.store(), options(Preallocate::Fallocate));
        let mut acked = Acked::default();
        acked.append(&log, 20).unwrap();
        shut_down(disk);
        let refused = acked.append_all(&log);
        panic!("an error value: {refused:?}");
    });
    assert!(matches!(signal, None | Some(SIGBUS)), "{signal:?}");
}

const SIGBUS: i32 = 7;
