//! What is measured, and who does it.

use serde::{Deserialize, Serialize};

/// The same work, done by several contenders.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Case {
    /// One producer that waits for each record's sync.
    Sync1,
    /// 16 of them.
    Sync16,
    /// 64 of them.
    Sync64,
    /// 256 of them.
    Sync256,
    /// 64 of them with messages of 16 KiB.
    Sync64Large,
    /// One producer with up to 4096 records on their way.
    Window,
    /// One producer that waits for nothing, messages of 1 KiB, in memory that is ready.
    Copy1,
    /// Two of them.
    Copy2,
    /// One with messages of 128 B.
    Copy1Small,
    /// Two of them.
    Copy2Small,
    /// One producer that waits for nothing, 1 KiB, until long after the kernel's dirty limit was
    /// appended, and what it takes until the last of it is durable.
    Sustained,
    /// One producer at 0.7 of the rate that can be sustained, 1 KiB, a flush each half second.
    Paced,
    /// A log of some gigabytes opened without a recovery point, from a cold page cache.
    Scan,
}

impl Case {
    /// Every case, in the order in which they are shown.
    pub const ALL: [Self; 13] = [
        Self::Sync1,
        Self::Sync16,
        Self::Sync64,
        Self::Sync256,
        Self::Sync64Large,
        Self::Window,
        Self::Copy1,
        Self::Copy2,
        Self::Copy1Small,
        Self::Copy2Small,
        Self::Sustained,
        Self::Paced,
        Self::Scan,
    ];

    /// Whether it writes or reads gigabytes, and so is measured only if it is named.
    pub fn is_large(self) -> bool {
        matches!(self, Self::Sustained | Self::Paced | Self::Scan)
    }

    /// Its name on the command line.
    pub fn name(self) -> &'static str {
        match self {
            Self::Sync1 => "sync-1",
            Self::Sync16 => "sync-16",
            Self::Sync64 => "sync-64",
            Self::Sync256 => "sync-256",
            Self::Sync64Large => "sync-64-16k",
            Self::Window => "window",
            Self::Copy1 => "copy-1",
            Self::Copy2 => "copy-2",
            Self::Copy1Small => "copy-1-128",
            Self::Copy2Small => "copy-2-128",
            Self::Sustained => "sustained",
            Self::Paced => "paced",
            Self::Scan => "scan",
        }
    }

    /// What is done, in words.
    pub fn words(self) -> &'static str {
        match self {
            Self::Sync1 => "1 producer waits for its sync, 1 KiB",
            Self::Sync16 => "16 producers wait for their sync, 1 KiB",
            Self::Sync64 => "64 producers wait for their sync, 1 KiB",
            Self::Sync256 => "256 producers wait for their sync, 1 KiB",
            Self::Sync64Large => "64 producers wait for their sync, 16 KiB",
            Self::Window => "1 producer, 4096 on their way to their sync, 1 KiB",
            Self::Copy1 => "1 producer, into memory that is ready, 1 KiB",
            Self::Copy2 => "2 producers, into memory that is ready, 1 KiB",
            Self::Copy1Small => "1 producer, into memory that is ready, 128 B",
            Self::Copy2Small => "2 producers, into memory that is ready, 128 B",
            Self::Sustained => {
                "1 producer, past the dirty limit, until the last byte is durable, 1 KiB"
            }
            Self::Paced => "1 producer at 0.7 of what is sustained, a flush each 500 ms, 1 KiB",
            Self::Scan => "opening a log without a recovery point, from a cold cache, 1 KiB",
        }
    }

    /// The share of the best raw loop that the log is to reach; `None` for [`Case::Paced`], whose
    /// rate is given: that has [`PACED_P9999_NS`](super::PACED_P9999_NS),
    /// [`PACED_MAX_NS`](super::PACED_MAX_NS) and [`PACED_WRITTEN`](super::PACED_WRITTEN).
    pub fn goal(self) -> Option<f64> {
        Some(match self {
            Self::Sync1 | Self::Sync16 | Self::Sync64 => 0.95,
            Self::Sync256 | Self::Sync64Large | Self::Sustained => 0.9,
            Self::Window => 0.7,
            Self::Copy1 | Self::Copy2 => 0.5,
            Self::Copy1Small | Self::Copy2Small => 0.35,
            Self::Scan => 0.8,
            Self::Paced => return None,
        })
    }

    pub(super) fn producers(self) -> u32 {
        match self {
            Self::Sync1
            | Self::Window
            | Self::Copy1
            | Self::Copy1Small
            | Self::Sustained
            | Self::Paced
            | Self::Scan => 1,
            Self::Copy2 | Self::Copy2Small => 2,
            Self::Sync16 => 16,
            Self::Sync64 | Self::Sync64Large => 64,
            Self::Sync256 => 256,
        }
    }

    pub(super) fn message_bytes(self) -> usize {
        match self {
            Self::Sync64Large => 16 << 10,
            Self::Copy1Small | Self::Copy2Small => 128,
            _ => 1 << 10,
        }
    }

    /// Two segments of the log hold what is appended meanwhile, unless that is not to be.
    pub(super) fn file_bytes(self, contender: Contender) -> u64 {
        match self {
            Self::Sync256 | Self::Sync64Large | Self::Window if contender != Contender::Zeroing => {
                4 * FILE_BYTES
            }
            _ => FILE_BYTES,
        }
    }

    pub(super) fn contenders(self) -> &'static [Contender] {
        match self {
            Self::Sync1 => &[
                Contender::Fdatasync,
                Contender::Dsync,
                Contender::Msync,
                Contender::Direct,
                Contender::Lead,
                Contender::HandOver,
                Contender::Positioned,
                Contender::Mapped,
                Contender::Growing,
            ],
            Self::Sync16 | Self::Sync64 => &[
                Contender::Fdatasync,
                Contender::Msync,
                Contender::Direct,
                Contender::Lead,
                Contender::Positioned,
            ],
            Self::Sync256 | Self::Sync64Large => &[
                Contender::Fdatasync,
                Contender::Direct,
                Contender::Lead,
                Contender::Positioned,
                Contender::Zeroing,
            ],
            Self::Window => {
                &[Contender::Fdatasync, Contender::Direct, Contender::Tickets, Contender::Zeroing]
            }
            Self::Copy1 | Self::Copy2 | Self::Copy1Small | Self::Copy2Small => {
                &[Contender::Copy, Contender::Async]
            }
            Self::Sustained => &[
                Contender::Pieces,
                Contender::Fdatasync,
                Contender::Async,
                Contender::Positioned,
                Contender::Staged,
            ],
            Self::Paced => {
                &[Contender::Fdatasync, Contender::Async, Contender::Positioned, Contender::Staged]
            }
            Self::Scan => {
                &[Contender::Read, Contender::Pieces, Contender::Checksum, Contender::Open]
            }
        }
    }
}

/// Who does it.
#[derive(Clone, Copy, Debug, Deserialize, Eq, PartialEq, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Contender {
    /// `pwrite` and `fdatasync`; one for all who wait where there are several producers. In
    /// [`Case::Sustained`] (pieces of 1 MiB) and [`Case::Paced`] another thread syncs, each half
    /// second.
    Fdatasync,
    /// `pwrite` through a descriptor with `O_DSYNC`.
    Dsync,
    /// Stores into a mapping, and `msync` of the pages that they are in.
    Msync,
    /// `pwrite` through a descriptor with `O_DSYNC` and `O_DIRECT`: whole blocks of 4 KiB, the last
    /// one again with the next record.
    Direct,
    /// A checksum over the body and a copy, into memory of its own.
    Copy,
    /// The log's group commit; who waits alone runs the sync.
    Lead,
    /// The log's group commit; the flush lane's thread runs every sync.
    HandOver,
    /// The log through the page cache and `fdatasync`.
    Positioned,
    /// The log's group commit through a mapping and `msync`.
    Mapped,
    /// The log's group commit into files that grow with each sync.
    Growing,
    /// The log, in segments so small that the next ones are made and filled with zeroes meanwhile:
    /// the others of its case have filled theirs before, as the raw loops have.
    Zeroing,
    /// The log's group commit with a window of tickets.
    Tickets,
    /// The log's appends into a staging buffer, written past the page cache.
    Staged,
    /// The log's appends that wait for nothing, through a mapping.
    Async,
    /// Pieces of 1 MiB through a descriptor with `O_DIRECT`, one after the other.
    Pieces,
    /// `pread` of 1 MiB after the other.
    Read,
    /// A checksum over each record once, from memory, on every core.
    Checksum,
    /// The log, opened.
    Open,
}

impl Contender {
    /// Whether it is the log, not a raw loop.
    pub fn is_log(self) -> bool {
        matches!(
            self,
            Self::Lead
                | Self::HandOver
                | Self::Positioned
                | Self::Mapped
                | Self::Growing
                | Self::Zeroing
                | Self::Tickets
                | Self::Async
                | Self::Staged
                | Self::Open
        )
    }

    /// What it is called in the tables.
    pub fn words(self) -> &'static str {
        match self {
            Self::Fdatasync => "raw pwrite + fdatasync",
            Self::Dsync => "raw pwrite O_DSYNC",
            Self::Msync => "raw mapped + msync",
            Self::Direct => "raw O_DIRECT|O_DSYNC",
            Self::Copy => "raw checksum + copy",
            Self::Lead => "log",
            Self::HandOver => "log, handed over",
            Self::Positioned => "log, pwrite + fdatasync",
            Self::Mapped => "log, mapped + msync",
            Self::Growing => "log, growing file",
            Self::Zeroing => "log, zeroing meanwhile",
            Self::Tickets => "log, tickets",
            Self::Async => "log, asynchronous",
            Self::Staged => "log, staged + O_DIRECT",
            Self::Pieces => "raw O_DIRECT, 1 MiB each",
            Self::Read => "raw pread, 1 MiB each",
            Self::Checksum => "raw checksum, all cores",
            Self::Open => "log, opened",
        }
    }
}

/// What a second of small groups fits in.
pub(super) const FILE_BYTES: u64 = 128 << 20;
