//! How long ago something was measured, and on which day.

const MINUTE: u64 = 60;
const HOUR: u64 = 60 * MINUTE;
const DAY: u64 = 24 * HOUR;

/// Days after which a measured profile is called old: kernels, firmware and neighbours change.
pub const OLD_DAYS: u64 = 30;

/// The distance from `then` to `now`, both in seconds since 1970: `3 minutes ago`.
///
/// ```
/// assert_eq!(report::layout::age::ago(1_000, 1_185), "3 minutes ago");
/// assert_eq!(report::layout::age::ago(2_000, 1_000), "in the future (one of the clocks is wrong)");
/// ```
pub fn ago(then: u64, now: u64) -> String {
    let Some(seconds) = now.checked_sub(then) else {
        return "in the future (one of the clocks is wrong)".to_owned();
    };
    let (count, unit) = match seconds {
        0..10 => return "just now".to_owned(),
        10..MINUTE => (seconds, "second"),
        MINUTE..HOUR => (seconds / MINUTE, "minute"),
        HOUR..DAY => (seconds / HOUR, "hour"),
        _ => (seconds / DAY, "day"),
    };
    format!("{count} {unit}{} ago", if count == 1 { "" } else { "s" })
}

/// Whether something measured at `then` is too old to be taken on trust at `now`.
pub fn is_old(then: u64, now: u64) -> bool {
    now.saturating_sub(then) > OLD_DAYS * DAY
}

/// The UTC date and minute of a number of seconds since 1970: `2026-03-01 14:05 UTC`.
///
/// ```
/// assert_eq!(report::layout::age::date(951_782_400), "2000-02-29 00:00 UTC");
/// ```
pub fn date(unix: u64) -> String {
    // Counted in years that begin in March, a leap day comes last and needs no special case.
    let days = unix / DAY + 719_468;
    let (era, day_of_era) = (days / 146_097, days % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let from_march = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * from_march + 2) / 5 + 1;
    let month = if from_march < 10 { from_march + 3 } else { from_march - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (unix % DAY / HOUR, unix % HOUR / MINUTE);
    format!("{year:04}-{month:02}-{day:02} {hour:02}:{minute:02} UTC")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ages_in_the_largest_whole_unit() {
        for (seconds, text) in [
            (0, "just now"),
            (59, "59 seconds ago"),
            (60, "1 minute ago"),
            (3_599, "59 minutes ago"),
            (7_200, "2 hours ago"),
            (DAY, "1 day ago"),
            (40 * DAY, "40 days ago"),
        ] {
            assert_eq!(ago(500, 500 + seconds), text);
        }
    }

    #[test]
    fn old_after_thirty_days_and_never_from_the_future() {
        assert!(!is_old(0, 30 * DAY));
        assert!(is_old(0, 30 * DAY + 1));
        assert!(!is_old(100 * DAY, 0));
    }

    #[test]
    fn dates_across_leap_days() {
        for (unix, text) in [
            (0, "1970-01-01 00:00 UTC"),
            (951_868_799, "2000-02-29 23:59 UTC"),
            (951_868_800, "2000-03-01 00:00 UTC"),
            (1_767_225_599, "2025-12-31 23:59 UTC"),
            (4_107_542_400, "2100-03-01 00:00 UTC"),
        ] {
            assert_eq!(date(unix), text);
        }
        // The largest input must not overflow.
        assert!(date(u64::MAX).ends_with("UTC"));
    }
}
