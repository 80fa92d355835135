//! Which files are a log's segments.

use std::path::{Path, PathBuf};

use store_core::{LogOffset, SegmentName};

use crate::error::{Error, Op, OpenError};
use crate::files::{Entry, Kind};
use crate::options::LogOptions;

/// The segments by their first offset, and last ones without a byte: what a crash leaves between
/// creating a file and giving it its length.
pub(crate) fn list(directory: &Path, options: &LogOptions) -> Result<Listed, OpenError> {
    let listing = |error: &std::io::Error| Error::from_std(Op::List, directory, error);
    let mut names = Vec::new();
    for Entry { name, kind } in options.files().list(directory).map_err(|error| listing(&error))? {
        let path = directory.join(&name);
        let start = name.to_str().and_then(SegmentName::parse);
        let ends = start.and_then(|start| start.checked_add(options.segment_size.bytes()));
        match (start, kind) {
            (Some(start), Kind::File { len }) if ends.is_some() => names.push((start, path, len)),
            (None, Kind::Directory) => {}
            _ => return Err(OpenError::UnknownFile { path }),
        }
    }
    names.sort_unstable();
    let expected = options.segment_size.bytes();
    let mut empty = Vec::new();
    while let Some((_, path, _)) = names.pop_if(|(_, _, len)| *len == 0) {
        empty.push(path);
    }
    if let Some((_, path, found)) = names.iter().find(|(_, _, found)| *found != expected) {
        return Err(OpenError::WrongLength { path: path.clone(), found: *found, expected });
    }
    let names: Vec<_> = names.into_iter().map(|(start, path, _)| (start, path)).collect();
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
