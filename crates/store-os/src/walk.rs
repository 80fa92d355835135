//! Walking a segment's frames: where valid ones end, and where they go on behind a bad one.

use std::fs::File;
use std::ops::{ControlFlow, Range};

use rustix::fs::{SeekFrom, seek};
use rustix::io::Errno;
use store_core::{
    BLANK_LEN, DecodeError, Frame, Invalid, LogOffset, Magic, PROBE_LEN, Protection, RecordView,
    Step, SysFlag, Version, decode, length_u64, record_at, scan_step,
};

use crate::error::Error;

/// The bytes of one segment, by log offset.
pub(crate) trait Source {
    /// Fills `out` from log offset `at` on.
    fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error>;

    /// Whether `from..to` came from the device, where `read` fills in for what it cannot read.
    fn is_readable(&self, _from: LogOffset, _to: LogOffset) -> bool {
        true
    }

    /// The first part of `from..to` that may hold other than zeroes.
    fn next_data(&self, from: LogOffset, to: LogOffset) -> Option<Range<LogOffset>>;
}

/// What stands at a place.
#[derive(Debug)]
pub(crate) enum Found<'a> {
    Blank,
    Invalid(Invalid),
    Record(RecordView<'a>),
    /// A record as far as it goes, but some of its bytes cannot be read.
    Unreadable,
}

/// Where a walk ended.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Walked {
    /// At the blank that closes the segment.
    Blank { at: LogOffset },
    /// At something that is no valid frame.
    Invalid { at: LogOffset, found: Invalid },
    /// Behind the record at which `visit` broke off.
    Stopped { at: LogOffset },
    /// At a record of which some bytes cannot be read.
    Unreadable { at: LogOffset },
}

/// Where valid frames go on behind a bad place, in the same segment.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Resync {
    /// No record is left, but the blank that closes the segment.
    Blank(LogOffset),
    /// Too many bytes only look like records; what stands behind them is not known.
    Exhausted,
    /// No record is left.
    Nothing,
    /// A valid record.
    Record(LogOffset),
}

/// Reads a segment through a window, and keeps it while the places asked for lie in it.
///
/// One walker may serve many segments of one log: a log offset belongs to one segment only.
#[derive(Debug)]
pub(crate) struct Walker {
    protection: Protection,
    buffer: Vec<u8>,
    /// What of the log is at the front of `buffer`.
    window: Range<LogOffset>,
    /// The end of the segment that `budget` is for.
    searched: LogOffset,
    /// Bytes that may still be read and checksummed in vain there.
    budget: u64,
    /// Bytes read into the window since the walker was made.
    read: u64,
}

impl Walker {
    pub(crate) fn new(protection: Protection) -> Self {
        Self {
            protection,
            buffer: Vec::new(),
            window: LogOffset::ZERO..LogOffset::ZERO,
            searched: LogOffset::ZERO,
            budget: 0,
            read: 0,
        }
    }

    /// Makes the next look at a place read it again: somebody may be writing there.
    pub(crate) fn forget(&mut self) {
        self.window = LogOffset::ZERO..LogOffset::ZERO;
    }

    /// Visits the records from `from` on, in the segment that ends at `end`, up to the first place
    /// where no valid one stands.
    pub(crate) fn walk(
        &mut self,
        source: &impl Source,
        from: LogOffset,
        end: LogOffset,
        visit: &mut impl FnMut(&RecordView<'_>) -> ControlFlow<()>,
    ) -> Result<Walked, Error> {
        let mut at = from;
        loop {
            match self.step(source, at, end)? {
                Found::Blank => return Ok(Walked::Blank { at }),
                Found::Invalid(found) => return Ok(Walked::Invalid { at, found }),
                Found::Record(view) => {
                    at = behind(at, u64::from(view.total_size()));
                    if visit(&view).is_break() {
                        return Ok(Walked::Stopped { at });
                    }
                }
                Found::Unreadable => return Ok(Walked::Unreadable { at }),
            }
        }
    }

    /// What stands at `at`, in the segment that ends at `end`.
    ///
    /// Never reads much for a record that cannot be one: a long record's length fields must agree
    /// before it is read whole.
    pub(crate) fn step(
        &mut self,
        source: &impl Source,
        at: LogOffset,
        end: LogOffset,
    ) -> Result<Found<'_>, Error> {
        let rest = end.since(at);
        if rest < length_u64(BLANK_LEN) {
            let found = Invalid::PastSegment { len: length_u64(BLANK_LEN), rest };
            return Ok(Found::Invalid(found));
        }
        let head = self.fill(source, at, length_u64(BLANK_LEN), end)?;
        let needed = frame_len(head).filter(|len| *len <= rest).unwrap_or(0);
        if needed > WINDOW
            && let Some(found) = disagreement(source, at, end)?
        {
            return Ok(Found::Invalid(Invalid::Decode(found)));
        }
        let protection = self.protection;
        let window = self.fill(source, at, needed.max(length_u64(BLANK_LEN)), end)?;
        Ok(match scan_step(window, at, rest, protection) {
            Step::Blank => Found::Blank,
            Step::Invalid(found) => Found::Invalid(found),
            Step::Record(view) if source.is_readable(at, behind(at, needed)) => Found::Record(view),
            Step::Record(_) => Found::Unreadable,
            // All of TOTALSIZE is at hand: more would not help.
            Step::More { .. } => match decode(window) {
                Err(error) => Found::Invalid(Invalid::Decode(error)),
                Ok(_) => unreachable!("only a frame that cannot be decoded needs more"),
            },
        })
    }

    /// The record of `len` bytes that the last step found at `at`.
    pub(crate) fn record(&self, at: LogOffset, len: u64) -> RecordView<'_> {
        let from = in_memory(at.since(self.window.start));
        match decode(&self.buffer[from..from + in_memory(len)]) {
            Ok(Frame::Record(view)) => view,
            _ => unreachable!("a step found a record of this length there"),
        }
    }

    /// Looks for the next valid record behind the bad place `bad`.
    ///
    /// First where the bad record's own fields say that it ends, then byte by byte. What stands in
    /// the body of a bad record whose header is intact is passed over: a producer may have put the
    /// image of a record there. The cost is bounded whatever the bytes are: a place is checksummed
    /// only when its length fields agree, and [`Resync::Exhausted`] ends the search when too much
    /// was checksummed in vain.
    pub(crate) fn resync(
        &mut self,
        source: &impl Source,
        bad: LogOffset,
        end: LogOffset,
    ) -> Result<Resync, Error> {
        if self.searched != end {
            self.searched = end;
            self.budget = VAIN_FACTOR * (end.since(bad) + WINDOW);
        }
        let shape = Shape::read(source, bad, end)?;
        // Where the two disagree, the nearer one passes over nothing if the other is right.
        let mut likely = [shape.fields_end, shape.declared_end];
        likely.sort_unstable();
        if likely[0] == likely[1] {
            likely[0] = None;
        }
        for likely in likely.into_iter().flatten() {
            match self.frame_at(source, likely, end)? {
                Resync::Nothing => {}
                found => return Ok(found),
            }
        }
        self.search(source, shape.search_from(bad), end)
    }

    fn search(
        &mut self,
        source: &impl Source,
        from: LogOffset,
        end: LogOffset,
    ) -> Result<Resync, Error> {
        let mut blank = Resync::Nothing;
        let mut behind_part = from;
        while let Some(part) = source.next_data(behind_part, end) {
            behind_part = part.end;
            // A record's first bytes may be zeroes in a hole; its magic is not.
            let first = LogOffset::new(part.start.get().saturating_sub(length_u64(MAGIC.start)));
            let mut at = from.max(first);
            while at < part.end && length_u64(PROBE_LEN) <= end.since(at) {
                let window = self.fill(source, at, length_u64(PROBE_LEN), end)?;
                let Some(index) = first_candidate(window, at, end) else {
                    at = behind(at, length_u64(window.len() - PROBE_LEN) + 1);
                    continue;
                };
                let place = behind(at, length_u64(index));
                match self.frame_at(source, place, end)? {
                    // Only if no record follows: the image of a blank must not hide one.
                    Resync::Blank(place) => blank = Resync::Blank(place),
                    Resync::Nothing => {}
                    found => return Ok(found),
                }
                at = behind(place, 1);
            }
        }
        Ok(blank)
    }

    /// Whether a valid frame stands at `at`: its structure is looked at before its checksums.
    fn frame_at(
        &mut self,
        source: &impl Source,
        at: LogOffset,
        end: LogOffset,
    ) -> Result<Resync, Error> {
        let mut head = [0; PROBE_LEN];
        let len = head.len().min(usize::try_from(end.since(at)).unwrap_or(usize::MAX));
        if len < BLANK_LEN {
            return Ok(Resync::Nothing);
        }
        source.read(&mut head[..len], at)?;
        if is_blank(&head, at, end) {
            return Ok(Resync::Blank(at));
        }
        if !record_at(&head, at) {
            return Ok(Resync::Nothing);
        }
        let structure = Shape::read(source, at, end)?;
        let Some(behind_it) = structure.exact() else {
            self.budget = self.budget.saturating_sub(LOOK);
            return Ok(if self.budget == 0 { Resync::Exhausted } else { Resync::Nothing });
        };
        let before = self.read;
        if let Found::Record(_) = self.step(source, at, end)? {
            return Ok(Resync::Record(at));
        }
        let cost = LOOK + (self.read - before) + behind_it.since(at);
        self.budget = self.budget.saturating_sub(cost);
        Ok(if self.budget == 0 { Resync::Exhausted } else { Resync::Nothing })
    }

    /// The end of what is not zero in `from..to`, or `None` if all is.
    ///
    /// Holes and space that was allocated but never written are not read.
    pub(crate) fn last_data(
        &mut self,
        source: &impl Source,
        from: LogOffset,
        to: LogOffset,
    ) -> Result<Option<LogOffset>, Error> {
        let mut next = from;
        let parts = std::iter::from_fn(|| {
            let part = source.next_data(next, to)?;
            next = part.end;
            Some(part)
        });
        for part in parts.collect::<Vec<_>>().into_iter().rev() {
            let mut upto = part.end;
            while part.start < upto {
                let at = LogOffset::new(upto.get().saturating_sub(WINDOW)).max(part.start);
                self.forget();
                let window = self.fill(source, at, upto.since(at), upto)?;
                if let Some(last) = window.iter().rposition(|byte| *byte != 0) {
                    return Ok(Some(behind(at, length_u64(last) + 1)));
                }
                if !source.is_readable(at, upto) {
                    return Ok(Some(upto));
                }
                upto = at;
            }
        }
        Ok(None)
    }

    /// At least `needed` bytes from `at` on; what more was read, up to `end`, comes with them.
    fn fill(
        &mut self,
        source: &impl Source,
        at: LogOffset,
        needed: u64,
        end: LogOffset,
    ) -> Result<&[u8], Error> {
        if at < self.window.start || self.window.end.since(at) < needed {
            let len = needed.max(WINDOW).min(end.since(at));
            let bytes = in_memory(len);
            if self.buffer.len() < bytes {
                self.buffer.resize(bytes, 0);
            }
            self.forget();
            source.read(&mut self.buffer[..bytes], at)?;
            self.window = at..behind(at, len);
            self.read += len;
        }
        let from = in_memory(at.since(self.window.start));
        let to = in_memory(self.window.end.since(self.window.start));
        Ok(&self.buffer[from..to])
    }
}

/// What a frame's own length fields say; the record need not be valid.
#[derive(Clone, Copy, Debug, Default)]
struct Shape {
    /// Whether magic and PHYSICALOFFSET are those of a record that stands there.
    at_its_place: bool,
    /// Where the body ends by BODYLENGTH.
    body_end: Option<LogOffset>,
    /// Where the record ends by the lengths of body, topic and properties.
    fields_end: Option<LogOffset>,
    /// Where it ends by TOTALSIZE.
    declared_end: Option<LogOffset>,
}

impl Shape {
    /// Reads the fields of a record at `at` that tell its length; ends that the segment has no
    /// room for are left out.
    fn read(source: &impl Source, at: LogOffset, end: LogOffset) -> Result<Self, Error> {
        let mut head = [0; LONGEST_HEAD];
        let len = head.len().min(in_memory(end.since(at)));
        source.read(&mut head[..len], at)?;
        // A record leaves room for a blank behind it.
        let room = end.since(at).saturating_sub(length_u64(BLANK_LEN));
        let fits = |len: u64| Some(len).filter(|len| *len <= room);
        let declared_len = u64::from(u32_at(&head, TOTAL_SIZE.start));
        let flags = SysFlag::new(u32_at(&head, SYS_FLAG.start));
        let host_len = |flag| if flags.has(flag) { IPV6_HOST } else { IPV4_HOST };
        let hosts = host_len(SysFlag::BORN_HOST_IPV6) + host_len(SysFlag::STORE_HOST_IPV6);
        let body_len = u64::from(u32_at(&head, BODY_LENGTH_WITHOUT_HOSTS + hosts));
        let body_end = fits(length_u64(BODY_LENGTH_WITHOUT_HOSTS + 4 + hosts) + body_len);
        let mut probe = [0; PROBE_LEN];
        probe.copy_from_slice(&head[..PROBE_LEN]);
        let mut shape = Self {
            at_its_place: record_at(&probe, at),
            body_end: body_end.map(|len| behind(at, len)),
            fields_end: None,
            declared_end: fits(declared_len)
                .filter(|len| length_u64(PROBE_LEN) <= *len)
                .map(|len| behind(at, len)),
        };
        if let Some(body_end) = body_end {
            let mut two = [0; 2];
            source.read(&mut two, behind(at, body_end))?;
            // The byte is a length of up to 255 here: RocketMQ writes such records, unread by all.
            let topic_end = match u32_at(&head, MAGIC.start) {
                V2_MAGIC => body_end + 2 + u64::from(u16::from_be_bytes(two)),
                _ => body_end + 1 + u64::from(two[0]),
            };
            if let Some(topic_end) = fits(topic_end) {
                source.read(&mut two, behind(at, topic_end))?;
                let fields_len = fits(topic_end + 2 + u64::from(u16::from_be_bytes(two)));
                shape.fields_end = fields_len.map(|len| behind(at, len));
            }
        }
        Ok(shape)
    }

    /// The record's end, where all fields agree on it.
    fn exact(&self) -> Option<LogOffset> {
        self.fields_end.filter(|_| self.fields_end == self.declared_end)
    }

    /// From where on a search may find the next record, this one at `at` being bad.
    ///
    /// Nothing that is passed over can be a record of the log's own, unless two of the fields are
    /// wrong together: either all lengths agree, or the body's end is BODYLENGTH's and within
    /// TOTALSIZE, so that it is right if one of the two is.
    fn search_from(&self, at: LogOffset) -> LogOffset {
        let body_end =
            self.body_end.filter(|end| self.declared_end.is_some_and(|declared| *end <= declared));
        let trusted = self.exact().or(body_end).filter(|_| self.at_its_place);
        trusted.unwrap_or(behind(at, 1))
    }
}

/// Why the record at `at` cannot be whole, by its length fields alone.
fn disagreement(
    source: &impl Source,
    at: LogOffset,
    end: LogOffset,
) -> Result<Option<DecodeError>, Error> {
    let shape = Shape::read(source, at, end)?;
    if shape.exact().is_some() {
        return Ok(None);
    }
    let mut head = [0; 4];
    source.read(&mut head, at)?;
    let fields = shape.fields_end.or(shape.body_end).map_or(0, |end| in_memory(end.since(at)));
    Ok(Some(DecodeError::LengthMismatch { declared: u32::from_be_bytes(head), fields }))
}

/// Whether the record at `at`, which says that it stands elsewhere, is whole.
pub(crate) fn is_whole(source: &impl Source, at: LogOffset, end: LogOffset) -> Result<bool, Error> {
    let mut size = [0; 4];
    source.read(&mut size, at)?;
    let len = u64::from(u32::from_be_bytes(size)).min(end.since(at));
    let mut bytes = vec![0; usize::try_from(len).expect("a segment fits the address space")];
    source.read(&mut bytes, at)?;
    let Ok(Frame::Record(view)) = decode(&bytes) else { return Ok(false) };
    Ok(view.body_crc_matches() && source.is_readable(at, behind(at, length_u64(bytes.len()))))
}

/// How many records from `at` on are whole but for their CRC32 property, one behind the other: more
/// than one, and they are another broker's, not torn.
pub(crate) fn whole_but_for_the_property(
    source: &impl Source,
    at: LogOffset,
    end: LogOffset,
) -> Result<u64, Error> {
    let mut count = 0;
    Walker::new(Protection::Body).walk(source, at, end, &mut |_| {
        count += 1;
        ControlFlow::Continue(())
    })?;
    Ok(count)
}

/// The first place in `window`, which begins at `at`, where a frame may begin.
fn first_candidate(window: &[u8], at: LogOffset, end: LogOffset) -> Option<usize> {
    window.windows(PROBE_LEN).enumerate().find_map(|(index, bytes)| {
        let first = bytes[MAGIC.start];
        if first != V1_MAGIC.to_be_bytes()[0] && first != BLANK_MAGIC.to_be_bytes()[0] {
            return None;
        }
        let probe: &[u8; PROBE_LEN] = bytes.first_chunk()?;
        let place = behind(at, length_u64(index));
        (record_at(probe, place) || is_blank(probe, place, end)).then_some(index)
    })
}

fn is_blank(probe: &[u8; PROBE_LEN], at: LogOffset, end: LogOffset) -> bool {
    u32_at(probe, MAGIC.start) == BLANK_MAGIC
        && u64::from(u32_at(probe, TOTAL_SIZE.start)) == end.since(at)
}

/// TOTALSIZE of what may be a record.
fn frame_len(head: &[u8]) -> Option<u64> {
    let magic = u32_at(head, MAGIC.start);
    (magic == V1_MAGIC || magic == V2_MAGIC).then(|| u64::from(u32_at(head, TOTAL_SIZE.start)))
}

/// The first part of a file's `from..to` that the file system knows as written, by
/// `lseek(SEEK_DATA)`; all of it where the file system does not know. `base` is the log offset of
/// the file's first byte.
pub(crate) fn next_data(
    file: &File,
    base: LogOffset,
    from: LogOffset,
    to: LogOffset,
) -> Option<Range<LogOffset>> {
    if to <= from {
        return None;
    }
    let data = match seek(file, SeekFrom::Data(from.since(base))) {
        Ok(data) => behind(base, data),
        Err(Errno::NXIO) => return None,
        Err(_) => from,
    };
    if to <= data {
        return None;
    }
    let hole = seek(file, SeekFrom::Hole(data.since(base)));
    let hole = hole.map_or(to, |hole| behind(base, hole).min(to));
    // A file that shrinks meanwhile has its end where the data was.
    (data < hole).then_some(data..hole)
}

pub(crate) fn behind(at: LogOffset, len: u64) -> LogOffset {
    LogOffset::new(at.get() + len)
}

fn in_memory(len: u64) -> usize {
    usize::try_from(len).expect("a segment fits the address space")
}

fn u32_at(bytes: &[u8], at: usize) -> u32 {
    u32::from_be_bytes(*bytes[at..].first_chunk().expect("the caller has the field"))
}

const TOTAL_SIZE: Range<usize> = 0..4;
const MAGIC: Range<usize> = 4..8;
const SYS_FLAG: Range<usize> = 36..40;
/// Where BODYLENGTH would stand if the two hosts before it had no bytes.
const BODY_LENGTH_WITHOUT_HOSTS: usize = 68;
const IPV4_HOST: usize = 8;
const IPV6_HOST: usize = 20;
/// All up to BODYLENGTH, with the longest hosts.
const LONGEST_HEAD: usize = BODY_LENGTH_WITHOUT_HOSTS + 2 * IPV6_HOST + 4;

const V1_MAGIC: u32 = Magic::Record(Version::V1).code();
const V2_MAGIC: u32 = Magic::Record(Version::V2).code();
const BLANK_MAGIC: u32 = Magic::Blank.code();

/// So many records that are whole but for their CRC32 property are not torn.
pub(crate) const FOREIGN_RECORDS: u64 = 2;
/// How much is read at a time; longer records are read whole.
const WINDOW: u64 = 1 << 20;
/// How often a segment's bytes behind its first bad place may be read and checksummed in vain.
const VAIN_FACTOR: u64 = 16;
/// What a look at the fields of one place that holds no record counts for, in bytes.
const LOOK: u64 = 4096;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::Cell;
    use store_core::{Destination, Message, Placed, QueueId, Topic, encode, encode_blank};

    /// A segment in memory that counts what is read of it.
    struct Memory {
        start: LogOffset,
        bytes: Vec<u8>,
        read: Cell<u64>,
    }

    impl Memory {
        const START: LogOffset = LogOffset::new(1 << 20);

        fn new(len: usize) -> Self {
            Self { start: Self::START, bytes: vec![0; len], read: Cell::new(0) }
        }

        fn end(&self) -> LogOffset {
            behind(self.start, length_u64(self.bytes.len()))
        }

        fn put(&mut self, at: LogOffset, bytes: &[u8]) -> LogOffset {
            let from = in_memory(at.since(self.start));
            self.bytes[from..from + bytes.len()].copy_from_slice(bytes);
            behind(at, length_u64(bytes.len()))
        }

        fn byte(&mut self, at: LogOffset, index: usize) -> &mut u8 {
            &mut self.bytes[in_memory(at.since(self.start)) + index]
        }
    }

    impl Source for Memory {
        fn read(&self, out: &mut [u8], at: LogOffset) -> Result<(), Error> {
            let from = in_memory(at.since(self.start));
            out.copy_from_slice(&self.bytes[from..from + out.len()]);
            self.read.set(self.read.get() + length_u64(out.len()));
            Ok(())
        }

        fn next_data(&self, from: LogOffset, to: LogOffset) -> Option<Range<LogOffset>> {
            (from < to).then_some(from..to)
        }
    }

    fn record(at: LogOffset, body: &[u8]) -> Vec<u8> {
        let to = Destination { topic: Topic::new(b"T").unwrap(), queue_id: QueueId::new(0) };
        let message = Message { body, ..Message::default() };
        let mut out = vec![0; body.len() + 128];
        let placed = Placed { log_offset: at, ..Placed::default() };
        encode(to, &message, Protection::Body, &mut out).unwrap().place(&placed).to_vec()
    }

    /// Records with these bodies from the segment's first byte on, then a blank.
    fn filled(bodies: &[&[u8]]) -> (Memory, Vec<LogOffset>) {
        let len = bodies.iter().map(|body| body.len() + 92).sum::<usize>() + 500;
        let mut memory = Memory::new(len);
        let mut at = memory.start;
        let mut places = Vec::new();
        for body in bodies {
            places.push(at);
            at = memory.put(at, &record(at, body));
        }
        places.push(at);
        let rest = u32::try_from(memory.end().since(at)).unwrap();
        memory.put(at, &encode_blank(rest));
        (memory, places)
    }

    fn resync(memory: &Memory, bad: LogOffset) -> Resync {
        Walker::new(Protection::Record).resync(memory, bad, memory.end()).unwrap()
    }

    fn walk(memory: &Memory, from: LogOffset) -> (usize, Walked) {
        let mut count = 0;
        let walked = Walker::new(Protection::Record).walk(memory, from, memory.end(), &mut |_| {
            count += 1;
            ControlFlow::Continue(())
        });
        (count, walked.unwrap())
    }

    #[test]
    fn a_walk_ends_at_the_blank_or_at_the_first_bad_record() {
        let (mut memory, places) = filled(&[b"one", b"two", b"three"]);
        assert_eq!(walk(&memory, places[0]), (3, Walked::Blank { at: places[3] }));
        *memory.byte(places[1], 88) ^= 1;
        let (count, walked) = walk(&memory, places[0]);
        assert_eq!(count, 1);
        assert!(matches!(walked, Walked::Invalid { at, .. } if at == places[1]), "{walked:?}");
    }

    #[test]
    fn whichever_byte_is_wrong_the_next_record_is_found() {
        for victim in 0..3 {
            let (whole, places) = filled(&[b"one", b"two", b"three"]);
            let len = in_memory(places[victim + 1].since(places[victim]));
            for index in 0..len {
                for flip in [0x01, 0x80, 0xFF] {
                    let mut memory = Memory { bytes: whole.bytes.clone(), ..Memory::new(0) };
                    *memory.byte(places[victim], index) ^= flip;
                    let expect = match victim {
                        2 => Resync::Blank(places[3]),
                        _ => Resync::Record(places[victim + 1]),
                    };
                    assert_eq!(resync(&memory, places[victim]), expect, "{victim}, byte {index}");
                }
            }
        }
    }

    #[test]
    fn records_of_one_length_are_not_passed_over_when_a_length_is_wrong() {
        // 92 + 164 bytes: a flip of bit 9 of TOTALSIZE leads to the third record after it.
        let (mut memory, places) = filled(&[&[7; 164][..]; 6]);
        *memory.byte(places[1], 2) ^= 2;
        assert_eq!(resync(&memory, places[1]), Resync::Record(places[2]));
    }

    #[test]
    fn the_image_of_a_record_in_a_body_is_not_taken_for_the_next_one() {
        let start = Memory::START;
        let second = behind(start, 92 + 3);
        // What a producer would guess: its body begins 88 bytes behind its record.
        let image = record(behind(second, 88), b"forged");
        let (mut memory, places) = filled(&[b"one", &image, b"three"]);
        assert_eq!(places[1], second);
        // The topic, the checksum, the length of the topic.
        for index in [8, 88 + image.len(), 89 + image.len()] {
            *memory.byte(second, index) ^= 0x10;
            assert_eq!(resync(&memory, second), Resync::Record(places[2]), "byte {index}");
            *memory.byte(second, index) ^= 0x10;
        }
        // Nor does it make a torn last record damage.
        let torn = places[2].since(memory.start);
        memory.bytes[in_memory(torn) - 4..].fill(0);
        assert_eq!(resync(&memory, second), Resync::Nothing);
    }

    #[test]
    fn what_only_looks_like_records_costs_no_more_than_a_bound() {
        // Heads each of which claims, consistently, all up to a tail that they share.
        let mut memory = Memory::new(4 << 20);
        let end = memory.end();
        let tail = behind(end, 0).get() - 64;
        memory.put(LogOffset::new(tail), &[1, b'T', 0, 0]);
        let mut at = memory.start;
        while at.get() + 200 < tail {
            let mut head = record(at, b"");
            head.truncate(88);
            let total = u32::try_from(tail + 4 - at.get()).unwrap();
            let body = u32::try_from(tail - at.get() - 88).unwrap();
            head[0..4].copy_from_slice(&total.to_be_bytes());
            head[84..88].copy_from_slice(&body.to_be_bytes());
            head[8..12].copy_from_slice(&[0x7F; 4]);
            at = memory.put(at, &head);
        }
        memory.byte(memory.start, 4).clone_from(&0);
        let bad = memory.start;
        assert_eq!(resync(&memory, bad), Resync::Exhausted);
        let read = memory.read.get();
        assert!(read < 64 << 20 << 2, "{read} bytes were read");
    }

    #[test]
    fn the_last_data_of_zeroes_is_nothing() {
        let mut memory = Memory::new(3 << 20);
        let (from, to) = (behind(memory.start, 5), memory.end());
        assert_eq!(Walker::new(Protection::Record).last_data(&memory, from, to), Ok(None));
        let at = behind(memory.start, 4097);
        *memory.byte(at, 0) = 1;
        assert_eq!(
            Walker::new(Protection::Record).last_data(&memory, from, to),
            Ok(Some(behind(at, 1)))
        );
        assert_eq!(Walker::new(Protection::Record).last_data(&memory, behind(at, 1), to), Ok(None));
    }
}
