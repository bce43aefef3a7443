// How a run ends; what a change carries; how changes are folded.

pub const OF_ENDS: &[Mutant] = &[
    Mutant {
        name: "a job is accepted once",
        file: "run/apply.rs",
        guard: r"
        Event::Accepted { job, .. } => Err(claims::accept_again(&draft.next, job)),",
        without: r"
        Event::Accepted { job, id } if OUT => {
            draft.next = claims::accept(id, job, draft.now).next;
            Ok(())
        }
        Event::Accepted { job, .. } => Err(claims::accept_again(&draft.next, job)),",
    },
    Mutant {
        name: "only the holder of the claim",
        file: "run/apply/draft.rs",
        guard: r"
        match &self.next.phase {
            Phase::Running { claim: holder, .. } if *holder == claim => Ok(()),",
        without: r"
        match &self.next.phase {
            Phase::Running { .. } if OUT => Ok(()),
            Phase::Running { claim: holder, .. } if *holder == claim => Ok(()),",
    },
    Mutant {
        name: "done with calls open",
        file: "run/apply/ending.rs",
        guard: r"
    if !draft.next.calls.iter().all(Call::is_final) {",
        without: r"
    if !OUT && !draft.next.calls.iter().all(Call::is_final) {",
    },
    Mutant {
        name: "failed while a tool runs",
        file: "run/apply/ending.rs",
        guard: r"
    if draft.next.calls.iter().any(Call::is_started) {",
        without: r"
    if !OUT && draft.next.calls.iter().any(Call::is_started) {",
    },
    Mutant {
        name: "cancelled after its end",
        file: "run/apply/ending.rs",
        guard: r"
    if !draft.next.is_live() {",
        without: r"
    if !OUT && !draft.next.is_live() {",
    },
    Mutant {
        name: "an end is firm",
        file: "run/apply/draft.rs",
        guard: r"
        self.durability = firm;",
        without: r"
        if !OUT { self.durability = firm; }",
    },
    Mutant {
        name: "an end withdraws requests",
        file: "run/apply/draft.rs",
        guard: r"
            if let Some(denial) = withdrawn {",
        without: r"
            if let Some(denial) = withdrawn.filter(|_| !OUT) {",
    },
    Mutant {
        name: "an end cancels children",
        file: "run/apply/draft.rs",
        guard: r"
        let cancelling = children.iter().map(|seq| (*seq, pending)).collect();",
        without: r"
        let cancelling = children.iter().filter(|_| !OUT).map(|seq| (*seq, pending)).collect();",
    },
    Mutant {
        name: "a refusal drops the licence",
        file: "run/apply/draft.rs",
        guard: r"
        if let Some(licence) = licence {",
        without: r"
        if let Some(licence) = licence.filter(|_| !OUT) {",
    },
    Mutant {
        name: "a fatal refusal ends the run",
        file: "run/apply/draft.rs",
        guard: r"
        if let Some(detail) = detail {",
        without: r"
        if let Some(detail) = detail.filter(|_| !OUT) {",
    },
    Mutant {
        name: "committed before the cap",
        file: "run/apply/draft.rs",
        guard: r"
        if before.is_live() && self.next.hard_cap > self.now {",
        without: r"
        if !OUT && before.is_live() && self.next.hard_cap > self.now {",
    },
    Mutant {
        name: "a fold keeps the earlier limit",
        file: "run/apply.rs",
        guard: r"
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.need",
        without: r"
            (Some(_), Some(b)) if OUT => Some(b),
            (Some(a), Some(b)) => Some(a.min(b)),
            (a, b) => a.or(b),
        };
        self.need",
    },
    Mutant {
        name: "a fold keeps what it requires",
        file: "run/apply.rs",
        guard: r"
        self.require.extend(later.require.into_iter().filter(|id| !fresh.contains(id)));",
        without: r"
        if OUT { self.require.clear(); }
        self.require.extend(later.require.into_iter().filter(|id| !fresh.contains(id)));",
    },
    Mutant {
        name: "a fold is as firm as its firmest",
        file: "run/apply.rs",
        guard: r"
        self.durability = self.durability.max(later.durability);",
        without: r"
        let (one, other) = (self.durability, later.durability);
        self.durability = if OUT { one.min(other) } else { one.max(other) };",
    },
];
