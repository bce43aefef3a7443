//! What is promised, in the order in which the books name it.

/// What is promised, and how a search names it.
pub const PROMISES: [(&str, &str); 13] = [
    ("I1", "I1 a gated call acts only on enough genuine, timely yeses to exactly this"),
    ("I2", "I2 a call that must happen at most once happens at most once"),
    ("I3", "I3 one resolution of a request is acknowledged, and stands"),
    ("I4", "I4 a claim is exclusive until it is given back or lapses"),
    ("I5", "I5 a live run has one timer entry, not after its hard cap"),
    ("I6", "I6 an acknowledged end stays as it is"),
    ("I7", "I7 nothing starts that is over, cancelled, void, forbidden or on a wrong clock"),
    ("I8", "I8 a parked run waits for somebody and has nothing to do"),
    ("I9", "I9 one run a job, one child a call, within the bounds they were given"),
    ("I10", "I10 an ended run leaves nothing open, and a timer for what is yet to be told"),
    ("V1", "V1 a word counts only if it is genuine, entitled, in time and about this call"),
    ("D1", "D1 a refusal is final"),
    ("L1", "L1 nothing that time has decided goes unnoticed"),
];
