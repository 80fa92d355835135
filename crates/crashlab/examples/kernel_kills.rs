//! Kills the kernel of a virtual machine under a log, and says what that left.
//!
//! `cargo run --release -p crashlab --example kernel_kills -- --kills 200 [--fs ext4] [--seed 1]
//! [--strategy group-commit] [--window-ms 1000] [--fetch]`

#![expect(clippy::print_stdout, clippy::print_stderr, reason = "it talks to its user")]

use std::error::Error;
use std::time::Duration;

use crashlab::vm::{Fs, Lab, Plan, Strategy, Tally, available, fetch_kernel};
use store_os::monotonic;

/// What the command line asks for.
struct Asked {
    kills: u64,
    fs: Fs,
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
    println!(
        "strategy         kills  opening  acked     survived  lost acked  losing kills  torn  \
         set aside  refused  violations (95 % bound)  kills/min"
    );
    let mut is_kept = true;
    for strategy in asked.strategies {
        let plan = Plan {
            strategy,
            kills: asked.kills,
            seed: asked.seed,
            window: asked.window,
            claims_durable: false,
        };
        let begun = monotonic();
        let tally = lab.run(&plan, &mut |so_far| {
            eprint!("\r{}: {} of {} kills ", strategy.name(), so_far.kills, plan.kills);
        })?;
        eprintln!();
        let ms = monotonic().since(begun).get() / 1_000_000;
        print(strategy, &tally, ms);
        is_kept &= tally.violations.is_empty();
    }
    if is_kept { Ok(()) } else { Err("a promise was not kept".into()) }
}

fn print(strategy: Strategy, tally: &Tally, ms: u64) {
    println!(
        "{:<15} {:>6} {:>8} {:>8} {:>10} {:>11} {:>13} {:>5} {:>10} {:>8}  {:<23} {:>9}",
        strategy.name(),
        tally.kills,
        tally.kills_in_opening,
        tally.acked,
        tally.survived(),
        tally.lost_acked,
        tally.losing_kills,
        tally.torn,
        tally.set_aside,
        tally.refused.len(),
        bound(tally),
        tally.kills * 60_000 / ms.max(1),
    );
    for refused in &tally.refused {
        println!("  refused: {refused}");
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
            let in_million = 3_000_000 / checked;
            format!("0 (below {}.{:02} %)", in_million / 10_000, in_million % 10_000 / 100)
        }
        _ => violations.to_string(),
    }
}

fn read_arguments() -> Result<Asked, Box<dyn Error>> {
    let mut asked = Asked {
        kills: 20,
        fs: Fs::Ext4,
        seed: monotonic().get(),
        strategies: Strategy::ALL.to_vec(),
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
                asked.fs = Fs::of_name(&name).ok_or(format!("no file system called {name}"))?;
            }
            "--kills" => asked.kills = value()?.parse()?,
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
