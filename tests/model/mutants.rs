// Every guard of the rules, and the rules without it. Read by the build of this crate, which makes
// the copy, and by the search.

/// A guard that can be taken out.
#[derive(Debug)]
pub struct Mutant {
    pub name: &'static str,
    /// Under `proto/src`.
    pub file: &'static str,
    /// The guard as it stands there, once, after a line break.
    guard: &'static str,
    /// What stands there instead, after a line break; the guard is out where `OUT` is true.
    without: &'static str,
}

impl Mutant {
    /// The guard as it stands in its file.
    #[must_use]
    pub fn guard(&self) -> &'static str {
        self.guard.strip_prefix('\n').unwrap_or(self.guard)
    }

    /// What stands there instead.
    #[must_use]
    pub fn without(&self) -> &'static str {
        self.without.strip_prefix('\n').unwrap_or(self.without)
    }
}

/// All of them, in the order of their numbers.
pub fn mutants() -> impl Iterator<Item = &'static Mutant> + Clone {
    let all = [OF_CLAIMS, OF_CALLS, OF_CHILDREN, OF_APPROVALS, OF_TIME, OF_ENDS];
    all.into_iter().flatten()
}

include!("mutants/claims.rs");
include!("mutants/calls.rs");
include!("mutants/children.rs");
include!("mutants/approvals.rs");
include!("mutants/time.rs");
include!("mutants/ends.rs");
