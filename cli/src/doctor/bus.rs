//! Do messages get through, and is «nobody listens» still told at once?

use super::Finding;
use crate::config::{BusPlace, Config, without_login};
use crate::home;
use crate::words::one_sentence;

const CHECK: &str = "bus";

pub(super) async fn look(config: &Config) -> Vec<Finding> {
    let BusPlace::Rabbit { url, buckets, declare } = &config.home.bus else {
        return vec![Finding::fine(CHECK, "embedded, within one process")];
    };
    let name = format!("portcullis doctor {}", std::process::id());
    let rabbit = match home::connect(url, *buckets, *declare, &name).await {
        Ok(rabbit) => rabbit,
        Err(failure) => {
            let found = format!("{}: {}", without_login(url), failure.message);
            let why = "runs go on as far as they need nobody; requests expire unseen";
            return vec![Finding::fatal(CHECK, found, why, failure.mend.unwrap_or_default())];
        }
    };
    let version = rabbit.version().await.unwrap_or_else(|| "RabbitMQ".to_owned());
    let mut findings = vec![Finding::fine(CHECK, format!("{version} at {}", without_login(url)))];
    match rabbit.examine().await {
        Ok(told) => findings.extend(
            told.into_iter().map(|one| Finding::warning(CHECK, one.what, one.why, one.mend)),
        ),
        // A worker's user may not ask everything.
        Err(why) => {
            let found = format!("it could not be asked everything: {}", one_sentence(&why));
            let mend = "look with a scheduler's user";
            findings.push(Finding::warning(CHECK, found, "some faults stay unseen", mend));
        }
    }
    rabbit.shutdown().await;
    findings
}
