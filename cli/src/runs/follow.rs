//! What happens to a run, told as it happens, until it ends.
//!
//! Authority: the run, read again whenever its events say that something happened, and now and
//! then by itself: the stream is a doorbell.

use std::time::Duration;

use crate::api::RunView;
use crate::client::Client;
use crate::exit::{Ended, Exit};
use crate::output::{Output, Tone, printable};
use crate::story;
use crate::words::length;

/// Without an event it looks by itself, in milliseconds.
const LOOK_MS: u64 = 2_000;
/// Without a stream it looks more often, in milliseconds.
const LOOK_MS_WITHOUT_BELL: u64 = 300;

pub(super) async fn run(client: &Client, id: &str, output: Output) -> Ended {
    let mut bell = client.bell(&super::segment(id)).await;
    let mut told = 0;
    loop {
        let (run, value) = super::load(client, id).await?;
        told = tell(&run, told, output);
        if let Some(outcome) = run.row.outcome {
            if output.json {
                output.value(&value);
            } else {
                story::tell(&run).now.iter().for_each(|line| output.line(&printable(line)));
            }
            return Ok(Exit::of_outcome(outcome));
        }
        ring(&mut bell).await;
    }
}

/// Waits until something may have happened.
async fn ring(bell: &mut Option<reqwest::Response>) {
    let Some(stream) = bell else {
        return tokio::time::sleep(Duration::from_millis(LOOK_MS_WITHOUT_BELL)).await;
    };
    match tokio::time::timeout(Duration::from_millis(LOOK_MS), stream.chunk()).await {
        Ok(Ok(Some(_))) | Err(_) => {}
        Ok(Ok(None) | Err(_)) => *bell = None,
    }
}

/// Tells what is new; answers how much was told in all.
fn tell(run: &RunView, told: u64, output: Output) -> u64 {
    let numbered = (run.history_earlier..).zip(&run.history);
    for (number, entry) in numbered.filter(|(number, _)| told <= *number) {
        if output.json {
            let mut line = serde_json::json!(entry);
            line["run"] = serde_json::json!(run.row.run_id);
            line["no"] = serde_json::json!(number);
            output.value(&line);
        } else if let Some(text) = story::sentence(run, entry) {
            let after = format!("+{}", length(entry.at.since(run.row.created)));
            let after = output.tint(Tone::Quiet, &format!("{after:>12}"));
            output.line(&format!("{after}  {}", printable(&text)));
        }
    }
    told.max(run.history_earlier + u64::try_from(run.history.len()).unwrap_or(0))
}
