//! Both sides of a transfer, joined by real flows: what arrives, what it costs, and what ends it.

use super::*;
use crate::backlog::Backlog;
use crate::flow::{Incoming, Outgoing};
use crate::mock::Wire;
use crate::service::Saving;
use crate::wire::{Frame, Items};
use base::{Instant, MemberSet, Prefix, Rank, Slot};

const LACKS: Rank = Rank::at(0);
const HAS: Rank = Rank::at(1);
const NOW: Instant = Instant(0);
const PIECE: usize = 64 << 10;

/// Both sides of a transfer, joined by real flows.
struct Pair {
    fetch: Fetch,
    give: Give,
    backlog: Backlog,
    state: Vec<u8>,
    /// Saves that were begun, and how much of the last was made.
    n_saves: u64,
    n_made: usize,
    n_ended: usize,
    log_goes_on: bool,
    executed: Vec<u64>,
    installed: Option<(Prefix, Vec<u8>)>,
    done: bool,
    flows: [Outgoing; 2],
    incoming: [Incoming; 2],
    wire: Wire,
    longest_under_way: usize,
    /// Which state is being read, and what was read of it.
    read: (u64, Vec<u8>),
    /// Whether anything is.
    reads: bool,
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
            state: (0..state_bytes).map(|n| (n ^ n >> 8 ^ n >> 16) as u8).collect(),
            n_saves: 0,
            n_made: 0,
            n_ended: 0,
            log_goes_on: false,
            executed: Vec::new(),
            installed: None,
            done: false,
            flows: [Outgoing::new(1), Outgoing::new(2)],
            incoming: Default::default(),
            wire: Wire::default(),
            longest_under_way: 0,
            read: (0, Vec::new()),
            reads: true,
        }
    }

    fn ask(&mut self, have: Prefix) {
        self.fetch.start(have, [HAS].into_iter().collect(), NOW, &mut self.flows[0]);
    }

    /// What the giving side does about its frames, and its next piece.
    fn give_turn(&mut self) -> bool {
        self.flows[0].send(&mut self.wire);
        let asked = self.wire.take(HAS);
        for message in &asked {
            let Pair { give, backlog, flows, state, incoming, n_saves, n_made, .. } = self;
            incoming[1].on_message(LACKS, message, |frame| match frame {
                Frame::StateWanted { transfer, have } => {
                    give.begin((LACKS, transfer), have, backlog, NOW, &mut flows[1], || {
                        *n_saves += 1;
                        *n_made = 100.min(state.len());
                        (Saving(*n_saves), state[..*n_made].to_vec())
                    });
                }
                frame => {
                    give.on_frame(LACKS, &frame, NOW, (backlog, self.log_goes_on), &mut flows[1]);
                }
            });
        }
        // A piece takes no time here, so no pause follows it.
        let wanted = self.give.wants_piece(NOW);
        if let Some((to, saving)) = wanted {
            assert_eq!(saving, Saving(self.n_saves), "the last that was begun");
            let start = self.n_made;
            self.n_made = (start + PIECE).min(self.state.len());
            let (piece, more) = (&self.state[start..self.n_made], self.n_made < self.state.len());
            self.give.piece(to, piece.to_vec(), more, (NOW, NOW), &mut self.flows[1]);
        }
        while self.give.ended().is_some() {
            self.n_ended += 1;
        }
        self.flows[1].send(&mut self.wire);
        !asked.is_empty() || wanted.is_some()
    }

    /// What arrives at the lacking side.
    fn fetch_turn(&mut self, mut spoil: impl FnMut(&mut Vec<u8>)) -> bool {
        let mut given = self.wire.take(LACKS);
        let under_way = given.iter().map(Vec::len).sum();
        self.longest_under_way = self.longest_under_way.max(under_way);
        for message in &mut given {
            spoil(message);
            let Pair { fetch, flows, executed, installed, done, incoming, read, .. } = self;
            incoming[0].on_message(HAS, message, |frame| {
                let last = matches!(frame, Frame::Values { last: true, .. });
                match fetch.on_frame(HAS, &frame, NOW, &mut flows[0]) {
                    Step::Nothing => {}
                    Step::Execute(items) => {
                        executed.extend(items.iter().map(|(slot, value)| {
                            assert_eq!(value, slot.to_le_bytes());
                            slot
                        }));
                        let next = executed.last().map_or(0, |slot| slot + 1);
                        *done |= fetch.executed(Slot(next), last, &mut flows[0]);
                    }
                }
                if let Some(prefix) = fetch.whole() {
                    assert!(installed.is_none(), "installed once");
                    *installed = Some((prefix, std::mem::take(&mut read.1)));
                    fetch.installed(true, NOW);
                }
            });
        }
        !given.is_empty() | (self.reads && self.read_turn())
    }

    /// The lacking side reads one piece, as its loop does in a turn.
    fn read_turn(&mut self) -> bool {
        let Pair { fetch, flows, installed, read, .. } = self;
        if fetch.state() != Some(read.0) {
            *read = (fetch.state().unwrap_or_default(), Vec::new());
        }
        let piece = fetch.bytes();
        if let Some(piece) = &piece {
            read.1.extend_from_slice(piece);
            fetch.taken(piece.len(), NOW, &mut flows[0]);
        }
        if let Some(prefix) = fetch.whole() {
            assert!(installed.is_none(), "installed once");
            *installed = Some((prefix, std::mem::take(&mut read.1)));
            fetch.installed(true, NOW);
        }
        piece.is_some()
    }

    /// Carries frames until nothing moves. `spoil` may change a message on its way.
    fn run(&mut self, mut spoil: impl FnMut(&mut Vec<u8>)) {
        loop {
            let gave = self.give_turn();
            if !(self.fetch_turn(&mut spoil) | gave) {
                return;
            }
        }
    }

    fn some_turns(&mut self, n: usize) {
        for _ in 0..n {
            self.give_turn();
            self.fetch_turn(|_| {});
        }
    }

    fn has_it_all(&self) -> bool {
        self.installed.as_ref().is_some_and(|(at, state)| at.0 == 1000 && *state == self.state)
    }

    /// The link breaks, with all that is on it, and comes back.
    fn break_link(&mut self) {
        self.wire = Wire::default();
        self.flows[0].reset(HAS);
        self.flows[1].reset(LACKS);
        self.incoming[0].reset(HAS);
        self.incoming[1].reset(LACKS);
        self.fetch.on_link_down(HAS, NOW);
        self.give.on_link_down(LACKS);
        self.fetch.on_link_up(HAS, NOW, &mut self.flows[0]);
        self.give.on_link_down(LACKS);
    }
}

#[test]
fn values_that_are_kept_need_no_state() {
    let mut pair = Pair::new(100_000, 1 << 20, 10);
    pair.ask(Prefix(3));
    pair.run(|_| {});
    assert!(pair.done && pair.installed.is_none() && pair.n_saves == 0);
    assert!(pair.executed.iter().copied().eq(3..100_000), "I2: in order, none twice");
}

#[test]
fn i3_a_state_travels_in_a_window_and_the_values_follow() {
    let state_bytes = 5 * WINDOW_BYTES as usize;
    let mut pair = Pair::new(1000, 8 * 100, state_bytes);
    pair.ask(Prefix(3));
    pair.run(|_| {});
    assert!(pair.done && !pair.fetch.is_active());
    assert!(pair.has_it_all());
    assert_eq!(pair.fetch.n_bytes, state_bytes as u64);
    assert!(pair.longest_under_way < 2 * WINDOW_BYTES as usize, "{}", pair.longest_under_way);
    assert_eq!((pair.n_saves, pair.n_ended), (1, 1), "the service is told that it has ended");
}

#[test]
fn i3_who_acknowledges_nothing_is_sent_a_window() {
    let mut pair = Pair::new(1000, 8, 5 * WINDOW_BYTES as usize);
    pair.ask(Prefix(3));
    while pair.give_turn() {}
    assert!(pair.n_made < WINDOW_BYTES as usize + PIECE, "{} were made", pair.n_made);
    assert!(pair.give.wants_piece(NOW).is_none() && pair.give.pause(NOW).is_none());
}

#[test]
fn i7_who_reads_nothing_is_sent_a_window_and_who_reads_late_gets_it_all() {
    let mut pair = Pair::new(1000, 8 * 100, 5 * WINDOW_BYTES as usize);
    pair.ask(Prefix(3));
    pair.reads = false;
    pair.run(|_| {});
    let n_bytes = pair.fetch.n_bytes;
    assert!((WINDOW_BYTES..WINDOW_BYTES + PIECE as u64).contains(&n_bytes), "{n_bytes} arrived");
    // A link that breaks brings another window, and no more.
    pair.break_link();
    pair.run(|_| {});
    assert!(pair.fetch.n_bytes < 2 * (WINDOW_BYTES + PIECE as u64), "{}", pair.fetch.n_bytes);
    pair.break_link();
    pair.reads = true;
    pair.run(|_| {});
    assert!(pair.has_it_all() && pair.done);
}

#[test]
fn i7_what_has_arrived_is_read_to_its_end_whatever_becomes_of_the_link_and_the_giver() {
    for fails in [false, true] {
        let mut pair = Pair::new(1000, 8 * 100, 300_000);
        pair.ask(Prefix(3));
        pair.reads = false;
        pair.run(|_| {});
        assert_eq!(pair.fetch.n_bytes, 300_000);
        pair.break_link();
        pair.run(|_| {});
        if fails {
            pair.fetch.on_failed(HAS);
            assert!(!pair.fetch.is_overdue(NOW), "nobody else is asked for it");
        }
        pair.reads = true;
        pair.run(|_| {});
        assert!(pair.has_it_all() && pair.done && pair.n_saves == 1);
    }
}

#[test]
fn i7_of_a_state_that_is_given_up_nothing_is_left_for_the_next() {
    let mut pair = Pair::new(1000, 8 * 100, 5 * WINDOW_BYTES as usize);
    pair.ask(Prefix(3));
    pair.some_turns(20);
    let first = pair.fetch.state();
    assert!(first.is_some() && pair.fetch.n_bytes > 0);
    pair.ask(Prefix(3));
    assert!(!pair.fetch.has_bytes() && pair.fetch.state().is_none());
    pair.some_turns(1);
    assert!(pair.fetch.state() > first, "another state is another number");
    pair.run(|_| {});
    assert!(pair.has_it_all() && pair.done && pair.n_saves == 2);
}

#[test]
fn i6_a_link_that_breaks_in_the_middle_costs_what_was_under_way() {
    for n_turns in [2, 5, 30, 60, 81, 82, 83] {
        let state_bytes = 5 * WINDOW_BYTES as usize;
        let mut pair = Pair::new(1000, 8, state_bytes);
        pair.ask(Prefix(3));
        for turn in 0..n_turns {
            pair.give_turn();
            // What arrives is always behind what was sent.
            if turn % 3 != 0 {
                pair.fetch_turn(|_| {});
            }
        }
        let before = pair.fetch.n_bytes;
        pair.give_turn();
        pair.break_link();
        pair.run(|_| {});
        let case = format!("after {n_turns} turns and {before} bytes");
        assert_eq!(pair.n_saves, 1, "the state is not begun anew, {case}");
        assert!(pair.has_it_all() && pair.done, "{case}");
        assert_eq!(pair.fetch.n_bytes, state_bytes as u64, "nothing is taken twice, {case}");
        assert!(pair.give.n_bytes < state_bytes as u64 + WINDOW_BYTES + PIECE as u64, "{case}");
    }
}

#[test]
fn i6_a_broken_link_is_waited_for_and_then_another_is_asked() {
    let mut pair = Pair::new(1000, 8, 5 * WINDOW_BYTES as usize);
    pair.ask(Prefix(3));
    pair.some_turns(5);
    pair.fetch.on_link_down(HAS, NOW);
    pair.give.on_link_down(LACKS);
    assert!(!pair.fetch.is_overdue(NOW), "it may come back");
    assert!(pair.give.wants_piece(NOW).is_none(), "nothing is made for a broken link");
    assert!(pair.fetch.is_overdue(NOW.plus(PATIENCE)));
    // I4: and what was kept for it goes.
    assert_eq!(pair.give.deadline(), Some(NOW.plus(KEPT_FOR)));
    pair.give.sweep(NOW.plus(KEPT_FOR));
    assert!(pair.give.ended().is_some() && pair.give.deadline().is_none());
}

#[test]
fn i6_a_giver_that_was_born_again_says_that_it_has_nothing_to_go_on_from() {
    let mut pair = Pair::new(1000, 8, 5 * WINDOW_BYTES as usize);
    pair.ask(Prefix(3));
    pair.some_turns(5);
    pair.give = Give::default();
    pair.break_link();
    pair.run(|_| {});
    assert!(pair.installed.is_none());
    assert!(pair.fetch.is_overdue(NOW.plus(PATIENCE / 20)), "another is asked soon");
}

#[test]
fn i1_damaged_bytes_are_asked_for_again_and_not_for_ever() {
    let state_bytes = 3 * WINDOW_BYTES as usize;
    for (n_damages, arrives) in [(1, true), (3, true), (u32::MAX, false)] {
        let mut pair = Pair::new(1000, 8, state_bytes);
        pair.ask(Prefix(3));
        let (mut n, mut left) = (0, n_damages);
        pair.run(|message| {
            n += 1;
            if n > 7 && n % 5 == 0 && left > 0 && message.len() > 1000 {
                left -= 1;
                message[900] ^= 1;
            }
        });
        assert_eq!((pair.has_it_all(), pair.done), (arrives, arrives), "{n_damages} damages");
        assert_eq!(pair.installed.is_some(), arrives, "I1");
        assert!(arrives || pair.fetch.is_overdue(NOW), "another is asked at once");
    }
}

#[test]
fn where_the_log_goes_on_values_that_are_gone_are_not_waited_for() {
    for log_goes_on in [false, true] {
        let mut pair = Pair::new(1000, 8 * 100, 300_000);
        pair.log_goes_on = log_goes_on;
        pair.ask(Prefix(3));
        pair.give_turn();
        // More than is kept, while the state is on its way.
        (1000..2000u64).for_each(|slot| pair.backlog.push(Slot(slot), &slot.to_le_bytes()));
        pair.run(|_| {});
        assert_eq!(pair.installed.as_ref().map(|(prefix, _)| *prefix), Some(Prefix(1000)));
        assert_eq!((pair.done, pair.executed.len()), (log_goes_on, 0));
        // Where it does not, another is asked soon: silence would cost the whole patience.
        assert_eq!(pair.fetch.is_overdue(NOW.plus(PATIENCE / 20)), !log_goes_on);
    }
}

#[test]
fn a_save_that_another_state_ended_is_refused() {
    let mut pair = Pair::new(1000, 8, 5 * WINDOW_BYTES as usize);
    pair.ask(Prefix(3));
    pair.some_turns(3);
    pair.give.refuse(LACKS, &mut pair.flows[1]);
    pair.run(|_| {});
    assert!(pair.installed.is_none());
    assert!(pair.fetch.is_overdue(NOW.plus(PATIENCE / 20)));
}

#[test]
fn i4_a_silent_source_is_given_up_and_the_next_is_asked() {
    let mut fetch = Fetch::new(LACKS, 1);
    let mut flows = Outgoing::new(1);
    let two = Rank::at(2);
    let sources: MemberSet = [HAS, two].into_iter().collect();
    fetch.start(Prefix::ZERO, sources, NOW, &mut flows);
    assert!(fetch.is_present(HAS, (1 << 16) + 1) && !fetch.is_overdue(Instant(1)));
    let later = NOW.plus(PATIENCE);
    assert!(fetch.is_overdue(later));
    fetch.start(Prefix::ZERO, sources, later, &mut flows);
    assert!(fetch.is_present(two, (1 << 16) + 2));
    fetch.on_link_down(two, later);
    assert!(fetch.is_overdue(later), "before a state has begun there is nothing to wait for");
    fetch.start(Prefix::ZERO, sources, later, &mut flows);
    assert!(fetch.is_present(HAS, (1 << 16) + 3));
    let begins = Frame::StateBegins { transfer: (1 << 16) + 3, prefix: Prefix(7) };
    fetch.on_frame(HAS, &begins, later, &mut flows);
    fetch.on_failed(HAS);
    assert!(fetch.is_overdue(later), "nor for a process that is said to be dead");
}

/// The trap: a process that is stopped for longer than the patience, or reads as slowly, gave up
/// what had arrived, although the giver waited for it.
#[test]
fn i4_nobody_is_late_while_bytes_wait_to_be_read() {
    let later = NOW.plus(PATIENCE * 2);
    for (state_bytes, has_ended) in [(4 << 20, false), (100_000, true)] {
        let mut pair = Pair::new(100, 0, state_bytes);
        pair.reads = false;
        pair.ask(Prefix::ZERO);
        pair.some_turns(200);
        assert!(pair.fetch.has_bytes());
        assert!(!pair.fetch.is_overdue(later) && pair.fetch.deadline().is_none());
        while pair.fetch.has_bytes() {
            pair.read_turn();
        }
        if has_ended {
            assert!(pair.installed.is_some(), "it is whole");
        }
        // From here on the giver is waited for.
        assert!(!pair.fetch.is_overdue(NOW) && pair.fetch.is_overdue(later));
    }
}

#[test]
fn i5_frames_of_another_transfer_are_dropped() {
    let mut fetch = Fetch::new(LACKS, 1);
    let mut flows = Outgoing::new(1);
    fetch.start(Prefix::ZERO, [HAS].into_iter().collect(), NOW, &mut flows);
    let present = (1 << 16) + 1;
    let old = Frame::Values { transfer: 1, last: true, items: Items::NONE };
    assert_eq!(fetch.on_frame(HAS, &old, NOW, &mut flows), Step::Nothing);
    let refused = Frame::StateRefused { transfer: present, learner: true };
    fetch.on_frame(Rank::at(2), &refused, NOW, &mut flows);
    assert!(fetch.learners().is_empty(), "nobody has asked that one");
    fetch.on_frame(HAS, &refused, NOW, &mut flows);
    assert!(fetch.learners().contains(HAS) && fetch.is_active());
}

#[test]
fn a_state_is_given_from_the_first_value_on_that_is_gone() {
    let oldest = Pair::new(1000, 8 * 100, 10).backlog.oldest();
    for (have, n_saves) in [(oldest.prefix_before(), 0), (Prefix(oldest.0 - 1), 1)] {
        let mut pair = Pair::new(1000, 8 * 100, 10);
        pair.ask(have);
        pair.run(|_| {});
        assert!(pair.done, "it has {have}, and the oldest value is {oldest}");
        assert_eq!(pair.n_saves, n_saves);
    }
}
