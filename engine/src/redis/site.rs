//! Whose store is this Redis, and may it be opened?
//!
//! An empty Redis becomes a new installation by writing its epoch into the first shard, where one
//! process wins, then into the others; only then is it marked as complete. Whether an empty one
//! *may* become one is not decided here: the broker is the witness.
//!
//! Authority: Redis for the epoch and the number of shards, which are written once and stay.
//! Invariant: a shard without an epoch in a complete installation was emptied, and stays refused.
//! If we crash here: the epoch stands and the next process completes what is missing.

use portcullis_proto::ids::{Epoch, Shard, ShardCount};
use portcullis_proto::topology;
use redis::{ConnectionInfo, IntoConnectionInfo as _, ProtocolVersion, Value};

use super::boot;
use super::link::Failure;
use super::script::{ADOPT, Call};
use super::settings::RedisSettings;
use super::{Lines, RedisStore, examine, reply};
use crate::finding::{Finding, Severity};
use crate::ports::{Shape, StoreError};
use crate::sqlite::{WallClock, wall_clock};

/// Why a Redis was not opened.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum OpenError {
    #[error("the store's URL is unreadable ({0}): it reads like redis://user:password@host:6379/0")]
    BadUrl(String),
    #[error("the store cannot be read: {0}")]
    Store(#[from] StoreError),
    #[error("this Redis may lose what it confirms: {}", list(.0))]
    Unfit(Vec<Finding>),
    #[error(
        "the store was installed with {stored} shards, not {configured}, which cannot be changed: \
         configure {stored}"
    )]
    Shards { stored: String, configured: u16 },
    #[error("the store belongs to the installation {found}, not to {wanted}")]
    Foreign { found: String, wanted: Epoch },
    #[error("the shard {0} was emptied behind the installation's back: restore it from a backup")]
    Emptied(Shard),
    #[error("no random number for a new epoch: {0}")]
    Randomness(String),
}

fn list(findings: &[Finding]) -> String {
    findings.iter().map(Finding::to_string).collect::<Vec<_>>().join(" | ")
}

impl From<Failure> for OpenError {
    fn from(failure: Failure) -> Self {
        Self::Store(failure.into())
    }
}

/// A Redis that was looked at and is not open yet.
pub struct RedisSite {
    lines: Lines,
    shards: ShardCount,
    findings: Vec<Finding>,
}

impl RedisSite {
    /// Connects, and looks whether this Redis is fit.
    ///
    /// # Errors
    /// The URL is unreadable, Redis is unreachable, or unfit while `strict` is on.
    pub async fn connect(settings: RedisSettings) -> Result<Self, OpenError> {
        let site = Self::look(&settings).await?;
        let errors: Vec<_> = site.findings.iter().filter(|f| f.is_fatal()).cloned().collect();
        if settings.strict && !errors.is_empty() {
            return Err(OpenError::Unfit(errors));
        }
        for finding in site.findings.iter().filter(|f| f.severity != Severity::Fine) {
            tracing::warn!(%finding, "this Redis promises less than it should");
        }
        Ok(site)
    }

    /// Looks at everything without opening or changing anything, for a doctor.
    ///
    /// # Errors
    /// The URL is unreadable, or Redis is unreachable.
    pub async fn examine(settings: &RedisSettings) -> Result<Vec<Finding>, OpenError> {
        Ok(Self::inspect(settings, &wall_clock()).await?.findings)
    }

    /// As [`Self::examine`], and the store can be asked for its epoch afterwards. `wall`: this
    /// host's clock, which the server's is compared with.
    ///
    /// # Errors
    /// The URL is unreadable, or Redis is unreachable.
    pub async fn inspect(settings: &RedisSettings, wall: &WallClock) -> Result<Self, OpenError> {
        let place = place(settings)?;
        let lines = lines(&place, settings)?;
        let facts = boot::facts(&lines.reads).await?;
        let mut findings = boot::look(&lines.reads, &facts, settings).await?;
        findings.extend(examine::look(&lines.reads, &facts, &place, settings, wall).await?);
        Ok(Self { lines, shards: settings.shards, findings })
    }

    async fn look(settings: &RedisSettings) -> Result<Self, OpenError> {
        let lines = lines(&place(settings)?, settings)?;
        let facts = boot::facts(&lines.reads).await?;
        let findings = boot::look(&lines.reads, &facts, settings).await?;
        Ok(Self { lines, shards: settings.shards, findings })
    }

    /// What was found.
    #[must_use]
    pub fn findings(&self) -> &[Finding] {
        &self.findings
    }

    /// The epoch of the installation; `None`: nobody has installed one here.
    ///
    /// # Errors
    /// Redis is unreachable, or what it holds is no epoch.
    pub async fn read_epoch(&self) -> Result<Option<Epoch>, OpenError> {
        let mut get = redis::cmd("HGET");
        get.arg(topology::meta_key(Shard(0))).arg("epoch");
        let Some(bytes) = reply::maybe_bytes(self.lines.reads.query(&get).await?)? else {
            return Ok(None);
        };
        let text = String::from_utf8_lossy(&bytes);
        let epoch = text.parse().map_err(|why| StoreError::Corrupt(format!("{text}: {why}")))?;
        Ok(Some(epoch))
    }

    /// Begins a new installation, unless another process was faster. Answers whose it is now.
    ///
    /// # Errors
    /// Redis is unreachable. The epoch may have been written then: read it.
    pub async fn found_epoch(&self, candidate: Epoch) -> Result<Epoch, OpenError> {
        let meta = topology::meta_key(Shard(0));
        let mut set = redis::cmd("HSETNX");
        set.arg(meta).arg("epoch").arg(candidate.to_string());
        self.lines.reads.query(&set).await?;
        let winner = self.read_epoch().await?;
        Ok(winner.ok_or_else(|| StoreError::Corrupt("an epoch that does not stay".into()))?)
    }

    /// Opens the store of the installation `epoch`, and completes it where it is not complete yet.
    ///
    /// # Errors
    /// Redis is unreachable, or a shard is of another installation, of another number of shards, or
    /// was emptied.
    pub async fn adopt(self, epoch: Epoch) -> Result<RedisStore, OpenError> {
        let complete = self.is_complete().await?;
        for shard in self.shards.all() {
            self.adopt_shard(shard, epoch, complete).await?;
        }
        if !complete {
            let mut mark = redis::cmd("HSET");
            mark.arg(topology::meta_key(Shard(0))).arg("complete").arg(1);
            self.lines.reads.query(&mark).await?;
        }
        Ok(RedisStore::new(Shape { shards: self.shards, epoch }, self.lines))
    }

    async fn is_complete(&self) -> Result<bool, OpenError> {
        let mut get = redis::cmd("HGET");
        get.arg(topology::meta_key(Shard(0))).arg("complete");
        Ok(self.lines.reads.query(&get).await? != Value::Nil)
    }

    async fn adopt_shard(
        &self,
        shard: Shard,
        epoch: Epoch,
        complete: bool,
    ) -> Result<(), OpenError> {
        let mut call = Call::new(&ADOPT, [topology::meta_key(shard)]);
        let complete: &[u8] = if complete { b"1" } else { b"0" };
        let configured = self.shards.get();
        call.arg(epoch.to_string().as_bytes()).arg(configured.to_string().as_bytes()).arg(complete);
        let answer = self.lines.commits.repeat(&call).await?;
        if let Value::Int(code) = answer {
            return if code == 1 { Ok(()) } else { Err(OpenError::Emptied(shard)) };
        }
        let found = reply::text(answer)?;
        Err(match found.parse::<u16>() {
            Ok(_) => OpenError::Shards { stored: found, configured },
            Err(_) => OpenError::Foreign { found, wanted: epoch },
        })
    }
}

fn bad_url(why: &redis::RedisError) -> OpenError {
    OpenError::BadUrl(why.to_string())
}

fn place(settings: &RedisSettings) -> Result<ConnectionInfo, OpenError> {
    settings.url.as_str().into_connection_info().map(tuned).map_err(|why| bad_url(&why))
}

fn lines(place: &ConnectionInfo, settings: &RedisSettings) -> Result<Lines, OpenError> {
    let client = redis::Client::open(place.clone()).map_err(|why| bad_url(&why))?;
    Ok(Lines::new(&client, settings))
}

/// The newest protocol tells of a broken connection at once; small packets are not held back.
fn tuned(place: ConnectionInfo) -> ConnectionInfo {
    let redis = place.redis_settings().clone().set_protocol(ProtocolVersion::RESP3);
    let tcp = place.tcp_settings().clone().set_nodelay(true);
    place.set_redis_settings(redis).set_tcp_settings(tcp)
}
