//! The same syncs by fio, to check our own figures against.

use std::path::Path;
use std::process::{Command, Stdio};

use anyhow::{Context, Result, bail};
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::clock::float;

/// What fio found for `pwrite` and `fdatasync` of 4 KiB in place, against our own figure.
#[derive(Clone, Debug, Deserialize, PartialEq, Serialize)]
pub struct CrossCheck {
    /// What fio calls itself.
    pub version: String,
    /// How many syncs it timed.
    pub syncs: u64,
    /// The sync call alone, by fio: median.
    pub sync_ns_p50: u64,
    /// The same by us, just before.
    pub ours_ns_p50: u64,
    /// Ours for fio's; 0.9 to 1.1 is agreement.
    pub ratio: f64,
}

impl CrossCheck {
    /// Whether both say the same.
    pub fn agrees(&self) -> bool {
        (0.9..=1.1).contains(&self.ratio)
    }
}

/// Runs fio in `directory` for two seconds; `None` if it is not installed.
pub(super) fn cross_check(directory: &Path, ours_ns_p50: u64) -> Result<Option<CrossCheck>> {
    let output = Command::new("fio")
        .args(ARGUMENTS)
        .arg("--filename=fio")
        .current_dir(directory)
        .stdin(Stdio::null())
        .output();
    let output = match output {
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(None),
        output => output.context("cannot run fio")?,
    };
    if !output.status.success() {
        bail!("fio failed: {}", String::from_utf8_lossy(&output.stderr).trim());
    }
    read(&output.stdout, ours_ns_p50).map(Some)
}

/// From fio's answer in JSON.
fn read(answer: &[u8], ours_ns_p50: u64) -> Result<CrossCheck> {
    // fio says before the object what it has to say beside it.
    let from = answer.iter().position(|byte| *byte == b'{').unwrap_or(0);
    let answer: Value = serde_json::from_slice(&answer[from..]).context("fio's answer")?;
    let sync = &answer["jobs"][0]["sync"]["lat_ns"];
    let sync_ns_p50 = sync["percentile"]["50.000000"].as_u64();
    let sync_ns_p50 = sync_ns_p50.context("fio's answer has no latency of syncs")?;
    Ok(CrossCheck {
        version: answer["fio version"].as_str().unwrap_or("fio").to_owned(),
        syncs: sync["N"].as_u64().unwrap_or(0),
        sync_ns_p50,
        ours_ns_p50,
        ratio: float(ours_ns_p50) / float(sync_ns_p50.max(1)),
    })
}

const ARGUMENTS: [&str; 11] = [
    "--name=card",
    "--size=8m",
    "--bs=4k",
    "--rw=write",
    "--overwrite=1",
    "--fdatasync=1",
    "--ioengine=psync",
    "--time_based",
    "--runtime=2",
    "--output-format=json",
    "--eta=never",
];

#[cfg(test)]
mod tests {
    use super::*;

    /// As fio 3.33 says it, without what is not read.
    const ANSWER: &str = r#"note: both iodepth >= 1 and synchronous I/O engine are selected
{"fio version": "fio-3.33", "jobs": [{"jobname": "card", "sync": {"total_ios": 0, "lat_ns":
{"min": 165229, "max": 40388565, "mean": 3800214.66, "N": 525,
"percentile": {"1.000000": 250880, "50.000000": 3686400, "99.000000": 22937600}}}}]}"#;

    #[test]
    fn the_median_of_syncs_is_read() {
        let found = read(ANSWER.as_bytes(), 3_500_000).unwrap();
        assert_eq!((found.version.as_str(), found.syncs), ("fio-3.33", 525));
        assert_eq!(found.sync_ns_p50, 3_686_400);
        assert!(found.agrees(), "{found:?}");
        assert!(!read(ANSWER.as_bytes(), 2_000_000).unwrap().agrees());
    }

    #[test]
    fn an_answer_without_syncs_is_an_error() {
        for answer in ["", "{}", r#"{"jobs": [{"sync": {"lat_ns": {}}}]}"#] {
            assert!(read(answer.as_bytes(), 1).is_err(), "{answer}");
        }
    }
}
