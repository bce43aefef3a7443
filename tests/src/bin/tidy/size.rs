//! Does a file, a function and a line fit a reader's eye?

use super::source::{Finding, Source};

const FILE_LINES_MAX: usize = 400;
const FUNCTION_LINES_MAX: usize = 70;
const LINE_COLUMNS_MAX: usize = 100;
const MAP_LINES_MAX: usize = 200;
const MAP: &str = "docs/architecture.md";

/// At most 400 lines a file, 70 a function, 100 columns a line, in code of any language.
pub(crate) fn files_functions_and_lines(files: &[Source]) -> Vec<Finding> {
    let code = |file: &&Source| file.ends_with_any(&[".rs", ".sh", ".py"]) || is_script(file);
    let mut findings: Vec<_> = files.iter().filter(code).flat_map(check).collect();
    findings.extend(files.iter().filter(|file| file.path == MAP).filter_map(|file| {
        let lines = file.text.lines().count();
        (MAP_LINES_MAX < lines)
            .then(|| file.finding(lines, format!("{lines} lines: a map has {MAP_LINES_MAX}")))
    }));
    findings
}

fn is_script(file: &Source) -> bool {
    file.text.starts_with("#!")
}

fn check(file: &Source) -> Vec<Finding> {
    let mut findings = Vec::new();
    let lines = file.text.lines().count();
    if FILE_LINES_MAX < lines {
        let what = format!("{lines} lines, at most {FILE_LINES_MAX}: split it by question");
        findings.push(file.finding(lines, what));
    }
    for (number, line) in file.lines() {
        let columns = line.chars().count();
        if LINE_COLUMNS_MAX < columns {
            let what = format!("{columns} columns, at most {LINE_COLUMNS_MAX}: break the line");
            findings.push(file.finding(number, what));
        }
    }
    for (begin, length) in functions(file) {
        if FUNCTION_LINES_MAX < length {
            let what = format!(
                "a function of {length} lines, at most {FUNCTION_LINES_MAX}: give its parts names"
            );
            findings.push(file.finding(begin, what));
        }
    }
    findings
}

/// Where functions begin and how many lines they have. Relies on the formatter's indentation.
fn functions(file: &Source) -> Vec<(usize, usize)> {
    let lines: Vec<_> = file.lines().collect();
    let mut found = Vec::new();
    for (index, (begin, line)) in lines.iter().enumerate() {
        let indent = line.len() - line.trim_start().len();
        let rest = &lines[index..];
        let length = if file.is_rust() && is_rust_function(line) {
            brace_length(rest, indent)
        } else if line.trim_start().starts_with("def ") {
            python_length(rest, indent)
        } else if line.ends_with("() {") {
            brace_length(rest, indent)
        } else {
            continue;
        };
        found.push((*begin, length));
    }
    found
}

fn is_rust_function(line: &str) -> bool {
    let mut words = line.split_whitespace();
    let qualifier = |word: &&str| {
        word.starts_with("pub") || ["const", "async", "unsafe", "default"].contains(word)
    };
    words.by_ref().find(|word| !qualifier(word)) == Some("fn")
}

/// Up to the first closing brace at the function's own indentation, or a `;` that ends its head.
fn brace_length(lines: &[(usize, &str)], indent: usize) -> usize {
    let closes = |line: &str| {
        let own = line.len() - line.trim_start().len() == indent;
        own && (line.trim_start().starts_with('}') && !line.ends_with('{') || line.ends_with(';'))
    };
    let first = lines.first().map_or("", |(_, line)| line);
    if first.ends_with(';') || first.ends_with('}') {
        return 1;
    }
    let last = lines.iter().skip(1).position(|(_, line)| closes(line));
    last.map_or(lines.len(), |last| last + 2)
}

/// Up to the next line that is not indented deeper than the `def`.
fn python_length(lines: &[(usize, &str)], indent: usize) -> usize {
    let outside = |line: &str| {
        let text = line.trim_start();
        !text.is_empty() && !text.starts_with(')') && line.len() - text.len() <= indent
    };
    let next = lines.iter().skip(1).position(|(_, line)| outside(line));
    let body = &lines[..next.map_or(lines.len(), |next| next + 1)];
    body.iter().rposition(|(_, line)| !line.trim().is_empty()).map_or(1, |last| last + 1)
}

#[cfg(test)]
mod tests {
    use super::super::source::tests::{file, places};
    use super::{files_functions_and_lines, functions};

    #[test]
    fn a_file_of_401_lines_is_refused_and_one_of_400_is_not() {
        let text = "//\n".repeat(400);
        assert!(files_functions_and_lines(&file("a.rs", &text)).is_empty());
        let findings = files_functions_and_lines(&file("a.rs", &(text + "//\n")));
        assert_eq!(places(&findings), ["a.rs:401"]);
    }

    #[test]
    fn a_line_of_101_columns_is_refused_and_one_of_100_is_not() {
        assert!(files_functions_and_lines(&file("a.py", &"ä".repeat(100))).is_empty());
        let findings = files_functions_and_lines(&file("a.py", &"ä".repeat(101)));
        assert_eq!(places(&findings), ["a.py:1"]);
    }

    #[test]
    fn a_function_of_71_lines_is_refused_in_every_language() {
        let body = "    x\n".repeat(69);
        let rust = format!("pub(crate) async fn long(\n) {{\n{body}}}\n");
        assert_eq!(functions(&file("a.rs", &rust)[0]), [(1, 72)]);
        assert_eq!(places(&files_functions_and_lines(&file("a.rs", &rust))), ["a.rs:1"]);
        let python = format!("def long():\n{body}    x\n\n\nx = 1\n");
        assert_eq!(places(&files_functions_and_lines(&file("a.py", &python))), ["a.py:1"]);
        let shell = format!("#!/bin/sh\nlong() {{\n{body}}}\n");
        assert_eq!(places(&files_functions_and_lines(&file("ci/run", &shell))), ["ci/run:2"]);
    }

    #[test]
    fn a_functions_length_ends_at_its_own_brace() {
        let text = "trait T {\n    fn head();\n    fn one() {}\n    fn two() {\n        if x {\n\
                    \x20       }\n    }\n}\n";
        assert_eq!(functions(&file("a.rs", text)[0]), [(2, 1), (3, 1), (4, 4)]);
    }

    #[test]
    fn an_architecture_map_of_201_lines_is_refused() {
        let findings = files_functions_and_lines(&file("docs/architecture.md", &"\n".repeat(201)));
        assert_eq!(places(&findings), ["docs/architecture.md:201"]);
    }
}
