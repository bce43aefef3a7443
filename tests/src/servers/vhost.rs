//! Which part of a shared RabbitMQ is this test's own?
//!
//! Authority: the shared broker's list of virtual hosts; names are random, so tests never meet.
//! If we crash here: a virtual host stays until its broker ends, with the run.

use std::sync::{Arc, Mutex, PoisonError, Weak};

use anyhow::Context as _;
use serde_json::json;

use super::folder::random_hex;
use super::management::Management;
use super::rabbit_server::RabbitServer;

/// Names the broker of a whole test run: `<AMQP port>,<management port>`, set by `with-servers`.
pub const SHARED_RABBIT_PORTS: &str = "TEST_RABBIT_PORTS";

/// A virtual host of its own on a shared RabbitMQ, deleted with all its queues on drop.
pub struct Vhost {
    name: String,
    port: u16,
    management: Management,
    /// Keeps this process's own broker up while somebody uses it.
    _server: Option<Arc<RabbitServer>>,
}

/// A fresh virtual host on the run's RabbitMQ; alone, on one that this process starts.
///
/// For every test that leaves the broker itself in peace. One that kills, stops or freezes it
/// takes [`RabbitServer::start`].
///
/// # Errors
/// There is no RabbitMQ and none can be started, or it refuses the virtual host.
pub fn shared_rabbit() -> anyhow::Result<Vhost> {
    match run_ports()? {
        Some((port, management)) => Vhost::create(port, Management::new(management), None),
        None => {
            let server = process_rabbit()?;
            Vhost::create(server.port(), server.management(), Some(server))
        }
    }
}

impl Vhost {
    fn create(
        port: u16,
        management: Management,
        server: Option<Arc<RabbitServer>>,
    ) -> anyhow::Result<Self> {
        let name = format!("test-{}", random_hex()?);
        management.put(&format!("/api/vhosts/{name}"), &json!({}))?;
        let all = json!({ "configure": ".*", "write": ".*", "read": ".*" });
        management.put(&format!("/api/permissions/{name}/guest"), &all)?;
        Ok(Self { name, port, management, _server: server })
    }

    /// Its AMQP address, as user `guest`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("amqp://guest:guest@127.0.0.1:{}/{}", self.port, self.name)
    }

    /// The port of the broker it lives on.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Its name, as the management API's paths want it.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The management API of the broker it lives on.
    #[must_use]
    pub fn management(&self) -> &Management {
        &self.management
    }
}

impl Drop for Vhost {
    fn drop(&mut self) {
        if let Err(why) = self.management.delete(&format!("/api/vhosts/{}", self.name)) {
            eprintln!("virtual host {} stays behind: {why:#}", self.name);
        }
    }
}

#[expect(clippy::disallowed_methods, reason = "the harness's edge: set by `with-servers`")]
fn run_ports() -> anyhow::Result<Option<(u16, u16)>> {
    let Ok(text) = std::env::var(SHARED_RABBIT_PORTS) else {
        return Ok(None);
    };
    let parse = || {
        let (amqp, management) = text.split_once(',')?;
        Some((amqp.parse().ok()?, management.parse().ok()?))
    };
    let ports = parse().with_context(|| {
        format!("{SHARED_RABBIT_PORTS}={text}: must be `<AMQP port>,<management port>`, or unset")
    })?;
    Ok(Some(ports))
}

/// One broker per process, ended with its last user.
fn process_rabbit() -> anyhow::Result<Arc<RabbitServer>> {
    static SERVER: Mutex<Weak<RabbitServer>> = Mutex::new(Weak::new());
    let mut place = SERVER.lock().unwrap_or_else(PoisonError::into_inner);
    if let Some(server) = place.upgrade() {
        return Ok(server);
    }
    let server = Arc::new(RabbitServer::start()?);
    *place = Arc::downgrade(&server);
    Ok(server)
}
