//! A profile as a whole: what must be there, what it takes from other files, and what it runs.

use std::path::Path;
use std::time::Duration;

use serde_yaml::{Location, Spanned};

use super::library::{self, Family, Library};
use super::scalar::{self, quoted};
use super::steps::{LONGEST_MS, Reader, Source};
use super::yaml::{self, Entries, MatrixShape, Shape, Text, WorkloadFile};
use super::{Disk, Finding, Gates, PROFILE_SCHEMA, Slo, Strategy, Sweep, Sysctls, Workload};

/// The sweep, or everything that was found in a profile with an error, text after text, each by
/// position.
pub(super) fn read(
    file_name: &str,
    text: &str,
    root: Option<&Path>,
) -> Result<Sweep, Vec<Finding>> {
    let source = |lines_before| Source { file_name: file_name.to_owned(), lines_before };
    // A text that is too long is not even looked at.
    let (own, parts) = match text.len() {
        0..=yaml::TEXT_LIMIT_BYTES => library::split(text),
        _ => (text, Vec::new()),
    };
    let library = Library::new(file_name, root, parts);
    let mut reader = Reader::new(source(0), library);
    let sweep = match yaml::parse(own) {
        Ok(shape) => reader.sweep(&shape),
        Err(error) => {
            reader.report(error);
            None
        }
    };
    let record = reader.library.record(own);
    if record.len() > yaml::TEXT_LIMIT_BYTES && !reader.has_errors() {
        let limit = yaml::TEXT_LIMIT_BYTES;
        let message =
            format!("the profile and the files that it takes from have more than {limit} bytes");
        reader.error(Location::UNKNOWN, message);
    }
    let is_refused = reader.has_errors();
    let findings = reader.into_findings();
    match sweep {
        Some(sweep) if !is_refused => Ok(Sweep { warnings: findings, text: record, ..sweep }),
        _ => Err(findings),
    }
}

impl Reader {
    fn sweep(&mut self, shape: &Spanned<Shape>) -> Option<Sweep> {
        let (at, shape) = (shape.referenced, &shape.value);
        self.schema(at, shape.schema.as_ref());
        let name = self.needed(at, "name", shape.name.as_ref());
        let name = name.and_then(|name| self.name("name", name));
        let run = self.keys("run", shape.run.as_ref(), &RUN_KEYS);
        let blocks = self.integer(&run, "blocks", 1..=100, 3);
        if let Some(blocks @ ..LEAST_FOR_INTERVAL) = blocks {
            let at = run.get("blocks").map_or(at, |text| text.referenced);
            self.warn(at, too_few(blocks));
        }
        let seed = self.integer(&run, "seed", 0..=u64::MAX, 42);
        let warmup = self.millis(&run, "warmup_ms", 0..=600_000, 300);
        let measure = self.millis(&run, "measure_ms", 1..=3_600_000, 1_200);
        self.measure = measure;
        let cell_bytes = self.optional(&run, "cell_bytes", None, |text| {
            scalar::size(text, &(64 << 20..=1 << 40)).map(Some)
        });
        let settle = self.millis(&run, "settle_ms", 0..=600_000, 0);
        let drain = self.size(&run, "drain_dirty_below", 1 << 20..=1 << 40, 16 << 20);
        let canary = self.choice(&run, "canary", &super::steps::SWITCH, false);
        let card = self.choice(&run, "card", &super::steps::SWITCH, false);
        let budget_s = self.integer(&run, "budget_s", 1..=604_800, 110);
        let log = self.keys("log", shape.log.as_ref(), &["segment_bytes"]);
        let segment_bytes = self.size(&log, "segment_bytes", 4096..=2_147_483_647, 128 << 20);
        let slo = self.slo(shape.slo.as_ref());
        let gates = self.gates(shape.gates.as_ref());
        let cells = self.cells(at, shape, segment_bytes);
        let Cells { disks, sysctls, workloads, strategies } = cells?;
        Some(Sweep {
            name: name?,
            blocks: blocks?,
            seed: seed?,
            warmup: warmup?,
            measure: measure?,
            cell_bytes: cell_bytes?,
            settle: settle?,
            drain_dirty_below_bytes: drain?,
            canary: canary?,
            card: card?,
            budget: Duration::from_secs(budget_s?),
            segment_bytes: segment_bytes?,
            disks,
            sysctls,
            workloads,
            strategies,
            slo: slo?,
            gates: gates?,
            warnings: Vec::new(),
            text: String::new(),
        })
    }

    pub(super) fn schema(&mut self, at: Location, schema: Option<&Text>) {
        let Some(schema) = self.needed(at, "schema", schema) else {
            return;
        };
        if schema.value != PROFILE_SCHEMA {
            let found = quoted(&schema.value);
            let message =
                format!("schema: {found} is not known (this program reads: {PROFILE_SCHEMA})");
            self.error(schema.referenced, message);
        }
    }

    fn slo(&mut self, entries: Option<&Entries<Text>>) -> Option<Slo> {
        let keys = self.keys("slo", entries, &["ack_p99_ms", "power_loss_rpo_ms"]);
        let mut millis = |key, least| {
            self.optional(&keys, key, None, |text| {
                scalar::integer(text, &(least..=LONGEST_MS)).map(Duration::from_millis).map(Some)
            })
        };
        let ack_p99 = millis("ack_p99_ms", 1);
        let power_loss_rpo = millis("power_loss_rpo_ms", 0);
        Some(Slo { ack_p99: ack_p99?, power_loss_rpo: power_loss_rpo? })
    }

    fn gates(&mut self, entries: Option<&Entries<Text>>) -> Option<Gates> {
        let names = ["min_effect_pct", "noise_max_pct", "steal_max_pct"];
        let keys = self.keys("gates", entries, &names);
        let default = Gates::default();
        let min_effect_pct = self.integer(&keys, names[0], 0..=100, default.min_effect_pct);
        let noise_max_pct = self.integer(&keys, names[1], 0..=100, default.noise_max_pct);
        let steal_max_pct = self.integer(&keys, names[2], 0..=100, default.steal_max_pct);
        Some(Gates {
            min_effect_pct: min_effect_pct?,
            noise_max_pct: noise_max_pct?,
            steal_max_pct: steal_max_pct?,
        })
    }

    /// What is defined, and what the matrix takes of it.
    fn cells(&mut self, at: Location, shape: &Shape, segment_bytes: Option<u64>) -> Option<Cells> {
        let disks = self.disks(shape);
        let sysctls = self.sysctls(shape);
        let workloads = self.workloads(shape, segment_bytes);
        let strategies = self.strategies(at, shape, segment_bytes);
        let matrix = self.needed(at, "matrix", shape.matrix.as_ref())?;
        let (at, MatrixShape { disks: on, sysctls: under, workloads: load, strategies: how }) =
            (matrix.referenced, &matrix.value);
        let disks = match on {
            None => vec![Disk::host()],
            on => self.pick(at, "matrix.disks", on.as_ref(), &disks, Self::disk_file),
        };
        let sysctls = match under {
            None => vec![Sysctls::as_found()],
            under => self.pick(at, "matrix.sysctls", under.as_ref(), &sysctls, Self::sysctl_file),
        };
        let workloads =
            self.pick(at, "matrix.workloads", load.as_ref(), &workloads, |reader, name| {
                reader.workload_file(name, segment_bytes)
            });
        let strategies =
            self.pick(at, "matrix.strategies", how.as_ref(), &strategies, |_, _| Found::Nowhere);
        let loads: usize = workloads.iter().map(|load| load.producers.len()).sum();
        let of_setting = loads.saturating_mul(strategies.len()).saturating_add(workloads.len());
        let count = disks.len().saturating_mul(sysctls.len()).saturating_mul(of_setting);
        if count > MOST_CELLS {
            let message = format!(
                "matrix: {count} cells in a block are more than {MOST_CELLS}: take fewer disks, \
                 kernel settings, workloads, producers or strategies"
            );
            self.error(at, message);
        }
        Some(Cells { disks, sysctls, workloads, strategies })
    }

    /// What the names in a list of the matrix stand for: what the profile defines, or else what
    /// `look_up` finds.
    fn pick<T: Clone>(
        &mut self,
        at: Location,
        path: &str,
        list: Option<&Spanned<Vec<Text>>>,
        defined: &[(String, Option<T>)],
        mut look_up: impl FnMut(&mut Self, &Text) -> Found<T>,
    ) -> Vec<T> {
        let mut picked = Vec::new();
        for wanted in self.list(at, path, list).unwrap_or_default() {
            let own = defined.iter().find(|(name, _)| *name == wanted.value);
            let found = match own {
                Some((_, value)) => value.clone().map_or(Found::Refused, Found::Taken),
                None => look_up(self, wanted),
            };
            match found {
                Found::Refused => {}
                Found::Taken(value) => picked.push(value),
                Found::Nowhere => {
                    let message = self.undefined(path, &wanted.value, defined);
                    self.error(wanted.referenced, message);
                }
            }
        }
        picked
    }

    fn undefined<T>(&self, path: &str, wanted: &str, defined: &[(String, T)]) -> String {
        let shipped = self.library.names(path);
        let mut names: Vec<&str> = defined.iter().map(|(name, _)| name.as_str()).collect();
        // Those in a file that the profile has under the same name are not taken.
        let others =
            shipped.iter().filter(|shipped| !defined.iter().any(|(own, _)| own == *shipped));
        names.extend(others.map(String::as_str));
        let have = scalar::have(wanted, &names);
        format!("{path}: {} is not defined ({have})", quoted(wanted))
    }

    fn disk_file(&mut self, wanted: &Text) -> Found<Disk> {
        let found = self.look_up(Family::Disks, wanted, |reader, path, text| {
            let shape = reader.parsed::<Entries<Text>>(text)?;
            let [schema, name] = HEAD.map(|key| entry(&shape.value, key));
            reader.head(wanted, shape.referenced, schema, name);
            reader.disk(&wanted.value, path, &shape, &HEAD)
        });
        match found {
            Found::Nowhere if wanted.value == Disk::HOST => Found::Taken(Disk::host()),
            found => found,
        }
    }

    fn sysctl_file(&mut self, wanted: &Text) -> Found<Sysctls> {
        if wanted.value == Sysctls::AS_FOUND {
            return Found::Taken(Sysctls::as_found());
        }
        self.look_up(Family::Sysctls, wanted, |reader, path, text| {
            let shape = reader.parsed::<Entries<Text>>(text)?;
            let [schema, name] = HEAD.map(|key| entry(&shape.value, key));
            reader.head(wanted, shape.referenced, schema, name);
            reader.sysctl(&wanted.value, path, &shape, &HEAD)
        })
    }

    fn workload_file(&mut self, wanted: &Text, segment_bytes: Option<u64>) -> Found<Workload> {
        self.look_up(Family::Workloads, wanted, |reader, path, text| {
            let file = reader.parsed::<WorkloadFile>(text)?;
            let (at, file) = (file.referenced, file.value);
            reader.head(wanted, at, file.schema.as_ref(), file.name.as_ref());
            reader.workload(&wanted.value, &path, at, &file.into_workload(), segment_bytes)
        })
    }

    /// What `read` makes of the file for `wanted`, its errors placed there.
    fn look_up<T>(
        &mut self,
        family: Family,
        wanted: &Text,
        read: impl FnOnce(&mut Self, String, &str) -> Option<T>,
    ) -> Found<T> {
        // What is no name stands for no file; that it is not defined is said anyhow.
        if scalar::check_name(&wanted.value).is_err() {
            return Found::Nowhere;
        }
        match self.library.find(family, &wanted.value) {
            None => Found::Nowhere,
            Some(Ok((source, text))) => {
                let path = format!("{}.{}", family.folder(), wanted.value);
                let value = self.within(source, |reader| read(reader, path, &text));
                value.map_or(Found::Refused, Found::Taken)
            }
            Some(Err(message)) => {
                self.error(wanted.referenced, message);
                Found::Refused
            }
        }
    }

    fn parsed<T: serde::de::DeserializeOwned>(&mut self, text: &str) -> Option<Spanned<T>> {
        yaml::parse(text).map_err(|error| self.report(error)).ok()
    }

    /// Checks the two keys that each file begins with.
    fn head(&mut self, wanted: &Text, at: Location, schema: Option<&Text>, name: Option<&Text>) {
        self.schema(at, schema);
        if let Some(name) = self.needed(at, "name", name)
            && name.value != wanted.value
        {
            let (found, wanted) = (quoted(&name.value), quoted(&wanted.value));
            let message = format!("name: {found} is not the name of the file, {wanted}");
            self.error(name.referenced, message);
        }
    }
}

/// What there is under a name.
enum Found<T> {
    Nowhere,
    /// It has errors, which were told.
    Refused,
    Taken(T),
}

/// What the matrix names.
struct Cells {
    disks: Vec<Disk>,
    sysctls: Vec<Sysctls>,
    workloads: Vec<Workload>,
    strategies: Vec<Strategy>,
}

fn too_few(blocks: u32) -> String {
    format!(
        "run.blocks: {blocks} gives no 95 % interval for a median (needs {LEAST_FOR_INTERVAL}): \
         the figures are indicative"
    )
}

fn entry<'a>(entries: &'a Entries<Text>, key: &str) -> Option<&'a Text> {
    entries.0.iter().find(|(name, _)| name.value == key).map(|(_, value)| value)
}

/// What each file begins with.
const HEAD: [&str; 2] = ["schema", "name"];

const RUN_KEYS: [&str; 10] = [
    "blocks",
    "seed",
    "warmup_ms",
    "measure_ms",
    "cell_bytes",
    "settle_ms",
    "drain_dirty_below",
    "canary",
    "card",
    "budget_s",
];

/// Between the smallest and the largest of five lies the true median in 94 of 100 cases only.
const LEAST_FOR_INTERVAL: u32 = 6;

/// Of one second each, a block of so many takes nearly three hours.
const MOST_CELLS: usize = 10_000;
