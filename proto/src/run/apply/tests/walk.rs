//! Every state that can be reached in nine steps, and long random lives beyond them.
//!
//! What must never happen is judged from outside the run, by what the walk itself remembers.

mod ghost;
mod menu;

use std::collections::hash_map::DefaultHasher;
use std::collections::{BTreeMap, HashSet};
use std::hash::{Hash, Hasher};

use proptest::prelude::*;

use super::fixtures::*;
use crate::call::Gate;
use crate::run::{Change, Event, Reject, Run, apply};
use crate::time::Ms;
use ghost::Ghost;
use menu::{Act, Claim, Width, menu};

const DEPTH: usize = 9;

/// A run as the store holds it, the time, and what really happened.
#[derive(Clone, Hash)]
struct Node {
    run: Option<Run>,
    now: Ms,
    ghost: Ghost,
}

/// How often each event was accepted.
#[derive(Default)]
struct Tally(BTreeMap<&'static str, u64>);

impl Tally {
    fn count(&mut self, name: &'static str) {
        *self.0.entry(name).or_default() += 1;
    }

    fn of(&self, name: &str) -> u64 {
        self.0.get(name).copied().unwrap_or_default()
    }
}

const GATED_START: &str = "StartTool of a gated call";
const GATED_CHILD: &str = "SpawnChild of a gated call";

impl Node {
    fn first() -> Self {
        Self { run: None, now: T0, ghost: Ghost::default() }
    }

    fn menu(&self, width: Width) -> Vec<Act> {
        menu(self.run.as_ref(), self.now, &self.ghost, width)
    }

    /// Where an act leads, if it is allowed and the store would take it.
    fn take(&self, act: &Act, tally: &mut Tally) -> Option<Self> {
        let next = match act {
            Act::Wait(until) => Self { now: *until, ..self.clone() },
            Act::DeleteLicence(id) => {
                let mut next = self.clone();
                next.ghost.delete_licence(id);
                next
            }
            Act::RaisePolicyEpoch => {
                let mut next = self.clone();
                next.ghost.policy_epoch += 1;
                next
            }
            Act::Event(event, claim) => {
                let change = self.commit(event)?;
                assert_eq!(*claim, Claim::Right, "{} was accepted of {:?}", event.name(), self.run);
                self.count(event, tally);
                let mut ghost = self.ghost.clone();
                ghost.witness(self.run.as_ref(), event, &change, self.now);
                Self { run: Some(change.next), now: self.now, ghost }
            }
        };
        if let Some(run) = &next.run {
            next.ghost.check(run, next.now);
        }
        Some(next)
    }

    /// Applies an event as the store would commit it: its conditions must hold.
    fn commit(&self, event: &Event) -> Option<Change> {
        let change: Change = match apply(self.run.as_ref(), event, self.now) {
            Ok(change) => change,
            Err(Reject::NothingDue) if matches!(event, Event::Tick) => {
                self.ghost.nothing_was_due(self.run.as_ref()?, self.now);
                return None;
            }
            Err(_) => return None,
        };
        assert!(change.not_after.is_none_or(|at| self.now < at), "it can never be committed");
        let alive = change.require.iter().all(|id| self.ghost.licence_lives(id, self.now));
        let current = change.policy_epoch.is_none_or(|epoch| epoch == self.ghost.policy_epoch);
        (alive && current).then_some(change)
    }

    fn count(&self, event: &Event, tally: &mut Tally) {
        tally.count(event.name());
        let gated = |seq: &u32| {
            let call = self.run.as_ref().and_then(|run| run.call(*seq));
            call.is_some_and(|call| matches!(call.gate, Gate::Asked(_)))
        };
        if matches!(event, Event::StartTool { seq, .. } if gated(seq)) {
            tally.count(GATED_START);
        }
        if matches!(event, Event::SpawnChild { seq, .. } if gated(seq)) {
            tally.count(GATED_CHILD);
        }
    }

    fn fingerprint(&self) -> u64 {
        let mut hasher = DefaultHasher::new();
        self.hash(&mut hasher);
        hasher.finish()
    }
}

#[test]
fn no_state_within_nine_steps_breaks_a_promise() {
    let mut tally = Tally::default();
    let mut frontier = vec![Node::first()];
    let mut seen: HashSet<u64> = frontier.iter().map(Node::fingerprint).collect();
    for depth in 1..=DEPTH {
        let mut next = Vec::new();
        for node in frontier {
            for act in node.menu(Width::Narrow) {
                let Some(found) = node.take(&act, &mut tally) else { continue };
                if seen.insert(found.fingerprint()) && depth < DEPTH {
                    next.push(found);
                }
            }
        }
        println!("depth {depth}: {} states so far", seen.len());
        frontier = next;
    }
    for name in Event::NAMES.into_iter().chain([GATED_START, GATED_CHILD]) {
        println!("{:>9} × {name}", tally.of(name));
        assert!(
            0 < tally.of(name),
            "no {name} was ever accepted: the walk proves nothing about it"
        );
    }
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..<_>::default() })]

    #[test]
    fn no_long_life_breaks_a_promise(
        choices in prop::collection::vec(any::<prop::sample::Index>(), 60),
    ) {
        let mut node = Node::first();
        let mut tally = Tally::default();
        for choice in choices {
            let acts = node.menu(Width::Wide);
            // Of what is offered, only what is taken: a random event is mostly refused. And a
            // run ends soon enough when it must, without being cancelled at every turn.
            let taken = acts.iter().filter_map(|act| node.take(act, &mut tally));
            let mut open: Vec<_> = taken.collect();
            let lives = |node: &Node| {
                node.run.as_ref().is_some_and(|run| run.is_live() && node.now < run.hard_cap)
            };
            if open.iter().any(lives) {
                open.retain(lives);
            }
            if open.is_empty() {
                break;
            }
            node = choice.get(&open).clone();
        }
    }
}
