//! Who are we to this broker, what may we do there, and who can listen?

use super::super::RabbitBus;
use super::super::address::Address;
use super::super::channel::{ACCESS_REFUSED, AmqpError, Asker, NOT_FOUND};
use crate::finding::{Finding, is_loopback};

/// The user that every broker is delivered with.
const GUEST: &str = "guest";

/// Who we are to the broker, for its management API. Never printed.
pub struct Account {
    pub host: String,
    pub user: String,
    pub password: String,
    pub vhost: String,
}

impl RabbitBus {
    /// As the URL says it.
    #[must_use]
    pub fn account(&self) -> Account {
        let authority = &self.address.uri.authority;
        Account {
            host: authority.host.clone(),
            user: authority.userinfo.username.clone(),
            password: authority.userinfo.password.clone(),
            vhost: self.address.uri.vhost.clone(),
        }
    }
}

/// Tries what nobody of ours needs, on a queue that does not exist.
pub(super) async fn wide(asker: &mut Asker<'_>, random: &str) -> Result<Finding, AmqpError> {
    let queue = format!("portcullis-doctor-{random}");
    let configure = permitted(asker.delete_absent(&queue).await)?;
    let read = permitted(asker.get_absent(&queue).await)?;
    Ok(judge(configure, read))
}

/// The broker looks at permissions before it looks for the queue.
fn permitted(answered: Result<(), AmqpError>) -> Result<bool, AmqpError> {
    match answered {
        Ok(()) => Ok(true),
        Err(why) if why.code() == Some(NOT_FOUND) => Ok(true),
        Err(why) if why.code() == Some(ACCESS_REFUSED) => Ok(false),
        Err(why) => Err(why),
    }
}

fn judge(configure: bool, read: bool) -> Finding {
    const CHECK: &str = "rabbitmq-wide-permissions";
    let can: Vec<&str> = [(configure, "make and delete"), (read, "read")]
        .into_iter()
        .filter_map(|(can, what)| can.then_some(what))
        .collect();
    if can.is_empty() {
        return Finding::fine(CHECK, "this user may not touch queues that are not ours");
    }
    Finding::warning(
        CHECK,
        format!("this user may {} any queue", can.join(", and ")),
        "whoever gets the password can bind a catch-all queue, and read every request",
        "make users with deploy/rabbitmq/make-users.sh",
    )
}

pub(super) fn login(address: &Address) -> Finding {
    const CHECK: &str = "rabbitmq-login";
    let user = &address.uri.authority.userinfo.username;
    let host = &address.uri.authority.host;
    if user != GUEST || is_loopback(host) {
        return Finding::fine(CHECK, format!("as `{user}`"));
    }
    let found = format!("as `{GUEST}`, and {host} is another host");
    let why = "everybody knows this user; with the password it came with, everybody may decide";
    Finding::warning(CHECK, found, why, "make users with deploy/rabbitmq/make-users.sh")
}

pub(super) fn tls(address: &Address) -> Finding {
    const CHECK: &str = "rabbitmq-tls";
    let host = &address.uri.authority.host;
    if !address.is_plain() {
        return Finding::fine(CHECK, "encrypted");
    }
    if is_loopback(host) {
        return Finding::fine(CHECK, "none, on this host");
    }
    Finding::warning(
        CHECK,
        format!("{host} is another host, and the connection is not encrypted"),
        "who can listen on the way reads the password and every request",
        "use a private network, an encrypted tunnel, or a build with `--features amqps`",
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::finding::Severity;

    #[test]
    fn each_permission_too_many_is_named() {
        assert_eq!(judge(false, false).severity, Severity::Fine);
        assert!(judge(true, true).found.contains("make and delete, and read any"));
        assert!(judge(false, true).found.contains("may read any"));
        assert_eq!(judge(true, false).severity, Severity::Warning);
    }

    #[test]
    fn another_host_wants_an_own_user_and_encryption() {
        let cases = [
            ("amqp://guest:guest@127.0.0.1:5672/x", Severity::Fine, Severity::Fine),
            ("amqp://guest:guest@localhost/x", Severity::Fine, Severity::Fine),
            ("amqp://guest:guest@broker/x", Severity::Warning, Severity::Warning),
            ("amqp://worker:secret@broker/x", Severity::Fine, Severity::Warning),
        ];
        for (url, by_login, by_tls) in cases {
            let address = Address::parse(url).unwrap();
            assert_eq!(login(&address).severity, by_login, "{url}");
            assert_eq!(tls(&address).severity, by_tls, "{url}");
            assert!(!login(&address).to_string().contains("secret"));
        }
    }
}
