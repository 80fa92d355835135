//! What is made of recorded results: statistics, charts and the report, when a run ends and again
//! at any later time.

use std::path::Path;

use anyhow::{Context, Result, ensure};

use crate::output::RunDirectory;
use crate::recorded::Recorded;
use crate::{chart, comparison, report, summary};

/// Makes statistics, charts and the report of a result directory again, in it or in `out`, which
/// is made if it is missing. What was recorded (`cells.jsonl`, `env.json`, `manifest.json`,
/// `card.json`, histograms and series) is read and never written.
///
/// The directory may be a stranger's: whatever its strings are, they are escaped, and no link in it
/// makes anything be written outside of it.
///
/// # Errors
///
/// If it is no result directory of a sweep, is of another major version, or `out` cannot be
/// written.
pub fn again(directory: &Path, out: Option<&Path>) -> Result<Recorded> {
    let recorded = Recorded::read(directory)?;
    let place = RunDirectory::to_render(out.unwrap_or(directory))?;
    place.make_plots()?;
    render(&place, &recorded)?;
    Ok(recorded)
}

/// Writes statistics, charts and the report of what was recorded.
pub(crate) fn render(place: &RunDirectory, recorded: &Recorded) -> Result<()> {
    let Recorded { manifest, environment, cells, .. } = recorded;
    for model in summary::LossModel::ALL {
        let svg = chart::pareto(manifest, environment, cells, model)?;
        place.write_text(&format!("plots/{}.svg", model.file_stem()), &svg)?;
    }
    let rows = summary::rows(cells);
    place.write_json("summary.json", &summary::record(&manifest.run, &rows, manifest.slo()))?;
    let mut lines = String::new();
    for comparison in comparison::comparisons(cells, manifest.gates()) {
        lines += &serde_json::to_string(&comparison)?;
        lines.push('\n');
    }
    place.write_text("comparisons.jsonl", &lines)?;
    let charts = chart::all(recorded)?;
    for chart in &charts {
        place.write_text(&format!("plots/{}.svg", chart.name), &chart.svg)?;
    }
    place.write_text("report.html", &report::html(recorded, &charts)?)
}

/// Writes one page that puts several results side by side, as `report.html` of `out`, which is
/// made if it is missing. Their directories are only read.
///
/// # Errors
///
/// If there are fewer than two, one is no result directory of a sweep, two are the same run, `out`
/// is one of them, or it cannot be written.
pub fn side_by_side(directories: &[&Path], out: &Path) -> Result<Vec<Recorded>> {
    ensure!(directories.len() > 1, "one result directory stands beside nothing");
    let all: Vec<Recorded> =
        directories.iter().map(|directory| Recorded::read(directory)).collect::<Result<_>>()?;
    for (nth, one) in all.iter().enumerate() {
        let twin = all[..nth].iter().position(|other| other.manifest.run == one.manifest.run);
        if let Some(twin) = twin {
            let [a, b] = [directories[twin], directories[nth]].map(Path::display);
            anyhow::bail!("{a} and {b} are the same run: give each once");
        }
    }
    // Its own report would be lost.
    for directory in directories {
        let is_result = out.canonicalize().ok() == directory.canonicalize().ok();
        ensure!(!is_result, "{} is one of the results: choose another place", out.display());
    }
    let place = RunDirectory::to_render(out)?;
    let page = report::machines::html(&all).context("draw the page")?;
    place.write_text("report.html", &page)?;
    Ok(all)
}

#[cfg(test)]
mod tests {
    use std::fs;
    use std::os::unix::fs::symlink;

    use super::*;
    use crate::results_fixture::{HOSTILE, example, recorded_at, recorded_before};

    fn read(path: &Path, name: &str) -> String {
        fs::read_to_string(path.join(name)).unwrap()
    }

    #[test]
    fn what_was_recorded_stays_and_the_rest_is_made_again() {
        let place = tempfile::tempdir().unwrap();
        recorded_at(place.path(), &example(), |_, _| {});
        let kept = ["cells.jsonl", "env.json", "manifest.json"];
        let before = kept.map(|name| read(place.path(), name));
        again(place.path(), None).unwrap();
        let made = ["report.html", "summary.json", "comparisons.jsonl", "plots/c1.svg"];
        let first = made.map(|name| read(place.path(), name));
        assert!(first[0].contains("<h2 id=\"all-cells\">"));
        fs::write(place.path().join("report.html"), "spoiled").unwrap();
        again(place.path(), None).unwrap();
        assert_eq!(made.map(|name| read(place.path(), name)), first, "to the byte");
        assert_eq!(kept.map(|name| read(place.path(), name)), before);
        assert!(!place.path().join("report.new").exists());
    }

    #[test]
    fn another_place_takes_it_all_and_leaves_the_directory_alone() {
        let place = tempfile::tempdir().unwrap();
        let out = place.path().join("a/b");
        let results = place.path().join("results");
        recorded_at(&results, &example(), |_, _| {});
        let before = fs::read_dir(&results).unwrap().count();
        again(&results, Some(&out)).unwrap();
        assert!(read(&out, "report.html").contains("</html>"));
        assert!(read(&out, "plots/c1b.svg").contains("</svg>"));
        assert_eq!(fs::read_dir(&results).unwrap().count(), before);
    }

    #[test]
    fn results_of_the_first_version_are_rendered() {
        let place = tempfile::tempdir().unwrap();
        recorded_before(place.path());
        let recorded = again(place.path(), None).unwrap();
        assert_eq!(recorded.cells.len(), example().len());
        assert_eq!(recorded.cells[0].schema, "flushmark.cell/1.0");
        assert!(read(place.path(), "report.html").contains("All strategies and loads"));
        assert!(read(place.path(), "cells.jsonl").contains("flushmark.cell/1.0"));
    }

    #[test]
    fn another_major_version_is_refused_without_its_control_characters() {
        let place = tempfile::tempdir().unwrap();
        recorded_at(place.path(), &example(), |manifest, _| {
            manifest.schema = format!("flushmark.manifest/2.0{HOSTILE}");
        });
        let error = format!("{:#}", again(place.path(), None).unwrap_err());
        assert!(error.contains("schema flushmark.manifest/2.0"), "{error}");
        assert!(!error.contains('\u{1b}') && !error.contains('\0'), "{error:?}");
    }

    #[test]
    fn links_of_a_stranger_lead_nowhere() {
        let place = tempfile::tempdir().unwrap();
        let (results, victim) = (place.path().join("results"), place.path().join("victim"));
        fs::create_dir(&victim).unwrap();
        fs::write(victim.join("file"), "mine").unwrap();
        recorded_at(&results, &example(), |_, _| {});
        // The file beside which it is written first, and the file itself.
        symlink(victim.join("file"), results.join("report.new")).unwrap();
        symlink(victim.join("file"), results.join("summary.json")).unwrap();
        again(&results, None).unwrap();
        assert_eq!(read(&victim, "file"), "mine");
        assert!(!results.join("summary.json").is_symlink());
        fs::remove_dir_all(results.join("plots")).unwrap();
        symlink(&victim, results.join("plots")).unwrap();
        let error = format!("{:#}", again(&results, None).unwrap_err());
        assert!(error.contains("plots is a link"), "{error}");
        assert_eq!(fs::read_dir(&victim).unwrap().count(), 1);
        // Nor is anything read through one.
        fs::remove_file(results.join("env.json")).unwrap();
        symlink(victim.join("file"), results.join("env.json")).unwrap();
        let error = format!("{:#}", again(&results, None).unwrap_err());
        assert!(error.contains("env.json is no file"), "{error}");
    }

    #[test]
    fn several_stand_on_one_page_and_the_same_run_only_once() {
        let place = tempfile::tempdir().unwrap();
        let [a, b, out] = ["a", "b", "out"].map(|name| place.path().join(name));
        recorded_at(&a, &example(), |_, _| {});
        recorded_at(&b, &example(), |manifest, _| manifest.run = "another".to_owned());
        side_by_side(&[&a, &b], &out).unwrap();
        assert!(read(&out, "report.html").contains("another"));
        assert!(!a.join("report.html").exists());
        let refused =
            |all: &[&Path], out: &Path| format!("{:#}", side_by_side(all, out).unwrap_err());
        assert!(refused(&[&a, &a], &out).contains("are the same run"));
        assert!(refused(&[&a, &b], &b).contains("is one of the results"));
        assert!(refused(&[&a, place.path()], &out).contains("no result directory of a sweep"));
    }
}
