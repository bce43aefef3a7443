//! Which scripts are there, and how is one called?
//!
//! Invariant: every key of a call is declared, and all of them carry one shard's hash tag.

use std::sync::LazyLock;

use redis::Cmd;

/// A script and the hash it is called by.
pub(super) struct Script {
    pub(super) source: &'static str,
    sha1: String,
    /// `EVALSHA_RO` refuses to write, and is served while writes are held.
    verb: &'static str,
}

impl Script {
    fn new(source: &'static str, verb: &'static str) -> Self {
        Self { source, sha1: redis::Script::new(source).get_hash().to_owned(), verb }
    }
}

pub(super) static COMMIT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("commit.lua"), "EVALSHA"));
pub(super) static READ: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("read.lua"), "EVALSHA_RO"));
pub(super) static KEEP: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("keep.lua"), "EVALSHA"));
pub(super) static ADOPT: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("adopt.lua"), "EVALSHA"));
pub(super) static RAISE: LazyLock<Script> =
    LazyLock::new(|| Script::new(include_str!("raise.lua"), "EVALSHA"));

/// One call of a script.
pub(super) struct Call {
    pub(super) script: &'static Script,
    pub(super) command: Cmd,
}

impl Call {
    pub(super) fn new<K: AsRef<[u8]>>(
        script: &'static LazyLock<Script>,
        keys: impl IntoIterator<Item = K, IntoIter: ExactSizeIterator>,
    ) -> Self {
        let script: &'static Script = script;
        let keys = keys.into_iter();
        let mut command = redis::cmd(script.verb);
        command.arg(&script.sha1).arg(keys.len());
        for key in keys {
            command.arg(key.as_ref());
        }
        Self { script, command }
    }

    pub(super) fn arg(&mut self, argument: &[u8]) -> &mut Self {
        self.command.arg(argument);
        self
    }
}
