//! The result on a terminal: the disk, a row for each strategy and load, what to know of them.
//!
//! Two forms: one line to a row where there is room, else two, which fit in 80 columns.

use comfy_table::presets::NOTHING;
use comfy_table::{CellAlignment, Table};

use crate::format;
use crate::results::{Cell, Environment, Kind, Level, Manifest, Status};
use crate::summary::{self, Figures, Note, Percentile, Row};
use crate::verdict::{self, Ranges};

/// The table of a run, whole or not, no line of it wider than `width` columns.
///
/// Narrower than 72 columns is taken as 72. There are no colours and no control characters,
/// whatever the results contain.
pub fn text(manifest: &Manifest, env: &Environment, cells: &[Cell], width: usize) -> String {
    let width = width.max(72);
    let rows = summary::rows(cells);
    let mut lines = wrapped(&disk_line(env), "", width);
    lines.extend(wrapped(&run_line(manifest, &rows), "", width));
    lines.push(String::new());
    if cells.is_empty() {
        lines.push("No cell was finished: there is nothing to show.".to_owned());
    } else {
        lines.extend(body(&rows, width));
    }
    lines.push(String::new());
    for (mark, note) in footnotes(manifest, env, cells, &rows) {
        lines.extend(wrapped(&note, mark, width));
    }
    let mut out = String::new();
    for line in lines {
        out.push_str(&format::clipped(line.trim_end(), width));
        out.push('\n');
    }
    out
}

/// The disk, and whether anyone can know what it keeps.
pub(crate) fn disk_line(env: &Environment) -> String {
    let disk = &env.disk;
    if disk.simulated {
        return format!("disk {}, in virtual time: nothing is written anywhere", disk.path);
    }
    let mut facts =
        vec![disk.file_system.clone().unwrap_or_else(|| "file system unknown".to_owned())];
    if disk.in_memory {
        facts.push("in memory".to_owned());
    } else {
        let device = disk.device.clone().unwrap_or_else(|| "device unknown".to_owned());
        let model = disk.model.as_ref().map(|model| format!(" {model}")).unwrap_or_default();
        facts.push(format!("{device}{model}"));
        let cache = disk.write_cache.clone().unwrap_or_else(|| "unknown".to_owned());
        facts.push(format!("write cache: {cache}"));
    }
    let known = match env.virtual_machine {
        Some(true) => "; persistence not verifiable in a VM",
        Some(false) => "",
        None => "; a VM or not: unknown",
    };
    let emulated = if disk.emulated { "EMULATED " } else { "" };
    format!("{emulated}disk {} ({}{known})", disk.path, facts.join(", "))
}

fn run_line(manifest: &Manifest, rows: &[Row]) -> String {
    let whole = format!("{} of {} cells", manifest.cells_done, manifest.cells_planned);
    format!(
        "{}, {}, seed {}, {}",
        verdict::blocks(manifest, rows),
        verdict::outcome(manifest).unwrap_or(whole),
        manifest.seed,
        format::utc(manifest.started_at_ms)
    )
}

/// The table in the widest form that fits; where there are several settings, the rows of each stand
/// under its name, because side by side with the strategy it would be cut off.
fn body(rows: &[Row], width: usize) -> Vec<String> {
    let mut settings: Vec<&str> = Vec::new();
    for row in rows {
        if !settings.contains(&row.setting.as_str()) {
            settings.push(&row.setting);
        }
    }
    let of = |setting: &&str| rows.iter().filter(|row| row.setting == *setting).collect();
    let groups: Vec<Vec<&Row>> = settings.iter().map(of).collect();
    let is_one = groups.len() == 1;
    let named: Vec<(String, &Row)> = groups
        .iter()
        .flatten()
        .map(|row| (if is_one { row.named() } else { row.strategy.clone() }, *row))
        .collect();
    let longest = named.iter().map(|(name, _)| name.chars().count()).max().unwrap_or(0);
    let mut tries = vec![(true, longest, 2), (false, longest, 2)];
    tries.extend((8..longest).rev().map(|name| (false, name, 2)));
    tries.push((false, 8, 1));
    let mut lines = Vec::new();
    let mut each = 1;
    for (on_one_line, name, gap) in tries {
        lines = drawn(&named, Ranges::of(rows).word(), on_one_line, name, gap);
        each = if on_one_line { 1 } else { 2 };
        if lines.iter().all(|line| line.trim_end().chars().count() <= width) {
            break;
        }
    }
    if is_one { lines } else { headed(lines, each, &settings, &groups) }
}

/// Puts each setting before the lines of its rows, of which each has `each`.
fn headed(lines: Vec<String>, each: usize, settings: &[&str], groups: &[Vec<&Row>]) -> Vec<String> {
    // The heads are as high as a row, and a rule is below them.
    let mut lines = lines.into_iter();
    let mut headed: Vec<String> = lines.by_ref().take(each + 1).collect();
    for (setting, group) in settings.iter().zip(groups) {
        let setting = if setting.is_empty() { "as found" } else { *setting };
        let what =
            group.first().and_then(|row| row.not_hardware.word()).map(|what| format!(", {what}"));
        headed.push(format!("[{setting}{}]", what.unwrap_or_default()));
        headed.extend(lines.by_ref().take(each * group.len()));
    }
    headed
}

fn drawn(
    rows: &[(String, &Row)],
    range: &str,
    on_one_line: bool,
    name: usize,
    gap: u16,
) -> Vec<String> {
    let mut table = Table::new();
    let texts = rows.iter().map(|(named, row)| Texts::of(row, format::clipped(named, name)));
    if on_one_line {
        table.set_header(ONE_LINE_HEADS.map(|head| with_range(head, range)));
        table.add_rows(texts.map(Texts::on_one_line));
        ruled(table, 1, gap)
    } else {
        table.set_header(TWO_LINE_HEADS.map(|head| with_range(head, range)));
        table.add_rows(texts.map(Texts::on_two_lines));
        ruled(table, 2, gap)
    }
}

/// A heading, with what ranges these are.
fn with_range(head: &str, range: &str) -> String {
    head.replace("[range]", &format!("[{range}]"))
}

const ONE_LINE_HEADS: [&str; 11] = [
    "strategy",
    "producers",
    "msg/s",
    "[range]",
    "× raw",
    "ack p50",
    "ack p99",
    "ack p99.9",
    "msgs/flush",
    "lost on kill -9",
    "lost on power cut",
];
const TWO_LINE_HEADS: [&str; 8] = [
    "strategy\nproducers",
    "msg/s\n[range]",
    "× raw",
    "ack\np50",
    "ack p99\np99.9",
    "msgs/\nflush",
    "lost on\nkill -9",
    "lost on\npower cut",
];

/// What is written of a row.
struct Texts {
    strategy: String,
    producers: String,
    rate: String,
    range: String,
    ratio: String,
    ack_p50: String,
    ack_p99: String,
    ack_p999: String,
    per_flush: String,
    process: Vec<String>,
    power: Vec<String>,
}

impl Texts {
    fn of(row: &Row, strategy: String) -> Self {
        let doubtful = if row.status == Status::Valid { "" } else { " ?" };
        let mut texts = Self {
            strategy,
            producers: format!("×{}{doubtful}", row.producers),
            rate: "invalid".to_owned(),
            range: format!("[{}]", format::plural(row.invalid_blocks.len(), "block")),
            ratio: NONE.to_owned(),
            ack_p50: NONE.to_owned(),
            ack_p99: NONE.to_owned(),
            ack_p999: NONE.to_owned(),
            per_flush: NONE.to_owned(),
            process: vec![NONE.to_owned()],
            power: vec![NONE.to_owned()],
        };
        if let Some(figures) = &row.figures {
            texts.fill(row, figures);
        }
        texts
    }

    fn fill(&mut self, row: &Row, figures: &Figures) {
        let percentile = |known: Option<Percentile>| {
            known.map_or_else(|| NONE.to_owned(), |percentile| percentile.shown())
        };
        let absorbed = if row.page_cache_absorbed { " !" } else { "" };
        let rate = figures.acked_per_s;
        self.rate = format!("{}{absorbed}", format::count(rate.centre()));
        self.range = format!("[{}]", rate.range(format::count));
        if let Some(ratio) = figures.ratio_to_raw {
            self.ratio = format::ratio(ratio.centre());
        }
        self.ack_p50 = percentile(figures.ack_p50);
        self.ack_p99 = percentile(figures.ack_p99);
        self.ack_p999 = percentile(figures.ack_p999);
        if let Some(messages) = figures.messages_per_flush {
            self.per_flush = format::count(messages);
        }
        self.process = figures.process.shown_in_parts("0");
        self.power = figures.power.shown_in_parts("0 *");
    }

    fn on_one_line(self) -> [String; 11] {
        [
            self.strategy,
            self.producers,
            self.rate,
            self.range,
            self.ratio,
            self.ack_p50,
            self.ack_p99,
            self.ack_p999,
            self.per_flush,
            self.process.join(" / "),
            self.power.join(" / "),
        ]
    }

    fn on_two_lines(self) -> [String; 8] {
        [
            format!("{}\n  {}", self.strategy, self.producers),
            format!("{}\n{}", self.rate, self.range),
            self.ratio,
            self.ack_p50,
            format!("{}\n{}", self.ack_p99, self.ack_p999),
            self.per_flush,
            self.process.join("\n"),
            self.power.join("\n"),
        ]
    }
}

/// What to know of the figures, each with the mark that points to it.
fn footnotes(
    manifest: &Manifest,
    env: &Environment,
    cells: &[Cell],
    rows: &[Row],
) -> Vec<(&'static str, String)> {
    let figures: Vec<Figures> = rows.iter().filter_map(|row| row.figures).collect();
    let kept = figures.iter().any(|figures| !figures.power.ever);
    let latencies = figures.iter().flat_map(|figures| [figures.ack_p50, figures.ack_p99]);
    let rough = latencies.flatten().any(|percentile| percentile.rough);
    let no_ratio = figures.iter().all(|figures| figures.ratio_to_raw.is_none());
    let never = names(rows, |row| row.kind == Kind::None);
    let some = !cells.is_empty();
    let notes = [
        (kept, "*", "if the device honours flush".to_owned()),
        (
            !verdict::absorbed(rows).is_empty(),
            "!",
            "page-cache absorbed: the dirty limit was not reached, not a sustained rate".to_owned(),
        ),
        (rough, "~", "too few values for a firm percentile".to_owned()),
        (some, "", "lost: age of the oldest message at risk and log bytes, p99 of time".to_owned()),
        (
            cells.iter().any(|cell| cell.open_loop.is_some()),
            "",
            "at a rate: latency is from when a message was due to its acknowledgement".to_owned(),
        ),
        (
            cells.iter().any(|cell| cell.open_loop.is_none()),
            "",
            "closed loop: latency is service time, from append to acknowledgement".to_owned(),
        ),
        (some, "", verdict::standing(manifest, rows)),
        (some && no_ratio, "", "no valid raw loop was measured, hence no × raw".to_owned()),
        (
            !never.is_empty(),
            "",
            format!("{never}: never flushed; what it would lose grows as long as the run lasts"),
        ),
    ];
    let emulated = verdict::emulated(env, rows)
        .map(|disk| format!("{disk}: the figures say nothing about real hardware"));
    let simulated = verdict::simulated(env, rows)
        .map(|disk| format!("{disk}, in virtual time: the figures are those of a model"));
    let in_memory =
        verdict::in_memory(env, rows).map(|place| format!("{place}: a power cut takes all"));
    let noise = verdict::noise(manifest, rows);
    let asked = summary::asked_sentence(rows, manifest.slo()).filter(|_| some);
    let disks = [emulated, simulated, in_memory].into_iter().flatten();
    let first = disks.chain(verdict::left_out(manifest)).chain(noise);
    let there = notes.into_iter().filter(|(there, ..)| *there);
    let notes_there = there.map(|(_, mark, note)| (mark, note));
    let mut notes: Vec<_> = first.map(|note| ("", note)).chain(notes_there).collect();
    notes.extend(asked.map(|note| ("", note)));
    notes.extend(doubts(cells).into_iter().map(|note| ("?", note)));
    notes
}

/// The warnings and what made cells invalid; labels are left to the report.
fn doubts(cells: &[Cell]) -> Vec<String> {
    let all = cells.len();
    let text = |note: Note| {
        let found = format::clipped(&note.values.join(", "), 60);
        let Note { code, rule, cells, .. } = note;
        let outcome = if note.level == Level::Invalid { "invalid, left out" } else { "warning" };
        format!("{code}: {outcome}, {cells} of {all} cells: {found} ({rule})")
    };
    let grave = summary::notes(cells).into_iter().filter(|note| note.level >= Level::Warn);
    grave.map(text).collect()
}

fn names(rows: &[Row], which: fn(&Row) -> bool) -> String {
    let mut names: Vec<&str> = Vec::new();
    for row in rows.iter().filter(|row| which(row)) {
        if !names.contains(&row.strategy.as_str()) {
            names.push(&row.strategy);
        }
    }
    names.join(", ")
}

/// A table's lines, with a rule as wide as the widest below its headings; the first column stands
/// to the left, the others to the right.
pub(crate) fn ruled(mut table: Table, headings: usize, gap: u16) -> Vec<String> {
    table.load_style(NOTHING);
    for (index, column) in table.column_iter_mut().enumerate() {
        column.set_padding((0, gap));
        if index > 0 {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    let mut lines: Vec<String> = table.lines().collect();
    let widest = lines.iter().map(|line| line.trim_end().chars().count()).max().unwrap_or(0);
    lines.insert(headings, "-".repeat(widest));
    lines
}

/// `text` in lines of at most `width`, with `mark` before the first and room for it elsewhere.
pub(crate) fn wrapped(text: &str, mark: &str, width: usize) -> Vec<String> {
    let text = format::clipped(text, usize::MAX);
    let (first, indent) = if mark.is_empty() { ("", "") } else { (mark, "  ") };
    let mut lines = Vec::new();
    let mut line = format!("{first:<wide$}", wide = indent.len());
    let mut bare = true;
    for word in text.split(' ') {
        let longer = line.chars().count() + usize::from(!bare) + word.chars().count();
        if !bare && longer > width {
            lines.push(std::mem::replace(&mut line, indent.to_owned()));
            bare = true;
        }
        if !bare {
            line.push(' ');
        }
        line.push_str(word);
        bare = false;
    }
    lines.push(line);
    lines
}

/// Stands where there is no figure.
const NONE: &str = "–";

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results::{BlockNoise, OpenLoop, Outcome, Quantiles};
    use crate::results_fixture::{
        HOSTILE, assert_fits, cell, check, environment, example, example_of, extreme, manifest,
        open_loop, troubled,
    };

    /// The text, of which no line is wider than asked or moves the cursor.
    #[track_caller]
    fn shown(cells: &[Cell], width: usize) -> String {
        let text = text(&manifest(), &environment(), cells, width);
        assert_fits(&text, width);
        text
    }

    #[test]
    fn every_line_fits_in_the_width() {
        for width in [72, 80, 100, 120, 200] {
            for cells in [example(), troubled(), extreme(), Vec::new()] {
                shown(&cells, width);
            }
        }
    }

    #[test]
    fn figures_are_whole_at_80_columns() {
        let text = shown(&example(), 80);
        for part in [
            "sync              148k",
            "  ×64      [136k–160k]",
            "567 ms\n",
            "208 MiB\n",
            "persistence not",
            "verifiable in a VM",
            "* if the device honours flush",
            "! page-cache absorbed: the dirty limit was not reached, not a sustained rate",
            "closed loop: latency is service time",
            "3 blocks (indicative)",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert!(!text.contains('…'), "{text}");
    }

    #[test]
    fn enough_blocks_show_intervals_and_say_so() {
        let text = shown(&example_of(7), 80);
        assert!(text.contains("[95 %]") && !text.contains("min–max"), "{text}");
        assert!(text.contains("ranges are 95 % intervals, by t of the logarithms"), "{text}");
        assert!(!text.contains("confidence"), "{text}");
        // Of sync ×64, 147.8k by 1.08, 1, 0.92, 1.04, 0.96, 1.08 and 1: logarithms have the mean
        // 0.00985 and the deviation 0.0600, so half the interval is 2.447 · 0.0600 / √7 = 0.0555.
        assert!(text.contains("149k") && text.contains("[141k–158k]"), "{text}");
    }

    #[test]
    fn a_row_takes_one_line_where_there_is_room() {
        let line = "staged          ×64  436k !  [401k–471k]     44   186 µs   557 µs    ~1.7 ms";
        let text = shown(&example(), 130);
        assert!(text.contains(line), "{text}");
    }

    #[test]
    fn each_of_several_settings_stands_whole_above_its_rows() {
        let on = |disk: &str| {
            let disk = disk.to_owned();
            let edit = move |c: &mut Cell| {
                c.disk.clone_from(&disk);
                c.emulated = disk.starts_with("another");
            };
            [Kind::Raw, Kind::GroupCommit].map(|kind| cell(kind, 1, 0, &edit))
        };
        let cells = [on("a-disk-with-quite-a-long-name"), on("another-disk-of-that-sort")].concat();
        for (width, each) in [(80, 2), (200, 1)] {
            let text = shown(&cells, width);
            let lines: Vec<&str> = text.lines().collect();
            let at = |head: &str| lines.iter().position(|line| *line == head).unwrap();
            let first = at("[a-disk-with-quite-a-long-name]");
            let second = at("[another-disk-of-that-sort, EMULATED]");
            assert_eq!(second - first, 2 * each + 1, "{text}");
            for rows in [&lines[first + 1..second], &lines[second + 1..]] {
                assert!(rows[0].starts_with("raw  ") && rows[each].starts_with("sync  "), "{text}");
            }
        }
    }

    #[test]
    fn a_message_that_comes_when_it_is_due_is_late_from_then_on() {
        let lags = |c: &mut Cell| {
            let due_to_ack_ns = Quantiles { p50: 700_000_000, ..c.append_to_ack_ns };
            c.open_loop = Some(OpenLoop { due_to_ack_ns, ..open_loop() });
        };
        let text = shown(&[cell(Kind::GroupCommit, 4, 0, lags)], 80);
        assert!(text.contains("700 ms") && text.contains("from when a message was due"), "{text}");
        assert!(!text.contains("closed loop"), "{text}");
    }

    #[test]
    fn invalid_rows_show_no_figures() {
        let text = shown(&troubled(), 140);
        assert!(text.contains("×8 ?  invalid   [3 blocks]      –"), "{text}");
        assert!(text.contains("? errors: invalid, left out, 4 of 39 cells: 3 (no append failed)"));
        assert!(text.contains("? steal: warning, 3 of 39 cells: 4.1 % (steal at most 2 %)"));
    }

    #[test]
    fn an_emulated_disk_is_said_loudly() {
        let mut env = environment();
        env.disk.emulated = true;
        let text = text(&manifest(), &env, &example(), 80);
        assert!(text.starts_with("EMULATED disk"), "{text}");
        assert!(text.contains("\nEMULATED disk: the figures say nothing about real hardware\n"));
    }

    #[test]
    fn in_memory_is_said_of_what_is() {
        let on = |disk: &str| {
            cell(Kind::GroupCommit, 1, 0, |c| {
                disk.clone_into(&mut c.disk);
                if disk == "tmpfs" {
                    c.validity.push(check("in_memory", Level::Label, "tmpfs", "on a disk"));
                }
            })
        };
        let text = shown(&[on("host"), on("tmpfs")], 80);
        assert!(
            text.contains("\nthe file system of tmpfs lives in memory: a power cut takes all\n")
        );
        assert!(text.contains("\n[tmpfs, in memory]\n") && text.contains("\n[host]\n"), "{text}");
        assert!(!shown(&[on("host")], 80).contains("in memory"));
    }

    #[test]
    fn what_was_left_out_and_noise_stand_below_the_table() {
        let mut mine = manifest();
        mine.trimmed = vec!["3 of 7 blocks".to_owned()];
        mine.noise = vec![BlockNoise { block: 1, spread_pct: 44.0, flagged: true }];
        let text = text(&mine, &environment(), &example(), 80);
        assert!(text.contains("\nLeft out to keep within 110 s: 3 of 7 blocks.\n"), "{text}");
        assert!(text.contains("\nnoisy: in 1 of 1 block (counted from 0: 1) canaries"), "{text}");
    }

    #[test]
    fn without_a_raw_row_there_is_no_ratio_but_a_note() {
        let text = shown(&[cell(Kind::GroupCommit, 8, 0, |_| {})], 80);
        assert!(text.contains("no valid raw loop was measured"), "{text}");
        assert!(text.contains("[one block]"), "{text}");
    }

    #[test]
    fn a_run_without_cells_says_so() {
        let mut manifest = manifest();
        (manifest.outcome, manifest.cells_done) = (Outcome::Interrupted, 0);
        let text = text(&manifest, &environment(), &[], 80);
        assert!(text.contains("interrupted after 0 of 39 cells"), "{text}");
        assert!(text.contains("No cell was finished"), "{text}");
    }

    #[test]
    fn what_results_contain_does_not_reach_the_terminal_as_it_is() {
        let mut env = environment();
        env.disk.path = HOSTILE.repeat(9);
        let cells = [cell(Kind::GroupCommit, 8, 0, |c| {
            c.strategy = HOSTILE.to_owned();
        })];
        let text = text(&manifest(), &env, &cells, 80);
        assert!(!text.chars().any(|c| c.is_control() && c != '\n'), "{text:?}");
        assert!(text.lines().all(|line| line.chars().count() <= 80), "{text}");
    }
}
