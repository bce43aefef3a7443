//! May every package we build on be in the tree: its licence and its source?
//!
//! Asks `cargo metadata` offline, so it needs no service and no further program.

use std::process::Command;

use anyhow::{Context as _, ensure};
use serde_json::Value;

use super::source::Finding;

const LICENCES: [&str; 13] = [
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "MIT",
    "MIT-0",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "ISC",
    "Unicode-3.0",
    "Zlib",
    "BSL-1.0",
    "CDLA-Permissive-2.0",
    "0BSD",
    "CC0-1.0",
];
/// A package, and why it must stay out.
const BANNED: [(&str, &str); 5] = [
    ("aws-lc-rs", "rustls then has two providers and panics; use ring"),
    ("openssl-sys", "TLS is rustls; no system library"),
    ("native-tls", "TLS is rustls; no system library"),
    ("deadpool-lapin", "hands back channels in an unknown state"),
    ("chrono", "time is jiff's"),
];
/// Two versions of these do not see each other's globals.
const ONE_VERSION: [&str; 4] = ["opentelemetry", "opentelemetry_sdk", "rustls", "tracing-core"];

/// What `cargo metadata` says about the tree that is built here.
///
/// For this platform only: the others' packages are not downloaded.
pub(crate) fn metadata() -> anyhow::Result<Value> {
    let about = output_of("rustc", &["-vV"])?;
    let host = about.lines().find_map(|line| line.strip_prefix("host: "));
    let platform = host.context("rustc does not name its host")?;
    let arguments = ["metadata", "--format-version", "1", "--locked", "--offline"];
    let json = output_of("cargo", &[&arguments[..], &["--filter-platform", platform]].concat())?;
    serde_json::from_str(&json).context("cargo metadata is not JSON")
}

fn output_of(program: &str, arguments: &[&str]) -> anyhow::Result<String> {
    let output = Command::new(program).args(arguments).output();
    let output = output.with_context(|| format!("cannot run {program}"))?;
    let errors = String::from_utf8_lossy(&output.stderr);
    ensure!(output.status.success(), "{program} {arguments:?}: {errors}");
    String::from_utf8(output.stdout).with_context(|| format!("{program}: output is not UTF-8"))
}

/// Only known licences, only the registry or this repository, nothing banned, nothing twice.
pub(crate) fn licences_and_bans(metadata: &Value) -> anyhow::Result<Vec<Finding>> {
    let packages = metadata["packages"].as_array().context("cargo metadata has no packages")?;
    let mut findings = Vec::new();
    let mut refuse = |what: String| findings.push(Finding::new("Cargo.lock", 1, what));
    for package in packages {
        let text = |key: &str| package[key].as_str().map_or("", |text| text);
        let (name, licence, source) = (text("name"), text("license"), text("source"));
        if !is_allowed(licence) {
            refuse(format!("{name}: licence `{licence}` is not on the list: replace it"));
        }
        if !source.is_empty() && !source.starts_with("registry+") {
            refuse(format!("{name} comes from {source}: take it from the registry"));
        }
        if let Some((_, why)) = BANNED.iter().find(|(banned, _)| *banned == name) {
            refuse(format!("{name} is banned: {why}"));
        }
    }
    for once in ONE_VERSION {
        let versions = packages.iter().filter(|package| package["name"] == once).count();
        if 1 < versions {
            refuse(format!("{versions} versions of {once}: bring them together"));
        }
    }
    Ok(findings)
}

/// Every term of an `AND`, and one of each `OR`, is on the list. Anything odd is a no.
fn is_allowed(expression: &str) -> bool {
    let expression = expression.replace('/', " OR ");
    expression.split(" AND ").all(|choice| {
        let choice = choice.trim().trim_matches(['(', ')']);
        choice.split(" OR ").any(|term| LICENCES.contains(&term.trim().trim_matches(['(', ')'])))
    })
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::{BANNED, is_allowed, licences_and_bans};

    fn findings(packages: serde_json::Value) -> usize {
        licences_and_bans(&json!({ "packages": packages })).unwrap().len()
    }

    fn package(name: &str) -> serde_json::Value {
        json!({ "name": name, "license": "MIT", "source": "registry+x" })
    }

    #[test]
    fn a_licence_that_is_not_on_the_list_is_refused() {
        for no in ["GPL-3.0", "MIT AND GPL-3.0", "(MIT OR Apache-2.0) AND OpenSSL", ""] {
            assert!(!is_allowed(no), "{no}");
        }
        for yes in ["MIT OR Apache-2.0", "MIT/Apache-2.0", "(MIT OR GPL-2.0) AND Unicode-3.0"] {
            assert!(is_allowed(yes), "{yes}");
        }
        assert_eq!(findings(json!([{ "name": "x", "license": "GPL-3.0" }])), 1);
    }

    #[test]
    fn a_banned_package_is_refused() {
        for (name, _) in BANNED {
            assert_eq!(findings(json!([package(name)])), 1, "{name}");
        }
    }

    #[test]
    fn a_package_from_elsewhere_is_refused() {
        let package = json!({ "name": "x", "license": "MIT", "source": "git+https://x" });
        assert_eq!(findings(json!([package])), 1);
    }

    #[test]
    fn two_versions_of_one_set_of_globals_are_refused() {
        assert_eq!(findings(json!([package("rustls"), package("rustls")])), 1);
        assert_eq!(findings(json!([package("rustls"), package("syn"), package("syn")])), 0);
    }
}
