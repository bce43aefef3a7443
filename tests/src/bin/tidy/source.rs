//! What does a rule look at, and how does it report?

use std::borrow::Cow;
use std::fmt;

/// One text file of the repository.
pub(crate) struct Source {
    /// Relative to the repository's root, with `/`.
    pub(crate) path: String,
    pub(crate) text: String,
}

/// One breach of one rule.
#[derive(Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct Finding {
    path: String,
    line: usize,
    what: String,
}

impl fmt::Display for Finding {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(formatter, "{}:{}: {}", self.path, self.line, self.what)
    }
}

impl Finding {
    /// `line` counts from 1.
    pub(crate) fn new(path: &str, line: usize, what: impl Into<String>) -> Self {
        Self { path: path.to_owned(), line, what: what.into() }
    }
}

impl Source {
    pub(crate) fn new(path: &str, text: Cow<'_, str>) -> Self {
        Self { path: path.to_owned(), text: text.into_owned() }
    }

    pub(crate) fn is_rust(&self) -> bool {
        self.ends_with_any(&[".rs"])
    }

    pub(crate) fn ends_with_any(&self, endings: &[&str]) -> bool {
        endings.iter().any(|ending| self.path.ends_with(ending))
    }

    pub(crate) fn is_in_any(&self, folders: &[&str]) -> bool {
        folders.iter().any(|folder| self.path.starts_with(folder))
    }

    /// Its lines with their numbers, from 1.
    pub(crate) fn lines(&self) -> impl Iterator<Item = (usize, &str)> {
        (1..).zip(self.text.lines())
    }

    /// Its lines of Rust without what follows `//`, with their numbers.
    pub(crate) fn code(&self) -> impl Iterator<Item = (usize, &str)> {
        self.lines().map(|(number, line)| (number, without_comment(line)))
    }

    /// The line where its unit tests begin; the house keeps them last in a file.
    pub(crate) fn tests_begin(&self) -> usize {
        let mark = self.lines().find(|(_, line)| line.trim() == "#[cfg(test)]");
        mark.map_or(usize::MAX, |(number, _)| number)
    }

    /// Whether all of it is test code.
    pub(crate) fn is_test(&self) -> bool {
        self.is_in_any(&["tests/"])
            || self.path.contains("/tests/")
            || self.path.ends_with("/tests.rs")
    }

    pub(crate) fn finding(&self, line: usize, what: impl Into<String>) -> Finding {
        Finding::new(&self.path, line, what)
    }
}

/// The code of a line. `://` opens no comment: it is an address in a string.
fn without_comment(line: &str) -> &str {
    let mut from = 0;
    while let Some(found) = line[from..].find("//") {
        let at = from + found;
        if !line[..at].ends_with(':') {
            return &line[..at];
        }
        from = at + 2;
    }
    line
}

/// Where `word` stands in `line` as a word of its own, not as a part of a longer one.
pub(crate) fn words<'a>(line: &'a str, word: &'a str) -> impl Iterator<Item = usize> + 'a {
    let part = |letter: char| letter.is_alphanumeric() || letter == '_';
    line.match_indices(word).map(|(at, _)| at).filter(move |at| {
        let before = line[..*at].chars().next_back();
        let after = line[at + word.len()..].chars().next();
        !before.is_some_and(part) && !after.is_some_and(part)
    })
}

pub(crate) fn has_word(line: &str, word: &str) -> bool {
    words(line, word).next().is_some()
}

#[cfg(test)]
pub(crate) mod tests {
    use super::{Finding, Source, has_word, without_comment};

    /// One file, as a rule wants it.
    pub(crate) fn file(path: &str, text: &str) -> Vec<Source> {
        vec![Source::new(path, text.into())]
    }

    /// The rule's findings as `path:line`.
    pub(crate) fn places(findings: &[Finding]) -> Vec<String> {
        findings.iter().map(|finding| format!("{}:{}", finding.path, finding.line)).collect()
    }

    #[test]
    fn a_comment_is_no_code_and_an_address_is_no_comment() {
        assert_eq!(without_comment("let x = 1; // redis::Client"), "let x = 1; ");
        assert_eq!(without_comment("open(\"redis://h\") // now"), "open(\"redis://h\") ");
    }

    #[test]
    fn a_word_is_not_a_part_of_a_longer_one() {
        assert!(has_word("use tokio::time", "tokio"));
        assert!(!has_word("use tokio_util::time", "tokio"));
    }
}
