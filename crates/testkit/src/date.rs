//! Times as S3 writes and reads them.

use std::time::{Duration, SystemTime, UNIX_EPOCH};

const DAY: u64 = 86_400;

struct CivilDate {
    days: u64,
    year: u64,
    month: u64,
    day: u64,
    hour: u64,
    minute: u64,
    second: u64,
    millisecond: u32,
}

fn civil(time: SystemTime) -> CivilDate {
    let since = time.duration_since(UNIX_EPOCH).unwrap_or_default();
    let (days, second) = (since.as_secs() / DAY, since.as_secs() % DAY);
    // Days since 1970 to a date, in eras of 400 years that begin on 1 March.
    let shifted = days + 719_468;
    let (era, day_of_era) = (shifted / 146_097, shifted % 146_097);
    let year_of_era = (day_of_era - day_of_era / 1_460 + day_of_era / 36_524 - day_of_era / 146_096) / 365;
    let day_of_year = day_of_era - (365 * year_of_era + year_of_era / 4 - year_of_era / 100);
    let shifted_month = (5 * day_of_year + 2) / 153;
    let day = day_of_year - (153 * shifted_month + 2) / 5 + 1;
    let month = if shifted_month < 10 { shifted_month + 3 } else { shifted_month - 9 };
    let year = era * 400 + year_of_era + u64::from(month <= 2);
    let (hour, minute) = (second / 3_600, second / 60 % 60);
    CivilDate { days, year, month, day, hour, minute, second: second % 60, millisecond: since.subsec_millis() }
}

/// `20261121T100000Z`, as signatures have it.
pub(crate) fn compact(time: SystemTime) -> String {
    let CivilDate { year, month, day, hour, minute, second, .. } = civil(time);
    format!("{year:04}{month:02}{day:02}T{hour:02}{minute:02}{second:02}Z")
}

/// `2026-11-21T10:00:00.000Z`, as listings have it.
pub(crate) fn iso(time: SystemTime) -> String {
    let CivilDate { year, month, day, hour, minute, second, millisecond, .. } = civil(time);
    format!("{year:04}-{month:02}-{day:02}T{hour:02}:{minute:02}:{second:02}.{millisecond:03}Z")
}

/// `Sat, 21 Nov 2026 10:00:00 GMT`, as headers have it.
pub(crate) fn http(time: SystemTime) -> String {
    const DAYS: [&str; 7] = ["Thu", "Fri", "Sat", "Sun", "Mon", "Tue", "Wed"];
    const MONTHS: [&str; 12] = ["Jan", "Feb", "Mar", "Apr", "May", "Jun", "Jul", "Aug", "Sep", "Oct", "Nov", "Dec"];
    let CivilDate { days, year, month, day, hour, minute, second, .. } = civil(time);
    #[expect(clippy::cast_possible_truncation, reason = "small numbers")]
    let (weekday, month) = (DAYS[(days % 7) as usize], MONTHS[month as usize - 1]);
    format!("{weekday}, {day:02} {month} {year:04} {hour:02}:{minute:02}:{second:02} GMT")
}

/// Reads what [`compact`] writes.
pub(crate) fn from_compact(text: &str) -> Option<SystemTime> {
    if text.len() != 16 || !text.is_ascii() {
        return None;
    }
    let number = |from: usize, to: usize| text[from..to].parse::<u64>().ok();
    let (year, month, day) = (number(0, 4)?, number(4, 6)?, number(6, 8)?);
    let (hour, minute, second) = (number(9, 11)?, number(11, 13)?, number(13, 15)?);
    let shifted_year = year.checked_sub(u64::from(month <= 2))?;
    let (era, year_of_era) = (shifted_year / 400, shifted_year % 400);
    let day_of_year = (153 * ((month + 9) % 12) + 2) / 5 + day.checked_sub(1)?;
    let days = era * 146_097 + year_of_era * 365 + year_of_era / 4 - year_of_era / 100 + day_of_year;
    let seconds = days.checked_sub(719_468)? * DAY + hour * 3_600 + minute * 60 + second;
    Some(UNIX_EPOCH + Duration::from_secs(seconds))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_written_in_the_three_forms_and_read_back() {
        for (seconds, texts) in [
            (0, ["19700101T000000Z", "1970-01-01T00:00:00.000Z", "Thu, 01 Jan 1970 00:00:00 GMT"]),
            (951_827_696, ["20000229T123456Z", "2000-02-29T12:34:56.000Z", "Tue, 29 Feb 2000 12:34:56 GMT"]),
            (1_795_255_200, ["20261121T100000Z", "2026-11-21T10:00:00.000Z", "Sat, 21 Nov 2026 10:00:00 GMT"]),
        ] {
            let time = UNIX_EPOCH + Duration::from_secs(seconds);
            assert_eq!([compact(time), iso(time), http(time)], texts);
            assert_eq!(from_compact(texts[0]), Some(time));
        }
        assert_eq!(from_compact("yesterday"), None);
    }
}
