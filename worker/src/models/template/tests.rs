//! What a template fills, what it refuses, and that values stay values.

use proptest::prelude::*;
use serde_json::json;

use super::*;

fn scope() -> Value {
    json!({
        "input": {
            "ref": "main",
            "count": 3,
            "ratio": 1.5,
            "big": 18_446_744_073_709_551_615_u64,
            "dry": false,
            "nothing": null,
            "a": {"b": {"c-d": "deep"}},
            "items": [{"name": "first"}, {"name": "second"}],
            "_x1": "underscore",
            "sneaky": "{{ run.id }}"
        },
        "run": {"id": "run_1"}
    })
}

fn filled(template: Value) -> Value {
    Template::parse(&template).expect("a template").fill(&scope()).expect("filled")
}

fn load_error(template: Value) -> String {
    Template::parse(&template).expect_err("not a template").to_string()
}

fn fill_error(template: Value) -> String {
    let template = Template::parse(&template).expect("a template");
    template.fill(&scope()).expect_err("does not fit").to_string()
}

/// How an author writes literal text.
fn escaped(text: &str) -> String {
    text.replace("{{", "{{{{").replace("}}", "}}}}")
}

#[test]
fn a_lookup_inside_text_becomes_text() {
    let cases = [
        ("ref={{ input.ref }}", "ref=main"),
        ("{{input.ref}}@{{   run.id   }}", "main@run_1"),
        ("{{ input.count }} of {{ input.ratio }}", "3 of 1.5"),
        ("dry-run={{ input.dry }}", "dry-run=false"),
        ("#{{ input.big }}", "#18446744073709551615"),
        ("{{ input.items[1].name }}!", "second!"),
        (" {{ input.a.b.c-d }}", " deep"),
        ("{{ input._x1 }}\n", "underscore\n"),
    ];
    for (template, expected) in cases {
        assert_eq!(filled(json!(template)), json!(expected), "{template}");
    }
}

#[test]
fn a_string_that_is_one_placeholder_keeps_the_type() {
    let cases = [
        ("{{ input.ref }}", json!("main")),
        ("{{ input.count }}", json!(3)),
        ("{{ input.dry }}", json!(false)),
        ("{{ input.a }}", json!({"b": {"c-d": "deep"}})),
        ("{{ input.items }}", json!([{"name": "first"}, {"name": "second"}])),
        ("{{ run }}", json!({"id": "run_1"})),
    ];
    for (template, expected) in cases {
        assert_eq!(filled(json!(template)), expected, "{template}");
    }
}

#[test]
fn every_string_of_a_value_is_filled_and_nothing_else_changes() {
    let template = json!({
        "url": "https://example.org/{{ input.ref }}",
        "body": {"count": "{{ input.count }}", "tags": ["a", "{{ input.ref }}", 1, null, true]},
        "empty": {}, "none": [], "text": ""
    });
    let expected = json!({
        "url": "https://example.org/main",
        "body": {"count": 3, "tags": ["a", "main", 1, null, true]},
        "empty": {}, "none": [], "text": ""
    });
    assert_eq!(filled(template), expected);
}

#[test]
fn four_braces_are_two_literal_ones() {
    let cases = [
        ("{{{{ x }}}}", "{{ x }}"),
        ("{{{{{{ input.ref }}", "{{main"),
        ("{{ input.ref }}}}}}", "main}}"),
        ("{{{{{{{{", "{{{{"),
        ("{ } }{ a{b}c", "{ } }{ a{b}c"),
        (r#"{"ref":"{{ input.ref }}"}"#, r#"{"ref":"main"}"#),
        (r#"{"n":{{ input.count }}}"#, r#"{"n":3}"#),
        (r#"{"a":{"n":{{ input.count }}}}}}"#, r#"{"a":{"n":3}}"#),
    ];
    for (template, expected) in cases {
        assert_eq!(filled(json!(template)), json!(expected), "{template}");
    }
}

#[test]
fn a_value_that_looks_like_a_template_is_text() {
    assert_eq!(filled(json!("{{ input.sneaky }}")), json!("{{ run.id }}"));
    assert_eq!(filled(json!("x {{ input.sneaky }}")), json!("x {{ run.id }}"));
    assert_eq!(filled(json!("{{{{ {{ input.sneaky }}")), json!("{{ {{ run.id }}"));
}

#[test]
fn an_argv_element_stays_one_element_whatever_it_holds() {
    let values = [
        "two words",
        "; rm -rf /",
        "$(id) `id` ${HOME} && || | > /etc/passwd",
        "line one\nline two\r\n",
        "'single' \"double\" \\ back",
        "--option-like",
        "*",
        "",
        "nul\0byte",
        "{{ run.id }}",
    ];
    let template = json!(["./deploy.sh", "{{ input.ref }}", "--ref={{ input.ref }}", "end"]);
    let template = Template::parse(&template).expect("a template");
    for value in values {
        let scope = json!({"input": {"ref": value}, "run": {"id": "run_1"}});
        let expected = json!(["./deploy.sh", value, format!("--ref={value}"), "end"]);
        // A NUL is passed on as it is; the tool that must not have it refuses it.
        assert_eq!(template.fill(&scope), Ok(expected), "{value:?}");
    }
}

#[test]
fn a_bad_template_is_refused_with_its_place() {
    let cases = [
        (json!("{{ input.ref"), "at $: `{{` at byte 0 is not closed"),
        (json!("ab {{"), "`{{` at byte 3 is not closed"),
        (json!("ä }}"), "`}}` at byte 3 closes nothing; a literal `}}` is written `}}}}`"),
        (json!("{{ input.ref }} }}"), "`}}` at byte 16 closes nothing"),
        (json!("{{ input.ref }}}}"), "`}}` at byte 15 closes nothing"),
        (json!("{{{ input.ref }}"), "`{ input.ref` is not a path"),
        (json!("{{}}"), "`` is not a path such as input.items[0].name: it begins with no name"),
        (json!("{{ {{ input.ref }} }}"), "`{{ input.ref` is not a path"),
        (json!("{{ input.ref | upper }}"), "only `.name` and `[number]` can follow"),
        (json!("{{ input.ref input.ref }}"), "only `.name` and `[number]` can follow"),
        (json!("{{ input . ref }}"), "only `.name` and `[number]` can follow"),
        (json!("{{\ninput.ref }}"), "it begins with no name"),
        (json!("{{ input. }}"), "a name must follow the full stop"),
        (json!("{{ input..a }}"), "a name must follow the full stop"),
        (json!("{{ input.0 }}"), "a name must follow the full stop"),
        (json!("{{ input.grüße }}"), "only `.name` and `[number]` can follow"),
        (json!("{{ .input }}"), "it begins with no name"),
        (json!("{{ input[ }}"), "`[` is not closed"),
        (json!("{{ input[] }}"), "an index is a number from 0 on"),
        (json!("{{ input[-1] }}"), "an index is a number from 0 on"),
        (json!("{{ input[+1] }}"), "an index is a number from 0 on"),
        (json!("{{ input[99999999999999999999] }}"), "an index is a number from 0 on"),
        (json!("{{ input[\"a\"] }}"), "an index is a number from 0 on"),
        (json!("{{ inptu.ref }}"), "`inptu` is unknown: a path begins with `input` or `run`"),
        (json!("{{ env.HOME }}"), "`env` is unknown"),
        (json!({"{{ input.ref }}": 1}), "at $: key `{{ input.ref }}` holds `{{`"),
        (json!({"args": {"argv": ["ls", "{{ x }}"]}}), "at $.args.argv[1]: `x` is unknown"),
        (json!({"a": [{"b{{": 1}]}), "at $.a[0]: key `b{{` holds `{{`"),
    ];
    for (template, expected) in cases {
        let why = load_error(template.clone());
        assert!(why.contains(expected), "{template}: {why}");
    }
    let long = format!("{{{{ input.{} }}}}", "a".repeat(PLACEHOLDER_BYTES_MAX));
    assert!(load_error(json!(long)).contains("the limit is 256"));
}

#[test]
fn a_value_that_does_not_fit_is_named_with_what_is_there() {
    let cases = [
        (
            json!("{{ input.rev }}"),
            "at $: `input.rev` is missing: `input` is an object with 10 keys",
        ),
        (json!("{{ input.a.x.y }}"), "`input.a.x` is missing: `input.a` is an object with 1 keys"),
        (json!("{{ input.ref.x }}"), "`input.ref.x` is missing: `input.ref` is a string"),
        (json!("{{ input.ref[0] }}"), "`input.ref[0]` is missing: `input.ref` is a string"),
        (
            json!("{{ input.items[2] }}"),
            "`input.items[2]` is missing: `input.items` is a list of 2",
        ),
        (json!("{{ input.items.name }}"), "`input.items.name` is missing: `input.items` is a list"),
        (json!("{{ input.nothing.x }}"), "`input.nothing.x` is missing: `input.nothing` is null"),
        (json!("{{ input.nothing }}"), "`input.nothing` is null"),
        (json!("x{{ input.nothing }}"), "`input.nothing` is null"),
        (json!("x{{ input.a }}"), "`input.a` is an object with 1 keys, and only a string"),
        (json!("x{{ input.items }}"), "`input.items` is a list of 2, and only a string"),
        (json!({"args": {"argv": ["a", "{{ input.rev }}"]}}), "at $.args.argv[1]: `input.rev`"),
    ];
    for (template, expected) in cases {
        let why = fill_error(template.clone());
        assert!(why.contains(expected), "{template}: {why}");
        assert!(!why.contains("main"), "no value is quoted: {why}");
    }
    let template = Template::parse(&json!("{{ run.id }}")).expect("a template");
    for scope in [json!({"input": {}}), json!(null), json!([1])] {
        let why = template.fill(&scope).expect_err("no run").to_string();
        assert!(why.contains("`run` is missing: this run has no `run`"), "{why}");
    }
}

fn lists(levels: usize, inner: Value) -> Value {
    (0..levels).fold(inner, |value, _| json!([value]))
}

#[test]
fn nesting_is_bounded_in_the_template_and_in_what_is_filled() {
    assert!(Template::parse(&lists(DEPTH_MAX, json!(1))).is_ok());
    let why = load_error(lists(DEPTH_MAX + 1, json!(1)));
    assert!(why.contains("nested deeper than 64 levels"), "{why}");
    // Half of the levels in the template, half in the value.
    let template = Template::parse(&lists(32, json!("{{ input }}"))).expect("a template");
    let scope = |levels| json!({"input": lists(levels, json!("x"))});
    assert_eq!(template.fill(&scope(32)), Ok(lists(64, json!("x"))));
    let why = template.fill(&scope(33)).expect_err("too deep");
    assert_eq!(why.problem, FillProblem::TooDeep);
}

#[test]
fn texts_are_bounded_alone_and_together() {
    let text = |bytes: usize| "x".repeat(bytes);
    let input = |bytes: usize| json!({"input": {"text": text(bytes)}});
    let fill = |template: Value, scope: Value| {
        Template::parse(&template).expect("a template").fill(&scope).map_err(|why| why.problem)
    };
    let whole = json!("{{ input.text }}");
    assert!(fill(whole.clone(), input(TEXT_BYTES_MAX)).is_ok());
    assert_eq!(fill(whole, input(TEXT_BYTES_MAX + 1)), Err(FillProblem::TextTooLong));
    let inside = json!("a{{ input.text }}");
    assert!(fill(inside.clone(), input(TEXT_BYTES_MAX - 1)).is_ok());
    assert_eq!(fill(inside, input(TEXT_BYTES_MAX)), Err(FillProblem::TextTooLong));
    let trailing = json!("{{ input.text }}a");
    assert_eq!(fill(trailing, input(TEXT_BYTES_MAX)), Err(FillProblem::TextTooLong));
    assert!(Template::parse(&json!(text(TEXT_BYTES_MAX))).is_ok());
    assert!(load_error(json!(text(TEXT_BYTES_MAX + 1))).contains("the limit is 65536"));
    for piece in ["{{ input.text }}", "a{{ input.text }}"] {
        let many = |count: usize| Value::from(vec![piece; count]);
        assert!(fill(many(15), input(TEXT_BYTES_MAX - 1)).is_ok());
        assert_eq!(fill(many(17), input(TEXT_BYTES_MAX - 1)), Err(FillProblem::TooLarge));
    }
    let keys: serde_json::Map<_, _> =
        (0..17).map(|n| (format!("{n}{}", text(TEXT_BYTES_MAX)), json!(1))).collect();
    assert_eq!(fill(Value::Object(keys.clone()), json!({})), Err(FillProblem::TooLarge));
    assert_eq!(fill(json!("{{ input }}"), json!({"input": keys})), Err(FillProblem::TooLarge));
    let flat = json!({"input": vec![0; FILLED_BYTES_MAX]});
    assert_eq!(fill(json!("{{ input }}"), flat), Err(FillProblem::TooLarge));
}

#[test]
fn only_scalars_have_a_text() {
    for (value, text) in [(json!("a"), "a"), (json!(-1), "-1"), (json!(true), "true")] {
        assert_eq!(scalar_text(&value).as_deref(), Some(text));
    }
    for value in [json!(null), json!([]), json!({})] {
        assert_eq!(scalar_text(&value), None);
    }
}

fn config() -> ProptestConfig {
    ProptestConfig { failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn escaped_text_is_itself(text in "[{} a]{0,20}|.*") {
        let template = Template::parse(&json!(escaped(&text))).expect("a template");
        prop_assert_eq!(template.fill(&json!({})), Ok(json!(text)));
    }

    #[test]
    fn any_value_fills_its_own_place_only(value in "[{}. a-z]{0,20}|.*", before in ".*") {
        let before = before.replace('{', "(");
        let text = format!("{}{{{{ input.v }}}}", escaped(&before));
        let template = json!([escaped(&before), "{{ input.v }}", text, "end"]);
        let template = Template::parse(&template).expect("a template");
        let expected = json!([before, value, format!("{before}{value}"), "end"]);
        prop_assert_eq!(template.fill(&json!({"input": {"v": value}})), Ok(expected));
    }

    #[test]
    fn no_template_panics(text in "[{}.a-z \\[\\]0-9]{0,40}|.*") {
        if let Ok(template) = Template::parse(&json!([text]))
            && let Ok(filled) = template.fill(&scope())
        {
            prop_assert_eq!(filled.as_array().map(Vec::len), Some(1));
        }
    }
}
