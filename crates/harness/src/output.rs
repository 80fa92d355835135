//! The directory that a run leaves: written cell by cell, so that an end at any moment loses
//! nothing that was measured.

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};
use std::time::UNIX_EPOCH;

use anyhow::{Context, Result};
use hdrhistogram::serialization::V2Serializer;
use hdrhistogram::serialization::interval_log::{IntervalLogWriterBuilder, Tag};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use crate::card::{self, Card};
use crate::cell::Measured;
use crate::recorded::{Recorded, file_stem};
use crate::results::{Cell, Environment, Manifest};
use crate::{format, rendering, series};

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

    /// A directory in which statistics or a report are made again; it is made if it is missing.
    ///
    /// # Errors
    ///
    /// If it cannot be made.
    pub(crate) fn to_render(path: &Path) -> Result<Self> {
        let advice = || format!("cannot write in {}; choose a place with --out", path.display());
        fs::create_dir_all(path).with_context(advice)?;
        Ok(Self { path: path.to_owned() })
    }

    /// Makes the directory of charts if it is missing.
    ///
    /// # Errors
    ///
    /// If it cannot be made, or leads elsewhere.
    pub(crate) fn make_plots(&self) -> Result<()> {
        let plots = self.path.join("plots");
        let is_link = plots.symlink_metadata().is_ok_and(|found| found.is_symlink());
        anyhow::ensure!(!is_link, "{} is a link; choose another place with --out", plots.display());
        let advice = || format!("cannot write in {}; choose a place with --out", plots.display());
        fs::create_dir_all(&plots).with_context(advice)
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
        // What a crash left there, or a link that leads elsewhere.
        let _ = fs::remove_file(&beside);
        File::create_new(&beside)
            .and_then(|mut file| file.write_all(text.as_bytes()))
            .and_then(|()| fs::rename(&beside, &path))
            .with_context(|| format!("write {}", path.display()))
    }

    /// Opens a file of the run that grows by lines, and makes it if it is missing. A last line that
    /// was cut by a crash is taken off, so that the next is one by itself.
    ///
    /// # Errors
    ///
    /// If it cannot be opened.
    pub fn lines(&self, name: &str) -> Result<Lines> {
        let path = self.path.join(name);
        let opened = OpenOptions::new().create(true).read(true).append(true).open(&path);
        let opened = opened.and_then(|file| cut_torn_line(&file).map(|()| file));
        let file = opened.with_context(|| format!("open {}", path.display()))?;
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

/// Takes off what stands behind the last line's end.
fn cut_torn_line(mut file: &File) -> std::io::Result<()> {
    let mut text = Vec::new();
    file.read_to_end(&mut text)?;
    let whole = text.iter().rposition(|byte| *byte == b'\n').map_or(0, |at| at + 1);
    if whole < text.len() { file.set_len(store_core::length_u64(whole)) } else { Ok(()) }
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

    /// Appends a cell, durably, with its histograms, rows and flushes.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn write_cell(&mut self, measured: &Measured) -> Result<()> {
        let cell = &measured.cell;
        for (name, histogram) in &measured.histograms {
            let file = format!("{}.{name}.hlog", file_stem(cell));
            self.write_histogram(&file, cell, histogram)?;
        }
        if !measured.series.is_empty() {
            let file = format!("series/{}.csv", file_stem(cell));
            self.write_text(&file, &series::csv(&measured.series))?;
        }
        if !measured.flushes.is_empty() {
            // A run that an earlier version began has no place for them.
            let place = self.path().join("flushes");
            fs::create_dir_all(&place).with_context(|| format!("make {}", place.display()))?;
            let file = format!("flushes/{}.csv", file_stem(cell));
            self.write_text(&file, &series::flushes_csv(&measured.flushes))?;
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

    /// Writes statistics, charts and the report from what was recorded, and points `latest` here if
    /// it can.
    ///
    /// # Errors
    ///
    /// If they cannot be written.
    pub fn finish(&self, manifest: &Manifest, env: &Environment, cells: &[Cell]) -> Result<()> {
        self.write_json("manifest.json", manifest)?;
        let recorded = Recorded::new(manifest, env, cells, Some(self.path()));
        rendering::render(&self.directory, &recorded)?;
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
    let text = read_file(&file).with_context(|| {
        let path = path.display();
        format!("{path} is no result directory of a sweep: its manifest.json cannot be read")
    })?;
    parse(&text, "flushmark.manifest/1.", || file.display().to_string())
}

/// Reads where a run ran.
///
/// # Errors
///
/// If the file cannot be read, or is no environment of this major schema version.
pub fn read_environment(path: &Path) -> Result<Environment> {
    let file = path.join("env.json");
    let text = read_file(&file)?;
    parse(&text, "flushmark.env/1.", || file.display().to_string())
}

/// Reads the cells that a run left; a last line that was cut by a crash is passed over.
///
/// # Errors
///
/// If the file cannot be read, or a line is not a cell of this major schema version.
pub fn read_cells(path: &Path) -> Result<Vec<Cell>> {
    let file = path.join("cells.jsonl");
    let text = read_file(&file)?;
    let lines = text.split_inclusive(|byte| *byte == b'\n').enumerate();
    let whole = lines.filter(|(_, line)| line.ends_with(b"\n"));
    let cell = |(number, line): (usize, &[u8])| {
        parse(line, "flushmark.cell/1.", || format!("{}:{}", file.display(), number + 1))
    };
    whole.map(cell).collect()
}

/// Reads the card that a run made of its first disk; `None` if it made none.
///
/// # Errors
///
/// If it is there and cannot be read, or is no card of this major schema version.
pub fn read_card(path: &Path) -> Result<Option<Card>> {
    let file = path.join(card::FILE);
    let is_missing = |error: io::Error| error.kind() == io::ErrorKind::NotFound;
    if file.symlink_metadata().is_err_and(is_missing) {
        return Ok(None);
    }
    parse(&read_file(&file)?, "flushmark.card/1.", || file.display().to_string()).map(Some)
}

/// Reads a file, and nothing else that bears its name: a pipe would never end.
fn read_file(file: &Path) -> Result<Vec<u8>> {
    let found = file.symlink_metadata().with_context(|| format!("read {}", file.display()))?;
    anyhow::ensure!(found.is_file(), "{} is no file", file.display());
    fs::read(file).with_context(|| format!("read {}", file.display()))
}

/// Reads a record of this major schema version; of another one, nothing but that is looked at.
fn parse<T: DeserializeOwned>(text: &[u8], major: &str, place: impl Fn() -> String) -> Result<T> {
    // What the parser says may quote the text, whoever wrote it.
    let said = |error: serde_json::Error| anyhow::anyhow!(format::clipped(&error.to_string(), 200));
    let Versioned { schema } = serde_json::from_slice(text).map_err(said).with_context(&place)?;
    anyhow::ensure!(
        schema.starts_with(major),
        "{}: schema {} is not one that this version reads ({major}x)",
        place(),
        format::clipped(&schema, 60)
    );
    serde_json::from_slice(text).map_err(said).with_context(place)
}

/// What every record begins with.
#[derive(Deserialize)]
struct Versioned {
    schema: String,
}
