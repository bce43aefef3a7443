//! Is the sandbox that the settings describe one that keeps its promises?
//!
//! Authority: the settings, read once. The file system is looked at when the policy is loaded, so
//! symlinks are resolved then; a link that moves later moves nothing that a tool may reach.
//! Invariant: no path that must stay hidden lies under a path that a tool may read, and no port of
//! our own is among those that it may connect to. Both are settings errors, not runtime surprises.
//!
//! Landlock only allows, it can't carve a hole out of an allowed tree. Listing the siblings of a
//! denied path instead would freeze a snapshot of a folder, so such a policy is refused and the
//! defaults are narrow enough (`/etc` only file by file) that it does not happen by itself.

use std::io;
use std::path::{Path, PathBuf};

use super::plan::{Network, PathRules, Plan};

/// Whether the layers are on. There is no default: switching the sandbox off is written out.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Mode {
    /// Every required layer, or the tool doesn't run.
    Enforce,
    /// Only limits, the parent-death signal and the process group. The tool can reach everything
    /// the worker's user can, the approvals API included.
    Off,
}

/// Another user for tools. Only a worker that runs as root can use it; the work folder should be
/// this user's to write.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct User {
    pub uid: u32,
    pub gid: u32,
}

/// Resource limits of each process of a tool; `None` leaves the worker's own. Core dumps are always
/// off. A limit above the worker's hard limit is lowered to it.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct Limits {
    /// Open file descriptors.
    pub open_files_max: Option<u64>,
    /// Bytes of address space.
    pub address_space_bytes_max: Option<u64>,
    /// Seconds of processor time.
    pub cpu_seconds_max: Option<u64>,
    /// Processes of the tool's *user*, those outside of the tool included: use with [`User`].
    pub processes_max: Option<u64>,
    /// Bytes of one file that it writes.
    pub file_bytes_max: Option<u64>,
}

impl Limits {
    /// 1 024 open files, nothing else.
    pub const MODEST: Self = Self {
        open_files_max: Some(1024),
        address_space_bytes_max: None,
        cpu_seconds_max: None,
        processes_max: None,
        file_bytes_max: None,
    };
}

/// What tools may touch, as the settings say it.
#[derive(Debug, Clone)]
pub struct SandboxPolicy {
    pub mode: Mode,
    /// Where tools start and may write. It must exist. It may lie in a denied folder: only it
    /// opens.
    pub work_dir: PathBuf,
    /// Paths that may be read and executed; folders with all below. Default: [`system_paths`].
    ///
    /// [`system_paths`]: SandboxPolicy::system_paths
    pub read_only: Vec<PathBuf>,
    /// Further paths that may be written; folders with all below.
    pub read_write: Vec<PathBuf>,
    /// What must stay hidden: the data folder, key and token files, the configuration. Need not
    /// exist.
    pub denied: Vec<PathBuf>,
    /// TCP ports that tools may connect to, on any host. None: tools get no internet sockets at
    /// all.
    pub connect_ports: Vec<u16>,
    /// The ports of the API, Redis and RabbitMQ, which must not be among `connect_ports`.
    pub guarded_ports: Vec<u16>,
    /// Allows UDP, without which most resolvers find nothing. To any host and port: landlock does
    /// not see UDP.
    pub dns: bool,
    /// Allows unix sockets. Landlock does not see those either: with a container engine's or a
    /// Redis socket on the host, this is a way out.
    pub unix_sockets: bool,
    /// Allows leaving the process group (`setsid`, `setpgid`). Such a process outlives its call.
    /// Some build tools (ninja) need it.
    pub detach: bool,
    pub limits: Limits,
    pub user: Option<User>,
}

impl SandboxPolicy {
    /// The strictest policy that ordinary programs run under.
    pub fn new(mode: Mode, work_dir: PathBuf) -> Self {
        Self {
            mode,
            work_dir,
            read_only: Self::system_paths(),
            read_write: Vec::new(),
            denied: Vec::new(),
            connect_ports: Vec::new(),
            guarded_ports: Vec::new(),
            dns: false,
            unix_sockets: false,
            detach: false,
            limits: Limits::MODEST,
            user: None,
        }
    }

    /// Programs, libraries and the harmless part of `/etc`, as far as they exist here. Not the
    /// whole of `/etc`: servers keep their passwords there.
    pub fn system_paths() -> Vec<PathBuf> {
        const PATHS: &[&str] = &[
            "/usr",
            "/bin",
            "/sbin",
            "/lib",
            "/lib32",
            "/lib64",
            "/opt",
            "/etc/alternatives",
            "/etc/ca-certificates",
            "/etc/ca-certificates.conf",
            "/etc/gai.conf",
            "/etc/group",
            "/etc/host.conf",
            "/etc/hosts",
            "/etc/inputrc",
            "/etc/ld.so.cache",
            "/etc/ld.so.conf",
            "/etc/ld.so.conf.d",
            "/etc/locale.alias",
            "/etc/localtime",
            "/etc/mime.types",
            "/etc/nsswitch.conf",
            "/etc/os-release",
            "/etc/passwd",
            "/etc/perl",
            "/etc/pki/ca-trust",
            "/etc/pki/tls/certs",
            "/etc/profile",
            "/etc/protocols",
            "/etc/python3",
            "/etc/resolv.conf",
            "/etc/services",
            "/etc/shells",
            "/etc/ssl/certs",
            "/etc/ssl/openssl.cnf",
            "/etc/terminfo",
            "/etc/timezone",
            "/proc/cpuinfo",
            "/proc/filesystems",
            "/proc/loadavg",
            "/proc/meminfo",
            "/proc/stat",
            "/proc/uptime",
            "/proc/version",
            "/proc/sys/kernel/osrelease",
            "/proc/sys/vm/overcommit_memory",
            "/sys/devices/system/cpu",
            "/sys/kernel/mm/transparent_hugepage",
        ];
        PATHS.iter().map(PathBuf::from).filter(|path| path.exists()).collect()
    }
}

/// Why a policy is refused.
#[derive(Debug, thiserror::Error)]
pub enum PolicyError {
    #[error(
        "tools may reach `{}`, and `{}` in it is denied; name narrower paths in `{list}`, or move \
         the denied one out", allowed.display(), denied.display()
    )]
    Exposed { list: &'static str, allowed: PathBuf, denied: PathBuf },
    #[error(
        "port {port} in `connect_ports` belongs to the API, Redis or RabbitMQ: a tool that reaches \
         it could approve itself; take it out"
    )]
    GuardedPort { port: u16 },
    #[error("port 0 in `connect_ports` is no port; take it out")]
    PortZero,
    #[error("`{}` in `{list}` is not absolute; write it from the root", path.display())]
    NotAbsolute { list: &'static str, path: PathBuf },
    #[error("`{}` in `{list}` is not UTF-8; rename it", path.display())]
    NotUtf8 { list: &'static str, path: PathBuf },
    #[error("cannot resolve `{}` in `{list}`; create it, or take it out", path.display())]
    Unresolved { list: &'static str, path: PathBuf, source: io::Error },
    #[error("the work folder `{}` is not a folder", path.display())]
    NotAFolder { path: PathBuf },
    #[error("`{list}` has {count} entries, at most {max} are allowed; name their folders instead")]
    TooMany { list: &'static str, count: usize, max: usize },
}

/// Entries of one list, so that the plan stays well below the kernel's limit for one argument.
const LIST_ENTRIES_MAX: usize = 256;
/// Links followed while resolving a path that need not exist.
const ANCESTORS_MAX: usize = 256;

/// A checked policy with every path resolved.
#[derive(Debug, Clone)]
pub(crate) struct Sandbox {
    mode: Mode,
    work_dir: PathBuf,
    paths: PathRules,
    network: Network,
    detach: bool,
    limits: Limits,
    user: Option<User>,
}

impl Sandbox {
    /// Resolves and checks. Reads the file system, changes nothing.
    ///
    /// # Errors
    /// The first contradiction, naming both sides and the mend.
    pub(crate) fn new(policy: SandboxPolicy) -> Result<Self, PolicyError> {
        let work_dir = resolve("work_dir", &policy.work_dir)?;
        if !work_dir.is_dir() {
            return Err(PolicyError::NotAFolder { path: work_dir });
        }
        let read_only = resolve_all("read_only", &policy.read_only)?;
        let mut read_write = resolve_all("read_write", &policy.read_write)?;
        if !read_write.contains(&work_dir) {
            read_write.push(work_dir.clone());
        }
        let mut denied = Vec::with_capacity(policy.denied.len() + 2);
        for path in bounded("denied", &policy.denied)? {
            denied.push(resolve_nearest(path)?);
        }
        refuse_exposed("read_only", &read_only, &denied)?;
        refuse_exposed("read_write", &read_write, &denied)?;
        refuse_process_files("read_only", &read_only)?;
        refuse_process_files("read_write", &read_write)?;
        refuse_ports(&policy)?;
        Ok(Self {
            mode: policy.mode,
            work_dir,
            paths: PathRules { read_only, read_write },
            network: Network {
                connect_ports: policy.connect_ports,
                dns: policy.dns,
                unix_sockets: policy.unix_sockets,
            },
            detach: policy.detach,
            limits: policy.limits,
            user: policy.user,
        })
    }

    pub(crate) fn work_dir(&self) -> &Path {
        &self.work_dir
    }

    pub(crate) fn user(&self) -> Option<User> {
        self.user
    }

    /// Whether a resolved path lies where tools may look. Always true when the sandbox is off.
    pub(crate) fn shows(&self, path: &Path) -> bool {
        match self.mode {
            Mode::Off => true,
            Mode::Enforce => {
                let PathRules { read_only, read_write } = &self.paths;
                read_only.iter().chain(read_write).any(|allowed| path.starts_with(allowed))
            }
        }
    }

    /// The plan for one call. `nonce` proves that a refusal comes from the helper, not from the
    /// tool.
    pub(crate) fn plan(&self, nonce: String) -> Plan {
        Plan::Exec {
            nonce,
            parent_pid: std::process::id(),
            enforce: match self.mode {
                Mode::Enforce => true,
                Mode::Off => false,
            },
            paths: self.paths.clone(),
            network: self.network.clone(),
            detach: self.detach,
            limits: self.limits.into(),
        }
    }
}

fn bounded<'a>(list: &'static str, paths: &'a [PathBuf]) -> Result<&'a [PathBuf], PolicyError> {
    if LIST_ENTRIES_MAX < paths.len() {
        return Err(PolicyError::TooMany { list, count: paths.len(), max: LIST_ENTRIES_MAX });
    }
    Ok(paths)
}

fn resolve_all(list: &'static str, paths: &[PathBuf]) -> Result<Vec<PathBuf>, PolicyError> {
    let mut resolved = Vec::with_capacity(paths.len());
    for path in bounded(list, paths)? {
        let path = resolve(list, path)?;
        // `/bin` and `/lib` are links into `/usr` nearly everywhere.
        if !resolved.contains(&path) {
            resolved.push(path);
        }
    }
    Ok(resolved)
}

fn resolve(list: &'static str, path: &Path) -> Result<PathBuf, PolicyError> {
    if !path.is_absolute() {
        return Err(PolicyError::NotAbsolute { list, path: path.to_owned() });
    }
    let resolved = path.canonicalize().map_err(|source| PolicyError::Unresolved {
        list,
        path: path.to_owned(),
        source,
    })?;
    match resolved.to_str() {
        Some(_) => Ok(resolved),
        None => Err(PolicyError::NotUtf8 { list, path: resolved }),
    }
}

/// Resolves the part that exists: a key that will be written later is hidden from now on.
fn resolve_nearest(path: &Path) -> Result<PathBuf, PolicyError> {
    let list = "denied";
    if !path.is_absolute() {
        return Err(PolicyError::NotAbsolute { list, path: path.to_owned() });
    }
    for ancestor in path.ancestors().take(ANCESTORS_MAX) {
        match ancestor.canonicalize() {
            Ok(resolved) => {
                let rest = path.strip_prefix(ancestor).unwrap_or(Path::new(""));
                return Ok(resolved.join(rest));
            }
            Err(source) if source.kind() == io::ErrorKind::NotFound => {}
            Err(source) => {
                return Err(PolicyError::Unresolved { list, path: path.to_owned(), source });
            }
        }
    }
    let source = io::Error::from(io::ErrorKind::NotFound);
    Err(PolicyError::Unresolved { list, path: path.to_owned(), source })
}

fn refuse_exposed(
    list: &'static str,
    allowed: &[PathBuf],
    denied: &[PathBuf],
) -> Result<(), PolicyError> {
    for allowed in allowed {
        if let Some(denied) = denied.iter().find(|denied| denied.starts_with(allowed)) {
            return Err(PolicyError::Exposed {
                list,
                allowed: allowed.clone(),
                denied: denied.clone(),
            });
        }
    }
    Ok(())
}

/// `/proc` holds the worker's environment and memory, and `/proc/self` is the worker while we
/// resolve it. The helper opens its own entry by itself.
fn refuse_process_files(list: &'static str, allowed: &[PathBuf]) -> Result<(), PolicyError> {
    let own = PathBuf::from(format!("/proc/{}", std::process::id()));
    match allowed.iter().find(|path| own.starts_with(path) || path.starts_with(&own)) {
        Some(path) => Err(PolicyError::Exposed { list, allowed: path.clone(), denied: own }),
        None => Ok(()),
    }
}

fn refuse_ports(policy: &SandboxPolicy) -> Result<(), PolicyError> {
    for &port in &policy.connect_ports {
        if port == 0 {
            return Err(PolicyError::PortZero);
        }
        if policy.guarded_ports.contains(&port) {
            return Err(PolicyError::GuardedPort { port });
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests;
