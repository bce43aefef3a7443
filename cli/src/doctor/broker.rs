//! What does RabbitMQ's management API show that AMQP does not?
//!
//! Authority: the management API, where there is one and this user may ask it.
//! Invariant: nothing but GET is sent. What is not answered is told as not looked at.

mod nodes;
mod policies;
mod routes;

use std::time::Duration;

use portcullis_engine::finding::Finding;
use portcullis_engine::rabbitmq::Account;
use portcullis_proto::topology;
use reqwest::Url;
use serde_json::Value;

use crate::config::{Config, MANAGEMENT_PORT, without_login};
use crate::words::one_sentence;

const CHECK: &str = "rabbitmq-management";
const CONNECT_MAX: Duration = Duration::from_secs(2);
const ANSWER_MAX: Duration = Duration::from_secs(5);
const MEND: &str = "enable the plugin `rabbitmq_management`, and set `bus.management_url` with a \
                    user that is tagged `monitoring` and may read this virtual host";
const UNSEEN: &str = "policies, limits, bindings, approvers' queues, nodes and permissions";

/// Asks everything, at `configured` or where it usually is.
pub(super) async fn look(
    config: &Config,
    account: &Account,
    configured: Option<&Url>,
) -> Vec<Finding> {
    let api = match Api::new(account, configured) {
        Ok(api) => api,
        Err(why) => return vec![Finding::unseen(CHECK, format!("{UNSEEN}: {why}"), MEND)],
    };
    if let Err(why) = api.get("whoami").await {
        return vec![Finding::unseen(CHECK, format!("{UNSEEN}: {why}"), MEND)];
    }
    let mut findings = vec![Finding::fine(CHECK, format!("{} answers", api.shown()))];
    let nodes = api.get("nodes").await;
    let count = nodes.as_ref().ok().and_then(Value::as_array).map(Vec::len);
    findings.push(seen("rabbitmq-nodes", nodes, nodes::look));
    let queues = api.get_in("queues", "").await;
    findings.extend(seen_all("rabbitmq-policies", &queues, |queues| {
        vec![policies::look(queues), policies::consumer_timeout(queues)]
    }));
    findings.extend(seen_all("rabbitmq-queue-replicas", &queues, |queues| {
        vec![nodes::replicas(queues, count)]
    }));
    let approvals = format!("/{}", topology::APPROVALS);
    let exchange = api.get_in("exchanges", &approvals).await;
    let bindings = api.get_in("exchanges", &format!("{approvals}/bindings/source")).await;
    findings.push(seen("rabbitmq-alternate-exchange", exchange, routes::alternate));
    findings.extend(seen_all("rabbitmq-bindings", &bindings, |bindings| {
        let pools = super::promises::asked_of_services(config);
        let queues = queues.as_ref().ok();
        let mut told = vec![routes::catch_all(bindings)];
        told.extend(pools.iter().map(|pool| routes::listeners(pool, bindings, queues)));
        told
    }));
    let rights = format!("/{}", escaped(&account.user));
    findings.push(seen(
        "rabbitmq-rights",
        api.get_in("permissions", &rights).await,
        routes::rights,
    ));
    findings
}

fn seen(
    check: &'static str,
    answer: Result<Value, String>,
    judge: fn(&Value) -> Finding,
) -> Finding {
    match answer {
        Ok(value) => judge(&value),
        Err(why) => Finding::unseen(check, why, MEND),
    }
}

fn seen_all(
    check: &'static str,
    answer: &Result<Value, String>,
    judge: impl FnOnce(&Value) -> Vec<Finding>,
) -> Vec<Finding> {
    match answer {
        Ok(value) => judge(value),
        Err(why) => vec![Finding::unseen(check, why, MEND)],
    }
}

/// The management API of one broker.
struct Api {
    http: reqwest::Client,
    base: Url,
    user: String,
    password: String,
    vhost: String,
}

impl Api {
    fn new(account: &Account, configured: Option<&Url>) -> Result<Self, String> {
        let usual = format!("http://{}:{MANAGEMENT_PORT}", account.host);
        let base = match configured {
            Some(url) => url.clone(),
            None => Url::parse(&usual).map_err(|why| format!("{usual}: {why}"))?,
        };
        let (user, password) = login(account, &base);
        let http = reqwest::Client::builder()
            .connect_timeout(CONNECT_MAX)
            .timeout(ANSWER_MAX)
            .redirect(reqwest::redirect::Policy::none())
            // The login must not go through somebody else's machine.
            .no_proxy()
            .build()
            .map_err(|why| one_sentence(&why))?;
        Ok(Self { http, base, user, password, vhost: account.vhost.clone() })
    }

    fn shown(&self) -> String {
        without_login(self.base.as_str())
    }

    /// What belongs to our virtual host.
    async fn get_in(&self, kind: &str, rest: &str) -> Result<Value, String> {
        self.get(&format!("{kind}/{}{rest}", escaped(&self.vhost))).await
    }

    async fn get(&self, path: &str) -> Result<Value, String> {
        let mut url = self.base.clone();
        let folder = url.path().trim_end_matches('/').to_owned();
        url.set_path(&format!("{folder}/api/{path}"));
        // The login goes into a header, and an error repeats no URL.
        let bare = (url.set_username(""), url.set_password(None));
        if bare != (Ok(()), Ok(())) {
            return Err(format!("{} cannot be asked", self.shown()));
        }
        let asked = self.http.get(url).basic_auth(&self.user, Some(&self.password)).send().await;
        let answer = asked.map_err(|why| self.failed(why))?;
        let status = answer.status();
        if !status.is_success() {
            return Err(format!("{} answers {status} to /api/{path}", self.shown()));
        }
        answer.json().await.map_err(|why| self.failed(why))
    }

    fn failed(&self, why: reqwest::Error) -> String {
        format!("{}: {}", self.shown(), one_sentence(&why.without_url()))
    }
}

/// The API's own, or the broker's.
fn login(account: &Account, base: &Url) -> (String, String) {
    match base.username() {
        "" => (account.user.clone(), account.password.clone()),
        user => (unescaped(user), unescaped(base.password().unwrap_or_default())),
    }
}

/// A name as one segment of a path.
fn escaped(name: &str) -> String {
    let plain = |byte: &u8| byte.is_ascii_alphanumeric() || b"-._~".contains(byte);
    let each = name.as_bytes().iter().map(|byte| match plain(byte) {
        true => char::from(*byte).to_string(),
        false => format!("%{byte:02X}"),
    });
    each.collect()
}

fn unescaped(text: &str) -> String {
    let mut bytes = Vec::new();
    let mut rest = text.as_bytes();
    while let Some((first, more)) = rest.split_first() {
        let digits = more.get(..2).and_then(|two| std::str::from_utf8(two).ok());
        let byte = digits.and_then(|two| u8::from_str_radix(two, 16).ok());
        (bytes, rest) = match (first, byte) {
            (b'%', Some(byte)) => ([bytes, vec![byte]].concat(), &more[2..]),
            (first, _) => ([bytes, vec![*first]].concat(), more),
        };
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_one_segment_and_logins_are_read_back() {
        assert_eq!(escaped("/"), "%2F");
        assert_eq!(escaped("a-b.c"), "a-b.c");
        for text in ["", "pass word/%", "plain", "ü"] {
            assert_eq!(unescaped(&escaped(text)), text);
        }
        assert_eq!(unescaped("%"), "%");
        assert_eq!(unescaped("a%zz"), "a%zz");
    }

    #[test]
    fn a_login_of_its_own_goes_before_the_brokers_and_is_not_shown() {
        let account = Account {
            host: "broker".into(),
            user: "worker".into(),
            password: "hidden".into(),
            vhost: "/".into(),
        };
        let own = Url::parse("http://monitor:s%2Fx@other:99").unwrap();
        assert_eq!(login(&account, &own), ("monitor".into(), "s/x".into()));
        let usual = Url::parse("http://broker:15672").unwrap();
        assert_eq!(login(&account, &usual), ("worker".into(), "hidden".into()));
        assert!(!without_login(own.as_str()).contains("monitor"));
    }
}
