//! May a process start with what `doctor` would find?
//!
//! Authority: the profile. `strict` refuses what is fatal; `standard` tells it, and goes on.
//! Invariant: it is the doctor's own look, at the opened store and broker; nothing is judged twice
//! in two ways. What only a scheduler has, no worker is refused for.

use std::sync::Arc;
use std::time::Duration;

use portcullis_engine::finding::Finding;
use portcullis_engine::redis::RedisSite;
use tracing::{info, warn};

use super::{broker, bus, files, host, promises};
use crate::config::{BusPlace, Config, Profile, StorePlace};
use crate::exit::{Exit, Failure};
use crate::home::Opened;
use crate::words::one_sentence;

/// How long the look may take, in milliseconds. A file's content is read without this limit.
const LOOK_MS_MAX: u64 = 20_000;
/// What a worker is not given, and need not have.
const OF_SCHEDULERS: [&str; 4] =
    ["files-notary-key", "files-secrets", "config-webhook-unsigned", "config-api-exposed"];

/// Looks at everything once the home is open, and before anything is served or worked on.
///
/// # Errors
/// Something fatal was found, and the profile is strict.
pub(crate) async fn at_start(
    config: &Config,
    opened: &Opened,
    schedules: bool,
) -> Result<(), Failure> {
    let limit = Duration::from_millis(LOOK_MS_MAX);
    let mut findings = match tokio::time::timeout(limit, of_home(config, opened)).await {
        Ok(findings) => findings,
        Err(_) => vec![Finding::fatal(
            "start-look",
            format!("store and broker did not answer everything in {LOOK_MS_MAX} ms"),
            "nobody knows whether they keep what is promised",
            "look at their load; `portcullis doctor` says how far it gets",
        )],
    };
    findings.extend(promises::look(config));
    findings.extend(files::look(config));
    findings.extend(host::look(config));
    if let (Profile::Strict, Some(sqlite)) = (config.profile, &opened.sqlite) {
        findings.push(sqlite.quick_check().await.unwrap_or_else(|why| {
            Finding::fatal("sqlite-content", one_sentence(&why), "it cannot be read", "")
        }));
    }
    judge(config.profile, &findings, schedules)
}

async fn of_home(config: &Config, opened: &Opened) -> Vec<Finding> {
    let mut findings = Vec::new();
    if let Some(sqlite) = &opened.sqlite {
        let looked = sqlite.examine().await;
        findings.extend(looked.unwrap_or_else(|why| {
            let mend = "see what it says, and try again";
            vec![Finding::fatal("sqlite-content", one_sentence(&why), "it cannot be read", mend)]
        }));
    }
    if let StorePlace::Redis(settings) = &config.home.store {
        let looked = RedisSite::examine(settings).await;
        findings.extend(looked.unwrap_or_else(|why| {
            let mend = "look at Redis' log";
            vec![Finding::unseen("redis-reachable", one_sentence(&why), mend)]
        }));
    }
    if let (Some(rabbit), BusPlace::Rabbit { declare, management, .. }) =
        (&opened.rabbit, &config.home.bus)
    {
        findings.extend(bus::over_amqp(&Arc::clone(rabbit), *declare).await);
        // The usual address is not tried: a packet that is dropped there would hold up every start.
        if management.is_some() {
            findings.extend(broker::look(config, &rabbit.account(), management.as_ref()).await);
        }
    }
    findings
}

/// Tells every fatal finding, and refuses them where the profile says so.
fn judge(profile: Profile, findings: &[Finding], schedules: bool) -> Result<(), Failure> {
    let concerns = |finding: &&Finding| schedules || !OF_SCHEDULERS.contains(&finding.check);
    let fatal: Vec<&Finding> =
        findings.iter().filter(|finding| finding.is_fatal()).filter(concerns).collect();
    match (profile, fatal.as_slice()) {
        (Profile::Standard, fatal) => {
            for Finding { check, found, why, mend, .. } in fatal {
                warn!(check, found, why, mend, "W052 a promise does not hold here");
            }
            Ok(())
        }
        (Profile::Strict, []) => {
            info!(checks = findings.len(), "every promise holds as far as can be seen");
            Ok(())
        }
        (Profile::Strict, [first, ..]) => {
            let told: Vec<String> = fatal
                .iter()
                .map(|finding| format!("  {}: {}; {}", finding.check, finding.found, finding.why))
                .collect();
            let mends: Vec<String> = fatal
                .iter()
                .map(|finding| format!("{}: {}", finding.check, finding.mend))
                .collect();
            let count = fatal.len();
            let message =
                format!("`profile = \"strict\"` refuses to start on {count}:\n{}", told.join("\n"));
            Err(Failure::new(Exit::Failed, first.check, message)
                .mend(format!("mend:\n  {}", mends.join("\n  "))))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fatal(check: &'static str) -> Finding {
        Finding::fatal(check, "this is so", "that follows", "do that")
    }

    #[test]
    fn strict_refuses_what_is_fatal_and_names_it_with_its_mend() {
        let findings = [Finding::fine("a", "b"), fatal("redis-tls"), fatal("host-root")];
        let failure = judge(Profile::Strict, &findings, true).unwrap_err();
        assert_eq!((failure.exit, &*failure.code), (Exit::Failed, "redis-tls"));
        let text = failure.to_string();
        for part in ["redis-tls: this is so; that follows", "host-root: do that", "on 2:"] {
            assert!(text.contains(part), "{text}");
        }
        assert_eq!(judge(Profile::Standard, &findings, true), Ok(()));
    }

    #[test]
    fn a_warning_stops_nobody() {
        let findings = [Finding::warning("a", "b", "c", "d"), Finding::unseen("e", "f", "g")];
        assert_eq!(judge(Profile::Strict, &findings, true), Ok(()));
    }

    #[test]
    fn a_worker_is_not_refused_for_what_schedulers_have() {
        for check in OF_SCHEDULERS {
            assert_eq!(judge(Profile::Strict, &[fatal(check)], false), Ok(()), "{check}");
            assert!(judge(Profile::Strict, &[fatal(check)], true).is_err(), "{check}");
        }
    }
}
