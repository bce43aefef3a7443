//! Do storage crates stay inside their adapters, and clocks and wires outside `proto`?

use super::source::{Finding, Source, has_word, words};

/// A crate, and the one adapter that may name it.
const ADAPTERS: [(&str, &str); 3] = [
    ("redis", "engine/src/redis"),
    ("lapin", "engine/src/rabbitmq"),
    ("rusqlite", "engine/src/sqlite"),
];

const NOT_IN_PROTO: [&str; 9] = [
    "tokio",
    "async",
    "await",
    "SystemTime",
    "Instant",
    "std::fs",
    "std::env",
    "std::net",
    "std::process",
];

/// `redis`, `lapin` and `rusqlite` are named in their adapter's folder and in tests only.
pub(crate) fn adapters_only(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        for (name, home) in ADAPTERS {
            if file.path == format!("{home}.rs") || file.path.starts_with(&format!("{home}/")) {
                continue;
            }
            for (number, line) in file.code().filter(|(_, line)| names_crate(line, name)) {
                let what = format!(
                    "`{name}` is named in {home}/ only: go through a port (our own module of that \
                     name: write `crate::` or `self::` before it) in `{}`",
                    line.trim()
                );
                findings.push(file.finding(number, what));
            }
        }
    }
    findings
}

/// `name::…` that is not a part of a longer path, or `use name`.
fn names_crate(line: &str, name: &str) -> bool {
    words(line, name).any(|at| {
        let before = line[..at].trim_end();
        let after = &line[at + name.len()..];
        let used = before.ends_with("use") || before.ends_with("extern crate");
        let starts_path = after.starts_with("::") && !before.ends_with("::");
        let from_root = before == "use ::" || before.ends_with("(::") || before.ends_with(" ::");
        used || starts_path || (after.starts_with("::") && from_root)
    })
}

/// No clock, file, wire, process, environment or task in the rules.
pub(crate) fn proto_is_pure(files: &[Source]) -> Vec<Finding> {
    let rules = files.iter().filter(|file| file.is_rust() && file.is_in_any(&["proto/src/"]));
    rules
        .flat_map(|file| {
            file.code().flat_map(move |(number, line)| {
                let named = NOT_IN_PROTO.iter().filter(move |word| has_word(line, word));
                named.map(move |word| {
                    let what = format!("`{word}` in proto: pass the value in, act in engine");
                    file.finding(number, what)
                })
            })
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::{file, places};
    use super::{ADAPTERS, adapters_only, proto_is_pure};

    #[test]
    fn a_storage_crate_outside_its_adapter_is_refused() {
        for (name, _) in ADAPTERS {
            for line in [
                format!("use {name}::Thing;"),
                format!("use {name};"),
                format!("fn f(c: &{name}::Client) {{}}"),
                format!("let x = ::{name}::open();"),
            ] {
                let findings = adapters_only(&file("worker/src/life.rs", &line));
                assert_eq!(places(&findings), ["worker/src/life.rs:1"], "{line}");
            }
        }
    }

    #[test]
    fn one_adapter_does_not_name_anothers_crate() {
        let findings = adapters_only(&file("engine/src/rabbitmq/a.rs", "use redis::Client;"));
        assert_eq!(places(&findings), ["engine/src/rabbitmq/a.rs:1"]);
    }

    #[test]
    fn adapters_tests_and_our_own_modules_may_name_them() {
        let cases = [
            ("engine/src/redis.rs", "use redis::Client;"),
            ("engine/src/redis/script.rs", "redis::Script::new(\"\");"),
            ("tests/it/store.rs", "use redis::Client;"),
            ("cli/src/main.rs", "use portcullis_engine::redis::RedisStore;"),
            ("engine/src/lib.rs", "pub use self::redis::RedisStore;"),
            ("cli/src/main.rs", "open(\"redis://127.0.0.1\") // redis::Client would be wrong"),
        ];
        for (path, line) in cases {
            assert!(adapters_only(&file(path, line)).is_empty(), "{path}: {line}");
        }
    }

    #[test]
    fn a_clock_a_file_or_a_task_in_proto_is_refused() {
        for line in [
            "let now = SystemTime::now();",
            "use std::time::Instant;",
            "pub async fn apply() {}",
            "std::fs::read(\"x\")",
            "tokio::spawn(x)",
        ] {
            assert_eq!(proto_is_pure(&file("proto/src/run.rs", line)).len(), 1, "{line}");
            assert!(proto_is_pure(&file("engine/src/drive.rs", line)).is_empty());
        }
        assert!(
            proto_is_pure(&file("proto/src/run.rs", "use std::time::Duration; // async"))
                .is_empty()
        );
    }
}
