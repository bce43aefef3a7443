//! `waits`: who must act, and when does each wait end by itself?

use std::path::Path;

use crate::api;
use crate::args::Waits;
use crate::client::Client;
use crate::config::Environment;
use crate::exit::{Ended, Exit};
use crate::output::{Output, Tone};
use crate::words::{instant, length};

pub(crate) async fn run(
    command: Waits,
    config: &Path,
    environment: &Environment,
    output: Output,
) -> Ended {
    let client = Client::new(&command.api, config, environment)?;
    let (open, value) = client.get::<api::Waits>("/v1/waits").await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = open.waits.iter().map(row).collect();
    let heads = ["RUN", "AGENT", "CALL", "WAITS FOR", "WHO", "LEFT ALONE", "AT", "WAIT IN ALL"];
    output.table(&heads, &rows, "nothing waits");
    if open.more {
        output.line(&output.tint(Tone::Quiet, "there are more; these are of the oldest runs"));
    }
    Ok(Exit::Done)
}

fn row(wait: &api::Wait) -> Vec<(Tone, String)> {
    let all = wait.since.map(|since| length(wait.ends_at.since(since))).unwrap_or_default();
    vec![
        (Tone::Plain, wait.run_id.to_string()),
        (Tone::Plain, wait.agent.to_string()),
        (Tone::Plain, wait.call.map(|seq| seq.to_string()).unwrap_or_default()),
        (Tone::Waiting, wait.what.clone()),
        (Tone::Plain, wait.who.clone()),
        (Tone::Plain, wait.ends_how.clone()),
        (Tone::Plain, instant(wait.ends_at)),
        (Tone::Quiet, all),
    ]
}
