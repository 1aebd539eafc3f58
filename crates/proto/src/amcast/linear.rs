//! Real-time order across groups: three rules, over any protocol that can report clocks.
//! (docs/protocols/linearizable-multicast.md has the argument.)
//!
//! A message that is multicast after another was delivered anywhere must come after it in the
//! order, even if the two share no group (the thesis's *atomic global order*, 5.2.2). Timestamp
//! protocols do not give this by themselves, and algorithm 4 of the thesis gives it for two
//! partitions only: between two messages that share no group stands a *chain* of undelivered ones.
//!
//! - `Past(h, x)`: no message that is multicast from now on can be decided in group h with a local
//!   timestamp of x or less. Evidence comes from the protocol ([`Horizon::raise`]).
//! - A call c is *settled* if `Past(k, final timestamp of c)` holds for every destination k of c.
//! - LR1 under [`Rule::Hop`] m is delivered when, for every other destination h, `Past(h, m)` holds
//!   and each undelivered message that h's primary listed before m has a level of groups - 3.
//!   Asserted: nowhere, it is the delivery condition; global: sim checker `realtime`.
//! - LR4 under [`Rule::Hop`] what is known to be past in another group is covered by its primary's
//!   last list: a newer primary begins at the clock of a quorum, and brings its list with its first
//!   report. So LR1 asks for the list twice. Asserted where a process hears a report
//!   ([`Horizon::is_listed`]). Tested (`OLDER_LIST`).
//! - LR2 under [`Rule::AllGroups`] m with several destinations waits for `Past(h, m)` of every
//!   group h. Global: the same checker.
//! - LR3 under [`Rule::CommitWait`] m waits until every attested clock has passed its timestamp.
//!   Global: the same checker.

use super::bugs::Bug;
use super::{GroupId, GroupSet, Layout, MessageId, Place, RealClock, Timestamp};
use crate::codec::{self, Coded, Malformed, Out, Reader, Varints};
use crate::planted::Planting;
use alloc::collections::BTreeMap;
use alloc::vec::Vec;

/// The rule for the order across groups.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Rule {
    /// Global total order only: acyclic, but without regard to real time.
    #[default]
    Plain,
    /// Atomic global order; genuine.
    Hop,
    /// Atomic global order; every group takes part in every message with several destinations.
    AllGroups,
    /// Atomic global order by synchronized clocks; without an attested clock a process falls back
    /// to asking all groups.
    CommitWait,
}

impl Rule {
    /// The name on the command line.
    pub const fn name(self) -> &'static str {
        match self {
            Rule::Plain => "plain",
            Rule::Hop => "hop",
            Rule::AllGroups => "all-groups",
            Rule::CommitWait => "commit-wait",
        }
    }
}

/// The harmlessness of an undelivered message: 0 nothing is known of it, 1 it is settled, j + 1 it
/// is settled and so is every chain of j further hops below it.
///
/// (The literature's level j is j + 1 here, so that no negative number is sent.)
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord)]
pub struct Level(pub u8);

impl Level {
    /// The level at which a blocker need not be waited for: chains without shortcuts have at most
    /// groups - 2 links.
    pub const fn needed(n_groups: usize) -> Level {
        Level(n_groups.saturating_sub(2) as u8)
    }
}

impl Coded<'_, Varints> for Level {
    fn put(&self, out: &mut impl Out) {
        out.push(self.0);
    }

    fn take(from: &mut Reader<'_>) -> Result<Level, Malformed> {
        from.byte().map(Level)
    }
}

codec::coded! {
    /// One undelivered proposal of a group, as its primary lists it for others.
    #[derive(Clone, Copy, Debug, PartialEq, Eq)]
    pub struct Listed in Varints {
        /// A lower bound of its final timestamp.
        pub bound: Timestamp,
        /// Its name.
        pub id: MessageId,
        /// Its destinations.
        pub dest: GroupSet,
        /// Its harmlessness.
        pub level: Level,
    }
}

impl Listed {
    /// Whether a destination outside `group` that delivers only `dest` has to consider it: messages
    /// to the own group are in the own log, and messages that stay within the same destinations can
    /// only prolong a chain that has a shortcut.
    pub const fn matters_to(&self, group: GroupId, dest: GroupSet) -> bool {
        !self.dest.contains(group) && !self.dest.is_within(dest)
    }
}

/// The last list of one group's primary.
#[derive(Clone, Debug, Default)]
struct Told {
    /// The primary's clock at that time: the list covers everything up to it.
    clock: Timestamp,
    /// The first place of each level and destinations among the listed proposals that may matter
    /// here: the lists are as long as the work under way, and are searched for every message of it.
    firsts: BTreeMap<(GroupSet, Level), Place>,
}

/// The knowledge of one process about all groups' pasts.
#[derive(Clone, Debug)]
pub struct Horizon<P> {
    own: GroupId,
    n_groups: usize,
    /// Largest x with `Past(h, x)`, for each group. Never falls.
    past: Vec<Timestamp>,
    told: Vec<Told>,
    planted: P,
}

impl<P: Planting<Bug>> Horizon<P> {
    /// A horizon without any knowledge.
    pub fn new(own: GroupId, layout: &Layout, planted: P) -> Horizon<P> {
        let n_groups = layout.n_groups();
        Horizon {
            own,
            n_groups,
            past: alloc::vec![Timestamp::ZERO; n_groups],
            told: alloc::vec![Told::default(); n_groups],
            planted,
        }
    }

    /// Notes evidence for `Past(group, through)`.
    pub fn raise(&mut self, group: GroupId, through: Timestamp) {
        let past = &mut self.past[group.index()];
        *past = through.max(*past);
    }

    /// Notes that the primary of `group` listed its undelivered proposals when its clock was
    /// `clock`. The caller passes only the newest primary's lists, in the order in which they were
    /// sent.
    pub fn tell(&mut self, group: GroupId, clock: Timestamp, listed: &[Listed]) {
        let told = &mut self.told[group.index()];
        told.clock = clock;
        told.firsts.clear();
        for one in listed.iter().filter(|one| !one.dest.contains(self.own)) {
            let place = (one.bound, one.id);
            let first = told.firsts.entry((one.dest, one.level)).or_insert(place);
            *first = place.min(*first);
        }
    }

    /// Largest x with `Past(group, x)`.
    pub fn past(&self, group: GroupId) -> Timestamp {
        self.past[group.index()]
    }

    /// LR4: whether the last list of `group` is complete up to what is past there.
    pub fn is_listed(&self, group: GroupId) -> bool {
        self.past(group) <= self.told[group.index()].clock
    }

    /// The groups of `dest` other than the own one: those that a message waits for.
    fn others(&self, dest: GroupSet) -> impl Iterator<Item = GroupId> + use<P> {
        let others = dest.without(self.own);
        others.iter().skip(usize::from(self.planted.has(Bug::SkipOneDestination)))
    }

    /// The level of an undelivered message of the own group whose final place is known.
    ///
    /// It is capped at [`Level::needed`]: beyond it no process asks, and every change would be a
    /// message.
    pub fn level(&self, place: Place, dest: GroupSet) -> Level {
        let needed = Level::needed(self.n_groups);
        let is_settled = dest.iter().all(|group| self.past(group) >= place.0)
            && dest.without(self.own).iter().all(|group| self.covers(group, place));
        if !is_settled {
            return Level(0);
        }
        let below = self.lowest_below(place, dest);
        below.map_or(needed, |lowest| Level(lowest.0.saturating_add(1)).min(needed))
    }

    /// Whether the list of `group` is complete up to `place`.
    fn covers(&self, group: GroupId, place: Place) -> bool {
        self.told[group.index()].clock >= place.0
    }

    /// The lowest level among the proposals that other destinations listed before `place`, as far
    /// as they can prolong a chain.
    fn lowest_below(&self, place: Place, dest: GroupSet) -> Option<Level> {
        self.others(dest)
            .flat_map(|group| self.told[group.index()].firsts.iter())
            .filter(|((to, _), first)| !to.is_within(dest) && **first < place)
            .map(|((_, level), _)| *level)
            .min()
    }

    /// LR1: whether a message that is deliverable otherwise may be delivered.
    pub fn admits_by_hop(&self, place: Place, dest: GroupSet) -> bool {
        let missing = u8::from(self.planted.has(Bug::HopLevelsMissing));
        let needed = Level::needed(self.n_groups).0.saturating_sub(missing);
        self.others(dest).all(|group| self.past(group) >= place.0 && self.covers(group, place))
            && self.lowest_below(place, dest).is_none_or(|lowest| lowest.0 >= needed)
    }

    /// LR2: whether no group can decide anything new before `place`. A message to one group needs
    /// only its own group's clocks, which plain delivery checks.
    pub fn admits_by_all(&self, place: Place, dest: GroupSet) -> bool {
        dest.len() == 1
            || self.others(GroupSet::all(self.n_groups)).all(|group| self.past(group) >= place.0)
    }
}

/// LR3: whether every attested clock has passed `at`, as seen here; otherwise the time until then.
///
/// # Errors
/// The nanoseconds to wait.
pub fn admits_by_clock(
    clock: RealClock,
    at: Timestamp,
    planted: impl Planting<Bug>,
) -> Result<(), u64> {
    // The own clock is ahead of true time by at most `error`, another's behind it by as much.
    let errors = match (planted.has(Bug::WaitWithoutError), planted.has(Bug::WaitForOneError)) {
        (true, _) => 0,
        (_, true) => 1,
        _ => 2,
    };
    let open_from = at.0.saturating_add(clock.error.saturating_mul(errors)).saturating_add(1);
    if clock.now >= open_from { Ok(()) } else { Err(open_from - clock.now) }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::planted::Sound;

    fn id(sequence: u64) -> MessageId {
        MessageId { sender: 1, sequence }
    }

    fn set(groups: &[usize]) -> GroupSet {
        groups.iter().map(|group| GroupId::at(*group)).collect()
    }

    fn horizon(n_groups: usize) -> Horizon<Sound> {
        Horizon::new(GroupId::at(0), &Layout::new(&alloc::vec![1; n_groups]), Sound)
    }

    #[test]
    fn lr1_waits_for_the_past_and_for_unsettled_blockers() {
        let mut horizon = horizon(3);
        let (place, dest) = ((Timestamp(5), id(9)), set(&[0, 1]));
        assert!(!horizon.admits_by_hop(place, dest));
        horizon.raise(GroupId::at(1), Timestamp(5));
        let blocker = |bound, level, groups: &[usize]| Listed {
            bound: Timestamp(bound),
            id: id(1),
            dest: set(groups),
            level: Level(level),
        };
        horizon.tell(GroupId::at(1), Timestamp(6), &[blocker(4, 0, &[1, 2])]);
        assert!(!horizon.admits_by_hop(place, dest), "an unsettled call is before it");
        horizon.tell(GroupId::at(1), Timestamp(6), &[blocker(4, 1, &[1, 2])]);
        assert!(horizon.admits_by_hop(place, dest), "settled is enough among three groups");
        for harmless in [blocker(6, 0, &[1, 2]), blocker(4, 0, &[1]), blocker(4, 0, &[0, 1, 2])] {
            horizon.tell(GroupId::at(1), Timestamp(6), &[harmless]);
            assert!(horizon.admits_by_hop(place, dest), "{harmless:?}");
        }
        horizon.tell(GroupId::at(1), Timestamp(4), &[]);
        assert!(!horizon.admits_by_hop(place, dest), "a list that ends before m says nothing");
    }

    #[test]
    fn lr4_a_list_that_ends_before_what_is_past_is_seen() {
        let (mut horizon, other) = (horizon(3), GroupId::at(1));
        assert!(horizon.is_listed(other), "nothing is past");
        horizon.raise(other, Timestamp(5));
        assert!(!horizon.is_listed(other));
        horizon.tell(other, Timestamp(5), &[]);
        assert!(horizon.is_listed(other));
        horizon.tell(other, Timestamp(4), &[]);
        assert!(!horizon.is_listed(other));
    }

    #[test]
    fn a_level_counts_the_settled_hops_below() {
        let mut horizon = horizon(5);
        let (place, dest) = ((Timestamp(5), id(9)), set(&[0, 1]));
        assert_eq!(horizon.level(place, dest), Level(0));
        horizon.raise(GroupId::at(0), Timestamp(5));
        horizon.raise(GroupId::at(1), Timestamp(5));
        horizon.tell(GroupId::at(1), Timestamp(5), &[]);
        assert_eq!(horizon.level(place, dest), Level(3), "nothing below it: as good as delivered");
        for level in 0..3 {
            let listed =
                Listed { bound: Timestamp(2), id: id(1), dest: set(&[1, 2]), level: Level(level) };
            horizon.tell(GroupId::at(1), Timestamp(5), &[listed]);
            assert_eq!(horizon.level(place, dest), Level(level + 1));
        }
    }

    #[test]
    fn lr2_asks_every_group_for_messages_with_several_destinations() {
        let mut horizon = horizon(3);
        let place = (Timestamp(5), id(9));
        assert!(horizon.admits_by_all(place, set(&[0])));
        horizon.raise(GroupId::at(1), Timestamp(5));
        assert!(!horizon.admits_by_all(place, set(&[0, 1])));
        horizon.raise(GroupId::at(2), Timestamp(7));
        assert!(horizon.admits_by_all(place, set(&[0, 1])));
    }

    #[test]
    fn lr3_waits_out_both_errors() {
        let clock = |now| RealClock { now, error: 10 };
        assert_eq!(admits_by_clock(clock(100), Timestamp(80), Sound), Err(1));
        assert_eq!(admits_by_clock(clock(101), Timestamp(80), Sound), Ok(()));
    }

    #[test]
    fn lr1_of_two_calls_with_one_timestamp_the_lower_name_is_before() {
        let mut horizon = horizon(3);
        let (place, dest) = ((Timestamp(5), id(9)), set(&[0, 1]));
        horizon.raise(GroupId::at(1), Timestamp(5));
        for (of, is_before) in [(8, true), (10, false)] {
            let (bound, dest_of, level) = (Timestamp(5), set(&[1, 2]), Level(0));
            let blocker = Listed { bound, id: id(of), dest: dest_of, level };
            horizon.tell(GroupId::at(1), Timestamp(6), &[blocker]);
            assert_eq!(horizon.admits_by_hop(place, dest), !is_before, "{of}");
        }
    }
}
