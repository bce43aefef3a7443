//! Who may do what to this Redis, and who can listen?

use redis::{ConnectionAddr, ConnectionInfo, Value};

use super::super::link::{Failure, Link};
use crate::finding::Finding;

/// What nobody needs who commits and reads runs, with arguments that each would accept.
const DANGEROUS: [&str; 10] = [
    "FLUSHALL",
    "FLUSHDB",
    "CONFIG SET appendonly no",
    "DEBUG SLEEP 0",
    "SHUTDOWN NOSAVE",
    "REPLICAOF NO ONE",
    "ACL SETUSER x",
    "MIGRATE x 1 x 0 1",
    "SWAPDB 0 1",
    "KEYS *",
];
/// Asks for one permission after the other, and runs none of them. What this server does not know,
/// nobody may call.
const PERMITTED: &str = "local wide = {} \
    for i = 1, #ARGV do \
      local words = {} \
      for word in string.gmatch(ARGV[i], '%S+') do words[#words + 1] = word end \
      local known, permitted = pcall(redis.acl_check_cmd, unpack(words)) \
      if known and permitted == true then wide[#wide + 1] = ARGV[i] end \
    end return wide";

/// May this user do what would break the store?
pub(super) async fn wide(link: &Link) -> Result<Finding, Failure> {
    const CHECK: &str = "redis-wide-permissions";
    let mend = "make users with deploy/redis/make-acl.sh: `-@dangerous -@admin +info +config|get`";
    let mut eval = redis::cmd("EVAL");
    eval.arg(PERMITTED).arg(0).arg(&DANGEROUS[..]);
    Ok(match link.query(&eval).await {
        Ok(Value::Array(wide)) if wide.is_empty() => {
            Finding::fine(CHECK, "this user may not empty, stop or reconfigure the server")
        }
        Ok(answer) => {
            let wide: Vec<String> = redis::from_redis_value(answer).unwrap_or_default();
            let found = format!("this user may call {}", wide.join(", "));
            let why = "a bug, or whoever gets the password, can destroy every record";
            Finding::warning(CHECK, found, why, mend)
        }
        Err(Failure::Refused(why) | Failure::Failed(why)) => Finding::unseen(CHECK, why, mend),
        Err(failure) => return Err(failure),
    })
}

/// Does this server ask who is there?
pub(super) fn login(place: &ConnectionInfo) -> Finding {
    const CHECK: &str = "redis-login";
    let named = place.redis_settings().password().is_some();
    match named || is_near(place.addr()) {
        true => Finding::fine(CHECK, if named { "with a password" } else { "none, on this host" }),
        false => Finding::warning(
            CHECK,
            format!("none is configured, and {} is another host", place.addr()),
            "whoever reaches the port can write and delete records",
            "make users with deploy/redis/make-acl.sh, and put one into `store.url`",
        ),
    }
}

/// Can somebody on the way read and change what is said?
pub(super) fn tls(place: &ConnectionInfo) -> Finding {
    const CHECK: &str = "redis-tls";
    let there = place.addr();
    if matches!(there, ConnectionAddr::TcpTls { insecure: false, .. }) {
        return Finding::fine(CHECK, "encrypted");
    }
    if is_near(there) {
        return Finding::fine(CHECK, "none, on this host");
    }
    Finding::warning(
        CHECK,
        format!("{there} is another host, and the connection is not encrypted"),
        "who can listen on the way reads the password and every run, and can change them",
        "use a private network, or an encrypted tunnel that ends on this host",
    )
}

fn is_near(place: &ConnectionAddr) -> bool {
    if let ConnectionAddr::Tcp(host, _) | ConnectionAddr::TcpTls { host, .. } = place {
        return crate::finding::is_loopback(host);
    }
    // A socket in the file system; nothing else that the client may learn counts as near.
    matches!(place, ConnectionAddr::Unix(_))
}

#[cfg(test)]
mod tests {
    use redis::IntoConnectionInfo as _;

    use super::*;
    use crate::finding::Severity;

    #[test]
    fn another_host_wants_a_password_and_encryption() {
        let cases = [
            ("redis://127.0.0.1:6379/0", Severity::Fine, Severity::Fine),
            ("redis://localhost/0", Severity::Fine, Severity::Fine),
            ("redis://[::1]:6379/0", Severity::Fine, Severity::Fine),
            ("redis://store:6379/0", Severity::Warning, Severity::Warning),
            ("redis://u:secret@store:6379/0", Severity::Fine, Severity::Warning),
        ];
        for (url, by_login, by_tls) in cases {
            let place = url.into_connection_info().unwrap();
            assert_eq!(login(&place).severity, by_login, "{url}");
            assert_eq!(tls(&place).severity, by_tls, "{url}");
            assert!(!tls(&place).to_string().contains("secret"));
        }
    }
}
