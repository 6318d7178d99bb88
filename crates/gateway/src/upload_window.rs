//! Times of the day in which a share is uploaded.

use chrono::{Local, Timelike as _};

const DAY: u16 = 24 * 60;

/// A part of each day in local time, in minutes since midnight. It may cross midnight.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub struct UploadWindow {
    /// First minute.
    pub start: u16,
    /// Minute after the last. The same as `start`: the whole day.
    pub end: u16,
}

impl UploadWindow {
    fn holds(self, minute: u16) -> bool {
        let after_start = (minute + DAY - self.start % DAY) % DAY;
        let length = (self.end % DAY + DAY - self.start % DAY) % DAY;
        length == 0 || after_start < length
    }
}

/// True when uploads may continue now: in one of the windows, or where there is none.
pub(crate) fn is_open(windows: &[UploadWindow]) -> bool {
    let now = Local::now();
    let minute = u16::try_from(now.hour() * 60 + now.minute()).unwrap_or_default();
    is_open_at(windows, minute)
}

fn is_open_at(windows: &[UploadWindow], minute: u16) -> bool {
    windows.is_empty() || windows.iter().any(|window| window.holds(minute))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn open_at(windows: &[(u16, u16)], hour: u16, minute: u16) -> bool {
        let windows: Vec<_> = windows.iter().map(|(start, end)| UploadWindow { start: *start, end: *end }).collect();
        is_open_at(&windows, hour * 60 + minute)
    }

    #[test]
    fn a_window_begins_with_its_first_minute_and_ends_before_its_last() {
        let noon = [(12 * 60, 13 * 60)];
        assert!(!open_at(&noon, 11, 59));
        assert!(open_at(&noon, 12, 0));
        assert!(open_at(&noon, 12, 59));
        assert!(!open_at(&noon, 13, 0));
    }

    #[test]
    fn a_window_may_cross_midnight_and_several_are_joined() {
        let night = [(22 * 60, 6 * 60), (12 * 60, 13 * 60)];
        for (hour, minute, is_open) in [(21, 59, false), (22, 0, true), (0, 0, true), (5, 59, true), (6, 0, false)] {
            assert_eq!(open_at(&night, hour, minute), is_open, "{hour}:{minute}");
        }
        assert!(open_at(&night, 12, 30));
        assert!(open_at(&[], 3, 0), "without windows it is always open");
        assert!(open_at(&[(60, 60)], 0, 59), "a window that ends where it starts is the whole day");
        assert!(open_at(&[(0, 24 * 60)], 23, 59));
        assert!(open_at(&[(22 * 60, 24 * 60)], 23, 59));
        assert!(!open_at(&[(22 * 60, 24 * 60)], 0, 0));
    }
}
