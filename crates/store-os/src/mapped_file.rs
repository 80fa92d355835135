//! A file written through a mapping and synced by `msync`, with nothing else around: what
//! measurements compare the log's mapped appends with.

use std::fs::File;
use std::io;
use std::sync::Arc;

use store_core::length_u64;

use crate::files::LogFile;
use crate::map::{FileMap, FileWriter};

/// A file's first bytes, mapped. The file must not be truncated meanwhile: a store behind its end
/// ends the process (`SIGBUS`).
#[derive(Debug)]
pub struct MappedFile {
    map: FileMap,
    writer: FileWriter,
}

impl MappedFile {
    /// Maps the first `len` bytes of `file`, which must be there.
    ///
    /// # Errors
    ///
    /// If the file is shorter, or `mmap` fails.
    pub fn new(file: File, len: usize) -> io::Result<Self> {
        if file.metadata()?.len() < length_u64(len) {
            return Err(io::ErrorKind::UnexpectedEof.into());
        }
        let file: Arc<dyn LogFile> = Arc::new(file);
        let (map, writer) = FileMap::new(&file, len)?;
        Ok(Self { map, writer })
    }

    /// Stores `bytes` and makes them durable: one `msync` of the pages that they lie in.
    ///
    /// # Errors
    ///
    /// If `msync` fails.
    ///
    /// # Panics
    ///
    /// If they do not lie within what is mapped.
    pub fn write_durably(&mut self, at: usize, bytes: &[u8]) -> io::Result<()> {
        self.writer.store(at, bytes);
        self.map.sync(at, at + bytes.len())
    }
}

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    #[cfg_attr(miri, ignore = "maps a file")]
    fn what_is_written_is_in_the_file() {
        let file = tempfile::tempfile().unwrap();
        file.set_len(8192).unwrap();
        let mut mapped = MappedFile::new(file.try_clone().unwrap(), 8192).unwrap();
        mapped.write_durably(4090, b"over a page's end").unwrap();
        let mut found = [0; 17];
        std::os::unix::fs::FileExt::read_exact_at(&file, &mut found, 4090).unwrap();
        assert_eq!(&found, b"over a page's end");
        let refused = MappedFile::new(file, 8193).unwrap_err();
        assert_eq!(refused.kind(), io::ErrorKind::UnexpectedEof);
    }
}
