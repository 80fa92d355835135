//! What can be wrong with an emulated disk.

use std::ops::Range;
use std::str::SplitWhitespace;
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::Duration;

use super::timing::Asked;

/// What can be wrong with a disk. Faults of different kinds add up; one of the same kind replaces
/// the one before it. All end with [`PowerDisk::heal`](super::PowerDisk::heal).
#[derive(Clone, Debug, Eq, PartialEq)]
pub enum Fault {
    /// Every read, write and flush fails with EIO.
    Dead,
    /// A flush fails with EIO; nothing becomes durable by it.
    FailFlush(Times),
    /// Reads that touch a range of bytes fail with EIO.
    FailRead(Range<u64>),
    /// Writes that touch a range of bytes fail with EIO, and change nothing.
    FailWrite(Times, Range<u64>),
    /// Everything takes that much longer.
    Slow(Duration),
    /// Requests are not answered until the disk is healed.
    Stuck(Requests),
}

/// How often a fault strikes.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Times {
    /// Each time.
    Always,
    /// The next time alone.
    Once,
}

/// Which requests a fault concerns.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Requests {
    /// Every one.
    All,
    /// Flushes alone.
    Flushes,
    /// Writes alone.
    Writes,
}

impl Fault {
    /// A range of bytes that covers every disk.
    pub const ANYWHERE: Range<u64> = 0..u64::MAX;

    /// As words of the control protocol.
    pub(super) fn words(&self) -> String {
        let times = |times| match times {
            Times::Always => "always",
            Times::Once => "once",
        };
        match self {
            Self::Dead => "dead".to_owned(),
            Self::FailFlush(often) => format!("fail-flush {}", times(*often)),
            Self::FailRead(range) => format!("fail-read {} {}", range.start, range.end),
            Self::FailWrite(often, range) => {
                format!("fail-write {} {} {}", times(*often), range.start, range.end)
            }
            Self::Slow(by) => format!("slow {}", by.as_nanos()),
            Self::Stuck(Requests::All) => "stuck all".to_owned(),
            Self::Stuck(Requests::Flushes) => "stuck flushes".to_owned(),
            Self::Stuck(Requests::Writes) => "stuck writes".to_owned(),
        }
    }

    /// From words of the control protocol.
    pub(super) fn from_words(words: &mut SplitWhitespace<'_>) -> Option<Self> {
        fn times(words: &mut SplitWhitespace<'_>) -> Option<Times> {
            match words.next()? {
                "always" => Some(Times::Always),
                "once" => Some(Times::Once),
                _ => None,
            }
        }
        fn number(words: &mut SplitWhitespace<'_>) -> Option<u64> {
            words.next()?.parse().ok()
        }
        Some(match words.next()? {
            "dead" => Self::Dead,
            "fail-flush" => Self::FailFlush(times(words)?),
            "fail-read" => Self::FailRead(number(words)?..number(words)?),
            "fail-write" => Self::FailWrite(times(words)?, number(words)?..number(words)?),
            "slow" => Self::Slow(Duration::from_nanos(number(words)?)),
            "stuck" => Self::Stuck(match words.next()? {
                "all" => Requests::All,
                "flushes" => Requests::Flushes,
                "writes" => Requests::Writes,
                _ => return None,
            }),
            _ => return None,
        })
    }
}

/// The faults of one disk.
#[derive(Debug, Default)]
pub(super) struct Faults {
    active: Mutex<Active>,
    healed: Condvar,
}

#[derive(Debug, Default)]
struct Active {
    dead: bool,
    flush: Option<Times>,
    read: Option<Range<u64>>,
    write: Option<(Times, Range<u64>)>,
    slow: Duration,
    stuck: Option<Requests>,
}

/// A request fails with EIO.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub(super) struct Failed;

impl Faults {
    pub(super) fn inject(&self, fault: Fault) {
        let mut active = self.active();
        match fault {
            Fault::Dead => active.dead = true,
            Fault::FailFlush(times) => active.flush = Some(times),
            Fault::FailRead(range) => active.read = Some(range),
            Fault::FailWrite(times, range) => active.write = Some((times, range)),
            Fault::Slow(by) => active.slow = by,
            Fault::Stuck(requests) => active.stuck = Some(requests),
        }
    }

    pub(super) fn heal(&self) {
        *self.active() = Active::default();
        self.healed.notify_all();
    }

    /// What becomes of a request: it fails, or takes so much longer. Blocks while it is stuck.
    pub(super) fn before(&self, asked: Asked, range: &Range<u64>) -> Result<Duration, Failed> {
        let mut active = self.active();
        while active.holds(asked) {
            active = self.healed.wait(active).unwrap_or_else(PoisonError::into_inner);
        }
        if active.fails(asked, range) { Err(Failed) } else { Ok(active.slow) }
    }

    fn active(&self) -> MutexGuard<'_, Active> {
        self.active.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Active {
    fn holds(&self, asked: Asked) -> bool {
        match self.stuck {
            None => false,
            Some(Requests::All) => true,
            Some(Requests::Flushes) => asked == Asked::Flush,
            Some(Requests::Writes) => asked == Asked::Write,
        }
    }

    fn fails(&mut self, asked: Asked, range: &Range<u64>) -> bool {
        let touches = |other: &Range<u64>| range.start < other.end && other.start < range.end;
        let struck = match asked {
            Asked::Flush => self.flush.is_some(),
            Asked::Read => self.read.as_ref().is_some_and(touches),
            Asked::Write => self.write.as_ref().is_some_and(|(_, range)| touches(range)),
        };
        if struck && asked == Asked::Flush && self.flush == Some(Times::Once) {
            self.flush = None;
        }
        if struck && asked == Asked::Write && matches!(self.write, Some((Times::Once, _))) {
            self.write = None;
        }
        struck || self.dead
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_fault_strikes_where_and_as_often_as_it_says() {
        let faults = Faults::default();
        let strikes = |asked, range: Range<u64>| faults.before(asked, &range).is_err();
        faults.inject(Fault::FailWrite(Times::Once, 4096..8192));
        faults.inject(Fault::FailFlush(Times::Always));
        assert!(!strikes(Asked::Write, 0..4096));
        assert!(!strikes(Asked::Read, 4096..8192));
        assert!(strikes(Asked::Write, 0..4097));
        assert!(!strikes(Asked::Write, 0..4097), "once");
        assert!(strikes(Asked::Flush, 0..0) && strikes(Asked::Flush, 0..0));
        faults.heal();
        assert!(!strikes(Asked::Flush, 0..0));
        faults.inject(Fault::Dead);
        assert!(strikes(Asked::Read, 0..1) && strikes(Asked::Read, 0..1));
    }

    #[test]
    fn a_stuck_request_goes_on_when_the_disk_is_healed() {
        let faults = Faults::default();
        faults.inject(Fault::Stuck(Requests::Flushes));
        assert_eq!(faults.before(Asked::Write, &(0..1)), Ok(Duration::ZERO));
        std::thread::scope(|scope| {
            let stuck = scope.spawn(|| faults.before(Asked::Flush, &(0..0)));
            faults.heal();
            assert_eq!(stuck.join().unwrap(), Ok(Duration::ZERO));
        });
    }

    #[test]
    fn faults_come_back_from_their_words() {
        for fault in [
            Fault::Dead,
            Fault::FailFlush(Times::Once),
            Fault::FailRead(1..2),
            Fault::FailWrite(Times::Always, Fault::ANYWHERE),
            Fault::Slow(Duration::from_millis(3)),
            Fault::Stuck(Requests::All),
            Fault::Stuck(Requests::Flushes),
            Fault::Stuck(Requests::Writes),
        ] {
            let words = fault.words();
            assert_eq!(Fault::from_words(&mut words.split_whitespace()), Some(fault));
        }
        assert_eq!(Fault::from_words(&mut "slow down".split_whitespace()), None);
    }
}
