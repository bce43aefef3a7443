use std::path::PathBuf;

use super::{Mode, PolicyError, Sandbox, SandboxPolicy};

/// A folder of this test's own, resolved.
fn folder(name: &str) -> PathBuf {
    let path =
        std::env::temp_dir().join(format!("portcullis-policy-{}-{name}", std::process::id()));
    std::fs::remove_dir_all(&path).ok();
    std::fs::create_dir_all(&path).unwrap();
    path.canonicalize().unwrap()
}

fn policy(root: &std::path::Path) -> SandboxPolicy {
    let work_dir = root.join("work");
    std::fs::create_dir_all(&work_dir).unwrap();
    SandboxPolicy::new(Mode::Enforce, work_dir)
}

#[test]
fn a_denied_path_in_an_allowed_one_is_an_error_that_names_both() {
    let root = folder("exposed");
    let mut policy = policy(&root);
    policy.read_only.push(root.clone());
    policy.denied.push(root.join("data/keys"));

    let error = Sandbox::new(policy).unwrap_err();

    assert!(matches!(&error, PolicyError::Exposed { list: "read_only", .. }), "{error}");
    let said = error.to_string();
    assert!(said.contains(&format!("`{}`", root.display())), "{said}");
    assert!(said.contains(&format!("`{}`", root.join("data/keys").display())), "{said}");
}

#[test]
fn a_denied_path_is_found_behind_links_on_either_side() {
    let root = folder("links");
    std::fs::create_dir_all(root.join("tree/data")).unwrap();
    std::os::unix::fs::symlink(root.join("tree"), root.join("alias")).unwrap();
    std::os::unix::fs::symlink(root.join("tree/data"), root.join("data")).unwrap();
    for (allowed, denied) in [("tree", "data/key"), ("alias", "tree/data"), ("alias", "data")] {
        let mut policy = policy(&root);
        policy.read_write.push(root.join(allowed));
        policy.denied.push(root.join(denied));
        let error = Sandbox::new(policy).unwrap_err();
        assert!(matches!(error, PolicyError::Exposed { list: "read_write", .. }), "{error}");
    }
}

#[test]
fn the_work_folder_may_lie_in_the_data_folder_but_not_around_it() {
    let root = folder("inside");
    let mut inside = policy(&root);
    inside.denied.push(root.clone());
    Sandbox::new(inside).unwrap();

    let mut around = policy(&root);
    around.denied.push(root.join("work/data"));
    assert!(matches!(Sandbox::new(around), Err(PolicyError::Exposed { .. })));
}

#[test]
fn the_workers_own_entry_in_proc_is_never_allowed() {
    let root = folder("proc");
    for path in ["/", "/proc", "/proc/self", "/proc/self/environ", "/proc/self/fd"] {
        let mut policy = policy(&root);
        policy.read_only = vec![path.into()];
        let error = Sandbox::new(policy).unwrap_err();
        assert!(matches!(error, PolicyError::Exposed { .. }), "{path}: {error}");
    }
}

#[test]
fn our_own_ports_are_never_among_those_that_tools_may_reach() {
    let root = folder("ports");
    let mut policy = policy(&root);
    policy.connect_ports = vec![443, 5672];
    policy.guarded_ports = vec![5672, 6379];
    assert!(matches!(Sandbox::new(policy), Err(PolicyError::GuardedPort { port: 5672 })));
}

#[test]
fn paths_that_are_relative_or_missing_are_refused() {
    let root = folder("missing");
    let mut missing = policy(&root);
    missing.read_only.push(root.join("nowhere"));
    assert!(matches!(Sandbox::new(missing), Err(PolicyError::Unresolved { .. })));

    let mut relative = policy(&root);
    relative.denied.push("data".into());
    assert!(matches!(Sandbox::new(relative), Err(PolicyError::NotAbsolute { .. })));

    let mut file = policy(&root);
    std::fs::write(root.join("file"), "").unwrap();
    file.work_dir = root.join("file");
    assert!(matches!(Sandbox::new(file), Err(PolicyError::NotAFolder { .. })));
}

#[test]
fn the_defaults_leave_out_what_servers_keep_in_etc() {
    let paths = SandboxPolicy::system_paths();
    assert!(paths.iter().any(|path| path == &PathBuf::from("/usr")));
    for secret in
        ["/etc/shadow", "/etc/redis/redis.conf", "/etc/portcullis", "/root", "/var", "/tmp"]
    {
        let secret = PathBuf::from(secret);
        assert!(!paths.iter().any(|path| secret.starts_with(path)), "{}", secret.display());
    }
}
