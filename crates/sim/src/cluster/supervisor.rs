//! The supervisor of a simulated cluster: the incarnations that it puts on seats, and disks that
//! come back when they are not wanted.
//!
//! - A1 a process ends by itself only if its incarnation has parted: the decided configuration
//!   names another one on its seat, or none. Judged in `part`.
//! - A2 where states live in memory alone, no state ends that memory-quorum needs: of the voters of
//!   each configuration that may govern, a majority lives and holds the state, without it. The
//!   supervisor waits for that, and storms keep to it. By `is_dispensable`.
//! - A3 an incarnation is never used twice on a seat. By construction: it follows from the first
//!   life on it, as in the program.
//! - A4 configurations change by one voter at a time, and are the same at all members. Judged by
//!   `checks::configurations`.
//! - A5 when all is well, no process runs on a seat that belongs to another incarnation, or to
//!   none. Judged in `ghost`.

use super::client::Client;
use super::operator::Operator;
use super::seats::Shown;
use super::world::World;
use crate::Property;
use crate::checks::configurations::votes;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::{Fault, Happening};
use crate::trace::Topic;
use crate::world::Phase;
use crate::world::outage::Outages;
use base::{Incarnation, Rank, majority};
use engine::multicast::StopError;
use proto::Role;
use proto::members::Members;

/// The longest time in which the supervisor starts another process.
const STARTS_WITHIN_NS: u64 = 30 * MS;

impl World {
    /// Notes the members that `node` reports after a turn (A4).
    pub(super) fn look_at_members(&mut self, node: usize) {
        let Some(member) = &self.members[node] else { return };
        let (view, Some(of)) = (*member.view(), member.configuration()) else { return };
        let life = self.net.borrow().processes[node].life;
        let led = (view.role == Role::Leader).then_some(view.ballot);
        let before = self.seats.shown[node].replace(Shown { life, led, of });
        let before = before.filter(|before| before.life == life);
        if before.is_some_and(|before| before.of == of) {
            return;
        }
        let ledger = &mut self.seats.configurations;
        let mut verdict = Ok(());
        // A leader begins a change when the one before is decided.
        if let Some(Shown { led: Some(led_before), of: was, .. }) = before
            && Some(led_before) == led
            && was.at < of.at
        {
            verdict = ledger.decided(was.at, &was.members);
        }
        if of.is_decided {
            verdict = verdict.and(ledger.decided(of.at, &of.members));
        } else {
            // (A member that is behind may report one that is over long since.)
            let bases = [before.map(|before| before.of.at), ledger.newest().map(|(at, _)| at)];
            let base = bases.into_iter().flatten().find(|at| *at < of.at);
            ledger.began(of.at, of.members);
            base.into_iter().for_each(|base| ledger.made(base, of.members));
        }
        if let Err(detail) = verdict {
            self.violate(Property::Membership, format!("r{node}: {detail}"));
        }
    }

    /// A2.
    pub(super) fn is_dispensable(&self, node: usize) -> bool {
        self.is_dispensable_in(&self.seats.governing(), node)
    }

    /// Whether a majority of the members lives without `node`, with its states or behind.
    fn leaves_a_majority(&self, node: usize) -> bool {
        let is_seated = |node: usize| {
            self.is_alive(node) && self.members[node].as_ref().is_some_and(|one| one.is_seated())
        };
        let lives = |rank: &Rank| rank.index() != node && is_seated(rank.index());
        self.seats.governing().iter().all(|members| {
            let is_member =
                |rank: &Rank| votes(members, *rank, self.seats.incarnation(rank.index()));
            let n_left = members.voters.iter().filter(lives).filter(is_member).count();
            n_left >= majority(members.voters.len())
        })
    }

    fn is_dispensable_in(&self, governing: &[Members], node: usize) -> bool {
        let sits = |members: &Members, rank: Rank| {
            votes(members, rank, self.seats.incarnation(rank.index()))
        };
        governing.iter().all(|members| {
            let holds = |rank: &Rank| {
                rank.index() != node && sits(members, *rank) && self.holds_state(rank.index())
            };
            let n_left = members.voters.iter().filter(holds).count();
            !sits(members, Rank::at(node)) || n_left >= majority(members.voters.len())
        })
    }

    // ---- the supervisor ----

    /// Takes the reports of the process of `node`: that another member is to be begun again, or
    /// that its own incarnation is no longer a member.
    pub(super) fn hear_reports(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let wanted = member.take_renewals();
        let is_over = member.view().parted.is_some();
        for rank in wanted {
            self.hear_renewal(node, rank);
            self.seats.seats[rank.index()].is_to_renew = true;
        }
        if is_over {
            self.part(node);
        }
        self.renew_seats();
    }

    /// A1.
    fn part(&mut self, node: usize) {
        let (rank, incarnation) = (Rank::at(node), self.seats.incarnation(node));
        let members = self.seats.members();
        let last = members.incarnation(rank);
        if incarnation > last || incarnation == last && members.all().contains(rank) {
            let detail = format!(
                "r{node} says that its incarnation {} has parted, and {members:?} is decided",
                incarnation.0
            );
            return self.violate(Property::Membership, detail);
        }
        self.net.borrow_mut().coverage.hit(Mark::PartedEnded);
        self.crash(node);
        self.seats.seats[node].is_taken = self.seats.is_haunted(node);
    }

    /// Begins the new incarnations that are ordered and allowed (A2).
    pub(super) fn renew_seats(&mut self) {
        for node in 0..self.plan.members {
            if self.seats.seats[node].is_to_renew && self.may_renew(node) {
                self.renew(node);
            }
        }
    }

    fn may_renew(&self, node: usize) -> bool {
        if self.has_disks() || !self.is_alive(node) {
            return true;
        }
        match self.phase {
            // (What a leader began and lost is in the ledger still. When all has been well for a
            // while, none of it can be decided any longer.)
            Phase::Liveness => self.is_dispensable_in(&[self.seats.members()], node),
            _ => self.is_dispensable(node),
        }
    }

    fn renew(&mut self, node: usize) {
        self.exorcise(node);
        if self.is_alive(node) {
            self.crash(node);
        }
        let fresh = self.seats.new_platter();
        let before = std::mem::replace(&mut self.platters[node], fresh);
        let life = self.net.borrow().processes[node].life;
        let keeps = self.seats.operator.as_mut().is_some_and(Operator::keeps_disk);
        let seat = &mut self.seats.seats[node];
        let was = std::mem::replace(&mut seat.incarnation, Incarnation(u64::from(life) + 2));
        seat.says_damaged = false;
        (seat.is_new, seat.is_taken, seat.is_to_renew) = (true, true, false);
        if let Some(mut platter) = before.filter(|_| keeps) {
            platter.log.unplug();
            seat.attic = Some((platter, was));
        }
        let number = seat.incarnation.0;
        self.trace_operator(node, number, 0);
        let soon = 1 + self.outages.rng.below(STARTS_WITHIN_NS);
        self.push_in(soon, Happening::Mend(Fault::Crash(node as u16)));
    }

    /// Replaces the memory at `node`: no verb that was posted to the old one takes effect in the
    /// new one.
    pub(super) fn renew_memory(&mut self, node: usize) {
        let net = &mut *self.net.borrow_mut();
        net.clear_region(node);
        if !self.has_disks() {
            Outages::replace_memory(net, node);
        }
    }

    pub(super) fn trace_operator(&self, node: usize, a: u64, b: u64) {
        let net = &mut *self.net.borrow_mut();
        net.trace.record(net.queue.now(), node, Topic::Operator, a, b);
    }

    // ---- disks that come back ----

    /// Puts a replaced disk back in its place for a while, at intervals, with everything that it
    /// once promised and held, and without what its successor has.
    pub(super) fn mind_the_attic(&mut self) {
        let now = self.now();
        let Some(operator) = &mut self.seats.operator else { return };
        let mut swap = None;
        for (at, seat) in self.seats.seats.iter().enumerate() {
            let is_over = seat.is_haunted_until.is_some_and(|until| until <= now);
            let begins = seat.is_haunted_until.is_none()
                && seat.attic.is_some()
                && seat.is_taken
                // What replaced it has begun: else its first process would find the old disk.
                && !seat.is_new
                && !seat.is_to_renew
                && operator.brings_back();
            if is_over || begins {
                swap = Some(at);
            }
        }
        if let Some(node) = swap {
            self.swap_with_attic(node);
        }
    }

    /// Puts the disk that belongs to `node` in its place.
    pub(super) fn exorcise(&mut self, node: usize) {
        if self.seats.is_haunted(node) {
            self.swap_with_attic(node);
        }
    }

    fn swap_with_attic(&mut self, node: usize) {
        if self.is_alive(node) {
            self.crash(node);
        }
        let lasts = 1 + self.outages.rng.below(self.plan.fault_ns_max);
        let until = self.now() + lasts;
        let seat = &mut self.seats.seats[node];
        let Some((disk, incarnation)) = &mut seat.attic else { return };
        if let Some(platter) = &mut self.platters[node] {
            std::mem::swap(disk, platter);
            disk.log.unplug();
        }
        std::mem::swap(incarnation, &mut seat.incarnation);
        let begins = seat.is_haunted_until.is_none();
        seat.is_haunted_until = begins.then_some(until);
        let number = seat.incarnation.0;
        if begins {
            self.net.borrow_mut().coverage.hit(Mark::OldDiskBack);
        }
        self.trace_operator(node, number, 2);
        self.net.borrow_mut().clear_region(node);
        self.restart(node);
    }

    /// A5: a process that should have ended.
    pub(super) fn ghost(&self) -> Option<String> {
        let is_ghost = |node: &usize| self.is_alive(*node) && !self.seats.sits(*node);
        let node = (0..self.plan.members).find(is_ghost)?;
        let (incarnation, members) = (self.seats.incarnation(node).0, self.seats.members());
        Some(format!("r{node} runs as incarnation {incarnation}, and {members:?} is decided"))
    }

    /// The nodes whose processes can be asked when all is well.
    pub(super) fn seated(&self) -> impl Iterator<Item = usize> + '_ {
        (0..self.plan.members).filter(|node| self.seats.votes(*node))
    }
}

impl World {
    /// Judges what a copy has seen (`timers`), and begins a member again whose copy was found to
    /// differ, or lacks entries, as soon as it may die (S1).
    pub(super) fn hear_copy(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let (seen, n_ended) = member.take_seen();
        if n_ended > 0 {
            self.net.borrow_mut().coverage.hit(Mark::TimerEnded);
        }
        if let Some(n) = self.deviants.journal.judge(&seen) {
            let what = format!("r{node}: what its copy saw as its {n}. differs from another's");
            self.violate(Property::Validity, what);
            return;
        }
        if let Some(what) = self.deviants.left_early() {
            self.violate(Property::Answer, what);
            return;
        }
        if let Some(what) = self.deviants.counts_wrongly() {
            self.violate(Property::Validity, what);
            return;
        }
        let Some(member) = &mut self.members[node] else { return };
        let is_behind = member.falls_behind();
        if is_behind && self.may_die(node) {
            self.crash(node);
            self.restart(node);
            return;
        }
        let Some(member) = &mut self.members[node] else { return };
        let Some(why) = member.rolls_back() else { return };
        let stalls = member.stall().is_some();
        if member.n_since_deviation().is_none() && !stalls {
            self.violate(Property::Validity, format!("r{node} did nothing wrong: {why}"));
        } else if self.may_die(node) {
            let mark = if stalls { Mark::StallPutDown } else { Mark::CopyPutDown };
            self.net.borrow_mut().coverage.hit(mark);
            self.crash(node);
            self.restart(node);
        }
    }

    /// Ends the stalls of copies, those to come too, unless the others have passed them: such a
    /// copy has to be put down (I13). Clients of a copy that stalled wait from now on.
    pub(super) fn mend_copies(&mut self) {
        let now = self.now();
        let World { members, clients, .. } = self;
        for (node, member) in members.iter_mut().enumerate() {
            let Some(member) = member else { continue };
            let stall = member.stall();
            if stall.is_some_and(|stalled| stalled.is_passed) {
                continue;
            }
            member.mend_copy();
            let is_of_it = |client: &&mut Client| {
                stall.is_some() && client.connection.is_some_and(|one| one.node == node)
            };
            clients.iter_mut().filter(is_of_it).for_each(|client| client.waits_since = now);
        }
    }

    /// I9, I13: a copy that stays, in words.
    pub(super) fn deviant(&self) -> Option<String> {
        self.seated().find_map(|node| {
            let n = self.members[node].as_ref()?.n_since_deviation()?;
            (n >= 2 * self.deviants.compare).then(|| {
                format!("r{node} has executed {n} entries since its copy answered otherwise")
            })
        })
    }
}

impl World {
    /// Ends the process of `node`, if it stops, and starts another one (R1 and R2 of `partitions`).
    pub(super) fn hear_stop(&mut self, node: usize) {
        let Some(why) = self.members[node].as_ref().and_then(|member| member.stops()) else {
            return;
        };
        let is_good = matches!(why, StopError::LeftBehind(_) | StopError::CutOff(_));
        if !is_good || !self.has_disks() && !self.leaves_a_majority(node) {
            return self.violate(Property::Validity, format!("r{node} stops: {why}"));
        }
        self.crash(node);
        self.aims.stopped = Some(node);
        let soon = 1 + self.outages.rng.below(30 * MS);
        self.push_in(soon, Happening::Mend(Fault::Crash(node as u16)));
    }
}
