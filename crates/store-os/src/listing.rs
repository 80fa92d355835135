//! Which files are a log's segments.

use std::path::{Path, PathBuf};

use store_core::{LogOffset, SegmentName};

use crate::error::{Error, Op, OpenError};
use crate::options::LogOptions;

/// The segments by their first offset, and last ones without a byte: what a crash leaves between
/// creating a file and giving it its length.
pub(crate) fn list(directory: &Path, options: &LogOptions) -> Result<Listed, OpenError> {
    let listing = |error: &std::io::Error| Error::from_std(Op::List, directory, error);
    let mut names = Vec::new();
    for entry in std::fs::read_dir(directory).map_err(|error| listing(&error))? {
        let entry = entry.map_err(|error| listing(&error))?;
        let path = entry.path();
        let kind = entry.file_type().map_err(|error| listing(&error))?;
        let start = entry.file_name().to_str().and_then(SegmentName::parse);
        let ends = start.and_then(|start| start.checked_add(options.segment_size.bytes()));
        match start {
            Some(start) if kind.is_file() && ends.is_some() => names.push((start, path)),
            None if kind.is_dir() => {}
            _ => return Err(OpenError::UnknownFile { path }),
        }
    }
    names.sort_unstable();
    let expected = options.segment_size.bytes();
    let mut lengths: Vec<u64> =
        names.iter().map(|(_, path)| length(path)).collect::<Result<_, _>>()?;
    let mut empty = Vec::new();
    while let Some((_, path)) = names.pop_if(|_| lengths.pop_if(|last| *last == 0).is_some()) {
        empty.push(path);
    }
    for ((_, path), found) in names.iter().zip(lengths) {
        if found != expected {
            return Err(OpenError::WrongLength { path: path.clone(), found, expected });
        }
    }
    for (earlier, later) in names.iter().zip(names.iter().skip(1)) {
        let next = LogOffset::new(earlier.0.get().saturating_add(expected));
        if later.0 != next {
            let path = directory.join(SegmentName::new(next).as_str());
            return Err(OpenError::MissingSegment { path });
        }
    }
    match names.first() {
        Some((start, path)) if options.segment_size.position_of(*start) != 0 => {
            Err(OpenError::UnknownFile { path: path.clone() })
        }
        _ => Ok((names, empty)),
    }
}

/// Segments by their first offset, and empty files behind them, the last one first.
pub(crate) type Listed = (Vec<(LogOffset, PathBuf)>, Vec<PathBuf>);

fn length(path: &Path) -> Result<u64, Error> {
    std::fs::metadata(path)
        .map(|found| found.len())
        .map_err(|error| Error::from_std(Op::Open, path, &error))
}
