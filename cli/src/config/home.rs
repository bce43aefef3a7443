//! Which home is it: one process with a file, or many with Redis and RabbitMQ?
//!
//! Invariant: a store and a bus go together. A store in a file serves one process, so a bus between
//! processes makes no sense with it, nor the other way round.

use std::path::{Path, PathBuf};

use portcullis_engine::redis::RedisSettings;
use portcullis_proto::ids::ShardCount;
use reqwest::Url;

use super::file::{BusSection, DeclareText, StoreSection};
use super::problem::{Flaw, KeyPath};

/// Where runs are kept.
#[derive(Clone, Debug)]
pub(crate) enum StorePlace {
    Sqlite(PathBuf),
    Redis(RedisSettings),
}

/// How processes ring each other.
#[derive(Clone)]
pub(crate) enum BusPlace {
    Embedded,
    Rabbit { url: String, buckets: u8, declare: DeclareText, management: Option<Url> },
}

/// The URL holds the password.
impl std::fmt::Debug for BusPlace {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Embedded => f.write_str("Embedded"),
            Self::Rabbit { url, .. } => f.debug_tuple("Rabbit").field(&without_login(url)).finish(),
        }
    }
}

/// Both, with the ports that no tool may reach.
#[derive(Clone, Debug)]
pub(crate) struct Home {
    pub(crate) store: StorePlace,
    pub(crate) bus: BusPlace,
    pub(crate) ports: Vec<u16>,
}

impl Home {
    /// Whether several processes can share it.
    pub(crate) const fn is_distributed(&self) -> bool {
        matches!(self.store, StorePlace::Redis(_))
    }
}

/// The store's file, unless the settings say otherwise.
const DATABASE: &str = "portcullis.db";
/// Where RabbitMQ's management API listens unless told otherwise.
pub(crate) const MANAGEMENT_PORT: u16 = 15_672;
const STORE_FORM: &str = "write `sqlite:portcullis.db` or `redis://127.0.0.1:6379/0`";
const BUS_FORM: &str = "write `embedded:` or `amqp://user:password@127.0.0.1:5672/vhost`";

pub(crate) fn of(
    store: &StoreSection,
    bus: &BusSection,
    folder: &Path,
    data_dir: &Path,
    flaws: &mut Vec<Flaw>,
) -> Home {
    let mut ports = Vec::new();
    let store_place = store_place(store, folder, data_dir, &mut ports, flaws);
    let bus_place = bus_place(bus, &mut ports, flaws);
    // With a flaw told, nothing starts: what stands in for it is never opened.
    let store = store_place.unwrap_or_else(|| StorePlace::Sqlite(data_dir.join(DATABASE)));
    let bus = bus_place.unwrap_or(BusPlace::Embedded);
    if !flaws.is_empty() {
        return Home { store, bus, ports };
    }
    let at = KeyPath::of(&["bus", "url"]);
    match (&store, &bus) {
        (StorePlace::Sqlite(_), BusPlace::Rabbit { .. }) => {
            let what = "RabbitMQ goes with a store in Redis, and the store is a file";
            flaws.push(Flaw::new(
                at,
                what,
                "set `store.url` to redis://…, or `bus.url` to embedded:",
            ));
        }
        (StorePlace::Redis(_), BusPlace::Embedded) => {
            let what = "a store in Redis goes with RabbitMQ, and the bus is within one process";
            flaws.push(Flaw::new(
                at,
                what,
                "set `bus.url` to amqp://…, or `store.url` to sqlite:…",
            ));
        }
        (StorePlace::Sqlite(_), BusPlace::Embedded)
        | (StorePlace::Redis(_), BusPlace::Rabbit { .. }) => {}
    }
    Home { store, bus, ports }
}

fn store_place(
    section: &StoreSection,
    folder: &Path,
    data_dir: &Path,
    ports: &mut Vec<u16>,
    flaws: &mut Vec<Flaw>,
) -> Option<StorePlace> {
    let at = KeyPath::of(&["store", "url"]);
    let Some(url) = &section.url else {
        return Some(StorePlace::Sqlite(data_dir.join(DATABASE)));
    };
    if let Some(file) = url.strip_prefix("sqlite:") {
        let file = file.strip_prefix("//").unwrap_or(file);
        if file.is_empty() || file == ":memory:" {
            let mend = "name a file: `sqlite:portcullis.db`";
            flaws.push(Flaw::new(at, "the store must outlive the process", mend));
            return None;
        }
        return Some(StorePlace::Sqlite(folder.join(file)));
    }
    if !url.starts_with("redis://") {
        let what = format!("`{}` names no kind of store", without_login(url));
        flaws.push(Flaw::new(at, what, STORE_FORM));
        return None;
    }
    ports.push(port_of(url, 6379));
    match ShardCount::new(section.shards) {
        Ok(shards) => Some(StorePlace::Redis(RedisSettings {
            shards,
            replicas: section.replicas,
            strict: section.strict,
            assume_durable: section.assume_durable,
            ..RedisSettings::new(url)
        })),
        Err(why) => {
            let at = KeyPath::of(&["store", "shards"]);
            flaws.push(Flaw::new(at, why.to_string(), "choose 1 to 256"));
            None
        }
    }
}

fn bus_place(
    section: &BusSection,
    ports: &mut Vec<u16>,
    flaws: &mut Vec<Flaw>,
) -> Option<BusPlace> {
    let url = &section.url;
    if url == "embedded:" || url == "embedded" {
        return Some(BusPlace::Embedded);
    }
    if !url.starts_with("amqp://") {
        let what = format!("`{}` names no kind of bus", without_login(url));
        flaws.push(Flaw::new(KeyPath::of(&["bus", "url"]), what, BUS_FORM));
        return None;
    }
    if section.buckets == 0 {
        let at = KeyPath::of(&["bus", "buckets"]);
        flaws.push(Flaw::new(at, "there must be a queue", "choose 1 to 255"));
        return None;
    }
    ports.push(port_of(url, 5672));
    let management = section.management_url.as_deref().and_then(|url| management(url, flaws));
    ports.extend(management.as_ref().and_then(Url::port_or_known_default));
    let (buckets, declare) = (section.buckets, section.declare);
    Some(BusPlace::Rabbit { url: url.clone(), buckets, declare, management })
}

fn management(url: &str, flaws: &mut Vec<Flaw>) -> Option<Url> {
    let read = Url::parse(url).ok();
    let found = read.filter(|url| matches!(url.scheme(), "http" | "https") && url.has_host());
    if found.is_none() {
        let at = KeyPath::of(&["bus", "management_url"]);
        let what = format!("`{}` is no address of a management API", without_login(url));
        flaws.push(Flaw::new(at, what, "write `http://monitor:password@127.0.0.1:15672`"));
    }
    found
}

/// The URL as it may be shown.
pub(crate) fn without_login(url: &str) -> String {
    match (url.split_once("://"), url.rsplit_once('@')) {
        (Some((scheme, _)), Some((_, host))) => format!("{scheme}://{host}"),
        (Some(_) | None, Some(_) | None) => url.to_owned(),
    }
}

fn port_of(url: &str, default: u16) -> u16 {
    let shown = without_login(url);
    let host = shown.split_once("://").map_or("", |(_, rest)| rest);
    let host = host.split(['/', '?']).next().unwrap_or(host);
    let port = host.rsplit_once(':').and_then(|(_, port)| port.parse().ok());
    port.unwrap_or(default)
}
