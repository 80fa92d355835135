//! The bodies of the fuzz targets on seeded bytes: what the fuzzer looks for at length is looked
//! for a little with each test run, and with a stable compiler.

#[path = "../../../fuzz/src/lib.rs"]
pub mod bodies;

/// Deterministic bytes (xorshift64*).
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 ^= self.0 >> 12;
        self.0 ^= self.0 << 25;
        self.0 ^= self.0 >> 27;
        self.0.wrapping_mul(0x2545_F491_4F6C_DD1D)
    }

    fn below(&mut self, limit: u64) -> u64 {
        (self.next() >> 32) % limit
    }

    fn byte(&mut self) -> u8 {
        self.next().to_be_bytes()[0]
    }

    /// Up to `longest` bytes; some runs have few different ones, or begin as a record does.
    fn data(&mut self, longest: u64, pieces: &[&[u8]]) -> Vec<u8> {
        let len = usize::try_from(self.below(longest + 1)).expect("a short length");
        let mut data = Vec::with_capacity(len + 64);
        let narrow = self.below(4) == 0;
        while data.len() < len {
            match self.below(16) {
                0 => {
                    let index = self.below(pieces.len().try_into().expect("few pieces"));
                    data.extend(pieces[usize::try_from(index).expect("few pieces")]);
                }
                1 => data.extend([0; 3]),
                _ if narrow => data.push(self.byte() % 4),
                _ => data.push(self.byte()),
            }
        }
        data.truncate(len);
        data
    }
}

/// Runs a body on `count` inputs; a failure prints the input to repeat it with.
fn run(name: &str, count: u64, longest: u64, pieces: &[&[u8]], body: fn(&[u8])) {
    for seed in 1..=count {
        let data = Random(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15)).data(longest, pieces);
        // The panic itself has been printed by then.
        let holds = std::panic::catch_unwind(|| body(&data)).is_ok();
        assert!(holds, "{name}, seed {seed}, with the bytes {data:02X?}");
    }
}

const MAGICS: [&[u8]; 3] =
    [&[0xDA, 0xA3, 0x20, 0xA7], &[0xDA, 0xA3, 0x20, 0xAB], &[0xCB, 0xD4, 0x31, 0x94]];
const PAIRS: [&[u8]; 6] = [
    b"__CRC32#\x011234567890\x02",
    b"__CRC32#\x01",
    b"\x02__CRC32#",
    b"INNER_BASE\x0112\x02",
    b"INNER_NUM\x013\x02",
    b"k\x01v\x02",
];

#[test]
fn record() {
    run("record", 20_000, 400, &[MAGICS, [PAIRS[0], PAIRS[3], PAIRS[4]]].concat(), bodies::record);
}

#[test]
fn properties() {
    run("properties", 20_000, 120, &PAIRS, bodies::properties);
}

#[test]
fn segment_scan() {
    run("segment_scan", 10_000, 900, &MAGICS, bodies::segment_scan);
}

#[test]
fn checkpoint() {
    run("checkpoint", 50_000, 60, &[&[0x80], &[0x7F]], bodies::checkpoint);
}

#[test]
fn batch() {
    let header = [0, 0, 0, 22, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0, 0];
    run("batch", 12_000, 500, &[&header, PAIRS[0], PAIRS[5]], bodies::batch);
}
