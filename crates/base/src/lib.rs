//! Identities, units, and the vocabulary of one-sided memory that every layer shares.
//!
//! Promises: no I/O, no clock, no unsafe, no dependency; `no_std` with `alloc`. Each type has one
//! meaning everywhere (GLOSSARY.md), so that a `Slot` cannot be added to a `Ballot` and a count of
//! slots cannot be mistaken for the last of them.
//!
//! - [`id`]: identities ([`NodeId`], [`Rank`], [`MemberSet`]) and majorities ([`majority`]).
//! - [`seats`]: sets of more seats than a log has members ([`SeatSet`]).
//! - [`order`]: places in the replicated order ([`Slot`], [`Prefix`]) and the right to propose
//!   ([`Ballot`]).
//! - [`verb`]: operations on another node's memory ([`Port`]) and their results ([`Event`]).
//! - [`parcel`]: long values that go beside those words ([`Parcel`]).
//! - [`time`]: instants for machines that own no clock.
//! - [`rng`]: randomness that a seed replays.
//! - [`state_clock`]: how the wall clock enters a replicated state.
#![no_std]
#![forbid(unsafe_code)]

extern crate alloc;

pub mod id;
pub mod order;
pub mod parcel;
pub mod rng;
pub mod seats;
pub mod state_clock;
pub mod time;
pub mod verb;

pub use id::{
    FABRIC_SEATS_MAX, Incarnation, MAX_MEMBERS, MemberSet, NodeId, Rank, Ranks, SEATS_MAX, majority,
};
pub use order::{Ballot, Prefix, Slot};
pub use parcel::{Bulk, PARCEL_BYTES_MAX, Parcel};
pub use rng::Rng;
pub use seats::SeatSet;
pub use state_clock::{Evidence, StateClock};
pub use time::Instant;
pub use verb::{At, Event, Inbox, Outcome, Port, Token};
