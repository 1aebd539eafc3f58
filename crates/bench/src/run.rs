//! Runs a benchmark several times and makes one report of it.

use report::{Machine, Progress, Report, Row, median_rows};
use std::time::Duration;

/// The amount of measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Effort {
    /// The number of repetitions; medians are reported.
    pub runs: u32,
    /// The approximate time of one case in one run.
    pub span: Duration,
}

impl Effort {
    /// The effort for a reported figure.
    pub const FULL: Effort = Effort { runs: 5, span: Duration::from_secs(1) };
    /// The effort that shows whether a benchmark works.
    pub const QUICK: Effort = Effort { runs: 1, span: Duration::from_millis(200) };
}

/// Measures all cases in turn, `effort.runs` times: a disturbance of a second affects different
/// cases of one run, not all runs of one case.
///
/// # Errors
/// The first error of any case.
pub fn repeat<C, E>(
    bench: &str,
    effort: &Effort,
    cases: &[C],
    mut measure: impl FnMut(&C) -> Result<Row, E>,
) -> Result<Report, E> {
    let mut progress = Progress::new(bench, u64::from(effort.runs) * cases.len() as u64);
    let mut runs = Vec::new();
    let mut done = 0;
    for _ in 0..effort.runs {
        let mut rows = Vec::new();
        for case in cases {
            progress.set(done, "");
            rows.push(measure(case)?);
            done += 1;
        }
        runs.push(rows);
    }
    Ok(report(bench, effort.runs, median_rows(&runs)))
}

/// A report about this machine, now.
pub fn report(bench: &str, runs: u32, rows: Vec<Row>) -> Report {
    Report { bench: bench.to_owned(), machine: Machine::describe(today()), runs, rows }
}

/// The date, as years-months-days of UTC.
fn today() -> String {
    let since_1970 = std::time::SystemTime::now().duration_since(std::time::UNIX_EPOCH);
    let days = since_1970.map_or(0, |since| since.as_secs() / 86_400) as i64;
    let (year, month, day) = civil(days);
    format!("{year:04}-{month:02}-{day:02}")
}

/// The Gregorian date that is `days` after 1970-01-01, counting years from March so that the leap
/// day is a year's last.
fn civil(days: i64) -> (i64, i64, i64) {
    let shifted = days + 719_468;
    let era = shifted.div_euclid(146_097);
    let of_era = shifted.rem_euclid(146_097);
    let year = (of_era - of_era / 1460 + of_era / 36_524 - of_era / 146_096) / 365;
    let of_year = of_era - (365 * year + year / 4 - year / 100);
    let month = (5 * of_year + 2) / 153;
    let day = of_year - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    (era * 400 + year + i64::from(month <= 2), month, day)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn days_are_dates() {
        for (days, date) in [
            (0, (1970, 1, 1)),
            (59, (1970, 3, 1)),
            (11_016, (2000, 2, 29)),
            (20_778, (2026, 11, 21)),
        ] {
            assert_eq!(civil(days), date);
        }
    }

    #[test]
    fn every_run_measures_every_case_and_the_median_is_told() {
        let effort = Effort { runs: 3, span: Duration::ZERO };
        let mut n = 0.0;
        let report = repeat("test", &effort, &["a", "b"], |case| {
            n += 1.0;
            Ok::<Row, std::convert::Infallible>(Row::new(*case).with("per_s", n))
        });
        let Ok(report) = report;
        let rates: Vec<_> = report.rows.iter().map(|row| row.number("per_s")).collect();
        assert_eq!(rates, [Some(3.0), Some(4.0)]);
    }
}
