//! The machine over plain memory: verbs take effect when the test releases their link. Each test is
//! named after a trap that the papers leave out. (Time, faults and torn memory: the simulator.)

mod counted;
mod harms;
mod members;
mod planted;
mod states;
mod traps;

use super::word::Narrow;
use super::*;
use crate::members::Members;
use crate::node::Timing;
use crate::planted::Planted;
use crate::registry::LogSpec;
use crate::stage::{Verb, View, World};
use alloc::collections::VecDeque;
use base::{Inbox, Port};

const SHAPE: LogShape = LogShape { ring_slots: 16, value_bytes: 80 };

/// Three machines that a test steps: there is no Ω, so the test chooses the leader.
struct Group<P: Planting<Bug>, W: Widths = Wide> {
    world: World,
    machines: Vec<Machine<P, W>>,
    now: Instant,
}

fn config(me: usize, start: Start) -> NodeConfig {
    NodeConfig {
        me: Rank::at(me),
        members: 3,
        start,
        timing: Timing::default(),
        memory_outlives_process: true,
        peer_works: false,
    }
}

/// The head of a state of a cluster whose members never changed.
fn head() -> StateHead {
    let members = Members::first(MemberSet::all(3));
    StateHead { ballot: Ballot::NONE, members_at: Prefix::ZERO, members, coming: None }
}

impl<P: Planting<Bug>> Group<P> {
    fn new(planted: P) -> Group<P> {
        Group::made(planted)
    }
}

impl<P: Planting<Bug>, W: Widths> Group<P, W> {
    fn made(planted: P) -> Group<P, W> {
        let n_words = Spec::layout(3, &SHAPE).n_words as usize;
        let mut world = World::new(3, n_words);
        let machines = (0..3)
            .map(|me| {
                let mut view = View { world: &mut world, me };
                Machine::new(&config(me, Start::Bootstrap), At(0), &SHAPE, planted, &mut view)
            })
            .collect();
        let mut group = Group { world, machines, now: Instant(1) };
        for me in 0..3 {
            for peer in Rank::all(3) {
                group.event(me, Event::LinkUp(peer));
            }
        }
        // Every member learns the incarnation at the other ends of its links.
        for me in 0..3 {
            group.step(me);
        }
        group
    }

    fn event(&mut self, me: usize, event: Event<'_>) {
        let mut view = View { world: &mut self.world, me };
        self.machines[me].on_event(event, self.now, &mut view);
    }

    fn step(&mut self, me: usize) -> usize {
        let inbox = core::mem::take(&mut self.world.inboxes[me]);
        for at in 0..inbox.len() {
            self.event(me, inbox.event(at));
        }
        let mut view = View { world: &mut self.world, me };
        self.machines[me].poll(self.now, &mut view);
        inbox.len()
    }

    /// Runs the listed members until no event comes.
    fn settle(&mut self, who: &[usize]) {
        for _ in 0..400 {
            self.now = self.now.plus(Duration::from_micros(500));
            let events: usize = who.iter().map(|me| self.step(*me)).sum();
            let late = self.machines.iter().any(|m| m.clock.alarm().is_some() && m.term.is_some());
            if events == 0 && !late {
                return;
            }
        }
    }

    fn lead(&mut self, me: usize) {
        let mut view = View { world: &mut self.world, me };
        self.machines[me].lead(self.now, &mut view);
    }

    fn follow(&mut self, me: usize) {
        let mut view = View { world: &mut self.world, me };
        self.machines[me].follow(self.now, &mut view);
    }

    fn propose(&mut self, me: usize, value: &[u8]) -> Result<Slot, Refused> {
        let mut view = View { world: &mut self.world, me };
        self.machines[me].propose(value, self.now, &mut view)
    }

    fn read(&mut self, me: usize, ticket: u64) {
        let mut view = View { world: &mut self.world, me };
        self.machines[me].read(Ticket(ticket), self.now, &mut view);
    }

    fn hold(&mut self, from: usize, to: usize) {
        self.world.held.push((from, to));
    }

    fn release(&mut self, from: usize, to: usize) {
        self.world.held.retain(|link| *link != (from, to));
        self.world.let_through(from, to, usize::MAX);
    }

    /// Loses the verbs under way on a link; T4: each verb completes, with an unknown outcome.
    fn break_link(&mut self, from: usize, to: usize) {
        self.world.lose(from, to);
        self.step(from);
        self.event(from, Event::LinkDown(Rank::at(to)));
    }

    fn hold_all(&mut self, from: usize) {
        (0..3).for_each(|to| self.hold(from, to));
    }

    fn release_all(&mut self, from: usize) {
        (0..3).for_each(|to| self.release(from, to));
    }

    fn word(&self, me: usize, slot: u64) -> SlotWord {
        let at = self.machines[me].places.slot(Slot(slot));
        W::PACKING.unpack(self.world.memory[me][at.0 as usize])
    }

    fn values(&self, me: usize) -> Vec<&[u8]> {
        self.world.delivered[me].iter().map(Vec::as_slice).filter(|v| !v.is_empty()).collect()
    }

    fn leads(&self, me: usize) -> bool {
        self.machines[me].status().role == Role::Leader
    }
}

const EVERYBODY: [usize; 3] = [0, 1, 2];

#[test]
fn a_lone_leader_decides_and_everybody_learns() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    assert!(group.leads(0));
    for n in 0..100u8 {
        group.propose(0, &[n]).expect("leads and has room");
        group.settle(&EVERYBODY);
    }
    for me in EVERYBODY {
        let values = group.values(me);
        assert_eq!(values.len(), 100);
        assert!(values.iter().enumerate().all(|(n, value)| **value == [n as u8]));
    }
    assert!(group.machines[0].counters.slots_recycled >= 84, "the ring has 16 slots");
}

#[test]
fn many_slots_are_in_flight_at_once_and_the_window_is_bounded() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold_all(0);
    let taken = (0..16u8).take_while(|n| group.propose(0, &[*n]).is_ok()).count();
    assert_eq!(taken, 2, "half a quarter of the ring is prepared ahead");
    assert_eq!(group.propose(0, b"more"), Err(Refused::Full));
    group.release_all(0);
    group.settle(&EVERYBODY);
    assert_eq!(group.values(2).len(), taken);
    assert_eq!(group.propose(1, b"x"), Err(Refused::NotLeader));
    assert_eq!(group.propose(0, &[0; 81]), Err(Refused::TooLong));
}

#[test]
fn a_dead_leaders_undecided_value_is_adopted_from_an_acceptor_that_returned_it() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    // Member 2 alone accepts the value: it never reaches the leader's own memory and member 1.
    group.hold(0, 0);
    group.hold(0, 1);
    group.propose(0, b"orphan").expect("room");
    group.step(0);
    // The majority of member 1 is itself and member 2.
    group.hold(1, 0);
    group.lead(1);
    group.settle(&[1, 2]);
    assert!(group.leads(1));
    assert_eq!(group.values(1), [b"orphan"]);
    assert_eq!(group.machines[1].counters.values_fetched_remotely, 1);
    assert!(group.world.notes[0].iter().all(|note| !matches!(note, Note::Deposed { .. })));
    group.propose(1, b"next").expect("leads");
    group.settle(&[1, 2]);
    assert_eq!(group.values(2), [&b"orphan"[..], b"next"]);
}

#[test]
fn leader_change_takes_one_cas_a_slot_by_predicting_the_dead_leaders_prepares() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..5u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    group.lead(1);
    group.settle(&[1, 2]);
    assert!(group.leads(1));
    assert_eq!(group.machines[1].counters.prepares_mispredicted, 0);
}

#[test]
fn delayed_cas_of_a_deposed_leader_fails_on_a_recycled_slot() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 1);
    group.hold(0, 2);
    group.propose(0, b"stale").expect("room");
    group.step(0);
    group.lead(1);
    group.settle(&[1, 2]);
    for n in 0..64u8 {
        group.propose(1, &[n]).expect("leads");
        group.settle(&[1, 2]);
    }
    let before = [group.word(1, 0), group.word(2, 0)];
    group.release(0, 1);
    group.release(0, 2);
    assert_eq!([group.word(1, 0), group.word(2, 0)], before, "four generations later");
    group.settle(&EVERYBODY);
    assert!(!group.leads(0));
    assert!(!group.values(1).contains(&&b"stale"[..]) || group.values(1)[0] == b"stale");
    assert_eq!(group.values(1), group.values(2));
}

#[test]
fn a_bare_commit_index_would_apply_a_dead_leaders_losing_value() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    // The value of member 0 reaches only member 2, and member 1's majority {0, 1} does not find it.
    group.hold(0, 0);
    group.hold(0, 1);
    group.propose(0, b"losing").expect("room");
    group.step(0);
    group.hold(1, 2);
    group.lead(1);
    group.settle(&[1]);
    assert!(group.leads(1), "0's memory answers for it");
    group.propose(1, b"winning").expect("leads");
    group.settle(&[1]);
    assert_eq!(group.values(1), [b"winning"]);
    // Only the news reaches member 2, not the CAS: its own word still holds the losing value.
    let fact = group.machines[1].places.fact(Rank::at(1)).0 as usize;
    for at in [fact, fact + 1] {
        group.world.memory[2][at] = group.machines[1].news.of(1).decided.0;
    }
    group.world.memory[2][fact] = group.machines[1].news.of(1).ballot.0;
    group.settle(&[2]);
    assert_eq!(group.values(2), [b"winning"]);
    assert_eq!(group.machines[2].counters.applied_from_fetch, 1);
}

#[test]
fn a_slot_is_not_recycled_before_a_majority_has_applied_it() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&[0]);
    // No other member runs: their memory accepts, but nothing is applied there.
    let mut taken = 0;
    for n in 0..40u8 {
        taken += usize::from(group.propose(0, &[n]).is_ok());
        group.settle(&[0]);
    }
    assert_eq!(taken, 16, "one ring, then writes stop");
    group.settle(&EVERYBODY);
    group.propose(0, b"goes on").expect("room again");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(1).len(), 17);
}

#[test]
fn dead_members_do_not_count_as_having_applied() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    for n in 0..4u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&EVERYBODY);
    }
    group.event(0, Event::ProcessFailed(Rank::at(1)));
    group.event(0, Event::ProcessFailed(Rank::at(2)));
    let mut taken = 0;
    for n in 0..40u8 {
        taken += usize::from(group.propose(0, &[n]).is_ok());
        group.settle(&[0]);
    }
    assert!((12..=16).contains(&taken), "one survivor goes on for one ring: {taken}");
    assert!(group.machines[0].holders(Prefix(1)).contains(Rank::at(0)));
    assert_eq!(group.machines[0].holders(Prefix(1)).len(), 1);
}

#[test]
fn a_deposed_leader_does_not_answer_reads() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"old").expect("room");
    group.settle(&EVERYBODY);
    group.lead(1);
    group.settle(&[1, 2]);
    group.propose(1, b"new").expect("leads");
    group.settle(&[1, 2]);
    // Member 0 was paused: it has not looked at anything yet, and believes that it leads.
    assert!(group.leads(0));
    group.read(0, 7);
    let inbox = core::mem::take(&mut group.world.inboxes[0]);
    for at in 0..inbox.len() {
        group.event(0, inbox.event(at));
    }
    assert!(!group.world.notes[0].contains(&Note::ReadReady(Ticket(7))));
    assert!(group.world.notes[0].contains(&Note::ReadRefused(Ticket(7))));
}

#[test]
fn a_read_checks_the_slot_after_the_applied_prefix_not_the_next_free_one() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    // Two values are in flight at the paused leader, and reach no member.
    group.hold_all(0);
    group.propose(0, b"a").expect("room");
    group.propose(0, b"b").expect("room");
    group.lead(1);
    group.settle(&[1, 2]);
    group.propose(1, b"winner").expect("leads");
    group.settle(&[1, 2]);
    group.read(0, 9);
    group.release_all(0);
    let inbox = core::mem::take(&mut group.world.inboxes[0]);
    for at in 0..inbox.len() {
        group.event(0, inbox.event(at));
    }
    assert!(!group.world.notes[0].contains(&Note::ReadReady(Ticket(9))));
}

#[test]
fn a_follower_answers_reads_unless_a_decision_is_under_way() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"one").expect("room");
    group.settle(&EVERYBODY);
    group.read(2, 1);
    group.settle(&EVERYBODY);
    assert!(group.world.notes[2].contains(&Note::ReadReady(Ticket(1))));
    // The value is accepted everywhere and not yet decided: the follower cannot know which.
    group.propose(0, b"two").expect("room");
    group.read(2, 2);
    group.step(2);
    assert!(!group.world.notes[2].contains(&Note::ReadReady(Ticket(2))));
    group.settle(&EVERYBODY);
    assert!(group.world.notes[2].contains(&Note::ReadReady(Ticket(2))));
    assert_eq!(group.values(2).len(), 2, "and the answer has the value");
}

#[test]
fn a_new_leader_answers_no_read_before_it_has_applied_what_it_found() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"acknowledged").expect("room");
    group.step(0);
    assert_eq!(group.values(0), [b"acknowledged"], "decided, and its client knows");
    group.lead(1);
    group.read(1, 5);
    let ready = |group: &Group<Sound>| group.world.notes[1].contains(&Note::ReadReady(Ticket(5)));
    assert!(!ready(&group));
    for _ in 0..50 {
        group.now = group.now.plus(Duration::from_micros(300));
        group.step(1);
        assert!(!ready(&group) || group.values(1) == [b"acknowledged"]);
    }
    assert!(ready(&group));
}

#[test]
fn amnesia_a_restarted_member_uses_no_ballot_of_its_earlier_life() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    let before = group.machines[0].status().ballot;
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0] = Machine::new(&config(0, Start::Reattach), At(0), &SHAPE, Sound, &mut view);
    for peer in Rank::all(3) {
        group.event(0, Event::LinkUp(peer));
    }
    group.lead(0);
    group.settle(&EVERYBODY);
    assert_eq!(group.machines[0].status().role, Role::Learner, "no state, no lead");
    assert!(group.world.notes[0].iter().any(|note| matches!(note, Note::NeedState(_))));
    let mut view = View { world: &mut group.world, me: 0 };
    group.machines[0].install(Prefix(0), Some(head()), group.now, &mut view);
    group.settle(&EVERYBODY);
    assert!(group.leads(0));
    assert!(group.machines[0].status().ballot > before);
}

impl<P: Planting<Bug>> Group<P, Narrow> {
    /// Changes the leader until proposal numbers outgrow the words. Each leader decides a value.
    fn overflow(planted: P) -> Group<P, Narrow> {
        let mut group = Group::made(planted);
        for n in 0..60u8 {
            let me = usize::from(n) % 3;
            EVERYBODY.iter().filter(|at| **at != me).for_each(|at| group.follow(*at));
            group.lead(me);
            group.settle(&EVERYBODY);
            assert!(group.leads(me), "term {n}: {:?}", group.machines[me].status());
            group.propose(me, &[n]).expect("leads");
            group.settle(&EVERYBODY);
        }
        assert!(
            group.machines[0].candidacy.highest() > Narrow::PACKING.ballot_limit(),
            "the overflow is reached"
        );
        group
    }
}

#[test]
fn proposal_numbers_that_overflow_the_word_fall_back_to_messages() {
    let group = Group::overflow(Sound);
    for me in EVERYBODY {
        let values = group.values(me);
        assert!(values.iter().enumerate().all(|(at, value)| **value == [at as u8]), "{values:?}");
        assert_eq!(values.len(), 60);
        assert!(group.machines[me].counters.slots_sealed > 0);
    }
}

#[test]
fn a_link_that_broke_and_came_back_is_made_good() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.hold(0, 1);
    group.propose(0, b"a").expect("room");
    group.step(0);
    // The link breaks: what was on it may have taken effect or not. Here it has not.
    group.break_link(0, 1);
    group.settle(&[0, 2]);
    group.release(0, 1);
    group.event(0, Event::LinkUp(Rank::at(1)));
    group.propose(0, b"b").expect("room");
    group.settle(&EVERYBODY);
    assert_eq!(group.values(1), [b"a", b"b"]);
    assert_eq!(group.values(2), [b"a", b"b"]);
}

#[test]
fn the_previous_decision_rides_on_the_next_value() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"a").expect("room");
    group.step(0);
    // From here on no separate news reaches member 1, only values.
    let fact = group.machines[0].places.fact(Rank::at(0)).0 as usize;
    group.propose(0, b"b").expect("room");
    (group.world.memory[1][fact], group.world.memory[1][fact + 1]) = (0, 0);
    group.step(1);
    assert_eq!(group.values(1), [b"a"], "b's label says that a is decided");
    assert!(group.machines[1].counters.facts_piggybacked > 0);
}

#[test]
fn a_restarted_member_is_no_holder_before_it_has_what_its_earlier_life_claimed() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    // Member 2 sleeps; the leader recycles after its own and member 1's claims.
    for n in 0..40u8 {
        group.propose(0, &[n]).expect("room");
        group.settle(&[0, 1]);
    }
    assert_eq!(group.values(1).len(), 40);
    let mut view = View { world: &mut group.world, me: 1 };
    group.machines[1] = Machine::new(&config(1, Start::Reattach), At(0), &SHAPE, Sound, &mut view);
    for peer in Rank::all(3) {
        group.event(1, Event::LinkUp(peer));
    }
    // The state of a member that has applied less does not make it whole.
    let mut view = View { world: &mut group.world, me: 1 };
    group.machines[1].install(Prefix(3), Some(head()), group.now, &mut view);
    assert_eq!(group.machines[1].status().role, Role::Learner);
    assert!(!group.machines[1].holders(Prefix(1)).contains(Rank::at(1)));
    group.step(0);
    assert!(!group.machines[0].holders(Prefix(4)).contains(Rank::at(1)), "its word was taken back");
    let mut view = View { world: &mut group.world, me: 1 };
    group.machines[1].install(Prefix(40), Some(head()), group.now, &mut view);
    assert_eq!(group.machines[1].status().role, Role::Follower);
}

/// A member that is stopped, and not reported dead, does not keep an idle leader busy; and it does
/// not wait when there is news for it.
#[test]
fn an_idle_leader_looks_for_a_silent_member_more_and_more_seldom() {
    let mut group = Group::new(Sound);
    group.lead(0);
    group.settle(&EVERYBODY);
    group.propose(0, b"unheard").expect("room");
    let until = group.now.plus(Duration::from_secs(4));
    let mut looks = 0;
    while group.now < until {
        group.step(1);
        group.step(0);
        let next = group.machines[0].deadline().expect("it waits for member 2");
        assert!(next.since(group.now) <= Duration::from_millis(320), "and is met again soon");
        group.now = next.max(group.now.plus(Duration::from_micros(100)));
        looks += 1;
    }
    assert!((12..40).contains(&looks), "looked {looks} times in 4 s");
    group.propose(0, b"news").expect("room");
    group.step(0);
    let next = group.machines[0].deadline().expect("somebody lags more than before");
    assert!(next.since(group.now) <= WAKE_AFTER);
    group.settle(&EVERYBODY);
    assert_eq!(group.values(2), [&b"unheard"[..], b"news"]);
    assert_eq!(group.machines[0].deadline(), None, "nobody lags");
}
