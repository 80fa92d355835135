//! Plain files that behave as the kernel's settings do: for tests, here and in other crates.
//!
//! As Linux 6.18 does it (`mm/page-writeback.c`, `mm/backing-dev.c`): a limit written in one unit
//! becomes 0 in the other, for `dirty_bytes` and `dirty_ratio` only if the value changes; 0 bytes
//! and less than two pages are `EINVAL`, as is a device's `max_ratio` below its `min_ratio`. A line
//! `dirty_ratio 30` in the file `refuse` beside a setting makes writing that setting fail with
//! that errno.

use std::fs;
use std::io;
use std::path::Path;

use super::settings::Key;

/// Makes the settings as Linux has them by default, unless they are there.
pub(super) fn create(vm: &Path) -> io::Result<()> {
    fs::create_dir_all(vm)?;
    for key in Key::ALL {
        let value = match key {
            Key::BackgroundBytes | Key::Bytes => 0,
            Key::BackgroundRatio => 10,
            Key::ExpireCentisecs => 3000,
            Key::Ratio => 20,
            Key::WritebackCentisecs => 500,
        };
        if !vm.join(key.name()).exists() {
            store(&vm.join(key.name()), value)?;
        }
    }
    Ok(())
}

/// Opens a setting for writing, as far as that can fail.
pub(super) fn open(path: &Path) -> io::Result<()> {
    let refused = refusal(path).filter(|error| error.kind() != io::ErrorKind::InvalidInput);
    refused.map_or_else(|| fs::OpenOptions::new().write(true).open(path).map(drop), Err)
}

/// Writes a setting.
pub(super) fn write(path: &Path, value: u64) -> io::Result<()> {
    if let Some(error) = refusal(path) {
        return Err(error);
    }
    let name = path.file_name().and_then(|name| name.to_str()).unwrap_or_default();
    let Some(key) = Key::from_name(name) else {
        return write_device(path, name, value);
    };
    let (min, max) = key.range();
    if !(min..=max).contains(&value) {
        return Err(invalid());
    }
    let changed = load(path)? != value;
    store(path, value)?;
    let always = matches!(key, Key::BackgroundBytes | Key::BackgroundRatio);
    match key.twin() {
        Some(twin) if changed || always => store(&path.with_file_name(twin.name()), 0),
        _ => Ok(()),
    }
}

fn write_device(path: &Path, name: &str, value: u64) -> io::Result<()> {
    // Only what a test laid there: `min_ratio` and `max_ratio`, perhaps `strict_limit`.
    let refused = match name {
        "max_ratio" => value > 100 || value < load(&path.with_file_name("min_ratio"))?,
        "min_ratio" => value > load(&path.with_file_name("max_ratio"))?,
        _ => value > 1,
    };
    if refused { Err(invalid()) } else { store(path, value) }
}

fn refusal(path: &Path) -> Option<io::Error> {
    let name = path.file_name()?.to_str()?;
    let list = fs::read_to_string(path.with_file_name("refuse")).ok()?;
    let line = list.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '))?;
    line.parse().ok().map(io::Error::from_raw_os_error)
}

fn load(path: &Path) -> io::Result<u64> {
    fs::read_to_string(path)?.trim().parse().map_err(|_| invalid())
}

/// Only what is there can be written, as in the kernel.
fn store(path: &Path, value: u64) -> io::Result<()> {
    fs::write(path, format!("{value}\n"))
}

fn invalid() -> io::Error {
    io::Error::from_raw_os_error(rustix::io::Errno::INVAL.raw_os_error())
}
