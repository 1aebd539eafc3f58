//! What a protocol machine sees of this process: the fabric's verbs, and a place to hand decided
//! values to.
//!
//! - I1 values are executed in slot order, each slot once, whether they come from the protocol or
//!   from another member's backlog. Asserted in `HostState::execute`.

use crate::backlog::Backlog;
use crate::bugs::Bug;
use crate::config::Config;
use crate::desk::Desk;
use crate::flow::Outgoing;
use crate::order::{Order, Place};
use crate::outbox::Sequence;
use crate::plant::{Claim, Plant};
use crate::service::{Answer, Answers, Application, Door, Origin};
use crate::stats::Stats;
use crate::wire::{Frame, Items, push_item};
use crate::withheld::Withheld;
use base::verb::Relay;
use base::{Instant, MAX_MEMBERS, MemberSet, Prefix, Rank, Slot, StateClock};
use proto::{Host, Note};
use std::collections::VecDeque;

/// The protocol's host, opaque to all other code. See the module's text.
#[derive(Debug)]
pub struct HostState<P: Plant, A, D> {
    pub(crate) plant: P,
    pub(crate) app: A,
    pub(crate) door: D,
    /// Where the protocol has one.
    pub(crate) disk: Option<P::Disk>,
    pub(crate) desk: Desk,
    pub(crate) flows: Outgoing,
    pub(crate) backlog: Backlog,
    pub(crate) order: Order,
    pub(crate) state_clock: StateClock,
    /// State time after the last value that moved it, and when that value was executed.
    pub(crate) state_moved: (u64, Instant),
    pub(crate) stats: Stats,
    /// Notes of the machine, for the loop to take.
    pub(crate) notes: VecDeque<Note>,
    /// This process.
    pub(crate) origin: Origin,
    /// This member leads: it answers the origins of the commands that it executes.
    pub(crate) leads: bool,
    /// When the batches were proposed that are not executed yet.
    pub(crate) proposed_at: VecDeque<(Place, Instant)>,
    /// Answers that wait until every disk has what they answer; `None` if a majority is enough.
    pub(crate) withheld: Option<Withheld>,
    /// About the most bytes of a state that one turn makes.
    pub(crate) piece_bytes: usize,
    answers: Answers,
    abroad: Abroad,
}

/// Answers of one slot for other members' clients, as items; a list a member, for one of its lives.
#[derive(Debug, Default)]
struct Abroad {
    lists: [(u64, Vec<u8>); MAX_MEMBERS],
}

/// About how long a frame of answers may become before another is begun.
const LIST_BYTES: usize = 256 << 10;

impl Abroad {
    fn push(
        &mut self,
        to: Origin,
        sequence: Sequence,
        reply: &[u8],
        slot: Slot,
        flows: &mut Outgoing,
    ) {
        let (life, list) = &self.lists[to.rank.index()];
        if *life != to.life.0 || list.len() > LIST_BYTES {
            self.send(to.rank, slot, flows);
            self.lists[to.rank.index()].0 = to.life.0;
        }
        push_item(&mut self.lists[to.rank.index()].1, sequence.0, reply);
    }

    fn send(&mut self, to: Rank, slot: Slot, flows: &mut Outgoing) {
        let (life, list) = &mut self.lists[to.index()];
        if let (false, Ok(items)) = (list.is_empty(), Items::check(list)) {
            flows.push(to, &Frame::Answers { life: *life, slot, items });
        }
        list.clear();
    }
}

impl<P: Plant, A: Application, D: Door<A>> HostState<P, A, D> {
    pub(crate) fn new(
        plant: P,
        (app, door): (A, D),
        disk: Option<P::Disk>,
        desk: Desk,
        config: &Config,
    ) -> HostState<P, A, D> {
        let Config { origin, backlog_bytes, waits_for_all, bounds, .. } = *config;
        HostState {
            plant,
            app,
            door,
            disk,
            desk,
            flows: Outgoing::new(origin.life.0),
            backlog: Backlog::new(backlog_bytes, Prefix::ZERO),
            order: Order::START,
            state_clock: StateClock::default(),
            state_moved: (0, Instant::ZERO),
            stats: Stats::new(),
            notes: VecDeque::new(),
            origin,
            leads: false,
            proposed_at: VecDeque::new(),
            withheld: waits_for_all.then(Withheld::default),
            piece_bytes: bounds.piece_bytes,
            answers: Answers::default(),
            abroad: Abroad::default(),
        }
    }

    /// Every slot below has been executed here.
    pub(crate) fn executed(&self) -> Prefix {
        self.backlog.end()
    }

    /// Executes the value of the next slot.
    pub(crate) fn execute(&mut self, slot: Slot, value: &[u8]) {
        assert_eq!(slot, self.executed().next_slot(), "I1: executed out of turn");
        self.backlog.push(slot, value);
        self.plant.claim(Claim::Executed(self.backlog.end()));
        let Some((place, body)) = Place::split(value) else { return }; // a filled slot
        self.forget_proposed(place);
        if !self.order.admits(place) {
            self.stats.values_skipped += 1;
            return;
        }
        self.stats.values_executed += 1;
        self.answers.clear();
        self.app.apply(slot, body, &mut self.answers);
        let executes =
            |(of, sequence, _): (_, Sequence, _)| Claim::Executes { of, number: sequence.0, slot };
        self.plant.claims(self.answers.iter().map(executes));
        self.door.applied(&mut self.app);
        let state_ms = self.app.state_ms();
        if state_ms != self.state_moved.0 {
            self.state_moved = (state_ms, self.plant.boot_now());
        }
        match &mut self.withheld {
            None => self.tell_answers(slot),
            Some(withheld) if self.leads => withheld.keep(slot, &mut self.answers),
            // Whether every disk has it is the leader's to say.
            Some(_) => {}
        }
    }

    /// Tells what is known to be on every disk, if that is what clients wait for. True if anything
    /// was told.
    pub(crate) fn tell_held(&mut self, held: Prefix) -> bool {
        let mut told = false;
        while let Some((slot, answers)) =
            self.withheld.as_mut().and_then(|withheld| withheld.release(held))
        {
            let before = std::mem::replace(&mut self.answers, answers);
            self.tell_answers(slot);
            let done = std::mem::replace(&mut self.answers, before);
            if let Some(withheld) = &mut self.withheld {
                withheld.recycle(done);
            }
            told = true;
        }
        told
    }

    fn tell_answers(&mut self, slot: Slot) {
        let mut abroad = MemberSet::EMPTY;
        for (origin, sequence, reply) in self.answers.iter() {
            if origin == self.origin {
                let sequence = if self.plant.has_planted(Bug::AnswersTheOldest) {
                    self.desk.writes.oldest()
                } else {
                    sequence
                };
                if let Some(asker) = self.desk.writes.complete(sequence) {
                    let (of, number) = (self.origin, sequence.0);
                    self.plant.claim(Claim::Tells { of, number, slot });
                    self.door.answer(asker, Answer::Executed(slot, reply), &mut self.desk);
                }
            } else if self.leads && origin.rank != self.origin.rank {
                self.abroad.push(origin, sequence, reply, slot, &mut self.flows);
                abroad.insert(origin.rank);
            }
        }
        abroad.iter().for_each(|rank| self.abroad.send(rank, slot, &mut self.flows));
    }

    fn forget_proposed(&mut self, place: Place) {
        while let Some(&(oldest, at)) = self.proposed_at.front() {
            if oldest > place {
                return;
            }
            self.proposed_at.pop_front();
            if oldest == place {
                self.stats.decided_after(self.desk.now.since(at));
            }
        }
    }
}

impl<P: Plant, A, D> Relay for HostState<P, A, D> {
    type Port = P;

    fn port(&self) -> &P {
        &self.plant
    }

    fn port_mut(&mut self) -> &mut P {
        &mut self.plant
    }
}

impl<P: Plant, A: Application, D: Door<A>> Host for HostState<P, A, D> {
    type Disk = P::Disk;

    fn disk(&mut self) -> Option<&mut P::Disk> {
        self.disk.as_mut()
    }

    fn deliver(&mut self, slot: Slot, value: &[u8]) {
        // A transfer may have brought it before the protocol could.
        if !self.executed().contains(slot) {
            self.execute(slot, value);
        }
    }

    fn notify(&mut self, note: Note) {
        self.notes.push_back(note);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock;
    use crate::service::Asker;
    use base::Incarnation;
    use std::rc::Rc;

    #[test]
    fn a_command_of_an_earlier_life_answers_nobody_who_asks_now() {
        let mut host = mock::core(1, Rc::default()).host;
        let sequence = host.desk.write(Asker { connection: 1, request: 0 }, b"INCR k");
        let own = host.origin;
        let earlier = Origin { life: Incarnation(own.life.0 - 1), ..own };
        let neighbour = Origin { rank: Rank::at(2), ..own };
        for (origin, waiting) in [(earlier, 1), (neighbour, 1), (own, 0)] {
            host.answers.clear();
            host.answers.push(origin, sequence, b":1\r\n");
            host.tell_answers(Slot::ZERO);
            assert_eq!(host.desk.writes.len(), waiting, "{origin:?}");
        }
    }
}
