//! What happens to a log, in the order of virtual time.

use std::cmp::Reverse;
use std::collections::{BinaryHeap, VecDeque};
use std::sync::atomic::Ordering;

use anyhow::{Context, Result};
use crashlab::block::DiskType;
use store_core::{Nanos, QueueId};
use store_os::{SteppedLog, Ticket};

use super::files::MemoryFiles;
use super::lanes::LaneState;
use super::producer::Producer;
use super::watch::Watching;
use super::{Answers, BEGINNING, Device};
use crate::cell::Setting;
use crate::cell::watch::Window;
use crate::load::{Load, Produced, QUEUES, TOPIC};
use crate::recorder::Recorder;

/// A log with its producers, its lanes and its disk.
pub(super) struct World<'a> {
    pub(super) setting: &'a Setting<'a>,
    pub(super) load: &'a Load,
    pub(super) recorder: &'a Recorder,
    files: &'a MemoryFiles,
    pub(super) log: SteppedLog,
    pub(super) answers: Answers,
    pub(super) device: Device,
    pub(super) has_interval: bool,
    pub(super) now: Nanos,
    pub(super) agenda: Agenda,
    pub(super) lanes: [LaneState; 2],
    pub(super) producers: Vec<Producer>,
    /// Who waits for a sync, in the log's order.
    pub(super) waiting: VecDeque<(usize, Ticket)>,
    /// Who waits for room in the staging buffer.
    pub(super) blocked: Vec<usize>,
    /// When the log takes the next append.
    pub(super) free_at: Nanos,
    /// The producer in whose thread the sync under way is.
    pub(super) leader: Option<usize>,
    pub(super) watching: Watching,
}

/// What a run came to.
pub(super) struct Ran {
    pub(super) window: Window,
    pub(super) produced: Vec<Produced>,
}

impl<'a> World<'a> {
    pub(super) fn new(
        setting: &'a Setting<'a>,
        load: &'a Load,
        files: &'a MemoryFiles,
        recorder: &'a Recorder,
        (log, answers): (SteppedLog, Answers),
        disk: DiskType,
        has_interval: bool,
    ) -> Result<Self> {
        let count = usize::try_from(load.shape.producers)?;
        let producer = |index: usize| -> Result<Producer> {
            let id = i32::try_from(index % QUEUES)?;
            let queue = log.queue(TOPIC, QueueId::new(id))?;
            Ok(Producer::new(queue, load.schedule(index)))
        };
        let producers: Vec<Producer> = (0..count).map(producer).collect::<Result<_>>()?;
        Ok(Self {
            setting,
            load,
            recorder,
            files,
            log,
            answers,
            device: Device::new(disk),
            has_interval,
            now: BEGINNING,
            agenda: Agenda::default(),
            lanes: [LaneState::Resting(None); 2],
            producers,
            waiting: VecDeque::new(),
            blocked: Vec::new(),
            free_at: BEGINNING,
            leader: None,
            watching: Watching::default(),
        })
    }

    /// Lets time pass until the cell is over and everyone has its answer; `None` if interrupted.
    pub(super) fn run(mut self) -> Result<Option<Ran>> {
        for lane in 0..self.lanes.len() {
            self.begin(lane);
        }
        for producer in 0..self.producers.len() {
            self.arm(producer);
        }
        self.agenda.add(self.now, Event::Tick);
        while !self.is_over() {
            let (at, event) = self.agenda.take().context("there always is a tick")?;
            self.now = at;
            self.files.set(at);
            match event {
                Event::Answered { producer, in_time } => self.answered(producer, in_time),
                Event::Append(producer) => self.append(producer)?,
                Event::Due(producer) => self.due(producer),
                Event::Lane(lane) => self.turn(lane)?,
                Event::Tick => {
                    if self.setting.interrupted.load(Ordering::Relaxed) {
                        self.log.abandon();
                        return Ok(None);
                    }
                    self.settle()?;
                    self.tick();
                    self.agenda.add(self.now.after(TICK), Event::Tick);
                }
            }
        }
        Ok(self.ended())
    }

    fn is_over(&self) -> bool {
        self.watching.is_over() && self.producers.iter().all(Producer::is_idle)
    }

    fn ended(self) -> Option<Ran> {
        let Self { log, load, producers, watching, .. } = self;
        log.abandon();
        let produced = producers.into_iter().enumerate();
        let produced = produced.map(|(index, producer)| producer.ended(load, index)).collect();
        watching.window.map(|window| Ran { window, produced })
    }
}

/// What happens at some time.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd)]
pub(super) enum Event {
    /// A producer learns that a message is acknowledged, or that its deadline has passed.
    Answered { producer: usize, in_time: bool },
    /// A producer's message is placed in the log.
    Append(usize),
    /// A producer sends a message.
    Due(usize),
    /// A lane's time has come; it may have had its turn before.
    Lane(usize),
    /// The cell is looked at.
    Tick,
}

/// What is to happen, in the order of time, and of coming at the same time.
#[derive(Debug, Default)]
pub(super) struct Agenda {
    events: BinaryHeap<Reverse<(Nanos, u64, Event)>>,
    count: u64,
}

impl Agenda {
    pub(super) fn add(&mut self, at: Nanos, event: Event) {
        self.events.push(Reverse((at, self.count, event)));
        self.count += 1;
    }

    fn take(&mut self) -> Option<(Nanos, Event)> {
        self.events.pop().map(|Reverse((at, _, event))| (at, event))
    }
}

/// How often a cell is looked at.
const TICK: Nanos = Nanos::from_millis(1);
