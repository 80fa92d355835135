//! What the names of workloads and strategies stand for, as the profile of a run defines them.

use std::time::Duration;

use super::html::{Datum, Table};
use crate::clock::{float, nanos};
use crate::format;
use crate::profile::{
    Io, MessageBytes, Pace, Prealloc, Settings, Share, Strategy, Sweep, Workload,
};
use crate::results::{Arrival, Manifest};
use crate::summary::kind_name;

/// Both tables; nothing where the profile cannot be read any more.
pub(super) fn tables(manifest: &Manifest) -> String {
    let Some(sweep) = manifest.sweep() else { return String::new() };
    format!(
        "<div class=\"figures\">\n{}{}</div>\n",
        workloads(&sweep.workloads),
        strategies(&sweep)
    )
}

fn workloads(workloads: &[Workload]) -> String {
    let row = |of: &Workload| {
        let producers: Vec<String> = of.producers.iter().map(u32::to_string).collect();
        vec![
            Datum::text(&of.name),
            Datum::text(message(&of.message_bytes)),
            Datum::text(producers.join(", ")),
            Datum::count(of.window.into()),
            Datum::text(pace(&of.pace)),
            Datum::text(beside(of)),
        ]
    };
    Table {
        caption: "Workloads, as the profile defines them",
        heads: &["workload", "message", "producers", "window", "sent", "beside it"],
        rows: workloads.iter().map(row).collect(),
        sortable: false,
    }
    .html()
}

fn message(bytes: &MessageBytes) -> String {
    match bytes.shares() {
        [one] => format::bytes(float(one.bytes)),
        shares => {
            let share = |of: &Share| format!("{} % {}", of.percent, format::bytes(float(of.bytes)));
            shares.iter().map(share).collect::<Vec<_>>().join(", ")
        }
    }
}

fn pace(pace: &Pace) -> String {
    let spread = |arrival: &Arrival| match arrival {
        Arrival::Constant => "evenly",
        Arrival::Poisson => "Poisson",
    };
    match pace {
        Pace::Closed => "as soon as its window has room (closed loop)".to_owned(),
        Pace::FindRate { p99, arrival } => {
            format!("at the highest rate with an ack p99 of {}, {}", time(*p99), spread(arrival))
        }
        Pace::Rate { per_s, arrival, burst } => {
            let burst = burst.map_or_else(String::new, |burst| {
                format!(", and {} at once each {}", burst.messages, time(burst.every))
            });
            format!("{}/s, {}{burst}", format::count(float(*per_s)), spread(arrival))
        }
    }
}

fn beside(of: &Workload) -> String {
    let reader = of.reader.then(|| "a reader of old bytes".to_owned());
    let deletes = of
        .deletes_every
        .map(|each| format!("a file as large as a segment is deleted each {}", time(each)));
    let both: Vec<String> = reader.into_iter().chain(deletes).collect();
    if both.is_empty() { "–".to_owned() } else { both.join("; ") }
}

fn strategies(sweep: &Sweep) -> String {
    let row = |of: &Strategy| {
        vec![
            Datum::text(&of.name),
            Datum::text(kind_name(of.settings.kind())),
            Datum::text(settings(&of.settings)),
        ]
    };
    Table {
        caption: "Strategies, as the profile sets them",
        heads: &["strategy", "kind", "settings"],
        rows: sweep.strategies.iter().map(row).collect(),
        sortable: false,
    }
    .html()
}

fn settings(settings: &Settings) -> String {
    match *settings {
        Settings::CommitRealtime {
            commit,
            commit_least_pages,
            commit_thorough,
            interval,
            least_pages,
            thorough,
            staging_bytes,
            io,
            prealloc,
        } => format!(
            "commits each {}, or when an append has made enough; syncs each {}; staging buffer {}; \
             {}, {}",
            passes(commit, commit_least_pages, commit_thorough),
            passes(interval, least_pages, thorough),
            format::bytes(float(staging_bytes)),
            written(io),
            allocated(prealloc)
        ),
        Settings::FlushRealtime { interval, least_pages, thorough, timed, io, prealloc } => {
            let woken = if timed { "" } else { ", or when an append wakes it" };
            format!(
                "syncs each {}{woken}; {}, {}",
                passes(interval, least_pages, thorough),
                written(io),
                allocated(prealloc)
            )
        }
        Settings::GroupCommit { timeout, gather, siblings, lead, io, prealloc } => {
            let gathers = if gather.is_zero() {
                "waits for no others".to_owned()
            } else {
                format!("waits {} for others where {siblings} wait", time(gather))
            };
            let leads = if lead { "; a lone producer syncs itself" } else { "" };
            format!(
                "{gathers}; deadline {}{leads}; {}, {}",
                time(timeout),
                written(io),
                allocated(prealloc)
            )
        }
        Settings::None { io } => format!("never syncs; {}", written(io)),
    }
}

/// `500 ms with 4 new pages, else after 10 s`.
fn passes(each: Duration, pages: u64, thorough: Duration) -> String {
    if pages == 0 || thorough.is_zero() {
        return time(each);
    }
    let pages = format::plural(usize::try_from(pages).unwrap_or(usize::MAX), "new page");
    format!("{} with {pages}, else after {}", time(each), time(thorough))
}

fn written(io: Io) -> &'static str {
    match io {
        Io::Mapped => "through a mapping",
        Io::Positioned => "by pwrite",
        Io::Direct => "past the page cache",
    }
}

fn allocated(prealloc: Prealloc) -> &'static str {
    match prealloc {
        Prealloc::None => "files grow",
        Prealloc::Fallocate => "files allocated",
        Prealloc::Zero => "files filled with zeros",
    }
}

fn time(time: Duration) -> String {
    format::duration(float(nanos(time).get()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::results_fixture::manifest;

    #[test]
    fn names_are_told_with_what_they_stand_for() {
        let of = |profile: &str| {
            let profile = profile.to_owned();
            tables(&Manifest { profile, ..manifest() })
        };
        let text =
            of("schema: flushmark.profile/v1\nname: p\nrun: {blocks: 1, measure_ms: 1000}\n\
            workloads:\n  w: {message_bytes: {128: 70, 1KiB: 30}, producers: [1, 8], rate: 2000, \
            arrival: poisson, burst: {messages: 500, every_ms: 2000}, window: 16, reader: true, \
            deletes_every_ms: 250}\n\
            strategies:\n  s: {kind: group_commit}\n  t: {kind: flush_realtime}\n  \
            p: {kind: commit_realtime}\n  n: {kind: none}\n\
            matrix: {workloads: [w], strategies: [s, t, p, n]}\n");
        for part in [
            "70 % 128 B, 30 % 1.0 KiB",
            "1, 8",
            "2.0k/s, Poisson, and 500 at once each 2.0 s",
            "a reader of old bytes; a file as large as a segment is deleted each 250 ms",
            "waits for no others; deadline 5.0 s; a lone producer syncs itself; past the page",
            "syncs each 500 ms with 4 new pages, else after 10 s",
            "commits each 200 ms with 4 new pages, else after 200 ms, or when an append has made \
             enough; syncs each 500 ms",
            "never syncs; through a mapping",
        ] {
            assert!(text.contains(part), "{part:?} in\n{text}");
        }
        assert_eq!(of("no profile"), "");
    }
}
