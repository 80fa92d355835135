//! Small disks of a test's own: an image under a loop device, mounted where nobody else sees it.

use std::fs::{self, File};
use std::io::{Read, Seek, Write};
use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::Duration;

use rustix::fs::{FallocateFlags, fallocate, statvfs};

/// A file system that disks are made with.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(crate) enum Fs {
    Btrfs,
    Ext4,
    Xfs,
}

impl Fs {
    pub(crate) const ALL: [Self; 3] = [Self::Ext4, Self::Xfs, Self::Btrfs];

    pub(crate) fn name(self) -> &'static str {
        match self {
            Self::Btrfs => "btrfs",
            Self::Ext4 => "ext4",
            Self::Xfs => "xfs",
        }
    }

    /// Near the least that its `mkfs` takes. The image is sparse.
    fn bytes(self) -> u64 {
        match self {
            Self::Btrfs => 128 << 20,
            Self::Ext4 => 32 << 20,
            Self::Xfs => 300 << 20,
        }
    }

    fn mkfs(self) -> Command {
        let mut command = Command::new(format!("mkfs.{}", self.name()));
        match self {
            Self::Btrfs => command.arg("--quiet"),
            // Root may use what is reserved, so nothing is.
            Self::Ext4 => command.args(["-q", "-F", "-m", "0"]),
            Self::Xfs => command.args(["-q", "-f"]),
        };
        command
    }
}

/// A disk of this process's own, mounted.
#[derive(Debug)]
pub(crate) struct Disk {
    pub(crate) fs: Fs,
    image: PathBuf,
    mount: PathBuf,
}

impl Disk {
    fn new(fs: Fs, place: &Path) -> Self {
        let disk = Self { fs, image: place.join("image"), mount: place.join("mount") };
        File::create(&disk.image).unwrap().set_len(fs.bytes()).unwrap();
        run(fs.mkfs().arg(&disk.image));
        fs::create_dir(&disk.mount).unwrap();
        disk.mount();
        disk
    }

    /// Where it is mounted.
    pub(crate) fn path(&self) -> &Path {
        &self.mount
    }

    /// The loop device that it is, without `/dev/`.
    pub(crate) fn device(&self) -> String {
        let mounts = fs::read_to_string("/proc/self/mounts").unwrap();
        let mount = format!(" {} ", self.mount.display());
        let line = mounts.lines().find(|line| line.contains(&mount)).unwrap();
        line.split(' ').next().unwrap().trim_start_matches("/dev/").to_owned()
    }

    /// Where the store is put.
    pub(crate) fn store(&self) -> PathBuf {
        self.mount.join("store")
    }

    pub(crate) fn mount(&self) {
        run(Command::new("mount")
            .args(["-t", self.fs.name(), "-o", "loop"])
            .args([&self.image, &self.mount]));
    }

    pub(crate) fn unmount(&self) {
        run(Command::new("umount").arg(&self.mount));
    }

    /// Unmounts and mounts it again: what is found then came from the image.
    pub(crate) fn remount(&self) {
        self.unmount();
        self.mount();
    }

    /// Bytes that are free.
    pub(crate) fn free(&self) -> u64 {
        let found = statvfs(&self.mount).unwrap();
        found.f_bavail * found.f_frsize
    }

    /// Takes all but `left` bytes, so that a large disk is full as soon as a small one.
    pub(crate) fn fill(&self, left: u64) {
        let file = File::create(self.mount.join("filler")).unwrap();
        let taken = self.free().checked_sub(left).unwrap();
        fallocate(&file, FallocateFlags::empty(), 0, taken).unwrap();
        file.sync_all().unwrap();
    }

    /// Takes every byte that is left, as far as the file system gives them.
    pub(crate) fn fill_up(&self) {
        for (number, len) in [1 << 20, 64 << 10, 4 << 10, 1].into_iter().enumerate() {
            let Ok(mut file) = File::create(self.mount.join(format!("rest{number}"))) else {
                return;
            };
            let bytes = vec![0xA5; len];
            while file.write_all(&bytes).is_ok() {}
            let _ = file.sync_all();
        }
    }

    /// Gives back what was taken.
    pub(crate) fn clear(&self) {
        for entry in fs::read_dir(&self.mount).unwrap() {
            let path = entry.unwrap().path();
            if path.is_file() {
                fs::remove_file(path).unwrap();
            }
        }
        File::open(&self.mount).unwrap().sync_all().unwrap();
    }
}

/// Runs `body` once for each file system, each time in a process and a mount namespace of its own:
/// `test` of this binary, which must be the caller. What that process leaves ends with it.
///
/// Where something is missing, a line says so and what to do.
pub(crate) fn on_each(systems: &[Fs], test: &str, body: impl Fn(&Disk)) {
    if let Ok(name) = std::env::var(CHILD) {
        let fs = Fs::ALL.into_iter().find(|fs| fs.name() == name).unwrap();
        body(&Disk::new(fs, Path::new(&std::env::var_os(PLACE).unwrap())));
        return;
    }
    for fs in systems {
        if let Some(missing) = missing(*fs) {
            aloud(&format!("{test} on {}: left out, {missing}", fs.name()));
            continue;
        }
        let (status, said) = in_child(*fs, test);
        assert!(status.success(), "{test} on {}: {status}\n{said}", fs.name());
    }
}

/// Like [`on_each`] on one file system, for what ends the process: gives the signal that did.
pub(crate) fn signal_on(fs: Fs, test: &str, body: impl Fn(&Disk)) -> Option<i32> {
    if std::env::var_os(CHILD).is_some() {
        on_each(&[fs], test, body);
        return None;
    }
    if let Some(missing) = missing(fs) {
        aloud(&format!("{test} on {}: left out, {missing}", fs.name()));
        return None;
    }
    let (status, said) = in_child(fs, test);
    assert!(status.signal().is_some(), "{test}: {status}\n{said}");
    status.signal()
}

fn in_child(fs: Fs, test: &str) -> (ExitStatus, String) {
    let place = tempfile::tempdir().unwrap();
    let mut said = tempfile::tempfile().unwrap();
    let stdio = || Stdio::from(said.try_clone().unwrap());
    let mut child = Command::new("unshare")
        .args(["--mount", "--propagation", "private", "--"])
        .arg(std::env::current_exe().unwrap())
        .args(["--exact", test, "--nocapture", "--test-threads", "1"])
        .env(CHILD, fs.name())
        .env(PLACE, place.path())
        .stdout(stdio())
        .stderr(stdio())
        .spawn()
        .unwrap();
    let status = wait_for(&mut child);
    let mut output = String::new();
    said.rewind().unwrap();
    said.read_to_string(&mut output).unwrap();
    match status {
        Some(status) => (status, output),
        None => panic!("{test} on {}: hangs\n{output}", fs.name()),
    }
}

/// Waits for a process that must come to its end; ends it after minutes.
fn wait_for(child: &mut Child) -> Option<ExitStatus> {
    for _ in 0..180_000 {
        if let Some(status) = child.try_wait().unwrap() {
            return Some(status);
        }
        std::thread::park_timeout(Duration::from_millis(1));
    }
    child.kill().unwrap();
    None
}

/// What is needed and not there.
fn missing(fs: Fs) -> Option<String> {
    if !rustix::process::geteuid().is_root() {
        return Some("it mounts a disk: run it as root".to_owned());
    }
    let mkfs = format!("mkfs.{}", fs.name());
    let package = match fs {
        Fs::Btrfs => "btrfs-progs",
        Fs::Ext4 => "e2fsprogs",
        Fs::Xfs => "xfsprogs",
    };
    for (tool, package) in [(mkfs.as_str(), package), ("unshare", "util-linux"), ("mount", "mount")]
    {
        if !has_tool(tool) {
            return Some(format!("{tool} is missing: install {package}"));
        }
    }
    if !Path::new("/dev/loop-control").exists() {
        return Some("there are no loop devices: load the kernel module loop".to_owned());
    }
    let known = fs::read_to_string("/proc/filesystems").unwrap();
    let is_known = known.lines().any(|line| line.split_whitespace().last() == Some(fs.name()));
    // A module is loaded when it is mounted; without modules the list is all there is.
    (!is_known && !Path::new("/proc/modules").exists())
        .then(|| format!("the kernel does not know {}", fs.name()))
}

pub(crate) fn has_tool(tool: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path).any(|directory| directory.join(tool).is_file())
}

/// Says something that the test runner does not keep to itself.
pub(crate) fn aloud(line: &str) {
    let _ = writeln!(std::io::stderr().lock(), "{line}");
}

/// Runs a command of the system that must succeed.
#[track_caller]
pub(crate) fn run(command: &mut Command) {
    let output = command.output().unwrap();
    assert!(output.status.success(), "{command:?}: {}", String::from_utf8_lossy(&output.stderr));
}

/// Names the file system to the child.
const CHILD: &str = "FLUSHMARK_DISK";
/// Names its directory to the child.
const PLACE: &str = "FLUSHMARK_DISK_PLACE";
