//! Which Redis, and how patiently?

use std::fmt;

use portcullis_proto::ids::ShardCount;

/// How many shards a store has unless said otherwise.
const SHARDS_DEFAULT: u16 = 16;
const WAIT_MS_DEFAULT: u64 = 1_000;
const RESPONSE_TIMEOUT_MS_DEFAULT: u64 = 2_000;
const CONNECT_TIMEOUT_MS_DEFAULT: u64 = 2_000;

/// How a store in Redis is opened.
#[derive(Clone)]
pub struct RedisSettings {
    /// `redis://[user:password@]host[:port][/db]`.
    pub url: String,
    /// Fixed when the store is installed; another number later is refused.
    pub shards: ShardCount,
    /// How many replicas may be promoted. A firm commit waits for that many.
    pub replicas: u32,
    /// How long a firm commit waits for them, in milliseconds.
    pub wait_ms: u64,
    /// How long an answer may take before its outcome is unknown, in milliseconds.
    pub response_timeout_ms: u64,
    /// How long a connection may take to be set up, in milliseconds.
    pub connect_timeout_ms: u64,
    /// Refuse a Redis that may lose or evict what it confirmed. Else: only say so.
    pub strict: bool,
    /// The operator vouches for `appendfsync always` where `CONFIG` is not permitted to tell.
    pub assume_durable: bool,
}

impl RedisSettings {
    #[must_use]
    pub fn new(url: impl Into<String>) -> Self {
        Self {
            url: url.into(),
            shards: ShardCount::new(SHARDS_DEFAULT).expect("16 is a shard count"),
            replicas: 0,
            wait_ms: WAIT_MS_DEFAULT,
            response_timeout_ms: RESPONSE_TIMEOUT_MS_DEFAULT,
            connect_timeout_ms: CONNECT_TIMEOUT_MS_DEFAULT,
            strict: true,
            assume_durable: false,
        }
    }
}

/// Without the user and the password in the URL.
impl fmt::Debug for RedisSettings {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let host = self.url.rsplit('@').next().unwrap_or_default();
        f.debug_struct("RedisSettings")
            .field("host", &host.trim_start_matches("redis://"))
            .field("shards", &self.shards.get())
            .field("replicas", &self.replicas)
            .field("wait_ms", &self.wait_ms)
            .field("response_timeout_ms", &self.response_timeout_ms)
            .field("connect_timeout_ms", &self.connect_timeout_ms)
            .field("strict", &self.strict)
            .field("assume_durable", &self.assume_durable)
            .finish()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_password_is_not_printed() {
        let settings = RedisSettings::new("redis://user:p@ss@store:6379/0");
        let text = format!("{settings:?}");
        assert!(text.contains("store:6379") && !text.contains("ss@"), "{text}");
        assert!(!text.contains("user"), "{text}");
    }
}
