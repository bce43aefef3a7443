//! Searches over the rules with a guard taken out.

#[allow(warnings, clippy::all, clippy::pedantic, reason = "a copy of checked code")]
pub mod proto {
    include!(concat!(env!("OUT_DIR"), "/proto/lib.rs"));
}

#[path = "checked/search.rs"]
pub mod checked;
