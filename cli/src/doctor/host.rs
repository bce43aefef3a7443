//! Is this machine one on which tools can be shut in and deadlines kept?

use portcullis_engine::finding::Finding;
use portcullis_engine::surroundings::{Surroundings as _, System};
use portcullis_worker::sandbox::{self, Layers};
use rustix::process::Resource;

use crate::config::{Config, SandboxMode, ToolPlanKind};

/// The clock of a machine that was never set shows an earlier time than this release's, in
/// milliseconds since 1970: 2026-01-01.
const RELEASE_MS: i64 = 1_767_225_600_000;
/// How far `/proc/uptime` and the clock that leases are measured by may differ, in milliseconds.
const UPTIME_MS_MAX: i64 = 5_000;
/// Files that a process has open whatever it does.
const FILES_BASE: u64 = 128;
/// Files that one running tool costs its worker: pipes, a watch, a socket of the model or tool.
const FILES_PER_SLOT: u64 = 8;

pub(super) fn look(config: &Config) -> Vec<Finding> {
    let shells = config.agents.values().flat_map(|plan| plan.tools.values());
    let shells = shells.filter(|tool| matches!(tool.kind, ToolPlanKind::Shell(_))).count();
    vec![
        layers(config.sandbox, shells, sandbox::probe(), has_no_new_privs()),
        root(rustix::process::geteuid().is_root(), config),
        time_zones(jiff::tz::TimeZone::get("Europe/Berlin").map_err(|why| why.to_string())),
        clock(jiff::Timestamp::now()),
        boot_clock(uptime_ms(), System.boot_ms()),
        open_files(rustix::process::getrlimit(Resource::Nofile).current, config),
    ]
}

/// The kernel shows the bit of every process, where it knows it.
fn has_no_new_privs() -> bool {
    std::fs::read_to_string("/proc/self/status").is_ok_and(|text| text.contains("NoNewPrivs:"))
}

fn layers(mode: SandboxMode, shells: usize, layers: Layers, no_new_privs: bool) -> Finding {
    const CHECK: &str = "host-sandbox";
    match mode {
        SandboxMode::Off => {
            let why = "a tool can read the keys here, reach the API, and approve itself";
            let mend = "set `sandbox.mode` to enforce";
            match shells {
                0 => Finding::warning(CHECK, "it is off; no agent has a shell", why, mend),
                count => {
                    let found = format!("it is off, and {count} agents have a shell");
                    Finding::fatal(CHECK, found, why, mend)
                }
            }
        }
        SandboxMode::Enforce if !layers.are_sufficient() || !no_new_privs => Finding::fatal(
            CHECK,
            format!("this kernel lacks a layer: {layers:?}, no_new_privs: {no_new_privs}"),
            "no shell tool runs",
            "use Linux 6.7 or later with landlock and seccomp; in a container, allow their calls",
        ),
        SandboxMode::Enforce if !layers.landlock_scopes => Finding::warning(
            CHECK,
            "this kernel does not keep signals in",
            "a tool may signal processes of the same user, the worker included",
            "use Linux 6.12 or later, or `sandbox.uid`",
        ),
        SandboxMode::Enforce => Finding::fine(CHECK, "every layer is there"),
    }
}

fn root(is_root: bool, config: &Config) -> Finding {
    let tools = config.agents.values().flat_map(|plan| plan.tools.values());
    let shared = tools.filter(|tool| match &tool.kind {
        ToolPlanKind::Shell(shell) => shell.1.user.is_none(),
        ToolPlanKind::Http { .. } | ToolPlanKind::Child => false,
    });
    judge_root(is_root, shared.count())
}

/// `shared`: shell tools that run as the worker's own user.
fn judge_root(is_root: bool, shared: usize) -> Finding {
    const CHECK: &str = "host-root";
    if !is_root {
        return Finding::fine(CHECK, "this is not root");
    }
    if shared == 0 {
        return Finding::fine(CHECK, "this is root, and no tool is");
    }
    Finding::warning(
        CHECK,
        format!("this is root, and so are {shared} tools"),
        "what the sandbox does not stop, such as `chmod`, reaches every file",
        "run as a user of its own, or set `sandbox.uid` and `sandbox.gid`",
    )
}

fn time_zones<T>(found: Result<T, String>) -> Finding {
    const CHECK: &str = "host-time-zones";
    match found {
        Ok(_) => Finding::fine(CHECK, "the database is there"),
        Err(why) => Finding::warning(
            CHECK,
            why,
            "reminders with a time zone are not loaded",
            "install the package tzdata",
        ),
    }
}

fn clock(now: jiff::Timestamp) -> Finding {
    const CHECK: &str = "host-clock";
    let found = format!("it is {now}");
    if now.as_millisecond() < RELEASE_MS {
        let why = "requests and caps would end long ago or late";
        return Finding::fatal(CHECK, found, why, "set the clock, run an NTP client");
    }
    Finding::fine(CHECK, found)
}

fn uptime_ms() -> Option<i64> {
    let text = std::fs::read_to_string("/proc/uptime").ok()?;
    let seconds: f64 = text.split_ascii_whitespace().next()?.parse().ok()?;
    let milliseconds = std::time::Duration::try_from_secs_f64(seconds).ok()?.as_millis();
    i64::try_from(milliseconds).ok()
}

/// Leases and steps are measured by a clock that counts a suspended machine's sleep.
fn boot_clock(uptime: Option<i64>, boot: i64) -> Finding {
    const CHECK: &str = "host-boot-clock";
    let Some(uptime) = uptime else {
        return Finding::unseen(CHECK, "/proc/uptime cannot be read", "mount /proc");
    };
    let apart = (uptime - boot).abs();
    if apart <= UPTIME_MS_MAX {
        return Finding::fine(CHECK, "it counts from the machine's start");
    }
    Finding::warning(
        CHECK,
        format!("it is {apart} ms off /proc/uptime"),
        "the clock that leases are measured by may not count sleep: a worker that was suspended \
         could think its claim still holds",
        "run outside of the time namespace, or on a machine that is not suspended",
    )
}

fn open_files(limit: Option<u64>, config: &Config) -> Finding {
    let slots = config.worker.slots as u64;
    let served = config.http.webhooks_in_flight_max
        + config.http.requests_in_flight_max
        + config.http.streams_max;
    judge_open_files(limit, FILES_BASE + slots * FILES_PER_SLOT + served as u64)
}

/// `None`: there is no limit.
fn judge_open_files(limit: Option<u64>, needed: u64) -> Finding {
    const CHECK: &str = "host-open-files";
    match limit {
        Some(limit) if limit < needed => Finding::warning(
            CHECK,
            format!("{limit} may be open at once, and the slots and connections allow {needed}"),
            "under load, connections are not taken and tools do not start",
            format!(
                "raise it: `ulimit -n {needed}`, `LimitNOFILE=`; or lower `worker.slots` and \
                     the limits in [http]"
            ),
        ),
        Some(limit) => Finding::fine(CHECK, format!("{limit} may be open, {needed} are needed")),
        None => Finding::fine(CHECK, "no limit"),
    }
}

#[cfg(test)]
mod tests {
    use portcullis_engine::finding::Severity;

    use super::*;

    const ALL: Layers = Layers {
        landlock_files_and_tcp: true,
        landlock_scopes: true,
        landlock_device_ioctls: true,
        seccomp: true,
    };

    #[test]
    fn a_missing_layer_is_as_bad_as_what_it_keeps_out() {
        let enforced = |found: Layers, bit| layers(SandboxMode::Enforce, 1, found, bit).severity;
        assert_eq!(enforced(ALL, true), Severity::Fine);
        assert_eq!(enforced(ALL, false), Severity::Fatal);
        assert_eq!(enforced(Layers { seccomp: false, ..ALL }, true), Severity::Fatal);
        let no_files = Layers { landlock_files_and_tcp: false, ..ALL };
        assert_eq!(enforced(no_files, true), Severity::Fatal);
        assert_eq!(enforced(Layers { landlock_scopes: false, ..ALL }, true), Severity::Warning);
    }

    #[test]
    fn without_a_sandbox_an_agent_with_a_shell_can_approve_itself() {
        assert_eq!(layers(SandboxMode::Off, 1, ALL, true).severity, Severity::Fatal);
        assert_eq!(layers(SandboxMode::Off, 0, ALL, true).severity, Severity::Warning);
    }

    #[test]
    fn tools_of_root_are_told() {
        assert_eq!(judge_root(false, 3).severity, Severity::Fine);
        assert_eq!(judge_root(true, 0).severity, Severity::Fine);
        assert_eq!(judge_root(true, 1).severity, Severity::Warning);
    }

    #[test]
    fn clocks_that_were_never_set_or_do_not_count_sleep_are_told() {
        let at = |ms| clock(jiff::Timestamp::from_millisecond(ms).unwrap()).severity;
        assert_eq!((at(RELEASE_MS), at(RELEASE_MS - 1)), (Severity::Fine, Severity::Fatal));
        assert_eq!(boot_clock(Some(10_000), 5_000).severity, Severity::Fine);
        assert_eq!(boot_clock(Some(10_001), 5_000).severity, Severity::Warning);
        assert_eq!(boot_clock(None, 5_000).severity, Severity::Warning);
        assert_eq!(boot_clock(uptime_ms(), System.boot_ms()).severity, Severity::Fine);
    }

    #[test]
    fn too_few_open_files_and_no_time_zones_are_told() {
        assert_eq!(judge_open_files(Some(10), 11).severity, Severity::Warning);
        assert_eq!(judge_open_files(Some(11), 11).severity, Severity::Fine);
        assert_eq!(judge_open_files(None, 11).severity, Severity::Fine);
        assert_eq!(time_zones(Ok(())).severity, Severity::Fine);
        assert_eq!(time_zones::<()>(Err("gone".to_owned())).severity, Severity::Warning);
    }
}
