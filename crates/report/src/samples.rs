//! Many samples and many runs into few numbers.

use crate::{Row, Value};
use hdrhistogram::Histogram;
use std::time::Duration;

/// The longest time that is told apart from longer ones, in nanoseconds: ten minutes.
const LONGEST_NS: u64 = 600_000_000_000;

/// Times, kept with three significant digits in a fixed amount of memory.
#[derive(Clone, Debug)]
pub struct Latency {
    times: Histogram<u64>,
}

impl Default for Latency {
    fn default() -> Latency {
        Latency::new()
    }
}

impl Latency {
    /// No times yet.
    pub fn new() -> Latency {
        let times = Histogram::new_with_bounds(1, LONGEST_NS, 3);
        Latency { times: times.unwrap_or_else(|e| panic!("constant bounds are valid: {e}")) }
    }

    /// Adds a time in nanoseconds; longer ones than ten minutes count as ten minutes. Allocates
    /// nothing.
    pub fn record_ns(&mut self, time_ns: u64) {
        self.times.saturating_record(time_ns);
    }

    /// Adds a time.
    pub fn record(&mut self, time: Duration) {
        self.record_ns(u64::try_from(time.as_nanos()).unwrap_or(u64::MAX));
    }

    /// Adds another's times.
    pub fn add(&mut self, other: &Latency) {
        if let Err(e) = self.times.add(&other.times) {
            panic!("all have the same bounds: {e}");
        }
    }

    /// Adds `n` times of the same length: what [`Latency::buckets`] of another process told.
    pub fn record_many_ns(&mut self, time_ns: u64, n: u64) {
        self.times.saturating_record_n(time_ns, n);
    }

    /// The times that occurred, shortest first, and how often: enough to make it again elsewhere.
    pub fn buckets(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.times.iter_recorded().map(|at| (at.value_iterated_to(), at.count_at_value()))
    }

    /// How many times.
    pub fn count(&self) -> u64 {
        self.times.len()
    }

    /// The time that `percent` of all did not exceed, in nanoseconds; 0 without any.
    pub fn percentile_ns(&self, percent: f64) -> u64 {
        self.times.value_at_percentile(percent)
    }

    /// The median.
    pub fn p50_ns(&self) -> u64 {
        self.percentile_ns(50.0)
    }

    /// What one in a hundred exceeds.
    pub fn p99_ns(&self) -> u64 {
        self.percentile_ns(99.0)
    }

    /// The longest.
    pub fn max_ns(&self) -> u64 {
        self.times.max()
    }

    /// The mean.
    pub fn mean_ns(&self) -> f64 {
        self.times.mean()
    }

    /// Adds `samples`, `p50_ns`, `p99_ns`, `p999_ns` and `max_ns` to a row; `samples` alone, if
    /// it has no times.
    #[must_use]
    pub fn fields(&self, row: Row) -> Row {
        let row = row.with("samples", self.count());
        if self.count() == 0 {
            return row;
        }
        row.with("p50_ns", self.p50_ns())
            .with("p99_ns", self.p99_ns())
            .with("p999_ns", self.percentile_ns(99.9))
            .with("max_ns", self.max_ns())
    }

    /// Adds the time that `percent` of all did not exceed to a row, as `name`, if there are times.
    #[must_use]
    pub fn field(&self, row: Row, name: &str, percent: f64) -> Row {
        if self.count() == 0 { row } else { row.with(name, self.percentile_ns(percent)) }
    }
}

/// The middle of `values`, or the mean of the two middle ones; `None` without any.
pub fn median(values: &[f64]) -> Option<f64> {
    let mut sorted = values.to_vec();
    sorted.sort_by(f64::total_cmp);
    let middle = sorted.len() / 2;
    match sorted.len() {
        0 => None,
        n if n % 2 == 1 => Some(sorted[middle]),
        _ => Some(f64::midpoint(sorted[middle - 1], sorted[middle])),
    }
}

/// One set of rows out of several runs of one benchmark: for each number of each case the median of
/// the runs that have it, whichever these are. Rows are matched by their place among those of the
/// same case; rows and fields stand in the order in which they first appear.
pub fn median_rows(runs: &[Vec<Row>]) -> Vec<Row> {
    let mut all: Vec<Vec<&Row>> = Vec::new();
    for run in runs {
        for (at, row) in run.iter().enumerate() {
            let is_twin = |other: &&Row| other.case() == row.case();
            let nth = run[..at].iter().filter(|other| is_twin(other)).count();
            match all.iter_mut().filter(|twins| is_twin(&twins[0])).nth(nth) {
                Some(twins) => twins.push(row),
                None => all.push(vec![row]),
            }
        }
    }
    all.iter().map(|twins| median_row(twins)).collect()
}

fn median_row(twins: &[&Row]) -> Row {
    let mut row = Row::new(twins[0].case());
    for (name, value) in twins.iter().flat_map(|twin| twin.fields()) {
        if row.get(name).is_some() {
            continue;
        }
        let values: Vec<f64> = twins.iter().filter_map(|twin| twin.number(name)).collect();
        let middle = median(&values).filter(|_| value.number().is_some());
        match (middle, value) {
            (Some(middle), Value::Count(_)) if middle.fract() == 0.0 => {
                row.set(name, middle as u64);
            }
            (Some(middle), _) => row.set(name, middle),
            (None, value) => row.set(name, value.clone()),
        }
    }
    row
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_median_is_in_the_middle() {
        assert_eq!(median(&[]), None);
        assert_eq!(median(&[3.0, 1.0, 2.0]), Some(2.0));
        assert_eq!(median(&[4.0, 1.0, 2.0, 3.0]), Some(2.5));
    }

    #[test]
    fn percentiles_count_from_below() {
        let mut latency = Latency::new();
        (1..=1000).for_each(|ns| latency.record_ns(ns));
        assert_eq!((latency.p50_ns(), latency.p99_ns(), latency.max_ns()), (500, 990, 1000));
        latency.record(Duration::from_secs(4000));
        assert!(latency.max_ns() >= LONGEST_NS, "saturates: {}", latency.max_ns());
    }

    #[test]
    fn without_times_a_row_has_no_percentile() {
        let mut latency = Latency::new();
        assert_eq!(latency.fields(Row::new("x")), Row::new("x").with("samples", 0u64));
        latency.record_ns(7);
        let expected = ["p50_ns", "p99_ns", "p999_ns", "max_ns"];
        let row = Row::new("x").with("samples", 1u64);
        let row = expected.iter().fold(row, |row, name| row.with(name, 7u64));
        assert_eq!(latency.fields(Row::new("x")), row);
    }

    #[test]
    fn runs_are_matched_by_case_and_place() {
        let run = |a: f64, b: f64, clients: u64| {
            vec![
                Row::new("x").with("clients", clients).with("per_s", a),
                Row::new("x").with("clients", 2u64).with("per_s", b),
            ]
        };
        let rows = median_rows(&[run(1.0, 10.0, 1), run(3.0, 30.0, 1), run(2.0, 20.0, 1)]);
        assert_eq!(rows, run(2.0, 20.0, 1));
        assert_eq!(median_rows(&[]), []);
    }

    #[test]
    fn what_the_first_run_lacks_and_another_has_is_there() {
        let bare = vec![Row::new("x").with("samples", 0u64)];
        let row = |samples: u64, p50: u64| {
            Row::new("x").with("samples", samples).with("unit", "B").with("p50_ns", p50)
        };
        let other = |per_s: f64| Row::new("y").with("per_s", per_s);
        let rows = median_rows(&[bare, vec![row(4, 10), other(5.0)], vec![row(6, 20), other(7.0)]]);
        assert_eq!(rows, [row(4, 15), other(6.0)]);
    }
}
