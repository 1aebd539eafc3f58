//! Linearizable reads: no later ballot had a majority's promises when the reads came (I11).

use super::*;
use base::{MAX_MEMBERS, Outcome, Token};

/// One check, for the reads of one ticket.
#[derive(Debug)]
struct Probe {
    ticket: Ticket,
    number: u64,
}

/// A disk that has promised no later ballot.
#[derive(Clone, Copy, Debug)]
struct Witness {
    by: Incarnation,
    /// The number of the newest check that it has answered: the answer serves all before it.
    number: u64,
}

/// The reads that wait for a majority.
#[derive(Debug, Default)]
pub(super) struct Reads {
    waiting: Vec<Probe>,
    n_probes: u64,
    /// The newest witness on each seat.
    witnesses: [Option<Witness>; MAX_MEMBERS],
}

impl Reads {
    /// The voters among `members` that are witnesses for the check `number`. This disk is one for
    /// itself, if it is a voter.
    fn passed(
        &self,
        number: u64,
        members: &Members,
        me: (Rank, Incarnation),
        any: bool,
    ) -> MemberSet {
        let vouches = |rank: &Rank| {
            let seated = members.incarnation(*rank);
            let own = (*rank == me.0).then_some(Witness { by: me.1, number });
            own.or(self.witnesses[rank.index()])
                .is_some_and(|of| of.number >= number && (of.by == seated || any))
        };
        members.voters.iter().filter(vouches).collect()
    }

    /// Ends all reads that wait: their tickets.
    pub(super) fn end_all(&mut self) -> impl Iterator<Item = Ticket> {
        core::mem::take(&mut self.waiting).into_iter().map(|probe| probe.ticket)
    }
}

/// The number of checks that may be under way.
const PROBES_MAX: usize = 256;

impl<P: Planting<Bug>> Durable<P> {
    pub(super) fn start_probe<H: Host>(&mut self, ticket: Ticket, host: &mut H) {
        // Followers refuse: their log's end does not show what was decided since.
        let leads = matches!(&self.office, Office::Leader(term) if term.announced);
        if !leads || self.reads.waiting.len() >= PROBES_MAX {
            return host.notify(Note::ReadRefused(ticket));
        }
        self.reads.n_probes += 1;
        let number = self.reads.n_probes;
        self.reads.waiting.push(Probe { ticket, number });
        self.ask(host);
        self.end_probes(host);
    }

    /// Asks the voters that have not answered the newest check: an answer to it serves all before.
    fn ask<H: Host>(&mut self, host: &mut H) {
        let Some((_, members)) = self.log.members() else { return };
        let number = self.reads.n_probes;
        for rank in members.voters.difference(self.passed(number, members)).iter() {
            host.read(rank, self.places.promised(), places::PUBLISHED_WORDS, Token(number));
        }
        self.nudge(REPEAT_AFTER);
    }

    fn passed(&self, number: u64, members: &Members) -> MemberSet {
        let any = self.planted.has(Bug::AnyDiskIsWitness);
        self.reads.passed(number, members, (self.me, self.log.incarnation()), any)
    }

    /// Repeats what was lost with a link.
    pub(super) fn repeat_probes<H: Host>(&mut self, host: &mut H) {
        if !self.reads.waiting.is_empty() {
            self.ask(host);
        }
    }

    pub(super) fn on_probed<H: Host>(
        &mut self,
        from: Rank,
        token: Token,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let Office::Leader(term) = &self.office else { return };
        let Outcome::Read(words) = outcome else { return };
        // A new region is no witness.
        let Some(Published { promised, by }) = Published::decode(words).or(self.unpublished(from))
        else {
            return;
        };
        if promised > term.ballot {
            self.standing.highest = self.standing.highest.max(promised);
            return self.depose(host);
        }
        let serves_all = self.planted.has(Bug::AnyAnswerServes);
        let number = if serves_all { self.reads.n_probes } else { token.0 };
        let newest = &mut self.reads.witnesses[from.index()];
        if newest.is_none_or(|of| of.by != by || of.number < number) {
            *newest = Some(Witness { by, number });
        }
        self.end_probes(host);
    }

    /// The promise of a member that has published none: a planted bug.
    fn unpublished(&self, from: Rank) -> Option<Published> {
        let (_, members) = self.log.members()?;
        let none = Published { promised: Ballot::NONE, by: members.incarnation(from) };
        self.planted.has(Bug::UnpublishedIsWitness).then_some(none)
    }

    fn end_probes<H: Host>(&mut self, host: &mut H) {
        let Some((_, members)) = self.log.members() else { return };
        let is_done = |probe: &Probe| {
            self.planted.has(Bug::ReadWithoutCheck)
                || members.has_quorum(self.passed(probe.number, members))
        };
        // Later checks see no more than earlier ones, so the completed ones come first.
        let n_done = self.reads.waiting.iter().take_while(|probe| is_done(probe)).count();
        for probe in self.reads.waiting.drain(..n_done) {
            host.notify(Note::ReadReady(probe.ticket));
        }
    }
}
