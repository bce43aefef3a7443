//! Can the store keep what it confirms?

use std::path::Path;

use portcullis_engine::redis::{RedisSettings, RedisSite, Severity as Told};
use portcullis_engine::sqlite::{OpenError, SqliteSettings, SqliteStore};

use super::{Finding, Severity};
use crate::config::{Config, StorePlace, without_login};
use crate::words::one_sentence;

const CHECK: &str = "store";

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    match &config.home.store {
        StorePlace::Sqlite(path) => sqlite(path).await,
        StorePlace::Redis(settings) => redis(settings).await,
    }
}

async fn sqlite(path: &Path) -> Vec<Finding> {
    let shown = path.display().to_string();
    if !path.exists() {
        return vec![Finding::fine(CHECK, format!("{shown} will be made at the first start"))];
    }
    let settings = SqliteSettings::new(path);
    let opened = tokio::task::spawn_blocking(|| SqliteStore::open(settings)).await;
    let store = match opened {
        Ok(Ok(store)) => store,
        Ok(Err(OpenError::InUse { pid, .. })) => {
            let by = pid.map_or("another process".to_owned(), |pid| format!("process {pid}"));
            let found = format!("{shown} is in use by {by}; stop it to have the file looked at");
            return vec![Finding::fine(CHECK, found)];
        }
        Ok(Err(why)) => {
            return vec![Finding::fatal(CHECK, one_sentence(&why), "nothing can start", "")];
        }
        Err(why) => {
            return vec![Finding::fatal(CHECK, why.to_string(), "it could not be looked at", "")];
        }
    };
    let looked = async { Ok((store.examine().await?, store.quick_check().await?)) };
    let (facts, damage) = match looked.await {
        Ok(found) => found,
        Err(why) => {
            let why: portcullis_engine::ports::StoreError = why;
            return vec![Finding::fatal(CHECK, one_sentence(&why), "it cannot be read", "")];
        }
    };
    let damaged = !damage.is_empty();
    let told = facts.into_iter().chain(damage).map(|finding| {
        let check = format!("{CHECK}: {}", finding.subject);
        match finding.mend {
            None => Finding::fine(&check, finding.found),
            Some(mend) => Finding::warning(&check, finding.found, "", mend),
        }
    });
    let mut findings: Vec<Finding> = told.collect();
    if damaged {
        let why = "what was confirmed may be gone";
        findings.push(Finding::fatal(
            CHECK,
            format!("{shown} is damaged"),
            why,
            "restore a backup",
        ));
    }
    findings
}

async fn redis(settings: &RedisSettings) -> Vec<Finding> {
    let findings = match RedisSite::examine(settings).await {
        Ok(findings) => findings,
        Err(why) => {
            let found = format!("{}: {}", without_login(&settings.url), one_sentence(&why));
            let why = "webhooks are still taken by the broker; nothing runs";
            return vec![Finding::fatal(CHECK, found, why, "start Redis, or correct `store.url`")];
        }
    };
    let told = findings.into_iter().map(|finding| {
        let severity = match finding.severity {
            Told::Fine => Severity::Fine,
            Told::Warning => Severity::Warning,
            Told::Error if settings.strict => Severity::Fatal,
            Told::Error => Severity::Warning,
        };
        Finding::new(
            &format!("{CHECK}: {}", finding.check),
            severity,
            finding.why,
            "",
            finding.mend,
        )
    });
    told.collect()
}
