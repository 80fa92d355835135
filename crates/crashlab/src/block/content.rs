//! What a device holds: in memory, sparse, and copied only where it is written.

use std::sync::Arc;

/// Bytes that a device keeps or loses as one: what file systems take for atomic, and what the
/// emulated device names as its sector.
pub(super) const UNIT_BYTES: usize = 4096;

/// What one unit holds; `None` is all zeroes.
pub(super) type Unit = Option<Arc<[u8; UNIT_BYTES]>>;

/// The units of a device. A clone shares them all, so that a copy costs next to nothing.
#[derive(Clone, Debug)]
pub(super) struct Content {
    chunks: Vec<Option<Arc<Chunk>>>,
}

/// Units that are copied together when one of them is written and they are shared.
#[derive(Clone, Debug)]
struct Chunk([Unit; CHUNK_UNITS]);

const CHUNK_UNITS: usize = 512;

impl Content {
    /// Zeroes, of at least `units` units.
    pub(super) fn zeroes(units: u64) -> Self {
        let units = usize::try_from(units).expect("a device's units are counted in memory");
        Self { chunks: vec![None; units.div_ceil(CHUNK_UNITS)] }
    }

    pub(super) fn get(&self, unit: u64) -> Unit {
        let (chunk, at) = place(unit);
        self.chunks[chunk].as_ref().and_then(|chunk| chunk.0[at].clone())
    }

    pub(super) fn set(&mut self, unit: u64, to: Unit) {
        let (chunk, at) = place(unit);
        let chunk = &mut self.chunks[chunk];
        match chunk {
            None if to.is_none() => {}
            None => {
                let mut made = Chunk([const { None }; CHUNK_UNITS]);
                made.0[at] = to;
                *chunk = Some(Arc::new(made));
            }
            Some(chunk) => Arc::make_mut(chunk).0[at] = to,
        }
    }
}

/// A unit that holds `bytes`.
pub(super) fn unit_of(bytes: &[u8; UNIT_BYTES]) -> Unit {
    (*bytes != [0; UNIT_BYTES]).then(|| Arc::new(*bytes))
}

fn place(unit: u64) -> (usize, usize) {
    let unit = usize::try_from(unit).expect("a device's units are counted in memory");
    (unit / CHUNK_UNITS, unit % CHUNK_UNITS)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn full(byte: u8) -> Unit {
        unit_of(&[byte; UNIT_BYTES])
    }

    #[test]
    fn a_copy_does_not_see_what_is_written_to_the_other() {
        let mut one = Content::zeroes(2000);
        one.set(7, full(1));
        let mut other = one.clone();
        one.set(7, full(2));
        other.set(1999, full(3));
        assert_eq!((one.get(7), one.get(1999)), (full(2), None));
        assert_eq!((other.get(7), other.get(1999)), (full(1), full(3)));
    }

    #[test]
    fn zeroes_take_no_memory() {
        let mut content = Content::zeroes(1024);
        content.set(600, full(0));
        assert!(content.chunks.iter().all(Option::is_none));
        content.set(600, full(9));
        content.set(600, full(0));
        assert_eq!(content.get(600), None);
    }
}
