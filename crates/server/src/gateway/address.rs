//! Which addresses may be dialled, decided on the address itself.
//!
//! A name is fixed by configuration, but what it resolves to is not: a
//! rebinding name server can answer with the cloud's metadata service. Every
//! resolved address is judged here, and the judged address is the one that is
//! dialled; the name is not resolved a second time. IPv6 forms that carry an
//! IPv4 address (mapped, compatible, NAT64, 6to4) are judged as that address.
//!
//! Private networks are allowed: the operator named the host, and providers
//! inside the company are a normal use.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr};

/// How far a destination may reach.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Reach {
    /// Only this machine: plain HTTP, which would show a credential to the network.
    Loopback,
    /// Any address that is not refused outright.
    Anywhere,
}

/// Why an address is not dialled.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AddressRefusal {
    /// Link-local: among them the metadata services of clouds.
    LinkLocal,
    /// No single host: unspecified, broadcast, multicast.
    NotAHost,
    /// Another machine, over plain HTTP.
    NotLoopback,
}

/// The metadata service of EC2 over IPv6; it is not link-local.
const EC2_METADATA: Ipv6Addr = Ipv6Addr::new(0xfd00, 0xec2, 0, 0, 0, 0, 0, 0x254);

/// Judges one address.
///
/// # Errors
/// The reason why it must not be dialled.
pub fn check(address: IpAddr, reach: Reach) -> Result<(), AddressRefusal> {
    let address = unwrap(address);
    match address {
        IpAddr::V4(v4) if v4.is_link_local() => Err(AddressRefusal::LinkLocal),
        IpAddr::V6(v6) if is_link_local(v6) || v6 == EC2_METADATA => Err(AddressRefusal::LinkLocal),
        IpAddr::V4(v4) if v4.is_broadcast() => Err(AddressRefusal::NotAHost),
        any if any.is_unspecified() || any.is_multicast() => Err(AddressRefusal::NotAHost),
        any if reach == Reach::Loopback && !any.is_loopback() => Err(AddressRefusal::NotLoopback),
        _ => Ok(()),
    }
}

/// The IPv4 address inside an IPv6 one, where there is one.
fn unwrap(address: IpAddr) -> IpAddr {
    let IpAddr::V6(v6) = address else {
        return address;
    };
    let s = v6.segments();
    let v4 = |high: u16, low: u16| {
        let [a, b] = high.to_be_bytes();
        let [c, d] = low.to_be_bytes();
        IpAddr::V4(Ipv4Addr::new(a, b, c, d))
    };
    match s {
        // `::1` and `::` look like IPv4-compatible addresses and are not.
        [0, 0, 0, 0, 0, 0, 0, 0 | 1] => address,
        // ::ffff:a.b.c.d (mapped), ::a.b.c.d (compatible)
        [0, 0, 0, 0, 0, 0xffff | 0, high, low] => v4(high, low),
        // 64:ff9b::a.b.c.d (NAT64)
        [0x64, 0xff9b, 0, 0, 0, 0, high, low] => v4(high, low),
        // 2002:aabb:ccdd:: (6to4)
        [0x2002, high, low, ..] => v4(high, low),
        _ => address,
    }
}

fn is_link_local(v6: Ipv6Addr) -> bool {
    v6.segments()[0] & 0xffc0 == 0xfe80
}

#[cfg(test)]
mod tests {
    use super::*;

    fn check_one(address: &str, reach: Reach, expected: Result<(), AddressRefusal>) {
        assert_eq!(
            check(address.parse().unwrap(), reach),
            expected,
            "{address}"
        );
    }

    #[test]
    fn metadata_services_are_refused_in_every_spelling() {
        for address in [
            "169.254.169.254",
            "::ffff:169.254.169.254",
            "::169.254.169.254",
            "64:ff9b::169.254.169.254",
            "2002:a9fe:a9fe::1",
            "fe80::1",
            "fd00:ec2::254",
        ] {
            check_one(address, Reach::Anywhere, Err(AddressRefusal::LinkLocal));
        }
    }

    #[test]
    fn only_single_hosts_are_dialled() {
        for address in ["0.0.0.0", "::", "255.255.255.255", "224.0.0.1", "ff02::1"] {
            check_one(address, Reach::Anywhere, Err(AddressRefusal::NotAHost));
        }
        for address in [
            "1.1.1.1",
            "10.0.0.8",
            "192.168.1.5",
            "127.0.0.1",
            "::1",
            "2606:4700::1",
        ] {
            check_one(address, Reach::Anywhere, Ok(()));
        }
    }

    #[test]
    fn loopback_reach_stays_on_this_machine() {
        for address in ["127.0.0.1", "127.8.8.8", "::1", "::ffff:127.0.0.1"] {
            check_one(address, Reach::Loopback, Ok(()));
        }
        for address in ["10.0.0.8", "1.1.1.1", "2606:4700::1"] {
            check_one(address, Reach::Loopback, Err(AddressRefusal::NotLoopback));
        }
    }
}
