//! Where is the broker, and is that a place we can reach?
//!
//! Invariant: no error and no log line of ours repeats the URL, for it holds the password.

use lapin::uri::{AMQPScheme, AMQPUri};

use crate::ports::BusError;

const FORM: &str = "amqp://user:password@host:5672/vhost";

/// A checked address.
#[derive(Clone)]
pub(super) struct Address {
    pub(super) uri: AMQPUri,
}

impl Address {
    pub(super) fn parse(url: &str) -> Result<Self, BusError> {
        let refuse = |why: &str| Err(BusError::Refused(format!("the bus URL {why}")));
        // The library takes an IPv6 host for none, and silently connects to `localhost`.
        if url.contains('[') {
            return refuse("has an IPv6 address, which the AMQP library cannot read: use a name");
        }
        let Ok(uri) = url.parse::<AMQPUri>() else {
            return refuse(&format!("is not readable: it must look like `{FORM}`"));
        };
        if uri.vhost.is_empty() {
            return refuse("names the empty virtual host: write `/%2f` for the default one");
        }
        if uri.scheme == AMQPScheme::AMQPS && !cfg!(feature = "amqps") {
            return refuse(
                "says `amqps`, but this program was built without TLS to the broker: build it \
                 with `--features amqps`, or use `amqp` over a private network",
            );
        }
        Ok(Self { uri })
    }

    /// For messages: where, without who.
    pub(super) fn place(&self) -> String {
        let authority = &self.uri.authority;
        format!("{}:{} (virtual host {})", authority.host, authority.port, self.uri.vhost)
    }

    pub(super) fn is_plain(&self) -> bool {
        self.uri.scheme == AMQPScheme::AMQP
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(url: &str) -> String {
        match Address::parse(url) {
            Ok(address) => panic!("{} was taken", address.place()),
            Err(why) => why.to_string(),
        }
    }

    #[test]
    fn an_unusable_url_is_refused_without_repeating_the_password() {
        let cases = [
            ("amqp://u:secret@host:5672/", "empty virtual host"),
            ("amqp:u:secret@host", "must look like"),
            ("http://u:secret@host/", "must look like"),
            ("amqp://u:secret@host:port/x", "must look like"),
            ("amqp://u:secret@[::1]:5672/x", "IPv6"),
        ];
        for (url, why) in cases {
            let refused = refusal(url);
            assert!(refused.contains(why), "{url}: {refused}");
            assert!(!refused.contains("secret"), "{refused}");
        }
    }

    #[cfg(not(feature = "amqps"))]
    #[test]
    fn tls_is_refused_when_it_is_not_built_in() {
        assert!(refusal("amqps://u:secret@host/x").contains("--features amqps"));
    }

    #[test]
    fn a_readable_url_says_its_place_only() {
        let address = Address::parse("amqp://u:secret@host:5673/%2f").unwrap();
        assert_eq!(address.place(), "host:5673 (virtual host /)");
    }
}
