//! One line for each event, and a fingerprint of all of them.
//!
//! - I1 Two runs have the same fingerprint if and only if (but for a collision of 64 bits) they
//!   have the same text: both are functions of the same records, and nothing else enters either.

use std::fmt::Write as _;

/// The topic of a line: the word that it contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[repr(u8)]
pub(crate) enum Topic {
    Write,
    Read,
    Cas,
    FetchAdd,
    Message,
    Completed,
    Run,
    Deliver,
    Leading,
    Deposed,
    ReadReady,
    ReadRefused,
    NeedState,
    Install,
    Propose,
    Refused,
    Invoke,
    Answer,
    Unknown,
    Crash,
    Restart,
    Pause,
    Resume,
    Cut,
    Heal,
    Slow,
    Sluggish,
    Drift,
    Jump,
    LinkDown,
    LinkUp,
    Hint,
    Phase,
    Disk,
    Operator,
    Snapshot,
    Wall,
}

/// The record of a run.
pub(crate) struct Trace {
    hash: u64,
    n_records: u64,
    text: Option<String>,
}

impl Trace {
    /// A record that keeps its text or not.
    pub(crate) fn new(keep_text: bool) -> Trace {
        Trace { hash: 0x6a09_e667_f3bc_c908, n_records: 0, text: keep_text.then(String::new) }
    }

    /// Records `topic` at `now`, on `node`, with two numbers.
    #[inline]
    pub(crate) fn record(&mut self, now: u64, node: usize, topic: Topic, a: u64, b: u64) {
        for part in [now ^ (node as u64).rotate_left(56) ^ (topic as u64) << 48, a, b] {
            self.hash = (self.hash ^ part).wrapping_mul(0x9e37_79b9_7f4a_7c15).rotate_left(29);
        }
        self.n_records += 1;
        if let Some(text) = &mut self.text {
            write_line(text, now, node, topic, a, b);
        }
    }

    pub(crate) fn fingerprint(&self) -> u64 {
        self.hash ^ self.n_records
    }

    pub(crate) fn n_records(&self) -> u64 {
        self.n_records
    }

    pub(crate) fn into_text(self) -> String {
        self.text.unwrap_or_default()
    }
}

/// Writes a line. Only replays have a text, so this is kept apart from the rest.
#[cold]
fn write_line(text: &mut String, now: u64, node: usize, topic: Topic, a: u64, b: u64) {
    // Writing to a String cannot fail.
    let _ = writeln!(
        text,
        "{:>6}.{:06} r{node} {:<11} {a:#x} {b:#x}",
        now / 1_000_000,
        now % 1_000_000,
        format!("{topic:?}"),
    );
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_texts_and_fingerprints_differ_together() {
        let run = |records: &[(u64, Topic, u64)]| {
            let mut trace = Trace::new(true);
            records.iter().for_each(|(now, topic, a)| trace.record(*now, 1, *topic, *a, 0));
            (trace.fingerprint(), trace.into_text())
        };
        let one = run(&[(1, Topic::Cas, 2), (3, Topic::Run, 4)]);
        assert_eq!(one, run(&[(1, Topic::Cas, 2), (3, Topic::Run, 4)]));
        for other in [
            run(&[(3, Topic::Run, 4), (1, Topic::Cas, 2)]),
            run(&[(1, Topic::Cas, 2)]),
            run(&[(1, Topic::Cas, 2), (3, Topic::Run, 5)]),
            run(&[(1, Topic::Cas, 2), (3, Topic::Pause, 4)]),
        ] {
            assert!(other.0 != one.0 && other.1 != one.1);
        }
    }
}
