//! A private RabbitMQ: start it, break it, bring it back with its queues.
//!
//! Authority: this value. The broker, its `epmd` (on a private port) and their helpers are ours.
//! Invariant: node name, cookie, ports and folders are private, so that brokers of parallel tests
//! and a broker of the machine never meet.

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::{Ipv4Addr, SocketAddr, TcpStream};
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use anyhow::{Context as _, ensure};
use rustix::process::Signal;

use super::folder::TempFolder;
use super::management::Management;
use super::ports::PortLease;
use super::process::{Process, poll_until};
use super::programs;

const READY_MS_MAX: u64 = 90_000;
const ANSWER_MS: u64 = 2_000;
const QUEUES_ON_DISK_MS_MAX: u64 = 10_000;
const START_TRIES_MAX: u32 = 3;

/// How a private RabbitMQ is set up.
#[derive(Debug, Clone, Default)]
pub struct RabbitOptions {
    /// Lines added to its `rabbitmq.conf`.
    pub conf: Vec<String>,
    /// A definitions file it loads at every start. With one, the user `guest` is made only if the
    /// file has it.
    pub definitions: Option<PathBuf>,
}

/// A private `rabbitmq-server` with the management plugin, killed on drop.
pub struct RabbitServer {
    // The broker before its epmd, both before the folder with their files.
    broker: Process,
    _epmd: Process,
    node: Node,
}

/// What stays the same over restarts.
struct Node {
    amqp: PortLease,
    management: PortLease,
    distribution: PortLease,
    control: PortLease,
    epmd: PortLease,
    folder: TempFolder,
}

impl RabbitServer {
    /// Starts a RabbitMQ and waits until it speaks AMQP (about 5 s).
    ///
    /// # Errors
    /// `rabbitmq-server` is not installed, or it does not answer within 90 s.
    pub fn start() -> anyhow::Result<Self> {
        Self::start_with(&RabbitOptions::default())
    }

    /// Like [`start`](Self::start), with more settings.
    ///
    /// # Errors
    /// As [`start`](Self::start), or the broker refuses the settings.
    pub fn start_with(options: &RabbitOptions) -> anyhow::Result<Self> {
        let mut tries = 0;
        loop {
            tries += 1;
            let node = Node::lease()?;
            node.write_config(options)?;
            let epmd = node.launch_epmd()?;
            let broker = node.launch_broker()?;
            match node.await_answer(&broker) {
                Ok(()) => {
                    return Ok(Self { broker, _epmd: epmd, node });
                }
                Err(_) if port_was_taken(&broker) && tries < START_TRIES_MAX => {}
                Err(why) => return Err(why),
            }
        }
    }

    /// The default virtual host's address, as user `guest`.
    #[must_use]
    pub fn url(&self) -> String {
        self.url_as("guest", "guest", "%2f")
    }

    /// A virtual host's address as another user, both as they stand in an address.
    #[must_use]
    pub fn url_as(&self, user: &str, password: &str, vhost: &str) -> String {
        format!("amqp://{user}:{password}@127.0.0.1:{}/{vhost}", self.port())
    }

    #[must_use]
    pub fn port(&self) -> u16 {
        self.node.amqp.port()
    }

    /// Its HTTP management API.
    #[must_use]
    pub fn management(&self) -> Management {
        Management::new(self.node.management.port())
    }

    #[must_use]
    pub fn pid(&self) -> u32 {
        self.broker.pid()
    }

    /// The broker's last lines, for a failed test's message.
    #[must_use]
    pub fn log(&self) -> String {
        self.broker.log_text()
    }

    /// Where its files are.
    #[must_use]
    pub fn folder(&self) -> &Path {
        self.node.folder.path()
    }

    /// Waits until quorum queues just declared in the default virtual host survive a `kill9`.
    ///
    /// The broker writes the list of its quorum queues half a second after a declaration. Killed
    /// before that, it comes back with such a queue emptied and for ever without a leader.
    ///
    /// # Errors
    /// They are not on disk within 10 s.
    pub fn await_queues_on_disk(&self, queues: &[&str]) -> anyhow::Result<()> {
        let data = self.folder().join("data").join(self.node.name()).join("quorum");
        let list = data.join(self.node.name()).join("names.dets");
        let written = poll_until(QUEUES_ON_DISK_MS_MAX, || {
            let Ok(bytes) = fs::read(&list) else {
                return false;
            };
            let text = String::from_utf8_lossy(&bytes);
            queues.iter().all(|queue| text.contains(&format!("%2F_{queue}")))
        });
        ensure!(written, "{queues:?} are not in {} in time", list.display());
        Ok(())
    }

    /// Kills it with -9 and waits until it and its helpers are gone. Its data stays.
    ///
    /// # Errors
    /// The kernel refuses, or a process is not gone within 10 s.
    pub fn kill9(&mut self) -> anyhow::Result<()> {
        self.broker.kill9()
    }

    /// Ends it in good order; its data stays.
    ///
    /// # Errors
    /// The kernel refuses the signals.
    pub fn stop(&mut self) -> anyhow::Result<()> {
        self.broker.stop()
    }

    /// Brings it back on the same ports with the same data, stopping it first if it runs.
    ///
    /// # Errors
    /// It does not answer within 90 s.
    pub fn restart(&mut self) -> anyhow::Result<()> {
        self.broker.stop()?;
        self.broker = self.node.launch_broker()?;
        self.node.await_answer(&self.broker)
    }

    /// Freezes it (SIGSTOP): connections stay open and nothing answers.
    ///
    /// # Errors
    /// It is not running.
    pub fn pause(&self) -> anyhow::Result<()> {
        self.broker.signal(Signal::STOP)
    }

    /// Ends [`pause`](Self::pause).
    ///
    /// # Errors
    /// It is not running.
    pub fn resume(&self) -> anyhow::Result<()> {
        self.broker.signal(Signal::CONT)
    }

    /// Runs `rabbitmqctl` against this broker and returns what it prints (takes about 2 s).
    ///
    /// For what has no other way in: `["close_all_connections", "test"]` or
    /// `["set_vm_memory_high_watermark", "0"]` (an alarm: publishers are blocked).
    ///
    /// # Errors
    /// The command fails; the error has its output.
    pub fn control(&self, arguments: &[&str]) -> anyhow::Result<String> {
        let mut command = Command::new(programs::RABBIT_CTL.find()?);
        command.env_clear().env("PATH", programs::search_path()).env("LANG", "C.UTF-8");
        self.node.set_environment(&mut command);
        let output = command.args(["-q", "-n", &self.node.name()]).args(arguments).output()?;
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        let errors = String::from_utf8_lossy(&output.stderr);
        ensure!(output.status.success(), "rabbitmqctl {arguments:?}: {text}{errors}");
        Ok(text)
    }
}

impl Node {
    fn lease() -> anyhow::Result<Self> {
        Ok(Self {
            amqp: PortLease::take()?,
            management: PortLease::take()?,
            distribution: PortLease::take()?,
            control: PortLease::take()?,
            epmd: PortLease::take()?,
            folder: TempFolder::new("rabbitmq")?,
        })
    }

    /// An address instead of a name, so that nothing has to resolve.
    fn name(&self) -> String {
        format!("portcullis{}@127.0.0.1", self.amqp.port())
    }

    fn write_config(&self, options: &RabbitOptions) -> anyhow::Result<()> {
        let mut conf = vec![
            format!("listeners.tcp.1 = 127.0.0.1:{}", self.amqp.port()),
            "management.tcp.ip = 127.0.0.1".to_owned(),
            format!("management.tcp.port = {}", self.management.port()),
            "disk_free_limit.absolute = 50MB".to_owned(),
            "log.console = false".to_owned(),
        ];
        if let Some(file) = &options.definitions {
            conf.push(format!("load_definitions = {}", file.display()));
        }
        conf.extend(options.conf.iter().cloned());
        let folder = self.folder.path();
        for made in ["home", "data", "log"] {
            fs::create_dir(folder.join(made))?;
        }
        fs::write(folder.join("rabbitmq.conf"), conf.join("\n") + "\n")?;
        fs::write(folder.join("enabled_plugins"), "[rabbitmq_management].\n")?;
        fs::write(folder.join("rabbitmq-env.conf"), "").context("cannot set up RabbitMQ")
    }

    fn set_environment(&self, command: &mut Command) {
        let folder = self.folder.path();
        let control_port = self.control.port().to_string();
        command
            .env("HOME", folder.join("home")) // the cookie lives here
            .env("RABBITMQ_NODENAME", self.name())
            .env("RABBITMQ_USE_LONGNAME", "true")
            .env("RABBITMQ_CONF_ENV_FILE", folder.join("rabbitmq-env.conf"))
            .env("RABBITMQ_CTL_DIST_PORT_MIN", &control_port)
            .env("RABBITMQ_CTL_DIST_PORT_MAX", &control_port)
            .env("ERL_EPMD_ADDRESS", "127.0.0.1")
            .env("ERL_EPMD_PORT", self.epmd.port().to_string());
    }

    /// Ours, so that none is left running in the background on the machine's usual port.
    fn launch_epmd(&self) -> anyhow::Result<Process> {
        let port = self.epmd.port();
        let epmd = Process::start("epmd", &programs::EPMD, |command| {
            command.args(["-address", "127.0.0.1", "-port", &port.to_string()]);
        })?;
        let open = poll_until(ANSWER_MS, || connect(port).is_ok());
        ensure!(open, "epmd does not answer; its last lines:\n{}", epmd.log_text());
        Ok(epmd)
    }

    fn launch_broker(&self) -> anyhow::Result<Process> {
        let folder = self.folder.path();
        Process::start("rabbitmq-server", &programs::RABBIT, |command| {
            self.set_environment(command);
            command
                .current_dir(folder)
                // The script then becomes the broker, instead of staying between it and us.
                .env("RUNNING_UNDER_SYSTEMD", "true")
                .env("RABBITMQ_NODE_IP_ADDRESS", "127.0.0.1")
                .env("RABBITMQ_NODE_PORT", self.amqp.port().to_string())
                .env("RABBITMQ_DIST_PORT", self.distribution.port().to_string())
                .env("RABBITMQ_BASE", folder)
                .env("RABBITMQ_MNESIA_BASE", folder.join("data"))
                .env("RABBITMQ_LOG_BASE", folder.join("log"))
                .env("RABBITMQ_GENERATED_CONFIG_DIR", folder.join("generated"))
                .env("RABBITMQ_CONFIG_FILE", folder.join("rabbitmq"))
                .env("RABBITMQ_ENABLED_PLUGINS_FILE", folder.join("enabled_plugins"))
                .env(
                    "RABBITMQ_SERVER_ADDITIONAL_ERL_ARGS",
                    // Idle schedulers must not spin: many brokers share few cores.
                    "-kernel inet_dist_use_interface {127,0,0,1} +sbwt none",
                );
        })
    }

    fn await_answer(&self, broker: &Process) -> anyhow::Result<()> {
        broker.wait_for_line("completed with", READY_MS_MAX)?;
        let answers = poll_until(READY_MS_MAX, || speaks_amqp(self.amqp.port()));
        ensure!(answers, "rabbitmq-server does not answer:\n{}", broker.log_text());
        Ok(())
    }
}

fn connect(port: u16) -> std::io::Result<TcpStream> {
    let address = SocketAddr::from((Ipv4Addr::LOCALHOST, port));
    TcpStream::connect_timeout(&address, Duration::from_millis(ANSWER_MS))
}

/// Whether the broker answers the protocol header with a method frame (`connection.start`).
fn speaks_amqp(port: u16) -> bool {
    let greet = || -> std::io::Result<bool> {
        let mut socket = connect(port)?;
        socket.set_read_timeout(Some(Duration::from_millis(ANSWER_MS)))?;
        socket.write_all(b"AMQP\x00\x00\x09\x01")?;
        let mut frame_kind = [0_u8; 1];
        socket.read_exact(&mut frame_kind)?;
        Ok(frame_kind == [1])
    };
    matches!(greet(), Ok(true))
}

fn port_was_taken(broker: &Process) -> bool {
    let says_so = |line: &str| line.contains("port") && line.contains("in use");
    let log = broker.log_text();
    log.contains("eaddrinuse") || log.lines().any(says_so)
}
