//! Everything that reads bytes from outside, and what each promises.

mod answers;
mod api;
mod calendar;
mod canonical;
mod config;
mod names;
mod records;
mod request;
mod templates;
mod tools;
mod webhooks;
mod wire;

use super::Target;

/// A small reader: kilobytes.
const SMALL: usize = 512 * 1024;
/// A reader of whole documents.
const LARGE: usize = 8 * 1024 * 1024;

/// Every target there is.
pub const TARGETS: [Target; 17] = [
    wire::ENVELOPE,
    wire::WAKE,
    answers::DECISION,
    records::RECORD,
    records::REDIS,
    records::REMINDER,
    webhooks::GITHUB,
    webhooks::STANDARD,
    webhooks::UNSIGNED,
    webhooks::BODY,
    canonical::CANONICAL,
    templates::TEMPLATE,
    calendar::CALENDAR,
    names::NAMES,
    tools::HTTP_ARGS,
    api::API,
    config::CONFIG,
];

/// The target of that name.
#[must_use]
pub fn named(name: &str) -> Option<&'static Target> {
    TARGETS.iter().find(|target| target.name == name)
}
