//! `cargo xtask disk`: what a disk's syncs take, and what that is enough for.

use std::path::PathBuf;

use anyhow::{Result, ensure};
use clap::builder::PossibleValuesParser;
use harness::card::{self, Finished, Order, text};
use harness::disks::{Disk, DiskSpec, DiskType, FsKind};
use harness::powercut::emulated;

use crate::origin::origin;
use crate::powercut::DISK_TASK;
use crate::{exit, say, signals};

/// Make a card of a disk: what syncs take by each method and size, and what that is enough for
///
/// Times writes of 4 KiB in place made durable by fdatasync, fsync, msync, and descriptors that are
/// synchronous, or direct too,
/// then sizes from 1 KiB to 1 MiB and 1 to 16 threads; counts the flush requests that reach the
/// device; runs fio beside if it is installed; and ends with a sentence and its threshold. Takes
/// half a minute and 640 MiB, prints the card on stdout and leaves it in results/.
///
/// With --kind the disk is made first, and taken away afterwards: an image file in PATH under a
/// loop device, a tmpfs, or a type that is emulated in user space, which is calibrated and says
/// what was asked and obtained. That takes root.
///
/// Exit codes: 0 ok, 1 wrong command or directory, 2 something failed on the way, 3 the disk cannot
/// be made here, 130 interrupted.
#[derive(Debug, clap::Args)]
pub(crate) struct Arguments {
    /// A directory on the disk; files are made in it and removed again
    #[arg(value_name = "PATH", default_value = ".")]
    path: PathBuf,
    /// What to make a card of
    #[arg(long, value_name = "KIND", default_value = HOST)]
    #[arg(value_parser = PossibleValuesParser::new(kinds()))]
    kind: String,
    /// The file system on a disk that is made
    #[arg(long, value_name = "NAME", default_value = "ext4")]
    #[arg(value_parser = PossibleValuesParser::new(FsKind::ALL.map(FsKind::name)))]
    fs: String,
    /// Its mount options, as of mount -o
    #[arg(long, value_name = "OPTIONS", default_value = "")]
    mount_options: String,
    /// Its size in MiB
    #[arg(long, value_name = "MIB", default_value_t = 1024)]
    #[arg(value_parser = clap::value_parser!(u64).range(1..=1 << 20))]
    size_mib: u64,
    /// Where the result directory is made [default: results/ of the project]
    #[arg(long, value_name = "DIR")]
    results: Option<PathBuf>,
}

/// What `--kind` can be.
fn kinds() -> Vec<&'static str> {
    let emulated = DiskType::ALL.map(DiskType::name);
    [HOST, LOOP, TMPFS].into_iter().chain(emulated).collect()
}

impl Arguments {
    fn spec(&self) -> Result<DiskSpec> {
        let bytes = self.size_mib << 20;
        let file_system = FsKind::named(&self.fs).unwrap_or(FsKind::Ext4);
        let mount_options = self.mount_options.clone();
        if let Some(disk_type) = DiskType::named(&self.kind) {
            return Ok(DiskSpec::Emulated { disk_type, file_system, mount_options, bytes });
        }
        let path = self.path.clone();
        Ok(match &*self.kind {
            LOOP => DiskSpec::Loop { backing: Some(path), file_system, mount_options, bytes },
            TMPFS => {
                ensure!(mount_options.is_empty(), "--mount-options is not for tmpfs");
                DiskSpec::Tmpfs { bytes }
            }
            _ => {
                ensure!(mount_options.is_empty(), "--mount-options is for disks that are made");
                DiskSpec::Host { path: Some(path), plp: false }
            }
        })
    }
}

pub(crate) fn run(arguments: &Arguments) -> Result<u8> {
    let root = crate::root();
    let interrupted = signals::flag()?;
    let server = emulated::served_by(DISK_TASK)?;
    if arguments.kind != HOST {
        say!("making the disk ({})", arguments.kind);
    }
    let disk = match Disk::make(&arguments.spec()?, &std::env::temp_dir(), &server)? {
        Ok(disk) => disk,
        Err(unavailable) => {
            say!("error: {} cannot be made here: {unavailable}", arguments.kind);
            return Ok(exit::ENVIRONMENT);
        }
    };
    if let Some(calibration) = disk.calibration() {
        say!("{}: {calibration}", arguments.kind);
    }
    let order = Order {
        disk: &disk,
        results: arguments.results.clone().unwrap_or_else(|| root.join("results")),
        origin: origin(),
    };
    let finished = card::run(&order, &interrupted, &mut |what| say!("measuring {what}"))?;
    let removed = disk.remove();
    let Finished { path, card, environment, error } = &finished;
    say::out(&text::text(card, environment))?;
    say!("");
    say!("chart    {}", path.join(card::CHART).display());
    say!("records  {}", path.join("card.json").display());
    if let Some(error) = error {
        say!("error: {error:#}");
        return Ok(exit::INVALID);
    }
    removed?;
    if card.verdict.is_none() {
        say!("interrupted: what was measured is kept");
        return Ok(exit::INTERRUPTED);
    }
    Ok(exit::OK)
}

const HOST: &str = "host";
const LOOP: &str = "loop";
const TMPFS: &str = "tmpfs";
