//! Does this broker know the store that we are about to use?
//!
//! Authority: two durable exchanges, in no definitions file: one says that some store was installed
//! here, the other which. A broker that knows of an installation, and a store that has no epoch or
//! another one, do not belong together: the store was emptied or swapped.
//! Invariant: «absent» is only what the broker itself says is absent. A broker that is down or
//! silent is an error, never a new installation.
//! If we crash here: the epoch is declared before the installation, so half a record reads as «no
//! installation, known epoch», and recording it again completes it.

use lapin::ExchangeKind;
use portcullis_proto::ids::Epoch;
use portcullis_proto::topology;

use super::RabbitBus;
use super::channel::{AmqpError, Asker};
use super::link::Session;

/// What the broker remembers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Witness {
    /// Some store was installed on this broker.
    pub installed: bool,
    /// The store that was asked about is one of them; `false` when none was asked about.
    pub knows_epoch: bool,
}

impl RabbitBus {
    /// Asks what the broker remembers of installations, and of `epoch` if the store has one.
    ///
    /// # Errors
    /// The broker is not connected or does not answer within 5 s.
    pub async fn witness(&self, epoch: Option<Epoch>) -> Result<Witness, AmqpError> {
        let session = self.asking_session()?;
        let mut asker = Asker::new(session.connection());
        let installed = asker.has_exchange(topology::INSTALLED).await?;
        let knows_epoch = match epoch {
            Some(epoch) => asker.has_exchange(&topology::epoch_exchange(epoch)).await?,
            None => false,
        };
        Ok(Witness { installed, knows_epoch })
    }

    /// Makes the broker remember this store. May be repeated.
    ///
    /// # Errors
    /// The broker is not connected, does not answer within 5 s, or forbids it.
    pub async fn record_epoch(&self, epoch: Epoch) -> Result<(), AmqpError> {
        let session = self.asking_session()?;
        let mut asker = Asker::new(session.connection());
        asker.exchange(&topology::epoch_exchange(epoch), ExchangeKind::Fanout).await?;
        asker.exchange(topology::INSTALLED, ExchangeKind::Fanout).await
    }

    /// The consuming connection: an alarm never blocks it.
    pub(super) fn asking_session(&self) -> Result<Session, AmqpError> {
        self.consuming.current().ok_or(AmqpError::Down)
    }
}
