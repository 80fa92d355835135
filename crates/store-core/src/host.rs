//! Host addresses as the record stores them: address bytes, then the port as a 32-bit integer.

use core::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// An address and port, as `BORNHOST` and `STOREHOST` hold them.
///
/// The port is kept as the signed 32-bit integer of the format, so that any stored value survives a
/// round trip.
#[derive(Clone, Copy, Debug, Eq, Hash, PartialEq)]
pub struct Host {
    ip: IpAddr,
    port: i32,
}

impl Host {
    /// A host; an IPv4-mapped IPv6 address becomes IPv4, as `java.net.InetAddress` makes it.
    pub fn new(ip: IpAddr, port: u16) -> Self {
        Self { ip: ip.to_canonical(), port: i32::from(port) }
    }

    /// The address.
    pub fn ip(self) -> IpAddr {
        self.ip
    }

    /// The port as stored; outside `0..=65535` only in records from elsewhere.
    pub fn port(self) -> i32 {
        self.port
    }

    /// Whether the record's flag for a 16-byte address is set.
    pub fn is_ipv6(self) -> bool {
        self.ip.is_ipv6()
    }

    /// Bytes on disk: 8 with an IPv4 address, 20 with IPv6.
    pub const fn encoded_len(self) -> usize {
        match self.ip {
            IpAddr::V4(_) => IPV4_LEN,
            IpAddr::V6(_) => IPV6_LEN,
        }
    }

    /// Writes address and port over the whole of `out`, which is `encoded_len` bytes long.
    pub(crate) fn write(self, out: &mut [u8]) {
        let (address, port) = out.split_at_mut(self.encoded_len() - PORT_LEN);
        match self.ip {
            IpAddr::V4(ip) => address.copy_from_slice(&ip.octets()),
            IpAddr::V6(ip) => address.copy_from_slice(&ip.octets()),
        }
        port.copy_from_slice(&self.port.to_be_bytes());
    }

    /// Reads what `write` wrote; `bytes` is 8 or 20 bytes long.
    ///
    /// Keeps a mapped IPv6 address as it stands: the record's flag says 16 bytes.
    pub(crate) fn read(bytes: &[u8]) -> Option<Self> {
        let (address, port) = bytes.split_at_checked(bytes.len().checked_sub(PORT_LEN)?)?;
        let ip = match address.len() {
            4 => IpAddr::V4(Ipv4Addr::from(<[u8; 4]>::try_from(address).ok()?)),
            16 => IpAddr::V6(Ipv6Addr::from(<[u8; 16]>::try_from(address).ok()?)),
            _ => return None,
        };
        Some(Self { ip, port: i32::from_be_bytes(port.try_into().ok()?) })
    }
}

impl Default for Host {
    /// `0.0.0.0:0`.
    fn default() -> Self {
        Self { ip: IpAddr::V4(Ipv4Addr::UNSPECIFIED), port: 0 }
    }
}

impl core::fmt::Display for Host {
    fn fmt(&self, f: &mut core::fmt::Formatter<'_>) -> core::fmt::Result {
        match self.ip {
            IpAddr::V4(ip) => write!(f, "{ip}:{}", self.port),
            IpAddr::V6(ip) => write!(f, "[{ip}]:{}", self.port),
        }
    }
}

/// The length of a host on disk, by the address family that the record's flag names.
pub(crate) const fn host_len(ipv6: bool) -> usize {
    if ipv6 { IPV6_LEN } else { IPV4_LEN }
}

const PORT_LEN: usize = 4;
const IPV4_LEN: usize = 4 + PORT_LEN;
const IPV6_LEN: usize = 16 + PORT_LEN;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ipv4_takes_eight_bytes() {
        let mut out = [0; 8];
        Host::new(Ipv4Addr::new(10, 0, 0, 7).into(), 10911).write(&mut out);
        assert_eq!(out, [10, 0, 0, 7, 0, 0, 0x2A, 0x9F]);
        assert_eq!(Host::read(&out), Some(Host::new(Ipv4Addr::new(10, 0, 0, 7).into(), 10911)));
    }

    #[test]
    fn a_mapped_address_is_stored_as_ipv4() {
        let mapped = Ipv4Addr::new(1, 2, 3, 4).to_ipv6_mapped();
        assert_eq!(Host::new(mapped.into(), 1).encoded_len(), 8);
    }

    #[test]
    fn other_lengths_are_refused() {
        for len in (0..64).filter(|len| ![8, 20].contains(len)) {
            assert_eq!(Host::read(&[0; 64][..len]), None, "{len}");
        }
    }
}
