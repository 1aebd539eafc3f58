//! Members whose beats reach each other or not, and the member that they trust in the end.

use super::*;
use alloc::vec;
use alloc::vec::Vec;
use base::Token;
use base::verb::Unsupported;

/// Members' regions; a cut drops what one member writes to another.
struct World {
    memory: Vec<Vec<u64>>,
    cuts: Vec<(usize, usize)>,
}

struct View<'w>(&'w mut World, usize);

impl Port for View<'_> {
    fn load(&self, at: At) -> u64 {
        self.0.memory[self.1][at.0 as usize]
    }
    fn load_into(&self, _: At, _: &mut [u64]) {}
    fn store(&mut self, at: At, word: u64) {
        self.0.memory[self.1][at.0 as usize] = word;
    }
    fn write(&mut self, to: Rank, at: At, words: &[u64], _: Option<Token>) {
        if !self.0.cuts.contains(&(self.1, to.index())) {
            self.0.memory[to.index()][at.0 as usize] = words[0];
        }
    }
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, _: Rank, _: &[u8]) -> bool {
        false
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}

struct Group {
    world: World,
    members: Vec<Omega>,
    now: Instant,
}

impl Group {
    fn new() -> Group {
        let members = Rank::all(3)
            .map(|me| Omega::new(me, 3, At(0), Timing::default(), false, true))
            .collect();
        let world = World { memory: vec![vec![0; N_WORDS as usize]; 3], cuts: Vec::new() };
        Group { world, members, now: Instant(1) }
    }

    /// Runs the listed members for a second.
    fn run(&mut self, who: &[usize]) {
        for _ in 0..100 {
            self.now = self.now.plus(Duration::from_millis(10));
            for me in who {
                self.members[*me].poll(self.now, &mut View(&mut self.world, *me));
            }
        }
    }

    fn trusted(&self) -> Vec<Option<usize>> {
        self.members.iter().map(|omega| omega.trusted().map(Rank::index)).collect()
    }

    fn leader(&self) -> usize {
        let leader = self.members[0].trusted().expect("somebody is trusted").index();
        assert_eq!(self.trusted(), [Some(leader); 3]);
        leader
    }
}

#[test]
fn a_beat_is_a_bijection_of_its_fields() {
    let beat = Beat {
        counter: 1 << 40,
        resigned: true,
        able: false,
        trusted: Some(Rank::at(6)),
        hears: MemberSet::all(7),
    };
    assert_eq!(Beat::unpack(beat.pack()), beat);
    assert_eq!(Beat::unpack(Beat::default().pack()), Beat::default());
}

// L1
#[test]
fn all_come_to_trust_one_and_a_lone_member_trusts_nobody() {
    let mut group = Group::new();
    group.run(&[2]);
    assert_eq!(group.members[2].trusted(), None);
    group.run(&[0, 1, 2]);
    group.leader();
}

fn set(ranks: &[usize]) -> MemberSet {
    ranks.iter().map(|rank| Rank::at(*rank)).collect()
}

#[test]
fn those_that_are_heard_and_say_that_they_hold_the_state_are_able() {
    let mut group = Group::new();
    group.members[1].set_able(false);
    group.run(&[0, 1, 2]);
    assert_eq!(group.members[0].able(), set(&[0, 2]));
    group.run(&[0]);
    assert_eq!(group.members[0].able(), set(&[0]));
}

// I3
#[test]
fn a_majority_is_one_of_the_voters() {
    let mut group = Group::new();
    for member in &mut group.members {
        member.set_voters(set(&[0, 1]), MemberSet::EMPTY);
    }
    // Two of three seats are heard, and one of two voters.
    group.run(&[1, 2]);
    assert_eq!(group.members[1].trusted(), None);
    group.run(&[0, 1]);
    assert!(group.members[1].trusted().is_some(), "seat 2 is not missed");
    for member in &mut group.members {
        member.set_voters(set(&[1]), MemberSet::EMPTY);
    }
    group.run(&[0, 1]);
    assert_eq!(group.trusted()[..2], [Some(1); 2], "alone it is a majority");
}

// I3
#[test]
fn who_has_no_vote_is_not_trusted() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let old = group.leader();
    let voters: MemberSet = (0..3).filter(|me| *me != old).map(Rank::at).collect();
    for member in &mut group.members {
        member.set_voters(voters, set(&[old]));
    }
    group.run(&[0, 1, 2]);
    assert_eq!(group.leader(), old, "it has to decide that it leaves");
    for member in &mut group.members {
        member.set_voters(voters, MemberSet::EMPTY);
    }
    group.members[old].set_able(false);
    group.run(&[0, 1, 2]);
    assert_ne!(group.leader(), old);
}

// I4
#[test]
fn who_won_an_election_is_followed_by_one_that_does_not_know_it_for_a_voter() {
    let mut group = Group::new();
    // Member 1 cannot lead, so 2 leads; 0 was away when 2 got its vote.
    group.members[1].set_able(false);
    group.run(&[1, 2]);
    assert_eq!(group.members[2].trusted(), Some(Rank::at(2)));
    group.members[0].set_voters(set(&[0, 1]), MemberSet::EMPTY);
    group.run(&[0, 1, 2]);
    assert_eq!(group.trusted(), [Some(0), Some(2), Some(2)], "it knows nobody better");
    group.members[0].set_elected(Some(Rank::at(2)));
    group.run(&[0, 1, 2]);
    assert_eq!(group.leader(), 2);
    // It stays elected, and gives up the lead.
    let now = group.now;
    group.members[2].resign(now, &mut View(&mut group.world, 2));
    group.run(&[0, 1, 2]);
    assert_eq!(group.leader(), 0);
}

// I5
#[test]
fn who_hears_no_majority_of_the_voters_that_it_knows_is_not_waited_for() {
    let mut group = Group::new();
    // Member 0 was away when 2 was made a voter instead of 1, which is gone.
    group.members[0].set_voters(set(&[0, 1]), MemberSet::EMPTY);
    group.members[2].set_voters(set(&[0, 2]), MemberSet::EMPTY);
    group.run(&[0, 2]);
    assert_eq!(group.members[0].trusted(), None);
    assert_eq!(group.members[2].trusted(), Some(Rank::at(2)));
}

#[test]
fn a_one_way_cut_does_not_unseat_a_leader() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let leader = group.leader();
    let deaf = (leader + 1) % 3;
    group.world.cuts.push((leader, deaf));
    group.run(&[0, 1, 2]);
    assert_eq!(group.leader(), leader, "I2: one member that alone lost sight of it follows");
}

#[test]
fn a_leader_that_hears_no_majority_is_replaced() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let leader = group.leader();
    // It is heard by all, and hears no member: no completion reaches it either.
    group.world.cuts.extend([((leader + 1) % 3, leader), ((leader + 2) % 3, leader)]);
    group.run(&[0, 1, 2]);
    assert_ne!(group.members[(leader + 1) % 3].trusted(), Some(Rank::at(leader)));
    assert_eq!(group.members[leader].trusted(), None);
}

#[test]
fn a_reported_death_is_believed_at_once_and_a_false_one_is_forgotten() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let leader = group.leader();
    let heir = (leader + 1) % 3;
    group.members[heir].on_event(&Event::ProcessFailed(Rank::at(leader)));
    let at_once = group.now;
    group.members[heir].poll(at_once, &mut View(&mut group.world, heir));
    assert_ne!(group.members[heir].trusted(), Some(Rank::at(leader)));
    group.run(&[0, 1, 2]);
    assert!(group.members[heir].failed().is_empty(), "it is alive after all");
    group.leader();
}

#[test]
fn a_returning_member_follows_the_leader_that_it_finds() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let old = group.leader();
    let others: Vec<usize> = (0..3).filter(|me| *me != old).collect();
    group.run(&others);
    let new = group.members[others[0]].trusted().expect("a majority is left");
    assert_ne!(new.index(), old);
    // The old leader was paused and still trusts itself.
    assert_eq!(group.members[old].trusted(), Some(Rank::at(old)));
    group.run(&[0, 1, 2]);
    assert_eq!(group.leader(), new.index());
}

#[test]
fn of_two_that_claim_the_lead_with_nobody_to_settle_it_the_lower_one_has_it() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    group.run(&[0, 1]);
    // Both were alone with member 2 for a while; now it is gone.
    for me in [0, 1] {
        group.members[me].own.trusted = Some(Rank::at(me));
    }
    group.run(&[0, 1]);
    assert_eq!(group.members[0].trusted(), Some(Rank::at(0)));
    assert_eq!(group.members[1].trusted(), Some(Rank::at(0)));
}

#[test]
fn whoever_resigns_or_lacks_the_state_is_not_trusted() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let old = group.leader();
    let now = group.now;
    group.members[old].resign(now, &mut View(&mut group.world, old));
    group.run(&[0, 1, 2]);
    assert_ne!(group.leader(), old);
    let unable = group.leader();
    group.members[unable].set_able(false);
    group.run(&[0, 1, 2]);
    let left = group.leader();
    assert!(left != unable && left != old);
}

/// A beat that was to come while the member slept is late, and another one is lost.
#[test]
fn a_pause_shorter_than_a_suspicion_gives_the_others_time() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    group.world.cuts.push((1, 0));
    let suspect_after = Timing::default().suspect_after;
    for pause in [suspect_after * 2 / 3, suspect_after / 2, suspect_after / 2] {
        assert!(group.members[0].heard().contains(Rank::at(1)));
        group.now = group.now.plus(pause);
        group.members[0].poll(group.now, &mut View(&mut group.world, 0));
    }
    assert!(!group.members[0].heard().contains(Rank::at(1)), "its time is over");
}

#[test]
fn a_pause_of_its_own_excuses_only_whom_a_member_had_heard_before() {
    let mut group = Group::new();
    group.run(&[0, 1, 2]);
    let missing = (group.leader() + 1) % 3;
    let others: Vec<usize> = (0..3).filter(|at| *at != missing).collect();
    group.run(&others);
    let me = others[0];
    let heard = group.members[me].heard();
    assert!(!heard.contains(Rank::at(missing)) && heard.contains(Rank::at(others[1])));
    // Its loop stands still for a second: no beat has moved when it looks again.
    group.now = group.now.plus(Duration::from_secs(1));
    group.members[me].poll(group.now, &mut View(&mut group.world, me));
    assert_eq!(group.members[me].heard(), heard);
}
