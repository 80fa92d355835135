//! A few kills of a virtual machine's kernel, where QEMU and a kernel are there.

use std::time::Duration;

use crashlab::vm::{Fs, Lab, Plan, Strategy, available};

fn plan(strategy: Strategy, kills: u64) -> Plan {
    let window = Duration::from_millis(800);
    Plan { strategy, kills, seed: 7, window, claims_durable: false }
}

#[test]
fn a_killed_kernel_leaves_what_was_promised_and_a_lie_is_caught() {
    let host = match available(Fs::Ext4) {
        Ok(host) => host,
        Err(missing) => {
            println!("left out: kills of a kernel ({missing})");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(&host, Fs::Ext4, folder.path()).unwrap();
    for strategy in Strategy::ALL {
        let tally = lab.run(&plan(strategy, 3), &mut |_| ()).unwrap();
        assert_eq!(tally.violations, [""; 0], "{strategy:?}");
        assert!(tally.refused.is_empty(), "{strategy:?}: {:?}", tally.refused);
        assert_eq!(tally.kills, 3, "{strategy:?}");
        assert!(tally.survived() > 0, "{strategy:?}: {tally:?}");
    }
    // Acknowledged from the page cache as if it were durable: every kill can show that.
    let lie = Plan { claims_durable: true, ..plan(Strategy::FlushRealtime, 8) };
    let tally = lab.run(&lie, &mut |_| ()).unwrap();
    let said = "though it was acknowledged at Flushed";
    assert!(tally.violations.iter().any(|violation| violation.contains(said)), "{tally:?}");
}
