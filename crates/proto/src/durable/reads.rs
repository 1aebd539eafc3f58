//! Linearizable reads: no later ballot had a majority's promises when the reads came (I11).

use super::*;
use base::{Outcome, Token};

/// One check, for the reads of one ticket.
#[derive(Debug)]
pub(super) struct Probe {
    pub(super) ticket: Ticket,
    number: u64,
    passed: MemberSet,
}

/// The number of checks that may be under way.
const PROBES_MAX: usize = 256;

impl<P: Planting<Bug>> Durable<P> {
    pub(super) fn start_probe<H: Host>(&mut self, ticket: Ticket, host: &mut H) {
        // Followers refuse: their log's end does not show what was decided since.
        let leads = matches!(&self.office, Office::Leader(term) if term.announced);
        if !leads || self.probes.len() >= PROBES_MAX {
            return host.notify(Note::ReadRefused(ticket));
        }
        self.n_probes += 1;
        let mut passed = MemberSet::EMPTY;
        passed.insert(self.me);
        let number = self.n_probes;
        self.probes.push(Probe { ticket, number, passed });
        self.ask(number, passed, host);
        self.end_probes(host);
    }

    fn ask<H: Host>(&mut self, number: u64, passed: MemberSet, host: &mut H) {
        let Some((_, members)) = self.log.members() else { return };
        for rank in members.voters.difference(passed).iter() {
            host.read(rank, self.places.promised(), 1, Token(number));
        }
        self.nudge(REPEAT_AFTER);
    }

    /// Repeats what was lost with a link.
    pub(super) fn repeat_probes<H: Host>(&mut self, host: &mut H) {
        if let Some(probe) = self.probes.last_mut() {
            // The answer for the newest check serves all before it.
            let (number, passed) = (probe.number, probe.passed);
            self.ask(number, passed, host);
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
        let Outcome::Read([word]) = outcome else { return };
        // A new region is no witness.
        let unpublished = self.planted.has(Bug::UnpublishedIsWitness).then_some(Ballot::NONE);
        let Some(promised) = places::published_promise(*word).or(unpublished) else { return };
        if promised > term.ballot {
            self.standing.highest = self.standing.highest.max(promised);
            return self.depose(host);
        }
        let serves =
            |probe: &&mut Probe| probe.number <= token.0 || self.planted.has(Bug::AnyAnswerServes);
        for probe in self.probes.iter_mut().filter(serves) {
            probe.passed.insert(from);
        }
        self.end_probes(host);
    }

    fn end_probes<H: Host>(&mut self, host: &mut H) {
        let Some((_, members)) = self.log.members().copied() else { return };
        let done = |passed: MemberSet| {
            self.planted.has(Bug::ReadWithoutCheck) || members.has_quorum(passed)
        };
        // Later checks see no more than earlier ones, so the completed ones come first.
        let n_done = self.probes.iter().take_while(|probe| done(probe.passed)).count();
        for probe in self.probes.drain(..n_done) {
            host.notify(Note::ReadReady(probe.ticket));
        }
    }
}
