//! What the store does: the conditions of a commit, and what a failover takes back.

use super::proto::ids::ApprovalId;
use super::proto::run::{Change, Durability, Run, next_deadline};
use super::proto::time::Ms;
use super::world::{Licences, World};

/// Beyond this lag of its clock the store lets nothing start, in milliseconds.
const LAG_MS_MAX: i64 = 5_000;

/// One run in the store.
#[derive(Clone, Debug, Default, PartialEq, Eq, Hash)]
pub struct Cell {
    pub run: Option<Run>,
    pub timer: Option<Ms>,
    pub licences: Licences,
    /// As it survives a failover; nothing while that is all of it.
    pub firm: Option<Box<Kept>>,
}

#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub struct Kept {
    run: Option<Run>,
    timer: Option<Ms>,
    licences: Licences,
}

impl Cell {
    /// By an operator, who sees to it that the replicas have it too.
    pub(super) fn delete_licence(&mut self, id: &ApprovalId) {
        self.licences.remove(id);
        if let Some(kept) = &mut self.firm {
            kept.licences.remove(id);
        }
    }

    pub(super) fn roll_back(&mut self) {
        if let Some(kept) = self.firm.take() {
            let Kept { run, timer, licences } = *kept;
            (self.run, self.timer, self.licences) = (run, timer, licences);
        }
    }
}

impl World {
    /// Commits a change if all of its conditions hold.
    pub(super) fn commit(&mut self, cell: usize, change: &Change) -> bool {
        let (now, lag) = (Ms(self.now()), self.lag());
        let stored = &mut self.cells[cell];
        let lives = |id| stored.licences.get(id).is_some_and(|until| now < *until);
        let allowed = change.policy_epoch.is_none_or(|epoch| epoch == self.policy_epoch)
            && !(change.need_steady_clock && LAG_MS_MAX < lag)
            && change.not_before.is_none_or(|from| from <= now)
            && change.not_after.is_none_or(|until| now < until)
            && change.require.iter().all(lives);
        if !allowed {
            return false;
        }
        let before =
            Kept { run: stored.run.take(), timer: stored.timer, licences: stored.licences.clone() };
        stored.timer = next_deadline(&change.next);
        stored.run = Some(change.next.clone());
        for id in &change.licences_del {
            stored.licences.remove(id);
        }
        stored.licences.extend(change.licences_set.iter().cloned());
        match change.durability {
            // A prefix of the history survives: what is firm makes all before it firm.
            Durability::Firm => stored.firm = None,
            Durability::Soft => {
                stored.firm.get_or_insert_with(|| Box::new(before));
            }
        }
        self.highest = now.0;
        true
    }
}
