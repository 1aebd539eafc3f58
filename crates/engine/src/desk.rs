//! Where the service lays down what its clients want, and reads how the replica stands.
//!
//! - I1 what a client asked is laid down here until it is answered or its deadline passes: no
//!   request waits longer than its patience. By `Core::sweep`.
//! - I2 a read is performed only after a check that began when the read was already here. By
//!   construction: a round takes what is waiting when it begins, and nothing joins it later.
//! - I3 the answers to reads that one turn makes are bounded by [`SLICE_BYTES`] and one answer, so
//!   that nothing else waits for them: the rest of a round is performed in the next turns. By
//!   `Desk::has_slice`.

use crate::config::Bounds;
use crate::outbox::{Outbox, Sequence};
use crate::seats::{CHANGES_MAX, Parted, Wanted};
use crate::service::Asker;
use base::{Ballot, Incarnation, Instant, MAX_MEMBERS, MemberSet, Prefix, Rank};
use core::time::Duration;
use proto::members::{Change, Configuration};
use proto::{Role, Ticket};
use std::collections::VecDeque;

/// How long a client's request may take before its outcome is called unknown.
pub const PATIENCE: Duration = Duration::from_secs(5);

/// The most reads that wait here; then the door stops reading its clients.
pub const READS_MAX: usize = 16_384;

/// The most WAITs at a time.
pub const WAITS_MAX: usize = 4096;

/// How long a new incarnation is waited for before its seat may be forgotten.
const RENEWAL_WITHIN: Duration = Duration::from_secs(60);

/// How many checks may be under way, or over with reads that are not performed, at a time.
pub(crate) const ROUNDS_MAX: usize = 4;

/// See I3: about a millisecond's work.
pub const SLICE_BYTES: usize = 2 << 20;

/// What performing a read takes beside its answer, in bytes of it.
const READ_COST_BYTES: usize = 256;

/// How the replica stands, as of the present turn.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// Which member this is.
    pub me: Rank,
    /// How many there are.
    pub members: usize,
    /// What it is.
    pub role: Role,
    /// Its ballot, or the highest that it knows.
    pub ballot: Ballot,
    /// Every slot below is decided, as far as it knows.
    pub committed: Prefix,
    /// Every slot below is executed here.
    pub applied: Prefix,
    /// The member that it trusts to lead.
    pub trusted: Option<Rank>,
    /// The members that it has heard lately.
    pub heard: MemberSet,
    /// The members among them that can give the state: by their disks, or, where states live in
    /// memory, because they hold it.
    pub able: MemberSet,
    /// What each member is known to have executed.
    pub applied_by: [Prefix; MAX_MEMBERS],
    /// No live member holds the state: it is lost.
    pub data_lost: bool,
    /// The next process of this member finds what is executed here, as far as it finds anything: no
    /// state of another member waits for the disk or for the machine.
    pub is_kept: bool,
    /// The members, if they can change and are known here.
    pub configuration: Option<Configuration>,
    /// The incarnation of the disk on this member's seat.
    pub incarnation: Incarnation,
    /// It takes part no more: the process has nothing left to do.
    pub parted: Option<Parted>,
}

impl View {
    /// Before the first turn.
    pub fn new(me: Rank, members: usize) -> View {
        View {
            me,
            members,
            role: Role::Learner,
            ballot: Ballot::NONE,
            committed: Prefix::ZERO,
            applied: Prefix::ZERO,
            trusted: None,
            heard: MemberSet::EMPTY,
            able: MemberSet::EMPTY,
            applied_by: [Prefix::ZERO; MAX_MEMBERS],
            data_lost: false,
            is_kept: true,
            configuration: None,
            incarnation: Incarnation::FIRST,
            parted: None,
        }
    }

    /// Whether clients of this member are answered: it leads, or hears the member that does.
    pub fn is_led(&self) -> bool {
        match self.role {
            Role::Leader => true,
            Role::Follower => self.trusted.is_some_and(|leader| self.heard.contains(leader)),
            Role::Candidate | Role::Learner => false,
        }
    }
}

/// Something that a client wants, taken from the desk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Laid<'a> {
    /// A command for the log.
    Write(Asker, &'a [u8]),
    /// A read; the service has its bytes.
    Read(Asker),
    /// A count of the members that hold what was written.
    Wait(Asker),
}

/// A request whose deadline passed while it was queued.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Overdue {
    /// A command for the log: it is not executed.
    Write(Asker),
    /// A read.
    Read(Asker),
}

/// The client or member that waits for a read.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Reader {
    /// A client of this member, with its connection's state.
    Own(Asker),
    /// A read in words: another member's client's, or an own one that came back. The bytes lie in
    /// the round's buffer.
    Described { origin: Rank, life: u64, id: u64, start: usize, len: usize },
}

#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) reader: Reader,
    pub(crate) deadline: Instant,
}

/// Reads that share one check.
#[derive(Debug, Default)]
pub(crate) struct Round {
    pub(crate) readers: Vec<Waiting>,
    pub(crate) bytes: Vec<u8>,
}

impl Round {
    pub(crate) fn own(&mut self, asker: Asker, deadline: Instant) {
        self.readers.push(Waiting { reader: Reader::Own(asker), deadline });
    }

    pub(crate) fn described(
        &mut self,
        origin: Rank,
        life: u64,
        id: u64,
        read: &[u8],
        deadline: Instant,
    ) {
        let (start, len) = (self.bytes.len(), read.len());
        self.bytes.extend_from_slice(read);
        let reader = Reader::Described { origin, life, id, start, len };
        self.readers.push(Waiting { reader, deadline });
    }

    /// Moves everything of `other` behind what is here.
    pub(crate) fn join(&mut self, other: &mut Round) {
        let moved_by = self.bytes.len();
        self.bytes.append(&mut other.bytes);
        self.readers.extend(other.readers.drain(..).map(|mut waiting| {
            if let Reader::Described { start, .. } = &mut waiting.reader {
                *start += moved_by;
            }
            waiting
        }));
    }

    fn clear(&mut self) {
        self.readers.clear();
        self.bytes.clear();
    }
}

/// One WAIT.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Wait {
    pub(crate) asker: Asker,
    pub(crate) prefix: Prefix,
    pub(crate) n: usize,
    pub(crate) deadline: Option<Instant>,
}

/// A new incarnation that was begun from here, and has no vote yet as far as is known.
#[derive(Clone, Copy, Debug)]
struct Renewal {
    rank: Rank,
    /// The one that it replaces.
    before: Incarnation,
    until: Instant,
}

/// See the module's text.
#[derive(Debug)]
pub struct Desk {
    pub(crate) now: Instant,
    pub(crate) view: View,
    pub(crate) patience: Duration,
    pub(crate) writes: Outbox,
    /// Own reads that the leader is asked to perform.
    pub(crate) asked: Outbox,
    /// Reads that no check has begun for.
    pub(crate) waiting: Round,
    /// Reads that wait until time has been decided.
    pub(crate) after_tick: Round,
    pub(crate) waits: Vec<Wait>,
    /// Changes of the members that an operator wants.
    pub(crate) wanted: Wanted,
    renewal: Option<Renewal>,
    rounds: VecDeque<(Ticket, Round)>,
    spare: Vec<Round>,
    next_ticket: u64,
    /// Rounds whose check succeeded and whose turn to be performed comes, in order.
    ripe: VecDeque<Round>,
    /// What this turn may still answer (I3).
    slice_bytes: usize,
    bounds: Bounds,
}

impl Desk {
    /// An empty one.
    pub fn new(view: View, patience: Duration) -> Desk {
        Desk::bounded(view, patience, Bounds::default())
    }

    /// An empty one with these bounds.
    pub fn bounded(view: View, patience: Duration, bounds: Bounds) -> Desk {
        Desk {
            now: Instant::ZERO,
            view,
            patience,
            writes: Outbox::new(bounds.span),
            asked: Outbox::new(bounds.span),
            waiting: Round::default(),
            after_tick: Round::default(),
            waits: Vec::new(),
            wanted: Wanted::new(),
            renewal: None,
            rounds: VecDeque::new(),
            spare: Vec::new(),
            next_ticket: 0,
            ripe: VecDeque::new(),
            slice_bytes: bounds.slice_bytes,
            bounds,
        }
    }

    /// This turn's time.
    pub fn now(&self) -> Instant {
        self.now
    }

    /// How the replica stands.
    pub fn view(&self) -> &View {
        &self.view
    }

    /// Whether the service may lay down more; if not, it stops reading its clients for this turn.
    pub fn has_room(&self) -> bool {
        let rounds = self.rounds.iter().map(|(_, round)| round).chain(&self.ripe); // a few
        let waiting = rounds.chain([&self.waiting, &self.after_tick]);
        let n_reads: usize = waiting.map(|round| round.readers.len()).sum();
        self.writes.has_room() && self.asked.has_room() && n_reads < self.bounds.reads
    }

    /// Lays down a command for the log. Its end is [`crate::Door::answer`].
    pub fn write(&mut self, asker: Asker, command: &[u8]) -> Sequence {
        self.writes.push(asker, command, self.now.plus(self.patience))
    }

    /// Lays down a read. Its end is [`crate::Door::perform`] or [`crate::Door::answer_read`].
    pub fn read(&mut self, asker: Asker) {
        self.waiting.own(asker, self.now.plus(self.patience));
    }

    /// Asks to be told when `n` members besides the leader hold `prefix` in memory, or after
    /// `timeout` (`None`: for ever, as Redis does; a client that leaves is found by the service).
    /// Its end is [`crate::Door::answer_wait`]. False if there are [`WAITS_MAX`] already.
    #[must_use]
    pub fn wait(
        &mut self,
        asker: Asker,
        prefix: Prefix,
        n: usize,
        timeout: Option<Duration>,
    ) -> bool {
        let room = self.waits.len() < WAITS_MAX;
        if room {
            let deadline = timeout.map(|span| self.now.plus(span));
            self.waits.push(Wait { asker, prefix, n, deadline });
        }
        room
    }

    /// A new turn, for a service that has no replica's loop behind it.
    pub fn turn(&mut self, now: Instant, view: View) {
        (self.now, self.view) = (now, view);
    }

    /// Hands over what was laid down, until `take` returns false (that and the rest stay): for a
    /// service that brings it into an order by itself, and then keeps to its deadlines.
    pub fn take(&mut self, mut take: impl FnMut(Laid<'_>) -> bool) {
        self.writes.drain(|asker, command| take(Laid::Write(asker, command)));
        let mut is_open = true;
        self.waiting.readers.retain(|waiting| {
            let Reader::Own(asker) = waiting.reader else { return false };
            is_open = is_open && take(Laid::Read(asker));
            !is_open
        });
        self.waits.retain(|wait| {
            is_open = is_open && take(Laid::Wait(wait.asker));
            !is_open
        });
    }

    /// Ends what was laid down, was not taken, and has passed its deadline (I1): for a service that
    /// [`Desk::take`]s it.
    pub fn expire(&mut self, mut expired: impl FnMut(Overdue)) {
        self.writes.expire(self.now, |asker| expired(Overdue::Write(asker)));
        self.expire_reads(|asker| expired(Overdue::Read(asker)));
    }

    /// Lays down a change of the members. Its end is [`crate::Door::answer_change`]. False if
    /// there are too many already.
    #[must_use]
    pub fn change(&mut self, asker: Asker, change: Change) -> bool {
        let room = self.wanted.len() < CHANGES_MAX;
        if room {
            self.wanted.push_back((asker, change, self.now.plus(self.patience)));
        }
        room
    }

    /// The supervisor was told to begin a new incarnation on `rank`: from now on the old one is
    /// gone, though it was heard a moment ago.
    pub fn renew(&mut self, rank: Rank) {
        let members = self.view.configuration.map(|of| of.members);
        let before = members.map_or(Incarnation(0), |members| members.incarnation(rank));
        self.renewal = Some(Renewal { rank, before, until: self.now.plus(RENEWAL_WITHIN) });
    }

    /// The seat whose old incarnation was ended from here and whose new one does not vote yet. It
    /// is over when that votes, or was removed again. One that never comes is forgotten after a
    /// while: then it is missed, and does not count.
    pub fn renewing(&self) -> Option<Rank> {
        let Renewal { rank, before, until } = self.renewal?;
        let is_over =
            self.view.configuration.is_some_and(|Configuration { members, is_decided, .. }| {
                let has_come = members.incarnation(rank) != before;
                is_decided && has_come && !members.learners.contains(rank)
            });
        (!is_over && self.now < until).then_some(rank)
    }

    /// The client is gone, so its waits end. (Its commands take their course.)
    pub fn forget_waits(&mut self, connection: u64) {
        self.waits.retain(|wait| wait.asker.connection != connection);
    }

    /// Begins a round of all reads that wait (I2), unless no read waits or enough rounds are under
    /// way.
    pub(crate) fn begin_round(&mut self) -> Option<Ticket> {
        let n_rounds = self.rounds.len() + self.ripe.len();
        if self.waiting.readers.is_empty() || n_rounds >= self.bounds.rounds {
            return None;
        }
        let fresh = self.spare.pop().unwrap_or_default();
        let round = std::mem::replace(&mut self.waiting, fresh);
        let ticket = Ticket(self.next_ticket);
        self.next_ticket += 1;
        self.rounds.push_back((ticket, round));
        Some(ticket)
    }

    /// When a read came that waits.
    pub(crate) fn came(&self, waiting: Waiting) -> Instant {
        Instant(waiting.deadline.0.saturating_sub(self.patience.as_nanos() as u64))
    }

    /// The round of `ticket`, if it is not over.
    pub(crate) fn end_round(&mut self, ticket: Ticket) -> Option<Round> {
        let at = self.rounds.iter().position(|(of, _)| *of == ticket)?;
        self.rounds.remove(at).map(|(_, round)| round)
    }

    /// Reads whose check is under way are to be checked again, or elsewhere: its answer may never
    /// come.
    pub(crate) fn recall_rounds(&mut self) {
        for (_, mut round) in std::mem::take(&mut self.rounds) {
            self.waiting.join(&mut round);
            self.recycle(round);
        }
    }

    /// The check of `round` succeeded: it is performed behind those before it.
    pub(crate) fn ripen(&mut self, round: Round) {
        self.ripe.push_back(round);
    }

    /// The next round that is to be performed; what is left of it goes to [`Desk::put_back`].
    pub(crate) fn take_ripe(&mut self) -> Option<Round> {
        self.ripe.pop_front()
    }

    /// The slice ended within `round`, which is performed further before any other.
    pub(crate) fn put_back(&mut self, round: Round) {
        self.ripe.push_front(round);
    }

    /// Whether reads wait for nothing but their turn.
    pub(crate) fn has_ripe(&self) -> bool {
        !self.ripe.is_empty()
    }

    /// A turn's slice begins (I3).
    pub(crate) fn begin_slice(&mut self) {
        self.slice_bytes = self.bounds.slice_bytes;
    }

    /// Whether the turn may answer another read (I3).
    pub(crate) fn has_slice(&self) -> bool {
        self.slice_bytes > 0
    }

    /// A read was performed, and its answer takes `n_bytes`: for a service that made it.
    pub fn charge(&mut self, n_bytes: usize) {
        self.slice_bytes = self.slice_bytes.saturating_sub(n_bytes);
    }

    /// A read was performed.
    pub(crate) fn charge_read(&mut self) {
        self.charge(READ_COST_BYTES);
    }

    /// Gives a round's buffers back.
    pub(crate) fn recycle(&mut self, mut round: Round) {
        round.clear();
        if self.spare.len() < ROUNDS_MAX {
            self.spare.push(round);
        }
    }

    /// Ends the reads whose deadline has passed (I1); for own ones `expired` is told.
    pub(crate) fn expire_reads(&mut self, mut expired: impl FnMut(Asker)) {
        let now = self.now;
        let mut keep = |waiting: &Waiting| {
            let due = waiting.deadline <= now;
            if let (true, Reader::Own(asker)) = (due, waiting.reader) {
                expired(asker);
            }
            !due
        };
        self.waiting.readers.retain(&mut keep);
        self.after_tick.readers.retain(&mut keep);
        for round in self.rounds.iter_mut().map(|(_, round)| round).chain(&mut self.ripe) {
            round.readers.retain(&mut keep);
        }
        // A round whose readers have all gone would occupy one of the few places for ever.
        self.rounds.retain(|(_, round)| !round.readers.is_empty());
        self.ripe.retain(|round| !round.readers.is_empty());
    }

    /// Whether any client's request is open here.
    pub(crate) fn is_idle(&self) -> bool {
        self.writes.is_empty()
            && self.asked.is_empty()
            && self.waiting.readers.is_empty()
            && self.after_tick.readers.is_empty()
            && self.rounds.is_empty()
            && self.ripe.is_empty()
            && self.waits.is_empty()
    }
}

#[cfg(test)]
mod tests;
