//! GREGALE.MEMBER, by which an operator changes the members. `gregale member` sends it to the
//! leader.
//!
//! ```text
//! GREGALE.MEMBER REMOVE n    removes the member; answered when that is decided
//! GREGALE.MEMBER RENEW n     the supervisor begins a new incarnation there, which then asks for
//!                            the seat by itself; answered when the supervisor has been told
//! ```

use super::bugs::Bug;
use super::clients::RespClients;
use super::outside::Outside;
use crate::connection::RequestId;
use base::{NodeId, Rank, majority};
use engine::{Asker, Changed, Desk, NoChange, View};
use proto::Role;
use proto::members::Change;

/// The first word of a refusal, for `gregale member`: ask the leader.
pub const NOT_LEADER: &str = "NOTLEADER";
/// The first word of a refusal: the change is decided, will be decided, or was undone.
pub const UNKNOWN: &str = "UNKNOWN";
/// The first word of a refusal: the change may be possible a little later.
pub const MAY_PASS: &str = "TRYAGAIN";

const FIXED: &str = "ERR the members of this cluster never change: that takes --protocol velos or \
    durable";
const UNDER_WAY: &str = "BUSY another change of the members is not decided yet, or is given up at \
    its deadline: look at `gregale member list`, and try again";
const NO_MAJORITY: &str = "TRYAGAIN too few of the members that would be left are up to decide \
    anything: bring one of those back first";
const LAST_VOTER: &str = "ERR no voter would be left: add a member first";
const UNSUPERVISED: &str = "ERR this member has no supervisor: stop the old process, and start one \
    on its address with an empty data directory, or without its old region, and start = \"join\" \
    in its file; it asks for the seat by itself";

fn text_of(why: NoChange) -> String {
    match why {
        NoChange::NotLeader => {
            format!("{NOT_LEADER} this member does not lead: ask the leader, which `status` names")
        }
        NoChange::UnderWay => UNDER_WAY.to_owned(),
        NoChange::Learning(rank) => format!(
            "BUSY member {} is still learning: wait until it votes, or remove it",
            rank.member()
        ),
        NoChange::Renewing(rank) => format!(
            "BUSY member {} is being replaced: wait until it votes (`gregale member list`); if it \
             never comes, try again in a minute",
            rank.member()
        ),
        NoChange::NoSuchMember => "ERR that seat is empty: see `gregale member list`".to_owned(),
        NoChange::NoMajority => NO_MAJORITY.to_owned(),
        NoChange::LastVoter => LAST_VOTER.to_owned(),
        NoChange::Fixed => FIXED.to_owned(),
    }
}

/// Whether a new incarnation may begin on `rank`, which ends the old one.
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
fn may_renew(view: &View, renewing: Option<Rank>, rank: Rank) -> Result<(), NoChange> {
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
    let n_left = left.intersection(heard).len();
    if n_left < majority(left.len()) { Err(NoChange::NoMajority) } else { Ok(()) }
}

impl<O: Outside> RespClients<O> {
    /// Handles an operator's request `words`.
    pub(super) fn change_members(
        &mut self,
        key: u64,
        id: RequestId,
        words: &[String],
        desk: &mut Desk,
    ) {
        let asker = Asker { connection: key, request: id.0 };
        let outcome = match self.attempt(asker, words, desk) {
            Ok(Some(done)) => Ok(done),
            Ok(None) => return, // answered when it is decided
            Err(why) => Err(why),
        };
        self.deliver(asker, |connection, id| match outcome {
            Ok(done) => connection.answer_text(id, done),
            Err(why) => connection.fail(id, &why),
        });
    }

    fn attempt(
        &mut self,
        asker: Asker,
        words: &[String],
        desk: &mut Desk,
    ) -> Result<Option<&'static str>, String> {
        let [verb, number] = words else { return Err("ERR syntax error".to_owned()) };
        let seats = self.n_seats();
        let seat = number.parse().ok().filter(|n| (1..=seats).contains(n));
        let rank = seat.and_then(|n| Rank::of_member(NodeId(n)));
        let rank = rank.ok_or_else(|| format!("ERR no seat {number}: there are 1 to {seats}"))?;
        match verb.as_str() {
            "remove" if desk.view().configuration.is_none() => Err(FIXED.to_owned()),
            "remove" if desk.change(asker, Change::Remove(rank)) => Ok(None),
            "remove" => Err(UNDER_WAY.to_owned()),
            "renew" => {
                let forgets = self.outside.has_planted(Bug::RenewsTwo);
                let renewing = desk.renewing().filter(|_| !forgets);
                may_renew(desk.view(), renewing, rank).map_err(text_of)?;
                if !self.outside.renew(rank) {
                    return Err(UNSUPERVISED.to_owned());
                }
                desk.renew(rank);
                Ok(Some("the supervisor begins a new incarnation"))
            }
            _ => Err("ERR syntax error".to_owned()),
        }
    }

    /// Ends the change that `asker` requested.
    pub fn answer_change(&mut self, asker: Asker, changed: Changed) {
        self.deliver(asker, |connection, id| match changed {
            Changed::Done => connection.answer_text(id, "done"),
            Changed::Refused(why) => connection.fail(id, &text_of(why)),
            Changed::Unknown => connection.fail(
                id,
                &format!(
                    "{UNKNOWN} whether this change is decided is not known: see `gregale member \
                     list` before you try again"
                ),
            ),
        });
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, MemberSet, Prefix};
    use proto::members::{Configuration, Members};

    fn view() -> View {
        let all = MemberSet::all(3);
        let mut incarnations = [0; base::MAX_MEMBERS];
        incarnations[..3].fill(Incarnation::FIRST.0);
        let members = Members { voters: all, learners: MemberSet::EMPTY, incarnations };
        let configuration =
            Configuration { at: Prefix(4), members, is_decided: true, leaving: MemberSet::EMPTY };
        let mut view = View::new(Rank::at(0), 4);
        (view.role, view.heard, view.configuration) = (Role::Leader, all, Some(configuration));
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
}
