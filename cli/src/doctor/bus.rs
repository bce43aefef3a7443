//! Do messages get through, and is «nobody listens» still told at once?

use std::sync::Arc;

use portcullis_engine::epoch;
use portcullis_engine::finding::Finding;
use portcullis_engine::rabbitmq::{Declare, RabbitBus};
use portcullis_engine::redis::RedisSite;

use super::broker;
use crate::config::{BusPlace, Config, DeclareText, without_login};
use crate::home;
use crate::words::one_sentence;

pub(super) async fn look(config: &Config, site: Option<&RedisSite>) -> Vec<Finding> {
    let BusPlace::Rabbit { url, buckets, declare, management } = &config.home.bus else {
        return Vec::new();
    };
    const CHECK: &str = "rabbitmq-reachable";
    let name = format!("portcullis doctor {}", std::process::id());
    let rabbit = match home::connect(url, *buckets, Declare::Nothing, &name).await {
        Ok(rabbit) => rabbit,
        Err(failure) => {
            let found = format!("{}: {}", without_login(url), failure.message);
            let why = "runs go on as far as they need nobody; requests expire unseen";
            return vec![Finding::fatal(CHECK, found, why, failure.mend.unwrap_or_default())];
        }
    };
    let mut findings = vec![Finding::fine(CHECK, without_login(url))];
    findings.extend(over_amqp(&rabbit, *declare).await);
    if let Some(site) = site {
        findings.push(witness(site, &rabbit).await);
    }
    findings.extend(broker::look(config, &rabbit.account(), management.as_ref()).await);
    rabbit.shutdown().await;
    findings
}

/// What the broker shows to every user.
pub(super) async fn over_amqp(rabbit: &Arc<RabbitBus>, declare: DeclareText) -> Vec<Finding> {
    rabbit.examine(home::declare_of(declare)).await.unwrap_or_else(|why| {
        let mend = "look with a scheduler's user, while the broker is up";
        vec![Finding::unseen("rabbitmq-queues", one_sentence(&why), mend)]
    })
}

async fn witness(site: &RedisSite, rabbit: &RabbitBus) -> Finding {
    epoch::examine(site, rabbit).await.unwrap_or_else(|why| {
        Finding::unseen("epoch-witness", one_sentence(&why), "look again when both are up")
    })
}
