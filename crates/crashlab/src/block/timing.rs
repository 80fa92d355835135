//! How long an emulated disk takes.

use std::fmt;
use std::str::SplitWhitespace;
use std::time::Duration;

use store_core::Nanos;

/// How long a device takes for what it is asked.
///
/// A request first waits for the transfers before it, takes its own transfer's time, and then its
/// latency, which overlaps with other requests' unless the device is `serial`.
#[derive(Clone, Copy, Debug, Default, Eq, PartialEq)]
pub struct Timing {
    /// Latency of a read.
    pub read: Duration,
    /// Latency of a write.
    pub write: Duration,
    /// Latency of a flush.
    pub flush: Duration,
    /// Bytes a second that reads and writes share; 0 is no limit.
    pub bytes_per_s: u64,
    /// Reads and writes a second; 0 is no limit.
    pub iops: u64,
    /// One request at a time, as a disk with one arm.
    pub serial: bool,
}

/// Types of disks to emulate (`durability.md`, section 4: what a mapped append and a sync take).
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum DiskType {
    /// A cloud's network volume with 3000 operations a second.
    Cloud3000Iops,
    /// A disk of 7200 turns a minute.
    Hdd7200,
    /// `NVMe` without power-loss protection: a flush writes its cache out.
    NvmeNoPlp,
    /// `NVMe` with power-loss protection: a flush has nothing to do.
    NvmePlp,
    /// SATA without power-loss protection.
    SataNoPlp,
    /// SATA with power-loss protection.
    SataPlp,
}

impl DiskType {
    /// All of them, the fastest first.
    pub const ALL: [Self; 6] = [
        Self::NvmePlp,
        Self::SataPlp,
        Self::NvmeNoPlp,
        Self::Cloud3000Iops,
        Self::SataNoPlp,
        Self::Hdd7200,
    ];

    /// Its name on a command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Cloud3000Iops => "cloud-3000iops",
            Self::Hdd7200 => "hdd-7200",
            Self::NvmeNoPlp => "nvme-noplp",
            Self::NvmePlp => "nvme-plp",
            Self::SataNoPlp => "sata-noplp",
            Self::SataPlp => "sata-plp",
        }
    }

    /// The type of that name.
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|known| known.name() == name)
    }

    /// How long it takes.
    pub fn timing(self) -> Timing {
        let of = |read, write, flush, megabytes_per_s: u64| Timing {
            read: Duration::from_micros(read),
            write: Duration::from_micros(write),
            flush: Duration::from_micros(flush),
            bytes_per_s: megabytes_per_s * 1_000_000,
            iops: 0,
            serial: false,
        };
        match self {
            Self::Cloud3000Iops => Timing { iops: 3000, ..of(700, 700, 40, 125) },
            Self::Hdd7200 => Timing { serial: true, ..of(8000, 4200, 8000, 180) },
            Self::NvmeNoPlp => of(80, 25, 750, 2000),
            Self::NvmePlp => of(80, 15, 5, 3000),
            Self::SataNoPlp => of(100, 60, 1900, 500),
            Self::SataPlp => of(100, 60, 75, 500),
        }
    }
}

impl fmt::Display for DiskType {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.name())
    }
}

impl Timing {
    /// As fast as the machine allows.
    pub const INSTANT: Self = Self {
        read: Duration::ZERO,
        write: Duration::ZERO,
        flush: Duration::ZERO,
        bytes_per_s: 0,
        iops: 0,
        serial: false,
    };

    /// What a write of `bytes` and the flush after it take on an idle device.
    pub fn sync(&self, bytes: u64) -> Duration {
        self.transfer(bytes) + self.write + self.flush
    }

    fn transfer(&self, bytes: u64) -> Duration {
        let by_bytes = (u128::from(bytes) * 1_000_000_000).checked_div(self.bytes_per_s.into());
        let by_count = 1_000_000_000_u64.checked_div(self.iops).unwrap_or(0);
        let by_bytes = by_bytes.and_then(|ns| u64::try_from(ns).ok()).unwrap_or(0);
        Duration::from_nanos(by_bytes.max(by_count))
    }

    /// As words of the control protocol.
    pub(super) fn words(&self) -> String {
        format!(
            "{} {} {} {} {} {}",
            self.read.as_nanos(),
            self.write.as_nanos(),
            self.flush.as_nanos(),
            self.bytes_per_s,
            self.iops,
            u8::from(self.serial)
        )
    }

    /// From words of the control protocol.
    pub(super) fn from_words(words: &mut SplitWhitespace<'_>) -> Option<Self> {
        let mut number = || words.next()?.parse::<u64>().ok();
        Some(Self {
            read: Duration::from_nanos(number()?),
            write: Duration::from_nanos(number()?),
            flush: Duration::from_nanos(number()?),
            bytes_per_s: number()?,
            iops: number()?,
            serial: number()? != 0,
        })
    }
}

/// What a device is asked.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Asked {
    /// To make durable what was written.
    Flush,
    /// For bytes.
    Read,
    /// To take bytes.
    Write,
}

/// When a device is free again.
#[derive(Clone, Copy, Debug)]
pub struct Schedule {
    pub(super) timing: Timing,
    free: Nanos,
}

impl Schedule {
    /// A device that has nothing to do.
    pub fn new(timing: Timing) -> Self {
        Self { timing, free: Nanos::new(0) }
    }

    /// When a request that came at `now` is done. Requests are to come in the order of time.
    pub fn due(&mut self, now: Nanos, asked: Asked, bytes: u64) -> Nanos {
        let (transfer, latency) = match asked {
            Asked::Flush => (Duration::ZERO, self.timing.flush),
            Asked::Read => (self.timing.transfer(bytes), self.timing.read),
            Asked::Write => (self.timing.transfer(bytes), self.timing.write),
        };
        let transferred = now.max(self.free).after(nanos(transfer));
        let due = transferred.after(nanos(latency));
        self.free = if self.timing.serial { due } else { transferred };
        due
    }
}

pub(super) fn nanos(duration: Duration) -> Nanos {
    Nanos::new(u64::try_from(duration.as_nanos()).unwrap_or(u64::MAX))
}

#[cfg(test)]
mod tests {
    use super::*;

    const START: Nanos = Nanos::new(1_000_000_000);

    #[track_caller]
    fn check_due(timing: Timing, asked: &[(Asked, u64)], expect_us: &[u64]) {
        let mut schedule = Schedule::new(timing);
        let due: Vec<_> = asked
            .iter()
            .map(|&(asked, bytes)| schedule.due(START, asked, bytes).since(START).get() / 1000)
            .collect();
        assert_eq!(due, expect_us);
    }

    #[test]
    fn latencies_overlap_and_transfers_do_not() {
        let timing = Timing { iops: 0, ..DiskType::Cloud3000Iops.timing() };
        let write = (Asked::Write, 125_000);
        check_due(timing, &[write, write, (Asked::Flush, 0)], &[1700, 2700, 2040]);
    }

    #[test]
    fn a_limit_of_operations_spaces_them() {
        let timing = DiskType::Cloud3000Iops.timing();
        let write = (Asked::Write, 4096);
        check_due(timing, &[write, write, write], &[1033, 1366, 1699]);
    }

    #[test]
    fn a_disk_with_one_arm_does_one_thing_at_a_time() {
        let timing = DiskType::Hdd7200.timing();
        check_due(timing, &[(Asked::Write, 0), (Asked::Flush, 0)], &[4200, 12_200]);
    }

    #[test]
    fn types_and_timings_come_back_from_what_names_them() {
        for known in DiskType::ALL {
            assert_eq!(DiskType::named(known.name()), Some(known));
            let words = known.timing().words();
            assert_eq!(Timing::from_words(&mut words.split_whitespace()), Some(known.timing()));
        }
        assert_eq!(DiskType::named("floppy"), None);
    }
}
