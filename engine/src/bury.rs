//! Ends a run that no rule can end: its record is damaged, or no commit of it fits any more.
//!
//! Authority: the sweep, after many failures in a row that time does not heal.
//! Invariant: the damaged bytes are kept before anything is written over them, and a record that a
//! newer release may have written is never touched.
//! If we crash here: the bytes are kept once more, and the next failure tries again.

use std::sync::Arc;

use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{AgentName, JobKey, OpId, RunId, Tenant};
use portcullis_proto::job::{Attendance, Job, Limits, Origin, Payload};
use portcullis_proto::journal::{Entry, Fact};
use portcullis_proto::run::{Change, Durability, Ended, Outcome, PHASES, Phase, Reason, Run};
use portcullis_proto::time::Ms;

use crate::drive::{Engine, Held, StepError};
use crate::ports::{RecordKey, Stored, Version};
use crate::record::{Record, RecordError};
use crate::surroundings::Draw as _;

/// How long the bytes are kept, in milliseconds: thirty days.
const KEEP_MS: i64 = 30 * 24 * 3_600_000;
/// Later than any entry that a run can have had.
const ENTRIES_BEFORE: u32 = u32::MAX - 1;

impl Engine {
    /// Writes `failed`, reason `internal`, over a run's record. `false`: it was left alone, for a
    /// newer release may be able to read it, or it has changed or ended meanwhile.
    pub(crate) async fn bury(self: &Arc<Self>, id: &RunId, why: &str) -> Result<bool, StepError> {
        let key = RecordKey::Run(id.clone());
        let loaded = self.store.load(&key).await?;
        let Some(stored) = loaded.stored else { return Ok(false) };
        let (before, job) = match Record::decode(&stored.bytes) {
            Ok(record) if !record.run.is_live() => return Ok(false),
            Ok(record) => {
                let job = record.run.job.clone();
                (Some(self.held(record, stored.version, stored.op, loaded.now)), job)
            }
            Err(unread) if unread.may_be_newer() => return Ok(false),
            Err(_) => (None, unknown_job(loaded.now)),
        };
        let Stored { version, op, bytes } = stored;
        let kept = self.store.put(id.shard(), bytes, KEEP_MS).await?;
        let detail = format!("{why}; the record as it was is kept as blob {kept}");
        let reason = Reason::because("internal", &detail);
        let run = ended(id, job, reason.clone(), loaded.now);
        let (code, detail) = (reason.code, reason.detail);
        let fact = Fact::Ended { outcome: Outcome::Failed, code, detail };
        let journal = vec![Entry { at: loaded.now, fact }];
        let change = Change { journal: journal.clone(), ..Change::none(run, Durability::Firm) };
        self.write_over(id, before.as_ref(), (version, op), change).await?;
        self.meters.happened(&journal);
        crate::narrate::narrate(id, &journal);
        Ok(true)
    }

    async fn write_over(
        &self,
        id: &RunId,
        before: Option<&Held>,
        (version, made_by): (Version, OpId),
        change: Change,
    ) -> Result<(), StepError> {
        let history = change.journal.clone();
        let earlier = match before {
            Some(held) => u32::try_from(held.record.next_entry()).unwrap_or(ENTRIES_BEFORE),
            None => ENTRIES_BEFORE,
        };
        let op = self.surroundings.op_id();
        let (Record { run, .. }, mut commit) = crate::commit::build(id, before, change, op)?;
        commit.bytes = Record { run, history, earlier }.encode()?;
        commit.expected = version;
        commit.expected_op = Some(made_by);
        if before.is_none() {
            // Where it stood is unknown: it leaves every list that a run can stand in.
            let lists = PHASES.iter().map(|phase| format!("run.{phase}"));
            let elsewhere = lists.filter(|list| commit.index_set.iter().all(|e| e.index != *list));
            commit.index_del = elsewhere.map(|list| (list, id.to_string())).collect();
        }
        self.store.commit(commit).await.map(drop).map_err(StepError::Commit)
    }
}

impl RecordError {
    /// Whether a newer release may know what these bytes are. Damaged compression and damaged JSON
    /// are damage for every release.
    pub(crate) fn may_be_newer(&self) -> bool {
        match self {
            Self::UnknownFormat(_) => true,
            Self::NotARun(why) => why.is_data(),
            Self::Empty | Self::Compression(_) => false,
        }
    }
}

/// The job of a run whose own is lost. It is never worked on.
fn unknown_job(now: Ms) -> Job {
    let tenant = Tenant::new("default").expect("a name");
    Job {
        key: JobKey::api(&tenant, b"lost"),
        tenant,
        agent: AgentName::new("unknown").expect("a name"),
        input_hash: Digest::of_bytes(b"null"),
        input: Payload::Inline(serde_json::Value::Null),
        origin: Origin::Api,
        attendance: Attendance::Unattended,
        limits: Limits::default(),
        start_by: now,
        parent: None,
        trace: None,
    }
}

fn ended(id: &RunId, job: Job, reason: Reason, now: Ms) -> Run {
    let end = Ended {
        at: now,
        outcome: Outcome::Failed,
        reason,
        output: None,
        // A parent finds out by itself: it looks at its child now and then.
        notify: None,
        cancelling: vec![],
    };
    Run {
        id: id.clone(),
        job,
        created: now,
        begun: None,
        hard_cap: now,
        phase: Phase::Ended(Box::new(end)),
        attempts: 0,
        turn: 0,
        step_left_ms: 0,
        children: 0,
        definition: None,
        calls: vec![],
    }
}
