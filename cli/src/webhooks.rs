//! `webhooks`: which routes are there, and whom do they believe?

use std::path::Path;

use crate::api;
use crate::args::Webhooks;
use crate::client::Client;
use crate::config::Environment;
use crate::exit::{Ended, Exit};
use crate::output::{Output, Tone};

pub(crate) async fn run(
    command: Webhooks,
    config: &Path,
    environment: &Environment,
    output: Output,
) -> Ended {
    let Webhooks::List(api) = command;
    let client = Client::new(&api, config, environment)?;
    let (list, value) = client.get::<api::Webhooks>("/v1/webhooks").await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = list.webhooks.iter().map(row).collect();
    output.table(&["PATH", "AGENT", "VERIFIED BY", "BODY AT MOST"], &rows, "no webhooks");
    Ok(Exit::Done)
}

fn row(webhook: &api::Webhook) -> Vec<(Tone, String)> {
    let unsigned = webhook.scheme == "none";
    vec![
        (Tone::Plain, webhook.path.clone()),
        (Tone::Plain, webhook.agent.to_string()),
        (if unsigned { Tone::Bad } else { Tone::Plain }, webhook.scheme.clone()),
        (Tone::Plain, format!("{} bytes", webhook.body_bytes_max)),
    ]
}
