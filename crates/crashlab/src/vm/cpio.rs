//! An archive for the kernel to unpack at boot: cpio's "newc" format.

/// An initramfs under construction.
#[derive(Debug, Default)]
pub(super) struct Archive {
    bytes: Vec<u8>,
    entries: u32,
}

impl Archive {
    /// Adds a directory.
    pub(super) fn directory(&mut self, name: &str) {
        self.entry(name, DIRECTORY, &[]);
    }

    /// Adds a file that everyone may read and execute.
    pub(super) fn file(&mut self, name: &str, content: &[u8]) {
        self.entry(name, FILE, content);
    }

    /// The archive's bytes.
    pub(super) fn finish(mut self) -> Vec<u8> {
        self.entry("TRAILER!!!", 0, &[]);
        self.bytes
    }

    fn entry(&mut self, name: &str, mode: u32, content: &[u8]) {
        self.entries += 1;
        let len = u32::try_from(content.len()).expect("an initramfs has no file of 4 GiB");
        let name_len = u32::try_from(name.len() + 1).expect("names are short");
        // Inode, mode, owner, group, links, time, length, four device numbers, name, checksum.
        let fields = [self.entries, mode, 0, 0, 1, 0, len, 0, 0, 0, 0, name_len, 0];
        self.bytes.extend_from_slice(b"070701");
        for field in fields {
            self.bytes.extend_from_slice(format!("{field:08X}").as_bytes());
        }
        self.bytes.extend_from_slice(name.as_bytes());
        self.bytes.push(0);
        self.pad();
        self.bytes.extend_from_slice(content);
        self.pad();
    }

    fn pad(&mut self) {
        self.bytes.resize(self.bytes.len().next_multiple_of(4), 0);
    }
}

const DIRECTORY: u32 = 0o040_755;
const FILE: u32 = 0o100_755;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn an_archive_has_the_bytes_that_cpio_writes() {
        let mut archive = Archive::default();
        archive.directory("dev");
        archive.file("init", b"hello");
        let expect = [
            // Magic, inode, mode; owner, group, links, time; length; devices; name's length.
            "07070100000001000041ED",
            "00000000000000000000000100000000",
            "00000000",
            "00000000000000000000000000000000",
            "0000000400000000dev\0\0\0",
            "07070100000002000081ED",
            "00000000000000000000000100000000",
            "00000005",
            "00000000000000000000000000000000",
            "0000000500000000init\0\0hello\0\0\0",
            "0707010000000300000000",
            "00000000000000000000000100000000",
            "00000000",
            "00000000000000000000000000000000",
            "0000000B00000000TRAILER!!!\0\0\0\0",
        ];
        assert_eq!(String::from_utf8(archive.finish()).unwrap(), expect.concat());
    }
}
