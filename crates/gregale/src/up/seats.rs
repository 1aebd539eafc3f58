//! Seats: members that are replaced or removed, and what the cluster's file says of them (I5, U1 of
//! `up`).

use super::Supervisor;
use super::data::{Data, Seat};
use super::member::{Member, State};
use console::Outcome;
use std::time::{Duration, Instant};

/// The time between attempts to write `cluster.toml`.
const WRITE_EVERY: Duration = Duration::from_secs(1);

impl Supervisor<'_> {
    /// Records the state of the seat of member `id`, if there are disks.
    pub(super) fn note_seat(&mut self, id: u16, seat: Seat) {
        let noted = self.data.as_mut().map_or(Ok(()), |data| data.set_seat(id, seat));
        self.has_written(noted);
    }

    /// What could not be written is known here, and is written later (U1).
    pub(super) fn has_written(&mut self, written: Outcome<()>) {
        if let Err(failure) = written {
            if self.write_at.is_none() {
                self.say.unwritten(&failure.to_string());
            }
            self.write_at = Some(Instant::now() + WRITE_EVERY);
        }
    }

    pub(super) fn write_due(&mut self) {
        if self.write_at.is_some_and(|at| at <= Instant::now()) {
            let written = self.data.as_ref().map_or(Ok(()), Data::write);
            if written.is_ok() {
                self.write_at = None;
            }
            self.has_written(written);
        }
    }

    /// Begins a new incarnation of member `id` on an operator's order; the old one ends here,
    /// whatever its state.
    pub(super) fn renew(&mut self, id: u16) {
        let at = usize::from(id).wrapping_sub(1);
        let joining = self.members.iter().map(|of| (of.config.member, of.joins_until));
        if let Some(other) = in_the_way(joining, id, Instant::now()) {
            return self.say.not_renewed(id, other);
        }
        // The leader looked a moment ago, and another member may have died since. What a disk holds
        // outlives that.
        if let Some(other) = self.needed_without(id) {
            return self.say.not_renewed_without(id, other);
        }
        if at >= self.members.len() {
            return;
        }
        self.note_seat(id, Seat::Wanted);
        if self.members[at].kill() {
            return self.begin_anew(at);
        }
        self.members[at].renews_when_gone = true;
        self.say.has_not_ended(id);
    }

    /// One that does not serve of those without which the memory of member `id` is needed. A member
    /// that was removed has nothing that counts.
    pub(super) fn needed_without(&self, id: u16) -> Option<u16> {
        let takes_part = |of: &&Member| of.state != State::Vacant && !of.has_parted;
        let states = self.members.iter().filter(takes_part).map(|of| (of.config.member, of.state));
        let (own, others): (Vec<_>, Vec<_>) = states.partition(|(other, _)| *other == id);
        let may_be_lost = self.data.is_none() && !own.is_empty();
        if may_be_lost { needed(others.into_iter()) } else { None }
    }

    /// Begins a new incarnation of a member without a process.
    pub(super) fn begin_anew(&mut self, at: usize) {
        let member = &mut self.members[at];
        let id = member.config.member;
        let retired = match &self.data {
            Some(data) => data.retire(id),
            // The old memory is worthless once another incarnation has its seat.
            None => self.directory.discard(id).map(|()| None),
        };
        match retired {
            Ok(aside) => {
                member.joins_until = None;
                member.wanted_ms = Some(runtime::unix_ms());
                member.joins();
                self.say.renewed(id, aside.as_deref());
            }
            Err(failure) => self.say.refused(id, &failure.to_string()),
        }
        // A member whose directory could not be put aside continues.
        self.spawn_again(at);
    }

    /// Notes the leader's report that the seat of member `id` is empty since incarnation `last`
    /// left it (data's I2).
    pub(super) fn vacate(&mut self, id: u16, last: u64) {
        let Some(member) = self.members.get_mut(usize::from(id).wrapping_sub(1)) else { return };
        if !member.vacate(last) {
            return;
        }
        let is_vacant = member.state == State::Vacant;
        self.note_seat(id, Seat::Vacant);
        if is_vacant {
            self.say.vacated(id);
        }
    }
}

/// The member other than `id` that was replaced recently and does not vote yet: with two at a time
/// the votes of a majority would be gone (I5).
fn in_the_way(
    joining: impl Iterator<Item = (u16, Option<Instant>)>,
    id: u16,
    now: Instant,
) -> Option<u16> {
    let mut others = joining.filter(|(other, _)| *other != id);
    others.find(|(_, until)| until.is_some_and(|until| now < until)).map(|(other, _)| other)
}

/// One of the `others` that does not serve, if so few of them do that the state in memory could be
/// lost with the member that is to be replaced.
fn needed(others: impl Iterator<Item = (u16, State)>) -> Option<u16> {
    let others: Vec<_> = others.collect();
    let absent = others.iter().filter(|(_, state)| *state != State::Serving);
    let n_serving = others.len() - absent.clone().count();
    let is_enough = n_serving >= base::majority(others.len());
    absent.map(|(id, _)| *id).next().filter(|_| !is_enough)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::up::READY_WITHIN;

    // A new leader does not know what the last one had begun.
    #[test]
    fn i5_a_second_member_is_not_begun_anew_before_the_first_votes() {
        let now = Instant::now();
        let joining = [(1, None), (2, Some(now + READY_WITHIN)), (3, None)];
        assert_eq!(in_the_way(joining.into_iter(), 3, now), Some(2));
        assert_eq!(in_the_way(joining.into_iter(), 2, now), None, "the same once more");
        assert_eq!(in_the_way(joining.into_iter(), 3, now + READY_WITHIN), None, "it never came");
    }

    #[test]
    fn a_majority_of_the_others_has_to_serve_before_a_memory_is_discarded() {
        let (serves, learns, died) = (State::Serving, State::Learner, State::Dead);
        assert_eq!(needed([(2, learns), (3, learns)].into_iter()), Some(2), "one alone has it");
        assert_eq!(needed([(2, serves), (3, learns)].into_iter()), Some(3));
        assert_eq!(needed([(1, serves), (3, serves)].into_iter()), None);
        let four = [(1, serves), (2, died), (3, serves), (4, serves)];
        assert_eq!(needed(four.into_iter()), None, "three of four are a majority");
        assert_eq!(needed([(2, serves)].into_iter()), None);
    }
}
