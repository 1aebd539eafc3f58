//! The layout of a view: subgroups, each of one or several shards, and which members each shard
//! has.
//!
//! The *description* ([`Subgroup`]) is data, the same at all members. The *roster* of a view
//! ([`Seating`] for each subgroup) follows from it, from the roster before, and from the change.
//!
//! - L1 *One roster.* It is a part of the view: computed by one function of what all members of the
//!   view before have agreed on, and told to newcomers. Mutant `ROSTER_GUESSED`.
//! - L2 *No overlap.* A member is in at most one shard of a subgroup. By construction of `seated`.
//! - L3 *Few move.* A member stays in its shard. It is moved only if that makes a subgroup adequate
//!   that is not, and then as few are as a chain of moves needs.
//! - L4 *States stay.* The last member of a shard that has its state is not moved. Mutant
//!   `LAST_BEARER_MOVED`.
//! - L5 *Again.* A shard whose members with the state are all gone begins again, at all its members
//!   alike: from the state in which every shard begins. Mutant `KEEPS_THE_DEAD`.
//! - L6 *Senders are named.* The roster says which members of a shard multicast there, by the
//!   description and the members' metadata. So all members have the same turns (`order`), and a
//!   shard whose senders are all gone delivers nothing more until one comes. Mutant
//!   `SILENT_SENDS`.

use super::bugs::Bug;
use super::shard::{Candidates, Seating, Shard, Subgroup, ViewId};
use super::view::{Change, Knock, METADATA_WORDS, Member, View};
use crate::planted::{Planting, Sound};
use alloc::collections::VecDeque;
use alloc::vec::Vec;
use base::{Rank, SeatSet};

/// The word of a member's metadata that has its tags, one bit each.
pub const TAGS_WORD: usize = METADATA_WORDS - 1;
impl View {
    /// The first view of a group with this layout that these processes found.
    pub fn founded_by(founders: &[Knock], layout: &[Subgroup]) -> View {
        let since = ViewId::FIRST;
        let members = founders.iter().map(|process| Member { process: *process, since });
        View::new(since, members.collect()).laid_out(layout)
    }

    /// This view, as one that has none before it.
    pub(super) fn laid_out(self, layout: &[Subgroup]) -> View {
        let roster = seat(layout, &[], &Change::default(), &self, Sound);
        View { roster, ..self }
    }

    /// The view after this one.
    pub(super) fn after(
        &self,
        change: &Change,
        layout: &[Subgroup],
        planted: impl Planting<Bug>,
    ) -> View {
        let (id, departing) = (self.id.next(), change.departing());
        let stays = |member: &&Member| !departing.contains(member.seat());
        let joined = change.joined.iter().map(|process| Member { process: *process, since: id });
        let renewed = |member: Member| {
            let process = change.renewed.iter().find(|process| process.seat == member.seat());
            Member { process: process.copied().unwrap_or(member.process), ..member }
        };
        let staying = self.members.iter().filter(stays).copied().map(renewed);
        let next = View::new(id, staying.chain(joined).collect());
        let roster = seat(layout, &self.roster, change, &next, planted);
        View { roster, group: self.group, time: change.time, ..next }
    }
}

fn is_candidate(candidates: Candidates, member: &Member) -> bool {
    candidates.contain(member.seat(), member.process.metadata[TAGS_WORD])
}

/// L1: the roster of `view`. That of the view `before` it is empty for a group that is founded.
fn seat(
    layout: &[Subgroup],
    before: &[Seating],
    change: &Change,
    view: &View,
    planted: impl Planting<Bug>,
) -> Vec<Seating> {
    let seated = |(at, subgroup): (usize, &Subgroup)| {
        let bearers = change.bearers.get(at).copied().unwrap_or_default();
        let draft = Draft::new(subgroup, view, before.get(at), bearers, planted);
        draft.seated(before.get(at))
    };
    layout.iter().enumerate().map(seated).collect()
}

/// The shards of one subgroup while they are made up.
#[derive(Clone)]
struct Draft<'a, P> {
    subgroup: &'a Subgroup,
    view: &'a View,
    shards: Vec<Shard>,
    planted: P,
}

impl<'a, P: Planting<Bug>> Draft<'a, P> {
    /// Those that stay, where they are (L3).
    fn new(
        subgroup: &'a Subgroup,
        view: &'a View,
        before: Option<&Seating>,
        bearers: SeatSet,
        planted: P,
    ) -> Draft<'a, P> {
        let stays = view.seats();
        let kept = |number: usize| {
            let old = before.and_then(|before| before.shards.get(number));
            let seats = old.map_or(&[][..], |old| &old.seats[..]).iter().copied();
            let seats: Vec<Rank> = seats.filter(|seat| stays.contains(*seat)).collect();
            let since = old.map_or(view.id, |old| old.since);
            let bearers = bearers.intersection(seats.iter().copied().collect());
            Shard { since, seats, bearers, senders: SeatSet::EMPTY }
        };
        let shards = (0..subgroup.shards.len()).map(kept).collect();
        Draft { subgroup, view, shards, planted }
    }

    fn seated(mut self, before: Option<&Seating>) -> Seating {
        self.fill();
        let mut filled = self.clone();
        if filled.relieve_all() {
            self = filled;
        }
        let is_adequate = self.short().is_none();
        let (view, senders) = (self.view, self.subgroup.senders);
        let sends = |seat: &Rank| view.member(*seat).is_some_and(|one| is_candidate(senders, one));
        for (number, shard) in self.shards.iter_mut().enumerate() {
            let was_empty = before.is_none_or(|before| before.shards[number].seats.is_empty());
            // L5
            if shard.bearers.is_empty() && (was_empty || !self.planted.has(Bug::KeepsTheDead)) {
                (shard.since, shard.bearers) = (self.view.id, shard.members());
            }
            // L6
            shard.senders = shard.seats.iter().copied().filter(sends).collect();
        }
        Seating { shards: self.shards, is_adequate }
    }

    fn candidates(&self, shard: usize) -> Candidates {
        self.subgroup.shards[shard]
    }

    /// Gives each member that is in no shard to the one with the fewest members that can have it.
    fn fill(&mut self) {
        for member in &self.view.members {
            if self.shards.iter().any(|shard| shard.seats.contains(&member.seat())) {
                continue;
            }
            let has_room = |at: &usize| {
                is_candidate(self.candidates(*at), member)
                    && self.shards[*at].seats.len() < self.subgroup.n_most
            };
            let fewest = (0..self.shards.len()).filter(has_room);
            if let Some(at) = fewest.min_by_key(|at| self.shards[*at].seats.len()) {
                self.shards[at].seats.push(member.seat());
            }
        }
    }

    /// The first shard that has too few members.
    fn short(&self) -> Option<usize> {
        self.shards.iter().position(|shard| shard.seats.len() < self.subgroup.n_least)
    }

    /// Moves members until no shard has too few. False if that cannot be.
    fn relieve_all(&mut self) -> bool {
        while let Some(short) = self.short() {
            if !self.relieve(short) {
                return false;
            }
        }
        true
    }

    /// L3: one more member for the shard `short`, by the shortest chain of moves from a shard that
    /// can spare one.
    fn relieve(&mut self, short: usize) -> bool {
        // By shard: to which one it gives a member in the chain, and which.
        let mut gives: Vec<Option<(usize, Rank)>> = alloc::vec![None; self.shards.len()];
        let mut open = VecDeque::from([short]);
        while let Some(to) = open.pop_front() {
            for giver in 0..self.shards.len() {
                if giver == short || gives[giver].is_some() {
                    continue;
                }
                let Some(seat) = self.movable(giver, to) else { continue };
                gives[giver] = Some((to, seat));
                if self.shards[giver].seats.len() > self.subgroup.n_least {
                    self.shift(giver, &gives);
                    return true;
                }
                open.push_back(giver);
            }
        }
        false
    }

    /// The member that shard `from` can give to shard `to`: the one that has been there for the
    /// shortest time, of those without the state if there is one.
    fn movable(&self, from: usize, to: usize) -> Option<Rank> {
        let Shard { seats, bearers, .. } = &self.shards[from];
        let can = |seat: &Rank| {
            let member = self.view.member(*seat);
            member.is_some_and(|member| is_candidate(self.candidates(to), member))
        };
        let is_last = |seat: &Rank| bearers.contains(*seat) && bearers.len() == 1;
        let free = |seat: &Rank| !is_last(seat) || self.planted.has(Bug::LastBearerMoved);
        let mut movable = seats.iter().copied().rev().filter(|seat| can(seat) && free(seat));
        movable.clone().find(|seat| !bearers.contains(*seat)).or_else(|| movable.next())
    }

    /// Performs the chain of moves that begins at `giver`.
    fn shift(&mut self, mut giver: usize, gives: &[Option<(usize, Rank)>]) {
        while let Some((to, seat)) = gives[giver] {
            let from = &mut self.shards[giver];
            from.seats.retain(|one| *one != seat);
            from.bearers.remove(seat);
            self.shards[to].seats.push(seat);
            giver = to;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::Planted;
    use crate::vsync::view::tests::process;
    use alloc::borrow::ToOwned;
    use base::Rng;

    fn set(seats: &[usize]) -> SeatSet {
        seats.iter().map(|seat| Rank::at(*seat)).collect()
    }

    fn subgroup(shards: &[Candidates], n_least: usize, n_most: usize) -> Subgroup {
        let name = "cache".to_owned();
        Subgroup { name, shards: shards.to_vec(), n_least, n_most, ..Subgroup::whole() }
    }

    fn founded(seats: &[usize], layout: &Subgroup) -> View {
        let founders: Vec<Knock> = seats.iter().map(|seat| process(*seat, 1)).collect();
        View::founded_by(&founders, core::slice::from_ref(layout))
    }

    fn next(
        view: &View,
        layout: &Subgroup,
        (removed, joined): (&[usize], &[usize]),
        bearers: SeatSet,
        planted: impl Planting<Bug>,
    ) -> View {
        let change = Change {
            removed: set(removed),
            joined: joined.iter().map(|seat| process(*seat, 1)).collect(),
            bearers: [bearers].to_vec(),
            ..Change::default()
        };
        view.after(&change, core::slice::from_ref(layout), planted)
    }

    fn seats(view: &View) -> Vec<Vec<usize>> {
        let seats = |shard: &Shard| shard.seats.iter().map(|seat| seat.index()).collect();
        view.roster[0].shards.iter().map(seats).collect()
    }

    #[test]
    fn l3_members_stay_and_the_fewest_are_moved_to_where_they_lack() {
        let layout = subgroup(&[Candidates::All; 2], 2, 3);
        let view = founded(&[0, 1, 2, 3, 4], &layout);
        assert_eq!(
            (seats(&view), view.roster[0].is_adequate),
            (vec_of(&[&[0, 2, 4], &[1, 3]]), true)
        );
        let all = set(&[0, 1, 2, 3, 4]);
        let fewer = next(&view, &layout, (&[3], &[]), all, Sound);
        assert_eq!(seats(&fewer), vec_of(&[&[0, 2], &[1, 4]]), "the one that came last is moved");
        assert_eq!(
            fewer.roster[0].shards[1].bearers,
            set(&[1]),
            "without the state of its new shard"
        );
        let few = next(&fewer, &layout, (&[0], &[]), all, Sound);
        assert_eq!((seats(&few), few.roster[0].is_adequate), (vec_of(&[&[2], &[1, 4]]), false));
        let more = next(&few, &layout, (&[], &[5, 6, 7, 8]), set(&[1, 2, 4]), Sound);
        assert_eq!(seats(&more), vec_of(&[&[2, 5, 6], &[1, 4, 7]]), "and one is in no shard");
        assert!(more.roster[0].is_adequate);
    }

    fn vec_of(seats: &[&[usize]]) -> Vec<Vec<usize>> {
        seats.iter().map(|shard| shard.to_vec()).collect()
    }

    #[test]
    fn l4_the_last_bearer_is_not_moved_and_l5_a_shard_without_one_begins_anew() {
        let layout = subgroup(&[Candidates::All; 2], 1, 3);
        let view = founded(&[0, 1, 2], &layout);
        assert_eq!(seats(&view), vec_of(&[&[0, 2], &[1]]));
        // 2 alone has the state of the first shard, 0 came later.
        let moved = |bearers: &[usize]| next(&view, &layout, (&[1], &[]), set(bearers), Sound);
        assert_eq!(seats(&moved(&[2])), vec_of(&[&[2], &[0]]));
        assert_eq!(seats(&moved(&[0, 2])), vec_of(&[&[0], &[2]]));
        let worse = next(&view, &layout, (&[1], &[]), set(&[0]), Planted(Bug::LastBearerMoved));
        assert_eq!(
            seats(&worse),
            vec_of(&[&[0], &[2]]),
            "without one that has none it is the same"
        );
        let single = subgroup(&[Candidates::Tagged(0), Candidates::Seats(set(&[2]))], 1, 3);
        let view = founded(&[0, 1, 2], &single);
        assert_eq!(seats(&view), vec_of(&[&[0, 1], &[2]]));
        let lost = next(&view, &single, (&[2], &[3]), set(&[0, 1]), Sound);
        assert_eq!((seats(&lost), lost.roster[0].is_adequate), (vec_of(&[&[0, 1, 3], &[]]), false));
        let back = next(&lost, &single, (&[], &[2]), set(&[0, 1]), Sound);
        let since: Vec<u64> = back.roster[0].shards.iter().map(|shard| shard.since.0).collect();
        assert_eq!((since, back.roster[0].shards[1].bearers), ([1, 3].to_vec(), set(&[2])));
        let dead = |planted: Option<Bug>| {
            let dead = next(&lost, &single, (&[], &[]), SeatSet::EMPTY, planted);
            dead.roster[0].shards[0].bearers
        };
        assert_eq!(dead(None), set(&[0, 1, 3]));
        assert_eq!(dead(Some(Bug::KeepsTheDead)), SeatSet::EMPTY);
    }

    #[test]
    fn l4_is_what_keeps_the_only_copy_of_a_state_where_it_is_asked_for() {
        // Seat 0 could be in both shards, and has the only state of the first.
        let layout = subgroup(&[Candidates::All, Candidates::Seats(set(&[0, 5]))], 1, 3);
        let view = founded(&[0, 1, 5], &layout);
        assert_eq!(seats(&view), vec_of(&[&[0, 1], &[5]]));
        let after =
            |planted: Option<Bug>| seats(&next(&view, &layout, (&[5], &[]), set(&[0, 5]), planted));
        assert_eq!(after(None), vec_of(&[&[0, 1], &[]]));
        assert_eq!(after(Some(Bug::LastBearerMoved)), vec_of(&[&[1], &[0]]));
    }

    #[test]
    fn a_chain_of_moves_finds_a_place_where_single_moves_do_not() {
        let candidates =
            [&[0, 1][..], &[1, 2], &[2, 3, 4]].map(|seats| Candidates::Seats(set(seats)));
        let layout = subgroup(&candidates, 1, 3);
        let view = founded(&[0, 1, 2, 3], &layout);
        assert_eq!(seats(&view), vec_of(&[&[0], &[1], &[2, 3]]));
        let after = next(&view, &layout, (&[0], &[]), SeatSet::EMPTY, Sound);
        assert_eq!(seats(&after), vec_of(&[&[1], &[2], &[3]]), "two moves");
    }

    /// Under any changes: L2, L3 where nothing lacks, L5, and that a roster is as adequate as it
    /// can be where any member can be in any shard.
    #[test]
    fn rosters_hold_their_rules_under_any_changes() {
        let mut rng = Rng::new(15);
        for _ in 0..300 {
            let n_shards = rng.range(1, 4) as usize;
            let n_least = rng.range(1, 3) as usize;
            let n_most = n_least + rng.below(3) as usize;
            let layout = subgroup(&[Candidates::All].repeat(n_shards), n_least, n_most);
            let mut view = founded(&[0], &layout);
            for _ in 0..20 {
                let one_in = |rng: &mut Rng, n: u64| rng.below(n) == 0;
                let gone: Vec<usize> = (0..12)
                    .filter(|at| view.seats().contains(Rank::at(*at)) && one_in(&mut rng, 5))
                    .collect();
                let come: Vec<usize> = (0..12)
                    .filter(|at| !view.seats().contains(Rank::at(*at)) && one_in(&mut rng, 4))
                    .collect();
                let bearers = SeatSet::from_bits(rng.next_u64());
                let after = next(&view, &layout, (&gone, &come), bearers, Sound);
                let (old, new) = (&view.roster[0], &after.roster[0]);
                let mut seated = SeatSet::EMPTY;
                for (was, is) in old.shards.iter().zip(&new.shards) {
                    assert!(is.seats.iter().all(|seat| seated.insert(*seat)), "L2: {after:?}");
                    assert!(after.seats().covers(is.members()) && is.seats.len() <= n_most);
                    assert!(is.members().covers(is.bearers));
                    let kept = bearers.intersection(was.members()).intersection(after.seats());
                    let is_anew = is.since == after.id;
                    assert!(is.seats.is_empty() || is_anew == kept.is_empty(), "L4, L5: {after:?}");
                }
                let n_members = after.members.len();
                assert_eq!(new.is_adequate, n_members >= n_shards * n_least, "{after:?}");
                view = after;
                if view.members.is_empty() {
                    break;
                }
            }
        }
    }
}
