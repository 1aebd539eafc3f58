//! What the clients saw.

use crate::kv::Ask;

/// One operation of one client, with all its attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Operation {
    pub(crate) client: u8,
    pub(crate) key: u8,
    pub(crate) ask: Ask,
    /// World time of the first attempt.
    pub(crate) asked_at: u64,
    /// World time of the answer; `None` if it never came: it took effect or not, or will.
    pub(crate) answered_at: Option<u64>,
    pub(crate) answer: Option<u64>,
    /// Where in the log it took effect, as the node that answered knows (`checks::real_time`).
    pub(crate) place: Option<u64>,
}
