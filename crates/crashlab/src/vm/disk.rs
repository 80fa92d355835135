//! Disk images, and the file systems on them.

use std::fs::File;
use std::io::Read;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::block::FsKind;
use crate::device::Image;

use super::error::{Missing, VmError};
use super::{program, run};

/// The modules that a file system needs; those built into the kernel are passed over.
pub(super) fn modules(fs: FsKind) -> &'static [&'static str] {
    match fs {
        // The first three it asks for when it is loaded, by what they do, not by name.
        FsKind::Btrfs => &["blake2b_generic", "sha256_generic", "xxhash_generic", "btrfs"],
        FsKind::Ext4 => &["ext4"],
        FsKind::Xfs => &["xfs"],
    }
}

/// The program that makes a file system.
pub(super) fn maker(fs: FsKind) -> Result<PathBuf, Missing> {
    let (name, package) = fs.maker();
    program(name, package)
}

/// Makes a new image with an empty file system at `path`.
pub(super) fn make(fs: FsKind, path: &Path) -> Result<(), VmError> {
    let file = File::create(path).map_err(VmError::io("make", path))?;
    file.set_len(DISK_BYTES).map_err(VmError::io("lengthen", path))?;
    run(Command::new(maker(fs)?).args(fs.maker_arguments()).arg(path)).map(|_| ())
}

/// Reads an image file.
pub(super) fn load(path: &Path) -> Result<Image, VmError> {
    let mut file = File::open(path).map_err(VmError::io("open", path))?;
    let len = file.metadata().map_err(VmError::io("look at", path))?.len();
    let mut image = Image::new(len);
    let mut piece = vec![0; PIECE];
    let mut at = 0;
    while at < len {
        let wanted = usize::try_from(len - at).unwrap_or(PIECE).min(PIECE);
        file.read_exact(&mut piece[..wanted]).map_err(VmError::io("read", path))?;
        for block in piece[..wanted].chunks(BLOCK) {
            if *block != ZEROES[..block.len()] {
                image.write(at, block);
            }
            at += store_core::length_u64(block.len());
        }
    }
    Ok(image)
}

/// Writes an image file, with holes where there is nothing.
pub(super) fn store(image: &Image, path: &Path) -> Result<(), VmError> {
    let file = File::create(path).map_err(VmError::io("make", path))?;
    file.set_len(image.len()).map_err(VmError::io("lengthen", path))?;
    for (at, block) in image.blocks() {
        let len = usize::try_from(image.len() - at).unwrap_or(BLOCK).min(BLOCK);
        file.write_all_at(&block[..len], at).map_err(VmError::io("write", path))?;
    }
    Ok(())
}

/// Enough for XFS, which wants 300 MB; sparse.
const DISK_BYTES: u64 = 512 << 20;
const PIECE: usize = 1 << 20;
const BLOCK: usize = 4096;
static ZEROES: [u8; BLOCK] = [0; BLOCK];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_image_is_stored_and_loaded_as_it_was() {
        let folder = tempfile::tempdir().unwrap();
        let path = folder.path().join("disk");
        let len = (5 << 20) + 512;
        let mut image = Image::new(len);
        let places = [0, 5000, 3 << 20, len - 3];
        for at in places {
            image.write(at, &[1, 2, 3]);
        }
        store(&image, &path).unwrap();
        let loaded = load(&path).unwrap();
        let blocks = |image: &Image| -> Vec<(u64, Vec<u8>)> {
            image.blocks().map(|(at, block)| (at, block.to_vec())).collect()
        };
        assert_eq!(blocks(&loaded), blocks(&image));
        assert_eq!(blocks(&loaded).len(), places.len());
    }
}
