//! The members, where the protocol lets them change: requests for seats, grants, and removals.
//!
//! A member is an incarnation (a disk, or a memory) on a seat (a rank). One that begins with an
//! empty one asks the leader for its seat; the leader puts it there as a learner, and lets it vote
//! when it has everything that is decided. One that sits there no more is told so.
//!
//! ```text
//! a new one     --- Seat(incarnation, wants) --->  leader
//!                     replace: the old incarnation is out, the new one learns    (one entry)
//!               <== log, or a state and then the log ==
//!                     promote: it votes                                          (one entry)
//! the old one   --- Seat(old incarnation) ------>  any member
//!               <-- Parted ----------------------
//! ```
//! - I1 one change at a time: a leader begins none while one is not decided, and an operator's none
//!   while a member learns. By the machine's `change`, and `Core::admit`.
//! - I2 no change is begun that would leave the voters that were heard lately without a majority:
//!   it could not be decided, and nothing behind it either. By `Core::admit`.
//! - I3 a member that has parted says and does nothing more: a leader tells it, or its own log
//!   does, and the service ends the process ([`View::parted`](crate::View::parted)). Safety does
//!   not wait for that: votes and acknowledgements name their incarnation.
//! - I5 a newcomer is heard by the leader though it trusts no member: it does not know the voters,
//!   and those that vote may be a minority of the seats. By `Core::say_seat`; seed 43 of
//!   `durable-cluster`.
//! - I6 a member that has parted hears so whichever members its old configuration names: one that
//!   does not lead says so too, and one that trusts itself asks all that it hears. (A decided
//!   configuration that ends an incarnation ends it for good, so an old one does as well.) By
//!   `Core::on_seat`, `Core::say_seat`; seed 661300000038 of `durable-cluster`: the removed member
//!   trusted a member that did not lead, and the leader was none of those that it knew.
//! - I7 no order ends a voter's state while too few of the others could give it: where states live
//!   in memory, a majority of the voters that are left has to hold it, and not only to be heard.
//!   (Where a new incarnation asks for a seat, the old state is gone already: I2 is enough.) By
//!   [`are_enough`], in `Core::admit` and `orders::may_renew`.
//! - I4 an operator's change ends in an answer, at the latest when its deadline has passed; what
//!   became of it is then not known, and said to be unknown.

use crate::bugs::Bug;
use crate::core::Core;
use crate::plant::Plant;
use crate::service::{Application, Asker, Door};
use crate::wire::Frame;
use base::{Incarnation, Instant, MemberSet, Rank, majority};
use core::time::Duration;
use proto::Replicator;
use proto::members::{Change, ChangeRefused, Configuration};
use std::collections::VecDeque;

/// How often a member tells the leader which incarnation sits on its seat.
const SAY_EVERY: Duration = Duration::from_millis(250);
/// How many operators' changes may wait here.
pub(crate) const CHANGES_MAX: usize = 16;

/// This incarnation takes part no more.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parted {
    /// Whether another incarnation has its seat.
    pub is_replaced: bool,
    /// The newest incarnation that ever had it.
    pub last: Incarnation,
}

impl Parted {
    pub(crate) fn of(
        configuration: &Configuration,
        rank: Rank,
        own: Incarnation,
    ) -> Option<Parted> {
        configuration.has_parted(rank, own).then(|| Parted {
            is_replaced: configuration.members.all().contains(rank),
            last: configuration.members.incarnation(rank),
        })
    }
}

/// How an operator's change ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Changed {
    /// It is decided.
    Done,
    /// Nothing changed, and this is why.
    Refused(NoChange),
    /// This member no longer leads, or the deadline passed: the change is decided, or will be,
    /// or was undone.
    Unknown,
}

/// Why nothing changed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NoChange {
    /// This member does not lead.
    NotLeader,
    /// Another change is not decided yet.
    UnderWay,
    /// This member still learns.
    Learning(Rank),
    /// The old incarnation there was ended, and the new one does not vote yet.
    Renewing(Rank),
    /// The seat is already as it should be, or it is empty.
    NoSuchMember,
    /// Too few of those that would be left were heard lately.
    NoMajority,
    /// Too few of those that would be left hold the state: this one is heard, and does not yet.
    Stateless(Rank),
    /// No voter would be left.
    LastVoter,
    /// The members of this protocol never change.
    Fixed,
}

/// Whether the voters that would be `left` can decide without the one that goes: a majority of them
/// is `heard` (I2), and is `able` (I7).
///
/// # Errors
/// The reason why they cannot.
pub(crate) fn are_enough(
    left: MemberSet,
    heard: MemberSet,
    able: MemberSet,
) -> Result<(), NoChange> {
    let (quorum, heard) = (majority(left.len()), left.intersection(heard));
    if heard.len() < quorum {
        return Err(NoChange::NoMajority);
    }
    if heard.intersection(able).len() >= quorum {
        return Ok(());
    }
    let stateless = heard.difference(able).iter().next();
    Err(stateless.map_or(NoChange::NoMajority, NoChange::Stateless))
}

/// An operator's change on its way.
#[derive(Clone, Copy, Debug)]
struct Begun {
    asker: Asker,
    change: Change,
    deadline: Instant,
}

/// What this member has to do about seats.
#[derive(Debug, Default)]
pub(crate) struct Seats {
    next_say_at: Instant,
    begun: Option<Begun>,
}

impl Seats {
    /// The time at which something is due though nothing happens. A leader reports to no other
    /// member.
    pub(crate) fn deadline(&self, leads: bool) -> Option<Instant> {
        let say_at = (!leads).then_some(self.next_say_at);
        [say_at, self.begun.map(|begun| begun.deadline)].into_iter().flatten().min()
    }
}

/// Changes that the service has requested: the asker, the change, its deadline.
pub(crate) type Wanted = VecDeque<(Asker, Change, Instant)>;

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    /// Whether members of this cluster come and go.
    pub(crate) fn has_seats(&self) -> bool {
        self.node.has_seats()
    }

    /// The members that are heard, and can give the state: a disk keeps it whatever its
    /// process does, and a memory has it again when its new process has fetched it.
    pub(crate) fn keepers(&self) -> MemberSet {
        if self.host.disk.is_some() { self.node.heard() } else { self.node.able() }
    }

    /// Does everything about seats that is possible now. True if something changed.
    pub(crate) fn mind_seats(&mut self) -> bool {
        let mut worked = self.take_wanted();
        if !self.has_seats() {
            return worked;
        }
        if self.host.leads {
            worked |= self.promote_learners();
        } else {
            self.say_seat();
        }
        self.end_begun();
        worked
    }

    /// A member that leads no more cannot say what becomes of what it began, unless that is decided
    /// already: it may have been its own removal.
    pub(crate) fn abandon_change(&mut self) {
        if let Some(begun) = self.seats.begun.take() {
            let is_done = self.is_done(begun.change);
            self.answer_change(begun.asker, if is_done { Changed::Done } else { Changed::Unknown });
        }
    }

    /// Whether the members are decided to be as `change` wants them, by this change or another.
    fn is_done(&self, change: Change) -> bool {
        let decided = self.node.configuration().filter(|of| of.is_decided);
        decided.is_some_and(|Configuration { members, .. }| match change {
            Change::Remove(rank) => !members.all().contains(rank),
            Change::Promote(rank) => members.voters.contains(rank),
            Change::Add(rank, incarnation) | Change::Replace(rank, incarnation) => {
                members.all().contains(rank) && members.incarnation(rank) == incarnation
            }
        })
    }

    fn answer_change(&mut self, asker: Asker, changed: Changed) {
        self.host.door.answer_change(asker, changed, &mut self.host.desk);
    }

    // ---- the leader ----

    fn take_wanted(&mut self) -> bool {
        let mut worked = false;
        // What was decided a moment ago is answered before the next change takes its place.
        self.end_begun();
        while let Some((asker, change, deadline)) = self.host.desk.wanted.pop_front() {
            worked = true;
            match self.begin_change(change) {
                Ok(()) => {
                    // (The machine takes one at a time: it has given an earlier one up.)
                    self.abandon_change();
                    self.seats.begun = Some(Begun { asker, change, deadline });
                }
                Err(why) => self.answer_change(asker, Changed::Refused(why)),
            }
        }
        worked
    }

    fn begin_change(&mut self, change: Change) -> Result<(), NoChange> {
        let configuration = self.node.configuration().ok_or(NoChange::Fixed)?;
        // I2: a member that is being replaced was heard a moment ago, and is gone.
        if let Some(rank) = self.host.desk.renewing()
            && !(change == Change::Remove(rank) && configuration.members.learners.contains(rank))
        {
            return Err(NoChange::Renewing(rank));
        }
        // I1: a learner votes in a moment, and that is a change too.
        if let Some(rank) = configuration.members.learners.iter().next()
            && change != Change::Remove(rank)
        {
            return Err(NoChange::Learning(rank));
        }
        self.attempt(change, &configuration)
    }

    fn attempt(&mut self, change: Change, configuration: &Configuration) -> Result<(), NoChange> {
        self.admit(change, configuration)?;
        let now = self.now();
        let begun = self.node.change(change, now, &mut self.host);
        begun.map(drop).map_err(|refused| match refused {
            ChangeRefused::NotLeader => NoChange::NotLeader,
            ChangeRefused::Pending => NoChange::UnderWay,
            ChangeRefused::NoSuchMember | ChangeRefused::Outdated => NoChange::NoSuchMember,
            ChangeRefused::LagsBehind => match change {
                Change::Promote(rank) => NoChange::Learning(rank),
                Change::Add(..) | Change::Remove(_) | Change::Replace(..) => NoChange::NoMajority,
            },
            ChangeRefused::Needed => NoChange::LastVoter,
            ChangeRefused::Fixed => NoChange::Fixed,
        })
    }

    /// I2, I7, and what the machine would refuse in any case, so that the reason is the first one.
    fn admit(&self, change: Change, configuration: &Configuration) -> Result<(), NoChange> {
        if !self.host.leads {
            return Err(NoChange::NotLeader);
        }
        if !configuration.is_decided {
            return Err(NoChange::UnderWay);
        }
        let mut voters = configuration.members.voters;
        match change {
            Change::Remove(rank) | Change::Replace(rank, _) => voters.remove(rank),
            Change::Promote(rank) => voters.insert(rank),
            Change::Add(..) => false,
        };
        if voters.is_empty() {
            return Err(NoChange::LastVoter);
        }
        let heard = self.node.heard();
        let is_voter = |rank: Rank| configuration.members.voters.contains(rank);
        let ends_state = matches!(change, Change::Remove(rank) if is_voter(rank));
        are_enough(voters, heard, if ends_state { self.keepers() } else { heard })
    }

    /// Makes each learner that has everything a voter.
    fn promote_learners(&mut self) -> bool {
        let Some(configuration) = self.node.configuration() else { return false };
        let learners = configuration.members.learners.intersection(self.node.heard());
        // One a turn: the next has to wait until this one is decided.
        learners.iter().any(|rank| self.attempt(Change::Promote(rank), &configuration).is_ok())
    }

    /// `from` says which disk sits there, and perhaps asks for the seat.
    pub(crate) fn on_seat(&mut self, from: Rank, incarnation: Incarnation, wants: bool) {
        let Some(configuration) = self.node.configuration() else { return };
        if let Some(parted) = Parted::of(&configuration, from, incarnation) {
            let Parted { is_replaced, last } = parted;
            let frame = Frame::Parted { incarnation: incarnation.0, last: last.0, is_replaced };
            return self.host.flows.push(from, &frame); // I6
        }
        if !self.host.leads {
            return; // the leader hears it too
        }
        let members = &configuration.members;
        let sits = members.all().contains(from);
        if !wants || sits && members.incarnation(from) == incarnation {
            return;
        }
        let change =
            if sits { Change::Replace(from, incarnation) } else { Change::Add(from, incarnation) };
        if let Err(why) = self.attempt(change, &configuration)
            && why != NoChange::UnderWay
        {
            // It asks again: what is in the way may pass.
            self.host.stats.seats_refused += 1;
        } else {
            self.host.stats.seats_given += 1;
        }
    }

    fn end_begun(&mut self) {
        let Some(Begun { asker, change, deadline }) = self.seats.begun else { return };
        let is_done = self.is_done(change) || self.host.plant.has_planted(Bug::ChangeDoneEarly);
        if is_done || self.now() >= deadline {
            self.seats.begun = None;
            let changed = if is_done { Changed::Done } else { Changed::Unknown };
            self.answer_change(asker, changed);
        }
    }

    // ---- the others ----

    /// Tells the leader which disk sits here, now and then.
    fn say_seat(&mut self) {
        let now = self.now();
        if now < self.seats.next_say_at {
            return;
        }
        self.seats.next_say_at = now.plus(SAY_EVERY);
        if self.host.plant.has_planted(Bug::SeatAskedOnce) {
            self.seats.next_say_at = Instant(u64::MAX);
        }
        let me: MemberSet = [self.host.origin.rank].into_iter().collect();
        // A newcomer does not know the voters. Where they are a minority of the seats it trusts
        // no member, and the leader has to hear it nevertheless.
        let leader = self.node.trusted().map(|leader| [leader].into_iter().collect());
        let leader = leader.filter(|leader| *leader != me); // I6
        for to in leader.unwrap_or(self.node.heard()).difference(me).iter() {
            if !self.host.flows.has_room(to) {
                continue;
            }
            // A founding member has its seat from the beginning. A later one asks until it
            // has one, in each of its lives: what it asked for in an earlier one may be lost.
            let Incarnation(incarnation) = self.node.incarnation();
            let wants = incarnation > Incarnation::FIRST.0;
            self.host.flows.push(to, &Frame::Seat { incarnation, wants });
        }
    }

    /// The leader says that this incarnation takes part no more (I3).
    pub(crate) fn on_parted(&mut self, incarnation: Incarnation, parted: Parted) {
        let hears = !self.host.plant.has_planted(Bug::StaleSeatServes);
        if incarnation == self.node.incarnation() && hears {
            self.host.desk.view.parted = Some(parted);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Incoming;
    use crate::host::HostState;
    use crate::mock;
    use base::{MAX_MEMBERS, Prefix};
    use proto::members::Members;

    const ME: Rank = Rank::at(0);
    const OTHER: Rank = Rank::at(1);

    /// These vote, and those learn; what says so is decided.
    fn of(voters: &[Rank], learners: &[Rank]) -> Configuration {
        let set = |ranks: &[Rank]| ranks.iter().copied().collect();
        let members = Members {
            voters: set(voters),
            learners: set(learners),
            incarnations: [Incarnation::FIRST.0; MAX_MEMBERS],
        };
        let (at, leaving) = (Prefix(4), MemberSet::EMPTY);
        Configuration { at, members, is_decided: true, leaving }
    }

    #[test]
    fn i2_a_majority_of_those_that_vote_after_the_change_has_to_be_heard() {
        let mut core = mock::core(0, Default::default());
        core.node.poll(Instant(1), &mut core.host);
        core.host.leads = true;
        assert_eq!(core.node.heard(), [ME].into_iter().collect(), "nobody else is");
        let admits = |change, of: &Configuration| core.admit(change, of);
        let promotes = admits(Change::Promote(OTHER), &of(&[ME], &[OTHER]));
        assert_eq!(promotes, Err(NoChange::NoMajority), "one of two that then vote is heard");
        assert_eq!(admits(Change::Add(OTHER, Incarnation::FIRST), &of(&[ME], &[])), Ok(()));
        assert_eq!(admits(Change::Remove(OTHER), &of(&[ME, OTHER], &[])), Ok(()));
    }

    #[test]
    fn i7_no_voter_in_memory_is_removed_while_those_that_are_left_lack_the_state() {
        let mut core = mock::core(0, Default::default());
        let all = of(&[ME, OTHER, Rank::at(2)], &[]);
        core.node.machine().configuration.set(Some(all));
        core.node.poll(Instant(1), &mut core.host);
        core.host.leads = true;
        // (Ω takes one for unable that hears no majority of the voters.)
        assert_eq!((core.node.heard().len(), core.node.able()), (1, MemberSet::EMPTY));
        let two = of(&[ME, OTHER], &[]);
        let stateless = Err(NoChange::Stateless(ME));
        assert_eq!(core.admit(Change::Remove(OTHER), &two), stateless);
        let replaces = Change::Replace(OTHER, Incarnation(2));
        assert_eq!(core.admit(replaces, &two), Ok(()), "the old one is gone already");
        let learns = of(&[ME], &[OTHER]);
        assert_eq!(core.admit(Change::Remove(OTHER), &learns), Ok(()), "it has no vote");
        core.host.disk = Some(mock::Shelf::default());
        assert_eq!(core.admit(Change::Remove(OTHER), &two), Ok(()), "a disk keeps the state");
    }

    #[test]
    fn i6_one_that_does_not_lead_says_that_an_incarnation_has_parted_and_nothing_else() {
        let mut core = mock::core(0, Default::default());
        let (gone, sits) = (Rank::at(2), of(&[ME, OTHER], &[]));
        let hears = |core: &mut mock::Member, from: Rank, incarnation| {
            core.on_seat(from, incarnation, true);
            let HostState { flows, plant, .. } = &mut core.host;
            flows.send(plant);
            let (mut incoming, mut parted) = (Incoming::default(), Vec::new());
            for message in plant.take(from) {
                let unread = incoming.on_message(ME, &message, |frame| match frame {
                    Frame::Parted { incarnation, is_replaced, .. } => {
                        parted.push((incarnation, is_replaced));
                    }
                    other => panic!("{other:?}"),
                });
                assert_eq!(unread, None);
            }
            parted
        };
        core.node.machine().configuration.set(Some(Configuration { is_decided: false, ..sits }));
        assert_eq!(hears(&mut core, gone, Incarnation::FIRST), [], "it may be undone");
        core.node.machine().configuration.set(Some(sits));
        assert_eq!(hears(&mut core, gone, Incarnation::FIRST), [(1, false)]);
        assert_eq!(hears(&mut core, gone, Incarnation(2)), [], "a leader seats it");
        assert_eq!(hears(&mut core, OTHER, Incarnation::FIRST), [], "it sits there");
        assert_eq!(core.host.stats.seats_refused + core.host.stats.seats_given, 0);
    }

    #[test]
    fn i4_a_change_that_is_decided_is_answered_before_the_next_one_begins() {
        let mut core = mock::core(0, Default::default());
        core.node.poll(Instant(1), &mut core.host);
        core.host.leads = true;
        core.node.machine().configuration.set(Some(of(&[ME], &[])));
        let asker = |request| Asker { connection: 1, request };
        assert!(core.host.desk.change(asker(1), Change::Add(OTHER, Incarnation::FIRST)));
        core.mind_seats();
        assert_eq!(core.host.door.ended, [], "it is not decided");
        // In the turn in which it is, the next one comes.
        core.node.machine().configuration.set(Some(of(&[ME], &[OTHER])));
        assert!(core.host.desk.change(asker(2), Change::Remove(OTHER)));
        core.mind_seats();
        assert_eq!(core.host.door.ended, [(asker(1), Changed::Done)]);
        // A machine that takes a third one has given the second one up.
        core.node.machine().configuration.set(Some(of(&[ME], &[OTHER])));
        assert!(core.host.desk.change(asker(3), Change::Remove(OTHER)));
        core.mind_seats();
        assert_eq!(core.host.door.ended[1..], [(asker(2), Changed::Unknown)]);
    }

    #[test]
    fn i2_while_a_seat_is_begun_anew_nobody_else_is_removed() {
        let mut core = mock::core(0, Default::default());
        core.host.leads = true;
        let (third, all) = (Rank::at(2), of(&[ME, OTHER, Rank::at(2)], &[]));
        core.node.machine().configuration.set(Some(all));
        core.host.desk.view.configuration = Some(all);
        core.host.desk.renew(OTHER);
        for change in [Change::Remove(third), Change::Remove(OTHER)] {
            assert_eq!(core.begin_change(change), Err(NoChange::Renewing(OTHER)), "{change:?}");
        }
        // One that learns has no vote: it may go.
        core.node.poll(Instant(1), &mut core.host);
        let learns = of(&[ME], &[OTHER]);
        core.node.machine().configuration.set(Some(learns));
        core.host.desk.view.configuration = Some(learns);
        let promoted = core.begin_change(Change::Promote(OTHER));
        assert_eq!(promoted, Err(NoChange::Renewing(OTHER)));
        assert_eq!(core.begin_change(Change::Remove(OTHER)), Ok(()));
    }
}
