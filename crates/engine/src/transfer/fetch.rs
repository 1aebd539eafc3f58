//! The lacking side.

use super::{DAMAGES_MAX, PATIENCE, STATE_BYTES_MAX, WAITING_BYTES_MAX, check_of};
use crate::flow::Outgoing;
use crate::wire::{Frame, Items};
use base::{Instant, MAX_MEMBERS, MemberSet, Prefix, Rank, Slot};
use std::collections::VecDeque;

/// What the lacking side has to do now.
#[derive(Debug, PartialEq, Eq)]
pub enum Step<'a> {
    /// Nothing.
    Nothing,
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
        /// Of all that has arrived (I1).
        check: u64,
        /// How much that is, and how much of it was read.
        arrived: u64,
        taken: u64,
        /// All has arrived.
        has_ended: bool,
        /// What comes next was asked for again: all but that is what was under way before.
        again: bool,
        /// The link to the giver is broken.
        is_cut: bool,
    },
    Values,
}

/// The transfer is given up, whatever of it is here.
const AT_ONCE: Instant = Instant::ZERO;

/// The lacking side.
#[derive(Debug)]
pub struct Fetch {
    me: Rank,
    phase: Phase,
    transfer: u64,
    from: Option<Rank>,
    /// See I4; [`AT_ONCE`] where nothing more is expected.
    give_up_at: Instant,
    /// What has arrived of a state and was not taken out (I7).
    waiting: VecDeque<Vec<u8>>,
    /// Counts states that began to arrive.
    n_states: u64,
    n_damages: u32,
    /// The members that have said that they are learners since the last success.
    learners: MemberSet,
    /// Members that had nothing to give since something arrived last.
    refused: MemberSet,
    /// Bytes of states that arrived, for metrics.
    pub n_bytes: u64,
    /// Transfers that were given up, for metrics.
    pub n_given_up: u64,
    /// How often a state was asked for again from the middle, for metrics.
    pub n_resumed: u64,
}

impl Fetch {
    /// Nothing is lacking. `life` makes the numbers of this life's transfers its own.
    pub fn new(me: Rank, life: u64) -> Fetch {
        Fetch {
            me,
            phase: Phase::Idle,
            transfer: life << 16,
            from: None,
            give_up_at: AT_ONCE,
            waiting: VecDeque::new(),
            n_states: 0,
            n_damages: 0,
            learners: MemberSet::EMPTY,
            refused: MemberSet::EMPTY,
            n_bytes: 0,
            n_given_up: 0,
            n_resumed: 0,
        }
    }

    /// Whether a transfer is under way.
    pub fn is_active(&self) -> bool {
        !matches!(self.phase, Phase::Idle)
    }

    /// When to look again.
    pub fn deadline(&self) -> Option<Instant> {
        (self.is_active() && !self.owes()).then_some(self.give_up_at)
    }

    /// Whether not the giver is waited for, but this side: bytes of a state are unread, or all of
    /// them have arrived (I4). Reading needs no deadline.
    fn owes(&self) -> bool {
        match self.phase {
            Phase::State { arrived, taken, has_ended, is_cut, .. } => {
                self.give_up_at != AT_ONCE && (has_ended || taken < arrived && !is_cut)
            }
            Phase::Idle | Phase::Asked | Phase::Values => false,
        }
    }

    /// Whether `transfer`, of `from`, is the present one (I5).
    pub fn is_present(&self, from: Rank, transfer: u64) -> bool {
        self.is_active() && self.from == Some(from) && self.transfer == transfer
    }

    /// Members that said they have no state either.
    pub fn learners(&self) -> MemberSet {
        self.learners
    }

    /// Members that were asked and had nothing to give since something arrived last.
    pub fn refused(&self) -> MemberSet {
        self.refused
    }

    /// What this member has executed (`have`) is not enough: asks one of `sources`, those that are
    /// believed to hold the state, in turn. With no source, looks again soon.
    pub fn start(&mut self, have: Prefix, sources: MemberSet, now: Instant, flows: &mut Outgoing) {
        let next = self.from.map_or(0, |rank| rank.index() + 1);
        let order = (next..MAX_MEMBERS).chain(0..next).map(Rank::at);
        self.from = order.into_iter().find(|rank| sources.contains(*rank) && *rank != self.me);
        self.transfer += 1;
        self.waiting.clear();
        self.n_damages = 0;
        self.phase = Phase::Asked;
        self.give_up_at = now.plus(if self.from.is_some() { PATIENCE } else { PATIENCE / 100 });
        if let Some(from) = self.from {
            flows.push(from, &Frame::StateWanted { transfer: self.transfer, have });
        }
    }

    /// Nothing is missing now: what was under way is dropped.
    pub fn end(&mut self) {
        self.waiting.clear();
        self.refused = MemberSet::EMPTY;
        self.phase = Phase::Idle;
    }

    /// True if the member that was asked has been silent for too long, or its link broke: start
    /// again.
    pub fn is_overdue(&mut self, now: Instant) -> bool {
        let overdue = self.is_active() && !self.owes() && self.give_up_at <= now;
        self.n_given_up += u64::from(overdue && self.from.is_some());
        overdue
    }

    /// `peer` is said to have died: what it was sending will not come.
    pub fn on_failed(&mut self, peer: Rank) {
        // (A state that is all here is read to its end nevertheless.)
        let is_here = matches!(self.phase, Phase::State { has_ended: true, .. });
        if !is_here && self.is_active() && self.from == Some(peer) {
            self.give_up_at = AT_ONCE;
        }
    }

    /// The link to `peer` broke. Of a state that is not all there it may come back soon (I6).
    pub fn on_link_down(&mut self, peer: Rank, now: Instant) {
        match &mut self.phase {
            Phase::State { is_cut, .. } if self.from == Some(peer) => {
                *is_cut = true;
                self.give_up_at = now.plus(PATIENCE);
            }
            _ => self.on_failed(peer),
        }
    }

    /// The link to `peer` is there again, with nothing on it of what was under way.
    pub fn on_link_up(&mut self, peer: Rank, now: Instant, flows: &mut Outgoing) {
        match &mut self.phase {
            Phase::State { is_cut, .. } if self.from == Some(peer) => {
                *is_cut = false;
                self.ask_again(peer, now, flows);
            }
            _ => self.on_failed(peer),
        }
    }

    /// I6: from the end of what has arrived.
    fn ask_again(&mut self, from: Rank, now: Instant, flows: &mut Outgoing) {
        let Phase::State { again, arrived: offset, .. } = &mut self.phase else { return };
        *again = true;
        self.n_resumed += 1;
        self.give_up_at = now.plus(PATIENCE);
        let offset = *offset;
        flows.push(from, &Frame::StateAgain { transfer: self.transfer, offset });
    }

    /// A frame of a transfer, from `from`.
    pub fn on_frame<'a>(
        &'a mut self,
        from: Rank,
        frame: &'a Frame<'a>,
        now: Instant,
        flows: &mut Outgoing,
    ) -> Step<'a> {
        let present = |transfer: u64| self.is_present(from, transfer);
        match *frame {
            Frame::StateRefused { transfer, learner } if present(transfer) => {
                if learner {
                    self.learners.insert(from);
                }
                if matches!(self.phase, Phase::State { has_ended: true, .. }) {
                    return Step::Nothing; // it is all here
                }
                self.waiting.clear();
                self.refused.insert(from);
                self.phase = Phase::Asked;
                // Ask the next member, but not in a tight loop when none has it.
                self.give_up_at = now.plus(PATIENCE / 20);
            }
            Frame::StateBegins { transfer, prefix } if present(transfer) => {
                self.waiting.clear();
                self.refused = MemberSet::EMPTY;
                self.n_states += 1;
                self.phase = Phase::State {
                    prefix,
                    check: 0,
                    arrived: 0,
                    taken: 0,
                    has_ended: false,
                    again: false,
                    is_cut: false,
                };
                self.give_up_at = now.plus(PATIENCE);
            }
            Frame::StateChunk { transfer, offset, check, bytes } if present(transfer) => {
                self.on_chunk(from, (offset, check), bytes, now, flows);
            }
            Frame::StateEnds { transfer, n_bytes, check } if present(transfer) => {
                let Phase::State { check: of_all, again, arrived, has_ended, .. } = &mut self.phase
                else {
                    return Step::Nothing;
                };
                if (n_bytes, check) == (*arrived, *of_all) {
                    *has_ended = true;
                } else if !*again || n_bytes == *arrived {
                    self.give_up_at = AT_ONCE;
                }
                // Else it comes once more, behind what is asked for again.
            }
            Frame::Values { transfer, items, .. } if present(transfer) => {
                if let Phase::State { has_ended, .. } = self.phase {
                    // A link broke when all had arrived, and it is still being read: they come
                    // again when that is acknowledged.
                    if !has_ended {
                        self.give_up_at = AT_ONCE;
                    }
                    return Step::Nothing;
                }
                self.phase = Phase::Values;
                self.refused = MemberSet::EMPTY;
                self.give_up_at = now.plus(PATIENCE);
                return Step::Execute(items);
            }
            _ => {}
        }
        Step::Nothing
    }

    fn on_chunk(
        &mut self,
        from: Rank,
        (offset, its_check): (u64, u64),
        bytes: &[u8],
        now: Instant,
        flows: &mut Outgoing,
    ) {
        let Phase::State { check, again, arrived, taken, .. } = &mut self.phase else { return };
        if *again && offset != *arrived {
            return;
        }
        let of_all = check_of(bytes, *check);
        if offset != *arrived || of_all != its_check {
            self.n_damages += 1;
            if self.n_damages > DAMAGES_MAX {
                self.give_up_at = AT_ONCE;
                return;
            }
            return self.ask_again(from, now, flows);
        }
        let n_waiting = *arrived - *taken;
        *arrived += bytes.len() as u64;
        if *arrived > STATE_BYTES_MAX || n_waiting > WAITING_BYTES_MAX {
            self.give_up_at = AT_ONCE;
            return;
        }
        (*check, *again) = (of_all, false);
        self.waiting.push_back(bytes.to_vec());
        self.n_bytes += bytes.len() as u64;
        self.give_up_at = now.plus(PATIENCE);
    }

    /// Which state is arriving, by a number that no other has.
    pub fn state(&self) -> Option<u64> {
        matches!(self.phase, Phase::State { .. }).then_some(self.n_states)
    }

    /// Whether there are bytes of it to be read.
    pub fn has_bytes(&self) -> bool {
        !self.waiting.is_empty()
    }

    /// The next bytes of it. When they are read, say so with [`Fetch::taken`].
    pub fn bytes(&mut self) -> Option<Vec<u8>> {
        self.waiting.pop_front()
    }

    /// So many bytes more were read: others may come (I7).
    pub fn taken(&mut self, n_bytes: usize, now: Instant, flows: &mut Outgoing) {
        let Phase::State { arrived, taken, .. } = &mut self.phase else { return };
        *taken += n_bytes as u64;
        assert!(*taken <= *arrived, "I7: what is read has arrived");
        let offset = *taken;
        self.give_up_at = now.plus(PATIENCE);
        if let Some(from) = self.from {
            flows.push(from, &Frame::StateTaken { transfer: self.transfer, offset });
        }
    }

    /// The prefix that it covers, when all of it has arrived (I1) and was read. Put it in place,
    /// then continue with [`Fetch::installed`].
    pub fn whole(&self) -> Option<Prefix> {
        match self.phase {
            Phase::State { prefix, arrived, taken, has_ended: true, .. } if taken == arrived => {
                Some(prefix)
            }
            _ => None,
        }
    }

    /// The state is in place (or was refused: `false`).
    pub fn installed(&mut self, well: bool, now: Instant) {
        self.waiting.clear();
        self.phase = Phase::Values;
        if well {
            self.learners = MemberSet::EMPTY;
            self.give_up_at = now.plus(PATIENCE);
        } else {
            self.give_up_at = AT_ONCE;
        }
    }

    /// The values up to `next` are executed; `last` as in their frame. True when the transfer is
    /// done and the protocol can continue by itself.
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
