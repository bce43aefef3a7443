//! What did the bus do so far? For `/metrics`; nothing decides by it.

use std::sync::atomic::{AtomicU64, Ordering};

use crate::ports::Published;

#[derive(Debug, Default)]
pub(super) struct Counters {
    confirmed: AtomicU64,
    returned: AtomicU64,
    nacked: AtomicU64,
    unknown: AtomicU64,
    delivered: AtomicU64,
    oversized: AtomicU64,
    settlements_lost: AtomicU64,
    connections_lost: AtomicU64,
    last_delivery_unix_ms: AtomicU64,
}

/// Totals since the bus was made.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Figures {
    /// Messages (a batch of wakes is one) by the broker's word about them.
    pub confirmed: u64,
    pub returned: u64,
    pub nacked: u64,
    pub unknown: u64,
    pub delivered: u64,
    /// Deliveries that were dead-lettered unread because of their size.
    pub oversized: u64,
    /// Settlements that did not reach the broker; their deliveries come again.
    pub settlements_lost: u64,
    pub connections_lost: u64,
    /// When the broker last gave us something, in milliseconds since 1970; 0 for never.
    pub last_delivery_unix_ms: u64,
}

fn add(counter: &AtomicU64) {
    counter.fetch_add(1, Ordering::Relaxed);
}

impl Counters {
    pub(super) fn count(&self, published: &Published) {
        add(match published {
            Published::Confirmed => &self.confirmed,
            Published::Returned => &self.returned,
            Published::Nacked => &self.nacked,
            Published::Unknown(_) => &self.unknown,
        });
    }

    pub(super) fn count_delivery(&self) {
        add(&self.delivered);
        self.last_delivery_unix_ms.store(super::parcel::unix_ms(), Ordering::Relaxed);
    }

    pub(super) fn count_oversized(&self) {
        add(&self.oversized);
    }

    pub(super) fn count_lost_settlement(&self) {
        add(&self.settlements_lost);
    }

    pub(super) fn count_lost_connection(&self) {
        add(&self.connections_lost);
    }

    pub(super) fn read(&self) -> Figures {
        let read = |counter: &AtomicU64| counter.load(Ordering::Relaxed);
        Figures {
            confirmed: read(&self.confirmed),
            returned: read(&self.returned),
            nacked: read(&self.nacked),
            unknown: read(&self.unknown),
            delivered: read(&self.delivered),
            oversized: read(&self.oversized),
            settlements_lost: read(&self.settlements_lost),
            connections_lost: read(&self.connections_lost),
            last_delivery_unix_ms: read(&self.last_delivery_unix_ms),
        }
    }
}
