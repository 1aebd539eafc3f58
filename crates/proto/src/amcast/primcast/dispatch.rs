//! The dispatch of arriving messages.

use super::transfer::{Gathered, Promise};
use super::wire::Held;
use super::{Machine, PrimcastWire};
use crate::amcast::bugs::Bug;
use crate::amcast::wire::is_addressable;
use crate::amcast::{About, Host, Pid};
use crate::planted::Planting;
use base::Instant;

impl<P: Planting<Bug>> Machine<P> {
    /// Takes a message from another process.
    pub(super) fn take<H: Host<PrimcastWire>>(
        &mut self,
        from: Pid,
        wire: &PrimcastWire,
        now: Instant,
        host: &mut H,
    ) {
        if !self.config.layout.has(from) || from == self.me {
            return;
        }
        let is_own = from.group == self.me.group;
        let is_heard = !self.is_outside() || is_own && Machine::<P>::is_for_outsiders(wire);
        if self.seat.change.has_parted() || !is_heard {
            return;
        }
        match wire {
            PrimcastWire::Ack { id, dest, epoch, ts, chosen, report } => {
                let is_ours = dest.contains(self.me.group) && dest.contains(from.group);
                if is_ours && is_addressable(*dest, &self.config.layout) {
                    self.hear_report(from, report, now);
                    // A former leader of `epoch` that came back repeats what is in its log, in any
                    // order (P11): only what a primary sends as a primary is a proposal.
                    let proposes = report.epoch == *epoch;
                    self.on_ack(from, (*id, *dest), (*epoch, *ts), (proposes, *chosen), now);
                }
            }
            PrimcastWire::Proposals { dest, epoch, batch, report } => {
                let is_ours = dest.contains(self.me.group) && dest.contains(from.group);
                if is_ours && is_addressable(*dest, &self.config.layout) {
                    self.on_proposals(from, *dest, *epoch, batch, now);
                    if let Some(report) = report {
                        self.hear_report(from, report, now);
                    }
                }
            }
            PrimcastWire::Clock(report) => self.hear_report(from, report, now),
            PrimcastWire::Acked { epoch, upto, report } => {
                self.hear_report(from, report, now);
                self.acks[from.group.index()].extend(from.rank, *epoch, *upto);
            }
            PrimcastWire::Raise { ts, to } => self.on_raise(from, *ts, *to, host),
            PrimcastWire::Pull { id, dest, body } => {
                if dest.contains(self.me.group) && is_addressable(*dest, &self.config.layout) {
                    self.on_pull(from, (*id, *dest), *body, now, host);
                }
            }
            PrimcastWire::Body(message) => {
                // Only requested bodies are taken: their destinations are known already.
                if self.records.contains(message.id) {
                    self.learn(message, now);
                }
            }
            PrimcastWire::NewEpoch { epoch, held } if is_own => {
                self.on_new_epoch(from, *epoch, *held, now, host);
            }
            PrimcastWire::Promise { epoch, clock, current, members, length, floor, upto, part }
                if is_own =>
            {
                let held = Held { epoch: *current, upto: *upto };
                let (clock, members, length, floor) = (*clock, *members, *length, *floor);
                let log = Gathered::new(self.held().shared_with(held));
                let promise = Promise { clock, held, members, length, floor, log };
                self.on_promise(from, *epoch, (promise, part), now, host);
            }
            PrimcastWire::More { epoch, after } if is_own => {
                self.on_more(from, *epoch, *after, host);
            }
            PrimcastWire::NewState(beginning) if is_own => self.on_new_state(beginning, now, host),
            PrimcastWire::Accept { epoch, report } if is_own => {
                self.hear_report(from, report, now);
                self.on_accept(from.rank, *epoch, now, host);
            }
            PrimcastWire::Delivered(place) => self.hear_mark(from, *place, now),
            PrimcastWire::Returned => self.on_returned(from, now),
            PrimcastWire::Final { id, at } => self.on_final(from, *id, *at),
            PrimcastWire::Stand(upto) if is_own => self.on_stand(*upto, now, host),
            PrimcastWire::Fetch(last) if is_own => self.on_fetch(from, *last, now, host),
            PrimcastWire::Forgotten(floor) if is_own => self.on_forgotten(*floor),
            PrimcastWire::State(state) if is_own => self.on_state(state, now, host),
            PrimcastWire::Join { incarnation, promised } if is_own => {
                self.on_join(from, *incarnation, *promised, now, host);
            }
            PrimcastWire::Parted(incarnation) if is_own => self.on_parted(*incarnation, now),
            // A group's epochs and states concern no other group.
            PrimcastWire::NewEpoch { .. }
            | PrimcastWire::Promise { .. }
            | PrimcastWire::NewState(_)
            | PrimcastWire::More { .. }
            | PrimcastWire::Accept { .. }
            | PrimcastWire::Stand(_)
            | PrimcastWire::Fetch(_)
            | PrimcastWire::State(_)
            | PrimcastWire::Forgotten(_)
            | PrimcastWire::Join { .. }
            | PrimcastWire::Parted(_) => {}
        }
    }
}

/// The subjects of a wire message.
pub(super) fn about(wire: &PrimcastWire) -> impl Iterator<Item = About> {
    let (batch, one): (&[_], _) = match wire {
        PrimcastWire::Proposals { batch, report: Some(_), .. } => (batch, Some(About::Clock)),
        PrimcastWire::Proposals { batch, .. } => (batch, None),
        PrimcastWire::Ack { id, .. } | PrimcastWire::Pull { id, .. } => {
            (&[], Some(About::Message(*id)))
        }
        PrimcastWire::Body(message) => (&[], Some(About::Message(message.id))),
        PrimcastWire::Final { id, .. } => (&[], Some(About::Message(*id))),
        PrimcastWire::Clock(_)
        | PrimcastWire::Acked { .. }
        | PrimcastWire::Raise { .. }
        | PrimcastWire::Delivered(_) => (&[], Some(About::Clock)),
        PrimcastWire::Returned => (&[], Some(About::Return)),
        PrimcastWire::NewEpoch { .. }
        | PrimcastWire::Promise { .. }
        | PrimcastWire::NewState(_)
        | PrimcastWire::More { .. }
        | PrimcastWire::Accept { .. }
        | PrimcastWire::Stand(_)
        | PrimcastWire::Fetch(_)
        | PrimcastWire::State(_)
        | PrimcastWire::Forgotten(_)
        | PrimcastWire::Join { .. }
        | PrimcastWire::Parted(_) => (&[], Some(About::Group)),
    };
    batch.iter().map(|(id, _)| About::Message(*id)).chain(one)
}
