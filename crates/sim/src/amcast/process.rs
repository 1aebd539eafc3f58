//! A process of atomic multicast as the world knows it, and its environment.
//!
//! The world is compiled once for each kind of wire: it knows machines as [`Process`], and their
//! protocol as [`Protocol`]. A machine is compiled once too: its planted bug, if it has one, is a
//! value.

use base::{Incarnation, Instant, Rank};
use proto::amcast::bugs::Bug;
use proto::amcast::outbox;
use proto::amcast::wire::{Reader, Wire, list};
use proto::amcast::{
    About, Config, Cut, Deliveries, Members, Message, MessageId, Multicast, NoChange, NoCut, Pid,
    Place, Timestamp,
};
use proto::registry::MulticastSpec;
use std::sync::Arc;

/// The interface of [`Multicast`], without its type.
pub(super) trait Process<W> {
    fn on_start(&mut self, message: &Arc<Message>, now: Instant, out: &mut Outbox<W>);
    fn on_wire(&mut self, from: Pid, wire: &W, now: Instant, out: &mut Outbox<W>);
    fn trust(&mut self, leader: Rank, now: Instant, out: &mut Outbox<W>);
    fn tick(&mut self, now: Instant, out: &mut Outbox<W>);
    fn settle(&mut self, now: Instant, out: &mut Outbox<W>);
    fn cut(&mut self, at: Timestamp, now: Instant) -> Result<(), NoCut>;
    fn deadline(&self) -> Option<Instant>;
    fn is_primary(&self) -> bool;
    fn safe_ts(&self) -> Option<Timestamp>;
    fn n_held(&self) -> Option<usize>;
    fn unrecorded(&self, delivered: &[(MessageId, Timestamp)]) -> Option<MessageId>;
    fn mark_of(&self, pid: Pid) -> Option<(Incarnation, Place)>;
    fn stable(&mut self, out: &mut Vec<u8>);
    fn changes(&mut self, out: &mut Vec<u8>);
    fn meet(&mut self, who: Pid, life: Incarnation);
    fn remove(&mut self, seat: Rank) -> Result<(), NoChange>;
    fn members(&self) -> Option<(Members, bool)>;
    fn has_parted(&self) -> bool;
    fn asks(&self, wire: &W) -> bool;
}

impl<M: Multicast> Process<M::Wire> for M {
    fn on_start(&mut self, message: &Arc<Message>, now: Instant, out: &mut Outbox<M::Wire>) {
        Multicast::on_start(self, message, now, out);
    }

    fn on_wire(&mut self, from: Pid, wire: &M::Wire, now: Instant, out: &mut Outbox<M::Wire>) {
        Multicast::on_wire(self, from, wire, now, out);
    }

    fn trust(&mut self, leader: Rank, now: Instant, out: &mut Outbox<M::Wire>) {
        Multicast::trust(self, leader, now, out);
    }

    fn tick(&mut self, now: Instant, out: &mut Outbox<M::Wire>) {
        Multicast::tick(self, now, out);
    }

    fn settle(&mut self, now: Instant, out: &mut Outbox<M::Wire>) {
        Multicast::settle(self, now, out);
    }

    fn cut(&mut self, at: Timestamp, now: Instant) -> Result<(), NoCut> {
        Multicast::cut(self, at, now)
    }

    fn deadline(&self) -> Option<Instant> {
        Multicast::deadline(self)
    }

    fn is_primary(&self) -> bool {
        Multicast::is_primary(self)
    }

    fn safe_ts(&self) -> Option<Timestamp> {
        Multicast::safe_ts(self)
    }

    fn n_held(&self) -> Option<usize> {
        Multicast::n_held(self)
    }

    fn unrecorded(&self, delivered: &[(MessageId, Timestamp)]) -> Option<MessageId> {
        Multicast::unrecorded(self, delivered)
    }

    fn mark_of(&self, pid: Pid) -> Option<(Incarnation, Place)> {
        Multicast::mark_of(self, pid)
    }

    fn stable(&mut self, out: &mut Vec<u8>) {
        Multicast::stable(self, out);
    }

    fn changes(&mut self, out: &mut Vec<u8>) {
        Multicast::changes(self, out);
    }

    fn meet(&mut self, who: Pid, life: Incarnation) {
        Multicast::meet(self, who, life);
    }

    fn remove(&mut self, seat: Rank) -> Result<(), NoChange> {
        Multicast::remove(self, seat)
    }

    fn members(&self) -> Option<(Members, bool)> {
        Multicast::members(self)
    }

    fn has_parted(&self) -> bool {
        Multicast::has_parted(self)
    }

    fn asks(&self, wire: &M::Wire) -> bool {
        M::asks(wire)
    }
}

/// The deliveries to an application, in order: its whole state.
pub(super) type Applied = Vec<(MessageId, Timestamp)>;

/// The function that makes a process in its initial state.
type New<W> = fn(&Config, Pid, Option<Bug>) -> Box<dyn Process<W>>;

/// The function that restores a process from its disk.
pub(super) type Restore<W> =
    fn(&Config, Pid, Option<Bug>, &[u8], &[&[u8]], Instant, &mut Outbox<W>) -> Box<dyn Process<W>>;

/// The function that starts another incarnation of a process, if groups change their members.
pub(super) type Join<W> =
    fn(&Config, Pid, Option<Bug>, Incarnation, Instant) -> Option<Box<dyn Process<W>>>;

/// A [`Multicast`] without its type.
pub(super) struct Protocol<W> {
    /// The planted bug of its machines.
    pub(super) bug: Option<Bug>,
    pub(super) survives_crashes: bool,
    pub(super) new: New<W>,
    pub(super) about: fn(&W) -> Vec<About>,
    pub(super) recovers: bool,
    pub(super) restore: Restore<W>,
    pub(super) join: Join<W>,
}

impl<W: Wire> Protocol<W> {
    fn of<M>(bug: Option<Bug>) -> Protocol<W>
    where
        M: Multicast<Wire = W, Planted = Option<Bug>>,
    {
        Protocol {
            bug,
            survives_crashes: M::SURVIVES_CRASHES,
            new: |config, me, bug| Box::new(M::new(config, me, bug)),
            about: |wire| M::about(wire).collect(),
            recovers: M::RECOVERS,
            restore: |config, me, bug, stable, changes, now, out| {
                let machine = M::restore(config, me, bug, stable, changes, now, out);
                Box::new(machine.expect("its earlier life wrote that"))
            },
            join: |config, me, bug, life, now| {
                let machine = M::join(config, me, bug, life, now)?;
                Some(Box::new(machine))
            },
        }
    }
}

/// The machine of a protocol in the registry, with any of its planted bugs or none.
pub(super) type Machine<S> = <S as MulticastSpec>::Machine<Option<Bug>>;
/// Its messages.
pub(super) type WireOf<S> = <Machine<S> as Multicast>::Wire;

/// A protocol in the registry, with this bug, without its type.
pub(super) fn protocol<S: MulticastSpec>(bug: Option<Bug>) -> Protocol<WireOf<S>> {
    Protocol::of::<Machine<S>>(bug)
}

/// The results of a machine's step.
pub(super) type Outbox<W> = outbox::Outbox<W, Delivered>;

/// What was delivered to a process: its application's whole state.
#[derive(Default)]
pub(super) struct Delivered {
    pub(super) applied: Applied,
    /// The number of deliveries before this step.
    pub(super) n_before: usize,
    pub(super) n_states: u64,
    /// The results of cuts, each with the number of deliveries before it.
    pub(super) cuts: Vec<(usize, Timestamp, Cut)>,
    /// Whether orders may differ between processes.
    pub(super) commutes: bool,
}

impl Deliveries for Delivered {
    fn deliver(&mut self, message: &Arc<Message>, at: Timestamp) {
        self.applied.push((message.id, at));
    }

    fn cut(&mut self, at: Timestamp, cut: Cut) {
        self.cuts.push((self.applied.len(), at, cut));
    }

    fn keeps_states(&self) -> bool {
        true
    }

    fn state(&mut self) -> Option<Vec<u8>> {
        let mut state = Vec::new();
        list(&self.applied, &mut state, |(id, at), out| {
            id.encode(out);
            at.encode(out);
        });
        Some(state)
    }

    fn install(&mut self, state: &[u8], through: Place) {
        let mut from = Reader::new(state);
        let one = |from: &mut Reader<'_>| Ok((MessageId::decode(from)?, Timestamp::decode(from)?));
        let applied = from.list(one).expect("another host wrote it");
        if self.commutes {
            let has = |one| applied.contains(one);
            assert!(self.applied.iter().all(has), "a state undoes nothing that was delivered");
            assert!(applied.iter().any(|(id, at)| (*at, *id) == through));
            // New messages count as delivered now, after those that were delivered before.
            let is_new = |one: &(MessageId, Timestamp)| !self.applied.contains(one);
            let new: Vec<_> = applied.into_iter().filter(is_new).collect();
            self.applied.extend(new);
        } else {
            assert!(applied.starts_with(&self.applied), "a state goes on from what was delivered");
            assert_eq!(applied.last().map(|(id, at)| (*at, *id)), Some(through));
            self.applied = applied;
        }
        self.n_states += 1;
    }
}
