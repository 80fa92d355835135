//! Keeping bytes that leave the log: in a directory of their own, which RocketMQ passes over.

use std::path::{Path, PathBuf};
use std::sync::Arc;

use store_core::{LogOffset, SegmentName, length_u64};

use crate::directory::sync_directory_of;
use crate::error::{Error, Op};
use crate::files::{Files, LogFile};
use crate::segment::Segment;
use crate::walk::behind;

/// The directory for what is set aside, made if it is missing.
///
/// Beside the segments, so that it is on their file system; a directory there is skipped when a
/// store is loaded, while a file of another name would make RocketMQ refuse it.
pub(crate) fn set_aside_directory(files: &dyn Files, segments: &Path) -> Result<PathBuf, Error> {
    let directory = segments.join(SET_ASIDE);
    files
        .make_directories(&directory)
        .map_err(|error| Error::from_std(Op::Create, &directory, &error))?;
    sync_directory_of(files, segments)?;
    Ok(directory)
}

/// Copies `from..to` of a segment durably to a file of its own, named by segment and place.
pub(crate) fn set_aside_range(
    files: &dyn Files,
    segments: &Path,
    segment: &Segment,
    from: LogOffset,
    to: LogOffset,
) -> Result<PathBuf, Error> {
    let directory = set_aside_directory(files, segments)?;
    let name = SegmentName::new(segment.start);
    let (path, file) = create_new(files, &directory, &format!("{}.cut-{from}", name.as_str()))?;
    let copied = copy(segment, from, to, &path, &*file);
    if copied.is_err() {
        // Nothing was cut; a part of a copy is of no use to anybody.
        let _ = files.remove(&path);
    }
    copied?;
    sync_directory_of(files, &directory)?;
    Ok(path)
}

fn copy(
    segment: &Segment,
    from: LogOffset,
    to: LogOffset,
    path: &Path,
    file: &dyn LogFile,
) -> Result<(), Error> {
    let failed = |error: &std::io::Error| Error::from_std(Op::Write, path, error);
    let mut buffer = vec![0; WINDOW];
    let mut at = from;
    while at < to {
        let len = usize::try_from(to.since(at)).unwrap_or(WINDOW).min(WINDOW);
        segment.read(&mut buffer[..len], at)?;
        file.write_all_at(&buffer[..len], at.since(from)).map_err(|error| failed(&error))?;
        at = behind(at, length_u64(len));
    }
    file.sync_all().map_err(|error| failed(&error))
}

/// A new file of this name, or of this name and a number.
fn create_new(
    files: &dyn Files,
    directory: &Path,
    name: &str,
) -> Result<(PathBuf, Arc<dyn LogFile>), Error> {
    let mut number = 0;
    loop {
        let path = match number {
            0 => directory.join(name),
            _ => directory.join(format!("{name}.{number}")),
        };
        match files.create_new(&path) {
            Ok(file) => return Ok((path, file)),
            Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => number += 1,
            Err(error) => return Err(Error::from_std(Op::Create, &path, &error)),
        }
    }
}

/// The name of the directory for what is set aside.
pub(crate) const SET_ASIDE: &str = "set-aside";
const WINDOW: usize = 1 << 20;
