//! Which promise breaks without which guard, and where the search sees it.
//!
//! Where two guards stand behind each other, the one is out alone without harm: then the pair is
//! named. Promises that the first of a pair breaks at once are not looked at, to see what follows.

/// Guards taken out together, and what is found then.
#[derive(Debug)]
pub struct Verdict {
    pub out: &'static [&'static str],
    pub scenario: &'static str,
    pub breaks: &'static str,
    pub ignores: &'static str,
}

const fn without(
    out: &'static [&'static str],
    scenario: &'static str,
    breaks: &'static str,
) -> Verdict {
    Verdict { out, scenario, breaks, ignores: "" }
}

const fn beyond_words(out: &'static [&'static str], scenario: &'static str) -> Verdict {
    Verdict { out, scenario, breaks: "I1", ignores: "V1" }
}

/// Every guard, alone or with what stands behind it.
pub const VERDICTS: &[Verdict] = &[
    without(&["claim of a run that another holds"], "lies", "I4"),
    without(&["claim of a parked run"], "lies", "I4"),
    without(&["claim of an ended run"], "lies", "I4"),
    without(&["claim under an ended parent"], "child", "I9"),
    without(&["poison"], "poison", "L1"),
    without(&["attempts are counted"], "poison", "L1"),
    without(&["first claim before start_by"], "slow", "I4"),
    without(&["the lease ends with the step"], "lies", "I4"),
    without(&["the step ends with the run"], "lies", "I4"),
    without(&["the cap only shrinks"], "lies", "I9"),
    without(&["parked while a tool runs"], "mistakes", "I8"),
    without(&["parked with work to do"], "lies", "L1"),
    without(&["released while a tool runs"], "mistakes", "I8"),
    without(&["a child ends before its parent"], "child", "I9"),
    without(&["a job is accepted once"], "mistakes", "I9"),
    without(&["only the holder of the claim"], "plain mistakes", "I4"),
    without(&["planned while calls are open"], "mistakes", "I8"),
    without(&["planned under another digest"], "mistakes", "V1"),
    without(&["asked again after a refusal"], "tightened", "D1"),
    without(&["asked twice"], "mistakes", "D1"),
    without(&["gate closed on a started call"], "mistakes", "I9"),
    without(&["started on a lapsed lease", "start committed before the lease ends"], "slow", "I7"),
    without(
        &[
            "started after the step",
            "started on a lapsed lease",
            "start committed before the lease ends",
        ],
        "slow",
        "I7",
    ),
    without(&["start committed before the lease ends"], "slow", "I7"),
    without(
        &["nothing starts after a fatal refusal", "a fatal refusal ends the run"],
        "turns",
        "I7",
    ),
    without(&["started once"], "plain mistakes", "I2"),
    without(&["started with the planned arguments"], "mistakes", "I7"),
    without(&["policy says no at the start"], "mistakes", "I7"),
    without(&["policy asks at the start"], "tightened", "I7"),
    without(&["a refused gate at the start"], "tightened", "I7"),
    without(&["an approval at the start"], "lies", "I7"),
    without(&["started in its use-by time"], "stale", "I7"),
    without(&["started under its policy epoch"], "revoked", "I7"),
    without(&["a gated start is firm"], "failover, long", "I2"),
    without(&["a start that must not repeat is firm"], "failover, plain", "I2"),
    without(&["a start needs a steady clock"], "clock", "I7"),
    without(&["an open request lets nothing start", "votes are counted again"], "lies", "I7"),
    without(&["a refused request lets nothing start", "a no is no yes at the start"], "lies", "I7"),
    beyond_words(&["a word is verified", "signatures are verified again"], "lies"),
    beyond_words(&["a word is about this call", "votes are compared again"], "lies"),
    beyond_words(&["a word is about this request", "votes are compared again"], "lies"),
    beyond_words(&["a word of who was asked", "voters are looked up again"], "lies"),
    without(&["enough have said yes", "votes are counted again"], "quorum", "I1"),
    without(&["a start is marked"], "plain mistakes", "I2"),
    without(&["finished without a start"], "mistakes", "I9"),
    without(&["a child of that call"], "gated child", "I9"),
    without(&["a spawn is firm", "a start that must not repeat is firm"], "child", "I9"),
    without(&["the word of a child counts once"], "child", "I9"),
    without(&["the word of a child to an ended parent"], "child", "I9"),
    without(&["a word is verified"], "lies", "V1"),
    without(&["a word is about this request"], "lies", "V1"),
    without(&["a word is about this call"], "lies", "V1"),
    without(&["a word of who was asked"], "lies", "V1"),
    without(&["a word of who still belongs"], "lies", "V1"),
    without(&["one word an approver", "votes are counted again"], "quorum", "I1"),
    without(&["a decided request is closed"], "lies", "V1"),
    without(&["a refused request is closed"], "lies", "V1"),
    without(&["a yes needs its licence"], "revoked", "V1"),
    without(&["a yes needs a steady clock"], "clock", "V1"),
    without(&["a word is committed before the deadline"], "slow", "V1"),
    without(&["a decision is firm"], "failover", "I3"),
    without(&["a decision rouses"], "lies", "L1"),
    without(&["an extension is verified"], "more time", "V1"),
    without(&["an extension needs its licence"], "more time", "V1"),
    without(&["an extension ends with the run"], "more time", "I5"),
    without(&["an edit is verified"], "edits", "V1"),
    without(&["an edit drops earlier votes", "votes are compared again"], "edits", "I1"),
    without(&["an edit is of an open request", "an extension needs its licence"], "edits", "V1"),
    without(&["a request ends with the run"], "lies", "I5"),
    without(&["an expired request is refused"], "lies", "L1"),
    without(&["the cap ends a run"], "lies", "L1"),
    without(&["a run that nobody began"], "lies", "L1"),
    without(&["time rouses"], "lies", "I8"),
    without(&["a queued run rings again"], "lies", "L1"),
    without(&["a claim lapses"], "lies", "L1"),
    without(&["a rest ends"], "mistakes", "L1"),
    without(&["last words are repeated"], "child", "L1"),
    without(&["an unknown outcome is not repeated"], "failover, plain", "I2"),
    without(&["an unknown outcome interrupts"], "failover, plain", "I6"),
    without(&["a lapse settles what was started"], "unknown", "I8"),
    without(&["levels are climbed"], "levels", "L1"),
    without(&["requests and children are repeated"], "levels", "L1"),
    without(&["done with calls open"], "mistakes", "I8"),
    without(&["failed while a tool runs"], "mistakes", "I6"),
    without(&["cancelled after its end"], "cancel", "I6"),
    without(&["an end is firm"], "failover, plain", "I6"),
    without(&["an end withdraws requests"], "cancel", "I10"),
    without(&["an end cancels children"], "child", "I10"),
    without(&["a refusal drops the licence"], "lies", "I10"),
    without(&["committed before the cap"], "short", "I6"),
    without(&["the timer knows the lease"], "lies", "L1"),
    without(&["the timer knows the rings"], "lies", "L1"),
    without(&["the timer knows the requests"], "lies", "L1"),
    without(&["the timer knows the cap"], "lies", "I5"),
    without(&["the timer knows the last words"], "child", "I10"),
    without(&["an approval grows stale"], "stale", "L1"),
    without(&["a fold keeps the earlier limit", "a fold keeps what it requires"], "at once", "V1"),
    without(&["a fold keeps what it requires"], "at once", "V1"),
    without(&["a fold is as firm as its firmest"], "at once", "I3"),
    without(&["a request is firm", "a word is about this request"], "failover", "V1"),
];

/// A line of the rules that looks like a guard and has no switch.
#[derive(Debug)]
pub struct Exempt {
    pub file: &'static str,
    pub line: &'static str,
    pub why: &'static str,
}

const fn exempt(file: &'static str, line: &'static str, why: &'static str) -> Exempt {
    Exempt { file, line, why }
}

const APPROVALS: &str = "run/apply/approvals.rs";
const CALLS: &str = "run/apply/calls.rs";
const CHILDREN: &str = "run/apply/children.rs";
const CLAIMS: &str = "run/apply/claims.rs";
const REVISING: &str = "run/apply/revising.rs";
const TICK: &str = "run/apply/tick.rs";
const ENDING: &str = "run/apply/ending.rs";

const ADVICE: &str = "only says how a request was delivered; a timer publishes it again";
const COURTESY: &str = "only chooses the answer; without it the same is refused by what follows";
const NO_CHANGE: &str = "says that nothing changed; there is no state without it";
const BOUND: &str = "a bound on size, beyond what is searched; a unit test has it";
const REPEATED: &str = "what is lost is done again by the timer, or by whoever asked";
const TWO_RUNS: &str = "a child is found under its own id; the search has one child";

/// What is not searched, and why.
pub const EXEMPT: &[Exempt] = &[
    exempt(APPROVALS, "Ordering::Less => Err(Reject::StaleRevision),", COURTESY),
    exempt(APPROVALS, "Ordering::Greater => Err(Reject::UnknownApproval),", COURTESY),
    exempt(APPROVALS, "Err(Reject::Terminal)", COURTESY),
    exempt(APPROVALS, "return Err(Reject::StaleRevision);", ADVICE),
    exempt(APPROVALS, "Err(Reject::NothingDue)", ADVICE),
    exempt(APPROVALS, "| State::Refused(_) => return Err(Reject::NothingDue),", ADVICE),
    exempt(APPROVALS, "Err(Reject::NotEligible)", "the other arm of a guard that is searched"),
    exempt(APPROVALS, "return Err(Reject::Terminal);", COURTESY),
    exempt(APPROVALS, "draft.firm();", REPEATED),
    exempt(
        APPROVALS,
        "(State::Approved { .. }, DenialCode::LicenceGone) => return Err(Reject::AlreadyDecided),",
        "without it an approval is refused: never allowed",
    ),
    exempt("run/apply/asking.rs", "draft.firm();", REPEATED),
    exempt(CALLS, "return Err(Reject::TooManyCalls { max: CALLS_MAX });", BOUND),
    exempt(CALLS, "draft.firm();", "a refusal that is lost is found again by the gate"),
    exempt(CHILDREN, "return Err(Reject::TooDeep { max: DEPTH_MAX });", BOUND),
    exempt(CHILDREN, "return Err(Reject::TooManyChildren { max: CHILDREN_MAX });", BOUND),
    exempt(CHILDREN, "return Err(Reject::Terminal);", NO_CHANGE),
    exempt(CHILDREN, "| Progress::Finished { .. } => Err(Reject::NothingDue),", NO_CHANGE),
    exempt(CHILDREN, "Progress::Spawned { .. } => return Err(Reject::NotThatChild),", TWO_RUNS),
    exempt(CHILDREN, "draft.firm();", REPEATED),
    exempt(CLAIMS, "draft.firm();", "the first state of all; the simulation rolls it back"),
    exempt(CLAIMS, "draft.not_after(job.start_by);", "time ends such a run before its first claim"),
    exempt(
        CLAIMS,
        "(Some(_), Parentage::None) => return Err(Reject::ParentUnknown),",
        "a worker that did not look at the parent; the worker's tests have it",
    ),
    exempt(CLAIMS, "return Err(Reject::StepOver);", "the renewed lease still ends with the step"),
    exempt(
        CLAIMS,
        "over.into_iter().for_each(|at| draft.not_after(at));",
        "the renewed lease still ends with the step",
    ),
    exempt(
        "run/apply/draft.rs",
        "| Phase::Backoff { .. } => Err(Reject::LostClaim),",
        "the other arm of a guard that is searched",
    ),
    exempt(ENDING, "Err(Reject::NothingDue)", NO_CHANGE),
    exempt(
        ENDING,
        "if ended.cancelling.len() < before { Ok(()) } else { Err(Reject::NothingDue) }",
        NO_CHANGE,
    ),
    exempt(REVISING, "return Err(Reject::WrongNonce);", "the licence of the request is required"),
    exempt(REVISING, "return Err(Reject::WrongArgs);", "more time is not more rights"),
    exempt(REVISING, "return Err(Reject::NotLater { at: before });", NO_CHANGE),
    exempt(REVISING, "draft.not_after(deadline);", "the licence expires at the same instant"),
    exempt(REVISING, "draft.need_steady_clock = true;", "as for a decision, which is searched"),
    exempt(REVISING, "draft.firm();", REPEATED),
    exempt(REVISING, "return Err(Reject::AlreadySo);", COURTESY),
    exempt(REVISING, "return Err(Reject::ArgsMismatch);", "the start computes the digest again"),
    exempt(TICK, "Err(Reject::NothingDue)", NO_CHANGE),
    exempt("run/apply.rs", "Err(Reject::Unknown)", NO_CHANGE),
];
