//! `/v1/agents`, `/v1/reminders`, `/v1/webhooks`: what can be started, and what stands ready to.

use axum::Json;
use axum::extract::State;
use portcullis_proto::ids::{AgentName, ReminderName, RouteName, RunId, Tenant};
use portcullis_proto::time::Ms;
use serde::Serialize;
use serde_json::{Value, json};

use super::Ctx;
use super::answer::ApiError;
use crate::reminders::calendar::Rule;
use crate::reminders::state::{Fire, Schedule};
use crate::settings::{CatchUp, Overlap, Reminder};
use crate::webhooks::verify::Scheme;

#[derive(Debug, Serialize)]
pub(super) struct AgentView<'a> {
    name: &'a AgentName,
    description: &'a str,
    /// From the first claim to the end, waits included, in milliseconds.
    hard_cap_ms: i64,
}

/// `GET /v1/agents`
pub(super) async fn agents(State(ctx): State<Ctx>) -> Json<Value> {
    let agents = ctx.settings.agents.iter().map(|(name, agent)| AgentView {
        name,
        description: &agent.description,
        hard_cap_ms: agent.limits.cap_ms,
    });
    Json(json!({ "agents": agents.collect::<Vec<_>>() }))
}

#[derive(Debug, Serialize)]
pub(super) struct ReminderView {
    name: ReminderName,
    agent: AgentName,
    tenant: Tenant,
    rule: Value,
    catch_up: &'static str,
    overlap: &'static str,
    /// `false`: the store does not know it yet, and it will not fire.
    armed: bool,
    #[serde(skip_serializing_if = "Option::is_none")]
    next_fire: Option<Ms>,
    pending: Vec<Ms>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last: Option<Fire>,
    #[serde(skip_serializing_if = "Option::is_none")]
    last_run: Option<RunId>,
    fired: u64,
    skipped: u64,
    missed: u64,
    failed: u64,
}

#[derive(Debug, Serialize)]
pub(super) struct Reminders {
    reminders: Vec<ReminderView>,
}

/// `GET /v1/reminders`
pub(super) async fn reminders(State(ctx): State<Ctx>) -> Result<Json<Reminders>, ApiError> {
    let mut reminders = Vec::new();
    for (name, reminder) in &ctx.settings.reminders {
        let state = ctx.reminder_state(name).await?;
        reminders.push(ReminderView::of(name, reminder, state));
    }
    Ok(Json(Reminders { reminders }))
}

impl ReminderView {
    fn of(name: &ReminderName, reminder: &Reminder, state: Option<Schedule>) -> Self {
        let armed = state.is_some();
        let count = |read: fn(&Schedule) -> u64| state.as_ref().map_or(0, read);
        Self {
            name: name.clone(),
            agent: reminder.agent.clone(),
            tenant: reminder.tenant.clone(),
            rule: rule(&reminder.rule),
            catch_up: match reminder.catch_up {
                CatchUp::None => "none",
                CatchUp::One => "one",
                CatchUp::All => "all",
            },
            overlap: match reminder.overlap {
                Overlap::Skip => "skip",
                Overlap::Allow => "allow",
            },
            armed,
            fired: count(|s| s.fired),
            skipped: count(|s| s.skipped),
            missed: count(|s| s.missed),
            failed: count(|s| s.failed),
            next_fire: state.as_ref().and_then(|s| s.next_fire),
            pending: state.as_ref().map(|s| s.pending.clone()).unwrap_or_default(),
            last_run: state.as_ref().and_then(|s| s.last_run.clone()),
            last: state.and_then(|s| s.last),
        }
    }
}

fn rule(rule: &Rule) -> Value {
    match rule {
        Rule::Cron(cron) => json!({ "cron": cron.pattern(), "timezone": cron.timezone() }),
        Rule::Every(every) => json!({ "every_ms": every.period_ms() }),
        Rule::At(at) => json!({ "at": at.instant_ms() }),
    }
}

#[derive(Debug, Serialize)]
pub(super) struct WebhookView {
    route: RouteName,
    path: String,
    agent: AgentName,
    tenant: Tenant,
    scheme: &'static str,
    body_bytes_max: usize,
}

#[derive(Debug, Serialize)]
pub(super) struct Webhooks {
    webhooks: Vec<WebhookView>,
}

/// `GET /v1/webhooks`
pub(super) async fn webhooks(State(ctx): State<Ctx>) -> Json<Webhooks> {
    let webhooks = ctx.settings.webhooks.iter().map(|(route, webhook)| WebhookView {
        route: route.clone(),
        path: format!("/hooks/{route}"),
        agent: webhook.agent.clone(),
        tenant: webhook.tenant.clone(),
        scheme: match &webhook.scheme {
            Scheme::Github { .. } => "github",
            Scheme::StandardWebhooks { .. } => "standard-webhooks",
            Scheme::None => "none",
        },
        body_bytes_max: webhook.body_bytes_max,
    });
    Json(Webhooks { webhooks: webhooks.collect() })
}
