//! How does a webhook become a run: limit, verify, parse, accept?
//!
//! Authority: the route's secret says who sent it; the store says whether it was accepted.
//! Invariant: nothing of a body is parsed before it is verified, nothing is buffered that was not
//! bounded, and 202 is answered only once the job is durable.
//! If we crash here: the sender got no answer and sends again, to the same run.

pub mod body;
pub mod verify;

use axum::body::Body;
use axum::http::HeaderMap;
use portcullis_engine::ports::StoreError;
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{JobKey, RouteName, RunId};
use portcullis_proto::job::{Attendance, Origin, Trace};
use portcullis_proto::quote::quote;
use portcullis_proto::run::Reject;
use tracing::{info, warn};

use self::body::BodyError;
use self::verify::{Identity, Peer, Refused, Verified};
use crate::Scheduler;
use crate::offer::{Offer, OfferError};
use crate::read::{self, Unread};
use crate::settings::Webhook;

/// A webhook that became a run, now or before.
#[derive(Clone, Debug, PartialEq, Eq, serde::Serialize)]
pub(crate) struct Received {
    pub(crate) run_id: RunId,
    pub(crate) duplicate: bool,
}

/// Why a webhook became no run.
#[derive(Debug, thiserror::Error)]
pub(crate) enum NotReceived {
    #[error("there is no webhook route `{0}`")]
    UnknownRoute(String),
    #[error("{max} webhooks are being received already")]
    Busy { max: usize },
    #[error(transparent)]
    Unread(#[from] Unread),
    #[error(transparent)]
    Refused(#[from] Refused),
    #[error(transparent)]
    Body(#[from] BodyError),
    #[error(transparent)]
    Offer(#[from] OfferError),
}

impl NotReceived {
    /// The stable code, for answers and metrics.
    pub(crate) fn code(&self) -> &'static str {
        match self {
            Self::UnknownRoute(_) => "unknown_route",
            Self::Busy { .. } => "busy",
            Self::Unread(why) => why.code(),
            Self::Refused(why) => why.code(),
            Self::Body(why) => why.code(),
            Self::Offer(OfferError::UnknownAgent(_)) => "unknown_agent",
            Self::Offer(OfferError::Step(why)) => why.reject().map_or("store", Reject::code),
        }
    }
}

impl Scheduler {
    /// Receives one delivery of a route.
    pub(crate) async fn receive(
        &self,
        route: &str,
        headers: &HeaderMap,
        body: Body,
        peer: Peer,
    ) -> Result<Received, NotReceived> {
        let known = RouteName::new(route)
            .ok()
            .and_then(|name| self.settings.webhooks.get(&name).map(|webhook| (name, webhook)));
        let Some((name, webhook)) = known else {
            return Err(NotReceived::UnknownRoute(quote(route)));
        };
        let received = self.receive_at(&name, webhook, headers, body, peer).await;
        match &received {
            Ok(Received { run_id, duplicate }) => {
                let answer = if *duplicate { "duplicate" } else { "accepted" };
                self.meters.webhook(name.as_str(), answer);
                info!(route = %name, run.id = %run_id, duplicate, "webhook received");
            }
            Err(why) => {
                self.meters.webhook(name.as_str(), why.code());
                warn!(route = %name, code = why.code(), %why, "webhook refused");
            }
        }
        received
    }

    async fn receive_at(
        &self,
        route: &RouteName,
        webhook: &Webhook,
        headers: &HeaderMap,
        body: Body,
        peer: Peer,
    ) -> Result<Received, NotReceived> {
        let max = self.settings.in_flight.webhooks_max;
        let Ok(_permit) = self.webhooks.try_acquire() else {
            return Err(NotReceived::Busy { max });
        };
        let raw = read::body(headers, body, webhook.body_bytes_max).await?;
        let now = match self.clock.now(&self.engine).await {
            Ok(now) => now,
            // A swapped store says nothing about time, nor may anything be promised beside it.
            Err(why @ StoreError::Epoch) => return Err(OfferError::from(why).into()),
            Err(why) => self.clock.guess(&self.engine).ok_or_else(|| OfferError::from(why))?,
        };
        let verified = verify::verify(&webhook.scheme, headers, &raw, now.0, peer)?;
        let offer = offer_of(route, webhook, headers, &raw, &verified)?;
        let accepted = self.take(offer).await?;
        Ok(Received { run_id: accepted.id, duplicate: accepted.duplicate })
    }
}

fn offer_of(
    route: &RouteName,
    webhook: &Webhook,
    headers: &HeaderMap,
    raw: &[u8],
    verified: &Verified,
) -> Result<Offer, BodyError> {
    let identity = match &verified.identity {
        Identity::SignedId(id) => Digest::of_fields(&[b"id", id.as_bytes()]),
        Identity::Digest(digest) => Digest::of_fields(&[b"bytes", digest]),
    };
    let traceparent = headers.get("traceparent").and_then(|value| value.to_str().ok());
    Ok(Offer {
        key: JobKey::webhook(route, identity),
        tenant: webhook.tenant.clone(),
        agent: webhook.agent.clone(),
        input: body::parse(headers, raw)?,
        // Of the bytes: they say more than what was read from them, and a sender's number that
        // no double holds exactly is no reason to refuse what it sent.
        input_hash: Digest::of_bytes(raw),
        origin: Origin::Webhook { route: route.clone() },
        attendance: Attendance::Unattended,
        start_by_ms: None,
        trace: traceparent.and_then(Trace::of_header),
    })
}
