//! What host and guest say to each other: frames of a length, a kind and big-endian fields.

use std::io::{self, Read, Write};
use std::time::Duration;

use store_core::{LogOffset, QueueId, QueueOffset, TimestampMs};
use store_os::Appended;

use crate::check::FoundRecord;
use crate::load::{Lie, Strategy};
use crate::payload::{Sent, Shape};

/// What the host tells the guest to do first after a boot: open the log, and tell what is there.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Opening {
    /// The host's wall clock, in nanoseconds since 1970: a restored guest's stands still.
    pub(super) wall_ns: u64,
    /// The file system's type, as mount knows it.
    pub(super) fs: String,
    /// What it is mounted with.
    pub(super) mount_options: String,
    /// Under which strategy.
    pub(super) strategy: Strategy,
    /// Whether appends go to a mapping, where the strategy can.
    pub(super) mapped: bool,
    /// Whether segments are filled with zeroes ahead.
    pub(super) zeroed: bool,
    /// How old a dirty page gets before the kernel writes it by itself, in hundredths of a second;
    /// 0 leaves that as it is.
    pub(super) expire_cs: u32,
}

/// What the host tells the guest to do then: append.
///
/// By then the host has claimed all that may be appended, so no record can be there that it does
/// not know, however much of what the guest tells is lost.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) struct Loading {
    /// How the messages look.
    pub(super) shape: Shape,
    /// The index of each producer's next message.
    pub(super) next: Vec<u64>,
    /// How many messages each producer sends at most.
    pub(super) count: u64,
    /// How long a producer waits between two of them, in microseconds.
    pub(super) pause_us: u64,
}

/// What the guest tells the host.
#[derive(Clone, Debug, Eq, PartialEq)]
pub(super) enum Report {
    /// A message was placed and its producer told "ok".
    Acked {
        /// Which.
        sent: Sent,
        /// Where it went.
        appended: Appended,
        /// The log's flushed mark right after.
        flushed: LogOffset,
    },
    /// The guest cannot go on.
    Failed(String),
    /// The log was opened.
    Opened {
        /// Where its valid records end.
        end: LogOffset,
        /// Bytes that opening cut.
        torn_bytes: u64,
        /// Whole records among them, which stood behind a hole.
        unsynced_records: u64,
    },
    /// The guest waits for orders. Its kernel's release.
    Ready(String),
    /// All records were told.
    ReadBack,
    /// A record of the opened log; all come in the log's order.
    Record(FoundRecord),
    /// Opening was refused, and changed nothing.
    Refused(String),
    /// The disk's file system cannot be mounted.
    Unmountable(String),
}

impl Opening {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(b'O');
        out.u64(self.wall_ns);
        out.bytes(self.fs.as_bytes());
        out.bytes(self.mount_options.as_bytes());
        out.strategy(self.strategy);
        out.u32(self.mapped.into());
        out.u32(self.zeroed.into());
        out.u32(self.expire_cs);
        out.finish()
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let mut frame = Decoder(frame.strip_prefix(b"O")?);
        let opening = Self {
            wall_ns: frame.u64()?,
            fs: frame.text()?,
            mount_options: frame.text()?,
            strategy: frame.strategy()?,
            mapped: frame.u32()? != 0,
            zeroed: frame.u32()? != 0,
            expire_cs: frame.u32()?,
        };
        frame.0.is_empty().then_some(opening)
    }
}

impl Loading {
    pub(super) fn encode(&self) -> Vec<u8> {
        let mut out = Encoder::new(b'L');
        out.u64(self.shape.seed);
        out.u32(self.shape.producers);
        out.u32(self.shape.min_body);
        out.u32(self.shape.max_body);
        for next in &self.next {
            out.u64(*next);
        }
        out.u64(self.count);
        out.u64(self.pause_us);
        out.finish()
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let mut frame = Decoder(frame.strip_prefix(b"L")?);
        let shape = Shape {
            seed: frame.u64()?,
            producers: frame.u32()?,
            min_body: frame.u32()?,
            max_body: frame.u32()?,
        };
        let next = (0..shape.producers).map(|_| frame.u64()).collect::<Option<_>>()?;
        let loading = Self { shape, next, count: frame.u64()?, pause_us: frame.u64()? };
        frame.0.is_empty().then_some(loading)
    }
}

impl Report {
    pub(super) fn encode(&self) -> Vec<u8> {
        match self {
            Self::Acked { sent, appended, flushed } => {
                let mut out = Encoder::new(b'A');
                out.u32(sent.producer);
                out.u64(sent.index);
                out.appended(*appended);
                out.u64(flushed.get());
                out.finish()
            }
            Self::Failed(said) => Encoder::text(b'F', said),
            Self::Opened { end, torn_bytes, unsynced_records } => {
                let mut out = Encoder::new(b'O');
                out.u64(end.get());
                out.u64(*torn_bytes);
                out.u64(*unsynced_records);
                out.finish()
            }
            Self::Ready(release) => Encoder::text(b'H', release),
            Self::ReadBack => Encoder::new(b'E').finish(),
            Self::Record(record) => {
                let mut out = Encoder::new(b'R');
                out.appended(record.appended());
                out.bytes(&record.topic);
                out.bytes(&record.queue_id.get().to_be_bytes());
                out.bytes(&record.body);
                out.finish()
            }
            Self::Refused(said) => Encoder::text(b'D', said),
            Self::Unmountable(said) => Encoder::text(b'U', said),
        }
    }

    pub(super) fn decode(frame: &[u8]) -> Option<Self> {
        let mut frame = Decoder(frame);
        let report = match frame.u8()? {
            b'A' => Self::Acked {
                sent: Sent { producer: frame.u32()?, index: frame.u64()? },
                appended: frame.appended()?,
                flushed: LogOffset::new(frame.u64()?),
            },
            b'D' => Self::Refused(frame.text()?),
            b'E' => Self::ReadBack,
            b'F' => Self::Failed(frame.text()?),
            b'H' => Self::Ready(frame.text()?),
            b'O' => Self::Opened {
                end: LogOffset::new(frame.u64()?),
                torn_bytes: frame.u64()?,
                unsynced_records: frame.u64()?,
            },
            b'R' => {
                let appended = frame.appended()?;
                Self::Record(FoundRecord {
                    offset: appended.offset,
                    len: appended.len,
                    queue_offset: appended.queue_offset,
                    store_timestamp: appended.store_timestamp,
                    topic: frame.bytes()?.to_vec(),
                    queue_id: QueueId::new(i32::from_be_bytes(frame.bytes()?.try_into().ok()?)),
                    body: frame.bytes()?.to_vec(),
                })
            }
            b'U' => Self::Unmountable(frame.text()?),
            _ => return None,
        };
        frame.0.is_empty().then_some(report)
    }
}

/// Sends a frame.
pub(super) fn send(to: &mut impl Write, frame: &[u8]) -> io::Result<()> {
    let len = u32::try_from(frame.len()).expect("frames are short");
    // One call: frames of several threads do not mix, and one crossing costs a guest enough.
    to.write_all(&[&len.to_be_bytes(), frame].concat())
}

/// Receives a frame; `None` if the other side is gone, also in the midst of one.
pub(super) fn receive(from: &mut impl Read) -> io::Result<Option<Vec<u8>>> {
    let mut len = [0; 4];
    if !fill(from, &mut len)? {
        return Ok(None);
    }
    let len = u32::from_be_bytes(len);
    if MAX_FRAME < len {
        return Err(io::Error::new(io::ErrorKind::InvalidData, format!("a frame of {len} bytes")));
    }
    let mut frame = vec![0; usize::try_from(len).expect("bounded above")];
    Ok(fill(from, &mut frame)?.then_some(frame))
}

fn fill(from: &mut impl Read, out: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(out) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

struct Encoder(Vec<u8>);

impl Encoder {
    fn new(kind: u8) -> Self {
        Self(vec![kind])
    }

    fn text(kind: u8, text: &str) -> Vec<u8> {
        let mut out = Self::new(kind);
        out.bytes(text.as_bytes());
        out.finish()
    }

    fn u32(&mut self, value: u32) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    fn u64(&mut self, value: u64) {
        self.0.extend_from_slice(&value.to_be_bytes());
    }

    fn bytes(&mut self, bytes: &[u8]) {
        self.u32(u32::try_from(bytes.len()).expect("fields are short"));
        self.0.extend_from_slice(bytes);
    }

    fn duration(&mut self, duration: Duration) {
        self.u64(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX));
    }

    fn strategy(&mut self, strategy: Strategy) {
        let code = match strategy {
            Strategy::CommitRealtime { .. } => 0,
            Strategy::FlushRealtime { .. } => 1,
            Strategy::GroupCommit => 2,
            Strategy::Lying(Lie::AckBeforeSync) => 3,
            Strategy::Lying(Lie::RetriedSync) => 4,
            Strategy::Lying(Lie::SwallowedError) => 5,
            Strategy::Lying(Lie::SyncFileRange) => 6,
            Strategy::Lying(Lie::SkippedDirectorySync) => 7,
        };
        self.u32(code);
        match strategy {
            Strategy::CommitRealtime { commit, interval } => {
                self.duration(commit);
                self.duration(interval);
            }
            Strategy::FlushRealtime { interval } => self.duration(interval),
            Strategy::GroupCommit | Strategy::Lying(_) => {}
        }
    }

    fn appended(&mut self, appended: Appended) {
        self.u64(appended.offset.get());
        self.u32(appended.len);
        self.u64(appended.queue_offset.get());
        self.0.extend_from_slice(&appended.store_timestamp.get().to_be_bytes());
    }

    fn finish(self) -> Vec<u8> {
        self.0
    }
}

struct Decoder<'a>(&'a [u8]);

impl<'a> Decoder<'a> {
    fn take(&mut self, len: usize) -> Option<&'a [u8]> {
        let (taken, rest) = self.0.split_at_checked(len)?;
        self.0 = rest;
        Some(taken)
    }

    fn array<const N: usize>(&mut self) -> Option<[u8; N]> {
        self.take(N)?.try_into().ok()
    }

    fn u8(&mut self) -> Option<u8> {
        self.array().map(u8::from_be_bytes)
    }

    fn u32(&mut self) -> Option<u32> {
        self.array().map(u32::from_be_bytes)
    }

    fn u64(&mut self) -> Option<u64> {
        self.array().map(u64::from_be_bytes)
    }

    fn bytes(&mut self) -> Option<&'a [u8]> {
        let len = self.u32()?;
        self.take(usize::try_from(len).ok()?)
    }

    fn text(&mut self) -> Option<String> {
        String::from_utf8(self.bytes()?.to_vec()).ok()
    }

    fn duration(&mut self) -> Option<Duration> {
        self.u64().map(Duration::from_nanos)
    }

    fn strategy(&mut self) -> Option<Strategy> {
        Some(match self.u32()? {
            0 => Strategy::CommitRealtime { commit: self.duration()?, interval: self.duration()? },
            1 => Strategy::FlushRealtime { interval: self.duration()? },
            2 => Strategy::GroupCommit,
            3 => Strategy::Lying(Lie::AckBeforeSync),
            4 => Strategy::Lying(Lie::RetriedSync),
            5 => Strategy::Lying(Lie::SwallowedError),
            6 => Strategy::Lying(Lie::SyncFileRange),
            7 => Strategy::Lying(Lie::SkippedDirectorySync),
            _ => return None,
        })
    }

    fn appended(&mut self) -> Option<Appended> {
        Some(Appended {
            offset: LogOffset::new(self.u64()?),
            len: self.u32()?,
            queue_offset: QueueOffset::new(self.u64()?),
            store_timestamp: TimestampMs::new(self.array().map(i64::from_be_bytes)?),
        })
    }
}

/// Longer than any message of a run.
const MAX_FRAME: u32 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    const SHAPE: Shape = Shape { seed: 7, producers: 3, min_body: 30, max_body: 90 };

    #[track_caller]
    fn check(report: &Report) {
        let frame = report.encode();
        assert_eq!(Report::decode(&frame).as_ref(), Some(report));
        for cut in 0..frame.len() {
            assert_eq!(Report::decode(&frame[..cut]), None, "cut at {cut}");
        }
        assert_eq!(Report::decode(&[&frame[..], &[0]].concat()), None);
    }

    #[test]
    fn reports_arrive_as_they_were_sent() {
        let sent = Sent { producer: 2, index: 1 << 33 };
        let appended = Appended {
            offset: LogOffset::new(1 << 40),
            len: 300,
            queue_offset: QueueOffset::new(5),
            store_timestamp: TimestampMs::new(-3),
        };
        let end = LogOffset::new(4096);
        check(&Report::Acked { sent, appended, flushed: end });
        check(&Report::Failed("no disk".to_owned()));
        check(&Report::Opened { end, torn_bytes: 1, unsynced_records: 2 });
        check(&Report::Ready("6.1".to_owned()));
        check(&Report::ReadBack);
        check(&Report::Record(FoundRecord::of(&SHAPE, sent, appended)));
        check(&Report::Refused(String::new()));
        check(&Report::Unmountable("bad superblock".to_owned()));
    }

    #[test]
    fn orders_arrive_as_they_were_sent() {
        let opening = Opening {
            wall_ns: 1 << 60,
            fs: "ext4".to_owned(),
            mount_options: "nobarrier".to_owned(),
            strategy: Strategy::GroupCommit,
            mapped: true,
            zeroed: false,
            expire_cs: 10,
        };
        let (commit, interval) = (Duration::from_micros(7), Duration::from_secs(3));
        let strategies = [
            Strategy::CommitRealtime { commit, interval },
            Strategy::FlushRealtime { interval },
            Strategy::Lying(Lie::AckBeforeSync),
            Strategy::Lying(Lie::RetriedSync),
            Strategy::Lying(Lie::SwallowedError),
            Strategy::Lying(Lie::SyncFileRange),
            Strategy::Lying(Lie::SkippedDirectorySync),
        ];
        for strategy in strategies {
            let opening = Opening { strategy, ..opening.clone() };
            assert_eq!(Opening::decode(&opening.encode()), Some(opening));
        }
        let frame = opening.encode();
        assert_eq!(Opening::decode(&frame), Some(opening));
        assert_eq!(Opening::decode(&frame[..frame.len() - 1]), None);
        assert_eq!(Loading::decode(&frame), None);
        let next = vec![1, 2, 1 << 40];
        let loading = Loading { shape: SHAPE, next, count: 500, pause_us: 20 };
        let frame = loading.encode();
        assert_eq!(Loading::decode(&frame), Some(loading));
        assert_eq!(Loading::decode(&frame[..frame.len() - 1]), None);
        assert_eq!(Opening::decode(&frame), None);
    }

    #[test]
    fn a_stream_that_ends_within_a_frame_ends() {
        let mut stream = Vec::new();
        for frame in [&b"one"[..], b"", b"two"] {
            send(&mut stream, frame).unwrap();
        }
        stream.truncate(stream.len() - 1);
        let mut from = &stream[..];
        assert_eq!(receive(&mut from).unwrap().as_deref(), Some(&b"one"[..]));
        assert_eq!(receive(&mut from).unwrap().as_deref(), Some(&b""[..]));
        assert_eq!(receive(&mut from).unwrap(), None);
        assert!(receive(&mut &[0xFF_u8; 8][..]).is_err());
    }
}
