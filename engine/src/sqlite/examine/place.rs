//! Is this a place for a store: who else can read it, is there room, and do locks hold?

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use crate::finding::Finding;

/// Less free space than this is worth a word, in bytes.
const FREE_BYTES_MIN: u64 = 512 * 1024 * 1024;

/// How a kind of file system treats a database.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Local,
    /// Locks may not hold, and a write-ahead log cannot be shared.
    Network(&'static str),
    /// It may be either of the two.
    Mediated(&'static str),
    /// It is gone with the machine's memory, or with the container.
    Fleeting(&'static str),
}

pub(super) fn look(path: &Path) -> Vec<Finding> {
    let mut findings = Vec::new();
    if path.exists() {
        findings.push(mode("sqlite-file-mode", path, "600"));
    }
    let parent = path.parent().filter(|folder| !folder.as_os_str().is_empty());
    let folder = parent.unwrap_or(Path::new("."));
    if let Some(there) = nearest(folder) {
        findings.push(free_space(&there));
        findings.push(file_system(&there));
    }
    findings
}

/// The folder, or what its first missing ancestor will be made in.
fn nearest(folder: &Path) -> Option<PathBuf> {
    folder.ancestors().find(|folder| folder.exists()).map(Path::to_owned)
}

fn mode(check: &'static str, path: &Path, wanted: &str) -> Finding {
    let shown = path.display();
    match std::fs::metadata(path) {
        Ok(metadata) => Finding::of_mode(
            check,
            &shown.to_string(),
            metadata.permissions().mode(),
            "every run is in it, with what agents were told and answered",
            wanted,
        ),
        Err(why) => Finding::unseen(check, format!("{shown}: {why}"), "look as its owner"),
    }
}

fn free_space(folder: &Path) -> Finding {
    const CHECK: &str = "sqlite-free-space";
    match rustix::fs::statvfs(folder) {
        Ok(space) => judge_space(folder, space.f_bavail.saturating_mul(space.f_frsize)),
        Err(why) => Finding::unseen(CHECK, why, "look as the owner of the folder"),
    }
}

fn judge_space(folder: &Path, free: u64) -> Finding {
    const CHECK: &str = "sqlite-free-space";
    let found = format!("{free} bytes");
    if FREE_BYTES_MIN <= free {
        return Finding::fine(CHECK, found);
    }
    let mend = format!("free space where {} lies", folder.display());
    Finding::warning(CHECK, found, "a full disk stops every run", mend)
}

fn file_system(folder: &Path) -> Finding {
    const CHECK: &str = "sqlite-file-system";
    match rustix::fs::statfs(folder) {
        Ok(facts) => judge_kind(kind(facts.f_type as u64 & 0xffff_ffff)),
        Err(why) => Finding::unseen(CHECK, why, "look as the owner of the folder"),
    }
}

/// The numbers are the kernel's, see `statfs(2)`.
fn kind(magic: u64) -> Kind {
    match magic {
        0x6969 => Kind::Network("NFS"),
        0x517b | 0xff53_4d42 | 0xfe53_4d42 => Kind::Network("SMB"),
        0x00c3_6400 => Kind::Network("Ceph"),
        0x0bd0_0bd0 => Kind::Network("Lustre"),
        0x5346_414f | 0x6b41_4653 => Kind::Network("AFS"),
        0x7461_636f => Kind::Network("OCFS2"),
        0x0116_1970 => Kind::Network("GFS2"),
        0x0102_1997 => Kind::Network("9P"),
        0x6573_5546 => Kind::Mediated("FUSE"),
        0x0102_1994 => Kind::Fleeting("tmpfs"),
        0x8584_58f6 => Kind::Fleeting("ramfs"),
        0x794c_7630 => Kind::Fleeting("overlayfs"),
        _ => Kind::Local,
    }
}

fn judge_kind(kind: Kind) -> Finding {
    const CHECK: &str = "sqlite-file-system";
    let mend = "put the store on a local disk: `store.url`, or `data_dir`";
    match kind {
        Kind::Local => Finding::fine(CHECK, "no kind that is known to break locks or to be lost"),
        Kind::Network(name) => Finding::fatal(
            CHECK,
            format!("it is {name}"),
            "locks do not hold between machines: two processes may write at once",
            mend,
        ),
        Kind::Mediated(name) => Finding::warning(
            CHECK,
            format!("it is {name}"),
            "what lies behind it is not known: locks and syncs may mean nothing there",
            mend,
        ),
        Kind::Fleeting(name) => Finding::warning(
            CHECK,
            format!("it is {name}"),
            "every run is lost with the machine's next start, or with the container",
            mend,
        ),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn a_file_system_whose_locks_break_is_fatal() {
        for (magic, severity) in [
            (0x6969, Severity::Fatal),
            (0xff53_4d42, Severity::Fatal),
            (0x6573_5546, Severity::Warning),
            (0x0102_1994, Severity::Warning),
            (0xef53, Severity::Fine),
            (0x5846_5342, Severity::Fine),
        ] {
            assert_eq!(judge_kind(kind(magic)).severity, severity, "{magic:x}");
        }
    }

    #[test]
    fn little_space_is_told() {
        let of = |free| judge_space(Path::new("/x"), free).severity;
        assert_eq!(
            (of(FREE_BYTES_MIN), of(FREE_BYTES_MIN - 1)),
            (Severity::Fine, Severity::Warning)
        );
    }

    #[test]
    fn a_folder_that_is_not_made_yet_is_judged_by_where_it_will_be() {
        assert_eq!(nearest(Path::new("/nowhere/at/all")), Some(PathBuf::from("/")));
    }
}
