//! Changes of members (I9 to I13), stepped by the test.

use super::*;
use crate::velos::eras::Rules;

const SECOND: Incarnation = Incarnation(2);
const SEAT: Rank = Rank::at(2);

impl<P: Planting<Bug>> Group<P> {
    fn led(planted: P) -> Group<P> {
        let mut group = Group::new(planted);
        group.lead(0);
        group.settle(&EVERYBODY);
        group.propose(0, b"first").expect("room");
        group.settle(&EVERYBODY);
        assert!(group.leads(0));
        group
    }

    fn change(&mut self, me: usize, change: Change) -> Result<Slot, ChangeRefused> {
        let mut view = View { world: &mut self.world, me };
        self.machines[me].change(change, self.now, &mut view)
    }

    /// The memory at `seat` is lost, and another incarnation begins there.
    fn renew(&mut self, seat: usize, incarnation: Incarnation) {
        self.world.memory[seat].fill(0);
        self.world.delivered[seat].clear();
        self.world.links[seat].iter_mut().for_each(VecDeque::clear);
        self.world.inboxes[seat] = Inbox::new();
        for peer in (0..3).filter(|peer| *peer != seat) {
            self.break_link(peer, seat);
        }
        let start = Start::Join { incarnation };
        let planted = self.machines[seat].planted;
        let mut view = View { world: &mut self.world, me: seat };
        self.machines[seat] = Machine::new(&config(seat, start), At(0), &SHAPE, planted, &mut view);
        for peer in 0..3 {
            self.event(seat, Event::LinkUp(Rank::at(peer)));
            if peer != seat {
                self.event(peer, Event::LinkUp(Rank::at(seat)));
            }
        }
    }

    /// Gives the member at `to` the state of the one at `from`.
    fn give_state(&mut self, from: usize, to: usize) {
        let applied = self.machines[from].applied;
        let head = self.machines[from].state_head(applied);
        let mut view = View { world: &mut self.world, me: to };
        self.machines[to].install(applied, head, self.now, &mut view);
    }

    fn members(&self, me: usize) -> Configuration {
        self.machines[me].configuration().expect("it holds the state")
    }

    fn replaced(planted: P) -> Group<P> {
        let mut group = Group::led(planted);
        group.change(0, Change::Replace(SEAT, SECOND)).expect("nothing is under way");
        group.settle(&[0, 1]);
        assert!(group.members(0).is_decided, "{:?}", group.members(0));
        group
    }
}

#[test]
fn a_replaced_member_learns_first_and_votes_when_it_has_the_state() {
    let mut group = Group::replaced(Sound);
    assert_eq!(group.change(0, Change::Promote(SEAT)), Err(ChangeRefused::LagsBehind));
    group.renew(2, SECOND);
    group.settle(&EVERYBODY);
    assert_eq!(group.change(0, Change::Promote(SEAT)), Err(ChangeRefused::LagsBehind));
    assert!(!group.machines[2].can_lead(), "it does not hold the state");
    group.give_state(0, 2);
    group.propose(0, b"learned").expect("room");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(2), [b"learned"]);
    assert!(group.machines[2].counters.applied_from_own_memory > 0, "its memory is fed");
    assert!(!group.machines[2].can_lead(), "it does not vote");
    group.change(0, Change::Promote(SEAT)).expect("it has everything");
    group.settle(&EVERYBODY);
    let Configuration { members, is_decided, .. } = group.members(2);
    assert!(is_decided && members.voters == MemberSet::all(3) && members.learners.is_empty());
    assert_eq!(members.incarnation(SEAT), SECOND);
    // It counts: with member 1 out of reach it completes the majority.
    group.hold(0, 1);
    group.propose(0, b"both").expect("room");
    group.settle(&[0, 2]);
    assert_eq!(group.values(0).last(), Some(&&b"both"[..]));
    // It leads, too, and knows what was decided.
    group.follow(0);
    group.lead(2);
    group.settle(&[2, 0]);
    assert!(group.leads(2));
    assert_eq!(group.values(2).last(), Some(&&b"both"[..]));
}

fn decided_with_new_memory<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted);
    group.renew(2, SECOND);
    group.settle(&[0]);
    group.hold(0, 1);
    group.propose(0, b"x").expect("room");
    group.settle(&[0]);
    group.values(0).len() == 2
}

#[test]
fn i10_new_memory_on_a_voters_seat_is_not_that_voter() {
    assert!(!decided_with_new_memory(Sound));
    assert!(decided_with_new_memory(Planted(Bug::AnyIncarnation)));
}

fn decided_with_a_learner<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::replaced(planted);
    group.renew(2, SECOND);
    group.settle(&EVERYBODY);
    group.hold(0, 1);
    group.propose(0, b"x").expect("room");
    group.settle(&[0, 2]);
    group.values(0).len() == 2
}

#[test]
fn i10_who_learns_or_was_removed_is_not_counted() {
    assert!(!decided_with_a_learner(Sound));
    assert!(decided_with_a_learner(Planted(Bug::CountRemoved)));
}

/// The voters that a group names right after the slot that removes one is decided.
fn voters_one_slot_later<P: Planting<Bug>>(planted: P) -> MemberSet {
    let mut group = Group::led(planted);
    let slot = group.change(0, Change::Remove(SEAT)).expect("nothing is under way");
    // The change is decided and applied; the verbs that would hasten the next era are not sent.
    while !group.machines[0].applied.contains(slot) {
        group.hold(0, 1);
        group.step(0);
        group.release(0, 1);
    }
    let machine = &group.machines[0];
    Rank::all(3).filter(|rank| machine.eras.counted(slot.next()).contains(*rank)).collect()
}

#[test]
fn i9_a_configuration_governs_alpha_slots_after_the_one_that_decides_it() {
    assert_eq!(voters_one_slot_later(Sound), MemberSet::all(3));
    assert_eq!(voters_one_slot_later(Planted(Bug::GovernAtOnce)), MemberSet::all(2));
}

/// The number of slots that a leader prepares while its values reach no member.
fn prepared_unseen<P: Planting<Bug>>(planted: P) -> u64 {
    let mut group = Group::led(planted);
    let applied = group.machines[0].applied;
    (1..3).for_each(|to| group.hold(0, to));
    for n in 0..16u8 {
        let _full_at_the_end = group.propose(0, &[n]);
        group.step(0);
    }
    let is_prepared = |slot: &Slot| {
        let index = group.machines[0].places.ring_index(*slot);
        group.machines[0].ring.cells[index].slot == *slot
    };
    (applied.0..applied.0 + 16).map(Slot).filter(is_prepared).count() as u64
}

#[test]
fn i9_nobody_prepares_alpha_slots_beyond_what_it_has_applied() {
    assert!(prepared_unseen(Sound) <= 8);
    assert!(prepared_unseen(Planted(Bug::PrepareAhead)) > 8);
}

#[test]
fn i11_a_leader_that_removes_itself_publishes_that_and_retires() {
    let mut group = Group::led(Sound);
    group.change(0, Change::Remove(Rank::at(0))).expect("nothing is under way");
    group.settle(&EVERYBODY);
    assert_eq!(group.machines[0].status().role, Role::Follower);
    assert!(!group.machines[0].can_lead());
    assert_eq!(group.machines[0].applied, group.machines[1].applied, "they know what it decided");
    group.lead(1);
    group.settle(&EVERYBODY);
    group.propose(1, b"without it").expect("member 1 leads");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(2).last(), Some(&&b"without it"[..]));
    assert!(
        group.members(0).has_parted(Rank::at(0), Incarnation::FIRST),
        "a majority has applied that"
    );
}

#[test]
fn i12_one_change_at_a_time_and_none_before_the_last_is_settled() {
    let mut group = Group::led(Sound);
    // Only the leader runs: the others' memory answers, and they apply nothing.
    group.change(0, Change::Remove(SEAT)).expect("nothing is under way");
    let second = Change::Add(SEAT, SECOND);
    assert_eq!(group.change(0, second), Err(ChangeRefused::Pending), "it is not decided");
    group.settle(&[0]);
    assert!(group.machines[0].eras.coming().is_none(), "it governs");
    assert_eq!(group.change(0, second), Err(ChangeRefused::Pending), "only the leader knows");
    group.settle(&EVERYBODY);
    assert!(group.change(0, second).is_ok());
}

#[test]
fn i12_an_entry_that_was_made_from_what_governs_no_more_is_void() {
    let three = Members::first(MemberSet::all(3));
    let without = |rank| three.after(Change::Remove(Rank::at(rank)), Rank::at(0)).expect("left");
    let decide_two = |any_base| {
        let rules = Rules { alpha: 8, any_incarnation: false, count_removed: false, any_base };
        let mut eras = Eras::new(Rank::at(0), Incarnation::FIRST, MemberSet::all(3), rules);
        // Two leaders began a change each; the later one's slot comes first.
        assert!(eras.decide(Slot(4), Prefix(0), &without(2)));
        eras.decide(Slot(6), Prefix(0), &without(1));
        (4..20).for_each(|applied| eras.reach(Prefix(applied)));
        eras.decide(Slot(20), Prefix(0), &without(1));
        eras.reach(Prefix(28));
        eras.present().members.voters
    };
    assert_eq!(decide_two(false), MemberSet::all(2));
    assert_ne!(decide_two(true), MemberSet::all(2), "the check above is one");
}

fn credited_with_its_predecessors<P: Planting<Bug>>(planted: P) -> bool {
    let mut group = Group::led(planted);
    let applied = group.machines[0].applied;
    assert!(group.machines[0].holders(applied).contains(SEAT));
    group.change(0, Change::Replace(SEAT, SECOND)).expect("nothing is under way");
    group.settle(&[0, 1]);
    group.machines[0].holders(Prefix(1)).contains(SEAT)
}

#[test]
fn i13_a_new_incarnation_is_not_credited_with_what_its_predecessor_has_applied() {
    assert!(!credited_with_its_predecessors(Sound));
    assert!(credited_with_its_predecessors(Planted(Bug::AnyClaim)));
}

#[test]
fn a_state_tells_what_is_coming_and_one_without_that_is_none() {
    let mut group = Group::replaced(Sound);
    group.renew(2, SECOND);
    let applied = group.machines[0].applied;
    let mut view = View { world: &mut group.world, me: 2 };
    group.machines[2].install(applied, None, group.now, &mut view);
    assert_eq!(group.machines[2].status().role, Role::Learner, "it knows nobody");
    group.give_state(0, 2);
    assert_eq!(group.machines[2].status().role, Role::Follower);
    assert_eq!(group.members(2).members, group.members(0).members);
    // Between the slot that decides a change and the one from which it governs, both travel.
    let slot = group.change(0, Change::Remove(SEAT)).expect("nothing is under way");
    while !group.machines[0].applied.contains(slot) {
        group.step(0);
    }
    let head = group.machines[0].state_head(slot.prefix_through()).expect("known");
    let (from, members) = head.coming.expect("it does not govern yet");
    assert_eq!(from, Prefix(slot.0 + 8));
    assert!(members.all() == MemberSet::all(2) && head.members.learners.contains(SEAT));
    // A state that ends before that slot does not cover the change.
    let before = group.machines[0].state_head(slot.prefix_before()).expect("known");
    assert_eq!((before.coming, before.members), (None, head.members));
}

#[test]
fn a_region_whose_owner_has_not_begun_yet_is_asked_again() {
    let mut group = Group::led(Sound);
    let at = group.machines[2].places.incarnation().0 as usize;
    group.world.memory[2][at] = 0;
    group.event(0, Event::LinkDown(SEAT));
    group.event(0, Event::LinkUp(SEAT));
    group.step(0);
    assert!(!group.machines[0].links.met().contains(SEAT), "nobody is there yet");
    group.world.memory[2][at] = Incarnation::FIRST.0;
    // It asks when its patience is over, and receives the answer.
    group.settle(&[0]);
    group.settle(&[0]);
    assert!(group.machines[0].links.met().contains(SEAT));
}

/// The number of CASes under way to one word of a member whose memory is identified in mid-term.
fn cases_under_way<P: Planting<Bug>>(planted: P) -> usize {
    let mut group = Group::new(planted);
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0] =
        Machine::new(&config(0, Start::Bootstrap), At(0), &SHAPE, planted, &mut view);
    (0..2).for_each(|peer| group.event(0, Event::LinkUp(Rank::at(peer))));
    group.step(0);
    group.lead(0);
    group.settle(&[0, 1]);
    assert!(group.leads(0));
    group.hold(0, 2);
    group.event(0, Event::LinkUp(SEAT));
    group.world.let_through(0, 2, 1);
    // Its memory is identified: that also makes it one of the fed, and either posts what it missed.
    group.step(0);
    let first = group.machines[0].places.slot(Slot(0));
    let is_to_first = |verb: &&Verb| matches!(verb, Verb::Cas { at, .. } if *at == first);
    group.world.links[0][2].iter().filter(is_to_first).count()
}

#[test]
fn i6_who_is_met_and_fed_at_once_is_posted_to_once() {
    assert_eq!(cases_under_way(Sound), 1);
    assert_eq!(cases_under_way(Planted(Bug::RepostUnanswered)), 2);
}

#[test]
fn i12_an_era_that_a_state_brought_is_not_settled_by_it() {
    let rules = Rules { alpha: 8, any_incarnation: false, count_removed: false, any_base: false };
    let mut eras = Eras::new(Rank::at(0), Incarnation::FIRST, MemberSet::all(3), rules);
    assert!(eras.is_settled(), "the founders' era begins with nothing");
    let members = Members::first(MemberSet::all(2));
    let head = StateHead { ballot: Ballot::NONE, members_at: Prefix(40), members, coming: None };
    eras.install(&head);
    assert!(!eras.is_settled(), "one member has the state; a majority may not");
    eras.note_settled(true);
    eras.install(&head);
    assert!(eras.is_settled(), "it stays so");
}
