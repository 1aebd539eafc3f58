//! The size of a replicated log in memory, whichever protocol keeps it.

/// The dimensions of the log, the same at every member.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LogShape {
    /// The number of slots that are kept; a power of two, at least 8.
    pub ring_slots: u32,
    /// The longest value, in bytes.
    pub value_bytes: u32,
}

impl Default for LogShape {
    fn default() -> LogShape {
        LogShape { ring_slots: 512, value_bytes: 8192 }
    }
}
