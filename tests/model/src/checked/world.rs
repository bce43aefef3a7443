//! One state of the search: stores, workers, the time, the faults that may still come, the books.

use std::collections::BTreeMap;

use super::acts::{Act, Step, Timing};
use super::books::{Books, Who};
use super::cast::{self, T0};
use super::proto::ids::{ApprovalId, ClaimId};
use super::proto::run::{Effect, Event, Phase, Run, effective, fold};
use super::proto::time::Ms;
use super::scenario::Scenario;
use super::store::Cell;

/// The run; its child is the second.
pub(super) const PARENT: usize = 0;
pub(super) const CHILD: usize = 1;

/// What a worker has in hand. It is a guess until the store agrees, and may be long out of date.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum Hands {
    Idle,
    Holds {
        cell: usize,
        claim: u8,
    },
    /// Its start was answered: the tool may act.
    Started {
        cell: usize,
        claim: u8,
        seq: u32,
        since: i64,
        hash: [u8; 32],
    },
    Acted {
        cell: usize,
        claim: u8,
        seq: u32,
    },
}

impl Hands {
    /// The run it works on, and under which claim.
    pub(super) const fn holds(&self) -> Option<(usize, u8)> {
        match self {
            Self::Idle => None,
            Self::Holds { cell, claim }
            | Self::Started { cell, claim, .. }
            | Self::Acted { cell, claim, .. } => Some((*cell, *claim)),
        }
    }
}

/// Faults and interventions that may still happen.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Left {
    pub rollbacks: u8,
    pub lost: u8,
    pub slow: u8,
    pub jumps: u8,
    pub revokes: u8,
    pub cancels: u8,
    pub claims: u8,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct World {
    pub cells: Vec<Cell>,
    pub hands: Vec<Hands>,
    /// The time that nothing moves, in milliseconds.
    pub real: i64,
    /// How far the store's clock is from it.
    pub offset: i64,
    /// The highest time that the store has seen.
    pub highest: i64,
    pub policy_epoch: u64,
    pub left: Left,
    pub books: Books,
}

pub(super) fn claim_id(number: u8) -> ClaimId {
    ClaimId([number; 16])
}

impl World {
    /// The job is accepted, and nothing more.
    pub(super) fn first(scenario: &Scenario) -> Self {
        let job = cast::job(scenario);
        let left = Left {
            rollbacks: scenario.rollbacks,
            lost: scenario.lost,
            slow: scenario.slow,
            jumps: scenario.jumps,
            revokes: scenario.revokes,
            cancels: scenario.cancels,
            claims: scenario.claims,
        };
        let mut world = Self {
            cells: vec![Cell::default(); 2],
            hands: vec![Hands::Idle; scenario.workers],
            real: T0,
            offset: 0,
            highest: T0,
            policy_epoch: 0,
            left,
            books: Books::ignoring(scenario.ignores),
        };
        let accepted = Event::Accepted { id: cast::id_of(&job), job: Box::new(job) };
        let change = fold(None, &[accepted], Ms(T0)).expect("a job");
        assert!(world.commit(PARENT, &change), "nothing forbids it");
        world
    }

    /// The store's time.
    pub(super) fn now(&self) -> i64 {
        self.highest.max(self.real + self.offset)
    }

    /// How far its clock is behind what it has seen.
    pub(super) fn lag(&self) -> i64 {
        self.highest - (self.real + self.offset).min(self.highest)
    }

    pub(super) fn run(&self, cell: usize) -> Option<&Run> {
        self.cells[cell].run.as_ref()
    }

    /// Whether this claim is the one in the store.
    pub(super) fn is_holder(&self, cell: usize, number: u8) -> bool {
        self.run(cell).is_some_and(
            |run| matches!(run.phase, Phase::Running { claim, .. } if claim == claim_id(number)),
        )
    }

    /// The next deadline of all.
    pub(super) fn due(&self) -> Option<i64> {
        self.cells.iter().filter_map(|cell| cell.timer).map(|at| at.0).min()
    }

    /// Lets the store's time pass until `to`.
    pub(super) fn wait(&mut self, to: i64) {
        self.real += (to - (self.real + self.offset)).max(0);
        self.highest = self.now();
    }

    /// Where an act leads, if it is possible.
    pub(super) fn after(&self, scenario: &Scenario, act: &Act) -> Option<Self> {
        let mut next = self.clone();
        match act {
            Act::Wait(to) => next.wait(*to),
            Act::Clock(by) => {
                next.left.jumps -= 1;
                next.offset += by;
                next.highest = next.now();
            }
            Act::Rollback(cell) => {
                next.left.rollbacks -= 1;
                next.cells[*cell].roll_back();
            }
            Act::DeleteLicence(id) => {
                next.left.revokes -= 1;
                next.cells[PARENT].delete_licence(id);
                next.books.revoked.insert(id.clone());
            }
            Act::RaiseEpoch => {
                next.left.revokes -= 1;
                next.policy_epoch += 1;
            }
            Act::Crash(worker) => next.hands[*worker] = Hands::Idle,
            Act::Use(worker) => next.use_tool(*worker, scenario)?,
            Act::Do(step, timing) => next.take(scenario, step, *timing)?,
        }
        let checked = next.clone();
        next.books.look(&checked);
        Some(next)
    }

    /// The tool acts, for good.
    fn use_tool(&mut self, worker: usize, scenario: &Scenario) -> Option<()> {
        let Hands::Started { cell, claim, seq, since, hash } = self.hands[worker].clone() else {
            return None;
        };
        // The worker's own clock, which runs on while a machine sleeps.
        if 5_000 <= self.real - since {
            return None;
        }
        let call = scenario.call(cell, seq).clone();
        self.books.acts(cell, seq, &call, hash);
        self.hands[worker] = Hands::Acted { cell, claim, seq };
        Some(())
    }

    fn take(&mut self, scenario: &Scenario, step: &Step, timing: Timing) -> Option<()> {
        let cell = step.cell(self);
        let held = step.worker().and_then(|worker| self.hands[worker].holds());
        let newly = matches!(step, Step::Claim(..) | Step::SayAndStart(..));
        let rightful = newly || held.is_none_or(|(cell, claim)| self.is_holder(cell, claim));
        let parent = effective_of(self.run(PARENT), self.now());
        let parent_lives = cell == PARENT || parent.is_some_and(|parent| parent.is_live());
        let who = Who { rightful, parent_lives };
        let events = step.events(scenario, self)?;
        let before = self.cells[cell].run.clone();
        let change = fold(before.as_ref(), &events, Ms(self.now())).ok()?;
        match timing {
            Timing::Prompt => {}
            Timing::Lost => self.left.lost -= 1,
            Timing::Slow => {
                self.left.slow -= 1;
                let due = self.due().filter(|due| self.now() < *due)?;
                self.wait(due);
            }
        }
        let known = effective_of(before.as_ref(), self.now());
        if !self.commit(cell, &change) {
            return None;
        }
        let after = change.next.clone();
        let at = (self.now(), self.lag(), self.policy_epoch);
        self.books.witness(scenario, step, (cell, known.as_ref(), &after), (at, who));
        if let Some(before) = &before {
            self.books.refusals(before, &after);
        }
        if timing != Timing::Lost {
            self.books.told(step, (cell, &after));
            self.hand_over(step, &after);
        } else if let Some(worker) = step.worker() {
            // A commit without an answer is as good as none: whoever made it lets go.
            self.hands[worker] = Hands::Idle;
        }
        self.perform(scenario, cell, &change.effects);
        Some(())
    }

    /// What the committed step leaves its worker with.
    fn hand_over(&mut self, step: &Step, after: &Run) {
        let Some(worker) = step.worker() else { return };
        let held = self.hands[worker].holds();
        let running = |number: u8| {
            let wanted = claim_id(number);
            matches!(after.phase, Phase::Running { claim, .. } if claim == wanted)
        };
        self.hands[worker] = match (step, held) {
            (Step::Claim(_, cell), _) if running(self.books.claims) => {
                Hands::Holds { cell: *cell, claim: self.books.claims }
            }
            (Step::Start(_, seq, how), Some((cell, claim))) => {
                let (since, hash) = (self.real, how.hash(after, *seq));
                Hands::Started { cell, claim, seq: *seq, since, hash }
            }
            (Step::SayAndStart(_, seq, word), _) if running(self.books.claims) => {
                let (since, cell, claim) = (self.real, PARENT, self.books.claims);
                Hands::Started { cell, claim, seq: *seq, since, hash: word.hash }
            }
            (_, Some((cell, claim))) if running(claim) => Hands::Holds { cell, claim },
            _ => Hands::Idle,
        };
    }

    /// Requests are seen by people; where delivery is no matter, they are known to be.
    fn perform(&mut self, scenario: &Scenario, cell: usize, effects: &[Effect]) {
        for effect in effects {
            let Effect::PublishRequest(id) = effect else { continue };
            let Some(run) = self.run(cell) else { continue };
            let Some((call, approval)) = run.approval(id) else { continue };
            let (rev, seq) = (approval.rev, call.seq);
            let (approval, run) = (approval.clone(), run.clone());
            self.books.request(scenario, &run, seq, &approval, self.now());
            if !scenario.delivery {
                self.send(cell, &Event::Published { approval: id.clone(), rev });
            }
        }
    }

    fn send(&mut self, cell: usize, event: &Event) {
        let change = fold(self.run(cell), std::slice::from_ref(event), Ms(self.now()));
        if let Ok(change) = change {
            self.commit(cell, &change);
        }
    }

    /// One line: the time, the record, who holds what.
    pub(super) fn outline(&self) -> String {
        let mut line = format!("{:>8} ms", self.now() - T0);
        for run in self.cells.iter().filter_map(|cell| cell.run.as_ref()) {
            line.push_str(&format!("  {}", run.phase.name()));
            for call in &run.calls {
                let gate = call.approval().map(|approval| format!("{:?}", approval.state));
                let gate = gate.unwrap_or_default();
                let gate: String = gate.chars().take(24).collect();
                let done: String = format!("{:?}", call.progress).chars().take(8).collect();
                line.push_str(&format!(" [{} {gate} {done}]", call.seq));
            }
        }
        for hands in &self.hands {
            line.push_str(match hands {
                Hands::Idle => "  -",
                Hands::Holds { .. } => "  holds",
                Hands::Started { .. } => "  started",
                Hands::Acted { .. } => "  acted",
            });
        }
        if let Some(broken) = self.books.broken {
            line.push_str(&format!("  BROKEN {broken}"));
        }
        line
    }
}

fn effective_of(run: Option<&Run>, now: i64) -> Option<Run> {
    run.map(|run| effective(run, Ms(now)))
}

/// Licences by request.
pub(super) type Licences = BTreeMap<ApprovalId, Ms>;
