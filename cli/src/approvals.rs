//! `approvals`: what waits for a person, and deciding it.
//!
//! Invariant: a decision names the exact call it was shown: its nonce and its digest. What has
//! changed since is refused by the run, not decided by accident.

use std::collections::BTreeMap;
use std::path::Path;
use std::time::Duration;

use portcullis_proto::decision::{Channel, Verdict};
use portcullis_proto::time::Ms;
use serde_json::{Value, json};

use crate::api::{ApprovalView, Decided, OpenApprovals, payload};
use crate::args::{Approvals, Decide, OneApproval};
use crate::client::Client;
use crate::config::Environment;
use crate::exit::{Ended, Exit, Failure};
use crate::output::{Output, Tone, printable};
use crate::runs::segment;
use crate::story::why_denied;
use crate::words::{instant, length};

/// How often `watch` looks, in milliseconds.
const WATCH_MS: u64 = 1_000;

pub(crate) async fn run(
    command: Approvals,
    config: &Path,
    environment: &Environment,
    output: Output,
) -> Ended {
    let connect = |api| Client::new(api, config, environment);
    match command {
        Approvals::List { api, pool } => list(&connect(&api)?, pool.as_deref(), output).await,
        Approvals::Show(OneApproval { id, api }) => {
            let (approval, value) = load(&connect(&api)?, &id).await?;
            if output.json {
                output.value(&value)
            } else {
                show(&approval, output)
            }
            Ok(Exit::Done)
        }
        Approvals::Approve(decide) => {
            let client = connect(&decide.approval.api)?;
            decide_on(&client, &decide, Verdict::Approve, output).await
        }
        Approvals::Deny(decide) => {
            let client = connect(&decide.approval.api)?;
            decide_on(&client, &decide, Verdict::Deny, output).await
        }
        Approvals::Watch { api, pool } => watch(&connect(&api)?, pool.as_deref(), output).await,
    }
}

async fn open(client: &Client, pool: Option<&str>) -> Result<(OpenApprovals, Value), Failure> {
    let pool = pool.map(|pool| format!("&pool={}", segment(pool))).unwrap_or_default();
    client.get(&format!("/v1/approvals?limit=500{pool}")).await
}

async fn load(client: &Client, id: &str) -> Result<(ApprovalView, Value), Failure> {
    client.get(&format!("/v1/approvals/{}", segment(id))).await
}

async fn list(client: &Client, pool: Option<&str>, output: Output) -> Ended {
    let (open, value) = open(client, pool).await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = open.approvals.iter().map(row).collect();
    let heads = ["REQUEST", "POOL", "RISK", "AGENT", "TOOL", "ARGUMENTS", "DENIED IN"];
    output.table(&heads, &rows, "nothing waits for a decision");
    Ok(Exit::Done)
}

fn row(approval: &ApprovalView) -> Vec<(Tone, String)> {
    let request = &approval.request;
    vec![
        (Tone::Plain, request.approval_id.to_string()),
        (Tone::Plain, request.pool.to_string()),
        (Tone::Plain, request.risk.as_str().to_owned()),
        (Tone::Plain, request.agent.to_string()),
        (Tone::Plain, request.tool.to_string()),
        (Tone::Plain, payload(&request.args)),
        (Tone::Waiting, left(approval)),
    ]
}

fn left(approval: &ApprovalView) -> String {
    #[expect(clippy::cast_possible_truncation, reason = "a server's seconds, for a person")]
    length((approval.seconds_left * 1_000.0) as i64)
}

fn show(approval: &ApprovalView, output: Output) {
    let request = &approval.request;
    let field = |name: &str, text: &str| {
        let name = output.tint(Tone::Quiet, &format!("{name:9}"));
        output.line(&format!("{name}  {}", printable(text)));
    };
    field("request", request.approval_id.as_str());
    field(
        "state",
        &match &approval.denial {
            Some(denial) => format!("{}: {}", denial.code, why_denied(denial)),
            None => approval.state.clone(),
        },
    );
    field("run", request.run_id.as_str());
    field("agent", request.agent.as_str());
    field("from", request.origin.kind());
    field("tool", request.tool.as_str());
    field(
        "arguments",
        &match &request.args {
            portcullis_proto::job::Payload::Inline(value) => format!("{value:#}"),
            stored @ portcullis_proto::job::Payload::Stored { .. } => payload(stored),
        },
    );
    field("args_hash", &request.args_hash.to_string());
    if request.previous_attempt_unknown {
        field("beware", "the same call was begun before, and nobody knows how it ended");
    }
    let names: Vec<&str> = approval.eligible.iter().map(|name| name.as_str()).collect();
    let who = format!("{} of {} (pool {})", request.need, names.join(", "), request.pool);
    field("who", &who);
    for vote in &approval.votes {
        field("vote", &vote_line(vote));
    }
    field("asked", &instant(request.asked_at));
    if approval.state == "requested" {
        let by = format!("{}, in {}", instant(request.deadline), left(approval));
        field("denied at", &by);
    }
    if let Some(use_by) = approval.use_by {
        field("use by", &instant(use_by));
    }
}

fn vote_line(vote: &crate::api::Vote) -> String {
    let verdict = match vote.verdict {
        Verdict::Approve => "approve",
        Verdict::Deny => "deny",
    };
    let channel = match vote.channel {
        Channel::Amqp => "amqp",
        Channel::Http => "http",
        Channel::Cli => "cli",
        Channel::Console => "console",
    };
    let reason = vote.reason.as_ref().map(|reason| format!(": {reason}")).unwrap_or_default();
    format!("{verdict} by {} at {} ({channel}){reason}", vote.by, instant(vote.at))
}

async fn decide_on(client: &Client, decide: &Decide, verdict: Verdict, output: Output) -> Ended {
    let id = &decide.approval.id;
    let (approval, _) = load(client, id).await?;
    let request = &approval.request;
    if let Some(wanted) = &decide.args_hash
        && *wanted != request.args_hash.to_string()
    {
        let message = format!("the call's digest is {}, not the one given", request.args_hash);
        return Err(Failure::new(Exit::DecisionRefused, "wrong_args", message)
            .mend("look at it again: `portcullis approvals show`"));
    }
    let mut body = json!({
        "verdict": verdict, "nonce": request.nonce, "args_hash": request.args_hash,
    });
    if let Some(reason) = &decide.reason {
        body["reason"] = json!(reason);
    }
    let path = format!("/v1/approvals/{}/decision", segment(id));
    let (decided, value) = client.post_as_approver::<Decided>(&path, &body, true).await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let request = &decided.approval.request;
    let again = if decided.already { ", as before" } else { "" };
    let what = format!("{} {}", request.tool, payload(&request.args));
    let text = match (verdict, decided.approval.state.as_str()) {
        (Verdict::Deny, _) => format!("denied{again}: {what}"),
        (Verdict::Approve, "requested") => {
            let yes = decided.approval.votes.iter().filter(|v| v.verdict == Verdict::Approve);
            format!("counted{again}: {} of {} agree on {what}", yes.count(), request.need)
        }
        (Verdict::Approve, _) => format!("approved{again}: {what}"),
    };
    output.line(&printable(&text));
    Ok(Exit::Done)
}

/// Until it is interrupted, or the server goes away.
async fn watch(client: &Client, pool: Option<&str>, output: Output) -> Ended {
    let mut known: BTreeMap<String, Ms> = BTreeMap::new();
    loop {
        let (open, _) = open(client, pool).await?;
        let ids: Vec<String> =
            open.approvals.iter().map(|one| one.request.approval_id.to_string()).collect();
        for one in &open.approvals {
            let id = one.request.approval_id.to_string();
            if known.insert(id.clone(), one.request.deadline).is_none() {
                tell(output, "requested", one);
            }
        }
        let gone: Vec<String> = known.keys().filter(|id| !ids.contains(id)).cloned().collect();
        for id in gone {
            known.remove(&id);
            let (one, _) = load(client, &id).await?;
            tell(output, &one.state, &one);
        }
        tokio::time::sleep(Duration::from_millis(WATCH_MS)).await;
    }
}

fn tell(output: Output, state: &str, one: &ApprovalView) {
    let request = &one.request;
    if output.json {
        return output.value(&json!({
            "state": state, "approval_id": request.approval_id, "pool": request.pool,
            "risk": request.risk, "agent": request.agent, "tool": request.tool,
            "args": request.args, "args_hash": request.args_hash, "deadline": request.deadline,
            "denial": one.denial,
        }));
    }
    let tone = match state {
        "requested" => Tone::Waiting,
        "refused" => Tone::Bad,
        _ => Tone::Good,
    };
    let end = match &one.denial {
        Some(denial) => why_denied(denial),
        None if state == "requested" => format!("denied in {}", left(one)),
        None => String::new(),
    };
    let what = format!("{} {}", request.tool, payload(&request.args));
    output.line(&format!(
        "{}  {}  {}  {}",
        output.tint(tone, &format!("{state:9}")),
        request.approval_id,
        printable(&what),
        output.tint(Tone::Quiet, &printable(&end))
    ));
}
