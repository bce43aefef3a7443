//! Playbooks: the arguments of declared steps, filled from what a sender sent.

use std::sync::LazyLock;

use portcullis_worker::models::playbook::Playbook;
use portcullis_worker::models::template::{FILLED_BYTES_MAX, Template};
use serde_json::{Value, json};

use super::super::{Target, hold, told};
use super::LARGE;

pub(super) const TEMPLATE: Target = Target {
    name: "template",
    promise: "a filled template has the template's shape, whatever the values are; it is never \
              larger than its bound, and a value is never read as a template",
    seeds: || {
        let texts = [
            r#"{"argv":["echo","{{ input.a }}","x{{input.n}}-{{ run.id }}"],"cwd":"{{{{x}}}}"}"#,
            r#"[{"tool":"shell","args":"{{ input.list[0].x }}"},["{{ input }}"],1.5,null]"#,
            r#"[{"calls":[{"tool":"shell","args":{"argv":["{{ input.trap }}"]}},{"tool":"http"}],
                "on_failure":"stop"},{"calls":[{"tool":"agent"}],"on_failure":"continue"}]"#,
            r#"{"long":"{{ input.long }}{{ input.long }}","deep":["{{ input.deep }}"]}"#,
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    check,
    memory_bytes: 4 * LARGE,
    slice: 500,
};

static SCOPE: LazyLock<Value> = LazyLock::new(|| {
    let deep = (0..63).fold(json!("{{ input.a }}"), |inner, _| json!([inner]));
    json!({
        "input": {
            "a": "word", "n": 7, "list": [{ "x": [1, 2] }], "null": null, "yes": true,
            "trap": "{{ input.a }}", "long": "x".repeat(40_000), "deep": deep,
        },
        "run": { "id": "s09-7hxr6jrzkvnpq7ro6rwcn727pu" },
    })
});

fn check(bytes: &[u8]) -> Result<String, String> {
    let Ok(source) = serde_json::from_slice::<Value>(bytes) else { return Ok("no JSON".into()) };
    let playbook = match Playbook::of_source(&source) {
        Ok(playbook) => {
            let again = Playbook::of_source(playbook.source()).map_err(|why| why.to_string())?;
            hold(again.source() == playbook.source(), || "another playbook".to_owned())?;
            for step in 0..playbook.len() {
                if let Err(why) = playbook.plan(step, &SCOPE) {
                    told(&why, &["step"])?;
                }
            }
            "a playbook".to_owned()
        }
        Err(why) => told(&why, &[])?,
    };
    let template = match Template::parse(&source) {
        Ok(template) => template,
        Err(why) => return told(&why, &["at $"]),
    };
    match template.fill(&SCOPE) {
        Ok(filled) => {
            same_shape(&source, &filled)?;
            let texts = texts_bytes(&filled);
            hold(texts <= FILLED_BYTES_MAX, || format!("{texts} bytes"))?;
            let again = template.fill(&SCOPE).map_err(|why| why.to_string())?;
            hold(again == filled, || "filled in two ways".to_owned())?;
            Ok(format!("filled; {playbook}"))
        }
        Err(why) => told(&why, &["at $"]),
    }
}

/// Lists keep their length and objects their keys; only a whole placeholder may become one.
fn same_shape(source: &Value, filled: &Value) -> Result<(), String> {
    match (source, filled) {
        (Value::Array(from), Value::Array(to)) => {
            hold(from.len() == to.len(), || format!("{filled} from {source}"))?;
            from.iter().zip(to).try_for_each(|(from, to)| same_shape(from, to))
        }
        (Value::Object(from), Value::Object(to)) => {
            hold(from.len() == to.len(), || format!("{filled} from {source}"))?;
            let mut pairs = from.iter().zip(to);
            pairs.try_for_each(|((key, from), (same, to))| {
                hold(key == same, || format!("{same} was {key}"))?;
                same_shape(from, to)
            })
        }
        (Value::String(text), filled) => {
            let whole = text.starts_with("{{") && text.ends_with("}}");
            let plain = !text.contains("{{") && !text.contains("}}");
            hold(whole || filled.is_string(), || format!("{filled} from {text:?}"))?;
            hold(!plain || filled == source, || format!("{filled} from {text:?}"))
        }
        (other, filled) => hold(other == filled, || format!("{filled} from {other}")),
    }
}

fn texts_bytes(value: &Value) -> usize {
    match value {
        Value::Null | Value::Bool(_) | Value::Number(_) => 0,
        Value::String(text) => text.len(),
        Value::Array(items) => items.iter().map(texts_bytes).sum(),
        Value::Object(map) => map.iter().map(|(key, value)| key.len() + texts_bytes(value)).sum(),
    }
}
