//! File systems on an emulated disk: made, mounted and unmounted by guards.

use std::ffi::{CStr, OsStr};
use std::fmt;
use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::unix::process::{CommandExt, ExitStatusExt};
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use rustix::io::Errno;
use rustix::mount::{MountFlags, UnmountFlags, mount, unmount};

use super::disk::Server;
use super::error::{Error, Missing, MountError};

/// The file systems that a disk can be given.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum FsKind {
    /// btrfs: copies on write.
    Btrfs,
    /// ext4: a journal of metadata, data written before.
    Ext4,
    /// xfs: a log of metadata.
    Xfs,
}

impl FsKind {
    /// All of them.
    pub const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    /// Its name to the kernel.
    pub fn name(self) -> &'static str {
        match self {
            Self::Btrfs => "btrfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// The file system of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// The least that it is to be made in: more than its maker asks for (`mkfs.btrfs` 109 MiB,
    /// `mkfs.xfs` 300 MiB), with room for a segment of a log.
    pub fn least_bytes(self) -> u64 {
        match self {
            Self::Btrfs => 128 << 20,
            Self::Ext4 => 32 << 20,
            Self::Xfs => 320 << 20,
        }
    }

    pub(crate) fn maker(self) -> (&'static str, &'static str) {
        match self {
            Self::Btrfs => ("mkfs.btrfs", "btrfs-progs"),
            Self::Ext4 => ("mkfs.ext4", "e2fsprogs"),
            Self::Xfs => ("mkfs.xfs", "xfsprogs"),
        }
    }

    /// Arguments that leave nothing to be written later, and discard nothing.
    pub(crate) fn maker_arguments(self) -> &'static [&'static str] {
        match self {
            Self::Btrfs | Self::Xfs => &["-q", "-f", "-K"],
            Self::Ext4 => &["-q", "-F", "-E", "nodiscard,lazy_itable_init=0,lazy_journal_init=0"],
        }
    }

    /// Options without which a view cannot be mounted beside the disk it was taken of.
    fn view_options(self) -> &'static CStr {
        match self {
            Self::Btrfs | Self::Ext4 => c"",
            Self::Xfs => c"nouuid",
        }
    }
}

impl fmt::Display for FsKind {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

/// A loop device on a file of the served directory; the kernel takes it away when nobody has it
/// open any more (`LO_FLAGS_AUTOCLEAR`), and this is somebody.
#[derive(Debug)]
pub(super) struct Loop {
    path: PathBuf,
    /// Reads and writes go to the server as they are, instead of through another page cache.
    pub(super) is_direct: bool,
    _open: File,
}

impl Loop {
    /// Attaches `file`, past its page cache if `wants_direct` and the kernel can.
    pub(super) fn attach(file: &Path, wants_direct: bool) -> Result<Self, Error> {
        let mut tries = 0;
        loop {
            tries += 1;
            let (attached, ended) = Self::hold(file, wants_direct)?;
            if let Some(attached) = attached {
                return Ok(attached);
            }
            // A Ctrl-C can still be before the holder has a group of its own. Nothing is attached
            // then: what attaches cannot be ended by it.
            if ended.status.signal().is_none() || tries == TRIES {
                let mut said = String::from_utf8_lossy(&ended.stderr).into_owned();
                if said.trim().is_empty() {
                    said = ended.status.to_string();
                }
                return Err(Error::Program { name: "losetup", said });
            }
        }
    }

    /// What is attached, if it could be; and how the holder ended.
    fn hold(file: &Path, wants_direct: bool) -> Result<(Option<Self>, Output), Error> {
        let failed = |source| Error::system("run losetup for", file, source);
        let mut holder = Command::new("sh")
            .args(["-c", HOLD])
            .arg("sh")
            .arg(file)
            .arg(if wants_direct { "on" } else { "off" })
            // A Ctrl-C that comes before its `trap` would end it, and the run with it.
            .process_group(0)
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .map_err(failed)?;
        let mut line = String::new();
        let output = holder.stdout.take().expect("piped above");
        BufReader::new(output).read_line(&mut line).map_err(failed)?;
        let opened = match line.trim() {
            "" => None,
            device => Some((PathBuf::from(device), File::open(device))),
        };
        // The end of its input lets the holder go.
        let ended = holder.wait_with_output().map_err(failed)?;
        let attached = match opened {
            None => None,
            Some((path, Ok(open))) => {
                let is_direct = is_direct(&path);
                Some(Self { path, is_direct, _open: open })
            }
            Some((path, Err(source))) => return Err(Error::system("open", &path, source)),
        };
        Ok((attached, ended))
    }

    pub(super) fn path(&self) -> &Path {
        &self.path
    }
}

/// Whether the kernel did as it was asked: it does not say so.
fn is_direct(device: &Path) -> bool {
    let name = device.file_name().unwrap_or_default();
    let flag = Path::new("/sys/block").join(name).join("loop/dio");
    std::fs::read_to_string(flag).is_ok_and(|flag| flag.trim() == "1")
}

/// Attaches a file and takes it away again when nobody has it open, in a process that is not killed
/// together with its parent: there is no moment at which a killed process leaves the device behind.
const HOLD: &str = "trap '' HUP INT TERM
device=$(losetup --find --show --sector-size 4096 --direct-io=\"$2\" \"$1\") || exit
exec 3<\"$device\"
losetup --detach \"$device\" || exit
echo \"$device\"
read -r line
exit 0";

/// A mounted file system of an emulated disk. Unmounted when dropped.
#[derive(Debug)]
pub struct Mounted {
    path: PathBuf,
    device: Loop,
    is_attached: bool,
    server: Arc<Server>,
    /// What must stay as long as it is mounted.
    _view: Option<Arc<super::disk::ViewFile>>,
    /// The file of the served directory under it.
    disk: String,
}

impl Mounted {
    /// Where it is mounted. Only threads and processes with the same
    /// [`PrivateMounts`](super::PrivateMounts) see it.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// Whether reads and writes of the loop device pass the page cache by. Those of a view do not.
    pub fn is_direct(&self) -> bool {
        self.device.is_direct
    }

    /// The loop device.
    pub fn device(&self) -> &Path {
        self.device.path()
    }

    /// Unmounts it now.
    ///
    /// # Errors
    ///
    /// If the kernel refuses, because files of it are open; it is detached then, and goes when they
    /// are closed.
    pub fn unmount(mut self) -> Result<(), Error> {
        self.unmount_now()
    }

    fn unmount_now(&mut self) -> Result<(), Error> {
        if !self.is_attached {
            return Ok(());
        }
        self.is_attached = false;
        // Unmounting writes; a disk that is stuck would hold it for ever.
        let _ = self.server.let_go(&self.disk);
        let outcome = unmount_patiently(&self.path);
        let _ = std::fs::remove_dir(&self.path);
        outcome.map_err(|refused| Error::system("unmount", &self.path, refused))
    }
}

/// Unmounts; what stays busy is detached, and goes with the last that uses it.
pub(super) fn unmount_patiently(path: &Path) -> rustix::io::Result<()> {
    for _ in 0..BUSY_CHECKS {
        match unmount(path, UnmountFlags::empty()) {
            // A process that is being started has all our files open until it runs its program.
            Err(Errno::BUSY) => thread::park_timeout(BUSY_CHECK_EVERY),
            outcome => return outcome,
        }
    }
    unmount(path, UnmountFlags::DETACH)?;
    Err(Errno::BUSY)
}

impl Drop for Mounted {
    fn drop(&mut self) {
        // Nobody is left to tell; the kernel unmounts it with the last process that sees it.
        let _ = self.unmount_now();
    }
}

/// What is to be mounted where.
pub(super) struct Mount<'a> {
    pub(super) server: &'a Arc<Server>,
    pub(super) disk: &'a str,
    pub(super) kind: FsKind,
    pub(super) options: &'a str,
    pub(super) view: Option<Arc<super::disk::ViewFile>>,
}

impl Mount<'_> {
    pub(super) fn mount(self, device: Loop) -> Result<Mounted, MountError> {
        let path = self.server.mount_point(self.disk);
        std::fs::create_dir_all(&path).map_err(|source| Error::system("create", &path, source))?;
        let outcome = match self.view {
            Some(_) => self.mount_view(&device, &path),
            None => self.mount_live(&device, &path).map_err(MountError::from),
        };
        if let Err(error) = outcome {
            let _ = std::fs::remove_dir(&path);
            return Err(error);
        }
        Ok(Mounted {
            path,
            device,
            is_attached: true,
            server: Arc::clone(self.server),
            _view: self.view,
            disk: self.disk.to_owned(),
        })
    }

    /// By `mount(8)`, which knows which options are the file system's and which the kernel's.
    fn mount_live(&self, device: &Loop, path: &Path) -> Result<(), Error> {
        let options = if self.options.is_empty() { "defaults" } else { self.options };
        let arguments = ["-t", self.kind.name(), "-o", options].map(OsStr::new).into_iter();
        run("mount", arguments.chain([device.path().as_os_str(), path.as_os_str()]))
    }

    /// By `mount(2)`, which is fast, and says why not.
    fn mount_view(&self, device: &Loop, path: &Path) -> Result<(), MountError> {
        let kind = self.kind.name();
        let options = self.kind.view_options();
        mount(device.path(), path, kind, MountFlags::NOATIME, options).map_err(|refused| {
            if NOT_OF_THE_DISK.contains(&refused) {
                Error::system("mount", path, refused).into()
            } else {
                MountError::NotMountable { refused }
            }
        })
    }
}

/// How often a device is tried to be attached: nobody presses Ctrl-C more often in that time.
const TRIES: u32 = 3;
const BUSY_CHECKS: u32 = 100;
const BUSY_CHECK_EVERY: Duration = Duration::from_millis(5);

/// What a mount is refused with whatever the disk holds.
const NOT_OF_THE_DISK: [Errno; 6] =
    [Errno::PERM, Errno::NODEV, Errno::NOENT, Errno::BUSY, Errno::EXIST, Errno::NOTBLK];

/// Makes a file system on `device`.
pub(super) fn make(kind: FsKind, more: &[&str], device: &Path) -> Result<(), Error> {
    let (name, _) = kind.maker();
    let arguments = kind.maker_arguments().iter().chain(more).map(OsStr::new);
    run(name, arguments.chain([device.as_os_str()]))
}

pub(super) fn run<'a>(
    name: &'static str,
    arguments: impl Iterator<Item = &'a OsStr>,
) -> Result<(), Error> {
    let output = Command::new(name)
        .args(arguments)
        // A Ctrl-C is for us: it lets what was begun end, and takes it away in order.
        .process_group(0)
        .stdin(Stdio::null())
        .output()
        .map_err(|source| Error::system("run", Path::new(name), source))?;
    if output.status.success() {
        return Ok(());
    }
    let mut said = String::from_utf8_lossy(&output.stderr).into_owned();
    if said.trim().is_empty() {
        said = output.status.to_string();
    }
    Err(Error::Program { name, said })
}

/// Whether a program can be found.
pub(super) fn program(name: &'static str, package: &'static str) -> Result<(), Missing> {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|directory| directory.join(name).is_file());
    if found { Ok(()) } else { Err(Missing::Program { name, package }) }
}
