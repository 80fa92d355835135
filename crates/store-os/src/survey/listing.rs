//! Which files a store has, and which of them are segments of its log.

use std::collections::BTreeMap;
use std::fs::{self, Metadata};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use store_core::{Checkpoint, CheckpointError, LogOffset, Protection, SegmentName, SegmentSize};

use super::SurveyError;
use crate::directory::{ABORT, SEGMENTS};
use crate::error::{Error, Op};
use crate::recovery_point::{Others, PointFiles, RecoveryPoint};

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
        let mut foreign = Vec::new();
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
        let size = segment_size(&directory, &files, size)?;
        let (mut segments, others): (Vec<_>, Vec<_>) = files.into_iter().partition(|file| {
            size.position_of(file.start) == 0 && file.start.checked_add(size.bytes()).is_some()
        });
        foreign.extend(others.into_iter().map(|file| file.path));
        foreign.sort();
        let mut empty = Vec::new();
        while let Some(file) = segments.pop_if(|file| file.len == 0) {
            empty.insert(0, file);
        }
        let abort_path = store.as_deref().map(|root| root.join(ABORT));
        let abort_found = abort_path.as_ref().and_then(|path| fs::metadata(path).ok());
        let abort = abort_path
            .filter(|_| abort_found.is_some())
            .map(|path| String::from_utf8_lossy(&fs::read(path).unwrap_or_default()).into_owned());
        let abort_stamp = abort_found.as_ref().map(Stamp::new);
        let checkpoint = store
            .as_deref()
            .and_then(|root| fs::read(root.join(CHECKPOINT)).ok())
            .map(|bytes| Checkpoint::decode(&bytes));
        Ok(Self {
            root: store,
            directory,
            size,
            segments,
            empty,
            foreign,
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
        let (_, points) = PointFiles::load(root);
        let is_of = |point: &RecoveryPoint| {
            point.others == others && point.is_of(&names, self.size, protection)
        };
        points.into_iter().find(is_of)
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

/// The segment size: as given, or as the files have it.
fn segment_size(
    directory: &Path,
    files: &[Listed],
    given: Option<SegmentSize>,
) -> Result<SegmentSize, SurveyError> {
    let likely = likely_size(files);
    if let (Some(given), Some(likely)) = (given, likely) {
        let has = |size: SegmentSize| files.iter().filter(move |file| file.len == size.bytes());
        // A single file may be the one that was cut.
        if has(given).next().is_none() && has(likely).count() > 1 {
            let (given, likely) = (given.bytes(), likely.bytes());
            let path = directory.to_owned();
            return Err(SurveyError::OtherSegmentSize { path, given, likely });
        }
    }
    match (given.or(likely), files.first()) {
        (Some(size), _) => Ok(size),
        (None, None) => Ok(SegmentSize::ROCKETMQ_DEFAULT),
        (None, Some(first)) => {
            Err(SurveyError::SegmentSize { path: first.path.clone(), found: first.len })
        }
    }
}

/// The length that most files have, of those that can be a segment size; the earliest file's of
/// several. Where no file has such a length, the smallest distance between two.
fn likely_size(files: &[Listed]) -> Option<SegmentSize> {
    let mut counts: BTreeMap<u64, (usize, SegmentSize)> = BTreeMap::new();
    let mut best: Option<(usize, SegmentSize)> = None;
    for file in files {
        let possible =
            SegmentSize::new(file.len).ok().filter(|size| size.position_of(file.start) == 0);
        if let Some(size) = possible {
            counts.entry(file.len).or_insert((0, size)).0 += 1;
        }
    }
    for file in files {
        if let Some(found) = counts.get(&file.len)
            && best.is_none_or(|best| best.0 < found.0)
        {
            best = Some(*found);
        }
    }
    let distances = files.iter().zip(files.iter().skip(1)).map(|(a, b)| b.start.since(a.start));
    let by_distance = || distances.min().and_then(|bytes| SegmentSize::new(bytes).ok());
    best.map(|best| best.1).or_else(by_distance)
}
