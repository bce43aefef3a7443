//! Commits to an SQLite store until it is killed, and says what was answered.
//!
//! `ledger-writer DATABASE`: one writer per run of the ledger; a line `<n> <version>` on standard
//! output for each answered commit, and none for any other.

use std::io::Write as _;
use std::sync::Arc;

use anyhow::Context as _;
use portcullis_engine::ports::{RecordKey, Store as _};
use portcullis_engine::sqlite::{SqliteSettings, SqliteStore};
use portcullis_proto::ids::OpId;
use portcullis_tests::ledger;
use tokio::task::JoinSet;

#[tokio::main]
async fn main() -> anyhow::Result<()> {
    let path = std::env::args_os().nth(1).context("usage: ledger-writer DATABASE")?;
    let store = SqliteStore::open(SqliteSettings::new(path))?;
    let mut writers = JoinSet::new();
    for n in 0..ledger::RUNS {
        writers.spawn(write(Arc::clone(&store), n));
    }
    while let Some(ended) = writers.join_next().await {
        ended??;
    }
    Ok(())
}

/// Ends only with an error: the parent kills this process.
async fn write(store: Arc<SqliteStore>, n: u64) -> anyhow::Result<()> {
    let loaded = store.load(&RecordKey::Run(ledger::run(n))).await?;
    let mut version = loaded.stored.map_or(0, |stored| stored.version.0);
    loop {
        let mut op = [0; 8];
        getrandom::fill(&mut op).map_err(|why| anyhow::anyhow!("no random bytes: {why}"))?;
        version = store.commit(ledger::step(n, version + 1, OpId(op))).await?.version.0;
        // One write a line, so that a kill cuts no line in two.
        std::io::stdout().write_all(format!("{n} {version}\n").as_bytes())?;
    }
}
