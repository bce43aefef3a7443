//! What does the broker answer on a channel of its own, used once?
//!
//! A refusal (absent, forbidden, declared otherwise) closes the channel it came on. So whatever may
//! be refused is asked on a throw-away channel, never on one that carries messages.

use std::time::Duration;

use lapin::options::{
    BasicGetOptions, ExchangeDeclareOptions, QueueBindOptions, QueueDeclareOptions,
    QueueDeleteOptions,
};
use lapin::types::{FieldTable, ShortString};
use lapin::{Channel, Connection, ErrorKind, ExchangeKind, Queue};

/// How long the broker may take for one answer, in milliseconds.
pub(super) const ANSWER_MS_MAX: u64 = 5_000;

/// Reply codes of AMQP 0-9-1 that we tell apart.
pub(super) const CONTENT_TOO_LARGE: u16 = 311;
pub(super) const ACCESS_REFUSED: u16 = 403;
pub(super) const NOT_FOUND: u16 = 404;
pub(super) const PRECONDITION_FAILED: u16 = 406;

/// Why the broker did not do what it was asked.
#[derive(Debug, thiserror::Error)]
pub enum AmqpError {
    #[error("there is no connection to the broker")]
    Down,
    #[error("the broker does not answer in {ANSWER_MS_MAX} ms")]
    Silent,
    #[error("{0}")]
    Broker(#[from] lapin::Error),
    #[error("{0}")]
    Refused(String),
}

impl AmqpError {
    /// The broker's reply code, when that is what it is.
    pub(super) fn code(&self) -> Option<u16> {
        match self {
            Self::Broker(why) => reply_code(why),
            Self::Down | Self::Silent | Self::Refused(_) => None,
        }
    }
}

/// The reply code inside a library error, if the broker sent one.
pub(super) fn reply_code(why: &lapin::Error) -> Option<u16> {
    if let ErrorKind::ProtocolError(answer) = why.kind() { Some(answer.get_id()) } else { None }
}

/// Waits for one answer, at most [`ANSWER_MS_MAX`].
pub(super) async fn answer<T>(
    question: impl Future<Output = lapin::Result<T>>,
) -> Result<T, AmqpError> {
    let limit = Duration::from_millis(ANSWER_MS_MAX);
    Ok(tokio::time::timeout(limit, question).await.map_err(|_| AmqpError::Silent)??)
}

/// Asks on throw-away channels; a new one after each refusal.
pub(super) struct Asker<'a> {
    connection: &'a Connection,
    channel: Option<Channel>,
}

impl<'a> Asker<'a> {
    pub(super) fn new(connection: &'a Connection) -> Self {
        Self { connection, channel: None }
    }

    async fn channel(&mut self) -> Result<Channel, AmqpError> {
        if let Some(channel) = self.channel.take_if(|channel| channel.status().connected()) {
            self.channel = Some(channel.clone());
            return Ok(channel);
        }
        let channel = answer(self.connection.create_channel()).await?;
        self.channel = Some(channel.clone());
        Ok(channel)
    }

    /// Declares a durable exchange; being there already, of the same kind, is fine.
    pub(super) async fn exchange(
        &mut self,
        name: &str,
        kind: ExchangeKind,
    ) -> Result<(), AmqpError> {
        let options = ExchangeDeclareOptions { durable: true, ..Default::default() };
        let channel = self.channel().await?;
        answer(channel.exchange_declare(name.into(), kind, options, FieldTable::default())).await
    }

    /// Whether an exchange is there. Needs no permission.
    pub(super) async fn has_exchange(&mut self, name: &str) -> Result<bool, AmqpError> {
        let options = ExchangeDeclareOptions { passive: true, ..Default::default() };
        let channel = self.channel().await?;
        let kind = ExchangeKind::default();
        let asked = channel.exchange_declare(name.into(), kind, options, FieldTable::default());
        absent_is_false(answer(asked).await.map(|()| true))
    }

    /// Declares a durable queue; being there already, with the same arguments, is fine.
    pub(super) async fn queue(
        &mut self,
        name: &str,
        arguments: FieldTable,
    ) -> Result<(), AmqpError> {
        let options = QueueDeclareOptions { durable: true, ..Default::default() };
        let channel = self.channel().await?;
        answer(channel.queue_declare(name.into(), options, arguments)).await.map(drop)
    }

    /// The messages and consumers of a queue, or `None` when it is absent. Needs no permission.
    pub(super) async fn find_queue(&mut self, name: &str) -> Result<Option<Queue>, AmqpError> {
        let options = QueueDeclareOptions { passive: true, ..Default::default() };
        let channel = self.channel().await?;
        let asked = channel.queue_declare(name.into(), options, FieldTable::default());
        match answer(asked).await {
            Ok(queue) => Ok(Some(queue)),
            Err(why) if why.code() == Some(NOT_FOUND) => Ok(None),
            Err(why) => Err(why),
        }
    }

    /// Deletes a queue that is not there: what matters is whether it would be permitted.
    pub(super) async fn delete_absent(&mut self, name: &str) -> Result<(), AmqpError> {
        // Even if it were there, it would have to be empty and unread.
        let options = QueueDeleteOptions { if_unused: true, if_empty: true, ..Default::default() };
        let channel = self.channel().await?;
        answer(channel.queue_delete(name.into(), options)).await.map(drop)
    }

    /// Reads from a queue that is not there: what matters is whether it would be permitted.
    pub(super) async fn get_absent(&mut self, name: &str) -> Result<(), AmqpError> {
        let channel = self.channel().await?;
        answer(channel.basic_get(name.into(), BasicGetOptions::default())).await.map(drop)
    }

    pub(super) async fn bind(
        &mut self,
        queue: &str,
        exchange: &str,
        key: &str,
    ) -> Result<(), AmqpError> {
        let short = |text: &str| ShortString::from(text);
        let options = QueueBindOptions::default();
        let channel = self.channel().await?;
        let arguments = FieldTable::default();
        answer(channel.queue_bind(short(queue), short(exchange), short(key), options, arguments))
            .await
    }
}

fn absent_is_false(answered: Result<bool, AmqpError>) -> Result<bool, AmqpError> {
    match answered {
        Err(why) if why.code() == Some(NOT_FOUND) => Ok(false),
        other => other,
    }
}
