//! A leader allocates nothing between the queue of requests and the answer to a command.
//!
//! Three replicas run in threads, over shared memory; the leader submits commands itself. Only its
//! thread's allocations are counted.

mod common;

use allocation_counter::measure;
use base::{Incarnation, Rank, Slot};
use fabric::Setup;
use fabric::shm::ShmFabric;
use proto::Role;
use proto::node::{self, NodeConfig, Start};
use proto::planted::Sound;
use proto::registry::{self, LogProtocol};
use proto::{LogShape, velos};
use runtime::replica::{Config, Replica};
use runtime::{
    Answer, Answers, Appended, Application, Asker, Desk, Door, Origin, Performed, ReadAnswer,
    Ready, Saving, Sequence, Sockets, Stats, View,
};
use std::sync::atomic::{AtomicBool, Ordering::SeqCst};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(20);
const SHAPE: LogShape = LogShape { ring_slots: 256, value_bytes: 512 };
/// The commands before the count: several times around the ring, and through every queue.
const WARM_UP: u64 = 20_000;
const COUNTED: u64 = 20_000;
/// The allowed allocations: the buffer for lagging members doubles sometimes, and a member that
/// lags far is sent a state.
const NOW_AND_THEN: u64 = COUNTED / 100;
/// The number of commands that are under way at once.
const DEPTH: u64 = 16;

/// A door that submits commands while it leads.
#[derive(Default)]
struct Pump {
    /// Whether it allocates for each answer, which shows that allocations are counted.
    is_wasteful: bool,
    asked: u64,
    answered: u64,
}

impl Door<Nothing> for Pump {
    fn answer(&mut self, _: Asker, answer: Answer<'_>, _: &mut Desk) {
        // A command of a leader that was deposed at the start counts as well.
        assert!(matches!(answer, Answer::Executed(_, b"done") | Answer::Unknown));
        self.answered += 1;
        if self.is_wasteful {
            drop(std::hint::black_box(Box::new(self.answered)));
        }
    }

    fn resume(&mut self, _: &mut Nothing, desk: &mut Desk) -> bool {
        let mut any = false;
        while desk.view().role == Role::Leader
            && desk.has_room()
            && self.asked < self.answered + DEPTH
        {
            self.asked += 1;
            desk.write(Asker { connection: 1, request: self.asked }, &self.asked.to_le_bytes());
            any = true;
        }
        any
    }

    fn perform(&mut self, _: Asker, _: u64, _: &mut Nothing, _: &mut Desk) -> Performed {
        Performed::Done
    }

    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {}
    fn answer_read(&mut self, _: Asker, _: ReadAnswer<'_>, _: &mut Desk) {}
    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {}
    fn flush(&mut self, _: &mut Desk) {}
    fn publish(&mut self, _: &View, _: &Stats, _: &mut Nothing) {}
}

impl Sockets<Nothing> for Pump {
    fn on_ready(&mut self, _: Ready, _: &mut Nothing, _: &mut Desk) {}
}

/// An application without a state.
struct Nothing;

impl Application for Nothing {
    fn apply(&mut self, _: Slot, value: &[u8], answers: &mut Answers) {
        for frame in value[8..].chunks_exact(common::HEAD) {
            let (origin, sequence) = common::head_of(frame);
            answers.push(origin, sequence, b"done");
        }
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&stamp_ms.to_le_bytes());
    }

    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        _: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        // The command has no bytes of its own: it is only counted.
        common::append(origin, sequence, b"", bytes_max, out)
    }

    fn begin_save(&mut self) -> Saving {
        Saving(0)
    }

    fn save_piece(&mut self, _: Saving, _: usize, _: &mut Vec<u8>) -> Option<bool> {
        Some(false)
    }

    fn begin_restore(&mut self) {}

    fn restore_piece(&mut self, _: &[u8]) -> Result<bool, String> {
        Ok(false)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        Ok(())
    }

    fn give_up_restore(&mut self) {}

    fn read(&mut self, _: &[u8], _: u64, _: &mut Vec<u8>) -> Performed {
        Performed::Done
    }

    fn state_ms(&self) -> u64 {
        0
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        None
    }

    fn end_save(&mut self, _: Saving) {}
    fn abandon(&mut self) {}
}

/// Runs a member until one thread has counted. Returns its allocations, if it was that one.
fn member(
    directory: &std::path::Path,
    me: usize,
    is_wasteful: bool,
    is_over: &AtomicBool,
) -> Option<u64> {
    let layout = LogProtocol::Velos.layout(3, &SHAPE);
    let setup = Setup {
        cluster: "allocations".into(),
        secret: b"a secret of tests".to_vec(),
        me: Rank::at(me),
        members: 3,
        incarnation: Incarnation(1),
        directory: directory.to_path_buf(),
        layout: layout.fingerprint,
        rules: 0,
        n_words: layout.n_words,
    };
    let config = NodeConfig {
        me: setup.me,
        members: 3,
        start: Start::Bootstrap,
        timing: node::Timing::default(),
        memory_outlives_process: true,
        peer_works: false,
    };
    let fabric = ShmFabric::create(&setup).unwrap();
    let origin = Origin { rank: setup.me, life: Incarnation(1) };
    let pump = Pump { is_wasteful, ..Pump::default() };
    let mut replica =
        Replica::new(Config::new(origin, 3), fabric, (Nothing, pump), None, |memory| {
            registry::member::<velos::Spec, _, _>(config, &SHAPE, Sound, memory)
        })
        .unwrap();
    let end = Instant::now() + PATIENCE;
    let goes_on = |pump: &Pump, target: u64| {
        assert!(Instant::now() < end, "only {} commands were answered", pump.answered);
        pump.answered < target && !is_over.load(SeqCst)
    };
    replica.run(|pump, _| !goes_on(pump, WARM_UP)).unwrap();
    if is_over.load(SeqCst) {
        return None;
    }
    let counted = measure(|| {
        replica.run(|pump, _| !goes_on(pump, WARM_UP + COUNTED)).unwrap();
    });
    // Another member may have led after it, and have counted to the end as well.
    (!is_over.swap(true, SeqCst)).then_some(counted.count_total)
}

fn counted(is_wasteful: bool) -> u64 {
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let is_over = AtomicBool::new(false);
    let counts: Vec<u64> = std::thread::scope(|scope| {
        let run = |me| {
            let (at, is_over) = (directory.path(), &is_over);
            scope.spawn(move || member(at, me, is_wasteful, is_over))
        };
        let threads = [run(0), run(1), run(2)];
        threads.into_iter().filter_map(|thread| thread.join().unwrap()).collect()
    });
    assert_eq!(counts.len(), 1, "one has led");
    counts[0]
}

#[test]
fn a_leader_allocates_nothing_for_a_command() {
    let n = counted(false);
    assert!(n <= NOW_AND_THEN, "{n} allocations in {COUNTED} commands");
}

#[test]
fn an_allocation_for_a_command_is_counted() {
    let n = counted(true);
    // The warm-up may have lasted a turn longer.
    assert!(n >= COUNTED / 2, "{n} allocations in {COUNTED} commands");
}
