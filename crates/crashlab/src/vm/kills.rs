//! Kills at random moments, and what each left of the log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use store_core::LogOffset;
use store_os::monotonic;

use crate::block::FsKind;
use crate::check::{FoundRecord, Promise, check};
use crate::device::{Device, Keep};
use crate::load::Strategy;
use crate::payload::Shape;
use crate::random::Random;
use crate::witness::Witness;

use super::disk;
use super::error::VmError;
use super::host::Host;
use super::initramfs::{build_init, pack};
use super::machine::{Machine, Parts, plain, since};
use super::wire::{Loading, Opening, Report};
use super::write_log;

/// What a kill takes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Loss {
    /// The kernel with its page cache; the disk keeps what it was given.
    Kernel,
    /// The disk's volatile cache too: what was not flushed survives in part, in any order.
    Power,
}

/// How often a kernel is killed, and under what load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    /// The strategy of the guest's log. Each boot has intervals of its own, which are at most
    /// these.
    pub strategy: Strategy,
    /// What a kill takes.
    pub loss: Loss,
    /// What the guest mounts its file system with, as in fstab; empty for its own choice.
    pub mount_options: &'static str,
    /// Kills.
    pub kills: u64,
    /// What load and moments follow from, as far as the machine's own pace allows.
    pub seed: u64,
    /// The longest time between the beginning of the load and the kill.
    pub window: Duration,
}

/// What kills left.
#[derive(Clone, Debug, Default, Eq, PartialEq)]
pub struct Tally {
    /// Kills.
    pub kills: u64,
    /// Kills that came before the log was open again.
    pub kills_in_opening: u64,
    /// Messages acknowledged before a kill, as far as the host had heard of it.
    pub acked: u64,
    /// Messages of them that were lost.
    pub lost_acked: u64,
    /// Kills that took acknowledged messages.
    pub losing_kills: u64,
    /// Kills behind which opening cut a torn tail.
    pub torn: u64,
    /// Kills behind which whole records lay behind a hole, and were cut with it.
    pub holes: u64,
    /// Kills behind which the disk lost something that was not flushed, or may have.
    pub cuts: u64,
    /// Why opening was refused; what such a kill left was not checked.
    pub refused: Vec<String>,
    /// Why the file system could not be mounted; likewise.
    pub unmountable: Vec<String>,
    /// Promises that were not kept.
    pub violations: Vec<String>,
}

impl Tally {
    /// Messages acknowledged before a kill and found behind it.
    pub fn survived(&self) -> u64 {
        self.acked - self.lost_acked
    }

    /// Kills whose outcome was checked.
    pub fn checked(&self) -> u64 {
        let unchecked = self.refused.len() + self.unmountable.len();
        self.kills.saturating_sub(store_core::length_u64(unchecked))
    }
}

/// A guest that was booted once, and is brought back for each kill.
#[derive(Debug)]
pub struct Lab {
    parts: Parts,
    fs: FsKind,
    disk: PathBuf,
    record: PathBuf,
    release: String,
}

impl Lab {
    /// Builds the guest's program, boots it, and keeps it in `folder`.
    ///
    /// # Errors
    ///
    /// If the host refuses something, or the guest does not come up.
    pub fn new(host: &Host, fs: FsKind, folder: &Path) -> Result<Self, VmError> {
        let init = build_init(&host.folder)?;
        let parts = Parts {
            qemu: host.qemu.clone(),
            setpriv: host.setpriv.clone(),
            kernel: host.kernel.image().to_owned(),
            initrd: folder.join("initrd"),
            memory: folder.join("memory"),
            state: folder.join("state"),
            console: folder.join("console"),
            control: folder.join("control"),
        };
        let initrd = pack(&host.kernel, &init, fs)?;
        fs::write(&parts.initrd, initrd).map_err(VmError::io("write", &parts.initrd))?;
        let disk = folder.join("disk");
        disk::make(fs, &disk)?;
        let release = parts.take_snapshot(&plain(&disk))?;
        Ok(Self { parts, fs, disk, record: folder.join("record"), release })
    }

    /// What the guest's kernel calls itself.
    pub fn kernel_release(&self) -> &str {
        &self.release
    }

    /// Kills the kernel as often as `plan` says; `on_kill` is told after each.
    ///
    /// Several kills hit one log, which goes on growing on one file system; then a new one begins.
    ///
    /// # Errors
    ///
    /// If the machine does not do as it is told. What the log does wrong is in the tally.
    pub fn run(&self, plan: &Plan, on_kill: &mut dyn FnMut(&Tally)) -> Result<Tally, VmError> {
        let mut tally = Tally::default();
        let mut random = Random::new(plan.seed);
        while tally.kills < plan.kills {
            let mut chain = Chain::new(self, plan, random.next_u64(), &mut tally)?;
            let kills = CHAIN.min(plan.kills - chain.tally.kills);
            for _ in 0..kills {
                if chain.boot(End::Kill)? == Found::Refused {
                    break;
                }
                on_kill(chain.tally);
            }
            if chain.is_open {
                chain.boot(End::Check)?;
            }
        }
        Ok(tally)
    }
}

/// What a boot is for.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum End {
    /// To see what the last kill left.
    Check,
    /// To be killed.
    Kill,
}

/// What a boot found.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
enum Found {
    /// A log that goes on, or nothing yet when the kill came.
    Log,
    /// A log that does not open.
    Refused,
}

/// One file system with one log, through several kills.
struct Chain<'a> {
    lab: &'a Lab,
    plan: &'a Plan,
    random: Random,
    witness: Witness,
    /// The log's own mark, as far as the host heard of it.
    flushed: LogOffset,
    /// The disk, if power is cut.
    device: Option<Device>,
    tally: &'a mut Tally,
    /// How long the last opening took.
    opening: Duration,
    /// Whether the log opens.
    is_open: bool,
}

impl<'a> Chain<'a> {
    fn new(lab: &'a Lab, plan: &'a Plan, seed: u64, tally: &'a mut Tally) -> Result<Self, VmError> {
        disk::make(lab.fs, &lab.disk)?;
        let device = match plan.loss {
            Loss::Kernel => None,
            Loss::Power => Some(Device::of(disk::load(&lab.disk)?)),
        };
        let mut random = Random::new(seed);
        let producers = u32::try_from(random.between(1, 4)).expect("a few");
        let max_body = *random.pick(&[100, 600, 4000, 12_000]);
        let shape = Shape { seed, producers, min_body: 16, max_body };
        Ok(Self {
            lab,
            plan,
            random,
            witness: Witness::new(shape),
            flushed: LogOffset::ZERO,
            device,
            tally,
            opening: Duration::from_millis(200),
            is_open: true,
        })
    }

    /// Brings the guest back, judges what the last kill left, and kills again.
    fn boot(&mut self, end: End) -> Result<Found, VmError> {
        let drive = match &self.device {
            None => plain(&self.lab.disk),
            Some(_) => write_log::recorded(&self.lab.disk, &self.lab.record)?,
        };
        let mut machine = self.lab.parts.restore(&drive)?;
        machine.order(&self.opening().encode())?;
        let mut heard = Heard::default();
        let is_early = end == End::Kill && self.random.chance(EARLY_IN_THOUSAND);
        let limit = if is_early { self.within(self.opening) } else { LIMIT };
        let begun = monotonic();
        while !heard.is_over()
            && let Some(report) = machine.next(limit.saturating_sub(since(begun)))?
        {
            heard.hear(report)?;
        }
        if !heard.is_over() && !is_early {
            return Err(machine.silent("an open log"));
        }
        if is_early {
            for report in machine.kill() {
                heard.hear(report)?;
            }
            self.tally.kills_in_opening += 1;
            self.killed()?;
            return Ok(self.judge(heard));
        }
        self.opening = since(begun);
        if self.judge(heard) == Found::Refused {
            return Ok(Found::Refused);
        }
        if end == End::Kill {
            self.load(&mut machine)?;
            for report in machine.kill() {
                self.hear(report)?;
            }
            self.tally.acked += self.witness.snapshot().acked_records();
            self.killed()?;
        }
        Ok(Found::Log)
    }

    /// The machine is gone; what does its disk hold now?
    fn killed(&mut self) -> Result<(), VmError> {
        self.tally.kills += 1;
        let Some(device) = &mut self.device else { return Ok(()) };
        if write_log::replay(&self.lab.record, device)? {
            let keep = *self.random.pick(&Keep::ALL);
            self.tally.cuts += u64::from(device.unflushed_bytes() > 0);
            let image = device.cut(keep, self.random.next_u64());
            disk::store(&image, &self.lab.disk)?;
            *device = Device::of(image);
        } else {
            // The kill hit the record where it matters: nothing is known to be unflushed.
            *device = Device::of(disk::load(&self.lab.disk)?);
        }
        Ok(())
    }

    fn opening(&mut self) -> Opening {
        let now = clock_gettime(ClockId::Realtime);
        let second = 1_000_000_000;
        let whole = u64::try_from(now.tv_sec).unwrap_or(0) * second;
        Opening {
            wall_ns: whole + u64::try_from(now.tv_nsec).unwrap_or(0),
            fs: self.lab.fs.name().to_owned(),
            mount_options: self.plan.mount_options.to_owned(),
            strategy: self.strategy(),
            mapped: self.random.chance(500),
            zeroed: self.random.chance(500),
            expire_cs: *self.random.pick(&[0, 2, 20]),
        }
    }

    /// The strategy, with intervals between a twentieth and the whole of the plan's.
    fn strategy(&mut self) -> Strategy {
        let random = &mut self.random;
        let mut within = |limit: Duration| {
            let part = u32::try_from(random.between(1, 20)).expect("a few");
            limit * part / 20
        };
        match self.plan.strategy {
            Strategy::CommitRealtime { commit, interval } => {
                Strategy::CommitRealtime { commit: within(commit), interval: within(interval) }
            }
            Strategy::FlushRealtime { interval } => {
                Strategy::FlushRealtime { interval: within(interval) }
            }
            other => other,
        }
    }

    /// Whether what the guest told of its log is what had been promised.
    fn judge(&mut self, heard: Heard) -> Found {
        if let Some((list, said)) = match (heard.refused, heard.unmountable) {
            (Some(said), _) => Some((&mut self.tally.refused, said)),
            (None, Some(said)) => Some((&mut self.tally.unmountable, said)),
            (None, None) => None,
        } {
            list.push(said);
            self.is_open = false;
            return Found::Refused;
        }
        let Some(opened) = heard.opened.filter(|_| heard.is_complete) else {
            return Found::Log;
        };
        let seen = self.witness.snapshot();
        let verdict = check(Promise::Durable, &seen, self.flushed, &seen, &heard.found);
        self.tally.lost_acked += verdict.lost_acked;
        self.tally.losing_kills += u64::from(verdict.lost_acked > 0);
        self.tally.torn += u64::from(opened.torn_bytes > 0);
        self.tally.holes += u64::from(opened.unsynced_records > 0);
        let violations = verdict.violations.iter().map(ToString::to_string);
        self.tally.violations.extend(violations);
        self.witness.reopened(&heard.found);
        self.flushed = opened.end;
        Found::Log
    }

    /// Lets the guest append for a random time.
    fn load(&mut self, machine: &mut Machine) -> Result<(), VmError> {
        let shape = self.witness.shape();
        let claim = |producer| {
            let first = self.witness.claim(producer).index;
            for _ in 1..COUNT {
                self.witness.claim(producer);
            }
            first
        };
        let next = (0..shape.producers).map(claim).collect();
        let pause_us = *self.random.pick(&[0, 300, 3000]);
        machine.order(&Loading { shape, next, count: COUNT, pause_us }.encode())?;
        let limit = self.within(self.plan.window);
        let begun = monotonic();
        while let Some(report) = machine.next(limit.saturating_sub(since(begun)))? {
            self.hear(report)?;
        }
        Ok(())
    }

    fn hear(&mut self, report: Report) -> Result<(), VmError> {
        match report {
            Report::Acked { sent, appended, flushed } => {
                self.witness.placed(sent, appended);
                self.witness.acked_at(sent, self.plan.strategy.mark());
                self.flushed = self.flushed.max(flushed);
                Ok(())
            }
            other => Err(unexpected(other)),
        }
    }

    /// A random time, shorter than `limit`.
    fn within(&mut self, limit: Duration) -> Duration {
        let nanos = u64::try_from(limit.as_nanos()).unwrap_or(u64::MAX);
        Duration::from_nanos(self.random.below(nanos))
    }
}

/// What a guest told of its log.
#[derive(Debug, Default)]
struct Heard {
    opened: Option<Opened>,
    found: Vec<FoundRecord>,
    is_complete: bool,
    refused: Option<String>,
    unmountable: Option<String>,
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    end: LogOffset,
    torn_bytes: u64,
    unsynced_records: u64,
}

impl Heard {
    fn is_over(&self) -> bool {
        self.is_complete || self.refused.is_some() || self.unmountable.is_some()
    }

    fn hear(&mut self, report: Report) -> Result<(), VmError> {
        match report {
            Report::Opened { end, torn_bytes, unsynced_records } => {
                self.opened = Some(Opened { end, torn_bytes, unsynced_records });
            }
            Report::ReadBack => self.is_complete = true,
            Report::Record(record) => self.found.push(record),
            Report::Refused(said) => self.refused = Some(said),
            Report::Unmountable(said) => self.unmountable = Some(said),
            other => return Err(unexpected(other)),
        }
        Ok(())
    }
}

fn unexpected(report: Report) -> VmError {
    let said = match report {
        Report::Failed(said) => said,
        other => format!("it said {other:?} out of turn"),
    };
    VmError::Guest { said }
}

/// Kills that hit one log.
const CHAIN: u64 = 8;
/// How many kills of a thousand come while the log is opened.
const EARLY_IN_THOUSAND: u64 = 125;
/// Messages that a producer sends at most between two kills.
const COUNT: u64 = 1500;
/// A machine that is busy otherwise can be slow.
const LIMIT: Duration = Duration::from_mins(1);
