use std::collections::BTreeSet;

use serde_json::{Value, json};

use super::args::{Args, check_env_allowed};

fn allowed() -> BTreeSet<String> {
    BTreeSet::from(["STAGE".to_owned()])
}

fn check(args: &Value) -> Result<Value, String> {
    Args::read(args, &allowed()).map(Args::into_value).map_err(|error| error.to_string())
}

#[test]
fn checked_arguments_are_complete_and_check_to_themselves() {
    let checked = check(&json!({ "argv": ["make", "test"] })).unwrap();
    assert_eq!(checked, json!({ "argv": ["make", "test"], "cwd": ".", "env": {} }));
    assert_eq!(check(&checked), Ok(checked));

    let full = json!({ "argv": ["cat"], "cwd": "a", "env": { "STAGE": "x" }, "stdin": "hello" });
    assert_eq!(check(&full), Ok(full));
}

#[test]
fn what_is_not_exactly_an_argv_is_refused_with_its_place() {
    let long = "x".repeat(64 * 1024);
    let cases = [
        (json!("ls"), "`args`: "),
        (json!({}), "`args`: missing field `argv`"),
        (json!({ "argv": "ls -l" }), "`argv`: invalid type: string"),
        (json!({ "argv": [] }), "`argv`: 0 elements"),
        (json!({ "argv": vec!["x"; 257] }), "`argv`: 257 elements"),
        (json!({ "argv": [""] }), "`argv[0]`: empty"),
        (json!({ "argv": ["ls", 1] }), "`argv[1]`: invalid type: integer"),
        (json!({ "argv": ["ls", "a\0b"] }), "`argv[1]`: contains a NUL"),
        (json!({ "argv": [long, long] }), "`argv`: 131074 bytes"),
        (
            json!({ "argv": ["ls"], "shell": true }),
            "`shell`: unknown field `shell`, expected one of",
        ),
        (json!({ "argv": ["ls"], "cwd": "" }), "`cwd`: empty"),
        (json!({ "argv": ["ls"], "cwd": "a\0" }), "`cwd`: contains a NUL"),
        (json!({ "argv": ["ls"], "env": { "PATH": "/" } }), "`env.PATH`: not allowed"),
        (json!({ "argv": ["ls"], "env": { "STAGE": "\0" } }), "`env.STAGE`: contains a NUL"),
        (json!({ "argv": ["ls"], "stdin": "x".repeat(65_537) }), "`stdin`: 65537 bytes"),
    ];
    for (args, expected) in cases {
        let error = check(&args).unwrap_err();
        assert!(error.starts_with(expected), "{expected:?} is not what was said: {error}");
        assert!(error.contains("; "), "no mend: {error}");
    }
}

#[test]
fn the_workers_own_variables_cannot_be_handed_to_calls() {
    for name in ["PATH", "HOME", "PORTCULLIS_CLAIM_ID", "", "A B", "1A", "A=B"] {
        assert!(check_env_allowed(&BTreeSet::from([name.to_owned()])).is_err(), "{name:?}");
    }
    assert!(check_env_allowed(&allowed()).is_ok());
}
