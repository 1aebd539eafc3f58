//! One-sided memory over TCP.

mod attempt;
mod handshake;
pub mod hello;
mod link;
mod peer;
mod port;
mod provider;
pub mod sentinel;
mod socket;
mod status;
pub mod wire;

pub use provider::TcpFabric;
pub use status::{DoorCounters, LinkCounters, LinkError, LinkState, LinkStatus};
use std::time::Duration;
/// Bytes that may wait for one peer; with more, its link is given up (L3).
pub const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Messages are taken while less than this waits for a peer: the rest is for verbs, which cannot
/// be refused.
pub const MESSAGES_BYTES_MAX: usize = OUTPUT_BYTES_MAX / 2;

/// Signalled verbs that may wait for one peer; with more, its link is given up (L3).
pub const OUTSTANDING_MAX: usize = 1 << 16;

/// A handshake that takes longer is given up.
pub const HANDSHAKE_MAX: Duration = Duration::from_secs(2);

/// Incoming connections that may shake hands at the same time; the oldest makes room.
pub const INCOMING_MAX: usize = 16;

const RETRY_MIN: Duration = Duration::from_millis(2);
const RETRY_MAX: Duration = Duration::from_millis(500);
/// A link that broke sooner than this was never any good: the next try waits longer.
const STEADY_AFTER: Duration = Duration::from_secs(1);
