mod variables;

use std::path::PathBuf;

use portcullis_proto::ids::{AgentName, PoolName, Subject};

use super::*;

/// A configuration in a folder of its own, gone with it.
struct Folder(PathBuf);

impl Folder {
    fn new(files: &[(&str, &str)]) -> Self {
        let mut random = [0; 8];
        getrandom::fill(&mut random).unwrap();
        let name = format!("portcullis-config-{}", data_encoding::HEXLOWER.encode(&random));
        let folder = std::env::temp_dir().join(name);
        for (file, text) in files {
            let path = folder.join(file);
            std::fs::create_dir_all(path.parent().unwrap()).unwrap();
            std::fs::write(path, text).unwrap();
        }
        Self(folder)
    }

    fn load(&self, variables: &[(&str, &str)]) -> Result<Config, Vec<String>> {
        let texts = variables.iter().map(|(name, value)| ((*name).into(), (*value).into()));
        let environment = Environment(texts.collect());
        let loaded = load(&self.0.join(FILE), &environment, Secrets::Read);
        loaded.map_err(|problems| self.texts(&problems))
    }

    fn texts(&self, problems: &[Problem]) -> Vec<String> {
        let folder = format!("{}/", self.0.display());
        problems.iter().map(|problem| problem.to_string().replace(&folder, "")).collect()
    }

    /// Everything that was found wrong, whatever it costs.
    fn problems(&self, variables: &[(&str, &str)]) -> Vec<String> {
        match self.load(variables) {
            Ok(config) => self.texts(&config.unloaded),
            Err(problems) => problems,
        }
    }
}

impl Drop for Folder {
    fn drop(&mut self) {
        std::fs::remove_dir_all(&self.0).ok();
    }
}

#[track_caller]
fn check(text: &str, variables: &[(&str, &str)], wanted: &[&str]) {
    let folder = Folder::new(&[(FILE, text)]);
    assert_eq!(folder.problems(variables), wanted, "{text}");
}

pub(super) fn loaded(text: &str, variables: &[(&str, &str)]) -> Config {
    match Folder::new(&[(FILE, text)]).load(variables) {
        Ok(config) if config.unloaded.is_empty() => config,
        Ok(config) => panic!("unloaded: {:?}", config.unloaded),
        Err(problems) => panic!("{problems:?}"),
    }
}

const AGENT: &str = "[agents.a]\nplaybook = [{ tool = \"shell\", argv = [\"true\"] }]\n\
                     tools.shell.gate = \"ask\"\n";

#[test]
fn an_empty_file_is_a_configuration_in_which_nobody_may_do_anything() {
    let config = loaded("", &[]);
    assert!(config.people.roster.pools.is_empty() && config.agents.is_empty());
    assert!(!config.home.is_distributed());
    assert_eq!(config.http.listen.to_string(), "127.0.0.1:8080");
}

#[test]
fn a_mistake_is_named_with_its_place_and_its_mend() {
    let cases: &[(&str, &str)] = &[
        (
            "a = [",
            "portcullis.toml:1: it is not TOML: unclosed array, expected `]`; correct the line",
        ),
        (
            "[store]\n\nurl = \"postgres://user:secret@db/x\"",
            "portcullis.toml:3: `store.url`: `postgres://db/x` names no kind of store; write \
             `sqlite:portcullis.db` or `redis://127.0.0.1:6379/0`",
        ),
        (
            "[store]\nurl = \"redis://h:1/0\"",
            "portcullis.toml:1: `bus.url`: a store in Redis goes with RabbitMQ, and the bus is \
             within one process; set `bus.url` to amqp://…, or `store.url` to sqlite:…",
        ),
        (
            "[http]\nlisten = 8080",
            "portcullis.toml:2: `http.listen`: integer `8080` is of the wrong kind; write socket \
             address",
        ),
        (
            "[http]\nlisten = \"localhost\"",
            "portcullis.toml:2: `http.listen`: invalid socket address syntax; write an address \
             and a port, such as 127.0.0.1:8080",
        ),
        (
            "[worker]\nslot = 3",
            "portcullis.toml:2: `worker.slot`: there is no such setting; did you mean `slots`? \
             known here: slots, drain, metrics_listen",
        ),
        (
            "[worker]\nslots = 0",
            "portcullis.toml:2: `worker.slots`: 0 is no number of slots; choose 1 to 4096",
        ),
        (
            "[worker]\ndrain = \"soon\"",
            "portcullis.toml:2: `worker.drain`: `soon` is no length of time: write seconds such as \
             90, or \"250ms\", \"5m\", \"1h30m\", \"2d\"; correct it",
        ),
        (
            "[approvals]\nunattended = \"allow\"",
            "portcullis.toml:2: `approvals.unattended`: `allow` is none of the choices; known \
             here: ask, deny",
        ),
        (
            "[approvals]\ntimeout_seconds = nan",
            "portcullis.toml:2: `approvals.timeout_seconds`: `NaN` is no finite number; write a \
             finite number",
        ),
        (
            "[approvers.alice]\npools = []\ntoken_sha256 = [\"hunter2\"]",
            "portcullis.toml:3: `approvers.alice.token_sha256[0]`: this is no SHA-256; write the \
             64 hexadecimal digits of `sha256sum`, not the token itself",
        ),
        (
            "[sandbox]\nuid = 5",
            "portcullis.toml:1: `sandbox`: `uid` and `gid` go together; give both, or neither",
        ),
    ];
    for (text, wanted) in cases {
        let found = Folder::new(&[(FILE, text)]).problems(&[]);
        assert_eq!(found.first().map(String::as_str), Some(*wanted), "{text}");
    }
}

#[test]
fn a_broken_agent_costs_itself_and_whoever_needs_it() {
    let text = format!(
        "{AGENT}[agents.b]\nplaybook = [{{ tool = \"agent\", agent = \"c\" }}]\n\
         tools.agent.gate = \"allow\"\n[agents.c]\nplaybook = []\n\
         [reminders.r]\nagent = \"b\"\nevery = \"1h\"\n[reminders.s]\nagent = \"a\"\nevery = \
         \"1h\"\n"
    );
    let folder = Folder::new(&[(FILE, &text)]);
    let config = folder.load(&[]).unwrap();
    let agents: Vec<&str> = config.agents.keys().map(AgentName::as_str).collect();
    assert_eq!((agents, config.reminders.len()), (vec!["a"], 1));
    assert_eq!(
        folder.texts(&config.unloaded),
        [
            "portcullis.toml:8: `agents.c.playbook`: a playbook has 1 to 256 steps, this one 0; \
             add or merge steps",
            "portcullis.toml:5: `agents.b.playbook`: it starts the agent `c`, which is not loaded; \
             define it, or mend it",
            "portcullis.toml:10: `reminders.r.agent`: no agent `b` is loaded; define it, or name \
             one of: a",
        ]
    );
}

#[test]
fn a_broken_drop_in_file_costs_its_own_agent() {
    let folder = Folder::new(&[
        (FILE, AGENT),
        ("agents.d/broken.toml", "playbook = [\n{ tool = \"shell\", "),
        (
            "agents.d/good.toml",
            "playbook = [{ tool = \"http\", url = \"https://x.org\" }]\ntools.http.gate = \"deny\"",
        ),
        ("agents.d/typo.toml", "playbook = []\n\n[limits]\nstep = \"1h\"\nhard_cap = \"8d\""),
        ("agents.d/notes.txt", "nothing"),
    ]);
    let config = folder.load(&[]).unwrap();
    assert_eq!(config.agents.len(), 2);
    let problems = folder.texts(&config.unloaded);
    assert!(problems[0].starts_with("agents.d/broken.toml:2: it is not TOML: "), "{problems:?}");
    assert_eq!(
        problems[1],
        "agents.d/typo.toml:5: `agents.typo.limits.hard_cap`: it is longer than seven days; choose \
         at most 7d"
    );
}

#[test]
fn an_agent_that_stands_twice_is_neither() {
    let twice = [(FILE, AGENT), ("agents.d/a.toml", "playbook = []")];
    let folder = Folder::new(&twice);
    let config = folder.load(&[]).unwrap();
    assert!(config.agents.is_empty());
    assert_eq!(
        folder.texts(&config.unloaded),
        ["agents.d/a.toml:1: `agents.a`: the agent stands in portcullis.toml as well; keep one \
          of the two"]
    );
}

#[test]
fn agents_are_checked_to_the_last_argument() {
    let cases: &[(&str, &str)] = &[
        (
            "playbook = [{ argv = [\"x\"] }]",
            "portcullis.toml:2: `agents.a.playbook[0]`: it names no tool; write { tool = \
             \"shell\", argv = [\"true\"] }",
        ),
        (
            "playbook = [{ tool = \"shell\", argv = [\"x\"], args = {} }]",
            "portcullis.toml:2: `agents.a.playbook[0].argv`: it stands beside `args`; move it into \
             `args`",
        ),
        (
            "playbook = [{ tool = \"shell\", on_failure = \"retry\" }]",
            "portcullis.toml:2: `agents.a.playbook[0].on_failure`: `retry` is none of the choices; \
             known here: stop, continue",
        ),
        (
            "playbook = [\n  { tool = \"shell\" },\n  { calls = [{ tool = \"http\" }] },\n]\n\
             tools.shell.gate = \"ask\"",
            "portcullis.toml:4: `agents.a.playbook[1]`: the agent has no tool `http`; add its \
             table: [agents.<name>.tools.http]",
        ),
        (
            "playbook = [{ tool = \"shell\" }]\ntools.shell.gate = \"yes\"",
            "portcullis.toml:3: `agents.a.tools.shell.gate`: `yes` is none of the choices; known \
             here: deny, ask, allow",
        ),
        (
            "playbook = [{ tool = \"shell\" }]\ntools.shell.timeout = \"10m\"",
            "portcullis.toml:3: `agents.a.tools.shell.timeout`: 10m does not fit into a step with \
             3 s to spare; shorten it, or raise `limits.step`",
        ),
        (
            "playbook = [{ tool = \"shell\" }]\ntools.shell.need = 0",
            "portcullis.toml:3: `agents.a.tools.shell.need`: nobody would have to agree; choose at \
             least 1, or gate = \"allow\"",
        ),
        (
            "playbook = [{ tool = \"shell\" }]\ntools.shell.connect_ports = [443, 8080]",
            "portcullis.toml:3: `agents.a.tools.shell`: port 8080 in `connect_ports` belongs to \
             the API, Redis or RabbitMQ: a tool that reaches it could approve itself; take it out",
        ),
        (
            "playbook = [{ tool = \"shell\" }]\ntools.shell = {}\n[[agents.a.rules]]\nthen = \
             \"deny\"\norigin = \"web\"",
            "portcullis.toml:6: `agents.a.rules[0].origin`: no run comes from `web`, so the rule \
             never matches; write reminder, webhook or api",
        ),
        (
            "playbook = [{ tool = \"shell\" }]\ntools.shell = {}\n[[agents.a.rules]]\nthen = \
             \"deny\"\nargs = { argv = { present = true } }",
            "portcullis.toml:6: `agents.a.rules[0].args.argv`: it is no JSON pointer, so the rule \
             never matches; write \"/argv\", or \"/argv/0\" for the first element",
        ),
    ];
    for (text, wanted) in cases {
        check(&format!("[agents.a]\n{text}"), &[], &[wanted]);
    }
}

#[test]
fn a_tool_may_not_reach_the_data_folder() {
    let folder = Folder::new(&[
        (FILE, &format!("{AGENT}tools.shell.work_dir = \".\"")),
        ("portcullis-data/x", ""),
    ]);
    let problems = folder.problems(&[]);
    assert_eq!(problems.len(), 1);
    assert!(problems[0].contains("is denied; name narrower paths in `read_write`"), "{problems:?}");
}

#[test]
fn a_port_that_is_chosen_at_the_start_is_closed_to_tools_as_well() {
    let text = format!(
        "{AGENT}tools.shell.connect_ports = [443]\n[agents.h]\n\
         playbook = [{{ tool = \"http\", url = \"https://x.org\" }}]\ntools.http.gate = \"ask\"\n"
    );
    let mut config = loaded(&text, &[("PORTCULLIS_HTTP_LISTEN", "127.0.0.1:0")]);
    config.guard_port(41_234);
    for plan in config.agents.values() {
        for tool in plan.tools.values() {
            let guarded = match &tool.kind {
                ToolPlanKind::Shell(shell) => &shell.1.guarded_ports,
                ToolPlanKind::Http { guarded_ports, .. } => guarded_ports,
                ToolPlanKind::Child => continue,
            };
            assert!(guarded.contains(&41_234), "{}", plan.name);
        }
    }
}

#[test]
fn triggers_say_exactly_when_and_whom_to_believe() {
    let cases: &[(&str, &str)] = &[
        (
            "[reminders.r]\nagent = \"a\"",
            "portcullis.toml:4: `reminders.r`: it says 0 of `cron`, `every` and `at`; write \
             exactly one of them",
        ),
        (
            "[reminders.r]\nagent = \"a\"\nevery = \"1h\"\ntimezone = \"UTC\"",
            "portcullis.toml:7: `reminders.r.timezone`: it means nothing with `every`; take it out",
        ),
        (
            "[reminders.r]\nagent = \"a\"\nat = 2026-03-01T09:00:00",
            "portcullis.toml:6: `reminders.r.at`: `2026-03-01T09:00:00` has no offset: add one, \
             such as +01:00 or Z, or set a time zone; correct the rule",
        ),
        (
            "[webhooks.w]\nagent = \"a\"",
            "portcullis.toml:4: `webhooks.w`: `verify` is missing; add `verify = …`",
        ),
        (
            "[webhooks.w]\nagent = \"a\"\nverify = { scheme = \"github\", secret_env = \"GH\" }",
            "portcullis.toml:6: `webhooks.w.verify.secret_env`: the environment variable GH is not \
             set; set it to the secret",
        ),
        (
            "[webhooks.w]\nagent = \"a\"\nverify = { scheme = \"github\" }",
            "portcullis.toml:6: `webhooks.w.verify`: no secret is set; give `secret_env` or \
             `secret_file` with the secret as the sender has it",
        ),
        (
            "[webhooks.w]\nagent = \"nobody\"\nverify = { scheme = \"none\" }",
            "portcullis.toml:5: `webhooks.w.agent`: no agent `nobody` is loaded; define it, or \
             name one of: a",
        ),
    ];
    for (text, wanted) in cases {
        check(&format!("{AGENT}{text}"), &[], &[wanted]);
    }
}

#[test]
fn a_worker_is_given_no_secrets() {
    let text = format!(
        "{AGENT}[webhooks.w]\nagent = \"a\"\nverify = {{ scheme = \"github\", secret_env = \"GH\" \
        }}"
    );
    let folder = Folder::new(&[(FILE, &text)]);
    let config = load(&folder.0.join(FILE), &Environment::default(), Secrets::Skip).ok().unwrap();
    assert!(config.unloaded.is_empty() && config.webhooks.is_empty());
}

#[test]
fn an_approver_has_an_inbox_only_with_a_token() {
    let hash = "0".repeat(64);
    let key = data_encoding::BASE64.encode(&[7; 32]);
    let text = format!(
        "[approvers.alice]\npools = [\"ops\"]\ntoken_sha256 = [\"{hash}\"]\n\
         [approvers.bot]\npools = [\"ops\"]\npublic_keys = {{ bot-1 = \"{key}\" }}"
    );
    let config = loaded(&text, &[]);
    let pool = &config.people.roster.pools[&PoolName::new("ops").unwrap()];
    assert_eq!(pool.members.len(), 2);
    assert_eq!(pool.inbox, [Subject::new("alice").unwrap()]);
    assert_eq!(config.people.approvers.len(), 1);
}

#[test]
fn a_key_stands_for_one_approver() {
    let key = data_encoding::BASE64.encode(&[7; 32]);
    let approver = |name: &str| {
        format!("[approvers.{name}]\npools = [\"ops\"]\npublic_keys = {{ k = \"{key}\" }}\n")
    };
    check(
        &format!("{}{}", approver("a"), approver("b")),
        &[],
        &["portcullis.toml:6: `approvers.b.public_keys.k`: two keys are called `k`; give each \
           key a name of its own"],
    );
}

#[test]
fn a_missing_file_is_one_clear_sentence() {
    let folder = Folder::new(&[("other", "")]);
    assert_eq!(
        folder.problems(&[]),
        ["portcullis.toml: there is no such file; `portcullis init` writes one, `--config` names \
          another"]
    );
}
