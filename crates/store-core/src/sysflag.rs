//! The SYSFLAG word: compression, transaction type, address families (`MessageSysFlag`).

/// The bits of a record's SYSFLAG; bits unknown here are kept as they are.
#[derive(Clone, Copy, Debug, Default, Eq, Hash, PartialEq)]
#[repr(transparent)]
pub struct SysFlag(u32);

impl SysFlag {
    /// The body is compressed; the algorithm stands in [`SysFlag::COMPRESSION_MASK`].
    pub const COMPRESSED: u32 = 0x1;
    /// TAGS holds several tags; affects filters only.
    pub const MULTI_TAGS: u32 = 0x2;
    /// BORNHOST is 20 bytes long.
    pub const BORN_HOST_IPV6: u32 = 0x10;
    /// STOREHOST is 20 bytes long.
    pub const STORE_HOST_IPV6: u32 = 0x20;
    /// The body is a batch that the consumer unwraps.
    pub const NEED_UNWRAP: u32 = 0x40;
    /// The record holds several messages of its queue, `INNER_NUM` of them (`INNER_BATCH_FLAG`).
    pub const INNER_BATCH: u32 = 0x80;
    /// Where the compression algorithm stands: 0 and 3 zlib, 1 LZ4, 2 ZSTD.
    pub const COMPRESSION_MASK: u32 = 0x700;

    /// The flag word with these bits.
    pub const fn new(bits: u32) -> Self {
        Self(bits)
    }

    /// All bits.
    pub const fn bits(self) -> u32 {
        self.0
    }

    /// Whether every bit of `mask` is set.
    pub const fn has(self, mask: u32) -> bool {
        self.0 & mask == mask
    }

    /// The two transaction bits.
    pub const fn transaction_type(self) -> TransactionType {
        match (self.0 & TRANSACTION_MASK) >> 2 {
            0 => TransactionType::None,
            1 => TransactionType::Prepared,
            2 => TransactionType::Commit,
            _ => TransactionType::Rollback,
        }
    }

    /// The word the store writes: the caller's bits with the address families of the two hosts.
    pub(crate) const fn with_hosts(self, born_ipv6: bool, store_ipv6: bool) -> Self {
        let mut bits = self.0 & !(Self::BORN_HOST_IPV6 | Self::STORE_HOST_IPV6);
        if born_ipv6 {
            bits |= Self::BORN_HOST_IPV6;
        }
        if store_ipv6 {
            bits |= Self::STORE_HOST_IPV6;
        }
        Self(bits)
    }
}

/// What part a record plays in a transaction.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub enum TransactionType {
    /// The record that makes a prepared one visible.
    Commit,
    /// Not transactional.
    None,
    /// A half message that consumers do not see yet.
    Prepared,
    /// The record that drops a prepared one.
    Rollback,
}

impl TransactionType {
    /// Whether such a record takes a place in its queue.
    ///
    /// Prepared and rollback records store queue offset 0 and leave the counter where it is
    /// (`CommitLog.asyncPutMessage` with `ConsumeQueue`'s offset assigner).
    pub const fn takes_queue_offset(self) -> bool {
        matches!(self, Self::None | Self::Commit)
    }
}

const TRANSACTION_MASK: u32 = 0xC;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn transaction_bits() {
        use TransactionType as T;
        for (bits, expect, takes) in [
            (0x0, T::None, true),
            (0x4, T::Prepared, false),
            (0x8, T::Commit, true),
            (0xC, T::Rollback, false),
            (0x703, T::None, true),
        ] {
            let found = SysFlag::new(bits).transaction_type();
            assert_eq!((found, found.takes_queue_offset()), (expect, takes), "{bits:#x}");
        }
    }

    #[test]
    fn host_bits_follow_the_hosts_not_the_caller() {
        let caller = SysFlag::new(0x31);
        assert_eq!(caller.with_hosts(false, false).bits(), 0x01);
        assert_eq!(caller.with_hosts(true, false).bits(), 0x11);
        assert_eq!(caller.with_hosts(false, true).bits(), 0x21);
    }
}
