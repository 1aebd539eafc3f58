//! Ballots: promises, votes and their majorities (I4, I8).

use super::leader::Term;
use super::*;
use crate::disk::TOLERATED_MAX;
use base::MAX_MEMBERS;

/// The time that a candidacy waits for votes, and for which one may follow on another. The syncs
/// that are known to be under way do not count.
const TRY_FOR: Duration = Duration::from_millis(160);
/// The time for which a candidate that cannot win stands aside.
const ASIDE_FOR: Duration = Duration::from_millis(150);

/// An attempt to lead.
#[derive(Debug)]
pub(super) struct Candidacy {
    pub(super) ballot: Ballot,
    /// Whether the own promise is durable, and the others were asked.
    has_asked: bool,
    votes: [Option<Incarnation>; MAX_MEMBERS],
    /// The members whose logs are newer.
    denied: MemberSet,
    began_at: Instant,
    /// The time of the last sign that a member waits for a disk: the own promise became durable, or
    /// a voter said that its promise will be.
    synced_at: Instant,
}

/// A vote that leaves when the promise is durable.
#[derive(Clone, Copy, Debug)]
pub(super) struct Owed {
    ballot: Ballot,
    to: Rank,
    candidate: Incarnation,
}

pub(super) fn votes(me: Rank, log: &Log, members: &Members) -> bool {
    members.voters.contains(me) && members.incarnation(me) == log.incarnation()
}

impl<P: Planting<Bug>> Durable<P> {
    /// Whether the own log says that its disk is a voter.
    pub(super) fn is_voter(&self) -> bool {
        self.log.members().is_some_and(|(_, members)| votes(self.me, &self.log, members))
    }

    /// Begins an election, if this node may be elected.
    pub(super) fn campaign<H: Host>(&mut self, host: &mut H) {
        if !self.standing.trusted || !self.can_lead() || !matches!(self.office, Office::None) {
            return;
        }
        let tries_since = *self.standing.tries_since.get_or_insert(self.now);
        if self.now.since(tries_since) >= TRY_FOR {
            // L1: this node is outbid again and again. All members trust it, so no other tries; and
            // the member that outbids it may be asking a disk whose vote counts for neither.
            return self.stand_aside(host);
        }
        let ballot = Ballot::above(self.standing.highest.max(self.log.promised()), self.me);
        self.raise(ballot, host);
        self.office = Office::Candidate(Candidacy {
            ballot,
            has_asked: false,
            votes: [None; MAX_MEMBERS],
            denied: MemberSet::EMPTY,
            began_at: self.now,
            synced_at: self.now,
        });
        self.flush(host);
        if self.planted.has(Bug::VoteBeforeSync) {
            self.pay_votes(host);
        }
        self.nudge(REPEAT_AFTER);
    }

    /// Promises `ballot`: this node's work under a lower one has ended (I5).
    pub(super) fn raise<H: Host>(&mut self, ballot: Ballot, host: &mut H) {
        self.depose(host);
        // The candidate that asked gets time to win.
        self.standing.retry_at = Some(self.now.plus(self.backoff()));
        self.standing.highest = self.standing.highest.max(ballot);
        self.log.promise(ballot, disk(host));
        if self.planted.has(Bug::AcceptOlderBallot) {
            return;
        }
        if let Some(before) = self.following.take() {
            let denied = Message::Denied { ballot: before.ballot, promised: ballot, older: false };
            self.post(before.leader, &denied, host);
        }
    }

    pub(super) fn on_request_vote<H: Host>(
        &mut self,
        (from, candidate): (Rank, Incarnation),
        ballot: Ballot,
        log: (Ballot, Prefix),
        host: &mut H,
    ) {
        if ballot.proposer() != Some(from) {
            return;
        }
        let promised = self.log.promised();
        let is_repeated = ballot == promised;
        self.standing.highest = self.standing.highest.max(ballot);
        if ballot < promised {
            let denied = Message::Denied { ballot, promised, older: false };
            return self.post(from, &denied, host);
        }
        if ballot > promised {
            let older = log < (self.log.last_ballot(), self.log.end());
            if older && !self.planted.has(Bug::ElectOlderLog) {
                let denied = Message::Denied { ballot, promised, older };
                return self.post(from, &denied, host);
            }
            if !self.is_well() {
                // The vote could not leave for long: it is better to keep the present leader.
                return;
            }
            self.raise(ballot, host);
            self.standing.voted = Some((ballot, candidate));
        }
        if self.standing.voted != Some((ballot, candidate)) && !self.planted.has(Bug::VoteTwice) {
            // The vote in this ballot went to another disk on that seat, or is no longer known: two
            // disks there do not know each other's ballots.
            let denied = Message::Denied { ballot, promised, older: false };
            return self.post(from, &denied, host);
        }
        self.standing.vote_owed = Some(Owed { ballot, to: from, candidate });
        self.flush(host);
        self.pay_votes(host);
        if is_repeated && self.standing.vote_owed.is_some() && self.is_well() {
            self.post(from, &Message::Promising { ballot, candidate }, host);
        }
    }

    /// L1: a voter's disk has not taken its promise yet, so the vote is on its way.
    pub(super) fn on_promising(&mut self, ballot: Ballot, candidate: Incarnation) {
        if let Office::Candidate(candidacy) = &mut self.office
            && candidacy.ballot == ballot
            && candidate == self.log.incarnation()
        {
            let waited = self.now.since(candidacy.synced_at);
            candidacy.synced_at = self.now;
            self.standing.tries_since = self.standing.tries_since.map(|since| since.plus(waited));
        }
    }

    /// Sends what may leave now that the promise is durable: the own requests, or a vote (I4).
    pub(super) fn pay_votes<H: Host>(&mut self, host: &mut H) {
        if !self.log.promise_is_durable() && !self.planted.has(Bug::VoteBeforeSync) {
            return;
        }
        let (promised, incarnation) = (self.log.promised(), self.log.incarnation());
        // I11: readers see the promise before a candidate can count the vote.
        self.publish_promise(host);
        let owed = self.standing.vote_owed.take_if(|owed| owed.ballot == promised);
        if let Some(Owed { to, candidate, .. }) = owed {
            self.post(to, &Message::Vote { ballot: promised, incarnation, candidate }, host);
        }
        if let Office::Candidate(candidacy) = &mut self.office
            && candidacy.ballot == promised
            && !candidacy.has_asked
        {
            candidacy.has_asked = true;
            candidacy.synced_at = self.now;
            let sync = self.now.since(candidacy.began_at);
            let tries_since = &mut self.standing.tries_since;
            *tries_since = tries_since.map(|since| since.plus(sync));
            candidacy.votes[self.me.index()] = Some(incarnation);
            self.request_votes(host);
            self.count_votes(host);
        }
    }

    fn request_votes<H: Host>(&mut self, host: &mut H) {
        let Office::Candidate(candidacy) = &self.office else { return };
        let request = Message::RequestVote {
            ballot: candidacy.ballot,
            incarnation: self.log.incarnation(),
            last: self.log.last_ballot(),
            end: self.log.end(),
        };
        let missing: MemberSet = self
            .electorate()
            .iter()
            .filter(|rank| candidacy.votes[rank.index()].is_none())
            .collect();
        missing.iter().for_each(|rank| self.post(rank, &request, host));
        self.nudge(REPEAT_AFTER);
    }

    /// I8: the configurations whose majority elects. It is the newest of the own log, which differs
    /// by one voter from the one before, which is committed, so their majorities meet.
    fn electing(&self) -> impl Iterator<Item = &Members> {
        let newest =
            self.log.members().filter(|_| !self.planted.has(Bug::ElectByEveryConfiguration));
        let all = self
            .log
            .governing(self.progress.committed)
            .filter(|_| self.planted.has(Bug::ElectByEveryConfiguration));
        newest.into_iter().chain(all).map(|(_, members)| members)
    }

    /// The members whose votes may count.
    fn electorate(&self) -> MemberSet {
        self.electing().fold(MemberSet::EMPTY, |all, members| all.union(members.voters))
    }

    pub(super) fn on_vote<H: Host>(
        &mut self,
        (from, incarnation): (Rank, Incarnation),
        ballot: Ballot,
        candidate: Incarnation,
        host: &mut H,
    ) {
        let any =
            self.planted.has(Bug::AnyIncarnation) || self.planted.has(Bug::OldIncarnationVotes);
        let counts = any || self.electing().any(|of| of.incarnation(from) == incarnation);
        if !counts || candidate != self.log.incarnation() && !self.planted.has(Bug::VoteTwice) {
            // The vote is of another disk, or for another: the right one has not come yet.
            return;
        }
        if let Office::Candidate(candidacy) = &mut self.office
            && (candidacy.ballot == ballot || self.planted.has(Bug::VoteOfAnyBallot))
        {
            candidacy.votes[from.index()] = Some(incarnation);
            self.count_votes(host);
        }
    }

    fn count_votes<H: Host>(&mut self, host: &mut H) {
        let Office::Candidate(candidacy) = &self.office else { return };
        let counts = |members: &Members, rank: &Rank| {
            candidacy.votes[rank.index()].is_some_and(|incarnation| {
                let any = self.planted.has(Bug::AnyIncarnation)
                    || self.planted.has(Bug::OldIncarnationVotes);
                any || incarnation == members.incarnation(*rank)
            })
        };
        let elected = self.electing().all(|members| {
            let votes: MemberSet = members.voters.iter().filter(|r| counts(members, r)).collect();
            members.has_quorum(votes) || self.planted.has(Bug::ElectByOne)
        });
        if elected && candidacy.has_asked {
            let ballot = candidacy.ballot;
            let term = Term::new(ballot, self.log.end().next_slot());
            self.office = Office::Leader(Box::new(term));
            self.standing.tries_since = None;
            self.begin_term(host);
        }
    }

    pub(super) fn on_denied<H: Host>(
        &mut self,
        from: Rank,
        ballot: Ballot,
        promised: Ballot,
        older: bool,
        host: &mut H,
    ) {
        self.standing.highest = self.standing.highest.max(promised);
        match &mut self.office {
            Office::Candidate(candidacy) if candidacy.ballot == ballot => {
                if older {
                    candidacy.denied.insert(from);
                    if self.cannot_win() {
                        self.stand_aside(host);
                    }
                } else if promised >= ballot {
                    self.depose(host);
                }
            }
            Office::Leader(term) if term.ballot == ballot && promised > ballot => {
                self.depose(host);
            }
            Office::None | Office::Candidate(_) | Office::Leader(_) => {}
        }
    }

    /// Whether the members that have not refused are no majority.
    fn cannot_win(&self) -> bool {
        let Office::Candidate(candidacy) = &self.office else { return false };
        self.electing()
            .any(|members| !members.has_quorum(members.voters.difference(candidacy.denied)))
    }

    /// L1: stands aside for a member with a newer log, or with other voters. Each of the others may
    /// wait for disks as long as this candidacy did before it is the turn of that member; what took
    /// longer than any disk that is tolerated was a stop of this process.
    fn stand_aside<H: Host>(&mut self, host: &mut H) {
        let syncs = match &self.office {
            Office::Candidate(candidacy) => {
                candidacy.synced_at.since(candidacy.began_at).min(TOLERATED_MAX)
            }
            Office::None | Office::Leader(_) => Duration::ZERO,
        };
        let n_others = self.electorate().len().saturating_sub(1) as u32;
        self.depose(host);
        self.standing.retry_at = None;
        self.standing.tries_since = None;
        self.standing.aside_until = Some(self.now.plus(ASIDE_FOR + syncs * n_others));
    }

    pub(super) fn repeat_requests<H: Host>(&mut self, host: &mut H) {
        let Office::Candidate(candidacy) = &self.office else { return };
        if !candidacy.has_asked {
            // The own disk has not taken the promise, so no request was sent. It takes it, or says
            // that it does not, and then this node stands no longer.
            return self.nudge(REPEAT_AFTER);
        }
        let waited = self.now.since(candidacy.synced_at);
        let waits = waited >= REPEAT_AFTER * 4;
        let waits_long = waited >= TRY_FOR;
        if waits_long || waits && !candidacy.denied.is_empty() {
            // The voters that could still agree are silent, or one has refused. And a member that
            // has votes by a newer log, or could lead, may not be among those that this one asks.
            return self.stand_aside(host);
        }
        self.request_votes(host);
    }
}
