//! portcullis-engine
