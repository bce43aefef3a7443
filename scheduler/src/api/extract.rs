//! How are a request's parts read: strictly, with one clear error each?

use std::str::FromStr;

use axum::extract::{FromRequest, FromRequestParts, Path, Query, Request};
use axum::http::header::CONTENT_TYPE;
use axum::http::request::Parts;
use axum::http::{HeaderMap, StatusCode};
use portcullis_proto::quote::told;
use serde::de::DeserializeOwned;

use super::answer::ApiError;
use crate::read;
use crate::settings::REQUEST_BYTES_MAX;
use crate::webhooks::body::parse_json;

/// A JSON body without duplicate or unknown fields.
///
/// The content type must say JSON: a page of another site can send no such request unasked.
pub(super) struct StrictJson<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequest<S> for StrictJson<T> {
    type Rejection = ApiError;

    async fn from_request(request: Request, _: &S) -> Result<Self, ApiError> {
        let (parts, body) = request.into_parts();
        if !is_json(&parts.headers) {
            let message = "the body must be JSON, and say so";
            return Err(ApiError::new(StatusCode::UNSUPPORTED_MEDIA_TYPE, "not_json", message)
                .at("Content-Type")
                .mend("send `Content-Type: application/json`"));
        }
        let bytes = read::body(&parts.headers, body, REQUEST_BYTES_MAX).await?;
        let value = parse_json(&bytes).map_err(|why| {
            ApiError::new(StatusCode::BAD_REQUEST, why.code(), why.to_string()).at("body")
        })?;
        serde_path_to_error::deserialize(value).map(Self).map_err(|why| {
            let (place, message) = (told(why.path()), told(why.inner()));
            let place = if place == "." { "body".to_owned() } else { place };
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_body", message).at(place)
        })
    }
}

fn is_json(headers: &HeaderMap) -> bool {
    let stated = headers.get(CONTENT_TYPE).and_then(|value| value.to_str().ok());
    let media = stated.and_then(|text| text.split(';').next());
    media.is_some_and(|media| media.trim().eq_ignore_ascii_case("application/json"))
}

/// A query string without unknown parameters.
pub(super) struct StrictQuery<T>(pub(super) T);

impl<T: DeserializeOwned, S: Send + Sync> FromRequestParts<S> for StrictQuery<T> {
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, _: &S) -> Result<Self, ApiError> {
        let query = Query::<T>::try_from_uri(&parts.uri);
        query.map(|Query(query)| Self(query)).map_err(|why| {
            ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_query", told(&why.body_text()))
                .at("query string")
        })
    }
}

/// The path's one parameter, as an id of its kind.
pub(super) struct Id<T>(pub(super) T);

impl<T, S> FromRequestParts<S> for Id<T>
where
    T: FromStr<Err: std::fmt::Display> + Send,
    S: Send + Sync,
{
    type Rejection = ApiError;

    async fn from_request_parts(parts: &mut Parts, state: &S) -> Result<Self, ApiError> {
        let bad =
            |why: String| ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_id", why).at("path");
        let Path(text) = Path::<String>::from_request_parts(parts, state)
            .await
            .map_err(|why| bad(told(&why.body_text())))?;
        text.parse().map(Self).map_err(|why: T::Err| bad(why.to_string()))
    }
}

/// A header that may be there once, as text.
pub(super) fn header<'h>(
    headers: &'h HeaderMap,
    name: &'static str,
) -> Result<Option<&'h str>, ApiError> {
    let mut values = headers.get_all(name).iter();
    let bad = |why: &str| {
        ApiError::new(StatusCode::UNPROCESSABLE_ENTITY, "bad_header", format!("`{name}` {why}"))
            .at(name)
    };
    let Some(value) = values.next() else { return Ok(None) };
    if values.next().is_some() {
        return Err(bad("is there more than once"));
    }
    value.to_str().map(Some).map_err(|_| bad("is not plain ASCII"))
}
