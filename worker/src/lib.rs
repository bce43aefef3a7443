//! portcullis-worker

pub mod models;
pub mod sandbox;
pub mod tools;
