//! A private Redis: start it, break it, bring it back with its data.

use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::ensure;
use rustix::process::Signal;

use super::folder::TempFolder;
use super::ports::PortLease;
use super::process::{Process, poll_until};
use super::programs;

const READY_MS_MAX: u64 = 20_000;
const ANSWER_MS: u64 = 1_000;
const START_TRIES_MAX: u32 = 4;

/// When Redis forces its append-only file to disk.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum AppendFsync {
    Always,
    EverySecond,
    No,
}

impl AppendFsync {
    fn word(self) -> &'static str {
        match self {
            Self::Always => "always",
            Self::EverySecond => "everysec",
            Self::No => "no",
        }
    }
}

/// How a private Redis is set up. The default is what production requires.
#[derive(Debug, Clone)]
pub struct RedisOptions {
    pub appendonly: bool,
    pub appendfsync: AppendFsync,
    pub maxmemory_policy: &'static str,
    /// A configuration file to start from instead of the settings above.
    pub conf: Option<PathBuf>,
    /// Further settings as `redis.conf` names them, such as `("replicaof", "127.0.0.1 6400")`.
    pub extra: Vec<(String, String)>,
}

impl Default for RedisOptions {
    fn default() -> Self {
        Self {
            appendonly: true,
            appendfsync: AppendFsync::Always,
            maxmemory_policy: "noeviction",
            conf: None,
            extra: Vec::new(),
        }
    }
}

/// A private `redis-server` on its own loopback port, killed on drop.
pub struct RedisServer {
    // Before the folder: the process must be gone when its files are removed.
    process: Process,
    port: PortLease,
    folder: TempFolder,
    options: RedisOptions,
}

impl RedisServer {
    /// Starts a Redis and waits until it answers a command.
    ///
    /// # Errors
    /// `redis-server` is not installed, refuses the options, or does not answer within 20 s.
    pub fn start(options: RedisOptions) -> anyhow::Result<Self> {
        let folder = TempFolder::new("redis")?;
        let mut tries = 0;
        loop {
            tries += 1;
            let port = PortLease::take()?;
            let process = launch(&options, port.port(), &folder)?;
            match await_answer(&process, port.port()) {
                Ok(()) => {
                    return Ok(Self { process, port, folder, options });
                }
                Err(_) if port_was_taken(&process) && tries < START_TRIES_MAX => {}
                Err(why) => return Err(why),
            }
        }
    }

    /// `redis://127.0.0.1:<port>/0`.
    #[must_use]
    pub fn url(&self) -> String {
        format!("redis://127.0.0.1:{}/0", self.port())
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.port.port()
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.process.pid()
    }

    /// The server's last lines, for a failed test's message.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log_text()
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.folder.path()
    }

    /// Kills it with -9 and waits until it is gone. Its data stays.
    ///
    /// # Errors
    /// The kernel refuses, or the process is not gone within 10 s.
    pub fn kill9(&mut self) -> anyhow::Result<()> {
        self.process.kill9()
    }

    /// Ends it in good order; its data stays.
    ///
    /// # Errors
    /// The kernel refuses the signals.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.process.stop()
    }

    /// Brings it back on the same port with the same data, stopping it first if it runs.
    ///
    /// # Errors
    /// It does not answer within 20 s.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.process.stop()?;
        self.process = launch(&self.options, self.port(), &self.folder)?;
        await_answer(&self.process, self.port())
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// It is not running.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.process.signal(Signal::STOP)
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Errors
    /// It is not running.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.process.signal(Signal::CONT)
    }
}

fn launch(options: &RedisOptions, port: u16, folder: &TempFolder) -> anyhow::Result<Process> {
    Process::start("redis-server", &programs::REDIS, |command: &mut Command| {
        command.current_dir(folder.path()).args(&options.conf);
        let mut set = |key: &str, value: &str| {
            command.arg(format!("--{key}")).args(value.split(' '));
        };
        set("port", &port.to_string());
        set("bind", "127.0.0.1");
        set("daemonize", "no");
        if options.conf.is_none() {
            set("appendonly", if options.appendonly { "yes" } else { "no" });
            set("appendfsync", options.appendfsync.word());
            set("maxmemory-policy", options.maxmemory_policy);
            // No snapshots: the append-only file is what production relies on.
            set("save", "");
        }
        for (key, value) in &options.extra {
            set(key, value);
        }
    })
}

fn await_answer(process: &Process, port: u16) -> anyhow::Result<()> {
    process.wait_for_line("eady to accept connections", READY_MS_MAX)?;
    let answers = poll_until(READY_MS_MAX, || answers(port));
    ensure!(answers, "redis-server does not answer; its last lines:\n{}", process.log_text());
    Ok(())
}

/// Any reply line will do: a server with a password answers PING with an error.
fn answers(port: u16) -> bool {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    let limit = Duration::from_millis(ANSWER_MS);
    let ping = || -> std::io::Result<bool> {
        let mut socket = TcpStream::connect_timeout(&address, limit)?;
        socket.set_read_timeout(Some(limit))?;
        socket.write_all(b"PING\r\n")?;
        let mut first = [0_u8; 1];
        socket.read_exact(&mut first)?;
        Ok(matches!(&first, b"+" | b"-"))
    };
    matches!(ping(), Ok(true))
}

fn port_was_taken(process: &Process) -> bool {
    process.log_text().contains("in use")
}
