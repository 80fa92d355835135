//! `cargo xtask tidy`: what neither the compiler nor clippy checks.

use std::collections::BTreeSet;
use std::fs;
use std::path::{Path, PathBuf};

use anyhow::{Context, Result, bail};

use crate::exit;

/// Check what the compiler does not: line and module length, marks, links, names, unsafe
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {}

pub(crate) fn run(_: &Arguments) -> Result<u8> {
    check(&crate::root())?;
    say!("tidy: ok");
    Ok(exit::OK)
}

/// Fails with every finding, one to a line.
pub(crate) fn check(root: &Path) -> Result<()> {
    let mut findings = Vec::new();
    let mut functions = BTreeSet::new();
    for path in files(root)? {
        let name = path.strip_prefix(root).unwrap_or(&path).to_owned();
        match path.extension().and_then(|extension| extension.to_str()) {
            Some("rs") => {
                let text = read(&path)?;
                source(&name, &text, &mut findings);
                functions.extend(text.lines().filter_map(test_name).map(str::to_owned));
            }
            Some("md") => links(root, &name, &read(&path)?, &mut findings),
            Some("toml") if path.ends_with("Cargo.toml") => {
                package(&name, &read(&path)?, &mut findings);
            }
            _ => {}
        }
    }
    promises(&read(&root.join(PROMISES))?, &functions, &mut findings);
    decisions(root, &mut findings)?;
    if findings.is_empty() {
        return Ok(());
    }
    findings.sort();
    bail!("tidy found:\n{}", findings.join("\n"))
}

fn read(path: &Path) -> Result<String> {
    fs::read_to_string(path).with_context(|| format!("read {}", path.display()))
}

/// Every file of the project, but for what is built or measured.
fn files(root: &Path) -> Result<Vec<PathBuf>> {
    let mut found = Vec::new();
    let mut folders = vec![root.to_owned()];
    while let Some(folder) = folders.pop() {
        for entry in fs::read_dir(&folder).with_context(|| format!("list {}", folder.display()))? {
            let path = entry?.path();
            let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
            if path.is_symlink() || ["target", ".git", "results"].contains(&name) {
                continue;
            }
            if path.is_dir() {
                folders.push(path);
            } else {
                found.push(path);
            }
        }
    }
    found.sort();
    Ok(found)
}

fn source(name: &Path, text: &str, findings: &mut Vec<String>) {
    let file = name.display();
    let mut code_lines = 0;
    let mut in_tests = false;
    for (number, line) in (1..).zip(text.lines()) {
        if line.chars().count() > LONGEST_LINE {
            findings.push(format!("{file}:{number}: longer than {LONGEST_LINE} characters"));
        }
        // Put together, so that this file does not find itself.
        for mark in [concat!("FIX", "ME"), concat!("TO", "DO"), concat!("#[ig", "nore")] {
            if line.contains(mark) {
                findings.push(format!("{file}:{number}: {mark} is not to land"));
            }
        }
        if opens_unsafe(line) && !name.ends_with("store-os/src/map.rs") {
            findings.push(format!("{file}:{number}: unsafe outside store-os/src/map.rs"));
        }
        in_tests |= line == "mod tests {";
        code_lines += usize::from(!in_tests);
    }
    if code_lines > LONGEST_MODULE && !name.components().any(|part| part.as_os_str() == "tests") {
        findings
            .push(format!("{file}: {code_lines} lines before its tests, {LONGEST_MODULE} at most"));
    }
    if !text.starts_with("//!") {
        findings.push(format!("{file}: does not begin by saying what it is for"));
    }
}

/// Whether code, not a string or a comment, opens an unsafe block or names an unsafe item.
fn opens_unsafe(line: &str) -> bool {
    let code = line.split("//").next().unwrap_or_default();
    !code.contains('"') && code.split_whitespace().any(|word| word == "unsafe")
}

/// Relative links lead to files that exist.
fn links(root: &Path, name: &Path, text: &str, findings: &mut Vec<String>) {
    let folder = root.join(name.parent().unwrap_or(Path::new("")));
    for (number, line) in (1..).zip(text.lines()) {
        for link in line.split("](").skip(1).filter_map(|rest| rest.split(')').next()) {
            let target = link.split('#').next().unwrap_or_default();
            if target.is_empty() || target.contains("://") || folder.join(target).exists() {
                continue;
            }
            findings.push(format!("{}:{number}: dead link {target}", name.display()));
        }
    }
}

/// A package is named as its folder, so that `cargo test -p NAME` can be guessed.
/// The name of a function without arguments that begins on a line.
fn test_name(line: &str) -> Option<&str> {
    line.trim_start().strip_prefix("fn ")?.split_once("()").map(|(name, _)| name)
}

/// Every test that the table of promises names (`module::sentence_of_words`) must be there.
fn promises(text: &str, functions: &BTreeSet<String>, findings: &mut Vec<String>) {
    for line in text.lines().filter(|line| line.starts_with('|')) {
        // Every second part stands between backticks.
        for code in line.split('`').skip(1).step_by(2) {
            let Some((_, name)) = code.rsplit_once("::") else { continue };
            if name.contains('_') && !functions.contains(name) {
                findings.push(format!("{PROMISES}: no test {code}"));
            }
        }
    }
}

fn package(name: &Path, text: &str, findings: &mut Vec<String>) {
    let Some(folder) = name.parent().and_then(Path::file_name).and_then(|name| name.to_str())
    else {
        return;
    };
    if !text.lines().any(|line| line == format!("name = \"{folder}\"")) {
        findings.push(format!("{}: the package is not named {folder}", name.display()));
    }
}

/// Decision records are numbered from 0001 without a gap, and the index names each.
fn decisions(root: &Path, findings: &mut Vec<String>) -> Result<()> {
    let folder = root.join("docs/adr");
    let index = read(&folder.join("README.md"))?;
    let mut names: Vec<String> = fs::read_dir(&folder)
        .with_context(|| format!("list {}", folder.display()))?
        .filter_map(|entry| entry.ok()?.file_name().into_string().ok())
        .filter(|name| name != "README.md")
        .collect();
    names.sort();
    for (number, name) in (1..).zip(&names) {
        if !name.starts_with(&format!("{number:04}-")) {
            findings.push(format!("docs/adr/{name}: expected number {number:04}"));
        }
        if !index.contains(name.as_str()) {
            findings.push(format!("docs/adr/README.md: does not list {name}"));
        }
    }
    Ok(())
}

/// The table of events, with the test of each line.
const PROMISES: &str = "docs/DURABILITY.md";
const LONGEST_LINE: usize = 100;
const LONGEST_MODULE: usize = 600;

#[cfg(test)]
mod tests {
    use super::*;

    #[track_caller]
    fn check_source(text: &str, expect: &str) {
        let mut findings = Vec::new();
        source(Path::new("crates/a/src/lib.rs"), text, &mut findings);
        assert_eq!(findings.join("\n"), expect);
    }

    #[test]
    fn sources_are_checked_line_by_line() {
        check_source("//! Fine.\n", "");
        check_source("fn a() {}\n", "crates/a/src/lib.rs: does not begin by saying what it is for");
        check_source(
            &format!("//! A.\n// {}\n", "x".repeat(100)),
            "crates/a/src/lib.rs:2: longer than 100 characters",
        );
        check_source(
            "//! A.\nlet a = unsafe { b() };\n",
            "crates/a/src/lib.rs:2: unsafe outside store-os/src/map.rs",
        );
        let mark = concat!("FIX", "ME");
        check_source(
            &format!("//! A.\n// {mark}\n"),
            &format!("crates/a/src/lib.rs:2: {mark} is not to land"),
        );
    }

    #[test]
    fn a_package_is_named_as_its_folder() {
        let mut findings = Vec::new();
        package(Path::new("crates/a/Cargo.toml"), "name = \"a\"\n", &mut findings);
        assert!(findings.is_empty());
        package(Path::new("crates/a/Cargo.toml"), "name = \"b\"\n", &mut findings);
        assert_eq!(findings, ["crates/a/Cargo.toml: the package is not named a"]);
    }

    #[test]
    fn dead_links_are_found() {
        let root = crate::root();
        let mut findings = Vec::new();
        links(&root, Path::new("README.md"), "[a](Cargo.toml) [b](nowhere.md#x)", &mut findings);
        assert_eq!(findings, ["README.md:1: dead link nowhere.md"]);
    }

    #[test]
    fn a_promise_whose_test_is_gone_is_found() {
        let text =
            "no table: `a::not_this`\n| is `OpenError::Damage` | `a::of_old`, `b::of_now` |\n";
        let line = "    fn of_now() {";
        let functions = test_name(line).map(str::to_owned).into_iter().collect();
        let mut findings = Vec::new();
        promises(text, &functions, &mut findings);
        assert_eq!(findings, ["docs/DURABILITY.md: no test a::of_old"]);
    }
}
