//! One command after the other at the leader, each timed.

use crate::clock::Cheap;
use report::{Latency, Row};
use std::time::Duration;

/// A measurement under way. A sample begins when a command is laid on the desk and ends with the
/// pass of the engine (`Engine::advance`) in which its answer came: the pass's other work, such as
/// telling followers and recycling slots, is included.
#[derive(Debug)]
pub(super) struct Decide {
    clock: Cheap,
    value: Vec<u8>,
    span: Duration,
    /// The time before the measurement; `None` once it is over.
    warm_up: Option<Duration>,
    times: Latency,
    /// The beginning of the warm-up, then of the measurement.
    began: u64,
    n: u64,
    /// The beginning of the sample under way.
    sample: Option<u64>,
}

impl Decide {
    pub(super) fn new(value_bytes: usize, warm_up: Duration, span: Duration) -> Decide {
        let clock = Cheap::new();
        let began = clock.raw();
        Decide {
            clock,
            value: vec![0; value_bytes],
            span,
            warm_up: Some(warm_up),
            times: Latency::new(),
            began,
            n: 0,
            sample: None,
        }
    }

    /// Begins a sample: the command of it.
    pub(super) fn begin(&mut self) -> &[u8] {
        self.sample = Some(self.clock.raw());
        &self.value
    }

    /// Ends the sample under way, whose command was answered. The result, if it was the last.
    pub(super) fn end(&mut self) -> Option<Row> {
        let now = self.clock.raw();
        self.times.record_ns(self.clock.between(self.sample.take()?, now));
        self.n += 1;
        let so_far = self.clock.between(self.began, now);
        let span = self.warm_up.unwrap_or(self.span);
        if u128::from(so_far) < span.as_nanos() {
            return None;
        }
        if self.warm_up.take().is_some() {
            (self.times, self.n, self.began) = (Latency::new(), 0, now);
            return None;
        }
        let row = Row::new("decide").with("value_bytes", self.value.len());
        let row = self.times.fields(row).with("per_s", self.n as f64 * 1e9 / so_far as f64);
        Some(row.with("floor_clock_ns", self.clock.cost_ns()))
    }

    /// Whether a sample is under way.
    pub(super) fn is_timing(&self) -> bool {
        self.sample.is_some()
    }
}
