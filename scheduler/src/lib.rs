//! portcullis-scheduler
