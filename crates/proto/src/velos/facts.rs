//! What this member knows to be decided: the facts that leaders have published (I4), and other
//! members' claims to have applied more.
//!
//! - F1 The known decided prefix never falls, and neither does a part of a fact. By construction:
//!   only [`Fact::raise`] and a maximum change them.
//! - F2 Another member's claim counts only when the leader's own news has had [`PATIENCE`] to come:
//!   a claim says that slots are decided, and not under which ballot. Then it does count, also if
//!   an earlier one was weighed when it came: a claim is read once.

use super::*;

/// The time that a leader's own news may take after another member's claim shows it.
const PATIENCE: Duration = Duration::from_millis(5);

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

/// The news of decisions.
#[derive(Clone, Debug, Hash)]
pub(super) struct News {
    facts: [Fact; MAX_MEMBERS],
    /// The maximum of each part of `facts`; the pair is not itself a fact.
    newest: Fact,
    /// A prefix that another member has applied and no leader has published yet, and the time at
    /// which it was heard.
    rumour: Option<(Prefix, Instant)>,
    /// The highest prefix that was claimed since, which is weighed next: its member may say nothing
    /// more.
    claimed_since: Prefix,
    /// The prefix that is taken for decided on another member's claim.
    believed: Prefix,
}

impl News {
    pub(super) fn new() -> News {
        News {
            facts: [Fact::default(); MAX_MEMBERS],
            newest: Fact::default(),
            rumour: None,
            claimed_since: Prefix::ZERO,
            believed: Prefix::ZERO,
        }
    }

    /// The highest ballot that has published anything.
    pub(super) const fn ballot(&self) -> Ballot {
        self.newest.ballot
    }

    /// The prefix that is known to be decided without being applied here.
    pub(super) fn decided(&self) -> Prefix {
        self.newest.decided.max(self.believed)
    }

    /// Whether `slot` is decided under the ballot that its word was accepted under, or (a planted
    /// bug) under any.
    pub(super) fn vouch(&self, slot: Slot, accepted: Ballot, under_any: bool) -> bool {
        let vouches =
            |fact: &Fact| fact.decided.contains(slot) && (accepted == fact.ballot || under_any);
        self.facts.iter().any(vouches)
    }

    #[cfg(test)]
    pub(super) const fn of(&self, leader: usize) -> Fact {
        self.facts[leader]
    }

    fn has(&self, of: Rank, fact: Fact) -> bool {
        self.facts[of.index()] == fact
    }

    /// Notes a fact. (A pair with a newer ballot is as good as the old one for every slot: later
    /// ballots carry the decided value on.)
    fn note(&mut self, of: Rank, news: Fact) {
        self.facts[of.index()].raise(news);
        self.newest.raise(news);
    }

    /// The planted bug: pairs the prefix with the ballot that was read before.
    fn note_torn(&mut self, of: Rank, ballot: impl FnOnce() -> Ballot, decided: Prefix) {
        let before = self.facts[of.index()];
        let fact = if before.ballot == Ballot::NONE {
            Fact { ballot: ballot(), decided }
        } else {
            Fact { ballot: before.ballot, decided: decided.max(before.decided) }
        };
        self.facts[of.index()] = fact;
        self.newest.raise(fact);
    }

    /// Notes that `prefix`, which is more than `known`, is applied at another member. Returns the
    /// time at which to weigh that, if no earlier claim is being weighed.
    fn hear(&mut self, prefix: Prefix, known: Prefix, now: Instant) -> Option<Instant> {
        if prefix <= known {
            return None;
        }
        if self.rumour.is_some() {
            self.claimed_since = self.claimed_since.max(prefix);
            return None;
        }
        self.rumour = Some((prefix, now));
        Some(now.plus(PATIENCE))
    }

    /// Believes a claim that the leader's news did not overtake in time (F2). Returns the time at
    /// which to weigh it again, or the next one.
    fn weigh(&mut self, known: Prefix, now: Instant) -> Option<Instant> {
        let (prefix, since) = self.rumour?;
        let due = since.plus(PATIENCE);
        if prefix > known && now < due {
            return Some(due);
        }
        if prefix > known {
            self.believed = prefix;
        }
        let next = core::mem::take(&mut self.claimed_since);
        self.rumour = (next > known.max(prefix)).then_some((next, now));
        self.rumour.map(|_| now.plus(PATIENCE))
    }
}

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    pub(super) fn decided_known(&self) -> Prefix {
        self.news.decided().max(self.applied)
    }

    /// Reads the two published words of each leader (I4: the decided prefix is loaded first, so
    /// that it is never paired with an older ballot).
    pub(super) fn read_facts<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            let at = self.places.fact(rank);
            let decided = Prefix(host.load(at.plus(1)));
            if self.planted.has(Bug::TornFact) {
                self.news.note_torn(rank, || Ballot(host.load(at)), decided);
                continue;
            }
            let fact = Fact { ballot: Ballot(host.load(at)), decided };
            // In most cases nothing has changed since the last poll.
            if !self.news.has(rank, fact) {
                self.note_fact(rank, fact);
            }
        }
    }

    pub(super) fn note_fact(&mut self, of: Rank, news: Fact) {
        self.news.note(of, news);
        self.candidacy.see(news.ballot);
    }

    /// Notes that `prefix` is applied at another member, so it is decided. In most cases the
    /// leader's news of it is on its way; the claim counts if that does not come, since the leader
    /// may not reach this member.
    pub(super) fn hear_rumour(&mut self, prefix: Prefix) {
        let known = self.decided_known();
        if let Some(due) = self.news.hear(prefix, known, self.clock.now) {
            self.clock.nudge(due);
        }
    }

    pub(super) fn weigh_rumour(&mut self) {
        let known = self.decided_known();
        if let Some(due) = self.news.weigh(known, self.clock.now) {
            self.clock.nudge(due);
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn fact(ballot: u64, decided: u64) -> Fact {
        Fact { ballot: Ballot(ballot), decided: Prefix(decided) }
    }

    #[test]
    fn i4_a_value_is_vouched_for_under_its_own_ballot_alone() {
        let mut news = News::new();
        news.note(Rank::at(1), fact(8, 3));
        assert!(news.vouch(Slot(2), Ballot(8), false));
        assert!(!news.vouch(Slot(2), Ballot(1), false) && news.vouch(Slot(2), Ballot(1), true));
        assert!(!news.vouch(Slot(3), Ballot(8), false), "it is not decided");
    }

    #[test]
    fn f1_no_part_falls_when_older_news_comes() {
        let mut news = News::new();
        news.note(Rank::at(1), fact(8, 3));
        news.note(Rank::at(1), fact(2, 1));
        news.note(Rank::at(2), fact(1, 5));
        assert_eq!((news.ballot(), news.decided()), (Ballot(8), Prefix(5)));
        assert!(news.has(Rank::at(1), fact(8, 3)));
    }

    #[test]
    fn f2_a_claim_is_believed_when_the_leaders_news_had_its_time() {
        let (mut news, now) = (News::new(), Instant::ZERO);
        let due = now.plus(PATIENCE);
        assert_eq!(news.hear(Prefix(4), Prefix(4), now), None, "it is no news");
        assert_eq!(news.hear(Prefix(5), Prefix(4), now), Some(due));
        assert_eq!((news.weigh(Prefix(4), now), news.decided()), (Some(due), Prefix::ZERO));
        assert_eq!((news.weigh(Prefix(4), due), news.decided()), (None, Prefix(5)));
        news.hear(Prefix(7), Prefix(5), due);
        assert_eq!((news.weigh(Prefix(7), due), news.decided()), (None, Prefix(5)));
    }

    /// The leader's news of the later claim has its whole time too.
    #[test]
    fn f2_a_claim_that_comes_while_another_is_weighed_is_weighed_next() {
        let (mut news, now) = (News::new(), Instant::ZERO);
        let (due, next) = (now.plus(PATIENCE), now.plus(PATIENCE * 2));
        assert_eq!(news.hear(Prefix(5), Prefix(4), now), Some(due));
        assert_eq!(news.hear(Prefix(9), Prefix(4), now), None, "one claim at a time");
        assert_eq!(news.hear(Prefix(8), Prefix(4), now), None, "of two the higher one counts");
        assert_eq!((news.weigh(Prefix(4), due), news.decided()), (Some(next), Prefix(5)));
        assert_eq!((news.weigh(Prefix(5), next), news.decided()), (None, Prefix(9)));
        // What the leader's news has overtaken is not weighed.
        news.hear(Prefix(11), Prefix(9), next);
        news.hear(Prefix(12), Prefix(9), next);
        assert_eq!((news.weigh(Prefix(12), next), news.decided()), (None, Prefix(9)));
    }

    /// Member 1 claims 5 slots, then 9, and nothing more.
    #[test]
    fn f2_the_last_claim_is_believed_although_an_earlier_one_was_weighed_when_it_came() {
        let (mut news, mut claims) = (News::new(), Claims::new());
        let (peer, of) = (Rank::at(1), Incarnation::FIRST);
        for ms in 0..20 {
            let now = Instant::ZERO.plus(Duration::from_millis(ms));
            let claimed = Prefix(if ms == 0 { 5 } else { 9 });
            let words = [claimed.0, eras::seal_claim(claimed, of)];
            if claims.is_news(peer, words)
                && let Some(prefix) = claims.hear(peer, words, [of, of], false)
            {
                let known = news.decided();
                news.hear(prefix, known, now);
            }
            let known = news.decided();
            news.weigh(known, now);
        }
        assert_eq!(news.decided(), Prefix(9));
    }
}
