//! Whether a cell's figures may be used, and what must be said beside them.

use crate::clock::float;
use crate::profile::Gates;
use crate::results::{AckPromise, Cell, Check, Counts, EndedBy, Kind, Level, Status};
use crate::statistics::Steadiness;

/// What the checks need beside the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// A latency lay above what its histogram can tell apart.
    pub saturated: bool,
    /// Sampled records that were acknowledged before a sync that covers them had returned.
    pub acked_early: u64,
    /// Whether the device may have a volatile write cache; it has none if it reports write through.
    pub volatile_cache: bool,
    /// From when on a disturbance counts.
    pub gates: Gates,
    /// How much the rate moved; `None` if nothing tells.
    pub steadiness: Option<Steadiness>,
    /// The median time of a sync in the last third of the time by that in the first; `None` with
    /// few syncs.
    pub flush_drift: Option<f64>,
}

/// Fills in the cell's checks, those of the environment included, and its status.
pub fn judge(cell: &mut Cell, environment: &[Check], seen: &Seen) {
    let mut checks = environment.to_vec();
    checks.push(saturation(seen.saturated));
    checks.extend(promise_kept(cell, seen.acked_early));
    checks.push(timeouts(cell));
    checks.push(refusals(cell));
    checks.push(acknowledgements(cell));
    checks.push(counts_agree(cell));
    checks.extend(little_closed(cell));
    checks.extend(little_exposure(cell));
    checks.extend(page_cache(cell));
    checks.extend(flushes_reach_device(cell, seen.volatile_cache));
    checks.extend(syncs_seen(cell));
    checks.extend(commits_seen(cell));
    checks.extend(keeps_up(cell));
    checks.extend(generator(cell));
    checks.extend(sampler(cell));
    checks.extend(foreign_writes(cell));
    checks.extend(steal(cell, seen.gates));
    checks.extend(dirty_limit(cell));
    checks.extend(steady_state(seen.steadiness));
    checks.extend(flush_drift(seen.flush_drift));
    checks.push(ended(cell));
    cell.status = status(&checks);
    cell.validity = checks;
}

/// Adds what was found later.
pub fn add(cell: &mut Cell, check: Check) {
    cell.validity.push(check);
    cell.status = status(&cell.validity);
}

fn status(checks: &[Check]) -> Status {
    let is_overloaded =
        checks.iter().any(|check| check.code == OVERLOAD && check.level != Level::Pass);
    match checks.iter().map(|check| check.level).max().unwrap_or(Level::Pass) {
        Level::Invalid => Status::Invalid,
        _ if is_overloaded => Status::Overload,
        Level::Warn => Status::Warn,
        Level::Pass | Level::Label => Status::Valid,
    }
}

fn check(code: &str, level: Level, value: String, rule: &str) -> Check {
    Check { code: code.to_owned(), level, value, rule: rule.to_owned() }
}

fn worse_if(failed: bool, level: Level) -> Level {
    if failed { level } else { Level::Pass }
}

fn saturation(saturated: bool) -> Check {
    let level = worse_if(saturated, Level::Invalid);
    check("histogram_saturated", level, saturated.to_string(), "no latency above two minutes")
}

/// A synchronous strategy that acknowledges before its sync returns has lied.
fn promise_kept(cell: &Cell, acked_early: u64) -> Option<Check> {
    if cell.ack_at != AckPromise::Flushed {
        return None;
    }
    let level = worse_if(acked_early > 0, Level::Invalid);
    let rule = "no sampled message was acknowledged before a sync that covers it returned";
    Some(check("acked_after_sync", level, acked_early.to_string(), rule))
}

fn timeouts(cell: &Cell) -> Check {
    let timeouts = cell.counts.timeouts;
    let level = worse_if(timeouts > 0, Level::Warn);
    check("flush_timeouts", level, timeouts.to_string(), "no acknowledgement passes its deadline")
}

/// What the log refused after its `append_timeout` is in no latency.
fn refusals(cell: &Cell) -> Check {
    let refused = cell.counts.errors;
    let level = worse_if(refused > 0, Level::Warn);
    let rule = "no append was refused because the disk did not keep up";
    check("appends_refused", level, refused.to_string(), rule)
}

fn acknowledgements(cell: &Cell) -> Check {
    let acked = cell.counts.acked;
    let level = worse_if(acked == 0, Level::Invalid);
    check("acknowledged", level, acked.to_string(), "at least one message was acknowledged")
}

/// Acknowledgements are counted by producers, appends by the log.
fn counts_agree(cell: &Cell) -> Check {
    let Counts { acked, appended, .. } = cell.counts;
    let on_their_way = u64::from(cell.producers) * u64::from(cell.window);
    let level = worse_if(acked > appended + on_their_way, Level::Invalid);
    let value = format!("{acked} of {appended}");
    let rule = "not more acknowledged than appended, save a window on its way for each producer";
    check("counts_agree", level, value, rule)
}

/// Producers are always waiting or between two messages; else something was not counted.
///
/// One message per producer lies across either end of the window, so few messages allow more.
fn little_closed(cell: &Cell) -> Option<Check> {
    let error = cell.little.closed_error_pct?;
    let per_producer = float(cell.counts.acked) / f64::from(cell.producers.max(1));
    let allowed = 5.0 + 200.0 / per_producer.max(1.0);
    let level = worse_if(error.abs() > allowed, Level::Warn);
    let value = format!("{error:+.1} %");
    Some(check(
        "little_closed",
        level,
        value,
        "rate × mean time per message = producers, within 5 %",
    ))
}

fn little_exposure(cell: &Cell) -> Option<Check> {
    let error = cell.little.exposure_error_pct?;
    let level = worse_if(error.abs() > 10.0, Level::Warn);
    let value = format!("{error:+.1} %");
    Some(check("little_exposure", level, value, "mean at risk = rate × time at risk, within 10 %"))
}

/// A rate that never reached the dirty limits is one that the disk has not been asked for.
fn page_cache(cell: &Cell) -> Option<Check> {
    if cell.ack_at == AckPromise::Flushed {
        return None;
    }
    let reached = cell.dirty.reached_background?;
    let level = worse_if(!reached, Level::Label);
    let value = format!("background limit reached: {reached}");
    Some(check("page_cache_absorbed", level, value, "the dirty limits were reached"))
}

/// With a volatile write cache each sync must make the device flush it.
fn flushes_reach_device(cell: &Cell, volatile_cache: bool) -> Option<Check> {
    if !volatile_cache {
        return None;
    }
    let requests = cell.io.flush_requests?;
    if cell.counts.flushes < 20 {
        return None;
    }
    let ratio = float(requests) / float(cell.counts.flushes);
    let level = worse_if(ratio < 0.5, Level::Warn);
    let rule =
        "at least one flush request to the device per two syncs, where it has a volatile cache";
    Some(check(FLUSH_REQUESTS, level, format!("{ratio:.2} per sync"), rule))
}

/// Between two syncs exposure grows to its peak; a window without a whole such time has not seen
/// it.
fn syncs_seen(cell: &Cell) -> Option<Check> {
    if !matches!(cell.kind, Kind::CommitRealtime | Kind::FlushRealtime) {
        return None;
    }
    let syncs = cell.messages_per_flush.count;
    let level = worse_if(syncs < 2, Level::Warn);
    let rule = "two syncs ended in the measured time; else what a power cut takes is a lower bound";
    Some(check(SYNCS_SEEN, level, syncs.to_string(), rule))
}

/// The same for commits and what `kill -9` takes.
fn commits_seen(cell: &Cell) -> Option<Check> {
    if cell.kind != Kind::CommitRealtime {
        return None;
    }
    let commits = cell.counts.commits;
    let level = worse_if(commits < 2, Level::Warn);
    let rule = "two commits ended in the measured time; else what kill -9 takes is a lower bound";
    Some(check("commits_seen", level, commits.to_string(), rule))
}

/// What is due must be sent soon; else what waits grows and grows.
fn keeps_up(cell: &Cell) -> Option<Check> {
    let open = cell.open_loop?;
    // One may have come a moment before.
    let late = float(open.unsent.saturating_sub(1));
    let level = worse_if(late > 0.01 * float(open.judged), Level::Warn);
    let value = format!("{} of {} were not", open.unsent, open.judged);
    Some(check(OVERLOAD, level, value, "99 % of what was due was sent before measuring ended"))
}

/// A producer that was free, and is late all the same, is too slow itself; so is one that waits for
/// nobody for much of its time, unless the disk was busy anyway.
fn generator(cell: &Cell) -> Option<Check> {
    let Some(open) = cell.open_loop else {
        let own = cell.machine.generator_pct?;
        let is_idle = cell.io.busy_pct.is_none_or(|busy| busy < BUSY_PCT);
        let level = worse_if(own > MOST_OWN_PCT && is_idle, Level::Warn);
        let value = format!("{own:.1} % of their time");
        let rule = format!(
            "producers spend at most {MOST_OWN_PCT} % of their time between being free to send and \
             sending, where the disk is busy for less than {BUSY_PCT} % of it"
        );
        return Some(check("load_generator", level, value, &rule));
    };
    let lag = open.own_lag_ns.p99;
    let level = worse_if(lag > MOST_LAG_NS, Level::Warn);
    let value = crate::format::duration(float(lag));
    let rule = "99 of 100 messages are sent within 1 ms of being due, by producers that are free";
    Some(check("load_generator", level, value, rule))
}

fn sampler(cell: &Cell) -> Option<Check> {
    let took = cell.machine.sampler_pct?;
    let level = worse_if(took > 1.0, Level::Warn);
    let value = format!("{took:.2} %");
    Some(check("sampler", level, value, "looking on took at most 1 % of one processor's time"))
}

/// Others who write take the disk's time and the page cache's room.
fn foreign_writes(cell: &Cell) -> Option<Check> {
    let (own, others) = cell.machine.own_write_bytes.zip(cell.machine.others_write_bytes)?;
    let hidden = cell.machine.others_hidden.unwrap_or(0);
    let level = match others > (own / 10).max(FEW_BYTES) {
        true => Level::Warn,
        false if hidden > 0 => Level::Label,
        false => Level::Pass,
    };
    let value = format!(
        "{} beside {}; {hidden} processes may not be looked at",
        crate::format::bytes(float(others)),
        crate::format::bytes(float(own))
    );
    let rule = "other processes wrote at most a tenth of what this one did, or 4 MiB, to any disk";
    Some(check("foreign_writes", level, value, rule))
}

fn steal(cell: &Cell, gates: Gates) -> Option<Check> {
    let stolen = cell.machine.steal_pct?;
    let most = gates.steal_max_pct;
    let level = worse_if(stolen > f64::from(most), Level::Warn);
    let rule = format!("the hypervisor gave at most {most} % of the processors' time to others");
    Some(check("steal", level, format!("{stolen:.1} %"), &rule))
}

/// Not wrong, but what was measured then is the kernel's dirty limit.
fn dirty_limit(cell: &Cell) -> Option<Check> {
    let reached = cell.dirty.reached_limit.filter(|_| cell.ack_at != AckPromise::Flushed)?;
    let throttled = cell.throttled_pct.unwrap_or(0.0);
    let level = worse_if(reached || throttled > 0.0, Level::Label);
    let value = format!("limit reached: {reached}, writers held up {throttled:.1} % of the time");
    Some(check("dirty_limit", level, value, "the kernel's dirty limit held nobody up"))
}

/// Not wrong either: the figure is that of a machine on its way somewhere.
fn steady_state(steadiness: Option<Steadiness>) -> Option<Check> {
    let found = steadiness?;
    let level = worse_if(!found.is_steady(), Level::Label);
    let value = format!("range {:.0} %, rise {:+.0} %", found.range_pct, found.rise_pct);
    let rule =
        "over five windows the rate stays within 20 % of its mean, and its trend within 10 %";
    Some(check("steady_state", level, value, rule))
}

/// A disk that lives on credit, of an account or of a quick part of its memory, ends it some time.
fn flush_drift(drift: Option<f64>) -> Option<Check> {
    let drift = drift?;
    let level = worse_if(drift > 1.3, Level::Warn);
    let rule = "a sync takes no more than 1.3 times as long in the last third of the time as in \
                the first: else a disk's burst may be over, and what follows slower still";
    Some(check("flush_drift", level, format!("{drift:.2} times"), rule))
}

fn ended(cell: &Cell) -> Check {
    let early = cell.ended_by == EndedBy::Bytes && cell.kind != Kind::Raw;
    let level = worse_if(early, Level::Label);
    let value = format!("{:.2} s", float(cell.measured_ns) / 1e9);
    check(
        "measured_time",
        level,
        value,
        "measured for the planned time, not ended by bytes written",
    )
}

/// The code of the check that makes a cell an overload.
pub(crate) const OVERLOAD: &str = "overload";
/// The check of whether enough syncs ended to show what is at risk between them.
pub(crate) const SYNCS_SEEN: &str = "syncs_seen";
/// The check of whether syncs reach the device.
pub(crate) const FLUSH_REQUESTS: &str = "flush_requests";
const MOST_LAG_NS: u64 = 1_000_000;
/// What producers may spend on themselves, and from when on a disk is what they wait for.
const MOST_OWN_PCT: f64 = 20.0;
const BUSY_PCT: f64 = 70.0;
/// A log file or two of somebody's disturbs nobody.
const FEW_BYTES: u64 = 4 << 20;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{OpenLoop, Quantiles};
    use crate::results_fixture::{cell, open_loop};

    /// A cell that nothing is wrong with, changed by `change`; `code` then has `level`.
    #[track_caller]
    fn check_level(code: &str, level: Level, seen: Seen, change: impl FnOnce(&mut Cell)) {
        let mut judged = cell(Kind::FlushRealtime, 8, 0, |_| {});
        judged.ack_at = AckPromise::Committed;
        judged.messages_per_flush = Quantiles { count: 5, ..Quantiles::default() };
        judged.dirty.reached_background = Some(true);
        change(&mut judged);
        judge(&mut judged, &[], &seen);
        let found = judged.validity.iter().find(|check| check.code == code);
        assert_eq!(found.map(|check| check.level), Some(level), "{code}: {found:?}");
        let expect = match level {
            Level::Invalid => Status::Invalid,
            Level::Warn => Status::Warn,
            Level::Label | Level::Pass => Status::Valid,
        };
        assert_eq!(judged.status, expect, "{code}");
    }

    #[test]
    fn each_rule_has_its_level() {
        let seen = Seen::default();
        let invalid = Level::Invalid;
        check_level("acknowledged", Level::Pass, seen, |_| {});
        check_level("appends_refused", Level::Warn, seen, |cell| cell.counts.errors = 1);
        check_level("acknowledged", invalid, seen, |cell| cell.counts.acked = 0);
        check_level("flush_timeouts", Level::Warn, seen, |cell| cell.counts.timeouts = 1);
        let saturated = Seen { saturated: true, ..seen };
        check_level("histogram_saturated", invalid, saturated, |_| {});
        check_level("syncs_seen", Level::Warn, seen, |cell| cell.messages_per_flush.count = 1);
        check_level("commits_seen", Level::Warn, seen, |cell| {
            cell.kind = Kind::CommitRealtime;
            cell.counts.commits = 1;
        });
        check_level("counts_agree", invalid, seen, |cell| {
            cell.counts.appended = cell.counts.acked - u64::from(cell.producers) - 1;
        });
        check_level("page_cache_absorbed", Level::Label, seen, |cell| {
            cell.dirty.reached_background = Some(false);
        });
        check_level("measured_time", Level::Label, seen, |cell| cell.ended_by = EndedBy::Bytes);
        check_level("little_exposure", Level::Warn, seen, |cell| {
            cell.little.exposure_error_pct = Some(-12.0);
        });
        check_level("little_closed", Level::Warn, seen, |cell| {
            (cell.counts.acked, cell.counts.appended) = (1_000_000, 1_000_000);
            cell.little.closed_error_pct = Some(6.0);
        });
        check_level("little_closed", Level::Pass, seen, |cell| {
            (cell.counts.acked, cell.counts.appended) = (80, 80);
            cell.little.closed_error_pct = Some(6.0);
        });
        let volatile = Seen { volatile_cache: true, ..seen };
        check_level("flush_requests", Level::Warn, volatile, |cell| {
            cell.counts.flushes = 100;
            cell.io.flush_requests = Some(49);
        });
    }

    #[test]
    fn a_disk_whose_syncs_become_slower_is_warned_of() {
        let drift = |drift| Seen { flush_drift: Some(drift), ..Seen::default() };
        check_level("flush_drift", Level::Pass, drift(1.3), |_| {});
        check_level("flush_drift", Level::Warn, drift(1.31), |_| {});
        check_level("flush_drift", Level::Pass, drift(0.5), |_| {});
    }

    #[test]
    fn a_load_that_is_the_limit_itself_is_said() {
        let seen = Seen::default();
        let own = |own, busy| {
            move |cell: &mut Cell| {
                cell.machine.generator_pct = Some(own);
                cell.io.busy_pct = busy;
            }
        };
        check_level("load_generator", Level::Pass, seen, own(20.0, Some(0.0)));
        check_level("load_generator", Level::Warn, seen, own(20.1, Some(69.0)));
        check_level("load_generator", Level::Warn, seen, own(20.1, None));
        check_level("load_generator", Level::Pass, seen, own(20.1, Some(70.0)));
    }

    #[test]
    fn who_disturbs_is_said_ourselves_included() {
        let seen = Seen::default();
        check_level("sampler", Level::Pass, seen, |cell| cell.machine.sampler_pct = Some(1.0));
        check_level("sampler", Level::Warn, seen, |cell| cell.machine.sampler_pct = Some(1.1));
        let wrote = |own, others| {
            move |cell: &mut Cell| {
                cell.machine.own_write_bytes = Some(own);
                cell.machine.others_write_bytes = Some(others);
            }
        };
        check_level("foreign_writes", Level::Pass, seen, wrote(100 << 20, 10 << 20));
        check_level("foreign_writes", Level::Warn, seen, wrote(100 << 20, 11 << 20));
        check_level("foreign_writes", Level::Pass, seen, wrote(0, 4 << 20));
        check_level("foreign_writes", Level::Warn, seen, wrote(0, 5 << 20));
        check_level("foreign_writes", Level::Label, seen, |cell| {
            wrote(100 << 20, 0)(cell);
            cell.machine.others_hidden = Some(1);
        });
    }

    #[test]
    fn what_was_due_and_is_not_sent_makes_an_overload_however_large_the_window() {
        for window in [1, 64] {
            let status = |unsent, appended| {
                let mut judged = cell(Kind::GroupCommit, 8, 0, |_| {});
                (judged.counts.acked, judged.counts.appended) = (9_000, appended);
                judged.window = window;
                judged.open_loop = Some(OpenLoop { unsent, ..open_loop() });
                judge(&mut judged, &[], &Seen::default());
                judged.status
            };
            assert_eq!(status(91, 9_000), Status::Valid);
            assert_eq!(status(92, 9_000), Status::Overload);
            assert_eq!(status(92, 0), Status::Invalid);
        }
    }

    #[test]
    fn a_window_of_messages_may_have_been_appended_before() {
        let level = |window| {
            let mut judged = cell(Kind::GroupCommit, 8, 0, |_| {});
            (judged.counts.acked, judged.counts.appended) = (1_000, 900);
            judged.window = window;
            judge(&mut judged, &[], &Seen::default());
            let found = judged.validity.iter().find(|check| check.code == "counts_agree");
            found.map(|check| check.level)
        };
        assert_eq!(level(12), Some(Level::Invalid));
        assert_eq!(level(13), Some(Level::Pass));
    }

    #[test]
    fn who_is_late_though_it_was_free_is_too_slow_itself() {
        let level = |lag_ns, own_lag_ns| {
            let mut judged = cell(Kind::GroupCommit, 8, 0, |_| {});
            let [lag_ns, own_lag_ns] =
                [lag_ns, own_lag_ns].map(|p99| Quantiles { p99, ..Quantiles::default() });
            judged.open_loop = Some(OpenLoop { lag_ns, own_lag_ns, ..open_loop() });
            judge(&mut judged, &[], &Seen::default());
            let found = judged.validity.iter().find(|check| check.code == "load_generator");
            found.map(|check| check.level)
        };
        assert_eq!(level(90_000_000, 1_000_000), Some(Level::Pass), "the disk made it late");
        assert_eq!(level(90_000_000, 1_000_001), Some(Level::Warn));
    }

    #[test]
    fn what_is_found_later_counts_as_what_was_found_before() {
        let mut judged = cell(Kind::GroupCommit, 8, 0, |_| {});
        judge(&mut judged, &[], &Seen::default());
        assert_eq!(judged.status, Status::Valid);
        add(&mut judged, check("later", Level::Warn, String::new(), "rule"));
        assert_eq!(judged.status, Status::Warn);
        add(&mut judged, check("later", Level::Invalid, String::new(), "rule"));
        assert_eq!(judged.status, Status::Invalid);
    }

    #[test]
    fn time_given_to_others_and_the_dirty_limit_are_told() {
        let seen = Seen::default();
        check_level("steal", Level::Pass, seen, |cell| cell.machine.steal_pct = Some(2.0));
        check_level("steal", Level::Warn, seen, |cell| cell.machine.steal_pct = Some(2.1));
        check_level("dirty_limit", Level::Label, seen, |cell| {
            cell.dirty.reached_limit = Some(true);
        });
        check_level("dirty_limit", Level::Pass, seen, |cell| {
            (cell.dirty.reached_limit, cell.throttled_pct) = (Some(false), Some(0.0));
        });
        check_level("dirty_limit", Level::Label, seen, |cell| {
            (cell.dirty.reached_limit, cell.throttled_pct) = (Some(false), Some(58.0));
        });
    }

    #[test]
    fn a_rate_that_had_not_settled_is_told() {
        let of = |windows| Seen { steadiness: Steadiness::of(windows), ..Seen::default() };
        check_level("steady_state", Level::Pass, of([90.0, 109.0, 100.0, 95.0, 106.0]), |_| {});
        check_level("steady_state", Level::Label, of([90.0, 95.0, 100.0, 105.0, 110.0]), |_| {});
        let mut judged = cell(Kind::GroupCommit, 1, 0, |_| {});
        judge(&mut judged, &[], &Seen::default());
        assert!(judged.validity.iter().all(|check| check.code != "steady_state"), "nobody knows");
    }

    #[test]
    fn a_synchronous_acknowledgement_before_its_sync_is_invalid() {
        let early = Seen { acked_early: 1, ..Seen::default() };
        check_level("acked_after_sync", Level::Invalid, early, |cell| {
            cell.kind = Kind::GroupCommit;
            cell.ack_at = AckPromise::Flushed;
        });
    }

    #[test]
    fn what_the_environment_found_is_said_with_every_cell() {
        let mut judged = cell(Kind::GroupCommit, 1, 0, |_| {});
        let found = check("in_memory", Level::Invalid, "tmpfs".to_owned(), "on a disk");
        judge(&mut judged, std::slice::from_ref(&found), &Seen::default());
        assert_eq!(judged.validity.first(), Some(&found));
        assert_eq!(judged.status, Status::Invalid);
    }
}
