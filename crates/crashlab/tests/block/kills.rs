//! A killed process leaves nothing behind: no process, no mount, no loop device.

use std::io::{BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};

use crashlab::block::{Fault, FsKind, Requests};
use crashlab::load::Strategy;
use rustix::process::{Pid, Signal, kill_process};

use crate::support::{Bench, eventually, steady, usable};

/// The owner of a disk: says the id of the disk's process, and writes until its log fails. Its own
/// process, so that it can be killed.
///
/// Run only by the tests below, which say in the environment what it shall do.
#[test]
fn owner_child() {
    let Ok(name) = std::env::var(CHILD) else {
        return;
    };
    let bench = Bench::new(FsKind::named(&name).unwrap(), "");
    let load = bench.load(Strategy::GroupCommit, &steady());
    eventually("acknowledgements", || 20 < load.seen().acked_records());
    let view = bench.disk.cut(crashlab::block::Keep::Random, 1).unwrap();
    let view = view.mount().unwrap();
    if std::env::var(STUCK).is_ok() {
        bench.disk.inject(Fault::Stuck(Requests::All)).unwrap();
        eventually("a stuck request", || bench.disk.counters().unwrap().waiting > 0);
    }
    let work = bench.root().parent().unwrap().display().to_string();
    let line = format!("owner {} {work}\n", bench.disk.server_id());
    std::io::stdout().lock().write_all(line.as_bytes()).unwrap();
    while !load.has_failed() {
        std::thread::park_timeout(std::time::Duration::from_millis(5));
    }
    let stopped = load.stop();
    assert!(stopped.closed.is_err(), "a disk that is gone is an error, not a signal");
    drop(view);
    drop(bench);
    std::io::stdout().lock().write_all(b"owner ended\n").unwrap();
}

const CHILD: &str = "CRASHLAB_KILL_OWNER";
const STUCK: &str = "CRASHLAB_KILL_STUCK";

/// A running owner, and what must go with it.
struct Owner {
    child: Child,
    output: BufReader<ChildStdout>,
    server: Pid,
    work: String,
    loops: Vec<PathBuf>,
}

/// The name of a disk or view without its directory.
fn is_orphan(file: &str) -> bool {
    file == "/disk" || file.starts_with("/cut-")
}

/// Loop devices on files of `work`.
fn loops_of(work: &str) -> Vec<PathBuf> {
    let devices = std::fs::read_dir("/sys/block").unwrap();
    devices
        .filter_map(Result::ok)
        .map(|device| device.path())
        .filter(|device| {
            let file = std::fs::read_to_string(device.join("loop/backing_file"));
            file.is_ok_and(|file| file.contains(work))
        })
        .collect()
}

impl Owner {
    fn start(kind: FsKind, is_stuck: bool) -> Self {
        let mut command = Command::new(std::env::current_exe().unwrap());
        command.args(["--exact", "kills::owner_child", "--nocapture"]).env(CHILD, kind.name());
        if is_stuck {
            command.env(STUCK, "1");
        }
        let mut child = command.stdout(Stdio::piped()).spawn().unwrap();
        let mut output = BufReader::new(child.stdout.take().unwrap());
        let mut line = String::new();
        while !line.contains("owner ") {
            line.clear();
            assert_ne!(output.read_line(&mut line).unwrap(), 0, "the owner ended early");
        }
        let words: Vec<_> = line[line.find("owner ").unwrap()..].split_whitespace().collect();
        let server = Pid::from_raw(words[1].parse().unwrap()).unwrap();
        let work = words[2].to_owned();
        let loops = loops_of(&work);
        // The checks below see what they are to find gone.
        assert_eq!(loops.len(), 2, "the disk and the view");
        let owner = Self { child, output, server, work, loops };
        assert!(owner.is_mounted() && owner.has_server(), "{}", owner.work);
        owner
    }

    /// Any thread sees a mount of it.
    fn is_mounted(&self) -> bool {
        let entries = |path: PathBuf| std::fs::read_dir(path).into_iter().flatten().flatten();
        entries("/proc".into()).flat_map(|process| entries(process.path().join("task"))).any(
            |thread| {
                let mounts = std::fs::read_to_string(thread.path().join("mountinfo"));
                mounts.is_ok_and(|mounts| mounts.contains(&self.work))
            },
        )
    }

    /// A loop device is attached to a file of it. Where the directory that the file was in is
    /// unmounted, the file's name is all that is left of its path.
    fn has_loop(&self) -> bool {
        self.loops.iter().any(|device| {
            let file = std::fs::read_to_string(device.join("loop/backing_file"));
            file.is_ok_and(|file| file.contains(&self.work) || is_orphan(file.trim()))
        })
    }

    fn has_server(&self) -> bool {
        let path = format!("/proc/{}/cmdline", self.server.as_raw_nonzero());
        std::fs::read_to_string(path).is_ok_and(|line| line.contains(&self.work))
    }

    fn kill_server(&self) {
        kill_process(self.server, Signal::KILL).unwrap();
    }

    fn kill(&mut self) {
        self.child.kill().unwrap();
    }

    fn leaves_nothing(mut self) {
        self.child.wait().unwrap();
        eventually("the end of the disk's process", || !self.has_server());
        eventually("the end of its mounts", || !self.is_mounted());
        eventually("the end of its loop devices", || !self.has_loop());
        // A killed owner cannot remove its directory; the test does.
        let _ = std::fs::remove_dir_all(&self.work);
    }
}

#[test]
fn a_killed_server_leaves_nothing_when_its_owner_ends() {
    for kind in usable(&FsKind::ALL) {
        let mut owner = Owner::start(kind, false);
        owner.kill_server();
        let mut rest = String::new();
        while owner.output.read_line(&mut rest).unwrap() > 0 {}
        assert!(rest.contains("owner ended"), "{kind}: {rest}");
        owner.leaves_nothing();
    }
}

#[test]
fn a_killed_owner_leaves_nothing() {
    for kind in usable(&FsKind::ALL) {
        let mut owner = Owner::start(kind, false);
        owner.kill();
        owner.leaves_nothing();
    }
}

#[test]
fn a_killed_owner_that_waits_for_a_stuck_disk_leaves_nothing() {
    for kind in usable(&FsKind::ALL) {
        let mut owner = Owner::start(kind, true);
        owner.kill();
        owner.leaves_nothing();
    }
}

#[test]
fn an_owner_and_a_server_killed_together_leave_nothing() {
    for kind in usable(&FsKind::ALL) {
        let mut owner = Owner::start(kind, false);
        owner.kill();
        owner.kill_server();
        owner.leaves_nothing();
    }
}
