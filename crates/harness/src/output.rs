//! The directory that a run leaves: written cell by cell, so that an end at any moment loses
//! nothing that was measured.

use std::fs::{self, File, OpenOptions};
use std::io::Write;
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::Serialize;

use crate::cell::Measured;
use crate::chart;
use crate::report;
use crate::results::{Cell, Environment, Manifest};
use crate::series;

/// The directory of a run, whatever it measures.
#[derive(Debug)]
pub struct RunDirectory {
    path: PathBuf,
}

impl RunDirectory {
    /// Makes a directory `run` below `results`, or `run-2` and so on if there is one already;
    /// `option` is what chooses another place for results.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn create(results: &Path, run: &str, option: &str) -> Result<Self> {
        let advice = || {
            let place = results.display();
            format!("cannot write results in {place}; choose another directory with {option}")
        };
        fs::create_dir_all(results).with_context(advice)?;
        // Another run may have begun in the same second.
        let names = (1..).map(|nth| if nth == 1 { run.to_owned() } else { format!("{run}-{nth}") });
        let mut path = results.join(run);
        for name in names {
            path = results.join(name);
            match fs::create_dir(&path) {
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                made => {
                    made.with_context(advice)?;
                    break;
                }
            }
        }
        fs::create_dir(path.join("plots"))?;
        Ok(Self { path })
    }

    /// The directory of an earlier run.
    ///
    /// # Errors
    ///
    /// If there is none.
    pub fn open(path: &Path) -> Result<Self> {
        let has_cells = path.join("cells.jsonl").is_file();
        anyhow::ensure!(
            has_cells,
            "{} is no result directory of a sweep: it has no cells.jsonl",
            path.display()
        );
        let path = path.canonicalize().with_context(|| format!("open {}", path.display()))?;
        Ok(Self { path })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// The directory's name, by which the run is known.
    pub fn name(&self) -> String {
        self.path.file_name().unwrap_or_default().to_string_lossy().into_owned()
    }

    /// Replaces a JSON file of the run.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        let text = serde_json::to_string_pretty(value)?;
        self.write_text(name, &format!("{text}\n"))
    }

    /// Replaces a file of the run, whole or not at all.
    ///
    /// # Errors
    ///
    /// If it cannot be written; the old one is there then.
    pub fn write_text(&self, name: &str, text: &str) -> Result<()> {
        let path = self.path.join(name);
        let beside = path.with_extension("new");
        fs::write(&beside, text)
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Opens a file of the run that grows by lines, and makes it if it is missing.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn lines(&self, name: &str) -> Result<Lines> {
        let path = self.path.join(name);
        let file = OpenOptions::new().create(true).append(true).open(&path);
        let file = file.with_context(|| format!("open {}", path.display()))?;
        Ok(Lines { file, path })
    }

    /// Makes the link `latest` beside it point here. A convenience: if something else stands there,
    /// it stays.
    pub fn point_here(&self, latest: &str) {
        let (Some(results), Some(name)) = (self.path.parent(), self.path.file_name()) else {
            return;
        };
        let beside = results.join(format!("{latest}.new"));
        let _ = fs::remove_file(&beside);
        let linked = std::os::unix::fs::symlink(name, &beside)
            .and_then(|()| fs::rename(&beside, results.join(latest)));
        if linked.is_err() {
            let _ = fs::remove_file(&beside);
        }
    }
}

/// A file of a run that grows by lines of JSON.
#[derive(Debug)]
pub struct Lines {
    file: File,
    path: PathBuf,
}

impl Lines {
    /// Appends a line, durably.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn append(&mut self, value: &impl Serialize) -> Result<()> {
        let mut line = serde_json::to_string(value)?;
        line.push('\n');
        self.file
            .write_all(line.as_bytes())
            .and_then(|()| self.file.sync_data())
            .with_context(|| format!("write {}", self.path.display()))
    }
}

/// A result directory that is being written.
#[derive(Debug)]
pub struct Output {
    directory: RunDirectory,
    cells: Lines,
}

impl Output {
    /// Makes the directory of a run below `results`.
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn create(results: &Path, run: &str) -> Result<Self> {
        let directory = RunDirectory::create(results, run, "--results")?;
        fs::create_dir(directory.path.join("hist"))?;
        fs::create_dir(directory.path.join("series"))?;
        let cells = directory.lines("cells.jsonl")?;
        Ok(Self { directory, cells })
    }

    /// Goes on with the directory of a run that ended early.
    ///
    /// # Errors
    ///
    /// If it is none, or cannot be written.
    pub fn open(path: &Path) -> Result<Self> {
        let directory = RunDirectory::open(path)?;
        let cells = directory.lines("cells.jsonl")?;
        Ok(Self { directory, cells })
    }

    /// The directory.
    pub fn path(&self) -> &Path {
        &self.directory.path
    }

    /// The directory's name, by which the run is known.
    pub fn name(&self) -> String {
        self.directory.name()
    }

    /// [`RunDirectory::write_json`].
    ///
    /// # Errors
    ///
    /// If it cannot be written.
    pub fn write_json(&self, name: &str, value: &impl Serialize) -> Result<()> {
        self.directory.write_json(name, value)
    }

    /// [`RunDirectory::write_text`].
    ///
    /// # Errors
    ///
    /// If it cannot be written; the old one is there then.
    pub fn write_text(&self, name: &str, text: &str) -> Result<()> {
        self.directory.write_text(name, text)
    }

    /// Appends a cell, durably, and its histograms.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write_cell(&mut self, measured: &Measured) -> Result<()> {
        let cell = &measured.cell;
        for (name, histogram) in &measured.histograms {
            let file = format!("{}.{}.{name}.hlog", cell.cell.replace('/', "-"), cell.block);
            self.write_histogram(&file, cell, histogram)?;
        }
        if !measured.series.is_empty() {
            let file = format!("series/{}.{}.csv", cell.cell.replace('/', "-"), cell.block);
            self.write_text(&file, &series::csv(&measured.series))?;
        }
        self.cells.append(cell)
    }

    fn write_histogram(
        &self,
        file: &str,
        cell: &Cell,
        histogram: &hdrhistogram::Histogram<u64>,
    ) -> Result<()> {
        let path = self.path().join("hist").join(file);
        let mut text = Vec::new();
        let mut serializer = V2Serializer::new();
        let start = UNIX_EPOCH + std::time::Duration::from_millis(cell.started_at_ms);
        let mut log = IntervalLogWriterBuilder::new()
            .add_comment(&format!("{} of block {}, in nanoseconds", cell.cell, cell.block))
            .with_start_time(start)
            .begin_log_with(&mut text, &mut serializer)?;
        let length = std::time::Duration::from_nanos(cell.measured_ns);
        log.write_histogram(histogram, std::time::Duration::ZERO, length, None::<Tag<'_>>)
            .map_err(|error| anyhow::anyhow!("histogram {file}: {error:?}"))?;
        fs::write(&path, text).with_context(|| format!("write {}", path.display()))
    }

    /// Draws the charts and the report from what was recorded, and points `latest` here if it can.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn finish(&self, manifest: &Manifest, env: &Environment, cells: &[Cell]) -> Result<()> {
        self.write_json("manifest.json", manifest)?;
        for model in chart::LossModel::ALL {
            let name = format!("plots/{}.svg", model.file_stem());
            self.write_text(&name, &chart::pareto(manifest, env, cells, model)?)?;
        }
        self.write_text("report.html", &report::html(manifest, env, cells)?)?;
        if !cells.is_empty() {
            self.directory.point_here("latest");
        }
        Ok(())
    }
}

/// Reads what a run was.
///
/// # Errors
///
/// If the file cannot be read, or is no manifest of this major schema version.
pub fn read_manifest(path: &Path) -> Result<Manifest> {
    let file = path.join("manifest.json");
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let manifest: Manifest =
        serde_json::from_str(&text).with_context(|| format!("{}", file.display()))?;
    anyhow::ensure!(
        manifest.schema.starts_with("flushmark.manifest/1."),
        "{}: schema {} is not one that this version reads (flushmark.manifest/1.x)",
        file.display(),
        manifest.schema
    );
    Ok(manifest)
}

/// Reads the cells that a run left; a last line that was cut by a crash is passed over.
///
/// # Errors
///
/// If the file cannot be read, or a line is not a cell of this major schema version.
pub fn read_cells(path: &Path) -> Result<Vec<Cell>> {
    let file = path.join("cells.jsonl");
    let text = fs::read_to_string(&file).with_context(|| format!("read {}", file.display()))?;
    let mut cells = Vec::new();
    for (number, line) in text.split_inclusive('\n').enumerate() {
        if !line.ends_with('\n') {
            break;
        }
        let place = || format!("{}:{}", file.display(), number + 1);
        let cell: Cell = serde_json::from_str(line).with_context(place)?;
        anyhow::ensure!(
            cell.schema.starts_with("flushmark.cell/1."),
            "{}: schema {} is not one that this version reads (flushmark.cell/1.x)",
            place(),
            cell.schema
        );
        cells.push(cell);
    }
    Ok(cells)
}
