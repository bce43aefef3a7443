//! Which system calls are refused, because landlock does not see what they do?
//!
//! Authority: seccomp. Invariant: what is listed here fails with `EPERM` for the tool and for all
//! it starts. It is a deny-list: programs must run, and the walls are landlock's; this closes the
//! doors around them.
//!
//! Doors worth a word:
//! * other protocols. Landlock 4 sees TCP only, and MPTCP, SMC or SCTP are not TCP: a stream socket
//!   must ask for protocol 0 or 6. Unix sockets are a way to a container engine or to Redis.
//! * `MSG_FASTOPEN` connects inside `sendto`, past the check of `connect`.
//! * `io_uring` opens sockets without a system call that a filter could see.
//! * `prlimit64` on another process of the same user: a tool could take the worker's file
//!   descriptors.
//! * `setsid` and `setpgid`: who leaves the group is not killed with it.
//! * `clone3` hides its flags behind a pointer. It answers `ENOSYS`, and libc falls back to
//!   `clone`.
//! * x32 numbers (bit 30) are the same calls under other names, for the same architecture.

use std::collections::BTreeMap;

use seccompiler::{
    BackendError, BpfProgram, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule, TargetArch,
};

use super::plan::{Network, Refusal, RefusalCode};

type Rules = BTreeMap<i64, Vec<SeccompRule>>;

/// Refused whatever their arguments.
const REFUSED: &[i64] = &[
    // Looking into or driving other processes.
    libc::SYS_ptrace,
    libc::SYS_process_vm_readv,
    libc::SYS_process_vm_writev,
    libc::SYS_process_madvise,
    libc::SYS_pidfd_getfd,
    libc::SYS_kcmp,
    libc::SYS_migrate_pages,
    libc::SYS_move_pages,
    libc::SYS_perf_event_open,
    // Code in the kernel, and calls that no filter sees.
    libc::SYS_bpf,
    libc::SYS_io_uring_setup,
    libc::SYS_io_uring_enter,
    libc::SYS_io_uring_register,
    libc::SYS_userfaultfd,
    libc::SYS_init_module,
    libc::SYS_finit_module,
    libc::SYS_delete_module,
    libc::SYS_kexec_load,
    // Another view of the file system, or files past their path.
    libc::SYS_mount,
    libc::SYS_umount2,
    libc::SYS_pivot_root,
    libc::SYS_chroot,
    libc::SYS_fsopen,
    libc::SYS_fsconfig,
    libc::SYS_fsmount,
    libc::SYS_fspick,
    libc::SYS_open_tree,
    libc::SYS_move_mount,
    libc::SYS_mount_setattr,
    libc::SYS_open_by_handle_at,
    libc::SYS_fanotify_init,
    libc::SYS_quotactl,
    libc::SYS_unshare,
    libc::SYS_setns,
    // Keys of the user's session.
    libc::SYS_keyctl,
    libc::SYS_add_key,
    libc::SYS_request_key,
    // The machine: a tool of a worker that runs as root could set the clock that deadlines hang on.
    libc::SYS_settimeofday,
    libc::SYS_clock_settime,
    libc::SYS_clock_adjtime,
    libc::SYS_adjtimex,
    libc::SYS_reboot,
    libc::SYS_swapon,
    libc::SYS_swapoff,
    libc::SYS_sethostname,
    libc::SYS_setdomainname,
    libc::SYS_acct,
    libc::SYS_syslog,
    libc::SYS_vhangup,
];

#[cfg(target_arch = "x86_64")]
const REFUSED_HERE: &[i64] =
    &[libc::SYS_kexec_file_load, libc::SYS_iopl, libc::SYS_ioperm, libc::SYS_modify_ldt];
#[cfg(not(target_arch = "x86_64"))]
const REFUSED_HERE: &[i64] = &[];

/// Namespaces, as flags of `clone`: time, mount, cgroup, uts, ipc, user, pid, net.
const NAMESPACE_FLAGS: [i32; 8] = [
    libc::CLONE_NEWTIME,
    libc::CLONE_NEWNS,
    libc::CLONE_NEWCGROUP,
    libc::CLONE_NEWUTS,
    libc::CLONE_NEWIPC,
    libc::CLONE_NEWUSER,
    libc::CLONE_NEWPID,
    libc::CLONE_NEWNET,
];
/// The bits of `socket`'s second argument that name the type; the others are flags.
const SOCKET_TYPE_MASK: u64 = 0xf;

/// Puts the filters on the calling thread for good. The process must have no other thread.
pub(super) fn restrict(network: &Network, detach: bool) -> Result<(), Refusal> {
    let filters = filters(network, detach).map_err(|error| {
        let message = format!("cannot build the system call filter: {error}");
        Refusal::new(RefusalCode::SandboxFailed, message)
    })?;
    for filter in &filters {
        seccompiler::apply_filter(filter).map_err(|error| {
            let message = format!("cannot install the system call filter: {error}");
            Refusal::new(RefusalCode::SandboxUnavailable, message)
        })?;
    }
    Ok(())
}

fn filters(network: &Network, detach: bool) -> Result<Vec<BpfProgram>, BackendError> {
    let mut refused = Rules::new();
    for &call in REFUSED.iter().chain(REFUSED_HERE) {
        refused.insert(call, Vec::new());
    }
    if !detach {
        refused.insert(libc::SYS_setsid, Vec::new());
        refused.insert(libc::SYS_setpgid, Vec::new());
    }
    refused.insert(libc::SYS_socket, refused_sockets(network)?);
    refused.insert(libc::SYS_clone, any_bit(0, &NAMESPACE_FLAGS)?);
    refused.insert(libc::SYS_sendto, any_bit(3, &[libc::MSG_FASTOPEN])?);
    refused.insert(libc::SYS_sendmsg, any_bit(2, &[libc::MSG_FASTOPEN])?);
    refused.insert(libc::SYS_sendmmsg, any_bit(3, &[libc::MSG_FASTOPEN])?);
    refused.insert(libc::SYS_prlimit64, vec![rule(&[(0, SeccompCmpOp::Ne, 0)])?]);

    let unknown = Rules::from([(libc::SYS_clone3, Vec::new())]);
    let mut programs = vec![compile(refused, libc::EPERM)?, compile(unknown, libc::ENOSYS)?];
    programs.extend(foreign_numbers());
    Ok(programs)
}

fn compile(rules: Rules, errno: i32) -> Result<BpfProgram, BackendError> {
    let arch = TargetArch::try_from(std::env::consts::ARCH)?;
    let refuse = SeccompAction::Errno(errno.unsigned_abs());
    SeccompFilter::new(rules, SeccompAction::Allow, refuse, arch)?.try_into()
}

/// Everything but the sockets that landlock sees, those that `dns` needs, and unix ones if allowed.
fn refused_sockets(network: &Network) -> Result<Vec<SeccompRule>, BackendError> {
    let family = |family: i32| u64::from(family.unsigned_abs());
    let inet = !network.connect_ports.is_empty();
    let mut allowed = Vec::new();
    if inet || network.dns {
        allowed.extend([family(libc::AF_INET), family(libc::AF_INET6)]);
    }
    if network.unix_sockets {
        allowed.push(family(libc::AF_UNIX));
    }
    // Domains: one rule «none of the allowed». No conditions at all would mean «always».
    let Some(others) = none_of(0, &allowed)? else { return Ok(Vec::new()) };
    let mut rules = vec![others];

    // Types and protocols of whatever is not a unix socket.
    let stream = (family(libc::SOCK_STREAM), family(libc::IPPROTO_TCP));
    let datagram = (family(libc::SOCK_DGRAM), family(libc::IPPROTO_UDP));
    let mut kinds = Vec::new();
    kinds.extend(inet.then_some(stream));
    kinds.extend(network.dns.then_some(datagram));
    let not_unix = (0, SeccompCmpOp::Ne, family(libc::AF_UNIX));
    for kind in 0..=SOCKET_TYPE_MASK {
        let of_kind = (1, SeccompCmpOp::MaskedEq(SOCKET_TYPE_MASK), kind);
        match kinds.iter().find(|(allowed, _)| *allowed == kind) {
            None => rules.push(rule(&[not_unix.clone(), of_kind])?),
            Some((_, protocol)) => rules.push(rule(&[
                not_unix.clone(),
                of_kind,
                (2, SeccompCmpOp::Ne, 0),
                (2, SeccompCmpOp::Ne, *protocol),
            ])?),
        }
    }
    Ok(rules)
}

/// `None` when nothing is allowed: then the call is refused without looking.
fn none_of(index: u8, allowed: &[u64]) -> Result<Option<SeccompRule>, BackendError> {
    if allowed.is_empty() {
        return Ok(None);
    }
    let conditions: Vec<_> =
        allowed.iter().map(|value| (index, SeccompCmpOp::Ne, *value)).collect();
    rule(&conditions).map(Some)
}

fn any_bit(index: u8, bits: &[i32]) -> Result<Vec<SeccompRule>, BackendError> {
    bits.iter()
        .map(|bit| {
            let bit = u64::from(bit.cast_unsigned());
            rule(&[(index, SeccompCmpOp::MaskedEq(bit), bit)])
        })
        .collect()
}

/// All of the conditions: (argument, comparison, value). The arguments filtered here are 32 bits
/// wide.
fn rule(conditions: &[(u8, SeccompCmpOp, u64)]) -> Result<SeccompRule, BackendError> {
    let conditions = conditions
        .iter()
        .map(|(index, op, value)| {
            SeccompCondition::new(*index, SeccompCmpArgLen::Dword, op.clone(), *value)
        })
        .collect::<Result<_, _>>()?;
    SeccompRule::new(conditions)
}

/// Refuses x32 numbers. By hand, as the compiler compares numbers for equality only.
#[cfg(target_arch = "x86_64")]
fn foreign_numbers() -> Option<BpfProgram> {
    use seccompiler::sock_filter;

    const LOAD_NUMBER: u16 = 0x20; // BPF_LD | BPF_W | BPF_ABS, at offset 0 of seccomp_data
    const JUMP_IF_AT_LEAST: u16 = 0x35; // BPF_JMP | BPF_JGE | BPF_K
    const RETURN: u16 = 0x06; // BPF_RET | BPF_K
    const X32_BIT: u32 = 0x4000_0000;
    let refuse = libc::SECCOMP_RET_ERRNO | libc::EPERM.unsigned_abs();
    Some(vec![
        sock_filter { code: LOAD_NUMBER, jt: 0, jf: 0, k: 0 },
        sock_filter { code: JUMP_IF_AT_LEAST, jt: 0, jf: 1, k: X32_BIT },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: refuse },
        sock_filter { code: RETURN, jt: 0, jf: 0, k: libc::SECCOMP_RET_ALLOW },
    ])
}

#[cfg(not(target_arch = "x86_64"))]
fn foreign_numbers() -> Option<BpfProgram> {
    None
}
