//! What does one of our messages look like on the wire, and what do we take from one?
//!
//! Authority: this file for what we write; nobody for what we read: headers come from outside, so
//! they are taken as text of bounded size or not at all.

use std::time::{Duration, SystemTime};

use bytes::Bytes;
use lapin::BasicProperties;
use lapin::types::{AMQPValue, FieldTable, ShortString};
use portcullis_proto::topology;

use crate::ports::{BODY_BYTES_MAX, Message, Route};

const PERSISTENT: u8 = 2;
const HEADERS_MAX: usize = 16;
const HEADER_BYTES_MAX: usize = 1_024;

/// A message ready to be published, addressed.
#[derive(Clone, Debug)]
pub(super) struct Parcel {
    pub(super) exchange: &'static str,
    pub(super) key: ShortString,
    /// What a return is recognised by.
    pub(super) id: ShortString,
    pub(super) properties: BasicProperties,
    pub(super) body: Bytes,
}

/// Wraps a message; the error says what of it does not fit on the wire.
pub(super) fn of_message(message: Message, buckets: u8) -> Result<Parcel, String> {
    let (exchange, key, kind) = address(&message.route, buckets);
    let mut headers = FieldTable::default();
    for (name, value) in message.headers {
        headers.insert(short("a header's name", name)?, AMQPValue::LongString(value.into()));
    }
    let mut parcel = of_body(exchange, key, kind, message.message_id, message.body)?;
    if let Some(ms) = message.expiration_ms {
        let expiration = short("an expiration", ms.to_string())?;
        parcel.properties = parcel.properties.with_expiration(expiration);
    }
    parcel.properties = parcel.properties.with_headers(headers);
    Ok(parcel)
}

/// Wraps a body that needs no headers.
pub(super) fn of_body(
    exchange: &'static str,
    key: String,
    kind: &'static str,
    id: String,
    body: Bytes,
) -> Result<Parcel, String> {
    if BODY_BYTES_MAX < body.len() {
        return Err(format!("a body of {} bytes; the most is {BODY_BYTES_MAX}", body.len()));
    }
    let id = short("a message id", id)?;
    let properties = BasicProperties::default()
        .with_delivery_mode(PERSISTENT)
        .with_content_type("application/json".into())
        .with_type(kind.into())
        .with_app_id("portcullis".into())
        .with_timestamp(unix_ms() / 1_000)
        .with_message_id(id.clone());
    Ok(Parcel { exchange, key: short("a routing key", key)?, id, properties, body })
}

fn address(route: &Route, buckets: u8) -> (&'static str, String, &'static str) {
    match route {
        Route::Approval { tenant, pool, risk } => {
            (topology::APPROVALS, topology::approval_key(tenant, pool, risk), "approval")
        }
        Route::Intake => (topology::JOBS, topology::INTAKE_QUEUE.to_owned(), "job"),
        Route::Decision { run } => {
            let bucket = topology::decisions_bucket(run, buckets);
            (topology::DECISIONS, topology::decisions_queue(bucket), "decision")
        }
    }
}

fn short(what: &str, text: String) -> Result<ShortString, String> {
    // `From` would panic above 255 bytes.
    ShortString::try_new(text).map_err(|why| format!("{what} is too long: {why}"))
}

/// The text headers of a delivery, as far as they are of bearable size.
pub(super) fn read_headers(table: Option<&FieldTable>) -> Vec<(String, String)> {
    let text = |(name, value): (&ShortString, &AMQPValue)| {
        let value = value_bytes(value)?;
        let fits = value.len() <= HEADER_BYTES_MAX;
        let value = fits.then(|| std::str::from_utf8(value).ok()).flatten()?;
        Some((name.to_string(), value.to_owned()))
    };
    table.into_iter().flatten().filter_map(text).take(HEADERS_MAX).collect()
}

fn value_bytes(value: &AMQPValue) -> Option<&[u8]> {
    if let AMQPValue::LongString(text) = value {
        Some(text.as_bytes())
    } else if let AMQPValue::ShortString(text) = value {
        Some(text.as_str().as_bytes())
    } else {
        None
    }
}

#[expect(clippy::disallowed_methods, reason = "a stamp for people and metrics; decides nothing")]
pub(super) fn unix_ms() -> u64 {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    u64::try_from(since.unwrap_or(Duration::ZERO).as_millis()).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message() -> Message {
        Message {
            route: Route::Intake,
            message_id: "id".to_owned(),
            expiration_ms: Some(1_500),
            headers: vec![("traceparent".to_owned(), "00-a-b-01".to_owned())],
            body: Bytes::from_static(b"{}"),
        }
    }

    #[test]
    fn what_does_not_fit_on_the_wire_is_refused() {
        let long = "x".repeat(256);
        let too_long = [
            Message { message_id: long.clone(), ..message() },
            Message { headers: vec![(long, String::new())], ..message() },
            Message { body: Bytes::from(vec![0; BODY_BYTES_MAX + 1]), ..message() },
        ];
        for message in too_long {
            assert!(of_message(message, 4).is_err());
        }
        assert!(of_message(message(), 4).is_ok());
    }

    #[test]
    fn a_message_is_persistent_and_says_what_it_is() {
        let parcel = of_message(message(), 4).unwrap();
        let properties = &parcel.properties;
        assert_eq!(*properties.delivery_mode(), Some(PERSISTENT));
        assert_eq!(properties.message_id().as_ref(), Some(&parcel.id));
        assert_eq!(properties.expiration().as_ref().unwrap().as_str(), "1500");
        let read = read_headers(properties.headers().as_ref());
        assert_eq!(read, [("traceparent".to_owned(), "00-a-b-01".to_owned())]);
    }

    #[test]
    fn headers_from_outside_are_bounded() {
        let mut table = FieldTable::default();
        let long = "v".repeat(HEADER_BYTES_MAX + 1);
        table.insert("0-long".into(), AMQPValue::LongString(long.into()));
        table.insert("0-number".into(), AMQPValue::LongInt(1));
        for n in 100..100 + 2 * HEADERS_MAX {
            table.insert(n.to_string().into(), AMQPValue::ShortString("v".into()));
        }
        let read = read_headers(Some(&table));
        assert_eq!(read.len(), HEADERS_MAX);
        assert!(read.iter().all(|(name, _)| !name.starts_with('0')));
    }
}
