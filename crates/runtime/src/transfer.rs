//! A member that cannot go on by itself gets what it lacks from another: the values that it missed
//! if they are still kept somewhere, else a whole state and the values after it.
//!
//! ```text
//! who lacks: StateWanted(have) ------------------------------> who has
//!            <------------------- StateBegins, StateChunk...   (have is older than its backlog)
//!            StateTaken(offset) ----------------------------->
//!            <------------------- StateHead, Values..., the last marked
//!            ValuesTaken(next) ------------------------------>  (until the mark)
//! ```
//! The values follow the state because the ring moves on while the state travels: without them a
//! member would never catch up with a busy group.
//!
//! - I1 a state is installed only if all its bytes arrived and their checksum is right.
//! - I2 values are executed in slot order, none twice: what is not the next slot is dropped.
//! - I3 at most [`WINDOW_BYTES`] of a state are under way, so a transfer cannot fill a flow.
//! - I4 who sends nothing for [`PATIENCE`] is given up and another is asked: each wait has an end.
//! - I5 frames of another transfer than the present one are dropped.

use crate::backlog::Backlog;
use crate::flow::Outgoing;
use crate::wire::{Frame, Items, push_item};
use base::{Instant, MAX_MEMBERS, MemberSet, Prefix, Rank, Slot};
use std::time::Duration;
use xxhash_rust::xxh3::xxh3_64;

/// How long the giving side may be silent.
pub const PATIENCE: Duration = Duration::from_secs(2);
/// How much of a state may be sent ahead of the acknowledgement.
pub const WINDOW_BYTES: u64 = 1 << 20;
/// A chunk's bytes.
const CHUNK_BYTES: usize = 128 << 10;
/// The bytes of values in one frame, about.
const VALUES_BYTES: usize = 256 << 10;
/// The longest state that is believed to exist; a peer that announces more is refused.
pub const STATE_BYTES_MAX: u64 = 64 << 30;

/// What the lacking side has to do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Nothing.
    Nothing,
    /// Install this state: it stands at this prefix. Then go on with [`Fetch::installed`].
    Install(Prefix, &'a [u8]),
    /// Execute these values, those that are next in turn, then call [`Fetch::executed`].
    Execute(Items<'a>),
}

#[derive(Debug)]
enum Phase {
    Idle,
    /// Asked, nothing came yet.
    Asked,
    State {
        prefix: Prefix,
        n_bytes: u64,
        checksum: u64,
    },
    Values,
}

/// The lacking side.
#[derive(Debug)]
pub struct Fetch {
    me: Rank,
    phase: Phase,
    transfer: u64,
    from: Option<Rank>,
    give_up_at: Instant,
    bytes: Vec<u8>,
    /// Who has said that it is a learner itself since the last success.
    learners: MemberSet,
    /// Bytes of states that arrived, for metrics.
    pub n_bytes: u64,
    /// Transfers that were given up, for metrics.
    pub n_given_up: u64,
}

impl Fetch {
    /// Nothing is lacking. `life` makes the numbers of this life's transfers its own.
    pub fn new(me: Rank, life: u64) -> Fetch {
        Fetch {
            me,
            phase: Phase::Idle,
            transfer: life << 16,
            from: None,
            give_up_at: Instant::ZERO,
            bytes: Vec::new(),
            learners: MemberSet::EMPTY,
            n_bytes: 0,
            n_given_up: 0,
        }
    }

    /// Whether a transfer is under way.
    pub fn is_active(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// When to look again.
    pub fn deadline(&self) -> Option<Instant> {
        self.is_active().then_some(self.give_up_at)
    }

    /// Whether `transfer`, of `from`, is the present one (I5).
    pub fn is_present(&self, from: Rank, transfer: u64) -> bool {
        self.is_active() && self.from == Some(from) && self.transfer == transfer
    }

    /// Members that said they have no state either.
    pub fn learners(&self) -> MemberSet {
        self.learners
    }

    /// What this member has executed (`have`) is not enough: asks one of `sources`, those that are
    /// believed to hold the state, in turn. With no source, looks again soon.
    pub fn start(&mut self, have: Prefix, sources: MemberSet, now: Instant, flows: &mut Outgoing) {
        let next = self.from.map_or(0, |rank| rank.index() + 1);
        let order = (next..MAX_MEMBERS).chain(0..next).map(Rank::at);
        self.from = order.into_iter().find(|rank| sources.contains(*rank) && *rank != self.me);
        self.transfer += 1;
        self.bytes = Vec::new();
        self.phase = Phase::Asked;
        self.give_up_at = now.plus(if self.from.is_some() { PATIENCE } else { PATIENCE / 100 });
        if let Some(from) = self.from {
            flows.push(from, &Frame::StateWanted { transfer: self.transfer, have });
        }
    }

    /// True if the one who was asked has been silent for too long, or its link broke: start again.
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        let overdue = self.is_active() && self.give_up_at <= now;
        self.n_given_up += u64::from(overdue && self.from.is_some());
        overdue
    }

    /// The link to `peer` broke: what it was sending will not come.
    pub fn on_link_down(&mut self, peer: Rank) {
        if self.is_active() && self.from == Some(peer) {
            self.give_up_at = Instant::ZERO;
        }
    }

    /// A frame of a transfer, from `from`.
    pub fn on_frame<'a>(
        &'a mut self,
        from: Rank,
        frame: &'a Frame<'a>,
        now: Instant,
        flows: &mut Outgoing,
    ) -> Step<'a> {
        let present = |transfer: u64| self.is_active() && self.transfer == transfer;
        match *frame {
            Frame::StateRefused { transfer, learner } if present(transfer) => {
                if learner {
                    self.learners.insert(from);
                }
                // Ask the next one, but not in a tight loop when nobody has it.
                self.give_up_at = now.plus(PATIENCE / 20);
                Step::Nothing
            }
            Frame::StateBegins { transfer, prefix, n_bytes, checksum } if present(transfer) => {
                if n_bytes > STATE_BYTES_MAX {
                    self.give_up_at = now;
                    return Step::Nothing;
                }
                self.bytes.clear();
                self.phase = Phase::State { prefix, n_bytes, checksum };
                self.give_up_at = now.plus(PATIENCE);
                if n_bytes == 0 { self.state_complete(now) } else { Step::Nothing }
            }
            Frame::StateChunk { transfer, offset, bytes } if present(transfer) => {
                let Phase::State { n_bytes, .. } = self.phase else { return Step::Nothing };
                let arrived = self.bytes.len() as u64 + bytes.len() as u64;
                if offset != self.bytes.len() as u64 || arrived > n_bytes {
                    self.give_up_at = now;
                    return Step::Nothing;
                }
                self.bytes.extend_from_slice(bytes);
                self.n_bytes += bytes.len() as u64;
                self.give_up_at = now.plus(PATIENCE);
                flows.push(from, &Frame::StateTaken { transfer, offset: arrived });
                if arrived == n_bytes { self.state_complete(now) } else { Step::Nothing }
            }
            Frame::Values { transfer, items, .. } if present(transfer) => {
                if matches!(self.phase, Phase::State { .. }) {
                    self.give_up_at = now;
                    return Step::Nothing;
                }
                self.phase = Phase::Values;
                self.give_up_at = now.plus(PATIENCE);
                Step::Execute(items)
            }
            _ => Step::Nothing,
        }
    }

    fn state_complete(&mut self, now: Instant) -> Step<'_> {
        let Phase::State { prefix, checksum, .. } = self.phase else { return Step::Nothing };
        if xxh3_64(&self.bytes) != checksum {
            self.give_up_at = now;
            return Step::Nothing;
        }
        self.phase = Phase::Values;
        Step::Install(prefix, &self.bytes)
    }

    /// The state that [`Step::Install`] gave is in place (or was refused: `false`).
    pub fn installed(&mut self, well: bool, now: Instant) {
        self.bytes = Vec::new();
        if well {
            self.learners = MemberSet::EMPTY;
            self.give_up_at = now.plus(PATIENCE);
        } else {
            self.give_up_at = now;
        }
    }

    /// The values up to `next` are executed; `last` as in their frame. True when the transfer is
    /// done and the protocol can go on by itself.
    pub fn executed(&mut self, next: Slot, last: bool, flows: &mut Outgoing) -> bool {
        if last {
            self.phase = Phase::Idle;
            return true;
        }
        if let Some(from) = self.from {
            flows.push(from, &Frame::ValuesTaken { transfer: self.transfer, next });
        }
        false
    }
}

#[derive(Debug)]
struct Giving {
    transfer: u64,
    state: Vec<u8>,
    sent: u64,
    next: Slot,
}

/// The giving side: one transfer to each member at most, a newer one replaces it.
#[derive(Debug, Default)]
pub struct Give {
    to: [Option<Giving>; MAX_MEMBERS],
    values: Vec<u8>,
    /// Bytes of states that were sent, for metrics.
    pub n_bytes: u64,
}

impl Give {
    /// `to` wants what comes after `have`. `save` makes the state of `backlog.end()`; it is asked
    /// only if the values are not all kept.
    pub fn begin(
        &mut self,
        to: Rank,
        transfer: u64,
        have: Prefix,
        backlog: &Backlog,
        flows: &mut Outgoing,
        save: impl FnOnce(&mut Vec<u8>),
    ) {
        let kept = have.next_slot() >= backlog.oldest() && have <= backlog.end();
        let mut giving = Giving { transfer, state: Vec::new(), sent: 0, next: have.next_slot() };
        if !kept {
            save(&mut giving.state);
            giving.next = backlog.end().next_slot();
            flows.push(
                to,
                &Frame::StateBegins {
                    transfer,
                    prefix: backlog.end(),
                    n_bytes: giving.state.len() as u64,
                    checksum: xxh3_64(&giving.state),
                },
            );
        }
        self.to[to.index()] = Some(giving);
        self.send_state(to, 0, flows);
        if kept {
            self.send_values(to, backlog, flows);
        }
    }

    /// The other side acknowledges something of a transfer.
    pub fn on_frame(
        &mut self,
        from: Rank,
        frame: &Frame<'_>,
        backlog: &Backlog,
        flows: &mut Outgoing,
    ) {
        let Some(giving) = &mut self.to[from.index()] else { return };
        match *frame {
            Frame::StateTaken { transfer, offset } if transfer == giving.transfer => {
                if offset == giving.state.len() as u64 && giving.sent == offset {
                    giving.state = Vec::new();
                    self.send_values(from, backlog, flows);
                } else {
                    self.send_state(from, offset, flows);
                }
            }
            Frame::ValuesTaken { transfer, next } if transfer == giving.transfer => {
                giving.next = next;
                self.send_values(from, backlog, flows);
            }
            _ => {}
        }
    }

    /// The link to `peer` broke: it will ask again.
    pub fn on_link_down(&mut self, peer: Rank) {
        self.to[peer.index()] = None;
    }

    fn send_state(&mut self, to: Rank, taken: u64, flows: &mut Outgoing) {
        let Some(giving) = &mut self.to[to.index()] else { return };
        while giving.sent < giving.state.len() as u64 && giving.sent < taken + WINDOW_BYTES {
            let start = giving.sent as usize;
            let end = (start + CHUNK_BYTES).min(giving.state.len());
            let bytes = &giving.state[start..end];
            let transfer = giving.transfer;
            flows.push(to, &Frame::StateChunk { transfer, offset: giving.sent, bytes });
            self.n_bytes += bytes.len() as u64;
            giving.sent = end as u64;
        }
    }

    fn send_values(&mut self, to: Rank, backlog: &Backlog, flows: &mut Outgoing) {
        let Some(giving) = &mut self.to[to.index()] else { return };
        self.values.clear();
        let mut slot = giving.next;
        while self.values.len() < VALUES_BYTES && backlog.end().contains(slot) {
            // Overwritten meanwhile: the other side's patience ends, and it asks for a new state.
            let Some(value) = backlog.value(slot) else {
                self.to[to.index()] = None;
                return;
            };
            push_item(&mut self.values, slot.0, value);
            slot = slot.next();
        }
        let last = !backlog.end().contains(slot);
        let transfer = giving.transfer;
        let items = Items::check(&self.values).unwrap_or(Items::NONE); // our own: it parses
        flows.push(to, &Frame::Values { transfer, last, items });
        if last {
            self.to[to.index()] = None;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::flow::Incoming;
    use crate::mock::Wire;

    const LACKS: Rank = Rank::at(0);
    const HAS: Rank = Rank::at(1);

    /// Both sides of a transfer, joined by real flows.
    struct Pair {
        fetch: Fetch,
        give: Give,
        backlog: Backlog,
        state: Vec<u8>,
        executed: Vec<u64>,
        installed: Option<Prefix>,
        done: bool,
        flows: [Outgoing; 2],
        incoming: [Incoming; 2],
        wire: Wire,
        longest_under_way: usize,
    }

    impl Pair {
        /// The giving side has executed `n` slots and keeps `backlog_bytes` of 8 bytes each.
        fn new(n: u64, backlog_bytes: usize, state_bytes: usize) -> Pair {
            let mut backlog = Backlog::new(backlog_bytes, Prefix::ZERO);
            (0..n).for_each(|slot| backlog.push(Slot(slot), &slot.to_le_bytes()));
            Pair {
                fetch: Fetch::new(LACKS, 1),
                give: Give::default(),
                backlog,
                state: (0..state_bytes).map(|n| n as u8).collect(),
                executed: Vec::new(),
                installed: None,
                done: false,
                flows: [Outgoing::new(1), Outgoing::new(2)],
                incoming: Default::default(),
                wire: Wire::default(),
                longest_under_way: 0,
            }
        }

        fn ask(&mut self, have: Prefix) {
            let sources = [HAS].into_iter().collect();
            self.fetch.start(have, sources, Instant(0), &mut self.flows[0]);
        }

        /// Carries frames until nothing moves. `spoil` may change a message on its way.
        fn run(&mut self, mut spoil: impl FnMut(&mut Vec<u8>)) {
            loop {
                self.flows[0].send(&mut self.wire);
                let asked = self.wire.take(HAS);
                for message in &asked {
                    let Pair { give, backlog, flows, state, incoming, .. } = self;
                    incoming[1].on_message(LACKS, message, |frame| match frame {
                        Frame::StateWanted { transfer, have } => {
                            give.begin(LACKS, transfer, have, backlog, &mut flows[1], |out| {
                                out.extend_from_slice(state);
                            });
                        }
                        frame => give.on_frame(LACKS, &frame, backlog, &mut flows[1]),
                    });
                }
                self.flows[1].send(&mut self.wire);
                let mut given = self.wire.take(LACKS);
                let under_way = given.iter().map(Vec::len).sum();
                self.longest_under_way = self.longest_under_way.max(under_way);
                for message in &mut given {
                    spoil(message);
                    let Pair { fetch, flows, executed, installed, done, incoming, .. } = self;
                    incoming[0].on_message(HAS, message, |frame| {
                        let last = matches!(frame, Frame::Values { last: true, .. });
                        match fetch.on_frame(HAS, &frame, Instant(0), &mut flows[0]) {
                            Step::Nothing => {}
                            Step::Install(prefix, _) => {
                                *installed = Some(prefix);
                                fetch.installed(true, Instant(0));
                            }
                            Step::Execute(items) => {
                                executed.extend(items.iter().map(|(slot, value)| {
                                    assert_eq!(value, slot.to_le_bytes());
                                    slot
                                }));
                                let next = executed.last().map_or(0, |slot| slot + 1);
                                *done |= fetch.executed(Slot(next), last, &mut flows[0]);
                            }
                        }
                    });
                }
                if asked.is_empty() && given.is_empty() {
                    return;
                }
            }
        }
    }

    #[test]
    fn values_that_are_kept_need_no_state() {
        let mut pair = Pair::new(100_000, 1 << 20, 10);
        pair.ask(Prefix(3));
        pair.run(|_| {});
        assert!(pair.done && pair.installed.is_none());
        assert!(pair.executed.iter().copied().eq(3..100_000), "I2: in order, none twice");
    }

    #[test]
    fn i3_a_state_travels_in_a_window_and_the_values_follow() {
        let state_bytes = 5 * WINDOW_BYTES as usize;
        let mut pair = Pair::new(1000, 8 * 100, state_bytes);
        pair.ask(Prefix(3));
        pair.run(|_| {});
        assert_eq!((pair.done, pair.installed), (true, Some(Prefix(1000))));
        assert_eq!(pair.fetch.n_bytes, state_bytes as u64);
        assert!(pair.longest_under_way < 2 * WINDOW_BYTES as usize, "{}", pair.longest_under_way);
        assert!(!pair.fetch.is_active());
    }

    #[test]
    fn i1_a_damaged_state_is_not_installed() {
        let mut pair = Pair::new(1000, 8, 300_000);
        pair.ask(Prefix(3));
        let mut n = 0;
        pair.run(|message| {
            n += 1;
            if n == 3 {
                *message.last_mut().unwrap() ^= 1;
            }
        });
        assert_eq!((pair.done, pair.installed), (false, None));
        assert!(pair.fetch.is_overdue(Instant(0)), "another is asked at once");
    }

    #[test]
    fn i4_a_silent_source_is_given_up_and_the_next_is_asked() {
        let mut fetch = Fetch::new(LACKS, 1);
        let mut flows = Outgoing::new(1);
        let sources: MemberSet = [HAS, Rank::at(2)].into_iter().collect();
        fetch.start(Prefix::ZERO, sources, Instant(0), &mut flows);
        assert_eq!((fetch.from, fetch.is_overdue(Instant(1))), (Some(HAS), false));
        let later = Instant(0).plus(PATIENCE);
        assert!(fetch.is_overdue(later));
        fetch.start(Prefix::ZERO, sources, later, &mut flows);
        assert_eq!(fetch.from, Some(Rank::at(2)));
        fetch.on_link_down(Rank::at(2));
        assert!(fetch.is_overdue(later), "a broken link is not waited for");
        fetch.start(Prefix::ZERO, sources, later, &mut flows);
        assert_eq!(fetch.from, Some(HAS));
    }

    #[test]
    fn i5_frames_of_another_transfer_are_dropped() {
        let mut fetch = Fetch::new(LACKS, 1);
        let mut flows = Outgoing::new(1);
        fetch.start(Prefix::ZERO, [HAS].into_iter().collect(), Instant(0), &mut flows);
        let old = Frame::Values { transfer: 1, last: true, items: Items::NONE };
        assert_eq!(fetch.on_frame(HAS, &old, Instant(0), &mut flows), Step::Nothing);
        let refused = Frame::StateRefused { transfer: fetch.transfer, learner: true };
        fetch.on_frame(HAS, &refused, Instant(0), &mut flows);
        assert!(fetch.learners().contains(HAS) && fetch.is_active());
    }
}
