//! `init`, `validate`, `schema`, `help`, `doctor`: what needs no server.

use std::os::unix::fs::PermissionsExt as _;

use crate::site::{Site, mode};

#[test]
fn init_writes_a_start_that_validates_and_keeps_its_secrets() {
    let site = Site::empty();
    let done = site.run(&["init"]);
    assert_eq!(done.code, 0, "{}", done.err);
    let data = site.folder.join("portcullis-data");
    assert_eq!(mode(&data), 0o700);
    for secret in ["notary.key", "local.token", "greet.secret"] {
        assert_eq!(mode(&data.join(secret)), 0o600, "{secret}");
    }
    let token = std::fs::read_to_string(data.join("local.token")).unwrap();
    let config = std::fs::read_to_string(site.config()).unwrap();
    for text in [&config, &done.out, &done.err] {
        assert!(!text.contains(token.trim()), "the token is nowhere else");
    }
    let checked = site.run(&["validate"]);
    assert_eq!(
        (checked.code, checked.out.as_str()),
        (0, "portcullis.toml is right: agents 1, reminders 1, webhooks 1, approvers 1\n")
    );
}

#[test]
fn init_overwrites_nothing() {
    let site = Site::empty();
    std::fs::write(site.config(), "# mine").unwrap();
    let done = site.run(&["init"]);
    assert_eq!(done.code, 1);
    assert!(done.err.contains("is there already"), "{}", done.err);
    assert_eq!(std::fs::read_to_string(site.config()).unwrap(), "# mine");
    assert!(!site.folder.join("portcullis-data").exists());
}

#[test]
fn validate_names_everything_that_is_wrong() {
    let site = Site::init("30");
    site.edit(&[("slots = 16", "slots = 0"), ("30 9 * * 1-5", "30 25 * * *")]);
    let done = site.run(&["validate"]);
    assert_eq!(done.code, 2);
    assert!(done.out.contains("portcullis.toml:28: `worker.slots`: "), "{}", done.out);
    assert!(done.out.contains("`reminders.morning.cron`: "), "{}", done.out);
    let value = site.run(&["validate", "--json"]).json();
    assert_eq!(value["valid"], false);
    assert_eq!(value["problems"][1]["unloads"], "reminder morning");
}

#[test]
fn what_is_generated_from_the_code_is_shipped_as_it_is() {
    let pages = [
        (["schema", "config"], include_str!("../../../docs/schema/portcullis.schema.json")),
        (["schema", "doctor"], include_str!("../../../docs/schema/doctor.schema.json")),
        (["help", "configuration"], include_str!("../../../docs/reference/configuration.md")),
        (["help", "command-line"], include_str!("../../../docs/reference/command-line.md")),
    ];
    for (command, shipped) in pages {
        let printed = Site::empty().run(&command).out;
        assert_eq!(printed, shipped, "renew it: portcullis {}", command.join(" "));
    }
}

#[test]
fn exit_codes_are_explained() {
    let text = Site::empty().run(&["help", "exit-codes"]).out;
    let numbers: Vec<&str> = text.lines().filter_map(|line| line.split("  ").next()).collect();
    assert_eq!(numbers, ["0", "1", "2", "3", "4", "5", "6", "7"]);
}

#[test]
fn a_command_that_is_none_is_wrong_usage() {
    let site = Site::empty();
    assert_eq!(site.run(&["fly"]).code, 2);
    assert_eq!(site.run(&["help", "fly"]).code, 2);
    assert_eq!(site.run(&["runs", "start"]).code, 2);
}

#[test]
fn the_sandboxs_helper_is_no_command_of_ours() {
    let site = Site::empty();
    assert!(!site.run(&["help"]).out.contains("sandbox-exec"));
    let done = site.run(&["sandbox-exec", "no plan", "true"]);
    assert!(done.code != 0 && done.err.contains("the plan is unreadable"), "{}", done.err);
}

#[test]
fn doctor_is_content_with_what_init_wrote() {
    let site = Site::init("30");
    let done = site.run(&["doctor", "--json"]);
    let value = done.json();
    assert_eq!((done.code, &value["fatal"]), (0, &false.into()), "{value:#}");
    assert_eq!((&value["version"], &value["profile"]), (&1.into(), &"standard".into()));
    let findings = value["findings"].as_array().unwrap();
    let names: Vec<_> = findings.iter().map(|finding| finding["check"].as_str().unwrap()).collect();
    for name in ["configuration", "sqlite-content", "files-notary-key", "host-sandbox"] {
        assert!(names.contains(&name), "{name}: {names:?}");
    }
    assert!(!site.folder.join("portcullis-data/portcullis.db").exists(), "looking makes nothing");
}

#[test]
fn doctor_names_what_would_be_denied() {
    let site = Site::init("30");
    site.edit(&[("pools = [\"default\"]", "pools = [\"others\"]")]);
    let done = site.run(&["doctor"]);
    assert_eq!(done.code, 0);
    assert!(done.out.contains("nobody belongs to pool `default`, which greeter asks"));
}

#[test]
fn doctor_is_fatal_about_a_notary_whose_key_does_not_count() {
    let site = Site::init("30");
    let text = std::fs::read_to_string(site.config()).unwrap();
    let line = text.lines().find(|line| line.starts_with("notary-1 = ")).unwrap();
    site.edit(&[(line, &format!("notary-1 = \"{}=\"", "A".repeat(43)))]);
    let done = site.run(&["doctor"]);
    assert_eq!(done.code, 1);
    assert!(done.out.contains("is not configured"), "{}", done.out);
}

#[test]
fn secrets_and_folders_that_others_can_read_are_fatal() {
    for (file, check, mode) in [
        ("portcullis-data", "files-data-folder", 0o755),
        ("portcullis-data/notary.key", "files-notary-key", 0o644),
        ("portcullis-data/greet.secret", "files-secrets", 0o604),
    ] {
        let site = Site::init("30");
        let path = site.folder.join(file);
        std::fs::set_permissions(&path, std::fs::Permissions::from_mode(mode)).unwrap();
        let done = site.run(&["doctor", "--json"]);
        let value = done.json();
        assert_eq!((done.code, &value["fatal"]), (1, &true.into()), "{value:#}");
        let found = value["findings"].as_array().unwrap().iter().find(|f| f["check"] == check);
        let found = found.unwrap();
        assert_eq!(found["severity"], "fatal", "{found:#}");
        assert!(found["mend"].as_str().unwrap().starts_with("chmod "), "{found:#}");
        // Looking mends nothing, and a start in the strict profile refuses.
        let kept = std::fs::metadata(&path).unwrap().permissions().mode() & 0o777;
        assert_eq!(kept, mode);
        let text = std::fs::read_to_string(site.config()).unwrap();
        std::fs::write(site.config(), format!("profile = \"strict\"\n{text}")).unwrap();
        let refused = site.run(&["up"]);
        assert_eq!(refused.code, 1, "{}", refused.err);
        assert!(refused.err.contains(check) && refused.err.contains("chmod"), "{}", refused.err);
    }
}

#[test]
fn an_unknown_profile_and_a_management_address_that_is_none_are_refused() {
    let site = Site::init("30");
    let text = std::fs::read_to_string(site.config()).unwrap();
    std::fs::write(site.config(), format!("profile = \"lax\"\n{text}")).unwrap();
    let done = site.run(&["validate"]);
    assert_eq!(done.code, 2);
    assert!(done.out.contains("portcullis.toml:1: `profile`: "), "{}", done.out);
    let bus = "[store]\nurl = \"redis://127.0.0.1:1/0\"\n\
               [bus]\nurl = \"amqp://u:p@127.0.0.1:1/x\"\n\
               management_url = \"u:hunter2@broker\"\n";
    std::fs::write(site.config(), format!("{text}\n{bus}")).unwrap();
    let done = site.run(&["validate"]);
    assert_eq!(done.code, 2);
    assert!(done.out.contains("`bus.management_url`: "), "{}", done.out);
}
