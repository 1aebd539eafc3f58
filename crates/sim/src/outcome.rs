//! The result of a run.

use crate::{Coverage, Violation};

/// The result of a run.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// The first property that did not hold.
    pub violation: Option<Violation>,
    /// The interesting cases that were reached.
    pub coverage: Coverage,
    /// A hash that is equal for two runs if and only if their traces are.
    pub fingerprint: u64,
    /// The number of records in the trace.
    pub n_records: u64,
    /// The virtual time that passed.
    pub virtual_ns: u64,
    /// Whether the judge of linearizability came to a verdict (it has a budget).
    pub is_judged: bool,
    /// The number of operations that clients asked for.
    pub n_asked: usize,
    /// The number of operations that were answered.
    pub n_answered: usize,
    /// The text of the trace, if it was kept.
    pub trace: String,
}

impl Outcome {
    /// A run that ended in a violation before it had any other result.
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
