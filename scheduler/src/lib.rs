//! portcullis-scheduler

pub mod reminders;
