//! The trees and what is done to them.

use std::collections::{BTreeMap, BTreeSet};
use std::ops::DerefMut;
use std::sync::{Mutex, PoisonError};
use std::thread;
use std::time::Duration;

use fuser::{Errno, INodeNo};
use store_core::length_u64;

use super::Times;
use super::protocol::{Call, Fault, LIVE, Request};
use crate::device::files::{Change, Disk, Found, Object, ROOT};

/// All trees. An object's number in the mounted file system is that of its tree, above 32 bits of
/// its own.
#[derive(Debug)]
pub(super) struct Trees {
    table: Mutex<Table>,
}

#[derive(Debug)]
struct Table {
    trees: BTreeMap<u64, Tree>,
    next: u64,
}

#[derive(Debug)]
struct Tree {
    name: String,
    disk: Disk,
    /// Files whose name was removed, and who may still be open.
    unnamed: BTreeSet<Object>,
    faults: BTreeMap<Call, Fault>,
    sync_time: Duration,
}

/// An object of the mounted file system.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Node {
    pub(super) number: INodeNo,
    /// Length of a file; `None`: a directory.
    pub(super) len: Option<u64>,
    pub(super) is_named: bool,
}

/// What gets a new name.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) enum New {
    Directory,
    File,
}

impl Default for Trees {
    fn default() -> Self {
        let trees = BTreeMap::from([(FIRST, Tree::new(LIVE.to_owned(), Disk::default()))]);
        Self { table: Mutex::new(Table { trees, next: FIRST + 1 }) }
    }
}

impl Trees {
    fn table(&self) -> impl DerefMut<Target = Table> {
        self.table.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Does what the owner asks; the words of the answer.
    pub(super) fn answer(&self, request: Request) -> Result<String, String> {
        let mut table = self.table();
        match request {
            Request::Cut { tree, keep, seed } => {
                let (_, cut) = table.named(&tree)?;
                let disk = cut.disk.cut(keep, seed);
                let number = table.next;
                table.next += 1;
                let name = format!("cut-{}", number - FIRST);
                table.trees.insert(number, Tree::new(name.clone(), disk));
                return Ok(name);
            }
            Request::Drop { tree } => {
                let (number, _) = table.named(&tree)?;
                table.trees.remove(&number);
            }
            Request::Heal { tree } => table.named(&tree)?.1.faults.clear(),
            Request::Inject { tree, fault } => {
                table.named(&tree)?.1.faults.insert(fault.call, fault);
            }
            Request::SyncTime { tree, time } => table.named(&tree)?.1.sync_time = time,
        }
        Ok(String::new())
    }

    pub(super) fn node(&self, at: INodeNo) -> Result<Node, Errno> {
        if at == INodeNo::ROOT {
            return Ok(Node { number: at, len: None, is_named: true });
        }
        let mut table = self.table();
        let (number, tree, found) = table.at(at)?;
        Ok(tree.node(number, found))
    }

    pub(super) fn lookup(&self, parent: INodeNo, name: &str) -> Result<Node, Errno> {
        let mut table = self.table();
        if parent == INodeNo::ROOT {
            let (number, tree) = table.named(name).map_err(|_| Errno::ENOENT)?;
            return Ok(tree.node(number, Found::Directory(ROOT)));
        }
        let (number, tree, directory) = table.directory(parent)?;
        Ok(tree.node(number, tree.find(directory, name)?))
    }

    /// Names and what they stand for, in the order of their numbers.
    pub(super) fn list(&self, directory: INodeNo) -> Result<Vec<(String, Node)>, Errno> {
        let mut table = self.table();
        if directory == INodeNo::ROOT {
            let of_tree = |(number, tree): (&u64, &Tree)| {
                (tree.name.clone(), tree.node(*number, Found::Directory(ROOT)))
            };
            return Ok(table.trees.iter().map(of_tree).collect());
        }
        let (number, tree, directory) = table.directory(directory)?;
        let names = tree.disk.list(directory);
        let mut names: Vec<_> =
            names.map(|(name, found)| (name.to_owned(), tree.node(number, found))).collect();
        names.sort_unstable_by_key(|(_, node)| node.number.0);
        Ok(names)
    }

    pub(super) fn create(&self, parent: INodeNo, name: &str, new: New) -> Result<Node, Errno> {
        let mut table = self.table();
        let (number, tree, directory) = table.directory(parent)?;
        if tree.disk.find(directory, name).is_some() {
            return Err(Errno::EEXIST);
        }
        let name: Box<str> = name.into();
        tree.disk.apply(&match new {
            New::Directory => Change::CreateDirectory { directory, name: name.clone() },
            New::File => Change::CreateFile { directory, name: name.clone() },
        });
        Ok(tree.node(number, tree.find(directory, &name)?))
    }

    /// Removes a file's name.
    pub(super) fn remove(&self, parent: INodeNo, name: &str) -> Result<(), Errno> {
        let mut table = self.table();
        let (_, tree, directory) = table.directory(parent)?;
        let Found::File(file, _) = tree.find(directory, name)? else {
            return Err(Errno::EISDIR);
        };
        tree.disk.apply(&Change::Remove { directory, name: name.into() });
        tree.unnamed.insert(file);
        Ok(())
    }

    /// Gives a file or directory another name, which may be a file's until then.
    pub(super) fn rename(&self, from: (INodeNo, &str), to: (INodeNo, &str)) -> Result<(), Errno> {
        let mut table = self.table();
        let (number, _, target) = table.directory(to.0)?;
        let (source_number, tree, source) = table.directory(from.0)?;
        if number != source_number {
            return Err(Errno::EXDEV);
        }
        let moved = object(tree.find(source, from.1)?);
        match tree.disk.find(target, to.1) {
            Some(Found::File(file, _)) if file == moved => return Ok(()),
            Some(Found::File(file, _)) => {
                tree.unnamed.insert(file);
            }
            Some(Found::Directory(_)) => return Err(Errno::EEXIST),
            None => {}
        }
        let (from, to) = ((source, from.1.into()), (target, to.1.into()));
        tree.disk.apply(&Change::Rename { from, to });
        Ok(())
    }

    pub(super) fn read(&self, at: INodeNo, offset: u64, len: u32) -> Result<Vec<u8>, Errno> {
        let mut table = self.table();
        let (tree, file, _) = table.file(at)?;
        tree.before(Call::Read)?;
        let bytes = tree.disk.bytes(file);
        let place = |at: u64| usize::try_from(at).unwrap_or(usize::MAX).min(bytes.len());
        Ok(bytes[place(offset)..place(offset.saturating_add(len.into()))].to_vec())
    }

    pub(super) fn write(&self, at: INodeNo, offset: u64, data: &[u8]) -> Result<(), Errno> {
        let mut table = self.table();
        let (tree, file, _) = table.file(at)?;
        tree.before(Call::Write)?;
        within_bounds(offset.saturating_add(length_u64(data.len())))?;
        tree.disk.apply(&Change::Write { file, at: offset, bytes: data.into() });
        Ok(())
    }

    /// Makes a file so long; or, `at_least`, only longer.
    pub(super) fn set_len(&self, at: INodeNo, len: u64, at_least: bool) -> Result<(), Errno> {
        let mut table = self.table();
        let (tree, file, before) = table.file(at)?;
        within_bounds(len)?;
        if !at_least || before < len {
            tree.disk.apply(&Change::SetLength { file, len });
        }
        Ok(())
    }

    /// Covers what came before it was issued.
    pub(super) fn sync_file(&self, at: INodeNo) -> Result<(), Errno> {
        let (issued, time) = {
            let mut table = self.table();
            let (tree, _, _) = table.file(at)?;
            (tree.disk.changes(), tree.sync_time)
        };
        if !time.is_zero() {
            thread::sleep(time);
        }
        let mut table = self.table();
        let (tree, file, _) = table.file(at)?;
        let outcome = tree.before(Call::Sync);
        let failed = outcome.is_err();
        tree.disk.apply(&Change::SyncFile { file, bytes: 0..u64::MAX, issued, failed });
        outcome
    }

    pub(super) fn sync_directory(&self, at: INodeNo) -> Result<(), Errno> {
        if at == INodeNo::ROOT {
            return Ok(());
        }
        let mut table = self.table();
        let (_, tree, directory) = table.directory(at)?;
        tree.before(Call::SyncDirectory)?;
        tree.disk.apply(&Change::SyncDirectory { directory });
        Ok(())
    }
}

impl Table {
    fn named(&mut self, name: &str) -> Result<(u64, &mut Tree), String> {
        let found = self.trees.iter_mut().find(|(_, tree)| tree.name == name);
        found.map(|(number, tree)| (*number, tree)).ok_or_else(|| format!("no tree {name}"))
    }

    /// An object's tree, the tree's number, and what it is.
    fn at(&mut self, at: INodeNo) -> Result<(u64, &mut Tree, Found), Errno> {
        let number = at.0 >> TREE_SHIFT;
        let object = usize::try_from(at.0 & OBJECT_MASK).map_err(|_| Errno::ENOENT)?;
        let tree = self.trees.get_mut(&number).ok_or(Errno::ENOENT)?;
        let found = tree.disk.numbered(object).ok_or(Errno::ENOENT)?;
        Ok((number, tree, found))
    }

    fn directory(&mut self, at: INodeNo) -> Result<(u64, &mut Tree, Object), Errno> {
        match self.at(at)? {
            (number, tree, Found::Directory(directory)) => Ok((number, tree, directory)),
            (_, _, Found::File(..)) => Err(Errno::ENOTDIR),
        }
    }

    /// A file, its tree, and its length.
    fn file(&mut self, at: INodeNo) -> Result<(&mut Tree, Object, u64), Errno> {
        match self.at(at)? {
            (_, tree, Found::File(file, len)) => Ok((tree, file, len)),
            (_, _, Found::Directory(_)) => Err(Errno::EISDIR),
        }
    }
}

impl Tree {
    fn new(name: String, disk: Disk) -> Self {
        let (unnamed, faults) = (BTreeSet::new(), BTreeMap::new());
        Self { name, disk, unnamed, faults, sync_time: Duration::ZERO }
    }

    fn find(&self, directory: Object, name: &str) -> Result<Found, Errno> {
        self.disk.find(directory, name).ok_or(Errno::ENOENT)
    }

    fn node(&self, tree: u64, found: Found) -> Node {
        let len = match found {
            Found::Directory(_) => None,
            Found::File(_, len) => Some(len),
        };
        let object = object(found);
        let number = INodeNo(tree << TREE_SHIFT | length_u64(object.number()));
        Node { number, len, is_named: !self.unnamed.contains(&object) }
    }

    /// Fails a call that a fault is waiting for.
    fn before(&mut self, call: Call) -> Result<(), Errno> {
        let Some(fault) = self.faults.get(&call).copied() else {
            return Ok(());
        };
        if fault.times == Times::Once {
            self.faults.remove(&call);
        }
        Err(Errno::from_i32(fault.errno.raw_os_error()))
    }
}

fn object(found: Found) -> Object {
    match found {
        Found::Directory(object) | Found::File(object, _) => object,
    }
}

/// Files are kept in memory, whole.
fn within_bounds(len: u64) -> Result<(), Errno> {
    if len <= MAX_FILE_BYTES { Ok(()) } else { Err(Errno::EFBIG) }
}

const MAX_FILE_BYTES: u64 = 1 << 30;
/// The live tree's number. The mounted file system's root is object 1 of tree 0, which is none.
const FIRST: u64 = 1;
const TREE_SHIFT: u32 = 32;
const OBJECT_MASK: u64 = (1 << TREE_SHIFT) - 1;
