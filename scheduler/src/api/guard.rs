//! May this request reach the API at all?
//!
//! Invariant: bound to loopback, only pages and programs that call us by our own name get through:
//! a page of another site can make a browser on this machine connect (DNS rebinding), or post
//! blindly (cross-site forgery). A token that is shown must be known, needed or not.

use std::sync::Arc;

use axum::extract::{FromRequestParts, Request, State};
use axum::http::request::Parts;
use axum::http::uri::Authority;
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;

use super::Ctx;
use super::answer::ApiError;
use super::extract::header;
use crate::credentials::{Caller, Proven, Unproven, prove};
use crate::settings::Settings;

/// Checks where a request comes from and who makes it, and takes one of the places in flight.
pub(super) async fn guard(
    State(ctx): State<Ctx>,
    mut request: Request,
    next: Next,
) -> Result<Response, ApiError> {
    let host = host(&request)?;
    if ctx.settings.is_loopback() && !is_own(&ctx.settings, host.as_ref()) {
        let message = "this server does not answer to that host name";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_host", message)
            .at("Host")
            .mend("call it by its loopback address, or add the name to the configuration"));
    }
    let reads = matches!(*request.method(), Method::GET | Method::HEAD);
    if !reads && !is_same_site(request.headers(), host.as_ref())? {
        let message = "a page of another origin may change nothing here";
        return Err(ApiError::new(StatusCode::FORBIDDEN, "foreign_origin", message).at("Origin"));
    }
    let caller = prove(&ctx.settings, request.headers())?;
    request.extensions_mut().insert(caller);
    let Ok(permit) = Arc::clone(&ctx.requests).try_acquire_owned() else {
        return Err(ApiError::busy(ctx.settings.in_flight.requests_max, "requests"));
    };
    let answer = next.run(request).await;
    drop(permit);
    Ok(answer)
}

fn host(request: &Request) -> Result<Option<Authority>, ApiError> {
    // A request line with a full address wins over the header (RFC 9112, section 3.2.2).
    if let Some(authority) = request.uri().authority() {
        return Ok(Some(authority.clone()));
    }
    let stated = header(request.headers(), "host")?;
    Ok(stated.and_then(|text| text.parse().ok()))
}

fn is_own(settings: &Settings, host: Option<&Authority>) -> bool {
    let Some(host) = host else { return false };
    let name = host.host().trim_start_matches('[').trim_end_matches(']').to_ascii_lowercase();
    let loopback = name.parse::<std::net::IpAddr>().is_ok_and(|ip| ip.to_canonical().is_loopback());
    loopback || name == "localhost" || settings.hosts.contains(&name)
}

/// Whether no browser says that this comes from elsewhere. Programs say nothing.
fn is_same_site(headers: &HeaderMap, host: Option<&Authority>) -> Result<bool, ApiError> {
    let site = header(headers, "sec-fetch-site")?;
    if site.is_some_and(|site| site != "same-origin" && site != "none") {
        return Ok(false);
    }
    let Some(origin) = header(headers, "origin")? else { return Ok(true) };
    let own = origin.strip_prefix("http://").or_else(|| origin.strip_prefix("https://"));
    let own = own.and_then(|authority| authority.parse::<Authority>().ok());
    Ok(own.is_some() && own.as_ref() == host)
}

/// Who calls, as the guard found out.
impl<S: Send + Sync> FromRequestParts<S> for Caller {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        // Absent only if a route is not behind the guard.
        parts.extensions.get::<Self>().cloned().ok_or_else(|| Unproven::NoCredential.into())
    }
}

/// An approver who showed its token; nobody else gets past this.
impl<S: Send + Sync> FromRequestParts<S> for Proven {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        match Caller::from_request_parts(parts, state).await? {
            Caller::Approver(proven) => Ok(proven),
            Caller::Local => Err(ApiError::from(Unproven::NoCredential)
                .mend("decisions need an approver's token, on this machine too")),
            Caller::Token => {
                let message = "this token may read and start, not decide";
                Err(ApiError::new(StatusCode::FORBIDDEN, "not_an_approver", message)
                    .at("Authorization")
                    .mend("show an approver's token"))
            }
        }
    }
}
