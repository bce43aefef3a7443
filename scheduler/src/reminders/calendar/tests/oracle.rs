//! The same answers by brute force: every minute is looked at, one after the other.

use std::collections::BTreeSet;

use jiff::Zoned;
use proptest::prelude::*;

use super::*;

const MINUTE_MS: i64 = 60_000;
const ZONES: [&str; 8] = [
    "UTC",
    "America/New_York",
    "Europe/Berlin",
    "Australia/Lord_Howe",
    "Asia/Kathmandu",
    "Africa/Casablanca",
    "America/Sao_Paulo",
    "Pacific/Apia",
];

/// A field as text and as the set of what it matches; `None` is `*`.
type Field = Option<BTreeSet<i8>>;

#[derive(Clone, Debug)]
struct Pattern {
    minute: Field,
    hour: Field,
    day: Field,
    month: Field,
    weekday: Field,
}

impl Pattern {
    fn text(&self) -> String {
        let fields = [&self.minute, &self.hour, &self.day, &self.month, &self.weekday];
        let texts = fields.map(|field| match field {
            None => "*".to_owned(),
            Some(values) => values.iter().map(ToString::to_string).collect::<Vec<_>>().join(","),
        });
        texts.join(" ")
    }

    fn is_fixed(&self) -> bool {
        self.minute.is_some() && self.hour.is_some()
    }

    fn matches(&self, at: &Zoned) -> bool {
        let has = |field: &Field, value: i8| field.as_ref().is_none_or(|set| set.contains(&value));
        let weekday = at.weekday().to_sunday_zero_offset();
        let day = match (&self.day, &self.weekday) {
            (Some(days), Some(weekdays)) => days.contains(&at.day()) || weekdays.contains(&weekday),
            (_, _) => has(&self.day, at.day()) && has(&self.weekday, weekday),
        };
        day && has(&self.minute, at.minute())
            && has(&self.hour, at.hour())
            && has(&self.month, at.month())
    }
}

fn field(values: std::ops::RangeInclusive<i8>, most: usize) -> impl Strategy<Value = Field> {
    prop::option::of(prop::collection::btree_set(values, 1..=most))
}

fn pattern() -> impl Strategy<Value = Pattern> {
    // Days up to 28 and weekdays, so that every pattern occurs.
    (field(0..=59, 4), field(0..=23, 4), field(1..=28, 3), field(1..=12, 8), field(0..=6, 2))
        .prop_map(|(minute, hour, day, month, weekday)| Pattern {
            minute,
            hour,
            day,
            month,
            weekday,
        })
}

/// Whole minutes of 2010 to 2030.
fn minute_ms() -> impl Strategy<Value = i64> {
    (1_262_304_000_000 / MINUTE_MS..1_893_456_000_000 / MINUTE_MS).prop_map(|m| m * MINUTE_MS)
}

fn policy() -> impl Strategy<Value = DstPolicy> {
    let gap = prop_oneof![Just(GapPolicy::RunAtEnd), Just(GapPolicy::Skip)];
    let fold = prop_oneof![Just(FoldPolicy::First), Just(FoldPolicy::Last), Just(FoldPolicy::Both)];
    (gap, fold).prop_map(|(gap, fold)| DstPolicy { gap, fold })
}

fn local(zone: &TimeZone, at_ms: i64) -> Zoned {
    Timestamp::from_millisecond(at_ms).expect("an instant").to_zoned(zone.clone())
}

/// Whether the clock changes in a span, or so close to it that a gap or a fold reaches in.
fn clock_changes(zone: &TimeZone, from_ms: i64, to_ms: i64) -> bool {
    let margin_ms = 26 * 60 * MINUTE_MS;
    let from = Timestamp::from_millisecond(from_ms - margin_ms).expect("an instant");
    let change = zone.following(from).next();
    change.is_some_and(|change| change.timestamp().as_millisecond() <= to_ms + margin_ms)
}

/// The first minute after `after_ms` whose wall clock matches, within `minutes_max`.
fn brute_force(pattern: &Pattern, zone: &TimeZone, after_ms: i64, minutes_max: i64) -> Option<i64> {
    (1..=minutes_max)
        .map(|minutes| after_ms + minutes * MINUTE_MS)
        .find(|at_ms| pattern.matches(&local(zone, *at_ms)))
}

fn config() -> ProptestConfig {
    ProptestConfig { cases: 256, failure_persistence: None, ..ProptestConfig::default() }
}

proptest! {
    #![proptest_config(config())]

    #[test]
    fn outside_clock_changes_every_pattern_agrees_with_brute_force(
        pattern in pattern(), zone in prop::sample::select(&ZONES[..]),
        policy in policy(), after_ms in minute_ms(),
    ) {
        let minutes_max = 3 * 24 * 60;
        let tz = TimeZone::get(zone).expect("a zone");
        let until_ms = after_ms + minutes_max * MINUTE_MS;
        prop_assume!(!clock_changes(&tz, after_ms, until_ms));
        let found = cron(&pattern.text(), zone, policy).next_after(after_ms).expect("an answer");
        let expected = brute_force(&pattern, &tz, after_ms, minutes_max);
        let near = found.filter(|at_ms| *at_ms <= until_ms);
        prop_assert_eq!(near, expected, "{} in {}", pattern.text(), zone);
    }

    #[test]
    fn a_pattern_with_a_star_agrees_with_brute_force_in_every_night(
        mut pattern in pattern(), zone in prop::sample::select(&ZONES[..]), star in any::<bool>(),
        policy in policy(), near in minute_ms(), back_minutes in 0..3_000_i64,
    ) {
        if star { pattern.minute = None } else { pattern.hour = None }
        pattern.month = None;
        prop_assume!(!pattern.is_fixed());
        let tz = TimeZone::get(zone).expect("a zone");
        // Begin shortly before a change of the clock, if there is one.
        let near = Timestamp::from_millisecond(near).expect("an instant");
        let change = tz.following(near).next().map_or(near, |change| change.timestamp());
        let minute = change.as_millisecond() / MINUTE_MS - back_minutes;
        let after_ms = minute * MINUTE_MS;
        let minutes_max = 4 * 24 * 60;
        let found = cron(&pattern.text(), zone, policy).next_after(after_ms).expect("an answer");
        let expected = brute_force(&pattern, &tz, after_ms, minutes_max);
        let within = found.filter(|at_ms| *at_ms <= after_ms + minutes_max * MINUTE_MS);
        prop_assert_eq!(within, expected, "{} in {}", pattern.text(), zone);
    }

    #[test]
    fn fires_are_strictly_increasing_and_do_not_depend_on_where_one_asks(
        pattern in pattern(), zone in prop::sample::select(&ZONES[..]),
        policy in policy(), near in minute_ms(), back_ms in 0..180_000_000_i64,
    ) {
        let rule = cron(&pattern.text(), zone, policy);
        let tz = TimeZone::get(zone).expect("a zone");
        let near = Timestamp::from_millisecond(near).expect("an instant");
        let change = tz.following(near).next().map_or(near, |change| change.timestamp());
        let mut at_ms = change.as_millisecond() - back_ms;
        for _ in 0..40 {
            let next_ms = rule.next_after(at_ms).expect("an answer").expect("a next fire");
            prop_assert!(at_ms < next_ms);
            // Asked anywhere before it, the answer is the same: nothing lies between.
            let between_ms = at_ms + (next_ms - at_ms) / 2;
            prop_assert_eq!(rule.next_after(between_ms), Ok(Some(next_ms)));
            prop_assert_eq!(rule.next_after(next_ms - 1), Ok(Some(next_ms)));
            at_ms = next_ms;
        }
    }

    #[test]
    fn a_fixed_time_fires_on_each_of_its_days_once_by_default(
        hour in 0..24_i8, minute in 0..60_i8, zone in prop::sample::select(&ZONES[..7]),
        after_ms in minute_ms(),
    ) {
        // Apia is left out: it lost a whole day.
        let rule = cron(&format!("{minute} {hour} * * *"), zone, DstPolicy::default());
        let tz = TimeZone::get(zone).expect("a zone");
        let mut at_ms = rule.next_after(after_ms).expect("an answer").expect("a next fire");
        let mut day = local(&tz, at_ms).date();
        for _ in 0..400 {
            at_ms = rule.next_after(at_ms).expect("an answer").expect("a next fire");
            let next = local(&tz, at_ms);
            prop_assert_eq!(next.date(), day.tomorrow().expect("a day"), "{}", next);
            day = next.date();
        }
    }
}
