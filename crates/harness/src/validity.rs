//! Whether a cell's figures may be used, and what must be said beside them.

use crate::clock::float;
use crate::results::{AckPromise, Cell, Check, Counts, EndedBy, Kind, Level, Status};

/// What the checks need beside the record.
#[derive(Clone, Copy, Debug, Default)]
pub struct Seen {
    /// A latency lay above what its histogram can tell apart.
    pub saturated: bool,
    /// Sampled records that were acknowledged before a sync that covers them had returned.
    pub acked_early: u64,
    /// Whether the device may have a volatile write cache; it has none if it reports write through.
    pub volatile_cache: bool,
}

/// Fills in the cell's checks, those of the environment included, and its status.
pub fn judge(cell: &mut Cell, environment: &[Check], seen: &Seen) {
    let mut checks = environment.to_vec();
    checks.push(saturation(seen.saturated));
    checks.extend(promise_kept(cell, seen.acked_early));
    checks.push(timeouts(cell));
    checks.push(acknowledgements(cell));
    checks.push(counts_agree(cell));
    checks.extend(little_closed(cell));
    checks.extend(little_exposure(cell));
    checks.extend(page_cache(cell));
    checks.extend(flushes_reach_device(cell, seen.volatile_cache));
    checks.extend(syncs_seen(cell));
    checks.extend(commits_seen(cell));
    checks.push(ended(cell));
    let worst = checks.iter().map(|check| check.level).max().unwrap_or(Level::Pass);
    cell.status = match worst {
        Level::Invalid => Status::Invalid,
        Level::Warn => Status::Warn,
        Level::Pass | Level::Label => Status::Valid,
    };
    cell.validity = checks;
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

fn acknowledgements(cell: &Cell) -> Check {
    let acked = cell.counts.acked;
    let level = worse_if(acked == 0, Level::Invalid);
    check("acknowledged", level, acked.to_string(), "at least one message was acknowledged")
}

/// Acknowledgements are counted by producers, appends by the log.
fn counts_agree(cell: &Cell) -> Check {
    let Counts { acked, appended, .. } = cell.counts;
    let level = worse_if(acked > appended + u64::from(cell.producers), Level::Invalid);
    let value = format!("{acked} of {appended}");
    let rule = "not more acknowledged than appended, save one in flight per producer";
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
    Some(check("flush_requests", level, format!("{ratio:.2} per sync"), rule))
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
    Some(check("syncs_seen", level, syncs.to_string(), rule))
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

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Quantiles;
    use crate::results_fixture::cell;

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
