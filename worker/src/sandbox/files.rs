//! Which files and TCP ports does the kernel leave to this process?
//!
//! Authority: landlock. Invariant: everything that a right of ABI 4 covers is denied unless a rule
//! of the plan allows it; a kernel without those rights is an error, never a weaker sandbox.
//! Device files can't be made, even by root: a tool with a block device of its own would read
//! every file.

use landlock::{
    ABI, Access, AccessFs, AccessNet, BitFlags, CompatLevel, Compatible, NetPort, PathBeneath,
    PathFd, RestrictionStatus, Ruleset, RulesetAttr, RulesetCreated, RulesetCreatedAttr,
    RulesetError, RulesetStatus, Scope, make_bitflags,
};
use std::path::Path;

use super::plan::{Network, PathRules, Refusal, RefusalCode};

/// Files and TCP. Linux 6.7.
pub(super) const REQUIRED: ABI = ABI::V4;
/// Signals and abstract unix sockets. Linux 6.12.
pub(super) const SCOPES: ABI = ABI::V6;

/// What every program expects to find, whoever forgot to list it: (path, may be written).
const DEVICES: &[(&str, bool)] = &[
    ("/dev/null", true),
    ("/dev/zero", true),
    ("/dev/full", true),
    ("/dev/random", false),
    ("/dev/urandom", false),
];

/// Narrows the calling thread for good. The process must have no other thread.
pub(super) fn restrict(paths: &PathRules, network: &Network) -> Result<(), Refusal> {
    let ruleset = handled()?;
    let ruleset = allow_paths(ruleset, paths)?;
    let ruleset = allow_ports(ruleset, network)?;
    let RestrictionStatus { ruleset, no_new_privs, .. } =
        ruleset.restrict_self().map_err(failed)?;
    match ruleset {
        // «Partially»: the scopes or device ioctls of a newer kernel are missing. `doctor` says so.
        RulesetStatus::FullyEnforced | RulesetStatus::PartiallyEnforced if no_new_privs => Ok(()),
        RulesetStatus::FullyEnforced
        | RulesetStatus::PartiallyEnforced
        | RulesetStatus::NotEnforced => {
            Err(Refusal::new(RefusalCode::SandboxFailed, "landlock is not in force"))
        }
    }
}

fn handled() -> Result<RulesetCreated, Refusal> {
    required()
        .and_then(|ruleset| {
            ruleset
                .set_compatibility(CompatLevel::BestEffort)
                .handle_access(AccessFs::IoctlDev)?
                .scope(Scope::from_all(SCOPES))?
                .set_compatibility(CompatLevel::HardRequirement)
                .create()
        })
        .map_err(|error| {
            let message = format!("this kernel lacks landlock for files and TCP (6.7): {error}");
            Refusal::new(RefusalCode::SandboxUnavailable, message)
        })
}

/// The rights without which no tool runs.
pub(super) fn required() -> Result<Ruleset, RulesetError> {
    Ruleset::default()
        .set_compatibility(CompatLevel::HardRequirement)
        .handle_access(AccessFs::from_all(REQUIRED))?
        .handle_access(AccessNet::from_all(REQUIRED))
}

fn allow_paths(mut ruleset: RulesetCreated, paths: &PathRules) -> Result<RulesetCreated, Refusal> {
    let read = AccessFs::from_read(REQUIRED);
    let write = AccessFs::from_all(REQUIRED) & !make_bitflags!(AccessFs::{MakeChar | MakeBlock});
    for path in &paths.read_only {
        ruleset = allow(ruleset, path, read)?;
    }
    for path in &paths.read_write {
        ruleset = allow(ruleset, path, write)?;
    }
    // This process and, since `execve` keeps its id, the tool's leader. Not the worker's entry.
    ruleset = allow(ruleset, Path::new("/proc/self"), read)?;
    for (path, writable) in DEVICES {
        let path = Path::new(path);
        if path.exists() {
            let written = make_bitflags!(AccessFs::{ReadFile | WriteFile});
            let access = if *writable { written } else { AccessFs::ReadFile.into() };
            ruleset = allow(ruleset, path, access)?;
        }
    }
    Ok(ruleset)
}

fn allow(
    ruleset: RulesetCreated,
    path: &Path,
    access: BitFlags<AccessFs>,
) -> Result<RulesetCreated, Refusal> {
    let why = |error: String| {
        let message = format!("cannot open `{}` to the tool: {error}", path.display());
        Refusal::new(RefusalCode::SandboxFailed, message)
    };
    let fd = PathFd::new(path).map_err(|error| why(error.to_string()))?;
    // A right that only folders have is an error on a file.
    let access = if path.is_dir() { access } else { access & AccessFs::from_file(REQUIRED) };
    ruleset.add_rule(PathBeneath::new(fd, access)).map_err(|error| why(error.to_string()))
}

fn allow_ports(mut ruleset: RulesetCreated, network: &Network) -> Result<RulesetCreated, Refusal> {
    for &port in &network.connect_ports {
        ruleset = ruleset.add_rule(NetPort::new(port, AccessNet::ConnectTcp)).map_err(failed)?;
    }
    Ok(ruleset)
}

fn failed(error: RulesetError) -> Refusal {
    Refusal::new(RefusalCode::SandboxFailed, format!("landlock: {error}"))
}
