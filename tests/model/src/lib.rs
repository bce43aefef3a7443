//! Every state that a run can get into under faults, searched for one that breaks a promise.
//!
//! The rules are not modelled: `shipped` searches over the very `apply` that the product calls. The
//! same search runs over `mutated`, a copy of the rules in which each guard can be switched off,
//! made when this crate is built. A guard whose absence the search does not notice is either
//! superfluous or not searched for: both are to be known.
//!
//! Invariant: what must never happen is judged from books that the rules do not keep.

pub mod mutation;

#[expect(clippy::duplicate_mod, reason = "one search over two copies of the rules")]
pub mod mutated;
pub mod shipped;
pub mod verdicts;

/// Searches without the guards that a verdict names, in order, so that it ends the same each time.
///
/// # Panics
/// When a guard or a scenario of that name does not exist.
#[must_use]
pub fn hunt(verdict: &verdicts::Verdict) -> mutated::checked::Found {
    let mut scenario = mutated::checked::scenario(verdict.scenario).clone();
    scenario.ignores = verdict.ignores;
    let _out = mutation::take_out(verdict.out);
    mutated::checked::search(&scenario, scenario.steps, 1)
}
