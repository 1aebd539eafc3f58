//! Linearizable reads at the leader: by a lease, else by a round of questions.
//!
//! A leader asks every acceptor whether it has promised nothing later. What a majority answers
//! serves the reads that came before the question left; and a member that answers grants a lease:
//! for [`LEASE`] it promises nothing to others. Until the lease of a majority has surely run out no
//! other leader can decide, so the state here holds all that was acknowledged.
//!
//! - L1 A member that grants promises nothing to another proposer until [`LEASE`] has passed on its
//!   clock, counted from a time that was told *after* the question came: what a turn is told at its
//!   beginning may be long ago when its messages are read. By construction: `Grant::tick`, the
//!   one place where a grant's end is set. Simulated (`IGNORE_GRANT`, `GRANT_FROM_OLD_TIME`).
//! - L2 A leader counts a grant for [`COUNTED`] on its clock from when its question left: with both
//!   clocks' rates at most [`CLOCK_RATE_PERMILLE`] from true that ends before the grant does.
//!   Simulated (`LEASE_FROM_ANSWER`, `IGNORE_RATE`).
//! - L3 A process that comes back does not know what its predecessor granted: it acts as if that
//!   had been a moment before its start, to the proposer of its promise. It can have been to no
//!   other (L1, P2). By construction: `Grant::of_an_earlier_life`. Simulated (`FORGET_GRANT`).
//! - L4 A question serves the reads that came before it left. By construction: `on_granted`.
//!   Simulated (`ANY_ANSWER_SERVES`, `READ_WITHOUT_CHECK`).
//!
//! A leader that dies costs its successor up to [`LEASE`]: so nothing grants but a question, and
//! questions follow reads. A log that is written only changes its leader at once.

use super::*;

/// How long an acceptor keeps what it grants.
pub const LEASE: Duration = Duration::from_millis(50);

/// How far any clock's rate may be from true, in thousandths.
pub const CLOCK_RATE_PERMILLE: u32 = 100;

/// How long a leader counts on a grant (L2).
pub const COUNTED: Duration = Duration::from_nanos(
    LEASE.as_nanos() as u64 * (1000 - CLOCK_RATE_PERMILLE) as u64
        / (1000 + CLOCK_RATE_PERMILLE) as u64,
);

/// A lease of which less is left is renewed by the next read.
const RENEWED_BELOW: Duration = Duration::from_millis(20);

/// How many checks may be under way.
const CHECKS_MAX: usize = 256;

/// A check for the reads of one ticket.
#[derive(Clone, Copy, Debug)]
pub(super) struct Check {
    pub(super) ticket: Ticket,
    /// The first question that serves it.
    number: u64,
}

/// When a grant ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum End {
    /// [`LEASE`] after the first time that is later than this.
    After(Option<Instant>),
    At(Instant),
}

/// The member that has the grant, and those that have asked meanwhile.
#[derive(Clone, Copy, Debug)]
pub(super) struct Grant {
    holder: Option<Rank>,
    end: End,
    /// The highest that had to wait: its sender, ballot and stream, and from where on.
    deferred: Option<(Rank, (Ballot, u64), Prefix)>,
}

impl Grant {
    /// What an earlier life may have granted to `holder` (L3).
    pub(super) fn of_an_earlier_life(holder: Option<Rank>, planted: impl Planting<Bug>) -> Grant {
        let holder = holder.filter(|_| !planted.has(Bug::ForgetGrant));
        Grant { holder, end: End::After(None), deferred: None }
    }

    /// It is `now`.
    pub(super) fn tick(&mut self, now: Instant) {
        match self.end {
            End::After(told) if told.is_none_or(|told| told < now) => {
                self.end = End::At(now.plus(LEASE));
            }
            End::At(end) if end <= now => self.holder = None,
            End::After(_) | End::At(_) => {}
        }
    }
}

impl<P: Planting<Bug>> MultiPaxos<P> {
    /// Whether a grant keeps this member from promising `to` anything (L1).
    pub(super) fn blocks(&self, to: Rank) -> bool {
        let is_other = self.grant.holder.is_some_and(|holder| holder != to);
        is_other && !self.planted.has(Bug::IgnoreGrant)
    }

    /// The member that has this one's grant at this time of its clock, for judges.
    pub(super) fn granted_to(&self, now: Instant) -> Option<Rank> {
        self.grant.holder.filter(|_| match self.grant.end {
            End::After(_) => true,
            End::At(end) => now < end,
        })
    }

    /// When a promise that has to wait for a grant's end is due.
    pub(super) fn grant_deadline(&self) -> Option<Instant> {
        let waits = self.grant.deferred.is_some() || self.trusted;
        match self.grant.end {
            End::At(end) if waits && self.grant.holder.is_some() => Some(end),
            End::After(told) if waits && self.grant.holder.is_some() => {
                Some(Instant(told.unwrap_or_default().0 + 1))
            }
            End::At(_) | End::After(_) => None,
        }
    }

    pub(super) fn defer_prepare(&mut self, from: Rank, of: (Ballot, u64), first: Prefix) {
        if self.grant.deferred.is_none_or(|(_, before, _)| before <= of) {
            self.grant.deferred = Some((from, of, first));
        }
    }

    /// Drops the one that had to wait, if a later stream of its ballot begins: its sender does not
    /// read what belongs to an earlier one.
    pub(super) fn drop_deferred(&mut self, (ballot, stream): (Ballot, u64)) {
        if self.grant.deferred.is_some_and(|(_, of, _)| of.0 == ballot && of.1 <= stream) {
            self.grant.deferred = None;
        }
    }

    pub(super) fn take_deferred_prepare<H: Host>(&mut self, host: &mut H) {
        if let Some((from, of, first)) = self.grant.deferred
            && !self.blocks(from)
        {
            self.grant.deferred = None;
            self.on_prepare(from, of, first, host);
        }
    }

    /// Reads have come, under `ticket`.
    pub(super) fn start_check<H: Host>(&mut self, ticket: Ticket, host: &mut H) {
        let is_leased = self.lease_left().is_some() || self.planted.has(Bug::ReadWithoutCheck);
        let now = self.now;
        let Office::Leader(term) = &mut self.office else {
            return host.notify(Note::ReadRefused(ticket));
        };
        if !term.announced || term.checks.len() >= CHECKS_MAX {
            return host.notify(Note::ReadRefused(ticket));
        }
        if is_leased {
            host.notify(Note::ReadReady(ticket));
            let is_asked = now.since(term.asked_at) < RENEWED_BELOW;
            if self.lease_left().is_some_and(|left| left < RENEWED_BELOW) && !is_asked {
                self.ask(host);
            }
            return;
        }
        let number = term.n_asked + 1;
        term.checks.push(Check { ticket, number });
        self.ask(host);
        self.end_checks(host);
    }

    /// How long a majority's grants still hold, on this clock.
    fn lease_left(&self) -> Option<Duration> {
        let Office::Leader(term) = &self.office else { return None };
        if self.members == 1 {
            return Some(LEASE);
        }
        let peers = self.peers().map(|rank| term.peers[rank.index()].lease_from);
        let mut from: Vec<Option<Instant>> = peers.collect();
        from.sort_unstable_by(|a, b| b.cmp(a));
        let counted = if self.planted.has(Bug::IgnoreRate) { LEASE } else { COUNTED };
        // The own acceptor promises nothing to others without ending the term.
        let last = if self.planted.has(Bug::LeaseOfOne) { 0 } else { self.quorum() - 2 };
        let end = from.get(last).copied().flatten()?.plus(counted);
        (self.now < end).then(|| end.since(self.now))
    }

    fn ask<H: Host>(&mut self, host: &mut H) {
        let now = self.now;
        let Office::Leader(term) = &mut self.office else { return };
        term.n_asked += 1;
        term.asked_at = now;
        let message = Message::Ask { ballot: term.ballot, number: term.n_asked, at: now };
        for rank in self.peers() {
            self.post(rank, &message, host);
        }
        self.nudge(PATIENCE);
    }

    /// What was lost with a link is asked for again: the answer serves all checks before.
    pub(super) fn repeat_ask<H: Host>(&mut self, host: &mut H) {
        let Office::Leader(term) = &self.office else { return };
        if !term.checks.is_empty() {
            if self.now.since(term.asked_at) >= PATIENCE {
                self.ask(host);
            }
            self.nudge(PATIENCE);
        }
    }

    /// The leader of `ballot` asks whether something later is promised.
    pub(super) fn on_ask<H: Host>(
        &mut self,
        from: Rank,
        ballot: Ballot,
        (number, at): (u64, Instant),
        host: &mut H,
    ) {
        let promised = self.acceptor.promised();
        if ballot < promised {
            self.post(from, &Message::Denied { ballot, promised }, host);
        } else if ballot == promised && ballot.proposer() == Some(from) {
            self.grant.holder = Some(from);
            self.grant.end = match self.planted.has(Bug::GrantFromOldTime) {
                false => End::After(Some(self.now)),
                true => End::At(self.now.plus(LEASE)),
            };
            self.post(from, &Message::Granted { ballot, number, at }, host);
        }
    }

    pub(super) fn on_granted<H: Host>(
        &mut self,
        from: Rank,
        ballot: Ballot,
        (number, at): (u64, Instant),
        host: &mut H,
    ) {
        let now = self.now;
        let Office::Leader(term) = &mut self.office else { return };
        // (A clock of this node never shows what is to come.)
        if term.ballot != ballot || number > term.n_asked || at > now {
            return;
        }
        let peer = &mut term.peers[from.index()];
        peer.answered = peer.answered.max(number);
        if self.planted.has(Bug::AnyAnswerServes) {
            peer.answered = u64::MAX;
        }
        let from = if self.planted.has(Bug::LeaseFromAnswer) { now } else { at };
        peer.lease_from = peer.lease_from.max(Some(from));
        self.end_checks(host);
    }

    fn end_checks<H: Host>(&mut self, host: &mut H) {
        let (me, quorum) = (self.me, self.quorum());
        let ranks: MemberSet = Rank::all(self.members).collect();
        let Office::Leader(term) = &mut self.office else { return };
        let is_done = |check: &Check| {
            let has_answered =
                |rank: &Rank| *rank == me || term.peers[rank.index()].answered >= check.number;
            ranks.iter().filter(has_answered).count() >= quorum
        };
        let n_done = term.checks.iter().take_while(|check| is_done(check)).count();
        for check in term.checks.drain(..n_done) {
            host.notify(Note::ReadReady(check.ticket));
        }
    }
}
