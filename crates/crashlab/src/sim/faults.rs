//! What can go wrong with a simulated disk, and when.

use rustix::io::Errno;
use store_core::Nanos;

use crate::random::Random;

/// A fault of one life of a log. Calls are counted by kind, from the life's opening on.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Fault {
    /// The call fails.
    Call {
        /// What kind of call.
        call: Call,
        /// Which of its kind.
        number: u32,
        /// How many from there on.
        count: u32,
        /// How.
        errno: Errno,
    },
    /// Writing back what is dirty of some file fails in the background; the next sync of the file
    /// tells it, once.
    WriteBack {
        /// How long after the opening.
        after: Nanos,
    },
}

/// The calls that can fail.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub enum Call {
    /// `fallocate`.
    Allocate,
    /// Any that changes something.
    Change,
    /// Making a file.
    Create,
    /// `pread`.
    Read,
    /// `fsync`, `fdatasync`, `msync` of a file.
    Sync,
    /// `fsync` of a directory.
    SyncDirectory,
    /// `pwrite`; a part of it may be done.
    Write,
}

impl Call {
    const COUNT: usize = 7;

    fn index(self) -> usize {
        match self {
            Self::Allocate => 0,
            Self::Change => 1,
            Self::Create => 2,
            Self::Read => 3,
            Self::Sync => 4,
            Self::SyncDirectory => 5,
            Self::Write => 6,
        }
    }
}

impl Fault {
    /// Any fault.
    pub fn any(random: &mut Random) -> Self {
        let (call, last, errnos): (_, _, &[_]) = match random.below(10) {
            0 => return Self::WriteBack { after: Nanos::new(random.below(20_000_000)) },
            1..4 => (Call::Sync, 40, &[Errno::IO, Errno::NOSPC, Errno::DQUOT]),
            4 | 5 => (Call::Write, 60, &[Errno::IO, Errno::NOSPC, Errno::DQUOT]),
            6 => (Call::Allocate, 6, &[Errno::NOSPC, Errno::DQUOT, Errno::IO]),
            7 => (Call::Create, 9, &[Errno::NOSPC, Errno::MFILE, Errno::IO]),
            8 => (Call::SyncDirectory, 16, &[Errno::IO]),
            _ => match random.below(2) {
                0 => (Call::Read, 60, &[Errno::IO]),
                _ => (Call::Change, 200, &[Errno::ROFS]),
            },
        };
        let count = match call {
            // What was mounted again read-only stays so.
            Call::Change => u32::MAX,
            Call::Allocate => *random.pick(&[1, 1, 3]),
            _ => 1,
        };
        let number = u32::try_from(random.below(last)).unwrap_or(0);
        Self::Call { call, number, count, errno: *random.pick(errnos) }
    }
}

/// The faults of a life, with the calls counted.
#[derive(Clone, Debug, Default)]
pub(crate) struct Faults {
    planned: Vec<Fault>,
    counts: [u32; Call::COUNT],
    /// What failed by now.
    pub(crate) fired: Vec<(Call, Errno)>,
    pub(crate) are_off: bool,
}

impl Faults {
    pub(crate) fn new(faults: &[Fault]) -> Self {
        Self { planned: faults.to_vec(), ..Self::default() }
    }

    /// A call of this kind comes: whether it fails.
    pub(crate) fn before(&mut self, call: Call) -> Result<(), Errno> {
        if self.are_off || self.planned.is_empty() {
            return Ok(());
        }
        let number = self.counts[call.index()];
        self.counts[call.index()] += 1;
        for fault in &self.planned {
            if let Fault::Call { call: of, number: first, count, errno } = *fault
                && of == call
                && (first..first.saturating_add(count)).contains(&number)
            {
                self.fired.push((call, errno));
                return Err(errno);
            }
        }
        Ok(())
    }

    /// The machine was started again, or the file system mounted anew: nothing goes wrong any more
    /// that goes on.
    pub(crate) fn remount(&mut self) {
        self.planned.retain(|fault| !matches!(fault, Fault::Call { count: u32::MAX, .. }));
    }
}
