//! The trees as a file system that the kernel asks.

use std::ffi::OsStr;
use std::fmt;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use fuser::{
    BsdFileFlags, Errno, FileAttr, FileHandle, FileType, Filesystem, FopenFlags, Generation,
    INodeNo, LockOwner, OpenFlags, RenameFlags, ReplyAttr, ReplyCreate, ReplyData, ReplyDirectory,
    ReplyEmpty, ReplyEntry, ReplyOpen, ReplyStatfs, ReplyWrite, Request, TimeOrNow, WriteFlags,
};

use super::trees::{New, Node, Trees};

/// All trees, below one root. Locks are the kernel's own.
pub(super) struct Served(pub(super) Arc<Trees>);

impl fmt::Debug for Served {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Served")
    }
}

fn attr(node: Node) -> FileAttr {
    let size = node.len.unwrap_or(0);
    let (kind, perm) = match node.len {
        None => (FileType::Directory, 0o700),
        Some(_) => (FileType::RegularFile, 0o600),
    };
    FileAttr {
        ino: node.number,
        size,
        blocks: size.div_ceil(512),
        atime: UNIX_EPOCH,
        mtime: UNIX_EPOCH,
        ctime: UNIX_EPOCH,
        crtime: UNIX_EPOCH,
        kind,
        perm,
        nlink: u32::from(node.is_named),
        uid: 0,
        gid: 0,
        rdev: 0,
        blksize: 4096,
        flags: 0,
    }
}

/// Names are text here.
fn text(name: &OsStr) -> Result<&str, Errno> {
    name.to_str().ok_or(Errno::EINVAL)
}

fn entry(outcome: Result<Node, Errno>, reply: ReplyEntry) {
    match outcome {
        Ok(node) => reply.entry(&KEPT, &attr(node), Generation(0)),
        Err(errno) => reply.error(errno),
    }
}

fn empty(outcome: Result<(), Errno>, reply: ReplyEmpty) {
    match outcome {
        Ok(()) => reply.ok(),
        Err(errno) => reply.error(errno),
    }
}

impl Filesystem for Served {
    fn lookup(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEntry) {
        entry(text(name).and_then(|name| self.0.lookup(parent, name)), reply);
    }

    fn getattr(&self, _: &Request, at: INodeNo, _: Option<FileHandle>, reply: ReplyAttr) {
        match self.0.node(at) {
            Ok(node) => reply.attr(&KEPT, &attr(node)),
            Err(errno) => reply.error(errno),
        }
    }

    fn setattr(
        &self,
        _: &Request,
        at: INodeNo,
        _: Option<u32>,
        _: Option<u32>,
        _: Option<u32>,
        size: Option<u64>,
        _: Option<TimeOrNow>,
        _: Option<TimeOrNow>,
        _: Option<SystemTime>,
        _: Option<FileHandle>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<SystemTime>,
        _: Option<BsdFileFlags>,
        reply: ReplyAttr,
    ) {
        let resized = size.map_or(Ok(()), |len| self.0.set_len(at, len, false));
        match resized.and_then(|()| self.0.node(at)) {
            Ok(node) => reply.attr(&KEPT, &attr(node)),
            Err(errno) => reply.error(errno),
        }
    }

    fn mkdir(&self, _: &Request, parent: INodeNo, name: &OsStr, _: u32, _: u32, reply: ReplyEntry) {
        entry(text(name).and_then(|name| self.0.create(parent, name, New::Directory)), reply);
    }

    fn unlink(&self, _: &Request, parent: INodeNo, name: &OsStr, reply: ReplyEmpty) {
        empty(text(name).and_then(|name| self.0.remove(parent, name)), reply);
    }

    fn rename(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        new_parent: INodeNo,
        new_name: &OsStr,
        flags: RenameFlags,
        reply: ReplyEmpty,
    ) {
        let renamed = text(name).and_then(|name| {
            let new_name = text(new_name)?;
            if flags.is_empty() {
                self.0.rename((parent, name), (new_parent, new_name))
            } else {
                Err(Errno::EINVAL)
            }
        });
        empty(renamed, reply);
    }

    fn open(&self, _: &Request, at: INodeNo, _: OpenFlags, reply: ReplyOpen) {
        match self.0.node(at) {
            Ok(_) => reply.opened(FileHandle(0), OPENED),
            Err(errno) => reply.error(errno),
        }
    }

    fn create(
        &self,
        _: &Request,
        parent: INodeNo,
        name: &OsStr,
        _: u32,
        _: u32,
        _: i32,
        reply: ReplyCreate,
    ) {
        match text(name).and_then(|name| self.0.create(parent, name, New::File)) {
            Ok(node) => reply.created(&KEPT, &attr(node), Generation(0), FileHandle(0), OPENED),
            Err(errno) => reply.error(errno),
        }
    }

    fn read(
        &self,
        _: &Request,
        at: INodeNo,
        _: FileHandle,
        offset: u64,
        size: u32,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyData,
    ) {
        match self.0.read(at, offset, size) {
            Ok(bytes) => reply.data(&bytes),
            Err(errno) => reply.error(errno),
        }
    }

    fn write(
        &self,
        _: &Request,
        at: INodeNo,
        _: FileHandle,
        offset: u64,
        data: &[u8],
        _: WriteFlags,
        _: OpenFlags,
        _: Option<LockOwner>,
        reply: ReplyWrite,
    ) {
        match self.0.write(at, offset, data) {
            Ok(()) => reply.written(u32::try_from(data.len()).unwrap_or(u32::MAX)),
            Err(errno) => reply.error(errno),
        }
    }

    fn flush(&self, _: &Request, _: INodeNo, _: FileHandle, _: LockOwner, reply: ReplyEmpty) {
        // A close promises nothing.
        reply.ok();
    }

    fn fsync(&self, _: &Request, at: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.0.sync_file(at), reply);
    }

    fn fsyncdir(&self, _: &Request, at: INodeNo, _: FileHandle, _: bool, reply: ReplyEmpty) {
        empty(self.0.sync_directory(at), reply);
    }

    fn readdir(
        &self,
        _: &Request,
        at: INodeNo,
        _: FileHandle,
        offset: u64,
        mut reply: ReplyDirectory,
    ) {
        match self.0.list(at) {
            Ok(names) => {
                for (name, node) in names.iter().filter(|(_, node)| offset < node.number.0) {
                    if reply.add(node.number, node.number.0, attr(*node).kind, name) {
                        break;
                    }
                }
                reply.ok();
            }
            Err(errno) => reply.error(errno),
        }
    }

    fn fallocate(
        &self,
        _: &Request,
        at: INodeNo,
        _: FileHandle,
        offset: u64,
        len: u64,
        mode: i32,
        reply: ReplyEmpty,
    ) {
        let allocated = if mode == 0 {
            self.0.set_len(at, offset.saturating_add(len), true)
        } else {
            Err(Errno::EOPNOTSUPP)
        };
        empty(allocated, reply);
    }

    fn statfs(&self, _: &Request, _: INodeNo, reply: ReplyStatfs) {
        reply.statfs(BLOCKS, BLOCKS, BLOCKS, 0, 0, 4096, 255, 4096);
    }
}

/// The kernel alone changes what is served, so it may keep all that it knows.
const OPENED: FopenFlags = FopenFlags::FOPEN_KEEP_CACHE.union(FopenFlags::FOPEN_NOFLUSH);
const KEPT: Duration = Duration::from_hours(1);
/// Free for ever, in blocks of 4096: 4 GiB.
const BLOCKS: u64 = 1 << 20;
