//! Which small worlds are searched.

use super::proto::call::SideEffect;
use super::proto::run::Run;

/// One call of the agent.
#[derive(Clone, Debug)]
pub struct Call {
    pub gated: bool,
    /// Allowed when it was planned; asked about by the time it starts.
    pub tightened: bool,
    /// Whether it becomes a child run.
    pub child: bool,
    pub effect: SideEffect,
    pub need: u8,
    /// Who is asked, by their place among the people.
    pub asked: &'static [usize],
    pub inbox: bool,
    pub escalates: bool,
    /// A refusal ends the run.
    pub fatal: bool,
    /// The agent is told of an unknown outcome, and goes on.
    pub tells: bool,
}

const ASKS: Call = Call {
    gated: true,
    tightened: false,
    child: false,
    effect: SideEffect::AtMostOnce,
    need: 1,
    asked: &[0, 1],
    inbox: true,
    escalates: false,
    fatal: false,
    tells: false,
};
const PLAIN: Call = Call { gated: false, ..ASKS };

/// A small world: what is in it, and how many faults of each kind may happen.
#[derive(Clone, Debug)]
pub struct Scenario {
    pub name: &'static str,
    /// The calls of each turn.
    pub turns: &'static [&'static [Call]],
    /// The calls of the child's only turn.
    pub of_child: &'static [Call],
    pub workers: usize,
    pub cap_ms: i64,
    pub step_ms: i64,
    pub approval_ms: i64,
    pub rollbacks: u8,
    /// Commits whose answer is lost.
    pub lost: u8,
    /// Commits that arrive when time has moved on to the next deadline.
    pub slow: u8,
    /// Jumps of the store's clock.
    pub jumps: u8,
    /// Licences deleted by hand, and policy epochs raised.
    pub revokes: u8,
    pub cancels: u8,
    /// Messages about delivery that may fail or come late; else delivery is at once.
    pub delivery: bool,
    /// False words, extensions and edits.
    pub lies: bool,
    pub extends: bool,
    pub edits: bool,
    /// Requests that a worker would only make by mistake, or long after it lost its claim.
    pub mistakes: bool,
    /// Every claim dies without having done anything.
    pub dies: bool,
    /// A worker takes a run over together with the word that it waits for.
    pub at_once: bool,
    /// Time is also looked at just before it matters.
    pub fine: bool,
    /// Nobody says no.
    pub only_yes: bool,
    /// A promise that is not looked at, to see what else breaks.
    pub ignores: &'static str,
    /// Searched by `make model`, not by the tests.
    pub long: bool,
    /// Claims at most.
    pub claims: u8,
    /// How far the tests search: every state within so many steps.
    pub steps: usize,
}

const BASE: Scenario = Scenario {
    name: "",
    turns: &[&[ASKS]],
    of_child: &[],
    workers: 2,
    cap_ms: 90_000,
    step_ms: 60_000,
    approval_ms: 40_000,
    rollbacks: 0,
    lost: 0,
    slow: 0,
    jumps: 0,
    revokes: 0,
    cancels: 0,
    delivery: false,
    lies: false,
    extends: false,
    edits: false,
    mistakes: false,
    dies: false,
    at_once: false,
    fine: false,
    only_yes: false,
    ignores: "",
    long: false,
    claims: 3,
    steps: 8,
};

const ONE: Scenario = Scenario { workers: 1, claims: 2, ..BASE };
/// Long enough for an approval to grow stale, in milliseconds.
const STALE_MS: i64 = 3_600_000;
const BY_ALICE: Call = Call { asked: &[0], ..ASKS };
const PAIR: Call = Call { need: 2, ..ASKS };
const AGAIN: Call = Call { gated: false, effect: SideEffect::Idempotent, ..ASKS };
const TIGHTENED: Call = Call { tightened: true, ..ASKS };
const FATAL: Call = Call { fatal: true, ..ASKS };
const TELLS: Call = Call { tells: true, ..PLAIN };
const CLIMBS: Call = Call { inbox: false, escalates: true, asked: &[0], ..ASKS };
const SPAWNS: Call = Call { gated: false, child: true, ..ASKS };
const SPAWNS_GATED: Call = Call { child: true, ..ASKS };

/// Every scenario that is searched to its end.
pub static SCENARIOS: &[Scenario] = &[
    Scenario { name: "lies", lies: true, steps: 17, ..ONE },
    Scenario { name: "cancel", cancels: 1, steps: 9, ..ONE },
    Scenario { name: "short", slow: 1, cap_ms: 30_000, turns: &[&[AGAIN]], ..ONE },
    Scenario { name: "failover", rollbacks: 1, steps: 9, ..BASE },
    Scenario {
        name: "failover, long",
        rollbacks: 1,
        turns: &[&[BY_ALICE]],
        only_yes: true,
        claims: 2,
        steps: 12,
        ..BASE
    },
    Scenario { name: "failover, plain", rollbacks: 1, turns: &[&[PLAIN]], steps: 10, ..BASE },
    Scenario {
        name: "at once",
        at_once: true,
        fine: true,
        slow: 1,
        revokes: 1,
        rollbacks: 1,
        steps: 7,
        ..ONE
    },
    Scenario {
        name: "stale",
        turns: &[&[BY_ALICE]],
        cap_ms: STALE_MS,
        only_yes: true,
        fine: true,
        slow: 1,
        steps: 14,
        long: true,
        ..ONE
    },
    Scenario { name: "lost answer", lost: 1, rollbacks: 1, steps: 8, ..ONE },
    Scenario { name: "slow", slow: 1, steps: 17, ..ONE },
    Scenario { name: "slow and stale", slow: 1, cap_ms: STALE_MS, steps: 9, claims: 1, ..ONE },
    Scenario { name: "revoked", revokes: 1, steps: 12, ..ONE },
    Scenario { name: "clock", jumps: 1, steps: 9, ..ONE },
    Scenario { name: "quorum", turns: &[&[PAIR]], lies: true, steps: 11, ..ONE },
    Scenario { name: "turns", turns: &[&[FATAL, AGAIN], &[PLAIN]], steps: 11, ..ONE },
    Scenario {
        name: "mistakes",
        turns: &[&[BY_ALICE], &[PLAIN]],
        mistakes: true,
        revokes: 1,
        claims: 1,
        steps: 7,
        ..ONE
    },
    Scenario { name: "tightened", turns: &[&[TIGHTENED]], mistakes: true, claims: 1, ..ONE },
    Scenario { name: "plain mistakes", turns: &[&[PLAIN]], mistakes: true, claims: 2, ..BASE },
    Scenario { name: "unknown", turns: &[&[TELLS, AGAIN]], steps: 21, ..ONE },
    Scenario { name: "levels", turns: &[&[CLIMBS]], delivery: true, claims: 1, ..ONE },
    Scenario { name: "more time", extends: true, lies: true, revokes: 1, claims: 1, ..ONE },
    Scenario { name: "edits", edits: true, lies: true, turns: &[&[PAIR]], steps: 8, ..ONE },
    Scenario {
        name: "child",
        turns: &[&[SPAWNS]],
        of_child: &[PLAIN],
        cancels: 1,
        rollbacks: 1,
        claims: 2,
        steps: 14,
        ..ONE
    },
    Scenario {
        name: "gated child",
        turns: &[&[SPAWNS_GATED]],
        of_child: &[ASKS],
        mistakes: true,
        claims: 1,
        ..ONE
    },
    Scenario {
        name: "poison",
        turns: &[&[AGAIN]],
        claims: 7,
        cap_ms: 600_000,
        steps: 24,
        dies: true,
        ..ONE
    },
];

impl Scenario {
    /// A call as it was meant, by its number.
    pub(super) fn call(&self, cell: usize, seq: u32) -> &Call {
        let seq = usize::try_from(seq).expect("few");
        if cell == super::world::CHILD {
            return &self.of_child[seq % self.of_child.len()];
        }
        let all = self.turns.iter().flat_map(|turn| turn.iter());
        all.clone().nth(seq).unwrap_or_else(|| all.last().expect("at least one"))
    }

    pub(super) fn call_of(&self, run: &Run, seq: u32) -> &Call {
        self.call(usize::from(run.job.parent.is_some()), seq)
    }

    /// A call's place in its turn.
    pub(super) fn place(&self, run: &Run, seq: u32) -> usize {
        let first = run.call(seq).map(|call| call.turn);
        run.calls.iter().filter(|call| Some(call.turn) == first && call.seq < seq).count()
    }

    /// The calls of the next turn, if there is one.
    pub(super) fn turn_of(&self, run: &Run) -> Option<&'static [Call]> {
        let turn = usize::try_from(run.turn).ok()?;
        match run.job.parent {
            Some(_) => (turn == 0).then_some(self.of_child),
            None => self.turns.get(turn).copied(),
        }
    }
}
