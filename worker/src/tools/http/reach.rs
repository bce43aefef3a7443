//! Where may a request go?
//!
//! Authority: the settings. Invariant: public addresses are open; private ones only if listed; the
//! ports of the API, Redis and RabbitMQ on this machine never, whatever is listed, for an agent
//! that reached them could decide its own approvals.
//!
//! Not seen: an address that some router in front maps back to this machine.

use std::net::{IpAddr, SocketAddr};
use std::sync::Arc;

use reqwest::dns::{Addrs, Name, Resolve, Resolving};

use super::address::{Net, is_link_local, is_ours, is_public, real};

/// Addresses behind one name.
const ADDRESSES_MAX: usize = 64;

/// The addresses and ports that `http` may reach.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Reach {
    hosts: Vec<String>,
    nets: Vec<Net>,
    guarded_ports: Vec<u16>,
}

/// Why an entry of `allow_private` is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error(
    "`{entry}` in `allow_private` is no host name, address or range; write `db.internal` or \
     `10.1.0.0/16`"
)]
pub struct ReachError {
    pub entry: String,
}

impl Reach {
    /// `allow_private`: host names, addresses and ranges that may be reached though they are
    /// private. A host name opens whatever private address it resolves to but a link-local one.
    /// `guarded_ports`: those of the API, Redis and RabbitMQ.
    ///
    /// # Errors
    /// The first entry that can't be read.
    pub fn new(allow_private: &[String], guarded_ports: Vec<u16>) -> Result<Self, ReachError> {
        let (mut hosts, mut nets) = (Vec::new(), Vec::new());
        for entry in allow_private {
            match Net::parse(entry) {
                Some(net) => nets.push(net),
                None if is_host_name(entry) => hosts.push(same_name(entry)),
                None => return Err(ReachError { entry: entry.clone() }),
            }
        }
        Ok(Self { hosts, nets, guarded_ports })
    }

    pub(super) fn guards(&self, port: u16) -> bool {
        self.guarded_ports.contains(&port)
    }

    /// `Err` is the reason, for the agent and the operator. `guarded`: the port is one of ours.
    pub(super) fn check(&self, host: &str, address: IpAddr, guarded: bool) -> Result<(), Refused> {
        let address = real(address);
        if guarded && is_ours(address) {
            return Err(Refused::Guarded { address });
        }
        let named = || self.hosts.contains(&same_name(host)) && !is_link_local(address);
        let listed = || self.nets.iter().any(|net| net.holds(address)) || named();
        if is_public(address) || listed() {
            return Ok(());
        }
        Err(Refused::Private { host: host.to_owned(), address })
    }
}

/// Why an address is refused.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(super) enum Refused {
    #[error(
        "`{host}` is the private address {address}; list the host or its range in \
         `allow_private` if agents may reach it"
    )]
    Private { host: String, address: IpAddr },
    #[error("{address} is this machine, and the port belongs to the API, Redis or RabbitMQ")]
    Guarded { address: IpAddr },
    #[error("`{host}` has more than {ADDRESSES_MAX} addresses")]
    TooMany { host: String },
}

/// Resolves, checks, and hands only checked addresses to the connector.
pub(super) struct CheckedResolver {
    reach: Arc<Reach>,
    guarded: bool,
}

impl CheckedResolver {
    pub(super) fn new(reach: Arc<Reach>, guarded: bool) -> Self {
        Self { reach, guarded }
    }
}

impl Resolve for CheckedResolver {
    fn resolve(&self, name: Name) -> Resolving {
        let (reach, guarded) = (self.reach.clone(), self.guarded);
        Box::pin(async move {
            let host = name.as_str();
            let found = tokio::net::lookup_host((host, 0)).await?;
            let addresses: Vec<SocketAddr> = found.take(ADDRESSES_MAX + 1).collect();
            if ADDRESSES_MAX < addresses.len() {
                return Err(Refused::TooMany { host: host.to_owned() }.into());
            }
            // One bad address spoils the name: a mix of public and private is a trick, or a
            // mistake.
            for address in &addresses {
                reach.check(host, address.ip(), guarded)?;
            }
            Ok(Box::new(addresses.into_iter()) as Addrs)
        })
    }
}

fn is_host_name(text: &str) -> bool {
    let character = |c: char| c.is_ascii_alphanumeric() || c == '-' || c == '_';
    let label = |label: &str| !label.is_empty() && label.chars().all(character);
    let name = same_name(text);
    // The last label of a name is never a number: that would be an address, written wrongly.
    let last = name.rsplit('.').next().unwrap_or(&name);
    name.split('.').all(label) && !last.chars().all(|c| c.is_ascii_digit())
}

fn same_name(host: &str) -> String {
    host.strip_suffix('.').unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn reach(allow_private: &[&str]) -> Reach {
        let entries: Vec<String> = allow_private.iter().map(|entry| (*entry).to_owned()).collect();
        Reach::new(&entries, vec![8080]).unwrap()
    }

    fn open(reach: &Reach, host: &str, address: &str, guarded: bool) -> bool {
        reach.check(host, address.parse().unwrap(), guarded).is_ok()
    }

    #[test]
    fn a_private_address_is_refused_unless_its_host_or_range_is_listed() {
        let none = reach(&[]);
        assert!(open(&none, "example.org", "8.8.8.8", false));
        assert!(
            !open(&none, "example.org", "10.0.0.1", false),
            "a public name with a private address"
        );

        let some = reach(&["Build.Internal.", "10.0.0.0/8"]);
        assert!(open(&some, "anything", "10.1.2.3", false));
        assert!(open(&some, "anything", "::ffff:10.1.2.3", false));
        assert!(open(&some, "build.internal", "192.168.1.1", false));
        assert!(!open(&some, "other.internal", "192.168.1.1", false));
        assert!(!open(&some, "build.internal.evil.example", "192.168.1.1", false));
    }

    #[test]
    fn a_hosts_name_never_opens_the_metadata_service() {
        assert!(!open(&reach(&["build.internal"]), "build.internal", "169.254.169.254", false));
        assert!(open(&reach(&["169.254.169.254"]), "any", "169.254.169.254", false));
    }

    #[test]
    fn our_own_ports_on_this_machine_stay_shut_whatever_is_listed() {
        let all = reach(&["localhost", "0.0.0.0/0", "::/0"]);
        for address in ["127.0.0.1", "127.9.9.9", "::1", "0.0.0.0", "::", "::ffff:127.0.0.1"] {
            assert!(open(&all, "localhost", address, false), "{address}");
            assert!(!open(&all, "localhost", address, true), "{address}");
        }
        assert!(all.guards(8080) && !all.guards(80));
    }

    #[test]
    fn an_entry_that_is_neither_name_nor_range_is_an_error() {
        for entry in ["", "10.0.0.0/40", "10.0.0", "a b", "http://x", "*.internal", "x:80"] {
            assert!(Reach::new(&[entry.to_owned()], Vec::new()).is_err(), "{entry}");
        }
    }
}
