use super::*;
use serde_json::json;

fn name(text: &str) -> ToolName {
    ToolName::new(text).unwrap()
}

fn pool() -> PoolName {
    PoolName::new("ops").unwrap()
}

fn policy(gate: Demand, rules: Vec<Rule>) -> Policy {
    let asking = Asking { pool: pool(), risk: Risk::High, need: 1, levels: Vec::new() };
    Policy { tools: BTreeMap::from([(name("shell"), ToolPolicy { gate, asking })]), rules }
}

fn roster(members: &[&str], inbox: &[&str]) -> Roster {
    let subjects = |list: &[&str]| list.iter().map(|s| Subject::new(*s).unwrap()).collect();
    let pool_of = Pool { members: subjects(members), inbox: subjects(inbox) };
    Roster { pools: BTreeMap::from([(pool(), pool_of)]) }
}

fn rule(then: Demand, pointer: &str, pin: Pin) -> Rule {
    let args = BTreeMap::from([(pointer.to_owned(), pin)]);
    Rule { then, tool: None, origin: None, args, reason: None }
}

fn ask_about(policy: &Policy, roster: &Roster, mode: Unattended, who: &Attendance) -> Verdict {
    let args = json!({"argv": ["rm", "-rf", "/srv"], "n": 1});
    let (tool, origin) = (name("shell"), Origin::Api);
    let question = Question { tool: &tool, args: &args, origin: &origin, attendance: who };
    gate(policy, roster, mode, &question)
}

fn judged(policy: &Policy) -> Verdict {
    ask_about(policy, &roster(&["alice"], &[]), Unattended::Ask, &Attendance::Unattended)
}

fn code(verdict: &Verdict) -> Option<DenialCode> {
    match verdict {
        Verdict::Deny { code, .. } => Some(*code),
        Verdict::Allow | Verdict::Ask(_) => None,
    }
}

#[test]
fn a_tool_nobody_knows_is_denied() {
    let verdict = judged(&Policy::default());
    assert_eq!(code(&verdict), Some(DenialCode::PolicyDenied));
}

#[test]
fn the_strictest_matching_rule_wins_wherever_it_stands() {
    let on_rm = |then| rule(then, "/argv/0", Pin::Equals(json!("rm")));
    let rules = vec![on_rm(Demand::Allow), on_rm(Demand::Ask), on_rm(Demand::Deny)];
    assert_eq!(
        code(&judged(&policy(Demand::Allow, rules.clone()))),
        Some(DenialCode::PolicyDenied)
    );
    let without_deny = rules[..2].to_vec();
    assert!(matches!(judged(&policy(Demand::Allow, without_deny)), Verdict::Ask(_)));
    assert_eq!(judged(&policy(Demand::Deny, rules[..1].to_vec())), Verdict::Allow);
}

#[test]
fn a_rule_that_cannot_be_worked_out_denies() {
    let broken = rule(Demand::Allow, "/n", Pin::StartsWith("x".into()));
    let allow = rule(Demand::Allow, "/argv/0", Pin::Equals(json!("rm")));
    let verdict = judged(&policy(Demand::Allow, vec![allow, broken]));
    assert_eq!(code(&verdict), Some(DenialCode::PolicyError));
}

#[test]
fn pins_match_exactly_what_they_say() {
    let cases = [
        (Pin::Equals(json!("rm")), "/argv/0", true),
        (Pin::Equals(json!("r")), "/argv/0", false),
        (Pin::StartsWith("r".into()), "/argv/0", true),
        (Pin::OneOf(vec![json!("ls"), json!("rm")]), "/argv/0", true),
        (Pin::OneOf(vec![]), "/argv/0", false),
        (Pin::Present(true), "/cwd", false),
        (Pin::Present(false), "/cwd", true),
        (Pin::Equals(json!("1")), "/n", false),
    ];
    for (pin, pointer, denied) in cases {
        let rules = vec![rule(Demand::Deny, pointer, pin.clone())];
        let verdict = judged(&policy(Demand::Allow, rules));
        assert_eq!(code(&verdict).is_some(), denied, "{pin:?} {pointer}");
    }
}

#[test]
fn unattended_runs_are_refused_where_the_installation_says_so() {
    let (policy, roster) = (policy(Demand::Ask, vec![]), roster(&["alice"], &["alice"]));
    let none = Attendance::Unattended;
    let verdict = ask_about(&policy, &roster, Unattended::Deny, &none);
    assert_eq!(code(&verdict), Some(DenialCode::ApprovalRequiredUnattended));
    let session = Attendance::Session { approver: Subject::new("alice").unwrap() };
    assert!(matches!(
        ask_about(&policy, &roster, Unattended::Deny, &session),
        Verdict::Ask(Terms { inbox: true, .. })
    ));
}

#[test]
fn a_session_gives_an_inbox_but_no_right() {
    let policy = policy(Demand::Ask, vec![]);
    let stranger = Attendance::Session { approver: Subject::new("mallory").unwrap() };
    let verdict = ask_about(&policy, &roster(&["alice"], &[]), Unattended::Ask, &stranger);
    let Verdict::Ask(terms) = verdict else { panic!("{verdict:?}") };
    assert_eq!((terms.eligible.len(), terms.inbox), (1, false));
}

#[test]
fn an_unknown_pool_has_nobody_in_it() {
    let verdict = ask_about(
        &policy(Demand::Ask, vec![]),
        &Roster::default(),
        Unattended::Ask,
        &Attendance::Unattended,
    );
    let Verdict::Ask(terms) = verdict else { panic!("{verdict:?}") };
    assert!(terms.eligible.is_empty() && !terms.inbox);
}

#[test]
fn further_approvers_come_with_the_request_earliest_first() {
    let mut policy = policy(Demand::Ask, vec![]);
    let further =
        |after_ms, name: &str| Escalation { after_ms, pool: PoolName::new(name).unwrap() };
    let asking = &mut policy.tools.get_mut(&name("shell")).unwrap().asking;
    asking.levels = vec![further(120, "owners"), further(60, "leads"), further(90, "nobody")];
    let mut roster = roster(&["alice"], &[]);
    let pool = |who: &str, inbox: &[&str]| Pool {
        members: vec![Subject::new(who).unwrap()],
        inbox: inbox.iter().map(|who| Subject::new(*who).unwrap()).collect(),
    };
    roster.pools.insert(PoolName::new("leads").unwrap(), pool("carol", &[]));
    roster.pools.insert(PoolName::new("owners").unwrap(), pool("bob", &["bob"]));
    let verdict = ask_about(&policy, &roster, Unattended::Ask, &Attendance::Unattended);
    let Verdict::Ask(terms) = verdict else { panic!("{verdict:?}") };
    let told: Vec<_> = terms
        .levels
        .iter()
        .map(|level| (level.after_ms, level.pool.as_str(), level.add.len(), level.inbox))
        .collect();
    assert_eq!(told, [(60, "leads", 1, false), (90, "nobody", 0, false), (120, "owners", 1, true)]);
    assert_eq!(terms.eligible.len(), 1, "they are not asked yet");
    let many = vec![further(1, "leads"); LEVELS_MAX + 1];
    policy.tools.get_mut(&name("shell")).unwrap().asking.levels = many;
    let verdict = ask_about(&policy, &roster, Unattended::Ask, &Attendance::Unattended);
    assert!(matches!(verdict, Verdict::Ask(terms) if terms.levels.len() == LEVELS_MAX));
}
