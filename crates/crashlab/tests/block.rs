//! tmp
#![expect(clippy::unwrap_used, reason = "a test that cannot go on fails")]
use crashlab::block::*;
#[test]
fn one() {
    let private = PrivateMounts::enter().unwrap();
    let work = tempfile::tempdir().unwrap();
    let t = |s: &str| println!("{} {s}", store_os::monotonic().get() / 1000);
    let server =
        ServerCommand { program: env!("CARGO_BIN_EXE_power-disk").into(), arguments: vec![] };
    for kind in FsKind::ALL {
        t("start");
        let mut disk =
            PowerDisk::start(&private, &server, work.path(), DiskOptions::default()).unwrap();
        t("started");
        let live = disk.make_file_system(kind, "").unwrap();
        t(&format!("mounted {kind} direct {}", live.is_direct()));
        println!("{:?}", disk.counters().unwrap());
        let p = live.path().join("f");
        std::fs::write(&p, vec![1_u8; 1 << 20]).unwrap();
        let f = std::fs::File::options().write(true).open(&p).unwrap();
        f.sync_all().unwrap();
        std::thread::sleep(std::time::Duration::from_millis(100));
        let c = disk.counters().unwrap();
        std::os::unix::fs::FileExt::write_all_at(&f, &[2; 512], 4096).unwrap();
        f.sync_data().unwrap();
        let d = disk.counters().unwrap();
        println!("writes {} flushes {}", d.writes - c.writes, d.flushes - c.flushes);
        for t in [DiskType::SataNoPlp] {
            match disk.calibrate(t.timing(), live.path()) {
                Ok(c) => println!("{t} {c:?}"),
                Err(e) => println!("{t} {e}"),
            }
        }
        disk.set_timing(Timing::INSTANT).unwrap();
        for seed in 0..8 {
            t("cut");
            let view = disk.cut(Keep::Random, seed).unwrap();
            t("mount");
            let m = view.mount().unwrap();
            t("mounted");
            println!("{:?}", std::fs::read(m.path().join("f")).unwrap()[4096]);
            m.unmount().unwrap();
            t("unmounted");
            println!("{:?}", view.counters());
            drop(view);
        }
        drop(f);
        t("end");
        live.unmount().unwrap();
        t("unmounted live");
        drop(disk);
        t("dropped");
    }
}
