//! When do reminders fire, and what happens to the fires that were missed?

pub mod calendar;
