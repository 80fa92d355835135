//! Writing a repaired segment: what is kept of the old one, and the fills.

use std::fs::File;
use std::ops::ControlFlow;
use std::os::unix::fs::FileExt;
use std::path::Path;

use store_core::{
    Destination, Invalid, LogOffset, Message, Placed, Protection, QueueId, SegmentSize, SysFlag,
    TimestampMs, Topic, encode, encode_blank, length_u64,
};

use super::{Fill, FillWith, LOST_TOPIC, RepairError};
use crate::error::{Error, Op};
use crate::survey::SegmentFile;
use crate::walk::{Source, Walked, Walker, behind};

/// What a segment's file is to hold.
#[derive(Clone, Copy, Debug)]
pub(super) struct Contents<'a> {
    pub(super) start: LogOffset,
    pub(super) size: SegmentSize,
    pub(super) protection: Protection,
    /// Where the old bytes come from; a blank alone without it.
    pub(super) source: Option<&'a SegmentFile>,
    pub(super) fills: &'a [Fill],
}

impl Contents<'_> {
    fn end(&self) -> LogOffset {
        behind(self.start, self.size.bytes())
    }

    /// Writes them to a new file, which is at `path`, and syncs it.
    pub(super) fn write(&self, file: &File, path: &Path) -> Result<(), RepairError> {
        let failed = |op, error: &std::io::Error| Error::from_std(op, path, error);
        file.set_len(self.size.bytes()).map_err(|error| failed(Op::Write, &error))?;
        match self.source {
            Some(source) => {
                let mut at = self.start;
                for fill in self.fills {
                    self.keep(source, file, path, at, fill.from)?;
                    at = fill.to;
                }
                self.keep(source, file, path, at, self.end())?;
            }
            None => self.blank(file, path, self.start)?,
        }
        for fill in self.fills {
            match fill.with {
                FillWith::Blank => self.blank(file, path, fill.from)?,
                FillWith::Fillers { store_timestamp } => {
                    self.fillers(file, path, fill, store_timestamp)?;
                }
                // The file is new: what is not written is zero.
                FillWith::Zeroes => {}
            }
        }
        file.sync_all().map_err(|error| failed(Op::Sync, &error))?;
        Ok(())
    }

    /// Copies `from..to` of the source, but what the file system knows to be zero.
    fn keep(
        &self,
        source: &SegmentFile,
        file: &File,
        path: &Path,
        from: LogOffset,
        to: LogOffset,
    ) -> Result<(), Error> {
        let mut buffer = vec![0; CHUNK];
        let mut next = from;
        while let Some(part) = source.next_data(next, to) {
            next = part.end;
            let mut at = part.start;
            while at < part.end {
                let len = usize::try_from(part.end.since(at)).unwrap_or(CHUNK).min(CHUNK);
                source.read(&mut buffer[..len], at)?;
                self.put(file, path, at, &buffer[..len])?;
                at = behind(at, length_u64(len));
            }
        }
        Ok(())
    }

    fn blank(&self, file: &File, path: &Path, from: LogOffset) -> Result<(), Error> {
        let rest = u32::try_from(self.end().since(from)).expect("a segment's size is a u32");
        self.put(file, path, from, &encode_blank(rest))
    }

    fn fillers(
        &self,
        file: &File,
        path: &Path,
        range: &Fill,
        store: TimestampMs,
    ) -> Result<(), Error> {
        let len = range.to.since(range.from);
        let count = len.div_ceil(LONGEST_FILLER);
        let mut at = range.from;
        for left in (1..=count).rev() {
            let record = filler(range.to.since(at) / left, at, store, self.protection);
            self.put(file, path, at, &record)?;
            at = behind(at, length_u64(record.len()));
        }
        assert_eq!(at, range.to, "fillers take exactly the range");
        Ok(())
    }

    fn put(&self, file: &File, path: &Path, at: LogOffset, bytes: &[u8]) -> Result<(), Error> {
        file.write_all_at(bytes, at.since(self.start))
            .map_err(|error| Error::from_std(Op::Write, path, &error))
    }

    /// Reads the file at `path` back: records up to a blank, or up to zeroes where the log ends.
    pub(super) fn verify(&self, path: &Path) -> Result<(), RepairError> {
        let file = SegmentFile::open(path, self.start, self.size)?;
        let zeroes = self.fills.iter().find(|fill| fill.with == FillWith::Zeroes);
        let mut walker = Walker::new(self.protection);
        let ended = walker.walk(&file, self.start, self.end(), &mut |_| ControlFlow::Continue(()));
        let at = match ended? {
            Walked::Blank { .. } => return Ok(()),
            Walked::Invalid { at, found: Invalid::Unwritten }
                if zeroes.is_none_or(|fill| fill.from == at) =>
            {
                return Ok(());
            }
            Walked::Invalid { at, .. } | Walked::Stopped { at } | Walked::Unreadable { at } => at,
        };
        Err(RepairError::Unsound { path: path.to_owned(), at })
    }
}

/// A record of exactly `len` bytes that no queue takes, and as much of a filler as fits them.
fn filler(len: u64, at: LogOffset, store: TimestampMs, protection: Protection) -> Vec<u8> {
    let len = usize::try_from(len).expect("a filler is at most twice LONGEST_FILLER long");
    // A short one has a shorter topic, and the shortest no checksum of its own.
    let protection = if len < SHORTEST_PROTECTED { Protection::Body } else { protection };
    let message =
        Message { sys_flag: SysFlag::new(ROLLBACK), born_timestamp: store, ..Message::default() };
    let to = |topic_len: usize| Destination {
        topic: Topic::new(&LOST_TOPIC.as_bytes()[..topic_len]).expect("the constant is a topic"),
        queue_id: QueueId::new(0),
    };
    let encoded_len = |topic_len| {
        let len = message.encoded_len(to(topic_len), protection).expect("it is short");
        usize::try_from(len).expect("a u32 fits usize on Linux")
    };
    let topic_len = (len + 1 - encoded_len(1)).min(LOST_TOPIC.len());
    let body = vec![0; len - encoded_len(topic_len)];
    let message = Message { body: &body, ..message };
    let mut out = vec![0; len];
    encode(to(topic_len), &message, protection, &mut out)
        .expect("the lengths were computed from it")
        .place(&Placed { log_offset: at, store_timestamp: store, ..Placed::default() });
    out
}

/// The shortest filler in bytes: no body, a topic of one byte, no CRC32 property. No record is
/// shorter.
pub(super) const MIN_FILLER: u64 = 92;
/// The shortest one with a CRC32 property.
const SHORTEST_PROTECTED: usize = 112;
/// A longer range gets several, in bytes: RocketMQ refuses records above 4 MiB by default.
const LONGEST_FILLER: u64 = 1 << 20;
/// The transaction bits of a rollback record.
const ROLLBACK: u32 = 0xC;
/// How much is copied at a time.
const CHUNK: usize = 1 << 20;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;
    use store_core::{QueueOffset, Step, scan_step};

    #[test]
    fn fillers_of_every_length_are_valid_and_take_no_place_in_a_queue() {
        let at = LogOffset::new(1 << 40);
        for protection in [Protection::Body, Protection::Record] {
            for len in (MIN_FILLER..400).chain([4096, LONGEST_FILLER]) {
                let record = filler(len, at, TimestampMs::new(7), protection);
                let Step::Record(view) = scan_step(&record, at, 2 << 20, protection) else {
                    panic!("{len} bytes, {protection:?}");
                };
                assert_eq!(u64::from(view.total_size()), len);
                assert!(!view.sys_flag().transaction_type().takes_queue_offset());
                assert_eq!(view.queue_offset(), QueueOffset::new(0));
                assert_eq!(view.store_timestamp(), TimestampMs::new(7));
                assert!(LOST_TOPIC.as_bytes().starts_with(view.topic()));
                if len >= 125 {
                    assert_eq!(view.topic(), LOST_TOPIC.as_bytes());
                }
                let protected = protection == Protection::Record && len >= 112;
                assert_eq!(view.record_crc().is_some(), protected, "{len} bytes");
            }
        }
    }
}
