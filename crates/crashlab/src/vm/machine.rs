//! One run of QEMU: booted or brought back, told what to do, killed.

use std::fs::{self, File};
use std::io::{BufReader, Read, Write};
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{self, Receiver, RecvTimeoutError};
use std::thread;
use std::time::Duration;

use store_core::Nanos;
use store_os::monotonic;

use super::error::VmError;
use super::wire::{self, Report};

/// The files that a machine is made of.
#[derive(Clone, Debug)]
pub(super) struct Parts {
    pub(super) qemu: PathBuf,
    pub(super) setpriv: PathBuf,
    pub(super) kernel: PathBuf,
    pub(super) initrd: PathBuf,
    /// The guest's memory, as a file that the snapshot and its restorers share.
    pub(super) memory: PathBuf,
    /// The rest of the machine's state.
    pub(super) state: PathBuf,
    /// What the guest's kernel prints.
    pub(super) console: PathBuf,
    /// QEMU's own control socket.
    pub(super) control: PathBuf,
}

/// How a machine begins.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Begin {
    /// With the kernel's first instruction.
    Boot,
    /// Where the snapshot was taken.
    Restore,
}

/// A running guest.
#[derive(Debug)]
pub(super) struct Machine {
    child: Child,
    orders: ChildStdin,
    reports: Receiver<Report>,
    console: PathBuf,
}

impl Parts {
    /// Boots a guest up to where it waits for orders, keeps it as the snapshot that
    /// [`restore`](Self::restore) begins with, and gives its kernel's release.
    ///
    /// The guest has not looked at any disk by then, so it can be given another one each time.
    pub(super) fn take_snapshot(&self, drive: &[String]) -> Result<String, VmError> {
        let mut machine = self.start(drive, Begin::Boot)?;
        let ready = machine.next(BOOT_LIMIT)?;
        let Some(Report::Ready(release)) = ready else {
            return Err(machine.silent("its program"));
        };
        let mut control = Control::connect(&self.control)?;
        let to = self.state.display();
        control.ask(&format!(
            r#"{{"execute":"migrate","arguments":{{"uri":"exec:cat > '{to}'"}}}}"#
        ))?;
        let begun = monotonic();
        while !control.ask(r#"{"execute":"query-migrate"}"#)?.contains(r#""completed""#) {
            if LIMIT < since(begun) {
                return Err(machine.silent("a snapshot"));
            }
            thread::sleep(Duration::from_millis(10));
        }
        machine.kill();
        Ok(release)
    }

    /// Brings the snapshot back, with the disk that `drive` names.
    pub(super) fn restore(&self, drive: &[String]) -> Result<Machine, VmError> {
        let machine = self.start(drive, Begin::Restore)?;
        let from = self.state.display();
        Control::connect(&self.control)?.ask(&format!(
            r#"{{"execute":"migrate-incoming","arguments":{{"uri":"exec:cat '{from}'"}}}}"#
        ))?;
        Ok(machine)
    }

    fn start(&self, drive: &[String], begin: Begin) -> Result<Machine, VmError> {
        let path = |path: &Path| path.display().to_string();
        let share = if begin == Begin::Boot { "on" } else { "off" };
        let mut command = Command::new(&self.setpriv);
        command
            // Nothing may go on running when this process is killed.
            .args(["--pdeathsig", "KILL", "--"])
            .arg(&self.qemu)
            .args(["-machine", "q35,accel=tcg,memory-backend=ram", "-cpu", "qemu64"])
            // Two processors: producers, lanes and the kernel's own writing run side by side.
            .args(["-smp", "2", "-m", &format!("{MEMORY_MIB}M"), "-object"])
            .arg(format!(
                "memory-backend-file,id=ram,size={MEMORY_MIB}M,mem-path={},share={share}",
                path(&self.memory)
            ))
            .args(["-nodefaults", "-no-user-config", "-display", "none", "-no-reboot"])
            .args(["-kernel", &path(&self.kernel), "-initrd", &path(&self.initrd)])
            .args(["-append", "console=ttyS0 quiet panic=-1"])
            .args(["-serial", &format!("file:{}", path(&self.console))])
            .args(["-chardev", "stdio,id=port,signal=off", "-device", "virtio-serial-pci"])
            .args(["-device", "virtserialport,chardev=port"])
            .args(drive)
            // What a discard leaves is not defined; the guest's file systems are not to use any.
            .args(["-device", "virtio-blk-pci,drive=disk,discard=off"]);
        let _ = fs::remove_file(&self.control);
        command.args(["-qmp", &format!("unix:{},server=on,wait=off", path(&self.control))]);
        if begin == Begin::Restore {
            command.args(["-incoming", "defer"]);
        }
        let said = self.console.with_extension("qemu");
        let stderr = File::create(&said).map_err(VmError::io("make", &said))?;
        command.stdin(Stdio::piped()).stdout(Stdio::piped()).stderr(stderr);
        let mut child = command.spawn().map_err(VmError::io("start", &self.qemu))?;
        let orders = child.stdin.take().expect("piped above");
        let port = child.stdout.take().expect("piped above");
        let (sender, reports) = mpsc::channel();
        thread::spawn(move || {
            let mut port = BufReader::with_capacity(1 << 16, port);
            // It ends with the machine; what cannot be understood ends it as well.
            while let Ok(Some(frame)) = wire::receive(&mut port)
                && let Some(report) = Report::decode(&frame)
                && sender.send(report).is_ok()
            {}
        });
        Ok(Machine { child, orders, reports, console: self.console.clone() })
    }
}

impl Machine {
    /// Tells the guest what to do.
    pub(super) fn order(&mut self, order: &[u8]) -> Result<(), VmError> {
        wire::send(&mut self.orders, order)
            .and_then(|()| self.orders.flush())
            .map_err(VmError::io("write to", Path::new("the guest's port")))
    }

    /// What the guest says next; `None` if it says nothing until `limit` is over.
    ///
    /// # Errors
    ///
    /// If the guest is gone.
    pub(super) fn next(&mut self, limit: Duration) -> Result<Option<Report>, VmError> {
        match self.reports.recv_timeout(limit) {
            Ok(report) => Ok(Some(report)),
            Err(RecvTimeoutError::Timeout) => Ok(None),
            Err(RecvTimeoutError::Disconnected) => Err(self.silent("its orders")),
        }
    }

    /// Kills the machine, and gives what the guest had said by then and was not heard yet.
    ///
    /// All of it was said before the kill: what was on its way within the guest died with it.
    pub(super) fn kill(mut self) -> Vec<Report> {
        self.end();
        self.reports.iter().collect()
    }

    fn end(&mut self) {
        // Both fail only if it is gone already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }

    /// The guest did not come to what was awaited.
    pub(super) fn silent(&self, awaited: &'static str) -> VmError {
        let tail = |path: &Path| {
            let mut bytes = Vec::new();
            let _ = File::open(path).and_then(|mut file| file.read_to_end(&mut bytes));
            let from = bytes.len().saturating_sub(CONSOLE_BYTES);
            String::from_utf8_lossy(&bytes[from..]).trim().to_owned()
        };
        let console = tail(&self.console) + &tail(&self.console.with_extension("qemu"));
        VmError::Silent { awaited, console }
    }
}

impl Drop for Machine {
    fn drop(&mut self) {
        self.end();
    }
}

/// QEMU's own control socket: a line of JSON for a line of JSON.
struct Control {
    socket: UnixStream,
    path: PathBuf,
}

impl Control {
    fn connect(path: &Path) -> Result<Self, VmError> {
        let begun = monotonic();
        let socket = loop {
            match UnixStream::connect(path) {
                // It has only just been started.
                Err(_) if since(begun) < LIMIT => thread::sleep(Duration::from_millis(1)),
                outcome => break outcome.map_err(VmError::io("connect to", path))?,
            }
        };
        socket.set_read_timeout(Some(LIMIT)).map_err(VmError::io("use", path))?;
        let mut control = Self { socket, path: path.to_owned() };
        control.line()?;
        control.ask(r#"{"execute":"qmp_capabilities"}"#)?;
        // The memory is no part of the state: the snapshot leaves it in its file.
        control.ask(
            r#"{"execute":"migrate-set-capabilities","arguments":{"capabilities":
            [{"capability":"x-ignore-shared","state":true}]}}"#,
        )?;
        Ok(control)
    }

    fn ask(&mut self, request: &str) -> Result<String, VmError> {
        self.socket.write_all(request.as_bytes()).map_err(VmError::io("write to", &self.path))?;
        loop {
            let line = self.line()?;
            if line.contains(r#""error""#) {
                return Err(VmError::Command { program: "qemu".to_owned(), said: line });
            }
            // Events come in between.
            if line.contains(r#""return""#) {
                return Ok(line);
            }
        }
    }

    fn line(&mut self) -> Result<String, VmError> {
        let mut line = Vec::new();
        let mut byte = [0];
        while byte != *b"\n" {
            self.socket.read_exact(&mut byte).map_err(VmError::io("read from", &self.path))?;
            line.push(byte[0]);
        }
        Ok(String::from_utf8_lossy(&line).into_owned())
    }
}

/// A disk that keeps what a killed machine had written, as the host lives on. The guest's flushes
/// are the host's syncs, so they take as long as such do.
pub(super) fn plain(image: &Path) -> Vec<String> {
    let image = image.display().to_string();
    let node = format!(r#"{{"driver":"file","node-name":"disk","filename":{image:?}}}"#);
    vec!["-blockdev".to_owned(), node]
}

pub(super) fn since(then: Nanos) -> Duration {
    Duration::from_nanos(monotonic().since(then).get())
}

const MEMORY_MIB: u32 = 256;
/// A boot takes 3 s under TCG; a machine that is busy otherwise can take many times that.
const BOOT_LIMIT: Duration = Duration::from_mins(2);
const LIMIT: Duration = Duration::from_secs(30);
/// How much of the console an error cites.
const CONSOLE_BYTES: usize = 8000;
