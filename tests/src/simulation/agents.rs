//! The agents of a simulated installation, their tools, and the settings of both kinds of process.

use std::collections::BTreeMap;
use std::net::Ipv4Addr;
use std::sync::Arc;
use std::time::Duration;

use async_trait::async_trait;
use portcullis_proto::call::{OnDenied, OnUnknown, SideEffect, Traits};
use portcullis_proto::decision::{KeyRing, Speaker};
use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{AgentName, PoolName, Subject, ToolName};
use portcullis_proto::job::{Attendance, Limits};
use portcullis_proto::policy::{
    Asking, Demand, Policy, Pool, Risk, Roster, ToolPolicy, Unattended,
};
use portcullis_scheduler::reminders::calendar::Rule;
use portcullis_scheduler::settings as desk;
use portcullis_scheduler::webhooks::verify::Scheme;
use portcullis_worker::models::playbook::{CallSource, OnFailure, Playbook, StepSource};
use portcullis_worker::settings::{Agent, AgentTool, Brain, Settings, ToolKind};
use portcullis_worker::tools::{ArgsError, Invocation, Outcome, Tool};
use ring::signature::{Ed25519KeyPair, KeyPair as _};
use serde_json::{Value, json};

use super::life::Life;
use super::world::World;

/// What signs the webhooks.
pub const SECRET: &str = "0123456789abcdef";
/// Agents that a trigger may start.
pub const STARTED: [&str; 5] = ["plain", "asker", "quorum", "parent", "again"];

/// What a seed says about its installation.
#[derive(Clone, Debug)]
pub struct Plan {
    pub limits: Limits,
    pub start_by_ms: i64,
    pub slots: usize,
    /// Whether alice and bob have an inbox.
    pub inbox: bool,
    /// Whether carol's service is bound to the approval topic.
    pub service: bool,
    pub reminder_ms: i64,
    pub reminder_agent: &'static str,
}

impl Plan {
    #[must_use]
    pub fn of(world: &World) -> Self {
        world.draw(|chance| {
            let mut ms = |low, high| i64::try_from(chance.between(low, high)).expect("short");
            let limits = Limits {
                cap_ms: ms(40_000, 180_000),
                step_ms: ms(20_000, 90_000),
                approval_ms: ms(2_000, 30_000),
            };
            Self {
                limits,
                start_by_ms: ms(30_000, 120_000),
                reminder_ms: ms(10_000, 40_000),
                slots: usize::try_from(chance.between(1, 4)).expect("few"),
                inbox: !chance.one_in(4),
                service: !chance.one_in(4),
                reminder_agent: if chance.one_in(3) { "asker" } else { "plain" },
            }
        })
    }

    fn roster(&self) -> Roster {
        let people = |list: &[&str]| list.iter().map(|who| Subject::new(*who).unwrap()).collect();
        let inbox: &[&str] = if self.inbox { &["alice", "bob"] } else { &[] };
        let pool = Pool { members: people(&["alice", "bob", "carol"]), inbox: people(inbox) };
        Roster { pools: BTreeMap::from([(PoolName::new("ops").unwrap(), pool)]) }
    }

    /// What a worker process is told; its tools live and die with it.
    #[must_use]
    pub fn worker(&self, life: &Arc<Life>) -> Settings {
        let step = |calls: &[(&str, Value)]| StepSource {
            calls: calls
                .iter()
                .map(|(tool, args)| CallSource { tool: tool.parse().unwrap(), args: args.clone() })
                .collect(),
            on_failure: OnFailure::Continue,
        };
        let line = |n: u8| json!({ "line": format!("{{{{ input.key }}}}-{n}") });
        let child = json!({ "agent": "asker", "input": { "key": "child" } });
        let brains = [
            ("plain", vec![step(&[("act", line(1))]), step(&[("act", line(2)), ("act", line(3))])]),
            (
                "asker",
                vec![step(&[("asks", line(1)), ("act", line(2))]), step(&[("act", line(3))])],
            ),
            ("quorum", vec![step(&[("pair", line(1)), ("asks", line(2))])]),
            (
                "parent",
                vec![step(&[("agent", child), ("act", line(1))]), step(&[("asks", line(2))])],
            ),
            ("again", vec![step(&[("again", line(1)), ("act", line(2))])]),
        ];
        let agents =
            brains.map(|(name, steps)| (name.parse().unwrap(), self.agent(name, &steps, life)));
        Settings {
            slots: self.slots,
            agents: agents.into(),
            roster: self.roster(),
            unattended: Unattended::Ask,
            keys: Arc::new(keys()),
            drain_ms: 5_000,
        }
    }

    fn agent(&self, name: &str, steps: &[StepSource], life: &Arc<Life>) -> Arc<Agent> {
        let tools = [
            ("act", SideEffect::AtMostOnce, Demand::Allow, 1),
            ("again", SideEffect::Idempotent, Demand::Allow, 1),
            ("asks", SideEffect::AtMostOnce, Demand::Ask, 1),
            ("pair", SideEffect::AtMostOnce, Demand::Ask, 2),
            ("agent", SideEffect::AtMostOnce, Demand::Allow, 1),
        ];
        let mut agent = Agent {
            name: AgentName::new(name).unwrap(),
            brain: Brain::Playbook(Arc::new(Playbook::new(steps).unwrap())),
            policy: Policy::default(),
            tools: BTreeMap::new(),
            limits: self.limits,
            start_by_ms: self.start_by_ms,
        };
        for (tool, effect, gate, need) in tools {
            let (on_denied, on_unknown) = (OnDenied::TellModel, OnUnknown::Fail);
            let traits = Traits { effect, timeout_ms: 40_000, on_denied, on_unknown };
            let kind = if tool == "agent" {
                ToolKind::Child
            } else {
                let once = effect == SideEffect::AtMostOnce;
                ToolKind::Local(Arc::new(Act { name: tool, once, life: Arc::clone(life) }))
            };
            let tool = ToolName::new(tool).unwrap();
            let (pool, risk) = (PoolName::new("ops").unwrap(), Risk::High);
            let asking = Asking { pool, risk, need, levels: vec![] };
            agent.policy.tools.insert(tool.clone(), ToolPolicy { gate, asking });
            agent.tools.insert(tool, AgentTool { traits, kind });
        }
        Arc::new(agent)
    }

    /// What a scheduler process is told.
    #[must_use]
    pub fn scheduler(&self, with_reminders: bool) -> desk::Settings {
        let mut settings = desk::Settings::nothing((Ipv4Addr::LOCALHOST, 0).into());
        for name in STARTED {
            let (limits, start_by_ms) = (self.limits, self.start_by_ms);
            let agent = desk::Agent { description: String::new(), limits, start_by_ms };
            settings.agents.insert(name.parse().unwrap(), agent);
            let webhook = desk::Webhook {
                agent: name.parse().unwrap(),
                tenant: "default".parse().unwrap(),
                scheme: Scheme::github(&[SECRET]).unwrap(),
                body_bytes_max: 1_024,
            };
            settings.webhooks.insert(name.parse().unwrap(), webhook);
        }
        if with_reminders {
            let reminder = desk::Reminder {
                agent: self.reminder_agent.parse().unwrap(),
                tenant: "default".parse().unwrap(),
                rule: Rule::every(self.reminder_ms, 0).unwrap(),
                input: json!({ "key": "reminder" }),
                catch_up: desk::CatchUp::All,
                overlap: desk::Overlap::Allow,
                attendance: Attendance::Unattended,
            };
            settings.reminders.insert("often".parse().unwrap(), reminder);
        }
        let approver = |name: &str| desk::Approver {
            subject: name.parse().unwrap(),
            token_sha256: vec![Digest::of_bytes(name.as_bytes()).0],
            pools: vec!["ops".parse().unwrap()],
        };
        settings.approvers = vec![approver("alice"), approver("bob")];
        settings.roster = self.roster();
        settings.keys = Arc::new(keys());
        settings.notary = Some(desk::Notary { key_id: "notary".to_owned(), pair: pair(7) });
        settings
    }
}

/// A key pair by its number: 7 the notary's, 8 carol's, others nobody's.
#[must_use]
pub fn pair(number: u8) -> Ed25519KeyPair {
    Ed25519KeyPair::from_seed_unchecked(&[number; 32]).unwrap()
}

fn keys() -> KeyRing {
    let mut keys = KeyRing::default();
    let public = |number| pair(number).public_key().as_ref().try_into().unwrap();
    assert!(keys.add("notary", Speaker::Notary, public(7)));
    assert!(keys.add("carol", Speaker::Approver("carol".parse().unwrap()), public(8)));
    keys
}

/// Acts on the world outside the store, at once, and takes its time to come back.
struct Act {
    name: &'static str,
    once: bool,
    life: Arc<Life>,
}

#[async_trait]
impl Tool for Act {
    fn name(&self) -> &str {
        self.name
    }

    fn check(&self, args: &Value) -> Result<Value, ArgsError> {
        Ok(args.clone())
    }

    async fn run(&self, call: Invocation) -> Outcome {
        if self.life.dead.is_cancelled() {
            std::future::pending::<()>().await;
        }
        let world = &self.life.world;
        world.note("effects", || {
            format!("{} {} {}", self.life.name, self.name, call.idempotency_key)
        });
        world.judge.acts(world, self.name, &call, self.once);
        let ms = world.draw(|chance| match chance.below(10) {
            0..6 => chance.between(0, 50),
            6..9 => chance.between(50, 5_000),
            _ => chance.between(5_000, 50_000),
        });
        // sleep: in virtual time, which passes at once
        let work = tokio::time::sleep(Duration::from_millis(ms));
        let outcome = tokio::select! {
            biased;
            () = call.cancel.cancelled() => Outcome::Failed(json!({ "error": "cancelled" })),
            // sleep: in virtual time, which passes at once
            () = tokio::time::sleep(call.timeout) => Outcome::Failed(json!({ "error": "timeout" })),
            () = work => Outcome::Succeeded(call.args.clone()),
        };
        self.life.alive().await;
        outcome
    }
}
