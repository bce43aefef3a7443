//! How are the store and the bus of a home opened?
//!
//! Authority: the configuration for the URLs; in the distributed home the broker is the witness
//! that the store is the one it was installed with.
//! Invariant: nothing is served or worked on before both are open and belong together.

use std::sync::Arc;

use portcullis_engine::epoch;
use portcullis_engine::inprocess::{InProcessBus, InProcessSettings};
use portcullis_engine::ports::{Bus, Storage};
use portcullis_engine::rabbitmq::{Declare, RabbitBus, RabbitSettings};
use portcullis_engine::redis::{OpenError, RedisSettings, RedisSite};
use portcullis_engine::sqlite::{SqliteSettings, SqliteStore};
use portcullis_engine::surroundings::System;

use crate::config::{BusPlace, DeclareText, Home, StorePlace};
use crate::exit::{Exit, Failure};
use crate::words::one_sentence;

/// How long a broker may take to be reached at the start, in milliseconds.
const BROKER_MS_MAX: u64 = 15_000;

/// An open home.
pub(crate) struct Opened {
    pub(crate) store: Arc<dyn Storage>,
    pub(crate) bus: Arc<dyn Bus>,
    pub(crate) rabbit: Option<Arc<RabbitBus>>,
    /// The same store, where it is a file.
    pub(crate) sqlite: Option<Arc<SqliteStore>>,
}

/// Opens it. `name`: how the broker's list of connections calls this process.
pub(crate) async fn open(home: &Home, name: &str) -> Result<Opened, Failure> {
    match (&home.store, &home.bus) {
        (StorePlace::Sqlite(path), BusPlace::Embedded | BusPlace::Rabbit { .. }) => {
            let settings = SqliteSettings::new(path);
            let opening = tokio::task::spawn_blocking(|| SqliteStore::open(settings));
            let opened = opening.await.map_err(|why| failed("store", &why))?;
            let sqlite = opened.map_err(|why| failed("store", &why))?;
            let store: Arc<dyn Storage> = Arc::clone(&sqlite) as Arc<dyn Storage>;
            let bus = InProcessBus::new(InProcessSettings::default());
            Ok(Opened { store, bus, rabbit: None, sqlite: Some(sqlite) })
        }
        (StorePlace::Redis(settings), BusPlace::Rabbit { url, buckets, declare, .. }) => {
            let rabbit = connect(url, *buckets, declare_of(*declare), name).await?;
            let store = Arc::new(adopt(settings, &rabbit).await?);
            let bus: Arc<dyn Bus> = Arc::clone(&rabbit) as Arc<dyn Bus>;
            Ok(Opened { store, bus, rabbit: Some(rabbit), sqlite: None })
        }
        (StorePlace::Redis(_), BusPlace::Embedded) => {
            let message = "a store in Redis goes with RabbitMQ";
            Err(Failure::new(Exit::Usage, "home", message).mend("set `bus.url` to amqp://…"))
        }
    }
}

/// How a process that serves or works declares the broker's queues.
pub(crate) const fn declare_of(text: DeclareText) -> Declare {
    match text {
        DeclareText::Policies => Declare::PoliciesOnly,
        DeclareText::Arguments => Declare::Arguments,
    }
}

/// Connects to the broker and waits until it is ready.
pub(crate) async fn connect(
    url: &str,
    buckets: u8,
    declare: Declare,
    name: &str,
) -> Result<Arc<RabbitBus>, Failure> {
    let settings = RabbitSettings { buckets, declare, ..RabbitSettings::new(url, name) };
    let rabbit = RabbitBus::connect(settings)
        .map_err(|why| Failure::new(Exit::Usage, "bus", format!("`bus.url`: {why}")))?;
    rabbit.ready(BROKER_MS_MAX).await.map_err(|why| {
        let message = format!("RabbitMQ is not ready: {}", one_sentence(&why));
        Failure::new(Exit::Unreachable, "bus", message)
            .mend("start it, or correct `bus.url`; `portcullis doctor` looks closer")
    })?;
    Ok(rabbit)
}

async fn adopt(
    settings: &RedisSettings,
    rabbit: &RabbitBus,
) -> Result<portcullis_engine::redis::RedisStore, Failure> {
    let site = RedisSite::connect(settings.clone()).await.map_err(|why| of_redis(&why))?;
    epoch::open(site, rabbit, &System).await.map_err(|why| failed("store", &why))
}

/// Why a Redis was not opened, as a command says it.
pub(crate) fn of_redis(why: &OpenError) -> Failure {
    let exit = match why {
        OpenError::Store(_) => Exit::Unreachable,
        OpenError::BadUrl(_) => Exit::Usage,
        OpenError::Unfit(_)
        | OpenError::Shards { .. }
        | OpenError::Foreign { .. }
        | OpenError::Emptied(_)
        | OpenError::Randomness(_) => Exit::Failed,
    };
    Failure::new(exit, "store", one_sentence(why))
}

fn failed(what: &str, why: &dyn std::error::Error) -> Failure {
    Failure::new(Exit::Failed, what, one_sentence(why))
}
