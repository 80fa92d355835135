//! Kills at random moments, and what each left of the log.

use std::fs;
use std::path::{Path, PathBuf};
use std::time::Duration;

use rustix::time::{ClockId, clock_gettime};
use store_core::{AckAt, LogOffset};
use store_os::monotonic;

use crate::check::{FoundRecord, Promise, check};
use crate::payload::Shape;
use crate::random::Random;
use crate::witness::Witness;

use super::error::VmError;
use super::host::Host;
use super::initramfs::{build_init, pack};
use super::machine::{Machine, Parts, plain, since};
use super::wire::{Loading, Opening, Report};
use super::{Fs, Strategy};

/// How often a kernel is killed, and under what load.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Plan {
    /// The strategy of the guest's log.
    pub strategy: Strategy,
    /// Kills.
    pub kills: u64,
    /// What load and moments follow from, as far as the machine's own pace allows.
    pub seed: u64,
    /// The longest time between the beginning of the load and the kill.
    pub window: Duration,
    /// Whether every acknowledgement is taken for a promise of durability, whatever the strategy
    /// says. A lie under the asynchronous ones, which has to be caught.
    pub claims_durable: bool,
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
    /// Kills behind which opening kept a copy of what it cut.
    pub set_aside: u64,
    /// Why opening was refused; such a kill was not checked.
    pub refused: Vec<String>,
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
        self.kills - store_core::length_u64(self.refused.len())
    }
}

/// A guest that was booted once, and is brought back for each kill.
#[derive(Debug)]
pub struct Lab {
    parts: Parts,
    fs: Fs,
    disk: PathBuf,
    release: String,
}

impl Lab {
    /// Builds the guest's program, boots it, and keeps it in `folder`.
    ///
    /// # Errors
    ///
    /// If the host refuses something, or the guest does not come up.
    pub fn new(host: &Host, fs: Fs, folder: &Path) -> Result<Self, VmError> {
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
        fs.make(&disk)?;
        let release = parts.take_snapshot(&disk)?;
        Ok(Self { parts, fs, disk, release })
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
        let mut random = Random::of(plan.seed, plan.strategy.code().into());
        while tally.kills < plan.kills {
            self.fs.make(&self.disk)?;
            let mut chain = Chain::new(self, plan, random.next_u64(), &mut tally);
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
    tally: &'a mut Tally,
    /// How long the last opening took.
    opening: Duration,
    /// Whether the log opens.
    is_open: bool,
}

impl<'a> Chain<'a> {
    fn new(lab: &'a Lab, plan: &'a Plan, seed: u64, tally: &'a mut Tally) -> Self {
        let mut random = Random::new(seed);
        let producers = u32::try_from(random.between(1, 4)).expect("a few");
        let max_body = *random.pick(&[100, 600, 4000, 12_000]);
        let shape = Shape { seed, producers, min_body: 16, max_body };
        Self {
            lab,
            plan,
            random,
            witness: Witness::new(shape),
            flushed: LogOffset::ZERO,
            tally,
            opening: Duration::from_millis(200),
            is_open: true,
        }
    }

    /// Brings the guest back, judges what the last kill left, and kills again.
    fn boot(&mut self, end: End) -> Result<Found, VmError> {
        let mut machine = self.lab.parts.restore(&plain(&self.lab.disk))?;
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
            self.tally.kills += 1;
            self.tally.kills_in_opening += 1;
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
            self.tally.kills += 1;
            self.tally.acked += self.witness.snapshot().acked_records();
        }
        Ok(Found::Log)
    }

    fn opening(&mut self) -> Opening {
        let now = clock_gettime(ClockId::Realtime);
        let second = 1_000_000_000;
        let whole = u64::try_from(now.tv_sec).unwrap_or(0) * second;
        Opening {
            wall_ns: whole + u64::try_from(now.tv_nsec).unwrap_or(0),
            fs: self.lab.fs.name().to_owned(),
            strategy: self.plan.strategy,
            interval_us: self.random.between(5000, 100_000),
            mapped: self.random.chance(500),
            zeroed: self.random.chance(500),
            expire_cs: *self.random.pick(&[0, 2, 20]),
        }
    }

    /// Whether what the guest told of its log is what had been promised.
    fn judge(&mut self, heard: Heard) -> Found {
        if let Some(refused) = heard.refused {
            self.tally.refused.push(refused);
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
        self.tally.set_aside += u64::from(opened.set_aside_bytes > 0);
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
                let mark = self.plan.strategy.mark();
                let mark = if self.plan.claims_durable { AckAt::Flushed } else { mark };
                self.witness.acked_at(sent, mark);
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
}

#[derive(Clone, Copy, Debug)]
struct Opened {
    end: LogOffset,
    torn_bytes: u64,
    set_aside_bytes: u64,
}

impl Heard {
    fn is_over(&self) -> bool {
        self.is_complete || self.refused.is_some()
    }

    fn hear(&mut self, report: Report) -> Result<(), VmError> {
        match report {
            Report::Opened { end, torn_bytes, set_aside_bytes } => {
                self.opened = Some(Opened { end, torn_bytes, set_aside_bytes });
            }
            Report::ReadBack => self.is_complete = true,
            Report::Record(record) => self.found.push(record),
            Report::Refused(said) => self.refused = Some(said),
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
