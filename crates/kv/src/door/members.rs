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
use base::{NodeId, Rank};
use engine::orders::{self, may_renew};
use engine::{Asker, Changed, Desk, NoChange};

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
/// The refusal of a new incarnation by a process that no supervisor has begun.
pub const UNSUPERVISED: &str = "ERR this member has no supervisor: stop the old process, and start \
    one on its address with an empty data directory, or without its old region, and start = \
    \"join\" in its file; it asks for the seat by itself";

/// The end of an operator's change, as `gregale member` reads it.
///
/// # Errors
/// The text of what is not done, or not known.
pub fn end_of(changed: Changed) -> Result<&'static str, String> {
    match changed {
        Changed::Done => Ok("done"),
        Changed::Refused(why) => Err(text_of(why)),
        Changed::Unknown => Err(format!(
            "{UNKNOWN} whether this change is decided is not known: see `gregale member list` \
             before you try again"
        )),
    }
}

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
        NoChange::Stateless(rank) => format!(
            "{MAY_PASS} member {} is up and does not hold the state yet, and without it too few \
             would: wait until `gregale status` shows it as follower",
            rank.member()
        ),
        NoChange::LastVoter => LAST_VOTER.to_owned(),
        NoChange::Fixed => FIXED.to_owned(),
    }
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
            "remove" => orders::remove(desk, asker, rank).map(|()| None).map_err(text_of),
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
        self.deliver(asker, |connection, id| match end_of(changed) {
            Ok(done) => connection.answer_text(id, done),
            Err(why) => connection.fail(id, &why),
        });
    }
}
