//! Where in a value are we? A list on the stack, so that only an error costs memory.

use std::fmt;

/// Longest key an error shows, in characters.
const KEY_CHARS_MAX: usize = 64;

pub(super) enum Place<'p> {
    Root,
    Key(&'p Place<'p>, &'p str),
    Index(&'p Place<'p>, usize),
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Root => f.write_str("$"),
            Self::Key(parent, key) => write!(f, "{parent}.{}", shorten(key)),
            Self::Index(parent, index) => write!(f, "{parent}[{index}]"),
        }
    }
}

/// Cuts text that an error quotes, so that a message stays one line.
pub(super) fn shorten(text: &str) -> String {
    text.chars().take(KEY_CHARS_MAX).flat_map(char::escape_debug).collect()
}
