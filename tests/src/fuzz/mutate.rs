//! Changes documents: bit by bit, piece by piece, and, where they are JSON, by their structure.

use super::json::Tree;
use crate::simulation::chance::Chance;

/// No input grows beyond this, in bytes.
const INPUT_BYTES_MAX: usize = 2 * 1024 * 1024;

/// Pieces that mean something to one of the readers, and bytes that are no text.
const PIECES: [&[u8]; 46] = [
    b"\xff",
    b"\xc3",
    b"\xed\xa0\x80",
    b"\xf0\x9f\x98\x80",
    b"\xef\xbb\xbf",
    b"\0",
    b"\n",
    b"\r\n",
    b"\n\n",
    b"\x1b[2J",
    b"\xe2\x80\xa8",
    b"\"",
    b"'",
    b"{",
    b"}",
    b"[",
    b"]",
    b",",
    b":",
    b"=",
    b"&",
    b"%",
    b"%00",
    b"%2e",
    b"{{",
    b"}}",
    b"{{ input.a }}",
    b"-",
    b"0",
    b"9999999999999999999",
    b"1e309",
    b"true",
    b"null",
    b"# ",
    b"[agents.x]\n",
    b"\"\"\"",
    b"*/5 ",
    b"L",
    b"1-7",
    b"59",
    b"MON#5",
    b"v1,",
    b"sha256=",
    b"charset=utf-16",
    b"payload=",
    b" ",
];

/// A document of the corpus, changed at least once.
pub(super) fn mutate(corpus: &[Vec<u8>], chance: &mut Chance) -> Vec<u8> {
    let mut input = any(corpus, chance).clone();
    for _ in 0..chance.between(1, 4) {
        // Half of the changes keep the document a document, where it is one.
        let changed = if chance.one_in(2) { by_structure(&input, corpus, chance) } else { None };
        match changed {
            Some(changed) => input = changed,
            None => by_bytes(&mut input, corpus, chance),
        }
    }
    input.truncate(INPUT_BYTES_MAX);
    input
}

fn any<'a>(corpus: &'a [Vec<u8>], chance: &mut Chance) -> &'a Vec<u8> {
    &corpus[index(corpus.len(), chance)]
}

/// Less than `length`, or 0.
fn index(length: usize, chance: &mut Chance) -> usize {
    let length = u64::try_from(length.max(1)).expect("a length");
    usize::try_from(chance.below(length)).expect("less than a length")
}

/// Changes the JSON that is all of the input, or all that follows its first empty line.
fn by_structure(input: &[u8], corpus: &[Vec<u8>], chance: &mut Chance) -> Option<Vec<u8>> {
    let (head, mut tree) = split(input)?;
    let head = head.to_vec();
    let other = split(any(corpus, chance)).map_or_else(|| tree.clone(), |(_, other)| other);
    tree.change(&other, chance);
    Some([head, tree.write(chance)].concat())
}

fn split(input: &[u8]) -> Option<(&[u8], Tree)> {
    if let Some(tree) = Tree::of(input) {
        return Some((&[], tree));
    }
    let at = input.windows(2).position(|pair| pair == b"\n\n")? + 2;
    let (head, body) = input.split_at(at);
    Some((head, Tree::of(body)?))
}

fn by_bytes(input: &mut Vec<u8>, corpus: &[Vec<u8>], chance: &mut Chance) {
    let (at, to) = (index(input.len(), chance), index(input.len(), chance));
    let (low, high) = (at.min(to), at.max(to));
    match chance.below(10) {
        0 | 1 => {
            if let Some(byte) = input.get_mut(at) {
                *byte ^= 1 << chance.below(8);
            }
        }
        2 => {
            if let Some(byte) = input.get_mut(at) {
                *byte = u8::try_from(chance.below(256)).expect("a byte");
            }
        }
        3 => input.truncate(at),
        4 => {
            // Short pieces more often than long ones: a document without its middle is no document.
            let high = high.min(low + index(16, chance) + 1).min(input.len());
            drop(input.drain(low..high));
        }
        5 | 6 => {
            let piece = PIECES[index(PIECES.len(), chance)];
            drop(input.splice(at..at, piece.iter().copied()));
        }
        7 => {
            let piece = input.get(low..high).unwrap_or_default().to_vec();
            drop(input.splice(at..at, piece));
        }
        8 => {
            let other = any(corpus, chance);
            let from = index(other.len(), chance);
            input.truncate(at);
            input.extend_from_slice(&other[from..]);
        }
        _ => change_number(input, at, chance),
    }
}

/// Puts another number in place of the digits around `at`, if there are any after it.
fn change_number(input: &mut Vec<u8>, at: usize, chance: &mut Chance) {
    let Some(from) = input.iter().skip(at).position(u8::is_ascii_digit) else { return };
    let from = at + from;
    let digits = input.iter().skip(from).take_while(|byte| byte.is_ascii_digit()).count();
    let number = match chance.below(6) {
        0 => "0".to_owned(),
        1 => chance.next().to_string(),
        2 => chance.below(100).to_string(),
        3 => "-1".to_owned(),
        4 => i64::MAX.to_string(),
        _ => "1".repeat(index(40, chance)),
    };
    drop(input.splice(from..from + digits, number.into_bytes()));
}
