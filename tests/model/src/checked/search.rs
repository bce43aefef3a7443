//! The search: a world of one run (or a parent and its child), workers, approvers and faults.

#![allow(
    clippy::wildcard_enum_match_arm,
    reason = "most steps have nothing to do with a promise; a new one breaks none by being missed"
)]

mod acts;
mod books;
mod cast;
mod menu;
mod promises;
mod scenario;
mod store;
mod world;

use stateright::{Checker, HasDiscoveries, Model, Property};

use super::proto;
pub use acts::Act;
pub use promises::PROMISES;
pub use scenario::{SCENARIOS, Scenario};
pub use world::World;

impl Model for Scenario {
    type State = World;
    type Action = Act;

    fn init_states(&self) -> Vec<World> {
        vec![World::first(self)]
    }

    fn actions(&self, world: &World, acts: &mut Vec<Act>) {
        if world.books.broken.is_none() {
            menu::menu(self, world, acts);
        }
    }

    fn next_state(&self, world: &World, act: Act) -> Option<World> {
        world.after(self, &act)
    }

    fn properties(&self) -> Vec<Property<Self>> {
        macro_rules! promises {
            ($($number:literal),*) => {
                vec![$(Property::always(PROMISES[$number].1, |_: &Self, world: &World| {
                    world.books.broken != Some(PROMISES[$number].0)
                })),*]
            };
        }
        promises![0, 1, 2, 3, 4, 5, 6, 7, 8, 9, 10, 11, 12]
    }
}

/// What a search came to.
#[derive(Clone, Debug)]
pub struct Found {
    pub scenario: &'static str,
    pub states: usize,
    pub depth: usize,
    /// The promise that was broken, and how, line by line.
    pub broken: Option<(&'static str, Vec<String>)>,
}

/// Searches every state within so many steps of the beginning, or up to the first that breaks a
/// promise.
#[must_use]
pub fn search(scenario: &Scenario, steps: usize, threads: usize) -> Found {
    let checker = scenario.clone().checker().threads(threads).target_max_depth(steps + 1);
    let checker = checker.finish_when(HasDiscoveries::Any).spawn_bfs().join();
    let found = checker.discoveries().into_iter().map(|(promise, path)| (promise, path.into_vec()));
    // Several may be found in one go; the same one is told each time.
    let first = found.min_by_key(|(promise, path)| (path.len(), *promise));
    Found {
        scenario: scenario.name,
        states: checker.unique_state_count(),
        depth: checker.max_depth(),
        broken: first.map(|(promise, path)| (promise, tell(path))),
    }
}

/// The scenario of that name.
///
/// # Panics
/// When there is none.
#[must_use]
pub fn scenario(name: &str) -> &'static Scenario {
    let found = SCENARIOS.iter().find(|scenario| scenario.name == name);
    found.unwrap_or_else(|| panic!("no scenario is called `{name}`"))
}

fn tell(path: Vec<(World, Option<Act>)>) -> Vec<String> {
    let mut lines = Vec::new();
    for (world, act) in path {
        let how = world.outline();
        lines.push(match act {
            Some(act) => format!("{how}\n    {act:?}"),
            None => how,
        });
    }
    lines
}
