//! An answer about capacity on a terminal.

use super::{Ask, Basis, Capacity, Choice, MOST_ERROR_PCT, Model, Standing, WIDEST_GAP};
use crate::format;
use crate::statistics::FIRM_BLOCKS;
use crate::summary::LossModel;
use crate::table::wrapped;

/// The answer, no line of it wider than `width` columns; without colours and control characters,
/// whatever the results contain.
pub fn text(found: &Capacity, ask: &Ask, width: usize) -> String {
    let mut lines = wrapped(&asked(ask), "", width);
    let run = format!("run {}; each row by its worst block", found.run);
    lines.extend(wrapped(&run, "", width));
    for disk in found.disks() {
        lines.push(String::new());
        lines.extend(of_disk(found, disk, ask, width));
        lines.extend(found.chosen(disk).map(pasted).unwrap_or_default());
    }
    lines.push(String::new());
    let model = format!(
        "The model: a sync takes a fixed time and some for each byte; its bytes are those of an \
         interval; at risk is an interval and two syncs, and what was staged before. Each row is \
         predicted from the others; the model is used up to the largest load to which what a \
         crash takes is off by at most {MOST_ERROR_PCT:.0} %, and loads are no more than \
         {WIDEST_GAP:.0} times apart; of other intervals only if syncs are within that too, and of \
         larger loads only if no row contradicts it. \
         Rows in overload, or with a lower bound for a loss, are left out."
    );
    lines.extend(wrapped(&model, "", width));
    for model in &found.models {
        lines.extend(wrapped(&fit(model), "- ", width));
        for told in held_out(model) {
            lines.extend(wrapped(&told, "  ", width));
        }
    }
    let clipped = lines.iter().map(|line| format::clipped(line.trim_end(), width) + "\n");
    clipped.collect()
}

fn asked(ask: &Ask) -> String {
    let (crash, honours) = match ask.model {
        LossModel::Power => ("a power cut", ", if the device honours flush"),
        LossModel::Process => ("kill -9", ""),
    };
    let loss = match ask.loss_ns {
        none if none <= 0.0 => format!("nothing lost in {crash}{honours}"),
        loss => {
            format!("at most {} lost in {crash} (p99 of time){honours}", format::duration(loss))
        }
    };
    let p99 = ask
        .ack_p99_ns
        .map_or_else(String::new, |p99| format!(", ack p99 within {}", format::duration(p99)));
    let bytes = format::bytes(crate::clock::float(ask.message_bytes));
    format!("Asked: {} msg/s of {bytes}, {loss}{p99}", format::count(ask.rate_per_s))
}

fn of_disk(found: &Capacity, disk: &str, ask: &Ask, width: usize) -> Vec<String> {
    let not_hardware = found.of_disk(disk).find_map(|choice| choice.not_hardware.clone());
    let mark = not_hardware
        .map_or_else(String::new, |word| format!(" ({word}: says nothing about real hardware)"));
    let mut lines = wrapped(&format!("disk {disk}{mark}"), "", width);
    match found.chosen(disk) {
        Some(choice) => {
            lines.extend(wrapped(&taken(choice, ask), "→ ", width));
            let cheaper = match found.next_cheaper(choice) {
                Some(next) => format!("Next cheaper: {}", cheaper(next, ask)),
                None => "Nothing cheaper was measured under these settings.".to_owned(),
            };
            lines.extend(wrapped(&cheaper, "  ", width));
        }
        None => lines.extend(wrapped(&none_keeps(found, disk, ask), "→ ", width)),
    }
    lines.push(String::new());
    for choice in found.of_disk(disk) {
        lines.extend(wrapped(&line(choice), "  ", width));
    }
    lines
}

/// How a broker is set to it, if that is known: lines to be taken as they are.
fn pasted(choice: &Choice) -> Vec<String> {
    let Some(conf) = &choice.broker_conf else { return Vec::new() };
    let heading = format!("broker.conf for {}, to be pasted as it is:", named(choice));
    let lines = conf.lines().map(str::to_owned);
    [String::new(), heading, String::new()].into_iter().chain(lines).collect()
}

fn named(choice: &Choice) -> String {
    let interval = choice
        .interval_ns
        .map_or_else(String::new, |interval| format!(", interval {}", format::duration(interval)));
    format!("{} ({}{interval})", choice.strategy, choice.sysctl)
}

/// What to take, how sure that is, and what room it leaves.
fn taken(choice: &Choice, ask: &Ask) -> String {
    let mut parts = vec![format!("{}: {}", named(choice), basis(choice.basis))];
    if let Some(most) = choice.keeps_up_to_per_s.filter(|most| *most >= ask.rate_per_s) {
        let room = headroom(most / ask.rate_per_s);
        let absorbed = if choice.page_cache_absorbed {
            ", page-cache absorbed in the run: perhaps not sustained"
        } else {
            ""
        };
        parts.push(format!("up to {} msg/s, headroom {room}{absorbed}", format::count(most)));
    }
    if let Some((p99, asked)) = choice.ack_p99_ns.zip(ask.ack_p99_ns) {
        let is_closed = choice.open_loop == Some(false);
        let service = if is_closed { " (closed loop: service time)" } else { "" };
        let (p99, asked) = (format::duration(p99), format::duration(asked));
        parts.push(format!("ack p99 {p99} of {asked}{service}"));
    }
    if let Some(loss) = choice.loss_ns {
        parts.push(format!(
            "loses {} of {}",
            format::duration(loss),
            format::duration(ask.loss_ns)
        ));
    }
    if let Some((producers, blocks)) = choice.producers.zip(choice.blocks) {
        let all = format::plural(usize::try_from(producers).unwrap_or(usize::MAX), "producer");
        let fewest = choice.fewest_producers.filter(|fewest| *fewest < producers);
        let fewest = fewest.map_or_else(String::new, |fewest| {
            format!(", {fewest} being the fewest measured that carry it")
        });
        let indicative = if blocks < FIRM_BLOCKS { " (indicative)" } else { "" };
        let blocks = format::plural(blocks, "block");
        parts.push(format!("measured with {all}{fewest}, in {blocks}{indicative}; one disk"));
    }
    if let Some(syncs) = choice.syncs_per_s {
        parts.push(format!("{} syncs/s", format::count(syncs)));
    }
    parts.join("; ")
}

/// By what a rate exceeds what is asked.
fn headroom(ratio: f64) -> String {
    if ratio < 10.0 {
        format!("{:.0} %", 100.0 * (ratio - 1.0))
    } else {
        format!("{} times the load", format::count(ratio))
    }
}

/// What a cheaper choice would lose, or why it is none where that is not the reason.
fn cheaper(choice: &Choice, ask: &Ask) -> String {
    let keeps_the_loss = choice.loss_ns.is_some_and(|loss| loss <= ask.loss_ns);
    if choice.standing == Standing::Keeps || !keeps_the_loss {
        return lost(choice);
    }
    let standing = standing(choice);
    format!("{} {standing}: {}.", named(choice), choice.why)
}

fn lost(choice: &Choice) -> String {
    let loss = choice.loss_ns.map_or_else(|| "an unknown age".to_owned(), format::duration);
    let bytes = choice
        .loss_bytes
        .map_or_else(String::new, |bytes| format!(", about {}", format::bytes(bytes)));
    let bound = match (choice.standing, choice.basis) {
        // The row that tells had a higher load, or the settings bound it;
        (Standing::Unknown, _) | (Standing::Breaks, Basis::Bounded) => "at most ",
        // or a lower one.
        (Standing::Breaks, _) => "at least ",
        (Standing::Keeps, _) => "",
    };
    let syncs = choice
        .syncs_per_s
        .map_or_else(String::new, |syncs| format!(", with {} syncs/s", format::count(syncs)));
    format!("{} would lose {bound}{loss}{bytes}{syncs}.", named(choice))
}

/// What several disks would do.
fn none_keeps(found: &Capacity, disk: &str, ask: &Ask) -> String {
    let several = found
        .of_disk(disk)
        .filter_map(|choice| Some((choice.disks_needed(ask)?, choice)))
        .filter(|(disks, _)| *disks > 1.0)
        .min_by(|a, b| a.0.total_cmp(&b.0));
    match several {
        Some((disks, choice)) => format!(
            "No strategy is known to keep this on one such disk. {} keeps it up to {} msg/s: \
             {disks:.0} disks, each with a log of its own, carry it if processors do.",
            named(choice),
            format::count(choice.keeps_up_to_per_s.unwrap_or_default())
        ),
        None => "No strategy is known to keep this here, on however many such disks.".to_owned(),
    }
}

fn standing(choice: &Choice) -> &'static str {
    match choice.standing {
        Standing::Keeps => "keeps it",
        Standing::Unknown => "unknown",
        Standing::Breaks => "breaks it",
    }
}

fn line(choice: &Choice) -> String {
    let standing = standing(choice);
    let how = match choice.basis {
        Basis::Unknown => String::new(),
        basis => format!(", {}", self::basis(basis)),
    };
    format!("{}: {standing}{how}: {}", named(choice), choice.why)
}

fn basis(basis: Basis) -> &'static str {
    match basis {
        Basis::Bounded => "bounded by its settings, not measured",
        Basis::Measured => "measured",
        Basis::Modelled => "modelled",
        Basis::Extrapolated => "EXTRAPOLATED, measure it before relying on it",
        Basis::Unknown => "unknown",
    }
}

/// What the others predict of each row, beside what was measured, for each thing predicted.
fn held_out(model: &Model) -> Vec<String> {
    let mut told: Vec<(&str, Vec<String>)> = Vec::new();
    for one in &model.held_out {
        let (predicted, measured) = (one.predicted_ns, one.measured_ns);
        // Nothing that is predicted as nothing needs no telling.
        if predicted <= 0.0 && measured <= 0.0 {
            continue;
        }
        let row = one.row.strip_prefix(&model.strategy).unwrap_or(&one.row).trim_start();
        let predicted = if predicted.is_finite() {
            format::duration(predicted)
        } else {
            "more than it can".to_owned()
        };
        let beyond = if one.is_beyond { " (beyond)" } else { "" };
        let pair = format!("{row}{beyond} {predicted}/{}", format::duration(measured));
        match told.iter_mut().find(|(what, _)| *what == one.what) {
            Some((_, pairs)) => pairs.push(pair),
            None => told.push((&one.what, vec![pair])),
        }
    }
    let line = |(what, pairs): (&str, Vec<String>)| {
        format!("{what}, predicted/measured: {}", pairs.join("; "))
    };
    told.into_iter().map(line).collect()
}

fn fit(model: &Model) -> String {
    let Model { disk, sysctl, strategy, .. } = model;
    let name = format!("{strategy} ({disk}, {sysctl})");
    let line = match model.fixed_ns.zip(model.ns_per_byte) {
        None => "nothing to fit".to_owned(),
        Some((fixed, per_byte)) => {
            let bandwidth = if per_byte > 0.0 {
                format!("{}/s", format::bytes(1e9 / per_byte))
            } else {
                "no limit seen".to_owned()
            };
            format!("{} + bytes by {bandwidth}", format::duration(fixed))
        }
    };
    let worst = model.worst_pct().map_or_else(String::new, |worst| {
        let shown = if worst.is_finite() {
            format!("{worst:.0} %")
        } else {
            "beyond any number".to_owned()
        };
        let count = model.held_out.iter().filter(|one| !one.is_beyond).count();
        format!("; worst error of {} {shown}", format::plural(count, "prediction"))
    });
    let limits = model.limits().map(|limits| format!(", but not {limits}"));
    let limits = limits.unwrap_or_default();
    let used = match (&model.not_used, &model.not_used_of_kill) {
        (None, None) => format!("used{limits}"),
        (None, Some(reason)) => {
            format!("used of a power cut{limits}; of kill -9 NOT USED: {reason}")
        }
        (Some(reason), Some(other)) if reason != other => {
            format!("NOT USED: {reason}; of kill -9: {other}")
        }
        (Some(reason), _) => format!("NOT USED: {reason}"),
    };
    format!("{name}: {line}{worst}; {used}")
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::capacity::tests::{ASK, recorded};
    use crate::capacity::{HeldOut, capacity};
    use crate::profile::{BrokerConf, Sweep};
    use crate::recorded::Recorded;
    use crate::results::{Cell, OpenLoop};
    use crate::results_fixture::{HOSTILE, example, example_of, open_loop};

    #[test]
    fn the_answer_fits_and_says_how_it_is_known() {
        let mut cells = example();
        for cell in &mut cells {
            cell.disk = HOSTILE.to_owned();
            cell.fsync_per_ack = if cell.strategy == "sync" { 0.1 } else { 0.000_1 };
        }
        let ask = Ask { rate_per_s: 1_000.0, ack_p99_ns: Some(1e9), ..ASK };
        let told = text(&capacity(&recorded(&cells), &ask).unwrap(), &ask, 80);
        assert!(told.lines().all(|line| line.chars().count() <= 80), "{told}");
        assert!(!told.contains('\u{1b}') && !told.contains('\0'));
        assert!(told.starts_with("Asked: 1.0k msg/s of 1.0 KiB, at most 100 ms lost in a power"));
        for part in ["→ sync (kernel-default): measured", "headroom", "Next cheaper: ", "NOT USED"]
        {
            assert!(told.contains(part), "{part}: {told}");
        }
    }

    #[test]
    fn a_cheaper_choice_says_what_it_would_lose_or_why_it_is_none() {
        let found = capacity(&recorded(&example()), &ASK).unwrap();
        let told = |standing, basis, loss: f64| {
            let why = "its acknowledgements are late".to_owned();
            let of = found.choices[0].clone();
            let loss_ns = Some(loss);
            cheaper(&crate::capacity::Choice { standing, basis, why, loss_ns, ..of }, &ASK)
        };
        let late = told(Standing::Unknown, Basis::Unknown, 0.0);
        assert!(late.contains(" unknown: its acknowledgements are late."), "{late}");
        assert!(!late.contains("would lose"), "{late}");
        let more = told(Standing::Unknown, Basis::Unknown, 2e9);
        assert!(more.contains("would lose at most 2.0 s"), "{more}");
        let broken = told(Standing::Breaks, Basis::Measured, 2e9);
        assert!(broken.contains("would lose at least 2.0 s"), "{broken}");
        let bounded = told(Standing::Breaks, Basis::Bounded, 2e9);
        assert!(bounded.contains("would lose at most 2.0 s"), "{bounded}");
        let kept = told(Standing::Keeps, Basis::Measured, 0.0);
        assert!(kept.contains("would lose 0"), "{kept}");
    }

    #[test]
    fn predictions_stand_beside_what_was_measured() {
        let mut model = capacity(&recorded(&example()), &ASK).unwrap().models[0].clone();
        let one = |row: &str, what: &str, predicted_ns, measured_ns| HeldOut {
            row: row.to_owned(),
            what: what.to_owned(),
            predicted_ns,
            measured_ns,
            error_pct: 0.0,
            is_beyond: row.ends_with("64"),
        };
        model.strategy = "timed".to_owned();
        model.held_out = vec![
            one("timed ×8", "sync", 2e6, 3e6),
            one("timed ×8", "kill -9 exposure", 0.0, 0.0),
            one("timed ×64", "sync", f64::INFINITY, 1e9),
            one("timed ×64", "kill -9 exposure", 0.0, 5e6),
        ];
        let expect = [
            "sync, predicted/measured: ×8 2.0 ms/3.0 ms; ×64 (beyond) more than it can/1.0 s",
            "kill -9 exposure, predicted/measured: ×64 (beyond) 0/5.0 ms",
        ];
        assert_eq!(held_out(&model), expect);
    }

    #[test]
    fn loops_blocks_and_producers_are_told_as_they_were_measured() {
        let ask = Ask { rate_per_s: 10_000.0, ack_p99_ns: Some(1e9), loss_ns: 0.0, ..ASK };
        let told = |cells: &[Cell]| {
            let told = text(&capacity(&recorded(cells), &ask).unwrap(), &ask, 80);
            told.split_whitespace().collect::<Vec<_>>().join(" ")
        };
        let closed = told(&example());
        assert!(closed.contains("of 1.0 s (closed loop: service time)"), "{closed}");
        let fewest = "64 producers, 8 being the fewest measured that carry it, in 3 blocks";
        assert!(closed.contains(&format!("measured with {fewest} (indicative)")), "{closed}");
        assert!(!closed.contains("by rate"), "{closed}");
        let firm = told(&example_of(6));
        assert!(firm.contains("in 6 blocks; one disk"), "{firm}");
        let mut open = example();
        for cell in &mut open {
            let due_to_ack_ns = cell.append_to_ack_ns;
            cell.open_loop = Some(OpenLoop { due_to_ack_ns, ..open_loop() });
        }
        assert!(!told(&open).contains("service time"));
    }

    #[test]
    fn the_choice_can_be_pasted_into_a_broker() {
        let mut run = recorded(&example());
        let ask = Ask { rate_per_s: 10_000.0, ack_p99_ns: None, loss_ns: 1e9, ..ASK };
        let told = |run: &Recorded| text(&capacity(run, &ask).unwrap(), &ask, 80);
        assert!(!told(&run).contains("broker.conf"), "its profile is not known");
        run.manifest.profile = "schema: flushmark.profile/v1\nname: own\nworkloads:\n  \
            closed-1k: {message_bytes: 1KiB, producers: [1, 8, 64]}\nstrategies:\n  \
            sync: {kind: group_commit}\n  timed: {kind: flush_realtime, least_pages: 7}\n  \
            staged: {kind: commit_realtime}\nmatrix: {workloads: [closed-1k], \
            strategies: [sync, timed, staged]}\n"
            .to_owned();
        let sweep = Sweep::parse("own", &run.manifest.profile).unwrap();
        let found = capacity(&run, &ask).unwrap();
        let choice = found.chosen("data").unwrap();
        let told = told(&run);
        let (_, pasted) = told.split_once("to be pasted as it is:\n\n").unwrap();
        let (conf, _) = pasted.split_once("\n\n").unwrap();
        let read = BrokerConf::parse("broker.conf", conf).unwrap();
        assert_eq!(read.segment_bytes, sweep.segment_bytes);
        assert_eq!(read.strategy.settings.kind(), choice.kind);
        // Each with the settings of its own name.
        let timed = found.of_disk("data").find(|choice| choice.strategy == "timed").unwrap();
        assert!(timed.broker_conf.as_ref().unwrap().contains("flushCommitLogLeastPages=7\n"));
    }

    #[test]
    fn several_disks_carry_what_one_does_not() {
        let ask = Ask { rate_per_s: 1e6, ack_p99_ns: Some(1e9), loss_ns: 0.0, ..ASK };
        let told = text(&capacity(&recorded(&example()), &ask).unwrap(), &ask, 80);
        assert!(told.contains("nothing lost in a power cut"), "{told}");
        assert!(told.contains("No strategy is known to keep this on one such disk."), "{told}");
        assert!(told.contains("disks, each with a log of its own"), "{told}");
    }
}
