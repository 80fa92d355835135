//! Which strategy and settings carry a load on a measured disk and keep what is asked.
//!
//! What was measured answers first: a row that took at least this load and kept it does so at less;
//! one that broke it at no more load breaks it at this one. Both only while each interval fills the
//! pages that a pass is worth: of a slower load the settings say what it loses at most. Between, a
//! model answers, up to the largest load to which it predicts every measured row that it has not
//! seen; else nobody knows.

mod group;
mod model;
mod passes;
mod seen;
mod text;

use std::collections::BTreeMap;

use anyhow::{Context, Result, ensure};
use serde::Serialize;

use self::group::Group;
pub use self::model::{HeldOut, MOST_ERROR_PCT, Model, Predicted, WIDEST_GAP};
use self::seen::Seen;
pub use self::text::text;
use crate::profile::Sweep;
use crate::recorded::Recorded;
use crate::results::Kind;
use crate::summary::{self, LossModel, Row};

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
    /// Whether the answer rests on it: not on what is no hardware where there is some.
    pub decides: bool,
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
    /// The producer threads of the row that answers; `null` where no row does.
    pub producers: Option<u32>,
    /// The fewest producer threads that were measured to carry this load with what is asked kept.
    pub fewest_producers: Option<u32>,
    /// Whether messages of the row that answers came at a rate, and its `ack_p99_ns` is from when
    /// they were due; if not, each waited for one before it, and it is service time.
    pub open_loop: Option<bool>,
    /// The blocks of the row that answers; with fewer than six it is indicative.
    pub blocks: Option<usize>,
    /// The highest rate that was measured with what is asked kept, messages at least as large, in
    /// the slowest block.
    pub keeps_up_to_per_s: Option<f64>,
    /// Whether that rate is page-cache absorbed, which no disk sustains.
    pub page_cache_absorbed: bool,
    /// To acknowledgement, 99 of 100 messages, in the worst block.
    pub ack_p99_ns: Option<f64>,
    /// Age of what the crash takes: in the worst block where a row answers, of a bound the bound,
    /// of a model what it predicts; `null` if nothing tells.
    pub loss_ns: Option<f64>,
    /// Log bytes that it takes, about: those of the asked load that are so old at most.
    pub loss_bytes: Option<f64>,
    /// Syncs a second, which is what the strategy costs the disk.
    pub syncs_per_s: Option<f64>,
    /// Its settings, with this interval, as lines of a broker's `broker.conf`, with the kernel
    /// settings they were measured under as comments; `null` if the profile is not known.
    pub broker_conf: Option<String>,
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
    /// The strategy's settings bound it: at so small a load passes do not come by interval.
    Bounded,
    /// The model says so, within what was measured.
    Modelled,
    /// The model says so, beyond what was measured.
    Extrapolated,
    /// It is not known.
    Unknown,
}

impl Capacity {
    /// What to take on this disk: of what keeps it, what was measured first, then the strategy with
    /// the fewest syncs, then the kernel settings with the most room.
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

    /// Whether some disk has a strategy that is known to keep what is asked: a disk of real
    /// hardware where there is one, whatever an emulated or simulated one would do.
    pub fn is_kept(&self) -> bool {
        self.choices.iter().any(|choice| choice.decides && choice.standing == Standing::Keeps)
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
    capacities(recorded, &[*ask])?.pop().context("one question has one answer")
}

/// What these results say about each of these.
///
/// # Errors
///
/// If they have no valid row of a strategy.
pub fn capacities(recorded: &Recorded, asks: &[Ask]) -> Result<Vec<Capacity>> {
    let rows = summary::rows(&recorded.cells);
    // Only the profile tells of bursts and pages; one that is not read any more tells nothing.
    let sweep = recorded.manifest.sweep();
    let groups = groups(recorded, &rows, sweep.as_ref());
    ensure!(
        !groups.is_empty(),
        "there is no valid row of a strategy in these results: measure with cargo xtask bench"
    );
    Ok(asks.iter().map(|ask| answer(recorded, &groups, ask)).collect())
}

/// The rows of strategies with figures, those of one strategy in one place together.
fn groups<'a>(recorded: &'a Recorded, rows: &'a [Row], sweep: Option<&Sweep>) -> Vec<Group<'a>> {
    let mut found: Vec<Vec<Seen<'a>>> = Vec::new();
    for row in rows.iter().filter(|row| row.kind.is_strategy()) {
        let Some(seen) = Seen::of(row, &recorded.cells, sweep) else { continue };
        let is_of = |group: &&mut Vec<Seen<'_>>| {
            let of = group[0].row;
            of.disk == row.disk && of.sysctl == row.sysctl && of.strategy == row.strategy
        };
        match found.iter_mut().find(is_of) {
            Some(group) => group.push(seen),
            None => found.push(vec![seen]),
        }
    }
    let is_real = |row: &Row| summary::real(rows).any(|real| std::ptr::eq(real, row));
    let group = |seen: Vec<Seen<'a>>| {
        let decides = is_real(seen[0].row);
        Group::of(seen, decides, sweep, &recorded.manifest)
    };
    found.into_iter().map(group).collect()
}

fn answer(recorded: &Recorded, groups: &[Group<'_>], ask: &Ask) -> Capacity {
    let choices: Vec<Choice> = groups.iter().map(|group| group.choice(ask)).collect();
    // Of one strategy under several kernel settings the most room decides: how its syncs differ
    // then is not what they cost.
    let alike = |of: &Choice| (of.disk.clone(), of.strategy.clone(), of.standing, of.basis);
    let mut fewest: BTreeMap<_, f64> = BTreeMap::new();
    for choice in &choices {
        let least = fewest.entry(alike(choice)).or_insert(f64::INFINITY);
        *least = least.min(choice.syncs_per_s.unwrap_or(f64::INFINITY));
    }
    let mut choices: Vec<(f64, Choice)> =
        choices.into_iter().map(|choice| (fewest[&alike(&choice)], choice)).collect();
    choices.sort_by(|(syncs_a, a), (syncs_b, b)| {
        let order = (a.standing, a.basis).cmp(&(b.standing, b.basis));
        let room = |choice: &Choice| choice.keeps_up_to_per_s.unwrap_or(0.0);
        let cost = syncs_a.total_cmp(syncs_b).then(a.strategy.cmp(&b.strategy));
        a.disk.cmp(&b.disk).then(order).then(cost).then(room(b).total_cmp(&room(a)))
    });
    let choices = choices.into_iter().map(|(_, choice)| choice).collect();
    let models = groups.iter().map(|group| group.model().clone()).collect();
    Capacity { schema: SCHEMA.to_owned(), run: recorded.manifest.run.clone(), choices, models }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{Cell, Level, OpenLoop, Quantiles, Status};
    use crate::results_fixture::{cell, check, environment, manifest, open_loop};
    use crate::validity::{FLUSH_REQUESTS, OVERLOAD};

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
        // 50 messages share a sync at 120k a second; fewer a second do not share as well.
        let syncs = |rate_per_s| first(&cells[..1], &Ask { rate_per_s, ..ASK }).syncs_per_s;
        assert_eq!((syncs(50_000.0), syncs(100.0)), (Some(2400.0), Some(100.0)));
        // 300k at 2 s says nothing of 50k; but what it would lose at most is known.
        let timed = found.of_disk("data").find(|choice| choice.strategy == "timed").unwrap();
        assert_eq!((timed.standing, timed.basis), (Standing::Unknown, Basis::Unknown));
        let cheaper = found.next_cheaper(sync).unwrap();
        assert_eq!((&*cheaper.strategy, cheaper.loss_ns), ("timed", Some(2000e6)));
    }

    #[test]
    fn of_one_strategy_the_kernel_settings_with_the_most_room_are_chosen() {
        let mut cells = vec![
            took(Kind::GroupCommit, 64, 120_000.0, 2, 0),
            took(Kind::GroupCommit, 64, 66_000.0, 2, 0),
        ];
        (cells[1].sysctl, cells[1].fsync_per_ack) = ("small".to_owned(), 0.01);
        let found = capacity(&recorded(&cells), &ASK).unwrap();
        let [best, second] = &found.choices[..] else { panic!("{found:?}") };
        assert!(second.syncs_per_s < best.syncs_per_s, "{found:?}");
        assert_eq!(best.keeps_up_to_per_s, Some(120_000.0));
    }

    #[test]
    fn an_open_loop_that_broke_it_refutes_a_closed_one_that_took_more() {
        let mut cells = vec![
            took(Kind::GroupCommit, 64, 120_000.0, 2, 0),
            took(Kind::GroupCommit, 16, 9_900.0, 13, 0),
        ];
        (cells[1].workload, cells[1].window) = ("at-a-rate".to_owned(), 64);
        let offered = |p99_ms: u64| {
            let due_to_ack_ns =
                Quantiles { count: 50_000, p99: p99_ms * 1_000_000, ..Quantiles::default() };
            OpenLoop { offered_per_s: 10_000.0, due_to_ack_ns, ..open_loop() }
        };
        cells[1].open_loop = Some(offered(13));
        let found = first(&cells, &ASK);
        assert_eq!((found.standing, found.basis), (Standing::Breaks, Basis::Measured));
        assert!(found.why.contains("×16") && found.why.contains("13 ms"), "{}", found.why);
        assert_eq!(found.keeps_up_to_per_s, None);
        // Nor is it known of less.
        let less = Ask { rate_per_s: 5_000.0, ..ASK };
        assert_eq!(first(&cells, &less).standing, Standing::Unknown);
        // One whose producers wait for their only message is no easier load,
        cells[1].window = 1;
        cells[1].open_loop = Some(offered(13));
        assert_eq!(first(&cells, &ASK).standing, Standing::Keeps);
        // but what it lost it lost,
        cells[1].exposure.power.age_ns.p99 = 200_000_000;
        assert_ne!(first(&cells, &ASK).standing, Standing::Keeps);
        cells[1].validity.push(check("syncs_seen", Level::Warn, "1", "two"));
        assert_ne!(first(&cells, &ASK).standing, Standing::Keeps, "that much at least");
        (cells[1].exposure.power.age_ns.p99, cells[1].validity) = (0, Vec::new());
        // nor is one in overload that took less than was due.
        (cells[1].window, cells[1].status) = (64, Status::Overload);
        cells[1].open_loop = Some(OpenLoop { offered_per_s: 130_000.0, ..offered(13) });
        assert_eq!(first(&cells, &ASK).standing, Standing::Keeps);
        cells[1].status = Status::Valid;
        // Where it kept it, it took what was offered, however arrivals fell.
        cells[1].open_loop = Some(offered(3));
        assert_eq!(first(&cells, &ASK).standing, Standing::Keeps);
        let same = Ask { rate_per_s: 10_000.0, ..ASK };
        assert_eq!(first(&cells[1..], &same).standing, Standing::Keeps);
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

    /// The same cell with 4 ms to acknowledgement and 500 ms lost, as `edit` leaves it, and what is
    /// said of half of its load.
    fn edited(edit: impl FnOnce(&mut Cell)) -> Choice {
        let mut cells = [took(Kind::FlushRealtime, 64, 100_000.0, 4, 500)];
        edit(&mut cells[0]);
        first(&cells, &Ask { loss_ns: 1e9, ..ASK })
    }

    #[test]
    fn overload_and_lower_bounds_keep_nothing() {
        assert_eq!(edited(|_| {}).standing, Standing::Keeps);
        let warned = |c: &mut Cell, code| c.validity.push(check(code, Level::Warn, "1", "two"));
        assert_ne!(edited(|c| c.status = Status::Overload).standing, Standing::Keeps);
        assert_ne!(edited(|c| warned(c, OVERLOAD)).standing, Standing::Keeps);
        assert_ne!(edited(|c| warned(c, "syncs_seen")).standing, Standing::Keeps);
        assert_ne!(edited(|c| c.counts.timeouts = c.counts.acked / 10).standing, Standing::Keeps);
        // Nor where nobody asks for acknowledgements.
        let mut cells = [took(Kind::FlushRealtime, 64, 100_000.0, 4, 500)];
        let ask = Ask { loss_ns: 1e9, ack_p99_ns: None, ..ASK };
        assert_eq!(first(&cells, &ask).standing, Standing::Keeps);
        cells[0].counts.timeouts = cells[0].counts.acked / 10;
        assert_eq!(first(&cells, &ask).standing, Standing::Keeps, "none is asked for in time");
        cells[0].status = Status::Overload;
        let found = first(&cells, &ask);
        assert_eq!((found.standing, found.keeps_up_to_per_s), (Standing::Unknown, None));
        cells[0].status = Status::Invalid;
        let error = capacity(&recorded(&cells), &ASK).unwrap_err().to_string();
        assert!(error.contains("no valid row of a strategy"), "{error}");
    }

    #[test]
    fn what_broke_says_its_real_reason() {
        let said = |edit: fn(&mut Cell)| {
            let mut cells = [took(Kind::GroupCommit, 8, 10_000.0, 1, 0)];
            edit(&mut cells[0]);
            let found = first(&cells, &ASK);
            assert_eq!(found.standing, Standing::Breaks);
            found.why
        };
        let late = said(|c| c.counts.timeouts = c.counts.acked / 10);
        assert!(late.contains("its ack p99: more than one in a hundred"), "{late}");
        let silent = said(|c| c.append_to_ack_ns = Quantiles::default());
        assert!(silent.contains("its ack p99: no acknowledgement was recorded"), "{silent}");
        let over = said(|c| c.status = Status::Overload);
        assert!(over.ends_with("already, it was overloaded"), "{over}");
        let bound = said(|c| c.validity.push(check("syncs_seen", Level::Warn, "1", "two")));
        assert!(bound.contains("its loss: only a lower bound was seen"), "{bound}");
    }

    #[test]
    fn one_bad_block_of_many_counts_whole() {
        let blocks = |worst: u64| {
            let block = |block| {
                let mut cell = took(Kind::GroupCommit, 64, 120_000.0, 2, 0);
                cell.block = block;
                if block == 3 {
                    cell.append_to_ack_ns.p99 = worst * 1_000_000;
                }
                cell
            };
            (0..7).map(block).collect::<Vec<Cell>>()
        };
        let good = first(&blocks(10), &ASK);
        assert_eq!((good.standing, good.ack_p99_ns), (Standing::Keeps, Some(10e6)));
        assert_eq!((good.blocks, good.open_loop), (Some(7), Some(false)));
        assert_eq!(first(&blocks(11), &ASK).standing, Standing::Unknown);
    }

    #[test]
    fn an_answer_rests_on_real_disks_where_there_are_any() {
        let on = |disk: &str, rate, simulated| {
            let mut cell = took(Kind::GroupCommit, 64, rate, 2, 0);
            (cell.disk, cell.simulated) = (disk.to_owned(), simulated);
            cell
        };
        let is_kept = |cells: &[Cell]| capacity(&recorded(cells), &ASK).unwrap().is_kept();
        let slow = on("data", 10_000.0, false);
        let fast = on("model", 120_000.0, true);
        assert!(is_kept(&[on("data", 120_000.0, false), fast.clone()]));
        assert!(!is_kept(&[slow.clone(), fast.clone()]));
        assert!(is_kept(std::slice::from_ref(&fast)), "it is all there is");
        // Where the real disk has nothing that counts, a model does not speak for it.
        let raw = Cell { kind: Kind::Raw, strategy: "raw".to_owned(), ..slow };
        assert!(!is_kept(&[raw, fast]));
    }

    #[test]
    fn a_load_that_does_not_fill_its_pages_is_bounded_by_its_settings() {
        let mut cells = [took(Kind::FlushRealtime, 64, 300_000.0, 1, 600)];
        cells[0].flush_ns.max = 50_000_000;
        // 28.4 records of 1152 bytes a second are four pages in half a second.
        let asks = |rate_per_s, loss_ns| first(&cells, &Ask { rate_per_s, loss_ns, ..ASK });
        let fast = asks(28.5, 1e9);
        assert_eq!((fast.standing, fast.basis), (Standing::Keeps, Basis::Measured));
        let slow = asks(28.4, 1e9);
        assert_eq!((slow.standing, slow.basis), (Standing::Unknown, Basis::Unknown));
        // Ten seconds, half of one until the next look, and two syncs.
        assert_eq!(slow.loss_ns, Some(10.6e9));
        assert!(slow.why.contains("once 4 pages are filled, else after 10 s"), "{}", slow.why);
        let bounded = asks(28.4, 11e9);
        assert_eq!((bounded.standing, bounded.basis), (Standing::Keeps, Basis::Bounded));
        assert_eq!((bounded.loss_ns, bounded.ack_p99_ns), (Some(10.6e9), Some(1e6)));
        assert!(bounded.syncs_per_s.unwrap() < 2.0, "{bounded:?}");
        // An open loop that broke the rest of it refutes what a closed one took.
        let mut open = took(Kind::FlushRealtime, 16, 20.0, 13, 600);
        (open.workload, open.window) = ("at-a-rate".to_owned(), 64);
        open.flush_ns.max = 50_000_000;
        let due_to_ack_ns = Quantiles { count: 500, p99: 13_000_000, ..Quantiles::default() };
        open.open_loop = Some(OpenLoop { offered_per_s: 20.0, due_to_ack_ns, ..open_loop() });
        let ask = Ask { rate_per_s: 28.4, loss_ns: 11e9, ..ASK };
        let refuted = first(&[cells[0].clone(), open], &ask);
        assert_eq!((refuted.standing, refuted.loss_ns), (Standing::Unknown, Some(10.6e9)));
        // Nor does a bound help where syncs flush nothing.
        let mut void = cells[0].clone();
        void.validity.push(check(FLUSH_REQUESTS, Level::Warn, "0 per sync", "one"));
        assert_eq!(first(&[void], &ask).standing, Standing::Unknown);
        // To kill -9 they are in the page cache.
        let kill = Ask { rate_per_s: 1.0, loss_ns: 0.0, model: LossModel::Process, ..ASK };
        assert_eq!(first(&cells, &kill).basis, Basis::Measured);
    }

    #[test]
    fn a_row_that_does_not_fill_its_pages_says_nothing_of_faster_ones() {
        let at = |rate| first(&[took(Kind::FlushRealtime, 1, rate, 1, 3000)], &ASK);
        assert_eq!(at(20.0).standing, Standing::Unknown);
        assert_eq!(at(100.0).standing, Standing::Breaks);
    }

    #[test]
    fn what_is_staged_gets_older_as_its_pages_fill_more_slowly() {
        let mut cells = [took(Kind::CommitRealtime, 64, 300_000.0, 1, 600)];
        cells[0].exposure.process.age_ns.p99 = 1_000_000;
        cells[0].flush_ns.max = 5_000_000;
        let asks = |rate_per_s, loss_ns| {
            first(&cells, &Ask { rate_per_s, loss_ns, model: LossModel::Process, ..ASK })
        };
        assert_eq!(asks(200_000.0, 2e6).standing, Standing::Keeps);
        // Four pages take 14 ms at 1000 messages of 1152 bytes a second.
        assert_eq!(asks(1000.0, 2e6).standing, Standing::Unknown);
        let kept = asks(1000.0, 20e6);
        assert_eq!((kept.standing, kept.basis), (Standing::Keeps, Basis::Measured));
        assert!((15e6..16e6).contains(&kept.loss_ns.unwrap()), "{kept:?}");
        assert!(kept.why.contains("pages fill more slowly"), "{}", kept.why);
        // 82 kB/s are four pages in 200 ms; a commit takes no longer than the longest sync.
        let slow = asks(70.0, 200e6);
        assert_eq!((slow.standing, slow.loss_ns), (Standing::Unknown, Some(210e6)));
        assert_eq!(asks(70.0, 210e6).basis, Basis::Bounded);
        // What a faster load stages for a shorter time is never less than nothing.
        cells[0].acked_per_s = 1000.0;
        let late = Ask { ack_p99_ns: Some(1.0), model: LossModel::Process, ..ASK };
        let broken = first(&cells, &late);
        assert_eq!((broken.standing, broken.loss_ns), (Standing::Breaks, Some(0.0)));
    }
}
