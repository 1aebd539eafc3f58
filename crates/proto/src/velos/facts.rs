//! The facts that leaders have published, as far as this member has read them (I4).

use super::*;

/// A leader's published decision: every slot below `decided` was decided under at most `ballot`.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) struct Fact {
    pub(super) ballot: Ballot,
    pub(super) decided: Prefix,
}

impl Fact {
    /// Raises both parts, which only grow.
    fn raise(&mut self, news: Fact) {
        self.ballot = self.ballot.max(news.ballot);
        self.decided = self.decided.max(news.decided);
    }
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    pub(super) fn decided_known(&self) -> Prefix {
        self.published.decided.max(self.applied).max(self.believed)
    }

    /// Reads the two published words of each leader (I4: the decided prefix is loaded first, so
    /// that it is never paired with an older ballot).
    pub(super) fn read_facts<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            let at = self.places.fact(rank);
            let (ballot, decided);
            if self.planted.has(Bug::TornFact) {
                ballot = self.facts[rank.index()].ballot.max(Ballot::NONE);
                decided = Prefix(host.load(at.plus(1)));
                let fact = if ballot == Ballot::NONE {
                    Fact { ballot: Ballot(host.load(at)), decided }
                } else {
                    Fact { ballot, decided: decided.max(self.facts[rank.index()].decided) }
                };
                self.facts[rank.index()] = fact;
                self.published.raise(fact);
                continue;
            }
            decided = Prefix(host.load(at.plus(1)));
            ballot = Ballot(host.load(at));
            let fact = Fact { ballot, decided };
            // In most cases nothing has changed since the last poll.
            if fact != self.facts[rank.index()] {
                self.note_fact(rank, fact);
            }
        }
    }

    pub(super) fn note_fact(&mut self, of: Rank, news: Fact) {
        // A pair with a newer ballot is as good as the old one for every slot (later ballots carry
        // the decided value on), and both parts only grow.
        self.facts[of.index()].raise(news);
        self.published.raise(news);
        self.highest = self.highest.max(news.ballot);
    }
}
