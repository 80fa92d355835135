//! Which strategy and settings carry a load on a measured disk and keep what is asked.
//!
//! What was measured answers first: a row that took at least this load and kept it does so at less;
//! one that broke it at no more load breaks it at this one. Between, a model answers, if it
//! predicts every measured row that it has not seen; else nobody knows.

mod model;
mod text;

use anyhow::{Result, ensure};
use serde::Serialize;

pub use self::model::{HeldOut, MOST_ERROR_PCT, Model, Predicted};
pub use self::text::text;
use crate::chart::LossModel;
use crate::clock::float;
use crate::profile::{Pace, Sweep, Workload};
use crate::recorded::Recorded;
use crate::results::{Cell, Kind, Status};
use crate::summary::{self, Extent, Row};

/// The schema of [`Capacity`].
pub const SCHEMA: &str = "flushmark.capacity/1.0";

/// A load, and what is asked of it.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Ask {
    /// Messages a second.
    pub rate_per_s: f64,
    /// Bytes of a message's body.
    pub message_bytes: u64,
    /// The age of what a crash may take, in 99 of 100 moments.
    pub loss_ns: f64,
    /// What 99 of 100 messages must be acknowledged within; `None` if nothing is asked.
    pub ack_p99_ns: Option<f64>,
    /// Which crash.
    pub model: LossModel,
}

/// What the results say about an [`Ask`].
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Capacity {
    /// [`SCHEMA`].
    pub schema: String,
    /// The run that was asked.
    pub run: String,
    /// What each strategy does on each disk under each kernel setting, the best choice first.
    pub choices: Vec<Choice>,
    /// The models, used or not.
    pub models: Vec<Model>,
}

/// A strategy under kernel settings on a disk.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Choice {
    /// The disk's name.
    pub disk: String,
    /// What the disk was, if not hardware: `EMULATED`.
    pub not_hardware: Option<String>,
    /// The kernel settings' name.
    pub sysctl: String,
    /// The strategy's name.
    pub strategy: String,
    /// What it is.
    pub kind: Kind,
    /// Whether it keeps what is asked.
    pub standing: Standing,
    /// How that is known.
    pub basis: Basis,
    /// Why, in words.
    pub why: String,
    /// The flush interval; `null` for strategies without one.
    pub interval_ns: Option<f64>,
    /// The load of the row that answers: producers by messages that each may have without
    /// acknowledgement.
    pub producers: Option<u32>,
    /// The highest rate that was measured with what is asked kept, messages at least as large, the
    /// lower end of its range.
    pub keeps_up_to_per_s: Option<f64>,
    /// Whether that rate is page-cache absorbed, which no disk sustains.
    pub page_cache_absorbed: bool,
    /// To acknowledgement, 99 of 100 messages, the upper end.
    pub ack_p99_ns: Option<f64>,
    /// Age of what the crash takes, the upper end.
    pub loss_ns: Option<f64>,
    /// Log bytes that it takes, about: those of the asked load that are so old at most.
    pub loss_bytes: Option<f64>,
    /// Syncs a second, which is what the strategy costs the disk.
    pub syncs_per_s: Option<f64>,
}

/// Whether what is asked is kept.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Standing {
    /// It is.
    Keeps,
    /// Nobody knows.
    Unknown,
    /// It is not.
    Breaks,
}

/// How something is known.
#[derive(Clone, Copy, Debug, Eq, Ord, PartialEq, PartialOrd, Serialize)]
#[serde(rename_all = "snake_case")]
pub enum Basis {
    /// It was measured.
    Measured,
    /// The model says so, within what was measured.
    Modelled,
    /// The model says so, beyond what was measured.
    Extrapolated,
    /// It is not known.
    Unknown,
}

impl Capacity {
    /// What to take on this disk: of what keeps it, what was measured first, then the fewest syncs.
    pub fn chosen(&self, disk: &str) -> Option<&Choice> {
        self.of_disk(disk).find(|choice| choice.standing == Standing::Keeps)
    }

    /// Of the strategies that cost the disk fewer syncs than this one, the one that loses least.
    pub fn next_cheaper(&self, than: &Choice) -> Option<&Choice> {
        let syncs = than.syncs_per_s?;
        let cheaper = self.of_disk(&than.disk).filter(|choice| {
            choice.sysctl == than.sysctl && choice.syncs_per_s.is_some_and(|of| of < syncs)
        });
        let known = cheaper.filter(|choice| choice.loss_ns.is_some());
        known.min_by(|a, b| a.loss_ns.unwrap_or(0.0).total_cmp(&b.loss_ns.unwrap_or(0.0)))
    }

    /// The choices on a disk, the best first.
    pub fn of_disk(&self, disk: &str) -> impl Iterator<Item = &Choice> {
        self.choices.iter().filter(move |choice| choice.disk == disk)
    }

    /// The disks.
    pub fn disks(&self) -> Vec<&str> {
        let mut disks: Vec<&str> = self.choices.iter().map(|choice| &*choice.disk).collect();
        disks.sort_unstable();
        disks.dedup();
        disks
    }
}

impl Choice {
    /// How many disks like this carry the load, each with a log of its own; `None` if no load was
    /// measured at which it keeps what is asked.
    pub fn disks_needed(&self, ask: &Ask) -> Option<f64> {
        let each = self.keeps_up_to_per_s.filter(|rate| *rate > 0.0)?;
        Some((ask.rate_per_s / each).ceil().max(1.0))
    }
}

/// What these results say about a load and what is asked of it.
///
/// # Errors
///
/// If they have no valid row of a strategy.
pub fn capacity(recorded: &Recorded, ask: &Ask) -> Result<Capacity> {
    let rows = summary::rows(&recorded.cells);
    // Only the profile tells of bursts; one that is not read any more tells nothing.
    let sweep = Sweep::parse("profile.yaml", &recorded.manifest.profile).ok();
    let mut groups: Vec<Group<'_>> = Vec::new();
    for row in rows.iter().filter(|row| is_strategy(row.kind) && row.figures.is_some()) {
        let cells: Vec<&Cell> = recorded.cells.iter().filter(|cell| counts(row, cell)).collect();
        let seen = Seen { row, is_harder: is_harder(sweep.as_ref(), row, &cells), cells };
        let same = |group: &&mut Group<'_>| group.is_of(row);
        match groups.iter_mut().find(same) {
            Some(group) => group.seen.push(seen),
            None => groups.push(Group { seen: vec![seen] }),
        }
    }
    ensure!(
        !groups.is_empty(),
        "there is no valid row of a strategy in these results: measure with cargo xtask bench"
    );
    let models: Vec<Model> = groups.iter().map(|group| Model::of(&group.seen)).collect();
    let mut choices: Vec<Choice> =
        groups.iter().zip(&models).map(|(group, model)| group.choice(model, ask)).collect();
    let syncs = |choice: &Choice| choice.syncs_per_s.unwrap_or(f64::INFINITY);
    choices.sort_by(|a, b| {
        let order = (a.standing, a.basis).cmp(&(b.standing, b.basis));
        let room = |choice: &Choice| choice.keeps_up_to_per_s.unwrap_or(0.0);
        let cost = syncs(a).total_cmp(&syncs(b)).then(room(b).total_cmp(&room(a)));
        a.disk.cmp(&b.disk).then(order).then(cost)
    });
    let run = recorded.manifest.run.clone();
    Ok(Capacity { schema: SCHEMA.to_owned(), run, choices, models })
}

fn is_strategy(kind: Kind) -> bool {
    !matches!(kind, Kind::None | Kind::Raw)
}

fn is_harder(sweep: Option<&Sweep>, row: &Row, cells: &[&Cell]) -> bool {
    let bursts = |workload: &Workload| {
        workload.name == row.workload && matches!(workload.pace, Pace::Rate { burst: Some(_), .. })
    };
    let has_bursts = sweep.is_some_and(|sweep| sweep.workloads.iter().any(bursts));
    has_bursts || cells.iter().any(|cell| cell.reader)
}

/// Whether the cell is one of those that the row's figures are of.
fn counts(row: &Row, cell: &Cell) -> bool {
    let same = cell.disk == row.disk && cell.sysctl == row.sysctl && cell.workload == row.workload;
    same && cell.strategy == row.strategy
        && cell.producers == row.producers
        && cell.status != Status::Invalid
}

/// A row with its cells.
#[derive(Clone, Debug)]
pub(crate) struct Seen<'a> {
    row: &'a Row,
    cells: Vec<&'a Cell>,
    /// Messages came in bursts, or a reader disturbed: what it broke, an even load may keep.
    is_harder: bool,
}

impl Seen<'_> {
    /// The mean over blocks of a cell's figure.
    fn mean(&self, of: impl Fn(&Cell) -> f64) -> f64 {
        let sum: f64 = self.cells.iter().map(|cell| of(cell)).sum();
        sum / float(store_core::length_u64(self.cells.len())).max(1.0)
    }

    fn message_bytes(&self) -> u64 {
        self.cells.iter().map(|cell| cell.message_bytes).max().unwrap_or(0)
    }

    /// What comes on top of a body in the log.
    fn overhead_bytes(&self) -> f64 {
        self.mean(|cell| float(cell.record_bytes.saturating_sub(cell.message_bytes)))
    }

    fn interval_ns(&self) -> Option<f64> {
        self.cells.first()?.interval.configured_ns.map(float)
    }

    fn is_overloaded(&self) -> bool {
        self.cells.iter().any(|cell| cell.status == Status::Overload)
    }

    /// Age of what the crash takes, the upper end; `None` if that was not seen whole.
    fn loss_ns(&self, model: LossModel) -> Option<f64> {
        let loss = model.loss(&self.row.figures?);
        (loss.extent == Extent::Measured).then(|| loss.age_ns.high())
    }

    fn ack_p99_ns(&self) -> Option<f64> {
        if self.is_overloaded() {
            return None;
        }
        Some(self.row.figures?.ack_p99?.ns.high())
    }

    fn rate_low(&self) -> f64 {
        self.row.figures.map_or(0.0, |figures| figures.acked_per_s.low())
    }

    /// At this rate; of a timed strategy one in each interval, however many messages come.
    fn syncs_per_s(&self, rate: f64) -> f64 {
        let per_message = self.mean(|cell| cell.fsync_per_ack);
        self.interval_ns().map_or(per_message * rate, |interval| 1e9 / interval.max(1.0))
    }

    /// What of the asked was broken, in words; none if all was kept.
    fn broken(&self, ask: &Ask) -> Vec<String> {
        let shown = crate::format::duration;
        let mut broken = Vec::new();
        match self.loss_ns(ask.model) {
            None => broken.push("its loss was not seen whole".to_owned()),
            Some(loss) if loss > ask.loss_ns => broken.push(format!("it loses {}", shown(loss))),
            Some(_) => {}
        }
        match (ask.ack_p99_ns, self.ack_p99_ns()) {
            (Some(_), None) => broken.push("it was overloaded".to_owned()),
            (Some(asked), Some(p99)) if p99 > asked => {
                broken.push(format!("its ack p99 is {}", shown(p99)));
            }
            _ => {}
        }
        broken
    }
}

/// The rows of a strategy under kernel settings on a disk.
#[derive(Clone, Debug)]
struct Group<'a> {
    seen: Vec<Seen<'a>>,
}

impl Group<'_> {
    fn is_of(&self, row: &Row) -> bool {
        self.seen.iter().any(|seen| {
            let of = seen.row;
            of.disk == row.disk && of.sysctl == row.sysctl && of.strategy == row.strategy
        })
    }

    /// What this strategy does with the load: by a row that kept it, by the model, by a row that
    /// broke it at less.
    fn choice(&self, model: &Model, ask: &Ask) -> Choice {
        let heavy = self.seen.iter().filter(|seen| seen.message_bytes() >= ask.message_bytes);
        let kept = heavy.filter(|seen| seen.broken(ask).is_empty());
        let best = kept.max_by(|a, b| a.rate_low().total_cmp(&b.rate_low()));
        let mut choice = self.blank(model);
        choice.keeps_up_to_per_s = best.map(Seen::rate_low);
        choice.page_cache_absorbed = best.is_some_and(|seen| seen.row.page_cache_absorbed);
        if let Some(seen) = best.filter(|seen| seen.rate_low() >= ask.rate_per_s) {
            return measured(choice, seen, ask, Standing::Keeps, "kept at this load or more");
        }
        // What was broken by less, and not by a rate that it could not reach.
        let light = self.seen.iter().filter(|seen| {
            let rate = seen.row.figures.map_or(f64::INFINITY, |of| of.acked_per_s.high());
            let is_less = seen.message_bytes() <= ask.message_bytes && rate <= ask.rate_per_s;
            is_less && !seen.is_harder
        });
        let broke = light.map(|seen| (seen, seen.broken(ask))).find(|(_, of)| !of.is_empty());
        let model_keeps = model.is_used().then(|| self.by_model(&choice, model, ask));
        if let Some(modelled) = model_keeps.flatten() {
            return modelled;
        }
        if let Some((seen, broken)) = broke {
            let why = format!("at {} already, {}", seen.row.label(), broken.join(" and "));
            return measured(choice, seen, ask, Standing::Breaks, &why);
        }
        self.unknown(choice, model, ask)
    }

    fn blank(&self, model: &Model) -> Choice {
        let row = self.seen[0].row;
        Choice {
            disk: row.disk.clone(),
            not_hardware: row.not_hardware.word().map(str::to_owned),
            sysctl: row.sysctl.clone(),
            strategy: row.strategy.clone(),
            kind: row.kind,
            standing: Standing::Unknown,
            basis: Basis::Unknown,
            why: String::new(),
            interval_ns: model.interval_ns,
            producers: None,
            keeps_up_to_per_s: None,
            page_cache_absorbed: false,
            ack_p99_ns: None,
            loss_ns: None,
            loss_bytes: None,
            syncs_per_s: None,
        }
    }

    /// By the model, at the interval as it is or a shorter one that keeps the loss; `None` if the
    /// model has no answer. Acknowledgements do not wait for these syncs, so their time is that of
    /// rows that took at least as many messages; without such a row nobody knows.
    fn by_model(&self, blank: &Choice, model: &Model, ask: &Ask) -> Option<Choice> {
        let configured = model.interval_ns?;
        let p99 = self.above(ask).map(Seen::ack_p99_ns).reduce(|a, b| Some(a?.max(b?))).flatten();
        if ask.ack_p99_ns.is_some_and(|asked| p99.is_none_or(|p99| p99 > asked)) {
            return None;
        }
        let interval = model.interval_for(ask, configured)?;
        let predicted = model.predict(ask.rate_per_s, ask.message_bytes, interval)?;
        let is_inside = predicted.inside && interval >= configured;
        let basis = if is_inside { Basis::Modelled } else { Basis::Extrapolated };
        let why = if interval < configured {
            format!("with an interval of {}", crate::format::duration(interval))
        } else {
            "by the model, at its interval".to_owned()
        };
        let loss_ns = predicted.loss_ns(ask.model);
        Some(Choice {
            standing: Standing::Keeps,
            basis,
            why,
            interval_ns: Some(interval),
            ack_p99_ns: p99,
            loss_ns: Some(loss_ns),
            loss_bytes: Some(at_risk_bytes(loss_ns, ask, model.overhead_bytes)),
            syncs_per_s: Some(1e9 / (interval + predicted.sync_ns)),
            ..blank.clone()
        })
    }

    /// Rows that took at least this load.
    fn above(&self, ask: &Ask) -> impl Iterator<Item = &Seen<'_>> {
        self.seen.iter().filter(|seen| {
            seen.rate_low() >= ask.rate_per_s && seen.message_bytes() >= ask.message_bytes
        })
    }

    fn unknown(&self, choice: Choice, model: &Model, ask: &Ask) -> Choice {
        let most = self.seen.iter().map(Seen::rate_low).fold(0.0, f64::max);
        let why = if most < ask.rate_per_s {
            format!("no more than {} msg/s was measured", crate::format::count(most))
        } else if self.seen.iter().all(|seen| seen.message_bytes() < ask.message_bytes) {
            "only smaller messages were measured".to_owned()
        } else if self.above(ask).next().is_none() {
            "no row took as many messages of that size".to_owned()
        } else {
            "broken at higher loads; between, no row was measured".to_owned()
        };
        let why = match &model.not_used {
            Some(reason) => format!("{why}, and the model is not used: {reason}"),
            None => why,
        };
        // The nearest row above says what it loses at most.
        let above = self.above(ask);
        let nearest = above.min_by(|a, b| a.rate_low().total_cmp(&b.rate_low()));
        let loss_ns = nearest.and_then(|seen| seen.loss_ns(ask.model));
        let syncs_per_s = Some(nearest.unwrap_or(&self.seen[0]).syncs_per_s(ask.rate_per_s));
        let loss_bytes = loss_ns.map(|age| at_risk_bytes(age, ask, model.overhead_bytes));
        Choice { why, loss_ns, loss_bytes, syncs_per_s, ..choice }
    }
}

/// Log bytes of the asked load that are so old at most.
fn at_risk_bytes(age_ns: f64, ask: &Ask, overhead_bytes: f64) -> f64 {
    age_ns / 1e9 * ask.rate_per_s * (float(ask.message_bytes) + overhead_bytes)
}

/// The choice with what this row measured.
fn measured(choice: Choice, seen: &Seen<'_>, ask: &Ask, standing: Standing, why: &str) -> Choice {
    let loss_ns = seen.loss_ns(ask.model);
    Choice {
        standing,
        basis: Basis::Measured,
        why: why.to_owned(),
        producers: Some(seen.row.producers),
        ack_p99_ns: seen.ack_p99_ns(),
        loss_ns,
        loss_bytes: loss_ns.map(|age| at_risk_bytes(age, ask, seen.overhead_bytes())),
        syncs_per_s: Some(seen.syncs_per_s(ask.rate_per_s)),
        ..choice
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;
    use crate::results_fixture::{cell, environment, manifest};

    pub(super) const ASK: Ask = Ask {
        rate_per_s: 50_000.0,
        message_bytes: 1024,
        loss_ns: 100e6,
        ack_p99_ns: Some(10e6),
        model: LossModel::Power,
    };

    /// One cell that took this rate, of messages of 1 KiB, and lost this much.
    fn took(kind: Kind, producers: u32, rate: f64, ack_ms: u64, loss_ms: u64) -> Cell {
        cell(kind, producers, 0, |c| {
            c.acked_per_s = rate;
            c.append_to_ack_ns.p99 = ack_ms * 1_000_000;
            c.exposure.power.age_ns.p99 = loss_ms * 1_000_000;
            c.fsync_per_ack = if kind == Kind::GroupCommit { 0.02 } else { 0.000_02 };
        })
    }

    pub(super) fn recorded(cells: &[Cell]) -> Recorded {
        Recorded::new(&manifest(), &environment(), cells, None)
    }

    fn first(cells: &[Cell], ask: &Ask) -> Choice {
        capacity(&recorded(cells), ask).unwrap().choices[0].clone()
    }

    #[test]
    fn a_row_that_took_more_answers_for_less() {
        let cells = [
            took(Kind::GroupCommit, 64, 120_000.0, 2, 0),
            took(Kind::GroupCommit, 8, 30_000.0, 1, 0),
            took(Kind::FlushRealtime, 64, 300_000.0, 1, 2000),
        ];
        let found = capacity(&recorded(&cells), &ASK).unwrap();
        let sync = found.chosen("data").unwrap();
        assert_eq!((&*sync.strategy, sync.basis), ("sync", Basis::Measured));
        assert_eq!((sync.producers, sync.keeps_up_to_per_s), (Some(64), Some(120_000.0)));
        assert_eq!(sync.disks_needed(&ASK), Some(1.0));
        // 300k at 2 s says nothing of 50k; but what it would lose at most is known.
        let timed = found.of_disk("data").find(|choice| choice.strategy == "timed").unwrap();
        assert_eq!((timed.standing, timed.basis), (Standing::Unknown, Basis::Unknown));
        let cheaper = found.next_cheaper(sync).unwrap();
        assert_eq!((&*cheaper.strategy, cheaper.loss_ns), ("timed", Some(2000e6)));
    }

    #[test]
    fn what_is_broken_by_less_is_broken_by_more() {
        let cells = [took(Kind::FlushRealtime, 8, 10_000.0, 1, 500)];
        let found = first(&cells, &ASK);
        assert_eq!((found.standing, found.basis), (Standing::Breaks, Basis::Measured));
        assert!(found.why.contains("it loses 500 ms"), "{}", found.why);
        // The same row keeps one second, but nothing says that it does at five times the rate.
        let more = Ask { loss_ns: 1e9, ..ASK };
        let found = first(&cells, &more);
        assert_eq!((found.standing, found.disks_needed(&more)), (Standing::Unknown, Some(5.0)));
        // Under kill -9 a timed flush loses nothing.
        let kill = Ask { model: LossModel::Process, rate_per_s: 9_000.0, ..ASK };
        assert_eq!(first(&cells, &kill).standing, Standing::Keeps);
    }

    #[test]
    fn larger_messages_answer_for_smaller_ones_and_not_the_other_way_round() {
        let cells = [took(Kind::GroupCommit, 64, 120_000.0, 2, 0)];
        assert_eq!(first(&cells, &Ask { message_bytes: 100, ..ASK }).standing, Standing::Keeps);
        let found = first(&cells, &Ask { message_bytes: 4096, ..ASK });
        assert_eq!(found.standing, Standing::Unknown);
        assert!(found.why.starts_with("only smaller messages were measured"), "{}", found.why);
    }

    #[test]
    fn what_bursts_broke_an_even_load_may_keep() {
        let cells = [took(Kind::FlushRealtime, 8, 10_000.0, 50, 50)];
        let mut run = recorded(&cells);
        let standing = |run: &Recorded| capacity(run, &ASK).unwrap().choices[0].standing;
        assert_eq!(standing(&run), Standing::Breaks, "its ack p99 is 50 ms");
        run.manifest.profile = "schema: flushmark.profile/v1\nname: own\nworkloads:\n  \
            closed-1k: {message_bytes: 1KiB, producers: [8], rate: 1000, \
            burst: {messages: 100, every_ms: 100}}\nstrategies:\n  timed: \
            {kind: flush_realtime}\nmatrix: {workloads: [closed-1k], strategies: [timed]}\n"
            .to_owned();
        Sweep::parse("own", &run.manifest.profile).unwrap();
        assert_eq!(standing(&run), Standing::Unknown);
        run.manifest.profile.clear();
        run.cells[0].reader = true;
        assert_eq!(standing(&run), Standing::Unknown, "a reader disturbed");
    }

    #[test]
    fn overload_and_lower_bounds_keep_nothing() {
        let mut cells = [took(Kind::GroupCommit, 64, 120_000.0, 2, 0)];
        cells[0].status = Status::Overload;
        assert_ne!(first(&cells, &ASK).standing, Standing::Keeps);
        cells[0].status = Status::Invalid;
        let error = capacity(&recorded(&cells), &ASK).unwrap_err().to_string();
        assert!(error.contains("no valid row of a strategy"), "{error}");
    }
}
