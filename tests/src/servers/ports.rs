//! Which loopback port may a private server use?
//!
//! Authority: a locked file per port, shared by all test processes of this user.
//! Invariant: two leases of the same port never live at once; a leased port lies below the range
//! from which the kernel picks ports for outgoing connections, so that none takes it while a server
//! restarts.
//! If we crash here: the kernel drops the lock with the process.

use std::fs::{self, File};
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;

use anyhow::{Context as _, bail};

const PORT_MIN: u16 = 10_240;
const TRIES_MAX: u32 = 200;

/// A loopback port that no other lease has, for as long as this value lives.
#[derive(Debug)]
pub struct PortLease {
    port: u16,
    _lock: File,
}

impl PortLease {
    /// Leases a port on which nothing listens.
    ///
    /// A program that takes no leases may still grab it, so who starts a server retries with
    /// another port.
    ///
    /// # Errors
    /// No free port after 200 tries, or the temporary folder is not writable.
    pub fn take() -> anyhow::Result<Self> {
        let folder = lock_folder()?;
        let port_end = outgoing_ports_start();
        for _ in 0..TRIES_MAX {
            let port = random_port(port_end)?;
            let path = folder.join(port.to_string());
            let lock = File::options().create(true).append(true).open(&path);
            let lock = lock.with_context(|| format!("cannot open {}", path.display()))?;
            if lock.try_lock().is_ok() && is_free(port) {
                return Ok(Self { port, _lock: lock });
            }
        }
        bail!("no free loopback port between {PORT_MIN} and {port_end} in {TRIES_MAX} tries")
    }

    /// The port's number.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

fn lock_folder() -> anyhow::Result<PathBuf> {
    let user = rustix::process::getuid().as_raw();
    let folder = std::env::temp_dir().join(format!("portcullis-ports-{user}"));
    fs::create_dir_all(&folder).with_context(|| format!("cannot make {}", folder.display()))?;
    Ok(folder)
}

fn is_free(port: u16) -> bool {
    TcpListener::bind((Ipv4Addr::LOCALHOST, port)).is_ok()
}

fn random_port(end: u16) -> anyhow::Result<u16> {
    let mut bytes = [0_u8; 2];
    getrandom::fill(&mut bytes).map_err(|why| anyhow::anyhow!("no random bytes: {why}"))?;
    Ok(PORT_MIN + u16::from_le_bytes(bytes) % (end - PORT_MIN))
}

/// First port the kernel may give to an outgoing connection; Linux's default when it does not say.
fn outgoing_ports_start() -> u16 {
    let range = fs::read_to_string("/proc/sys/net/ipv4/ip_local_port_range");
    let first = range.ok().and_then(|text| text.split_whitespace().next()?.parse().ok());
    match first {
        Some(start) if PORT_MIN + 1_000 < start => start,
        Some(_) | None => 32_768,
    }
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use super::PortLease;

    #[test]
    fn two_living_leases_never_share_a_port() {
        let leases: Vec<_> = (0..100).map(|_| PortLease::take().unwrap()).collect();
        let ports: HashSet<_> = leases.iter().map(PortLease::port).collect();
        assert_eq!(ports.len(), leases.len());
    }
}
