//! Ω: the member that should lead. It is a hint, on which no safety rests (section 3.4 of paper
//! 001).
//!
//! Every member writes a *beat* into every other's region: a counter, the members that it hears,
//! and the one that it trusts. A member whose beat stands still is suspected; one whose death the
//! kernel reported is suspected at once. All members trust the same one of those left.
//!
//! - I1 A beat word has one writer, the member whose beat it is. By construction: its place.
//! - I2 While a leader lives, is heard by a majority and hears a majority, no electable member
//!   replaces it: a returning member, or one that alone lost contact with it, follows. By the order
//!   of rules in `Omega::elect`; test `a_one_way_cut_does_not_unseat_a_leader`.
//! - I3 Only voters are trusted, and only voters count towards a majority: the opinion of a member
//!   without a vote has no effect. Tests `a_majority_is_one_of_the_voters`,
//!   `who_has_no_vote_is_not_trusted`.
//! - I4 The winner of the last election that this member knows of is trusted while it is heard,
//!   able, and claims the lead, whether or not this member's log names it or those that it hears: a
//!   member that is behind follows. By construction: `Omega::has_won`; test
//!   `who_won_an_election_is_followed_by_one_that_does_not_know_it_for_a_voter`.
//! - I5 Where voters change, a member that hears no majority of the voters that it knows says that
//!   it is not able: others, which know of other voters, would wait for it in vain. By
//!   construction: [`Omega::poll`]; test
//!   `who_hears_no_majority_of_the_voters_that_it_knows_is_not_waited_for`.
//! - L1 (simulated, and `all_come_to_trust_one_…` below) When links and speeds settle, all members
//!   that hear a majority trust one and the same able member. The simulator's liveness phase
//!   demands it.
//!
//! **Differs from the paper.** The paper patches the kernel to learn of a crash; here the fabric
//! reports it (`ProcessFailed`), from a robust futex or a sentinel.

use base::{At, Event, Instant, MAX_MEMBERS, MemberSet, Port, Rank};
use core::time::Duration;

/// The durations of Ω.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// The interval at which a beat is written.
    pub heartbeat_every: Duration,
    /// The time after which a beat that stands still leads to suspicion.
    pub suspect_after: Duration,
}

impl Default for Timing {
    fn default() -> Timing {
        Timing {
            heartbeat_every: Duration::from_millis(20),
            suspect_after: Duration::from_millis(300),
        }
    }
}

/// One word a member, a cache line apart.
const LINE: u32 = 8;
/// The number of words in the region that are Ω's.
pub const N_WORDS: u32 = LINE * MAX_MEMBERS as u32;

/// The content of a beat, in one word.
///
/// ```text
///  63               16  15        14     11..8          6..0
/// +------------------+----------+------+--------------+------------+
/// |     counter      | resigned | able | trusted + 1  | hears mask |
/// +------------------+----------+------+--------------+------------+
/// ```
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
struct Beat {
    counter: u64,
    resigned: bool,
    able: bool,
    trusted: Option<Rank>,
    hears: MemberSet,
}

impl Beat {
    fn pack(self) -> u64 {
        self.counter << 16
            | u64::from(self.resigned) << 15
            | u64::from(self.able) << 14
            | self.trusted.map_or(0, |rank| rank.index() as u64 + 1) << 8
            | u64::from(self.hears.bits())
    }

    /// The word without the counter.
    const fn says(raw: u64) -> u64 {
        raw & 0xffff
    }

    fn unpack(raw: u64) -> Beat {
        Beat {
            counter: raw >> 16,
            resigned: raw & 1 << 15 != 0,
            able: raw & 1 << 14 != 0,
            trusted: ((raw >> 8 & 0xf) as usize).checked_sub(1).and_then(Rank::new),
            hears: MemberSet::from_bits(raw as u8),
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Peer {
    beat: Beat,
    /// The beat as it was read.
    word: u64,
    /// The time at which its counter was last seen to move; `None` before that.
    moved_at: Option<Instant>,
    /// The number of moves of its counter since its death was reported, if it was. One write may
    /// have been under way when it died, a second one proves that it lives.
    failed: Option<u8>,
}

/// One member's opinion.
#[derive(Debug)]
pub struct Omega {
    me: Rank,
    members: usize,
    /// The members whose votes count.
    voters: MemberSet,
    /// Whether voters may change, so that members may know of different ones.
    voters_change: bool,
    /// Whether the machine could lead.
    holds_state: bool,
    /// The members that lose their vote by an undecided change: one that leads has to decide it.
    leaving: MemberSet,
    /// The winner of the last election that this member knows of.
    elected: Option<Rank>,
    base: At,
    timing: Timing,
    memory_outlives_process: bool,
    own: Beat,
    peers: [Peer; MAX_MEMBERS],
    next_beat_at: Instant,
    polled_at: Option<Instant>,
    /// The time until which the opinion stands, unless a beat says something else or the fabric
    /// reports a failure: polls are far more frequent than news.
    settled_until: Instant,
}

impl Omega {
    /// The opinion of a member that has not heard any other yet.
    pub fn new(
        me: Rank,
        members: usize,
        base: At,
        timing: Timing,
        memory_outlives_process: bool,
        able: bool,
    ) -> Omega {
        Omega {
            me,
            members,
            voters: MemberSet::all(members),
            voters_change: false,
            holds_state: able,
            leaving: MemberSet::EMPTY,
            elected: None,
            base,
            timing,
            memory_outlives_process,
            own: Beat { able, ..Beat::default() },
            peers: [Peer::default(); MAX_MEMBERS],
            next_beat_at: Instant::ZERO,
            polled_at: None,
            settled_until: Instant::ZERO,
        }
    }

    /// The member that this one trusts to lead.
    pub const fn trusted(&self) -> Option<Rank> {
        self.own.trusted
    }

    /// The members heard lately, including this one.
    pub const fn heard(&self) -> MemberSet {
        self.own.hears
    }

    /// A member that is heard and says that it hears `rank`, which this one may not hear.
    pub fn between(&self, rank: Rank) -> Option<Rank> {
        let others = self.own.hears.iter().filter(|other| *other != self.me && *other != rank);
        others.into_iter().find(|other| self.beat_of(*other).hears.contains(rank))
    }

    /// The members heard lately that hold the state and could lead.
    pub fn able(&self) -> MemberSet {
        self.own.hears.iter().filter(|rank| self.beat_of(*rank).able).collect()
    }

    /// The members whose death was reported and that have not been heard since.
    pub fn failed(&self) -> MemberSet {
        Rank::all(self.members).filter(|rank| self.peers[rank.index()].failed.is_some()).collect()
    }

    /// Sets whether this member holds the state, so that others may trust it.
    pub const fn set_able(&mut self, able: bool) {
        if self.holds_state != able {
            self.holds_state = able;
            self.settled_until = Instant::ZERO;
        }
    }

    /// Sets the members that may lead and whose hearing counts; at first all do. One of `leaving`
    /// may continue to lead.
    pub fn set_voters(&mut self, voters: MemberSet, leaving: MemberSet) {
        self.voters_change = true;
        if (self.voters, self.leaving) != (voters, leaving) {
            (self.voters, self.leaving) = (voters, leaving);
            self.settled_until = Instant::ZERO;
        }
    }

    /// Sets the winner of the last election that this member knows of.
    pub fn set_elected(&mut self, elected: Option<Rank>) {
        if self.elected != elected {
            self.elected = elected;
            self.settled_until = Instant::ZERO;
        }
    }

    /// The number of voters that make a majority.
    const fn quorum(&self) -> usize {
        base::majority(self.voters.len())
    }

    /// Asks the others to trust another member, at once.
    pub fn resign<P: Port>(&mut self, now: Instant, port: &mut P) {
        self.own.resigned = true;
        self.settled_until = Instant::ZERO;
        self.elect();
        self.beat(now, port);
        for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
            port.wake(rank);
        }
    }

    /// The time at which the next beat is due.
    pub const fn deadline(&self) -> Instant {
        self.next_beat_at
    }

    /// Takes the failures that the fabric reports.
    pub fn on_event(&mut self, event: &Event<'_>) {
        if let Event::ProcessFailed(rank) = event
            && *rank != self.me
        {
            self.peers[rank.index()].failed = Some(0);
            self.settled_until = Instant::ZERO;
        }
    }

    /// Reads the others' beats, forms an opinion, and writes the own beat when it is due or when
    /// the opinion changed.
    pub fn poll<P: Port>(&mut self, now: Instant, port: &mut P) {
        if now < self.settled_until && self.is_no_news(now, port) {
            self.polled_at = Some(now);
            return;
        }
        // A member that slept longer than a suspicion takes must not suspect others: their beats
        // may be on their way. Each member that was heard before gets a new deadline.
        let slept = self.polled_at.is_some_and(|at| now.since(at) > self.timing.suspect_after / 2);
        self.polled_at = Some(now);
        for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
            let word = port.load(self.place(rank));
            let beat = Beat::unpack(word);
            let peer = &mut self.peers[rank.index()];
            peer.word = word;
            let moved = beat.counter != peer.beat.counter;
            if moved && let Some(moves) = peer.failed {
                peer.failed = if moves == 0 { Some(1) } else { None };
            }
            if moved || (slept && self.own.hears.contains(rank)) {
                peer.moved_at = Some(now);
            }
            peer.beat = beat;
        }
        let hears =
            Rank::all(self.members).filter(|rank| *rank == self.me || self.hears(*rank, now));
        self.own.hears = hears.collect();
        // I5
        self.own.able = self.holds_state && (!self.voters_change || self.is_connected(self.me));
        let before = self.own.trusted;
        self.elect();
        if self.own.trusted != before || now >= self.next_beat_at {
            self.beat(now, port);
        }
        // A new opinion may lead to another; a settled one changes with time only at these times.
        self.settled_until = if self.own.trusted == before {
            let suspicions = self.own.hears.iter().filter_map(|rank| {
                let moved_at = self.peers[rank.index()].moved_at?;
                Some(moved_at.plus(self.timing.suspect_after))
            });
            let oversleeping = now.plus(self.timing.suspect_after / 2);
            suspicions.fold(self.next_beat_at.min(oversleeping), Instant::min)
        } else {
            Instant::ZERO
        };
    }

    /// Whether no beat says anything new: of each that moved, only the counter did, and its member
    /// is heard anyway. That is a sign of life, which is noted, and no reason for another opinion.
    fn is_no_news<P: Port>(&mut self, now: Instant, port: &P) -> bool {
        let me = self.me;
        Rank::all(self.members).filter(|rank| *rank != me).all(|rank| {
            let word = port.load(self.place(rank));
            let peer = &mut self.peers[rank.index()];
            let is_still = word == peer.word;
            let is_life = self.own.hears.contains(rank)
                && peer.failed.is_none()
                && Beat::says(word) == Beat::says(peer.word);
            if !is_still && is_life {
                peer.word = word;
                peer.beat = Beat::unpack(word);
                peer.moved_at = Some(now);
            }
            is_still || is_life
        })
    }

    fn hears(&self, rank: Rank, now: Instant) -> bool {
        let peer = &self.peers[rank.index()];
        peer.failed.is_none()
            && peer.moved_at.is_some_and(|at| now.since(at) < self.timing.suspect_after)
    }

    fn beat_of(&self, rank: Rank) -> Beat {
        if rank == self.me { self.own } else { self.peers[rank.index()].beat }
    }

    /// Whether `rank` could get anything decided, since it hears a majority. Where memory outlives
    /// its process, dead members count: their acceptors still answer.
    fn is_connected(&self, rank: Rank) -> bool {
        let beyond = if self.memory_outlives_process { self.failed() } else { MemberSet::EMPTY };
        let mut reach = self.beat_of(rank).hears.union(beyond);
        reach.insert(rank);
        reach.intersection(self.voters).len() >= self.quorum()
    }

    /// Whether `rank` may lead. Only voters may; but about this member its own machine knows better
    /// (`able`): one that is about to lose its vote may hold the only copy of the change that
    /// removes it.
    fn may_lead(&self, rank: Rank) -> bool {
        let leaves = self.leaving.contains(rank) && self.claims(rank);
        rank == self.me || self.voters.contains(rank) || leaves
    }

    fn is_electable(&self, rank: Rank) -> bool {
        let beat = self.beat_of(rank);
        self.own.hears.contains(rank)
            && beat.able
            && !beat.resigned
            && (self.has_won(rank) || (self.may_lead(rank) && self.is_connected(rank)))
    }

    /// I4: whether a majority elected `rank`, which still claims the lead and therefore hears a
    /// majority (it knows the voters better than this member, which may be behind).
    fn has_won(&self, rank: Rank) -> bool {
        self.elected == Some(rank) && self.claims(rank)
    }

    /// Whether `rank` claims the lead.
    fn claims(&self, rank: Rank) -> bool {
        self.beat_of(rank).trusted == Some(rank)
    }

    /// Whether to keep the present leader.
    fn keeps(&self, leader: Rank) -> bool {
        if self.own.hears.contains(leader) {
            // A member that trusts another does not lead: two that trust each other would wait for
            // ever.
            return self.is_electable(leader) && self.claims(leader);
        }
        // I2: perhaps only this member has lost contact. Only a majority's suspicion unseats a
        // leader.
        if self.peers[leader.index()].failed.is_some() {
            return false;
        }
        let heard_voters = self.own.hears.intersection(self.voters);
        let deaf =
            heard_voters.iter().filter(|rank| !self.beat_of(*rank).hears.contains(leader)).count();
        self.may_lead(leader) && deaf < self.quorum()
    }

    /// Chooses the trusted member: the winner of an election, while it claims the lead (I4); else
    /// one that a majority of the others already trusts; else the present leader while it may be
    /// kept; else an electable member with the most supporters; else the lowest.
    fn elect(&mut self) {
        let supporters = |of: Rank| {
            let hears = self.own.hears.intersection(self.voters);
            let others = hears.iter().filter(|rank| *rank != self.me);
            others.filter(|rank| self.beat_of(*rank).trusted == Some(of)).count()
        };
        // The rarest conditions come first: whether a member is electable costs the most.
        let established = || {
            Rank::all(self.members).find(|rank| {
                // It must claim the lead itself, or two old opinions could keep each other alive.
                self.claims(*rank) && supporters(*rank) >= self.quorum() && self.is_electable(*rank)
            })
        };
        // If two claim the lead, and no majority settles it, the lower one has it.
        let contested = |leader: Rank| {
            let is_rival = |rank: Rank| self.claims(rank) && self.is_electable(rank);
            leader == self.me
                && supporters(leader) + 1 < self.quorum()
                && Rank::all(leader.index()).any(is_rival)
        };
        let kept = || self.own.trusted.filter(|at| self.keeps(*at) && !contested(*at));
        let best = || {
            let electable: MemberSet =
                Rank::all(self.members).filter(|rank| self.is_electable(*rank)).collect();
            electable
                .iter()
                .filter(|rank| self.claims(*rank))
                .max_by_key(|rank| (supporters(*rank), MAX_MEMBERS - rank.index()))
                .or_else(|| electable.iter().next())
        };
        let won = self.elected.filter(|rank| self.has_won(*rank) && self.is_electable(*rank));
        self.own.trusted = won.or_else(established).or_else(kept).or_else(best);
    }

    fn beat<P: Port>(&mut self, now: Instant, port: &mut P) {
        self.own.counter += 1;
        self.next_beat_at = now.plus(self.timing.heartbeat_every);
        let word = self.own.pack();
        port.store(self.place(self.me), word);
        for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
            port.write(rank, self.place(self.me), &[word], None);
        }
    }

    fn place(&self, rank: Rank) -> At {
        self.base.plus(LINE * rank.index() as u32)
    }
}

#[cfg(test)]
mod tests;
