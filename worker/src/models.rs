//! What does an agent want to do next?

pub mod template;
