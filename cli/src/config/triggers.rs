//! What do written reminders and webhooks come to?
//!
//! Invariant: a secret is read here, where a scheduler needs it, and never printed.

use std::path::Path;

use portcullis_proto::ids::{AgentName, Subject, Tenant};
use portcullis_proto::job::Attendance;
use portcullis_scheduler::reminders::calendar::{DstPolicy, FoldPolicy, GapPolicy, Rule};
use portcullis_scheduler::settings::{
    CatchUp, Overlap, Reminder, WEBHOOK_BYTES_DEFAULT, WEBHOOK_BYTES_MAX, Webhook,
};
use portcullis_scheduler::webhooks::verify::{Scheme, SecretError, TOLERANCE_MS};
use serde_json::{Map, Value};

use super::environment::Environment;
use super::file::{
    CatchUpText, FoldText, GapText, OverlapText, ReminderFile, SecretNames, Verify, WebhookFile,
};
use super::problem::{Flaw, KeyPath};

/// The longest secret file that is read, in bytes.
const SECRET_FILE_BYTES_MAX: u64 = 4_096;
/// The farthest that a sender's clock may be allowed to be off, in milliseconds.
const TOLERANCE_MS_MAX: i64 = 3_600_000;

pub(crate) fn reminder(file: ReminderFile, at: &KeyPath) -> Result<Reminder, Flaw> {
    let rule = rule(&file, at)?;
    Ok(Reminder {
        agent: agent(&file.agent, at)?,
        tenant: tenant(file.tenant, at)?,
        rule,
        input: file.input.unwrap_or_else(|| Value::Object(Map::new())),
        catch_up: match file.catch_up.unwrap_or(CatchUpText::One) {
            CatchUpText::None => CatchUp::None,
            CatchUpText::One => CatchUp::One,
            CatchUpText::All => CatchUp::All,
        },
        overlap: match file.overlap.unwrap_or(OverlapText::Skip) {
            OverlapText::Skip => Overlap::Skip,
            OverlapText::Allow => Overlap::Allow,
        },
        attendance: match file.attended_by {
            None => Attendance::Unattended,
            Some(name) => Attendance::Session {
                approver: Subject::new(name).map_err(|why| {
                    Flaw::new(at.key("attended_by"), why.to_string(), "name an approver")
                })?,
            },
        },
    })
}

fn rule(file: &ReminderFile, at: &KeyPath) -> Result<Rule, Flaw> {
    let given = [("cron", &file.cron), ("every", &file.every), ("at", &file.at)];
    let given: Vec<_> =
        given.iter().filter_map(|(key, text)| text.as_ref().map(|text| (*key, text))).collect();
    let [(key, text)] = given.as_slice() else {
        let what = format!("it says {} of `cron`, `every` and `at`", given.len());
        return Err(Flaw::new(at.clone(), what, "write exactly one of them"));
    };
    let only_for = |name: &str, given: bool, fits: bool| match given && !fits {
        true => {
            let what = format!("it means nothing with `{key}`");
            Err(Flaw::new(at.key(name), what, "take it out"))
        }
        false => Ok(()),
    };
    only_for("timezone", file.timezone.is_some(), *key != "every")?;
    only_for("anchor", file.anchor.is_some(), *key == "every")?;
    only_for("gap", file.gap.is_some(), *key == "cron")?;
    only_for("fold", file.fold.is_some(), *key == "cron")?;
    let zone = file.timezone.as_deref().unwrap_or("UTC");
    let rule = match *key {
        "cron" => Rule::parse_cron(text, zone, daylight(file)),
        "every" => {
            let anchor_ms = match &file.anchor {
                Some(anchor) => instant_ms(anchor, &at.key("anchor"))?,
                None => 0,
            };
            Rule::parse_every(text, anchor_ms)
        }
        _ => Rule::parse_at(text, file.timezone.as_deref()),
    };
    rule.map_err(|why| Flaw::new(at.key(key), why.to_string(), "correct the rule"))
}

fn daylight(file: &ReminderFile) -> DstPolicy {
    DstPolicy {
        gap: match file.gap.unwrap_or(GapText::RunAtEnd) {
            GapText::RunAtEnd => GapPolicy::RunAtEnd,
            GapText::Skip => GapPolicy::Skip,
        },
        fold: match file.fold.unwrap_or(FoldText::First) {
            FoldText::First => FoldPolicy::First,
            FoldText::Last => FoldPolicy::Last,
            FoldText::Both => FoldPolicy::Both,
        },
    }
}

fn instant_ms(text: &str, at: &KeyPath) -> Result<i64, Flaw> {
    let instant = text.parse::<jiff::Timestamp>();
    instant.map(jiff::Timestamp::as_millisecond).map_err(|why| {
        let what = format!("`{text}` is no instant: {why}");
        Flaw::new(at.clone(), what, "write one such as 2026-03-01T09:00:00+01:00")
    })
}

/// `environment`: none when the process needs no secrets.
pub(crate) fn webhook(
    file: WebhookFile,
    folder: &Path,
    environment: Option<&Environment>,
    at: &KeyPath,
) -> Result<Option<Webhook>, Flaw> {
    let body_bytes_max = file.body_bytes_max.unwrap_or(WEBHOOK_BYTES_DEFAULT);
    if body_bytes_max == 0 || WEBHOOK_BYTES_MAX < body_bytes_max {
        let what = format!("{body_bytes_max} is no limit for a body");
        let mend = format!("choose 1 to {WEBHOOK_BYTES_MAX}");
        return Err(Flaw::new(at.key("body_bytes_max"), what, mend));
    }
    let (agent, tenant) = (agent(&file.agent, at)?, tenant(file.tenant, at)?);
    let Some(environment) = environment else { return Ok(None) };
    let scheme = scheme(&file.verify, folder, environment, &at.key("verify"))?;
    Ok(Some(Webhook { agent, tenant, scheme, body_bytes_max }))
}

fn scheme(
    verify: &Verify,
    folder: &Path,
    environment: &Environment,
    at: &KeyPath,
) -> Result<Scheme, Flaw> {
    let unfit = |why: SecretError| {
        let mend = "give `secret_env` or `secret_file` with the secret as the sender has it";
        Flaw::new(at.clone(), why.to_string(), mend)
    };
    match verify {
        Verify::None {} => Ok(Scheme::None),
        Verify::Github { secret_env, secret_file } => {
            let secrets = secrets(secret_env, secret_file, folder, environment, at)?;
            Scheme::github(&secrets).map_err(unfit)
        }
        Verify::StandardWebhooks { secret_env, secret_file, tolerance } => {
            let secrets = secrets(secret_env, secret_file, folder, environment, at)?;
            let scheme = Scheme::standard_webhooks(&secrets).map_err(unfit)?;
            let tolerance = tolerance.map_or(TOLERANCE_MS, |span| span.ms());
            if TOLERANCE_MS_MAX < tolerance {
                let what = "an old delivery could be replayed for more than an hour";
                return Err(Flaw::new(at.key("tolerance"), what, "choose at most 1h"));
            }
            match scheme {
                Scheme::StandardWebhooks { secrets, .. } => {
                    Ok(Scheme::StandardWebhooks { secrets, tolerance_ms: tolerance })
                }
                other @ (Scheme::Github { .. } | Scheme::None) => Ok(other),
            }
        }
    }
}

fn secrets(
    names: &SecretNames<String>,
    files: &SecretNames<std::path::PathBuf>,
    folder: &Path,
    environment: &Environment,
    at: &KeyPath,
) -> Result<Vec<String>, Flaw> {
    let mut secrets = Vec::new();
    for name in names.all() {
        match environment.get(&name) {
            Some(secret) => secrets.push(secret.to_owned()),
            None => {
                let what = format!("the environment variable {name} is not set");
                return Err(Flaw::new(at.key("secret_env"), what, "set it to the secret"));
            }
        }
    }
    for file in files.all() {
        let path = folder.join(&file);
        let secret = read_secret(&path).map_err(|why| {
            let what = format!("{} cannot be read: {why}", path.display());
            Flaw::new(at.key("secret_file"), what, "write the secret into it, mode 0600")
        })?;
        secrets.push(secret);
    }
    Ok(secrets)
}

/// A file's one line end is not part of the secret.
fn read_secret(path: &Path) -> std::io::Result<String> {
    let bytes = std::fs::metadata(path)?.len();
    if SECRET_FILE_BYTES_MAX < bytes {
        let what = format!("it has {bytes} bytes, a secret at most {SECRET_FILE_BYTES_MAX}");
        return Err(std::io::Error::new(std::io::ErrorKind::InvalidData, what));
    }
    let text = std::fs::read_to_string(path)?;
    Ok(text.strip_suffix('\n').unwrap_or(&text).to_owned())
}

/// The environment variables that a webhook's secrets are read from.
pub(crate) fn secret_variables(verify: &Verify) -> Vec<String> {
    match verify {
        Verify::Github { secret_env, .. } | Verify::StandardWebhooks { secret_env, .. } => {
            secret_env.all()
        }
        Verify::None {} => Vec::new(),
    }
}

/// The files that a webhook's secrets are read from.
pub(crate) fn secret_files(verify: &Verify, folder: &Path) -> Vec<std::path::PathBuf> {
    match verify {
        Verify::Github { secret_file, .. } | Verify::StandardWebhooks { secret_file, .. } => {
            secret_file.all().into_iter().map(|file| folder.join(file)).collect()
        }
        Verify::None {} => Vec::new(),
    }
}

fn agent(name: &str, at: &KeyPath) -> Result<AgentName, Flaw> {
    AgentName::new(name).map_err(|why| Flaw::new(at.key("agent"), why.to_string(), "name an agent"))
}

fn tenant(name: Option<String>, at: &KeyPath) -> Result<Tenant, Flaw> {
    let name = name.unwrap_or_else(|| "default".to_owned());
    Tenant::new(name)
        .map_err(|why| Flaw::new(at.key("tenant"), why.to_string(), "rename the tenant"))
}
