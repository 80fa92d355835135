//! A result directory as it was left: what reports and charts are made of.

use std::collections::BTreeMap;
use std::fs;
use std::io::ErrorKind;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, anyhow};
use base64::Engine;
use base64::engine::general_purpose::STANDARD;
use hdrhistogram::Histogram;
use hdrhistogram::serialization::Deserializer;
use hdrhistogram::serialization::interval_log::{IntervalLogIterator, LogEntry};

use crate::card::Card;
use crate::clock::round;
use crate::output::{read_card, read_cells, read_environment, read_manifest};
use crate::results::{Cell, Environment, Manifest, Stall};
use crate::series::{self, Moment};

/// What a run recorded. Histograms and series are read when they are asked for.
#[derive(Clone, Debug)]
pub struct Recorded {
    /// What the run was.
    pub manifest: Manifest,
    /// Where it ran.
    pub environment: Environment,
    /// Its cells.
    pub cells: Vec<Cell>,
    directory: Option<PathBuf>,
}

impl Recorded {
    /// Reads a result directory, also of an earlier minor version.
    ///
    /// # Errors
    ///
    /// If a file cannot be read, or is of another major version.
    pub fn read(directory: &Path) -> Result<Self> {
        let manifest = read_manifest(directory)?;
        let (environment, cells) = (read_environment(directory)?, read_cells(directory)?);
        Ok(Self { manifest, environment, cells, directory: Some(directory.to_owned()) })
    }

    /// What is known already; histograms and series lie in `directory`, if there is one.
    pub fn new(
        manifest: &Manifest,
        environment: &Environment,
        cells: &[Cell],
        directory: Option<&Path>,
    ) -> Self {
        Self {
            manifest: manifest.clone(),
            environment: environment.clone(),
            cells: cells.to_vec(),
            directory: directory.map(Path::to_owned),
        }
    }

    /// The card of the first disk; `None` if none was made.
    ///
    /// # Errors
    ///
    /// If the file is there, and is no card of this major version.
    pub fn card(&self) -> Result<Option<Card>> {
        self.directory.as_deref().map_or(Ok(None), read_card)
    }

    /// The cell's histogram of that name, in nanoseconds; `None` if it has none.
    ///
    /// # Errors
    ///
    /// If the file is there, and is no histogram.
    pub fn histogram(&self, cell: &Cell, name: &str) -> Result<Option<Histogram<u64>>> {
        let file = format!("hist/{}.{name}.hlog", file_stem(cell));
        let Some(text) = self.text(&file)? else { return Ok(None) };
        histogram(&text).map(Some).with_context(|| format!("{file} is no histogram log"))
    }

    /// The columns of the cell's series by name, ten rows a second; what is not known is `None`.
    /// No columns if it has no series.
    ///
    /// # Errors
    ///
    /// If the file is there, and is no table of numbers.
    pub fn series(&self, cell: &Cell) -> Result<BTreeMap<String, Vec<Option<f64>>>> {
        let file = format!("series/{}.csv", file_stem(cell));
        let Some(text) = self.text(&file)? else { return Ok(BTreeMap::new()) };
        columns(&text).with_context(|| format!("{file} is no table of numbers"))
    }

    /// A stall of the cell, with what its series, if there is one, says of all the time that it
    /// took: of earlier runs only its end is in the record.
    ///
    /// # Errors
    ///
    /// If the file is there, and is no table of numbers.
    pub fn stall(&self, cell: &Cell, stall: &Stall) -> Result<Stall> {
        let columns = self.series(cell)?;
        let value = |name: &str, nth: usize| *columns.get(name)?.get(nth)?;
        let whole = |name: &str, nth| value(name, nth).map(round);
        let moment = |nth| {
            let dirty = whole("dirty_bytes", nth).zip(whole("writeback_bytes", nth));
            Some(Moment {
                at_ns: whole("t_ns", nth)?,
                dirty_bytes: dirty.map(|(dirty, writeback)| dirty.saturating_add(writeback)),
                throttled: dirty.and(value("throttled", nth)).map(|throttled| throttled > 0.0),
            })
        };
        let rows = columns.get("t_ns").map_or(0, Vec::len);
        let moments: Vec<Moment> = (0..rows).filter_map(moment).collect();
        let (dirty_bytes, throttled) = series::during(&moments, stall.at_ns, stall.took_ns);
        Ok(Stall {
            dirty_bytes: dirty_bytes.or(stall.dirty_bytes),
            throttled: throttled.or(stall.throttled),
            ..*stall
        })
    }

    /// Some flushes of the cell, evenly chosen: the log bytes that each made durable, and the
    /// nanoseconds that it took. None if none were recorded.
    ///
    /// # Errors
    ///
    /// If the file is there, and is no such table.
    pub fn flushes(&self, cell: &Cell) -> Result<Vec<(f64, f64)>> {
        let file = format!("flushes/{}.csv", file_stem(cell));
        let Some(text) = self.text(&file)? else { return Ok(Vec::new()) };
        let found = columns(&text).with_context(|| format!("{file} is no table of numbers"))?;
        let column = |name| found.get(name).with_context(|| format!("{file} has no {name}"));
        let pairs = column("bytes")?.iter().zip(column("ns")?);
        Ok(pairs.filter_map(|(bytes, ns)| bytes.zip(*ns)).collect())
    }

    fn text(&self, file: &str) -> Result<Option<String>> {
        let Some(directory) = &self.directory else { return Ok(None) };
        let path = directory.join(file);
        // A pipe would never end, and a link leads out of the directory.
        let is_other = path.symlink_metadata().is_ok_and(|found| !found.is_file());
        anyhow::ensure!(!is_other, "{} is no file", path.display());
        match fs::read_to_string(&path) {
            Ok(text) => Ok(Some(text)),
            // A cell's name that no file can have is a cell without that file.
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::InvalidFilename | ErrorKind::InvalidInput | ErrorKind::NotFound
                ) =>
            {
                Ok(None)
            }
            Err(error) => Err(error).with_context(|| format!("read {}", path.display())),
        }
    }
}

/// The name of a cell's files, without a folder in it.
pub(crate) fn file_stem(cell: &Cell) -> String {
    format!("{}.{}", cell.cell.replace('/', "+"), cell.block)
}

/// All intervals of a log together.
fn histogram(text: &str) -> Result<Histogram<u64>> {
    let mut all: Option<Histogram<u64>> = None;
    for entry in IntervalLogIterator::new(text.as_bytes()) {
        let LogEntry::Interval(interval) = entry.map_err(|error| anyhow!("{error:?}"))? else {
            continue;
        };
        let bytes = STANDARD.decode(interval.encoded_histogram())?;
        let mut one = Deserializer::new()
            .deserialize(&mut bytes.as_slice())
            .map_err(|error| anyhow!("{error}"))?;
        // What is read reaches as far as its largest value, and others may be added that have more.
        one.auto(true);
        match &mut all {
            Some(all) => all.add(one).map_err(|error| anyhow!("{error}"))?,
            None => all = Some(one),
        }
    }
    all.context("it has no interval")
}

fn columns(text: &str) -> Result<BTreeMap<String, Vec<Option<f64>>>> {
    let mut lines = text.lines();
    let names: Vec<&str> = lines.next().context("it is empty")?.split(',').collect();
    let mut found: BTreeMap<String, Vec<Option<f64>>> =
        names.iter().map(|name| ((*name).to_owned(), Vec::new())).collect();
    for line in lines {
        let fields: Vec<&str> = line.split(',').collect();
        anyhow::ensure!(fields.len() == names.len(), "a line has {} fields", fields.len());
        for (name, field) in names.iter().zip(fields) {
            let value = if field.is_empty() { None } else { Some(field.parse()?) };
            found.entry((*name).to_owned()).or_default().push(value);
        }
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::Kind;
    use crate::results_fixture::{cell, environment, manifest};

    #[test]
    fn a_card_is_read_if_it_is_one_and_named_if_it_is_not() {
        let root = tempfile::tempdir().unwrap();
        let recorded = Recorded::new(&manifest(), &environment(), &[], Some(root.path()));
        assert_eq!(recorded.card().unwrap(), None);
        let path = root.path().join("card.json");
        let card = crate::card::example();
        fs::write(&path, serde_json::to_string(&card).unwrap()).unwrap();
        assert_eq!(recorded.card().unwrap().as_ref(), Some(&card));
        // Of before cards told their disk.
        let mut value = serde_json::to_value(&card).unwrap();
        value.as_object_mut().unwrap().remove("disk");
        fs::write(&path, value.to_string()).unwrap();
        assert_eq!(recorded.card().unwrap().unwrap().disk, None);
        for bad in ["", "{", "null", "{\"schema\": \"flushmark.card/2.0\"}"] {
            fs::write(&path, bad).unwrap();
            let error = format!("{:#}", crate::chart::all(&recorded).unwrap_err());
            assert!(error.contains("card.json") && error.contains("delete the file"), "{error}");
        }
        fs::remove_file(&path).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &path).unwrap();
        assert!(format!("{:#}", recorded.card().unwrap_err()).contains("is no file"));
    }

    #[test]
    fn a_stall_is_told_with_what_was_dirty_all_the_while() {
        let root = tempfile::tempdir().unwrap();
        let mut one = cell(Kind::FlushRealtime, 8, 0, |_| {});
        let own = Stall { at_ns: 400, took_ns: 150, dirty_bytes: Some(1), throttled: Some(false) };
        one.stalls = vec![own];
        let of = |cell: &Cell| {
            let cells = std::slice::from_ref(cell);
            Recorded::new(&manifest(), &environment(), cells, Some(root.path()))
        };
        assert_eq!(of(&one).stall(&one, &own).unwrap(), own, "it has no series");
        let file = root.path().join(format!("series/{}.csv", file_stem(&one)));
        fs::create_dir_all(file.parent().unwrap()).unwrap();
        let rows = "100,90,9,1\n200,7,1,1\n300,,,0\n400,5,0,0\n500,99,9,1\n";
        fs::write(&file, format!("t_ns,dirty_bytes,writeback_bytes,throttled\n{rows}")).unwrap();
        let told = of(&one).stall(&one, &own).unwrap();
        assert_eq!(told, Stall { dirty_bytes: Some(8), throttled: Some(true), ..own });
        fs::write(&file, "t_ns,dirty_bytes\n1\n").unwrap();
        assert!(of(&one).stall(&one, &own).is_err());
    }

    #[test]
    fn what_has_no_directory_has_neither_histograms_nor_series() {
        let one = cell(Kind::GroupCommit, 8, 0, |_| {});
        let recorded = Recorded::new(&manifest(), &environment(), std::slice::from_ref(&one), None);
        assert!(recorded.histogram(&one, "flush").unwrap().is_none());
        assert!(recorded.series(&one).unwrap().is_empty());
    }

    #[test]
    fn nothing_is_read_through_a_link() {
        let place = tempfile::tempdir().unwrap();
        let one = cell(Kind::GroupCommit, 8, 0, |_| {});
        let recorded = Recorded::new(&manifest(), &environment(), &[], Some(place.path()));
        fs::create_dir(place.path().join("series")).unwrap();
        fs::write(place.path().join("elsewhere"), "a\n1\n").unwrap();
        let file = place.path().join(format!("series/{}.csv", file_stem(&one)));
        std::os::unix::fs::symlink(place.path().join("elsewhere"), &file).unwrap();
        let error = recorded.series(&one).unwrap_err().to_string();
        assert!(error.ends_with(".csv is no file"), "{error}");
        fs::remove_file(&file).unwrap();
        fs::write(&file, "a\n1\n").unwrap();
        assert_eq!(recorded.series(&one).unwrap()["a"], [Some(1.0)]);
    }

    #[test]
    fn a_series_is_read_by_its_columns_names() {
        let found = columns("a,b\n1,\n2.5,7\n").unwrap();
        assert_eq!(found["a"], [Some(1.0), Some(2.5)]);
        assert_eq!(found["b"], [None, Some(7.0)]);
        for broken in ["", "a,b\n1\n", "a\nx\n"] {
            assert!(columns(broken).is_err(), "{broken:?}");
        }
    }
}
