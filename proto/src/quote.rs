//! How does a text from outside stand in one of our own sentences?
//!
//! Authority: none. Invariant: on one line, short, and without what moves a cursor or reorders
//! text: an error is read in logs and terminals, and whoever sent the text must not write there.

use std::collections::VecDeque;

/// How much of a text is quoted, in characters.
pub const QUOTED_CHARS_MAX: usize = 80;
/// How long a sentence of somebody else's code may be, in characters.
pub const TOLD_CHARS_MAX: usize = 400;
/// How much of its end is kept: that is where such sentences name the place.
const END_CHARS: usize = 80;

/// The beginning of a text, fit for a sentence.
#[must_use]
pub fn quote(text: &str) -> String {
    let mut letters = text.chars();
    let mut quoted: String = letters.by_ref().take(QUOTED_CHARS_MAX).flat_map(harmless).collect();
    if letters.next().is_some() {
        quoted.push('…');
    }
    quoted
}

/// What other code says is wrong, which may quote anything: its beginning, and its end.
#[must_use]
pub fn told(why: &impl std::fmt::Display) -> String {
    within(&why.to_string(), TOLD_CHARS_MAX)
}

/// A sentence of at most so many characters (never less than its end), fit to be read.
#[must_use]
pub fn within(words: &str, chars_max: usize) -> String {
    let mut letters = words.chars().flat_map(harmless);
    let mut text: String = letters.by_ref().take(chars_max.saturating_sub(END_CHARS)).collect();
    // Kept as it comes by: the words may be a whole message from outside.
    let (mut end, mut is_cut) = (VecDeque::with_capacity(END_CHARS), false);
    for letter in letters {
        if end.len() == END_CHARS {
            end.pop_front();
            is_cut = true;
        }
        end.push_back(letter);
    }
    if is_cut {
        text.push('…');
    }
    text.extend(end);
    text
}

/// A letter as it is, or its name where it would do something.
fn harmless(letter: char) -> impl Iterator<Item = char> {
    let turns = matches!(letter, '\u{2028}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    let named = (letter.is_control() || turns).then(|| letter.escape_default());
    let plain = named.is_none().then_some(letter);
    named.into_iter().flatten().chain(plain)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_text_from_outside_stays_on_its_line_and_is_short() {
        assert_eq!(quote("a\nb\u{1b}[2J\u{202e}ä😀"), "a\\nb\\u{1b}[2J\\u{202e}ä😀");
        assert_eq!(quote(&"x".repeat(80)), "x".repeat(80));
        assert_eq!(quote(&"x".repeat(81)), format!("{}…", "x".repeat(80)));
    }

    #[test]
    fn what_others_say_keeps_its_end_which_names_the_place() {
        let words = format!("unknown field `{}`\n at line 1 column 13", "x".repeat(1_000));
        let told = told(&words);
        assert!(told.ends_with("at line 1 column 13") && told.starts_with("unknown field `x"));
        assert!(told.chars().count() == TOLD_CHARS_MAX + 1 && !told.contains('\n'));
    }
}
