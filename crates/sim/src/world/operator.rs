//! The operator: changes the members during all other faults.
//!
//! It has one goal at a time, and reads a leader's report before each step, as an operator's tool
//! does: the outcome of an unknown change is read, not guessed. Disks are removed before, while or
//! after the members change; some are kept, and come back when they are not wanted. A member that
//! reports a damaged disk comes before anything else: it is replaced, or removed.
//!
//! - I1 No disk of a voter is lost while another one is missing, nor where that voter is needed. By
//!   construction: a goal that loses one begins with three voters or more, and ends with the
//!   cluster whole again. Damage keeps to the same ([`World::can_spare`]), and no other goal is
//!   begun before that member's.
//! - I2 An incarnation is never used twice. By construction: one counter.

use crate::checks::configurations::votes;
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::plan::{MS, Plan};
use crate::queue::Happening;
use crate::trace::Topic;
use crate::world::{Phase, World};
use crate::{Birth, Config, Life, Property};
use base::{Ballot, Incarnation, MemberSet, Prefix, Rank, Rng, majority};
use proto::Role;
use proto::members::{Change, ChangeRefused, Configuration, Members};

mod disks;

/// The goal of the operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Goal {
    /// The disk becomes a voter at the seat.
    Add(usize, Incarnation),
    /// The seat becomes free.
    Remove(usize),
    /// The disk becomes a voter at the seat, instead of another.
    Replace(usize, Incarnation),
}

/// One place in the cluster, and the disks that belong there.
struct Seat {
    /// The incarnation of the disk that is in place.
    incarnation: Incarnation,
    /// Whether a process runs on it, or would if it were not dead now.
    is_taken: bool,
    /// The life in which the incarnation in place began.
    first_life: u32,
    /// The replaced disk that is still there.
    attic: Option<(Disk, Incarnation)>,
    /// The time until which the disk in place is the replaced one, and the other is in the attic.
    is_haunted_until: Option<u64>,
}

/// The operator of the module's text.
pub(crate) struct Operator {
    rng: Rng,
    founders: MemberSet,
    seats: Vec<Seat>,
    goal: Option<Goal>,
    /// Whether the goal is about a member whose disk is damaged.
    is_repair: bool,
    n_incarnations: u64,
    every_ns: u64,
    /// The share of replaced disks that are kept, in eighths.
    keeps: u64,
    n_done: u64,
}

impl Operator {
    /// Draws from a separate generator; the number of seats is the plan's from now on.
    pub(crate) fn draw(seed: u64, config: &Config, plan: &mut Plan, is_durable: bool) -> Operator {
        let mut rng = Rng::new(seed ^ 0x6d65_6d62_6572);
        let n_seats = config.members.unwrap_or(rng.range(3, 6) as usize);
        plan.members = n_seats;
        let n_founders = if is_durable {
            3.min(n_seats) - usize::from(rng.chance(1, 8) && n_seats > 1)
        } else {
            n_seats.min(2 + rng.below(n_seats as u64) as usize)
        };
        let founders = MemberSet::all(n_founders);
        let seat = |rank| Seat {
            incarnation: Incarnation::FIRST,
            first_life: 1,
            is_taken: founders.contains(rank),
            attic: None,
            is_haunted_until: None,
        };
        Operator {
            seats: Rank::all(n_seats).map(seat).collect(),
            founders,
            goal: None,
            is_repair: false,
            n_incarnations: Incarnation::FIRST.0,
            every_ns: MS * (4 << rng.below(6)),
            keeps: [0, 4, 8][rng.below(3) as usize],
            n_done: 0,
            rng,
        }
    }

    fn next_incarnation(&mut self) -> Incarnation {
        self.n_incarnations += 1;
        Incarnation(self.n_incarnations)
    }

    /// The goal for the damaged disk of a member: I1 allowed the damage, so it can be spared.
    fn repair(&mut self, seat: usize) -> Goal {
        if self.rng.chance(1, 4) {
            Goal::Remove(seat)
        } else {
            Goal::Replace(seat, self.next_incarnation())
        }
    }

    /// I1, I2: a possible next goal in a cluster of `members`.
    fn think(&mut self, members: &Members) -> Option<Goal> {
        let n_voters = members.voters.len();
        let at = self.rng.below(self.seats.len() as u64) as usize;
        let rank = Rank::at(at);
        if !members.all().contains(rank) {
            return Some(Goal::Add(at, self.next_incarnation()));
        }
        let is_learner = members.learners.contains(rank);
        if self.rng.chance(2, 3) && (n_voters >= 3 || is_learner) {
            return Some(Goal::Replace(at, self.next_incarnation()));
        }
        (n_voters > 2 || is_learner || n_voters == 2 && self.rng.chance(1, 8))
            .then_some(Goal::Remove(at))
    }
}

/// `members` after the removal of `seat`.
fn without(mut members: Members, seat: usize) -> Members {
    members.voters.remove(Rank::at(seat));
    members
}

impl World {
    /// The first voters.
    pub(crate) fn founders(&self) -> MemberSet {
        let all = || MemberSet::all(self.plan.members);
        self.operator.as_ref().map_or_else(all, |operator| operator.founders)
    }

    /// Begins the operator's work.
    pub(crate) fn open_office(&mut self) {
        if let Some(operator) = &self.operator {
            self.net.queue.push(operator.every_ns, Happening::Operate);
        }
    }

    /// Whether `node` has a process, dead or alive.
    pub(crate) fn is_taken(&self, node: usize) -> bool {
        self.operator.as_ref().is_none_or(|operator| operator.seats[node].is_taken)
    }

    /// The way in which the first life on the disk of `node` begins.
    pub(crate) fn first_birth(&self, node: usize) -> Birth {
        match self.incarnation(node) {
            Incarnation::FIRST => Birth::Fresh,
            incarnation => Birth::Joined { incarnation },
        }
    }

    pub(crate) fn incarnation(&self, node: usize) -> Incarnation {
        self.operator
            .as_ref()
            .map_or(Incarnation::FIRST, |operator| operator.seats[node].incarnation)
    }

    // ---- the reports of every run of a node ----

    fn look_at(&mut self, node: usize, machine: &dyn Life) {
        if self.memories_change() {
            self.look_at_members(node, machine);
        } else {
            self.look_at_disks(node, machine);
        }
    }

    /// Notes the members that `node` reports, and looks for copies of the prefix that it calls
    /// committed.
    pub(crate) fn look_at_disks(&mut self, node: usize, machine: &dyn Life) {
        let committed = machine.status().committed;
        let is_news = self.ledger.copies.upto() < committed;
        if !is_news && !self.subject.has_operator {
            return;
        }
        let configuration = machine.configuration();
        if let Some(Configuration { at, members, is_decided: true, .. }) = configuration
            && self.subject.has_operator
            && let Err(detail) = self.ledger.configurations.decided(at, &members)
        {
            self.net.violate(Property::Membership, format!("r{node}: {detail}"));
        }
        if let Some(Configuration { members, .. }) = configuration
            && self.ledger.copies.is_news(committed)
        {
            let last = committed.0.checked_sub(1).map(base::Slot);
            let ballot = last
                .and_then(|slot| proto::disk::Disk::head(&self.disks[node], slot))
                .map(|head| head.ballot);
            self.judge_commit(node, machine, ballot);
            self.ledger.elected.committed = (committed, ballot);
            let holders: MemberSet = members
                .voters
                .iter()
                .filter(|rank| self.holds(*rank, members.incarnation(*rank), committed, ballot))
                .collect();
            if !members.has_quorum(holders) {
                let detail = format!(
                    "r{node} calls {committed} committed, on the disks of {holders:?} of {:?}",
                    members.voters
                );
                self.net.violate(Property::Durability, detail);
            }
        }
    }

    fn holds(
        &self,
        rank: Rank,
        incarnation: Incarnation,
        prefix: Prefix,
        ballot: Option<Ballot>,
    ) -> bool {
        let at = rank.index();
        if self.incarnation(at) == incarnation {
            return self.disks[at].holds(prefix, ballot);
        }
        let attic = self.operator.as_ref().and_then(|operator| operator.seats[at].attic.as_ref());
        if let Some((disk, _)) = attic.filter(|(_, of)| *of == incarnation) {
            return disk.holds(prefix, ballot);
        }
        self.ledger.copies.once_held(rank, incarnation) >= prefix
    }

    /// The prefix that the disk `incarnation` of `rank` alone gives back, or did when it was lost
    /// or damaged, if its member could report that in `ballot` only before that.
    pub(crate) fn vouched(&self, rank: Rank, incarnation: Incarnation, ballot: Ballot) -> Prefix {
        let at = rank.index();
        if self.incarnation(at) == incarnation {
            return self.disks[at].vouched(ballot);
        }
        let attic = self.operator.as_ref().and_then(|operator| operator.seats[at].attic.as_ref());
        match attic.filter(|(_, of)| *of == incarnation) {
            Some((disk, _)) => disk.vouched(ballot),
            None => self.ledger.copies.once_held(rank, incarnation),
        }
    }

    // ---- the operator's rounds ----

    pub(crate) fn on_operate(&mut self) {
        let Some(operator) = &mut self.operator else { return };
        let calm = self.phase != Phase::Safety;
        let every_ns = if calm { 10 * MS } else { operator.every_ns };
        let pause = 1 + operator.rng.below(2 * every_ns);
        let at = self.net.now() + pause;
        self.net.queue.push(at, Happening::Operate);
        self.mind_the_attic();
        let Some((leader, configuration)) = self.ask_a_leader() else { return };
        let is_due = !calm || self.owes_last_change();
        if self.operator.as_ref().is_some_and(|operator| operator.goal.is_none()) && is_due {
            self.set_out(leader, &configuration);
        }
        self.interfere(leader, &configuration);
        self.pursue(leader, &configuration);
        self.end_silence();
    }

    /// Requests another change while one is under way: it has to be refused.
    fn interfere(&mut self, leader: usize, configuration: &Configuration) {
        let Some(operator) = &mut self.operator else { return };
        if !configuration.is_decided && operator.rng.chance(1, 2) {
            let seat = Rank::at(operator.rng.below(self.plan.members as u64) as usize);
            let _refused = self.change(leader, Change::Remove(seat));
        }
    }

    /// A member that says that it leads, or is about to, and the members that it reports. (It may
    /// be wrong.)
    fn ask_a_leader(&mut self) -> Option<(usize, Configuration)> {
        let leaders: Vec<usize> = (0..self.plan.members)
            .filter(|node| self.net.processes[*node].runs())
            .filter(|node| matches!(self.role(*node), Some(Role::Leader | Role::Candidate)))
            .collect();
        let operator = self.operator.as_mut()?;
        if leaders.is_empty() {
            return None;
        }
        let leader = leaders[operator.rng.below(leaders.len() as u64) as usize];
        let configuration = self.machines[leader].as_ref()?.configuration()?;
        Some((leader, configuration))
    }

    /// I1: begins only from the newest configuration of all, which must be decided.
    fn set_out(&mut self, leader: usize, configuration: &Configuration) {
        if !self.is_the_last(configuration) {
            return;
        }
        let damaged = self.damaged_member(&configuration.members);
        if damaged.is_some_and(|seat| !self.disks[seat].says_damaged) {
            return; // I1; its next life will say so
        }
        let Some(operator) = &mut self.operator else { return };
        let goal = match damaged {
            Some(seat) => operator.repair(seat),
            None => match operator.think(&configuration.members) {
                Some(goal) => goal,
                None => return,
            },
        };
        (operator.goal, operator.is_repair) = (Some(goal), damaged.is_some());
        let wipes_first = operator.rng.chance(1, 2);
        self.note(goal, 0);
        let (Goal::Add(seat, _) | Goal::Remove(seat) | Goal::Replace(seat, _)) = goal;
        self.note_last_change(seat);
        if let Goal::Replace(seat, incarnation) = goal
            && wipes_first
            && seat != leader
            && self.may_take(seat, incarnation)
        {
            self.put_disk(seat, incarnation);
        }
    }

    /// Whether `configuration` is decided and no later one is: a candidate may have missed many.
    fn is_the_last(&self, configuration: &Configuration) -> bool {
        let newest = self.ledger.configurations.newest();
        configuration.is_decided && newest.is_some_and(|(newest, _)| newest <= configuration.at)
    }

    /// Takes the next step towards the goal.
    fn pursue(&mut self, leader: usize, configuration: &Configuration) {
        self.look_at_new_disk();
        let Some(goal) = self.operator.as_ref().and_then(|operator| operator.goal) else { return };
        let members = &configuration.members;
        match goal {
            Goal::Add(seat, incarnation) | Goal::Replace(seat, incarnation) => {
                let rank = Rank::at(seat);
                if members.incarnation(rank) != incarnation || !members.all().contains(rank) {
                    let change = match goal {
                        Goal::Replace(..) if members.all().contains(rank) => {
                            Change::Replace(rank, incarnation)
                        }
                        Goal::Add(..) | Goal::Replace(..) | Goal::Remove(_) => {
                            Change::Add(rank, incarnation)
                        }
                    };
                    if self.change(leader, change) == Err(ChangeRefused::Needed) {
                        // The member leads itself: its end settles that.
                        if self.may_take(seat, incarnation) {
                            self.put_disk(seat, incarnation);
                        } else if let Some(operator) = &mut self.operator {
                            operator.goal = None;
                        }
                    }
                } else if !configuration.is_decided {
                } else if self.incarnation(seat) != incarnation {
                    if self.may_take(seat, incarnation) {
                        self.put_disk(seat, incarnation);
                    }
                } else if members.learners.contains(rank) {
                    self.promote(leader, rank);
                } else {
                    self.arrive(goal);
                }
            }
            Goal::Remove(seat) => {
                if members.all().contains(Rank::at(seat)) {
                    let _refused_for_now = self.change(leader, Change::Remove(Rank::at(seat)));
                } else if self.is_the_last(configuration) {
                    self.arrive(goal);
                    // Some of those that are removed continue as if nothing had happened.
                    let stops = self.operator.as_mut().is_some_and(|of| of.rng.chance(1, 2));
                    if stops && self.may_take(seat, Incarnation(0)) {
                        self.vacate(seat);
                    }
                }
            }
        }
    }

    fn promote(&mut self, leader: usize, rank: Rank) {
        if self.memories_change() {
            let life = self.net.processes[rank.index()].life;
            let first = self.operator.as_ref().map(|of| of.seats[rank.index()].first_life);
            // (A member that has died since has lost the state that it had claimed.)
            if self.change(leader, Change::Promote(rank)).is_ok() && Some(life) == first {
                self.judge_promotion(leader, rank);
            }
            return;
        }
        let Some(committed) = self.machines[leader].as_ref().map(|one| one.status().committed)
        else {
            return;
        };
        if self.change(leader, Change::Promote(rank)).is_ok()
            && self.disks[rank.index()].durable() < committed
        {
            let reaches = self.disks[rank.index()].durable();
            let detail = format!("{rank} votes with {reaches} of {committed} on its disk");
            self.net.violate(Property::Membership, detail);
        }
    }

    fn change(&mut self, leader: usize, change: Change) -> Result<(), ChangeRefused> {
        let Some(mut machine) = self.machines[leader].take() else {
            return Err(ChangeRefused::NotLeader);
        };
        self.look_at(leader, &*machine);
        let base = machine.configuration().map(|configuration| configuration.at);
        let role = machine.status().role;
        let result = self.with_host(leader, |host, clock| machine.change(change, clock, host));
        if result.is_ok() && role != Role::Leader {
            // An entry of its own ballot is not decided: the last change may yet be another one.
            let detail = format!("r{leader} begins a change, and is no leader but a {role:?}");
            self.net.violate(Property::Membership, detail);
        }
        if let (Ok(slot), Some(configuration)) = (result, machine.configuration()) {
            let members = configuration.members;
            self.ledger.configurations.began(slot.prefix_through(), members);
            base.inspect(|base| self.ledger.configurations.made(*base, members));
        }
        self.heed(leader, &mut *machine);
        self.look_at(leader, &*machine);
        self.machines[leader] = Some(machine);
        self.net.arm_run(leader, self.net.now());
        result.map(|_| ())
    }

    fn arrive(&mut self, goal: Goal) {
        self.note(goal, 1);
        self.net.coverage.hit(match goal {
            Goal::Add(..) => Mark::MemberAdded,
            Goal::Remove(_) => Mark::MemberRemoved,
            Goal::Replace(..) => Mark::MemberReplaced,
        });
        if self.is_silent() {
            self.net.coverage.hit(Mark::ChangedInSilence);
        }
        if let Some(operator) = &mut self.operator {
            operator.goal = None;
            operator.n_done += 1;
            if std::mem::take(&mut operator.is_repair) {
                self.net.coverage.hit(Mark::DamagedReplaced);
            }
        }
    }

    fn note(&mut self, goal: Goal, is_done: u64) {
        let (seat, number) = match goal {
            Goal::Add(seat, incarnation) => (seat, incarnation.0),
            Goal::Remove(seat) => (seat, 0),
            Goal::Replace(seat, incarnation) => (seat, incarnation.0 | 1 << 32),
        };
        self.net.trace.record(self.net.now(), seat, Topic::Operator, number, is_done);
    }

    // ---- the end of a run ----

    /// A majority of every configuration that may yet be the last one, including those on the way
    /// to the operator's goal and the members that it requires: a disk that the operator still
    /// removes is in no majority, for its seat then belongs to another.
    pub(crate) fn members_core(&mut self) -> MemberSet {
        (0..self.plan.members).for_each(|seat| self.exorcise(seat));
        let goal = self.operator.as_ref().and_then(|operator| operator.goal);
        let mut possible = self.ledger.configurations.possible();
        if let Some(Goal::Remove(seat) | Goal::Replace(seat, _)) = goal {
            let smaller = possible.clone().into_iter().map(|members| without(members, seat));
            possible.extend(smaller.filter(|members| !members.voters.is_empty()));
        }
        let mut core = MemberSet::EMPTY;
        // (No process starts on a damaged disk again.)
        let can_run = |seat: usize| self.is_taken(seat) && !self.disks[seat].is_rotten();
        let taken: Vec<Rank> =
            Rank::all(self.plan.members).filter(|rank| can_run(rank.index())).collect();
        let mut order = taken.clone();
        for at in (1..order.len()).rev() {
            order.swap(at, self.rng.below(at as u64 + 1) as usize);
        }
        let needs_states = self.memories_change();
        if needs_states {
            // A member that lives and holds the state is needed, also if it is about to be
            // replaced.
            order.sort_by_key(|rank| !self.holds_state(rank.index()));
            possible.extend(self.governing());
        }
        for members in &possible {
            let is_taken_away = |rank: Rank| {
                let of = members.incarnation(rank);
                matches!(goal, Some(Goal::Replace(seat, by)) if seat == rank.index() && by != of)
                    && !needs_states
            };
            let counts = |rank: &Rank| {
                let incarnation = self.incarnation(rank.index());
                votes(members, *rank, incarnation) && !is_taken_away(*rank)
            };
            for rank in order.iter().filter(|rank| counts(rank)) {
                let n_in = core.iter().filter(counts).count();
                if n_in < majority(members.voters.len()) {
                    core.insert(*rank);
                }
            }
        }
        if let Some(Goal::Add(seat, _) | Goal::Replace(seat, _)) = goal {
            core.insert(Rank::at(seat));
        }
        for rank in taken {
            if self.rng.chance(1, 3) {
                core.insert(rank);
            }
        }
        core
    }

    /// The members that `node` knows, for a report about a run without progress.
    pub(crate) fn say_members(&self, node: usize, machine: &dyn Life) -> String {
        let Some(_) = &self.operator else { return String::new() };
        let known = machine.configuration().map(|of| {
            let names: Vec<String> = of
                .members
                .voters
                .iter()
                .map(|rank| format!("{rank}/{}", of.members.incarnation(rank).0))
                .collect();
            format!("{} from {} decided {}", names.join(" "), of.at, of.is_decided)
        });
        format!(" (disk {}, {known:?})", self.incarnation(node).0)
    }

    /// Whether the operator has a goal that is not reached yet.
    pub(crate) fn has_goal(&self) -> bool {
        self.operator.as_ref().is_some_and(|operator| operator.goal.is_some())
    }

    /// The goal that the operator could not reach although the cluster is well.
    pub(crate) fn unachieved(&self) -> Option<String> {
        let operator = self.operator.as_ref()?;
        let goal = operator.goal?;
        Some(format!(
            "the operator has not achieved {goal:?}; decided: {:?}",
            self.ledger.configurations.newest()
        ))
    }
}
