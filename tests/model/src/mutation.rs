//! Which guards are out at the moment.
//!
//! Authority: this process; the copy of the rules asks here at every guard.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Mutex, MutexGuard, PoisonError};

include!("../mutants.rs");

const NONE: usize = usize::MAX;
static OUT: [AtomicUsize; 3] = [const { AtomicUsize::new(NONE) }; 3];
static SEARCHING: Mutex<()> = Mutex::new(());

/// Whether the guard with that number is out.
#[must_use]
pub fn is_out(number: usize) -> bool {
    OUT.iter().any(|out| out.load(Ordering::Relaxed) == number)
}

/// Puts the guards back when dropped. One at a time: the searches share the copy of the rules.
#[must_use]
pub struct Out {
    _one: MutexGuard<'static, ()>,
}

impl Drop for Out {
    fn drop(&mut self) {
        for out in &OUT {
            out.store(NONE, Ordering::Relaxed);
        }
    }
}

/// Takes up to three guards out, by name.
///
/// # Panics
/// When there is no guard of that name.
pub fn take_out(names: &[&str]) -> Out {
    let one = SEARCHING.lock().unwrap_or_else(PoisonError::into_inner);
    for (out, name) in OUT.iter().zip(names) {
        let number = mutants().position(|mutant| mutant.name == *name);
        out.store(
            number.unwrap_or_else(|| panic!("no mutant is called `{name}`")),
            Ordering::Relaxed,
        );
    }
    Out { _one: one }
}
