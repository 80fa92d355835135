//! What the machine did meanwhile: the device, processors, faults, pressure, other people's writes.
//!
//! Read from `/proc`, so it needs no rights; what is not there is `None`.

mod others;

use std::fs;

use rustix::time::{ClockId, clock_gettime};

pub use self::others::Others;
use crate::clock::float;
use crate::disk::{self, DiskCounters};
use crate::results::Machine;

/// All that is counted of a device, of this process and of others while something is measured.
#[derive(Clone, Debug)]
pub struct Look<'a> {
    device: Option<&'a str>,
    others: Option<Others>,
    counted: Option<DiskCounters>,
    counters: Counters,
}

impl<'a> Look<'a> {
    /// Begins to look, at `device` too, by its name in `/sys`.
    pub fn begin(device: Option<&'a str>) -> Self {
        // Looking at every process takes longest, and is no part of what is measured.
        let others = Others::now();
        Self { device, others, counted: device.and_then(disk::counters), counters: Counters::now() }
    }

    /// What was done since, of which so many nanoseconds are gone.
    pub fn end(&self, passed_ns: u64) -> (Option<DiskCounters>, Machine) {
        let counted = self.device.and_then(disk::counters);
        let device = self.counted.zip(counted).map(|(before, after)| after.since(&before));
        let written = device.as_ref().map(|device| device.write_bytes);
        let machine = Counters::now().since(&self.counters, passed_ns, written);
        let others = self.others.as_ref();
        let now = others.and_then(|before| Some((Others::now()?, before)));
        let machine = Machine {
            others_write_bytes: now.as_ref().map(|(now, before)| now.since(before)),
            others_hidden: now.as_ref().map(|(now, _)| now.hidden),
            ..machine
        };
        (device, machine)
    }
}

/// Counters that only grow, at one moment.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Counters {
    processors: Option<Processors>,
    own: Option<Own>,
    /// Time in which some task waited for a disk, in microseconds.
    io_pressure_us: Option<u64>,
    /// Bytes that this process had written to disks.
    pub own_write_bytes: Option<u64>,
}

/// Time of all processors, in ticks.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Processors {
    all: u64,
    waiting_for_io: u64,
    stolen: u64,
}

/// This process: ticks and faults.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
struct Own {
    user: u64,
    system: u64,
    minor_faults: u64,
    major_faults: u64,
}

impl Counters {
    /// The counters now.
    pub fn now() -> Self {
        let read = |path| fs::read_to_string(path).ok();
        Self {
            processors: read("/proc/stat").and_then(|text| processors(&text)),
            own: read("/proc/self/stat").and_then(|text| own(&text)),
            io_pressure_us: read("/proc/pressure/io").and_then(|text| pressure(&text)),
            own_write_bytes: read("/proc/self/io").and_then(|text| write_bytes(&text)),
        }
    }

    /// What was done since `earlier`, of which so many nanoseconds are gone, while the device was
    /// given so many bytes.
    pub fn since(&self, earlier: &Self, passed_ns: u64, device_bytes: Option<u64>) -> Machine {
        let processors = self.processors.zip(earlier.processors);
        let share = |of: fn(&Processors) -> u64| {
            let (now, before) = processors?;
            let all = now.all.saturating_sub(before.all);
            let part = of(&now).saturating_sub(of(&before));
            (all > 0).then(|| 100.0 * float(part) / float(all))
        };
        let grown = |of: fn(&Own) -> u64| {
            let (now, before) = self.own.zip(earlier.own)?;
            Some(of(&now).saturating_sub(of(&before)))
        };
        let pressure = self.io_pressure_us.zip(earlier.io_pressure_us);
        let written = self.own_write_bytes.zip(earlier.own_write_bytes);
        let written = written.map(|(now, before)| now.saturating_sub(before));
        Machine {
            user_ns: grown(|own| own.user).map(|ticks| ticks * TICK_NS),
            system_ns: grown(|own| own.system).map(|ticks| ticks * TICK_NS),
            steal_pct: share(|all| all.stolen),
            iowait_pct: share(|all| all.waiting_for_io),
            minor_faults: grown(|own| own.minor_faults),
            major_faults: grown(|own| own.major_faults),
            io_pressure_pct: pressure.filter(|_| passed_ns > 0).map(|(now, before)| {
                100.0 * 1e3 * float(now.saturating_sub(before)) / float(passed_ns)
            }),
            foreign_write_bytes: device_bytes
                .zip(written)
                .map(|(device, own)| device.saturating_sub(own)),
            own_write_bytes: written,
            others_write_bytes: None,
            others_hidden: None,
            sampler_pct: None,
            generator_pct: None,
        }
    }
}

/// How long tasks have waited since the machine began, by `/proc/pressure`, in microseconds.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Waited {
    io_us: u64,
    processor_us: u64,
}

/// How much of a time some task waited, in percent.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Pressure {
    /// For a disk.
    pub io_pct: f64,
    /// For a processor.
    pub processor_pct: f64,
}

impl Waited {
    /// Until now; `None` where the kernel does not count it.
    pub fn now() -> Option<Self> {
        let read = |path| fs::read_to_string(path).ok().and_then(|text| pressure(&text));
        Some(Self { io_us: read("/proc/pressure/io")?, processor_us: read("/proc/pressure/cpu")? })
    }

    /// Of the time since `earlier`, so many nanoseconds.
    pub fn since(self, earlier: Self, passed_ns: u64) -> Pressure {
        let share = |now: u64, before: u64| {
            100.0 * 1e3 * float(now.saturating_sub(before)) / float(passed_ns.max(1))
        };
        Pressure {
            io_pct: share(self.io_us, earlier.io_us),
            processor_pct: share(self.processor_us, earlier.processor_us),
        }
    }
}

/// Processor time that the calling thread has had, in nanoseconds.
pub fn thread_ns() -> u64 {
    let had = clock_gettime(ClockId::ThreadCPUTime);
    let seconds = u64::try_from(had.tv_sec).unwrap_or(0);
    seconds * 1_000_000_000 + u64::try_from(had.tv_nsec).unwrap_or(0)
}

/// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal; what
/// guests had is counted as user time already.
fn processors(text: &str) -> Option<Processors> {
    let fields = text.lines().next()?.strip_prefix("cpu ")?;
    let ticks: Vec<u64> = fields.split_whitespace().map_while(|field| field.parse().ok()).collect();
    let all = ticks.get(..8)?;
    Some(Processors { all: all.iter().sum(), waiting_for_io: all[4], stolen: all[7] })
}

/// `/proc/self/stat`: behind the name, which may hold anything and ends with the last bracket,
/// stand state, parent and so on.
fn own(text: &str) -> Option<Own> {
    let (_, fields) = text.rsplit_once(')')?;
    let fields: Vec<&str> = fields.split_whitespace().collect();
    // The number of a field in proc(5), of which the third is the first here.
    let field = |number: usize| fields.get(number - 3)?.parse().ok();
    Some(Own {
        minor_faults: field(10)?,
        major_faults: field(12)?,
        user: field(14)?,
        system: field(15)?,
    })
}

/// The total of the line that begins with `some`.
fn pressure(text: &str) -> Option<u64> {
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

fn write_bytes(text: &str) -> Option<u64> {
    text.lines().find_map(|line| line.strip_prefix("write_bytes: "))?.trim().parse().ok()
}

/// `USER_HZ` is 100 on every architecture that Linux runs on today.
const TICK_NS: u64 = 10_000_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_kernels_files_are_understood() {
        let stat = "cpu  10 1 5 100 7 2 3 4 50 60\ncpu0 1 2 3\n";
        assert_eq!(processors(stat), Some(Processors { all: 132, waiting_for_io: 7, stolen: 4 }));
        assert_eq!(processors("cpu  1 2 3\n"), None);
        let own_stat = "77 (a b) c)) S 1 77 77 0 -1 4194304 300 0 5 0 40 20 0 0 20 0 4 0 9\n";
        let expect = Own { minor_faults: 300, major_faults: 5, user: 40, system: 20 };
        assert_eq!(own(own_stat), Some(expect));
        let io = "some avg10=0.00 avg60=0.10 avg300=0.20 total=123456\nfull avg10=0 total=7\n";
        assert_eq!(pressure(io), Some(123_456));
        assert_eq!(
            write_bytes("read_bytes: 5\nwrite_bytes: 4096\ncancelled_write_bytes: 1\n"),
            Some(4096)
        );
        assert_eq!(write_bytes("cancelled_write_bytes: 1\n"), None);
    }

    #[test]
    fn what_was_done_between_two_moments_is_told_in_shares() {
        let before = Counters {
            processors: Some(Processors { all: 1000, waiting_for_io: 50, stolen: 10 }),
            own: Some(Own { user: 3, system: 4, minor_faults: 5, major_faults: 0 }),
            io_pressure_us: Some(1000),
            own_write_bytes: Some(1 << 20),
        };
        let after = Counters {
            processors: Some(Processors { all: 1200, waiting_for_io: 70, stolen: 16 }),
            own: Some(Own { user: 8, system: 5, minor_faults: 9, major_faults: 1 }),
            io_pressure_us: Some(251_000),
            own_write_bytes: Some(3 << 20),
        };
        let found = after.since(&before, 1_000_000_000, Some(5 << 20));
        assert_eq!(found.user_ns, Some(50_000_000));
        assert_eq!(found.system_ns, Some(10_000_000));
        assert_eq!((found.minor_faults, found.major_faults), (Some(4), Some(1)));
        assert_eq!(found.steal_pct, Some(3.0));
        assert_eq!(found.iowait_pct, Some(10.0));
        assert_eq!(found.io_pressure_pct, Some(25.0));
        assert_eq!(found.foreign_write_bytes, Some(3 << 20));
        assert_eq!(found.own_write_bytes, Some(2 << 20));
        let nothing = Counters::default().since(&before, 0, None);
        assert_eq!(nothing, Machine::default());
    }

    #[test]
    fn waiting_is_told_in_shares_of_the_time() {
        let before = Waited { io_us: 1000, processor_us: 7 };
        let after = Waited { io_us: 101_000, processor_us: 10_007 };
        let expect = Pressure { io_pct: 10.0, processor_pct: 1.0 };
        assert_eq!(after.since(before, 1_000_000_000), expect);
    }

    #[test]
    fn this_machine_counts() {
        let before = Counters::now();
        let mut sum = 0_u64;
        while Counters::now().own.is_some_and(|own| {
            Some(own.user + own.system) == before.own.map(|own| own.user + own.system)
        }) {
            sum = sum.wrapping_add(1);
        }
        let found = Counters::now().since(&before, 1, None);
        let spent = found.user_ns.zip(found.system_ns).map(|(user, system)| user + system);
        assert!(before.own.is_none() || spent.unwrap() > 0, "{found:?} after {sum} looks");
    }
}
