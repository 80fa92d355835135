//! Files that are as durable as POSIX promises, and no more.
//!
//! A [`Disk`] is told [`Change`]s, which a journal keeps in their order, and gives at any time a
//! state that a power cut may leave. Of a file's bytes each unit of 512 survives in one of its
//! versions since a sync of the file covered it; so does the file's length; a name survives as it
//! was at the last sync of its directory, or as any change since made it. Nothing of this depends
//! on another.

use std::collections::BTreeMap;
use std::ops::Range;
use std::sync::Arc;

use store_core::length_u64;

use super::image::{pieces_of, place};
use super::versions::{Choice, Keep, Versions};
use crate::random::Random;

/// Bytes that a power cut does not tear.
pub const SECTOR: u64 = 512;
const SECTOR_LEN: usize = 512;
/// What a page cache makes dirty, writes back and drops as one.
const PAGE: u64 = 4096;

/// A file or directory, by its number; never used again.
#[derive(Clone, Copy, Debug, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Object(usize);

impl Object {
    /// Its number: small, and different from every other's of the same disk.
    pub fn number(self) -> usize {
        self.0
    }
}

/// The directory above all, which is always there.
pub const ROOT: Object = Object(0);

/// What a file system was told, or what came over it.
#[derive(Clone, Debug, Eq, Hash, PartialEq)]
pub enum Change {
    /// A new directory got a name.
    CreateDirectory {
        /// Where.
        directory: Object,
        /// Under which name.
        name: Box<str>,
    },
    /// A new file, without a byte, got a name.
    CreateFile {
        /// Where.
        directory: Object,
        /// Under which name.
        name: Box<str>,
    },
    /// The page cache forgot a file's clean pages. What was lost is now seen as the device has it.
    Forget {
        /// Whose.
        file: Object,
        /// Which of the versions of what was lost the device has.
        seed: u64,
    },
    /// Writing back what was dirty failed. Nobody was told yet: the next sync of the file fails.
    Lost {
        /// Whose.
        file: Object,
        /// Which bytes; whole pages count.
        bytes: Range<u64>,
    },
    /// A name was removed. Who has the file open still has it.
    Remove {
        /// Where.
        directory: Object,
        /// Which.
        name: Box<str>,
    },
    /// A name was replaced by another.
    Rename {
        /// Where it was, and how it was called.
        from: (Object, Box<str>),
        /// Where it is, and how it is called.
        to: (Object, Box<str>),
    },
    /// The file got another length; what it gained is zero.
    SetLength {
        /// Whose.
        file: Object,
        /// Its length in bytes.
        len: u64,
    },
    /// A sync of a directory ended.
    SyncDirectory {
        /// Of which.
        directory: Object,
    },
    /// A sync of a file ended.
    SyncFile {
        /// Of which.
        file: Object,
        /// Which bytes; whole pages count.
        bytes: Range<u64>,
        /// It covers the changes up to this number: those before it was issued.
        issued: u64,
        /// Whether it failed. Then what it covered is lost.
        failed: bool,
    },
    /// Bytes were stored in the file, also through a mapping.
    Write {
        /// In which.
        file: Object,
        /// Where.
        at: u64,
        /// What.
        bytes: Box<[u8]>,
    },
}

impl Change {
    /// Whether it takes something from its way to the disk that the running system still sees.
    pub fn is_loss(&self) -> bool {
        matches!(self, Self::Lost { .. } | Self::SyncFile { failed: true, .. })
    }
}

/// What a disk holds, and what a power cut may leave of it. Cheap to clone.
#[derive(Clone, Debug)]
pub struct Disk {
    objects: Vec<Node>,
    changes: u64,
}

#[derive(Clone, Debug)]
enum Node {
    Directory(BTreeMap<Box<str>, Versions<Option<Object>>>),
    File(Box<FileNode>),
}

#[derive(Clone, Debug, Default)]
struct FileNode {
    /// What the running system sees.
    live: Arc<Vec<u8>>,
    /// What of it is durable; zeroes beyond its end.
    durable: Arc<Vec<u8>>,
    len: Option<Versions<u64>>,
    durable_len: u64,
    /// The sectors that are not durable, by their number in the file.
    dirty: BTreeMap<u64, Versions<Sector>>,
    /// Whether something was ever lost.
    has_lost: bool,
    /// Whether the next sync reports an error.
    owes_error: bool,
}

type Sector = Arc<[u8; SECTOR_LEN]>;

/// What a name stands for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Found {
    /// A directory.
    Directory(Object),
    /// A file of this length.
    File(Object, u64),
}

impl Default for Disk {
    fn default() -> Self {
        Self { objects: vec![Node::Directory(BTreeMap::new())], changes: 0 }
    }
}

impl Disk {
    /// The number of changes so far: what a sync that is issued now covers.
    pub fn changes(&self) -> u64 {
        self.changes
    }

    /// What `name` stands for in `directory` now.
    pub fn find(&self, directory: Object, name: &str) -> Option<Found> {
        let object = (*self.names(directory).get(name)?.latest())?;
        Some(self.found(object))
    }

    /// What has this number, named or not.
    pub fn numbered(&self, number: usize) -> Option<Found> {
        (number < self.objects.len()).then(|| self.found(Object(number)))
    }

    /// The names in `directory` now.
    pub fn list(&self, directory: Object) -> impl Iterator<Item = (&str, Found)> {
        let names = self.names(directory).iter();
        names.filter_map(|(name, at)| Some((&**name, self.found((*at.latest())?))))
    }

    /// What the running system sees of a file.
    pub fn bytes(&self, file: Object) -> &[u8] {
        &self.file(file).live
    }

    /// Whether the next sync of the file fails because of what was lost.
    pub fn owes_error(&self, file: Object) -> bool {
        self.file(file).owes_error
    }

    /// Whether writing back something of the file has ever failed.
    pub fn has_lost(&self, file: Object) -> bool {
        self.file(file).has_lost
    }

    /// The files that have bytes which are not durable, and could be lost by a failure to write
    /// them back.
    pub fn dirty_files(&self) -> impl Iterator<Item = Object> {
        let dirty = self.objects.iter().enumerate().filter(|(_, node)| match node {
            Node::Directory(_) => false,
            Node::File(node) => node.dirty.values().any(|versions| !versions.is_lost()),
        });
        dirty.map(|(index, _)| Object(index))
    }

    fn found(&self, object: Object) -> Found {
        match &self.objects[object.0] {
            Node::Directory(_) => Found::Directory(object),
            Node::File(node) => Found::File(object, length_u64(node.live.len())),
        }
    }

    fn names(&self, directory: Object) -> &BTreeMap<Box<str>, Versions<Option<Object>>> {
        match &self.objects[directory.0] {
            Node::Directory(names) => names,
            Node::File(_) => panic!("{directory:?} is a file"),
        }
    }

    fn file(&self, file: Object) -> &FileNode {
        match &self.objects[file.0] {
            Node::Directory(_) => panic!("{file:?} is a directory"),
            Node::File(node) => node,
        }
    }

    fn file_mut(&mut self, file: Object) -> &mut FileNode {
        match &mut self.objects[file.0] {
            Node::Directory(_) => panic!("{file:?} is a directory"),
            Node::File(node) => node,
        }
    }

    /// Makes a change.
    ///
    /// # Panics
    ///
    /// If it names what is not there.
    pub fn apply(&mut self, change: &Change) {
        self.changes += 1;
        let now = self.changes;
        match change {
            Change::CreateDirectory { directory, name } => {
                self.create(*directory, name, Node::Directory(BTreeMap::new()));
            }
            Change::CreateFile { directory, name } => {
                self.create(*directory, name, Node::File(Box::default()));
            }
            Change::Forget { file, seed } => self.file_mut(*file).forget(*seed),
            Change::Lost { file, bytes } => self.file_mut(*file).lose(bytes, now, true),
            Change::Remove { directory, name } => self.set_name(*directory, name, None),
            Change::Rename { from, to } => {
                let object = self.names(from.0)[&from.1].latest().expect("a name that is there");
                self.set_name(to.0, &to.1, Some(object));
                self.set_name(from.0, &from.1, None);
            }
            Change::SetLength { file, len } => self.file_mut(*file).set_len(*len, now),
            Change::SyncDirectory { directory } => {
                if let Node::Directory(names) = &mut self.objects[directory.0] {
                    for name in names.values_mut() {
                        name.settle(now);
                    }
                }
            }
            Change::SyncFile { file, bytes, issued, failed: false } => {
                self.file_mut(*file).sync(bytes, *issued);
            }
            Change::SyncFile { file, bytes, issued, failed: true } => {
                self.file_mut(*file).lose(bytes, *issued, false);
            }
            Change::Write { file, at, bytes } => self.file_mut(*file).write(*at, bytes, now),
        }
    }

    fn create(&mut self, directory: Object, name: &str, node: Node) {
        let object = Object(self.objects.len());
        self.objects.push(node);
        self.set_name(directory, name, Some(object));
    }

    fn set_name(&mut self, directory: Object, name: &str, object: Option<Object>) {
        let now = self.changes;
        match &mut self.objects[directory.0] {
            Node::Directory(names) => match names.get_mut(name) {
                Some(versions) => versions.push(now, object),
                None => names.entry(name.into()).or_insert(Versions::new(None)).push(now, object),
            },
            Node::File(_) => panic!("{directory:?} is a file"),
        }
    }

    /// A state that a power cut may leave now, of which all is durable. The same `seed` gives the
    /// same again.
    #[must_use]
    pub fn cut(&self, keep: Keep, seed: u64) -> Self {
        let mut choice = Choice::new(keep, seed, self.objects.iter().flat_map(numbers));
        let objects = self.objects.iter().map(|node| match node {
            Node::Directory(names) => {
                let kept = names.iter().filter_map(|(name, versions)| {
                    let object = choose(&mut choice, versions);
                    Some((name.clone(), Versions::new(Some((*object)?))))
                });
                Node::Directory(kept.collect())
            }
            Node::File(file) => Node::File(Box::new(file.cut(&mut choice))),
        });
        let mut disk = Self { objects: objects.collect(), changes: 0 };
        disk.drop_unnamed();
        disk
    }

    /// Forgets the bytes of files that no name leads to.
    fn drop_unnamed(&mut self) {
        let mut named = vec![false; self.objects.len()];
        let mut waiting = vec![ROOT];
        while let Some(object) = waiting.pop() {
            named[object.0] = true;
            if let Node::Directory(names) = &self.objects[object.0] {
                waiting.extend(names.values().filter_map(|name| *name.latest()));
            }
        }
        for (node, _) in self.objects.iter_mut().zip(named).filter(|(_, named)| !named) {
            *node = Node::Directory(BTreeMap::new());
        }
    }
}

/// The changes' numbers of all that changed in a node, in the order in which it is cut.
fn numbers(node: &Node) -> impl Iterator<Item = &[u64]> + Clone {
    let (names, file) = match node {
        Node::Directory(names) => (Some(names), None),
        Node::File(file) => (None, Some(file)),
    };
    let names = names.into_iter().flat_map(|names| names.values().map(Versions::numbers));
    let len = file.into_iter().flat_map(|file| file.len.iter().map(Versions::numbers));
    let sectors = file.into_iter().flat_map(|file| file.dirty.values().map(Versions::numbers));
    names.chain(len).chain(sectors).filter(|numbers| !numbers.is_empty())
}

fn choose<'a, T>(choice: &mut Choice, versions: &'a Versions<T>) -> &'a T {
    if versions.is_settled() { versions.durable() } else { choice.pick(versions) }
}

impl FileNode {
    fn write(&mut self, at: u64, bytes: &[u8], now: u64) {
        let end = at + length_u64(bytes.len());
        if length_u64(self.live.len()) < end {
            self.change_len(end, now);
        }
        let live = Arc::make_mut(&mut self.live);
        live[place(at)..place(end)].copy_from_slice(bytes);
        for (sector, _, _) in pieces_of::<SECTOR_LEN>(at, bytes) {
            self.touch(sector, now);
        }
        if self.has_lost {
            // What stands beside it in a page becomes dirty again with it.
            let pages = pages(&(at..end));
            for (_, versions) in self.dirty.range_mut(pages) {
                if versions.is_lost() {
                    versions.push(now, Arc::clone(versions.latest()));
                }
            }
        }
    }

    /// The sector's bytes have changed.
    fn touch(&mut self, sector: u64, now: u64) {
        let value = sector_of(&self.live, sector);
        let durable = &self.durable;
        let versions = self.dirty.entry(sector);
        versions.or_insert_with(|| Versions::new(sector_of(durable, sector))).push(now, value);
    }

    fn set_len(&mut self, len: u64, now: u64) {
        let before = length_u64(self.live.len());
        if len == before {
            return;
        }
        self.change_len(len, now);
        // What a longer file shows again there is zero.
        for sector in len / SECTOR..before.div_ceil(SECTOR) {
            self.touch(sector, now);
        }
    }

    fn change_len(&mut self, len: u64, now: u64) {
        Arc::make_mut(&mut self.live).resize(place(len), 0);
        self.len.get_or_insert(Versions::new(self.durable_len)).push(now, len);
    }

    fn sync(&mut self, bytes: &Range<u64>, issued: u64) {
        self.owes_error = false;
        if let Some(len) = &mut self.len {
            len.settle(issued);
            self.durable_len = *len.durable();
            self.len = self.len.take().filter(|len| !len.is_settled());
        }
        let durable = &mut self.durable;
        let mut settled = Vec::new();
        for (sector, versions) in self.dirty.range_mut(pages(bytes)) {
            if versions.settle(issued) {
                store(durable, *sector, versions.durable());
                if versions.is_settled() {
                    settled.push(*sector);
                }
            }
        }
        if settled.len() == self.dirty.len() {
            self.dirty.clear();
        } else {
            for sector in settled {
                self.dirty.remove(&sector);
            }
        }
    }

    fn lose(&mut self, bytes: &Range<u64>, upto: u64, owes_error: bool) {
        self.owes_error = owes_error;
        self.has_lost = true;
        for (_, versions) in self.dirty.range_mut(pages(bytes)) {
            versions.lose(upto);
        }
    }

    fn forget(&mut self, seed: u64) {
        if !self.has_lost {
            return;
        }
        let mut random = Random::new(seed);
        let mut decided = Vec::new();
        for (sector, versions) in &mut self.dirty {
            if versions.is_lost() {
                versions.decide(random.index(versions.count()));
                store(&mut self.durable, *sector, versions.durable());
                let live = Arc::make_mut(&mut self.live);
                let at = place(sector * SECTOR);
                let len = SECTOR_LEN.min(live.len() - at.min(live.len()));
                live[at..at + len].copy_from_slice(&versions.durable()[..len]);
                decided.push(*sector);
            }
        }
        for sector in decided {
            self.dirty.remove(&sector);
        }
    }

    fn cut(&self, choice: &mut Choice) -> Self {
        let len = self.len.as_ref().map_or(self.durable_len, |len| *choose(choice, len));
        let mut bytes = Arc::clone(&self.durable);
        for (sector, versions) in &self.dirty {
            let kept = choose(choice, versions);
            if !Arc::ptr_eq(kept, versions.durable()) {
                store(&mut bytes, *sector, kept);
            }
        }
        if length_u64(bytes.len()) != len {
            Arc::make_mut(&mut bytes).resize(place(len), 0);
        }
        let live = Arc::clone(&bytes);
        Self { live, durable: bytes, durable_len: len, ..Self::default() }
    }
}

/// The sectors of the pages that `bytes` touch.
fn pages(bytes: &Range<u64>) -> Range<u64> {
    let sectors = PAGE / SECTOR;
    let end = bytes.end.div_ceil(PAGE).saturating_mul(sectors);
    (bytes.start / PAGE * sectors)..end
}

/// A sector of a file; beyond its end are zeroes.
fn sector_of(bytes: &[u8], sector: u64) -> Sector {
    let at = place(sector * SECTOR);
    if let Some(whole) = bytes.get(at..).and_then(<[u8]>::first_chunk) {
        return Arc::new(*whole);
    }
    let mut whole = [0; SECTOR_LEN];
    let rest = bytes.get(at..).unwrap_or_default();
    whole[..rest.len()].copy_from_slice(rest);
    Arc::new(whole)
}

fn store(bytes: &mut Arc<Vec<u8>>, sector: u64, value: &Sector) {
    let at = place(sector * SECTOR);
    let bytes = Arc::make_mut(bytes);
    if bytes.len() < at + SECTOR_LEN {
        bytes.resize(at + SECTOR_LEN, 0);
    }
    bytes[at..at + SECTOR_LEN].copy_from_slice(&**value);
}

/// A state that a power cut may leave after the first `position` changes of `journal`, which began
/// with what `disk` was then.
pub fn generate(
    mut disk: Disk,
    journal: &[Change],
    position: usize,
    keep: Keep,
    seed: u64,
) -> Disk {
    for change in &journal[..position] {
        disk.apply(change);
    }
    disk.cut(keep, seed)
}

#[cfg(test)]
mod tests;
