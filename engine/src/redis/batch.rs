//! How do several commits of one shard become one script call, and its answer one answer each?

use std::collections::HashMap;

use portcullis_proto::ids::Shard;
use portcullis_proto::time::Ms;
use portcullis_proto::topology;
use redis::Value;

use super::link::Failure;
use super::pack::Pack;
use super::script::{COMMIT, Call};
use super::{record, reply};
use crate::ports::{CLOCK_LAG_MS_MAX, Commit, CommitError, Committed, Durability, Version};

/// The latest time that a score or an expiry can hold exactly, in milliseconds: in the year 287396.
const MS_MAX: i64 = (1 << 53) - 1;

pub(super) type Answer = Result<Committed, CommitError>;

/// Is there a commit among them that may be acted on only once it is durable?
pub(super) fn is_firm<'a>(mut commits: impl Iterator<Item = &'a Commit>) -> bool {
    commits.any(|commit| commit.durability == Durability::Firm)
}

/// The keys of a call, each once.
struct Keys {
    keys: Vec<String>,
    places: HashMap<String, usize>,
}

impl Keys {
    fn new(shard: Shard) -> Self {
        let keys =
            vec![topology::meta_key(shard), topology::timer_key(shard), topology::feed_key(shard)];
        Self { keys, places: HashMap::new() }
    }

    /// Where Lua finds the key; it counts from one.
    fn place(&mut self, key: String) -> i64 {
        let Self { keys, places } = self;
        let place = places.entry(key).or_insert_with_key(|key| {
            keys.push(key.clone());
            keys.len()
        });
        i64::try_from(*place).expect("a batch has far fewer keys")
    }
}

/// The call that makes `commits`, all of them of `shard`, in order.
pub(super) fn call<'a>(
    epoch: &[u8],
    shard: Shard,
    commits: impl ExactSizeIterator<Item = &'a Commit> + Clone,
) -> Call {
    let mut keys = Keys::new(shard);
    let mut pack = Pack::default();
    pack.array(commits.len());
    for commit in commits.clone() {
        put(&mut pack, &mut keys, commit);
    }
    let firm: &[u8] = if is_firm(commits.clone()) { b"1" } else { b"0" };
    let mut call = Call::new(&COMMIT, &keys.keys);
    call.arg(epoch).arg(firm).arg(&pack.into_bytes());
    for commit in commits {
        call.arg(&commit.bytes);
    }
    call
}

/// One commit, in the order in which the script takes it apart.
fn put(pack: &mut Pack, keys: &mut Keys, commit: &Commit) {
    pack.array(12);
    pack.int(keys.place(commit.key.store_key()));
    pack.bytes(&record::expected_bytes(commit));
    pack.bytes(&commit.op.0);
    pack.bytes(&record::version_bytes(Version(commit.expected.0.saturating_add(1))));
    pack.int(i64::try_from(record::ops_bytes_kept(commit.expected)).expect("at most 56"));
    pack.bytes(commit.key.timer_member().as_bytes());
    pack.maybe_text(commit.next_deadline.map(score));
    pack.maybe_text(commit.retain_ms.map(|ms| ms.clamp(1, MS_MAX)));
    put_guards(pack, keys, commit);
    put_lists(pack, keys, commit);
    put_licences(pack, keys, commit);
    if commit.feed.is_empty() {
        pack.none();
    } else {
        pack.array(commit.feed.len());
        for json in &commit.feed {
            pack.bytes(json.as_bytes());
        }
    }
}

fn put_guards(pack: &mut Pack, keys: &mut Keys, commit: &Commit) {
    let Commit { not_before, not_after, need_steady_clock, policy_epoch, require, .. } = commit;
    let window = not_before.is_some() || not_after.is_some();
    if !window && !need_steady_clock && policy_epoch.is_none() && require.is_empty() {
        pack.none();
        return;
    }
    pack.array(4 + require.len());
    pack.maybe_text(*policy_epoch);
    pack.maybe_int(need_steady_clock.then_some(CLOCK_LAG_MS_MAX));
    pack.maybe_int(not_before.map(|at| at.0));
    pack.maybe_int(not_after.map(|at| at.0));
    for approval in require {
        pack.int(keys.place(topology::licence_key(approval)));
    }
}

/// Removals first, so that an entry both removed and set is there afterwards.
fn put_lists(pack: &mut Pack, keys: &mut Keys, commit: &Commit) {
    let entries = commit.index_del.len() + commit.index_set.len();
    if entries == 0 {
        pack.none();
        return;
    }
    let shard = commit.key.shard();
    pack.array(3 * entries);
    for (index, member) in &commit.index_del {
        pack.int(keys.place(topology::index_key(shard, index))).bytes(member.as_bytes()).none();
    }
    for entry in &commit.index_set {
        pack.int(keys.place(topology::index_key(shard, &entry.index)));
        pack.bytes(entry.member.as_bytes()).text(score(entry.score));
    }
}

fn put_licences(pack: &mut Pack, keys: &mut Keys, commit: &Commit) {
    let licences = commit.licences_del.len() + commit.licences_set.len();
    if licences == 0 {
        pack.none();
        return;
    }
    pack.array(2 * licences);
    for approval in &commit.licences_del {
        pack.int(keys.place(topology::licence_key(approval))).none();
    }
    for (approval, deadline) in &commit.licences_set {
        pack.int(keys.place(topology::licence_key(approval)));
        // A deadline that Redis would refuse as no time at all has passed as well.
        pack.text(deadline.0.clamp(1, MS_MAX));
    }
}

fn score(at: Ms) -> i64 {
    at.0.clamp(-MS_MAX, MS_MAX)
}

/// One answer for each commit of a call that was answered. `durable`: enough replicas have it.
pub(super) fn answers<'a>(
    answer: Value,
    durable: bool,
    commits: impl ExactSizeIterator<Item = &'a Commit>,
) -> Vec<Answer> {
    let unreadable = |why: String| CommitError::Unknown(why);
    let parts = match reply::array(answer) {
        Ok(parts) => parts,
        Err(why) => return all(commits.len(), &unreadable(why.to_string())),
    };
    match parts.first().map(reply::int) {
        Some(Ok(-1)) => return all(commits.len(), &CommitError::Epoch),
        Some(Ok(now)) if parts.len() == 1 + 2 * commits.len() => {
            let pairs = parts[1..].chunks_exact(2);
            let one = |(commit, pair): (&Commit, &[Value])| {
                one(commit, Ms(now), &pair[0], &pair[1], durable)
            };
            return commits.zip(pairs).map(one).collect();
        }
        Some(_) | None => {}
    }
    all(commits.len(), &unreadable("the script answered something else".into()))
}

/// The same answer for each commit of a call that was not answered.
pub(super) fn unanswered(failure: Failure, commits: usize) -> Vec<Answer> {
    let error = match failure {
        Failure::NotSent(why) | Failure::Refused(why) => CommitError::Unavailable(why),
        Failure::Failed(why) | Failure::Dropped(why) => CommitError::Unknown(why),
        Failure::TimedOut => CommitError::Unknown("Redis did not answer in time".into()),
    };
    all(commits, &error)
}

/// Does it say that this server is no primary (any more)? Another connection may lead to one.
pub(super) fn is_elsewhere(answer: &Answer) -> bool {
    matches!(answer, Err(CommitError::Unavailable(why)) if why.starts_with("READONLY"))
}

fn all(commits: usize, error: &CommitError) -> Vec<Answer> {
    vec![Err(error.clone()); commits]
}

fn one(commit: &Commit, now: Ms, code: &Value, detail: &Value, durable: bool) -> Answer {
    let number = || reply::int(detail).map_err(|why| CommitError::Unknown(why.to_string()));
    let natural = || {
        let negative = |n| CommitError::Unknown(format!("the script answered {n}"));
        number().and_then(|n| u64::try_from(n).map_err(|_| negative(n)))
    };
    let text = || reply::text(detail.clone()).unwrap_or_else(|_| format!("{detail:?}"));
    let done = |version| match commit.durability {
        Durability::Firm if !durable => Err(CommitError::NotDurable),
        Durability::Firm | Durability::Soft => Ok(Committed { version, now }),
    };
    match reply::int(code) {
        Ok(0) => done(Version(commit.expected.0.saturating_add(1))),
        Ok(1) => done(Version(natural()?)),
        Ok(2) => Err(CommitError::Conflict { now }),
        Ok(3) => Err(CommitError::Policy { current: natural()? }),
        Ok(4) => Err(CommitError::Clock { lag_ms: number()? }),
        Ok(5) => Err(CommitError::Early { now }),
        Ok(6) => Err(CommitError::Late { now }),
        Ok(7) => {
            let which = natural()?;
            let approval = usize::try_from(which).ok().and_then(|at| commit.require.get(at));
            Err(match approval.cloned() {
                Some(approval) => CommitError::Gone { approval, now },
                None => CommitError::Unknown(format!("the script missed licence {which}")),
            })
        }
        Ok(8) => Err(CommitError::Unavailable(text())),
        Ok(other) => Err(CommitError::Unknown(format!("code {other} of the script: {}", text()))),
        Err(why) => Err(CommitError::Unknown(why.to_string())),
    }
}
