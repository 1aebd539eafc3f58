//! What a run found.

use crate::{Coverage, Violation};

/// What a run found.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first property that did not hold.
    pub violation: Option<Violation>,
    /// Which interesting cases were reached.
    pub coverage: Coverage,
    /// Equal for two runs if and only if their traces are.
    pub fingerprint: u64,
    /// How many records the trace has.
    pub n_records: u64,
    /// How much virtual time passed.
    pub virtual_ns: u64,
    /// The judge of linearizability came to a verdict (it has a budget).
    pub is_judged: bool,
    /// How many operations clients asked for, and how many were answered.
    pub n_asked: usize,
    /// See `n_asked`.
    pub n_answered: usize,
    /// The text of the trace, if it was kept.
    pub trace: String,
}

impl Outcome {
    /// A run that ended in a violation before it could say anything else.
    pub(crate) fn of_violation(violation: Violation) -> Outcome {
        Outcome {
            violation: Some(violation),
            coverage: Coverage::default(),
            fingerprint: 0,
            n_records: 0,
            virtual_ns: 0,
            is_judged: false,
            n_asked: 0,
            n_answered: 0,
            trace: String::new(),
        }
    }
}
