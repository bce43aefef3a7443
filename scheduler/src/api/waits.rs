//! `/v1/waits`: who must act, and when each wait ends by itself.

use axum::Json;
use axum::extract::State;
use portcullis_engine::ports::IndexEntry;
use portcullis_proto::ids::RunId;
use portcullis_proto::run::effective;
use serde::{Deserialize, Serialize};

use super::Ctx;
use super::answer::ApiError;
use super::extract::StrictQuery;
use super::runs::page_size;
use crate::Scheduler;
use crate::view::{Wait, waits};

/// Runs looked at, unless asked otherwise, and at most.
const RUNS_DEFAULT: usize = 200;
const RUNS_MAX: usize = 1_000;
/// Every list of runs that may have an open wait: a running one has open requests too.
const LISTS: [&str; 4] = ["run.waiting", "run.queued", "run.backoff", "run.running"];

#[derive(Debug, Deserialize)]
#[serde(deny_unknown_fields)]
pub(super) struct ListQuery {
    limit: Option<usize>,
}

#[derive(Debug, Serialize)]
pub(super) struct Open {
    /// The one that ends first in front.
    waits: Vec<Wait>,
    /// How many live runs there are in all.
    live_runs: u64,
    /// Whether some of them were not looked at.
    more: bool,
}

/// `GET /v1/waits?limit=`: of the oldest live runs, up to `limit`.
pub(super) async fn list(
    State(ctx): State<Ctx>,
    StrictQuery(query): StrictQuery<ListQuery>,
) -> Result<Json<Open>, ApiError> {
    let limit = page_size(query.limit, RUNS_DEFAULT, RUNS_MAX)?;
    Ok(Json(ctx.waits(limit).await?))
}

impl Scheduler {
    async fn waits(&self, limit: usize) -> Result<Open, ApiError> {
        let mut entries: Vec<IndexEntry> = Vec::new();
        let mut live_runs = 0_u64;
        for list in LISTS {
            live_runs += self.engine.store.count(list).await?;
            entries.extend(self.list_all(list, limit).await?);
        }
        entries.sort_by(|a, b| (a.score, &a.member).cmp(&(b.score, &b.member)));
        entries.truncate(limit);
        let ids = entries.iter().filter_map(|entry| RunId::new(entry.member.as_str()).ok());
        let loaded = self.load_all(ids).await?;
        let mut all: Vec<Wait> =
            loaded.iter().flat_map(|(held, now)| waits(&effective(held.run(), *now))).collect();
        all.sort_by_key(|wait| wait.ends_at);
        let more = u64::try_from(limit).is_ok_and(|limit| limit < live_runs);
        Ok(Open { waits: all, live_runs, more })
    }
}
