//! The files that a profile takes from by name, and the one text that keeps all that was read.

use std::fs;
use std::path::{Path, PathBuf};

use super::steps::Source;
use super::{BROKER_CONF, Disk, Sysctls};

/// What can be in a file of its own.
#[derive(Clone, Copy, Debug)]
pub(super) enum Family {
    Disks,
    Sysctls,
    Workloads,
}

impl Family {
    pub(super) fn folder(self) -> &'static str {
        match self {
            Self::Disks => "disks",
            Self::Sysctls => "sysctls",
            Self::Workloads => "workloads",
        }
    }
}

/// A file that a profile once took from, kept behind it.
pub(super) struct Part {
    /// As the line before it names it: `profiles/disks/NAME.yaml`.
    path: String,
    /// Lines of the whole text before it.
    lines_before: u64,
    text: String,
}

/// The profile's own text, and what is kept behind it: what [`Library::record`] has put together.
pub(super) fn split(text: &str) -> (&str, Vec<Part>) {
    let mut own = text;
    let mut parts: Vec<Part> = Vec::new();
    let (mut at, mut lines) = (0, 0);
    for line in text.split_inclusive('\n') {
        lines += 1;
        if let Some(path) = marked(line) {
            if parts.is_empty() {
                own = &text[..at];
            }
            parts.push(Part { path: path.to_owned(), lines_before: lines, text: String::new() });
        } else if let Some(part) = parts.last_mut() {
            part.text.push_str(line);
        }
        at += line.len();
    }
    (own, parts)
}

/// The path in a line that begins a part.
fn marked(line: &str) -> Option<&str> {
    let path = line.trim_end_matches(['\n', '\r']).strip_prefix(MARK)?;
    let is_part = path.starts_with(FOLDER) && path.ends_with(ENDING) || path == BROKER_CONF;
    is_part.then_some(path)
}

/// A profile's text with a broker's configuration kept behind it, as comments.
pub(super) fn with_broker_conf(text: &str, conf: &str) -> String {
    // One that is there already comes last.
    let mark = format!("\n{MARK}{BROKER_CONF}\n");
    let text = text.split_once(&mark).map_or(text.trim_end_matches('\n'), |(before, _)| before);
    let lines = conf.lines().flat_map(|line| [COMMENT, line, "\n"]);
    format!("{text}{mark}{}", lines.collect::<String>())
}

/// The broker's configuration that is kept behind a profile.
pub(super) fn broker_conf(text: &str) -> Option<String> {
    let (_, parts) = split(text);
    let part = parts.iter().find(|part| part.path == BROKER_CONF)?;
    let lines = part.text.lines().map(|line| line.strip_prefix(COMMENT).unwrap_or(line));
    Some(lines.flat_map(|line| [line, "\n"]).collect())
}

/// Finds files by name: first those kept behind the profile, then those of the project.
pub(super) struct Library {
    /// The profile's name, for errors in what is kept behind it.
    file_name: String,
    root: Option<PathBuf>,
    parts: Vec<Part>,
    /// What was found: the path below the root, and the text.
    used: Vec<(String, String)>,
}

impl Library {
    pub(super) fn new(file_name: &str, root: Option<&Path>, parts: Vec<Part>) -> Self {
        let root = root.map(Path::to_owned);
        Self { file_name: file_name.to_owned(), root, parts, used: Vec::new() }
    }

    /// The text of that name and where it stands; `None` if there is none, an error in words if
    /// it cannot be read.
    pub(super) fn find(
        &mut self,
        family: Family,
        name: &str,
    ) -> Option<Result<(Source, String), String>> {
        let path = format!("{FOLDER}{}/{name}{ENDING}", family.folder());
        let (source, text) = if let Some(part) = self.parts.iter().find(|part| part.path == path) {
            let file_name = self.file_name.clone();
            (Source { file_name, lines_before: part.lines_before }, part.text.clone())
        } else {
            let file = self.root.as_ref()?.join(&path);
            if !file.is_file() {
                return None;
            }
            let file_name = file.display().to_string();
            match super::read_limited(&file) {
                Ok(text) => (Source { file_name, lines_before: 0 }, text),
                Err(error) => return Some(Err(format!("{error:#}"))),
            }
        };
        if text.lines().any(|line| marked(line).is_some()) {
            let file_name = &source.file_name;
            return Some(Err(format!("{file_name} has a line that begins with `{MARK}{FOLDER}`")));
        }
        self.used.push((path, text.clone()));
        Some(Ok((source, text)))
    }

    /// The names that there are for the list `path` of the matrix.
    pub(super) fn names(&self, path: &str) -> Vec<String> {
        let folder = path.strip_prefix("matrix.").unwrap_or(path);
        let prefix = format!("{FOLDER}{folder}/");
        let kept = self.parts.iter().filter_map(|part| {
            part.path.strip_prefix(&prefix)?.strip_suffix(ENDING).map(str::to_owned)
        });
        let shipped = self.root.as_ref().and_then(|root| fs::read_dir(root.join(&prefix)).ok());
        let shipped = shipped.into_iter().flatten().flatten().filter_map(|entry| {
            entry.file_name().to_str()?.strip_suffix(ENDING).map(str::to_owned)
        });
        let built_in = match folder {
            "disks" => Some(Disk::HOST.to_owned()),
            "sysctls" => Some(Sysctls::AS_FOUND.to_owned()),
            _ => None,
        };
        let mut names: Vec<String> = built_in.into_iter().chain(kept).chain(shipped).collect();
        names.sort();
        names.dedup();
        names
    }

    /// The profile's own text, and behind it each text that was found, after a line that names it.
    pub(super) fn record(&self, own: &str) -> String {
        let mut record = own.to_owned();
        for (path, text) in &self.used {
            for part in [&format!("{MARK}{path}\n"), text] {
                if !record.ends_with('\n') {
                    record.push('\n');
                }
                record.push_str(part);
            }
        }
        record
    }
}

/// In YAML, a new document and a comment.
const MARK: &str = "--- # ";
const COMMENT: &str = "# ";
const FOLDER: &str = "profiles/";
const ENDING: &str = ".yaml";
