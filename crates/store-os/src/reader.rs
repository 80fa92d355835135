//! Reading a store's records in log order without owning it.

use std::path::Path;

use rustix::io::Errno;
use store_core::{Invalid, LogOffset, Protection, RecordView, SegmentSize};

use crate::error::{Error, ReadError};
use crate::survey::{Listed, Listing, SegmentFile, SurveyError};
use crate::walk::{Found, Resync, Walker, behind};

/// Reads the records of a store, its own or RocketMQ's, in log order.
///
/// Takes no lock, writes nothing, and reads no mapping; an owner may be appending meanwhile. Unlike
/// [`Cursor`](crate::Cursor) it does not know what the owner has flushed, and sees what the page
/// cache has.
///
/// # Examples
///
/// ```no_run
/// # fn main() -> Result<(), Box<dyn std::error::Error>> {
/// use store_core::Protection;
/// use store_os::StoreReader;
///
/// let mut reader = StoreReader::open("/data/store".as_ref(), None, Protection::Record)?;
/// let mut bytes = 0;
/// while let Some(record) = reader.next_record()? {
///     bytes += record.body().len();
/// }
/// # Ok(())
/// # }
/// ```
#[derive(Debug)]
pub struct StoreReader {
    size: SegmentSize,
    segments: Vec<Listed>,
    walker: Walker,
    at: LogOffset,
    /// The segment that `at` is in, once it was read from.
    open: Option<SegmentFile>,
}

impl StoreReader {
    /// Opens the store at `root`, or the directory of segments, and stands at its first record.
    ///
    /// Segments that an owner adds later are not seen. Without `segment_size` it is found as
    /// [`SurveyOptions::segment_size`](crate::SurveyOptions::segment_size) says.
    ///
    /// # Errors
    ///
    /// If there is no store, or its directory cannot be listed.
    pub fn open(
        root: &Path,
        segment_size: Option<SegmentSize>,
        protection: Protection,
    ) -> Result<Self, SurveyError> {
        let listing = Listing::read(root, segment_size)?;
        let at = listing.segments.first().map_or(LogOffset::ZERO, |first| first.start);
        Ok(Self {
            size: listing.size,
            segments: listing.segments,
            walker: Walker::new(protection),
            at,
            open: None,
        })
    }

    /// The log's first offset.
    pub fn start(&self) -> LogOffset {
        self.segments.first().map_or(LogOffset::ZERO, |first| first.start)
    }

    /// The size of each segment.
    pub fn segment_size(&self) -> SegmentSize {
        self.size
    }

    /// Where the next record is looked for.
    pub fn offset(&self) -> LogOffset {
        self.at
    }

    /// Stands at the first record that begins at `at` or behind it.
    ///
    /// Walks there from its segment's first byte, over damage before it. Where `at` lies in
    /// something bad, the reader stands at its first byte, so that the next read says so.
    ///
    /// # Errors
    ///
    /// If reading fails. The reader stays where it was.
    pub fn seek(&mut self, at: LogOffset) -> Result<(), ReadError> {
        let before = self.at;
        let at = at.max(self.start());
        self.at = self.size.start_of(at);
        let sought = self.walk_to(at);
        if sought.is_err() {
            self.at = before;
        }
        sought
    }

    fn walk_to(&mut self, at: LogOffset) -> Result<(), ReadError> {
        while self.at < at {
            let Place::Segment(end) = self.enter()? else { return Ok(()) };
            let from = self.at;
            self.at = match self.step(from, end)? {
                Standing::Blank => end,
                Standing::Record { len } => behind(from, len),
                Standing::Invalid(_) => match self.resync(from, end)? {
                    Resync::Blank(next) | Resync::Record(next) if next <= at => next,
                    _ => return Ok(()),
                },
            };
        }
        Ok(())
    }

    /// The next record, or `None` where nothing but zeroes follows.
    ///
    /// # Errors
    ///
    /// [`ReadError::NotARecord`] where something follows that is no valid record: damage, a missing
    /// segment, or the torn tail of a crash. The reader stays there; [`StoreReader::skip_damage`]
    /// goes on behind it. [`ReadError::System`] if a file cannot be read.
    pub fn next_record(&mut self) -> Result<Option<RecordView<'_>>, ReadError> {
        loop {
            let at = self.at;
            let end = match self.enter()? {
                Place::Behind => return Ok(None),
                Place::Missing => return Err(missing(at)),
                Place::Segment(end) => end,
            };
            let mut standing = self.step(at, end)?;
            if let Standing::Invalid(_) = standing {
                // What the window has may be older than what an owner wrote there.
                self.walker.forget();
                standing = self.step(at, end)?;
            }
            match standing {
                Standing::Blank => self.at = end,
                Standing::Record { len } => {
                    self.at = behind(at, len);
                    return Ok(Some(self.walker.record(at, len)));
                }
                Standing::Invalid(Some(Invalid::Unwritten))
                    if self.is_all_zero_from(at, end)? =>
                {
                    return Ok(None);
                }
                Standing::Invalid(found) => {
                    let found = found.map_or_else(|| UNREADABLE.to_owned(), |f| f.to_string());
                    return Err(ReadError::NotARecord { at, found });
                }
            }
        }
    }

    /// Goes to the next valid record at or behind where the reader stands, over whatever is bad
    /// there, and gives its offset; `None`, and the reader stays, if there is none.
    ///
    /// # Errors
    ///
    /// If a file cannot be read. The reader stays where it was.
    pub fn skip_damage(&mut self) -> Result<Option<LogOffset>, ReadError> {
        let before = self.at;
        let found = self.next_valid();
        if !matches!(found, Ok(Some(_))) {
            self.at = before;
        }
        found
    }

    fn next_valid(&mut self) -> Result<Option<LogOffset>, ReadError> {
        loop {
            let at = self.at;
            let end = match self.enter()? {
                Place::Behind => return Ok(None),
                Place::Missing => {
                    // However many are missing, the next one that is there begins so.
                    let next = self.segments.iter().find(|listed| at < listed.start);
                    let Some(next) = next else { return Ok(None) };
                    self.at = next.start;
                    continue;
                }
                Place::Segment(end) => end,
            };
            self.at = match self.step(at, end)? {
                Standing::Blank => end,
                Standing::Record { .. } => return Ok(Some(at)),
                Standing::Invalid(_) => match self.resync(at, end)? {
                    Resync::Record(next) => next,
                    Resync::Blank(_) | Resync::Exhausted | Resync::Nothing => end,
                },
            };
        }
    }

    /// Opens the segment that the reader stands in.
    fn enter(&mut self) -> Result<Place, Error> {
        let is_here = |open: &SegmentFile| open.start() <= self.at && self.at < open.end();
        if let Some(open) = self.open.as_ref().filter(|open| is_here(open)) {
            return Ok(Place::Segment(open.end()));
        }
        self.open = None;
        let start = self.size.start_of(self.at);
        let Some(index) = self.segments.iter().position(|listed| start <= listed.start) else {
            return Ok(Place::Behind);
        };
        let listed = &self.segments[index];
        if listed.start != start {
            return Ok(Place::Missing);
        }
        match SegmentFile::open(&listed.path, start, self.size) {
            Ok(file) => {
                let end = file.end();
                self.open = Some(file);
                Ok(Place::Segment(end))
            }
            // Expired since it was listed.
            Err(Error { source: Errno::NOENT, .. }) => Ok(Place::Missing),
            Err(error) => Err(error),
        }
    }

    fn step(&mut self, at: LogOffset, end: LogOffset) -> Result<Standing, Error> {
        let here = self.open.as_ref().expect("the segment was entered");
        Ok(match self.walker.step(here, at, end)? {
            Found::Blank => Standing::Blank,
            Found::Invalid(found) => Standing::Invalid(Some(found)),
            Found::Record(view) => Standing::Record { len: u64::from(view.total_size()) },
            Found::Unreadable => Standing::Invalid(None),
        })
    }

    fn resync(&mut self, at: LogOffset, end: LogOffset) -> Result<Resync, Error> {
        let here = self.open.as_ref().expect("the segment was entered");
        self.walker.resync(here, at, end)
    }

    /// Whether nothing was written from `at` on, in this segment and in those behind it.
    fn is_all_zero_from(&mut self, at: LogOffset, end: LogOffset) -> Result<bool, Error> {
        let here = self.open.as_ref().expect("the segment was entered");
        if self.walker.last_data(here, at, end)?.is_some() {
            return Ok(false);
        }
        for listed in self.segments.iter().filter(|listed| end <= listed.start) {
            match SegmentFile::open(&listed.path, listed.start, self.size) {
                Ok(file) => {
                    if self.walker.last_data(&file, file.start(), file.end())?.is_some() {
                        return Ok(false);
                    }
                }
                Err(Error { source: Errno::NOENT, .. }) => {}
                Err(error) => return Err(error),
            }
        }
        Ok(true)
    }
}

/// Where a reader stands among the segments.
#[derive(Clone, Copy, Debug)]
enum Place {
    /// Behind all of them.
    Behind,
    /// Where one is missing before another.
    Missing,
    /// In the one that ends there.
    Segment(LogOffset),
}

/// What stands where a reader stands; of a record, its length.
#[derive(Clone, Copy, Debug)]
enum Standing {
    Blank,
    /// `None` if it cannot be read.
    Invalid(Option<Invalid>),
    Record {
        len: u64,
    },
}

fn missing(at: LogOffset) -> ReadError {
    ReadError::NotARecord { at, found: "its segment is missing".to_owned() }
}

const UNREADABLE: &str = "it cannot be read";
