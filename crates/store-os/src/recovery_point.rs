//! The recovery point: up to where the log is proven durable, and what is known of it there, so
//! that opening need not read what lies before. RocketMQ's checkpoint holds times, which prove
//! little and count no queue; this stands beside it, in two files written in turn.

use std::path::{Path, PathBuf};

use store_core::{
    Checkpoint, LogOffset, Protection, QueueId, QueueOffset, SegmentSize, Step, TimestampMs, crc32,
    length_u64, scan_step,
};

use crate::append::{Appended, Queues};
use crate::error::{Error, Op};
use crate::files::{Files, Kind};

/// What is known of a log at a place.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct RecoveryPoint {
    pub(crate) segment_size: SegmentSize,
    /// Whether nothing stands behind the log's end that an earlier cut did not erase: a recovery
    /// came to its end since. Not so for a point of a scan that still goes on.
    pub(crate) is_erased: bool,
    /// What the checkpoint file held of others: another owner of the log changes it.
    pub(crate) others: Others,
    /// A record's first byte, or the log's end: all before it is covered by a successful sync.
    pub(crate) upto: LogOffset,
    /// The last record before it; by it a log is recognised that was changed meanwhile.
    pub(crate) last: Option<Appended>,
    /// The next offset of each queue, counting at least the records before `upto` and at most
    /// those that are durable.
    pub(crate) queues: Vec<QueueMark>,
}

/// The checkpoint's fields that are not written here, but by who builds consume queues and index or
/// replicates the log: RocketMQ, as soon as it has opened it.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub(crate) struct Others {
    logics_msg_timestamp: TimestampMs,
    index_msg_timestamp: TimestampMs,
    master_flushed_offset: i64,
}

impl Others {
    pub(crate) fn of(checkpoint: &Checkpoint) -> Self {
        Self {
            logics_msg_timestamp: checkpoint.logics_msg_timestamp,
            index_msg_timestamp: checkpoint.index_msg_timestamp,
            master_flushed_offset: checkpoint.master_flushed_offset,
        }
    }

    /// The checkpoint with these fields, and the others as given.
    pub(crate) fn with(
        self,
        physic_msg_timestamp: TimestampMs,
        confirm_phy_offset: i64,
    ) -> Checkpoint {
        Checkpoint {
            physic_msg_timestamp,
            logics_msg_timestamp: self.logics_msg_timestamp,
            index_msg_timestamp: self.index_msg_timestamp,
            master_flushed_offset: self.master_flushed_offset,
            confirm_phy_offset,
        }
    }
}

/// A queue's next offset.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(crate) struct QueueMark {
    pub(crate) topic: Box<[u8]>,
    pub(crate) id: QueueId,
    pub(crate) next: u64,
}

impl RecoveryPoint {
    /// Takes the queues' marks, in a log that was recovered.
    pub(crate) fn new(
        segment_size: SegmentSize,
        others: Others,
        upto: LogOffset,
        last: Option<Appended>,
        queues: &Queues,
    ) -> Self {
        let queues = queues.marks();
        Self { segment_size, is_erased: true, others, upto, last, queues }
    }

    /// Whether the log that the point was taken of is the one that is there: the record before the
    /// point must still be. `names` are the log's segments.
    ///
    /// RocketMQ keeps no point, so it may have cut and appended since. That changes this record,
    /// or, if it cut far before it and left it standing, the checkpoint ([`Others`]).
    pub(crate) fn is_of(
        &self,
        names: &[(LogOffset, PathBuf)],
        size: SegmentSize,
        protection: Protection,
        files: &dyn Files,
    ) -> bool {
        let Some(last) = self.last.filter(|_| self.segment_size == size) else { return false };
        let end_of = |start: LogOffset| LogOffset::new(start.get().saturating_add(size.bytes()));
        let holds = |(start, _): &&(LogOffset, PathBuf)| {
            *start <= last.offset && last.offset < end_of(*start)
        };
        let Some((start, path)) = names.iter().find(holds) else { return false };
        let rest = end_of(*start).since(last.offset);
        let is_there = names.last().is_some_and(|(start, _)| self.upto <= end_of(*start));
        let is_behind = self.upto == last.end() || self.upto == end_of(*start);
        if !is_there || !is_behind || rest < u64::from(last.len) {
            return false;
        }
        let mut bytes = vec![0; usize::try_from(last.len).unwrap_or(0)];
        let file = files.open_to_read(path);
        if file.and_then(|file| file.read_exact_at(&mut bytes, last.offset.since(*start))).is_err()
        {
            return false;
        }
        match scan_step(&bytes, last.offset, rest, protection) {
            Step::Record(view) => {
                view.total_size() == last.len
                    && view.queue_offset() == last.queue_offset
                    && view.store_timestamp() == last.store_timestamp
            }
            _ => false,
        }
    }

    fn encode(&self, sequence: u64) -> Vec<u8> {
        let mut out = Vec::with_capacity(HEAD_LEN + self.queues.len() * 64);
        out.extend(MAGIC);
        out.extend(0_u32.to_be_bytes());
        out.extend(sequence.to_be_bytes());
        out.extend(self.segment_size.get().to_be_bytes());
        out.extend(u32::from(self.is_erased).to_be_bytes());
        out.extend(self.others.logics_msg_timestamp.get().to_be_bytes());
        out.extend(self.others.index_msg_timestamp.get().to_be_bytes());
        out.extend(self.others.master_flushed_offset.to_be_bytes());
        out.extend(self.upto.get().to_be_bytes());
        let none = Appended {
            offset: NO_RECORD,
            len: 0,
            queue_offset: QueueOffset::default(),
            store_timestamp: TimestampMs::default(),
        };
        let last = self.last.unwrap_or(none);
        out.extend(last.offset.get().to_be_bytes());
        out.extend(last.len.to_be_bytes());
        out.extend(last.queue_offset.get().to_be_bytes());
        out.extend(last.store_timestamp.get().to_be_bytes());
        for QueueMark { topic, id, next } in &self.queues {
            let len = u16::try_from(topic.len()).expect("a record's topic has a 16-bit length");
            out.extend(len.to_be_bytes());
            out.extend(topic);
            out.extend(id.get().to_be_bytes());
            out.extend(next.to_be_bytes());
        }
        let len = u32::try_from(out.len() + CRC_LEN).unwrap_or(0);
        out[LENGTH].copy_from_slice(&len.to_be_bytes());
        let crc = crc32(&out);
        out.extend(crc.to_be_bytes());
        out
    }

    /// The point and its number in sequence; `None` for bytes that hold no whole one.
    fn decode(bytes: &[u8]) -> Option<(u64, Self)> {
        let len = u32::from_be_bytes(*bytes.get(LENGTH)?.first_chunk()?);
        let bytes = bytes.get(..usize::try_from(len).ok()?)?;
        let (covered, crc) = bytes.split_last_chunk()?;
        if !covered.starts_with(MAGIC) || crc32(covered) != u32::from_be_bytes(*crc) {
            return None;
        }
        let mut fields = Fields { rest: covered.get(LENGTH.end..)? };
        let sequence = fields.u64()?;
        let segment_size = SegmentSize::new(u64::from(fields.u32()?)).ok()?;
        let is_erased = match fields.u32()? {
            0 => false,
            1 => true,
            _ => return None,
        };
        let others = Others {
            logics_msg_timestamp: TimestampMs::new(fields.i64()?),
            index_msg_timestamp: TimestampMs::new(fields.i64()?),
            master_flushed_offset: fields.i64()?,
        };
        let upto = LogOffset::new(fields.u64()?);
        let last = Appended {
            offset: LogOffset::new(fields.u64()?),
            len: fields.u32()?,
            queue_offset: QueueOffset::new(fields.u64()?),
            store_timestamp: TimestampMs::new(fields.i64()?),
        };
        let mut queues = Vec::new();
        while !fields.rest.is_empty() {
            let len = usize::from(u16::from_be_bytes(fields.take()?));
            let topic = fields.rest.split_off(..len)?.into();
            let id = QueueId::new(i32::from_be_bytes(fields.take()?));
            let next = fields.u64().filter(|next| *next <= LogOffset::MAX.get())?;
            queues.push(QueueMark { topic, id, next });
        }
        let last = Some(last).filter(|last| last.offset != NO_RECORD);
        Some((sequence, Self { segment_size, is_erased, others, upto, last, queues }))
    }
}

struct Fields<'a> {
    rest: &'a [u8],
}

impl Fields<'_> {
    fn take<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.rest.split_off(..N)?.first_chunk().copied()
    }

    fn u32(&mut self) -> Option<u32> {
        self.take().map(u32::from_be_bytes)
    }

    fn i64(&mut self) -> Option<i64> {
        self.take().map(i64::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.take().map(u64::from_be_bytes)
    }
}

/// The two files of a store directory.
///
/// Each write goes to the older one, so that a crash in the middle of it leaves the other. A power
/// cut must leave one too, or the next open could not tell a hole from damage. So opening makes one
/// durable, and what is written over that without a sync is one sector, in a file that has room for
/// it: it is there as it was or as it is. A longer point leaves it alone.
#[derive(Debug)]
pub(crate) struct PointFiles {
    paths: [PathBuf; 2],
    /// The number of the newest whole point.
    sequence: u64,
    /// The file that it is in.
    newest: usize,
    /// The file that was made durable last.
    durable: Option<usize>,
}

impl PointFiles {
    /// The files and the points in them, the newest first.
    ///
    /// A file that cannot be read counts as none: it would only have saved reading.
    pub(crate) fn load(root: &Path, files: &dyn Files) -> (Self, Vec<RecoveryPoint>) {
        let paths = NAMES.map(|name| root.join(name));
        let read = |(place, path): (usize, &PathBuf)| {
            let (sequence, point) = RecoveryPoint::decode(&read_point(files, path)?)?;
            Some((sequence, place, point))
        };
        let mut found: Vec<_> = paths.iter().enumerate().filter_map(read).collect();
        found.sort_by_key(|(sequence, ..)| std::cmp::Reverse(*sequence));
        let (sequence, newest) = found.first().map_or((0, 0), |found| (found.0, found.1));
        let points = Self { paths, sequence, newest, durable: None };
        (points, found.into_iter().map(|(.., point)| point).collect())
    }

    /// Writes a point over the older one, and makes it durable if `durably`.
    pub(crate) fn save(
        &mut self,
        point: &RecoveryPoint,
        files: &dyn Files,
        durably: bool,
    ) -> Result<(), Error> {
        let sequence = self.sequence.wrapping_add(1);
        let bytes = point.encode(sequence);
        let older = 1 - self.newest;
        let is_kept = SECTOR < bytes.len() && self.durable == Some(older);
        let place = if is_kept { self.newest } else { older };
        let path = &self.paths[place];
        let write = || {
            let file = files.open_or_create(path)?;
            // Else a power cut could keep a longer point with the length of a shorter one.
            if file.len()? < ROOM {
                file.set_len(ROOM)?;
            }
            file.write_all_at(&bytes, 0)?;
            if durably { file.sync_data() } else { Ok(()) }
        };
        write().map_err(|error| Error::from_std(Op::Write, path, &error))?;
        self.sequence = sequence;
        self.newest = place;
        if durably {
            self.durable = Some(place);
        }
        Ok(())
    }
}

/// What must hold for any bytes in a point's file; the body of the fuzz target `recovery_point`.
///
/// # Panics
///
/// If it does not hold.
#[cfg(feature = "_faults")]
#[doc(hidden)]
pub fn fuzz_recovery_point(data: &[u8]) {
    check_decoding(data);
    // Length and checksum keep arbitrary bytes out, so here they are right.
    let len = u32::try_from(LENGTH.end + data.len() + CRC_LEN).expect("a short input");
    let mut framed = [MAGIC, &len.to_be_bytes()[..], data].concat();
    let crc = crc32(&framed);
    framed.extend(crc.to_be_bytes());
    check_decoding(&framed);
    let flipped = usize::try_from(crc).expect("31 bits") % (framed.len() * 8);
    framed[flipped / 8] ^= 1 << (flipped % 8);
    assert_eq!(RecoveryPoint::decode(&framed), None, "bit {flipped} passed");
}

#[cfg(feature = "_faults")]
fn check_decoding(bytes: &[u8]) {
    let Some((sequence, point)) = RecoveryPoint::decode(bytes) else { return };
    let again = point.encode(sequence);
    assert_eq!(RecoveryPoint::decode(&again), Some((sequence, point.clone())));
    // Where there is no last record, what stands in its place is not looked at.
    assert!(point.last.is_none() || bytes.starts_with(&again), "{point:?} has other bytes");
}

/// What a point's own length says of a file, if that is one.
fn read_point(files: &dyn Files, path: &Path) -> Option<Vec<u8>> {
    let Kind::File { len: found } = files.kind(path).ok()? else { return None };
    let file = files.open_to_read(path).ok()?;
    let mut head = [0; LENGTH.end];
    file.read_exact_at(&mut head, 0).ok()?;
    let len = u64::from(u32::from_be_bytes(*head[LENGTH].first_chunk()?));
    if found < len || LONGEST < len {
        return None;
    }
    let mut bytes = vec![0; usize::try_from(len).ok()?];
    file.read_exact_at(&mut bytes, 0).ok()?;
    Some(bytes)
}

/// How many bytes of a log that was closed are read again all the same: a log of no more than this
/// is read whole whenever it is opened.
pub(crate) const READ_AGAIN: u64 = 16 << 20;

const NAMES: [&str; 2] = ["recovery-point.0", "recovery-point.1"];
/// The length that a file has at least.
const ROOM: u64 = 4096;
/// The most that no power cut tears.
const SECTOR: usize = 512;
const MAGIC: &[u8; 8] = b"FMPOINT1";
const LENGTH: std::ops::Range<usize> = 8..12;
const HEAD_LEN: usize = 88;
const CRC_LEN: usize = 4;
/// A point of some ten million queues; a longer one is not read.
const LONGEST: u64 = 1 << 30;
/// Stands for the last record of a log without one.
const NO_RECORD: LogOffset = LogOffset::new(u64::MAX);
const _: () = assert!(length_u64(MAGIC.len()) == 8, "the length stands behind it");

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;

    fn point(upto: u64) -> RecoveryPoint {
        let last = Appended {
            offset: LogOffset::new(upto - 100),
            len: 100,
            queue_offset: QueueOffset::new(7),
            store_timestamp: TimestampMs::new(-5),
        };
        let mark =
            |topic: &[u8], id, next| QueueMark { topic: topic.into(), id: QueueId::new(id), next };
        RecoveryPoint {
            segment_size: SegmentSize::new(65536).unwrap(),
            is_erased: true,
            others: Others { master_flushed_offset: -1, ..Others::default() },
            upto: LogOffset::new(upto),
            last: Some(last),
            queues: vec![mark(b"orders", 0, 8), mark(&[b't'; 255], -1, u64::MAX >> 1)],
        }
    }

    #[test]
    fn what_is_encoded_is_decoded() {
        let empty =
            RecoveryPoint { is_erased: false, last: None, queues: Vec::new(), ..point(100) };
        for point in [point(1000), empty] {
            let bytes = point.encode(9);
            assert_eq!(RecoveryPoint::decode(&bytes), Some((9, point.clone())));
            let longer = [&bytes[..], b"rest of a longer one"].concat();
            assert_eq!(RecoveryPoint::decode(&longer), Some((9, point)));
        }
    }

    #[test]
    fn a_cut_or_changed_point_is_none() {
        let bytes = point(1000).encode(9);
        for cut in 0..bytes.len() {
            assert_eq!(RecoveryPoint::decode(&bytes[..cut]), None, "cut at {cut}");
        }
        for bit in 0..(bytes.len() - CRC_LEN) * 8 {
            let mut changed = bytes.clone();
            changed[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(RecoveryPoint::decode(&changed), None, "bit {bit}");
        }
    }

    #[cfg(feature = "_faults")]
    #[test]
    fn any_bytes_are_a_point_or_none() {
        let whole = point(1000).encode(9);
        fuzz_recovery_point(&whole);
        let mut state = 0x9E37_79B9_7F4A_7C15_u64;
        let mut next = || {
            state ^= state << 13;
            state ^= state >> 7;
            state ^= state << 17;
            state
        };
        for _ in 0..20_000 {
            // A whole point's content, cut somewhere, with a few bytes changed.
            let content = &whole[LENGTH.end..whole.len() - CRC_LEN];
            let mut data = content[..usize::from(next().to_be_bytes()[0]) % content.len()].to_vec();
            for _ in 0..next() % 4 {
                let [at, value, ..] = next().to_be_bytes();
                if let Some(byte) = data.get_mut(usize::from(at)) {
                    *byte = value;
                }
            }
            fuzz_recovery_point(&data);
        }
    }

    #[test]
    fn a_write_that_is_cut_short_leaves_the_other_point() {
        let root = tempfile::tempdir().unwrap();
        let (mut files, found) = PointFiles::load(root.path(), &crate::files::Linux);
        assert!(found.is_empty());
        for upto in [1000, 2000, 3000] {
            files.save(&point(upto), &crate::files::Linux, upto == 3000).unwrap();
        }
        for name in NAMES {
            assert_eq!(std::fs::metadata(root.path().join(name)).unwrap().len(), ROOM);
        }
        let (mut files, found) = PointFiles::load(root.path(), &crate::files::Linux);
        assert_eq!(found, [point(3000), point(2000)]);
        files.save(&point(4000), &crate::files::Linux, false).unwrap();
        let newest = root.path().join(NAMES[0]);
        let whole = std::fs::read(&newest).unwrap();
        let len = point(4000).encode(4).len();
        for cut in [0, 10, len - 1] {
            std::fs::write(&newest, &whole[..cut]).unwrap();
            assert_eq!(
                PointFiles::load(root.path(), &crate::files::Linux).1,
                [point(3000)],
                "cut at {cut}"
            );
        }
    }

    #[test]
    fn a_long_point_is_not_written_over_the_durable_one() {
        let root = tempfile::tempdir().unwrap();
        let long = |upto| {
            let mark = point(upto).queues.remove(1);
            RecoveryPoint { queues: vec![mark; 3], ..point(upto) }
        };
        assert!(SECTOR < long(1000).encode(1).len());
        let (mut files, _) = PointFiles::load(root.path(), &crate::files::Linux);
        let found = || PointFiles::load(root.path(), &crate::files::Linux).1;
        files.save(&long(1000), &crate::files::Linux, true).unwrap();
        for upto in [2000, 3000, 4000] {
            files.save(&long(upto), &crate::files::Linux, false).unwrap();
            assert_eq!(found(), [long(upto), long(1000)]);
        }
        files.save(&long(5000), &crate::files::Linux, true).unwrap();
        files.save(&long(6000), &crate::files::Linux, false).unwrap();
        assert_eq!(found(), [long(6000), long(5000)]);
    }
}
