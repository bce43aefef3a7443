//! portcullis-worker
