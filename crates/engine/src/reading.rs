//! Reads: a check, one for many, then the state; or the leader, where the check says no.
//!
//! - I1 a read is performed after its check succeeded, on the state as it is then: the check
//!   covered the prefix that the machine had applied, and the state has at least that, since it
//!   only moves on. What the state has besides is decided, and so is seen by every check that
//!   begins later.
//! - I2 only the leader decides that time has passed: a read that would see a key expire is put off
//!   behind a tick there, and sent to the leader from elsewhere.

use crate::bugs::Bug;
use crate::core::Core;
use crate::desk::{Reader, Round};
use crate::host::HostState;
use crate::outbox::Sequence;
use crate::plant::{Claim, Plant};
use crate::service::{Application, Door, Origin, Performed, ReadAnswer};
use crate::wire::{Frame, Items, push_item};
use base::{Incarnation, Rank};
use core::time::Duration;
use proto::{Replicator, Role, Ticket};

/// How long reads wait after a check was refused at the leader, or by a peer.
const REFUSED_PAUSE: Duration = Duration::from_micros(500);
/// The bytes of reads in one frame, about.
const FRAME_BYTES: usize = 128 << 10;

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    /// Begins a check for the reads that wait, and sends those to the leader that are for it. True
    /// if anything was begun.
    pub(crate) fn dispatch_reads(&mut self) -> bool {
        let mut worked = self.forward_reads();
        self.readmit_after_tick();
        match self.host.desk.view.role {
            // One that is cut off from the leader falls behind: the leader has the state, and is
            // reached another way.
            Role::Follower if self.is_cut_off() => return self.send_all_to_leader() || worked,
            Role::Leader | Role::Follower => {}
            // It leads soon, or another does.
            Role::Candidate => return worked,
            Role::Learner if self.host.plant.has_planted(Bug::LearnersRead) => {
                if let Some(ticket) = self.host.desk.begin_round() {
                    self.on_read_ready(ticket);
                }
                return worked;
            }
            // Without the state there is nothing to check: the leader has it.
            Role::Learner => return self.send_all_to_leader() || worked,
        }
        let now = self.now();
        if now < self.read_pause_until {
            return worked;
        }
        if let Some(ticket) = self.host.desk.begin_round() {
            if self.host.plant.has_planted(Bug::ReadWithoutCheck) {
                self.on_read_ready(ticket);
                return true;
            }
            // Told after these reads came: what the turn was told at its beginning may be long ago,
            // and a leader's lease may have ended meanwhile.
            let is_old = self.host.plant.has_planted(Bug::CheckedInOldTime);
            let told = if is_old { now } else { self.host.plant.now() };
            self.host.plant.claim(Claim::CheckBegins(ticket));
            self.node.read(ticket, told, &mut self.host);
            worked = true;
        }
        worked
    }

    fn is_cut_off(&self) -> bool {
        self.target.is_some_and(|leader| self.host.flows.detours.via(leader).is_some())
    }

    /// Own reads that were refused here go to the leader, in words; if that is this member by now,
    /// they join those that wait.
    fn forward_reads(&mut self) -> bool {
        let Some(leader) = self.target else { return false };
        if !self.host.desk.asked.has_undispatched() || self.now() < self.read_pause_until {
            return false;
        }
        let me = self.host.origin;
        let desk = &mut self.host.desk;
        if leader == me.rank {
            let deadline = desk.now.plus(desk.patience);
            let waiting = &mut desk.waiting;
            desk.asked.dispatch(|id, read| {
                waiting.described(me.rank, me.life.0, id.0, read, deadline);
                true
            });
            return true;
        }
        let mut worked = false;
        let mut list = Vec::new();
        while desk.asked.has_undispatched() && self.host.flows.has_room(leader) {
            list.clear();
            let mut n = 0;
            desk.asked.dispatch(|id, read| {
                let fits = list.is_empty() || list.len() + read.len() <= FRAME_BYTES;
                if fits {
                    push_item(&mut list, id.0, read);
                    n += 1;
                }
                fits
            });
            let Ok(items) = Items::check(&list) else { break };
            if items.is_empty() {
                break;
            }
            self.host.flows.push(leader, &Frame::Reads { life: me.life.0, items });
            self.host.stats.reads_forwarded += n;
            worked = true;
        }
        worked
    }

    /// Reads of another member's clients.
    pub(crate) fn on_reads(&mut self, from: Rank, life: u64, items: Items<'_>) {
        let desk = &mut self.host.desk;
        // A member that answers slower than it is asked would collect answers without bound.
        let takes = self.host.leads && desk.has_room() && self.host.flows.has_room(from);
        if takes {
            let deadline = desk.now.plus(desk.patience);
            for (id, read) in items.iter() {
                desk.waiting.described(from, life, id, read, deadline);
            }
        } else {
            let mut refused = Vec::new();
            items.iter().for_each(|(id, _)| push_item(&mut refused, id, &[]));
            if let Ok(items) = Items::check(&refused) {
                self.host.flows.push(from, &Frame::ReadsRefused { life, items });
            }
        }
    }

    /// The check of this round succeeded.
    pub(crate) fn on_read_ready(&mut self, ticket: Ticket) {
        let Some(mut round) = self.host.desk.end_round(ticket) else { return };
        if self.host.plant.has_planted(Bug::CheckServesLater) {
            round.join(&mut self.host.desk.waiting);
        }
        self.host.desk.ripen(round);
        self.perform_ripe();
    }

    /// Performs reads whose check succeeded, as long as this turn's slice lasts. True if there was
    /// one.
    pub(crate) fn perform_ripe(&mut self) -> bool {
        let mut worked = false;
        while self.host.desk.has_slice()
            && let Some(round) = self.host.desk.take_ripe()
        {
            worked = true;
            self.perform_round(round);
        }
        worked
    }

    fn perform_round(&mut self, mut round: Round) {
        let stamp_ms = self.host.now_ms();
        let mut reply = Vec::new();
        let mut unripe = Round::default();
        let mut n_done = 0;
        for &waiting in &round.readers {
            if !self.host.desk.has_slice() {
                break;
            }
            n_done += 1;
            self.host.desk.charge_read();
            let (came, executed) = (self.host.desk.came(waiting), self.host.executed());
            self.host.plant.claim(Claim::Performs { came, executed });
            match waiting.reader {
                Reader::Own(asker) => {
                    let host = &mut self.host;
                    match host.door.perform(asker, stamp_ms, &mut host.app, &mut host.desk) {
                        Performed::Done => host.stats.reads_performed += 1,
                        Performed::NeedsTick => unripe.own(asker, waiting.deadline),
                    }
                }
                Reader::Described { origin, life, id, .. }
                    if origin != self.host.origin.rank && !self.host.flows.has_room(origin) =>
                {
                    self.refuse_described(origin, life, id);
                }
                Reader::Described { origin, life, id, start, len } => {
                    let read = &round.bytes[start..start + len];
                    reply.clear();
                    match self.host.app.read(read, stamp_ms, &mut reply) {
                        Performed::Done => {
                            self.host.stats.reads_performed += 1;
                            self.host.desk.charge(reply.len());
                            self.answer_described(origin, life, id, &reply);
                        }
                        Performed::NeedsTick => {
                            unripe.described(origin, life, id, read, waiting.deadline);
                        }
                    }
                }
            }
        }
        round.readers.drain(..n_done);
        if round.readers.is_empty() {
            self.host.desk.recycle(round);
        } else {
            self.host.desk.put_back(round);
        }
        if unripe.readers.is_empty() {
            return;
        }
        if self.host.leads {
            // I2
            self.ticks.want_before_reads(self.host.stats.values_executed);
            self.host.desk.after_tick.join(&mut unripe);
        } else {
            self.send_to_leader(&mut unripe);
        }
    }

    /// The check of this round could not be made here and now.
    pub(crate) fn on_read_refused(&mut self, ticket: Ticket) {
        self.host.stats.read_rounds_refused += 1;
        if self.host.plant.has_planted(Bug::RefusedReadsServed) {
            return self.on_read_ready(ticket);
        }
        let Some(mut round) = self.host.desk.end_round(ticket) else { return };
        if self.host.leads {
            self.host.desk.waiting.join(&mut round);
            self.read_pause_until = self.now().plus(REFUSED_PAUSE);
        } else {
            self.send_to_leader(&mut round);
        }
        self.host.desk.recycle(round);
    }

    /// All reads that wait go to the leader, as far as there is room. True if one went.
    fn send_all_to_leader(&mut self) -> bool {
        let hastens = self.host.plant.has_planted(Bug::TriesEachTurn);
        if self.now() < self.read_pause_until && !hastens {
            return false;
        }
        let mut round = std::mem::take(&mut self.host.desk.waiting);
        let n_waiting = round.readers.len();
        self.send_to_leader(&mut round);
        self.host.desk.recycle(round);
        // Those that are left are tried again after a pause. Else the loop would not sleep, and
        // each turn would put off what is to leave.
        self.host.desk.waiting.readers.len() < n_waiting || hastens && n_waiting > 0
    }

    /// Own reads of `round` are put into words for the leader; others' are refused: this member was
    /// asked as the leader, and is not.
    fn send_to_leader(&mut self, round: &mut Round) {
        let mut words = Vec::new();
        for waiting in round.readers.drain(..) {
            match waiting.reader {
                Reader::Own(asker) if !self.host.desk.asked.has_room() => {
                    // Enough are on their way: this one is tried again when they are back.
                    self.host.desk.waiting.own(asker, waiting.deadline);
                    self.read_pause_until = self.host.desk.now.plus(REFUSED_PAUSE);
                }
                Reader::Own(asker) => {
                    words.clear();
                    self.host.door.describe_read(asker, &mut words);
                    self.host.desk.asked.push(asker, &words, waiting.deadline);
                }
                Reader::Described { origin, life, id, .. } => {
                    if origin == self.host.origin.rank {
                        // This member trusts itself, and does not lead yet: at once the same check
                        // would be refused again, in each turn.
                        self.host.desk.asked.again(Sequence(id));
                        self.read_pause_until = self.host.desk.now.plus(REFUSED_PAUSE);
                        continue;
                    }
                    self.refuse_described(origin, life, id);
                }
            }
        }
    }

    /// Another member's read is not answered here and now: it asks again.
    fn refuse_described(&mut self, origin: Rank, life: u64, id: u64) {
        let mut list = Vec::new();
        push_item(&mut list, id, &[]);
        if let Ok(items) = Items::check(&list) {
            self.host.flows.push(origin, &Frame::ReadsRefused { life, items });
        }
    }

    fn answer_described(&mut self, origin: Rank, life: u64, id: u64, reply: &[u8]) {
        let of = Origin { rank: origin, life: Incarnation(life) };
        self.host.plant.claim(Claim::PerformsFor { of, number: id });
        let HostState { desk, door, flows, .. } = &mut self.host;
        if origin == desk.view.me {
            if let Some(asker) = desk.asked.complete(Sequence(id)) {
                door.answer_read(asker, ReadAnswer::Forwarded(reply), desk);
            }
            return;
        }
        let mut list = Vec::new();
        push_item(&mut list, id, reply);
        if let Ok(items) = Items::check(&list) {
            flows.push(origin, &Frame::ReadAnswers { life, items });
        }
    }

    /// Reads that waited for time to be decided join those that wait for a check.
    fn readmit_after_tick(&mut self) {
        let desk = &mut self.host.desk;
        let decided = self.ticks.has_passed(self.host.stats.values_executed);
        if decided && !desk.after_tick.readers.is_empty() {
            desk.waiting.join(&mut desk.after_tick);
        }
    }
}
