//! Asks a private RabbitMQ's HTTP management API: virtual hosts, users, permissions, definitions.
//!
//! A blocking client of forty lines, because a virtual host is also removed in `drop`.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::time::Duration;

use anyhow::{Context as _, bail, ensure};

const ANSWER_MS_MAX: u64 = 30_000;
const BODY_BYTES_MAX: u64 = 16 << 20;

/// The management API of one private RabbitMQ, as user `guest` unless told otherwise.
#[derive(Debug, Clone)]
pub struct Management {
    port: u16,
    credentials: String,
}

impl Management {
    pub(super) fn new(port: u16) -> Self {
        Self { port, credentials: "guest:guest".to_owned() }
    }

    /// The same API as another user.
    #[must_use]
    pub fn as_user(&self, name: &str, password: &str) -> Self {
        Self { port: self.port, credentials: format!("{name}:{password}") }
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// `GET path`, which starts with `/api/`, as JSON.
    ///
    /// # Errors
    /// No answer within 30 s, a status other than 2xx, or a body that is not JSON.
    pub fn get(&self, path: &str) -> anyhow::Result<serde_json::Value> {
        let body = self.request("GET", path, None)?;
        serde_json::from_str(&body).with_context(|| format!("GET {path} is not JSON: {body}"))
    }

    /// `PUT path` with a JSON body.
    ///
    /// # Errors
    /// No answer within 30 s, or a status other than 2xx.
    pub fn put(&self, path: &str, body: &serde_json::Value) -> anyhow::Result<()> {
        self.request("PUT", path, Some(body)).map(drop)
    }

    /// `POST path` with a JSON body.
    ///
    /// # Errors
    /// No answer within 30 s, or a status other than 2xx.
    pub fn post(&self, path: &str, body: &serde_json::Value) -> anyhow::Result<()> {
        self.request("POST", path, Some(body)).map(drop)
    }

    /// `DELETE path`.
    ///
    /// # Errors
    /// No answer within 30 s, or a status other than 2xx.
    pub fn delete(&self, path: &str) -> anyhow::Result<()> {
        self.request("DELETE", path, None).map(drop)
    }

    fn request(
        &self,
        method: &str,
        path: &str,
        body: Option<&serde_json::Value>,
    ) -> anyhow::Result<String> {
        let address = SocketAddr::from((Ipv4Addr::LOCALHOST, self.port));
        let limit = Duration::from_millis(ANSWER_MS_MAX);
        let mut socket = TcpStream::connect_timeout(&address, limit)
            .with_context(|| format!("RabbitMQ's management port {} is closed", self.port))?;
        socket.set_read_timeout(Some(limit))?;
        let body = body.map(ToString::to_string).into_iter().collect::<String>();
        let credentials = data_encoding::BASE64.encode(self.credentials.as_bytes());
        write!(
            socket,
            "{method} {path} HTTP/1.0\r\nhost: 127.0.0.1\r\nauthorization: Basic {credentials}\r\n\
             content-type: application/json\r\ncontent-length: {}\r\n\r\n{body}",
            body.len()
        )?;
        let mut answer = String::new();
        socket.take(BODY_BYTES_MAX).read_to_string(&mut answer)?;
        let (head, body) = answer.split_once("\r\n\r\n").context("an answer without an end")?;
        let status = head.split(' ').nth(1).context("an answer without a status")?;
        ensure!(status.len() == 3, "an answer with status {status}");
        if !status.starts_with('2') {
            bail!("{method} {path}: {status} {body}");
        }
        Ok(body.to_owned())
    }
}
