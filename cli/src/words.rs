//! How are an error's causes, an instant and a length of time put into words?

use portcullis_proto::time::Ms;

/// An error and its causes in one line.
pub(crate) fn one_sentence(error: &dyn std::error::Error) -> String {
    let mut text = error.to_string();
    let mut cause = error.source();
    while let Some(error) = cause {
        let more = error.to_string();
        // Many errors repeat their cause in their own words.
        if !text.contains(&more) {
            text.push_str(": ");
            text.push_str(&more);
        }
        cause = error.source();
    }
    text
}

/// `2026-12-01 04:15:51 UTC`.
pub(crate) fn instant(at: Ms) -> String {
    match jiff::Timestamp::from_millisecond(at.0) {
        Ok(at) => at.strftime("%Y-%m-%d %H:%M:%S UTC").to_string(),
        Err(_) => at.to_string(),
    }
}

/// The two largest units of a length of time: `250 ms`, `1.5 s`, `30 s`, `2 min 5 s`, `1 h 30 min`.
pub(crate) fn length(ms: i64) -> String {
    let ms = ms.max(0);
    let two = |big: i64, big_unit: &str, small: i64, small_unit: &str| {
        if small == 0 {
            format!("{big} {big_unit}")
        } else {
            format!("{big} {big_unit} {small} {small_unit}")
        }
    };
    let seconds = ms / 1_000;
    match seconds {
        0 => format!("{ms} ms"),
        1..10 if ms % 1_000 / 100 != 0 => format!("{seconds}.{} s", ms % 1_000 / 100),
        1..60 => format!("{seconds} s"),
        60..3_600 => two(seconds / 60, "min", seconds % 60, "s"),
        3_600..86_400 => two(seconds / 3_600, "h", seconds % 3_600 / 60, "min"),
        _ => two(seconds / 86_400, "d", seconds % 86_400 / 3_600, "h"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lengths_are_told_in_two_units() {
        let cases = [
            (-5, "0 ms"),
            (250, "250 ms"),
            (1_000, "1 s"),
            (1_580, "1.5 s"),
            (30_000, "30 s"),
            (59_999, "59 s"),
            (125_000, "2 min 5 s"),
            (1_800_000, "30 min"),
            (5_400_000, "1 h 30 min"),
            (90_000_000, "1 d 1 h"),
        ];
        for (ms, text) in cases {
            assert_eq!(length(ms), text);
        }
    }

    #[test]
    fn instants_are_told_in_utc() {
        assert_eq!(instant(Ms(1_796_098_551_242)), "2026-12-01 04:15:51 UTC");
    }
}
