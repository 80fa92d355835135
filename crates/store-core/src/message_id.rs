//! The offset message id: store host and log offset in upper-case hex (`MessageDecoder`).

use core::fmt::{self, Write as _};

use heapless::String;

use crate::{Host, LogOffset};

/// 32 hex digits with an IPv4 store host, 56 with IPv6.
///
/// Not the client's unique id, which is the property `UNIQ_KEY`.
#[derive(Clone, Debug, Eq, PartialEq)]
pub struct MessageId(String<MAX_DIGITS>);

impl MessageId {
    /// The id of the record at `offset`, stored by `store_host`.
    pub fn new(store_host: Host, offset: LogOffset) -> Self {
        let mut binary = [0; MAX_DIGITS / 2];
        let host_len = store_host.encoded_len();
        let (host, rest) = binary.split_at_mut(host_len);
        store_host.write(host);
        let (place, _) = rest.split_at_mut(OFFSET_LEN);
        place.copy_from_slice(&offset.get().to_be_bytes());
        let mut digits = String::new();
        for byte in binary.iter().take(host_len + OFFSET_LEN) {
            write!(digits, "{byte:02X}").expect("56 digits hold the longest id");
        }
        Self(digits)
    }

    /// The digits.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for MessageId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(&self.0)
    }
}

const OFFSET_LEN: usize = 8;
const MAX_DIGITS: usize = 2 * (16 + 4 + OFFSET_LEN);

#[cfg(test)]
mod tests {
    use super::*;
    use core::net::{Ipv4Addr, Ipv6Addr};

    #[test]
    fn ipv4_id_of_the_golden_store() {
        let host = Host::new(Ipv4Addr::new(10, 0, 0, 7).into(), 10911);
        let id = MessageId::new(host, LogOffset::new(185));
        assert_eq!(id.as_str(), "0A00000700002A9F00000000000000B9");
    }

    #[test]
    fn ipv6_id_has_56_digits() {
        let id = MessageId::new(Host::new(Ipv6Addr::LOCALHOST.into(), 1), LogOffset::new(1));
        assert_eq!(id.as_str().len(), 56);
        assert!(id.as_str().starts_with("00000000000000000000000000000001"));
    }
}
