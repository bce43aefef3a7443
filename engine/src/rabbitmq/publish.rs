//! Did the broker take this message, return it, refuse it, or say nothing?
//!
//! The library hands a returned message to *whichever* confirm resolves next on its channel, so
//! with several publishes in flight on one channel a return may hang on a neighbour's confirm, and
//! the returned message itself looks confirmed. Here **one** publish is in flight per channel, and
//! many channels are used instead. The broker sends a return before the ack of the same message, on
//! the same channel, and the library reads a channel's frames in order; so when the ack arrives the
//! only return there can be is its own. If a return ever carries another id (a broker that breaks
//! that order), the answer is «unknown» and the channel is thrown away. It is never «confirmed».
//!
//! Authority: the broker's word.
//! Invariant: a channel goes back to the idle ones only once its publish got the broker's word.
//! At most `publishes_max` channels exist, so publishes that wait cannot pile up.
//! If we crash here: the message may or may not be queued; the record's timer publishes it again.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use lapin::options::{BasicPublishOptions, ConfirmSelectOptions};
use lapin::{Channel, Confirmation};
use tokio::sync::{OwnedSemaphorePermit, Semaphore, oneshot, watch};
use tokio::time::{Instant, sleep, sleep_until, timeout_at};

use super::channel::{self, AmqpError, answer, reply_code};
use super::counters::Counters;
use super::link::{Link, Session};
use super::parcel::Parcel;
use crate::ports::{Condition, Published};

/// What was written before the broker blocked us may still be answered; so long we listen.
const BLOCKED_MS_MAX: u64 = 500;

/// Publishes over a bounded set of channels, opened as needed.
#[derive(Clone)]
pub(super) struct Publisher {
    link: Link,
    condition: watch::Receiver<Condition>,
    confirm_timeout: Duration,
    permits: Arc<Semaphore>,
    idle: Idle,
    counters: Arc<Counters>,
}

/// Channels in confirm mode on which nothing is in flight.
type Idle = Arc<Mutex<Vec<(Session, Channel)>>>;

impl Publisher {
    pub(super) fn new(
        link: Link,
        publishes_max: usize,
        confirm_timeout: Duration,
        counters: Arc<Counters>,
    ) -> Self {
        Self {
            condition: link.condition(),
            link,
            confirm_timeout,
            permits: Arc::new(Semaphore::new(publishes_max)),
            idle: Idle::default(),
            counters,
        }
    }

    /// Publishes one message, mandatory, and waits for the broker's word, at most
    /// `confirm_timeout`.
    pub(super) async fn publish(&self, parcel: Parcel) -> Published {
        let published = self.ask(parcel).await;
        self.counters.count(&published);
        published
    }

    pub(super) fn link(&self) -> &Link {
        &self.link
    }

    async fn ask(&self, parcel: Parcel) -> Published {
        let deadline = Instant::now() + self.confirm_timeout;
        if let Some(why) = self.closed() {
            return unknown(why);
        }
        let Ok(permit) = timeout_at(deadline, Arc::clone(&self.permits).acquire_owned()).await
        else {
            return unknown("too many publishes wait for the broker's word");
        };
        let permit = permit.expect("the semaphore is never closed");
        let Some(session) = self.link.current() else {
            return unknown("the connection to the broker was lost");
        };
        let (word_in, word) = oneshot::channel();
        // Its own task, since whoever waits may stop waiting: the channel must be looked after
        // until the word comes, however late.
        tokio::spawn(
            Attempt {
                session,
                parcel,
                idle: Arc::clone(&self.idle),
                patience: 2 * self.confirm_timeout,
                _permit: permit,
            }
            .run(word_in),
        );
        tokio::select! {
            word = word => word.unwrap_or_else(|_| unknown("the publish was given up")),
            () = sleep_until(deadline) => unknown("the broker did not answer in time"),
            () = self.blocked() => unknown("the broker blocks publishers (memory or disk alarm)"),
        }
    }

    /// Why publishing cannot work now.
    fn closed(&self) -> Option<&'static str> {
        match *self.condition.borrow() {
            Condition::Up => None,
            Condition::Blocked => Some("the broker blocks publishers (memory or disk alarm)"),
            Condition::Down => Some("there is no connection to the broker"),
        }
    }

    async fn blocked(&self) {
        let mut condition = self.condition.clone();
        let is_blocked = |condition: &Condition| *condition == Condition::Blocked;
        if condition.wait_for(is_blocked).await.is_err() {
            // The link is gone, and its session with it: the attempt says so.
            std::future::pending::<()>().await;
        }
        sleep(Duration::from_millis(BLOCKED_MS_MAX)).await;
    }
}

fn unknown(why: impl Into<String>) -> Published {
    Published::Unknown(why.into())
}

/// One publish on one channel that it has for itself.
struct Attempt {
    session: Session,
    parcel: Parcel,
    idle: Idle,
    /// After this a silent channel is closed.
    patience: Duration,
    _permit: OwnedSemaphorePermit,
}

impl Attempt {
    async fn run(self, word_in: oneshot::Sender<Published>) {
        let channel = match self.channel().await {
            Ok(channel) => channel,
            Err(why) => {
                // While it is blocked no channel opens, and that is no fault of the connection.
                if !self.session.connection().status().blocked() {
                    self.session.fail(format!("no channel to publish on: {why}"));
                }
                return drop(word_in.send(unknown(why.to_string())));
            }
        };
        let talk = async {
            let options = BasicPublishOptions { mandatory: true, immediate: false };
            let parcel = &self.parcel;
            let confirm = channel
                .basic_publish(
                    parcel.exchange.into(),
                    parcel.key.clone(),
                    options,
                    &parcel.body,
                    parcel.properties.clone(),
                )
                .await?;
            confirm.await
        };
        let word = tokio::select! {
            word = talk => word,
            () = self.session.ended().cancelled() => {
                return drop(word_in.send(unknown("the connection to the broker was lost")));
            }
            () = sleep(self.patience) => {
                // Nobody listens any more. A blocked connection closes no channel either, so this
                // place is taken until the broker reads again or the connection ends.
                let closing = channel.close(200, "no word".into());
                let _closed = self.session.ended().run_until_cancelled(closing).await;
                return;
            }
        };
        let published = match word {
            Ok(confirmation) => self.judge(confirmation, channel),
            Err(why) => self.judge_error(&why),
        };
        drop(word_in.send(published));
    }

    async fn channel(&self) -> Result<Channel, AmqpError> {
        if let Some(channel) = self.take_idle() {
            return Ok(channel);
        }
        let channel = self.session.channel().await?;
        answer(channel.confirm_select(ConfirmSelectOptions::default())).await?;
        Ok(channel)
    }

    fn take_idle(&self) -> Option<Channel> {
        let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
        idle.retain(|(session, channel)| session.is(&self.session) && channel.status().connected());
        idle.pop().map(|(_, channel)| channel)
    }

    /// Reads the broker's word, and keeps the channel if it is in a known state.
    fn judge(&self, confirmation: Confirmation, channel: Channel) -> Published {
        let published = read(&confirmation, self.parcel.id.as_str());
        match published {
            Published::Confirmed | Published::Returned | Published::Nacked => {
                let mut idle = self.idle.lock().unwrap_or_else(PoisonError::into_inner);
                idle.push((self.session.clone(), channel));
            }
            Published::Unknown(ref why) => {
                tracing::error!(message.id = %self.parcel.id, %why, "a confirm makes no sense");
            }
        }
        published
    }

    /// The channel is gone. Was it this message that the broker would not take?
    fn judge_error(&self, why: &lapin::Error) -> Published {
        let parcel = &self.parcel;
        match reply_code(why) {
            Some(channel::NOT_FOUND) => {
                self.session.fail(format!("exchange {} is gone: {why}", parcel.exchange));
                unknown(why.to_string())
            }
            // It had the channel for itself, so the refusal can mean no other message.
            Some(
                channel::ACCESS_REFUSED | channel::PRECONDITION_FAILED | channel::CONTENT_TOO_LARGE,
            ) => {
                tracing::error!(exchange = parcel.exchange, %why, "the broker refused a message");
                Published::Nacked
            }
            Some(_) | None => unknown(why.to_string()),
        }
    }
}

/// What a confirm says about the message `id`, the only one in flight on its channel.
fn read(confirmation: &Confirmation, id: &str) -> Published {
    let carried = |message: &lapin::message::BasicReturnMessage| {
        message.properties.message_id().as_ref().is_some_and(|found| found.as_str() == id)
    };
    match confirmation {
        Confirmation::Ack(None) => Published::Confirmed,
        Confirmation::Ack(Some(message)) if carried(message) => Published::Returned,
        Confirmation::Nack(None) => Published::Nacked,
        Confirmation::Nack(Some(message)) if carried(message) => Published::Nacked,
        Confirmation::Ack(Some(_)) | Confirmation::Nack(Some(_)) => {
            unknown("the confirm carried the return of another message")
        }
        // Confirm mode is off: a wiring bug that would otherwise look like success.
        Confirmation::NotRequested => unknown("the channel is not in confirm mode"),
    }
}

#[cfg(test)]
mod tests {
    use lapin::BasicProperties;
    use lapin::message::{BasicReturnMessage, Delivery};

    use super::*;

    fn returned(id: &str) -> Option<BasicReturnMessage> {
        let mut delivery = Delivery::mock(0, "x".into(), "k".into(), false, Vec::new());
        delivery.properties = BasicProperties::default().with_message_id(id.into());
        Some(BasicReturnMessage { delivery, reply_code: 312, reply_text: "NO_ROUTE".into() })
    }

    #[test]
    fn a_return_counts_only_for_the_message_whose_id_it_carries() {
        assert_eq!(read(&Confirmation::Ack(returned("a")), "a"), Published::Returned);
        assert!(matches!(read(&Confirmation::Ack(returned("b")), "a"), Published::Unknown(_)));
        assert!(matches!(read(&Confirmation::Nack(returned("b")), "a"), Published::Unknown(_)));
    }

    #[test]
    fn only_an_ack_without_a_return_is_a_yes() {
        assert_eq!(read(&Confirmation::Ack(None), "a"), Published::Confirmed);
        assert_eq!(read(&Confirmation::Nack(None), "a"), Published::Nacked);
        assert!(matches!(read(&Confirmation::NotRequested, "a"), Published::Unknown(_)));
    }
}
