//! The nights when the clock changes: New York, Lord Howe (half an hour), Berlin, Sao Paulo (at
//! midnight), Samoa (a whole day).

use super::*;

const NEW_YORK: &str = "America/New_York";
const LORD_HOWE: &str = "Australia/Lord_Howe";
const BERLIN: &str = "Europe/Berlin";
const SAO_PAULO: &str = "America/Sao_Paulo";

const SKIP: DstPolicy = DstPolicy { gap: GapPolicy::Skip, fold: FoldPolicy::First };
const LAST: DstPolicy = DstPolicy { gap: GapPolicy::RunAtEnd, fold: FoldPolicy::Last };
const BOTH: DstPolicy = DstPolicy { gap: GapPolicy::RunAtEnd, fold: FoldPolicy::Both };

struct Case {
    pattern: &'static str,
    zone: &'static str,
    after: &'static str,
    policy: DstPolicy,
    expected: &'static [&'static str],
}

#[track_caller]
fn check(cases: &[Case]) {
    for Case { pattern, zone, after, policy, expected } in cases {
        let rule = cron(pattern, zone, *policy);
        let found = fires(&rule, zone, after, expected.len());
        assert_eq!(found, *expected, "{pattern} in {zone} with {policy:?}");
    }
}

fn by_default(
    pattern: &'static str,
    zone: &'static str,
    after: &'static str,
    expected: &'static [&'static str],
) -> Case {
    Case { pattern, zone, after, policy: DstPolicy::default(), expected }
}

#[test]
fn a_fixed_time_in_the_gap_fires_once_when_the_gap_ends() {
    check(&[
        by_default(
            "30 2 * * *",
            NEW_YORK,
            "2025-03-08T12:00-05:00",
            &["2025-03-09T03:00-04:00", "2025-03-10T02:30-04:00"],
        ),
        by_default(
            "0 2,14 * * *",
            NEW_YORK,
            "2025-03-08T15:00-05:00",
            &["2025-03-09T03:00-04:00", "2025-03-09T14:00-04:00", "2025-03-10T02:00-04:00"],
        ),
        // Several missed times are one fire, and one with a time due at the end anyway.
        by_default(
            "0,20,40 2,3 * * *",
            NEW_YORK,
            "2025-03-08T12:00-05:00",
            &["2025-03-09T03:00-04:00", "2025-03-09T03:20-04:00"],
        ),
        by_default(
            "30 1,13 * * *",
            NEW_YORK,
            "2025-03-09T00:00-05:00",
            &["2025-03-09T01:30-05:00", "2025-03-09T13:30-04:00"],
        ),
        by_default(
            "15 2 * * *",
            LORD_HOWE,
            "2025-10-04T12:00+10:30",
            &["2025-10-05T02:30+11:00", "2025-10-06T02:15+11:00"],
        ),
        by_default(
            "30 2 * * *",
            BERLIN,
            "2025-03-29T12:00+01:00",
            &["2025-03-30T03:00+02:00", "2025-03-31T02:30+02:00"],
        ),
        by_default(
            "0 0 * * *",
            SAO_PAULO,
            "2018-11-03T12:00-03:00",
            &["2018-11-04T01:00-02:00", "2018-11-05T00:00-02:00"],
        ),
        // Samoa had no 30 December 2011.
        by_default(
            "0 9 * * *",
            "Pacific/Apia",
            "2011-12-29T08:00-10:00",
            &["2011-12-29T09:00-10:00", "2011-12-31T00:00+14:00", "2011-12-31T09:00+14:00"],
        ),
    ]);
}

#[test]
fn a_fixed_time_in_the_gap_can_be_skipped() {
    let skip =
        |pattern, zone, after, expected| Case { pattern, zone, after, policy: SKIP, expected };
    check(&[
        skip("30 2 * * *", NEW_YORK, "2025-03-08T12:00-05:00", &["2025-03-10T02:30-04:00"]),
        skip(
            "0 2,14 * * *",
            NEW_YORK,
            "2025-03-08T15:00-05:00",
            &["2025-03-09T14:00-04:00", "2025-03-10T02:00-04:00"],
        ),
        skip("15 2 * * *", LORD_HOWE, "2025-10-04T12:00+10:30", &["2025-10-06T02:15+11:00"]),
        skip("0 0 * * *", SAO_PAULO, "2018-11-03T12:00-03:00", &["2018-11-05T00:00-02:00"]),
    ]);
}

#[test]
fn a_fixed_time_that_happens_twice_fires_on_the_first_pass() {
    check(&[
        by_default(
            "30 1 * * *",
            NEW_YORK,
            "2025-11-01T12:00-04:00",
            &["2025-11-02T01:30-04:00", "2025-11-03T01:30-05:00"],
        ),
        by_default(
            "30 1,13 * * *",
            NEW_YORK,
            "2025-11-01T14:00-04:00",
            &["2025-11-02T01:30-04:00", "2025-11-02T13:30-05:00", "2025-11-03T01:30-05:00"],
        ),
        by_default(
            "0,30 1 * * *",
            NEW_YORK,
            "2025-11-01T14:00-04:00",
            &["2025-11-02T01:00-04:00", "2025-11-02T01:30-04:00", "2025-11-03T01:00-05:00"],
        ),
        // Asked between the passes, and on the second one.
        by_default("30 1 * * *", NEW_YORK, "2025-11-02T01:45-04:00", &["2025-11-03T01:30-05:00"]),
        by_default("30 1 * * *", NEW_YORK, "2025-11-02T01:10-05:00", &["2025-11-03T01:30-05:00"]),
        by_default(
            "45 1 * * *",
            LORD_HOWE,
            "2025-04-05T12:00+11:00",
            &["2025-04-06T01:45+11:00", "2025-04-07T01:45+10:30"],
        ),
        by_default(
            "30 2 * * *",
            BERLIN,
            "2025-10-25T12:00+02:00",
            &["2025-10-26T02:30+02:00", "2025-10-27T02:30+01:00"],
        ),
        // 23:30 of the 17th comes back when midnight becomes 23:00.
        by_default(
            "30 23 * * *",
            SAO_PAULO,
            "2018-02-17T12:00-02:00",
            &["2018-02-17T23:30-02:00", "2018-02-18T23:30-03:00"],
        ),
    ]);
}

#[test]
fn a_fixed_time_that_happens_twice_can_fire_last_or_both() {
    let case = |policy, pattern, expected| Case {
        pattern,
        zone: NEW_YORK,
        after: "2025-11-01T14:00-04:00",
        policy,
        expected,
    };
    check(&[
        case(LAST, "30 1 * * *", &["2025-11-02T01:30-05:00", "2025-11-03T01:30-05:00"]),
        case(
            LAST,
            "30 0,1,2 * * *",
            &["2025-11-02T00:30-04:00", "2025-11-02T01:30-05:00", "2025-11-02T02:30-05:00"],
        ),
        case(
            BOTH,
            "0,30 1 * * *",
            &[
                "2025-11-02T01:00-04:00",
                "2025-11-02T01:30-04:00",
                "2025-11-02T01:00-05:00",
                "2025-11-02T01:30-05:00",
                "2025-11-03T01:00-05:00",
            ],
        ),
    ]);
}

#[test]
fn a_pattern_with_a_star_follows_the_clock_on_the_wall() {
    check(&[
        by_default(
            "*/30 * * * *",
            NEW_YORK,
            "2025-11-02T00:45-04:00",
            &[
                "2025-11-02T01:00-04:00",
                "2025-11-02T01:30-04:00",
                "2025-11-02T01:00-05:00",
                "2025-11-02T01:30-05:00",
                "2025-11-02T02:00-05:00",
            ],
        ),
        by_default(
            "*/30 1 * * *",
            NEW_YORK,
            "2025-11-02T00:45-04:00",
            &[
                "2025-11-02T01:00-04:00",
                "2025-11-02T01:30-04:00",
                "2025-11-02T01:00-05:00",
                "2025-11-02T01:30-05:00",
                "2025-11-03T01:00-05:00",
            ],
        ),
        by_default(
            "*/30 * * * *",
            NEW_YORK,
            "2025-03-09T01:15-05:00",
            &["2025-03-09T01:30-05:00", "2025-03-09T03:00-04:00"],
        ),
        by_default(
            "15 * * * *",
            LORD_HOWE,
            "2025-10-05T01:00+10:30",
            &["2025-10-05T01:15+10:30", "2025-10-05T03:15+11:00"],
        ),
        // The policy is for fixed times only.
        Case {
            pattern: "*/20 2 * * *",
            zone: BERLIN,
            after: "2025-03-29T12:00+01:00",
            policy: LAST,
            expected: &["2025-03-31T02:00+02:00"],
        },
    ]);
}

#[test]
fn asking_at_the_very_change_of_the_clock_repeats_nothing() {
    // At 03:00 the missed 02:30 has just fired.
    let rule = cron("30 2 * * *", NEW_YORK, DstPolicy::default());
    let gap_end = ms("2025-03-09T03:00-04:00");
    assert_eq!(rule.next_after(gap_end - 1), Ok(Some(gap_end)));
    assert_eq!(rule.next_after(gap_end), Ok(Some(ms("2025-03-10T02:30-04:00"))));
    // A fixed time at the instant the second pass begins belongs to the second pass.
    let rule = cron("0 1 * * *", NEW_YORK, DstPolicy::default());
    let second_pass = ms("2025-11-02T01:00-05:00");
    assert_eq!(rule.next_after(second_pass - 1), Ok(Some(ms("2025-11-03T01:00-05:00"))));
    let half_past = cron("30 1 * * *", NEW_YORK, DstPolicy::default());
    assert_eq!(half_past.next_after(second_pass), Ok(Some(ms("2025-11-03T01:30-05:00"))));
    let rule = cron("0 1 * * *", NEW_YORK, LAST);
    assert_eq!(rule.next_after(second_pass - 1), Ok(Some(second_pass)));
    // 02:00 exists once: it is where the second pass ends.
    let rule = cron("0 2 * * *", NEW_YORK, DstPolicy::default());
    let found = fires(&rule, NEW_YORK, "2025-11-01T12:00-04:00", 2);
    assert_eq!(found, ["2025-11-02T02:00-05:00", "2025-11-03T02:00-05:00"]);
}
