//! The claims of members, judged at the moment at which they are made.
//!
//! A bug shows its consequence (two values for one slot, a stale read) only if a second leader, a
//! power cut or a delay comes at the right time. Its wrong claim comes before that, each time.
//!
//! - *This slot is decided* (velos, mu, multipaxos): a majority's memory holds the value
//!   (`decided`).
//! - *This prefix is committed* (durable): it is on a majority's disks (`copies`), and its last
//!   entry is of the leader's ballot ([`World::judge_commit`]).
//! - *This value is accepted* (velos, mu, multipaxos): the rule of Paxos holds for it (`safe`); it
//!   is there, and is not written over ([`crate::accepts`]); under velos the horizon of its
//!   proposer is above its slot there, so that no member takes the place for one of an earlier use.
//! - *No slot from here on was prepared by me* (velos): a horizon never falls while its owner's
//!   memory lives ([`crate::accepts`]).
//! - *I lead, or try to* (velos, mu, multipaxos): no earlier life used this ballot (`ballots`).
//! - *I am elected* (durable): a majority's disks have promised, and the log has everything that
//!   is committed (`elected`).
//! - *This read may be answered*: it has everything that was decided when it came (`reads`); a
//!   majority's memory has vouched since (velos, mu, durable: `witnesses`), or had promised
//!   nothing later and covers a lease (multipaxos: `reads`). *It waits here* (mu, multipaxos,
//!   durable): the leader that took it leads still (`reads`).
//! - *This log is granted* (mu): its owner writes to it no more.
//! - *This change may begin* (durable): the leader has decided an entry of its own.
//!
//! Whole members are judged by what they say to their plant (`engine::Claim`): `checks::served`,
//! `checks::answered`, `checks::ends`. ABD keeps no log, and is judged there alone:
//! `checks::versions`.
//!
//! Nothing here draws, or changes what members see: a run with judges is the run without them.

use crate::checks::decided::{self, Memory};
use crate::checks::elected;
use crate::checks::reads::{self, Taken};
use crate::checks::safe::{self, Voter};
use crate::world::World;
use crate::{Life, Property, kv};
use base::{Ballot, Incarnation, MemberSet, Prefix, Rank, Slot};
use proto::claims::{Acceptor, Entry};
use proto::members::Members;
use proto::{Role, Ticket};

impl World {
    // ---- decided ----

    /// Judges the slots that were delivered for the first time since the last call.
    pub(crate) fn judge_decided(&mut self, node: usize) {
        for (slot, value) in std::mem::take(&mut self.ledger.firsts) {
            if let Err(detail) = self.check_decided(slot, value) {
                self.net.violate(Property::Decided, format!("at r{node}: {detail}"));
            }
        }
    }

    fn check_decided(&self, slot: Slot, value: u64) -> Result<(), String> {
        self.under_any(slot, |members| {
            let memory = |rank: Rank| {
                if self.incarnation(rank.index()) != members.incarnation(rank) {
                    return Memory::Gone;
                }
                let held = self.acceptor(rank.index(), slot).and_then(|of| of.accepted);
                Memory::Holds(held.map(|(_, bytes)| kv::hash(bytes)))
            };
            decided::check(slot, value, members.voters, memory)
        })
    }

    /// Whether `judge` is content with one of the configurations of which one governs `slot`; or
    /// what it says of the last one.
    fn under_any(
        &self,
        slot: Slot,
        judge: impl Fn(&Members) -> Result<(), String>,
    ) -> Result<(), String> {
        let mut verdict = Ok(());
        for members in self.voters_of(slot) {
            verdict = judge(&members);
            if verdict.is_ok() {
                break;
            }
        }
        verdict
    }

    /// The configurations of which one governs `slot`.
    fn voters_of(&self, slot: Slot) -> Vec<Members> {
        let possible = self.ledger.configurations.upto(slot);
        if possible.is_empty() { self.governing() } else { possible }
    }

    fn acceptor(&self, node: usize, slot: Slot) -> Option<Acceptor<'_>> {
        let region = &self.net.regions[node];
        let words = region.words(0, region.n_words());
        (self.subject.claims.acceptor)(self.plan.members, &self.plan.shape, words, slot)
    }

    // ---- accepted ----

    /// Judges the values that were accepted since the last call.
    pub(crate) fn judge_accepted(&mut self) {
        while let Some((node, index)) = self.net.accepts.news.pop() {
            if let Err(detail) = self.check_accepted(node, index) {
                self.net.violate(Property::Safe, format!("in the region of r{node}: {detail}"));
            }
        }
    }

    fn check_accepted(&mut self, node: usize, index: u32) -> Result<(), String> {
        let region = &self.net.regions[node];
        let words = region.words(0, region.n_words());
        let (members, shape) = (self.plan.members, &self.plan.shape);
        let slot = match (self.subject.claims.entry)(members, shape, words, index) {
            Entry::Empty => return Ok(()),
            Entry::Torn => return Err("what is accepted is not there".to_owned()),
            Entry::Holds(slot) => slot,
        };
        let acceptor = self.acceptor(node, slot);
        let Some((ballot, bytes)) = acceptor.and_then(|of| of.accepted) else {
            return Err("what is accepted is not there".to_owned());
        };
        if acceptor.is_some_and(|of| !of.is_covered) {
            return Err(format!(
                "slot {slot}, {ballot}: the horizon of its leader is not above it"
            ));
        }
        let value = kv::hash(bytes);
        let (memory, of) = ((Rank::at(node), self.incarnation(node)), (slot, ballot));
        let named = |detail| format!("slot {slot}, {ballot}: {detail}");
        if !self.ledger.accepted.note(memory, of, value).map_err(named)? {
            return Ok(());
        }
        self.ledger.accepted.forget(self.ledger.agreement.n_decided());
        let verdict = self.under_any(slot, |members| {
            let voter = |rank: Rank| self.voter((rank, members.incarnation(rank)), of);
            let voters: Vec<Voter> = members.voters.iter().map(voter).collect();
            let others = MemberSet::all(self.plan.members).difference(members.voters);
            let other = |rank: Rank| self.voter((rank, self.incarnation(rank.index())), of);
            safe::check(value, &voters, &others.iter().map(other).collect::<Vec<_>>())
        });
        verdict.map_err(named)
    }

    fn voter(&self, memory: (Rank, Incarnation), (slot, ballot): (Slot, Ballot)) -> Voter {
        let at = memory.0.index();
        // (Whatever a memory had promised that was replaced.)
        let is_there = self.incarnation(at) == memory.1;
        let acceptor = self.acceptor(at, slot).filter(|_| is_there);
        if acceptor.is_some_and(|acceptor| acceptor.promised < ballot) {
            return Voter::Unpromised;
        }
        Voter::Promised(self.ledger.accepted.before(memory, (slot, ballot)))
    }

    // ---- reads ----

    /// The members, as a node knows them.
    fn members_at(&self, machine: &dyn Life) -> Members {
        let changed = machine.configuration().filter(|_| self.subject.has_operator);
        let first = || Members::first(MemberSet::all(self.plan.members));
        changed.map_or_else(first, |configuration| configuration.members)
    }

    /// Notes that `node` takes the read of `ticket`.
    pub(crate) fn note_read(&mut self, node: usize, machine: &dyn Life, ticket: Ticket) {
        let ballot = machine.status().ballot;
        let is_below = |rank: &Rank| {
            self.acceptor(rank.index(), Slot::ZERO).is_none_or(|of| of.promised <= ballot)
        };
        let taken = Taken {
            ticket,
            at: self.net.now(),
            number: self.net.n_posted_in_all,
            ballot,
            decided: Prefix(self.ledger.agreement.n_decided()),
            members: self.members_at(machine),
            applied: self.applied(node),
            unopposed: self
                .net
                .witnesses
                .are_promises()
                .then(|| Rank::all(self.plan.members).filter(is_below).collect()),
        };
        self.shells[node].taken.push(taken);
    }

    /// Forgets the read of `ticket`, which is refused.
    pub(crate) fn forget_read(&mut self, node: usize, ticket: Ticket) {
        self.shells[node].taken.retain(|taken| taken.ticket != ticket);
    }

    /// Judges the reads that are open at `node` at the end of its turn.
    pub(crate) fn judge_open_reads(&mut self, node: usize, status: &proto::Status) {
        if !self.subject.leader_alone_reads {
            return;
        }
        let mut open = self.shells[node].taken.iter();
        if let Some(detail) = open.find_map(|taken| reads::check_open(taken, status).err()) {
            self.net.violate(Property::Read, format!("at r{node}: {detail}"));
        }
    }

    /// Judges the answer to the reads of `ticket`.
    pub(crate) fn judge_read(&mut self, node: usize, machine: &dyn Life, ticket: Ticket) {
        let reads = &mut self.shells[node].taken;
        let Some(place) = reads.iter().position(|taken| taken.ticket == ticket) else { return };
        let taken = reads.remove(place);
        let verdict = self.check_read(node, machine, &taken);
        if let Err(detail) = verdict {
            self.net.violate(Property::Read, format!("at r{node}: {detail}"));
        }
    }

    fn check_read(&self, node: usize, machine: &dyn Life, taken: &Taken) -> Result<(), String> {
        reads::check_whole(taken, self.applied(node))?;
        reads::check_unopposed(taken)?;
        let members = self.members_at(machine);
        // A check asks about the slot after the prefix that was applied when it asked.
        let asked = (taken.applied.0..=self.applied(node).0).map(Slot);
        let governing = asked.flat_map(|slot| self.voters_of(slot));
        let possible = [taken.members, members].into_iter().chain(governing);
        self.net.witnesses.check(node, taken.number, possible)?;
        if taken.unopposed.is_some() && taken.at == self.net.now() {
            // No question can have been answered meanwhile.
            let covers = |rank: &Rank| rank.index() == node || self.is_granted(*rank, node);
            let covering = Rank::all(self.plan.members).filter(covers).collect();
            reads::check_covered(covering, members.voters)?;
        }
        Ok(())
    }

    fn is_granted(&self, giver: Rank, holder: usize) -> bool {
        let process = &self.net.processes[giver.index()];
        let Some(machine) = self.machines[giver.index()].as_ref().filter(|_| process.alive) else {
            return true;
        };
        machine.granted(process.clock.at(self.net.now())) == Some(Rank::at(holder))
    }

    // ---- elections ----

    /// Judges the election of `node`, if its log has a first entry of its ballot.
    pub(crate) fn judge_elected(&mut self, node: usize, machine: &dyn Life) {
        let Some(last) = self.disks[node].last() else { return };
        let ballot = last.ballot;
        if ballot.proposer() != Some(Rank::at(node)) || !self.ledger.elected.is_news(ballot) {
            return;
        }
        let Some(configuration) = machine.configuration() else { return };
        let members = configuration.members;
        let follows = |rank: Rank| self.follows(rank, members.incarnation(rank), ballot);
        let ballot_at =
            |slot| proto::disk::Disk::head(&self.disks[node], slot).map(|head| head.ballot);
        let end = last.slot.prefix_through();
        let verdict = elected::check_followed(ballot, members.voters, follows)
            .and_then(|()| self.ledger.elected.check_complete(ballot, end, ballot_at));
        if let Err(detail) = verdict {
            self.net.violate(Property::Elected, detail);
        }
    }

    /// Whether the disk of `rank` has promised `ballot`, and its memory vouches for no leader
    /// before. A disk that is another one by now had.
    fn follows(&self, rank: Rank, incarnation: Incarnation, ballot: Ballot) -> bool {
        let at = rank.index();
        if self.incarnation(at) != incarnation {
            return true;
        }
        let promised = proto::durable::offline::promised(self.disks[at].durable_meta());
        let earlier = Ballot(ballot.0 - 1);
        promised >= Some(ballot) && !self.net.witnesses.vouches(&self.net.regions[at], earlier)
    }

    /// Judges the ballot under which `node` leads or tries to.
    pub(crate) fn judge_ballot(&mut self, node: usize, status: &proto::Status) {
        let leads = matches!(status.role, Role::Leader | Role::Candidate);
        self.net.witnesses.leads(node, if leads { status.ballot } else { Ballot::NONE });
        if !leads || self.subject.is_durable {
            return;
        }
        let (incarnation, life) = (self.incarnation(node), self.net.processes[node].life);
        let used = self.ledger.ballots[node].used(incarnation, life, status.ballot);
        if let Err(detail) = used {
            self.net.violate(Property::Elected, format!("r{node}: {detail}"));
        }
    }

    /// Judges that a leader which has committed something new has done so with an entry of its own
    /// ballot: an entry of an earlier one may yet be cut, wherever it is held. `of` is the ballot
    /// of the last committed entry in its log.
    pub(crate) fn judge_commit(&mut self, node: usize, machine: &dyn Life, of: Option<Ballot>) {
        let proto::Status { role, ballot, committed, .. } = machine.status();
        let leads = matches!(role, Role::Leader | Role::Candidate);
        // (What it has heard as a follower it may report in the turn in which it stands.)
        let led_before = self.shells[node].held.0 == ballot;
        if let Some(of) = of.filter(|of| leads && led_before && *of != ballot) {
            let detail = format!("r{node} commits {committed} in {ballot}, an entry of {of}");
            self.net.violate(Property::Durability, detail);
        }
    }
}
