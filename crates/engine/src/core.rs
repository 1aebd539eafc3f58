//! One member, between its protocol machine and its service: events and frames in, effects out.
//!
//! The parts are in files of their own: [`crate::propose`] (commands to the log, or to the leader),
//! [`crate::reading`] (checks and reads), [`crate::catchup`] (states). Here is what joins them.
//!
//! - I1 what a deposed leader had queued of others' commands is refused, from the first refused one
//!   on, so that a client's later command never overtakes an earlier one. By `Foreign`'s attempts.

use crate::bugs::Bug;
use crate::catchup::Taking;
use crate::config::Bounds;
use crate::detour::Direction;
use crate::flow::Incoming;
use crate::host::HostState;
use crate::outbox::Sequence;
use crate::pace::Pace;
use crate::plant::{Claim, Plant};
use crate::propose::{Batch, Foreign};
use crate::restoring::Restoring;
use crate::seats::{Parted, Seats};
use crate::service::{Answer, Application, Door, ReadAnswer, Saving};
use crate::ticks::Ticks;
use crate::transfer::{Fetch, Give};
use crate::wire::Frame;
use base::{Event, Incarnation, Instant, MAX_MEMBERS, Prefix, Rank, Slot};
use core::time::Duration;
use proto::disk::DiskEvent;
use proto::node::Node;
use proto::{Note, Replicator, Role};

#[cfg(test)]
mod tests;

/// Pause before commands are sent again after the supposed leader refused them.
const REFUSED_PAUSE: Duration = Duration::from_millis(2);
/// Interval at which deadlines of requests are checked.
pub(crate) const SWEEP_EVERY: Duration = Duration::from_millis(50);

#[derive(Debug)]
pub(crate) struct Core<P: Plant, R, A, D> {
    pub(crate) node: Node<R>,
    pub(crate) host: HostState<P, A, D>,
    pub(crate) batch: Batch,
    pub(crate) foreign: Foreign,
    pub(crate) fetch: Fetch,
    pub(crate) give: Give,
    /// What was read of a state that another member gives.
    pub(crate) restoring: Option<Restoring>,
    pub(crate) seats: Seats,
    /// News of the disk that the machine has not heard.
    pub(crate) disk_events: Vec<DiskEvent>,
    /// What the machine has to hear of a state that another member gives.
    pub(crate) taking: Taking,
    /// A snapshot is being made, a piece now and then.
    pub(crate) saving: Option<(Saving, Pace)>,
    /// The member that the undispatched commands go to; `None` while no leader is known.
    pub(crate) target: Option<Rank>,
    /// Counts rewinds: see [`Frame::Commands`].
    pub(crate) attempt: u64,
    /// Nothing is sent to the target before this.
    pub(crate) pause_until: Instant,
    /// Refused rounds of reads are not begun again before this.
    pub(crate) read_pause_until: Instant,
    pub(crate) ticks: Ticks,
    pub(crate) next_sweep_at: Instant,
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    pub(crate) fn new(node: Node<R>, host: HostState<P, A, D>, bounds: Bounds) -> Core<P, R, A, D> {
        let origin = host.origin;
        Core {
            node,
            host,
            batch: Batch::default(),
            foreign: Foreign::new(bounds.foreign_bytes),
            fetch: Fetch::new(origin.rank, origin.life.0),
            give: Give::new(bounds),
            restoring: None,
            seats: Seats::default(),
            disk_events: Vec::new(),
            taking: Taking::default(),
            saving: None,
            target: None,
            attempt: 0,
            pause_until: Instant::ZERO,
            read_pause_until: Instant::ZERO,
            ticks: Ticks::default(),
            next_sweep_at: Instant::ZERO,
        }
    }

    pub(crate) fn now(&self) -> Instant {
        self.host.desk.now
    }

    /// One event of the fabric that is not a message of the runtime's channel.
    pub(crate) fn on_event(&mut self, event: Event<'_>) {
        let now = self.now();
        match event {
            Event::LinkDown(peer) | Event::LinkUp(peer) => {
                self.end_streams(peer, matches!(event, Event::LinkUp(_)));
            }
            // A hint (T8): ask another member for the state. Streams end only with the link.
            Event::ProcessFailed(peer) => self.fetch.on_failed(peer),
            Event::Completed { .. } | Event::Message { .. } => {}
        }
        self.node.on_event(event, now, &mut self.host);
    }

    /// The streams from and to `peer` have ended, and others may begin if the link `is_up`. A
    /// requester that waits for an answer that was under way asks again.
    pub(crate) fn end_streams(&mut self, peer: Rank, is_up: bool) {
        let now = self.now();
        if !self.host.plant.has_planted(Bug::StreamsOutliveLinks) {
            self.host.flows.reset(peer);
        }
        self.give.on_link_down(peer);
        if is_up || self.host.plant.has_planted(Bug::WayEndsWithItsLink) {
            self.host.flows.detours.set_via(peer, None);
        }
        if is_up {
            self.ticks.on_link_up(peer);
            self.fetch.on_link_up(peer, now, &mut self.host.flows);
        } else {
            self.fetch.on_link_down(peer, now);
        }
        if self.target == Some(peer) {
            self.send_again();
        }
    }

    /// A message of the runtime's channel.
    pub(crate) fn on_message(&mut self, from: Rank, bytes: &[u8], incoming: &mut Incoming) {
        let refused = incoming.on_message(from, bytes, |frame| self.on_frame(from, frame));
        if refused.is_some_and(|stream| self.host.flows.is_present(from, stream)) {
            incoming.reset(from);
            self.end_streams(from, true);
        }
    }

    /// Tells those whose streams cannot be read, and begins new ones both ways. True if it did.
    pub(crate) fn refuse_streams(&mut self, incoming: &mut Incoming) -> bool {
        let now = self.now();
        let mut refused = false;
        for peer in incoming.unread(now).iter() {
            // It hears of that before anything of the new stream towards it (T2).
            if incoming.refuse(peer, now, &mut self.host.plant) {
                refused = true;
                let line = format!(
                    "what member {} sends cannot be read, so both begin again: \
                     see whether all members run one version",
                    peer.member().0
                );
                self.host.plant.say(&line);
                self.end_streams(peer, true);
            }
        }
        refused
    }

    /// One frame of another member's runtime.
    pub(crate) fn on_frame(&mut self, from: Rank, frame: Frame<'_>) {
        let members = self.host.desk.view.members;
        let rank = |n: u64| usize::try_from(n).ok().filter(|n| *n < members).map(Rank::at);
        match frame {
            Frame::Pass { to, attempt, frame } => {
                if let Some(to) = rank(to).filter(|to| *to != self.host.origin.rank) {
                    self.host.flows.pass(from, to, attempt, frame);
                }
            }
            Frame::Passed { peer, frame } => {
                let Some(peer) = rank(peer).filter(|peer| *peer != self.host.origin.rank) else {
                    return;
                };
                let Ok(Some((inner, _))) = Frame::decode(frame) else { return };
                match Direction::of(&inner) {
                    // The answers go the same way.
                    Some(Direction::ToLeader) => {
                        self.host.flows.detours.set_via(peer, Some(from));
                        self.on_own_frame(peer, inner);
                    }
                    Some(Direction::ToOrigin) => self.on_own_frame(peer, inner),
                    None => {}
                }
            }
            Frame::PassBroken { attempt } => {
                if attempt == self.attempt {
                    self.send_again();
                    self.pause_until = self.now().plus(REFUSED_PAUSE);
                    self.read_pause_until = self.pause_until;
                }
            }
            direct => {
                if Direction::of(&direct) == Some(Direction::ToLeader) {
                    self.host.flows.detours.set_via(from, None);
                }
                self.on_own_frame(from, direct);
            }
        }
    }

    /// One that `from` has made, whichever way it came.
    fn on_own_frame(&mut self, from: Rank, frame: Frame<'_>) {
        let meant = frame.meant_for(self.host.origin.life.0);
        let has_bug = self.host.plant.has_planted(Bug::EarlierLifesAnswers);
        let Some(frame) = meant.or(has_bug.then_some(frame)) else { return };
        match frame {
            Frame::Commands { life, attempt, items } => {
                let takes = self.node.trusted() == Some(self.host.origin.rank);
                if !self.foreign.take(from, life, attempt, items, takes) {
                    self.host.flows.push(from, &Frame::CommandsRefused { life, attempt });
                    if self.host.plant.has_planted(Bug::RefusedInPart) {
                        self.foreign.forget_refusal(from);
                    }
                }
            }
            Frame::CommandsRefused { attempt, .. } => {
                let hears = !self.host.plant.has_planted(Bug::RefusalsUnheard);
                if attempt == self.attempt && hears {
                    self.send_again();
                    self.pause_until = self.now().plus(REFUSED_PAUSE);
                }
            }
            Frame::Answers { slot, items, .. } => {
                for (sequence, reply) in items.iter() {
                    let sequence = Sequence(sequence);
                    if let Some(asker) = self.host.desk.writes.complete(sequence) {
                        let (of, number) = (self.host.origin, sequence.0);
                        self.host.plant.claim(Claim::Tells { of, number, slot });
                        let answer = Answer::Executed(slot, reply);
                        self.host.door.answer(asker, answer, &mut self.host.desk);
                    }
                }
            }
            Frame::Reads { life, items } => self.on_reads(from, life, items),
            Frame::ReadAnswers { items, .. } => {
                for (id, reply) in items.iter() {
                    let asked = &self.host.desk.asked;
                    let has_bug = self.host.plant.has_planted(Bug::ReadAnswersTheOldest);
                    let id = if has_bug { asked.oldest() } else { Sequence(id) };
                    if let Some(asker) = self.host.desk.asked.complete(id) {
                        let of = self.host.origin;
                        self.host.plant.claim(Claim::TellsRead { of, number: id.0 });
                        let answer = ReadAnswer::Forwarded(reply);
                        self.host.door.answer_read(asker, answer, &mut self.host.desk);
                    }
                }
            }
            Frame::ReadsRefused { items, .. } => {
                let asked = &mut self.host.desk.asked;
                items.iter().for_each(|(id, _)| asked.again(Sequence(id)));
                self.read_pause_until = self.now().plus(REFUSED_PAUSE);
            }
            Frame::Seat { incarnation, wants } => {
                self.on_seat(from, Incarnation(incarnation), wants);
            }
            Frame::Parted { incarnation, last, is_replaced } => {
                let parted = Parted { is_replaced, last: Incarnation(last) };
                self.on_parted(Incarnation(incarnation), parted);
            }
            Frame::StateWanted { .. }
            | Frame::StateTaken { .. }
            | Frame::ValuesTaken { .. }
            | Frame::StateRefused { .. }
            | Frame::StateBegins { .. }
            | Frame::StateHead { .. }
            | Frame::StateChunk { .. }
            | Frame::StateEnds { .. }
            | Frame::StateAgain { .. }
            | Frame::Values { .. } => self.on_state_frame(from, &frame),
            // Of the way, and not of what comes by it.
            Frame::Pass { .. } | Frame::Passed { .. } | Frame::PassBroken { .. } => {}
        }
    }

    /// Takes the machine's notes. True if there was one.
    pub(crate) fn take_notes(&mut self) -> bool {
        let mut took = false;
        while let Some(note) = self.host.notes.pop_front() {
            took = true;
            match note {
                Note::Leading { ballot } => {
                    self.host.leads = true;
                    self.host.plant.lead(true);
                    self.host.stats.reigns += 1;
                    self.forget_stamps();
                    self.batch.begin_reign(ballot);
                    self.ticks.begin_reign(self.host.state_clock.is_founded(), self.now());
                    self.send_again();
                }
                Note::Deposed { .. } => self.on_deposed(),
                Note::ReadReady(ticket) => {
                    self.host.plant.claim(Claim::CheckPasses(ticket));
                    self.on_read_ready(ticket);
                }
                Note::ReadRefused(ticket) => self.on_read_refused(ticket),
                Note::NeedState(at_least) => self.need_state(at_least),
            }
        }
        took
    }

    /// Its stamps are of a reign that is over, or begins.
    fn forget_stamps(&mut self) {
        if !self.host.plant.has_planted(Bug::StampsOutliveReigns) {
            self.host.state_clock.forget_stamps();
        }
    }

    fn on_deposed(&mut self) {
        self.host.leads = false;
        self.host.plant.lead(false);
        self.host.proposed_at.clear();
        self.forget_stamps();
        if let Some(withheld) = &mut self.host.withheld {
            withheld.clear();
        }
        self.batch.end_reign();
        self.abandon_change();
        self.host.app.abandon();
        let flows = &mut self.host.flows;
        self.foreign.refuse_all(|rank, life, attempt| {
            flows.push(rank, &Frame::CommandsRefused { life, attempt });
        });
        let desk = &mut self.host.desk;
        desk.waiting.join(&mut desk.after_tick);
        self.send_again();
    }

    /// Everything that has no answer goes out again: to a new leader, or over a new stream.
    pub(crate) fn send_again(&mut self) {
        self.attempt += u64::from(!self.host.plant.has_planted(Bug::AttemptStays));
        self.host.flows.detours.attempt = self.attempt;
        if self.host.plant.has_planted(Bug::NothingIsSentAgain) {
            return;
        }
        if self.host.plant.has_planted(Bug::SentAgainAsAnother) {
            self.host.desk.writes.rename();
        }
        self.host.desk.writes.rewind();
        self.host.desk.asked.rewind();
    }

    /// Reads which member the machine trusts, and copies its figures for the service.
    pub(crate) fn refresh_view(&mut self) {
        let me = self.host.origin.rank;
        let trusted = self.node.trusted();
        if trusted != self.target {
            self.target = trusted;
            self.pause_until = Instant::ZERO;
            self.send_again();
            if trusted != Some(me) {
                let flows = &mut self.host.flows;
                self.foreign.refuse_all(|rank, life, attempt| {
                    flows.push(rank, &Frame::CommandsRefused { life, attempt });
                });
            }
        }
        self.find_way();
        let status = self.node.status();
        let executed = self.host.executed();
        let (heard, able) = (self.node.heard(), self.keepers());
        let (configuration, incarnation) = (self.node.configuration(), self.node.incarnation());
        let view = &mut self.host.desk.view;
        view.role = status.role;
        view.ballot = status.ballot;
        view.committed = status.committed.max(executed);
        view.applied = executed;
        view.is_kept = executed <= status.applied;
        view.trusted = trusted;
        (view.heard, view.able) = (heard, able);
        (view.configuration, view.incarnation) = (configuration, incarnation);
        let hears = !self.host.plant.has_planted(Bug::StaleSeatServes);
        if let Some(configuration) = configuration.as_ref().filter(|_| hears) {
            view.parted = view.parted.or(Parted::of(configuration, me, incarnation));
        }
        for rank in Rank::all(view.members.min(MAX_MEMBERS)) {
            view.applied_by[rank.index()] =
                if rank == me { executed } else { self.node.applied_by(rank) };
        }
        let others = heard.difference([me].into_iter().collect());
        self.host.observe_state_time();
        let view = &mut self.host.desk.view;
        view.data_lost = status.role == Role::Learner
            && !others.is_empty()
            && others.len() + 1 >= base::majority(view.members)
            && others.difference(self.fetch.learners()).is_empty();
    }

    /// The way to a leader that this member does not hear, if there is one through another: what is
    /// without an answer goes out again whenever it changes.
    fn find_way(&mut self) {
        let Some(leader) = self.target.filter(|leader| *leader != self.host.origin.rank) else {
            return;
        };
        let is_in_sight = self.node.heard().contains(leader)
            || self.host.plant.has_planted(Bug::NothingGoesAround);
        let via = if is_in_sight { None } else { self.node.between(leader) };
        if via != self.host.flows.detours.via(leader) {
            self.host.flows.detours.set_via(leader, via);
            self.host.desk.recall_rounds();
            self.send_again();
        }
    }

    /// Ends what has waited for too long.
    pub(crate) fn sweep(&mut self) {
        let now = self.now();
        if now < self.next_sweep_at {
            return;
        }
        self.next_sweep_at = now.plus(SWEEP_EVERY);
        let HostState { desk, door, stats, plant, .. } = &mut self.host;
        let mut late: Vec<_> = Vec::new();
        desk.writes.expire(now, |asker| late.push(asker));
        stats.commands_unknown += late.len() as u64;
        for asker in late.drain(..) {
            if plant.has_planted(Bug::UnknownCalledFailed) {
                door.answer_read(asker, ReadAnswer::Unavailable, desk);
            } else if plant.has_planted(Bug::UnknownCalledDone) {
                door.answer(asker, Answer::Executed(Slot::ZERO, b"+OK\r\n"), desk);
            } else {
                door.answer(asker, Answer::Unknown, desk);
            }
        }
        desk.asked.expire(now, |asker| late.push(asker));
        desk.expire_reads(|asker| late.push(asker));
        for asker in late {
            door.answer_read(asker, ReadAnswer::Unavailable, desk);
        }
    }

    /// Answers the WAITs that have what they wait for, or have waited long enough.
    pub(crate) fn end_waits(&mut self) -> bool {
        if self.host.desk.waits.is_empty() {
            return false;
        }
        let now = self.now();
        let waits = std::mem::take(&mut self.host.desk.waits);
        let before = waits.len();
        let mut ended = 0;
        for wait in waits {
            let n = self.holders_but_the_leader(wait.prefix);
            if n >= wait.n || wait.deadline.is_some_and(|deadline| deadline <= now) {
                ended += 1;
                self.host.door.answer_wait(wait.asker, n, &mut self.host.desk);
            } else {
                self.host.desk.waits.push(wait);
                self.wake_laggards(wait.prefix);
            }
        }
        debug_assert!(self.host.desk.waits.len() + ended >= before);
        ended > 0
    }

    fn holders_but_the_leader(&self, prefix: Prefix) -> usize {
        if self.host.withheld.is_some() {
            // The waiting client was told of these writes, so every disk has them.
            let voters = self.node.configuration().map(|of| of.members.voters.len());
            return voters.unwrap_or(self.host.desk.view.members).saturating_sub(1);
        }
        let mut holders = self.node.holders(prefix);
        let me = self.host.origin.rank;
        // What was executed is in memory; whether it is on the own disk the machine knows.
        if self.host.disk.is_none() && self.host.executed() >= prefix {
            holders.insert(me);
        }
        // The leader decided it, and so has it: Redis counts replicas, not the master.
        let leader = if self.host.leads { Some(me) } else { self.node.trusted() };
        match leader {
            Some(leader) => {
                if !self.host.plant.has_planted(Bug::WaitCountsLeader) {
                    holders.remove(leader);
                }
                holders.len()
            }
            // No member is trusted at the moment: one of the holders decided it.
            None => holders.len().saturating_sub(1),
        }
    }

    /// A follower that no majority needs sleeps, or is sent values late. A client waits for it now.
    pub(crate) fn wake_laggards(&mut self, prefix: Prefix) {
        let now = self.now();
        self.node.hasten(prefix, now, &mut self.host);
        let me = self.host.origin.rank;
        for rank in Rank::all(self.host.desk.view.members) {
            if rank != me && self.node.applied_by(rank) < prefix {
                self.host.plant.wake(rank);
            }
        }
    }
}
