//! `cargo xtask ci`: everything that is checked, with the time of each step.

use std::path::Path;
use std::process::{Command, Stdio};
use std::time::SystemTime;

use anyhow::{Result, ensure};

use crate::exit;

/// Run everything that is checked: format, lints, tests, docs, probe, benches at tiny size
///
/// What is not installed is left out, and said in one line with how to get it.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<u8> {
    let root = crate::root();
    let mut steps = Steps { root: &root, left_out: Vec::new() };
    let docs = ("RUSTDOCFLAGS", "-D warnings");
    if steps.has("fmt", &["fmt", "--version"], "rustup component add rustfmt") {
        steps.cargo("fmt", &["fmt", "--all", "--check"])?;
    }
    if steps.has("clippy", &["clippy", "--version"], "rustup component add clippy") {
        let arguments = ["clippy", "--workspace", "--all-targets", "--locked", "--"];
        steps.cargo("clippy", &[&arguments[..], &["-D", "warnings"]].concat())?;
    }
    steps.cargo("test", &["test", "--workspace", "--locked"])?;
    for package in ["store-core", "store-os"] {
        // A build of the whole workspace unites the features; alone, a package has only its own.
        let arguments = ["check", "--locked", "--no-default-features", "--package", package];
        steps.cargo(&format!("features of {package}"), &arguments)?;
    }
    steps.cargo_with("docs", &["doc", "--workspace", "--no-deps", "--locked"], &[docs])?;
    let probe = ["build", "--manifest-path", "probe/Cargo.toml", "--locked"];
    steps.cargo("probe: neither std nor an allocator", &probe)?;
    steps.step("tidy", crate::tidy::check)?;
    for (package, bench) in [
        ("store-core", "encode"),
        ("store-core", "scan"),
        ("store-os", "append"),
        ("store-os", "sync"),
    ] {
        let arguments = ["bench", "--locked", "--package", package, "--bench", bench];
        let arguments = [&arguments[..], &["--", "--test"]].concat();
        steps.cargo(&format!("bench {bench} of {package}, once"), &arguments)?;
    }
    steps.instructions()?;
    steps.miri()?;
    steps.smoke()?;
    for line in &steps.left_out {
        say!("left out: {line}");
    }
    say!("ci: all checks passed");
    Ok(exit::OK)
}

struct Steps<'a> {
    root: &'a Path,
    left_out: Vec<String>,
}

impl Steps<'_> {
    /// Whether a cargo command works; notes what is left out if not.
    fn has(&mut self, step: &str, arguments: &[&str], remedy: &str) -> bool {
        let found = cargo(self.root, arguments)
            .stdout(Stdio::null())
            .stderr(Stdio::null())
            .status()
            .is_ok_and(|status| status.success());
        if !found {
            self.left_out.push(format!("{step} (get it with: {remedy})"));
        }
        found
    }

    fn cargo(&self, step: &str, arguments: &[&str]) -> Result<()> {
        self.cargo_with(step, arguments, &[])
    }

    fn cargo_with(
        &self,
        step: &str,
        arguments: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<()> {
        self.step(step, |root| {
            let status = cargo(root, arguments).envs(environment.iter().copied()).status()?;
            ensure!(status.success(), "cargo {} failed: {status}", arguments.join(" "));
            Ok(())
        })
    }

    /// Runs a step between two lines that name it and its time.
    fn step(&self, step: &str, run: impl FnOnce(&Path) -> Result<()>) -> Result<()> {
        say!("== {step}");
        let begun = SystemTime::now();
        run(self.root)?;
        let seconds = begun.elapsed().unwrap_or_default().as_secs_f64();
        say!("== {step}: ok, {seconds:.1} s");
        Ok(())
    }

    /// Exact instruction counts, where valgrind and gungraun's runner are.
    fn instructions(&mut self) -> Result<()> {
        let works = |program: &str| {
            let mut command = Command::new(program);
            command.arg("--version").stdout(Stdio::null()).stderr(Stdio::null());
            // gungraun-runner refuses to run by hand, but that it starts is enough.
            command.status().is_ok()
        };
        if !works("valgrind") {
            let remedy = "apt-get install valgrind";
            self.left_out.push(format!("instruction counts (valgrind is missing: {remedy})"));
            return Ok(());
        }
        if !works("gungraun-runner") {
            let remedy = "cargo install gungraun-runner --version 0.20.0 --locked";
            self.left_out.push(format!("instruction counts (get the runner with: {remedy})"));
            return Ok(());
        }
        for package in ["store-core", "store-os"] {
            let arguments = ["bench", "--locked", "--package", package, "--bench", "instructions"];
            self.cargo(&format!("instruction counts of {package}"), &arguments)?;
        }
        Ok(())
    }

    /// Under Miri, where a nightly compiler has it: the core's unit and property tests, and of
    /// store-os what is unsafe and what threads wait on. Files it does not know.
    fn miri(&mut self) -> Result<()> {
        let miri = |arguments: &[&str]| {
            let mut command = Command::new("rustup");
            command.current_dir(self.root).args(["run", "nightly", "cargo", "miri"]);
            command.args(arguments);
            command
        };
        let mut probe = miri(&["--version"]);
        let found = probe.stdout(Stdio::null()).stderr(Stdio::null()).status();
        if !found.is_ok_and(|status| status.success()) {
            let remedy = "rustup toolchain install nightly --component miri,rust-src";
            self.left_out.push(format!("Miri (get it with: {remedy})"));
            return Ok(());
        }
        let core = ["store-core", "--lib", "--test", "properties"];
        let map = ["store-os", "--lib", "--", "map::"];
        let waiting = ["store-os", "--lib", "--", "progress::", "signal::"];
        let runs: [(&str, &[&str], &str); 3] = [
            ("miri over the core", &core, ""),
            ("miri over mapped memory", &map, "-Zmiri-strict-provenance"),
            // What gives the kernel a number as a pointer is rustix's call of futex.
            ("miri over what threads wait on", &waiting, "-Zmiri-permissive-provenance"),
        ];
        for (step, package, flags) in runs {
            let test = [&["test", "--locked", "--package"][..], package].concat();
            let mut command = miri(&test);
            // Another compiler's artefacts, and the tests of it are slow: few cases are enough.
            command.env("CARGO_TARGET_DIR", self.root.join("target/miri"));
            command.env("PROPTEST_CASES", "1");
            command.env("MIRIFLAGS", format!("-Zmiri-disable-isolation {flags}"));
            // The outer cargo names itself and its compiler, which are not nightly's.
            for name in ["CARGO", "RUSTC", "RUSTUP_TOOLCHAIN", "RUSTDOC", "RUSTFLAGS"] {
                command.env_remove(name);
            }
            self.step(step, |_| {
                let status = command.status()?;
                ensure!(status.success(), "cargo miri {} failed: {status}", test.join(" "));
                Ok(())
            })?;
        }
        Ok(())
    }

    /// The main job at tiny size, by this very program.
    fn smoke(&self) -> Result<()> {
        self.step("bench --sweep tiny", |root| {
            // Not every build directory is called so, and one in memory serves for a test as well.
            let disk = root.join("target");
            std::fs::create_dir_all(&disk)?;
            let results = disk.join("ci-results");
            let status = Command::new(std::env::current_exe()?)
                .current_dir(root)
                .args([
                    "bench",
                    "--sweep",
                    "tiny",
                    "--allow-memory",
                    "--dir",
                    "target",
                    "--results",
                ])
                .arg(&results)
                .status()?;
            // A shared or virtual machine may well spoil the figures; that they are made counts.
            let code = status.code();
            let made = code == Some(i32::from(exit::OK)) || code == Some(i32::from(exit::INVALID));
            ensure!(made, "bench --sweep tiny failed: {status}");
            let report = results.join("latest/report.html");
            ensure!(report.exists(), "{} was not written", report.display());
            let manifest = std::fs::read_to_string(results.join("latest/manifest.json"))?;
            let is_whole = manifest.contains("\"outcome\": \"complete\"");
            ensure!(is_whole, "bench --sweep tiny did not measure every cell");
            Ok(())
        })
    }
}

fn cargo(root: &Path, arguments: &[&str]) -> Command {
    let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
    let mut command = Command::new(cargo);
    command.current_dir(root).args(arguments);
    command
}
