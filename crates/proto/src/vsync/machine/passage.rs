//! What a process takes along from one view into the next: in each subgroup its state, its wait for
//! one, and its own messages, if it stays in its shard.

use super::super::bugs::{Bug, Plantings};
use super::super::current::Current;
use super::super::durable::{Kept, replay};
use super::super::records;
use super::super::shard::Shard;
use super::super::state::{HELD_MAX, Want, follows};
use super::super::view::{Change, View};
use super::super::{Delivery, End, Mode};
use super::{Begun, Inside, Life, Machine, Output};
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{Instant, Port, SeatSet};

impl<P: Plantings> Machine<P> {
    /// V6: delivers what the view ends with, in each shard of this member.
    pub(super) fn deliver_end(
        &mut self,
        current: &mut Current<P>,
        wants: &mut [Option<Want>],
        change: &Change,
        port: &impl Port,
        out: &mut Vec<Output>,
    ) -> Result<(), End> {
        let ends: Vec<u64> = current.view.trims_of(current.me, change);
        for subgroup in 0..ends.len() {
            if !current.has_lane(subgroup) {
                continue;
            }
            let take = |one| match &mut wants[subgroup] {
                Some(want) => want.held.push(one),
                None => out.push(Output::Deliver(one)),
            };
            let keeps_back = self.is_held && self.planted.has(Bug::HoldsTheEnd);
            let trim = if keeps_back { current.position(subgroup).at } else { ends[subgroup] };
            current.deliver_before(subgroup, trim, &mut self.outboxes[subgroup], port, take)?;
        }
        Ok(())
    }

    /// Begins a view, which comes after `last`, or is this process's first.
    pub(super) fn begin(
        &mut self,
        Begun { view, trims, left }: Begun,
        mut last: Option<Current<P>>,
        mut wants: Vec<Option<Want>>,
        now: Instant,
    ) {
        wants.resize_with(self.subgroups.len(), || None);
        let found = self.enter(&view, &trims, last.is_some());
        let mut is_ready = alloc::vec![false; wants.len()];
        for (subgroup, want) in wants.iter_mut().enumerate() {
            is_ready[subgroup] = self.pass(subgroup, last.as_ref(), &view, want);
            if let Some(past) = &found[subgroup] {
                (is_ready[subgroup], *want) = (true, None);
                self.kept[subgroup] = Kept::found(past);
            }
        }
        let n_tolerated = view.n_tolerated(|subgroup| self.config.keeps_state(subgroup));
        self.pending.push(Output::View { view: view.clone(), n_tolerated, left });
        self.tell_inadequate(&view);
        found.into_iter().flatten().for_each(|past| replay(past, &mut self.pending));
        self.landing.enter(view.members.iter().map(|one| one.process));
        let entry = self.journal.put(|| records::view(&view, &trims));
        let (config, layout, planted) = (&self.config, &self.layout, self.planted);
        let mut current = Current::begin(config, layout, view, |at| is_ready[at], planted, now);
        (current.entry, current.trims) = (entry, trims);
        self.entry = entry;
        if let Some(last) = &mut last {
            current.hear_on(last);
        }
        current.hold_answers(last.as_ref(), now);
        current.clock.see_host(self.wall);
        current.show_clock();
        if self.is_leaving && !self.planted.has(Bug::LeaveForgotten) {
            current.ask_to_leave();
        }
        self.life = Life::Inside(Box::new(Inside::new(current, last, wants)));
    }

    /// Takes what belongs to a subgroup from the `last` view into the `next`: the wait for a state,
    /// gifts and own messages, if this process stays in its shard. Whether it has the state there.
    fn pass(
        &mut self,
        subgroup: usize,
        last: Option<&Current<P>>,
        next: &View,
        want: &mut Option<Want>,
    ) -> bool {
        let me = self.config.me.seat;
        let shard = |view: &View| view.shard_of(me, subgroup);
        let since = |view: &View, id| view.shard(id).map(|shard| shard.since);
        let (old, new) = (last.and_then(|last| shard(&last.view)), shard(next));
        let is_same = |id| last.is_some_and(|last| since(&last.view, id) == since(next, id));
        let stays = old.filter(|old| new == Some(*old) && is_same(*old));
        let members = new.and_then(|new| next.shard(new)).map_or(SeatSet::EMPTY, Shard::members);
        self.gifts.keep(|to, shard| {
            usize::from(shard.subgroup) != subgroup || stays == Some(shard) && members.contains(to)
        });
        let outbox = &mut self.outboxes[subgroup];
        match (old, new) {
            (Some(old), new) if new != Some(old) && !self.planted.has(Bug::SentElsewhere) => {
                let landing = &mut self.landing;
                let n_messages = outbox.drop_all(self.planted, |one| landing.give_up(one));
                if n_messages > 0 {
                    self.pending.push(Output::Unsent { shard: old, n_messages });
                }
            }
            _ => outbox.end_view(self.planted, |one| self.landing.send_again(one)),
        }
        if stays.is_some() {
            return last.is_some_and(|last| last.is_ready(subgroup));
        }
        *want = None;
        self.kept[subgroup] = Kept::default();
        let Some(new) = new else { return false };
        let is_moved = last.is_some() && self.planted.has(Bug::MovedIsReady);
        let is_ready = since(next, new) == Some(next.id)
            || !self.config.keeps_state(subgroup)
            || self.planted.has(Bug::NoState)
            || is_moved;
        *want = (!is_ready).then(|| Want::new(next.id));
        // W6: its own state is on its disk first.
        is_ready && self.config.mode(subgroup) != Mode::Durable
    }

    /// Takes the states that have come.
    pub(super) fn take_states(&mut self, port: &impl Port, out: &mut Vec<Output>) -> Option<End> {
        (0..self.subgroups.len()).find_map(|subgroup| self.take_state(subgroup, port, out))
    }

    /// Takes a state that is complete, once this member is where it belongs (V9).
    fn take_state(
        &mut self,
        subgroup: usize,
        port: &impl Port,
        out: &mut Vec<Output>,
    ) -> Option<End> {
        let Life::Inside(inside) = &mut self.life else { return None };
        let (want, current) = (inside.wants[subgroup].as_ref()?, &mut inside.current);
        if want.held.len() > HELD_MAX {
            return Some(End::Overrun);
        }
        let at = want.complete()?;
        let position = current.position(subgroup);
        if at.view > position.view
            || at.view == position.view && at.at > current.held_by(subgroup, current.me)
        {
            // It is of a view that this member does not know yet, or of messages on their way.
            return None;
        }
        let shard = current.lane(subgroup).id;
        if self.config.mode(subgroup) == Mode::Durable {
            // W6
            let since = current.view.shard(shard)?.since;
            let (kept, journal) = (&mut self.kept[subgroup], &mut self.journal);
            if !kept.is_begun() {
                // What was received meanwhile is in the log already, and follows the state.
                let covered = if at.view == position.view { at.at } else { 0 };
                let lane = current.lanes[subgroup].as_mut().expect("it waits in this lane");
                kept.ask(at, lane.first_open(covered, journal.next()), journal);
                kept.put((shard, since), at, current.clock.now(), want.bytes(), journal);
            }
            if !kept.is_synced(journal, self.planted) {
                return None;
            }
        }
        let (bytes, held) = inside.wants[subgroup].take()?.finish();
        out.push(Output::TakeState { shard, at, bytes });
        if at.view == position.view && !self.planted.has(Bug::StateRepeated) {
            current.skip_to(subgroup, at.at.max(position.at), &mut self.outboxes[subgroup], port);
        }
        let planted = self.planted;
        let follows = |one: &Delivery| follows(one.at, at, planted);
        out.extend(held.into_iter().filter(follows).map(Output::Deliver));
        let ready = current.row.ready;
        current.table.set(ready, subgroup, 1);
        None
    }

    fn tell_inadequate(&mut self, view: &View) {
        let n_members = view.members.len();
        if n_members < self.config.n_adequate {
            self.pending.push(Output::Inadequate { n_members });
        }
        for (subgroup, seating) in view.roster.iter().enumerate() {
            if !seating.is_adequate {
                self.pending.push(Output::InadequateSubgroup { subgroup });
            }
        }
    }
}
