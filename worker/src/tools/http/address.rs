//! Which addresses are of the public internet, and which are this machine's?
//!
//! Authority: the IANA special-purpose registries, written out here. Invariant: an address is
//! public only if no special range holds it, and an IPv4 address inside an IPv6 one is judged as
//! what it is.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, UdpSocket};

/// A range of addresses, such as `10.0.0.0/8`.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Net {
    first: IpAddr,
    prefix_bits: u8,
}

impl Net {
    const fn v4(a: u8, b: u8, c: u8, prefix_bits: u8) -> Self {
        Self { first: IpAddr::V4(Ipv4Addr::new(a, b, c, 0)), prefix_bits }
    }

    const fn v6(a: u16, b: u16, c: u16, prefix_bits: u8) -> Self {
        Self { first: IpAddr::V6(Ipv6Addr::new(a, b, c, 0, 0, 0, 0, 0)), prefix_bits }
    }

    /// Reads `address` or `address/bits`. `None`: it is neither.
    pub(super) fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(bits.parse::<u8>().ok()?)),
            None => (text, None),
        };
        let first: IpAddr = address.parse().ok()?;
        let bits_max = if first.is_ipv4() { 32 } else { 128 };
        let prefix_bits = bits.unwrap_or(bits_max);
        (prefix_bits <= bits_max).then_some(Self { first, prefix_bits })
    }

    pub(super) fn holds(&self, address: IpAddr) -> bool {
        match (self.first, address) {
            (IpAddr::V4(first), IpAddr::V4(address)) => {
                let shift = 32 - u32::from(self.prefix_bits);
                let differ = u64::from(first.to_bits() ^ address.to_bits());
                differ >> shift == 0
            }
            (IpAddr::V6(first), IpAddr::V6(address)) => {
                let shift = 128 - u32::from(self.prefix_bits);
                let differ = first.to_bits() ^ address.to_bits();
                differ.checked_shr(shift).unwrap_or(0) == 0
            }
            (IpAddr::V4(_), IpAddr::V6(_)) | (IpAddr::V6(_), IpAddr::V4(_)) => false,
        }
    }
}

/// IPv4 that is not the public internet.
const SPECIAL_V4: &[Net] = &[
    Net::v4(0, 0, 0, 8),       // this network; 0.0.0.0 connects to this machine
    Net::v4(10, 0, 0, 8),      // private
    Net::v4(100, 64, 0, 10),   // carrier-grade NAT, and some clouds' metadata
    Net::v4(127, 0, 0, 8),     // loopback
    Net::v4(169, 254, 0, 16),  // link-local, and most clouds' metadata
    Net::v4(172, 16, 0, 12),   // private
    Net::v4(192, 0, 0, 24),    // protocol assignments
    Net::v4(192, 0, 2, 24),    // documentation
    Net::v4(192, 31, 196, 24), // AS112
    Net::v4(192, 52, 193, 24), // AMT
    Net::v4(192, 88, 99, 24),  // 6to4 relays
    Net::v4(192, 168, 0, 16),  // private
    Net::v4(192, 175, 48, 24), // AS112
    Net::v4(198, 18, 0, 15),   // benchmarks
    Net::v4(198, 51, 100, 24), // documentation
    Net::v4(203, 0, 113, 24),  // documentation
    Net::v4(224, 0, 0, 4),     // multicast
    Net::v4(240, 0, 0, 4),     // reserved, broadcast
];

/// IPv6 is public only in here …
const GLOBAL_V6: Net = Net::v6(0x2000, 0, 0, 3);
/// … and not in there.
const SPECIAL_V6: &[Net] = &[
    Net::v6(0x2001, 0, 0, 23),     // protocol assignments, Teredo among them
    Net::v6(0x2001, 0xdb8, 0, 32), // documentation
    Net::v6(0x2002, 0, 0, 16),     // 6to4: an IPv4 address inside
    Net::v6(0x2620, 0x4f, 0x8000, 48), // AS112
    Net::v6(0x3fff, 0, 0, 20),     // documentation
];

/// Never by the name of a host, only by a listed range: metadata services live here.
const LINK_LOCAL: &[Net] = &[Net::v4(169, 254, 0, 16), Net::v6(0xfe80, 0, 0, 10)];

/// The address that a connection to this one reaches: IPv4 in its IPv6 clothes is IPv4.
pub(super) fn real(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V4(_) => address,
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
    }
}

/// Whether [`real`] addresses are public.
pub(super) fn is_public(address: IpAddr) -> bool {
    match address {
        IpAddr::V4(_) => !SPECIAL_V4.iter().any(|net| net.holds(address)),
        IpAddr::V6(_) => {
            GLOBAL_V6.holds(address) && !SPECIAL_V6.iter().any(|net| net.holds(address))
        }
    }
}

pub(super) fn is_link_local(address: IpAddr) -> bool {
    LINK_LOCAL.iter().any(|net| net.holds(address))
}

/// Whether it is an address of this machine: the kernel binds only to those. A system that binds
/// to foreign ones (`ip_nonlocal_bind`) makes every address ours, which refuses too much, not too
/// little.
pub(super) fn is_ours(address: IpAddr) -> bool {
    address.is_loopback() || address.is_unspecified() || UdpSocket::bind((address, 0)).is_ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn public(address: &str) -> bool {
        is_public(real(address.parse().unwrap()))
    }

    #[test]
    fn only_the_public_internet_is_public() {
        for address in
            ["1.1.1.1", "8.8.8.8", "172.15.0.1", "172.32.0.1", "100.63.0.1", "100.128.0.1"]
        {
            assert!(public(address), "{address}");
        }
        for address in ["2606:4700::1111", "2a00:1450::1", "::ffff:8.8.8.8"] {
            assert!(public(address), "{address}");
        }
    }

    #[test]
    fn every_special_address_is_private_in_every_spelling() {
        let v4 = [
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "10.255.255.255",
            "100.64.0.1",
            "100.100.100.200",
            "127.0.0.1",
            "127.255.0.1",
            "169.254.169.254",
            "172.16.0.1",
            "172.31.255.255",
            "192.0.0.1",
            "192.0.2.1",
            "192.168.1.1",
            "198.19.0.1",
            "224.0.0.1",
            "255.255.255.255",
        ];
        for address in v4 {
            assert!(!public(address), "{address}");
            assert!(!public(&format!("::ffff:{address}")), "mapped {address}");
            assert!(!public(&format!("::{address}")), "compatible {address}");
            assert!(!public(&format!("64:ff9b::{address}")), "translated {address}");
        }
        let v6 = [
            "::",
            "::1",
            "fc00::1",
            "fd00:ec2::254",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2001::1",
            "2001:db8::1",
            "2002:7f00:1::",
            "64:ff9b:1::1",
            "100::1",
            "5f00::1",
            "3fff::1",
        ];
        for address in v6 {
            assert!(!public(address), "{address}");
        }
    }

    #[test]
    fn ranges_are_read_and_hold_what_they_say() {
        let cases = [
            ("10.1.0.0/16", "10.1.255.255", true),
            ("10.1.0.0/16", "10.2.0.0", false),
            ("0.0.0.0/0", "8.8.8.8", true),
            ("127.0.0.1", "127.0.0.1", true),
            ("127.0.0.1", "127.0.0.2", false),
            ("fd00::/8", "fdff::1", true),
            ("::/0", "fe80::1", true),
            ("::/0", "127.0.0.1", false),
        ];
        for (net, address, held) in cases {
            let net = Net::parse(net).unwrap();
            assert_eq!(net.holds(address.parse().unwrap()), held, "{net:?} {address}");
        }
        for text in ["10.0.0.0/33", "::/129", "10.0.0/8", "host", "10.0.0.0/", ""] {
            assert_eq!(Net::parse(text), None, "{text}");
        }
    }

    #[test]
    fn this_machines_addresses_are_ours() {
        for address in ["127.0.0.1", "127.1.2.3", "::1", "0.0.0.0", "::"] {
            assert!(is_ours(address.parse().unwrap()), "{address}");
        }
        assert!(!is_ours("192.0.2.1".parse().unwrap()));
    }
}
