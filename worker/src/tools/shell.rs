//! What does a program do, run on its own in the sandbox?
//!
//! The argv is executed as it was approved, never through a shell. The environment is made from
//! nothing. All that it starts is one process group, and when its leader ends, so does the group.
//!
//! Authority: the kernel says how the leader ended; its nonce says whether a refusal is the
//! helper's.
//! Invariant: at most one start; no process of the group is alive when this returns.
//! If we crash here: the leader dies with the worker, the group by the
//! [`Watch`](crate::sandbox::Watch).

mod args;
mod capture;
mod launcher;
mod supervise;

use std::collections::{BTreeMap, BTreeSet};
use std::ffi::OsString;
use std::io;
use std::os::unix::process::CommandExt as _;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use serde_json::{Value, json};
use tokio::time::Instant;

use crate::sandbox::{PolicyError, Refusal, RefusalCode, Sandbox, SandboxPolicy};
use crate::tools::{
    ArgsError, Invocation, NotRun, NotRunCode, Outcome, Tool, cancelled, timed_out,
};

use args::Args;
use launcher::{LaunchError, Launcher};
use supervise::watch_over;

/// Where programs are looked for, unless the settings say otherwise.
pub const PATH: &str = "/usr/local/sbin:/usr/local/bin:/usr/sbin:/usr/bin:/sbin:/bin";
/// Bytes of stdout, and of stderr, that a result keeps, unless the settings say otherwise.
pub const OUTPUT_BYTES_MAX: usize = 64 * 1024;
/// The least that the settings may say: a refusal of the helper must fit.
const OUTPUT_BYTES_FLOOR: usize = 4 * 1024;
/// The most that they may say.
const OUTPUT_BYTES_CEILING: usize = 4 * 1024 * 1024;

/// How programs are run.
#[derive(Debug, Clone)]
pub struct ShellSettings {
    /// The program and the leading arguments that lead to
    /// [`run_helper`](crate::sandbox::run_helper); `/proc/self/exe` stays the running worker even
    /// when its file is replaced.
    pub helper: Vec<OsString>,
    /// `PATH` of the tools; see [`PATH`].
    pub path: String,
    /// `LANG` and `TZ` of the tools, if any.
    pub lang: Option<String>,
    pub time_zone: Option<String>,
    /// Names that a call may set in the environment.
    pub env_allowed: BTreeSet<String>,
    /// Bytes kept of each stream; see [`OUTPUT_BYTES_MAX`].
    pub output_bytes_max: usize,
}

impl ShellSettings {
    pub fn new(helper: Vec<OsString>) -> Self {
        Self {
            helper,
            path: PATH.to_owned(),
            lang: None,
            time_zone: None,
            env_allowed: BTreeSet::new(),
            output_bytes_max: OUTPUT_BYTES_MAX,
        }
    }
}

/// Why the tool can't be set up.
#[derive(Debug, thiserror::Error)]
pub enum ShellError {
    #[error(transparent)]
    Policy(#[from] PolicyError),
    #[error("`{name}` in `env_allowed` is set by the worker itself; take it out")]
    ReservedEnv { name: String },
    #[error("`{name}` in `env_allowed` is no name of a variable; use letters, digits and `_`")]
    BadEnv { name: String },
    #[error("`output_bytes_max` is {bytes}; choose {OUTPUT_BYTES_FLOOR} to {OUTPUT_BYTES_CEILING}")]
    OutputLimit { bytes: usize },
    #[error("cannot prepare `{}` for temporary files", path.display())]
    TemporaryFolder { path: PathBuf, source: io::Error },
    #[error("cannot start the thread that starts tools")]
    Launcher(#[source] io::Error),
}

/// The tool `shell`.
pub struct Shell {
    settings: ShellSettings,
    sandbox: Sandbox,
    tmp_dir: PathBuf,
    launcher: Launcher,
}

impl Shell {
    /// Checks settings and policy as [`Shell::new`] does. Reads the file system, changes nothing.
    ///
    /// # Errors
    /// What is wrong with the settings or the folders, and the mend.
    pub fn check(settings: &ShellSettings, policy: SandboxPolicy) -> Result<(), ShellError> {
        prepare(settings, policy).map(drop)
    }

    /// Checks the settings and creates the folder for temporary files in the work folder.
    ///
    /// # Errors
    /// What is wrong with the settings or the folders, and the mend.
    pub fn new(settings: ShellSettings, policy: SandboxPolicy) -> Result<Self, ShellError> {
        let sandbox = prepare(&settings, policy)?;
        let tmp_dir = sandbox.work_dir().join("tmp");
        prepare_tmp(&tmp_dir, &sandbox)
            .map_err(|source| ShellError::TemporaryFolder { path: tmp_dir.clone(), source })?;
        let launcher = Launcher::start(settings.helper.clone()).map_err(ShellError::Launcher)?;
        Ok(Self { settings, sandbox, tmp_dir, launcher })
    }

    /// The folder to start in: resolved, and where the tool may look.
    fn cwd(&self, cwd: &str) -> Result<PathBuf, NotRun> {
        let refused = |why: &str| {
            let message = format!("cannot start in `{cwd}`: {why}");
            NotRun::new(NotRunCode::CwdRefused, message)
        };
        let path = self.sandbox.work_dir().join(cwd);
        let path = path.canonicalize().map_err(|error| refused(&error.to_string()))?;
        if !path.is_dir() {
            return Err(refused("it is not a folder"));
        }
        if !self.sandbox.shows(&path) {
            return Err(refused(
                "it is outside of the sandbox; choose a folder in the work folder",
            ));
        }
        Ok(path)
    }

    fn environment(&self, args: &Args, call: &Invocation) -> BTreeMap<String, OsString> {
        let mut env = BTreeMap::new();
        env.extend(args.env.iter().map(|(name, value)| (name.clone(), value.into())));
        // Ours come last: nothing that a call says replaces them.
        let mut set = |name: &str, value: OsString| env.insert(name.to_owned(), value);
        set("PATH", self.settings.path.clone().into());
        set("HOME", self.sandbox.work_dir().into());
        set("TMPDIR", self.tmp_dir.clone().into());
        if let Some(lang) = &self.settings.lang {
            set("LANG", lang.into());
        }
        if let Some(time_zone) = &self.settings.time_zone {
            set("TZ", time_zone.into());
        }
        set("PORTCULLIS_IDEMPOTENCY_KEY", call.idempotency_key.clone().into());
        set("PORTCULLIS_NOT_AFTER_MS", call.not_after_ms.to_string().into());
        set("PORTCULLIS_CLAIM_ID", call.claim_id.clone().into());
        env
    }

    fn command(&self, args: &Args, call: &Invocation, nonce: &str) -> Result<Command, NotRun> {
        let failed = |why: &str| NotRun::new(NotRunCode::SpawnFailed, why);
        let [program, leading @ ..] = self.settings.helper.as_slice() else {
            return Err(failed("no helper is configured"));
        };
        let plan = serde_json::to_string(&self.sandbox.plan(nonce.to_owned()))
            .map_err(|error| failed(&format!("cannot write the plan: {error}")))?;
        let mut command = Command::new(program);
        command
            .args(leading)
            .arg(plan)
            .args(&args.argv)
            .env_clear()
            .envs(self.environment(args, call))
            .current_dir(self.cwd(&args.cwd)?)
            .process_group(0)
            .stdin(if args.stdin.is_some() { Stdio::piped() } else { Stdio::null() })
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        if let Some(user) = self.sandbox.user() {
            command.uid(user.uid).gid(user.gid);
        }
        Ok(command)
    }

    async fn start_and_wait(&self, args: Args, call: &Invocation) -> Result<Outcome, NotRun> {
        let nonce = nonce()?;
        let command = self.command(&args, call, &nonce)?;
        let started = Instant::now();
        let launched = tokio::select! {
            launched = self.launcher.launch(command) => launched,
            () = call.cancel.cancelled() => return Ok(Outcome::Failed(cancelled())),
            () = tokio::time::sleep(call.timeout) => {
                return Ok(Outcome::Failed(timed_out(call.timeout)));
            }
        };
        let mut running = match launched {
            Ok(running) => running,
            Err(LaunchError::NotStarted(error)) => {
                let message = format!("cannot start the helper: {error}");
                return Err(NotRun::new(NotRunCode::SpawnFailed, message));
            }
            Err(LaunchError::Lost(error)) => {
                let error = json!({ "error": "outcome_unknown", "message": error.to_string() });
                return Ok(Outcome::Failed(error));
            }
        };
        let end = watch_over(&mut running, args.stdin, self.settings.output_bytes_max, call).await;
        let status = running.reap().await;
        if let Some(refusal) = end.refusal(status, &nonce) {
            return Err(refusal.into());
        }
        Ok(end.outcome(status, started.elapsed(), call))
    }
}

#[async_trait::async_trait]
impl Tool for Shell {
    fn name(&self) -> &str {
        "shell"
    }

    fn check(&self, args: &Value) -> Result<Value, ArgsError> {
        Args::read(args, &self.settings.env_allowed).map(Args::into_value)
    }

    async fn run(&self, call: Invocation) -> Outcome {
        let args = match Args::read(&call.args, &self.settings.env_allowed) {
            Ok(args) => args,
            Err(error) => return NotRun::new(NotRunCode::ArgsRefused, error.to_string()).into(),
        };
        if call.cancel.is_cancelled() {
            return NotRun::new(NotRunCode::Cancelled, "cancelled before the start").into();
        }
        match self.start_and_wait(args, &call).await {
            Ok(outcome) => outcome,
            Err(why) => why.into(),
        }
    }
}

impl From<Refusal> for NotRun {
    fn from(refusal: Refusal) -> Self {
        let code = match refusal.code {
            RefusalCode::SandboxUnavailable => NotRunCode::SandboxUnavailable,
            RefusalCode::SandboxFailed => NotRunCode::SandboxFailed,
            RefusalCode::ProgramNotFound => NotRunCode::ProgramNotFound,
            RefusalCode::ProgramRefused => NotRunCode::ProgramRefused,
        };
        Self::new(code, refusal.message)
    }
}

fn prepare(settings: &ShellSettings, policy: SandboxPolicy) -> Result<Sandbox, ShellError> {
    args::check_env_allowed(&settings.env_allowed)?;
    let bytes = settings.output_bytes_max;
    if !(OUTPUT_BYTES_FLOOR..=OUTPUT_BYTES_CEILING).contains(&bytes) {
        return Err(ShellError::OutputLimit { bytes });
    }
    Ok(Sandbox::new(policy)?)
}

fn nonce() -> Result<String, NotRun> {
    let mut bytes = [0_u8; 16];
    getrandom::fill(&mut bytes).map_err(|error| {
        NotRun::new(NotRunCode::SpawnFailed, format!("the kernel has no random bytes: {error}"))
    })?;
    Ok(format!("{:032x}", u128::from_be_bytes(bytes)))
}

/// A link of this name in the work folder, left by a tool, would lead the worker's `chown` astray.
fn prepare_tmp(path: &Path, sandbox: &Sandbox) -> io::Result<()> {
    match std::fs::create_dir(path) {
        Ok(()) => {}
        Err(error) if error.kind() == io::ErrorKind::AlreadyExists => {
            if !path.symlink_metadata()?.is_dir() {
                return Err(io::Error::new(io::ErrorKind::NotADirectory, "it is not a folder"));
            }
        }
        Err(error) => return Err(error),
    }
    match sandbox.user() {
        Some(user) => std::os::unix::fs::lchown(path, Some(user.uid), Some(user.gid)),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests;
