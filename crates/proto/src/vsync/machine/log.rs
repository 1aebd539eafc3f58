//! A durable group's process and its disk: what it finds there, what it keeps there, and how it
//! returns.

use super::super::bugs::{Bug, Plantings};
use super::super::durable::Kept;
use super::super::journal::Journal;
use super::super::records::{self, Found, Past, UnreadableError};
use super::super::restart::{Restarted, Returning};
use super::super::shard::ShardId;
use super::super::view::View;
use super::super::wire::Message;
use super::super::{Config, End, Mode, Output, Position, Start};
use super::{Begun, Life, Machine};
use crate::disk::{Disk, DiskEvent};
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{Instant, Port, Rank, SeatSet};

impl<P: Plantings> Machine<P> {
    /// A process of a durable group, with its disk. It returns if that has the log of one before,
    /// unless it is to be a founder.
    ///
    /// # Errors
    /// [`UnreadableError`]: the disk has the records of something else.
    pub fn on(
        config: Config,
        disk: &mut impl Disk,
        planted: P,
        now: Instant,
    ) -> Result<Machine<P>, UnreadableError> {
        assert!(config.shape.mode == Mode::Durable && config.keeps_state, "{config:?}");
        let (me, n_subgroups) = (config.me, config.shape.n_subgroups);
        let mut found = Found::on(disk, me.seat, n_subgroups, planted).ok_or(UnreadableError)?;
        let mut machine = Machine::outside(config, planted, now);
        machine.journal = Journal::on(disk);
        machine.journal.note_found(found.n_bytes);
        if matches!(machine.config.start, Start::Found(_)) {
            machine.found(now);
            return Ok(machine);
        }
        machine.journal.put(|| records::life(&me));
        if !found.lives.is_empty() {
            let (n_seats, timing) = (machine.config.shape.n_seats, machine.config.timing);
            found.lives.push(me.incarnation);
            let returning = Returning::new(me, n_seats, timing, found, planted, now);
            machine.life =
                Life::Outside { next_knock_at: now, returning: Some(Box::new(returning)) };
        }
        Ok(machine)
    }

    /// Writes to the disk what there is to write. To be called after each [`Machine::poll`].
    pub fn write(&mut self, disk: &mut impl Disk) {
        self.journal.write(disk);
    }

    /// Takes what the disk reports. To be followed by [`Machine::poll`].
    pub fn on_disk(&mut self, event: DiskEvent) {
        self.journal.on_event(event);
    }

    /// Whether this process has the log of one before, and is in no view yet.
    pub fn is_returning(&self) -> bool {
        matches!(&self.life, Life::Outside { returning: Some(_), .. })
    }

    /// What such a process has told of its promises (`restart`, R1); 0 for nothing.
    pub fn promised(&self) -> u64 {
        match &self.life {
            Life::Outside { returning: Some(returning), .. } => returning.told(),
            _ => 0,
        }
    }

    // ---- states ----

    /// Keeps the state of a shard, as it was at a position, in the log.
    pub(super) fn keep(&mut self, shard: ShardId, at: Position, state: &[u8]) {
        let Life::Inside(inside) = &self.life else { return };
        let (current, subgroup) = (&inside.current, usize::from(shard.subgroup));
        let is_own = current.lane_of(subgroup).map(|lane| lane.id);
        let kept = &mut self.kept[subgroup];
        if is_own != Some(shard) || kept.asked != Some(at) {
            return;
        }
        let since = current.view.shard(shard).expect("a shard of the view").since;
        if current.is_ready(subgroup) {
            if current.is_wedged() && !self.planted.has(Bug::KeptWhileWedged) {
                // What lies before may be an acceptance. A state is asked for again when another
                // `keep_bytes` have come; the log is longer until then.
                kept.asked = None;
                return;
            }
            // What lies before the state is freed: its view has to be behind that.
            let view = || records::view(&current.view, &current.trims);
            self.entry = self.journal.put_covering(view);
        }
        kept.put((shard, since), at, current.clock.now(), state, &mut self.journal);
    }

    /// Asks for states to keep, takes those that are kept for the own, and frees what they cover.
    pub(super) fn mind_log(&mut self, out: &mut Vec<Output>) {
        let Life::Inside(inside) = &mut self.life else { return };
        if !self.journal.keeps() {
            return;
        }
        let current = &mut inside.current;
        let mut needed = Some(self.entry);
        let n_bytes = self.kept.iter().map(Kept::n_state_bytes).sum::<u64>();
        let n_bytes = n_bytes.max(self.config.keep_bytes);
        let durable =
            |subgroup: &usize| current.has_lane(*subgroup) && current.is_durable(*subgroup);
        let is_due = |subgroup: &usize| {
            let is_idle = current.lane(*subgroup).logged == 0;
            let is_left_out = is_idle && self.planted.has(Bug::KeptByTheIdle);
            self.kept[*subgroup].is_due(n_bytes, &self.journal) && !is_left_out
        };
        let ready = || (0..self.kept.len()).filter(durable).filter(|at| current.is_ready(*at));
        let is_busy = ready().any(|subgroup| self.kept[subgroup].is_under_way(&self.journal));
        let next = ready().filter(is_due).min_by_key(|subgroup| self.kept[*subgroup].n_before());
        let next = next.filter(|_| !is_busy && !current.is_wedged());
        for subgroup in 0..self.kept.len() {
            if !current.has_lane(subgroup) || !current.is_durable(subgroup) {
                continue;
            }
            let kept = &mut self.kept[subgroup];
            let is_ready = current.is_ready(subgroup);
            let wants = if is_ready { next == Some(subgroup) } else { !kept.is_begun() };
            if wants && inside.wants[subgroup].is_none() {
                let (at, next) = (current.position(subgroup), self.journal.next());
                let lane = current.lanes[subgroup].as_mut().expect("it has this lane");
                let shard = lane.id;
                kept.ask(at, lane.first_open(at.at, next), &self.journal);
                // Before whatever this turn delivers.
                out.push(Output::GiveState { to: current.me, shard, at });
            }
            // W6
            if !is_ready
                && inside.wants[subgroup].is_none()
                && kept.is_synced(&self.journal, self.planted)
            {
                let ready = current.row.ready;
                current.table.set(ready, subgroup, 1);
            }
            needed = needed.zip(kept.needed(&self.journal)).map(|(a, b)| a.min(b));
        }
        if let Some(needed) = needed.filter(|needed| *needed > self.freed) {
            self.freed = needed;
            self.journal.free_before(needed);
        }
    }

    // ---- a view that others tell ----

    /// Whether this process can be in `view`, which others have told it.
    fn fits(&self, view: &View) -> bool {
        let is_seat = |seat: Rank| seat.index() < self.config.shape.n_seats;
        let n_shards = view.roster.iter().map(|seating| seating.shards.len());
        let own = self.subgroups.iter().map(|subgroup| subgroup.shards.len());
        view.seats().iter().all(is_seat) && own.eq(n_shards)
    }

    pub(super) fn on_welcome(&mut self, view: View, trims: Vec<u64>, now: Instant) {
        if !matches!(self.life, Life::Outside { .. }) || !self.fits(&view) {
            return;
        }
        if self.learns(&view, &trims, now) {
            return;
        }
        let is_by_seat = self.planted.has(Bug::WelcomeBySeat);
        if view.has(&self.config.me) || is_by_seat && view.seats().contains(self.config.me.seat) {
            let is_guess = self.planted.has(Bug::RosterGuessed);
            let view = if is_guess { view.laid_out(&self.subgroups) } else { view };
            self.begin(Begun { view, trims, left: SeatSet::EMPTY }, None, Vec::new(), now);
        }
    }

    // ---- returning ----

    /// What a process does that returns, and is in no view yet.
    pub(super) fn restart(&mut self, now: Instant, port: &mut impl Port) {
        let Life::Outside { returning: Some(returning), .. } = &mut self.life else { return };
        returning.see(self.wall);
        let said = returning.turn(&self.subgroups, &mut self.journal, now, port);
        self.tell_restarted(said, now, port);
    }

    pub(super) fn on_restart(
        &mut self,
        from: Rank,
        message: Message<'_>,
        now: Instant,
        port: &mut impl Port,
    ) {
        match &mut self.life {
            Life::Outside { returning: Some(returning), .. } => {
                let (subgroups, journal) = (&self.subgroups, &mut self.journal);
                let said = returning.on_message(from, message, subgroups, journal, now, port);
                self.tell_restarted(said, now, port);
            }
            Life::Inside(inside) => {
                let current = &inside.current;
                if let Message::Call(call) = message
                    && call.view < current.view.id
                {
                    let _ = port.send(from, &current.welcome().encoded());
                }
            }
            Life::Outside { returning: None, .. } | Life::Leaving { .. } | Life::Ended(_) => {}
        }
    }

    fn tell_restarted(&mut self, said: Option<Restarted>, now: Instant, port: &mut impl Port) {
        let Some(Restarted { next, trims, to }) = said else { return };
        let welcome = Message::Welcome { trims: trims.clone(), view: next.clone() };
        let bytes = welcome.encoded();
        for seat in to.iter().filter(|seat| *seat != self.config.me.seat) {
            let _ = port.send(seat, &bytes);
        }
        self.on_welcome(next, trims, now);
    }

    /// Whether `view` tells a process that returns something else than that it is a member now.
    pub(super) fn learns(&mut self, view: &View, trims: &[u64], now: Instant) -> bool {
        let me = self.config.me;
        let Life::Outside { returning: Some(returning), .. } = &mut self.life else { return false };
        let found = &returning.found;
        let is_foreign = found.view.as_ref().is_some_and(|known| known.group != view.group);
        if is_foreign && !self.planted.has(Bug::ForeignLog) {
            self.end(End::OtherGroup);
            return true;
        }
        if view.has(&me) {
            return false;
        }
        if returning.knows(view.id) {
            return true;
        }
        let own = |view: &View| view.member(me.seat).copied();
        match own(view).filter(|member| found.is_of(&member.process)) {
            // R5
            None => returning.pass(view.id, now),
            Some(member) => {
                let known = found.view.as_ref().and_then(own);
                if known.is_none_or(|known| known.since != member.since) {
                    // It was let in as a newcomer, and died before it knew.
                    self.journal.put(records::fresh);
                    returning.found.pasts.fill(None);
                }
                returning.advance(view.clone(), trims.to_vec(), &mut self.journal, now);
                self.journal.put(|| records::life(&me));
            }
        }
        true
    }

    /// What a process that begins `view` takes along from its disk, by subgroup: nothing, unless
    /// the view is the one that follows its log's.
    pub(super) fn enter(
        &mut self,
        view: &View,
        trims: &[u64],
        is_inside: bool,
    ) -> Vec<Option<Past>> {
        let n = self.subgroups.len();
        let nothing = || (0..n).map(|_| None).collect();
        if is_inside || !self.journal.keeps() {
            return nothing();
        }
        let me = self.config.me;
        let found = match &mut self.life {
            Life::Outside { returning, .. } => returning.take().map(|returning| returning.found),
            Life::Inside(_) | Life::Leaving { .. } | Life::Ended(_) => None,
        };
        let follows =
            |found: &Found| found.view.as_ref().is_some_and(|known| known.id.next() == view.id);
        if let Some(mut found) = found.filter(follows) {
            found.enter(view.clone(), trims.to_vec(), me.seat, self.planted);
            let bears = |past: &Past| {
                let shard = view.shard(past.shard);
                shard.is_some_and(|shard| shard.bearers.contains(me.seat)) && past.base.is_some()
            };
            let pasts: Vec<_> = found.pasts.into_iter().map(|past| past.filter(bears)).collect();
            if pasts.iter().any(Option::is_some) {
                return pasts;
            }
        }
        self.journal.put(records::fresh);
        self.journal.put(|| records::life(&me));
        nothing()
    }
}
