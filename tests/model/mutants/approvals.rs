// What people say.

pub const OF_APPROVALS: &[Mutant] = &[
    Mutant {
        name: "a word is verified",
        file: "run/apply/approvals.rs",
        guard: r"
    keys.verify(signed).map_err(Reject::Forged)?;",
        without: r"
    if !OUT { keys.verify(signed).map_err(Reject::Forged)?; }",
    },
    Mutant {
        name: "a word is about this request",
        file: "run/apply/approvals.rs",
        guard: r"
    if approval.nonce != decision.nonce {",
        without: r"
    if !OUT && approval.nonce != decision.nonce {",
    },
    Mutant {
        name: "a word is about this call",
        file: "run/apply/approvals.rs",
        guard: r"
    if approval.args_hash != decision.args_hash {",
        without: r"
    if !OUT && approval.args_hash != decision.args_hash {",
    },
    Mutant {
        name: "a word of who was asked",
        file: "run/apply/approvals.rs",
        guard: r"
    if approval.eligible.contains(approver) && standing == Standing::Member {",
        without: r"
    if (OUT || approval.eligible.contains(approver)) && standing == Standing::Member {",
    },
    Mutant {
        name: "a word of who still belongs",
        file: "run/apply/approvals.rs",
        guard: r"
&& standing == Standing::Member {",
        without: r"
&& (OUT || standing == Standing::Member) {",
    },
    Mutant {
        name: "one word an approver",
        file: "run/apply/approvals.rs",
        guard: r"
    if earlier == Some(decision.verdict) {",
        without: r"
    if !OUT && earlier == Some(decision.verdict) {",
    },
    Mutant {
        name: "a decided request is closed",
        file: "run/apply/approvals.rs",
        guard: r"
        State::Approved { .. } => Err(Reject::AlreadyDecided),
    }
}

fn why_closed",
        without: r"
        State::Approved { .. } if OUT => Ok(approval),
        State::Approved { .. } => Err(Reject::AlreadyDecided),
    }
}

fn why_closed",
    },
    Mutant {
        name: "a refused request is closed",
        file: "run/apply/approvals.rs",
        guard: r"
        State::Refused(denial) => Err(why_closed(denial)),
        State::Approved",
        without: r"
        State::Refused(_) if OUT => Ok(approval),
        State::Refused(denial) => Err(why_closed(denial)),
        State::Approved",
    },
    Mutant {
        name: "a yes needs its licence",
        file: "run/apply/approvals.rs",
        guard: r"
            draft.require(decision.approval_id.clone());",
        without: r"
            if !OUT { draft.require(decision.approval_id.clone()); }",
    },
    Mutant {
        name: "a yes needs a steady clock",
        file: "run/apply/approvals.rs",
        guard: r"
            draft.need_steady_clock = true;",
        without: r"
            draft.need_steady_clock = !OUT;",
    },
    Mutant {
        name: "a word is committed before the deadline",
        file: "run/apply/approvals.rs",
        guard: r"
    draft.not_after(deadline);
}",
        without: r"
    if !OUT { draft.not_after(deadline); }
}",
    },
    Mutant {
        name: "a decision is firm",
        file: "run/apply/approvals.rs",
        guard: r"
    count(draft, at, signed);
    draft.firm();",
        without: r"
    count(draft, at, signed);
    if !OUT { draft.firm(); }",
    },
    Mutant {
        name: "a decision rouses",
        file: "run/apply/approvals.rs",
        guard: r"
    draft.rouse();
    Ok(())
}

/// Only who",
        without: r"
    if !OUT { draft.rouse(); }
    Ok(())
}

/// Only who",
    },
    Mutant {
        name: "enough have said yes",
        file: "run/apply/approvals.rs",
        guard: r"
    let enough = usize::from(approval.need.max(1)) <= approval.approvals();",
        without: r"
    let enough = OUT || usize::from(approval.need.max(1)) <= approval.approvals();",
    },
];
