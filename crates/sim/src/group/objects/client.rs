//! The callers of one process's objects: what they have called, and have no outcome of yet.

use super::book::{Book, CallId, Called, Known, ShardLife, What, process_of};
use super::ledger::{Ledger, LedgerHandle};
use crate::plan::MS;
use base::Rng;
use core::time::Duration;
use group::simulated::{ask_again, ask_for_replies_again};
use group::{CallError, Member, Objects, Pending, Replica, Replies};
use proto::vsync::ShardId;

/// The time after which a caller that waits asks again.
const ASK_AGAIN_NS: u64 = 20 * MS;
/// The most calls of a process that have no outcome.
const OPEN_MAX: usize = 64;

/// The number of the query.
const N_ENTRIES: u16 = 1;

/// The ways in which outcomes come.
enum Way {
    One(Pending<u64>),
    Each(Replies<u64>),
}

/// A call without an outcome.
struct Open {
    call: CallId,
    subgroup: u16,
    way: Way,
    /// The time at which it asks again.
    again_ns: u64,
    /// Whether its caller asks again for what is lost.
    asks: bool,
}

/// See the module's text.
pub(super) struct Client {
    me: Member,
    names: Vec<String>,
    open: Vec<Open>,
    rng: Rng,
    /// By life of a shard, the number of calls that this process knows to be executed there.
    known: Vec<(ShardLife, u64)>,
}

impl Client {
    pub(super) fn new(me: Member, names: Vec<String>, rng: Rng) -> Client {
        Client { me, names, open: Vec::new(), rng, known: Vec::new() }
    }

    /// The objects here, each with the number of its subgroup.
    pub(super) fn replicas(
        &self,
        objects: &Objects,
    ) -> impl Iterator<Item = (u16, Replica<Ledger>)> {
        let replica = |(subgroup, name): (u16, &String)| Some((subgroup, objects.get(name)?));
        (0..).zip(&self.names).filter_map(replica)
    }

    /// Calls the object of a subgroup in one way or another.
    pub(super) fn call(
        &mut self,
        objects: &Objects,
        subgroup: usize,
        n_ballast: usize,
        now_ns: u64,
        book: &mut Book,
    ) {
        let Some(replica) = objects.get::<Ledger>(&self.names[subgroup]) else { return };
        let view = replica.view();
        let handle = LedgerHandle::from(replica);
        let shards: Vec<_> =
            view.shards.iter().filter(|one| usize::from(one.id.subgroup) == subgroup).collect();
        let own = handle.own_shard();
        let dice = self.rng.below(16);
        let pick = shards[self.rng.below(shards.len() as u64) as usize];
        let life = |shard: &group::Shard| ShardLife { shard: shard.id, since: shard.begun };
        let own = shards.iter().find(|one| Some(usize::from(one.id.shard)) == own);
        let member = |rng: &mut Rng, of: &group::Shard| {
            let n = of.members.len() as u64;
            (n > 0).then(|| of.members[rng.below(n) as usize])
        };
        let ballast = vec![7; n_ballast];
        if self.open.len() >= OPEN_MAX {
            return;
        }
        let by = process_of(self.me);
        let called = |what, life| Called {
            by,
            what,
            life,
            begun_ns: now_ns,
            ended: None,
            replies: Vec::new(),
        };
        let (call, way, asks) = match (dice, own) {
            (0..9, Some(own)) => {
                let call = book.enter(called(What::Append, life(own)));
                (call, Way::One(handle.append(call, ballast)), false)
            }
            (9..11, Some(own)) => {
                let call = book.enter(called(What::AppendEach, life(own)));
                (call, Way::Each(handle.append_each(call, ballast)), true)
            }
            (0..13, _) => {
                let is_own = own.is_some_and(|own| own.id == pick.id);
                let what = if is_own { What::Append } else { What::AppendThere };
                let call = book.enter(called(what, life(pick)));
                let there = handle.in_shard(pick.id.shard.into());
                (call, Way::One(there.append(call, ballast)), false)
            }
            (13, _) => {
                let Some(member) = member(&mut self.rng, pick) else { return };
                let life = life(pick);
                let n_known = self.known.iter().find(|(of, _)| *of == life).map_or(0, |(_, n)| *n);
                let call = book.enter(called(What::Count(n_known), life));
                let there = handle.in_shard(pick.id.shard.into());
                let (seat, then) = (member.seat, handle.latest());
                (call, Way::One(there.ask_then_at(seat, N_ENTRIES, then, &())), true)
            }
            (_, _) => {
                let Some(member) = member(&mut self.rng, pick) else { return };
                let call = book.enter(called(What::Jot(process_of(member)), life(pick)));
                (call, Way::One(handle.jot_at(member.seat, call)), true)
            }
        };
        let again_ns = now_ns + ASK_AGAIN_NS;
        self.open.push(Open { call, subgroup: subgroup as u16, way, again_ns, asks });
    }

    /// Looks for outcomes. Returns the time at which it asks again.
    pub(super) fn look(&mut self, objects: &Objects, now_ns: u64, book: &mut Book) -> Option<u64> {
        let mut open = std::mem::take(&mut self.open);
        open.retain_mut(|one| {
            let Some(known) = outcome(one, book) else {
                if one.asks && one.again_ns <= now_ns {
                    one.again_ns = now_ns + ASK_AGAIN_NS;
                    match &one.way {
                        Way::One(pending) => ask_again(pending),
                        Way::Each(replies) => ask_for_replies_again(replies),
                    }
                }
                return true;
            };
            let called = book.call_mut(one.call);
            let shard = called.life.shard;
            let life = life_of(objects, &self.names[usize::from(one.subgroup)], shard);
            if let (Known::Executed(n), Some(life)) = (&known, life)
                && life == called.life
                && matches!(called.what, What::Append | What::AppendEach | What::AppendThere)
            {
                match self.known.iter_mut().find(|(of, _)| *of == life) {
                    Some((_, most)) => *most = (*most).max(*n),
                    None => self.known.push((life, *n)),
                }
            }
            called.ended = Some((known, now_ns, life));
            false
        });
        self.open = open;
        self.open.iter().filter(|one| one.asks).map(|one| one.again_ns).min()
    }

    /// A call that has no outcome, though all is well.
    pub(super) fn unanswered(&self, book: &Book) -> Option<String> {
        let is_due = |one: &&Open| {
            let CallId(at) = one.call;
            // A letter that asks for a call is sent once, and can be lost.
            book.calls[at as usize].what != What::AppendThere
        };
        let one = self.open.iter().find(is_due)?;
        Some(format!("has no outcome of {:?}", book.calls[one.call.0 as usize]))
    }
}

/// The life of a shard as this process knows it.
fn life_of(objects: &Objects, name: &str, shard: ShardId) -> Option<ShardLife> {
    let view = objects.get::<Ledger>(name)?.view();
    Some(ShardLife { shard, since: view.shard(shard)?.begun })
}

/// The outcome of a call, if there is one now.
fn outcome(open: &mut Open, book: &mut Book) -> Option<Known> {
    match &mut open.way {
        Way::One(pending) => known(pending.wait_for(Duration::ZERO)),
        Way::Each(replies) => loop {
            match replies.wait_for(Duration::ZERO) {
                Ok(Some((member, said))) => {
                    book.call_mut(open.call).replies.push((member, said.ok()));
                }
                Ok(None) => {
                    let first = book.call_mut(open.call).replies.first();
                    let own = first.and_then(|(_, said)| *said);
                    break Some(own.map_or(Known::Unknown, Known::Executed));
                }
                Err(error) => break known(Err(error)),
            }
        },
    }
}

fn known(outcome: Result<u64, CallError>) -> Option<Known> {
    match outcome {
        Ok(value) => Some(Known::Executed(value)),
        Err(CallError::Late(_)) => None,
        Err(CallError::Unknown(_) | CallError::Lost(_)) => Some(Known::Unknown),
        Err(
            CallError::NotExecuted(_)
            | CallError::Declined(_)
            | CallError::NoCopy
            | CallError::Gone(_),
        ) => Some(Known::NotExecuted),
        Err(other) => panic!("no outcome of a ledger: {other}"),
    }
}
