//! tmp
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
use crashlab::block::*;
use crashlab::load::*;
use crashlab::payload::Shape;
use crashlab::witness::Witness;
use std::sync::Arc;
use std::time::Duration;
#[test]
fn one() {
    let private = PrivateMounts::enter().unwrap();
    let work = tempfile::tempdir().unwrap();
    let t = || store_os::monotonic().get() / 1000;
    let server = ServerCommand { program: env!("CARGO_BIN_EXE_power-disk").into(), arguments: vec![] };
    let ms = Duration::from_millis;
    let cases = [(Strategy::GroupCommit, ""), (Strategy::FlushRealtime { interval: ms(20) }, ""), (Strategy::CommitRealtime { commit: ms(5), interval: ms(20) }, ""),
        (Strategy::Lying(Lie::AckBeforeSync), ""), (Strategy::Lying(Lie::SyncFileRange), ""), (Strategy::GroupCommit, "nobarrier")];
    for kind in FsKind::ALL { for (strategy, options) in cases {
        if kind != FsKind::Ext4 && !options.is_empty() { continue; }
        let mut disk = PowerDisk::start(&private, &server, work.path(), DiskOptions::default()).unwrap();
        let live = disk.make_file_system(kind, options).unwrap();
        let witness = Arc::new(Witness::new(Shape { seed: 1, producers: 4, min_body: 100, max_body: 900 }));
        let load = Load::start(&live.path().join("log"), strategy, witness, LoadOptions { messages_per_s: Some(2000), ..LoadOptions::default() }).unwrap();
        let t0 = t();
        let (mut violations, mut lost, mut torn, mut unmountable, mut damage, mut unsynced) = (0, 0, 0, 0, 0, 0);
        for seed in 0..20 {
            std::thread::sleep(ms(5 + seed % 7));
            let before = load.look();
            let keep = [Keep::Random, Keep::None, Keep::Prefix, Keep::AllButOne, Keep::All, Keep::OnlyOne][usize::try_from(seed % 6).unwrap()];
            let view = disk.cut(keep, seed).unwrap();
            let after = load.seen();
            let mounted = match view.mount() { Ok(m) => m, Err(e) => { println!("{e}"); unmountable += 1; continue } };
            match load.judge(&mounted.path().join("log"), &before, &after) {
                Ok(j) => { violations += j.verdict.violations.len(); lost += u64::from(j.verdict.lost_acked > 0); torn += u64::from(j.recovery.torn_bytes > 0); unsynced += u64::from(j.recovery.unsynced_records > 0);
                   if let Some(v) = j.verdict.violations.first() { println!("{keep:?} {v} of {}", before.seen.acked_records()); } }
                Err(e) => { println!("{e}"); damage += 1; }
            }
            mounted.unmount().unwrap();
        }
        let el = t() - t0;
        let stopped = load.stop();
        println!("{kind} {} {options}: {} ms, acked {} violations {violations} lost {lost} torn {torn} unsynced {unsynced} unmountable {unmountable} damage {damage} {:?} {:?}", strategy.name(), el/1000, stopped.seen.acked_records(), stopped.failures, stopped.closed);
        println!("{:?}", disk.counters().unwrap());
        live.unmount().unwrap();
    }}
}
