//! The directory that power cuts leave: written cut by cut, so that an end at any moment loses
//! nothing that was found.

use std::fs;
use std::path::Path;

use anyhow::{Context, Result, ensure};
use serde::de::DeserializeOwned;

use super::results::{Cut, PowerCuts};
use crate::chart::cuts as chart;
use crate::output::{Lines, RunDirectory};
use crate::report::cuts as report;
use crate::results::Environment;

/// A result directory that is being written.
#[derive(Debug)]
pub(super) struct Output {
    directory: RunDirectory,
    lines: Lines,
}

impl Output {
    pub(super) fn create(results: &Path, run: &str) -> Result<Self> {
        let directory = RunDirectory::create(results, run, "--out")?;
        let lines = directory.lines(CUTS)?;
        Ok(Self { directory, lines })
    }

    pub(super) fn path(&self) -> &Path {
        self.directory.path()
    }

    pub(super) fn name(&self) -> String {
        self.directory.name()
    }

    /// Appends a cut, durably.
    pub(super) fn write_cut(&mut self, cut: &Cut) -> Result<()> {
        self.lines.append(cut)
    }

    /// Writes what is known of the run so far.
    pub(super) fn write(&self, run: &PowerCuts, environment: &Environment) -> Result<()> {
        self.directory.write_json("env.json", environment)?;
        self.directory.write_json(RUN, run)
    }

    /// Draws the chart and the report, and points `latest-powercut` here if it can.
    pub(super) fn finish(&self, run: &PowerCuts, environment: &Environment) -> Result<()> {
        self.write(run, environment)?;
        self.directory.write_text(CHART, &chart::losses(run, environment)?)?;
        self.directory.write_text("report.html", &report::html(run, environment)?)?;
        if !run.cases.is_empty() {
            self.directory.point_here("latest-powercut");
        }
        Ok(())
    }
}

/// Reads what power cuts left in `directory`; a last line that was cut by a crash is passed over.
///
/// # Errors
///
/// If a file cannot be read, or is not of this major schema version.
pub fn read(directory: &Path) -> Result<(PowerCuts, Vec<Cut>)> {
    let text = |name: &str| {
        let path = directory.join(name);
        fs::read_to_string(&path).with_context(|| format!("read {}", path.display()))
    };
    let place = directory.join(RUN).display().to_string();
    let run = parsed(&text(RUN)?, "flushmark.powercut/1.", &place)?;
    let mut cuts = Vec::new();
    for (number, line) in text(CUTS)?.split_inclusive('\n').enumerate() {
        if line.ends_with('\n') {
            let place = format!("{}:{}", directory.join(CUTS).display(), number + 1);
            cuts.push(parsed(line, "flushmark.cut/1.", &place)?);
        }
    }
    Ok((run, cuts))
}

/// The record in `text`, if its schema is `readable` and a minor version.
fn parsed<T: DeserializeOwned>(text: &str, readable: &str, place: &str) -> Result<T> {
    // The version first: a record of another one may lack fields, which would be the wrong error.
    let value: serde_json::Value = serde_json::from_str(text).with_context(|| place.to_owned())?;
    let schema = value.get("schema").and_then(|schema| schema.as_str()).unwrap_or("none");
    ensure!(
        schema.starts_with(readable),
        "{place}: schema {} is not one that this version reads ({readable}x)",
        schema.escape_debug()
    );
    serde_json::from_value(value).with_context(|| place.to_owned())
}

const RUN: &str = "powercut.json";
const CUTS: &str = "cuts.jsonl";
const CHART: &str = "plots/losses.svg";
