//! What did the tools really do? One line per execution, appended by their own processes.
//!
//! Authority: the file, which no store or broker has a part in.
//! Invariant: a line that cannot be read is an effect that nobody can account for.

use std::collections::BTreeMap;
use std::path::{Path, PathBuf};

use serde::Deserialize;

use crate::exit::{Exit, Failure};

/// The file, and how much of it was there before.
pub(super) struct Ledger {
    path: PathBuf,
    before: usize,
}

/// One execution, as its process wrote it.
#[derive(Debug, Deserialize)]
struct Line {
    run: String,
    call: u32,
    key: String,
}

/// What stands in it since.
#[derive(Debug, Default)]
pub(super) struct Effects {
    /// How often each call of a run was executed.
    pub(super) by_call: BTreeMap<(String, u32), u64>,
    /// How often something was done under one idempotency key.
    pub(super) by_key: BTreeMap<String, u64>,
    pub(super) unreadable: u64,
}

impl Ledger {
    /// Looks at what is there, which may be nothing yet.
    pub(super) fn open(path: &Path) -> Result<Self, Failure> {
        let folder = path.parent().unwrap_or(Path::new("/"));
        if !folder.is_dir() {
            let message = format!("{} is no folder, and the tool works there", folder.display());
            return Err(Failure::new(Exit::Usage, "ledger", message)
                .mend("make it, readable here and writable for the workers' tools"));
        }
        let path = path.to_owned();
        let before = read(&path)?.len();
        Ok(Self { path, before })
    }

    pub(super) fn effects(&self) -> Result<Effects, Failure> {
        let bytes = read(&self.path)?;
        // Shorter than it was: somebody began a new one, and all of it is new.
        let new = bytes.get(self.before..).unwrap_or(&bytes);
        let mut effects = Effects::default();
        for line in new.split(|byte| *byte == b'\n').filter(|line| !line.is_empty()) {
            match serde_json::from_slice::<Line>(line) {
                Ok(Line { run, call, key }) => {
                    *effects.by_call.entry((run, call)).or_default() += 1;
                    *effects.by_key.entry(key).or_default() += 1;
                }
                Err(_) => effects.unreadable += 1,
            }
        }
        Ok(effects)
    }
}

fn read(path: &Path) -> Result<Vec<u8>, Failure> {
    match std::fs::read(path) {
        Ok(bytes) => Ok(bytes),
        Err(why) if why.kind() == std::io::ErrorKind::NotFound => Ok(Vec::new()),
        Err(why) => {
            let message = format!("the ledger {} cannot be read: {why}", path.display());
            Err(Failure::new(Exit::Usage, "ledger", message))
        }
    }
}
