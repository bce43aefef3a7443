//! Which layers does this kernel offer? For `doctor`; a call itself asks the kernel, not this.
//!
//! Authority: the kernel. Invariant: asking restricts nothing.

use landlock::{
    Access as _, AccessFs, CompatLevel, Compatible as _, Ruleset, RulesetAttr as _, Scope,
};

use super::files;

/// The layers of the sandbox that this kernel has.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Serialize)]
pub struct Layers {
    /// Landlock for files and TCP: required.
    pub landlock_files_and_tcp: bool,
    /// Landlock for signals and abstract unix sockets: without it a tool may signal the worker.
    pub landlock_scopes: bool,
    /// Landlock for ioctls on devices.
    pub landlock_device_ioctls: bool,
    /// System call filters: required.
    pub seccomp: bool,
}

impl Layers {
    /// Whether tools run with [`Mode::Enforce`](super::Mode::Enforce).
    pub fn are_sufficient(&self) -> bool {
        self.landlock_files_and_tcp && self.seccomp
    }
}

/// Asks the kernel.
pub fn probe() -> Layers {
    let hard = || Ruleset::default().set_compatibility(CompatLevel::HardRequirement);
    Layers {
        landlock_files_and_tcp: files::required().and_then(Ruleset::create).is_ok(),
        landlock_scopes: hard()
            .scope(Scope::from_all(files::SCOPES))
            .and_then(Ruleset::create)
            .is_ok(),
        landlock_device_ioctls: hard()
            .handle_access(AccessFs::IoctlDev)
            .and_then(Ruleset::create)
            .is_ok(),
        seccomp: seccomp_filters(),
    }
}

/// The kernel lists what a filter may answer; without filters the file is missing.
fn seccomp_filters() -> bool {
    std::fs::read_to_string("/proc/sys/kernel/seccomp/actions_avail")
        .is_ok_and(|actions| actions.split_ascii_whitespace().any(|action| action == "errno"))
}
