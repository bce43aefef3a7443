//! Promise: whatever comes from outside is read without harm, and refused in one line.
//!
//! A slice of every fuzz target, the same in every run; and each input that once broke a promise.

use std::time::Duration;

use portcullis_tests::fuzz::targets::{TARGETS, named};
use portcullis_tests::fuzz::{Bounds, check, play};

const SEED: u64 = 42;
/// Generous: without optimisation.
const EACH: Duration = Duration::from_secs(20);

#[track_caller]
fn holds(target: &str, input: impl AsRef<[u8]>) {
    let target = named(target).expect("a target");
    let answer = check(target, input.as_ref());
    assert!(answer.is_ok(), "{}: {answer:?}", target.promise);
}

#[test]
fn a_slice_of_every_target_keeps_its_promise() {
    for target in &TARGETS {
        let bounds =
            Bounds { executions: target.slice, time: Duration::MAX, each: EACH, memory: None };
        let played = play(target, SEED, &bounds);
        let broken = played.broken.map(|broken| {
            format!("{}: {} by {}", target.name, broken.why, broken.input.escape_ascii())
        });
        assert_eq!(broken.map(|why| why.chars().take(2_000).collect::<String>()), None);
        assert_eq!(played.executions, target.slice, "{}", target.name);
        assert!(1 < played.kinds, "{}: every answer was the same", target.name);
    }
}

#[test]
fn the_same_seed_plays_the_same_inputs() {
    let target = named("wake").expect("a target");
    let bounds = Bounds { executions: 500, time: Duration::MAX, each: EACH, memory: None };
    let (one, same, other) =
        (play(target, 1, &bounds), play(target, 1, &bounds), play(target, 2, &bounds));
    assert_eq!((one.executions, one.kinds), (same.executions, same.kinds));
    assert_ne!(one.kinds, other.kinds, "two seeds of one story");
}

#[test]
fn a_kind_with_a_control_character_is_refused_on_one_line() {
    holds("wake", r#"{"v":1,"kind":"\u0000\n","runs":[]}"#);
}

#[test]
fn a_kind_of_a_hundred_thousand_letters_is_cut() {
    holds("envelope", format!(r#"{{"v":1,"kind":"{}"}}"#, "x".repeat(100_000)));
}

#[test]
fn an_unknown_field_of_a_decision_does_not_write_to_the_terminal() {
    holds("decision", r#"{"extension":{"\u001b[31m":1}}"#);
    holds("decision", format!(r#"{{"{}":1}}"#, "\u{202e}".repeat(1_000)));
}

#[test]
fn a_record_with_a_run_id_of_two_lines_is_named_on_one() {
    holds("record", r#"{"run":{"id":"line\nline"}}"#);
}

#[test]
fn a_reminder_with_a_text_for_a_version_is_not_told_whole() {
    holds("reminder_record", format!(r#"{{"v":"{}"}}"#, "http://127.0.0.1:1/".repeat(70_000)));
}

#[test]
fn an_unknown_choice_in_a_stored_playbook_is_told_on_one_line() {
    let choice = "\\u007f".repeat(300);
    holds("template", format!(r#"[{{"calls":[],"on_failure":"{choice}"}}]"#));
}

#[test]
fn an_unknown_time_zone_does_not_write_to_the_terminal() {
    holds("calendar", "0 9 * * 1\nEurope/Ber\u{1b}[2J\n15m");
}

#[test]
fn a_name_that_is_none_does_not_write_to_the_terminal() {
    holds("names", "\u{1b}[2Jacme");
}

#[test]
fn an_unknown_method_of_a_thousand_letters_is_cut() {
    let method = "{{ run.id }}".repeat(300);
    holds("http_args", format!(r#"{{"url":"http://example.com","method":"{method}"}}"#));
}

#[test]
fn an_agents_name_that_is_none_is_refused_on_one_line() {
    let body = r#"{"agent":"\u007f\n"}"#;
    let head = "POST /v1/runs HTTP/1.1\nHost: localhost\nContent-Type: application/json";
    holds("api", format!("{head}\n\n{body}"));
}

#[test]
fn an_unknown_route_is_named_on_one_line() {
    holds("api", "POST /hooks/p%00la%0Ain HTTP/1.1\nHost: localhost\n\n{}");
}

#[test]
fn a_charset_with_a_tab_is_refused_on_one_line() {
    holds("webhook_body", "\nContent-Type: application/json; charset=u\tf-8\n\n{}");
}

#[test]
fn a_variable_with_a_tab_is_told_on_one_line() {
    holds("config", "# a\tb = 1\n");
}

/// Of two texts that are equally short and equally near, the one with the even last digit.
#[test]
fn a_number_between_two_shortest_texts_is_written_as_ecmascript_does() {
    holds("canonical", "[2204310104407800.25,-2204310104407800.75]");
}
