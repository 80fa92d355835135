//! How long a simulated disk takes.

use store_core::Nanos;

use crate::random::Random;

/// A service-time model.
#[derive(Clone, Copy, Debug, Eq, PartialEq)]
pub struct Timing {
    /// What each sync takes.
    pub sync: Nanos,
    /// How fast the disk writes; 0 is infinitely fast.
    pub bytes_per_second: u64,
    /// What a sync takes more, at most.
    pub jitter: Nanos,
    /// How many of a thousand syncs are stuck for a while.
    pub stuck_in_thousand: u64,
    /// For how long.
    pub stuck: Nanos,
    /// What bringing staged bytes to the page cache takes.
    pub commit: Nanos,
    /// What making a segment takes.
    pub allocate: Nanos,
}

impl Timing {
    /// Any disk.
    pub fn any(random: &mut Random) -> Self {
        let sync = Nanos::from_micros(*random.pick(&[5, 50, 200, 2000, 12_000]));
        Self {
            sync,
            bytes_per_second: *random.pick(&[0, 2_000_000_000, 100_000_000, 5_000_000]),
            jitter: Nanos::new(*random.pick(&[0, sync.get() / 4, sync.get() * 4])),
            stuck_in_thousand: *random.pick(&[0, 0, 20, 100]),
            stuck: Nanos::from_millis(*random.pick(&[30, 700, 8000])),
            commit: Nanos::from_micros(*random.pick(&[0, 2, 100, 3000])),
            allocate: Nanos::from_micros(*random.pick(&[0, 100, 4000, 300_000])),
        }
    }

    /// What a sync of `bytes` takes this time.
    pub(crate) fn sync(&self, bytes: u64, random: &mut Random) -> Nanos {
        let Self { sync, bytes_per_second, jitter, .. } = *self;
        let transfer = (bytes * 1_000_000_000).checked_div(bytes_per_second).unwrap_or(0);
        let time =
            sync.after(Nanos::new(transfer)).after(Nanos::new(random.below(jitter.get() + 1)));
        if random.chance(self.stuck_in_thousand) { time.after(self.stuck) } else { time }
    }
}
