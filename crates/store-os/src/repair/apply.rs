//! Doing what a plan says, in place or to a copy.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{Mode, OFlags, open};

use super::fill::Contents;
use super::plan::WIDEST_GAP;
use super::{Fill, FillWith, RepairError, RepairPlan, RepairReport, RepairStep};
use crate::directory::{Directory, SEGMENTS, sync_directory};
use crate::error::{Error, Op, OpenError};
use crate::set_aside::set_aside_directory;
use crate::survey::{Listed, Listing, SegmentFile, Stamp, SurveyError};
use crate::walk::behind;

pub(super) fn in_place(plan: &RepairPlan) -> Result<RepairReport, RepairError> {
    refuse_wide_gaps(plan)?;
    let directory = plan.listing.directory.as_path();
    let Some(root) = plan.listing.root.as_deref() else {
        return Err(RepairError::NotAStore { path: directory.to_owned() });
    };
    let _owned = Directory::own(root).map_err(|error| match error {
        OpenError::Locked { path } => RepairError::Locked { path },
        OpenError::System(error) => RepairError::System(error),
        _ => RepairError::NotAStore { path: root.to_owned() },
    })?;
    refuse_changes(plan)?;
    let mut report = RepairReport { lost: plan.lost.clone(), ..RepairReport::default() };
    if plan.steps.is_empty() {
        return Ok(report);
    }
    let aside = Aside::make(directory)?;
    for step in &plan.steps {
        match step {
            RepairStep::Insert { path, start } => {
                let contents = Contents { source: None, ..contents(plan, *start, &[]) };
                aside.put_in_place(&contents, path, None)?;
                report.written.push(path.clone());
            }
            RepairStep::Replace { path, start, fills } => {
                let source = SegmentFile::open(path, *start, plan.listing.size)?;
                let contents = Contents { source: Some(&source), ..contents(plan, *start, fills) };
                let kept = aside.put_in_place(&contents, path, Some(path))?;
                report.written.push(path.clone());
                report.set_aside.extend(kept.map(|kept| (path.clone(), kept)));
            }
            RepairStep::SetAside { path } => {
                let kept = aside.take(path)?;
                report.set_aside.push((path.clone(), kept));
            }
        }
    }
    Ok(report)
}

pub(super) fn copy_to(plan: &RepairPlan, to: &Path) -> Result<RepairReport, RepairError> {
    refuse_wide_gaps(plan)?;
    let to = &std::path::absolute(to).map_err(|error| Error::from_std(Op::Open, to, &error))?;
    let directory = to.join(SEGMENTS);
    let is_empty = match fs::read_dir(to) {
        Ok(mut entries) => entries.next().is_none(),
        Err(error) => error.kind() == ErrorKind::NotFound,
    };
    if !is_empty || to.starts_with(&plan.listing.directory) {
        return Err(RepairError::Target { path: to.clone() });
    }
    fs::create_dir_all(&directory)
        .map_err(|error| Error::from_std(Op::Create, &directory, &error))?;
    let mut report = RepairReport { lost: plan.lost.clone(), ..RepairReport::default() };
    for (index, listed) in plan.listing.segments.iter().enumerate() {
        if let Some(fills) = copied(plan, index, listed) {
            let source = SegmentFile::open(&listed.path, listed.start, plan.listing.size)?;
            let contents =
                Contents { source: Some(&source), ..contents(plan, listed.start, &fills) };
            let path = directory.join(listed.path.file_name().unwrap_or_default());
            write_new(&contents, &path, true)?;
            report.written.push(path);
        }
    }
    for step in &plan.steps {
        if let RepairStep::Insert { path, start } = step {
            let contents = Contents { source: None, ..contents(plan, *start, &[]) };
            let path = directory.join(path.file_name().unwrap_or_default());
            write_new(&contents, &path, true)?;
            report.written.push(path);
        }
    }
    report.written.sort();
    for made in [&directory, to] {
        sync_directory(made)?;
    }
    if let Some(parent) = to.parent() {
        sync_directory(parent)?;
    }
    Ok(report)
}

/// What a copied segment gets besides its own bytes; `None` if it is not copied. What an owner may
/// have appended since the survey is left out.
fn copied(plan: &RepairPlan, index: usize, listed: &Listed) -> Option<Vec<Fill>> {
    let end = plan.survey.end;
    let segment_end = behind(listed.start, plan.listing.size.bytes());
    if index > 0 && end <= listed.start {
        return None;
    }
    let mut fills = Vec::new();
    for step in &plan.steps {
        match step {
            RepairStep::Replace { path, fills: found, .. } if *path == listed.path => {
                fills.clone_from(found);
            }
            RepairStep::SetAside { path } if *path == listed.path => return None,
            _ => {}
        }
    }
    if end < segment_end && fills.last().is_none_or(|fill| fill.to < segment_end) {
        fills.push(Fill { from: end, to: segment_end, with: FillWith::Zeroes });
    }
    Some(fills)
}

fn contents<'a>(
    plan: &RepairPlan,
    start: store_core::LogOffset,
    fills: &'a [Fill],
) -> Contents<'a> {
    let (size, protection) = (plan.listing.size, plan.protection);
    Contents { start, size, protection, source: None, fills }
}

fn refuse_wide_gaps(plan: &RepairPlan) -> Result<(), RepairError> {
    let widest = WIDEST_GAP * plan.listing.size.bytes();
    match plan.gaps.iter().find(|gap| gap.has_records_behind && widest < gap.to.since(gap.from)) {
        Some(gap) => Err(RepairError::GapTooWide { from: gap.from, to: gap.to }),
        None => Ok(()),
    }
}

/// Makes sure, under the lock, that the store is as it was surveyed.
fn refuse_changes(plan: &RepairPlan) -> Result<(), RepairError> {
    let old = &plan.listing;
    let changed = |path: &Path| Err(RepairError::Changed { path: path.to_owned() });
    if plan.survey.locked {
        return changed(&old.directory);
    }
    let new = match Listing::read(&old.directory, Some(old.size)) {
        Ok(new) => new,
        Err(SurveyError::System(error)) => return Err(error.into()),
        Err(_) => return changed(&old.directory),
    };
    if old.abort_stamp != new.abort_stamp || old.foreign != new.foreign {
        return changed(&old.directory);
    }
    let files = |listing: &Listing| -> Vec<(PathBuf, Stamp)> {
        let all = listing.segments.iter().chain(&listing.empty);
        all.map(|file| (file.path.clone(), file.stamp)).collect()
    };
    let (old_files, new_files) = (files(old), files(&new));
    match old_files.iter().zip(&new_files).find(|(old, new)| old != new) {
        Some((old, _)) => changed(&old.0),
        None if old_files.len() != new_files.len() => changed(&old.directory),
        None => Ok(()),
    }
}

/// The directory of what was set aside, in that of the segments: RocketMQ passes over directories
/// there, and refuses files it does not know.
struct Aside<'a> {
    segments: &'a Path,
    path: PathBuf,
}

impl<'a> Aside<'a> {
    fn make(segments: &'a Path) -> Result<Self, Error> {
        let path = set_aside_directory(segments)?;
        Ok(Self { segments, path })
    }

    /// Writes a segment beside, sets the original aside by a second name for it, and renames the
    /// new one over the first name. Gives the original's second name.
    fn put_in_place(
        &self,
        contents: &Contents<'_>,
        path: &Path,
        original: Option<&Path>,
    ) -> Result<Option<PathBuf>, RepairError> {
        let new = self.path.join(format!("{}.new", name_of(path)));
        write_new(contents, &new, false)?;
        keep_owner(&new, original.unwrap_or(self.segments), original.is_some())?;
        contents.verify(&new)?;
        let kept = original.map(|original| self.link(original)).transpose()?;
        sync_directory(&self.path)?;
        fs::rename(&new, path).map_err(|error| Error::from_std(Op::Rename, path, &error))?;
        sync_directory(self.segments)?;
        sync_directory(&self.path)?;
        Ok(kept)
    }

    /// Gives a file a second name here; one that it has from an interrupted repair will do.
    fn link(&self, original: &Path) -> Result<PathBuf, Error> {
        let failed = |error: &std::io::Error| Error::from_std(Op::Link, original, error);
        let stamp = Stamp::new(&fs::metadata(original).map_err(|error| failed(&error))?);
        for kept in self.names(original) {
            match fs::hard_link(original, &kept) {
                Ok(()) => return Ok(kept),
                Err(error) if error.kind() == ErrorKind::AlreadyExists => {
                    let found = fs::symlink_metadata(&kept).map_err(|error| failed(&error))?;
                    if Stamp::new(&found).is_same_file(&stamp) {
                        return Ok(kept);
                    }
                }
                Err(error) => return Err(failed(&error)),
            }
        }
        unreachable!("there are more names than files")
    }

    /// Moves a file here.
    fn take(&self, path: &Path) -> Result<PathBuf, Error> {
        let is_free = |kept: &PathBuf| fs::symlink_metadata(kept).is_err();
        let kept = self.names(path).find(is_free).expect("there are more names than files");
        fs::rename(path, &kept).map_err(|error| Error::from_std(Op::Rename, path, &error))?;
        // Here first: a crash in between leaves both names rather than none.
        sync_directory(&self.path)?;
        sync_directory(self.segments)?;
        Ok(kept)
    }

    fn names(&self, path: &Path) -> impl Iterator<Item = PathBuf> {
        let (directory, name) = (self.path.clone(), name_of(path));
        (1_u64..).map(move |number| directory.join(format!("{name}.damaged-{number}")))
    }
}

fn name_of(path: &Path) -> String {
    path.file_name().map(|name| name.to_string_lossy().into_owned()).unwrap_or_default()
}

/// Writes a segment to a file of its own; one that is there is overwritten unless it `must_be_new`.
fn write_new(contents: &Contents<'_>, path: &Path, must_be_new: bool) -> Result<(), RepairError> {
    let fate = if must_be_new { OFlags::EXCL } else { OFlags::TRUNC };
    let flags = OFlags::RDWR | OFlags::CREATE | OFlags::CLOEXEC | OFlags::NOFOLLOW | fate;
    let file = open(path, flags, Mode::from_raw_mode(0o644))
        .map_err(|errno| Error::new(Op::Create, path, errno))?;
    contents.write(&File::from(file), path)
}

/// Gives a new segment the owner, and of a segment the mode, of `original`: whoever runs the store
/// must be able to open it when somebody else repaired it.
fn keep_owner(new: &Path, original: &Path, has_mode: bool) -> Result<(), Error> {
    let failed = |error: &std::io::Error| Error::from_std(Op::Create, new, error);
    let wanted = fs::metadata(original).map_err(|error| failed(&error))?;
    let file = File::open(new).map_err(|error| failed(&error))?;
    let found = file.metadata().map_err(|error| failed(&error))?;
    if (wanted.uid(), wanted.gid()) != (found.uid(), found.gid()) {
        fchown(&file, Some(wanted.uid()), Some(wanted.gid())).map_err(|error| failed(&error))?;
    }
    if has_mode {
        file.set_permissions(wanted.permissions()).map_err(|error| failed(&error))?;
    }
    file.sync_all().map_err(|error| failed(&error))
}
