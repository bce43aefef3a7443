//! Do the crates depend on each other in one direction, with one list of versions?

use super::source::{Finding, Source, has_word};

const OURS: &str = "portcullis-";
/// A folder, and which of our crates it may name. `tests` may name all.
const DIRECTIONS: [(&str, &[&str]); 5] = [
    ("proto", &[]),
    ("engine", &["proto"]),
    ("scheduler", &["engine", "proto"]),
    ("worker", &["engine", "proto"]),
    ("cli", &["scheduler", "worker", "engine", "proto"]),
];
/// What would give `proto` a clock, a wire, a random number or a task.
const NOT_IN_PROTO: [&str; 12] = [
    "tokio",
    "tokio-util",
    "futures-util",
    "async-trait",
    "getrandom",
    "reqwest",
    "lapin",
    "redis",
    "rusqlite",
    "axum",
    "tracing",
    "rustix",
];

/// `cli → {scheduler, worker} → engine → proto`; `tests → all`; `proto` stays pure.
pub(crate) fn directions(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, folder, section, number, key) in dependencies(files) {
        let Some((_, allowed)) = DIRECTIONS.iter().find(|(name, _)| *name == folder) else {
            continue;
        };
        if let Some(target) = key.strip_prefix(OURS)
            && !allowed.contains(&target)
        {
            let what = format!(
                "{folder} must not depend on {target}: cli → {{scheduler, worker}} → engine → \
                 proto; move what is shared down"
            );
            findings.push(file.finding(number, what));
        }
        if folder == "proto" && section == "dependencies" && NOT_IN_PROTO.contains(&key) {
            let what = format!("proto must not depend on {key}: do that in engine");
            findings.push(file.finding(number, what));
        }
    }
    findings
}

/// Members say `name.workspace = true`, and take the workspace's lints.
pub(crate) fn one_list_of_versions(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for (file, _, _, number, key) in dependencies(files) {
        let line = file.text.lines().nth(number - 1).map_or("", str::trim);
        let taken = line.starts_with(&format!("{key}.workspace = true"))
            || has_word(line, "workspace") && line.contains("workspace = true");
        if !taken {
            let what =
                format!("{key}: put its version in the root Cargo.toml, `.workspace = true`");
            findings.push(file.finding(number, what));
        }
    }
    for (file, _) in manifests(files) {
        if !file.text.contains("[lints]\nworkspace = true") {
            findings.push(file.finding(1, "no `[lints] workspace = true`: add it"));
        }
    }
    findings
}

/// The members' manifests with their folder's name.
fn manifests(files: &[Source]) -> impl Iterator<Item = (&Source, &str)> {
    files.iter().filter_map(|file| {
        let folder = file.path.strip_suffix("/Cargo.toml")?;
        (!folder.contains('/')).then_some((file, folder))
    })
}

type Dependency<'a> = (&'a Source, &'a str, &'a str, usize, &'a str);

/// Every dependency line: file, folder, section, line number, package.
fn dependencies(files: &[Source]) -> impl Iterator<Item = Dependency<'_>> {
    manifests(files).flat_map(|(file, folder)| {
        let mut section = "";
        file.lines().filter_map(move |(number, line)| {
            let line = line.trim();
            if let Some(name) = line.strip_prefix('[') {
                section = name.trim_end_matches(']');
                return None;
            }
            let key = line.split(['.', ' ', '=']).next()?;
            let counts = section.ends_with("dependencies") && !key.is_empty();
            (counts && !key.starts_with('#')).then_some((file, folder, section, number, key))
        })
    })
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::{file, places};
    use super::{directions, one_list_of_versions};

    fn manifest(section: &str, line: &str) -> String {
        format!("[lints]\nworkspace = true\n[{section}]\n{line}\n")
    }

    #[test]
    fn a_dependency_against_the_direction_is_refused() {
        for (folder, target) in [
            ("proto", "engine"),
            ("engine", "worker"),
            ("scheduler", "worker"),
            ("worker", "scheduler"),
            ("cli", "tests"),
        ] {
            for section in ["dependencies", "dev-dependencies", "target.'cfg(unix)'.dependencies"] {
                let text = manifest(section, &format!("portcullis-{target}.workspace = true"));
                let path = format!("{folder}/Cargo.toml");
                assert_eq!(places(&directions(&file(&path, &text))), [format!("{path}:4")]);
            }
        }
    }

    #[test]
    fn a_dependency_along_the_direction_is_fine() {
        for (folder, target) in [("worker", "engine"), ("cli", "worker"), ("tests", "scheduler")] {
            let text = manifest("dependencies", &format!("portcullis-{target}.workspace = true"));
            let files = file(&format!("{folder}/Cargo.toml"), &text);
            assert!(directions(&files).is_empty() && one_list_of_versions(&files).is_empty());
        }
    }

    #[test]
    fn a_runtime_in_proto_is_refused() {
        let text = manifest("dependencies", "tokio.workspace = true");
        assert_eq!(places(&directions(&file("proto/Cargo.toml", &text))), ["proto/Cargo.toml:4"]);
    }

    #[test]
    fn a_version_outside_the_root_is_refused() {
        for line in ["serde = \"1\"", "serde = { version = \"1\" }"] {
            let text = manifest("dependencies", line);
            let findings = one_list_of_versions(&file("worker/Cargo.toml", &text));
            assert_eq!(places(&findings), ["worker/Cargo.toml:4"]);
        }
    }

    #[test]
    fn a_crate_without_the_workspaces_lints_is_refused() {
        let findings = one_list_of_versions(&file("worker/Cargo.toml", "[package]\n"));
        assert_eq!(places(&findings), ["worker/Cargo.toml:1"]);
    }
}
