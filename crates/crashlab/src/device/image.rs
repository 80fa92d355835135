//! What a device holds, in units that copies share.

use std::sync::Arc;

/// Bytes of a unit of a [`Device`](super::Device).
pub(crate) const UNIT: u64 = 4096;
const UNIT_LEN: usize = 4096;
/// Units of a group: copying an image copies its groups' handles.
const GROUP: usize = 256;
pub(crate) static ZEROES: [u8; UNIT_LEN] = [0; UNIT_LEN];

/// The bytes of a unit; `None` are zeroes.
pub(crate) type Block = Option<Arc<[u8; UNIT_LEN]>>;

/// All that a device holds. Sparse, and cheap to clone: copies share what neither changed.
#[derive(Clone)]
pub struct Image {
    len: u64,
    groups: Vec<Option<Arc<Vec<Block>>>>,
}

impl Image {
    /// An image of `len` bytes, all zero.
    pub fn new(len: u64) -> Self {
        let groups = len.div_ceil(UNIT).div_ceil(store_core::length_u64(GROUP));
        Self { len, groups: vec![None; place(groups)] }
    }

    /// Its size in bytes.
    pub fn len(&self) -> u64 {
        self.len
    }

    /// Whether it has no bytes at all.
    pub fn is_empty(&self) -> bool {
        self.len == 0
    }

    /// Fills `out` from `at` on.
    ///
    /// # Panics
    ///
    /// If that lies beyond the end; so does [`write`](Self::write).
    pub fn read(&self, at: u64, out: &mut [u8]) {
        self.check(at, store_core::length_u64(out.len()));
        let (mut at, mut out) = (at, out);
        while !out.is_empty() {
            let from = place(at % UNIT);
            let len = out.len().min(UNIT_LEN - from);
            let (piece, rest) = out.split_at_mut(len);
            match self.block(at / UNIT) {
                Some(block) => piece.copy_from_slice(&block[from..from + len]),
                None => piece.fill(0),
            }
            at += store_core::length_u64(len);
            out = rest;
        }
    }

    /// Writes `bytes` at `at`.
    pub fn write(&mut self, at: u64, bytes: &[u8]) {
        self.check(at, store_core::length_u64(bytes.len()));
        for (unit, place, piece) in pieces(at, bytes) {
            self.change(unit, |block| Some(overlay(block.as_ref(), place, piece)));
        }
    }

    /// The blocks that are not zero by default, with their places, in order.
    pub(crate) fn blocks(&self) -> impl Iterator<Item = (u64, &[u8; UNIT_LEN])> {
        let units = (0..).zip(self.groups.iter()).filter_map(|(group, blocks)| {
            let blocks = blocks.as_ref()?;
            let first: u64 = group * store_core::length_u64(GROUP) * UNIT;
            Some((0..).zip(blocks.iter()).map(move |(unit, block)| (first + unit * UNIT, block)))
        });
        units.flatten().filter_map(|(at, block)| Some((at, &**block.as_ref()?)))
    }

    pub(crate) fn check(&self, at: u64, len: u64) {
        let end = at.checked_add(len);
        let fits = end.is_some_and(|end| end <= self.len);
        assert!(fits, "{len} bytes at {at} exceed a device of {}", self.len);
    }

    pub(crate) fn block(&self, unit: u64) -> &Block {
        let unit = place(unit);
        match &self.groups[unit / GROUP] {
            Some(group) => &group[unit % GROUP],
            None => &None,
        }
    }

    pub(crate) fn set(&mut self, unit: u64, block: Block) {
        let unit = place(unit);
        let group = &mut self.groups[unit / GROUP];
        if group.is_none() && block.is_none() {
            return;
        }
        let group = group.get_or_insert_with(|| Arc::new(vec![None; GROUP]));
        Arc::make_mut(group)[unit % GROUP] = block;
    }

    pub(crate) fn change(&mut self, unit: u64, change: impl FnOnce(&Block) -> Block) {
        let block = change(self.block(unit));
        self.set(unit, block);
    }
}

impl std::fmt::Debug for Image {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Image").field("len", &self.len).finish_non_exhaustive()
    }
}

/// A unit with `bytes` at `at`.
pub(crate) fn overlay<const N: usize>(
    unit: Option<&Arc<[u8; N]>>,
    at: usize,
    bytes: &[u8],
) -> Arc<[u8; N]> {
    let mut whole = unit.map_or([0; N], |unit| **unit);
    whole[at..at + bytes.len()].copy_from_slice(bytes);
    Arc::new(whole)
}

/// `bytes` at `at` by units: unit, place within it, and what goes there.
pub(crate) fn pieces(at: u64, bytes: &[u8]) -> impl Iterator<Item = (u64, usize, &[u8])> {
    pieces_of::<UNIT_LEN>(at, bytes)
}

/// [`pieces`] in units of `N` bytes.
pub(crate) fn pieces_of<const N: usize>(
    at: u64,
    bytes: &[u8],
) -> impl Iterator<Item = (u64, usize, &[u8])> {
    let unit = store_core::length_u64(N);
    let (mut at, mut bytes) = (at, bytes);
    std::iter::from_fn(move || {
        let from = place(at % unit);
        let (piece, rest) = bytes.split_at(bytes.len().min(N - from));
        let index = at / unit;
        at += store_core::length_u64(piece.len());
        bytes = rest;
        (!piece.is_empty()).then_some((index, from, piece))
    })
}

/// A place or length that memory can have.
pub(crate) fn place(value: u64) -> usize {
    usize::try_from(value).expect("it fits memory")
}
