//! Which calls does a written step make?
//!
//! Three ways to write one: `{ tool, args = { … } }`, the arguments beside the tool, or
//! `{ calls = [ … ] }` for calls that are made together.

use portcullis_proto::ids::ToolName;
use portcullis_worker::models::playbook::{CallSource, OnFailure, StepSource};
use serde_json::{Map, Value};

use super::file::StepText;
use super::problem::{Flaw, KeyPath};
use super::read::read;

const CALL_FORM: &str = "write { tool = \"shell\", argv = [\"true\"] }";

/// Every step in its place; `None` where one could not be read, which is told.
pub(crate) fn of(
    steps: &[StepText],
    at: &KeyPath,
    flaws: &mut Vec<Flaw>,
) -> Vec<Option<StepSource>> {
    let steps = steps.iter().enumerate();
    let read = steps.map(|(index, step)| {
        step_of(&step.0, &at.index(index)).map_err(|flaw| flaws.push(flaw)).ok()
    });
    read.collect()
}

fn step_of(step: &Value, at: &KeyPath) -> Result<StepSource, Flaw> {
    let Value::Object(fields) = step else {
        return Err(Flaw::new(at.clone(), "a step is a table", CALL_FORM));
    };
    let mut fields = fields.clone();
    let on_failure = match fields.remove("on_failure") {
        Some(value) => read::<OnFailure>(value, &at.key("on_failure"))?,
        None => OnFailure::Stop,
    };
    let Some(calls) = fields.remove("calls") else {
        return Ok(StepSource { calls: vec![call_of(fields, at)?], on_failure });
    };
    if let Some(other) = fields.keys().next() {
        let mend = "put it into one of the calls";
        return Err(Flaw::new(at.key(other), "it stands beside `calls`", mend));
    }
    let at = at.key("calls");
    let calls = read::<Vec<Map<String, Value>>>(calls, &at)?;
    let calls = calls.into_iter().enumerate().map(|(index, call)| call_of(call, &at.index(index)));
    Ok(StepSource { calls: calls.collect::<Result<_, _>>()?, on_failure })
}

fn call_of(mut fields: Map<String, Value>, at: &KeyPath) -> Result<CallSource, Flaw> {
    let Some(tool) = fields.remove("tool") else {
        return Err(Flaw::new(at.clone(), "it names no tool", CALL_FORM));
    };
    let tool = read::<ToolName>(tool, &at.key("tool"))?;
    let args = match fields.remove("args") {
        None => fields,
        Some(Value::Object(args)) => match fields.keys().next() {
            None => args,
            Some(other) => {
                let what = "it stands beside `args`";
                return Err(Flaw::new(at.key(other), what, "move it into `args`"));
            }
        },
        Some(_) => {
            return Err(Flaw::new(at.key("args"), "arguments are a table", "write { … }"));
        }
    };
    Ok(CallSource { tool, args: Value::Object(args) })
}
