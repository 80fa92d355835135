//! What is found out and made before the first cell.

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};

use anyhow::{Context, Result, ensure};

use super::bench::Bench;
use super::plan::{self, Item, What};
use super::{Order, Plan};
use crate::disks::Unavailable;
use crate::results::{Environment, LeftOut};
use crate::sysctl::Leftover;
use crate::{card, environment, format, workdir};

/// Everything that stands before the first cell.
pub(super) struct Prepared {
    pub(super) environment: Environment,
    trimmed: Vec<String>,
    /// One for each disk of the sweep; `None` where this machine lacks something.
    pub(super) benches: Vec<Option<Bench>>,
    left_out: Vec<LeftOut>,
}

impl Prepared {
    /// Makes the disks, and no more of them once it is interrupted.
    pub(super) fn new(order: &mut Order, interrupted: &AtomicBool) -> Result<Self> {
        workdir::sweep_stale(&order.directory);
        let mut environment = environment::capture(&order.directory)?;
        environment.disk.path = real(&order.directory).display().to_string();
        let trimmed = plan::trim(&mut order.sweep);
        let one_block = plan::card_time(&order.sweep) + plan::block_time(&order.sweep);
        ensure!(
            one_block <= order.sweep.budget,
            "{} takes about {} s and {} s are allowed: allow more (run.budget_s, --budget), or \
             measure less",
            if plan::card_time(&order.sweep).is_zero() {
                "one block"
            } else {
                "a card and one block"
            },
            one_block.as_secs() + 1,
            order.sweep.budget.as_secs()
        );
        let (mut benches, mut left_out) = (Vec::new(), Vec::new());
        for disk in &order.sweep.disks {
            // With one disk there is a run to be reported, be it without a cell.
            if interrupted.load(Ordering::Relaxed) && benches.iter().any(Option::is_some) {
                break;
            }
            let made = Bench::make(disk, order, &environment);
            match made.with_context(|| format!("disk {}", disk.name))? {
                Ok(bench) => benches.push(Some(bench)),
                Err(Unavailable { why, how }) => {
                    left_out.push(LeftOut { what: format!("disk {}", disk.name), why, how });
                    benches.push(None);
                }
            }
        }
        left_out.extend(plan::without_disturbance(&order.sweep));
        left_out.extend(never_made(order.sweep.disks.len() - benches.len()));
        benches.resize_with(order.sweep.disks.len(), || None);
        let missing: Vec<String> =
            left_out.iter().map(|left| format!("{}: {}", left.what, left.why)).collect();
        ensure!(
            benches.iter().any(Option::is_some),
            "none of the sweep's disks is there: {}",
            missing.join("; ")
        );
        environment.disks = benches.iter().flatten().map(Bench::described).collect();
        if let Some(first) = first(&benches) {
            let path = environment.disk.path.clone();
            environment.disk = first.info.clone();
            if first.name == crate::profile::Disk::HOST {
                environment.disk.path = path;
            }
        }
        if order.full_env {
            environment.names = Some(environment::names(&environment)?);
        }
        Ok(Self { environment, trimmed, benches, left_out })
    }

    pub(super) fn plan(&self, order: &Order) -> Plan {
        let sweep = &order.sweep;
        let is_there = |item: &Item<'_>| self.benches[item.disk].is_some();
        let block = plan::block(sweep, 0);
        let items: Vec<&Item<'_>> = block.iter().filter(|item| is_there(item)).collect();
        let first = first(&self.benches).expect("one is there");
        let has_card = sweep.card && first.simulated.is_none();
        let (card, card_total) = if has_card { card::bytes(&first.probe) } else { (0, 0) };
        let canaries: u32 = if sweep.canary && first.simulated.is_none() { 2 } else { 0 };
        let per_block = u32::try_from(items.len()).unwrap_or(u32::MAX).saturating_add(canaries);
        let most = |item: &&Item<'_>| self.benches[item.disk].as_ref().map_or(0, |b| b.limits.most);
        let (strategy, workload) = plan::canary("begin");
        let canary = first.limits.written(&What::Strategy(&strategy, &workload, 1));
        let written = items.iter().map(|item| {
            let bench = self.benches[item.disk].as_ref();
            let real = bench.filter(|bench| bench.simulated.is_none());
            real.map_or(0, |bench| bench.limits.written(&item.what))
        });
        let of_canaries = canary.saturating_mul(u64::from(canaries));
        let total = written.fold(of_canaries, u64::saturating_add);
        let changed = sweep.sysctls.iter().filter(|of| !of.changes_nothing());
        let limited = self.benches.iter().flatten().filter(|bench| bench.device.is_some());
        let limited = limited.map(|bench| format!("limits of disk {}", bench.name));
        let sysctls: Vec<String> = changed.map(|of| of.name.clone()).chain(limited).collect();
        Plan {
            path: None,
            cells: per_block.saturating_mul(sweep.blocks),
            cells_done: 0,
            blocks: sweep.blocks,
            estimated: plan::whole_time(sweep).min(sweep.budget),
            total_bytes: total.saturating_mul(u64::from(sweep.blocks)).saturating_add(card_total),
            most_bytes: items.iter().map(most).fold(card, u64::max),
            card: has_card,
            trimmed: self.trimmed.clone(),
            left_out: self.left_out.clone(),
            disks: self.environment.disks.clone(),
            environment: self.environment.clone(),
            probe: first.probe,
            refused: order.kernel.refusal().filter(|_| !sysctls.is_empty()),
            sysctls,
            leftover: Leftover::None,
        }
    }
}

/// The first disk that is there; of several a real one.
pub(super) fn first(benches: &[Option<Bench>]) -> Option<&Bench> {
    let mut real = benches.iter().flatten().filter(|bench| bench.simulated.is_none());
    real.next().or_else(|| benches.iter().flatten().next())
}

/// Without links, if it can be told.
pub(super) fn real(path: &Path) -> PathBuf {
    path.canonicalize().unwrap_or_else(|_| path.to_owned())
}

/// What an interruption leaves out.
fn never_made(disks: usize) -> Option<LeftOut> {
    (disks > 0).then(|| LeftOut {
        what: format::plural(disks, "disk"),
        why: "interrupted before they were made".to_owned(),
        how: "go on with --resume".to_owned(),
    })
}
