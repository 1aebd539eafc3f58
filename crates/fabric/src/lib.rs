//! One-sided memory and message flows behind one small trait.
//!
//! A [`Fabric`] is a [`Port`] that can be polled. This crate has two providers: `shm` for processes
//! of one host and `tcp` for several hosts; [`HostFabric`] is whichever of them was chosen. The
//! simulator implements the same trait and breaks everything that is not promised. The layers above
//! cannot distinguish the providers, except by [`Capabilities`].
//!
//! # Promises (cited by id in code that relies on them; `conformance` tests each provider)
//! - T1 **Words are whole.** An aligned 8-byte word is never torn.
//! - T2 **FIFO per link.** Verbs and messages that one node posts to one peer take effect there in
//!   posting order. Nothing is promised between links, nor between a link and the peer's own CPU
//!   beyond T1 and T5.
//! - T3 **Nothing inside a verb.** The words of one WRITE or READ have no order among themselves.
//! - T4 **One completion.** A verb with a token completes exactly once: with its result, with
//!   `Refused`, or, if its link broke, with `Unknown`. An unknown verb may have taken effect, or
//!   may still take effect until the next `LinkUp` of that peer, and not after. Completions of one
//!   link come in posting order.
//! - T5 **Publication.** A reader that loads a word (acquire) sees everything that its writer's
//!   link put into that region before it.
//! - T6 **CAS and FETCH-ADD are atomic** together on every link, and with the owner's CPU if
//!   [`Capabilities::atomicity`] says so.
//! - T7 **Messages** arrive whole, once, in order, or the link is reported down. None that was
//!   posted to a new link comes before the receiver's own `LinkUp` of it: streams of messages begin
//!   there.
//! - T8 **Failures are events.** A broken link is `LinkDown`, a dead process `ProcessFailed`;
//!   neither panics, blocks, nor is reported for a live peer except as a suspicion. Both are hints:
//!   safety never depends on them. `LinkUp` follows when the peer (or its successor on the same
//!   region) is there.
//! - T9 **No lost wake-up.** After `prepare_sleep`, a `wake` or a message makes `wait_fd` readable.
//! - T10 **A break is a cut.** Verbs and messages posted to a peer after the break of its link take
//!   no effect, until the start of the poll that follows the one which reported `LinkDown`: a
//!   poster that handles an earlier event cannot know yet that something before was lost. So of
//!   everything posted before the break is known, a prefix takes effect (T2). `LinkDown` and the
//!   `LinkUp` that follows it never come in one poll.
//! - T11 **Parcels** ([`Port::put_parcel`], where the provider carries them) take effect whole, in
//!   posting order with verbs and messages (T2). One that was not taken is lost when the link that
//!   brought it breaks, at the latest before the next `LinkUp`. A way that has no room
//!   ([`Port::has_room`]) has some when its peer has received what is under way.
//!
//! # Where a provider checks its promises
//!
//! | promise | `tcp` | `shm` |
//! | --- | --- | --- |
//! | T2, T7 | a frame that does not parse breaks the link | a garbled ring breaks it |
//! | T7, after `LinkUp` | asserted in `Link::receive` | L2 of `shm::link` |
//! | T4 | `Ledger::settle`: a completion that is not due breaks the link | `verbs` |
//! | T10 | asserted in `Peer::announce` | `Link::withheld` |
//! | T11 | Q1 of `tcp::parcels` | carries none |
//!
//! T1, T3, T5, T6 and T9 are properties of the memory and the kernel: `conformance` and the litmus
//! tests check them.
//!
//! The crate never contains protocol logic.
#![forbid(unsafe_code)]

#[cfg(any(test, feature = "conformance"))]
pub mod conformance;
mod host;
pub mod setup;
pub mod shm;
pub mod tcp;

pub use host::{HostFabric, Way};
pub use setup::{OpenError, Setup};

pub use base::{At, Event, Inbox, Outcome, Port, Token};
use std::os::fd::BorrowedFd;

/// A provider, seen by the poll loop that owns it.
pub trait Fabric: Port {
    /// The provider's properties beyond the promises.
    fn capabilities(&self) -> Capabilities;

    /// Sends everything that was posted; few system calls, none on shm except to wake a sleeper.
    fn flush(&mut self);

    /// Performs the peers' verbs on this node's memory (where the provider needs its help) and adds
    /// completions, messages and failures to `inbox`. Never blocks.
    fn poll(&mut self, inbox: &mut Inbox);

    /// A descriptor that is readable when a poll may bring something, once
    /// [`Fabric::prepare_sleep`] was called.
    fn wait_fd(&self) -> BorrowedFd<'_>;

    /// Tells the peers that this node goes to sleep. The caller then polls and looks at its region
    /// once more, and blocks on [`Fabric::wait_fd`] only if there was nothing (T9).
    fn prepare_sleep(&mut self);

    /// Tells the peers that this node is awake.
    fn awake(&mut self);

    /// Tells the provider whether this node leads. It is only advice about scheduling: other
    /// members wait for a leader, and its death should be noticed soon. On shared memory a leader
    /// learns of others' deaths when it polls, and is not woken for them (T8): their memory still
    /// answers.
    fn lead(&mut self, leads: bool);

    /// Whether news is so close that a loop should look again rather than sleep: for a moment after
    /// a peer's death. The call may yield the processor to others.
    fn is_alert(&mut self) -> bool {
        false
    }
}

/// The differences between providers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Capabilities {
    /// The name: `shm`, `tcp`, `sim`.
    pub name: &'static str,
    /// Whether a dead process's memory still answers (shm): a dead process is not a dead acceptor.
    pub memory_outlives_process: bool,
    /// The operations with which a CAS is atomic.
    pub atomicity: Atomicity,
    /// Whether the memory side can refuse a writer ([`Port::permit_writer`]).
    pub write_permission: bool,
    /// Whether the peer's CPU performs the verbs, so that posting to it wakes it.
    pub peer_works: bool,
}

/// The operations with which a fabric's CAS and FETCH-ADD are atomic.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Atomicity {
    /// One another and the owner's CPU.
    WithCpu,
    /// One another only: the owner must use the fabric too.
    FabricOnly,
}
