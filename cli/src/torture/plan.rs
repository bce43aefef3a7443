//! Which faults can be done here, and why not the others?
//!
//! Invariant: what cannot be done safely is left out with its reason, and never done in part.

use serde_json::{Value, json};

use crate::args::{Fault, Torture};
use crate::config::{BusPlace, Home, StorePlace};
use crate::exit::{Exit, Failure};
use crate::output::{Output, Tone};

/// A fault, what it is, and what keeps it from being done here.
pub(super) struct Item {
    pub(super) fault: Fault,
    what: &'static str,
    hindrance: Option<&'static str>,
}

/// Everything that is meant to be done.
pub(super) struct Plan {
    items: Vec<Item>,
    runs: u16,
    workers: u8,
}

const ALL: [(Fault, &str); 7] = [
    (Fault::Kill, "kill -9 of workers that this command starts"),
    (Fault::Cut, "cut all connections of those workers to Redis and RabbitMQ"),
    (Fault::Wakes, "ring for its runs again and again, out of order"),
    (Fault::Replay, "send the same decision several times"),
    (Fault::Forge, "wrong nonce, other arguments, strangers, unknown keys"),
    (Fault::Late, "say yes after the deadline"),
    (Fault::Opposite, "say yes, then no, as the same approver"),
];

impl Plan {
    /// # Errors
    /// When a fault was asked for that cannot be done here.
    pub(super) fn of(asked: &Torture, home: &Home) -> Result<Self, Failure> {
        let items = ALL.into_iter().map(|(fault, what)| {
            let hindrance = hindrance(fault, asked, home);
            Item { fault, what, hindrance }
        });
        let chosen = |item: &Item| asked.faults.is_empty() || asked.faults.contains(&item.fault);
        let items: Vec<Item> = items.filter(chosen).collect();
        let impossible =
            items.iter().find(|item| !asked.faults.is_empty() && item.hindrance.is_some());
        if let Some(Item { fault, hindrance: Some(why), .. }) = impossible {
            let message = format!("`{}` cannot be done here: {why}", name(*fault));
            return Err(Failure::new(Exit::Usage, "fault", message).mend("leave it out"));
        }
        if home.is_distributed() || asked.workers == 0 {
            return Ok(Self { items, runs: asked.runs, workers: asked.workers });
        }
        let message = "--workers: one process has the embedded store, and no worker joins it";
        Err(Failure::new(Exit::Usage, "workers", message).mend("leave it out"))
    }

    /// What will be done.
    pub(super) fn faults(&self) -> impl Iterator<Item = Fault> {
        self.items.iter().filter(|item| item.hindrance.is_none()).map(|item| item.fault)
    }

    pub(super) fn has(&self, fault: Fault) -> bool {
        self.faults().any(|one| one == fault)
    }

    pub(super) fn to_json(&self) -> Value {
        let items = self.items.iter().map(|item| {
            json!({ "fault": name(item.fault), "what": item.what, "left_out": item.hindrance })
        });
        let faults: Vec<Value> = items.collect();
        json!({ "runs": self.runs, "workers": self.workers, "faults": faults })
    }

    pub(super) fn tell(&self, output: Output) {
        let (runs, workers) = (self.runs, self.workers);
        output.line(&format!("{runs} runs of the agent `torture`, {workers} workers started here"));
        let rows = self.items.iter().map(|item| {
            let (tone, here) = match item.hindrance {
                None => (Tone::Good, "yes".to_owned()),
                Some(why) => (Tone::Waiting, format!("no: {why}")),
            };
            vec![
                (Tone::Plain, name(item.fault).to_owned()),
                (tone, here),
                (Tone::Plain, item.what.to_owned()),
            ]
        });
        output.table(&["FAULT", "HERE", "WHAT"], &rows.collect::<Vec<_>>(), "nothing can be done");
    }
}

/// As it is written on the command line.
pub(super) const fn name(fault: Fault) -> &'static str {
    match fault {
        Fault::Kill => "kill",
        Fault::Cut => "cut",
        Fault::Wakes => "wakes",
        Fault::Replay => "replay",
        Fault::Forge => "forge",
        Fault::Late => "late",
        Fault::Opposite => "opposite",
    }
}

fn hindrance(fault: Fault, asked: &Torture, home: &Home) -> Option<&'static str> {
    match fault {
        Fault::Replay | Fault::Forge | Fault::Late | Fault::Opposite => None,
        Fault::Wakes if home.is_distributed() => None,
        Fault::Wakes => Some("embedded: its doorbell is within one process"),
        Fault::Kill | Fault::Cut if !home.is_distributed() => {
            Some("embedded: the only process is yours")
        }
        Fault::Kill | Fault::Cut if asked.workers == 0 => Some("no --workers of its own"),
        Fault::Kill => None,
        Fault::Cut if is_plain(home) => None,
        Fault::Cut => Some("connections with TLS are not led through this command"),
    }
}

fn is_plain(home: &Home) -> bool {
    let store =
        matches!(&home.store, StorePlace::Redis(redis) if redis.url.starts_with("redis://"));
    let bus = matches!(&home.bus, BusPlace::Rabbit { url, .. } if url.starts_with("amqp://"));
    store && bus
}
