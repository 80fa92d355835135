//! Producers on a real log, in a directory of the test's own.

use group_commit::GroupCommit;
use store_core::{AckAt, Action, Event, FlushStrategy, Lane, Observed};
use store_os::LogOptions;

use super::*;
use crate::clock::float;
use crate::profile::{Arrival, Burst, MessageBytes};
use crate::recorder::Recorder;
use crate::strategy::NoFlush;

fn shape(window: u32, offered: Option<Offered>) -> Shape {
    Shape { producers: 2, leads: false, waits_for_flush: true, window, offered, seed: 42 }
}

/// What a run showed.
struct Ran {
    produced: Vec<Produced>,
    load: Load,
    seconds: f64,
    measured_seconds: f64,
    /// Messages that each sync made durable.
    groups: Vec<u64>,
    /// The lengths of the records.
    lens: Vec<u32>,
}

/// Runs a load for so long or longer, half of it measured, under group commit.
fn run(shape: Shape, bodies: Bodies, half: Duration) -> Ran {
    run_under(GroupCommit::default(), usual(), shape, bodies, half)
}

/// The same under another strategy.
fn usual() -> LogOptions {
    let segment_size = store_core::SegmentSize::new(16 << 20).unwrap();
    LogOptions { segment_size, ..LogOptions::default() }
}

fn run_under(
    strategy: impl FlushStrategy + Send + 'static,
    options: LogOptions,
    shape: Shape,
    bodies: Bodies,
    half: Duration,
) -> Ran {
    let root = tempfile::tempdir().unwrap();
    let recorder = Arc::new(Recorder::default());
    let observer: Arc<Recorder> = Arc::clone(&recorder);
    let options = LogOptions { observer: Some(observer), ..options };
    let log = Log::open(root.path(), options, strategy).unwrap();
    let load = Load::new(shape, bodies);
    recorder.count_by(load.counter());
    let (produced, [start, end]) = thread::scope(|scope| {
        let producers = load.start(scope, &log);
        thread::sleep(half);
        let start = now();
        load.measure(start);
        thread::sleep(half);
        let end = now();
        load.stop(end);
        (producers.into_iter().map(|thread| thread.join().unwrap()).collect(), [start, end])
    });
    let until = now();
    let mut before = 0;
    let records = recorder.flushes().into_iter().map(|event| event.records);
    let groups = records.map(|records| records - std::mem::replace(&mut before, records)).collect();
    let mut lens = Vec::new();
    let mut cursor = log.cursor(LogOffset::ZERO);
    while lens.len() < 2000
        && let Some(record) = cursor.next_record().unwrap()
    {
        lens.push(record.total_size());
    }
    log.abandon();
    let noted = recorder.acked();
    let steps = recorder.flushes().len() + recorder.commits().len();
    assert_eq!(noted.len(), steps, "one at each step");
    assert!(noted.iter().all(|sample| sample.acked <= load.acked()));
    let seconds = |from: Nanos, to: Nanos| float(to.since(from).get()) / 1e9;
    Ran {
        produced,
        seconds: seconds(load.begun, until),
        measured_seconds: seconds(start, end),
        load,
        groups,
        lens,
    }
}

const HALF: Duration = Duration::from_millis(200);

fn small() -> Bodies {
    Bodies::new(1, 200)
}

fn sum(produced: &[Produced], of: fn(&OpenLoop) -> u64) -> f64 {
    float(produced.iter().map(|one| of(one.open.as_ref().unwrap())).sum())
}

#[test]
fn what_is_due_is_sent_at_its_rate_and_counted_from_when_it_was_due() {
    let offered = Offered { per_s: 500, arrival: Arrival::Constant, burst: None };
    for window in [1, 16] {
        let ran = run(shape(window, Some(offered)), small(), 3 * HALF);
        let due = sum(&ran.produced, |open| open.due);
        let expect = 500.0 * ran.measured_seconds;
        assert!((due - expect).abs() <= 3.0, "{due} due, {expect} expected");
        let (told, most) = (float(ran.load.acked()), 500.0 * ran.seconds + 3.0);
        assert!((most / 4.0..=most).contains(&told), "{told} acknowledged of at most {most}");
        let judged = sum(&ran.produced, |open| open.judged);
        let early = 500.0 * (ran.measured_seconds - 0.02);
        assert!((judged - early).abs() <= 3.0, "{judged} due 20 ms before, {early} expected");
        for one in &ran.produced {
            assert_eq!(one.failed, None);
            let open = one.open.as_ref().unwrap();
            assert_eq!(open.due_to_ack.len(), one.append_to_ack.len());
            assert!(!open.lag.is_empty() && open.own_lag.len() == open.lag.len());
            assert!(one.append_to_ack.max() <= open.due_to_ack.max());
            assert!(open.own_lag.max() <= open.lag.max());
        }
    }
}

#[test]
fn a_rate_that_is_too_high_shows_as_lag_and_not_as_less_that_was_due() {
    let offered = Offered { per_s: 5_000_000, arrival: Arrival::Constant, burst: None };
    for window in [1, 16] {
        // Long enough that a producer is told at least once on a busy machine.
        let ran = run(shape(window, Some(offered)), small(), 3 * HALF);
        let due = sum(&ran.produced, |open| open.due);
        assert!((due - 5e6 * ran.measured_seconds).abs() <= 10.0, "{due} due");
        assert!(float(ran.load.acked()) < due);
        let (judged, unsent) =
            (sum(&ran.produced, |open| open.judged), sum(&ran.produced, |open| open.unsent));
        assert!(unsent > 0.5 * judged && unsent <= judged, "{unsent} of {judged} were not sent");
        let worst = |of: fn(&OpenLoop) -> u64| {
            ran.produced.iter().map(|one| of(one.open.as_ref().unwrap())).max().unwrap()
        };
        let lag = worst(|open| open.lag.max());
        assert!(lag >= 100_000_000, "{lag} ns behind at the end");
        let waited = worst(|open| open.due_to_ack.max());
        assert!(waited >= 100_000_000, "{waited} ns from when it was due");
    }
}

#[test]
fn a_burst_need_not_be_sent_before_the_next_one() {
    let burst = Burst { messages: 400, every: Duration::from_millis(100) };
    let offered = Offered { per_s: 100, arrival: Arrival::Constant, burst: Some(burst) };
    let ran = run(shape(1, Some(offered)), small(), 3 * HALF);
    let (due, judged) =
        (sum(&ran.produced, |open| open.due), sum(&ran.produced, |open| open.judged));
    let expect = 4100.0 * (ran.measured_seconds - 0.1);
    assert!((judged - expect).abs() <= 410.0, "{judged}, about {expect} expected");
    assert!(judged + 300.0 <= due, "the last burst of {due} is not among {judged}");
}

#[test]
fn a_window_is_filled_and_never_passed() {
    let ran = run(shape(64, None), small(), 3 * HALF);
    let most = ran.groups.iter().copied().max().unwrap();
    assert!(most > 16, "at most {most} in a sync, where 128 may be on their way");
    // Between the look at the log's end and the sync's, the other producers may have gone on.
    assert!(most <= 2 * 64, "{most} in one sync");
    for one in &ran.produced {
        assert_eq!((one.failed.as_deref(), one.timeouts), (None, 0));
        // What was on its way when measuring began was appended before.
        assert!(one.append.len() + 64 >= one.append_to_ack.len());
        assert!(one.append.value_at_quantile(0.5) < one.append_to_ack.value_at_quantile(0.5));
        let ends: Vec<_> = one.sampled.iter().map(|sampled| sampled.end).collect();
        assert!(ends.is_sorted(), "acknowledged in the order of the log");
    }
    assert!(ran.load.take_worst() > Nanos::new(0));
    assert_eq!(ran.load.take_worst(), Nanos::new(0), "taken once");
    let mut tail = Tail::default();
    assert!(ran.load.take_p99(&mut tail) > Nanos::new(0));
    assert_eq!(ran.load.take_p99(&mut tail), Nanos::new(0), "taken once");
    assert_eq!(ran.load.waiting(now()), Waiting::default(), "all were told");
}

#[test]
fn what_is_on_its_way_at_the_end_is_waited_for_and_counts() {
    // Longer than the load runs: nothing is acknowledged before it is stopped.
    let held = Duration::from_millis(900);
    let root = tempfile::tempdir().unwrap();
    let config = group_commit::Config {
        gather: nanos(held),
        siblings: 2,
        ..group_commit::Config::default()
    };
    let strategy = GroupCommit::new(config).unwrap();
    let log = Log::open(root.path(), usual(), strategy).unwrap();
    let load = Load::new(shape(8, None), small());
    let produced: Vec<Produced> = thread::scope(|scope| {
        let producers = load.start(scope, &log);
        load.measure(now());
        thread::sleep(HALF);
        let waiting = load.waiting(now());
        assert_eq!(waiting.messages, 16, "two windows of 8");
        assert!(nanos(HALF / 2) < waiting.oldest && waiting.oldest < nanos(held), "{waiting:?}");
        load.stop(now());
        producers.into_iter().map(|thread| thread.join().unwrap()).collect()
    });
    for one in &produced {
        assert!(one.append_to_ack.len() >= 8, "{} counted", one.append_to_ack.len());
        assert!(one.append_to_ack.max() >= 500_000_000, "{}", one.append_to_ack.max());
    }
    log.abandon();
}

#[test]
fn a_load_of_mixed_sizes_sends_all_of_them_in_their_shares() {
    let shares =
        [(100, 50), (3000, 50)].map(|(bytes, percent)| crate::profile::Share { bytes, percent });
    let bodies = Bodies::mixed(1, &MessageBytes::mix(shares.to_vec()).unwrap()).unwrap();
    let ran = run(shape(64, None), bodies, 2 * HALF);
    let large = ran.lens.iter().filter(|len| **len > 3000).count();
    let all = ran.lens.len();
    assert!(all >= 200 && ran.lens.iter().all(|len| *len > 3000 || *len < 300), "{all}");
    assert!((all * 3 / 10..all * 7 / 10).contains(&large), "{large} of {all} are large");
}

#[test]
fn a_sample_stays_bounded_and_stands_for_everything() {
    let mut produced = Produced::new(false);
    let at = Nanos::new(0);
    for count in 1..=100_000 {
        let end = LogOffset::new(store_core::length_u64(count));
        produced.sample(count, Sampled { end, begun: at, acked: at, stands_for: 1 });
    }
    assert!(produced.sampled.len() <= super::produced::MAX_SAMPLES);
    let total: u64 = produced.sampled.iter().map(|kept| kept.stands_for).sum();
    assert!((99_000..=101_000).contains(&total), "{total}");
    let ends: Vec<u64> = produced.sampled.iter().map(|kept| kept.end.get()).collect();
    let stride = produced.sampled[0].stands_for;
    assert!(ends.iter().all(|end| end.is_multiple_of(stride)), "every {stride}th");
}

#[test]
fn an_append_that_a_slow_disk_refuses_is_counted_and_ends_nothing() {
    for window in [1, 16] {
        // Every disk is too slow to make the next segment in the time that two appends take.
        let segment_size = store_core::SegmentSize::new(128 << 10).unwrap();
        let append_timeout = Duration::ZERO;
        let options = || LogOptions { append_timeout, segment_size, ..LogOptions::default() };
        let shape = || Shape { waits_for_flush: false, ..shape(window, None) };
        let goes_on = (0..7).any(|doubled| {
            let half = HALF * (1 << doubled);
            let ran = run_under(NoFlush, options(), shape(), Bodies::new(1, 60_000), half);
            assert!(ran.produced.iter().all(|one| one.failed.is_none()));
            let refused: u64 = ran.produced.iter().map(|one| one.refused).sum();
            // A segment takes two.
            refused > 0 && ran.load.acked() > 10
        });
        assert!(goes_on, "appends are refused, and the next ones taken, however slow the disk is");
    }
}

/// Never syncs: every acknowledgement passes its deadline.
struct Never;

impl FlushStrategy for Never {
    fn ack(&self, _wait: Wait) -> AckAt {
        AckAt::Flushed
    }

    fn wakes(&self, _lane: Lane, _event: Event) -> bool {
        false
    }

    fn timeout(&self) -> Option<Nanos> {
        Some(Nanos::from_millis(20))
    }

    fn uses(&self, lane: Lane) -> bool {
        lane == Lane::Flush
    }

    fn poll(&mut self, _lane: Lane, _now: Nanos, seen: &Observed) -> Action {
        if seen.draining { Action::Done } else { Action::Idle }
    }

    fn on_done(&mut self, _lane: Lane, _now: Nanos, _seen: &Observed) {}
}

#[test]
fn what_passes_its_deadline_took_no_less_than_that() {
    for window in [1, 16] {
        let ran = run_under(Never, usual(), shape(window, None), small(), HALF);
        for one in &ran.produced {
            assert!(one.failed.is_none() && one.timeouts > 1, "{:?}", one.failed);
            assert!(one.append_to_ack.len() > 1);
            assert!(one.append_to_ack.min() >= 19_000_000, "{} ns", one.append_to_ack.min());
            assert_eq!(one.timeouts, one.append_to_ack.len(), "those that count, no others");
            if window > 1 {
                continue;
            }
            // A producer is always waiting or between two messages.
            let waiting = one.append_to_ack.mean() * float(one.append_to_ack.len()) / 1e9;
            let within = waiting + (float(one.between_ns) - float(one.outside_ns)) / 1e9;
            let share = within / ran.measured_seconds;
            assert!((0.9..1.1).contains(&share), "{share} of the measured time is accounted for");
        }
        assert_eq!(ran.load.acked(), 0);
    }
}
