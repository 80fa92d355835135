//! The model of a timed strategy on a disk: what a sync takes, and so what a crash takes.
//!
//! A sync takes a fixed time and some for each byte. In a flush interval and the sync that ends it
//! there come as many bytes as the rate says. What is at risk is at most as old as an interval and
//! two syncs, and what was staged before: a message that comes just behind a sync's end mark waits
//! out that sync, the interval and its own sync.
//!
//! What is staged, and what a sync takes under a load that was not measured, no formula tells: a
//! commit or sync that stalls leaves more to the next, and how long it stalls is the disk's. So the
//! model speaks only where every row that was held out bears it out, and rows lie close enough: up
//! to the largest load to which all do.
//! That is about the interval and the loads that were measured; for others, what a sync takes has
//! to be right by itself.

use serde::Serialize;

use super::Ask;
use super::seen::Seen;
use crate::clock::float;
use crate::format;
use crate::statistics::Line;
use crate::summary::{Doubt, LossModel};

/// A fit to the rows of one strategy under kernel settings on a disk, up to the largest load that
/// it is believed of.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct Model {
    /// The disk's name.
    pub disk: String,
    /// The kernel settings' name.
    pub sysctl: String,
    /// The strategy's name.
    pub strategy: String,
    /// The flush interval of the rows; `null` for strategies without one.
    pub interval_ns: Option<f64>,
    /// What every sync takes; `null` where nothing could be fitted.
    pub fixed_ns: Option<f64>,
    /// What each byte adds.
    pub ns_per_byte: Option<f64>,
    /// The sizes of syncs that it was fitted to.
    pub bytes_per_sync: Option<(f64, f64)>,
    /// Log bytes a second up to which it is believed, where rows above contradict it; `null` if
    /// none do, or it is not believed at all.
    pub ends_at_bytes_per_s: Option<f64>,
    /// Each row as the others predict it, those above the end of the model too.
    pub held_out: Vec<HeldOut>,
    /// Why it is not used of a power cut; `null` if it is.
    pub not_used: Option<String>,
    /// Why it is not used of `kill -9`; `null` if it is.
    pub not_used_of_kill: Option<String>,
    /// Why it is not used of loads beyond its rows; `null` if it is.
    pub not_used_beyond: Option<String>,
    /// Why it is not used of other intervals; `null` if it is.
    pub not_used_of_intervals: Option<String>,
    #[serde(skip)]
    pub(super) overhead_bytes: f64,
    #[serde(skip)]
    staged_ns: f64,
    #[serde(skip)]
    largest_record_bytes: f64,
    #[serde(skip)]
    most_bytes_per_s: f64,
}

/// A figure of a row that the fit to the other rows, of those that the model is believed of,
/// predicts.
#[derive(Clone, Debug, PartialEq, Serialize)]
pub struct HeldOut {
    /// The row.
    pub row: String,
    /// What is predicted.
    pub what: String,
    /// By the others.
    pub predicted_ns: f64,
    /// As it was.
    pub measured_ns: f64,
    /// By how much the prediction is off, in percent.
    pub error_pct: f64,
    /// Whether the row lies above the end of the model, and is no part of it.
    pub is_beyond: bool,
}

/// What the model says of a load.
#[derive(Clone, Copy, Debug, PartialEq)]
pub struct Predicted {
    /// Log bytes that a sync makes durable.
    pub bytes_per_sync: f64,
    /// What it takes.
    pub sync_ns: f64,
    /// Age of the oldest message that a power cut takes, p99 of time.
    pub power_ns: f64,
    /// That `kill -9` takes.
    pub process_ns: f64,
    /// Whether it is more than any row had that the model is believed of: larger messages or syncs,
    /// or more bytes a second.
    pub is_beyond: bool,
    /// Whether no row had so little: syncs are smaller than any.
    pub is_below: bool,
}

impl Predicted {
    /// The loss under this crash.
    pub fn loss_ns(&self, model: LossModel) -> f64 {
        match model {
            LossModel::Power => self.power_ns,
            LossModel::Process => self.process_ns,
        }
    }
}

/// A row as the model sees it.
#[derive(Clone, Debug)]
struct Point {
    row: String,
    rate_per_s: f64,
    record_bytes: f64,
    interval_ns: Option<f64>,
    bytes_per_sync: f64,
    sync_ns: f64,
    power_ns: f64,
    staged_ns: f64,
}

impl Point {
    fn of(seen: &Seen<'_>) -> Self {
        Self {
            row: seen.row.label(),
            rate_per_s: seen.mean(|cell| cell.acked_per_s),
            record_bytes: seen.mean(|cell| float(cell.record_bytes)),
            interval_ns: seen.interval_ns(),
            bytes_per_sync: seen.mean(|cell| cell.bytes_per_flush.mean),
            sync_ns: seen.mean(|cell| cell.flush_ns.mean),
            power_ns: seen.mean(|cell| float(cell.exposure.power.age_ns.p99)),
            staged_ns: seen.mean(|cell| float(cell.exposure.process.age_ns.p99)),
        }
    }

    /// Log bytes that come in a second.
    fn bytes_per_s(&self) -> f64 {
        self.rate_per_s * self.record_bytes
    }
}

/// What a sync takes by its bytes, through these rows; `None` with fewer than two sizes.
fn fitted<'a>(points: impl IntoIterator<Item = &'a Point>) -> Option<Line> {
    let points = points.into_iter().map(|point| (point.bytes_per_sync, point.sync_ns));
    Line::fitted(&points.collect::<Vec<_>>())
}

/// Bytes of a sync and its time, at so many bytes a nanosecond; `None` if they come faster than the
/// disk takes them.
fn sync_at(line: Line, bytes_per_ns: f64, interval_ns: f64) -> Option<(f64, f64)> {
    let busy = bytes_per_ns * line.slope;
    let bytes = bytes_per_ns * (interval_ns + line.fixed) / (1.0 - busy);
    (busy < 1.0).then(|| (bytes, line.at(bytes)))
}

impl Model {
    pub(super) fn of(seen: &[Seen<'_>]) -> Self {
        let mut all: Vec<Point> = seen.iter().filter(|of| tells(of)).map(Point::of).collect();
        all.sort_by(|a, b| a.bytes_per_s().total_cmp(&b.bytes_per_s()));
        let (points, beyond) = all.split_at(believed(&all));
        let line = fitted(points);
        let tested = tested(points);
        let sizes = points.iter().map(|point| point.bytes_per_sync);
        let row = seen[0].row;
        let (low, high) = sizes
            .fold((f64::INFINITY, 0.0_f64), |(low, high), size| (low.min(size), high.max(size)));
        let most = |of: &dyn Fn(&Point) -> f64| points.iter().map(of).fold(0.0, f64::max);
        let doubt = |model| void(seen, model).or_else(|| not_used(points, &tested, model));
        let (power, kill) = (doubt(LossModel::Power), doubt(LossModel::Process));
        let ends = (!beyond.is_empty()).then(|| ends(points, beyond));
        let syncs = off(tested.iter().filter(|one| one.what == SYNC));
        let above = beyond.iter().flat_map(|point| predicted(points.iter(), point));
        let above = above.map(|one| HeldOut { is_beyond: true, ..one });
        let held_out = tested.iter().cloned().chain(above).collect();
        let overheads = seen.iter().map(Seen::overhead_bytes);
        Self {
            disk: row.disk.clone(),
            sysctl: row.sysctl.clone(),
            strategy: row.strategy.clone(),
            interval_ns: seen[0].interval_ns(),
            fixed_ns: line.map(|line| line.fixed),
            ns_per_byte: line.map(|line| line.slope),
            bytes_per_sync: line.map(|_| (low, high)),
            not_used_beyond: ends.or_else(|| syncs.clone()).or_else(|| power.clone()),
            not_used_of_intervals: syncs.or_else(|| power.clone()),
            not_used: power,
            not_used_of_kill: kill,
            ends_at_bytes_per_s: (!beyond.is_empty()).then(|| most(&Point::bytes_per_s)),
            held_out,
            overhead_bytes: overheads.fold(0.0, f64::max),
            staged_ns: longest_staged(points),
            largest_record_bytes: most(&|point| point.record_bytes),
            most_bytes_per_s: most(&Point::bytes_per_s),
        }
    }

    /// Why it is not used of this crash; `None` if it predicts well enough to be believed.
    pub fn doubt(&self, model: LossModel) -> Option<&str> {
        match model {
            LossModel::Power => self.not_used.as_deref(),
            LossModel::Process => self.not_used_of_kill.as_deref(),
        }
    }

    /// Of what else than its rows it is not used, and why; `None` if of nothing.
    pub fn limits(&self) -> Option<String> {
        let [loads, intervals] = ["of loads beyond", "of other intervals"];
        match (&self.not_used_beyond, &self.not_used_of_intervals) {
            (None, None) => None,
            (Some(why), None) => Some(format!("{loads} ({why})")),
            (None, Some(why)) => Some(format!("{intervals} ({why})")),
            (Some(why), Some(same)) if why == same => {
                Some(format!("of loads beyond and other intervals ({why})"))
            }
            (Some(why), Some(other)) => Some(format!("{loads} ({why}) and {intervals} ({other})")),
        }
    }

    /// The largest error of a prediction of a row that it is believed of, in percent.
    pub fn worst_pct(&self) -> Option<f64> {
        let within = self.held_out.iter().filter(|one| !one.is_beyond);
        within.map(|one| one.error_pct).reduce(f64::max)
    }

    /// Bytes in the log of a message with such a body.
    fn record_bytes(&self, message_bytes: u64) -> f64 {
        float(message_bytes) + self.overhead_bytes
    }

    /// What happens at this load with this interval; `None` if the disk cannot take it, or nothing
    /// was fitted.
    pub fn predict(&self, rate: f64, message_bytes: u64, interval: f64) -> Option<Predicted> {
        let line = Line { fixed: self.fixed_ns?, slope: self.ns_per_byte? };
        let bytes_per_ns = rate / 1e9 * self.record_bytes(message_bytes);
        let (bytes_per_sync, sync_ns) = sync_at(line, bytes_per_ns, interval)?;
        let (low, high) = self.bytes_per_sync?;
        Some(Predicted {
            bytes_per_sync,
            sync_ns,
            power_ns: self.staged_ns + interval + 2.0 * sync_ns,
            process_ns: self.staged_ns,
            is_beyond: bytes_per_sync > high
                || self.record_bytes(message_bytes) > self.largest_record_bytes
                || bytes_per_ns * 1e9 > self.most_bytes_per_s,
            is_below: bytes_per_sync < low,
        })
    }

    /// The longest interval in whole milliseconds, up to this one, that keeps the loss asked; this
    /// one alone where the model is not used of others.
    pub(super) fn interval_for(&self, ask: &Ask, longest_ns: f64) -> Option<f64> {
        let keeps = |interval: &f64| {
            self.predict(ask.rate_per_s, ask.message_bytes, *interval)
                .is_some_and(|predicted| predicted.loss_ns(ask.model) <= ask.loss_ns)
        };
        let (mut low, mut high) = (1e6, longest_ns);
        if keeps(&high) {
            return Some(high);
        }
        if self.not_used_of_intervals.is_some() || !keeps(&low) {
            return None;
        }
        // What is lost grows with the interval.
        while high - low > 0.5e6 {
            let middle = f64::midpoint(low, high);
            if keeps(&middle) { low = middle } else { high = middle }
        }
        Some((low / 1e6).floor() * 1e6)
    }
}

/// Whether a row's figures are what its load does: times in overload grow with the time measured,
/// and a lower bound can be neither fitted nor missed by a percentage.
fn tells(seen: &Seen<'_>) -> bool {
    let is_bound = |model| matches!(seen.loss_ns(model), Err(Doubt::AtLeast));
    !LossModel::ALL.into_iter().any(is_bound) && !seen.row.is_overloaded()
}

/// How many of the rows, which are in the order of their bytes a second, the model is believed of:
/// up to the largest load to which each is predicted by the others. All, if there is no such load.
///
/// Of equal loads all are in it or none.
fn believed(points: &[Point]) -> usize {
    let holds = |count: &usize| {
        let (within, beyond) = points.split_at(*count);
        let (last, next) = (within.last().map(Point::bytes_per_s), beyond.first());
        let is_an_end =
            next.zip(last).is_none_or(|(next, last)| next.bytes_per_s() > LEAST_STEP * last);
        let are_enough = beyond.is_empty() || FEWEST_BELOW_AN_END <= within.len();
        is_an_end && are_enough && not_used(within, &tested(within), LossModel::Power).is_none()
    };
    (1..=points.len()).rev().find(holds).unwrap_or(points.len())
}

/// Why the model ends where it does, with these rows above it: the first that it misses.
fn ends(points: &[Point], beyond: &[Point]) -> String {
    let last = points.iter().map(Point::bytes_per_s).fold(0.0, f64::max);
    let missed = |next| off(predicted(points.iter(), next).iter().filter(|one| one.what == POWER));
    let why = beyond.iter().find_map(missed).or_else(|| {
        let all = [points, beyond].concat();
        not_used(&all, &tested(&all), LossModel::Power)
    });
    let why = why.expect("a model of all rows ends nowhere");
    format!("above {}/s {why}", format::bytes(last))
}

/// Each row as the others predict it.
fn tested(points: &[Point]) -> Vec<HeldOut> {
    let each = points
        .iter()
        .enumerate()
        .flat_map(|(nth, point)| predicted(points[..nth].iter().chain(&points[nth + 1..]), point));
    each.collect()
}

/// A row as these others predict it; nothing, if they are too few for a line.
fn predicted<'a>(others: impl Iterator<Item = &'a Point> + Clone, point: &Point) -> Vec<HeldOut> {
    let Some(line) = fitted(others.clone()) else { return Vec::new() };
    let interval = point.interval_ns.unwrap_or(0.0);
    let per_ns = point.bytes_per_s() / 1e9;
    // Faster than it says the disk can: no number says how wrong that is.
    let (_, sync_ns) = sync_at(line, per_ns, interval).unwrap_or((0.0, f64::INFINITY));
    let mut found = vec![held(point, SYNC, sync_ns, point.sync_ns)];
    if point.interval_ns.is_some() {
        // As of a load that nobody measured: what this row staged is not known to the others.
        let staged_ns = longest_staged(others);
        let power_ns = staged_ns + interval + 2.0 * sync_ns;
        found.push(held(point, POWER, power_ns, point.power_ns));
        found.push(held(point, KILL, staged_ns, point.staged_ns));
    }
    found
}

/// How long messages are staged at most, by these rows.
fn longest_staged<'a>(points: impl IntoIterator<Item = &'a Point>) -> f64 {
    points.into_iter().map(|point| point.staged_ns).fold(0.0, f64::max)
}

fn held(point: &Point, what: &str, predicted_ns: f64, measured_ns: f64) -> HeldOut {
    // Nothing that is predicted as nothing is right.
    let is_same = (predicted_ns - measured_ns).abs() <= 0.0;
    let error_pct = if is_same { 0.0 } else { 100.0 * (predicted_ns / measured_ns - 1.0).abs() };
    let (row, what) = (point.row.clone(), what.to_owned());
    HeldOut { row, what, predicted_ns, measured_ns, error_pct, is_beyond: false }
}

/// Why no interval bounds what this crash takes, if none does.
fn void(seen: &[Seen<'_>], model: LossModel) -> Option<String> {
    let row = seen.iter().find(|seen| seen.is_void(model))?;
    let doubt = row.loss_ns(model).err()?;
    Some(format!("of {} {}", row.row.label(), doubt.words()))
}

/// Why these rows, which were tested against each other, bear no model of this crash.
fn not_used(points: &[Point], tested: &[HeldOut], model: LossModel) -> Option<String> {
    if points.iter().any(|point| point.interval_ns.is_none()) {
        return Some("it has no interval, and its ack p99 is not modelled".to_owned());
    }
    // One that has alone a size of its own leaves no line when it is held out, and is not tested.
    let were_tested = tested.iter().filter(|one| one.what == SYNC).count();
    if points.len() < FEWEST_ROWS || were_tested < points.len() {
        return Some(format!(
            "{} of different load: too few to hold one out",
            format::plural(points.len(), "row")
        ));
    }
    // Of a power cut it says a sum, and that has to be right, whatever its parts are.
    let counts =
        |one: &&HeldOut| one.what == POWER || (model == LossModel::Process && one.what == KILL);
    off(tested.iter().filter(counts)).or_else(|| untested(points))
}

/// The worst of these predictions, if it is too far off.
fn off<'a>(held_out: impl IntoIterator<Item = &'a HeldOut>) -> Option<String> {
    let is_bad = |one: &&HeldOut| one.error_pct.is_nan() || one.error_pct > MOST_ERROR_PCT;
    let bad = held_out.into_iter().filter(is_bad);
    let worst = bad.max_by(|a, b| a.error_pct.total_cmp(&b.error_pct))?;
    let off = if worst.error_pct.is_finite() {
        format!("is off by {:.0} %", worst.error_pct)
    } else if worst.what == KILL {
        "is nothing, against what the others say".to_owned()
    } else {
        "is more than the others say the disk can do".to_owned()
    };
    Some(format!("{} of {} {off}", worst.what, worst.row))
}

/// The loads, so far apart that no row tells what happens between them; `None` if none are.
fn untested(points: &[Point]) -> Option<String> {
    let mut loads: Vec<f64> = points.iter().map(Point::bytes_per_s).collect();
    loads.sort_by(f64::total_cmp);
    let gaps = loads.windows(2).map(|pair| (pair[0], pair[1]));
    let wide = gaps.filter(|(low, high)| *high > WIDEST_GAP * low);
    let (low, high) = wide.max_by(|a, b| (a.1 / a.0).total_cmp(&(b.1 / b.0)))?;
    let (low, high) = (format::bytes(low), format::bytes(high));
    Some(format!("between {low}/s and {high}/s no row tests it"))
}

/// What is predicted of a row that the model has not seen: what a sync takes,
const SYNC: &str = "sync";
/// what a power cut does,
const POWER: &str = "power-cut exposure";
/// and what `kill -9` does.
const KILL: &str = "kill -9 exposure";
/// A model that is off by more, in percent, is not used.
pub const MOST_ERROR_PCT: f64 = 20.0;
/// Byte rates of rows that are further apart than by this factor say nothing of what is between:
/// a disk may be idle at one and full at the other, and a line through both is right at both.
pub const WIDEST_GAP: f64 = 10.0;
/// With fewer, a line through the others is no prediction.
const FEWEST_ROWS: usize = 3;
/// Where it ends below some rows it must be borne out by more: of many ends that were looked at,
/// one of few rows may fit by chance.
const FEWEST_BELOW_AN_END: usize = 4;
/// Loads that differ by less are the same.
const LEAST_STEP: f64 = 1.1;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::tests::{ASK, recorded};
    use crate::capacity::{Basis, Standing, capacity};
    use crate::results::{Cell, Kind, Level, OpenLoop, Quantiles, Status};
    use crate::results_fixture::{cell, check, open_loop};
    use crate::validity::FLUSH_REQUESTS;

    /// Timed rows on a disk with 2 ms a sync and 1 ns a byte, off by `wrong` in one of them.
    fn rows(wrong: f64) -> Vec<Cell> {
        let of = |(producers, rate): (u32, f64)| {
            cell(Kind::FlushRealtime, producers, 0, |c| {
                let factor = if producers == 8 { wrong } else { 1.0 };
                let per_ns = rate / 1e9 * float(c.record_bytes);
                let bytes = per_ns * 502e6 / (1.0 - per_ns);
                let sync = factor * (2e6 + bytes);
                c.acked_per_s = rate;
                c.append_to_ack_ns.p99 = 1_000_000;
                (c.bytes_per_flush.mean, c.flush_ns.mean) = (bytes, sync);
                c.interval.configured_ns = Some(500_000_000);
                c.exposure.power.age_ns.p99 = crate::clock::round(500e6 + 2.0 * sync);
                c.exposure.process.age_ns.p99 = 0;
            })
        };
        [(1, 2_000.0), (8, 20_000.0), (64, 200_000.0)].map(of).to_vec()
    }

    #[test]
    fn the_line_of_a_disk_is_found_again_and_predicts_what_it_has_not_seen() {
        let found = capacity(&recorded(&rows(1.0)), &ASK).unwrap();
        let model = &found.models[0];
        assert!((model.fixed_ns.unwrap() - 2e6).abs() < 1.0, "{model:?}");
        assert!((model.ns_per_byte.unwrap() - 1.0).abs() < 1e-6, "{model:?}");
        assert_eq!((model.held_out.len(), model.doubt(LossModel::Power)), (9, None));
        assert_eq!(model.doubt(LossModel::Process), None, "nothing is staged, and none is said to");
        assert!(model.worst_pct().unwrap() < 0.01, "{model:?}");
        // 57.6 MB/s for I + sync: of 100 ms, I + 2 (2 + 0.0576 (I + 2) / 0.9424) ms: I = 85 ms.
        let timed = &found.choices[0];
        assert_eq!((timed.standing, timed.basis), (Standing::Keeps, Basis::Extrapolated));
        assert_eq!(timed.interval_ns, Some(85e6), "{timed:?}");
        assert!(timed.loss_ns.unwrap() <= 100e6 && timed.loss_ns.unwrap() > 98e6);
        // Within what was measured nothing is extrapolated.
        let second = Ask { loss_ns: 600e6, ..ASK };
        let timed = &capacity(&recorded(&rows(1.0)), &second).unwrap().choices[0];
        assert_eq!((timed.basis, timed.interval_ns), (Basis::Modelled, Some(500e6)));
    }

    #[test]
    fn what_a_row_broke_by_less_no_model_makes_good() {
        let found = |p99_ms: u64, ask: &Ask| {
            let mut cells = rows(1.0);
            let mut open = cells[0].clone();
            (open.producers, open.window, open.workload) = (16, 64, "at-a-rate".to_owned());
            let p99 = p99_ms * 1_000_000;
            let due_to_ack_ns = Quantiles { count: 50_000, p99, ..Quantiles::default() };
            let offered_per_s = open.acked_per_s;
            open.open_loop = Some(OpenLoop { offered_per_s, due_to_ack_ns, ..open_loop() });
            cells.push(open);
            capacity(&recorded(&cells), ask).unwrap().choices[0].clone()
        };
        let second = Ask { loss_ns: 600e6, ..ASK };
        assert_eq!(found(3, &ASK).basis, Basis::Extrapolated);
        let kept = found(3, &second);
        assert_eq!((kept.basis, kept.open_loop), (Basis::Modelled, Some(false)));
        for ask in [ASK, second] {
            let broken = found(13, &ask);
            assert_eq!((broken.standing, broken.basis), (Standing::Breaks, Basis::Measured));
            assert!(broken.why.contains("×16") && broken.why.contains("13 ms"), "{}", broken.why);
        }
    }

    #[test]
    fn a_model_that_is_off_by_more_than_a_fifth_is_not_used() {
        let cells = rows(1.5);
        let found = capacity(&recorded(&cells), &ASK).unwrap();
        let model = &found.models[0];
        let reason = model.not_used.as_deref().unwrap();
        assert!(reason.contains("is off by"), "{reason}");
        assert!(model.worst_pct().unwrap() > MOST_ERROR_PCT);
        assert_ne!(found.choices[0].standing, Standing::Keeps);
        let few = capacity(&recorded(&cells[..2]), &ASK).unwrap();
        let reason = few.models[0].not_used.as_deref().unwrap();
        assert!(reason.contains("too few to hold one out"), "{reason}");
    }

    #[test]
    fn a_model_holds_up_to_the_load_that_it_predicts_and_no_further() {
        let mut cells = rows(1.0);
        let with = |producers: u32, rate: f64, wrong: f64| {
            let mut cell = rows(1.0).swap_remove(2);
            (cell.producers, cell.acked_per_s) = (producers, rate);
            let per_ns = rate / 1e9 * float(cell.record_bytes);
            let bytes = per_ns * 502e6 / (1.0 - per_ns);
            let sync = wrong * (2e6 + bytes);
            (cell.bytes_per_flush.mean, cell.flush_ns.mean) = (bytes, sync);
            cell.exposure.power.age_ns.p99 = crate::clock::round(500e6 + 2.0 * sync);
            cell
        };
        // One of twice the largest load takes three times what the line says.
        cells.push(with(128, 400_000.0, 3.0));
        let of = |cells: &[Cell]| capacity(&recorded(cells), &ASK).unwrap().models[0].clone();
        assert!(of(&cells).not_used.is_some(), "three rows below it are too few");
        cells.push(with(32, 100_000.0, 1.0));
        let second = Ask { loss_ns: 600e6, ..ASK };
        let found = capacity(&recorded(&cells), &second).unwrap();
        let model = &found.models[0];
        assert_eq!(model.doubt(LossModel::Power), None, "{model:?}");
        // Fitted to the other four, it predicts this one as well, and is seen to be wrong.
        assert!((model.ns_per_byte.unwrap() - 1.0).abs() < 1e-6, "{model:?}");
        assert_eq!(model.held_out.len(), 15);
        let missed: Vec<_> = model.held_out.iter().filter(|one| one.is_beyond).collect();
        assert!(missed.len() == 3 && missed.iter().all(|one| one.row == "timed ×128"), "{model:?}");
        assert!(missed[1].error_pct > 50.0 && model.worst_pct().unwrap() < 0.01, "{model:?}");
        assert!(model.ends_at_bytes_per_s.is_some_and(|end| (end - 230.4e6).abs() < 1.0));
        let reason = model.not_used_beyond.as_deref().unwrap();
        let said = "above 220 MiB/s power-cut exposure of timed ×128 is off by ";
        assert!(reason.starts_with(said), "{reason}");
        let timed = &found.choices[0];
        assert_eq!((timed.basis, timed.interval_ns), (Basis::Modelled, Some(500e6)), "{timed:?}");
        // Its syncs are as it says, so that it answers of other intervals too.
        assert_eq!(model.not_used_of_intervals, None);
        let shorter = &capacity(&recorded(&cells), &ASK).unwrap().choices[0];
        assert_eq!((shorter.basis, shorter.interval_ns), (Basis::Extrapolated, Some(85e6)));
        let more = Ask { rate_per_s: 300e3, loss_ns: 2e9, ack_p99_ns: None, ..ASK };
        let beyond = &capacity(&recorded(&cells), &more).unwrap().choices[0];
        assert_eq!(beyond.standing, Standing::Unknown, "{beyond:?}");
        assert!(
            beyond.why.contains("the model is not used of loads beyond (above 220 MiB/s power-cut"),
            "{beyond:?}"
        );
    }

    #[test]
    fn a_model_does_not_end_between_rows_of_one_load() {
        let points = |exposures: &[(f64, f64)]| -> Vec<Point> {
            let point = |(rate, wrong): &(f64, f64)| {
                let bytes_per_sync = rate / 2.0;
                let sync_ns = wrong * (2e6 + bytes_per_sync);
                Point {
                    row: format!("at {rate}"),
                    rate_per_s: *rate,
                    record_bytes: 1.0,
                    interval_ns: Some(500e6),
                    bytes_per_sync,
                    sync_ns,
                    power_ns: 500e6 + 2.0 * sync_ns,
                    staged_ns: 0.0,
                }
            };
            exposures.iter().map(point).collect()
        };
        let low = [(1e6, 1.0), (3e6, 1.0), (9e6, 1.0), (27e6, 1.0)];
        let with = |more: &[(f64, f64)]| believed(&points(&[&low, more].concat()));
        assert_eq!((with(&[]), with(&[(81e6, 1.0)])), (4, 5));
        assert_eq!(with(&[(81e6, 9.0)]), 4);
        assert_eq!(with(&[(81e6, 1.0), (82e6, 9.0)]), 4, "neither of both");
        assert_eq!(with(&[(81e6, 1.0), (90e6, 9.0)]), 5);
        let few = points(&[(1e6, 1.0), (3e6, 1.0), (9e6, 1.0), (81e6, 9.0)]);
        assert_eq!(believed(&few), few.len(), "nothing is believed: all are shown");
    }

    #[test]
    fn an_interval_breaks_what_may_lose_nothing_whatever_was_measured() {
        let found = |rate_per_s, model| {
            let ask = Ask { rate_per_s, loss_ns: 0.0, ack_p99_ns: None, model, ..ASK };
            capacity(&recorded(&rows(1.0)), &ask).unwrap().choices[0].clone()
        };
        // Half a second: two messages a second are one in each.
        let (broken, rare) = (found(2.0, LossModel::Power), found(1.9, LossModel::Power));
        assert_eq!((broken.standing, broken.basis), (Standing::Breaks, Basis::Bounded));
        assert!(
            broken.loss_ns.is_some() && broken.syncs_per_s.is_some(),
            "what it would: {broken:?}"
        );
        assert_ne!(rare.standing, Standing::Breaks, "{rare:?}");
        // Where a row tells, it does.
        let measured = found(2_000.0, LossModel::Power);
        assert_eq!((measured.standing, measured.basis), (Standing::Breaks, Basis::Measured));
        assert!(measured.loss_ns.is_some_and(|loss| loss > 500e6), "{measured:?}");
        assert_eq!(found(2_000.0, LossModel::Process).standing, Standing::Keeps, "it stages none");
    }

    #[test]
    fn a_row_that_nothing_tests_is_not_believed() {
        // Two of one size and one of another: without it there is no line to test it by.
        let mut cells = rows(1.0);
        let [first, second, _] = &mut cells[..] else { unreachable!() };
        (second.bytes_per_flush, second.flush_ns) = (first.bytes_per_flush, first.flush_ns);
        second.exposure = first.exposure;
        let model = &capacity(&recorded(&cells), &ASK).unwrap().models[0];
        assert!(model.not_used.as_deref().is_some_and(|of| of.contains("too few")), "{model:?}");
    }

    #[test]
    fn where_syncs_alone_are_off_the_measured_interval_is_believed_and_no_other() {
        // 3 ms more of a sync are nothing beside half a second, and twice what the others say.
        let mut cells = rows(1.0);
        let sync = 2.0 * cells[0].flush_ns.mean;
        cells[0].flush_ns.mean = sync;
        cells[0].exposure.power.age_ns.p99 = crate::clock::round(500e6 + 2.0 * sync);
        let second = Ask { loss_ns: 600e6, ..ASK };
        let found = capacity(&recorded(&cells), &second).unwrap();
        let model = &found.models[0];
        assert_eq!(model.doubt(LossModel::Power), None, "{model:?}");
        let reason = model.not_used_beyond.as_deref().unwrap();
        assert!(reason.starts_with("sync of timed ×1 is off by"), "{reason}");
        let timed = &found.choices[0];
        assert_eq!((timed.basis, timed.interval_ns), (Basis::Modelled, Some(500e6)), "{timed:?}");
        let shorter = capacity(&recorded(&cells), &ASK).unwrap().choices[0].clone();
        assert_ne!(shorter.standing, Standing::Keeps, "{shorter:?}");
        // Nor is a load that no row had, though the line would have a sync for it.
        let kept = |cells: &[Cell]| {
            let larger = Ask { rate_per_s: 250e3, loss_ns: 4e9, ack_p99_ns: None, ..ASK };
            capacity(&recorded(cells), &larger).unwrap().choices[0].clone()
        };
        assert_eq!(kept(&rows(1.0)).standing, Standing::Keeps);
        let larger = kept(&cells);
        assert_eq!(larger.standing, Standing::Unknown);
        let said = "and the model is not used of loads beyond and other intervals (sync of";
        assert!(larger.why.contains(said), "{larger:?}");
    }

    #[test]
    fn a_model_is_not_used_where_no_row_lies_between() {
        // 2.3, 23 and 230 MB/s: ten times each, and with 1999 messages a second more than that.
        let mut cells = rows(1.0);
        let model = &capacity(&recorded(&cells), &ASK).unwrap().models[0];
        assert_eq!((&model.not_used, &model.not_used_of_kill), (&None, &None));
        cells[0].acked_per_s = 1_999.0;
        let model = &capacity(&recorded(&cells), &ASK).unwrap().models[0];
        assert!(model.worst_pct().unwrap() < 1.0, "each row is predicted: {model:?}");
        for doubt in [LossModel::Power, LossModel::Process].map(|of| model.doubt(of)) {
            assert_eq!(doubt, Some("between 2.2 MiB/s and 22 MiB/s no row tests it"));
        }
        assert_ne!(capacity(&recorded(&cells), &ASK).unwrap().choices[0].standing, Standing::Keeps);
    }

    #[test]
    fn lower_bounds_and_overload_are_neither_fitted_nor_held_out() {
        let held = |edit: fn(&mut Cell)| {
            let mut cells = rows(1.0);
            let mut off = rows(3.0).swap_remove(1);
            (off.producers, off.acked_per_s) = (16, 60_000.0);
            edit(&mut off);
            cells.push(off);
            let model = capacity(&recorded(&cells), &ASK).unwrap().models[0].clone();
            (model.held_out.len(), model.not_used_beyond)
        };
        let (count, reason) = held(|_| {});
        assert!(count == 12 && reason.is_some_and(|of| of.contains("is off by")), "it counts");
        assert_eq!(held(|c| c.status = Status::Overload), (9, None));
        for code in ["syncs_seen", "commits_seen"] {
            let mut cells = rows(1.0);
            for cell in &mut cells {
                cell.validity.push(check(code, Level::Warn, "1", "two"));
            }
            let model = &capacity(&recorded(&cells), &ASK).unwrap().models[0];
            assert_eq!((model.held_out.len(), model.fixed_ns), (0, None), "{code}");
            assert_eq!(model.interval_ns, Some(500e6));
            let reason = model.not_used.as_deref().unwrap();
            assert!(reason.starts_with("0 rows of different load: too few"), "{reason}");
        }
    }

    #[test]
    fn where_syncs_flush_nothing_no_model_promises_anything_about_power() {
        let mut cells = rows(1.0);
        cells[1].validity.push(check(FLUSH_REQUESTS, Level::Warn, "0 per sync", "one"));
        let found = capacity(&recorded(&cells), &ASK).unwrap();
        let model = &found.models[0];
        let reason = model.doubt(LossModel::Power).unwrap();
        assert!(reason.contains("timed ×8") && reason.contains("volatile cache"), "{reason}");
        assert_eq!(model.doubt(LossModel::Process), None, "which is sound");
        assert_ne!(found.choices[0].standing, Standing::Keeps);
    }

    /// The same of staged flush, with so many milliseconds staged under each load.
    fn staged(ms: [u64; 3]) -> Vec<Cell> {
        let mut cells = rows(1.0);
        for (cell, ms) in cells.iter_mut().zip(ms) {
            (cell.kind, cell.strategy) = (Kind::CommitRealtime, "staged".to_owned());
            cell.exposure.process.age_ns.p99 = ms * 1_000_000;
            cell.exposure.power.age_ns.p99 += ms * 1_000_000;
        }
        cells
    }

    #[test]
    fn a_row_is_predicted_without_what_it_staged_itself() {
        let found = capacity(&recorded(&staged([10, 10, 400])), &ASK).unwrap();
        let of = |row: &str, what: &str| {
            let mut held = found.models[0].held_out.iter();
            held.find(|held| held.row == row && held.what == what).map(|held| held.predicted_ns)
        };
        // The others staged for 10 ms at most: it took 400.
        assert_eq!(of("staged ×64", KILL), Some(10e6));
        let sync = of("staged ×64", SYNC).unwrap();
        assert!((of("staged ×64", POWER).unwrap() - (510e6 + 2.0 * sync)).abs() < 1.0, "{found:?}");
        assert_eq!(of("staged ×8", KILL), Some(400e6));
        let reason = found.models[0].not_used.as_deref().unwrap();
        assert!(reason.contains("power-cut exposure of staged"), "{reason}");
    }

    #[test]
    fn a_model_that_knows_not_what_is_staged_says_nothing_of_kill() {
        // 13 ms are little of 500, and much of 10.
        let cells = staged([10, 10, 13]);
        let model = &capacity(&recorded(&cells), &ASK).unwrap().models[0];
        assert_eq!(model.not_used, None, "{model:?}");
        let reason = model.not_used_of_kill.as_deref().unwrap();
        assert!(reason.contains("kill -9 exposure of staged"), "{reason}");
        let even = &capacity(&recorded(&staged([10, 10, 11])), &ASK).unwrap().models[0];
        assert_eq!((&even.not_used, &even.not_used_of_kill), (&None, &None), "{even:?}");
        // Of what no row took, the model would have an answer.
        let kill = Ask { model: LossModel::Process, ack_p99_ns: None, rate_per_s: 3e5, ..ASK };
        let standing =
            |cells: &[Cell]| capacity(&recorded(cells), &kill).unwrap().choices[0].standing;
        assert_eq!(standing(&staged([10, 10, 11])), Standing::Keeps);
        assert_eq!(standing(&cells), Standing::Unknown);
    }

    #[test]
    fn a_shorter_interval_has_to_fill_its_pages_too() {
        // 230 kB/s are four pages in 71 ms.
        let asks = |loss_ns| {
            let ask = Ask { rate_per_s: 200.0, loss_ns, ..ASK };
            capacity(&recorded(&rows(1.0)), &ask).unwrap().choices[0].clone()
        };
        let kept = asks(80e6);
        assert_eq!((kept.standing, kept.interval_ns), (Standing::Keeps, Some(75e6)));
        assert_eq!(asks(70e6).standing, Standing::Unknown);
    }

    #[test]
    fn no_interval_keeps_less_than_two_syncs() {
        let none = Ask { loss_ns: 4e6, ..ASK };
        let found = capacity(&recorded(&rows(1.0)), &none).unwrap();
        assert_eq!(found.choices[0].standing, Standing::Breaks, "{:?}", found.choices[0]);
        // Larger messages than any that were measured, in syncs of a size that was.
        let larger = found.models[0].predict(500.0, 100 << 10, 500e6).unwrap();
        assert!(larger.is_beyond && larger.bytes_per_sync < 60e6, "{larger:?}");
        // 1 GB/s is all that the disk takes.
        let model = &found.models[0];
        assert_eq!(model.predict(1_000_000.0, 1024, 500e6), None);
        assert!(model.predict(700_000.0, 1024, 500e6).is_some_and(|found| found.is_beyond));
    }
}
