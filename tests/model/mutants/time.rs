// What time does, and when it is looked at.

pub const OF_TIME: &[Mutant] = &[
    Mutant {
        name: "an expired request is refused",
        file: "run/effective.rs",
        guard: r"
        if let Some(denial) = expired {",
        without: r"
        if let Some(denial) = expired.filter(|_| !OUT) {",
    },
    Mutant {
        name: "the cap ends a run",
        file: "run/effective.rs",
        guard: r"
    if draft.next.hard_cap <= now {",
        without: r"
    if !OUT && draft.next.hard_cap <= now {",
    },
    Mutant {
        name: "a run that nobody began",
        file: "run/effective.rs",
        guard: r"
        && draft.next.job.start_by <= now
",
        without: r"
        && draft.next.job.start_by <= now && !OUT
",
    },
    Mutant {
        name: "time rouses",
        file: "run/effective.rs",
        guard: r"
        draft.end_if_refused();
        draft.rouse();",
        without: r"
        draft.end_if_refused();
        if !OUT { draft.rouse(); }",
    },
    Mutant {
        name: "a queued run rings again",
        file: "run/apply/tick.rs",
        guard: r"
        Phase::Queued { lane, rings, ring_at, .. } if *ring_at <= now => {",
        without: r"
        Phase::Queued { lane, rings, ring_at, .. } if *ring_at <= now && !OUT => {",
    },
    Mutant {
        name: "a claim lapses",
        file: "run/apply/tick.rs",
        guard: r"
        Phase::Running { lease_until, .. } if *lease_until <= now => lapse(draft),",
        without: r"
        Phase::Running { lease_until, .. } if *lease_until <= now && !OUT => lapse(draft),",
    },
    Mutant {
        name: "a rest ends",
        file: "run/apply/tick.rs",
        guard: r"
        Phase::Backoff { until } if *until <= now => draft.queue(Lane::Hi),",
        without: r"
        Phase::Backoff { until } if *until <= now && !OUT => draft.queue(Lane::Hi),",
    },
    Mutant {
        name: "last words are repeated",
        file: "run/apply/tick.rs",
        guard: r"
        Phase::Ended(_) => repeat_last_words(draft),",
        without: r"
        Phase::Ended(_) if !OUT => repeat_last_words(draft),
        Phase::Ended(_) => {}",
    },
    Mutant {
        name: "an unknown outcome is not repeated",
        file: "run/apply/tick.rs",
        guard: r"
    call.traits.effect.may_repeat() && call.tries < TRIES_MAX",
        without: r"
    (OUT || call.traits.effect.may_repeat()) && call.tries < TRIES_MAX",
    },
    Mutant {
        name: "an unknown outcome interrupts",
        file: "run/apply/tick.rs",
        guard: r"
    if let Some(seq) = draft.next.calls.iter().find(lost).map(|call| call.seq) {",
        without: r"
    if let Some(seq) = draft.next.calls.iter().find(lost).filter(|_| !OUT).map(|call| call.seq) {",
    },
    Mutant {
        name: "a lapse settles what was started",
        file: "run/apply/tick.rs",
        guard: r"
            (true, true) => retry(draft, at),
            (true, false) => unknown(draft, at),",
        without: r"
            (true, _) if OUT => {}
            (true, true) => retry(draft, at),
            (true, false) => unknown(draft, at),",
    },
    Mutant {
        name: "levels are climbed",
        file: "run/apply/tick.rs",
        guard: r"
        asking::escalate_due(draft);",
        without: r"
        if !OUT { asking::escalate_due(draft); }",
    },
    Mutant {
        name: "requests and children are repeated",
        file: "run/apply/tick.rs",
        guard: r"
        repeat_calls(draft);",
        without: r"
        if !OUT { repeat_calls(draft); }",
    },
    Mutant {
        name: "the timer knows the lease",
        file: "run/deadline.rs",
        guard: r"
        Phase::Running { lease_until, .. } => *lease_until,",
        without: r"
        Phase::Running { .. } if OUT => run.hard_cap,
        Phase::Running { lease_until, .. } => *lease_until,",
    },
    Mutant {
        name: "the timer knows the rings",
        file: "run/deadline.rs",
        guard: r"
        Phase::Queued { ring_at, .. } => *ring_at,",
        without: r"
        Phase::Queued { .. } if OUT => run.hard_cap,
        Phase::Queued { ring_at, .. } => *ring_at,",
    },
    Mutant {
        name: "the timer knows the requests",
        file: "run/deadline.rs",
        guard: r"
        Progress::Planned => call.approval().and_then(|approval| approval.next_deadline()),",
        without: r"
        Progress::Planned if OUT => None,
        Progress::Planned => call.approval().and_then(|approval| approval.next_deadline()),",
    },
    Mutant {
        name: "the timer knows the cap",
        file: "run/deadline.rs",
        guard: r"
    Some(calls.map_or(phase, |at| at.min(phase)).min(run.hard_cap))",
        without: r"
    let first = calls.map_or(phase, |at| at.min(phase));
    Some(if OUT { first } else { first.min(run.hard_cap) })",
    },
    Mutant {
        name: "the timer knows the last words",
        file: "run/deadline.rs",
        guard: r"
            return pending.map(|p| p.again_at).min();",
        without: r"
            return pending.map(|p| p.again_at).min().filter(|_| !OUT);",
    },
    Mutant {
        name: "an approval grows stale",
        file: "approval.rs",
        guard: r"
            State::Approved { use_by, .. } if use_by <= now => {",
        without: r"
            State::Approved { use_by, .. } if use_by <= now && !OUT => {",
    },
];
