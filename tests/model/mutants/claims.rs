// How a run is claimed, held, parked and let go.

pub const OF_CLAIMS: &[Mutant] = &[
    Mutant {
        name: "claim of a run that another holds",
        file: "run/apply/claims.rs",
        guard: r"
Phase::Running { .. } => return Err(Reject::Busy),",
        without: r"
Phase::Running { .. } if OUT => {}
        Phase::Running { .. } => return Err(Reject::Busy),",
    },
    Mutant {
        name: "claim of a parked run",
        file: "run/apply/claims.rs",
        guard: r"
        Phase::Waiting | Phase::Backoff { .. } => return Err(Reject::Waiting),",
        without: r"
        Phase::Waiting | Phase::Backoff { .. } if OUT => {}
        Phase::Waiting | Phase::Backoff { .. } => return Err(Reject::Waiting),",
    },
    Mutant {
        name: "claim of an ended run",
        file: "run/apply/claims.rs",
        guard: r"
        Phase::Ended(_) => return Err(Reject::Terminal),
    }
    match (&draft",
        without: r"
        Phase::Ended(_) if OUT => {}
        Phase::Ended(_) => return Err(Reject::Terminal),
    }
    match (&draft",
    },
    Mutant {
        name: "claim under an ended parent",
        file: "run/apply/claims.rs",
        guard: r"
        (None, _) | (Some(_), Parentage::Live) => {}",
        without: r"
        (None, _) | (Some(_), Parentage::Live) => {}
        (Some(_), Parentage::Ended) if OUT => {}",
    },
    Mutant {
        name: "poison",
        file: "run/apply/claims.rs",
        guard: r"
    if ATTEMPTS_MAX <= draft.next.attempts {",
        without: r"
    if !OUT && ATTEMPTS_MAX <= draft.next.attempts {",
    },
    Mutant {
        name: "attempts are counted",
        file: "run/apply/claims.rs",
        guard: r"
    draft.next.attempts += 1;",
        without: r"
    draft.next.attempts += u8::from(!OUT);",
    },
    Mutant {
        name: "first claim before start_by",
        file: "run/apply/claims.rs",
        guard: r"
        draft.not_after(draft.next.job.start_by);",
        without: r"
        if !OUT { draft.not_after(draft.next.job.start_by); }",
    },
    Mutant {
        name: "the lease ends with the step",
        file: "run/apply/claims.rs",
        guard: r"
    let lease_until = now.plus(LEASE_MS).min(step_deadline);",
        without: r"
    let lease_until = now.plus(LEASE_MS);
    let lease_until = if OUT { lease_until } else { lease_until.min(step_deadline) };",
    },
    Mutant {
        name: "the step ends with the run",
        file: "run/apply/claims.rs",
        guard: r"
    let step_deadline = now.plus(draft.next.step_left_ms.max(0)).min(draft.next.hard_cap);",
        without: r"
    let step_deadline = now.plus(draft.next.step_left_ms.max(0));
    let step_deadline = if OUT { step_deadline } else { step_deadline.min(draft.next.hard_cap) };",
    },
    Mutant {
        name: "the cap only shrinks",
        file: "run/apply/claims.rs",
        guard: r"
        draft.next.hard_cap = draft.next.hard_cap.min(now.plus(cap_ms));",
        without: r"
        let earlier = draft.next.hard_cap.min(now.plus(cap_ms));
        let later = now.plus(cap_ms).plus(cap_ms).plus(100_000);
        draft.next.hard_cap = if OUT { later } else { earlier };",
    },
    Mutant {
        name: "parked while a tool runs",
        file: "run/apply/claims.rs",
        guard: r"
pub(super) fn park(draft: &mut Draft, claim: ClaimId) -> Result<(), Reject> {
    draft.held(claim)?;
    if draft",
        without: r"
pub(super) fn park(draft: &mut Draft, claim: ClaimId) -> Result<(), Reject> {
    draft.held(claim)?;
    if !OUT && draft",
    },
    Mutant {
        name: "parked with work to do",
        file: "run/apply/claims.rs",
        guard: r"
    if draft.next.has_work() {",
        without: r"
    if !OUT && draft.next.has_work() {",
    },
    Mutant {
        name: "released while a tool runs",
        file: "run/apply/claims.rs",
        guard: r"
    why: &str,
) -> Result<(), Reject> {
    draft.held(claim)?;
    if draft",
        without: r"
    why: &str,
) -> Result<(), Reject> {
    draft.held(claim)?;
    if !OUT && draft",
    },
    Mutant {
        name: "a child ends before its parent",
        file: "run/apply/claims.rs",
        guard: r"
    job.parent.as_ref().map_or(cap, |parent| cap.min(parent.hard_cap.minus(CHILD_RESERVE_MS)))",
        without: r"
    let parent = job.parent.as_ref().filter(|_| !OUT);
    parent.map_or(cap, |parent| cap.min(parent.hard_cap.minus(CHILD_RESERVE_MS)))",
    },
];
