//! `reminders`: what starts runs by the calendar, and when next?

use std::path::Path;

use serde_json::Value;

use crate::api;
use crate::args::Reminders;
use crate::client::Client;
use crate::config::Environment;
use crate::exit::{Ended, Exit};
use crate::output::{Output, Tone};
use crate::words::{instant, length};

pub(crate) async fn run(
    command: Reminders,
    config: &Path,
    environment: &Environment,
    output: Output,
) -> Ended {
    let Reminders::List(api) = command;
    let client = Client::new(&api, config, environment)?;
    let (list, value) = client.get::<api::Reminders>("/v1/reminders").await?;
    if output.json {
        output.value(&value);
        return Ok(Exit::Done);
    }
    let rows: Vec<_> = list.reminders.iter().map(row).collect();
    let heads = ["REMINDER", "AGENT", "RULE", "NEXT", "FIRED", "SKIPPED", "MISSED", "LAST RUN"];
    output.table(&heads, &rows, "no reminders");
    Ok(Exit::Done)
}

fn row(reminder: &api::Reminder) -> Vec<(Tone, String)> {
    let next = match (reminder.armed, reminder.next_fire) {
        (true, Some(at)) => (Tone::Plain, instant(at)),
        (true, None) => (Tone::Quiet, "never again".to_owned()),
        (false, _) => (Tone::Bad, "not armed yet".to_owned()),
    };
    let last = reminder.last_run.as_ref().map(ToString::to_string).unwrap_or_default();
    vec![
        (Tone::Plain, reminder.name.clone()),
        (Tone::Plain, reminder.agent.to_string()),
        (Tone::Plain, rule(&reminder.rule)),
        next,
        (Tone::Plain, reminder.fired.to_string()),
        (Tone::Plain, reminder.skipped.to_string()),
        (Tone::Plain, reminder.missed.to_string()),
        (Tone::Plain, last),
    ]
}

fn rule(rule: &Value) -> String {
    let text = |key: &str| rule[key].as_str().unwrap_or_default();
    match (&rule["every_ms"], &rule["at"]) {
        (Value::Number(ms), _) => format!("every {}", length(ms.as_i64().unwrap_or(0))),
        (_, Value::Number(ms)) => {
            format!("at {}", instant(portcullis_proto::time::Ms(ms.as_i64().unwrap_or(0))))
        }
        _ => format!("{} {}", text("cron"), text("timezone")),
    }
}
