//! The raw loops: what the disk and the processor allow without a log.

use std::collections::VecDeque;
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use anyhow::{Result, anyhow};
use store_core::crc32;

use super::clocked::{Bench, Measured, for_a_time, once};
use super::files::Sink;
use super::{COPY_BYTES, WINDOW, Work};
use crate::clock::now;
use crate::load::Bodies;

/// One record after the other.
pub(super) fn alone(bench: &Bench<'_>, work: Work, sink: Box<dyn Sink>) -> Result<Measured> {
    let bodies = Bodies::new(SEED, work.record_bytes);
    let sink = Mutex::new(sink);
    for_a_time(bench, 1, |_, window, tally| {
        let mut sink = sink.lock().unwrap_or_else(PoisonError::into_inner);
        for index in 0.. {
            let begun = now();
            if !window.is_open(begun) {
                break;
            }
            sink.append(bodies.get(index))?;
            tally.add(begun, now());
        }
        Ok(())
    })
}

/// Each producer waits for a write that carries its record; the first who comes while none runs
/// makes the next, for all who came by then. One condition variable for every other group, so that
/// a finished group wakes without the one that gathers.
struct Group {
    gathering: Mutex<Gathering>,
    done: [Condvar; 2],
    sink: Mutex<Box<dyn Sink>>,
}

#[derive(Default)]
struct Gathering {
    /// The group that gathers now, from 1.
    group: u64,
    records: Vec<u8>,
    /// Memory for the group after it.
    spare: Vec<u8>,
    is_writing: bool,
    /// The last group that is durable.
    durable: u64,
    failed: Option<io::ErrorKind>,
}

/// Leader and followers.
pub(super) fn group(bench: &Bench<'_>, work: Work, sink: Box<dyn Sink>) -> Result<Measured> {
    let bodies = Bodies::new(SEED, work.record_bytes);
    let gathering = Gathering { group: 1, ..Gathering::default() };
    let group = Group {
        gathering: Mutex::new(gathering),
        done: [Condvar::new(), Condvar::new()],
        sink: Mutex::new(sink),
    };
    for_a_time(bench, work.producers, |producer, window, tally| {
        let first = usize::try_from(producer)? << 16;
        for index in first.. {
            let begun = now();
            if !window.is_open(begun) {
                break;
            }
            group.append(bodies.get(index))?;
            tally.add(begun, now());
        }
        Ok(())
    })
}

impl Group {
    fn append(&self, record: &[u8]) -> Result<()> {
        let mut gathering = self.lock();
        gathering.records.extend_from_slice(record);
        let mine = gathering.group;
        let done = self.done(mine);
        while gathering.durable < mine {
            if let Some(failed) = gathering.failed {
                return Err(anyhow!("another producer's write failed: {failed}"));
            }
            if gathering.is_writing {
                gathering = done.wait(gathering).unwrap_or_else(PoisonError::into_inner);
            } else {
                return self.lead(gathering, mine);
            }
        }
        Ok(())
    }

    fn lead(&self, mut gathering: MutexGuard<'_, Gathering>, mine: u64) -> Result<()> {
        gathering.is_writing = true;
        gathering.group += 1;
        let spare = std::mem::take(&mut gathering.spare);
        let mut records = std::mem::replace(&mut gathering.records, spare);
        drop(gathering);
        let written = self.sink.lock().unwrap_or_else(PoisonError::into_inner).append(&records);
        records.clear();
        let mut gathering = self.lock();
        gathering.spare = records;
        gathering.is_writing = false;
        match written {
            Ok(()) => gathering.durable = mine,
            Err(ref error) => gathering.failed = Some(error.kind()),
        }
        drop(gathering);
        self.done(mine).notify_all();
        // Of those who came meanwhile one leads; after a failure all leave.
        match written {
            Ok(()) => self.done(mine + 1).notify_one(),
            Err(_) => self.done(mine + 1).notify_all(),
        }
        Ok(written?)
    }

    fn done(&self, group: u64) -> &Condvar {
        &self.done[usize::from(group.is_multiple_of(2))]
    }

    fn lock(&self) -> MutexGuard<'_, Gathering> {
        self.gathering.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// Between a producer that copies records and the thread that writes what was copied by then.
struct Pipe {
    copied: Mutex<Vec<u8>>,
    came: Condvar,
    /// Records that are durable.
    durable: AtomicU64,
    moved: Condvar,
    is_over: AtomicBool,
    record_bytes: usize,
}

/// One producer that waits only while [`WINDOW`] of its records are not durable.
pub(super) fn window(bench: &Bench<'_>, work: Work, sink: Box<dyn Sink>) -> Result<Measured> {
    let bodies = Bodies::new(SEED, work.record_bytes);
    let pipe = Pipe {
        copied: Mutex::new(Vec::with_capacity(2 * WINDOW * work.record_bytes)),
        came: Condvar::new(),
        durable: AtomicU64::new(0),
        moved: Condvar::new(),
        is_over: AtomicBool::new(false),
        record_bytes: work.record_bytes,
    };
    thread::scope(|scope| {
        let writer = scope.spawn(|| pipe.write(sink));
        let measured = for_a_time(bench, 1, |_, window, tally| {
            let mut begun = VecDeque::with_capacity(WINDOW);
            let mut told = 0;
            for index in 0.. {
                let at = now();
                if !window.is_open(at) || pipe.is_over() {
                    break;
                }
                begun.push_back(at);
                let durable = pipe.copy(bodies.get(index), begun.len() >= WINDOW, told);
                if told < durable {
                    let done = now();
                    for _ in told..durable {
                        begun.pop_front().into_iter().for_each(|at| tally.add(at, done));
                    }
                    told = durable;
                }
            }
            Ok(())
        });
        pipe.end();
        writer.join().expect("the writer catches errors")?;
        measured
    })
}

impl Pipe {
    /// Copies a record, waits if told until more than `told` are durable, and says how many are.
    fn copy(&self, record: &[u8], waits: bool, told: u64) -> u64 {
        let mut copied = self.lock();
        copied.extend_from_slice(record);
        self.came.notify_one();
        while waits && self.durable() == told && !self.is_over() {
            copied = self.moved.wait(copied).unwrap_or_else(PoisonError::into_inner);
        }
        drop(copied);
        self.durable()
    }

    /// Writes until it is over and nothing is left.
    fn write(&self, mut sink: Box<dyn Sink>) -> io::Result<()> {
        let mut taken = Vec::with_capacity(2 * WINDOW * self.record_bytes);
        loop {
            let mut copied = self.lock();
            while copied.is_empty() && !self.is_over() {
                copied = self.came.wait(copied).unwrap_or_else(PoisonError::into_inner);
            }
            if copied.is_empty() {
                return Ok(());
            }
            std::mem::swap(&mut *copied, &mut taken);
            drop(copied);
            let written = sink.append(&taken);
            let count = store_core::length_u64(taken.len() / self.record_bytes);
            taken.clear();
            // Under the lock, so that who is about to wait does not miss it.
            let copied = self.lock();
            match written {
                Ok(()) => _ = self.durable.fetch_add(count, Ordering::SeqCst),
                Err(_) => self.is_over.store(true, Ordering::SeqCst),
            }
            self.moved.notify_one();
            drop(copied);
            written?;
        }
    }

    fn end(&self) {
        let copied = self.lock();
        self.is_over.store(true, Ordering::SeqCst);
        self.came.notify_one();
        drop(copied);
    }

    fn durable(&self) -> u64 {
        self.durable.load(Ordering::SeqCst)
    }

    fn is_over(&self) -> bool {
        self.is_over.load(Ordering::SeqCst)
    }

    fn lock(&self) -> MutexGuard<'_, Vec<u8>> {
        self.copied.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// A checksum over the message and a copy of its record, for each producer into memory of its own
/// that was touched before.
pub(super) fn copy(bench: &Bench<'_>, work: Work) -> Result<Measured> {
    let bodies = Bodies::new(SEED, work.record_bytes);
    let each = COPY_BYTES / u64::from(work.producers) / store_core::length_u64(work.record_bytes);
    let ring = RING_BYTES / work.record_bytes * work.record_bytes;
    let rings: Vec<_> = (0..work.producers).map(|_| Mutex::new(vec![1_u8; ring])).collect();
    once(bench, work.producers, each * u64::from(work.producers), |producer| {
        let mut ring =
            rings[usize::try_from(producer)?].lock().unwrap_or_else(PoisonError::into_inner);
        let mut places = 0;
        for index in 0..usize::try_from(each)? {
            let record = bodies.get(index);
            if places == ring.len() {
                places = 0;
            }
            let place = &mut ring[places..places + work.record_bytes];
            place.copy_from_slice(record);
            place[8..12].copy_from_slice(&crc32(&record[..work.message_bytes]).to_be_bytes());
            places += work.record_bytes;
        }
        Ok(())
    })
}

/// What the processor's caches do not hold.
const RING_BYTES: usize = 192 << 20;
const SEED: u64 = 1;
