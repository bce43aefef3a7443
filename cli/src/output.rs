//! How does an answer look: a table for people, JSON for programs?
//!
//! Invariant: JSON goes to standard output whole, one value a line. Colour only goes to a terminal,
//! and never when `NO_COLOR` is set. What agents and senders wrote cannot move the cursor.

use std::io::{IsTerminal as _, Write as _};

use serde_json::Value;

use crate::exit::Failure;

/// The widest a cell gets in a table, in characters.
const CELL_CHARS_MAX: usize = 60;

/// Where answers go.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Output {
    pub(crate) json: bool,
    colour: bool,
}

/// What a text is about, for its colour.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Tone {
    Plain,
    Good,
    Bad,
    Waiting,
    Quiet,
}

impl Output {
    /// `no_colour`: the environment asks for none.
    pub(crate) fn new(json: bool, no_colour: bool) -> Self {
        Self { json, colour: !no_colour && !json && std::io::stdout().is_terminal() }
    }

    /// One JSON value on a line of its own.
    pub(crate) fn value(self, value: &Value) {
        self.line(&value.to_string());
    }

    /// One line. A reader that has gone away, such as `head`, ends the process quietly.
    pub(crate) fn line(self, text: &str) {
        let mut out = std::io::stdout().lock();
        if writeln!(out, "{text}").and_then(|()| out.flush()).is_err() {
            std::process::exit(0);
        }
    }

    pub(crate) fn tint(self, tone: Tone, text: &str) -> String {
        let code = match tone {
            Tone::Good => "32",
            Tone::Bad => "31",
            Tone::Waiting => "33",
            Tone::Quiet => "2",
            Tone::Plain => return text.to_owned(),
        };
        if self.colour { format!("\x1b[{code}m{text}\x1b[0m") } else { text.to_owned() }
    }

    /// A table; `nothing` instead of an empty one.
    pub(crate) fn table(self, heads: &[&str], rows: &[Vec<(Tone, String)>], nothing: &str) {
        if rows.is_empty() {
            return self.line(nothing);
        }
        let rows: Vec<Vec<(Tone, String)>> = rows
            .iter()
            .map(|row| row.iter().map(|(tone, text)| (*tone, cell(text))).collect())
            .collect();
        let width = |column: usize| {
            let cells = rows.iter().filter_map(|row| row.get(column)).map(|(_, text)| chars(text));
            cells.chain(heads.get(column).map(|head| chars(head))).max().unwrap_or(0)
        };
        let widths: Vec<usize> = (0..heads.len()).map(width).collect();
        let line = |cells: Vec<(Tone, String)>| {
            let padded = cells.iter().zip(&widths).map(|((tone, text), width)| {
                let spaces = width.saturating_sub(chars(text));
                format!("{}{:spaces$}", self.tint(*tone, text), "")
            });
            self.line(padded.collect::<Vec<_>>().join("  ").trim_end());
        };
        line(heads.iter().map(|head| (Tone::Quiet, (*head).to_owned())).collect());
        rows.into_iter().for_each(line);
    }

    /// Says on standard error why a command did not do what was asked.
    pub(crate) fn failure(self, failure: &Failure) {
        let text = if self.json {
            failure.to_json().to_string()
        } else {
            format!("portcullis: {}", printable(&failure.to_string()))
        };
        // Nobody to tell if standard error is closed.
        writeln!(std::io::stderr().lock(), "{text}").ok();
    }
}

fn chars(text: &str) -> usize {
    text.chars().count()
}

fn cell(text: &str) -> String {
    let text = printable(text).replace('\n', " ");
    if chars(&text) <= CELL_CHARS_MAX {
        return text;
    }
    text.chars().take(CELL_CHARS_MAX - 1).chain(['…']).collect()
}

/// A text without what would change the terminal: other control characters than line ends, and the
/// invisible ones that reorder text.
pub(crate) fn printable(text: &str) -> String {
    let turns = |c: char| matches!(c, '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    text.chars()
        .map(|c| if (c.is_control() && c != '\n') || turns(c) { '\u{fffd}' } else { c })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_an_agent_wrote_cannot_move_the_cursor() {
        assert_eq!(printable("a\x1b[2Jb\u{202e}c\nd"), "a\u{fffd}[2Jb\u{fffd}c\nd");
        assert_eq!(cell("a\nb"), "a b");
        assert_eq!(chars(&cell(&"x".repeat(100))), CELL_CHARS_MAX);
    }
}
