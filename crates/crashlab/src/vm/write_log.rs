//! What a guest wrote to its disk and flushed, as QEMU records it (`blklogwrites`, in the format of
//! Linux's dm-log-writes).
//!
//! A request is recorded when it has completed and before the guest hears of that. So what stands
//! before a flush that the guest heard of is what that flush covers, and a little more: what was
//! written while it ran. States in which that is lost are not made.
#![expect(clippy::little_endian_bytes, reason = "dm-log-writes defines its format so")]

use std::fs::File;
use std::io::{self, BufReader, Read};
use std::path::Path;

use crate::device::Device;

use super::error::VmError;

/// The arguments that make a disk of `image` whose requests are recorded in `log`, which is made
/// empty.
pub(super) fn recorded(image: &Path, log: &Path) -> Result<Vec<String>, VmError> {
    File::create(log).map_err(VmError::io("make", log))?;
    let (image, log) = (image.display().to_string(), log.display().to_string());
    let file = format!(r#"{{"driver":"file","filename":{image:?}}}"#);
    // The host lives on: its own syncs of the record would only take time.
    let log = format!(r#"{{"driver":"file","filename":{log:?},"cache":{{"no-flush":true}}}}"#);
    let node =
        format!(r#"{{"driver":"blklogwrites","node-name":"disk","file":{file},"log":{log}}}"#);
    Ok(vec!["-blockdev".to_owned(), node])
}

/// Does to `device` what the record says; whether the record holds all that the guest may have
/// heard of.
pub(super) fn replay(log: &Path, device: &mut Device) -> Result<bool, VmError> {
    let file = File::open(log).map_err(VmError::io("open", log))?;
    replay_from(&mut BufReader::with_capacity(1 << 20, file), device)
        .map_err(VmError::io("read", log))
}

fn replay_from(log: &mut impl Read, device: &mut Device) -> io::Result<bool> {
    let mut sector = [0; SECTOR];
    // The number of entries is written with each flush, before the guest hears of it.
    let known = if fill(log, &mut sector)? { number(&sector, ENTRIES) } else { 0 };
    let mut count = 0;
    while fill(log, &mut sector)? {
        let (at, sectors, flags) =
            (number(&sector, AT), number(&sector, SECTORS), number(&sector, FLAGS));
        if sectors == 0 && flags & FLUSH == 0 {
            // Never written.
            break;
        }
        let len = sectors.checked_mul(SECTOR_BYTES).filter(|len| *len <= device.len());
        let (at, Some(len)) = (at.saturating_mul(SECTOR_BYTES), len) else {
            return Err(io::ErrorKind::InvalidData.into());
        };
        if flags & DISCARD == 0 {
            let mut data = vec![0; usize::try_from(len).map_err(io::Error::other)?];
            if !fill(log, &mut data)? {
                // The kill hit the record itself; the guest never heard that this completed.
                break;
            }
            if !data.is_empty() {
                device.write(at, &data);
            }
        }
        if flags & FLUSH != 0 {
            device.flush(device.position());
        }
        count += 1;
    }
    Ok(known <= count)
}

fn fill(from: &mut impl Read, out: &mut [u8]) -> io::Result<bool> {
    match from.read_exact(out) {
        Ok(()) => Ok(true),
        Err(error) if error.kind() == io::ErrorKind::UnexpectedEof => Ok(false),
        Err(error) => Err(error),
    }
}

fn number(sector: &[u8; SECTOR], at: usize) -> u64 {
    u64::from_le_bytes(sector[at..at + 8].try_into().expect("eight bytes"))
}

const SECTOR: usize = 512;
const SECTOR_BYTES: u64 = 512;
/// In the first sector: how many entries follow.
const ENTRIES: usize = 16;
/// In an entry: the first sector, how many, and what was done.
const AT: usize = 0;
const SECTORS: usize = 8;
const FLAGS: usize = 16;
const FLUSH: u64 = 1;
const DISCARD: u64 = 4;

#[cfg(test)]
mod tests {
    use super::*;
    use crate::device::Keep;

    fn sector(fields: &[u64]) -> Vec<u8> {
        let mut bytes: Vec<u8> = fields.iter().flat_map(|field| field.to_le_bytes()).collect();
        bytes.resize(SECTOR, 0);
        bytes
    }

    /// A record of a write, a flush, a discard and a second write.
    fn record(known: u64) -> Vec<u8> {
        let parts = [
            sector(&[0x6A_7366_7773_6872, 1, known, 512]),
            sector(&[8, 2, 0, 0]),
            vec![7; 1024],
            sector(&[0, 0, FLUSH, 0]),
            sector(&[8, 1, DISCARD, 0]),
            sector(&[16, 1, 0, 0]),
            vec![9; 512],
        ];
        parts.concat()
    }

    fn byte(device: &Device, keep: Keep, at: u64) -> u8 {
        let mut out = [0];
        device.cut(keep, 0).read(at, &mut out);
        out[0]
    }

    #[test]
    fn what_was_flushed_stays_and_what_was_not_may_go() {
        let mut device = Device::new(1 << 20);
        assert!(replay_from(&mut &record(2)[..], &mut device).unwrap());
        for (keep, expect) in [(Keep::None, [7, 7, 0]), (Keep::All, [7, 7, 9])] {
            let found = [8 * 512, 10 * 512 - 1, 16 * 512].map(|at| byte(&device, keep, at));
            assert_eq!(found, expect, "{keep:?}");
        }
    }

    #[test]
    fn a_record_that_a_kill_cut_ends_there_and_says_if_something_is_missing() {
        let whole = record(4);
        let mut device = Device::new(1 << 20);
        assert!(replay_from(&mut &whole[..], &mut device).unwrap());
        let mut device = Device::new(1 << 20);
        let cut = &whole[..whole.len() - 1];
        assert!(!replay_from(&mut &cut[..], &mut device).unwrap());
        assert_eq!(byte(&device, Keep::All, 16 * 512), 0);
        let mut unwritten = record(2);
        let from = unwritten.len() - 1024;
        unwritten[from..].fill(0);
        let mut device = Device::new(1 << 20);
        assert!(replay_from(&mut &unwritten[..], &mut device).unwrap());
        assert!(replay_from(&mut &[][..], &mut device).unwrap());
    }

    #[test]
    fn a_record_of_another_disk_is_refused() {
        let mut device = Device::new(1024);
        assert!(replay_from(&mut &sector(&[0])[..], &mut device).unwrap());
        let foreign = [sector(&[0]), sector(&[0, 9, 0])].concat();
        assert!(replay_from(&mut &foreign[..], &mut device).is_err());
    }
}
