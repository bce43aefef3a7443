//! Which Redis and which RabbitMQ does a test talk to?
//!
//! Always private ones: own loopback ports, own data folder, started here and stopped here.
//! Redis is cheap (10 ms), so each test starts its own. RabbitMQ takes seconds, so tests share one
//! and get a virtual host each ([`shared_rabbit`]); a test that breaks its broker starts its own
//! ([`RabbitServer::start`]). `with-servers` (a binary of this crate) holds the shared one for a
//! whole run of `make test`.
//!
//! Authority: the value that started a server; dropping it ends the server.
//! Invariant: nothing here touches a server it did not start, and a missing server program is an
//! error that names the package, never a skipped test.
//! If we crash here: the kernel kills the servers (parent death signal); a folder in the system's
//! temporary folder stays behind.

mod amqp;
mod descendants;
mod folder;
mod line;
mod management;
mod ports;
mod process;
mod programs;
mod rabbit_server;
mod redis_server;
mod vhost;

pub use amqp::{await_queue_depth, delete_queue, purge_queue, queue_depth};
pub use folder::TempFolder;
pub use line::Line;
pub use management::Management;
pub use ports::PortLease;
pub(crate) use process::{Process, poll_until};
pub use rabbit_server::{RabbitOptions, RabbitServer};
pub use redis_server::{AppendFsync, RedisOptions, RedisServer};
pub use vhost::{SHARED_RABBIT_PORTS, Vhost, shared_rabbit};
