//! The configuration: `portcullis.toml`, its drop-in files, variables of the environment.

use std::collections::BTreeMap;

use super::super::{Target, hold, told};
use super::LARGE;
use crate::servers::TempFolder;

pub(super) const CONFIG: Target = Target {
    name: "config",
    promise: "every problem is one line that names its file and key; what is wrong with one \
              thing hides no other, and reading twice finds the same",
    seeds: || {
        let mut seeds = vec![FIRST.as_bytes().to_vec()];
        // Each section alone, so that more of what is changed is looked at by itself.
        let sections = FIRST.split("\n[").skip(1).map(|section| format!("[{section}\n"));
        seeds.extend(sections.map(String::into_bytes));
        seeds.push(FULL.as_bytes().to_vec());
        seeds.push(DISTRIBUTED.as_bytes().to_vec());
        seeds
    },
    check,
    memory_bytes: 4 * LARGE,
    slice: 100,
};

/// As `init` writes it.
const FIRST: &str = include_str!("../../../../cli/src/init/portcullis.toml");
const DISTRIBUTED: &str = r#"
[store]
url = "redis://user:password@127.0.0.1:1/0"
[bus]
url = "amqp://user:password@host/%2f"
"#;
const FULL: &str = r#"
data_dir = "data"
[sandbox]
mode = "enforce"
denied = ["secret"]
guarded_ports = [1, 2]
[telemetry]
sample_ratio = 0.5
[agents.deployer]
playbook = [
  { calls = [{ tool = "shell", args = { argv = ["true"] } }, { tool = "agent", agent = "x" }] },
  { tool = "http", method = "GET", url = "https://e.com/{{ input.a }}", on_failure = "continue" },
]
[agents.deployer.tools.http]
gate = "allow"
allow_private = ["10.0.0.0/8"]
timeout = "250ms"
[[agents.deployer.rules]]
then = "ask"
tool = "http"
args = { "/url" = { one_of = ["a"] } }
[reminders.r]
agent = "deployer"
every = "15m"
[reminders.s]
agent = "deployer"
at = "2030-03-01T09:00:00+01:00"
[webhooks.w]
agent = "deployer"
verify = { scheme = "github", secret_env = "GITHUB_SECRET" }
"#;

thread_local! {
    /// Goes with the thread that plays.
    static FOLDER: TempFolder = TempFolder::new("fuzz").expect("a temporary folder");
}

fn check(bytes: &[u8]) -> Result<String, String> {
    let file = FOLDER.with(|folder| folder.path().join("portcullis.toml"));
    std::fs::write(&file, bytes).map_err(|why| format!("a file for it: {why}"))?;
    let mut variables = BTreeMap::new();
    variables.insert("GITHUB_SECRET".to_owned(), "0123456789abcdef".to_owned());
    // The first line, where it looks like one, stands for the environment as well.
    let first = String::from_utf8_lossy(bytes.split(|byte| *byte == b'\n').next().unwrap_or(b""));
    if let Some((name, value)) = first.split_once('=') {
        let name = format!("PORTCULLIS_{}", name.trim().to_uppercase());
        variables.insert(name, value.trim().to_owned());
    }
    let read = || portcullis::check_configuration(&file, variables.clone());
    let (found, again) = (read(), read());
    hold(found == again, || format!("{found:?}, then {again:?}"))?;
    let (kind, problems) = match &found {
        Ok(problems) => ("loads", problems),
        Err(problems) => ("refused", problems),
    };
    hold(found.is_ok() || !problems.is_empty(), || "refused without a word".to_owned())?;
    let mut words = String::new();
    for problem in problems {
        let told = told(problem, &["portcullis.toml", "variable PORTCULLIS_"])?;
        words.push_str(told.split_once("`: ").map_or(told.as_str(), |(_, what)| what));
    }
    Ok(format!("{kind} {words}"))
}
