//! A few kills of a virtual machine's kernel, where QEMU and a kernel are there.

use std::io::Write;
use std::time::Duration;

use crashlab::block::FsKind;
use crashlab::load::{Lie, Strategy};
use crashlab::vm::{Lab, Loss, Plan, available};

const INTERVAL: Duration = Duration::from_millis(100);
const COMMIT: Duration = Duration::from_millis(20);
const PLAN: Plan = Plan {
    strategy: Strategy::GroupCommit,
    loss: Loss::Kernel,
    mount_options: "",
    kills: 3,
    seed: 7,
    window: Duration::from_millis(800),
};

#[test]
fn a_killed_kernel_leaves_what_was_promised_and_lies_are_caught() {
    let host = match available(FsKind::Ext4) {
        Ok(host) => host,
        Err(missing) => {
            // Past what a passing test's output is kept from.
            let line = format!("left out: kills of a virtual machine's kernel: {missing}\n");
            std::io::stderr().lock().write_all(line.as_bytes()).unwrap();
            return;
        }
    };
    let folder = tempfile::tempdir().unwrap();
    let lab = Lab::new(&host, FsKind::Ext4, folder.path()).unwrap();
    let honest = [
        (Strategy::CommitRealtime { commit: COMMIT, interval: INTERVAL }, Loss::Kernel),
        (Strategy::FlushRealtime { interval: INTERVAL }, Loss::Power),
        (Strategy::GroupCommit, Loss::Kernel),
        (Strategy::GroupCommit, Loss::Power),
    ];
    for (strategy, loss) in honest {
        let plan = Plan { strategy, loss, ..PLAN };
        let tally = lab.run(&plan, &mut |_| ()).unwrap();
        assert_eq!(tally.violations, [""; 0], "{plan:?}");
        assert_eq!(tally.refused, [""; 0], "{plan:?}");
        assert_eq!(tally.unmountable, [""; 0], "{plan:?}");
        assert_eq!(tally.kills, 3, "{plan:?}");
        assert!(tally.survived() > 0, "{plan:?}: {tally:?}");
    }
    let lies = [
        Plan { strategy: Strategy::Lying(Lie::AckBeforeSync), ..PLAN },
        Plan { loss: Loss::Power, mount_options: "nobarrier", ..PLAN },
    ];
    for lie in lies {
        // Most kills show it, none needs to.
        let is_caught = (0..7).any(|seed| {
            let tally = lab.run(&Plan { seed, ..lie }, &mut |_| ()).unwrap();
            let lost = "though it was acknowledged at Flushed";
            tally.violations.iter().any(|violation| violation.contains(lost))
                || !tally.unmountable.is_empty()
        });
        assert!(is_caught, "{lie:?}: one of 21 kills shows it");
    }
}
