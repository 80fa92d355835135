//! The report as a browser shows it: alone, on a desk and on a phone, in light and dark, by mouse
//! and by keyboard.
//!
//! Needs Chromium and its driver; what is left out is said.

use std::fs;
use std::io::Write;
use std::path::{Path, PathBuf};

use serde_json::Value;

use super::driver::{Browser, missing};
use super::{hostile, xtask};

/// Goes past the tests' capture: what is left out is seen in any case.
fn left_out() -> bool {
    let Some(missing) = missing() else { return false };
    let line = format!("left out: the report in a browser: {missing}\n");
    std::io::stderr().write_all(line.as_bytes()).unwrap();
    true
}

/// The committed run, copied and rendered.
fn reference(place: &Path) -> PathBuf {
    let results = Path::new(env!("CARGO_MANIFEST_DIR")).join("../results");
    let mut runs = fs::read_dir(results).unwrap().map(|entry| entry.unwrap().path());
    let is_reference = |path: &PathBuf| path.to_string_lossy().contains("-full-");
    let run = runs.find(is_reference).expect("a reference run is committed");
    let copy = place.join("reference");
    copy_all(&run, &copy);
    rendered(&copy)
}

fn copy_all(from: &Path, to: &Path) {
    fs::create_dir(to).unwrap();
    for entry in fs::read_dir(from).unwrap() {
        let (path, name) = entry.map(|entry| (entry.path(), entry.file_name())).unwrap();
        if path.is_dir() {
            copy_all(&path, &to.join(name));
        } else {
            fs::copy(&path, to.join(name)).unwrap();
        }
    }
}

fn rendered(directory: &Path) -> PathBuf {
    let (code, _, errors) = xtask(&["report", directory.to_str().unwrap()]);
    assert_eq!(code, Some(0), "{errors}");
    directory.join("report.html")
}

#[test]
fn the_reference_report_holds_in_a_browser() {
    if left_out() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let page = reference(place.path());
    let browser = Browser::start(&place.path().join("browser"));
    holds(&browser, &page);
    let charts = browser.run("return document.querySelectorAll('svg').length");
    assert!(charts.as_u64().unwrap() >= 10, "{charts} charts");
    sorts(&browser);
}

#[test]
fn a_report_of_a_strangers_results_does_nothing_but_show_them() {
    if left_out() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let directory = hostile(place.path());
    let page = rendered(Path::new(&directory));
    let browser = Browser::start(&place.path().join("browser"));
    holds(&browser, &page);
    // Made by hand too, of emulated, invalid and extreme cells.
    let golden = "../crates/harness/src/chart/golden/report.html";
    holds(&browser, &Path::new(env!("CARGO_MANIFEST_DIR")).join(golden).canonicalize().unwrap());
    // Base64 of a PDF. The driver allows ten seconds for it, which a long page may need.
    let pdf = browser.printed();
    assert!(pdf.starts_with("JVBERi") && pdf.len() > 100_000, "{} characters", pdf.len());
    browser.open(&page);
    let ran = browser.run("return window.ran === undefined");
    assert_eq!(ran, true, "what stands in a name is not run");
    let text = browser.run("return document.body.innerText");
    assert!(text.as_str().unwrap().contains("<script>window.ran"), "but it is shown");
}

#[test]
fn what_is_wrong_with_a_page_is_found() {
    if left_out() {
        return;
    }
    let place = tempfile::tempdir().unwrap();
    let page = place.path().join("report.html");
    let faulty = r#"<body><section><h2 id="a">x</h2><svg id="a" width="9" height="9"></svg>
        <p style="color: #aaa">faint</p><p style="width: 2000px">wide</p>
        <div style="overflow-x: auto; width: 50px"><p style="width: 90px">hidden</p></div>
        <table class="sortable"><thead><tr><th><button>n</button></th></tr></thead>
        <tbody><tr><td data-v="2">2</td></tr></tbody></table></section>
        <img src="file:///nowhere.png"></body>"#;
    fs::write(&page, faulty).unwrap();
    let browser = Browser::start(&place.path().join("browser"));
    browser.open(&page);
    let requested = browser.requested();
    assert!(requested.iter().any(|url| url == "file:///nowhere.png"), "{requested:?}");
    for (script, expected) in [(OVERFLOWS, 2), (UNREACHABLE, 1), (FAINT, 1), (SORTED, 2)] {
        let found = browser.run(script);
        let count = found.as_array().unwrap().len();
        assert!(count >= expected, "{found} of {script}");
    }
    // A title, a description, a role, a table with the figures, a caption, and a name twice.
    let unnamed = browser.run(UNNAMED);
    assert_eq!(unnamed.as_array().unwrap().len(), 6, "{unnamed}");
}

/// What holds of each page, on every screen.
fn holds(browser: &Browser, page: &Path) {
    for (width, height) in [(1280, 900), (390, 844)] {
        browser.resize(width, height);
        for dark in [false, true] {
            browser.prefer(dark);
            browser.open(page);
            let what = format!("{width} pixels, {}", if dark { "dark" } else { "light" });
            let asked = browser.requested();
            let own = |url: &String| url.ends_with("/report.html") && url.starts_with("file:");
            assert!(asked.iter().all(own) && !asked.is_empty(), "{what}: {asked:?}");
            none(browser, OVERFLOWS, &what);
            none(browser, UNNAMED, &what);
            none(browser, UNREACHABLE, &what);
            none(browser, FAINT, &what);
            let ground = browser.run(GROUND).as_f64().unwrap();
            assert_eq!(ground < 0.2, dark, "{what}: the page's ground is {ground}");
            keep(browser, &what);
        }
    }
}

/// Keeps a picture of the screen where `FLUSHMARK_SCREENS` says, to be looked at.
fn keep(browser: &Browser, what: &str) {
    if let Some(place) = std::env::var_os("FLUSHMARK_SCREENS") {
        let name = format!("{}.png.base64", what.replace([' ', ','], "-"));
        fs::write(Path::new(&place).join(name), browser.picture()).unwrap();
    }
}

/// What a script finds to be wrong.
fn none(browser: &Browser, script: &str, what: &str) {
    let found = browser.run(script);
    assert_eq!(found, Value::Array(Vec::new()), "{what}");
}

/// Of the page as a whole, and of everything in it that is not in a box that scrolls.
const OVERFLOWS: &str = r#"
const width = document.documentElement.clientWidth;
const scrolls = e => e && (["auto", "scroll"].includes(getComputedStyle(e).overflowX)
    || scrolls(e.parentElement));
const wide = [...document.body.querySelectorAll("*")].filter(e => !e.closest("svg")
    && e.getBoundingClientRect().right > width + 1 && !scrolls(e.parentElement));
const all = wide.map(e => e.tagName + " " + (e.id || e.className) + " "
    + e.textContent.slice(0, 40));
if (document.documentElement.scrollWidth > width) { all.push("the page itself"); }
return all;
"#;

/// Charts without a name, a description or a table with the same figures; tables without a caption;
/// names that are there twice.
const UNNAMED: &str = r#"
const wrong = [];
for (const svg of document.querySelectorAll("svg")) {
    const at = svg.closest("section").querySelector("h2").textContent;
    const named = (svg.getAttribute("aria-labelledby") || "").split(" ")
        .map(id => document.getElementById(id));
    for (const part of ["title", "desc"]) {
        const found = svg.querySelector(":scope > " + part);
        if (!found || !found.textContent.trim()) { wrong.push(at + ": no " + part); }
        else if (!named.includes(found)) { wrong.push(at + ": " + part + " does not name it"); }
    }
    if (svg.getAttribute("role") !== "img") { wrong.push(at + ": no image to a reader"); }
    if (!svg.closest("section").querySelector("details table tbody tr")) {
        wrong.push(at + ": no table");
    }
}
for (const table of document.querySelectorAll("table")) {
    if (!table.caption || !table.caption.textContent.trim()) { wrong.push("a table: no caption"); }
}
const ids = [...document.querySelectorAll("[id]")].map(e => e.id);
return wrong.concat(ids.filter((id, at) => ids.indexOf(id) !== at).map(id => "twice: " + id));
"#;

/// What scrolls must scroll by keyboard.
const UNREACHABLE: &str = r#"
return [...document.body.querySelectorAll("*")].filter(e => !e.closest("svg")
    && ["auto", "scroll"].includes(getComputedStyle(e).overflowX)
    && e.scrollWidth > e.clientWidth + 1 && e.tabIndex < 0)
    .map(e => e.tagName + " " + e.className);
"#;

/// Text that does not stand out from its ground as WCAG 2 wants it: 4.5 to 1.
const FAINT: &str = r#"
const parse = text => text.match(/[\d.]+/g).map(Number);
const light = ([r, g, b]) => {
    const part = c => (c /= 255) <= 0.04045 ? c / 12.92 : ((c + 0.055) / 1.055) ** 2.4;
    return 0.2126 * part(r) + 0.7152 * part(g) + 0.0722 * part(b);
};
const ground = e => {
    for (; e; e = e.parentElement) {
        const color = parse(getComputedStyle(e).backgroundColor);
        if (color.length < 4 || color[3] === 1) { return color; }
    }
    return [255, 255, 255];
};
const faint = new Set();
const walk = document.createTreeWalker(document.body, NodeFilter.SHOW_TEXT);
for (let node; (node = walk.nextNode());) {
    const e = node.parentElement;
    if (!node.textContent.trim() || e.closest("svg, script, style")) { continue; }
    const [a, b] = [light(parse(getComputedStyle(e).color)), light(ground(e))];
    const ratio = (Math.max(a, b) + 0.05) / (Math.min(a, b) + 0.05);
    if (ratio < 4.5) { faint.add(e.tagName + " " + e.className + " " + ratio.toFixed(2)); }
}
return [...faint];
"#;

/// How light the page's ground is, from 0 to 1.
const GROUND: &str = r"
const parts = getComputedStyle(document.body).backgroundColor.match(/[\d.]+/g).map(Number);
return (parts[0] + parts[1] + parts[2]) / 765;
";

/// Every sortable table sorts by every column, up and down; by click and by key.
fn sorts(browser: &Browser) {
    browser.resize(1280, 900);
    browser.run("for (const d of document.querySelectorAll('details')) { d.open = true; }");
    none(browser, SORTED, "each column");
    let head = "table.sortable thead th:nth-child(3) button";
    let first = format!("return document.querySelector('{head}').parentElement.ariaSort");
    browser.click(head);
    let once = browser.run(&first);
    browser.type_into(head, "\u{e007}");
    let twice = browser.run(&first);
    assert_ne!(once, twice, "the enter key turns the order");
    let orders = ["ascending", "descending"];
    assert!(orders.iter().all(|order| [&once, &twice].iter().any(|found| *found == order)));
}

const SORTED: &str = r#"
const wrong = [];
for (const table of document.querySelectorAll("table.sortable")) {
    const rows = () => [...table.tBodies[0].rows];
    const count = rows().length;
    [...table.tHead.rows[0].cells].forEach((head, column) => {
        const values = () => rows().map(row => row.cells[column])
            .filter(cell => cell.dataset.v !== undefined).map(cell => Number(cell.dataset.v));
        const name = (table.caption || table).textContent + ": " + head.textContent;
        for (const order of ["ascending", "descending"]) {
            head.querySelector("button").click();
            if (head.getAttribute("aria-sort") !== order) { wrong.push(name + " is not " + order); }
            const found = values();
            const sign = order === "ascending" ? 1 : -1;
            const broken = found.some((value, at) => at > 0 && sign * (value - found[at - 1]) < 0);
            if (broken) { wrong.push(name + " is not sorted"); }
        }
        if (rows().length !== count) { wrong.push(name + " loses rows"); }
    });
}
return wrong;
"#;
