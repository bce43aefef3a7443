//! What does an agent of declared steps do next?
//!
//! Authority: the definition as it was when the run's first turn was planned. It is kept with the
//! run, so an edit of the configuration never changes what a begun run does.
//! Invariant: planning is pure: the same definition, input and turn give the same calls.

use portcullis_proto::ids::ToolName;
use portcullis_proto::quote::told;
use serde::{Deserialize, Serialize};
use serde_json::Value;

use crate::models::template::{FillError, Template, TemplateError};

/// How many steps a playbook may have.
pub const STEPS_MAX: usize = 256;
/// How many calls one step may make.
pub const STEP_CALLS_MAX: usize = 64;

/// What happens after a call of the step failed.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(rename_all = "snake_case")]
pub enum OnFailure {
    /// The run fails; later steps do not run.
    Stop,
    /// The next step runs all the same.
    Continue,
}

/// One call of a step, as it is written down.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct CallSource {
    pub tool: ToolName,
    /// The tool's arguments; `{{ input.… }}` is filled from the run's input.
    #[serde(default = "no_args")]
    pub args: Value,
}

fn no_args() -> Value {
    Value::Object(serde_json::Map::new())
}

/// One step: its calls are planned together and settled before the next step begins.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize, schemars::JsonSchema)]
#[serde(deny_unknown_fields)]
pub struct StepSource {
    pub calls: Vec<CallSource>,
    pub on_failure: OnFailure,
}

/// Why steps are no playbook.
#[derive(Debug, thiserror::Error)]
pub enum PlaybookError {
    #[error("a playbook has 1 to {STEPS_MAX} steps, this one {0}")]
    Steps(usize),
    #[error("step {step} makes {calls} calls; 1 to {STEP_CALLS_MAX} are possible")]
    Calls { step: usize, calls: usize },
    #[error("step {step}, call {call}: {why}")]
    Template { step: usize, call: usize, why: TemplateError },
    #[error("the stored definition is no playbook: {}", told(.0))]
    Unreadable(#[from] serde_json::Error),
}

/// Why a step cannot be planned for this input.
#[derive(Debug, thiserror::Error)]
#[error("step {step}, call {call}: {why}")]
pub struct PlanError {
    pub step: usize,
    pub call: usize,
    pub why: FillError,
}

struct Step {
    calls: Vec<(ToolName, Template)>,
    on_failure: OnFailure,
}

/// A checked playbook.
pub struct Playbook {
    source: Value,
    steps: Vec<Step>,
}

impl Playbook {
    /// Checks steps.
    ///
    /// # Errors
    /// When there are none or too many, or a template is malformed.
    pub fn new(steps: &[StepSource]) -> Result<Self, PlaybookError> {
        if steps.is_empty() || STEPS_MAX < steps.len() {
            return Err(PlaybookError::Steps(steps.len()));
        }
        let parsed = steps.iter().enumerate().map(|(at, step)| parse_step(at, step));
        let parsed = parsed.collect::<Result<Vec<_>, _>>()?;
        Ok(Self { source: serde_json::to_value(steps)?, steps: parsed })
    }

    /// Reads a definition that was kept with a run.
    ///
    /// # Errors
    /// As [`Playbook::new`].
    pub fn of_source(source: &Value) -> Result<Self, PlaybookError> {
        Self::new(&Vec::<StepSource>::deserialize(source)?)
    }

    /// The definition as it is kept with a run.
    #[must_use]
    pub const fn source(&self) -> &Value {
        &self.source
    }

    #[must_use]
    pub fn len(&self) -> usize {
        self.steps.len()
    }

    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.steps.is_empty()
    }

    /// What happens after a failure in a step.
    #[must_use]
    pub fn on_failure(&self, step: usize) -> OnFailure {
        self.steps.get(step).map_or(OnFailure::Stop, |step| step.on_failure)
    }

    /// The calls of a step with their arguments filled in; `None` after the last one.
    ///
    /// # Errors
    /// When the input lacks something a template names.
    pub fn plan(
        &self,
        step: usize,
        scope: &Value,
    ) -> Result<Option<Vec<(ToolName, Value)>>, PlanError> {
        let Some(found) = self.steps.get(step) else { return Ok(None) };
        let calls = found.calls.iter().enumerate().map(|(call, (tool, template))| {
            let args = template.fill(scope).map_err(|why| PlanError { step, call, why })?;
            Ok((tool.clone(), args))
        });
        calls.collect::<Result<Vec<_>, _>>().map(Some)
    }
}

fn parse_step(step: usize, source: &StepSource) -> Result<Step, PlaybookError> {
    let calls = source.calls.len();
    if calls == 0 || STEP_CALLS_MAX < calls {
        return Err(PlaybookError::Calls { step, calls });
    }
    let parsed =
        source.calls.iter().enumerate().map(|(call, source)| {
            let template = Template::parse(&source.args)
                .map_err(|why| PlaybookError::Template { step, call, why })?;
            Ok((source.tool.clone(), template))
        });
    let calls = parsed.collect::<Result<Vec<_>, PlaybookError>>()?;
    Ok(Step { calls, on_failure: source.on_failure })
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    fn steps(args: Value) -> Vec<StepSource> {
        let calls = vec![CallSource { tool: ToolName::new("shell").unwrap(), args }];
        vec![StepSource { calls, on_failure: OnFailure::Stop }]
    }

    #[test]
    fn a_step_is_filled_from_the_input_and_the_list_ends() {
        let playbook = Playbook::new(&steps(json!({"argv": ["echo", "{{ input.x }}"]}))).unwrap();
        let scope = json!({"input": {"x": "a; b"}});
        let calls = playbook.plan(0, &scope).unwrap().unwrap();
        assert_eq!(calls[0].1, json!({"argv": ["echo", "a; b"]}));
        assert!(playbook.plan(1, &scope).unwrap().is_none());
    }

    #[test]
    fn a_kept_definition_reads_back_the_same() {
        let playbook = Playbook::new(&steps(json!({"argv": ["true"]}))).unwrap();
        let again = Playbook::of_source(playbook.source()).unwrap();
        assert_eq!(again.source(), playbook.source());
    }

    #[test]
    fn what_the_input_lacks_is_named() {
        let playbook = Playbook::new(&steps(json!({"argv": ["{{ input.gone }}"]}))).unwrap();
        let why = playbook.plan(0, &json!({"input": {}})).unwrap_err().to_string();
        assert!(why.contains("step 0, call 0") && why.contains("gone"), "{why}");
    }

    #[test]
    fn empty_playbooks_and_steps_are_refused() {
        assert!(matches!(Playbook::new(&[]), Err(PlaybookError::Steps(0))));
        let empty = StepSource { calls: vec![], on_failure: OnFailure::Stop };
        assert!(matches!(Playbook::new(&[empty]), Err(PlaybookError::Calls { .. })));
    }
}
