//! `/hooks/{route}`: what senders call.

use axum::Json;
use axum::extract::{ConnectInfo, Path, Request, State};
use axum::http::StatusCode;

use super::Ctx;
use super::answer::ApiError;
use crate::serve::PeerAddress;
use crate::webhooks::Received;
use crate::webhooks::verify::Peer;

/// `POST /hooks/{route}`
pub(super) async fn receive(
    State(ctx): State<Ctx>,
    Path(route): Path<String>,
    request: Request,
) -> Result<(StatusCode, Json<Received>), ApiError> {
    let (parts, body) = request.into_parts();
    let known = parts.extensions.get::<ConnectInfo<PeerAddress>>();
    // Where nobody knows where a request comes from, it comes from far away.
    let peer = known.map_or(Peer::Remote, |ConnectInfo(peer)| Peer::of(peer.0.ip()));
    let received = ctx.receive(&route, &parts.headers, body, peer).await?;
    Ok((StatusCode::ACCEPTED, Json(received)))
}
