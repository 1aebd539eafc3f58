//! ABD: one register a key, which every member may read and write (Attiya, Bar-Noy, Dolev;
//! several writers by Lynch and Shvartsman; per key as in Odyssey).
//!
//! **Purpose.** Linearizable reads and writes of single keys without a leader: any majority serves,
//! a dead member costs the others nothing, and there is no election.
//!
//! - Read: query a majority for its versions of the key and take the newest. Unless a majority
//!   holds that one, store it at a majority (*write back*). Then answer.
//! - Write: query a majority, compute the new value, store it at a majority with a tag above all
//!   that were heard. Then answer.
//!
//! A process that ends loses its registers: there is no disk. It comes back as another *run* of the
//! member, which merges the state of a majority before it counts.
//!
//! **Assumes** of the fabric: a message arrives whole, once, late or never. Of the host: runs of a
//! member rise, and one of them at a time is alive.
//!
//! **Invariants.** Q is a quorum: replies of a majority, each of the latest run of its member that
//! the coordinator has heard of.
//! - A1 A tag belongs to one value. Its run and rank name a process, and that process never gives a
//!   counter of one key away twice: its own replica holds the tag before the tag is sent. Asserted
//!   in `begin_store`; mutant `TAG_WITHOUT_RUN`.
//! - A2 What a replica holds only becomes newer within a run. By construction in `place`; mutants
//!   `OLDER_REPLACES`, `MERGE_KEEPS_FIRST`.
//! - A3 A member notes the run of a newcomer before it gives that a state, and every message says
//!   what runs its sender has noted (*crash vectors*: Michael, Ports, Sharma, Szekeres, DISC 2017).
//!   By construction: `on_message` notes a message's header before it looks at the body; mutant
//!   `GIVES_UNNOTED`.
//! - A4 A reply counts only in the run of the coordinator that asked, and in a quorum only while
//!   nothing that the coordinator has noted names a later run of the reply's sender. (What a run
//!   says that is known to be over is dropped, and not noted.) By construction in `is_meant` and
//!   `Replies::valid`; mutants `REPLIES_OUTLIVE_RUNS`, `OLD_RUNS_COUNT`.
//! - A5 A run counts, that is: answers queries, stores and fetches, and coordinates, only from the
//!   end of its merge: the whole states of a majority of other members (of the other one, where
//!   there are two), each given by one run that is not known to be over when the merge ends. A
//!   request to continue behind a key is answered by the run alone that gave the piece before. By
//!   `Merge`; mutants `MERGING_COUNTS`, `MERGE_OF_ONE`, `MIXED_STATES`, `FETCH_OUTLIVES_GIVER`.
//! - A6 Once a version W is stored at a quorum Q, every quorum of a later query has it or a newer
//!   one, and a later write's tag is above it (mutant `COUNTER_FROM_OWN`). *Argument.* The query's
//!   quorum shares a member with Q. That one's reply is not of an earlier run than its
//!   acknowledgement: it came later. If it is of the same run, it has W (A2). Otherwise: every run
//!   p' of a member p of Q that is later than the one in Q has W when its merge ends. By induction
//!   over the ends of merges. Of the states that p' has merged, R, one is of a member q other than
//!   p that is in Q.
//!   - The same run of q is in both: had it stored W before it noted p', its state had W, and so
//!     has p'. Otherwise it had noted p' before it acknowledged W (A3), the acknowledgement said
//!     so, and that of p did not count (A4).
//!   - A later run of q is in R: it gave its state after its own merge, which ended before that of
//!     p'. By induction it had W.
//!   - An earlier run of q is in R: the run in Q, q', began after that one had given its state. By
//!     the lemma q' had heard of p' when its merge ended, so its acknowledgement said so, and that
//!     of p did not count. (Of two members there is no such case: p' and q' would each need the
//!     other's state, and p was dead when q' began, so neither coordinated for the other.)
//!
//!   *Lemma*, for three and more members: if a state of q counts in the merge of p', and a run q'
//!   of q that began later merges too, then q' has heard of p' when its merge ends. The states
//!   merged by p' are a majority without p, those by q' one without q: they share a member r. By
//!   induction over the later of the ends, then the earlier:
//!   - One run of r gave both. If it noted q' first, it told p', and the state of q did not count.
//!     So it noted p' first, and told q'.
//!   - An earlier run of r gave to p', and r' to q'. By the lemma for p' and r', r' had heard of p'
//!     when its merge ended, which was before it gave; it told q'.
//!   - An earlier run of r gave to q', and r' to p'. By the lemma for q' and r', r' had heard of q'
//!     and told p', and the state of q did not count.
//! - A7 An operation is begun once and takes effect at most once: a request that is sent again
//!   keeps its number and its tag. Mutant `SENT_AGAIN_AS_NEWER`.
//! - A8 At its deadline a write that has no tag yet ends as not done, and any other as unknown, be
//!   its version at this member's replica alone: a query may find it there. A read has no effect
//!   that a client sees. Mutant `UNKNOWN_CALLED_UNDONE`.
//!
//! **Loss.** If more members lose their memory at once than a merge can do without, what they held
//! is gone. The newcomers cannot merge, for ever; they wait, say so
//! ([`KeyedStatus::is_lost`](crate::keyed::KeyedStatus)), and never begin empty. Only a member that
//! is told that it founds a cluster ([`KeyedConfig::founds`]) begins with the empty state.
//!
//! **Status**: the engine runs it (`engine::keyed`), `gregale up --protocol abd` serves by it, and
//! clusters of it run under seeds (`abd-cluster`). The machine's own tests have a random world, and
//! schedules made for the mutants that seeds meet too rarely. The lemma of A6 with a shared giver
//! of several runs rests on the argument alone.
//!
//! **Cost**: two round trips to a majority a write, one a read while the key is not written.
//!
//! **Differs from the paper**: many keys; tags carry the writer's run; replies that already hold
//! what is written back count as acknowledgements of it; members lose their memory and return.

pub mod bugs;
mod merge;
mod operation;
mod replica;
mod spec;
#[cfg(test)]
mod tests;
mod wire;

use crate::keyed::{
    KeyedConfig, KeyedCounts, KeyedHost, KeyedMachine, KeyedStatus, Op, Refused, Ticket,
};
use crate::planted::{Planting, Sound};
use alloc::collections::BTreeMap;
use alloc::vec::Vec;
use base::{Event, Instant, MAX_MEMBERS, MemberSet, Rank};
use bugs::Bug;
use core::time::Duration;
use merge::Merge;
use operation::Operation;
use replica::Late;
pub use spec::Spec;
use wire::{Body, Header, Runs};

/// The most operations of one member that are under way.
pub const OPERATIONS_MAX: usize = 256;

/// How soon a request is sent again to those that have not answered; twice as late each time.
const RESEND_AFTER: Duration = Duration::from_millis(40);
/// The latest.
const RESEND_AFTER_MAX: Duration = Duration::from_millis(320);
/// How soon a message that found no room is tried again.
const CROWDED_PAUSE: Duration = Duration::from_millis(1);
/// How often members tell each other that they are there.
const BEAT_EVERY: Duration = Duration::from_millis(100);
/// A member that was not heard for so long is not heard.
const HEARD_WITHIN: Duration = Duration::from_millis(500);
/// So long it must have looked as if the state were lost before that is said: a member that has
/// just merged may not have told every other.
const LOST_AFTER: Duration = Duration::from_secs(1);

/// One member. See the module's text.
#[derive(Debug)]
pub struct Abd<P = Sound> {
    planted: P,
    me: Rank,
    members: usize,
    /// The latest run of each member that was heard of (A3); the own one's is this process's.
    runs: Runs,
    /// Members whose latest run says that it counts.
    counting: MemberSet,
    heard_at: [Option<Instant>; MAX_MEMBERS],
    /// What this run has been given of others' states; `None` once it counts (A5).
    merge: Option<Merge>,
    /// Operations under way, by number.
    operations: BTreeMap<u64, Operation>,
    n_begun: u64,
    beat_at: Instant,
    /// Since when it looks as if the state were lost.
    lost_since: Option<Instant>,
    is_lost: bool,
    counts: KeyedCounts,
    message: Vec<u8>,
    /// Room for a piece of the state.
    piece: Vec<u8>,
    /// Of `Bug::AckBeforeStore` alone.
    late: Late,
}

impl Abd {
    /// A member, as it ships.
    pub fn new(config: &KeyedConfig) -> Abd {
        Abd::with(config, Sound)
    }
}

impl<P: Planting<Bug>> Abd<P> {
    /// A member with a planted mistake, or none.
    pub fn with(config: &KeyedConfig, planted: P) -> Abd<P> {
        let KeyedConfig { me, members, run, founds } = *config;
        assert!(me.index() < members && run.0 > 0, "a member of the group, in a run");
        let mut runs = Runs::default();
        runs[me.index()] = run.0;
        Abd {
            planted,
            me,
            members,
            runs,
            counting: if founds { [me].into_iter().collect() } else { MemberSet::EMPTY },
            heard_at: [None; MAX_MEMBERS],
            merge: (!founds).then(Merge::default),
            operations: BTreeMap::new(),
            n_begun: 0,
            beat_at: Instant::ZERO,
            lost_since: None,
            is_lost: false,
            counts: KeyedCounts::default(),
            message: Vec::new(),
            piece: Vec::new(),
            late: Late::default(),
        }
    }

    fn run(&self) -> u64 {
        self.runs[self.me.index()]
    }

    fn others(&self) -> impl Iterator<Item = Rank> + use<P> {
        let me = self.me;
        Rank::all(self.members).filter(move |rank| *rank != me)
    }

    /// Whether this run counts (A5).
    fn is_serving(&self) -> bool {
        self.merge.is_none()
    }

    /// Sends one message. False if it found no room.
    fn send<H: KeyedHost>(&mut self, to: Rank, body: &Body<'_>, host: &mut H) -> bool {
        let header = Header { counts: self.is_serving(), runs: self.runs };
        wire::encode(&header, self.members, body, &mut self.message);
        host.send(to, &self.message)
    }

    fn on_message<H: KeyedHost>(&mut self, from: Rank, bytes: &[u8], now: Instant, host: &mut H) {
        // What does not parse is of another version, and is not answered: its sender does without.
        let Ok((header, body)) = wire::decode(bytes, self.members) else { return };
        let run = header.runs[from.index()];
        let is_over = run < self.runs[from.index()];
        if is_over && !self.planted.has(Bug::OldRunsCount) {
            self.counts.outdated += 1;
            return;
        }
        // A3: before anything is answered.
        if header.counts || !self.planted.has(Bug::GivesUnnoted) {
            self.note(from, &header, now);
        }
        match body {
            Body::Beat => {}
            Body::Query { number, key } => self.on_query(from, run, number, key, host),
            Body::Store { number, key, tag, value } => {
                self.on_store(from, run, number, (key, tag, value), now, host);
            }
            Body::Value { number, run: asked, tag, value } => {
                if self.is_meant(asked) {
                    self.on_value((from, run), number, (tag, value), now, host);
                }
            }
            Body::Stored { number, run: asked } => {
                if self.is_meant(asked) {
                    self.on_stored((from, run), number, now, host);
                }
            }
            Body::Fetch { piece, giver, after } => {
                self.on_fetch(from, run, (piece, giver, after), host);
            }
            Body::Piece { piece, run: asked, is_last, entries } => {
                if self.is_meant(asked) {
                    self.on_piece((from, run), piece, is_last, entries, now, host);
                }
            }
        }
    }

    /// Whether a reply is to this run.
    fn is_meant(&mut self, asked: u64) -> bool {
        let is_meant = asked == self.run() || self.planted.has(Bug::RepliesOutliveRuns);
        self.counts.outdated += u64::from(!is_meant);
        is_meant
    }

    /// Takes down what a message says of runs (A3).
    fn note(&mut self, from: Rank, header: &Header, now: Instant) {
        for rank in Rank::all(self.members) {
            let (known, told) = (&mut self.runs[rank.index()], header.runs[rank.index()]);
            if told > *known {
                *known = told;
                self.counting.remove(rank);
            }
        }
        self.heard_at[from.index()] = Some(now);
        if header.counts {
            self.counting.insert(from);
        }
    }

    fn heard(&self, now: Instant) -> MemberSet {
        let is_heard = |rank: &Rank| {
            let at = self.heard_at[rank.index()];
            *rank == self.me || at.is_some_and(|at| now.since(at) <= HEARD_WITHIN)
        };
        Rank::all(self.members).filter(is_heard).collect()
    }

    /// Whether those that are left with a state are too few for any merge ever again (A5).
    fn look_for_loss(&mut self, now: Instant) {
        let without = self.heard(now).difference(self.counting);
        if self.members - without.len() >= Merge::needed(self.members) || without.is_empty() {
            (self.lost_since, self.is_lost) = (None, false);
            return;
        }
        let since = *self.lost_since.get_or_insert(now);
        self.is_lost = now.since(since) >= LOST_AFTER;
    }

    fn beat<H: KeyedHost>(&mut self, now: Instant, host: &mut H) {
        self.beat_at = now.plus(BEAT_EVERY);
        for to in self.others() {
            // One that finds no room is followed by the next.
            let _ = self.send(to, &Body::Beat, host);
        }
    }
}

impl<P: Planting<Bug>> KeyedMachine for Abd<P> {
    const VALUE_BYTES_MAX: usize = 128 << 10;

    fn submit<H: KeyedHost>(
        &mut self,
        ticket: Ticket,
        op: Op<'_>,
        deadline: Instant,
        now: Instant,
        host: &mut H,
    ) -> Result<(), Refused> {
        if !self.is_serving() {
            return Err(Refused::Merging);
        }
        if self.operations.len() >= OPERATIONS_MAX {
            return Err(Refused::Full);
        }
        self.n_begun += 1;
        let number = self.n_begun;
        let operation = Operation::new(ticket, op, deadline, now.plus(RESEND_AFTER));
        self.operations.insert(number, operation);
        self.begin_query(number, now, host);
        Ok(())
    }

    fn on_event<H: KeyedHost>(&mut self, event: Event<'_>, now: Instant, host: &mut H) {
        match event {
            Event::Message { from, bytes } => self.on_message(from, bytes, now, host),
            Event::LinkUp(_) => {
                // What was on its way is lost: a member that has not answered is asked again.
                self.operations.values_mut().for_each(|operation| operation.resend_at = now);
                if let Some(merge) = &mut self.merge {
                    merge.ask_at = now;
                }
                self.beat_at = now;
            }
            Event::LinkDown(_) | Event::ProcessFailed(_) | Event::Completed { .. } => {}
        }
    }

    fn poll<H: KeyedHost>(&mut self, now: Instant, host: &mut H) {
        self.store_late(now, host);
        self.ask_for_states(now, host);
        if now >= self.beat_at {
            self.beat(now, host);
            self.look_for_loss(now);
        }
        let is_due = |operation: &Operation| operation.due_at() <= now;
        if self.operations.values().any(is_due) {
            let due = self.operations.iter().filter(|(_, operation)| is_due(operation));
            let due: Vec<u64> = due.map(|(number, _)| *number).collect();
            due.into_iter().for_each(|number| self.on_due(number, now, host));
        }
    }

    fn deadline(&self) -> Instant {
        let mut at = self.beat_at;
        at = self.operations.values().map(Operation::due_at).fold(at, Instant::min);
        at = self.merge.as_ref().map_or(at, |merge| at.min(merge.ask_at));
        self.late.due_at().map_or(at, |late| at.min(late))
    }

    fn status(&self) -> KeyedStatus {
        // As of the last beat that was sent: no member is more exact about others.
        let last_beat = Instant(self.beat_at.0.saturating_sub(BEAT_EVERY.as_nanos() as u64));
        let heard = self.heard(last_beat);
        let counting = self.counting.intersection(heard);
        KeyedStatus { counts: self.is_serving(), heard, counting, is_lost: self.is_lost }
    }

    fn counts(&self) -> KeyedCounts {
        self.counts
    }
}
