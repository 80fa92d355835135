//! Which files a store has, and which of them are segments of its log.

use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use store_core::{Checkpoint, CheckpointError, LogOffset, Protection, SegmentName, SegmentSize};

use super::SurveyError;
use crate::directory::{ABORT, SEGMENTS, read_small};
use crate::error::{Error, Op};
use crate::files::Linux;
use crate::recovery_point::{Others, PointFiles, RecoveryPoint};
use crate::walk::behind;

/// A store's files before any is opened.
#[derive(Debug)]
pub(crate) struct Listing {
    /// Where `lock`, `abort` and `checkpoint` are, if the segments belong to a store.
    pub(crate) root: Option<PathBuf>,
    /// Where the segments are.
    pub(crate) directory: PathBuf,
    pub(crate) size: SegmentSize,
    /// In log order.
    pub(crate) segments: Vec<Listed>,
    /// Last files without a byte, which opening removes.
    pub(crate) empty: Vec<Listed>,
    /// What is no segment of this log.
    pub(crate) foreign: Vec<PathBuf>,
    /// Symbolic links under a segment's name, which are not followed.
    pub(crate) links: Vec<PathBuf>,
    /// What `checkpoint` says, if there is such a file.
    pub(crate) checkpoint: Option<Result<Checkpoint, CheckpointError>>,
    /// What `abort` holds.
    pub(crate) abort: Option<String>,
    /// The state of `abort` before the scan.
    pub(crate) abort_stamp: Option<Stamp>,
}

/// A segment's file.
#[derive(Clone, Debug)]
pub(crate) struct Listed {
    pub(crate) start: LogOffset,
    pub(crate) path: PathBuf,
    pub(crate) len: u64,
    pub(crate) stamp: Stamp,
}

/// What changes when a file is changed or replaced.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) struct Stamp {
    device: u64,
    inode: u64,
    len: u64,
    modified: (i64, i64),
}

impl Stamp {
    pub(crate) fn new(found: &Metadata) -> Self {
        Self {
            device: found.dev(),
            inode: found.ino(),
            len: found.len(),
            modified: (found.mtime(), found.mtime_nsec()),
        }
    }

    pub(crate) fn is_same_file(&self, other: &Self) -> bool {
        (self.device, self.inode) == (other.device, other.inode)
    }
}

impl Listing {
    pub(crate) fn read(root: &Path, size: Option<SegmentSize>) -> Result<Self, SurveyError> {
        let (store, directory) = locate(root)?;
        let mut files = Vec::new();
        let (mut foreign, mut links) = (Vec::new(), Vec::new());
        let listing = |error: &std::io::Error| Error::from_std(Op::List, &directory, error);
        for entry in fs::read_dir(&directory).map_err(|error| listing(&error))? {
            let entry = entry.map_err(|error| listing(&error))?;
            let path = entry.path();
            let kind = entry.file_type().map_err(|error| listing(&error))?;
            match entry.file_name().to_str().and_then(SegmentName::parse) {
                Some(start) if kind.is_file() => match fs::metadata(&path) {
                    Ok(found) => {
                        let stamp = Stamp::new(&found);
                        files.push(Listed { start, path, len: found.len(), stamp });
                    }
                    // Expired and removed by an owner since the directory was read.
                    Err(error) if error.kind() == std::io::ErrorKind::NotFound => {}
                    Err(error) => return Err(Error::from_std(Op::Open, &path, &error).into()),
                },
                Some(_) if kind.is_symlink() => links.push(path),
                None if kind.is_dir() => {}
                // Without a root these are the files beside the segments of some directory.
                None if store.is_none() => {}
                _ => foreign.push(path),
            }
        }
        files.sort_by_key(|file| file.start);
        if files.is_empty() && store.is_none() {
            return Err(SurveyError::NotAStore { path: root.to_owned() });
        }
        let checkpoint = store
            .as_deref()
            .and_then(|root| read_small(&root.join(CHECKPOINT)))
            .map(|bytes| Checkpoint::decode(&bytes));
        let proven = store.as_deref().and_then(|root| proven_size(root, checkpoint, &files));
        let size = segment_size(&directory, &files, proven, size)?;
        let (mut segments, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| {
            size.position_of(file.start) == 0 && file.start.checked_add(size.bytes()).is_some()
        });
        foreign.extend(others.into_iter().map(|file| file.path));
        foreign.sort();
        links.sort();
        let mut empty = Vec::new();
        while let Some(file) = segments.pop_if(|file| file.len == 0) {
            empty.insert(0, file);
        }
        let abort_path = store.as_deref().map(|root| root.join(ABORT));
        let abort_found = abort_path.as_ref().and_then(|path| fs::metadata(path).ok());
        let abort = abort_path
            .filter(|_| abort_found.is_some())
            .map(|path| String::from_utf8_lossy(&read_small(&path).unwrap_or_default()).into());
        let abort_stamp = abort_found.as_ref().map(Stamp::new);
        Ok(Self {
            root: store,
            directory,
            size,
            segments,
            empty,
            foreign,
            links,
            checkpoint,
            abort,
            abort_stamp,
        })
    }
}

impl Listing {
    /// The recovery point of this log, if there is one.
    pub(crate) fn point(&self, protection: Protection) -> Option<RecoveryPoint> {
        let root = self.root.as_ref()?;
        let checkpoint = self.checkpoint.and_then(Result::ok).unwrap_or_default();
        let others = Others::of(&checkpoint);
        let names: Vec<_> =
            self.segments.iter().map(|file| (file.start, file.path.clone())).collect();
        let (_, points) = PointFiles::load(root, &Linux);
        let is_of = |point: &RecoveryPoint| {
            point.others == others && point.is_of(&names, self.size, protection, &Linux)
        };
        points.into_iter().find(is_of)
    }
}

impl Listing {
    /// What is missing behind the last segment: up to where the recovery points prove the log, in
    /// whole segments. Opening refuses a log with that.
    pub(crate) fn missing_end(&self) -> Option<(LogOffset, LogOffset)> {
        let others = Others::of(&self.checkpoint.and_then(Result::ok).unwrap_or_default());
        let (_, points) = PointFiles::load(self.root.as_ref()?, &Linux);
        let ours = points
            .into_iter()
            .filter(|point| point.others == others && point.segment_size == self.size);
        let proven = ours.map(|point| point.upto).max()?;
        let last = self.segments.last();
        let end = last.map_or(LogOffset::ZERO, |last| behind(last.start, self.size.bytes()));
        let start = self.size.start_of(proven);
        let to = if start == proven { Some(start) } else { start.checked_add(self.size.bytes()) };
        to.filter(|to| end < *to).map(|to| (end, to))
    }
}

const CHECKPOINT: &str = "checkpoint";

/// The store's root and the directory of its segments.
fn locate(root: &Path) -> Result<(Option<PathBuf>, PathBuf), SurveyError> {
    let root = if root.as_os_str().is_empty() { Path::new(".") } else { root };
    let root =
        std::path::absolute(root).map_err(|error| Error::from_std(Op::Open, root, &error))?;
    let inside = root.join(SEGMENTS);
    if inside.is_dir() {
        return Ok((Some(root), inside));
    }
    let is_segments = root.file_name().is_some_and(|name| name == SEGMENTS);
    let store = root.parent().filter(|_| is_segments).map(Path::to_owned);
    Ok((store, root))
}

/// The segment size: as given, or as the recovery point, the names or the files have it.
fn segment_size(
    directory: &Path,
    files: &[Listed],
    proven: Option<SegmentSize>,
    given: Option<SegmentSize>,
) -> Result<SegmentSize, SurveyError> {
    let likely = proven.map_or_else(|| likely_size(files), |proven| Ok(Some(proven)));
    let Some(given) = given else {
        return Ok(likely?.unwrap_or(SegmentSize::ROCKETMQ_DEFAULT));
    };
    if let Ok(Some(likely)) = likely {
        let has = |size: SegmentSize| files.iter().filter(|file| file.len == size.bytes()).count();
        // A single file may be the one that was cut.
        let nobody_has = has(given) == 0 && has(likely) > 1;
        let fits_less = fitting(files, given) < fitting(files, likely);
        if nobody_has || (fits_less && has(given) < has(likely)) {
            let (given, likely) = (given.bytes(), likely.bytes());
            let path = directory.to_owned();
            return Err(SurveyError::OtherSegmentSize { path, given, likely });
        }
    }
    Ok(given)
}

/// The size in the newest recovery point, unless others had the log since or most names do not fit.
fn proven_size(
    root: &Path,
    checkpoint: Option<Result<Checkpoint, CheckpointError>>,
    files: &[Listed],
) -> Option<SegmentSize> {
    let others = Others::of(&checkpoint.and_then(Result::ok).unwrap_or_default());
    let (_, points) = PointFiles::load(root, &Linux);
    let size = points.iter().find(|point| point.others == others)?.segment_size;
    (files.len() <= 2 * fitting(files, size)).then_some(size)
}

/// How many files have a name that is a segment's of this size.
fn fitting(files: &[Listed], size: SegmentSize) -> usize {
    files.iter().filter(|file| size.position_of(file.start) == 0).count()
}

/// The segment size that names and lengths show; `None` if all files are empty.
///
/// The names decide: what a file is called does not change when it is cut or grows. So the size is
/// the distance between two neighbours that most names fit. A length that fits them as well counts
/// where no distance does, as with a single file; where a file has the length that the distance is
/// not backed by, either segments are missing or all were cut, and nobody can tell.
fn likely_size(files: &[Listed]) -> Result<Option<SegmentSize>, SurveyError> {
    if files.iter().all(|file| file.len == 0) {
        return Ok(None);
    }
    let distances = files.iter().zip(files.iter().skip(1)).map(|(a, b)| b.start.since(a.start));
    let by_name: Vec<SegmentSize> =
        distances.filter_map(|bytes| SegmentSize::new(bytes).ok()).collect();
    let by_length: Vec<(SegmentSize, &Listed)> = files
        .iter()
        .filter_map(|file| SegmentSize::new(file.len).ok().map(|size| (size, file)))
        .collect();
    let all = by_name.iter().copied().chain(by_length.iter().map(|(size, _)| *size));
    let most = all.map(|size| fitting(files, size)).max().unwrap_or(0);
    let fits = |size: SegmentSize| fitting(files, size) == most && files.len() <= 2 * most;
    let distance = by_name.into_iter().filter(|size| fits(*size)).min();
    let mut lengths = by_length.into_iter().filter(|(size, _)| fits(*size));
    let refused =
        |file: &Listed| SurveyError::SegmentSize { path: file.path.clone(), found: file.len };
    let Some(distance) = distance else {
        let (size, _) = lengths.next().ok_or_else(|| refused(&files[0]))?;
        return match lengths.find(|(other, _)| *other != size) {
            Some((_, other)) => Err(refused(other)),
            None => Ok(Some(size)),
        };
    };
    match lengths.next() {
        Some((_, other)) if files.iter().all(|file| file.len != distance.bytes()) => {
            Err(refused(other))
        }
        _ => Ok(Some(distance)),
    }
}
