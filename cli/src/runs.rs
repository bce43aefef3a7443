//! `runs`: start, list, show, follow, cancel, explain.
//!
//! Invariant: a run that was waited for decides the exit code; only success is 0.

mod follow;

use std::path::Path;

use serde_json::{Value, json};

use crate::api::{Cancelled, RunPage, RunRow, RunView, Started, payload};
use crate::args::{OneRun, Runs, StartRun};
use crate::client::Client;
use crate::config::{Environment, Span};
use crate::exit::{Ended, Exit, Failure};
use crate::output::{Output, Tone};
use crate::story;
use crate::words::{instant, length};

/// The longest input that is read from a file or standard input, in bytes.
const INPUT_BYTES_MAX: u64 = 1024 * 1024;

pub(crate) async fn run(
    command: Runs,
    config: &Path,
    environment: &Environment,
    output: Output,
) -> Ended {
    let connect = |api| Client::new(api, config, environment);
    match command {
        Runs::List { api, phase, limit, after } => {
            let mut path = format!("/v1/runs?limit={limit}");
            if let Some(phase) = phase {
                path.push_str(&format!("&phase={}", phase.as_str()));
            }
            if let Some(after) = after {
                path.push_str(&format!("&after={after}"));
            }
            list(&connect(&api)?, &path, output).await
        }
        Runs::Show(OneRun { id, api }) => show(&connect(&api)?, &id, output).await,
        Runs::Follow(OneRun { id, api }) => follow::run(&connect(&api)?, &id, output).await,
        Runs::Start(start) => begin(&connect(&start.api)?, start, output).await,
        Runs::Cancel { run: OneRun { id, api }, reason } => {
            cancel(&connect(&api)?, &id, reason, output).await
        }
        Runs::Why(OneRun { id, api }) => why(&connect(&api)?, &id, output).await,
    }
}

async fn list(client: &Client, path: &str, output: Output) -> Ended {
    let (page, value) = client.get::<RunPage>(path).await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = page.runs.iter().map(row).collect();
    output.table(&["RUN", "AGENT", "FROM", "STATE", "AGE", "NEXT"], &rows, "no runs");
    if let Some(next) = page.next {
        output.line(&output.tint(Tone::Quiet, &format!("more: --after {next}")));
    }
    Ok(Exit::Done)
}

fn row(run: &RunRow) -> Vec<(Tone, String)> {
    let next = run
        .next
        .as_ref()
        .map(|next| format!("{} in {}", next.what, length(next.at.since(run.now))));
    vec![
        (Tone::Plain, run.run_id.to_string()),
        (Tone::Plain, run.agent.to_string()),
        (Tone::Plain, run.origin.kind().to_owned()),
        state(run),
        (Tone::Quiet, length(run.now.since(run.created))),
        (Tone::Quiet, next.unwrap_or_default()),
    ]
}

fn state(run: &RunRow) -> (Tone, String) {
    use portcullis_proto::run::Outcome;
    match run.outcome {
        Some(Outcome::Succeeded) => (Tone::Good, "succeeded".to_owned()),
        Some(outcome) => (Tone::Bad, outcome.as_str().to_owned()),
        None if run.phase == "waiting" => (Tone::Waiting, run.phase.clone()),
        None => (Tone::Plain, run.phase.clone()),
    }
}

pub(super) async fn load(client: &Client, id: &str) -> Result<(RunView, Value), Failure> {
    client.get(&format!("/v1/runs/{}", segment(id))).await
}

/// An id as one part of a path, whatever was typed.
pub(crate) fn segment(id: &str) -> String {
    let is_plain = |b: &u8| b.is_ascii_alphanumeric() || b"-._".contains(b);
    id.bytes()
        .map(|b| if is_plain(&b) { char::from(b).to_string() } else { format!("%{b:02X}") })
        .collect()
}

async fn show(client: &Client, id: &str, output: Output) -> Ended {
    let (run, value) = load(client, id).await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let (tone, state) = state(&run.row);
    let reason = run.row.reason.as_ref().map(|reason| match &reason.detail {
        Some(detail) => format!(": {} ({detail})", reason.code),
        None if reason.code == state || reason.code == "done" => String::new(),
        None => format!(": {}", reason.code),
    });
    let field = |name: &str, text: &str| {
        output.line(&format!(
            "{}  {}",
            output.tint(Tone::Quiet, &format!("{name:7}")),
            crate::output::printable(text)
        ));
    };
    field("run", run.row.run_id.as_str());
    field("agent", run.row.agent.as_str());
    field("state", &format!("{}{}", output.tint(tone, &state), reason.unwrap_or_default()));
    field("from", run.row.origin.kind());
    field("created", &instant(run.row.created));
    if let Some(begun) = run.row.begun {
        field("begun", &instant(begun));
    }
    match run.row.ended {
        Some(ended) => field("ended", &instant(ended)),
        None => field("ends by", &instant(run.hard_cap)),
    }
    field("input", &payload(&run.input));
    if let Some(result) = &run.output {
        field("output", &payload(result));
    }
    output.line("");
    let rows: Vec<_> = run.calls.iter().map(call_row).collect();
    output.table(&["CALL", "TOOL", "GATE", "STATE", "ARGUMENTS", "RESULT"], &rows, "no calls yet");
    Ok(Exit::Done)
}

fn call_row(call: &crate::api::CallView) -> Vec<(Tone, String)> {
    use portcullis_proto::call::Status;
    let (tone, state) = match (&call.denial, call.status) {
        (Some(denial), _) => (Tone::Bad, denial.code.to_string()),
        (None, Some(Status::Succeeded)) => (Tone::Good, "succeeded".to_owned()),
        (None, Some(Status::Failed)) => (Tone::Bad, "failed".to_owned()),
        (None, Some(Status::NotRun)) => (Tone::Bad, "not_run".to_owned()),
        (None, Some(Status::Unknown)) => (Tone::Bad, "outcome_unknown".to_owned()),
        (None, Some(Status::CompletedWithDenials)) => {
            (Tone::Bad, "completed_with_denials".to_owned())
        }
        (None, None) if call.gate == "asked" && call.progress == "planned" => {
            (Tone::Waiting, "asked".to_owned())
        }
        (None, None) => (Tone::Plain, call.progress.clone()),
    };
    let child = call.child.as_ref().map(|child| format!("run {child}"));
    let result = call.result.as_ref().map(payload).or(child);
    vec![
        (Tone::Plain, call.seq.to_string()),
        (Tone::Plain, call.tool.to_string()),
        (Tone::Plain, call.gate.clone()),
        (tone, state),
        (Tone::Plain, payload(&call.args)),
        (Tone::Plain, result.unwrap_or_default()),
    ]
}

async fn begin(client: &Client, start: StartRun, output: Output) -> Ended {
    let mut body = json!({ "agent": start.agent, "input": input(&start.input)? });
    if let Some(tenant) = &start.tenant {
        body["tenant"] = json!(tenant);
    }
    if let Some(key) = &start.key {
        body["idempotency_key"] = json!(key);
    }
    if let Some(within) = &start.start_by {
        let span = Span::parse(within)
            .map_err(|why| Failure::new(Exit::Usage, "start_by", format!("--start-by: {why}")))?;
        #[expect(clippy::cast_precision_loss, reason = "at most ten years of milliseconds")]
        let seconds = span.ms() as f64 / 1_000.0;
        body["start_by_seconds"] = json!(seconds);
    }
    let (started, value) = match &start.attended_by {
        Some(approver) => {
            body["attended"] = json!({ "approver": approver });
            client.post_as_approver::<Started>("/v1/runs", &body, false).await?
        }
        None => client.post::<Started>("/v1/runs", &body).await?,
    };
    if output.json && !start.wait {
        output.value(&value);
    } else if !output.json {
        let again = if started.duplicate { ", which this key had started before" } else { "" };
        output.line(&format!("started run {}{again}", started.run_id));
    }
    if start.wait {
        return follow::run(client, started.run_id.as_str(), output).await;
    }
    Ok(Exit::Done)
}

fn input(text: &str) -> Result<Value, Failure> {
    let usage = |what: String| {
        let mend = "write it like --input '{\"name\": \"world\"}', @file, or - for standard input";
        Failure::new(Exit::Usage, "input", what).mend(mend)
    };
    let read = |mut from: Box<dyn std::io::Read>, name: &str| {
        let mut text = String::new();
        std::io::Read::read_to_string(
            &mut std::io::Read::take(&mut from, INPUT_BYTES_MAX + 1),
            &mut text,
        )
        .map_err(|why| usage(format!("{name} cannot be read: {why}")))?;
        match u64::try_from(text.len()) {
            Ok(bytes) if bytes <= INPUT_BYTES_MAX => Ok(text),
            Ok(_) | Err(_) => Err(usage(format!("{name} is longer than {INPUT_BYTES_MAX} bytes"))),
        }
    };
    let text = match text.strip_prefix('@') {
        Some(file) => {
            let open = std::fs::File::open(file);
            let open = open.map_err(|why| usage(format!("{file} cannot be read: {why}")))?;
            read(Box::new(open), file)?
        }
        None if text == "-" => read(Box::new(std::io::stdin()), "standard input")?,
        None => text.to_owned(),
    };
    serde_json::from_str(&text).map_err(|why| usage(format!("the input is not JSON: {why}")))
}

async fn cancel(client: &Client, id: &str, reason: Option<String>, output: Output) -> Ended {
    let body = match reason {
        Some(reason) => json!({ "reason": reason }),
        None => json!({}),
    };
    let path = format!("/v1/runs/{}/cancel", segment(id));
    let (cancelled, value) = client.post::<Cancelled>(&path, &body).await?;
    if output.json {
        output.value(&value);
    } else {
        let state = cancelled.outcome.map_or(cancelled.phase.as_str(), |outcome| outcome.as_str());
        output.line(&format!("run {id} is {state}"));
    }
    Ok(Exit::Done)
}

async fn why(client: &Client, id: &str, output: Output) -> Ended {
    let (run, _) = load(client, id).await?;
    let story = story::tell(&run);
    if output.json {
        let happened: Vec<_> = story
            .happened
            .iter()
            .map(|(after_ms, text)| json!({ "after_ms": after_ms, "text": text }))
            .collect();
        output.value(&json!({
            "run_id": run.row.run_id, "phase": run.row.phase, "outcome": run.row.outcome,
            "opening": story.opening, "happened": happened, "now": story.now,
        }));
        return Ok(Exit::Done);
    }
    let say = |text: &str| output.line(&crate::output::printable(text));
    story.opening.iter().for_each(|line| say(line));
    for (after_ms, text) in &story.happened {
        let after = output.tint(Tone::Quiet, &format!("{:>12}", format!("+{}", length(*after_ms))));
        output.line(&format!("{after}  {}", crate::output::printable(text)));
    }
    story.now.iter().for_each(|line| say(line));
    Ok(Exit::Done)
}
