// How a call is planned, refused, started and finished.

pub const OF_CALLS: &[Mutant] = &[
    Mutant {
        name: "planned while calls are open",
        file: "run/apply/calls.rs",
        guard: r"
    if !draft.next.turn_calls().all(Call::is_final) {
        return Err(Reject::CallsOpen);",
        without: r"
    if !OUT && !draft.next.turn_calls().all(Call::is_final) {
        return Err(Reject::CallsOpen);",
    },
    Mutant {
        name: "planned under another digest",
        file: "run/apply/calls.rs",
        guard: r"
        if hash.as_ref() != Ok(&planned.args_hash) || print.as_ref() != Ok(&planned.fingerprint) {",
        without: r"
        let is_it = hash.as_ref() == Ok(&planned.args_hash);
        if !OUT && !(is_it && print.as_ref() == Ok(&planned.fingerprint)) {",
    },
    Mutant {
        name: "asked again after a refusal",
        file: "run/apply/calls.rs",
        guard: r"
        (Progress::Planned, Gate::Refused(denial)) => return Err(Reject::GateClosed(denial.code)),",
        without: r"
        (Progress::Planned, Gate::Refused(_)) if OUT => {}
        (Progress::Planned, Gate::Refused(denial)) => return Err(Reject::GateClosed(denial.code)),",
    },
    Mutant {
        name: "asked twice",
        file: "run/apply/calls.rs",
        guard: r"
        (Progress::Planned, Gate::Asked(_)) => return Err(Reject::AlreadySo),",
        without: r"
        (Progress::Planned, Gate::Asked(_)) if OUT => {}
        (Progress::Planned, Gate::Asked(_)) => return Err(Reject::AlreadySo),",
    },
    Mutant {
        name: "gate closed on a started call",
        file: "run/apply/calls.rs",
        guard: r"
    if !matches!(call.progress, Progress::Planned) {
        return Err(Reject::AlreadyStarted);
    }
    if let Some(denial) = call.refusal() {",
        without: r"
    if !OUT && !matches!(call.progress, Progress::Planned) {
        return Err(Reject::AlreadyStarted);
    }
    if let Some(denial) = call.refusal() {",
    },
    Mutant {
        name: "started after the step",
        file: "run/apply/calls.rs",
        guard: r"
        if step_deadline <= now {
            return Err(Reject::StepOver);
        }
        if lease_until",
        without: r"
        if !OUT && step_deadline <= now {
            return Err(Reject::StepOver);
        }
        if lease_until",
    },
    Mutant {
        name: "started on a lapsed lease",
        file: "run/apply/calls.rs",
        guard: r"
        if lease_until <= now {
            return Err(Reject::LostClaim);",
        without: r"
        if !OUT && lease_until <= now {
            return Err(Reject::LostClaim);",
    },
    Mutant {
        name: "start committed before the lease ends",
        file: "run/apply/calls.rs",
        guard: r"
        draft.not_after(lease_until.min(step_deadline));",
        without: r"
        if !OUT { draft.not_after(lease_until.min(step_deadline)); }",
    },
    Mutant {
        name: "nothing starts after a fatal refusal",
        file: "run/apply/calls.rs",
        guard: r"
    if let Some((_, denial)) = draft.next.fatal_refusal() {
        return",
        without: r"
    if let Some((_, denial)) = draft.next.fatal_refusal().filter(|_| !OUT) {
        return",
    },
    Mutant {
        name: "started once",
        file: "run/apply/calls.rs",
        guard: r"
    let call = draft.call_mut(seq)?;
    if !matches!(call.progress, Progress::Planned) {
        return Err(Reject::AlreadyStarted);
    }
    if call.args_hash",
        without: r"
    let call = draft.call_mut(seq)?;
    if !OUT && !matches!(call.progress, Progress::Planned) {
        return Err(Reject::AlreadyStarted);
    }
    if call.args_hash",
    },
    Mutant {
        name: "started with the planned arguments",
        file: "run/apply/calls.rs",
        guard: r"
    if call.args_hash != start.args_hash {",
        without: r"
    if !OUT && call.args_hash != start.args_hash {",
    },
    Mutant {
        name: "policy says no at the start",
        file: "run/apply/calls.rs",
        guard: r"
    if let Verdict::Deny { code, .. } = &start.verdict {",
        without: r"
    if let Verdict::Deny { code, .. } = &start.verdict && !OUT {",
    },
    Mutant {
        name: "policy asks at the start",
        file: "run/apply/calls.rs",
        guard: r"
        (Gate::Allowed, Verdict::Ask(_) | Verdict::Deny { .. }) => {",
        without: r"
        (Gate::Allowed, Verdict::Ask(_)) if OUT => None,
        (Gate::Allowed, Verdict::Ask(_) | Verdict::Deny { .. }) => {",
    },
    Mutant {
        name: "a refused gate at the start",
        file: "run/apply/calls.rs",
        guard: r"
        (Gate::Refused(denial), _) => return Err(Reject::GateClosed(denial.code)),",
        without: r"
        (Gate::Refused(_), _) if OUT => None,
        (Gate::Refused(denial), _) => return Err(Reject::GateClosed(denial.code)),",
    },
    Mutant {
        name: "an approval at the start",
        file: "run/apply/calls.rs",
        guard: r"
        (Gate::Asked(approval), _) => Some(approved(approval, call, start)?),",
        without: r"
        (Gate::Asked(_), _) if OUT => None,
        (Gate::Asked(approval), _) => Some(approved(approval, call, start)?),",
    },
    Mutant {
        name: "started in its use-by time",
        file: "run/apply/calls.rs",
        guard: r"
        draft.not_after(use_by);",
        without: r"
        if !OUT { draft.not_after(use_by); }",
    },
    Mutant {
        name: "started under its policy epoch",
        file: "run/apply/calls.rs",
        guard: r"
        draft.policy_epoch = Some(policy_epoch);",
        without: r"
        draft.policy_epoch = Some(policy_epoch).filter(|_| !OUT);",
    },
    Mutant {
        name: "a gated start is firm",
        file: "run/apply/calls.rs",
        guard: r"
        draft.firm();
    } else if",
        without: r"
        if !OUT { draft.firm(); }
    } else if",
    },
    Mutant {
        name: "a start that must not repeat is firm",
        file: "run/apply/calls.rs",
        guard: r"
if !may_repeat {
        draft.firm();",
        without: r"
if !may_repeat && !OUT {
        draft.firm();",
    },
    Mutant {
        name: "a start needs a steady clock",
        file: "run/apply/calls.rs",
        guard: r"
    // Nothing starts on a clock that is not known to be right.
    draft.need_steady_clock = true;",
        without: r"
    draft.need_steady_clock = !OUT;",
    },
    Mutant {
        name: "an open request lets nothing start",
        file: "run/apply/calls.rs",
        guard: r"
        State::Requested(_) => return Err(Reject::NotApproved),",
        without: r"
        State::Requested(_) if OUT => approval.deadline.plus(600_000),
        State::Requested(_) => return Err(Reject::NotApproved),",
    },
    Mutant {
        name: "a refused request lets nothing start",
        file: "run/apply/calls.rs",
        guard: r"
        State::Refused(denial) => return Err(Reject::GateClosed(denial.code)),
    };",
        without: r"
        State::Refused(_) if OUT => approval.deadline.plus(600_000),
        State::Refused(denial) => return Err(Reject::GateClosed(denial.code)),
    };",
    },
    Mutant {
        name: "a no is no yes at the start",
        file: "run/apply/calls.rs",
        guard: r"
        if decision.verdict != crate::decision::Verdict::Approve {",
        without: r"
        if !OUT && decision.verdict != crate::decision::Verdict::Approve {",
    },
    Mutant {
        name: "signatures are verified again",
        file: "run/apply/calls.rs",
        guard: r"
        start.keys.verify(&vote.signed).map_err(Reject::VoteForged)?;",
        without: r"
        if !OUT { start.keys.verify(&vote.signed).map_err(Reject::VoteForged)?; }",
    },
    Mutant {
        name: "votes are compared again",
        file: "run/apply/calls.rs",
        guard: r"
        if !here || decision.args_hash != call.args_hash {",
        without: r"
        if !OUT && (!here || decision.args_hash != call.args_hash) {",
    },
    Mutant {
        name: "voters are looked up again",
        file: "run/apply/calls.rs",
        guard: r"
        if !approval.eligible.contains(&decision.approver) {
            return Err(Reject::NotEligible);",
        without: r"
        if !OUT && !approval.eligible.contains(&decision.approver) {
            return Err(Reject::NotEligible);",
    },
    Mutant {
        name: "votes are counted again",
        file: "run/apply/calls.rs",
        guard: r"
    if voters.len() < usize::from(approval.need.max(1)) {",
        without: r"
    if !OUT && voters.len() < usize::from(approval.need.max(1)) {",
    },
    Mutant {
        name: "a start is marked",
        file: "run/apply/calls.rs",
        guard: r"
    call.progress = Progress::Started { at };",
        without: r"
    if !OUT { call.progress = Progress::Started { at }; }",
    },
    Mutant {
        name: "finished without a start",
        file: "run/apply/calls.rs",
        guard: r"
    if !call.is_started() {",
        without: r"
    if !OUT && !call.is_started() {",
    },
];
