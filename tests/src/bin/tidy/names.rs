//! Does the tree tell the story by its names, and each module say which question it answers?

use super::source::{Finding, Source};

/// Names that say nothing about what is inside.
const EMPTY_NAMES: [&str; 8] =
    ["utils", "util", "common", "commons", "helpers", "types", "misc", "stuff"];

/// No `mod.rs`, no module called after nothing.
pub(crate) fn modules(files: &[Source]) -> Vec<Finding> {
    let mut findings = Vec::new();
    for file in files.iter().filter(|file| file.is_rust()) {
        if file.path.ends_with("/mod.rs") {
            findings.push(file.finding(1, "mod.rs: name it `foo.rs` beside the folder `foo/`"));
        }
        let parts = file.path.trim_end_matches(".rs").split('/');
        for part in parts.filter(|part| EMPTY_NAMES.contains(part)) {
            let what = format!("`{part}` says nothing: name it after the question it answers");
            findings.push(file.finding(1, what));
        }
        for (number, line) in file.code() {
            let declared = line.trim().strip_suffix(['{', ';']).map_or("", str::trim);
            let name = declared.rsplit_once("mod ").map_or("", |(_, name)| name);
            if EMPTY_NAMES.contains(&name) && line.ends_with('{') {
                let what = format!("`mod {name}` says nothing: name it after its question");
                findings.push(file.finding(number, what));
            }
        }
    }
    findings
}

/// Every file of Rust begins by saying what it is for. Tests say it by their names.
pub(crate) fn module_docs(files: &[Source]) -> Vec<Finding> {
    let silent =
        |file: &&Source| file.is_rust() && !file.is_test() && !file.text.starts_with("//! ");
    let what = "no module doc: begin with `//! <the question this module answers>`";
    files.iter().filter(silent).map(|file| file.finding(1, what)).collect()
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::{file, places};
    use super::{EMPTY_NAMES, module_docs, modules};

    #[test]
    fn a_mod_rs_is_refused() {
        assert_eq!(places(&modules(&file("a/src/b/mod.rs", ""))), ["a/src/b/mod.rs:1"]);
    }

    #[test]
    fn a_module_called_after_nothing_is_refused() {
        for name in EMPTY_NAMES {
            assert_eq!(modules(&file(&format!("a/src/{name}.rs"), "")).len(), 1, "{name}");
            assert_eq!(modules(&file(&format!("a/src/{name}/b.rs"), "")).len(), 1, "{name}");
            let inline = format!("pub(crate) mod {name} {{");
            assert_eq!(places(&modules(&file("a.rs", &inline))), ["a.rs:1"]);
        }
        assert!(modules(&file("a/src/helper.rs", "mod tests {\n}")).is_empty());
    }

    #[test]
    fn a_file_without_a_module_doc_is_refused() {
        assert_eq!(places(&module_docs(&file("a.rs", "use std::fs;"))), ["a.rs:1"]);
        assert!(module_docs(&file("a.rs", "//! What is it?\n")).is_empty());
        assert!(module_docs(&file("a/tests/b.rs", "use std::fs;")).is_empty());
    }
}
