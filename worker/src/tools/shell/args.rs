//! Which arguments does `shell` take?
//!
//! Authority: the settings, for the names in `env`. Invariant: an argv is a list, and stays one
//! from the playbook to `execve`; there is no field that a shell would read.

use std::collections::{BTreeMap, BTreeSet};

use serde::Deserialize;
use serde_json::{Value, json};

use super::ShellError;
use crate::tools::{ArgsError, read_args};

const FORM: &str = "an object with `argv` (a list of strings) and, if needed, `cwd`, `env` (an \
                    object of strings), `stdin`";
const ARGV_MAX: usize = 256;
/// The kernel takes 128 KiB for one argument and 2 MiB for all.
const ARGV_BYTES_MAX: usize = 96 * 1024;
const CWD_BYTES_MAX: usize = 4096;
const ENV_MAX: usize = 64;
const ENV_BYTES_MAX: usize = 32 * 1024;
const STDIN_BYTES_MAX: usize = 64 * 1024;
/// Set by the worker, so no call may.
const RESERVED: &[&str] = &["PATH", "HOME", "TMPDIR", "LANG", "TZ"];
const RESERVED_PREFIX: &str = "PORTCULLIS_";

#[derive(Debug, Clone, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct Args {
    pub(super) argv: Vec<String>,
    /// Relative to the work folder.
    #[serde(default = "here")]
    pub(super) cwd: String,
    #[serde(default)]
    pub(super) env: BTreeMap<String, String>,
    #[serde(default)]
    pub(super) stdin: Option<String>,
}

fn here() -> String {
    ".".to_owned()
}

impl Args {
    pub(super) fn read(args: &Value, env_allowed: &BTreeSet<String>) -> Result<Self, ArgsError> {
        let args: Self = read_args(args, FORM)?;
        args.check_argv()?;
        args.check_env(env_allowed)?;
        no_nul("cwd", &args.cwd)?;
        if args.cwd.is_empty() || CWD_BYTES_MAX < args.cwd.len() {
            return Err(ArgsError::new(
                "cwd",
                "empty or too long",
                "name a folder, or leave it out",
            ));
        }
        let stdin_bytes = args.stdin.as_ref().map_or(0, String::len);
        if STDIN_BYTES_MAX < stdin_bytes {
            let problem = format!("{stdin_bytes} bytes");
            return Err(ArgsError::new("stdin", &problem, "keep to 65536, or pass a file"));
        }
        Ok(args)
    }

    /// The one spelling: every field but an absent `stdin`.
    pub(super) fn into_value(self) -> Value {
        let mut value = json!({ "argv": self.argv, "cwd": self.cwd, "env": self.env });
        if let Some(stdin) = self.stdin {
            value["stdin"] = stdin.into();
        }
        value
    }

    fn check_argv(&self) -> Result<(), ArgsError> {
        if !(1..=ARGV_MAX).contains(&self.argv.len()) {
            let problem = format!("{} elements", self.argv.len());
            return Err(ArgsError::new("argv", &problem, "give 1 to 256"));
        }
        for (index, element) in self.argv.iter().enumerate() {
            no_nul(&format!("argv[{index}]"), element)?;
        }
        if self.argv.first().is_some_and(String::is_empty) {
            return Err(ArgsError::new("argv[0]", "empty", "name the program"));
        }
        let bytes: usize = self.argv.iter().map(|element| element.len() + 1).sum();
        if ARGV_BYTES_MAX < bytes {
            let problem = format!("{bytes} bytes in all");
            return Err(ArgsError::new("argv", &problem, "keep to 98304, or use `stdin`"));
        }
        Ok(())
    }

    fn check_env(&self, allowed: &BTreeSet<String>) -> Result<(), ArgsError> {
        for (name, value) in &self.env {
            if !allowed.contains(name) {
                let mend = "take it out, or allow it in the tool's settings (`env_allowed`)";
                return Err(ArgsError::new(format!("env.{name}"), "not allowed", mend));
            }
            no_nul(&format!("env.{name}"), value)?;
        }
        let bytes: usize = self.env.iter().map(|(name, value)| name.len() + value.len() + 2).sum();
        if ENV_MAX < self.env.len() || ENV_BYTES_MAX < bytes {
            let problem = format!("{} variables of {bytes} bytes", self.env.len());
            return Err(ArgsError::new(
                "env",
                &problem,
                "keep to 64 of 32768 bytes, or use `stdin`",
            ));
        }
        Ok(())
    }
}

fn no_nul(at: &str, text: &str) -> Result<(), ArgsError> {
    match text.find('\0') {
        Some(_) => Err(ArgsError::new(at, "contains a NUL character", "take it out")),
        None => Ok(()),
    }
}

pub(super) fn check_env_allowed(names: &BTreeSet<String>) -> Result<(), ShellError> {
    for name in names {
        let letter = |c: char| c.is_ascii_alphanumeric() || c == '_';
        if name.is_empty()
            || !name.chars().all(letter)
            || name.starts_with(|c: char| c.is_ascii_digit())
        {
            return Err(ShellError::BadEnv { name: name.clone() });
        }
        if RESERVED.contains(&name.as_str()) || name.starts_with(RESERVED_PREFIX) {
            return Err(ShellError::ReservedEnv { name: name.clone() });
        }
    }
    Ok(())
}
