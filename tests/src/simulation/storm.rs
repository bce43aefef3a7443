//! Faults that strike from outside, now and then, until the calm.

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::ports::Installation as _;

use super::processes::Processes;
use super::world::World;

/// Storms for a minute or two, then lets everything be well.
pub async fn rage(world: &Arc<World>, processes: &Arc<Processes>) {
    let until = world.draw(|chance| chance.between(40_000, 120_000));
    let until = i64::try_from(until).expect("short");
    while world.elapsed_ms() < until && world.failure().is_none() {
        let pause = world.draw(|chance| chance.between(500, 8_000));
        // sleep: in virtual time, which passes at once
        tokio::time::sleep(Duration::from_millis(pause)).await;
        strike(world, processes).await;
    }
    world.calm();
}

async fn strike(world: &Arc<World>, processes: &Arc<Processes>) {
    let (which, ms) = world.draw(|chance| (chance.below(14), chance.between(300, 20_000)));
    match which {
        0 | 1 => {
            world.note("store outages", || format!("{ms} ms"));
            world.store_outage(ms);
        }
        2 | 3 => {
            world.note("broker outages", || format!("{ms} ms"));
            world.bus_outage(ms);
        }
        4 | 5 => {
            world.note("store crashes", || format!("{ms} ms"));
            world.store.crash();
            world.store_outage(ms / 4);
        }
        6 => jump(world, i64::try_from(ms).expect("short")),
        7 => jump(world, -i64::try_from(ms).expect("short")),
        8 => {
            world.note("stores swapped", || format!("{ms} ms"));
            world.store.swap(true);
            // sleep: in virtual time, which passes at once
            tokio::time::sleep(Duration::from_millis(ms / 8)).await;
            world.store.swap(false);
        }
        9 => {
            if let Ok(epoch) = world.store.raise_policy_epoch().await {
                world.note("policies changed", || epoch.to_string());
            }
        }
        10 => {
            let open = world.judge.open_requests();
            if let Some(approval) = open.first().filter(|_| ms % 2 == 0) {
                world.judge.revoked(&approval.id);
                if world.store.revoke(&approval.id) {
                    world.note("licences revoked", || approval.id.to_string());
                }
            }
        }
        11 => {
            world.note("wakes purged", String::new);
            world.bus.purge_wakes();
        }
        12 => {
            if let Some(process) = processes.any() {
                process.life.die();
            }
        }
        _ => {
            if let Some(process) = processes.any() {
                process.life.freeze(ms * 4);
            }
        }
    }
}

fn jump(world: &World, ms: i64) {
    world.note("clock jumps", || format!("{ms} ms"));
    world.store.steady_clock();
    world.store.move_clock(ms);
}
