//! How does the helper become the tool?
//!
//! Authority: the plan in the first argument. The process has one thread and has read nothing yet:
//! landlock and seccomp bind the calling thread, so this runs before any runtime starts.
//! Invariant: `execve` is the last step; every failure before it ends in a signed refusal, and then
//! nothing of the tool has run.

use std::convert::Infallible;
use std::ffi::OsString;
use std::io::{self, Write as _};
use std::os::unix::process::CommandExt as _;
use std::process::Command;

use rustix::process::{self, Resource, Rlimit, Signal};

use super::plan::{Plan, PlanLimits, REFUSED_EXIT_CODE, Refusal, RefusalCode};
use super::{files, syscalls, watch};

/// Runs the helper: `args` are the plan, then the tool's argv. Never returns: it becomes the tool,
/// or exits. Call it first thing in `main`, before a runtime, a logger or a thread is started.
pub fn run_helper(args: impl IntoIterator<Item = OsString>) -> ! {
    let mut args = args.into_iter();
    let plan = args.next().and_then(|plan| serde_json::from_str(plan.to_str()?).ok());
    let refusal = match plan {
        Some(plan @ Plan::Exec { .. }) => become_tool(plan, args.collect()),
        Some(Plan::Watch {}) => {
            watch::kill_when_stdin_ends(io::stdin().lock());
            std::process::exit(0)
        }
        None => Refusal::new(RefusalCode::SandboxFailed, "the plan is unreadable"),
    };
    report(&refusal);
    std::process::exit(REFUSED_EXIT_CODE)
}

fn become_tool(plan: Plan, argv: Vec<OsString>) -> Refusal {
    let nonce = match &plan {
        Plan::Exec { nonce, .. } => nonce.clone(),
        Plan::Watch {} => String::new(),
    };
    match try_become_tool(plan, &argv) {
        Err(refusal) => refusal.signed(&nonce),
        Ok(never) => match never {},
    }
}

fn try_become_tool(plan: Plan, argv: &[OsString]) -> Result<Infallible, Refusal> {
    let failed = |message: &str| Refusal::new(RefusalCode::SandboxFailed, message);
    let Plan::Exec { parent_pid, enforce, paths, network, detach, limits, .. } = plan else {
        return Err(failed("the plan starts no tool"));
    };
    let [program, args @ ..] = argv else {
        return Err(failed("the argv is empty"));
    };
    limit(limits)?;
    die_with(parent_pid)?;
    // Ours are marked already; this is about what the worker itself has inherited from its
    // launcher.
    close_fds::set_fds_cloexec(3, &[]);
    if enforce {
        files::restrict(&paths, &network)?;
        syscalls::restrict(&network, detach)?;
    }
    let error = Command::new(program).args(args).exec();
    Err(not_started(program, &error))
}

fn limit(limits: PlanLimits) -> Result<(), Refusal> {
    let wanted = [
        (Resource::Core, Some(0)),
        (Resource::Nofile, limits.open_files_max),
        (Resource::As, limits.address_space_bytes_max),
        (Resource::Cpu, limits.cpu_seconds_max),
        (Resource::Nproc, limits.processes_max),
        (Resource::Fsize, limits.file_bytes_max),
    ];
    for (resource, max) in wanted {
        let Some(max) = max else { continue };
        let hard = process::getrlimit(resource).maximum;
        let max = hard.map_or(max, |hard| hard.min(max));
        let limit = Rlimit { current: Some(max), maximum: Some(max) };
        process::setrlimit(resource, limit).map_err(|error| {
            let message = format!("cannot set the limit {resource:?} to {max}: {error}");
            Refusal::new(RefusalCode::SandboxFailed, message)
        })?;
    }
    Ok(())
}

/// Dies when the worker does. A worker that died before we asked is noticed by its absence.
fn die_with(parent_pid: u32) -> Result<(), Refusal> {
    let failed = |message: String| Refusal::new(RefusalCode::SandboxFailed, message);
    process::set_parent_process_death_signal(Some(Signal::KILL))
        .map_err(|error| failed(format!("cannot ask to die with the worker: {error}")))?;
    let parent = process::getppid().map(|pid| pid.as_raw_pid().unsigned_abs());
    if parent != Some(parent_pid) {
        return Err(failed("the worker is gone".to_owned()));
    }
    Ok(())
}

/// `exec` returned, so nothing has started.
fn not_started(program: &OsString, error: &io::Error) -> Refusal {
    let program = program.display();
    if error.kind() == io::ErrorKind::NotFound {
        let message = format!("no program `{program}`, or its interpreter is missing");
        return Refusal::new(RefusalCode::ProgramNotFound, message);
    }
    Refusal::new(RefusalCode::ProgramRefused, format!("cannot run `{program}`: {error}"))
}

fn report(refusal: &Refusal) {
    // A refusal that can't be written is read as a failed tool: the careful reading.
    if let Ok(mut line) = serde_json::to_vec(refusal) {
        line.push(b'\n');
        io::stderr().write_all(&line).ok();
    }
}
