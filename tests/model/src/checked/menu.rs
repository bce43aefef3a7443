//! What can happen next. Whether it may is the rules' business; here stands only what somebody
//! could try.

use super::acts::{Act, How, Step, Timing};
use super::books::Request;
use super::cast::{Lie, Word};
use super::proto::call::{Call, Progress};
use super::proto::run::Run;
use super::scenario::Scenario;
use super::world::{CHILD, Hands, PARENT, World};

pub(super) fn menu(scenario: &Scenario, world: &World, acts: &mut Vec<Act>) {
    let mut steps = Vec::new();
    for worker in 0..world.hands.len() {
        of_worker(scenario, world, worker, acts, &mut steps);
    }
    of_people(scenario, world, &mut steps);
    of_time(scenario.fine, world, acts, &mut steps);
    of_messages(scenario, world, &mut steps);
    faults(scenario, world, acts, &mut steps);
    for step in steps {
        if 0 < world.left.slow {
            acts.push(Act::Do(step.clone(), Timing::Slow));
        }
        if 0 < world.left.lost {
            acts.push(Act::Do(step.clone(), Timing::Lost));
        }
        acts.push(Act::Do(step, Timing::Prompt));
    }
}

fn of_worker(
    scenario: &Scenario,
    world: &World,
    worker: usize,
    acts: &mut Vec<Act>,
    steps: &mut Vec<Step>,
) {
    match &world.hands[worker] {
        // Idle workers are alike: the first of them comes.
        Hands::Idle if world.hands[..worker].contains(&Hands::Idle) => {}
        Hands::Idle => claims(scenario, world, worker, steps),
        Hands::Holds { .. } if scenario.dies => acts.push(Act::Crash(worker)),
        Hands::Holds { cell, claim } => {
            acts.push(Act::Crash(worker));
            if let Some(run) = world.run(*cell) {
                let rightful = world.is_holder(*cell, *claim);
                of_holder(scenario, world, (worker, *cell), (run, rightful), steps);
            }
        }
        Hands::Started { cell, claim, .. } => {
            acts.extend([Act::Crash(worker), Act::Use(worker)]);
            mistakes(scenario, world, (worker, *cell, *claim), steps);
        }
        Hands::Acted { cell, claim, seq } => {
            acts.push(Act::Crash(worker));
            steps.push(Step::Finish(worker, *seq));
            mistakes(scenario, world, (worker, *cell, *claim), steps);
        }
    }
}

/// What nobody with a tool running should try.
fn mistakes(
    scenario: &Scenario,
    world: &World,
    (worker, cell, claim): (usize, usize, u8),
    steps: &mut Vec<Step>,
) {
    if let Some(run) = world.run(cell).filter(|_| scenario.mistakes) {
        of_holder(scenario, world, (worker, cell), (run, world.is_holder(cell, claim)), steps);
    }
}

fn claims(scenario: &Scenario, world: &World, worker: usize, steps: &mut Vec<Step>) {
    if world.left.claims == 0 {
        return;
    }
    for cell in [PARENT, CHILD] {
        if world.run(cell).is_some() {
            steps.push(Step::Claim(worker, cell));
        }
    }
    if scenario.at_once {
        let said = world.books.requests.values().filter(|request| request.cell == PARENT);
        steps.extend(said.map(|request| {
            Step::SayAndStart(worker, request.seq, word(request, 0, true, Lie::None))
        }));
    }
}

fn of_holder(
    scenario: &Scenario,
    world: &World,
    (worker, cell): (usize, usize),
    (run, rightful): (&Run, bool),
    steps: &mut Vec<Step>,
) {
    let settled = run.turn_calls().all(Call::is_final);
    let mistaken = scenario.mistakes;
    if settled || mistaken {
        if scenario.turn_of(run).is_some() {
            steps.push(Step::Plan(worker, true));
            if mistaken && run.calls.is_empty() {
                steps.push(Step::Plan(worker, false));
            }
        } else {
            steps.push(Step::Done(worker));
        }
    }
    for call in &run.calls {
        let planned = matches!(call.progress, Progress::Planned);
        let known = scenario.call(cell, call.seq);
        match (known.child, planned || mistaken) {
            (true, true) => steps.push(Step::Spawn(worker, call.seq, true)),
            (false, true) => steps.push(Step::Start(worker, call.seq, How::Honestly)),
            (_, false) => {}
        }
        if planned && known.tightened {
            steps.push(Step::AskAgain(worker, call.seq));
        }
        if mistaken {
            let starts = [How::Drifted, How::Forbidden, How::Asking];
            steps.extend(starts.map(|how| Step::Start(worker, call.seq, how)));
            steps.push(Step::AskAgain(worker, call.seq));
            steps.push(Step::CloseGate(worker, call.seq));
            steps.push(Step::Finish(worker, call.seq));
            if known.child {
                steps.push(Step::Spawn(worker, call.seq, false));
            }
        }
    }
    steps.push(Step::Park(worker));
    if mistaken {
        steps.extend([Step::Fail(worker), Step::Done(worker), Step::Release(worker, None)]);
        steps.push(Step::Release(worker, Some(5_000)));
    }
    let soon = world.due().is_some_and(|due| due <= world.now() + 20_000);
    if rightful && soon || mistaken {
        steps.push(Step::Renew(worker));
    }
}

/// What somebody says about a request.
pub(super) fn word(request: &Request, who: usize, yes: bool, lie: Lie) -> Word {
    let Request { id, nonce, hash, .. } = request.clone();
    Word { id, nonce, hash, who, yes, lie }
}

fn of_people(scenario: &Scenario, world: &World, steps: &mut Vec<Step>) {
    for request in world.books.requests.values() {
        let stored = world.run(request.cell).and_then(|run| run.approval(&request.id));
        let open = stored.is_some_and(|(_, approval)| approval.is_open());
        if !open {
            // Too late, or too soon again: one word of each kind is as good as all.
            steps.extend([true, false].map(|yes| Step::Say(word(request, 0, yes, Lie::None))));
            if scenario.edits {
                steps.push(Step::Edit(edited(world, request, 0, Lie::None)));
            }
            continue;
        }
        for who in request.asked.iter().copied() {
            steps.push(Step::Say(word(request, who, true, Lie::None)));
            if !scenario.only_yes {
                steps.push(Step::Say(word(request, who, false, Lie::None)));
            }
            if scenario.extends {
                let until = request.deadline + 20_000;
                steps.push(Step::Extend(word(request, who, true, Lie::None), until));
            }
            if scenario.edits {
                steps.push(Step::Edit(edited(world, request, who, Lie::None)));
            }
        }
        if scenario.lies {
            let lies = [Lie::Key, Lie::Nonce, Lie::Args, Lie::Left];
            let false_words = lies.map(|lie| word(request, 0, true, lie));
            let stranger = word(request, 3, true, Lie::None);
            for said in false_words.into_iter().chain([stranger]) {
                if scenario.extends {
                    steps.push(Step::Extend(said.clone(), request.deadline + 20_000));
                }
                if scenario.edits {
                    steps.push(Step::Edit(edited(world, request, said.who, said.lie)));
                }
                steps.push(Step::Say(said));
            }
        }
    }
    let old = world.books.taken_back.iter();
    steps.extend(old.map(|request| Step::Say(word(request, 0, true, Lie::None))));
    if 0 < world.left.cancels {
        steps.push(Step::Cancel(PARENT));
    }
}

fn edited(world: &World, request: &Request, who: usize, lie: Lie) -> Word {
    let mut said = word(request, who, true, lie);
    if let Some(run) = world.run(PARENT) {
        said.hash = super::acts::edited_hash(&run.id, request.seq, request.at);
    }
    said
}

/// Nothing stands still: time passes up to what is due, and what is due is done.
fn of_time(fine: bool, world: &World, acts: &mut Vec<Act>, steps: &mut Vec<Step>) {
    let now = world.now();
    let Some(due) = world.due() else { return };
    if now < due {
        acts.push(Act::Wait(due));
        if fine && now + 1 < due {
            acts.push(Act::Wait(due - 1));
        }
    }
    for (cell, stored) in world.cells.iter().enumerate() {
        if stored.timer.is_some_and(|at| at.0 <= now) {
            steps.push(Step::Tick(cell));
        }
    }
}

fn of_messages(scenario: &Scenario, world: &World, steps: &mut Vec<Step>) {
    let Some(run) = world.run(PARENT) else { return };
    for call in &run.calls {
        if scenario.delivery && call.approval().is_some() {
            steps.extend([Step::Published(call.seq), Step::Unroutable(call.seq)]);
        }
        if let Some(approval) = call.approval().filter(|_| scenario.mistakes) {
            let id = &approval.id;
            if !world.cells[PARENT].licences.contains_key(id) {
                steps.push(Step::LicenceGone(id.clone()));
            }
            if approval.policy_epoch != world.policy_epoch {
                steps.push(Step::PolicyChanged(id.clone()));
            }
        }
        if scenario.call(PARENT, call.seq).child {
            of_child(world, call, steps);
        }
    }
    if scenario.delivery {
        steps.push(Step::WakeFailed(PARENT));
    }
}

/// What travels between a parent and its child, as often as it likes.
fn of_child(world: &World, call: &Call, steps: &mut Vec<Step>) {
    if matches!(call.progress, Progress::Spawned { .. }) && world.run(CHILD).is_none() {
        steps.push(Step::CreateChild(call.seq));
    }
    if let Some(child) = world.run(CHILD) {
        steps.push(Step::ChildCreated(call.seq));
        if let Some(ended) = child.ended() {
            let well = ended.outcome == super::proto::run::Outcome::Succeeded;
            steps.extend([Step::ChildDone(call.seq, well), Step::ParentNotified]);
            steps.push(Step::ChildEnded(call.seq));
        }
        if world.run(PARENT).is_some_and(|run| !run.is_live()) {
            steps.push(Step::CancelChild);
        }
    }
}

fn faults(scenario: &Scenario, world: &World, acts: &mut Vec<Act>, steps: &mut Vec<Step>) {
    if 0 < world.left.rollbacks {
        let soft = (0..world.cells.len()).filter(|cell| world.cells[*cell].firm.is_some());
        acts.extend(soft.map(Act::Rollback));
    }
    if 0 < world.left.jumps {
        acts.extend([Act::Clock(-3_000), Act::Clock(-60_000), Act::Clock(20_000)]);
    }
    if 0 < world.left.revokes {
        acts.extend(world.cells[PARENT].licences.keys().cloned().map(Act::DeleteLicence));
        if !world.books.requests.is_empty() {
            acts.push(Act::RaiseEpoch);
        }
    }
    if scenario.mistakes {
        steps.extend([Step::AcceptAgain, Step::WorkersGone(PARENT), Step::WakeFailed(PARENT)]);
    }
}
