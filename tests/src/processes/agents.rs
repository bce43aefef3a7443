//! Agents as an operator writes them: steps of one shell tool, whose effects are lines of a file.

use std::fmt::Write as _;

/// Who is asked.
pub const POOL: &str = "ops";

/// One `[agents.<name>]`.
#[derive(Clone, Debug)]
pub struct Agent {
    name: &'static str,
    steps: Vec<String>,
    gate: &'static str,
    effect: &'static str,
    timeout: &'static str,
    limits: String,
    starts_children: bool,
    more: String,
}

impl Agent {
    /// It acts at most once, ungated, and a step takes 4 s at most, so that a lease whose worker
    /// is gone lapses by then.
    #[must_use]
    pub fn new(name: &'static str) -> Self {
        Self {
            name,
            steps: Vec::new(),
            gate: "allow",
            effect: "at_most_once",
            timeout: "1s",
            limits: "step = \"4s\"".to_owned(),
            starts_children: false,
            more: String::new(),
        }
    }

    /// Appends a line: the text, in which `$0` is the run's id.
    #[must_use]
    pub fn appends(self, line: &str) -> Self {
        self.runs(&format!("echo \"{line}\" >> effects.log"))
    }

    /// Runs a script, in which `$0` is the run's id and `$1` what its input calls `what`.
    #[must_use]
    pub fn runs(mut self, script: &str) -> Self {
        self.steps.push(format!("[{}]", call(script)));
        self
    }

    /// Runs several scripts in one step.
    #[must_use]
    pub fn runs_together(mut self, scripts: &[&str]) -> Self {
        let calls: Vec<String> = scripts.iter().map(|script| call(script)).collect();
        self.steps.push(format!("[{}]", calls.join(", ")));
        self
    }

    /// Starts another agent and waits for it; `more` follows in the call's arguments.
    #[must_use]
    pub fn starts(mut self, agent: &str, more: &str) -> Self {
        self.steps.push(format!("[{{ tool = \"agent\", agent = \"{agent}\"{more} }}]"));
        self.starts_children = true;
        self
    }

    /// Each of its calls is asked about.
    #[must_use]
    pub fn gated(mut self) -> Self {
        self.gate = "ask";
        self
    }

    #[must_use]
    pub fn idempotent(mut self) -> Self {
        self.effect = "idempotent";
        self
    }

    /// How long a call, and how long a step may take.
    #[must_use]
    pub fn timed(mut self, call: &'static str, step: &str) -> Self {
        self.timeout = call;
        self.limits = format!("step = \"{step}\"");
        self
    }

    /// Further lines of its limits.
    #[must_use]
    pub fn limited(mut self, key: &str, span: &str) -> Self {
        write!(self.limits, "\n{key} = \"{span}\"").expect("a string takes all");
        self
    }

    /// Further tables, such as rules.
    #[must_use]
    pub fn with(mut self, toml: &str) -> Self {
        self.more.push_str(toml);
        self
    }

    pub(super) fn toml(&self) -> String {
        let Self { name, gate, effect, timeout, limits, more, .. } = self;
        let steps: Vec<String> =
            self.steps.iter().map(|calls| format!("  {{ calls = {calls} }},\n")).collect();
        let steps = steps.concat();
        let mut text = format!(
            "[agents.{name}]\nplaybook = [\n{steps}]\n\
             [agents.{name}.limits]\n{limits}\n\
             [agents.{name}.tools.shell]\ngate = \"{gate}\"\neffect = \"{effect}\"\n\
             timeout = \"{timeout}\"\nwork_dir = \"work\"\npool = \"{POOL}\"\n"
        );
        if self.starts_children {
            // A parent whose child was refused something goes on.
            let child = "gate = \"allow\"\ntimeout = \"1m\"\non_denied = \"tell_model\"\n";
            write!(text, "[agents.{name}.tools.agent]\n{child}").expect("a string takes all");
        }
        text + more + "\n"
    }
}

/// A Rust string literal of plain text is a TOML string too.
fn call(script: &str) -> String {
    format!("{{ tool = \"shell\", argv = [\"sh\", \"-c\", {script:?}, \"{{{{ run.id }}}}\"] }}")
}
