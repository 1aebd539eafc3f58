//! The history that the clients saw.

use crate::kv::Ask;

/// One operation of one client, with all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: u8,
    pub(crate) key: u8,
    pub(crate) ask: Ask,
    /// The world time of the first attempt.
    pub(crate) asked_at: u64,
    /// The world time of the answer; `None` if it never came: the operation took effect or not, or
    /// will.
    pub(crate) answered_at: Option<u64>,
    pub(crate) answer: Option<u64>,
    /// The place in the log where it took effect, as the answering node knows
    /// (`checks::real_time`).
    pub(crate) place: Option<u64>,
}
