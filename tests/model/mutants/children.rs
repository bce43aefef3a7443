// Children; how requests are made and revised.

pub const OF_CHILDREN: &[Mutant] = &[
    Mutant {
        name: "a child of that call",
        file: "run/apply/children.rs",
        guard: r"
    if !descends(&draft.next, seq, job) {",
        without: r"
    if !OUT && !descends(&draft.next, seq, job) {",
    },
    Mutant {
        name: "a spawn is firm",
        file: "run/apply/children.rs",
        guard: r"
    draft.next.attempts = 0;
    draft.firm();",
        without: r"
    draft.next.attempts = 0;
    if !OUT { draft.firm(); }",
    },
    Mutant {
        name: "the word of a child counts once",
        file: "run/apply/children.rs",
        guard: r"
        Progress::Finished { .. } => return Err(Reject::AlreadySo),",
        without: r"
        Progress::Finished { .. } if OUT => {}
        Progress::Finished { .. } => return Err(Reject::AlreadySo),",
    },
    Mutant {
        name: "the word of a child to an ended parent",
        file: "run/apply/children.rs",
        guard: r"
    result: &Payload,
) -> Result<(), Reject> {
    if !draft.next.is_live() {",
        without: r"
    result: &Payload,
) -> Result<(), Reject> {
    if !OUT && !draft.next.is_live() {",
    },
    Mutant {
        name: "an extension is verified",
        file: "run/apply/revising.rs",
        guard: r"
    keys.verify_extension(signed).map_err(Reject::Forged)?;",
        without: r"
    if !OUT { keys.verify_extension(signed).map_err(Reject::Forged)?; }",
    },
    Mutant {
        name: "an extension needs its licence",
        file: "run/apply/revising.rs",
        guard: r"
    draft.require(licence);",
        without: r"
    if !OUT { draft.require(licence); }",
    },
    Mutant {
        name: "an extension ends with the run",
        file: "run/apply/revising.rs",
        guard: r"
    let (before, deadline) = (approval.deadline, extension.until.min(latest));",
        without: r"
    let until = if OUT { extension.until } else { extension.until.min(latest) };
    let (before, deadline) = (approval.deadline, until);",
    },
    Mutant {
        name: "an edit is verified",
        file: "run/apply/revising.rs",
        guard: r"
    keys.verify(signed).map_err(Reject::Forged)?;",
        without: r"
    if !OUT { keys.verify(signed).map_err(Reject::Forged)?; }",
    },
    Mutant {
        name: "an edit drops earlier votes",
        file: "run/apply/revising.rs",
        guard: r"
    approval.votes.clear();",
        without: r"
    if !OUT { approval.votes.clear(); }",
    },
    Mutant {
        name: "an edit is of an open request",
        file: "run/apply/revising.rs",
        guard: r"
    let deadline = open(draft, at)?.deadline;",
        without: r"
    let deadline = if OUT { draft.next.hard_cap } else { open(draft, at)?.deadline };",
    },
    Mutant {
        name: "a request ends with the run",
        file: "run/apply/asking.rs",
        guard: r"
        own => now.plus(own).min(latest(run)),",
        without: r"
        own if OUT => now.plus(own).plus(own),
        own => now.plus(own).min(latest(run)),",
    },
    Mutant {
        name: "a request is firm",
        file: "run/apply/asking.rs",
        guard: r"
    draft.firm();
    match denied_before",
        without: r"
    if !OUT { draft.firm(); }
    match denied_before",
    },
];
