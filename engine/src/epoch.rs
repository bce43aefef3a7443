//! Do this store and this broker belong together?
//!
//! Authority: both. The store holds the epoch; the broker is the witness that one was installed.
//! Invariant: a new epoch is never made on the quiet. A store that is empty although the broker
//! knows of an installation was emptied or swapped, and nothing may run on it.
//! If we crash here: whatever half was written is completed by the next process to start.

use std::time::Duration;

use portcullis_proto::ids::Epoch;

use crate::finding::Finding;
use crate::rabbitmq::{AmqpError, RabbitBus, Witness};
use crate::redis::{OpenError, RedisSite, RedisStore};
use crate::surroundings::{Draw as _, Surroundings};

/// How often both are read again while another process may be installing.
const LOOKS_MAX: u32 = 5;
/// The pause between, in milliseconds.
const LOOK_PAUSE_MS_MAX: u64 = 400;

/// Why a store was not opened with a broker.
#[derive(Debug, thiserror::Error)]
pub enum EpochError {
    #[error(transparent)]
    Store(#[from] OpenError),
    #[error("the broker cannot be asked about the installation: {0}")]
    Broker(#[from] AmqpError),
    #[error(
        "EPOCH: this broker knows of an installation, and the store is empty. It was emptied or \
         swapped, or the wrong one is configured. Restore it; or, to give up every run it held, \
         delete the broker's exchange `portcullis.installed` and start again"
    )]
    Emptied,
    #[error(
        "EPOCH: the store belongs to the installation {0}, which this broker does not know. One of \
         the two URLs is wrong; if the broker was replaced on purpose by one that served another \
         installation, delete its exchange `portcullis.installed` and start again"
    )]
    Swapped(Epoch),
}

/// Opens the store of a distributed home, with the broker as the witness.
///
/// # Errors
/// See [`EpochError`]. Nothing was changed unless both were new.
pub async fn open(
    site: RedisSite,
    broker: &RabbitBus,
    surroundings: &dyn Surroundings,
) -> Result<RedisStore, EpochError> {
    for look in 1..=LOOKS_MAX {
        let stored = site.read_epoch().await?;
        let witness = broker.witness(stored).await?;
        match (stored, witness.installed) {
            (Some(epoch), true) if witness.knows_epoch => return Ok(site.adopt(epoch).await?),
            (Some(epoch), true) if look == LOOKS_MAX => return Err(EpochError::Swapped(epoch)),
            (None, true) if look == LOOKS_MAX => return Err(EpochError::Emptied),
            // Another process may be between its two writes: look again before saying so.
            (Some(_) | None, true) => {
                let pause = surroundings.jitter(LOOK_PAUSE_MS_MAX);
                tokio::time::sleep(pause + Duration::from_millis(LOOK_PAUSE_MS_MAX / 4)).await;
            }
            (Some(epoch), false) => {
                broker.record_epoch(epoch).await?;
                return Ok(site.adopt(epoch).await?);
            }
            (None, false) => {
                let epoch = site.found_epoch(Epoch(surroundings.nonce().0)).await?;
                broker.record_epoch(epoch).await?;
            }
        }
    }
    Err(EpochError::Emptied)
}

/// Looks whether [`open`] would open this store with this broker, and changes neither.
///
/// # Errors
/// One of the two cannot be asked.
pub async fn examine(site: &RedisSite, broker: &RabbitBus) -> Result<Finding, EpochError> {
    let stored = site.read_epoch().await?;
    Ok(judge(stored, broker.witness(stored).await?))
}

fn judge(stored: Option<Epoch>, witness: Witness) -> Finding {
    const CHECK: &str = "epoch-witness";
    let why = "nothing starts: old messages would silently run again";
    let refused = |why_not: &EpochError| {
        let text = why_not.to_string();
        let (found, mend) = text.split_once(". ").unwrap_or((&text, "restore the store"));
        Finding::fatal(CHECK, found, why, mend)
    };
    match (stored, witness.installed) {
        (Some(epoch), true) if witness.knows_epoch => {
            Finding::fine(CHECK, format!("the broker knows the installation {epoch}"))
        }
        (Some(epoch), true) => refused(&EpochError::Swapped(epoch)),
        (None, true) => refused(&EpochError::Emptied),
        (Some(epoch), false) => {
            Finding::fine(CHECK, format!("the broker is new to the installation {epoch}"))
        }
        (None, false) => Finding::fine(CHECK, "nothing is installed yet"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_store_that_its_broker_does_not_know_is_fatal() {
        let epoch = Epoch([1; 16]);
        let of = |stored, installed, knows_epoch| {
            judge(stored, Witness { installed, knows_epoch }).is_fatal()
        };
        assert!(of(None, true, false), "emptied");
        assert!(of(Some(epoch), true, false), "swapped");
        assert!(!of(Some(epoch), true, true));
        assert!(!of(Some(epoch), false, false));
        assert!(!of(None, false, false));
        let emptied = judge(None, Witness { installed: true, knows_epoch: false });
        assert!(emptied.mend.contains("portcullis.installed"), "{emptied}");
    }
}
