//! Does an operator find every code that the product logs, and every check that doctor makes?

use std::collections::BTreeSet;

use super::source::{Finding, Source};

/// Where codes are explained.
const PAGE: &str = "docs/operations.md";

/// A `W` and three digits in the product's code has a row in [`PAGE`], and each row a code.
pub(crate) fn warnings_are_explained(files: &[Source]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return vec![] };
    let explained: BTreeSet<&str> = page.lines().flat_map(|(_, line)| codes(line)).collect();
    let mut logged = BTreeSet::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust() && !file.is_test()) {
        for (number, line) in file.code().take_while(|(number, _)| *number < file.tests_begin()) {
            for code in codes(line) {
                logged.insert(code);
                if !explained.contains(code) {
                    findings.push(file.finding(number, format!("{code}: explain it in {PAGE}")));
                }
            }
        }
    }
    for (number, line) in page.lines() {
        let gone = codes(line).filter(|code| !logged.contains(code));
        findings.extend(gone.map(|code| page.finding(number, format!("{code} is logged nowhere"))));
    }
    findings
}

/// The codes in a line: `W` and three digits, standing alone.
fn codes(line: &str) -> impl Iterator<Item = &str> {
    line.split(|letter: char| !letter.is_ascii_alphanumeric()).filter(|word| {
        let digits = word.strip_prefix('W');
        digits.is_some_and(|text| text.len() == 3 && text.bytes().all(|b| b.is_ascii_digit()))
    })
}

/// What the names of doctor's checks begin with.
const CHECKS: [&str; 8] =
    ["redis-", "rabbitmq-", "sqlite-", "host-", "files-", "config-", "epoch-", "start-"];
/// Where checks are made.
const CHECKED: [&str; 6] = [
    "cli/src/doctor",
    "engine/src/redis/boot",
    "engine/src/redis/examine",
    "engine/src/rabbitmq/examine",
    "engine/src/sqlite/examine",
    "engine/src/epoch.rs",
];

/// A check that doctor makes has a row in [`PAGE`], and each row a check.
pub(crate) fn checks_are_explained(files: &[Source]) -> Vec<Finding> {
    let Some(page) = files.iter().find(|file| file.path == PAGE) else { return vec![] };
    let rows = || page.lines().filter(|(_, line)| line.starts_with("| `"));
    let explained: BTreeSet<&str> = rows().filter_map(|(_, line)| row_of(line)).collect();
    let mut made = BTreeSet::new();
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| CHECKED.iter().any(|place| file.path.starts_with(place)))
    {
        for (number, line) in file.code().take_while(|(number, _)| *number < file.tests_begin()) {
            for name in line.split('"').skip(1).step_by(2).filter(|name| is_check(name)) {
                made.insert(name);
                if !explained.contains(name) {
                    findings.push(file.finding(number, format!("{name}: explain it in {PAGE}")));
                }
            }
        }
    }
    for (number, line) in rows() {
        if let Some(gone) = row_of(line).filter(|name| !made.contains(name)) {
            findings.push(page.finding(number, format!("{gone} is checked nowhere")));
        }
    }
    findings
}

/// The check that a row of the table explains.
fn row_of(line: &str) -> Option<&str> {
    line.split('`').nth(1).filter(|name| is_check(name))
}

fn is_check(name: &str) -> bool {
    let plain = name.bytes().all(|byte| byte.is_ascii_lowercase() || byte == b'-');
    plain && CHECKS.iter().any(|prefix| name.len() > prefix.len() && name.starts_with(prefix))
}

#[cfg(test)]
mod tests {
    use super::super::source::Source;
    use super::super::source::tests::places;
    use super::{PAGE, checks_are_explained, warnings_are_explained};

    #[test]
    fn a_check_without_a_row_and_a_row_without_a_check_are_refused() {
        let code = "\nconst CHECK: &str = \"redis-a\";\nx(\"host-b\", \"redis-\");\n\
                    #[cfg(test)]\nmod tests { \"host-c\" }";
        let page = "| `host-b` | two |\n| `redis-gone` | three |\nSee `redis-d`.";
        let files = [
            Source::new("cli/src/doctor/a.rs", code.into()),
            Source::new("cli/src/other.rs", "\"host-elsewhere\"".into()),
            Source::new(PAGE, page.into()),
        ];
        let findings = checks_are_explained(&files);
        assert_eq!(places(&findings), ["cli/src/doctor/a.rs:2", "docs/operations.md:2"]);
    }

    #[test]
    fn a_code_without_a_row_and_a_row_without_a_code_are_refused() {
        let files = [
            Source::new("engine/src/a.rs", "\nwarn!(\"W001 one\"); error!(\"W002 two\");".into()),
            Source::new(PAGE, "| `W001` one |\n| `W003` three |".into()),
        ];
        let findings = warnings_are_explained(&files);
        assert_eq!(places(&findings), ["engine/src/a.rs:2", "docs/operations.md:2"]);
    }

    #[test]
    fn comments_tests_and_longer_words_are_no_codes() {
        let code = "// W009\nlet a = \"W0091 XW009\";\n#[cfg(test)]\nmod tests { \"W008\" }";
        let files = [Source::new("engine/src/a.rs", code.into()), Source::new(PAGE, "".into())];
        assert!(warnings_are_explained(&files).is_empty());
    }
}
