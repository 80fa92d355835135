//! Doing what a plan says, in place or to a copy.

use std::fs::{self, File};
use std::io::ErrorKind;
use std::os::unix::fs::{MetadataExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{CWD, Mode, OFlags, RenameFlags, link, open, rename, renameat_with, unlink};
use rustix::io::Errno;
use store_core::SegmentName;

use super::fill::Contents;
use super::plan::WIDEST_GAP;
use super::{BadTarget, Fill, FillWith, RepairError, RepairPlan, RepairReport, RepairStep};
use crate::directory::{Directory, SEGMENTS, sync_directory};
use crate::error::{Error, Op, OpenError};
use crate::files::Linux;
use crate::options::Platform;
use crate::set_aside::{SET_ASIDE, set_aside_directory};
use crate::survey::{Listed, Listing, SegmentFile, Stamp, SurveyError};
use crate::walk::behind;

pub(super) fn in_place(plan: &RepairPlan) -> Result<RepairReport, RepairError> {
    refuse_wide_gaps(plan)?;
    refuse_links(plan)?;
    let directory = plan.listing.directory.as_path();
    let Some(root) = plan.listing.root.as_deref() else {
        return Err(RepairError::NotAStore { path: directory.to_owned() });
    };
    let _owned = Directory::own(root, &Platform::default()).map_err(|error| match error {
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
    refuse_links(plan)?;
    let to = &std::path::absolute(to).map_err(|error| Error::from_std(Op::Open, to, &error))?;
    let directory = to.join(SEGMENTS);
    if let Some(reason) = bad_target(plan, to)? {
        return Err(RepairError::Target { path: to.clone(), reason });
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
            if plan.steps.iter().any(|step| replaces(step, &listed.path)) {
                contents.verify(&path)?;
            }
            report.written.push(path);
        }
    }
    for step in &plan.steps {
        if let RepairStep::Insert { path, start } = step {
            let contents = Contents { source: None, ..contents(plan, *start, &[]) };
            let path = directory.join(path.file_name().unwrap_or_default());
            write_new(&contents, &path, true)?;
            contents.verify(&path)?;
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

fn replaces(step: &RepairStep, segment: &Path) -> bool {
    matches!(step, RepairStep::Replace { path, .. } if path == segment)
}

/// Why a copy cannot go to `to`. The store's own places are compared without symbolic links.
fn bad_target(plan: &RepairPlan, to: &Path) -> Result<Option<BadTarget>, Error> {
    let refused = |path: &Path, error: &std::io::Error| Error::from_std(Op::Open, path, error);
    match fs::read_dir(to) {
        Ok(mut entries) => {
            if entries.next().is_some() {
                return Ok(Some(BadTarget::NotEmpty));
            }
        }
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) if error.kind() == ErrorKind::NotADirectory => {
            return Ok(Some(BadTarget::NotADirectory));
        }
        Err(error) => return Err(refused(to, &error)),
    }
    // A link to nothing counts as there, so that what is below it is not taken for its place.
    let there = to.ancestors().find(|place| fs::symlink_metadata(place).is_ok()).unwrap_or(to);
    let there = fs::canonicalize(there).map_err(|error| refused(there, &error))?;
    let listing = &plan.listing;
    for own in listing.root.iter().chain([&listing.directory]) {
        let own = fs::canonicalize(own).map_err(|error| refused(own, &error))?;
        if there.starts_with(own) {
            return Ok(Some(BadTarget::InTheStore));
        }
    }
    Ok(None)
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

/// A link's file may be sound: a blank in its place would lose what it holds.
fn refuse_links(plan: &RepairPlan) -> Result<(), RepairError> {
    match plan.listing.links.first() {
        Some(path) => Err(RepairError::Link { path: path.clone() }),
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
    let strange = |listing: &Listing| (listing.foreign.clone(), listing.links.clone());
    if old.abort_stamp != new.abort_stamp || strange(old) != strange(&new) {
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
    fn make(segments: &'a Path) -> Result<Self, RepairError> {
        let path = segments.join(SET_ASIDE);
        if fs::symlink_metadata(&path).is_ok_and(|found| !found.is_dir()) {
            return Err(RepairError::SetAside { path });
        }
        let path = set_aside_directory(&Linux, segments)?;
        let aside = Self { segments, path };
        aside.sweep()?;
        Ok(aside)
    }

    /// Removes the unfinished segments of an interrupted repair: nothing of theirs was used.
    fn sweep(&self) -> Result<(), Error> {
        let failed = |error: &std::io::Error| Error::from_std(Op::List, &self.path, error);
        for entry in fs::read_dir(&self.path).map_err(|error| failed(&error))? {
            let entry = entry.map_err(|error| failed(&error))?;
            let name = entry.file_name();
            let segment = name.to_str().and_then(|name| name.strip_suffix(NEW));
            let is_file = entry.file_type().map_err(|error| failed(&error))?.is_file();
            if is_file && segment.and_then(SegmentName::parse).is_some() {
                let path = entry.path();
                fs::remove_file(&path)
                    .map_err(|error| Error::from_std(Op::Remove, &path, &error))?;
            }
        }
        Ok(())
    }

    /// Writes a segment beside, sets the original aside by a second name for it, and renames the
    /// new one over the first name. Gives the original's second name.
    fn put_in_place(
        &self,
        contents: &Contents<'_>,
        path: &Path,
        original: Option<&Path>,
    ) -> Result<Option<PathBuf>, RepairError> {
        let new = self.path.join(format!("{}{NEW}", name_of(path)));
        let put = self.write_and_rename(contents, &new, path, original);
        if put.is_err() {
            // It is of no use, and may be what filled the file system.
            let _ = fs::remove_file(&new);
        }
        put
    }

    fn write_and_rename(
        &self,
        contents: &Contents<'_>,
        new: &Path,
        path: &Path,
        original: Option<&Path>,
    ) -> Result<Option<PathBuf>, RepairError> {
        write_new(contents, new, false)?;
        keep_owner(new, original.unwrap_or(self.segments), original.is_some())?;
        contents.verify(new)?;
        let kept = original.map(|original| self.link(original)).transpose()?;
        sync_directory(&self.path)?;
        match original {
            Some(_) => rename(new, path),
            None => rename_to_free(new, path),
        }
        .map_err(|errno| match errno {
            Errno::EXIST => RepairError::Changed { path: path.to_owned() },
            _ => Error::new(Op::Rename, path, errno).into(),
        })?;
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

/// Renames to a name that nothing has; `EXIST` if something has it.
fn rename_to_free(from: &Path, to: &Path) -> Result<(), Errno> {
    match renameat_with(CWD, from, CWD, to, RenameFlags::NOREPLACE) {
        // A file system without such a rename.
        Err(Errno::INVAL | Errno::NOSYS) => {
            link(from, to)?;
            unlink(from)
        }
        renamed => renamed,
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

/// What the name of a segment that is being written ends with.
const NEW: &str = ".new";
