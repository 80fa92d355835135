//! Says on stderr what a run will do and how far it is: a bar on a terminal, with what is measured
//! just now under it, else plain lines or, for a scan, nothing.

mod live;

use std::io::IsTerminal;
use std::sync::Arc;
use std::time::Duration;

use harness::clock::float;
use harness::format;
use harness::live::Live;
use harness::powercut;
use harness::powercut::results::{Case, Cut, PlaceKind};
use harness::results::{Cell, LeftOut, MeasuredDisk, Status};
use harness::run::{Plan, Watch};
use harness::summary::Extent;
use harness::sysctl::Leftover;
use indicatif::{ProgressBar, ProgressState, ProgressStyle};
use store_os::ScanProgress;

/// The run as it goes.
#[derive(Debug, Default)]
pub(crate) struct Progress {
    bar: Option<ProgressBar>,
    live: Arc<Live>,
}

impl Progress {
    /// Of the run that shows itself there.
    pub(crate) fn of(live: Arc<Live>) -> Self {
        Self { bar: None, live }
    }
}

/// A bar with the lines of [`live`] below it.
fn style(live: &Arc<Live>) -> ProgressStyle {
    let template = "{bar:30} {pos}/{len} cells  {eta} left\n{live0}\n{live1}\n{live2}\n{live3}";
    let style = ProgressStyle::with_template(template).expect("the template is well formed");
    ["live0", "live1", "live2", "live3"].into_iter().enumerate().fold(style, |style, (at, key)| {
        let live = Arc::clone(live);
        style.with_key(key, move |_: &ProgressState, out: &mut dyn std::fmt::Write| {
            // A line that cannot be drawn is drawn again soon.
            let _ = out.write_str(&live::lines(&live.moment(), COLUMNS)[at]);
        })
    })
}

/// What a run will do, in lines that fit a terminal.
pub(crate) fn planned(plan: &Plan) -> String {
    let mut lines = Vec::new();
    if let Leftover::Restored { pid, restored } = &plan.leftover
        && !restored.changes.is_empty()
    {
        let changes: Vec<String> = restored.changes.iter().map(ToString::to_string).collect();
        lines.push(format!("put back what process {pid} had changed: {}", changes.join(", ")));
    }
    if let Leftover::Failed { pid, restored, .. } = &plan.leftover {
        lines.push(format!(
            "what process {pid} had changed could not be put back ({}): run `cargo xtask restore` \
             as root",
            restored.failures().join(", ")
        ));
    }
    lines.push(format!(
        "measuring {}: {} cells in {}",
        measured(plan),
        plan.cells,
        format::plural(usize::try_from(plan.blocks).unwrap_or(usize::MAX), "block"),
    ));
    let writes = if plan.total_bytes == 0 {
        "writes nothing but its results".to_owned()
    } else {
        format!(
            "writes at most {} in all, mostly far less, and at most {} at one time, which it \
             removes again",
            format::bytes(float(plan.total_bytes)),
            format::bytes(float(plan.most_bytes)),
        )
    };
    lines.push(format!("takes about {}; {writes}", minutes(plan.estimated)));
    if plan.card {
        lines.push("before the first cell a card of the disk is made (chart C11)".to_owned());
    }
    let is_one = plan.disks.len() == 1;
    for disk in &plan.disks {
        let sync = format::duration(float(disk.sync_p50_ns));
        lines.push(match (is_one, &disk.calibration) {
            (true, None) if !disk.info.simulated => {
                format!("a 4 KiB write with fdatasync takes {sync} here (p50 of a short look)")
            }
            (_, None) => format!("disk {}: a sync takes {sync}{}", disk.name, labels(disk)),
            (_, Some(found)) => format!("disk {}: {found}{}", disk.name, labels(disk)),
        });
    }
    if !plan.sysctls.is_empty() {
        lines.push(format!("kernel settings to be applied: {}", plan.sysctls.join(", ")));
        lines.extend(plan.refused.iter().map(|reason| {
            format!("they cannot be applied here, {reason}: their cells will be marked invalid")
        }));
    }
    lines.extend(plan.trimmed.iter().map(|out| format!("trimmed for the time allowed: {out}")));
    for LeftOut { what, why, how } in &plan.left_out {
        lines.push(format!("left out: {what}: {why}; {how}"));
    }
    if plan.cells_done > 0 {
        lines.push(format!("going on: {} cells are there already", plan.cells_done));
    }
    if let Some(path) = &plan.path {
        lines.push(format!("results in {}", path.display()));
    }
    lines.iter().flat_map(|line| wrapped(line)).map(|line| line + "\n").collect()
}

/// What is measured, in words.
fn measured(plan: &Plan) -> String {
    if plan.disks.len() > 1 {
        return format::plural(plan.disks.len(), "disk");
    }
    let disk = &plan.environment.disk;
    if disk.simulated {
        return format!("disk {}, in virtual time", disk.path);
    }
    format!(
        "{} ({}{})",
        disk.path,
        disk.file_system.as_deref().unwrap_or("unknown file system"),
        disk.device.as_ref().map(|device| format!(" on {device}")).unwrap_or_default(),
    )
}

/// In lines of at most 80 columns, but for a longer word: a path is to be copied whole.
fn wrapped(text: &str) -> Vec<String> {
    let mut lines = Vec::new();
    let mut line = String::new();
    for word in text.split(' ') {
        let is_full = line.chars().count() + 1 + word.chars().count() > COLUMNS;
        if is_full && !line.trim().is_empty() {
            // With the blank before the word, two.
            lines.push(std::mem::replace(&mut line, " ".to_owned()));
        }
        if !line.is_empty() {
            line.push(' ');
        }
        line.push_str(word);
    }
    lines.push(line);
    lines
}

fn labels(disk: &MeasuredDisk) -> String {
    if disk.labels.is_empty() { String::new() } else { format!(" ({})", disk.labels.join(", ")) }
}

impl Watch for Progress {
    fn planned(&mut self, plan: &Plan) {
        for line in planned(plan).lines() {
            say!("{line}");
        }
        if std::io::stderr().is_terminal() {
            let bar = ProgressBar::new(u64::from(plan.cells));
            bar.set_style(style(&self.live));
            bar.set_position(u64::from(plan.cells_done));
            // The time left is that of what is measured now.
            bar.reset_eta();
            bar.enable_steady_tick(Duration::from_millis(250));
            self.bar = Some(bar);
        }
    }

    fn started(&mut self, _block: u32, _cell: &str) {}

    fn finished(&mut self, cell: &Cell, done: u32, planned: u32) {
        match &self.bar {
            Some(bar) => {
                bar.set_position(u64::from(done));
                if done == planned {
                    bar.finish_and_clear();
                }
            }
            None => say!(
                "{done}/{planned} block {} {}: {} msg/s, ack p99 {}{}{}{}",
                cell.block + 1,
                cell.cell,
                format::count(cell.acked_per_s),
                format::duration(float(cell.ack_ns().p99)),
                // While a producer waits it sends nothing, and a stall is one late message.
                if cell.open_loop.is_some() { "" } else { " (service time)" },
                at_risk(cell),
                doubt(cell.status)
            ),
        }
    }
}

/// What a power cut would take, and the most that was dirty.
fn at_risk(cell: &Cell) -> String {
    let (age, bytes) = (cell.exposure.power.age_ns.p99, cell.exposure.power.bytes.p99);
    let bytes_in_words = |bytes| format::bytes(float(bytes));
    let takes = match cell.power_extent() {
        Extent::Everything => "everything".to_owned(),
        _ if bytes == 0 => "nothing if the device honours flush".to_owned(),
        extent => {
            let bound = if extent == Extent::AtLeast { "≥" } else { "" };
            format!("{bound}{} ({})", format::duration(float(age)), bytes_in_words(bytes))
        }
    };
    let dirty = cell.dirty.max_bytes.map(bytes_in_words);
    let dirty = dirty.map(|most| format!(", dirty at most {most}")).unwrap_or_default();
    format!(", a power cut takes {takes}{dirty}")
}

fn doubt(status: Status) -> &'static str {
    match status {
        Status::Invalid => " (invalid)",
        Status::Overload => " (overload)",
        Status::Valid | Status::Warn => "",
    }
}

impl Drop for Progress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// Power cuts as they are made.
#[derive(Debug, Default)]
pub(crate) struct CutProgress {
    bar: Option<ProgressBar>,
    case: String,
    planned: u64,
}

impl powercut::Watch for CutProgress {
    fn planned(&mut self, plan: &powercut::Plan) {
        say!("{}", plan.place_in_words());
        let takes = match plan.place.kind {
            PlaceKind::Emulated => format!("; takes more than {}", minutes(plan.least)),
            PlaceKind::Simulated => String::new(),
        };
        say!(
            "{} for each of {}{takes}",
            format::plural(usize::try_from(plan.cuts).unwrap_or(usize::MAX), "cut"),
            format::plural(usize::try_from(plan.cases).unwrap_or(usize::MAX), "case"),
        );
        say!("results in {}", plan.path.display());
        self.planned = u64::from(plan.cuts) * u64::from(plan.cases);
        if std::io::stderr().is_terminal() {
            let style =
                ProgressStyle::with_template("{bar:30} {pos}/{len}  {eta} left  {wide_msg}");
            let bar = ProgressBar::new(self.planned);
            bar.set_style(style.expect("the template is well formed"));
            bar.enable_steady_tick(Duration::from_millis(250));
            self.bar = Some(bar);
        }
    }

    fn started(&mut self, case: &str, _done: u32) {
        case.clone_into(&mut self.case);
        if let Some(bar) = &self.bar {
            bar.set_message(self.case.clone());
        }
    }

    fn cut(&mut self, cut: &Cut, done: u32) {
        for violation in cut.states.iter().flat_map(|state| &state.violations) {
            self.tell(&format!("{}: {violation}", self.case));
        }
        if let Some(bar) = &self.bar {
            bar.set_position(u64::from(done));
        }
    }

    fn finished(&mut self, case: &Case) {
        if self.bar.is_none() {
            say!("{}", powercut::case_in_words(case));
        }
    }
}

impl CutProgress {
    fn tell(&self, line: &str) {
        let line = format::clipped(line, 200);
        match &self.bar {
            Some(bar) => bar.suspend(|| say!("{line}")),
            None => say!("{line}"),
        }
    }
}

impl Drop for CutProgress {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// A scan of a store as it goes: a bar on a terminal, else nothing.
#[derive(Debug)]
pub(crate) struct ScanBar {
    bar: Option<ProgressBar>,
}

impl ScanBar {
    pub(crate) fn new() -> Self {
        let bar = std::io::stderr().is_terminal().then(|| {
            let style = ProgressStyle::with_template("{bar:30} {percent}%  {eta} left  {wide_msg}");
            ProgressBar::new(0).with_style(style.expect("the template is well formed"))
        });
        Self { bar }
    }

    /// Shows how far the scan is. May be called from any thread.
    pub(crate) fn show(&self, seen: &ScanProgress) {
        if let Some(bar) = &self.bar {
            bar.set_length(seen.total_bytes);
            bar.set_message(format!(
                "{} of {}, {} records",
                format::bytes(float(seen.scanned_bytes)),
                format::bytes(float(seen.total_bytes)),
                format::count(float(seen.records)),
            ));
            // Last, because it draws.
            bar.set_position(seen.scanned_bytes);
        }
    }
}

impl Drop for ScanBar {
    fn drop(&mut self) {
        if let Some(bar) = &self.bar {
            bar.finish_and_clear();
        }
    }
}

/// What a line may have.
const COLUMNS: usize = 80;

fn minutes(time: Duration) -> String {
    let seconds = time.as_secs();
    match (seconds / 60, seconds % 60) {
        (0, seconds) => format!("{seconds} s"),
        (minutes, seconds) => format!("{minutes} min {seconds} s"),
    }
}

#[cfg(test)]
mod tests {
    use harness::results::{Check, Kind, Level};

    use super::*;

    /// A cell whose power cut takes so many bytes, 2 s old, with a check that did not pass.
    fn cell(kind: Kind, bytes: u64, code: &str) -> Cell {
        let text = include_str!("../tests/results/cell.json");
        let mut cell: Cell = serde_json::from_str(text).unwrap();
        cell.kind = kind;
        (cell.exposure.power.bytes.p99, cell.exposure.power.age_ns.p99) = (bytes, 2_000_000_000);
        cell.dirty.max_bytes = Some(2048);
        let text = || "two".to_owned();
        let (code, level) = (code.to_owned(), Level::Warn);
        cell.validity = vec![Check { code, level, value: text(), rule: text() }];
        cell
    }

    #[test]
    fn a_finished_cell_says_what_its_loss_rests_on() {
        let told = |kind, bytes, code| at_risk(&cell(kind, bytes, code));
        let nothing =
            ", a power cut takes nothing if the device honours flush, dirty at most 2.0 KiB";
        assert_eq!(told(Kind::GroupCommit, 0, "steal"), nothing);
        let takes = |of: &str| format!(", a power cut takes {of}, dirty at most 2.0 KiB");
        assert_eq!(told(Kind::FlushRealtime, 4096, "steal"), takes("2.0 s (4.0 KiB)"));
        assert_eq!(told(Kind::FlushRealtime, 4096, "syncs_seen"), takes("≥2.0 s (4.0 KiB)"));
        assert_eq!(told(Kind::None, 4096, "steal"), takes("≥2.0 s (4.0 KiB)"));
        assert_eq!(told(Kind::FlushRealtime, 4096, "in_memory"), takes("everything"));
        assert_eq!(told(Kind::GroupCommit, 0, "in_memory"), takes("everything"));
    }
}
