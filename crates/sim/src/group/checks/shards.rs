//! Rosters (`vsync`, L2 to L5): shards of a subgroup do not overlap; a member is moved only where
//! that makes the subgroup adequate; and a shard begins again only when no member is left that had
//! its state.
//!
//! No false alarm: only members that had the state at the beginning of a view, and are in the next
//! one, are held against a shard that begins again. (Others may have come to have it after the
//! leader had looked.)

use super::History;
use base::{Rank, SeatSet};
use proto::vsync::{Knock, Member, View};

pub(super) fn check(history: &History) -> Result<(), String> {
    let views = history.views();
    for (id, view) in &views {
        overlap(view)?;
        if let Some(next) = views.get(&id.next()) {
            succession(view, next, history)?;
        }
    }
    Ok(())
}

const fn process(member: &Member) -> Knock {
    member.process
}

fn overlap(view: &View) -> Result<(), String> {
    for seating in &view.roster {
        let mut seated = SeatSet::EMPTY;
        for seat in seating.shards.iter().flat_map(|shard| &shard.seats) {
            if !seated.insert(*seat) || !view.seats().contains(*seat) {
                return Err(format!("{seat} is twice in a subgroup, or no member: {view:?}"));
            }
        }
    }
    Ok(())
}

fn succession(view: &View, next: &View, history: &History) -> Result<(), String> {
    for ((id, old), (_, new)) in view.shards().zip(next.shards()) {
        let is_logged = history.is_logged(id);
        // (What was in the memory of the process before, on the same seat, is gone.)
        let is_same = |seat| view.member(seat).map(process) == next.member(seat).map(process);
        let stays = |seat: &Rank| next.seats().contains(*seat) && (is_logged || is_same(*seat));
        let bearers: SeatSet = old.bearers.iter().filter(stays).collect();
        // The bearers of a durable shard's first view have it when it is on their disks.
        let is_first = is_logged && old.since == view.id;
        if new.since == next.id && !bearers.is_empty() && !is_first {
            return Err(format!(
                "shard {id} begins again, and {bearers:?} had its state: {next:?}"
            ));
        }
        let is_adequate = next.roster[usize::from(id.subgroup)].is_adequate;
        let is_moved = |seat: &&Rank| next.seats().contains(**seat) && !new.seats.contains(seat);
        if let Some(seat) = old.seats.iter().find(is_moved).filter(|_| !is_adequate) {
            return Err(format!("{seat} is moved out of {id} for nothing: {next:?}"));
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::group::history::Told;
    use crate::group::history::made_up::{process, view};
    use proto::vsync::{Shard, ViewId};

    /// A view of two shards with these members, of which the second one begins in view `since`.
    fn told(number: u64, shards: [&[usize]; 2], since: u64, is_adequate: bool) -> Told {
        let all: Vec<usize> = shards.concat();
        let mut view = view(number, &all);
        let seats = |seats: &[usize]| seats.iter().map(|at| Rank::at(*at)).collect::<Vec<_>>();
        let shard = |(members, since): (&[usize], u64)| Shard {
            since: ViewId(since),
            seats: seats(members),
            bearers: seats(members).into_iter().collect(),
            senders: seats(members).into_iter().collect(),
        };
        view.roster[0].shards = [(shards[0], 1), (shards[1], since)].map(shard).to_vec();
        view.roster[0].is_adequate = is_adequate;
        Told::View(view)
    }

    fn verdict(all: &[Told]) -> Result<(), String> {
        let mut history = History::default();
        history.record(process(0)).told = all.to_vec();
        check(&history)
    }

    #[test]
    fn overlaps_idle_moves_and_states_that_are_thrown_away_are_violations() {
        let first = told(1, [&[0, 1], &[2, 3]], 1, true);
        let after = |shards, since, is_adequate| {
            verdict(&[first.clone(), told(2, shards, since, is_adequate)])
        };
        assert_eq!(after([&[0], &[2, 3, 1]], 1, true), Ok(()));
        assert_eq!(after([&[0], &[1]], 2, true), Ok(()), "2 and 3 are gone");
        assert!(after([&[0], &[2, 1]], 2, true).is_err(), "2 had the state");
        assert!(after([&[0], &[2, 1]], 1, false).is_err(), "moved for nothing");
        let Told::View(mut twice) = first.clone() else { panic!("a view") };
        twice.roster[0].shards[0].seats.push(Rank::at(3));
        assert!(verdict(&[Told::View(twice)]).is_err());
    }
}
