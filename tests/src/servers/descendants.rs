//! Which processes did a server start, and are they gone?
//!
//! Authority: the kernel's process table.

use std::fs;

/// Everything below `root` in the tree of processes, nearest first.
pub(super) fn descendants(root: u32) -> Vec<u32> {
    let parents = processes();
    let mut found = vec![root];
    let mut next = 0;
    while let Some(parent) = found.get(next).copied() {
        found.extend(parents.iter().filter(|(_, above)| *above == parent).map(|(pid, _)| *pid));
        next += 1;
    }
    found.split_off(1)
}

/// Whether it runs: one that only waits for its parent to notice its end does not.
pub(super) fn is_alive(pid: u32) -> bool {
    state_and_parent(pid).is_some_and(|(state, _)| !["Z", "X"].contains(&state.as_str()))
}

/// Every process with its parent.
fn processes() -> Vec<(u32, u32)> {
    let entries = fs::read_dir("/proc").into_iter().flatten().flatten();
    let pids = entries.filter_map(|entry| entry.file_name().to_str()?.parse().ok());
    pids.filter_map(|pid| Some((pid, state_and_parent(pid)?.1))).collect()
}

/// The program's name comes before, in parentheses, and may hold anything.
fn state_and_parent(pid: u32) -> Option<(String, u32)> {
    let stat = fs::read_to_string(format!("/proc/{pid}/stat")).ok()?;
    let (_, rest) = stat.rsplit_once(") ")?;
    let mut fields = rest.split(' ');
    Some((fields.next()?.to_owned(), fields.next()?.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use std::process::{Command, Stdio};

    use super::{descendants, is_alive};

    #[test]
    fn a_child_is_a_descendant_and_its_corpse_is_not_alive() {
        let mut child = Command::new("cat").stdin(Stdio::piped()).spawn().unwrap();
        let pid = child.id();
        assert!(descendants(std::process::id()).contains(&pid) && is_alive(pid));
        child.kill().unwrap();
        child.wait().unwrap();
        assert!(!is_alive(pid));
    }
}
