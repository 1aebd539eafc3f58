//! Faults that are aimed at moments of a view change which faults drawn by time meet too rarely.
//!
//! - A1 *A proposer dies at once*: a part of the others may have its proposal.
//! - A2 *A proposer dies with a confidant*, which alone may have seen that the change was decided,
//!   and has installed the next view.
//! - A3 *A proposer is stopped*, and wakes when the next leader proposes.
//! - A4 *An installer dies*: it may be the only one that knows the decision.
//! - A5 *A member dies or stops soon after it has wedged*; or its leader does.
//! - A7 *A member that wedges is given messages*, which it may not be able to send in its shard any
//!   longer: in groups with subgroups.
//! - A8 *A reader is cut off*: in groups with leases, one or two members hear none of the others,
//!   which are heard, and are suspected by one of them at once; reads come there meanwhile.
//! - A9 *Another change follows at once*: a member is suspected or leaves, or a process joins,
//!   while a newcomer waits for its state, or answers wait for leases.
//! - A10 *A member learns a time*, of what another one has delivered, or of its host's clock: by
//!   the operator, and when it has just wedged.
//! - A11 *Joiners die and are followed at once* when their joining is proposed: those that follow
//!   are told what was meant for them.
//! - A12 *One that returns is deaf* to another one, in a durable group that has no view: both may
//!   call for a restart.
//! - A13 *A shard becomes short while another one has a member to spare*, and talks: that member is
//!   moved with its turns under way.
//! - A14 *A link breaks that has brought a parcel*, which its receiver does not take yet: it is
//!   behind with a view, or with its disk, and may see the slot first.
//! - A15 *A link breaks under the blocks of a relay*, which are on their way, or have just come.
//! - A16 *A relay dies* by way of which others are to get more blocks.
//! - A17 *A state for the log comes when the view ends*: see `owed`.
//! - A6 *All others leave when a newcomer arrives*, which does not have the state yet.

use super::process::Process;
use super::scenario::Manner;
use super::world::World;
use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::{Fault, Happening};
use crate::world::Phase;
use base::{Rank, majority};
use proto::vsync::Shard;

impl World {
    /// A14
    pub(super) fn strike_parcel(&mut self, seat: usize) {
        let Some(from) = self.net.borrow().parcels.waits_for(seat) else { return };
        if !self.strikes_parcel(16) {
            return;
        }
        let net = &mut *self.net.borrow_mut();
        net.coverage.hit(Mark::ParcelLost);
        let link = net.link_index(from.index(), seat);
        self.outages.reset(net, link);
    }

    /// A15, A16
    pub(super) fn strike_relay(&mut self, seat: usize) {
        let Some(process) = self.processes[seat].as_mut().filter(|one| one.has_relayed()) else {
            return;
        };
        let is_mild = self.scenario.manner == Manner::Mild;
        if process.owes_blocks() && !is_mild && self.strikes_parcel(32) {
            return self.crash_for(seat);
        }
        if !self.strikes_parcel(16) {
            return;
        }
        let net = &mut *self.net.borrow_mut();
        let links = (0..net.members).map(|to| net.link_index(seat, to));
        let link = links.into_iter().find(|link| net.brings_parcel(*link));
        link.into_iter().for_each(|link| self.outages.reset(net, link));
    }

    /// A1 to A3.
    pub(super) fn strike_proposer(&mut self, seat: usize) {
        if let Some(stopped) = self.stopped_proposer.take_if(|stopped| *stopped != seat) {
            self.mend(Fault::Pause(stopped as u16));
        }
        if self.phase != Phase::Safety
            || !self.outages.rng.chance(self.scenario.aims.n_proposers, 8)
        {
            return;
        }
        self.net.borrow_mut().coverage.hit(Mark::ProposerStruck);
        match self.outages.rng.below(4) {
            0 => self.crash_for(seat),
            1 | 2 => self.strike_pair(seat),
            _ => {
                self.stopped_proposer = Some(seat);
                self.pause_for(seat, self.scenario.plan.fault_ns_max);
            }
        }
    }

    /// A2: the confidant sees the echoes of a bare majority, its own among them, and is not heard;
    /// no other member sees so many.
    fn strike_pair(&mut self, seat: usize) {
        let Some(view) = self.processes[seat].as_ref().and_then(|one| one.view().cloned()) else {
            return;
        };
        let mut others: Vec<usize> = view.members.iter().map(|one| one.seat().index()).collect();
        others.retain(|other| *other != seat);
        for n in (1..others.len()).rev() {
            others.swap(n, self.outages.rng.below(n as u64 + 1) as usize);
        }
        let Some(confidant) = others.pop() else { return };
        let n_hearing = majority(view.members.len()).saturating_sub(2);
        for to in others.iter().skip(n_hearing) {
            self.cut(seat, *to);
        }
        for to in others.iter().chain([&seat]) {
            self.cut(confidant, *to);
        }
        for from in [seat, confidant] {
            let weather = &self.scenario.plan.weather;
            let soon =
                MS / 4 + self.outages.rng.below(20 * (weather.latency_ns + weather.jitter_ns));
            self.doomed.insert(Rank::at(from));
            self.push_in(soon, Happening::Spring(from as u16));
        }
    }

    /// Cuts one direction between two seats for a while.
    fn cut(&mut self, from: usize, to: usize) {
        let lasts = 1 + self.outages.rng.below(self.scenario.plan.fault_ns_max);
        self.cut_for(from, to, lasts);
    }

    fn cut_for(&mut self, from: usize, to: usize, lasts: u64) {
        let net = &mut *self.net.borrow_mut();
        let wire = net.link_index(from, to);
        if !self.outages.is_cut(wire) {
            self.outages.cut(net, wire);
            net.queue.push(net.now() + lasts, Happening::Mend(Fault::Cut(wire as u32)));
        }
    }

    /// A4
    pub(super) fn strike_installer(&mut self, seat: usize) {
        if self.phase == Phase::Safety
            && self.outages.rng.chance(self.scenario.aims.n_installers, 8)
        {
            self.net.borrow_mut().coverage.hit(Mark::InstallerStruck);
            self.crash_for(seat);
        }
    }

    /// A5
    pub(super) fn lay_ambush(&mut self, seat: usize) {
        if self.phase == Phase::Safety && self.outages.rng.chance(self.scenario.aims.n_ambushes, 8)
        {
            let weather = &self.scenario.plan.weather;
            let soon = self.outages.rng.below(8 * (weather.latency_ns + weather.jitter_ns));
            let leader = self.leader().filter(|_| self.outages.rng.chance(1, 2));
            self.push_in(soon, Happening::Spring(leader.unwrap_or(seat) as u16));
        }
    }

    /// A7
    pub(super) fn load_wedged(&mut self, seat: usize) {
        let is_laid_out = !self.scenario.layout.is_empty();
        if self.phase != Phase::Safety || !is_laid_out || self.rng_of_layout.chance(1, 2) {
            return;
        }
        for subgroup in 0..self.scenario.shape.n_subgroups {
            self.with(seat, |process, record| {
                if !process.is_silent && !record.asked_to_leave {
                    process.multicast(subgroup, 0, record);
                }
            });
        }
    }

    /// A8
    pub(super) fn cut_readers_off(&mut self) {
        let is_mild = self.scenario.manner == Manner::Mild;
        if self.phase != Phase::Safety || is_mild || !self.rng_of_reads.chance(1, 48) {
            return;
        }
        let members: Vec<usize> = match self.latest() {
            Some(view) if view.members.len() > 2 => {
                view.members.iter().map(|one| one.seat().index()).collect()
            }
            _ => return,
        };
        let n = members.len();
        let first = self.rng_of_reads.below(n as u64) as usize;
        let n_readers = if n > 4 { 1 + self.rng_of_reads.below(2) as usize } else { 1 };
        self.readers = (0..n_readers).map(|at| members[(first + at) % n]).collect();
        let others: Vec<usize> =
            members.into_iter().filter(|seat| !self.readers.contains(seat)).collect();
        let accuser = others[self.rng_of_reads.below(others.len() as u64) as usize];
        // Until they suspect the others themselves, and longer.
        let lasts = 2 * self.scenario.timing.suspect_after.as_nanos() as u64;
        for reader in self.readers.clone() {
            others.iter().for_each(|other| self.cut_for(*other, reader, lasts));
            self.with(accuser, |process, _| process.suspect(Rank::at(reader)));
        }
        self.run_soon(accuser);
    }

    /// A9
    pub(super) fn change_again(&mut self, installer: usize) {
        let is_mild = self.scenario.manner == Manner::Mild;
        if self.phase != Phase::Safety || is_mild {
            return;
        }
        let is_ready = self.processes[installer].as_ref().is_some_and(Process::is_ready);
        let n_of_16 = match self.scenario.lease {
            _ if !is_ready => 3,
            Some(_) => 2,
            None => 0,
        };
        if !self.rng_of_news.chance(n_of_16, 16) {
            return;
        }
        let seats = self.n_seats() as u64;
        let [one, other] = [0, 1].map(|_| self.rng_of_news.below(seats) as usize);
        match self.rng_of_news.below(3) {
            0 => {
                self.with(one, |process, _| process.suspect(Rank::at(other)));
            }
            1 => {
                self.with(one, |process, record| process.leave(record));
            }
            _ => self.start_spare(),
        }
        self.run_soon(one);
    }

    fn start_spare(&mut self) {
        let is_spare =
            |seat: &usize| !self.is_alive(*seat) && !self.awaited.contains(Rank::at(*seat));
        let spare = (0..self.n_seats()).find(is_spare);
        spare.into_iter().for_each(|seat| self.start(seat));
    }

    /// A11
    pub(super) fn succeed_joiners(&mut self) {
        let is_mild = self.scenario.manner == Manner::Mild;
        if self.phase != Phase::Safety || is_mild || !self.rng_of_news.chance(1, 8) {
            return;
        }
        for seat in 0..self.n_seats() {
            let is_outside = |one: &Process| one.view().is_none() && !one.is_returning();
            if self.is_alive(seat) && self.processes[seat].as_ref().is_some_and(is_outside) {
                self.crash(seat);
                self.start(seat);
            }
        }
    }

    /// A12
    pub(super) fn deafen_returning(&mut self, seat: usize) {
        let is_mild = self.scenario.manner == Manner::Mild;
        let is_dark = self.is_durable() && self.latest().is_none();
        if self.phase != Phase::Safety || is_mild || !is_dark || !self.rng_of_news.chance(1, 2) {
            return;
        }
        let other = self.rng_of_news.below(self.n_seats() as u64) as usize;
        if other != seat {
            let lasts = 1 + self.rng_of_news.below(400 * MS);
            self.cut_for(other, seat, lasts);
        }
    }

    /// A10
    pub(super) fn inform(&mut self, seat: usize) {
        let other = self.rng_of_news.below(self.n_seats() as u64) as usize;
        let is_date = self.rng_of_news.chance(1, 2);
        let time =
            self.with(other, |other, record| if is_date { other.date() } else { record.latest });
        let Some(time) = time.filter(|_| !self.history.is_unordered) else { return };
        self.with(seat, |process, record| {
            if process.view().is_some() {
                process.learn(time, record);
            }
        });
    }

    /// A13
    pub(super) fn make_short(&mut self) {
        let is_mild = self.scenario.manner == Manner::Mild;
        if self.phase != Phase::Safety || is_mild || self.scenario.layout.is_empty() {
            return;
        }
        let rng = &mut self.rng_of_news;
        let n_subgroups = self.scenario.layout.len() as u64;
        let (is_due, subgroup) = (rng.chance(1, 12), rng.below(n_subgroups) as usize);
        let (first, second) = (rng.next_u64() as usize, rng.next_u64() as usize);
        let Some(view) = self.latest().filter(|_| is_due) else { return };
        let n_least = self.scenario.layout[subgroup].n_least;
        let shards = view.roster[subgroup].shards.iter();
        let (rich, poor): (Vec<_>, Vec<_>) = shards
            .filter(|shard| shard.seats.len() >= n_least)
            .partition(|shard| shard.seats.len() > n_least);
        let seats = |of: &[&Shard]| -> Vec<usize> {
            of.iter().flat_map(|shard| &shard.seats).map(|seat| seat.index()).collect()
        };
        let (rich, poor) = (seats(&rich), seats(&poor));
        if rich.is_empty() || poor.is_empty() {
            return;
        }
        let (speaker, leaver) = (rich[first % rich.len()], poor[second % poor.len()]);
        self.with(speaker, |process, record| {
            if !process.is_silent && !record.asked_to_leave {
                (0..2).for_each(|_| process.multicast(subgroup, 0, record));
            }
        });
        self.with(leaver, |process, record| process.leave(record));
        self.run_soon(speaker);
        self.run_soon(leaver);
    }

    /// A6
    pub(super) fn bid_farewell(&mut self, newcomer: usize) {
        if self.phase != Phase::Safety
            || !self.outages.rng.chance(self.scenario.aims.n_farewells, 8)
        {
            return;
        }
        for seat in (0..self.n_seats()).filter(|seat| *seat != newcomer) {
            let leaves = self.processes[seat].as_ref().is_some_and(|one| one.view().is_some());
            if leaves {
                self.with(seat, |process, record| process.leave(record));
                self.run_soon(seat);
            }
        }
    }

    /// Springs what was laid for `seat`.
    pub(super) fn on_spring(&mut self, seat: usize) {
        let is_doomed = self.doomed.remove(Rank::at(seat));
        if self.phase != Phase::Safety || !self.is_alive(seat) {
            return;
        }
        if is_doomed || self.outages.rng.chance(1, 2) {
            self.crash_for(seat);
        } else {
            let lasts = 1 + self.outages.rng.below(self.scenario.plan.fault_ns_max);
            self.pause_for(seat, lasts);
        }
    }
}
