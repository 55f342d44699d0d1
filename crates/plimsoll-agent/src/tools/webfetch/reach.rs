//! Decides which network addresses may be reached.

use std::fmt;
use std::io;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, ToSocketAddrs};
use std::sync::Arc;

use reqwest::Url;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};

/// Resolves a name. May block.
pub(super) type Lookup = Arc<dyn Fn(&str) -> io::Result<Vec<IpAddr>> + Send + Sync>;

/// Resolves a name with the system.
pub(super) fn system_lookup(name: &str) -> io::Result<Vec<IpAddr>> {
    Ok((name, 0).to_socket_addrs()?.map(|address| address.ip()).collect())
}

/// Returns only public addresses. The result is used for the connection, so a name that resolves differently a moment
/// later has no effect.
pub(super) struct GuardedLookup(pub(super) Lookup);

/// Returns all addresses.
#[derive(Clone)]
pub(super) struct PlainLookup(pub(super) Lookup);

impl Resolve for GuardedLookup {
    fn resolve(&self, name: Name) -> Resolving {
        resolve(Arc::clone(&self.0), name, true)
    }
}

impl Resolve for PlainLookup {
    fn resolve(&self, name: Name) -> Resolving {
        resolve(Arc::clone(&self.0), name, false)
    }
}

fn resolve(lookup: Lookup, name: Name, guarded: bool) -> Resolving {
    Box::pin(async move {
        let host = name.as_str().to_owned();
        let found = tokio::task::spawn_blocking(move || lookup(&host)).await??;
        let first = found.first().copied();
        let open: Vec<SocketAddr> = found
            .into_iter()
            .filter(|address| !guarded || forbidden(*address).is_none())
            .map(|address| SocketAddr::new(address, 0))
            .collect();
        match first.filter(|_| open.is_empty()).and_then(forbidden) {
            Some(why) => Err(Refusal(format!("`{}` is {why}", name.as_str())).into()),
            None => Ok(Box::new(open.into_iter()) as Addrs),
        }
    })
}

/// A name that resolves to a forbidden address.
#[derive(Debug)]
struct Refusal(String);

impl fmt::Display for Refusal {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.write_str(&self.0)
    }
}

impl std::error::Error for Refusal {}

/// Returns why name resolution rejected a request, if it did.
pub(super) fn refusal(error: &reqwest::Error) -> Option<String> {
    let mut cause: Option<&dyn std::error::Error> = Some(error);
    while let Some(found) = cause {
        if let Some(Refusal(why)) = found.downcast_ref() {
            return Some(why.clone());
        }
        cause = found.source();
    }
    None
}

/// Returns why a host in numeric form is rejected. Such a host is never resolved. Other notations (`0x7f.1`,
/// `2130706433`, `0177.0.0.1`) were normalised when the address was parsed.
pub(super) fn forbidden_literal(url: &Url) -> Option<String> {
    let host = url.host_str()?;
    let bare = host.strip_prefix('[').and_then(|host| host.strip_suffix(']')).unwrap_or(host);
    let address: IpAddr = bare.parse().ok()?;
    forbidden(address).map(|why| format!("`{host}` is {why}"))
}

/// Returns why an address is not public.
pub(super) fn forbidden(address: IpAddr) -> Option<&'static str> {
    match address {
        IpAddr::V4(address) => forbidden_v4(address),
        IpAddr::V6(address) => forbidden_v6(address),
    }
}

fn forbidden_v4(address: Ipv4Addr) -> Option<&'static str> {
    match address.octets() {
        [127, ..] => Some("this machine itself"),
        // A connection to it reaches this machine.
        [0, ..] => Some("no address of a host"),
        [10, ..] | [172, 16..=31, ..] | [192, 168, ..] => Some("in a private network"),
        // Cloud metadata services have the keys of a machine here.
        [169, 254, ..] => Some("a link-local address"),
        [100, 64..=127, ..] => Some("in a carrier-grade NAT network"),
        [224..=239, ..] => Some("a multicast address"),
        [240..=255, ..] => Some("a reserved address"),
        [192, 0, 0, _]
        | [192, 0, 2, _]
        | [198, 51, 100, _]
        | [203, 0, 113, _]
        | [198, 18..=19, ..]
        | [192, 88, 99, _] => Some("a special-use address"),
        _ => None,
    }
}

fn forbidden_v6(address: Ipv6Addr) -> Option<&'static str> {
    let groups = address.segments();
    let embedded = || {
        let [.., high, low] = groups;
        let ([a, b], [c, d]) = (high.to_be_bytes(), low.to_be_bytes());
        Ipv4Addr::new(a, b, c, d)
    };
    match groups {
        [0, 0, 0, 0, 0, 0, 0, 1] => Some("this machine itself"),
        [0, 0, 0, 0, 0, 0, 0, 0] => Some("no address of a host"),
        // The kernel connects to the embedded address.
        [0, 0, 0, 0, 0, 0xffff, ..] | [0, 0, 0, 0, 0, 0, ..] | [0, 0, 0, 0, 0xffff, 0, ..] => {
            Some("an IPv4 address in disguise")
        }
        // A gateway connects to the embedded address. Networks without IPv4 reach most of the web in this way.
        [0x64, 0xff9b, 0, 0, 0, 0, ..] => forbidden_v4(embedded()),
        [0xfc00..=0xfdff, ..] | [0xfec0..=0xfeff, ..] => Some("in a private network"),
        [0xfe80..=0xfebf, ..] => Some("a link-local address"),
        [0xff00..=0xffff, ..] => Some("a multicast address"),
        // Tunnels with embedded IPv4 addresses, documentation, tests.
        [0x2002, ..] | [0x2001, 0..=0x1ff, ..] | [0x2001, 0xdb8, ..] | [0x3fff, 0..=0xfff, ..] => {
            Some("a special-use address")
        }
        [0x2000..=0x3fff, ..] => None,
        _ => Some("a reserved address"),
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use reqwest::Url;
    use reqwest::dns::Resolve;

    use super::{GuardedLookup, Lookup, forbidden, forbidden_literal};

    #[test]
    fn addresses_that_are_not_of_the_open_internet_are_known() {
        for address in [
            "127.0.0.1",
            "127.8.8.8",
            "0.0.0.0",
            "0.1.2.3",
            "10.0.0.1",
            "172.16.0.1",
            "172.31.255.255",
            "192.168.1.1",
            "169.254.169.254",
            "100.64.0.1",
            "100.127.255.254",
            "224.0.0.1",
            "239.1.1.1",
            "240.0.0.1",
            "255.255.255.255",
            "192.0.2.1",
            "198.18.0.1",
            "192.0.0.8",
            "::",
            "::1",
            "::ffff:127.0.0.1",
            "::ffff:8.8.8.8",
            "::127.0.0.1",
            "::ffff:0:127.0.0.1",
            "64:ff9b::127.0.0.1",
            "64:ff9b::10.0.0.1",
            "64:ff9b:1::8.8.8.8",
            "fc00::1",
            "fd12::1",
            "fe80::1",
            "fec0::1",
            "ff02::1",
            "2002:7f00:1::",
            "2001::1",
            "2001:db8::1",
            "100::1",
            "4000::1",
        ] {
            assert!(forbidden(address.parse().unwrap()).is_some(), "{address}");
        }
        for address in [
            "8.8.8.8",
            "1.1.1.1",
            "172.15.0.1",
            "172.32.0.1",
            "100.63.0.1",
            "100.128.0.1",
            "193.168.1.1",
            "2606:4700::1111",
            "2a00:1450::1",
            "64:ff9b::8.8.8.8",
        ] {
            assert_eq!(forbidden(address.parse().unwrap()), None, "{address}");
        }
    }

    #[tokio::test]
    async fn of_several_addresses_only_open_ones_are_connected_to() {
        let all = ["127.0.0.1", "8.8.8.8", "::1", "10.0.0.1", "2606:4700::1111"];
        let lookup: Lookup = Arc::new(move |_| Ok(all.map(|address| address.parse().unwrap()).to_vec()));
        let found = GuardedLookup(lookup).resolve("x.test".parse().unwrap()).await.unwrap();
        let found: Vec<String> = found.map(|address| address.ip().to_string()).collect();
        assert_eq!(found, ["8.8.8.8", "2606:4700::1111"]);
    }

    #[test]
    fn numeric_hosts_in_any_notation_are_recognised() {
        for host in [
            "127.0.0.1",
            "127.1",
            "2130706433",
            "0x7f000001",
            "0x7f.1",
            "0177.0.0.1",
            "017700000001",
            "0",
            "[::1]",
            "[::ffff:127.0.0.1]",
            "[0:0:0:0:0:ffff:7f00:1]",
            "[::ffff:7f00:1]",
            "1%32%37.0.0.1",
            "１２７.0.0.1",
            "127.0.0.1.",
        ] {
            let url = Url::parse(&format!("http://{host}/")).unwrap();
            assert!(forbidden_literal(&url).is_some(), "{host} is {url}");
        }
        assert_eq!(forbidden_literal(&Url::parse("http://example.org/").unwrap()), None);
    }
}
