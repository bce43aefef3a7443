//! portcullis-proto
