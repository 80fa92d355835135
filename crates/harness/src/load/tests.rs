//! Producers on a real log, in a directory of the test's own.

use group_commit::GroupCommit;
use store_os::LogOptions;

use super::*;
use crate::profile::{Arrival, MessageBytes};

fn shape(window: u32, offered: Option<Offered>) -> Shape {
    Shape { producers: 2, leads: false, waits_for_flush: true, window, offered, seed: 42 }
}

/// Runs a load for so long or longer, half of it measured: how long it ran, and was measured.
fn run(shape: Shape, half: Duration) -> (Vec<Produced>, Load, [f64; 2]) {
    let root = tempfile::tempdir().unwrap();
    let segment_size = store_core::SegmentSize::new(16 << 20).unwrap();
    let options = LogOptions { segment_size, ..LogOptions::default() };
    let log = Log::open(root.path(), options, GroupCommit::default()).unwrap();
    let load = Load::new(shape, Bodies::new(1, 200));
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
    log.abandon();
    let seconds = |from: Nanos, to: Nanos| crate::clock::float(to.since(from).get()) / 1e9;
    let ran = [seconds(load.begun, now()), seconds(start, end)];
    (produced, load, ran)
}

const HALF: Duration = Duration::from_millis(200);

fn due(produced: &[Produced]) -> f64 {
    let due = produced.iter().map(|one| one.open.as_ref().unwrap().due).sum();
    crate::clock::float(due)
}

#[test]
fn what_is_due_is_sent_at_its_rate_and_counted_from_when_it_was_due() {
    let offered = Offered { per_s: 500, arrival: Arrival::Constant, burst: None };
    for window in [1, 16] {
        let (produced, load, [ran, measured]) = run(shape(window, Some(offered)), HALF);
        let due = due(&produced);
        assert!((due - 500.0 * measured).abs() <= 3.0, "{due} due in {measured} s");
        let told = crate::clock::float(load.acked());
        assert!(told <= 500.0 * ran + 3.0, "{told} acknowledged in {ran} s");
        for one in &produced {
            assert_eq!(one.failed, None);
            let open = one.open.as_ref().unwrap();
            assert_eq!(open.due_to_ack.len(), one.append_to_ack.len());
            assert!(one.append_to_ack.max() <= open.due_to_ack.max());
        }
    }
}

#[test]
fn a_rate_that_is_too_high_shows_as_lag_and_not_as_less_that_was_due() {
    let offered = Offered { per_s: 5_000_000, arrival: Arrival::Constant, burst: None };
    // Long enough that a producer is told at least once on a busy machine.
    let (produced, load, [_, measured]) = run(shape(1, Some(offered)), 3 * HALF);
    let due = due(&produced);
    assert!((due - 5e6 * measured).abs() <= 10.0, "{due} due in {measured} s");
    assert!(crate::clock::float(load.acked()) < due);
    let lags = produced.iter().map(|one| one.open.as_ref().unwrap().lag.max());
    let lag = lags.max().unwrap();
    assert!(lag >= 100_000_000, "{lag} ns behind at the end");
}

#[test]
fn a_window_is_filled_and_never_passed() {
    let (produced, load, _) = run(shape(64, None), 3 * HALF);
    assert!(load.acked() > 64);
    for one in produced {
        assert_eq!((one.failed, one.timeouts), (None, 0));
        // What was on its way when measuring began was appended before.
        assert!(one.append.len() + 64 >= one.append_to_ack.len());
        assert!(one.append.value_at_quantile(0.5) < one.append_to_ack.value_at_quantile(0.5));
        let ends: Vec<_> = one.sampled.iter().map(|sampled| sampled.end).collect();
        assert!(ends.is_sorted(), "acknowledged in the order of the log");
    }
    assert!(load.take_worst() > Nanos::new(0));
    assert_eq!(load.take_worst(), Nanos::new(0), "taken once");
}

#[test]
fn a_load_of_mixed_sizes_sends_all_of_them() {
    let shares =
        [(100, 50), (3000, 50)].map(|(bytes, percent)| crate::profile::Share { bytes, percent });
    let bodies = Bodies::mixed(1, &MessageBytes::mix(shares.to_vec()).unwrap()).unwrap();
    let lens: Vec<_> = (0..100).map(|index| bodies.get(index).len()).collect();
    assert!(lens.contains(&100) && lens.contains(&3000));
}

#[test]
fn a_sample_stays_bounded_and_stands_for_everything() {
    let mut produced = Produced::new(false);
    for count in 1..=100_000 {
        let end = LogOffset::new(store_core::length_u64(count));
        produced.sample(count, Sampled { end, acked: Nanos::new(0), stands_for: 1 });
    }
    assert!(produced.sampled.len() <= MAX_SAMPLES);
    let total: u64 = produced.sampled.iter().map(|kept| kept.stands_for).sum();
    assert!((99_000..=101_000).contains(&total), "{total}");
    let ends: Vec<u64> = produced.sampled.iter().map(|kept| kept.end.get()).collect();
    let stride = produced.sampled[0].stands_for;
    assert!(ends.iter().all(|end| end.is_multiple_of(stride)), "every {stride}th");
}
