//! Kills the kernel of a virtual machine under a log, and says what that left.
//!
//! `cargo run --release -p crashlab --example kernel_kills -- --kills 200 [--fs ext4] [--seed 1]
//! [--strategy group-commit] [--power] [--window-ms 1000] [--fetch]`
//!
//! With `--power`, what the guest's disk had not flushed is lost in part.

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to its user")]

use std::error::Error;
use std::time::Duration;

use crashlab::block::FsKind;
use crashlab::load::Strategy;
use crashlab::vm::{Lab, Loss, Plan, Tally, available, fetch_kernel};
use store_os::monotonic;

/// What the command line asks for.
struct Asked {
    kills: u64,
    fs: FsKind,
    loss: Loss,
    seed: u64,
    strategies: Vec<Strategy>,
    window: Duration,
    fetch: bool,
}

fn main() -> Result<(), Box<dyn Error>> {
    let asked = read_arguments()?;
    if asked.fetch {
        eprintln!("kernel: {}", fetch_kernel()?.image().display());
    }
    let host = match available(asked.fs) {
        Ok(host) => host,
        Err(missing) => return Err(format!("cannot kill a kernel: {missing}").into()),
    };
    let folder = tempfile::tempdir()?;
    let begun = monotonic();
    let lab = Lab::new(&host, asked.fs, folder.path())?;
    let took = monotonic().since(begun).get() / 1_000_000;
    eprintln!("kernel {} is up after {took} ms; seed {}", lab.kernel_release(), asked.seed);
    println!("{}", header());
    let mut is_kept = true;
    for strategy in asked.strategies {
        let plan = Plan {
            strategy,
            kills: asked.kills,
            seed: asked.seed,
            window: asked.window,
            loss: asked.loss,
            mount_options: "",
        };
        let begun = monotonic();
        let tally = lab.run(&plan, &mut |so_far| {
            eprint!("\r{}: {} of {} kills ", strategy.name(), so_far.kills, plan.kills);
        })?;
        eprintln!();
        let ms = monotonic().since(begun).get() / 1_000_000;
        print(strategy, &tally, ms);
        is_kept &= [&tally.violations, &tally.refused, &tally.unmountable]
            .iter()
            .all(|list| list.is_empty());
    }
    if is_kept { Ok(()) } else { Err("a promise was not kept".into()) }
}

const COLUMNS: [&str; 12] = [
    "kills",
    "in opening",
    "cuts",
    "acked",
    "survived",
    "lost acked",
    "losing kills",
    "torn",
    "holes",
    "not opened",
    "kills/min",
    "violations (95 % bound)",
];

fn header() -> String {
    let columns: Vec<_> = COLUMNS.iter().map(|name| format!("{name:>10}")).collect();
    format!("{:<23}{}", "strategy", columns.join("  "))
}

fn print(strategy: Strategy, tally: &Tally, ms: u64) {
    let not_opened = tally.refused.len() + tally.unmountable.len();
    let values = [
        tally.kills.to_string(),
        tally.kills_in_opening.to_string(),
        tally.cuts.to_string(),
        tally.acked.to_string(),
        tally.survived().to_string(),
        tally.lost_acked.to_string(),
        tally.losing_kills.to_string(),
        tally.torn.to_string(),
        tally.holes.to_string(),
        not_opened.to_string(),
        (tally.kills * 60_000 / ms.max(1)).to_string(),
        bound(tally),
    ];
    let columns = COLUMNS.iter().zip(values);
    let columns: Vec<_> =
        columns.map(|(name, value)| format!("{value:>0$}", name.len().max(10))).collect();
    println!("{:<23}{}", strategy.name(), columns.join("  "));
    for refused in &tally.refused {
        println!("  refused: {refused}");
    }
    for said in &tally.unmountable {
        println!("  not mountable: {said}");
    }
    for violation in &tally.violations {
        println!("  violation: {violation}");
    }
}

/// The violations, and what none of them proves: with none in N, the rate is below 3/N.
fn bound(tally: &Tally) -> String {
    let violations = tally.violations.len();
    match (violations, tally.checked()) {
        (0, checked) if checked > 0 => {
            let in_million = (3_000_000 / checked).min(1_000_000);
            format!("0 (below {}.{:02} %)", in_million / 10_000, in_million % 10_000 / 100)
        }
        _ => violations.to_string(),
    }
}

fn strategies() -> Vec<Strategy> {
    let commit = Duration::from_millis(20);
    let interval = Duration::from_millis(100);
    vec![
        Strategy::CommitRealtime { commit, interval },
        Strategy::FlushRealtime { interval },
        Strategy::GroupCommit,
    ]
}

fn read_arguments() -> Result<Asked, Box<dyn Error>> {
    let mut asked = Asked {
        kills: 20,
        fs: FsKind::Ext4,
        loss: Loss::Kernel,
        seed: monotonic().get(),
        strategies: strategies(),
        window: Duration::from_secs(1),
        fetch: false,
    };
    let mut arguments = std::env::args().skip(1);
    while let Some(argument) = arguments.next() {
        let mut value = || arguments.next().ok_or(format!("{argument} wants a value"));
        match argument.as_str() {
            "--fetch" => asked.fetch = true,
            "--fs" => {
                let name = value()?;
                asked.fs = FsKind::named(&name).ok_or(format!("no file system called {name}"))?;
            }
            "--kills" => asked.kills = value()?.parse()?,
            "--power" => asked.loss = Loss::Power,
            "--seed" => asked.seed = value()?.parse()?,
            "--strategy" => {
                let name = value()?;
                asked.strategies.retain(|strategy| strategy.name() == name);
            }
            "--window-ms" => asked.window = Duration::from_millis(value()?.parse()?),
            _ => return Err(format!("unknown argument {argument}").into()),
        }
    }
    Ok(asked)
}
