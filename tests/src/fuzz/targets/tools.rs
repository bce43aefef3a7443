//! The arguments of tools, as a model or a playbook gives them.

use std::sync::LazyLock;

use portcullis_worker::tools::Tool as _;
use portcullis_worker::tools::http::{Http, Reach};
use serde_json::Value;

use super::super::{Target, hold, told};
use super::LARGE;

pub(super) const HTTP_ARGS: Target = Target {
    name: "http_args",
    promise: "what `check` answers checks to itself, so that what an approver saw is what is sent",
    seeds: || {
        let texts = [
            r#"{"method":"POST","url":"https://example.com/a?b=c","headers":{"x-a":"b"},
                "json":{"a":[1,"x"]}}"#,
            r#"{"url":"http://192.0.2.1:8080/","method":"GET"}"#,
            r#"{"url":"https://user:pw@example.com/%20?q=%ff#frag","method":"PUT","body":"text"}"#,
            r#"{"url":"https://[2001:db8::1]/x","headers":{"accept":"*/*"},"body":"a\nb"}"#,
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    check,
    memory_bytes: LARGE,
    slice: 500,
};

static HTTP: LazyLock<Http> = LazyLock::new(|| {
    // Another target may have installed it.
    rustls::crypto::ring::default_provider().install_default().ok();
    Http::new(Reach::new(&[], vec![8080]).expect("no entries")).expect("a client")
});

fn check(bytes: &[u8]) -> Result<String, String> {
    let Ok(args) = serde_json::from_slice::<Value>(bytes) else { return Ok("no JSON".into()) };
    match HTTP.check(&args) {
        Ok(complete) => {
            let again = HTTP.check(&complete).map_err(|why| format!("not again: {why}"))?;
            hold(again == complete, || format!("{again} was {complete}"))?;
            // What is sent is taken from the record, where it was written as text.
            let read: Value =
                serde_json::from_str(&complete.to_string()).map_err(|why| why.to_string())?;
            hold(read == complete, || format!("{read} was {complete}"))?;
            Ok(format!("{} fields", complete.as_object().map_or(0, serde_json::Map::len)))
        }
        Err(why) => told(&why, &["`"]),
    }
}
