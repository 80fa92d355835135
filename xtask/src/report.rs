//! `cargo xtask report`: results on a page again, one or several side by side.

use std::path::{Path, PathBuf};

use anyhow::{Context, Result, ensure};
use harness::recorded::Recorded;
use harness::results::{Cell, Manifest};
use harness::{rendering, summary, table};

use crate::{exit, say};

/// Make charts, statistics and report.html of a result directory again; of several, one page
///
/// Nothing is measured, and what was recorded is never changed. Results of earlier versions of the
/// schema are read too. Of one directory everything is made anew in it, or in --out; several are
/// put side by side on one page, which lies in --out: a table of the machines, one of the rows that
/// they share, and chart C1 of each. A result directory from a stranger is safe to render and open.
///
/// With --table or --json stdout has the figures; else it names the page.
///
/// Exit codes: 0 ok, 1 wrong command or directory.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// Result directories of `cargo xtask bench`, such as results/latest
    #[arg(value_name = "DIR", required = true)]
    results: Vec<PathBuf>,
    /// Where report.html is made, a directory [default, of one result: in it]
    #[arg(long, value_name = "DIR")]
    out: Option<PathBuf>,
    /// Print the table of one result, as `bench` does
    #[arg(long, conflicts_with = "json")]
    table: bool,
    /// Print the figures of one result as JSON: summary.json, as docs/schemas/summary.json says
    #[arg(long)]
    json: bool,
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let out = arguments.out.as_deref();
    if let [one] = &*arguments.results {
        let recorded = rendering::again(one, out)?;
        let place = out.unwrap_or(one);
        let page = place.join("report.html");
        let Recorded { manifest, environment, cells, .. } = &recorded;
        if arguments.json {
            say::out(&figures(manifest, cells)?)?;
        } else if arguments.table {
            say::out(&table::text(manifest, environment, cells, say::columns()))?;
        } else {
            say::out(&format!("{}\n", page.display()))?;
        }
        if arguments.json || arguments.table {
            say!("report   {}", page.display());
        }
        say!("charts   {}", place.join("plots").display());
        let (there, planned) = (recorded.cells.len(), recorded.manifest.cells_planned);
        if there != usize::try_from(planned).unwrap_or(usize::MAX) {
            say!("not whole: {there} of {planned} cells are there");
        }
        return Ok(exit::OK);
    }
    ensure!(!arguments.json && !arguments.table, "--table and --json are of one result");
    let missing = "several results make one page: say with --out DIR where it is to be";
    let out = out.ok_or_else(|| anyhow::anyhow!(missing))?;
    ensure!(!out.is_file(), "{} is a file; --out is a directory", out.display());
    let all: Vec<&Path> = arguments.results.iter().map(PathBuf::as_path).collect();
    rendering::side_by_side(&all, out)?;
    say::out(&format!("{}\n", out.join("report.html").display()))?;
    Ok(exit::OK)
}

/// What summary.json has: the figures of all rows.
pub(crate) fn figures(manifest: &Manifest, cells: &[Cell]) -> Result<String> {
    let record = summary::record(&manifest.run, &summary::rows(cells), manifest.slo());
    let json = serde_json::to_string_pretty(&record).context("write the figures as JSON")?;
    Ok(json + "\n")
}
