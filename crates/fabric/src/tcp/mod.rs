//! One-sided memory over TCP: for several hosts, or for one whose members share no memory.
//!
//! **Purpose.** The verbs of [`crate::Fabric`] to members that are reached by a socket address. The
//! owner of the memory performs them when they arrive, so a peer's progress costs the owner's CPU
//! ([`crate::Capabilities::peer_works`]), and its memory is as dead as its process.
//!
//! **Assumes** that TCP delivers bytes in order and unchanged or breaks; that who knows the cluster
//! secret is honest (frames carry no proof of their own, and nothing is encrypted: a hostile
//! network needs TLS around it); and that all members have the same layout, which the handshake
//! checks.
//!
//! # How the promises are kept
//! - T1, T3, T5, T6: the owner's thread performs each verb with the atomic operations of
//!   [`region::Words`], so verbs are also atomic with whoever else maps the region.
//! - T2, T7: one connection a pair, one stream of frames, performed in the order of arrival.
//! - T4: answers go back in the order of the verbs. When a link breaks, everything that waits
//!   completes as `Unknown`, then `LinkDown` is reported. What was sent before may lie in the
//!   network or in the peer's socket and still take effect: **until the next `LinkUp` of that
//!   peer, and not after**, since the peer closes the old connection, with all that is left in it,
//!   before it answers the new one (L1). A poster that must know sooner has to ask a majority.
//! - T8: a broken connection is `LinkDown`; the death of a process is `ProcessFailed` as soon as
//!   its [`sentinel`] says so, which is before the kernel closes the dead process's connections.
//! - T9: whatever arrives makes the descriptor readable, whether the peer was told to wake or not.
//! - T10: a new link that takes the place of another is announced one poll after the end of that
//!   one, and takes nothing before (L5).
//!
//! # Invariants
//! Of frames W1..W4 ([`wire`]), of the handshake H1..H3 ([`hello`]) and H4..H6 (`handshake`), of
//! links L1..L5 (`link`), of the sentinel S1..S3 ([`sentinel`]).
//!
//! # Who connects to whom
//! ```text
//!  higher rank                                 lower rank
//!  Retrying --connect--> Opening               Awaited ---------.
//!     ^                   |  handshake            ^   proven    |
//!     |  refused, broken, |                       |   (replaces |
//!     '-- or too late ----+                     broken  what is |
//!     |                   v                       |     up)     v
//!     '------ broken ---- Up <=== frames ===> Up -'<------------'
//! ```
//! The higher rank connects, so there is never a second connection to choose between; the lower
//! rank takes a new one as proof that the old one is over. Sentinels connect to everybody.
//!
//! # Cost
//! A verb is bytes in a buffer; [`crate::Fabric::flush`] sends each link's buffer with one system
//! call. A poll asks the kernel once, receives once from each link that has something, performs
//! what came, and sends all answers to a peer with one system call. No allocation in steady state.
//!
//! # Absent on purpose
//! Threads, blocking calls, per-frame checksums (TCP has one), heartbeats (the layer above has
//! them, and they also find the peer that hangs), encryption (a tunnel or TLS, later).

mod attempt;
mod door;
mod handshake;
pub mod hello;
mod link;
mod open;
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
///
/// It bounds answers too: who READs more than this before it receives any of it loses the link.
pub const OUTPUT_BYTES_MAX: usize = 16 << 20;

/// Messages are taken while not more than this waits for a peer: the rest is for verbs, which
/// cannot be refused.
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

const _: () = assert!(OUTPUT_BYTES_MAX >= 4 * wire::FRAME_BYTES_MAX, "several frames fit");
const _: () = assert!(MESSAGES_BYTES_MAX >= wire::FRAME_BYTES_MAX, "every message finds room");
