//! When reminders fire: cron patterns, periods, instants, zones.

use portcullis_scheduler::reminders::calendar::{
    CalendarError, DstPolicy, FoldPolicy, GapPolicy, PERIOD_MS_MAX, PERIOD_MS_MIN, Rule,
};

use super::super::{Target, hold, told};
use super::LARGE;

/// Where the search begins: now, a clock change in spring, one in autumn, far away, and nowhere.
const STARTS_MS: [i64; 6] =
    [1_767_225_600_000, 1_774_746_000_000, 1_792_889_999_999, 0, 4_102_444_800_000, i64::MAX - 1];

pub(super) const CALENDAR: Target = Target {
    name: "calendar",
    promise: "a rule that is read answers later instants only, each once, and reads back as itself",
    seeds: || {
        let texts = [
            "0 9 * * MON-FRI\nEurope/Berlin\n15m",
            "*/5 2,14 L * *\nAmerica/New_York\n1h 30m",
            "30 1 29 2 5#2\nUTC\nPT36H",
            "0 0 15W JAN-DEC/3 *\nAustralia/Lord_Howe\n2026-03-29T02:30",
            "59 23 31 12 7\nAsia/Tokyo\n2026-03-01T09:00:00+01:00",
        ];
        texts.map(|text| text.as_bytes().to_vec()).to_vec()
    },
    check,
    memory_bytes: LARGE,
    slice: 1_000,
};

fn check(bytes: &[u8]) -> Result<String, String> {
    let Ok(text) = std::str::from_utf8(bytes) else { return Ok("no text".to_owned()) };
    let mut lines = text.splitn(3, '\n');
    let mut next = || lines.next().unwrap_or_default();
    let (pattern, zone, third) = (next(), next(), next());
    let gap = if text.len() % 2 == 0 { GapPolicy::RunAtEnd } else { GapPolicy::Skip };
    let fold = [FoldPolicy::First, FoldPolicy::Last, FoldPolicy::Both][text.len() % 3];
    let policy = DstPolicy { gap, fold };
    let cron = match Rule::parse_cron(pattern, zone, policy) {
        Ok(rule) => cron(&rule, policy)?,
        Err(why) => told(&why, &[])?,
    };
    let every = match Rule::parse_every(third, 17) {
        Ok(rule) => every(&rule)?,
        Err(why) => told(&why, &[])?,
    };
    let at = match Rule::parse_at(third, Some(zone)) {
        Ok(rule) => later(&rule)?,
        Err(why) => told(&why, &[])?,
    };
    Ok(format!("{cron:.40}|{every:.40}|{at:.40}"))
}

fn cron(rule: &Rule, policy: DstPolicy) -> Result<String, String> {
    let Rule::Cron(cron) = rule else { return Err("no cron rule".to_owned()) };
    let again = Rule::parse_cron(cron.pattern(), cron.timezone(), policy);
    hold(again.as_ref() == Ok(rule), || format!("{:?} is {again:?}", cron.pattern()))?;
    later(rule)
}

fn every(rule: &Rule) -> Result<String, String> {
    let Rule::Every(every) = rule else { return Err("no interval".to_owned()) };
    let period = every.period_ms();
    hold((PERIOD_MS_MIN..=PERIOD_MS_MAX).contains(&period), || format!("{period} ms"))?;
    later(rule)
}

fn later(rule: &Rule) -> Result<String, String> {
    let mut answers = String::new();
    for start in STARTS_MS {
        let mut after = start;
        for _ in 0..4 {
            match rule.next_after(after) {
                Ok(Some(next)) => {
                    hold(after < next, || format!("{next} is not after {after}"))?;
                    // Nothing was passed over: a little earlier the answer is the same.
                    let middle = after + (next - after - 1) / 2;
                    let same = rule.next_after(middle);
                    hold(same == Ok(Some(next)), || {
                        format!("{same:?} after {middle}, not {next}")
                    })?;
                    after = next;
                    answers.push('+');
                }
                Ok(None) => {
                    answers.push('.');
                    break;
                }
                Err(why @ CalendarError::SearchLimit { .. }) => return Err(why.to_string()),
                Err(why) => {
                    told(&why, &[])?;
                    answers.push('e');
                    break;
                }
            }
        }
    }
    Ok(answers)
}
