//! portcullis-scheduler

pub mod reminders;
pub mod webhooks;
