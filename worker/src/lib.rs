//! portcullis-worker

pub mod models;
