//! The disk under the store is full: nothing accepted is lost, nothing refused acts, nothing runs
//! that is not written down; with space again it goes on by itself.

use std::fs::{self, File};
use std::io::Write as _;
use std::path::{Path, PathBuf};
use std::process::Command;

use portcullis_tests::processes::{Installation, Setup, until};
use serde_json::json;
use tokio::task::block_in_place;

use super::{assert_effects, plain};

/// A small file system over a folder, with what was in there.
struct Small {
    folder: PathBuf,
}

impl Small {
    /// `None`: this user may not mount anything.
    fn over(folder: &Path) -> Option<Self> {
        let mut kept = Vec::new();
        for entry in fs::read_dir(folder).unwrap() {
            let path = entry.unwrap().path();
            kept.push((fs::read(&path).unwrap(), fs::metadata(&path).unwrap().permissions(), path));
        }
        let mut mount = Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", "size=8m", "tmpfs"]).arg(folder);
        if !mount.status().is_ok_and(|status| status.success()) {
            return None;
        }
        let small = Self { folder: folder.to_owned() };
        for (bytes, permissions, path) in kept {
            fs::write(&path, bytes).unwrap();
            fs::set_permissions(&path, permissions).unwrap();
        }
        Some(small)
    }

    fn ballast(&self) -> PathBuf {
        self.folder.join("ballast")
    }

    /// Writes until there is no room.
    fn fill(&self) {
        let mut file = File::create(self.ballast()).unwrap();
        while file.write_all(&[0; 4_096]).is_ok() {}
        while file.write_all(&[0]).is_ok() {}
    }

    fn relieve(&self) {
        fs::remove_file(self.ballast()).unwrap();
    }
}

impl Drop for Small {
    fn drop(&mut self) {
        // Lazily: after a failed test somebody may still write there.
        let unmounted = Command::new("umount").arg("--lazy").arg(&self.folder).status();
        assert!(unmounted.is_ok_and(|status| status.success()), "it is mounted still");
    }
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_nothing_is_accepted_and_with_space_it_goes_on() {
    const TRIES_MAX: usize = 2_000;
    let site = Installation::embedded(&Setup::of(vec![plain()]));
    let Some(small) = Small::over(&site.folder().join("data")) else {
        println!("not tried: only root may mount a small file system");
        return;
    };
    let up = site.up().await;
    let mut accepted = vec![up.run("plain", json!({})).await];
    small.fill();
    let mut refused = None;
    // What lies in its files already may be written once more.
    for _ in 0..TRIES_MAX {
        match up.try_run("plain", json!({})).await {
            Ok(run) => accepted.push(run),
            Err(why) => {
                refused = Some(why);
                break;
            }
        }
    }
    let why = refused.expect("a full disk refuses");
    assert!(why.starts_with("503 "), "{why}");
    small.relieve();
    until("it accepts again", async || match up.try_run("plain", json!({})).await {
        Ok(run) => {
            accepted.push(run);
            true
        }
        Err(_) => false,
    })
    .await;
    let mut ended = Vec::new();
    for run in &accepted {
        ended.push(up.ended(run).await);
    }
    assert_effects(&site, &ended, ToOwned::to_owned);
    // What was refused has not acted.
    assert!(site.effects.lines().iter().all(|line| accepted.contains(line)));
    drop(up);
    drop(small);
}

#[tokio::test(flavor = "multi_thread")]
async fn on_a_full_disk_under_redis_the_broker_keeps_jobs_and_each_acts_once() {
    const TRIES_MAX: usize = 2_000;
    let mut site = Installation::distributed(&Setup::of(vec![plain()]));
    let redis = &mut site.servers().redis;
    block_in_place(|| redis.stop().unwrap());
    let Some(small) = Small::over(&redis.folder().join("appendonlydir")) else {
        println!("not tried: only root may mount a small file system");
        return;
    };
    block_in_place(|| redis.restart().unwrap());
    let crew = site.start().await;
    let first = crew.run("plain", json!({})).await;
    let mut accepted = vec![first];
    small.fill();
    // With `appendfsync always` Redis ends rather than answer for what it cannot write.
    let ended = |site: &mut Installation| site.servers().redis.log().contains("Exiting");
    for _ in 0..TRIES_MAX {
        match crew.try_run("plain", json!({})).await {
            Ok(run) => accepted.push(run),
            Err(why) => assert!(why.starts_with("503 "), "{why}"),
        }
        if ended(&mut site) {
            break;
        }
    }
    assert!(ended(&mut site), "Redis wrote on: {}", site.servers().redis.log());
    // There is no store now: the broker keeps the job.
    let kept = crew.run("plain", json!({})).await;
    accepted.push(kept);
    small.relieve();
    block_in_place(|| site.servers().redis.restart().unwrap());
    let mut ended = Vec::new();
    for run in &accepted {
        ended.push(crew.ended(run).await);
    }
    assert_effects(&site, &ended, ToOwned::to_owned);
    assert!(site.effects.lines().iter().all(|line| accepted.contains(line)));
    block_in_place(|| site.servers().redis.stop().unwrap());
    drop(small);
}
