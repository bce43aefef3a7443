//! portcullis-tests
