//! What was told to a device, and the states that a power cut may leave of it.
//!
//! Everything that is kept is cut into units, and of each unit its versions are known
//! since it was last durable. A device, and a page cache, are coherent: a power cut leaves one of
//! them, of each unit another, and not any mixture of the writes. [`Device`] does so for the blocks
//! of a disk, [`files`] for names, lengths and bytes of files.

pub mod files;
mod image;
mod versions;

use std::collections::BTreeMap;

pub use image::Image;
use image::{Block, UNIT, overlay, pieces, place};
pub use versions::Keep;
use versions::{Choice, Versions};

/// How many writes a device had completed at some time.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, Ord, PartialEq, PartialOrd)]
pub struct Position(u64);

impl Position {
    /// As a number of writes.
    pub fn get(self) -> u64 {
        self.0
    }
}

/// A disk with a volatile cache, in units of 4096 bytes.
///
/// What is not flushed is kept in memory with all its versions, so a device that is written and
/// never flushed grows.
#[derive(Clone, Debug)]
pub struct Device {
    live: Image,
    durable: Image,
    /// The units that are not flushed.
    cached: BTreeMap<u64, Versions<Block>>,
    writes: u64,
}

impl Device {
    /// A device of `len` bytes, all zero.
    pub fn new(len: u64) -> Self {
        Self::of(Image::new(len))
    }

    /// A device that holds `image` durably.
    pub fn of(image: Image) -> Self {
        Self { live: image.clone(), durable: image, cached: BTreeMap::new(), writes: 0 }
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.live.len()
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Fills `out` with what the running system sees from `at` on.
    ///
    /// # Panics
    ///
    /// If that lies beyond the end; so do the other methods.
    pub fn read(&self, at: u64, out: &mut [u8]) {
        self.live.read(at, out);
    }

    /// A write of any alignment; to be called when it completes.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.live.check(at, store_core::length_u64(bytes.len()));
        self.writes += 1;
        for (unit, place, piece) in pieces(at, bytes) {
            let block = overlay(self.live.block(unit).as_ref(), place, piece);
            self.set(unit, Some(block));
        }
    }

    /// A write that is durable when it completes (FUA). What it does not cover of its units stays
    /// as volatile as it was.
    pub fn write_through(&mut self, at: u64, bytes: &[u8]) {
        self.live.check(at, store_core::length_u64(bytes.len()));
        self.writes += 1;
        for (unit, place, piece) in pieces(at, bytes) {
            self.live.change(unit, |block| Some(overlay(block.as_ref(), place, piece)));
            self.durable.change(unit, |block| Some(overlay(block.as_ref(), place, piece)));
            if let Some(versions) = self.cached.get_mut(&unit) {
                versions.change_all(|block| Some(overlay(block.as_ref(), place, piece)));
            }
        }
    }

    /// Makes `len` bytes zero, as volatile as a write: discard, write-zeroes.
    pub fn zero(&mut self, at: u64, len: u64) {
        self.live.check(at, len);
        self.writes += 1;
        let end = at + len;
        let mut at = at;
        while at < end {
            let unit = at / UNIT;
            let upto = end.min((unit + 1) * UNIT);
            let whole = upto - at == UNIT;
            // Most of what is discarded never held anything.
            if self.live.block(unit).is_some() || self.cached.contains_key(&unit) {
                let from = place(at % UNIT);
                let zeroes = &image::ZEROES[..place(upto - at)];
                let block = if whole {
                    None
                } else {
                    Some(overlay(self.live.block(unit).as_ref(), from, zeroes))
                };
                self.set(unit, block);
            }
            at = upto;
        }
    }

    fn set(&mut self, unit: u64, block: Block) {
        let durable = &self.durable;
        let versions =
            self.cached.entry(unit).or_insert_with(|| Versions::new(durable.block(unit).clone()));
        versions.push(self.writes, block.clone());
        self.live.set(unit, block);
    }

    /// The writes completed by now: what a flush that is issued now covers.
    pub fn position(&self) -> Position {
        Position(self.writes)
    }

    /// A flush that was issued at `issued` completed with success.
    pub fn flush(&mut self, issued: Position) {
        let durable = &mut self.durable;
        self.cached.retain(|unit, versions| {
            if versions.settle(issued.0) {
                durable.set(*unit, versions.durable().clone());
            }
            !versions.is_settled()
        });
    }

    /// How many bytes a power cut could take, in whole units.
    pub fn unflushed_bytes(&self) -> u64 {
        store_core::length_u64(self.cached.len()) * UNIT
    }

    /// A state that a power cut may leave now. The same `seed` gives the same again.
    pub fn cut(&self, keep: Keep, seed: u64) -> Image {
        let mut choice = Choice::new(keep, seed, self.cached.values().map(Versions::numbers));
        let mut image = self.durable.clone();
        for (unit, versions) in &self.cached {
            image.set(*unit, choice.pick(versions).clone());
        }
        image
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn unit(image: &Image, unit: u64) -> u8 {
        let mut out = [0; 4096];
        image.read(unit * UNIT, &mut out);
        assert!(out.iter().all(|byte| *byte == out[0]), "a mixture of versions");
        out[0]
    }

    fn units<const N: usize>(image: &Image) -> [u8; N] {
        let mut index = 0;
        [0; N].map(|_: u8| {
            index += 1;
            unit(image, index - 1)
        })
    }

    fn fill(device: &mut Device, unit: u64, byte: u8) {
        device.write(unit * UNIT, &[byte; 4096]);
    }

    fn states<const N: usize>(device: &Device, keep: Keep) -> BTreeSet<[u8; N]> {
        (0..400).map(|seed| units(&device.cut(keep, seed))).collect()
    }

    /// Units 0, 1, 2 flushed as 1; then unit 0 written as 2 and 3, and unit 2 as 4.
    fn written() -> Device {
        let mut device = Device::new(3 * UNIT);
        for unit in 0..3 {
            fill(&mut device, unit, 1);
        }
        device.flush(device.position());
        fill(&mut device, 0, 2);
        fill(&mut device, 0, 3);
        fill(&mut device, 2, 4);
        device
    }

    #[test]
    fn a_cut_leaves_of_each_unit_one_version_since_its_flush() {
        let device = written();
        assert_eq!(device.unflushed_bytes(), 2 * UNIT);
        assert_eq!(states(&device, Keep::None), [[1, 1, 1]].into());
        assert_eq!(states(&device, Keep::All), [[3, 1, 4]].into());
        let any = [1, 2, 3].into_iter().flat_map(|first| [[first, 1, 1], [first, 1, 4]]);
        assert_eq!(states(&device, Keep::Random), any.collect());
        let in_order = [[1, 1, 1], [2, 1, 1], [3, 1, 1], [3, 1, 4]];
        assert_eq!(states(&device, Keep::Prefix), in_order.into());
        let but_one = [[3, 1, 1], [2, 1, 4], [1, 1, 4], [3, 1, 4]];
        let found = states(&device, Keep::AllButOne);
        assert!(found.is_subset(&but_one.into()) && found.len() > 2, "{found:?}");
        let only = [[1, 1, 4], [2, 1, 1], [3, 1, 1]];
        assert_eq!(states(&device, Keep::OnlyOne), only.into());
        assert_eq!(units(&device.cut(Keep::Random, 7)), units::<3>(&device.cut(Keep::Random, 7)));
    }

    #[test]
    fn a_flush_covers_what_was_complete_when_it_was_issued() {
        let mut device = written();
        let issued = device.position();
        fill(&mut device, 0, 5);
        fill(&mut device, 1, 6);
        device.flush(issued);
        assert_eq!(states(&device, Keep::None), [[3, 1, 4]].into());
        assert_eq!(states::<3>(&device, Keep::Random).len(), 4);
        // One that was issued earlier and ends later takes nothing back.
        device.flush(Position(1));
        assert_eq!(states(&device, Keep::None), [[3, 1, 4]].into());
        device.flush(device.position());
        assert_eq!(device.unflushed_bytes(), 0);
        assert_eq!(states(&device, Keep::Random), [[5, 6, 4]].into());
    }

    #[test]
    fn a_write_through_is_durable_and_what_lies_beside_it_is_not() {
        let mut device = Device::new(2 * UNIT);
        device.write(0, &[1; 4096]);
        device.write_through(512, &[9; 512]);
        device.write_through(UNIT, &[7; 4096]);
        let bytes = |keep| {
            let mut out = [0; 1024];
            device.cut(keep, 0).read(0, &mut out);
            [out[0], out[511], out[512], out[1023]]
        };
        assert_eq!(bytes(Keep::None), [0, 0, 9, 9]);
        assert_eq!(bytes(Keep::All), [1, 1, 9, 9]);
        assert_eq!(unit(&device.cut(Keep::None, 0), 1), 7);
    }

    #[test]
    fn zeroes_are_as_volatile_as_a_write() {
        let mut device = written();
        device.flush(device.position());
        device.zero(UNIT, 2 * UNIT);
        assert_eq!(states(&device, Keep::None), [[3, 1, 4]].into());
        assert_eq!(states(&device, Keep::All), [[3, 0, 0]].into());
        assert_eq!(states::<3>(&device, Keep::Random).len(), 4);
        device.zero(4000, 96);
        let mut out = [0; 96];
        device.read(4000, &mut out);
        assert_eq!(out, [0; 96]);
        device.read(3904, &mut out);
        assert_eq!(out, [3; 96]);
    }

    #[test]
    fn writes_of_any_alignment_are_read_back() {
        let mut device = Device::new(1 << 21);
        let mut expect = vec![0; 1 << 21];
        let mut random = crate::random::Random::new(3);
        for round in 0..300_u32 {
            let len = random.index(20_000);
            let at = random.index(expect.len() - len);
            let byte = u8::try_from(round % 251).unwrap();
            expect[at..at + len].fill(byte);
            let (start, bytes) = (store_core::length_u64(at), at..at + len);
            match round % 3 {
                0 => device.write_through(start, &expect[bytes]),
                1 => device.write(start, &expect[bytes]),
                _ => {
                    device.zero(start, store_core::length_u64(len));
                    expect[bytes].fill(0);
                }
            }
            if round % 40 == 0 {
                device.flush(device.position());
            }
        }
        let mut found = vec![1; expect.len()];
        device.read(0, &mut found);
        assert!(found == expect);
        device.cut(Keep::All, 0).read(0, &mut found);
        assert!(found == expect);
        device.flush(device.position());
        device.cut(Keep::None, 0).read(0, &mut found);
        assert!(found == expect);
    }

    #[test]
    fn an_image_is_written_without_its_copies() {
        let mut image = Image::new(10_000);
        image.write(5000, &[1; 5000]);
        let copy = image.clone();
        image.write(9000, &[2; 10]);
        let mut out = [0; 2];
        copy.read(8999, &mut out);
        assert_eq!(out, [1, 1]);
        image.read(8999, &mut out);
        assert_eq!(out, [1, 2]);
        let device = Device::of(image);
        device.read(4999, &mut out);
        assert_eq!((out, device.len()), ([0, 1], 10_000));
    }

    #[test]
    #[should_panic(expected = "10 bytes at 4090 exceed a device of 4096")]
    fn nothing_lies_beyond_the_end() {
        Device::new(UNIT).write(4090, &[0; 10]);
    }
}
