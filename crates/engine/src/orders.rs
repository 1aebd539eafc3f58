//! Orders of operators: a member is to be removed, or a new incarnation is to begin on a seat.
//!
//! A door keeps them until the desk has ended them. Orders come by the key-value store's own
//! command (`kv::door::members`), or by the control port of a member, whatever it serves
//! ([`Orders`]).
//!
//! - O1 an order is ended once, and by an answer: a refusal names its reason, and a change whose
//!   fate is not known is said to be unknown. By `Orders::resume` and the engine's `answer_change`
//!   (`seats`, I4).
//! - O2 no incarnation is ended by a renewal that the others could miss: for its vote, or, where
//!   states live in memory, for the state. By [`may_renew`].

use crate::desk::{Desk, View};
use crate::seats::{Changed, NoChange, are_enough};
use crate::service::Asker;
use base::Rank;
use proto::Role;
use proto::members::Change;
use std::collections::VecDeque;

/// An order of an operator.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Order {
    /// The member is removed.
    Remove(Rank),
    /// The supervisor begins a new incarnation on the seat, which asks for it by itself.
    Renew(Rank),
}

/// Whether a new incarnation may begin on `rank`, which ends the old one. `renewing` is the seat
/// whose new incarnation does not vote yet ([`Desk::renewing`]).
///
/// The decision uses which members were heard lately, and nothing that would take a round trip: the
/// result of a round trip would be old when the process ends, since a member may die in between. In
/// that case two of three are gone at once, where any cluster stops, and nothing is lost: the
/// leader holds what is decided, the dead one comes back with its disk, and the disk that is
/// replaced is put aside, not erased. (An incarnation that this member ended itself is remembered,
/// since it was heard until a moment ago.) The decision does not use acknowledgements either: while
/// nothing is written they show nothing, and under load the slower of two sound members is always
/// behind. So a member that is heard and whose disk is in trouble counts; the change waits until
/// that disk is well.
///
/// Where states live in memory, one that is heard counts only if it holds the state
/// ([`View::able`]): a process that began again votes by the memory that outlived the last one, and
/// what it still fetches may be in the memory that a renewal discards, and nowhere else.
///
/// # Errors
/// The reason why it may not.
pub fn may_renew(view: &View, renewing: Option<Rank>, rank: Rank) -> Result<(), NoChange> {
    let configuration = view.configuration.ok_or(NoChange::Fixed)?;
    if view.role != Role::Leader {
        return Err(NoChange::NotLeader);
    }
    if !configuration.is_decided {
        return Err(NoChange::UnderWay);
    }
    let learners = configuration.members.learners;
    // A learner gives up no vote if another incarnation replaces it.
    if let Some(other) = renewing.filter(|other| *other != rank || !learners.contains(rank)) {
        return Err(NoChange::Renewing(other));
    }
    if let Some(learner) = learners.iter().find(|learner| *learner != rank) {
        return Err(NoChange::Learning(learner));
    }
    let mut left = configuration.members.voters;
    left.remove(rank);
    if left.is_empty() {
        return Err(NoChange::LastVoter);
    }
    // The incarnation that ends now is missed until its successor votes.
    let mut heard = view.heard;
    heard.remove(rank);
    // A learner is no voter, and no majority ever counted on its state.
    let is_voter = configuration.members.voters.contains(rank);
    are_enough(left, heard, if is_voter { view.able } else { heard })
}

/// Lays down a removal. Its end is [`crate::Door::answer_change`].
///
/// # Errors
/// The reason why it is not begun.
pub fn remove(desk: &mut Desk, asker: Asker, rank: Rank) -> Result<(), NoChange> {
    if desk.view().configuration.is_none() {
        return Err(NoChange::Fixed);
    }
    if desk.change(asker, Change::Remove(rank)) { Ok(()) } else { Err(NoChange::UnderWay) }
}

/// The connection of the askers of orders: no client has this number.
const OPERATORS: u64 = u64::MAX;

/// Orders that did not come by a client's connection, each with a number of its
/// bringer's.
#[derive(Debug, Default)]
pub struct Orders {
    waiting: VecDeque<(u64, Order)>,
    ended: VecDeque<(u64, Changed)>,
    /// Seats whose supervisor is to be told.
    renewals: VecDeque<Rank>,
}

impl Orders {
    /// Takes an order. Its end is given by [`Orders::take_ended`].
    pub fn take(&mut self, number: u64, order: Order) {
        self.waiting.push_back((number, order));
    }

    /// Begins the orders that wait. Returns whether there were any.
    pub fn resume(&mut self, desk: &mut Desk) -> bool {
        let worked = !self.waiting.is_empty();
        while let Some((number, order)) = self.waiting.pop_front() {
            match self.begin(number, order, desk) {
                Ok(None) => {}
                Ok(Some(changed)) => self.ended.push_back((number, changed)),
                Err(why) => self.ended.push_back((number, Changed::Refused(why))),
            }
        }
        worked
    }

    fn begin(
        &mut self,
        number: u64,
        order: Order,
        desk: &mut Desk,
    ) -> Result<Option<Changed>, NoChange> {
        match order {
            Order::Remove(rank) => {
                remove(desk, Asker { connection: OPERATORS, request: number }, rank)?;
                Ok(None)
            }
            Order::Renew(rank) => {
                may_renew(desk.view(), desk.renewing(), rank)?; // O2
                self.renewals.push_back(rank);
                desk.renew(rank);
                Ok(Some(Changed::Done))
            }
        }
    }

    /// Whether `asker` is one of these orders.
    pub fn is_own(asker: Asker) -> bool {
        asker.connection == OPERATORS
    }

    /// The change of one of these orders has ended.
    pub fn answer(&mut self, asker: Asker, changed: Changed) {
        self.ended.push_back((asker.request, changed));
    }

    /// The next order that has ended, and its end (O1). A renewal ends when the supervisor is to be
    /// told.
    pub fn take_ended(&mut self) -> Option<(u64, Changed)> {
        self.ended.pop_front()
    }

    /// The next seat on which the supervisor is to begin a new incarnation.
    pub fn take_renewal(&mut self) -> Option<Rank> {
        self.renewals.pop_front()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, Instant, MemberSet, Prefix};
    use core::time::Duration;
    use proto::members::{Configuration, Members};

    fn view() -> View {
        let all = MemberSet::all(3);
        let mut incarnations = [0; base::MAX_MEMBERS];
        incarnations[..3].fill(Incarnation::FIRST.0);
        let members = Members { voters: all, learners: MemberSet::EMPTY, incarnations };
        let configuration =
            Configuration { at: Prefix(4), members, is_decided: true, leaving: MemberSet::EMPTY };
        let mut view = View::new(Rank::at(0), 4);
        (view.role, view.configuration) = (Role::Leader, Some(configuration));
        (view.heard, view.able) = (all, all);
        view
    }

    #[test]
    fn who_is_missed_is_not_renewed() {
        let (mut view, second) = (view(), Rank::at(1));
        assert_eq!(may_renew(&view, None, second), Ok(()));
        view.heard.remove(Rank::at(2));
        assert_eq!(may_renew(&view, None, Rank::at(2)), Ok(()), "the dead one may be");
        assert_eq!(
            may_renew(&view, None, second),
            Err(NoChange::NoMajority),
            "not the one that is left"
        );
    }

    // All three were heard, two of them fetched their states, and the third was replaced.
    #[test]
    fn o2_no_memory_is_discarded_while_too_few_others_hold_the_state() {
        let (mut view, [first, second, third]) = (view(), [0, 1, 2].map(Rank::at));
        view.able.remove(second);
        let refused = Err(NoChange::Stateless(second));
        assert_eq!(may_renew(&view, None, first), refused);
        assert_eq!(may_renew(&view, None, third), refused, "one alone would hold it");
        assert_eq!(may_renew(&view, None, second), Ok(()), "the others hold it");
        view.able.remove(third);
        assert_eq!(may_renew(&view, None, first), refused, "the only one that holds it");
        let fourth = Rank::at(3);
        view.configuration.as_mut().unwrap().members.learners.insert(fourth);
        assert_eq!(may_renew(&view, None, fourth), Ok(()), "a learner's state never counted");
    }

    #[test]
    fn who_is_begun_anew_already_counts_as_gone_though_it_is_still_heard() {
        let (mut view, first, second) = (view(), Rank::at(1), Rank::at(2));
        let busy = Err(NoChange::Renewing(first));
        assert_eq!(may_renew(&view, Some(first), second), busy, "a majority would be gone");
        assert_eq!(may_renew(&view, Some(first), first), busy, "its vote is away already");
        let members = &mut view.configuration.as_mut().unwrap().members;
        members.voters.remove(first);
        members.learners.insert(first);
        assert_eq!(may_renew(&view, Some(first), second), busy);
        assert_eq!(may_renew(&view, Some(first), first), Ok(()), "a learner has no vote");
    }

    #[test]
    fn one_change_at_a_time_and_by_the_leader() {
        let (mut view, rank) = (view(), Rank::at(1));
        let configuration = view.configuration.as_mut().unwrap();
        configuration.members.learners.insert(Rank::at(3));
        assert_eq!(may_renew(&view, None, rank), Err(NoChange::Learning(Rank::at(3))));
        view.configuration.as_mut().unwrap().is_decided = false;
        assert_eq!(may_renew(&view, None, rank), Err(NoChange::UnderWay));
        view.role = Role::Follower;
        assert_eq!(may_renew(&view, None, rank), Err(NoChange::NotLeader));
        view.configuration = None;
        assert_eq!(may_renew(&view, None, rank), Err(NoChange::Fixed));
    }

    fn desk_of(view: View) -> Desk {
        let mut desk = Desk::new(view, Duration::from_secs(5));
        desk.turn(Instant(1), view);
        desk
    }

    #[test]
    fn o1_each_order_ends_once_and_a_removal_when_its_change_does() {
        let mut desk = desk_of(view());
        let (first, second) = (Rank::at(1), Rank::at(2));
        let mut orders = Orders::default();
        orders.take(7, Order::Remove(second));
        orders.take(8, Order::Renew(first));
        assert!(orders.resume(&mut desk) && !orders.resume(&mut desk));
        assert_eq!(orders.take_ended(), Some((8, Changed::Done)));
        assert_eq!((orders.take_renewal(), orders.take_renewal()), (Some(first), None));
        assert_eq!(orders.take_ended(), None, "the change is not decided");
        let (asker, change, _) = desk.wanted.pop_front().unwrap();
        assert!(Orders::is_own(asker) && change == Change::Remove(second));
        orders.answer(asker, Changed::Unknown);
        assert_eq!(orders.take_ended(), Some((7, Changed::Unknown)));
    }

    #[test]
    fn o2_a_second_seat_is_not_begun_anew_before_the_first_votes() {
        let mut desk = desk_of(view());
        let mut orders = Orders::default();
        orders.take(1, Order::Renew(Rank::at(1)));
        orders.take(2, Order::Renew(Rank::at(2)));
        orders.resume(&mut desk);
        assert_eq!(orders.take_ended(), Some((1, Changed::Done)));
        let refused = Changed::Refused(NoChange::Renewing(Rank::at(1)));
        assert_eq!(orders.take_ended(), Some((2, refused)));
        assert_eq!((orders.take_renewal(), orders.take_renewal()), (Some(Rank::at(1)), None));
    }

    #[test]
    fn orders_where_members_never_change_are_refused() {
        let mut desk = desk_of(View { configuration: None, ..view() });
        let mut orders = Orders::default();
        orders.take(1, Order::Remove(Rank::at(1)));
        orders.take(2, Order::Renew(Rank::at(1)));
        orders.resume(&mut desk);
        let fixed = Changed::Refused(NoChange::Fixed);
        assert_eq!(orders.take_ended(), Some((1, fixed)));
        assert_eq!(orders.take_ended(), Some((2, fixed)));
    }
}
