//! Whole blocks in memory that begins with one, as writes past the page cache want them.

/// `LEN` bytes, whole blocks, from a block's first byte on.
#[derive(Debug)]
#[repr(align(4096))]
pub(crate) struct Blocks<const LEN: usize>(pub(crate) [u8; LEN]);

/// What writes past the page cache deal in: no usual device or file system asks for more.
pub(crate) const BLOCK: u64 = store_core::PAGE_SIZE;
/// The same.
pub(crate) const BLOCK_LEN: usize = 4096;
const _: () = assert!(align_of::<Blocks<0>>() == BLOCK_LEN, "the representation says so");
