//! What a replica counts about itself, for metrics. One thread writes; others see copies.

use core::time::Duration;
use hdrhistogram::Histogram;

/// The longest latency that is told apart from longer ones.
const LATENCY_NS_MAX: u64 = 60_000_000_000;

/// A member's stable storage, in figures.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct DiskFigures {
    /// The directory.
    pub place: String,
    /// The first slot that its log still has.
    pub log_start: u64,
    /// One past its last entry, durable or on its way.
    pub log_end: u64,
    /// Bytes of the log on its volume since the last snapshot began that has not failed.
    pub logged_bytes: u64,
    /// Snapshots that this life of the process has written.
    pub snapshots: u64,
    /// Why the snapshot that was wanted last has failed, until one succeeds.
    pub no_snapshot: Option<String>,
    /// What is wrong with it now, with its name.
    pub trouble: Option<String>,
    /// What was wrong with it last in this life, also if that is over.
    pub last_trouble: Option<String>,
    /// How often something was wrong.
    pub troubles: u64,
}

macro_rules! counters {
    ($($(#[doc = $doc:literal])* $name:ident),* $(,)?) => {
        /// Counters since the process began, and how long decisions took.
        #[derive(Clone, Debug)]
        pub struct Stats {
            $($(#[doc = $doc])* pub $name: u64,)*
            /// From the turn that proposed a batch to the turn that executed it, at the leader, in
            /// nanoseconds.
            pub decision_ns: Histogram<u64>,
            /// How far state time is ahead of this member's wall clock (negative: behind), in
            /// milliseconds. It is being slewed away ([`base::state_clock::SLEW_PPM`]).
            pub state_time_ahead_ms: i64,
            /// How its disk stands, if it has one.
            pub disk: Option<DiskFigures>,
        }

        impl Stats {
            /// All zero.
            pub fn new() -> Stats {
                // The bounds are constants that the constructor accepts.
                let decision_ns = Histogram::new_with_bounds(1, LATENCY_NS_MAX, 2)
                    .expect("constant bounds are valid");
                Stats { $($name: 0,)* decision_ns, state_time_ahead_ms: 0, disk: None }
            }

            /// Each counter's name, what it counts, and its value.
            pub fn counters(&self) -> impl Iterator<Item = (&'static str, &'static str, u64)> {
                [$((stringify!($name), concat!($($doc),*), self.$name)),*].into_iter()
            }
        }
    };
}

counters! {
    /// Values executed from the log.
    values_executed,
    /// Values that were skipped, since their predecessor in their reign was not executed.
    values_skipped,
    /// Batches proposed by this member.
    batches_proposed,
    /// Commands of all origins in those batches.
    commands_proposed,
    /// Commands sent to the leader.
    commands_forwarded,
    /// Commands whose outcome was not known at their deadline.
    commands_unknown,
    /// Reads answered from this member's state.
    reads_performed,
    /// Reads sent to the leader.
    reads_forwarded,
    /// Checks that refused a round of reads.
    read_rounds_refused,
    /// Frames of other members passed on, around a cut.
    frames_passed_on,
    /// Turns of the loop.
    turns,
    /// Times that the loop went to sleep.
    sleeps,
    /// Times that this member began to lead.
    reigns,
    /// Bytes of state sent to members that fell behind.
    state_bytes_sent,
    /// Bytes of state received.
    state_bytes_received,
    /// State transfers that were given up.
    transfers_given_up,
    /// Seats that this member, as the leader, gave to those that asked for one.
    seats_given,
    /// Times that it could not.
    seats_refused,
    /// Streams of frames from peers that could not be read and were begun again.
    frames_malformed,
}

impl Default for Stats {
    fn default() -> Stats {
        Stats::new()
    }
}

impl Stats {
    /// A batch was decided and executed after `span`.
    pub fn decided_after(&mut self, span: Duration) {
        self.decision_ns.saturating_record(span.as_nanos().min(u128::from(u64::MAX)) as u64);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_counter_is_listed_with_what_it_counts() {
        let mut stats = Stats::new();
        stats.sleeps = 3;
        assert!(stats.counters().any(|(name, _, n)| name == "sleeps" && n == 3));
        assert!(stats.counters().all(|(_, text, _)| text.trim().ends_with('.')));
        stats.decided_after(Duration::from_secs(3600));
        assert_eq!(stats.decision_ns.len(), 1);
    }
}
