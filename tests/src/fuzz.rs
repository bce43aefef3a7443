//! Is what comes from outside read without harm? Valid documents, broken on purpose, tell.
//!
//! Authority: the seeds are written by the product's own encoders; a target's promise is its
//! `check`. What is played follows from one number, so a finding is played again by its seed, and
//! without it: the input itself is written to a file.
//! Invariant: stable Rust and no instrumentation. What guides instead is the answer: an input that
//! got an answer of a kind not seen before joins the seeds, so that its neighbours are tried too.

mod json;
mod mutate;
pub mod targets;

use std::collections::BTreeSet;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::time::{Duration, Instant};

use crate::simulation::chance::Chance;

/// Inputs that got a new kind of answer, kept beside a target's own seeds at most.
const KEPT_MAX: usize = 512;
/// A longer input is only kept among the seeds by the target itself.
const KEPT_BYTES_MAX: usize = 32 * 1024;
/// How much of an answer tells its kind.
const KIND_BYTES_MAX: usize = 80;
/// How many kinds of answers are told apart.
const KINDS_MAX: usize = 4_096;

/// Something that reads bytes from outside.
#[derive(Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// What must hold, in words.
    pub promise: &'static str,
    /// Valid documents, made by our own encoders.
    pub seeds: fn() -> Vec<Vec<u8>>,
    /// What became of an input: the kind of answer, or which promise was broken.
    pub check: fn(&[u8]) -> Result<String, String>,
    /// The most memory that one input may take beyond a multiple of its own length, in bytes.
    pub memory_bytes: usize,
    /// How many inputs the tests play.
    pub slice: u64,
}

/// Measures what one input takes. A binary may install an allocator that can tell.
#[derive(Clone, Copy)]
pub struct Memory {
    pub reset: fn(),
    pub in_use: fn() -> usize,
    pub peak: fn() -> usize,
}

/// Within which bounds a target is played.
#[derive(Clone, Copy)]
pub struct Bounds {
    pub executions: u64,
    pub time: Duration,
    /// How much of a processor's time one input may take.
    pub each: Duration,
    pub memory: Option<Memory>,
}

/// A promise that was broken, and by what.
#[derive(Clone, Debug)]
pub struct Broken {
    pub input: Vec<u8>,
    pub why: String,
}

/// What became of a target.
#[derive(Debug, Default)]
pub struct Played {
    pub executions: u64,
    pub seeds: usize,
    /// How many different kinds of answers there were.
    pub kinds: usize,
    pub slowest: Duration,
    pub largest_bytes: usize,
    pub broken: Option<Broken>,
}

/// Plays a target: its seeds as they are, then changed in ways that follow from `seed`.
#[must_use]
pub fn play(target: &Target, seed: u64, bounds: &Bounds) -> Played {
    let mut corpus = (target.seeds)();
    let own = corpus.len();
    let (mut played, mut kinds) = (Played { seeds: own, ..Played::default() }, BTreeSet::new());
    let (mut chance, began) = (Chance::new(seed), Instant::now());
    while played.executions < bounds.executions {
        // The clock is looked at now and then: it costs as much as a small input.
        if played.executions % 64 == 0 && bounds.time <= began.elapsed() {
            break;
        }
        let at = usize::try_from(played.executions).unwrap_or(usize::MAX);
        let input = match corpus.get(at).filter(|_| at < own) {
            Some(untouched) => untouched.clone(),
            None => mutate::mutate(&corpus, &mut chance),
        };
        played.executions += 1;
        match once(target, &input, bounds, &mut played) {
            Err(why) => {
                played.broken = Some(Broken { input, why });
                break;
            }
            Ok(kind) => {
                let room = corpus.len() < own + KEPT_MAX && input.len() <= KEPT_BYTES_MAX;
                if kinds.len() < KINDS_MAX && kinds.insert(kind) && room {
                    corpus.push(input);
                }
            }
        }
    }
    played.kinds = kinds.len();
    played
}

/// One input, with its time and its memory; a panic is a broken promise.
fn once(
    target: &Target,
    input: &[u8],
    bounds: &Bounds,
    played: &mut Played,
) -> Result<String, String> {
    let before = bounds.memory.map_or(0, |memory| {
        (memory.reset)();
        (memory.in_use)()
    });
    let began = processor_time();
    let kind = check(target, input)?;
    let took = processor_time().saturating_sub(began);
    let bytes = bounds.memory.map_or(0, |memory| (memory.peak)().saturating_sub(before));
    played.slowest = played.slowest.max(took);
    played.largest_bytes = played.largest_bytes.max(bytes);
    if bounds.each < took {
        return Err(format!("it took {took:?}; an input may take {:?}", bounds.each));
    }
    let allowed = target.memory_bytes + 64 * input.len();
    if allowed < bytes {
        return Err(format!("it took {bytes} bytes; {} bytes may take {allowed}", input.len()));
    }
    Ok(kind)
}

/// What this thread has used of a processor: a machine that is busy with something else says
/// nothing about the input.
fn processor_time() -> Duration {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    let seconds = u64::try_from(time.tv_sec).unwrap_or_default();
    Duration::new(seconds, u32::try_from(time.tv_nsec).unwrap_or_default())
}

/// Gives one input to a target, as a replay does.
///
/// # Errors
/// Which promise was broken; a panic is one.
pub fn check(target: &Target, input: &[u8]) -> Result<String, String> {
    match catch_unwind(AssertUnwindSafe(|| (target.check)(input))) {
        Ok(answer) => answer.map(|kind| kind_of(&kind)),
        Err(what) => {
            let text = what.downcast_ref::<String>().map(String::as_str);
            let text = text.or_else(|| what.downcast_ref::<&str>().copied());
            Err(format!("it panicked: {}", text.unwrap_or("without words")))
        }
    }
}

/// Answers that differ in numbers, or in what they quote, are of one kind.
fn kind_of(answer: &str) -> String {
    let (mut kind, mut quoted) = (String::new(), false);
    for letter in answer.chars() {
        quoted ^= letter == '`' || letter == '"';
        if !quoted && (letter.is_ascii_alphabetic() || "+.|".contains(letter)) {
            kind.push(letter);
        }
        if KIND_BYTES_MAX <= kind.len() {
            break;
        }
    }
    kind
}

/// What an error tells: one line, not too long, and something of it names the place.
///
/// # Errors
/// The words, if they are none of that.
pub fn told(why: &impl std::fmt::Display, places: &[&str]) -> Result<String, String> {
    const WORDS_CHARS_MAX: usize = 2_500;
    let words = why.to_string();
    if words.chars().any(char::is_control) {
        return Err(format!("an error is more than one line: {words:?}"));
    }
    let letters = words.chars().count();
    if letters == 0 || WORDS_CHARS_MAX < letters {
        return Err(format!("an error has {letters} characters: {words:.200}"));
    }
    if !places.is_empty() && !places.iter().any(|place| words.contains(place)) {
        return Err(format!("an error names no place: {words}"));
    }
    Ok(words)
}

/// Holds, or says which promise was broken.
///
/// # Errors
/// The promise.
pub fn hold(holds: bool, promise: impl FnOnce() -> String) -> Result<(), String> {
    if holds { Ok(()) } else { Err(promise()) }
}
