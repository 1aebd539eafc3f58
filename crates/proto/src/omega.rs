//! Ω: who should lead. A hint, on which no safety rests (section 3.4 of paper 001).
//!
//! Every member writes a *beat* into every other's region: a counter, whom it hears, whom it trusts.
//! A member whose beat stands still is suspected; one whose death the kernel reported is suspected
//! at once. Of those left, everybody trusts the same.
//!
//! - I1 A beat word has one writer, the member whose beat it is. By construction: its place.
//! - I2 While a leader lives, is heard by a majority and hears a majority, nobody who can be elected
//!   replaces it: a returning member, or one that alone lost sight of it, follows. By the order of
//!   rules in [`Omega::elect`]; test `a_one_way_cut_does_not_unseat_a_leader`.
//! - L1 When links and speeds settle, all who hear a majority trust one and the same able member.
//!   Simulated: the liveness phase.
//!
//! **Differs from the paper.** The paper patches the kernel to learn of a crash; here the fabric
//! reports it (`ProcessFailed`), from a robust futex or a sentinel.

use base::{At, Event, Instant, MAX_MEMBERS, MemberSet, Port, Rank};
use core::time::Duration;

/// How long things take.
#[derive(Clone, Copy, Debug)]
pub struct Timing {
    /// How often a beat is written.
    pub heartbeat_every: Duration,
    /// A beat that stands still for so long means suspicion.
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
/// How many words of the region are Ω's.
pub(crate) const N_WORDS: u32 = LINE * MAX_MEMBERS as u32;

/// What a beat says, in one word.
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
    /// When its counter was last seen to move; `None` before that.
    moved_at: Option<Instant>,
    /// Reported dead; how often its counter has moved since. One write may have been under way when
    /// it died, a second one proves that it lives.
    failed: Option<u8>,
}

/// One member's opinion.
#[derive(Debug)]
pub struct Omega {
    me: Rank,
    members: usize,
    base: At,
    timing: Timing,
    memory_outlives_process: bool,
    own: Beat,
    peers: [Peer; MAX_MEMBERS],
    next_beat_at: Instant,
    polled_at: Option<Instant>,
}

impl Omega {
    /// The opinion of a member that has heard nobody yet.
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
            base,
            timing,
            memory_outlives_process,
            own: Beat { able, ..Beat::default() },
            peers: [Peer::default(); MAX_MEMBERS],
            next_beat_at: Instant::ZERO,
            polled_at: None,
        }
    }

    /// Whom this member trusts to lead.
    pub const fn trusted(&self) -> Option<Rank> {
        self.own.trusted
    }

    /// Members heard lately, this one too.
    pub const fn heard(&self) -> MemberSet {
        self.own.hears
    }

    /// Members heard lately that hold the state and could lead.
    pub fn able(&self) -> MemberSet {
        self.own.hears.iter().filter(|rank| self.beat_of(*rank).able).collect()
    }

    /// Members whose death was reported and that have not been heard since.
    pub fn failed(&self) -> MemberSet {
        Rank::all(self.members).filter(|rank| self.peers[rank.index()].failed.is_some()).collect()
    }

    /// Whether this member holds the state, so that others may trust it.
    pub const fn set_able(&mut self, able: bool) {
        self.own.able = able;
    }

    /// Asks the others to trust somebody else, at once.
    pub fn resign<P: Port>(&mut self, now: Instant, port: &mut P) {
        self.own.resigned = true;
        self.elect();
        self.beat(now, port);
        for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
            port.wake(rank);
        }
    }

    /// When the next beat is due.
    pub const fn deadline(&self) -> Instant {
        self.next_beat_at
    }

    /// Failures that the fabric reports.
    pub fn on_event(&mut self, event: &Event<'_>) {
        if let Event::ProcessFailed(rank) = event
            && *rank != self.me
        {
            self.peers[rank.index()].failed = Some(0);
        }
    }

    /// Looks at the others' beats, forms an opinion, writes the own beat when it is due or when the
    /// opinion changed.
    pub fn poll<P: Port>(&mut self, now: Instant, port: &mut P) {
        // Whoever slept longer than a suspicion takes has no right to one: its peers' beats may be
        // on their way. Everybody gets a fresh start.
        let slept = self.polled_at.is_some_and(|at| now.since(at) > self.timing.suspect_after / 2);
        self.polled_at = Some(now);
        for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
            let beat = Beat::unpack(port.load(self.place(rank)));
            let peer = &mut self.peers[rank.index()];
            let moved = beat.counter != peer.beat.counter;
            if moved && let Some(moves) = peer.failed {
                peer.failed = if moves == 0 { Some(1) } else { None };
            }
            if moved || (slept && peer.moved_at.is_some()) {
                peer.moved_at = Some(now);
            }
            peer.beat = beat;
        }
        let hears =
            Rank::all(self.members).filter(|rank| *rank == self.me || self.hears(*rank, now));
        self.own.hears = hears.collect();
        let before = self.own.trusted;
        self.elect();
        if self.own.trusted != before || now >= self.next_beat_at {
            self.beat(now, port);
        }
    }

    fn hears(&self, rank: Rank, now: Instant) -> bool {
        let peer = &self.peers[rank.index()];
        peer.failed.is_none()
            && peer.moved_at.is_some_and(|at| now.since(at) < self.timing.suspect_after)
    }

    fn beat_of(&self, rank: Rank) -> Beat {
        if rank == self.me { self.own } else { self.peers[rank.index()].beat }
    }

    /// Whether `rank` could get anything decided: it hears a majority. Where memory outlives its
    /// process, the dead count: their acceptors still answer.
    fn is_connected(&self, rank: Rank) -> bool {
        let beyond = if self.memory_outlives_process { self.failed() } else { MemberSet::EMPTY };
        let mut reach = self.beat_of(rank).hears.union(beyond);
        reach.insert(rank);
        reach.is_majority_of(self.members)
    }

    fn is_electable(&self, rank: Rank) -> bool {
        let beat = self.beat_of(rank);
        self.own.hears.contains(rank) && beat.able && !beat.resigned && self.is_connected(rank)
    }

    /// Whether to stay with the leader we have.
    fn keeps(&self, leader: Rank) -> bool {
        if self.own.hears.contains(leader) {
            return self.is_electable(leader);
        }
        // I2: we alone may have lost sight of it. Only a majority's suspicion unseats a leader.
        if self.peers[leader.index()].failed.is_some() {
            return false;
        }
        let deaf = self
            .own
            .hears
            .iter()
            .filter(|rank| !self.beat_of(*rank).hears.contains(leader))
            .count();
        deaf < base::majority(self.members)
    }

    /// Who is trusted: whom a majority of the others already trusts; else the present leader while
    /// it may be kept; else an electable member with the most supporters; else the lowest.
    fn elect(&mut self) {
        let supporters = |of: Rank| {
            let hears = self.own.hears.iter().filter(|rank| *rank != self.me);
            hears.filter(|rank| self.beat_of(*rank).trusted == Some(of)).count()
        };
        let electable: MemberSet =
            Rank::all(self.members).filter(|rank| self.is_electable(*rank)).collect();
        let established = electable.iter().find(|rank| {
            // It must claim the lead itself, or two old opinions could hold each other up.
            self.beat_of(*rank).trusted == Some(*rank)
                && supporters(*rank) >= base::majority(self.members)
        });
        let kept = self.own.trusted.filter(|leader| self.keeps(*leader));
        self.own.trusted = established.or(kept).or_else(|| {
            let claims = |rank: &Rank| self.beat_of(*rank).trusted == Some(*rank);
            electable
                .iter()
                .filter(claims)
                .max_by_key(|rank| (supporters(*rank), MAX_MEMBERS - rank.index()))
                .or_else(|| electable.iter().next())
        });
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
