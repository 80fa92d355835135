//! Processes that are killed, or lack rights: the test program starts itself again. Also once on
//! this machine's kernel, if the user may write there.

use std::io::{BufRead, BufReader, Read, Write};
use std::os::unix::fs::PermissionsExt;
use std::process::{Child, Command, Stdio};

use super::*;

/// How far the child goes before it waits to be killed.
#[derive(Clone, Copy, Debug)]
enum Stage {
    /// The restore file is there, and nothing changed yet.
    Written,
    /// Half of the settings are changed.
    Half,
    /// All of them are.
    Applied,
    /// Restored at once, while a guard still stands.
    RestoredNow,
}

impl Stage {
    const ALL: [Self; 4] = [Self::Written, Self::Half, Self::Applied, Self::RestoredNow];

    fn name(self) -> String {
        format!("{self:?}")
    }
}

/// Not a test by itself: what the tests below start as another process.
#[test]
fn changing_child() {
    let (Ok(dir), Ok(stage)) = (std::env::var(CHILD_DIR), std::env::var(CHILD_STAGE)) else {
        return;
    };
    let stage = Stage::ALL.into_iter().find(|known| known.name() == stage).unwrap();
    let (roots, asked) = match dir.as_str() {
        MACHINE => (Roots::machine(), machine_settings()),
        dir => (Roots::imitated(Path::new(dir)).unwrap(), small_bytes()),
    };
    let mut guard = Guard::take(&roots).unwrap();
    match stage {
        Stage::Written | Stage::Half => {
            let mut held = locked(&guard.held);
            let target = held.prepare(&asked, &[]).unwrap().unwrap();
            if matches!(stage, Stage::Half) {
                let half: Vec<_> = target.iter().take(2).collect();
                half.into_iter().try_for_each(|(key, value)| roots.put(key, value)).unwrap();
            }
        }
        Stage::Applied => {
            let applied = guard.apply(&asked, &[]).unwrap();
            assert_eq!(applied.status, Status::Applied, "{applied:?}");
        }
        Stage::RestoredNow => {
            guard.apply(&asked, &[]).unwrap();
            restore_now().unwrap();
            let error = guard.apply(&asked, &[]).unwrap_err().to_string();
            assert!(error.contains("the program is to end"), "{error}");
        }
    }
    println!("{READY}");
    std::io::stdout().flush().unwrap();
    // Until it is killed, or nobody is left who could.
    let _ = std::io::stdin().read_to_end(&mut Vec::new());
}

const CHILD_DIR: &str = "FLUSHMARK_SYSCTL_DIR";
const CHILD_STAGE: &str = "FLUSHMARK_SYSCTL_STAGE";
const MACHINE: &str = "machine";
const READY: &str = "the child is ready";

/// A process that is killed as soon as nobody wants it any more.
struct Running(Child);

impl Drop for Running {
    fn drop(&mut self) {
        // Fails only if it has ended, and then the test has too.
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Starts the child and waits until it is where it is to be killed.
fn start_child(dir: &str, stage: Stage) -> Running {
    let child = Command::new(std::env::current_exe().unwrap())
        .args(["--exact", "sysctl::tests::killed::changing_child", "--nocapture"])
        .env(CHILD_DIR, dir)
        .env(CHILD_STAGE, stage.name())
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut child = Running(child);
    let lines = BufReader::new(child.0.stdout.take().unwrap()).lines();
    let ready = lines.map_while(Result::ok).any(|line| line.contains(READY));
    assert!(ready, "the child failed");
    child
}

/// `kill -9`.
fn kill(child: Running) {
    drop(child);
}

#[test]
fn the_next_start_restores_what_a_killed_process_left() {
    for (stage, changes) in [(Stage::Written, 0), (Stage::Half, 2), (Stage::Applied, 2)] {
        let fake = Fake::new();
        let before = fake.all();
        let dir = fake.dir.path().to_str().unwrap();
        let child = start_child(dir, stage);
        let child_pid = child.0.id();
        let changed = fake.all();
        assert_eq!(changed == before, matches!(stage, Stage::Written), "{stage:?}");

        // While it lives the settings are its own.
        let error = Guard::take(&fake.roots).unwrap_err();
        assert_eq!(error.downcast_ref::<Busy>().unwrap().pid, Some(child_pid), "{error}");
        assert!(error.to_string().contains(&format!("process {child_pid}")), "{error}");
        assert!(restore_leftover(&fake.roots).is_err());
        assert_eq!(fake.all(), changed);

        kill(child);
        assert!(fake.restore_file().exists() && fake.all() == changed);
        let guard = Guard::take(&fake.roots).unwrap();
        match guard.leftover() {
            Leftover::Restored { pid, restored } => {
                assert_eq!((*pid, restored.changes.len()), (child_pid, changes), "{stage:?}");
            }
            other => panic!("{stage:?}: {other:?}"),
        }
        assert_eq!(fake.all(), before, "{stage:?}");
        assert!(!fake.restore_file().exists());
    }
}

#[test]
fn who_ends_at_once_restores_at_once() {
    let fake = Fake::new();
    let before = fake.all();
    let child = start_child(fake.dir.path().to_str().unwrap(), Stage::RestoredNow);
    assert_eq!(fake.all(), before);
    assert!(!fake.restore_file().exists());
    assert!(Guard::take(&fake.roots).is_err(), "it keeps the lock as long as it lives");
    kill(child);
}

#[test]
fn after_another_start_of_the_machine_the_file_only_goes() {
    let fake = Fake::new();
    kill(start_child(fake.dir.path().to_str().unwrap(), Stage::Applied));
    let changed = fake.all();
    let text = fs::read_to_string(fake.restore_file()).unwrap();
    let boot = owner::boot_id().unwrap();
    fs::write(fake.restore_file(), text.replace(&boot, "another-boot")).unwrap();
    let left = restore_leftover(&fake.roots).unwrap();
    assert_eq!(left, Leftover::OtherBoot { file: fake.restore_file() });
    assert_eq!(fake.all(), changed, "what the machine started with is not ours to change");
    assert!(!fake.restore_file().exists());
}

#[test]
fn a_damaged_restore_file_stops_everything_and_stays() {
    let fake = Fake::new();
    kill(start_child(fake.dir.path().to_str().unwrap(), Stage::Applied));
    let changed = fake.all();
    let text = fs::read_to_string(fake.restore_file()).unwrap();
    let half = &text[..text.len() / 2];
    for damaged in [half, "", "\0\0\0\0", &text.replace("20", "2000")] {
        fs::write(fake.restore_file(), damaged).unwrap();
        for error in [
            Guard::take(&fake.roots).map(drop).unwrap_err(),
            restore_leftover(&fake.roots).map(drop).unwrap_err(),
        ] {
            let words = format!("{error:#}");
            assert!(words.contains("nothing was changed") && words.contains("sysctl"), "{words}");
        }
        assert_eq!(fake.all(), changed);
        assert_eq!(fs::read_to_string(fake.restore_file()).unwrap(), damaged);
    }
}

#[test]
fn a_living_process_without_a_lock_keeps_its_settings() {
    let fake = Fake::new();
    let child = start_child(fake.dir.path().to_str().unwrap(), Stage::Applied);
    let changed = fake.all();
    // Somebody has removed the file that it has locked.
    fs::remove_file(fake.dir.path().join("run/flushmark.lock")).unwrap();
    let error = Guard::take(&fake.roots).unwrap_err().to_string();
    assert!(error.contains("still runs"), "{error}");
    assert_eq!(fake.all(), changed);
    kill(child);
}

/// Values near those in force, so that whatever else this machine does hardly notices, but in the
/// other unit.
fn machine_settings() -> DirtySettings {
    let found = effective(&Roots::machine()).unwrap();
    let (background, limit) = (found.background_limit_bytes.unwrap(), found.limit_bytes.unwrap());
    let flipped = |found, bytes_key, bytes, ratio_key, ratio| match found {
        Limit::Bytes(_) => (ratio_key, ratio),
        Limit::Percent(_) => (bytes_key, bytes),
    };
    let mut settings = DirtySettings::default();
    for (key, value) in [
        flipped(found.background, Key::BackgroundBytes, background, Key::BackgroundRatio, 10),
        flipped(found.limit, Key::Bytes, limit, Key::Ratio, 20),
        (Key::ExpireCentisecs, 2999),
        (Key::WritebackCentisecs, 499),
    ] {
        settings.set(key, value).unwrap();
    }
    settings
}

/// This machine's guard, once nobody else on it holds the lock.
fn machine_guard() -> Guard {
    let roots = Roots::machine();
    for _ in 0..100 {
        match Guard::take(&roots) {
            Ok(guard) => return guard,
            Err(error) => {
                let Some(busy) = error.downcast_ref::<Busy>() else { panic!("{error:#}") };
                // Waits for whoever has it, and lets go again.
                let file = fs::File::open(&busy.lock).unwrap();
                rustix::fs::flock(&file, rustix::fs::FlockOperation::LockExclusive).unwrap();
            }
        }
    }
    panic!("the lock was never free");
}

#[test]
fn the_kernel_of_this_machine_takes_them_and_gives_them_back() {
    let vm = Path::new("/proc/sys/vm");
    let writable = fs::OpenOptions::new().write(true).open(vm.join("dirty_ratio")).is_ok();
    if !writable {
        println!("left out: /proc/sys/vm may not be written by this user");
        return;
    }
    // What an earlier run may have left is put back here.
    let mut guard = machine_guard();
    let before = all(vm);
    let asked = machine_settings();
    let applied = guard.apply(&asked, &[]).unwrap();
    assert_eq!(applied.status, Status::Applied, "{applied:?}");
    let in_force: Vec<u64> = asked.iter().map(|(key, _)| machine_value(key)).collect();
    assert_eq!(in_force, asked.iter().map(|(_, value)| value).collect::<Vec<_>>());
    assert_eq!(guard.check().unwrap().unwrap(), []);
    let found = effective(&Roots::machine()).unwrap();
    assert_ne!(found.available_bytes().is_some(), matches!(found.limit, Limit::Bytes(_)));
    assert_eq!(guard.restore().unwrap().changes.len(), 4);
    assert_eq!(all(vm), before);

    for stage in [Stage::Half, Stage::Applied] {
        kill(start_child(MACHINE, stage));
        assert_ne!(all(vm), before, "{stage:?}");
        let guard = machine_guard();
        assert!(matches!(guard.leftover(), Leftover::Restored { .. }), "{:?}", guard.leftover());
        assert_eq!(all(vm), before, "{stage:?}");
    }
}

fn machine_value(key: Key) -> u64 {
    Roots::machine().value(key).unwrap()
}

/// Not a test by itself: run as a user without rights.
#[test]
fn powerless_child() {
    let Ok(dir) = std::env::var("FLUSHMARK_SYSCTL_POWERLESS") else { return };
    let roots = Roots::machine().with_run(&[Path::new(&dir)]);
    let mut guard = Guard::take(&roots).unwrap();
    let applied = guard.apply(&machine_settings(), &[]).unwrap();
    assert_eq!(applied.status, Status::NotApplied);
    let reason = applied.reason.unwrap();
    // The second where /proc/sys is not even root's to write.
    assert!(reason.contains("only root may") || reason.contains("read-only here"), "{reason}");
    let found = guard.found().unwrap();
    assert_eq!(guard.apply(&found, &[]).unwrap().status, Status::Applied);
    assert_eq!(guard.check().unwrap().unwrap(), []);
    guard.restore().unwrap();
    println!("{READY}");
}

#[test]
fn a_user_without_rights_is_told_so_and_goes_on() {
    let dir = tempfile::tempdir().unwrap();
    fs::set_permissions(dir.path(), fs::Permissions::from_mode(0o777)).unwrap();
    let program = std::env::current_exe().unwrap();
    let arguments = ["--exact", "sysctl::tests::killed::powerless_child", "--nocapture"];
    let is_root = rustix::process::geteuid().is_root();
    let mut command = Command::new(if is_root { "setpriv".as_ref() } else { program.as_path() });
    if is_root {
        command.args(["--reuid=65534", "--regid=65534", "--clear-groups"]).arg(&program);
    }
    command.args(arguments).env("FLUSHMARK_SYSCTL_POWERLESS", dir.path());
    let output = match command.output() {
        Ok(output) => output,
        Err(error) => {
            println!("left out: no user without rights can be had ({error})");
            return;
        }
    };
    let said = String::from_utf8_lossy(&output.stderr);
    if said.starts_with("setpriv:") {
        println!("left out: no user without rights can run this ({})", said.trim());
        return;
    }
    let text = String::from_utf8_lossy(&output.stdout);
    assert!(output.status.success() && text.contains(READY), "{text}{output:?}");
}
