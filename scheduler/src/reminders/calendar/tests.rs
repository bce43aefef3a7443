//! What every rule promises, and the refusals.

mod daylight;
mod oracle;

use super::*;

pub(super) fn ms(text: &str) -> i64 {
    text.parse::<Timestamp>().expect("an instant").as_millisecond()
}

#[track_caller]
pub(super) fn cron(pattern: &str, timezone: &str, policy: DstPolicy) -> Rule {
    Rule::parse_cron(pattern, timezone, policy).expect(pattern)
}

/// The next `count` fires after an instant, as local times with their offset.
#[track_caller]
pub(super) fn fires(rule: &Rule, timezone: &str, after: &str, count: usize) -> Vec<String> {
    let zone = TimeZone::get(timezone).expect("a zone");
    let mut at_ms = ms(after);
    let mut local = Vec::new();
    for _ in 0..count {
        at_ms = rule.next_after(at_ms).expect("an answer").expect("a next fire");
        let at = Timestamp::from_millisecond(at_ms).expect("an instant").to_zoned(zone.clone());
        local.push(at.strftime("%Y-%m-%dT%H:%M%:z").to_string());
    }
    local
}

#[track_caller]
fn refused(pattern: &str, timezone: &str) -> String {
    match Rule::parse_cron(pattern, timezone, DstPolicy::default()) {
        Ok(_) => panic!("{pattern} in {timezone} must be refused"),
        Err(why) => why.to_string(),
    }
}

#[test]
fn a_bad_cron_rule_is_refused_with_the_reason() {
    let cases = [
        ("* * * * * *", "UTC", "has 6 fields, it needs 5"),
        ("0 0 * *", "UTC", "has 4 fields, it needs 5"),
        ("", "UTC", "has 0 fields"),
        ("@daily", "UTC", "has 1 fields"),
        ("0 0 30 2 *", "UTC", "never occurs"),
        ("0 0 31 2,4,6,9,11 *", "UTC", "never occurs"),
        ("61 * * * *", "UTC", "is not valid"),
        ("* 24 * * *", "UTC", "is not valid"),
        ("* * 0 * *", "UTC", "is not valid"),
        ("* * * 13 *", "UTC", "is not valid"),
        ("* * * * 8", "UTC", "is not valid"),
        ("*/0 * * * *", "UTC", "is not valid"),
        ("30-10 * * * *", "UTC", "is not valid"),
        ("x * * * *", "UTC", "`x` means nothing in the minute field"),
        ("0 FRI * * *", "UTC", "`FRI` means nothing in the hour field"),
        ("0 0 * * JAN", "UTC", "`JAN` means nothing in the day-of-week field"),
        ("0 0 * MON *", "UTC", "`MON` means nothing in the month field"),
        ("0 0 * * *", "Mars/Olympus", "unknown time zone `Mars/Olympus`"),
        ("0 0 * * *", "", "unknown time zone ``"),
        ("0 0 * * *", "localtime", "unknown time zone"),
        ("0 0 * * *", "right/Europe/Berlin", "unknown time zone"),
        ("0 0 * * *", "EST5EDT,M3.2.0,M11.1.0", "unknown time zone"),
        ("0 0 * * *", "../../etc/passwd", "unknown time zone"),
        ("0 0 * * *", "Etc/Unknown", "unknown time zone"),
    ];
    for (pattern, timezone, reason) in cases {
        let why = refused(pattern, timezone);
        assert!(why.contains(reason), "{pattern} in {timezone}: {why}");
    }
    assert!(refused(&"0,".repeat(200), "UTC").contains("the limit is 256"));
}

#[test]
fn weekdays_count_from_sunday_which_is_both_0_and_7() {
    for pattern in ["0 0 * * 0", "0 0 * * 7", "0 0 * * SUN", "0 0 * * sun"] {
        let found =
            fires(&cron(pattern, "UTC", DstPolicy::default()), "UTC", "2025-01-01T00:00Z", 2);
        assert_eq!(found, ["2025-01-05T00:00+00:00", "2025-01-12T00:00+00:00"], "{pattern}");
    }
    let weekend = cron("0 0 * * 6-7", "UTC", DstPolicy::default());
    let found = fires(&weekend, "UTC", "2025-01-01T00:00Z", 3);
    assert_eq!(found.join(" ").replace("T00:00+00:00", ""), "2025-01-04 2025-01-05 2025-01-11");
}

#[test]
fn day_of_month_or_day_of_week_is_enough() {
    let rule = cron("0 0 13 * 5", "UTC", DstPolicy::default());
    let found = fires(&rule, "UTC", "2025-05-31T00:00Z", 6);
    let days = "2025-06-06 2025-06-13 2025-06-20 2025-06-27 2025-07-04 2025-07-11";
    assert_eq!(found.join(" ").replace("T00:00+00:00", ""), days);
    let found = fires(&rule, "UTC", "2025-07-11T00:00Z", 1);
    assert_eq!(found, ["2025-07-13T00:00+00:00"], "a Sunday, the 13th");
}

#[test]
fn rare_days_are_found() {
    let cases = [
        ("0 0 29 2 *", "2025-01-01T00:00Z", "2028-02-29T00:00+00:00"),
        ("0 0 29 2 *", "2096-03-01T00:00Z", "2104-02-29T00:00+00:00"),
        ("0 0 29 2 +1", "2025-01-01T00:00Z", "2044-02-29T00:00+00:00"),
        ("0 0 L * *", "2025-02-01T00:00Z", "2025-02-28T00:00+00:00"),
        ("0 0 * * 5#2", "2025-02-01T00:00Z", "2025-02-14T00:00+00:00"),
        ("59 23 31 12 *", "2025-12-31T23:59Z", "2026-12-31T23:59+00:00"),
    ];
    for (pattern, after, expected) in cases {
        let rule = cron(pattern, "UTC", DstPolicy::default());
        assert_eq!(fires(&rule, "UTC", after, 1), [expected], "{pattern}");
    }
}

#[test]
fn the_next_fire_is_strictly_later_to_the_millisecond() {
    let rule = cron("0 9 * * *", "Europe/Berlin", DstPolicy::default());
    let nine = ms("2025-01-15T09:00+01:00");
    let day_ms = 24 * 3_600 * 1_000;
    let cases = [
        (nine - 1, nine),
        (nine, nine + day_ms),
        (nine + 1, nine + day_ms),
        (nine + 999, nine + day_ms),
        (nine - 60_000, nine),
    ];
    for (after_ms, expected) in cases {
        assert_eq!(rule.next_after(after_ms), Ok(Some(expected)), "{after_ms}");
    }
}

#[test]
fn an_instant_outside_the_calendar_is_an_error() {
    let rule = cron("0 9 * * *", "Europe/Berlin", DstPolicy::default());
    for at_ms in [i64::MIN, i64::MAX] {
        assert_eq!(rule.next_after(at_ms), Err(CalendarError::OutOfRange { at_ms }));
    }
}

#[test]
fn an_interval_keeps_its_anchor() {
    let rule = Rule::every(60_000, 10_000).expect("a minute");
    let cases = [
        (i64::MIN, 10_000),
        (0, 10_000),
        (9_999, 10_000),
        (10_000, 70_000),
        (69_999, 70_000),
        (70_000, 130_000),
        (10_000 + 60_000 * 1_000_000 + 1, 10_000 + 60_000 * 1_000_001),
    ];
    for (after_ms, expected) in cases {
        assert_eq!(rule.next_after(after_ms), Ok(Some(expected)), "{after_ms}");
    }
    assert_eq!(rule.next_after(i64::MAX), Ok(None));
    let old = Rule::every(60_000, i64::MIN).expect("an anchor");
    assert_eq!(old.next_after(i64::MAX), Ok(None), "too far apart to count");
}

#[test]
fn periods_have_bounds_and_units() {
    assert_eq!(Rule::parse_every("90m", 7), Rule::every(5_400_000, 7));
    assert_eq!(Rule::parse_every(" 1h 30m ", 7), Rule::every(5_400_000, 7));
    assert_eq!(Rule::parse_every("PT36H", 7), Rule::every(129_600_000, 7));
    for short in [-1, 0, 999] {
        assert!(matches!(Rule::every(short, 0), Err(CalendarError::PeriodTooShort { .. })));
    }
    assert!(matches!(Rule::parse_every("999ms", 0), Err(CalendarError::PeriodTooShort { .. })));
    assert!(matches!(Rule::parse_every("1h ago", 0), Err(CalendarError::PeriodTooShort { .. })));
    let long = Rule::every(PERIOD_MS_MAX + 1, 0);
    assert!(matches!(long, Err(CalendarError::PeriodTooLong { .. })));
    for text in ["", "15", "1d", "1 month", "soon"] {
        let answer = Rule::parse_every(text, 0);
        assert!(matches!(answer, Err(CalendarError::PeriodUnreadable { .. })), "{text}");
    }
}

#[test]
fn a_one_shot_fires_once() {
    let rule = Rule::at(5_000);
    assert_eq!(rule.next_after(4_999), Ok(Some(5_000)));
    assert_eq!(rule.next_after(5_000), Ok(None));
}

#[test]
fn a_one_shot_is_an_instant_or_a_clear_local_time() {
    let nine = Rule::at(ms("2025-07-01T07:00Z"));
    for text in ["2025-07-01T09:00:00+02:00", "2025-07-01T07:00:00Z", "2025-07-01 07:00Z"] {
        assert_eq!(Rule::parse_at(text, None).as_ref(), Ok(&nine), "{text}");
    }
    assert_eq!(Rule::parse_at("2025-07-01T09:00", Some("Europe/Berlin")), Ok(nine));
    let cases = [
        ("2025-07-01T09:00", None, "has no offset"),
        ("2025-03-30T02:30", Some("Europe/Berlin"), "does not exist in Europe/Berlin"),
        ("2025-10-26T02:30", Some("Europe/Berlin"), "happens twice in Europe/Berlin"),
        ("2025-02-30T02:30", Some("Europe/Berlin"), "is not an instant"),
        ("tomorrow", Some("Europe/Berlin"), "is not an instant"),
        ("2025-07-01T09:00", Some("Europe/Atlantis"), "unknown time zone"),
    ];
    for (text, timezone, reason) in cases {
        let why = Rule::parse_at(text, timezone).expect_err(text).to_string();
        assert!(why.contains(reason), "{text}: {why}");
    }
}

#[test]
fn a_rule_can_be_shown_as_it_was_written() {
    let policy = DstPolicy { gap: GapPolicy::RunAtEnd, fold: FoldPolicy::Last };
    let rule = CronRule::parse("  */5   2 * * mon ", "europe/berlin", policy).expect("a rule");
    assert_eq!(rule.pattern(), "*/5 2 * * mon");
    assert_eq!(rule.timezone(), "Europe/Berlin");
    assert_eq!(rule.policy(), policy, "even where the pattern follows the wall clock");
}
