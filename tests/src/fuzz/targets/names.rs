//! Names and ids, wherever they come in: paths, queries, bodies, messages.

use portcullis_proto::digest::Digest;
use portcullis_proto::ids::{
    AgentName, ApprovalId, JobKey, Nonce, PoolName, ReminderName, RouteName, RunId, Subject,
    Tenant, ToolName,
};
use portcullis_proto::job::Trace;
use serde::Serialize;
use serde::de::DeserializeOwned;
use serde_json::Value;

use super::super::{Target, hold, told};
use super::SMALL;

pub(super) const NAMES: Target = Target {
    name: "names",
    promise: "what is an id is safe in a key, a routing key, a path and a log line, and is \
              written as it was read",
    seeds: || {
        let texts = [
            "acme",
            "alice@example.com",
            "s09-7hxr6jrzkvnpq7ro6rwcn727pu",
            "s09-7hxr6jrzkvnpq7ro6rwcn727pu.2.1",
            "2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a2a",
            "9038deafeddd51dafeac4c9de13314062b3fd1e53a0bbac9569b7ed533990080",
            "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01",
            "api:acme:9038deafeddd51dafeac4c9de13314062b3fd1e53a0bbac9569b7ed533990080",
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    check,
    memory_bytes: SMALL,
    slice: 2_000,
};

/// Reads a text as one kind of id: whether it is one, and the words if it is none.
fn one<T: DeserializeOwned + Serialize>(text: &str, safe: bool) -> Result<String, String> {
    match serde_json::from_value::<T>(Value::from(text)) {
        Ok(id) => {
            let again = serde_json::to_value(&id).map_err(|why| why.to_string())?;
            hold(again == text, || format!("{again} was {text:?}"))?;
            let harmless = |byte: u8| byte.is_ascii_graphic() && !b"{}\"/?# *".contains(&byte);
            hold(!safe || text.bytes().all(harmless), || format!("{text:?} is an id"))?;
            hold(!text.is_empty() && text.len() <= 256, || format!("{} bytes", text.len()))?;
            Ok("1".to_owned())
        }
        Err(why) => told(&why, &[]).map(|_| "0".to_owned()),
    }
}

fn check(bytes: &[u8]) -> Result<String, String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok("no text".to_owned()) };
    let kinds = [
        one::<Tenant>(text, true)?,
        one::<AgentName>(text, true)?,
        one::<ToolName>(text, true)?,
        one::<PoolName>(text, true)?,
        one::<ReminderName>(text, true)?,
        one::<RouteName>(text, true)?,
        one::<RunId>(text, true)?,
        one::<ApprovalId>(text, true)?,
        one::<Nonce>(text, true)?,
        one::<Digest>(text, true)?,
        one::<Subject>(text, false)?,
    ];
    // A job's key is only ever hashed and compared: any text is one.
    let key = serde_json::from_value::<JobKey>(Value::from(text)).map_err(|why| why.to_string())?;
    hold(key.as_str() == text, || "another key".to_owned())?;
    if let Ok(run) = RunId::new(text) {
        let approval = ApprovalId::of(&run, 3, 4);
        hold(approval.run() == run, || format!("{approval} is of another run"))?;
    }
    let trace = Trace::of_header(text);
    let kept = trace.as_ref().is_none_or(|trace| trace.traceparent == text && text.len() == 55);
    hold(kept, || format!("{trace:?}"))?;
    let letters: String =
        kinds.concat().chars().map(|c| if c == '1' { 'y' } else { 'n' }).collect();
    Ok(format!("{letters} {}", trace.is_some()))
}
