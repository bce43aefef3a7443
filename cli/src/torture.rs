//! `torture`: does a deployment keep its promises while things go wrong on purpose?
//!
//! Authority: the ledger that the tools append to, and the API.
//! Invariant: without `--run` nothing is started, sent or broken; where the deployment is not known
//! to be for trying, nothing is either; no process that was not started here is ever signalled.
//! If we crash here: runs of the agent `torture` stay in the deployment and end by themselves.

mod bell;
mod crew;
mod judge;
mod ledger;
mod people;
mod plan;

use std::path::{Path, PathBuf};
use std::sync::Mutex;
use std::time::Duration;

use data_encoding::HEXLOWER;
use futures_util::future::join_all;
use serde_json::{Value, json};
use tokio::time::sleep;

use self::bell::Bell;
use self::crew::Crew;
use self::judge::Report;
use self::ledger::Ledger;
use self::people::{Manner, People, Story};
use self::plan::Plan;
use crate::args::{Fault, Torture};
use crate::client::Client;
use crate::config::{self, Config, Environment, Secrets};
use crate::exit::{Ended, Exit, Failure};
use crate::output::Output;
use crate::validate;

/// The agent that it starts.
const AGENT: &str = "torture";
/// Between two rounds of faults, in milliseconds: a worker must have time to take something.
const ROUND_MS: u64 = 2_500;
/// Between two rounds of wakes, in milliseconds.
const WAKES_MS: u64 = 400;
const FRAGMENT: &str = include_str!("torture/fragment.toml");

pub(crate) async fn run(
    asked: Torture,
    path: &Path,
    environment: &Environment,
    output: Output,
) -> Ended {
    let ledger = ledger_path(&asked, path);
    if asked.print_config {
        print_config(&ledger, output);
        return Ok(Exit::Done);
    }
    let config = config::load(path, environment, Secrets::Skip)
        .map_err(|problems| validate::refused(&problems))?;
    let plan = Plan::of(&asked, &config.home)?;
    let client = Client::new(&asked.api, path, environment)?;
    let deployment = may_be_broken(&client, asked.force_production).await?;
    has_agent(&client).await?;
    if !asked.run {
        if output.json {
            output
                .value(&json!({ "deployment": deployment, "plan": plan.to_json(), "run": false }));
        } else {
            plan.tell(output);
            output.line("Nothing was done: that was the plan. Add --run to do it.");
        }
        return Ok(Exit::Done);
    }
    let report = act(&asked, path, &config, &plan, &client, &Ledger::open(&ledger)?).await?;
    if output.json {
        let (plan, report) = (plan.to_json(), report.to_json());
        output.value(&json!({ "deployment": deployment, "plan": plan, "report": report }));
    } else {
        report.tell(output);
    }
    Ok(if report.holds() { Exit::Done } else { Exit::Failed })
}

fn ledger_path(asked: &Torture, config: &Path) -> PathBuf {
    let file = std::path::absolute(config).unwrap_or_else(|_| config.to_owned());
    file.parent().unwrap_or(Path::new("/")).join(&asked.ledger)
}

fn print_config(ledger: &Path, output: Output) {
    let folder = ledger.parent().unwrap_or(Path::new("/")).display().to_string();
    let name = ledger.file_name().unwrap_or_default().to_string_lossy();
    let text = FRAGMENT.replace("{{ledger}}", &name).replace("{{folder}}", &folder);
    if output.json {
        output.value(&json!({ "config": text }));
    } else {
        output.line(text.trim_end());
    }
}

/// What the deployment says it is for. Silence is no, here too.
async fn may_be_broken(client: &Client, forced: bool) -> Result<Value, Failure> {
    let (status, _) = client.get::<Value>("/readyz").await?;
    let said = status["deployment"].clone();
    match said.as_str() {
        Some("staging" | "development") => Ok(said),
        Some(_) | None if forced => Ok(said),
        Some("production") => {
            let message = "this deployment says that it is production";
            Err(Failure::new(Exit::Failed, "production", message)
                .mend("give --api of another, or --force-production"))
        }
        Some(_) | None => {
            let message = "this deployment does not say what it is for";
            Err(Failure::new(Exit::Failed, "unknown_deployment", message)
                .mend("set `deployment = \"staging\"` in its configuration"))
        }
    }
}

async fn has_agent(client: &Client) -> Result<(), Failure> {
    let (known, _) = client.get::<Value>("/v1/agents").await?;
    let mut agents = known["agents"].as_array().into_iter().flatten();
    if agents.any(|agent| agent["name"] == AGENT) {
        return Ok(());
    }
    let message = format!("the deployment has no agent `{AGENT}`");
    Err(Failure::new(Exit::NotFound, "no_agent", message)
        .mend("add what `portcullis torture --print-config` prints to its configuration"))
}

async fn act(
    asked: &Torture,
    path: &Path,
    config: &Config,
    plan: &Plan,
    client: &Client,
    ledger: &Ledger,
) -> Result<Report, Failure> {
    let bell = Bell::open(asked, config).await?;
    let mut crew = Crew::start(asked.workers, path, &config.home).await?;
    let people = People {
        client,
        bell: bell.as_ref(),
        session: session()?,
        runs: asked.runs,
        live: Mutex::default(),
    };
    let manners = Manner::of(plan);
    let numbers = (0..asked.runs).zip(manners.iter().cycle());
    let stories = join_all(numbers.map(|(number, manner)| people.story(number, *manner)));
    let mut done = Done::default();
    let stories = {
        let trouble = trouble(plan, &people, crew.as_mut(), &mut done);
        tokio::select! {
            stories = stories => Ok(stories),
            Err(why) = trouble => Err(why),
        }
    };
    if let Some(crew) = crew {
        crew.end().await;
    }
    if let Some(bell) = bell {
        bell.close().await;
    }
    let stories: Vec<Story> = stories?;
    let faults = [(Fault::Kill, done.kills), (Fault::Cut, done.cuts), (Fault::Wakes, done.wakes)];
    Ok(Report::of(&stories, &ledger.effects()?, plan, &faults))
}

/// What was broken so far, and how often.
#[derive(Default)]
struct Done {
    kills: u64,
    cuts: u64,
    wakes: u64,
}

/// Breaks things, round after round, until it is dropped; ends only when it cannot go on.
async fn trouble(
    plan: &Plan,
    people: &People<'_>,
    mut crew: Option<&mut Crew>,
    done: &mut Done,
) -> Result<std::convert::Infallible, Failure> {
    let mut waited_ms = 0;
    for turn in 0_usize.. {
        sleep(Duration::from_millis(WAKES_MS)).await;
        waited_ms += WAKES_MS;
        if let Some(bell) = people.bell.filter(|_| plan.has(Fault::Wakes)) {
            done.wakes += bell.ring(&people.live()).await;
        }
        let Some(crew) = crew.as_mut().filter(|_| ROUND_MS <= waited_ms) else { continue };
        waited_ms = 0;
        if plan.has(Fault::Cut) {
            done.cuts += crew.cut();
        }
        if plan.has(Fault::Kill) {
            crew.kill_one(turn).await?;
            done.kills += 1;
        }
    }
    Err(Failure::new(Exit::Failed, "torture", "it went on for ever"))
}

/// What tells this call's runs from those of another one.
fn session() -> Result<String, Failure> {
    let mut bytes = [0; 8];
    getrandom::fill(&mut bytes)
        .map_err(|why| Failure::new(Exit::Failed, "random", why.to_string()))?;
    Ok(format!("torture-{}", HEXLOWER.encode(&bytes)))
}
