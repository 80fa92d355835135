//! A few kills of a virtual machine's kernel, where QEMU and a kernel are there.

use std::time::Duration;

use crashlab::block::FsKind;
use crashlab::load::{Lie, Strategy};
use crashlab::vm::{Lab, Loss, Plan, available};

#[test]
fn a_killed_kernel_leaves_what_was_promised_and_a_lie_is_caught() {
    let host = match available(FsKind::Ext4) {
        Ok(host) => host,
        Err(missing) => {
            println!("left out: kills of a kernel ({missing})");
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(&host, FsKind::Ext4, folder.path()).unwrap();
    let window = Duration::from_millis(800);
    let interval = Duration::from_millis(100);
    let commit = Duration::from_millis(20);
    let honest = [
        (Strategy::CommitRealtime { commit, interval }, Loss::Kernel),
        (Strategy::FlushRealtime { interval }, Loss::Power),
        (Strategy::GroupCommit, Loss::Kernel),
        (Strategy::GroupCommit, Loss::Power),
    ];
    for (strategy, loss) in honest {
        let plan = Plan { strategy, loss, kills: 3, seed: 7, window };
        let tally = lab.run(&plan, &mut |_| ()).unwrap();
        assert_eq!(tally.violations, [""; 0], "{plan:?}");
        assert_eq!(tally.refused, [""; 0], "{plan:?}");
        assert_eq!(tally.unmountable, [""; 0], "{plan:?}");
        assert_eq!(tally.kills, 3, "{plan:?}");
        assert!(tally.survived() > 0, "{plan:?}: {tally:?}");
    }
    // Most kills show the lie, none needs to.
    let strategy = Strategy::Lying(Lie::AckBeforeSync);
    let caught = (0..5).find_map(|seed| {
        let plan = Plan { strategy, loss: Loss::Kernel, kills: 4, seed, window };
        lab.run(&plan, &mut |_| ()).unwrap().violations.pop()
    });
    let caught = caught.expect("one of 20 kills shows it");
    assert!(caught.contains("though it was acknowledged at Flushed"), "{caught}");
}
