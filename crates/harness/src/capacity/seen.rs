//! A measured row as capacity sees it: what it took, what it cost, and what of an ask it broke.

use super::Ask;
use super::passes::Passes;
use crate::clock::float;
use crate::format;
use crate::profile::{Pace, Sweep, Workload};
use crate::results::Cell;
use crate::summary::{Doubt, Loops, LossModel, Relied, Row};

/// A row with its cells.
#[derive(Clone, Debug)]
pub(super) struct Seen<'a> {
    pub(super) row: &'a Row,
    pub(super) relied: Relied,
    /// Messages came in bursts, or others were at the disk: what it broke, an even load may keep.
    pub(super) is_harder: bool,
    cells: Vec<&'a Cell>,
}

impl<'a> Seen<'a> {
    /// Of a row of these cells, as far as they are its; `None` if none of them counts.
    pub(super) fn of(row: &'a Row, cells: &'a [Cell], sweep: Option<&Sweep>) -> Option<Self> {
        let relied = row.relied()?;
        let cells: Vec<&Cell> = cells.iter().filter(|cell| row.counts(cell)).collect();
        Some(Self { row, relied, is_harder: is_harder(sweep, row, &cells), cells })
    }

    /// The mean over blocks of a cell's figure.
    pub(super) fn mean(&self, of: impl Fn(&Cell) -> f64) -> f64 {
        let sum: f64 = self.cells.iter().map(|cell| of(cell)).sum();
        sum / float(store_core::length_u64(self.cells.len())).max(1.0)
    }

    pub(super) fn message_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.message_bytes).max().unwrap_or(0)
    }

    /// What comes on top of a body in the log.
    pub(super) fn overhead_bytes(&self) -> f64 {
        self.mean(|cell| float(cell.record_bytes.saturating_sub(cell.message_bytes)))
    }

    pub(super) fn interval_ns(&self) -> Option<f64> {
        self.cells.first()?.interval.configured_ns.map(float)
    }

    /// Age of what the crash takes, in the worst block.
    pub(super) fn loss_ns(&self, model: LossModel) -> Result<f64, Doubt> {
        match model {
            LossModel::Power => self.relied.power_ns,
            LossModel::Process => self.relied.process_ns,
        }
    }

    /// To acknowledgement, 99 of 100 messages, in the worst block.
    pub(super) fn ack_p99_ns(&self) -> Option<f64> {
        self.relied.ack_p99_ns.ok()
    }

    /// Messages a second that it took in the slowest block,
    pub(super) fn least_per_s(&self) -> f64 {
        match self.offered_per_s() {
            // How arrivals fell is chance.
            Some((least, _)) if !self.row.is_overloaded() => least,
            _ => self.row.figures.map_or(0.0, |figures| figures.acked_per_s.min),
        }
    }

    /// and that it was given in the fastest.
    pub(super) fn most_per_s(&self) -> f64 {
        let acked = || self.row.figures.map_or(f64::INFINITY, |figures| figures.acked_per_s.max);
        self.offered_per_s().map_or_else(acked, |(_, most)| most)
    }

    /// What was due a second in an open loop, at least and at most.
    fn offered_per_s(&self) -> Option<(f64, f64)> {
        let mut each = self.cells.iter().map(|cell| Some(cell.open_loop.as_ref()?.offered_per_s));
        let first = each.next()??;
        each.try_fold((first, first), |(least, most), offered| {
            Some((least.min(offered?), most.max(offered?)))
        })
    }

    /// Messages that may be on their way at a time.
    pub(super) fn most_in_flight(&self) -> u64 {
        let windows = self.cells.iter().map(|cell| u64::from(cell.window)).max();
        u64::from(self.row.producers) * windows.unwrap_or(1)
    }

    /// Whether it says, of messages that come when they come, what a closed loop hides: while a
    /// producer waits it sends nothing, so that a stall is one late message.
    pub(super) fn is_open(&self) -> bool {
        self.row.loops == Loops::Open
    }

    /// Log bytes a second in the slowest block.
    pub(super) fn bytes_per_s(&self) -> f64 {
        self.least_per_s() * self.mean(|cell| float(cell.record_bytes))
    }

    /// The slowest sync of all blocks.
    pub(super) fn longest_sync_ns(&self) -> f64 {
        self.cells.iter().map(|cell| float(cell.flush_ns.max)).fold(0.0, f64::max)
    }

    /// Whether it took at least this load.
    pub(super) fn is_above(&self, ask: &Ask) -> bool {
        self.least_per_s() >= ask.rate_per_s && self.message_bytes() >= ask.message_bytes
    }

    /// Whether it was given no more than this load, and no harder one.
    pub(super) fn is_below(&self, ask: &Ask) -> bool {
        let is_less = self.message_bytes() <= ask.message_bytes;
        is_less && self.most_per_s() <= ask.rate_per_s && !self.is_harder
    }

    /// At this load; of a timed strategy one in each interval, however many messages come. Of
    /// others as many as the row had at most: fewer messages share fewer of them, down to one each.
    pub(super) fn syncs_per_s(&self, passes: &Passes, ask: &Ask, bytes_per_s: f64) -> f64 {
        let per_message = self.mean(|cell| cell.fsync_per_ack);
        let most = per_message * self.least_per_s().max(ask.rate_per_s);
        let between = passes.between_syncs_ns(bytes_per_s);
        between.map_or(most.min(ask.rate_per_s), |between| 1e9 / between.max(1.0))
    }

    /// What of the asked was broken, in words, if what it lost was so much older; none if all was
    /// kept.
    pub(super) fn broken(&self, ask: &Ask, older_ns: f64) -> Vec<String> {
        let lost = match self.loss_ns(ask.model) {
            Err(doubt) => Some(format!("its loss: {}", doubt.words())),
            Ok(loss) => {
                let loss = loss + older_ns;
                (loss > ask.loss_ns).then(|| format!("it loses {}", format::duration(loss)))
            }
        };
        lost.into_iter().chain(self.broken_but_loss(ask)).collect()
    }

    /// Whether it lost more than is asked for sure: a lower bound may be within it.
    pub(super) fn lost_more(&self, ask: &Ask, older_ns: f64) -> bool {
        let seen = || self.row.figures.map(|figures| ask.model.loss(&figures).age_ns.max);
        match self.loss_ns(ask.model) {
            Ok(loss) => loss + older_ns > ask.loss_ns,
            Err(Doubt::AtLeast) => seen().is_some_and(|least| least + older_ns > ask.loss_ns),
            Err(_) => true,
        }
    }

    /// Whether what it promised of this crash is void, whatever its load: nothing was flushed.
    pub(super) fn is_void(&self, model: LossModel) -> bool {
        matches!(self.loss_ns(model), Err(Doubt::Everything | Doubt::NotFlushed))
    }

    /// What of the asked was broken beside what it loses.
    pub(super) fn broken_but_loss(&self, ask: &Ask) -> Option<String> {
        // With more due than it takes, messages wait ever longer, whether anybody asks or not.
        if self.row.is_overloaded() {
            return Some(Doubt::Overload.words().to_owned());
        }
        let asked = ask.ack_p99_ns?;
        match self.relied.ack_p99_ns {
            Err(doubt) => Some(format!("its ack p99: {}", doubt.words())),
            Ok(p99) => (p99 > asked).then(|| format!("its ack p99 is {}", format::duration(p99))),
        }
    }
}

fn is_harder(sweep: Option<&Sweep>, row: &Row, cells: &[&Cell]) -> bool {
    let bursts = |workload: &Workload| {
        workload.name == row.workload && matches!(workload.pace, Pace::Rate { burst: Some(_), .. })
    };
    let has_bursts = sweep.is_some_and(|sweep| sweep.workloads.iter().any(bursts));
    has_bursts || cells.iter().any(|cell| cell.is_disturbed())
}
