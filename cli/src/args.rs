//! Which commands are there, and what do they take?

use std::path::PathBuf;

use clap::{Args, Parser, Subcommand, ValueEnum};

use crate::config::FILE;

/// Runs unattended agents; what needs a person's yes waits for it, and is denied on time.
#[derive(Debug, Parser)]
#[command(name = "portcullis", version, disable_help_subcommand = true, max_term_width = 100)]
pub(crate) struct Cli {
    #[command(flatten)]
    pub(crate) global: Global,
    #[command(subcommand)]
    pub(crate) command: Command,
}

#[derive(Clone, Debug, Args)]
pub(crate) struct Global {
    /// The configuration file
    #[arg(long, global = true, env = "PORTCULLIS_CONFIG", default_value = FILE)]
    pub(crate) config: PathBuf,
    /// Answer in JSON
    #[arg(long, global = true)]
    pub(crate) json: bool,
}

/// How to reach a server.
#[derive(Clone, Debug, Args)]
pub(crate) struct Api {
    /// The server's address
    #[arg(long, env = "PORTCULLIS_API_URL", default_value = "http://127.0.0.1:8080")]
    pub(crate) api: String,
    /// A file with a token [default: `local.token` that `init` wrote, if it is there]
    #[arg(long)]
    pub(crate) token_file: Option<PathBuf>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Write a first portcullis.toml, keys and an approver
    Init(Init),
    /// Check the configuration and name everything that is wrong
    Validate,
    /// Run everything in one process
    Up(Serve),
    /// Run a scheduler: webhooks, reminders, API (needs Redis and RabbitMQ)
    Scheduler(Serve),
    /// Run a worker (needs Redis and RabbitMQ)
    Worker(Serve),
    /// Name every condition under which a promise would not hold, and say what to mend
    Doctor,
    /// Start, follow and explain runs
    #[command(subcommand)]
    Runs(Runs),
    /// See and decide what waits for a person
    #[command(subcommand)]
    Approvals(Approvals),
    /// Every open wait: who must act, and when it ends by itself
    Waits(Waits),
    /// See reminders
    #[command(subcommand)]
    Reminders(Reminders),
    /// See webhook routes
    #[command(subcommand)]
    Webhooks(Webhooks),
    /// Break a staging deployment on purpose, and judge what its tools did
    Torture(Torture),
    /// Print a JSON Schema
    #[command(subcommand)]
    Schema(Schema),
    /// Explain a command, or a topic: exit-codes, environment, configuration, command-line
    Help(Help),
}

#[derive(Debug, Args)]
pub(crate) struct Init {
    /// Where to write
    #[arg(default_value = ".")]
    pub(crate) folder: PathBuf,
}

#[derive(Debug, Args)]
pub(crate) struct Serve {}

#[derive(Debug, Args)]
pub(crate) struct Waits {
    #[command(flatten)]
    pub(crate) api: Api,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum PhaseName {
    Queued,
    Running,
    Waiting,
    Backoff,
    Ended,
}

impl PhaseName {
    pub(crate) const fn as_str(self) -> &'static str {
        match self {
            Self::Queued => "queued",
            Self::Running => "running",
            Self::Waiting => "waiting",
            Self::Backoff => "backoff",
            Self::Ended => "ended",
        }
    }
}

#[derive(Debug, Subcommand)]
pub(crate) enum Runs {
    /// List runs, newest first
    List {
        #[command(flatten)]
        api: Api,
        /// Only those in this phase
        #[arg(long)]
        phase: Option<PhaseName>,
        /// How many
        #[arg(long, default_value_t = 20, value_parser = clap::value_parser!(u16).range(1..=500))]
        limit: u16,
        /// The `next` of the page before
        #[arg(long)]
        after: Option<String>,
    },
    /// Show one run with its calls
    Show(OneRun),
    /// Print what happens to a run until it ends; exits by its outcome
    Follow(OneRun),
    /// Start a run
    Start(StartRun),
    /// Cancel a run
    Cancel {
        #[command(flatten)]
        run: OneRun,
        /// Why
        #[arg(long)]
        reason: Option<String>,
    },
    /// Tell a run's story: what it waits for, or why it ended as it did
    Why(OneRun),
}

#[derive(Debug, Args)]
pub(crate) struct OneRun {
    /// The run
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct StartRun {
    /// The agent
    pub(crate) agent: String,
    #[command(flatten)]
    pub(crate) api: Api,
    /// The input as JSON, `@file` to read it from a file, `-` from standard input
    #[arg(long, default_value = "{}")]
    pub(crate) input: String,
    /// The same key starts the same run only once
    #[arg(long)]
    pub(crate) key: Option<String>,
    /// Whose runs these are
    #[arg(long)]
    pub(crate) tenant: Option<String>,
    /// This approver has a session and will answer [default: nobody, the run is unattended]
    #[arg(long, value_name = "APPROVER")]
    pub(crate) attended_by: Option<String>,
    /// Give up if no worker has begun it within this time, such as 10m
    #[arg(long)]
    pub(crate) start_by: Option<String>,
    /// Follow it to its end; exits by its outcome
    #[arg(long)]
    pub(crate) wait: bool,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Approvals {
    /// List open requests, the most urgent first
    List {
        #[command(flatten)]
        api: Api,
        /// Only those of this pool
        #[arg(long)]
        pool: Option<String>,
    },
    /// Show one request: the exact call, who may decide, how long
    Show(OneApproval),
    /// Approve one exact call
    Approve(Decide),
    /// Deny it
    Deny(Decide),
    /// Print requests as they come and go
    Watch {
        #[command(flatten)]
        api: Api,
        /// Only those of this pool
        #[arg(long)]
        pool: Option<String>,
    },
}

#[derive(Debug, Args)]
pub(crate) struct OneApproval {
    /// The request
    pub(crate) id: String,
    #[command(flatten)]
    pub(crate) api: Api,
}

#[derive(Debug, Args)]
pub(crate) struct Decide {
    #[command(flatten)]
    pub(crate) approval: OneApproval,
    /// Told to the agent and kept with the decision
    #[arg(long)]
    pub(crate) reason: Option<String>,
    /// Decide only this exact call; `approvals show` prints its digest
    #[arg(long, value_name = "SHA256")]
    pub(crate) args_hash: Option<String>,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Reminders {
    /// List reminders and when they fire next
    List(Api),
}

#[derive(Debug, Subcommand)]
pub(crate) enum Webhooks {
    /// List routes
    List(Api),
}

#[derive(Debug, Args)]
pub(crate) struct Torture {
    #[command(flatten)]
    pub(crate) api: Api,
    /// Do it; without, only the plan is printed
    #[arg(long)]
    pub(crate) run: bool,
    /// Print what the deployment's configuration needs, and do nothing else
    #[arg(long)]
    pub(crate) print_config: bool,
    /// How many runs to start
    #[arg(long, default_value_t = 24, value_parser = clap::value_parser!(u16).range(1..=500))]
    pub(crate) runs: u16,
    /// How many workers to start here, to be killed and cut off; never others
    #[arg(long, default_value_t = 0, value_parser = clap::value_parser!(u8).range(0..=8))]
    pub(crate) workers: u8,
    /// Only this fault; may be given several times [default: all that can be done here]
    #[arg(long = "fault", value_name = "FAULT")]
    pub(crate) faults: Vec<Fault>,
    /// Where the tool appends its lines, seen from the configuration's folder
    #[arg(long, default_value = "torture/ledger.jsonl")]
    pub(crate) ledger: PathBuf,
    /// Sign as this approver and publish on the bus as well; with --key and --key-id
    #[arg(long, requires_all = ["key", "key_id"])]
    pub(crate) approver: Option<String>,
    /// Its Ed25519 key: PKCS#8, DER
    #[arg(long, requires = "approver")]
    pub(crate) key: Option<PathBuf>,
    /// The name of that key in the configuration
    #[arg(long, requires = "approver")]
    pub(crate) key_id: Option<String>,
    /// Also where the deployment says that it is production, or does not say what it is
    #[arg(long)]
    pub(crate) force_production: bool,
}

/// What goes wrong on purpose.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, ValueEnum)]
pub(crate) enum Fault {
    /// kill -9 of a worker that was started here
    Kill,
    /// Cut all connections of the workers that were started here
    Cut,
    /// Ring again for runs, out of order
    Wakes,
    /// The same decision several times
    Replay,
    /// Decisions with a wrong nonce, for other arguments, by strangers, with unknown keys
    Forge,
    /// A yes after the deadline
    Late,
    /// A yes, and then a no by the same approver
    Opposite,
}

#[derive(Debug, Subcommand)]
pub(crate) enum Schema {
    /// Of portcullis.toml
    Config,
    /// Of what `doctor --json` prints
    Doctor,
}

#[derive(Debug, Args)]
pub(crate) struct Help {
    /// A command, or a topic: exit-codes, environment, configuration, command-line
    pub(crate) topic: Vec<String>,
}
