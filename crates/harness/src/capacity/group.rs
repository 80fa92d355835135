//! What one strategy does with a load: by its rows, by its settings, or by the model of its syncs.

use std::time::Duration;

use super::model::Model;
use super::passes::{Passes, Slow};
use super::seen::Seen;
use super::{Ask, Basis, Choice, Standing};
use crate::broker_words::{broker_conf, measured_under};
use crate::clock::{float, round};
use crate::format;
use crate::profile::{Settings, Sweep};
use crate::results::Manifest;
use crate::summary::LossModel;

/// The rows of a strategy under kernel settings on a disk.
#[derive(Clone, Debug)]
pub(super) struct Group<'a> {
    seen: Vec<Seen<'a>>,
    model: Model,
    passes: Passes,
    /// The strategy's settings and the bytes of a segment, if the profile tells.
    settings: Option<(Settings, u64)>,
    /// Under which kernel settings it was measured, as comment lines.
    kernel: String,
    /// Whether its disk is real hardware, or none is.
    decides: bool,
}

impl<'a> Group<'a> {
    /// Of these rows, with what the profile says of their strategy.
    pub(super) fn of(
        seen: Vec<Seen<'a>>,
        decides: bool,
        sweep: Option<&Sweep>,
        manifest: &Manifest,
    ) -> Self {
        let row = seen[0].row;
        let kernel = measured_under(manifest, &row.sysctl, &row.disk);
        let settings = sweep.and_then(|sweep| {
            let strategy = sweep.strategies.iter().find(|of| of.name == row.strategy)?;
            Some((strategy.settings, sweep.segment_bytes))
        });
        let of_kind = settings.as_ref().map(|(settings, _)| settings);
        let passes = Passes::of(row.kind, of_kind, seen[0].interval_ns());
        Self { model: Model::of(&seen), passes, settings, kernel, decides, seen }
    }

    /// The model of its syncs.
    pub(super) fn model(&self) -> &Model {
        &self.model
    }

    /// What this strategy does with the load, and how a broker is set to it.
    pub(super) fn choice(&self, ask: &Ask) -> Choice {
        let choice = self.standing(ask);
        let broker_conf = self.settings.map(|(settings, segment_bytes)| {
            let settings = match choice.interval_ns {
                Some(interval) => with_interval(settings, Duration::from_nanos(round(interval))),
                None => settings,
            };
            self.kernel.clone() + &broker_conf(&settings, segment_bytes)
        });
        Choice { broker_conf, ..choice }
    }

    /// What it does with the load: by a row that kept it, by its settings where it is
    /// too slow for its intervals, by the model, by a row that broke it at less.
    fn standing(&self, ask: &Ask) -> Choice {
        let heavy = self.seen.iter().filter(|seen| seen.message_bytes() >= ask.message_bytes);
        let kept = heavy.filter(|seen| seen.broken(ask, 0.0).is_empty());
        let kept = kept.filter(|seen| !self.is_refuted(seen, ask));
        let best = kept.max_by(|a, b| a.least_per_s().total_cmp(&b.least_per_s()));
        let mut choice = self.blank();
        choice.keeps_up_to_per_s = best.map(Seen::least_per_s);
        choice.page_cache_absorbed = best.is_some_and(|seen| seen.row.page_cache_absorbed);
        if let Some(slow) = self.passes.slow(ask.model, self.bytes_per_s(ask)) {
            return self.bounded(choice, ask, slow);
        }
        if let Some(kept) = self.measured_to_keep(&choice, ask) {
            return kept;
        }
        if let Some(modelled) = self.by_model(&choice, ask) {
            return modelled;
        }
        // What was broken by less, and not by a rate that it could not reach.
        let broke = self.below(ask).map(|seen| (seen, seen.broken(ask, self.older_ns(seen, ask))));
        if let Some((seen, broken)) = broke.into_iter().find(|(_, of)| !of.is_empty()) {
            let why = format!("at {} already, {}", seen.row.label(), broken.join(" and "));
            return Choice { standing: Standing::Breaks, why, ..self.measured(choice, seen, ask) };
        }
        self.unknown(choice, ask)
    }

    /// Why it breaks what is asked though no row tells: with an interval, and a message in each,
    /// something is at risk of a power cut at most times.
    fn breaks_by_settings(&self, ask: &Ask) -> Option<String> {
        let interval = self.model.interval_ns?;
        let asks_none = ask.model == LossModel::Power && ask.loss_ns <= 0.0;
        let is_always = interval / 1e9 * ask.rate_per_s >= 1.0;
        (asks_none && is_always)
            .then(|| "acknowledged messages wait for the end of an interval".to_owned())
    }

    fn blank(&self) -> Choice {
        let row = self.seen[0].row;
        Choice {
            disk: row.disk.clone(),
            not_hardware: row.not_hardware.word().map(str::to_owned),
            decides: self.decides,
            sysctl: row.sysctl.clone(),
            strategy: row.strategy.clone(),
            kind: row.kind,
            standing: Standing::Unknown,
            basis: Basis::Unknown,
            why: String::new(),
            interval_ns: self.model.interval_ns,
            producers: None,
            fewest_producers: None,
            open_loop: None,
            blocks: None,
            keeps_up_to_per_s: None,
            page_cache_absorbed: false,
            ack_p99_ns: None,
            loss_ns: None,
            loss_bytes: None,
            syncs_per_s: None,
            broker_conf: None,
        }
    }

    /// Log bytes a second of the asked load, at least.
    fn bytes_per_s(&self, ask: &Ask) -> f64 {
        let overheads = self.seen.iter().map(Seen::overhead_bytes);
        let overhead = overheads.reduce(f64::min).unwrap_or(0.0);
        ask.rate_per_s * (float(ask.message_bytes) + overhead)
    }

    /// How much older what is lost gets than in this row.
    fn older_ns(&self, seen: &Seen<'_>, ask: &Ask) -> f64 {
        self.passes.older_ns(ask.model, self.bytes_per_s(ask), seen.bytes_per_s())
    }

    /// Whether what a closed loop kept is broken by an open one of no more and no larger messages,
    /// which hides nothing. Of one that is slow the pages told what it lost, and a faster load
    /// fills them.
    fn is_refuted(&self, kept: &Seen<'_>, ask: &Ask) -> bool {
        let lost = |open: &Seen<'_>| !self.is_slow(open, ask) && open.lost_more(ask, 0.0);
        self.is_late_openly(kept, ask) || self.open_below(kept).any(lost)
    }

    /// The same of all but what is lost; not by one whose producers had less on their way, and so
    /// had to wait.
    fn is_late_openly(&self, kept: &Seen<'_>, ask: &Ask) -> bool {
        let is_free = |open: &&Seen<'_>| open.most_in_flight() >= kept.most_in_flight();
        self.open_below(kept).filter(is_free).any(|open| open.broken_but_loss(ask).is_some())
    }

    /// Open loops that were given no more than a closed one took.
    fn open_below(&self, kept: &Seen<'_>) -> impl Iterator<Item = &Seen<'a>> {
        let (is_closed, most) = (!kept.is_open(), kept.least_per_s());
        let bytes = kept.message_bytes();
        self.seen.iter().filter(move |open| {
            let is_less = open.most_per_s() <= most && open.message_bytes() <= bytes;
            is_closed && open.is_open() && !open.is_harder && is_less
        })
    }

    fn is_slow(&self, seen: &Seen<'_>, ask: &Ask) -> bool {
        self.passes.slow(ask.model, seen.bytes_per_s()).is_some()
    }

    /// The rows of no more load than this, and of what they broke whatever is true of more.
    fn below(&self, ask: &Ask) -> impl Iterator<Item = &Seen<'a>> {
        self.seen.iter().filter(|seen| seen.is_below(ask) && !self.is_slow(seen, ask))
    }

    /// By a row that took this load or more and kept what is asked.
    fn measured_to_keep(&self, choice: &Choice, ask: &Ask) -> Option<Choice> {
        let kept: Vec<&Seen<'_>> = self
            .above(ask)
            .filter(|seen| seen.broken(ask, self.older_ns(seen, ask)).is_empty())
            .filter(|seen| !self.is_refuted(seen, ask))
            .collect();
        let best = kept.iter().max_by(|a, b| a.least_per_s().total_cmp(&b.least_per_s()))?;
        let older = self.older_ns(best, ask);
        let why = if older > 0.0 {
            format!(
                "kept at this load or more; here pages fill more slowly, which adds {}",
                format::duration(older)
            )
        } else {
            "kept at this load or more".to_owned()
        };
        Some(Choice {
            standing: Standing::Keeps,
            why,
            fewest_producers: kept.iter().map(|seen| seen.row.producers).min(),
            ..self.measured(choice.clone(), best, ask)
        })
    }

    /// The choice with what this row measured.
    fn measured(&self, choice: Choice, seen: &Seen<'_>, ask: &Ask) -> Choice {
        let older = self.older_ns(seen, ask);
        let loss_ns = seen.loss_ns(ask.model).ok().map(|loss| (loss + older).max(0.0));
        Choice {
            basis: Basis::Measured,
            producers: Some(seen.row.producers),
            open_loop: Some(seen.is_open()),
            blocks: Some(seen.row.blocks.len()),
            ack_p99_ns: seen.ack_p99_ns(),
            loss_ns,
            loss_bytes: loss_ns.map(|age| at_risk_bytes(age, ask, seen.overhead_bytes())),
            syncs_per_s: Some(seen.syncs_per_s(&self.passes, ask, self.bytes_per_s(ask))),
            ..choice
        }
    }

    /// By the settings, where an interval does not fill the pages of a pass: faster rows say what
    /// acknowledgements take, and nothing of what is lost.
    fn bounded(&self, choice: Choice, ask: &Ask, slow: Slow) -> Choice {
        let longest_sync = self.seen.iter().map(Seen::longest_sync_ns).fold(0.0, f64::max);
        let bytes_per_s = self.bytes_per_s(ask);
        let loss = self.passes.bound_ns(ask.model, bytes_per_s, longest_sync);
        let why = format!(
            "at so small a load it {} by interval only once {:.0} pages are filled, else after {}; \
             its settings bound what is lost to {}",
            slow.does,
            slow.pages,
            format::duration(slow.thorough_ns),
            format::duration(loss)
        );
        let is_late = |seen: &Seen<'_>| seen.broken_but_loss(ask).is_some();
        let took = self.above(ask).filter(|seen| !is_late(seen) && !seen.is_void(ask.model));
        let took = took.filter(|seen| !self.is_late_openly(seen, ask));
        let best = took.max_by(|a, b| a.least_per_s().total_cmp(&b.least_per_s()));
        let found = match best {
            Some(seen) if loss <= ask.loss_ns => Choice {
                standing: Standing::Keeps,
                basis: Basis::Bounded,
                ..self.measured(choice, seen, ask)
            },
            _ => self.unknown(choice, ask),
        };
        let loss_bytes = Some(at_risk_bytes(loss, ask, self.model.overhead_bytes));
        let (basis, loss_ns) = (found.basis.max(Basis::Bounded), Some(loss));
        Choice { basis, why, loss_ns, loss_bytes, ..found }
    }

    /// By the model, at the interval as it is or a shorter one that keeps the loss; `None` if the
    /// model has no answer. Acknowledgements do not wait for these syncs, so their time is that of
    /// rows that took at least as many messages; without such a row nobody knows. Nor does a model
    /// make good what a row of less load broke.
    fn by_model(&self, blank: &Choice, ask: &Ask) -> Option<Choice> {
        let model = &self.model;
        if model.doubt(ask.model).is_some() {
            return None;
        }
        let configured = model.interval_ns?;
        let p99 = self.above(ask).map(Seen::ack_p99_ns).reduce(|a, b| Some(a?.max(b?))).flatten();
        if ask.ack_p99_ns.is_some_and(|asked| p99.is_none_or(|p99| p99 > asked)) {
            return None;
        }
        let interval = model.interval_for(ask, configured)?;
        let passes = self.passes.with_interval(interval);
        let predicted = model.predict(ask.rate_per_s, ask.message_bytes, interval)?;
        // Where syncs are not what it says, it says nothing of smaller ones either.
        let is_below = predicted.is_below && model.not_used_of_intervals.is_some();
        if is_below || (predicted.is_beyond && model.not_used_beyond.is_some()) {
            return None;
        }
        let older = self.seen.iter().map(|seen| self.older_ns(seen, ask)).reduce(f64::min);
        let loss_ns = predicted.loss_ns(ask.model) + older.unwrap_or(0.0).max(0.0);
        // Shorter intervals fill fewer pages, and slower loads than any measured stage for longer.
        if passes.slow(ask.model, self.bytes_per_s(ask)).is_some() || loss_ns > ask.loss_ns {
            return None;
        }
        let broke = |seen: &Seen<'_>| {
            // What it lost was that of its own interval.
            let is_of_another = interval < configured && !seen.is_void(ask.model);
            let lost = !is_of_another && seen.lost_more(ask, self.older_ns(seen, ask));
            lost || seen.broken_but_loss(ask).is_some()
        };
        if self.below(ask).any(broke) {
            return None;
        }
        let is_inside = !predicted.is_beyond && !predicted.is_below && interval >= configured;
        let basis = if is_inside { Basis::Modelled } else { Basis::Extrapolated };
        let why = if interval < configured {
            format!("with an interval of {}", format::duration(interval))
        } else {
            "by the model, at its interval".to_owned()
        };
        Some(Choice {
            standing: Standing::Keeps,
            basis,
            why,
            interval_ns: Some(interval),
            ack_p99_ns: p99,
            open_loop: p99.map(|_| self.above(ask).all(Seen::is_open)),
            loss_ns: Some(loss_ns),
            loss_bytes: Some(at_risk_bytes(loss_ns, ask, model.overhead_bytes)),
            syncs_per_s: Some(1e9 / (interval + predicted.sync_ns)),
            ..blank.clone()
        })
    }

    /// Rows that took at least this load.
    fn above(&self, ask: &Ask) -> impl Iterator<Item = &Seen<'a>> {
        self.seen.iter().filter(|seen| seen.is_above(ask))
    }

    fn unknown(&self, choice: Choice, ask: &Ask) -> Choice {
        let most = self.seen.iter().map(Seen::least_per_s).fold(0.0, f64::max);
        let why = if most < ask.rate_per_s {
            format!("no more than {} msg/s was measured", format::count(most))
        } else if self.seen.iter().all(|seen| seen.message_bytes() < ask.message_bytes) {
            "only smaller messages were measured".to_owned()
        } else if self.above(ask).next().is_none() {
            "no row took as many messages of that size".to_owned()
        } else {
            "broken at higher loads; between, no row was measured".to_owned()
        };
        let why = match (self.model.doubt(ask.model), self.model.limits()) {
            (Some(reason), _) => format!("{why}, and the model is not used: {reason}"),
            (None, Some(limits)) => format!("{why}, and the model is not used {limits}"),
            (None, None) => why,
        };
        // The nearest row above says what it loses at most.
        let above = self.above(ask);
        let nearest = above.min_by(|a, b| a.least_per_s().total_cmp(&b.least_per_s()));
        let lost = |seen: &Seen<'_>| Some(seen.loss_ns(ask.model).ok()? + self.older_ns(seen, ask));
        let loss_ns = nearest.and_then(lost);
        let of = nearest.unwrap_or(&self.seen[0]);
        let syncs_per_s = Some(of.syncs_per_s(&self.passes, ask, self.bytes_per_s(ask)));
        let loss_bytes = loss_ns.map(|age| at_risk_bytes(age, ask, self.model.overhead_bytes));
        let told = Choice { why, loss_ns, loss_bytes, syncs_per_s, ..choice };
        match self.breaks_by_settings(ask) {
            Some(why) => Choice { standing: Standing::Breaks, basis: Basis::Bounded, why, ..told },
            None => told,
        }
    }
}

/// The same with another flush interval, if it has one.
fn with_interval(mut settings: Settings, time: Duration) -> Settings {
    match &mut settings {
        Settings::CommitRealtime { interval, .. } | Settings::FlushRealtime { interval, .. } => {
            *interval = time;
        }
        Settings::GroupCommit { .. } | Settings::None { .. } => {}
    }
    settings
}

/// Log bytes of the asked load that are so old at most.
fn at_risk_bytes(age_ns: f64, ask: &Ask, overhead_bytes: f64) -> f64 {
    age_ns / 1e9 * ask.rate_per_s * (float(ask.message_bytes) + overhead_bytes)
}
