//! A member without I/O: three engines in one thread over plain memory, no fabric.
//!
//! The measurement includes what the engine that ships does for each command: its place among the
//! requests, its frame in a batch, the WRITEs and CASes at three acceptors and their completions,
//! the delivery and the answer at the leader, the learning and delivery at both followers, and a
//! look at the command at all three. A library such as `omnipaxos` does no more than that, without
//! the requests and answers, when its three replicas live in one thread.

mod memory;

use crate::counter::Counter;
use crate::run::{Effort, repeat};
use base::{Event, Incarnation, Instant, Rank};
use engine::{
    Answer, Asker, Config, Desk, Door, Engine, Log, Origin, Performed, ReadAnswer, Stats,
    View as Standing,
};
use memory::{MEMBERS, Memory, View};
use proto::node::{NodeConfig, Start, Timing};
use proto::planted::Sound;
use proto::registry::{self, LogSpec};
use proto::velos::{self, Velos};
use proto::{LogShape, Role};
use report::{Report, Row};
use std::cell::{Cell, RefCell};
use std::convert::Infallible;
use std::rc::Rc;
use std::time::Duration;

/// The size of one entry's value, in bytes: the same at every rival.
pub const VALUE_BYTES: usize = 32;
/// The entries per batch: the same as for the rivals.
const BATCHES: [usize; 3] = [1, 64, 512];

type Member = Engine<Log<View, Velos, Counter, Clients>>;

/// Three members, and the memory that they share.
pub struct Core {
    members: Vec<Member>,
    clock: Rc<Cell<Instant>>,
    leader: usize,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

/// The clients of a member, which wait for nothing: their answers are counted.
#[derive(Debug, Default)]
struct Clients {
    n_answered: u64,
}

impl Door<Counter> for Clients {
    fn perform(&mut self, _: Asker, _: u64, _: &mut Counter, _: &mut Desk) -> Performed {
        unreachable!("the clients read nothing")
    }

    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {
        unreachable!("the clients read nothing")
    }

    fn answer(&mut self, _: Asker, answer: Answer<'_>, _: &mut Desk) {
        self.n_answered += u64::from(matches!(answer, Answer::Executed(..)));
    }

    fn answer_read(&mut self, _: Asker, _: ReadAnswer<'_>, _: &mut Desk) {
        unreachable!("the clients read nothing")
    }

    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {
        unreachable!("the clients send no WAIT")
    }

    fn resume(&mut self, _: &mut Counter, _: &mut Desk) -> bool {
        false
    }

    fn flush(&mut self, _: &mut Desk) {}

    fn publish(&mut self, _: &Standing, _: &Stats, _: &mut Counter) {}
}

fn member(me: usize, shape: &LogShape, view: View) -> Member {
    let of_node = NodeConfig {
        me: Rank::at(me),
        members: MEMBERS,
        start: Start::Bootstrap,
        timing: Timing::default(),
        memory_outlives_process: true,
        peer_works: false,
    };
    let config = Config::new(Origin { rank: Rank::at(me), life: Incarnation(1) }, MEMBERS);
    let served = (Counter::default(), Clients::default());
    Engine::new::<String>(&config, view, served, (None, None), |host| {
        registry::member::<velos::Spec, _, _>(of_node, shape, Sound, host)
            .map_err(|error| error.to_string())
    })
    .expect("velos runs on any memory")
}

impl Core {
    /// A group with a leader.
    ///
    /// # Panics
    /// If no member becomes leader: the protocol is broken.
    pub fn new(shape: &LogShape) -> Core {
        let n_words = velos::Spec::layout(MEMBERS, shape).n_words as usize;
        let memory = Rc::new(RefCell::new(Memory::new(n_words)));
        let clock = Rc::new(Cell::new(Instant(1)));
        for inbox in &mut memory.borrow_mut().inboxes {
            Rank::all(MEMBERS).for_each(|peer| inbox.push(Event::LinkUp(peer)));
        }
        let view = |me| View { memory: Rc::clone(&memory), clock: Rc::clone(&clock), me };
        let members = (0..MEMBERS).map(|me| member(me, shape, view(me))).collect();
        let mut core = Core { members, clock, leader: 0 };
        for _ in 0..1000 {
            core.pass(Duration::from_millis(1));
            (0..MEMBERS).for_each(|me| core.turn(me, 0, &[]));
        }
        let leads = |member: &Member| member.view().role == Role::Leader;
        core.leader = core.members.iter().position(leads).expect("one of them leads");
        core
    }

    /// Virtual time: members use the time only to wait, and none waits here.
    fn pass(&self, span: Duration) {
        self.clock.set(self.clock.get().plus(span));
    }

    /// A turn of one member, whose clients bring `entries` commands.
    fn turn(&mut self, me: usize, entries: usize, value: &[u8]) {
        let member = &mut self.members[me];
        member.begin_turn();
        member.begin_slice();
        member.at_the_door(|_, _, desk| {
            for _ in 0..entries {
                desk.write(Asker { connection: 0, request: 0 }, value);
            }
        });
        member.work();
    }

    fn delivered(&self) -> [u64; MEMBERS] {
        std::array::from_fn(|me| self.members[me].app().counts().commands)
    }

    fn answered(&mut self) -> u64 {
        self.members[self.leader].parts().door.n_answered
    }

    /// Has `entries` copies of `value` decided, delivered at all three and answered, in as few
    /// slots as they fit into.
    ///
    /// # Panics
    /// If they are not: the protocol is broken.
    pub fn decide(&mut self, value: &[u8], entries: usize) {
        self.pass(Duration::from_micros(1));
        let (before, answered) = (self.delivered(), self.answered());
        let leader = self.leader;
        self.turn(leader, entries, value);
        (0..MEMBERS).filter(|me| *me != leader).for_each(|me| self.turn(me, 0, &[]));
        let after = self.delivered();
        let all = (0..MEMBERS).all(|me| after[me] == before[me] + entries as u64);
        assert!(all, "{entries} entries: {before:?} became {after:?}");
        assert_eq!(self.answered(), answered + entries as u64, "each client has its answer");
    }
}

/// One run of one batch size.
pub fn measure(batch: usize, span: Duration) -> Row {
    let batch_ns = run(batch, &[7; VALUE_BYTES], span);
    Row::new(format!("batch of {batch}"))
        .with("members", MEMBERS)
        .with("value_bytes", VALUE_BYTES)
        .with("batch", batch)
        .with("per_s", batch as f64 * 1e9 / batch_ns)
        .with("ns_per_entry", batch_ns / batch as f64)
        .with("ns_per_batch", batch_ns)
}

/// The report: a row per batch size, or one per batch size and rival if there are rivals' rows.
pub fn report(effort: &Effort, rivals: Option<&Report>) -> Report {
    let span = effort.span / 2;
    let own =
        repeat("core", effort, &BATCHES, |batch| Ok::<Row, Infallible>(measure(*batch, span)));
    let Ok(mut report) = own;
    let Some(rivals) = rivals else { return report };
    report.rows = report.rows.iter().flat_map(|row| beside(row, &rivals.rows)).collect();
    report
}

fn beside(ours: &Row, rivals: &[Row]) -> Vec<Row> {
    let number = |row: &Row, name: &str| row.number(name).unwrap_or(f64::NAN);
    let same = |row: &&Row| row.number("batch") == ours.number("batch");
    let compared = rivals.iter().filter(same).filter_map(|theirs| {
        let per_s = number(theirs, "per_s");
        Some(
            ours.clone()
                .with("peer", theirs.get("peer")?.clone())
                .with("peer_per_s", per_s)
                .with("ratio", number(ours, "per_s") / per_s),
        )
    });
    compared.collect()
}

/// Each run has a fresh group, so that none inherits the memory layout of another.
fn run(batch: usize, value: &[u8], span: Duration) -> f64 {
    let mut core = Core::new(&LogShape::default());
    // The warm-up goes twice around the ring: every slot has been recycled, every page is present.
    let warm_up = 2 * LogShape::default().ring_slots;
    (0..warm_up).for_each(|_| core.decide(value, batch));
    let began = std::time::Instant::now();
    let mut batches = 0;
    // The clock is read only at intervals: a reading costs a considerable part of a decision.
    while began.elapsed() < span {
        (0..64).for_each(|_| core.decide(value, batch));
        batches += 64;
    }
    let ns = began.elapsed().as_nanos() as f64 / f64::from(batches);
    assert!(core.members[0].app().counts().sum > 0, "the state machines saw the values");
    ns
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_rival_stands_beside_the_batch_of_its_size() {
        let ours = Row::new("batch of 64").with("batch", 64u64).with("per_s", 30.0);
        let theirs = |batch: u64, per_s: f64| {
            Row::new("x").with("peer", "omnipaxos").with("batch", batch).with("per_s", per_s)
        };
        let rows = beside(&ours, &[theirs(1, 5.0), theirs(64, 10.0)]);
        assert_eq!(rows.len(), 1);
        assert_eq!(rows[0].number("ratio"), Some(3.0));
    }

    #[test]
    fn a_batch_larger_than_a_slot_is_delivered_whole() {
        let mut core = Core::new(&LogShape::default());
        for entries in [1, 64, 512, 1] {
            core.decide(&[7; VALUE_BYTES], entries);
        }
    }
}
