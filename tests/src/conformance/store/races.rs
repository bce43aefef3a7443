//! Many at once: one wins where one may, all win where all may.

use std::sync::Arc;

use bytes::Bytes;
use portcullis_engine::ports::{Commit, CommitError, Committed, Durability, Storage, Version};
use tokio::sync::Barrier;
use tokio::task::JoinSet;

use super::{StoreBench, change, create, run_key, won};

/// Sends all commits at the same moment; answers come in any order, with the commit's number.
async fn at_once(
    store: &Arc<dyn Storage>,
    commits: Vec<Commit>,
) -> Vec<(usize, Result<Committed, CommitError>)> {
    let gate = Arc::new(Barrier::new(commits.len()));
    let mut tasks = JoinSet::new();
    for (number, commit) in commits.into_iter().enumerate() {
        let (store, gate) = (store.clone(), gate.clone());
        tasks.spawn(async move {
            gate.wait().await;
            (number, store.commit(commit).await)
        });
    }
    tasks.join_all().await
}

pub async fn one_of_fifty_commits_from_the_same_version_wins(bench: &impl StoreBench) {
    let store = bench.store();
    let key = run_key(&*store, "a");
    won(store.commit(create(&key)).await);
    let commits = (0..50_u8).map(|n| {
        let mut commit = change(&key, Version(1));
        commit.bytes = vec![n].into();
        commit.feed = vec![format!("{{\"by\":{n}}}")];
        commit
    });
    let start = store.end(key.shard()).await.unwrap();
    let answers = at_once(&store, commits.collect()).await;
    let winners: Vec<_> = answers.iter().filter(|(_, answer)| answer.is_ok()).collect();
    assert_eq!(winners.len(), 1, "{answers:?}");
    for (_, answer) in answers.iter().filter(|(_, answer)| answer.is_err()) {
        assert!(matches!(answer, Err(CommitError::Conflict { .. })), "{answer:?}");
    }
    let stored = store.load(&key).await.unwrap().stored.unwrap();
    assert_eq!(stored.version, Version(2));
    assert_eq!(usize::from(stored.bytes[0]), winners[0].0);
    assert_eq!(store.after(key.shard(), &start, 100).await.unwrap().len(), 1);
}

pub async fn two_hundred_records_are_created_at_once(bench: &impl StoreBench) {
    let store = bench.store();
    let keys: Vec<_> = (0..200).map(|n| run_key(&*store, &n.to_string())).collect();
    let commits = keys.iter().enumerate().map(|(n, key)| {
        let mut commit = create(key);
        commit.bytes = Bytes::from(format!("record {n}"));
        commit.durability = if n % 2 == 0 { Durability::Firm } else { Durability::Soft };
        commit
    });
    for (_, answer) in at_once(&store, commits.collect()).await {
        assert_eq!(won(answer).version, Version(1));
    }
    for (n, key) in keys.iter().enumerate() {
        let stored = store.load(key).await.unwrap().stored.unwrap();
        assert_eq!(stored.bytes, format!("record {n}"));
    }
}

pub async fn each_commit_of_a_crowd_gets_its_own_answer(bench: &impl StoreBench) {
    let store = bench.store();
    let now = store.now().await.unwrap();
    let commits: Vec<_> = (0..120)
        .map(|n| {
            let mut commit = create(&run_key(&*store, &n.to_string()));
            match n % 4 {
                0 => {}
                1 => commit.expected = Version(5),
                2 => commit.not_after = Some(now),
                3 => commit.require = vec![super::approval(&*store, &n.to_string())],
                other => panic!("{other} is no remainder of 4"),
            }
            commit
        })
        .collect();
    let wanted: Vec<_> = commits.iter().map(|commit| commit.require.first().cloned()).collect();
    for (n, answer) in at_once(&store, commits).await {
        let right = match n % 4 {
            0 => answer.as_ref().is_ok_and(|committed| committed.version == Version(1)),
            1 => matches!(answer, Err(CommitError::Conflict { .. })),
            2 => matches!(answer, Err(CommitError::Late { .. })),
            3 => matches!(&answer, Err(CommitError::Gone { approval, .. })
                if Some(approval) == wanted[n].as_ref()),
            other => panic!("{other} is no remainder of 4"),
        };
        assert!(right, "{n}: {answer:?}");
        let stored = store.load(&run_key(&*store, &n.to_string())).await.unwrap().stored;
        assert_eq!(stored.is_some(), n % 4 == 0, "{n}");
    }
}
