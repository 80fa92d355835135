//! Mapped memory: the only unsafe code of the project.
//!
//! Two things are mapped, a segment's file and the staging memory, and both are written by one
//! handle that exists once ([`Writer`]) and is never cloned. Bytes of a mapped *file* are never
//! lent out as a slice: other processes could change them. Bytes of the *staging memory* are lent
//! out by [`Reader`], and only those that the writer cannot touch meanwhile.
#![expect(unsafe_code, reason = "stores to mapped memory, and slices of anonymous memory")]

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::fd::AsRawFd;
use std::ptr;
use std::sync::Arc;

use memmap2::{Advice, MmapMut, MmapOptions, MmapRaw};
use store_core::length_u64;

use crate::files::LogFile;
use crate::page_cache::PageCache;

use crate::sync::{AtomicU64, Ordering, Places};

/// A segment's file in memory, shared with the page cache.
#[derive(Clone, Debug)]
pub(crate) struct FileMap {
    memory: Memory,
}

/// What a map's bytes are.
#[derive(Clone, Debug)]
enum Memory {
    Mapped(Arc<MmapRaw>),
    /// A file without memory of its own to map stores for itself.
    Simulated(Arc<dyn LogFile>),
}

impl FileMap {
    /// Maps the first `len` bytes of `file` and gives the map with its only writer:
    /// `mmap(MAP_SHARED)`.
    ///
    /// Whoever truncates the file while it is mapped makes stores die with SIGBUS: the store's
    /// `lock` file is what keeps others away. Its blocks are allocated before, so that a full disk
    /// cannot.
    pub(crate) fn new(file: &Arc<dyn LogFile>, len: usize) -> io::Result<(Self, FileWriter)> {
        let memory = match file.as_file() {
            Some(file) => Memory::Mapped(Arc::new(MmapOptions::new().len(len).map_raw(file)?)),
            None => Memory::Simulated(Arc::clone(file)),
        };
        Ok((Self { memory: memory.clone() }, FileWriter { memory, len }))
    }

    /// Faults all pages in for writing, so that no append has to: `MADV_POPULATE_WRITE`.
    ///
    /// Kernels before 5.14 refuse; then the first store to each page faults, and nothing is lost.
    pub(crate) fn populate(&self) -> io::Result<()> {
        match &self.memory {
            Memory::Mapped(raw) => raw.advise(Advice::PopulateWrite),
            Memory::Simulated(_) => Ok(()),
        }
    }

    /// Blocks until the pages of `start..end` are on the device: `msync(MS_SYNC)`.
    pub(crate) fn sync(&self, start: usize, end: usize) -> io::Result<()> {
        match &self.memory {
            Memory::Mapped(raw) => raw.flush_range(start, end - start),
            Memory::Simulated(file) => file.sync_range(length_u64(start)..length_u64(end)),
        }
    }
}

/// The first place of `range` that the page cache holds: `mincore`, which unlike a read that does
/// not wait (`RWF_NOWAIT`) reads nothing ahead, to find it a moment later.
pub(crate) fn first_cached(file: &File, range: Range<u64>) -> io::Result<Option<u64>> {
    let page = rustix::param::page_size();
    let size = |bytes: u64| usize::try_from(bytes).map_err(|_| io::ErrorKind::OutOfMemory);
    let (from, len) = (size(range.start)?, size(range.end)?);
    let raw = MmapOptions::new().len(len).map_raw_read_only(file)?;
    let mut cached = vec![0_u8; len.div_ceil(page)];
    // SAFETY: The mapping is live, begins with a page's first byte and is `len` bytes long, and
    // `cached` has a byte for each page of it. No byte of the mapping itself is looked at.
    let asked = unsafe { libc::mincore(raw.as_mut_ptr().cast(), len, cached.as_mut_ptr()) };
    if asked != 0 {
        return Err(io::Error::last_os_error());
    }
    let first = cached.iter().skip(from / page).position(|page| page & 1 == 1);
    Ok(first.map(|index| range.start.max(length_u64((from / page + index) * page))))
}

/// What the page cache holds of `range`: `cachestat`, since Linux 6.5.
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
pub(crate) fn page_cache(file: &File, range: Range<u64>) -> io::Result<PageCache> {
    let asked = [range.start, range.end.saturating_sub(range.start)];
    let mut pages = [0_u64; 5];
    // SAFETY: The descriptor is open while `file` is borrowed. The kernel reads a `struct
    // cachestat_range`, two 64-bit numbers, and writes a `struct cachestat`, five of them: what
    // the two pointers point to, which live beyond the call. It touches nothing else.
    let told = unsafe {
        libc::syscall(CACHESTAT, file.as_raw_fd(), asked.as_ptr(), pages.as_mut_ptr(), 0_u32)
    };
    if told != 0 {
        return Err(io::Error::last_os_error());
    }
    let [cached, dirty, writeback, ..] = pages;
    let page = length_u64(rustix::param::page_size());
    let [cached, dirty, writeback] = [cached, dirty, writeback].map(|of| of.saturating_mul(page));
    Ok(PageCache { cached_bytes: cached, dirty_bytes: dirty, writeback_bytes: writeback })
}

/// Where system calls are numbered otherwise, nothing is asked.
#[cfg(any(target_arch = "mips", target_arch = "mips64"))]
pub(crate) fn page_cache(_: &File, _: Range<u64>) -> io::Result<PageCache> {
    Err(io::ErrorKind::Unsupported.into())
}

/// Its number wherever calls are numbered from 0, which `libc` does not know everywhere yet.
#[cfg(not(any(target_arch = "mips", target_arch = "mips64")))]
const CACHESTAT: libc::c_long = 451;

/// The only handle that stores into a mapped file.
///
/// Invariant: there is one per map. `&mut self` therefore excludes every other store through it.
#[derive(Debug)]
pub(crate) struct FileWriter {
    memory: Memory,
    len: usize,
}

impl FileWriter {
    /// Stores `bytes` at `at`.
    ///
    /// # Panics
    ///
    /// If they do not fit the map.
    pub(crate) fn store(&mut self, at: usize, bytes: &[u8]) {
        let end = at.checked_add(bytes.len());
        assert!(
            end.is_some_and(|end| end <= self.len),
            "{} bytes at {at} exceed a map of {}",
            bytes.len(),
            self.len
        );
        let raw = match &self.memory {
            Memory::Mapped(raw) => raw,
            Memory::Simulated(file) => return file.store(bytes, length_u64(at)),
        };
        // SAFETY: `at` is within the mapping of `len` bytes, as just asserted, so the pointer stays
        // inside it.
        let target = unsafe { raw.as_mut_ptr().add(at) };
        // SAFETY: `target..target + len` lies within one live mapping that is readable and
        // writable. `bytes` cannot overlap it, because no reference into a file map is ever made.
        // By the type's invariant no other thread of this process stores to it now.
        unsafe { ptr::copy_nonoverlapping(bytes.as_ptr(), target, bytes.len()) };
    }
}

/// Anonymous memory used as a ring: positions count up for ever, the place is their remainder.
///
/// Invariant: `released ≤ stored ≤ released + capacity`. The writer alone moves `stored` up and
/// stores only into places of positions at or above it; the reader alone moves `released` and
/// lends only places of positions between the two. So the two never touch the same byte.
#[derive(Debug)]
struct Ring {
    raw: MmapRaw,
    capacity: u64,
    released: AtomicU64,
    stored: AtomicU64,
    places: Places,
}

/// Makes a ring of `capacity` bytes whose positions begin at `start`, all pages faulted in.
pub(crate) fn ring(capacity: u64, start: u64) -> io::Result<(Writer, Reader)> {
    let len = usize::try_from(capacity).map_err(|_| io::ErrorKind::OutOfMemory)?;
    let memory: MmapMut = MmapOptions::new().len(len).map_anon()?;
    let raw = MmapRaw::from(memory);
    // Refused by kernels before 5.14; the first lap then faults its pages itself. Miri has no
    // madvise at all.
    if !cfg!(miri) {
        let _ = raw.advise(Advice::PopulateWrite);
    }
    let ring = Arc::new(Ring {
        raw,
        capacity,
        released: AtomicU64::new(start),
        stored: AtomicU64::new(start),
        places: Places::new(len),
    });
    Ok((Writer { ring: Arc::clone(&ring) }, Reader { ring }))
}

impl Ring {
    /// The one or two pieces that `len` bytes from `position` on take: place and length of each.
    fn pieces(&self, position: u64, len: u64) -> [(usize, usize); 2] {
        let place = position % self.capacity;
        let first = len.min(self.capacity - place);
        let size = |bytes: u64| usize::try_from(bytes).expect("the capacity fits usize");
        [(size(place), size(first)), (0, size(len - first))]
    }
}

/// The ring's only writer.
#[derive(Debug)]
pub(crate) struct Writer {
    ring: Arc<Ring>,
}

impl Writer {
    /// Bytes that can be stored now.
    pub(crate) fn free(&self) -> u64 {
        let used = self.stored() - self.ring.released.load(Ordering::Acquire);
        self.ring.capacity - used
    }

    /// Whether more than half of the ring waits to be written.
    pub(crate) fn is_half_full(&self) -> bool {
        self.free() < self.ring.capacity / 2
    }

    /// The position behind the last byte stored.
    pub(crate) fn stored(&self) -> u64 {
        self.ring.stored.load(Ordering::Relaxed)
    }

    /// Stores `bytes` behind those stored before.
    ///
    /// # Panics
    ///
    /// If they exceed [`free`](Self::free).
    pub(crate) fn store(&mut self, bytes: &[u8]) {
        let len = length_u64(bytes.len());
        assert!(len <= self.free(), "{len} bytes exceed the {} that are free", self.free());
        let position = self.stored();
        let mut rest = bytes;
        for (place, size) in self.ring.pieces(position, len) {
            let (piece, behind) = rest.split_at(size);
            rest = behind;
            self.ring.places.write(place, size);
            // SAFETY: `pieces` gives places with `place + size ≤ capacity`, the mapping's length.
            let target = unsafe { self.ring.raw.as_mut_ptr().add(place) };
            // SAFETY: The target lies within one live writable mapping. By `Ring`'s invariant the
            // reader lends none of these places, and `&mut self` excludes another store. `piece`
            // can overlap the target only if it was lent by the reader, which the same rules out.
            unsafe { ptr::copy_nonoverlapping(piece.as_ptr(), target, size) };
        }
        self.ring.stored.store(position + len, Ordering::Release);
    }

    /// Copies what stands at `position` into `out`; `false` if that is not in the ring any more, or
    /// not yet.
    pub(crate) fn read_back(&self, position: u64, out: &mut [u8]) -> bool {
        let len = length_u64(out.len());
        let stored = self.stored();
        let kept = position.checked_add(self.ring.capacity).is_some_and(|limit| limit >= stored);
        if !kept || position.checked_add(len).is_none_or(|end| end > stored) {
            return false;
        }
        let mut rest = out;
        for (place, size) in self.ring.pieces(position, len) {
            let (piece, behind) = rest.split_at_mut(size);
            rest = behind;
            self.ring.places.read(place, size);
            // SAFETY: `pieces` gives places with `place + size ≤ capacity`, the mapping's length.
            let source = unsafe { self.ring.raw.as_ptr().add(place) };
            // SAFETY: The source lies within one live readable mapping; only the writer, which is
            // borrowed here, ever stores to it. `piece` is the caller's own memory.
            unsafe { ptr::copy_nonoverlapping(source, piece.as_mut_ptr(), size) };
        }
        true
    }
}

/// The ring's only reader.
#[derive(Debug)]
pub(crate) struct Reader {
    ring: Arc<Ring>,
}

impl Reader {
    /// The bytes of `from..to`, in order, as two slices of which the second is often empty.
    ///
    /// # Panics
    ///
    /// If they are not all stored, or not all unreleased.
    pub(crate) fn slices(&self, from: u64, to: u64) -> [&[u8]; 2] {
        let released = self.ring.released.load(Ordering::Relaxed);
        let stored = self.ring.stored.load(Ordering::Acquire);
        assert!(
            released <= from && from <= to && to <= stored,
            "released {released} ≤ {from} ≤ {to} ≤ stored {stored} does not hold"
        );
        self.ring.pieces(from, to - from).map(|(place, size)| {
            self.ring.places.read(place, size);
            // SAFETY: `pieces` gives places with `place + size ≤ capacity`, the mapping's length.
            let start = unsafe { self.ring.raw.as_ptr().add(place) };
            // SAFETY: The range lies within one live mapping whose bytes are initialised (anonymous
            // memory is zero). By `Ring`'s invariant the writer stores to none of these places
            // until `release` lets it, and that takes `&mut self`, which ends this borrow.
            unsafe { std::slice::from_raw_parts(start, size) }
        })
    }

    /// Gives the places below `upto` back to the writer.
    ///
    /// # Panics
    ///
    /// If `upto` goes back or lies beyond what is stored.
    pub(crate) fn release(&mut self, upto: u64) {
        let released = self.ring.released.load(Ordering::Relaxed);
        let stored = self.ring.stored.load(Ordering::Acquire);
        assert!(
            released <= upto && upto <= stored,
            "released {released} ≤ {upto} ≤ stored {stored} does not hold"
        );
        // What was lent may have been read until now.
        for (place, size) in self.ring.pieces(released, upto - released) {
            self.ring.places.read(place, size);
        }
        self.ring.released.store(upto, Ordering::Release);
    }
}

#[cfg(modelled = "loom")]
#[cfg(test)]
mod models;

#[cfg(not(modelled))]
#[cfg(test)]
mod tests {
    use super::*;
    use std::thread;

    #[test]
    fn bytes_cross_the_ring_in_order_while_both_sides_work() {
        let (mut writer, mut reader) = ring(4096, 1_000_003).unwrap();
        let total: u64 = if cfg!(miri) { 9000 } else { 300_000 };
        thread::scope(|scope| {
            scope.spawn(move || {
                let mut next: u64 = 0;
                while next < total {
                    let len = writer.free().min(total - next).min(1 + next % 700);
                    let bytes: Vec<u8> = (next..next + len).map(byte).collect();
                    writer.store(&bytes);
                    next += len;
                }
            });
            let mut at = 1_000_003;
            while at < 1_000_003 + total {
                let stored = reader.ring.stored.load(Ordering::Acquire);
                let upto = stored.min(at + 1000);
                let found: Vec<u8> = reader.slices(at, upto).concat();
                let expect: Vec<u8> = (at..upto).map(|n| byte(n - 1_000_003)).collect();
                assert_eq!(found, expect);
                reader.release(upto);
                at = upto;
            }
        });
    }

    fn byte(n: u64) -> u8 {
        u8::try_from(n * 7 % 251).unwrap()
    }

    #[test]
    fn the_writer_reads_back_what_is_still_there() {
        let (mut writer, mut reader) = ring(8192, 0).unwrap();
        writer.store(&[1; 6000]);
        reader.release(6000);
        writer.store(&[2; 5000]);
        let mut out = [0; 4];
        assert!(writer.read_back(5998, &mut out));
        assert_eq!(out, [1, 1, 2, 2]);
        assert!(!writer.read_back(2000, &mut out), "overwritten");
        assert!(!writer.read_back(10_998, &mut out), "not written yet");
    }

    #[test]
    #[should_panic(expected = "exceed the 96 that are free")]
    fn a_store_into_a_full_ring_stops_the_program() {
        let (mut writer, _reader) = ring(4096, 0).unwrap();
        writer.store(&[0; 4000]);
        writer.store(&[0; 97]);
    }

    #[test]
    fn stores_fill_a_map_from_its_first_byte_to_its_last() {
        // Anonymous memory in a file's stead: Miri maps no files.
        let memory = MmapOptions::new().len(8192).map_anon().unwrap();
        let raw = Arc::new(MmapRaw::from(memory));
        let mut writer = FileWriter { memory: Memory::Mapped(Arc::clone(&raw)), len: 8192 };
        writer.store(0, &[1; 5000]);
        writer.store(5000, &[2; 3192]);
        writer.store(8192, b"");
        // SAFETY: The map is live and its bytes are initialised, and nothing stores to it now.
        let found = unsafe { std::slice::from_raw_parts(raw.as_ptr(), 8192) };
        assert!(found[..5000].iter().all(|byte| *byte == 1));
        assert!(found[5000..].iter().all(|byte| *byte == 2));
    }

    #[test]
    #[should_panic(expected = "2 bytes at 8191 exceed a map of 8192")]
    fn a_store_across_the_end_of_a_map_stops_the_program() {
        let raw = MmapRaw::from(MmapOptions::new().len(8192).map_anon().unwrap());
        let mut writer = FileWriter { memory: Memory::Mapped(Arc::new(raw)), len: 8192 };
        writer.store(8191, b"ab");
    }

    // Miri maps no files.
    #[cfg(not(miri))]
    #[test]
    fn stores_to_a_mapped_file_reach_the_file() {
        let file: Arc<dyn LogFile> = Arc::new(tempfile::tempfile().unwrap());
        file.set_len(8192).unwrap();
        let (map, mut writer) = FileMap::new(&file, 8192).unwrap();
        writer.store(4090, b"across pages");
        map.sync(4090, 4102).unwrap();
        let mut found = [0; 12];
        file.read_exact_at(&mut found, 4090).unwrap();
        assert_eq!(&found, b"across pages");
    }
}
