//! Whole replicas in threads, over shared memory, with a small service of their own.
//!
//! A thread that ends silently is a process that dies: its region stays, the kernel releases its
//! locks, and its peers learn of it as of a process's death.

mod common;

use base::{Incarnation, NodeId, Prefix, Rank, Slot};
use fabric::Setup;
use fabric::shm::ShmFabric;
use proto::node::{self, NodeConfig, Start};
use proto::planted::Sound;
use proto::registry::{self, LogProtocol};
use proto::{LogShape, durable, velos};
use runtime::disk::LogDisk;
use runtime::replica::{Config, LogReplica, Replica};
use runtime::{
    Answer, Answers, Appended, Application, Asker, Desk, Door, Interest, Origin, Performed,
    ReadAnswer, Ready, Saving, Sequence, Sockets, Stats, View,
};
use std::cell::Cell;
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::os::unix::fs::FileExt;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::rc::Rc;
use std::sync::mpsc::{Receiver, Sender, channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};
use storage::{Directory, Identity};

const PATIENCE: Duration = Duration::from_secs(20);
const SHAPE: LogShape = LogShape { ring_slots: 32, value_bytes: 512 };

/// A list that commands append words to: the order of execution is the state.
#[derive(Default)]
struct Journal {
    words: Vec<u64>,
    done: BTreeMap<(Rank, Incarnation, u64), u64>,
    saves: BTreeMap<u64, Vec<u8>>,
    n_saves: u64,
    /// The bytes of a state that is being installed, and how many of its numbers were read.
    arrived: Vec<u8>,
    n_read: usize,
    /// The number of its steps in the present turn.
    n_steps: Rc<Cell<u64>>,
}

/// The clients that write it and read it.
#[derive(Default)]
struct Writers {
    inbox: Option<Receiver<(Ask, Sender<Told>)>>,
    bell: Option<UnixStream>,
    open: BTreeMap<u64, (Ask, Sender<Told>)>,
    next: u64,
    /// The steps of reading states in the present turn, the most in any turn, and all.
    n_steps: Rc<Cell<u64>>,
    n_steps_max: u64,
    n_steps_all: u64,
    stop: bool,
}

#[derive(Clone, Copy, Debug)]
enum Ask {
    /// A question: how many steps it took to read states, and the most in one turn of the loop.
    Steps,
    MostSteps,
    Append(u64),
    Length,
    Wait(u64, usize),
    Stop,
}

#[derive(Clone, Debug, PartialEq, Eq)]
enum Told {
    Number(u64),
    Unknown,
    Unavailable,
}

impl Writers {
    fn take_in(&mut self, desk: &mut Desk) -> bool {
        let mut took = false;
        while desk.has_room() {
            let Some(Ok((ask, teller))) = self.inbox.as_ref().map(Receiver::try_recv) else {
                break;
            };
            took = true;
            self.next += 1;
            let asker = Asker { connection: self.next, request: 0 };
            self.open.insert(self.next, (ask, teller));
            match ask {
                Ask::Append(word) => drop(desk.write(asker, &word.to_le_bytes())),
                Ask::Length => desk.read(asker),
                Ask::Wait(prefix, n) => {
                    assert!(desk.wait(asker, Prefix(prefix), n, Some(PATIENCE)));
                }
                Ask::Steps => self.tell(asker, Told::Number(self.n_steps_all)),
                Ask::MostSteps => self.tell(asker, Told::Number(self.n_steps_max)),
                Ask::Stop => self.stop = true,
            }
        }
        took
    }

    fn tell(&mut self, asker: Asker, told: Told) {
        if let Some((_, teller)) = self.open.remove(&asker.connection) {
            let _ = teller.send(told);
        }
    }
}

impl Application for Journal {
    fn apply(&mut self, _: Slot, value: &[u8], answers: &mut Answers) {
        let (_, mut rest) = value.split_at(8);
        while let Some((frame, behind)) = rest.split_first_chunk::<{ common::HEAD + 8 }>() {
            rest = behind;
            let (origin, sequence) = common::head_of(frame);
            let words = &mut self.words;
            let key = (origin.rank, origin.life, sequence.0);
            let length = *self.done.entry(key).or_insert_with(|| {
                words.push(u64::from_le_bytes(frame[common::HEAD..].try_into().unwrap()));
                words.len() as u64
            });
            answers.push(origin, sequence, &length.to_le_bytes());
        }
    }

    fn state_ms(&self) -> u64 {
        0
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        None
    }

    fn begin_save(&mut self) -> Saving {
        let mut out = Vec::new();
        out.extend_from_slice(&(self.words.len() as u64).to_le_bytes());
        self.words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
        for ((rank, life, sequence), length) in &self.done {
            for number in [rank.index() as u64, life.0, *sequence, *length] {
                out.extend_from_slice(&number.to_le_bytes());
            }
        }
        self.n_saves += 1;
        self.saves.insert(self.n_saves, out);
        Saving(self.n_saves)
    }

    fn save_piece(&mut self, saving: Saving, n_bytes: usize, out: &mut Vec<u8>) -> Option<bool> {
        let rest = self.saves.get_mut(&saving.0)?;
        out.extend(rest.drain(..rest.len().min(n_bytes)));
        Some(!rest.is_empty())
    }

    fn end_save(&mut self, saving: Saving) {
        self.saves.remove(&saving.0);
    }

    fn begin_restore(&mut self) {
        (self.arrived, self.n_read) = (Vec::new(), 0);
    }

    /// Reads one number at a time.
    fn restore_piece(&mut self, bytes: &[u8]) -> Result<bool, String> {
        self.n_steps.update(|n| n + 1);
        self.arrived.extend_from_slice(bytes);
        let is_more = |of: &Journal| of.arrived.len() / 8 > of.n_read;
        self.n_read += usize::from(is_more(self));
        Ok(is_more(self))
    }

    fn give_up_restore(&mut self) {
        self.begin_restore();
    }

    fn end_restore(&mut self) -> Result<(), String> {
        let state = std::mem::take(&mut self.arrived);
        assert_eq!(self.n_read, state.len() / 8, "all was read");
        let numbers: Vec<u64> =
            state.chunks_exact(8).map(|n| u64::from_le_bytes(n.try_into().unwrap())).collect();
        let (words, done) = numbers[1..].split_at(numbers[0] as usize);
        self.words = words.to_vec();
        self.done = done
            .chunks_exact(4)
            .map(|n| ((Rank::at(n[0] as usize), Incarnation(n[1]), n[2]), n[3]))
            .collect();
        Ok(())
    }

    fn begin(&mut self, stamp_ms: u64, out: &mut Vec<u8>) {
        out.extend_from_slice(&stamp_ms.to_le_bytes());
    }

    fn append(
        &mut self,
        origin: Origin,
        sequence: Sequence,
        command: &[u8],
        bytes_max: usize,
        out: &mut Vec<u8>,
    ) -> Appended {
        common::append(origin, sequence, command, bytes_max, out)
    }

    fn abandon(&mut self) {}

    fn read(&mut self, _: &[u8], _: u64, reply: &mut Vec<u8>) -> Performed {
        reply.extend_from_slice(&(self.words.len() as u64).to_le_bytes());
        Performed::Done
    }
}

impl Door<Journal> for Writers {
    fn perform(&mut self, asker: Asker, _: u64, app: &mut Journal, _: &mut Desk) -> Performed {
        self.tell(asker, Told::Number(app.words.len() as u64));
        Performed::Done
    }

    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {}

    fn answer(&mut self, asker: Asker, answer: Answer<'_>, _: &mut Desk) {
        let told = match answer {
            Answer::Executed(_, reply) => {
                Told::Number(u64::from_le_bytes(reply.try_into().unwrap()))
            }
            Answer::Unknown => Told::Unknown,
        };
        self.tell(asker, told);
    }

    fn answer_read(&mut self, asker: Asker, answer: ReadAnswer<'_>, _: &mut Desk) {
        let told = match answer {
            ReadAnswer::Forwarded(reply) => {
                Told::Number(u64::from_le_bytes(reply.try_into().unwrap()))
            }
            ReadAnswer::Unavailable => Told::Unavailable,
        };
        self.tell(asker, told);
    }

    fn answer_wait(&mut self, asker: Asker, n: usize, _: &mut Desk) {
        self.tell(asker, Told::Number(n as u64));
    }

    fn resume(&mut self, _: &mut Journal, desk: &mut Desk) -> bool {
        self.take_in(desk)
    }

    fn flush(&mut self, _: &mut Desk) {}

    fn publish(&mut self, _: &View, _: &Stats, _: &mut Journal) {}
}

impl Sockets<Journal> for Writers {
    fn on_ready(&mut self, _: Ready, _: &mut Journal, desk: &mut Desk) {
        let mut bell = self.bell.as_ref().unwrap();
        while matches!(bell.read(&mut [0; 64]), Ok(n) if n > 0) {}
        self.take_in(desk);
    }
}

fn setup_of(protocol: LogProtocol, directory: &Path, me: usize, members: usize) -> Setup {
    let layout = protocol.layout(members, &SHAPE);
    Setup {
        cluster: "replicas".into(),
        secret: b"a secret of tests".to_vec(),
        me: Rank::at(me),
        members,
        incarnation: Incarnation(1),
        directory: directory.to_path_buf(),
        layout: layout.fingerprint,
        rules: 0,
        n_words: layout.n_words,
    }
}

struct Member {
    thread: Option<JoinHandle<Vec<u64>>>,
    sender: Sender<(Ask, Sender<Told>)>,
    bell: UnixStream,
}

impl Member {
    fn start(directory: &Path, me: usize, life: u64) -> Member {
        let setup = setup_of(LogProtocol::Velos, directory, me, 3);
        let (sender, inbox) = channel();
        let (bell, far) = UnixStream::pair().unwrap();
        far.set_nonblocking(true).unwrap();
        let run = move || {
            let founds = life == 1;
            let fabric =
                if founds { ShmFabric::create(&setup) } else { ShmFabric::attach(&setup) }.unwrap();
            let config = NodeConfig {
                me: setup.me,
                members: 3,
                start: if founds { Start::Bootstrap } else { Start::Reattach },
                timing: node::Timing::default(),
                memory_outlives_process: true,
                peer_works: false,
            };
            let origin = Origin { rank: setup.me, life: Incarnation(life) };
            let watched = far.try_clone().unwrap();
            let journal = Journal::default();
            let n_steps = Rc::clone(&journal.n_steps);
            let writers =
                Writers { inbox: Some(inbox), bell: Some(far), n_steps, ..Writers::default() };
            let mut loop_config = Config::new(origin, 3);
            loop_config.engine.backlog_bytes = 4096;
            let served = (journal, writers);
            let mut replica = Replica::new(loop_config, fabric, served, None, |memory| {
                registry::member::<velos::Spec, _, _>(config, &SHAPE, Sound, memory)
            })
            .unwrap();
            replica.poller().add(&watched, 1, Interest::Read).unwrap();
            let stops = |writers: &mut Writers, _: &mut ShmFabric| {
                // The method is called once a turn.
                let n_steps = writers.n_steps.take();
                writers.n_steps_max = writers.n_steps_max.max(n_steps);
                writers.n_steps_all += n_steps;
                writers.stop
            };
            replica.run(stops).unwrap();
            std::mem::take(&mut replica.served().0.words)
        };
        let thread = Some(std::thread::spawn(run));
        Member { thread, sender, bell }
    }

    fn ask(&self, ask: Ask) -> Receiver<Told> {
        let (teller, told) = channel();
        self.sender.send((ask, teller)).unwrap();
        (&self.bell).write_all(&[1]).unwrap();
        told
    }

    fn call(&self, ask: Ask) -> Told {
        self.ask(ask).recv_timeout(PATIENCE).expect("an answer in time")
    }

    fn number(&self, ask: Ask) -> u64 {
        match self.call(ask) {
            Told::Number(number) => number,
            other => panic!("{ask:?}: {other:?}"),
        }
    }

    /// Ends the thread, which is a death for its peers.
    fn die(&mut self) -> Vec<u64> {
        drop(self.ask(Ask::Stop));
        self.thread.take().unwrap().join().unwrap()
    }
}

struct Group {
    directory: tempfile::TempDir,
    members: Vec<Member>,
    lives: [u64; 3],
}

impl Group {
    fn start() -> Group {
        let directory = tempfile::tempdir_in("/dev/shm").unwrap();
        let members = (0..3).map(|me| Member::start(directory.path(), me, 1)).collect();
        Group { directory, members, lives: [1; 3] }
    }

    fn restart(&mut self, me: usize) {
        self.lives[me] += 1;
        self.members[me] = Member::start(self.directory.path(), me, self.lives[me]);
    }

    /// The words on which all members agree in the end.
    fn end(mut self) -> Vec<u64> {
        let length = self.members[0].number(Ask::Length);
        for member in &self.members {
            assert_eq!(member.number(Ask::Length), length, "a read sees all that was answered");
        }
        // All must have executed it before they stop: a death loses what a member has not executed.
        let end = Instant::now() + PATIENCE;
        while self.members.iter().any(|member| member.number(Ask::Length) < length) {
            assert!(Instant::now() < end);
        }
        let states: Vec<Vec<u64>> = self.members.iter_mut().map(Member::die).collect();
        let longest = states.iter().max_by_key(|state| state.len()).unwrap().clone();
        for state in &states {
            assert_eq!(state[..], longest[..state.len()], "states differ");
        }
        assert_eq!(longest.len() as u64, length);
        longest
    }
}

#[test]
fn every_member_takes_writes_and_reads() {
    let group = Group::start();
    let mut expected = Vec::new();
    for n in 0..300u64 {
        let member = &group.members[(n % 3) as usize];
        assert_eq!(member.number(Ask::Append(n)), n + 1);
        expected.push(n);
        let reader = &group.members[(n / 2 % 3) as usize];
        assert_eq!(reader.number(Ask::Length), n + 1, "a stale read");
    }
    assert_eq!(group.end(), expected);
}

#[test]
fn pipelined_commands_stay_in_order_at_every_member() {
    let group = Group::start();
    let told: Vec<_> =
        (0..3000u64).map(|n| group.members[(n % 3) as usize].ask(Ask::Append(n))).collect();
    for told in told {
        assert!(matches!(told.recv_timeout(PATIENCE), Ok(Told::Number(_))));
    }
    let words = group.end();
    for member in 0..3 {
        let own: Vec<u64> = words.iter().copied().filter(|n| n % 3 == member).collect();
        assert!(own.is_sorted() && own.len() == 1000, "member {member}");
    }
}

#[test]
fn pipelined_commands_survive_deaths_once_and_in_order() {
    for victim in 0..3 {
        let mut group = Group::start();
        let survivor = (victim + 1) % 3;
        group.members[survivor].number(Ask::Append(0));
        let told: Vec<_> =
            (1..=1500u64).map(|n| group.members[survivor].ask(Ask::Append(n))).collect();
        // In the middle of them:
        told[100].recv_timeout(PATIENCE).unwrap();
        group.members[victim].die();
        for told in &told[101..] {
            assert!(matches!(told.recv_timeout(PATIENCE), Ok(Told::Number(_))));
        }
        group.restart(victim);
        assert_eq!(group.members[victim].number(Ask::Length), 1501, "the state came back");
        let words = group.end();
        assert!(words.iter().copied().eq(0..=1500), "none lost, none twice, none swapped");
    }
}

#[test]
fn a_member_that_missed_more_than_everything_kept_gets_a_state() {
    let mut group = Group::start();
    group.members[0].number(Ask::Append(0));
    group.members[1].die();
    // Far more than a ring of 32 slots and a backlog of 4 KiB hold.
    for n in 1..400u64 {
        assert_eq!(group.members[2].number(Ask::Append(n)), n + 1);
    }
    group.restart(1);
    assert_eq!(group.members[1].number(Ask::Length), 400);
    assert_eq!(group.members[1].number(Ask::Append(400)), 401);
    assert!(group.end().iter().copied().eq(0..=400));
}

/// R1, with a service that reads one number at a time.
#[test]
fn a_state_is_read_one_step_a_turn() {
    let mut group = Group::start();
    group.members[1].die();
    for n in 0..400u64 {
        assert_eq!(group.members[2].number(Ask::Append(n)), n + 1);
    }
    group.restart(1);
    // A state of n words has at least 5 n numbers: the words, and the record of each. A giver may
    // not have heard yet that the last ones are decided.
    let end = Instant::now() + PATIENCE;
    while group.members[1].number(Ask::Steps) < 5 * 300 {
        assert!(Instant::now() < end, "no state comes");
    }
    assert_eq!(group.members[1].number(Ask::MostSteps), 1);
    group.end();
}

/// R3: the giving member dies in the middle, and another gives the state from the beginning.
#[test]
fn a_state_whose_giver_dies_in_the_middle_comes_from_another() {
    let mut group = Group::start();
    group.members[1].die();
    for n in 0..2000u64 {
        assert_eq!(group.members[2].number(Ask::Append(n)), n + 1);
    }
    group.restart(1);
    let end = Instant::now() + PATIENCE;
    while group.members[1].number(Ask::Steps) < 500 {
        assert!(Instant::now() < end, "no state comes");
    }
    // Either may give it: the first is asked first.
    group.members[0].die();
    group.restart(0);
    assert_eq!(group.members[1].number(Ask::Length), 2000);
    assert_eq!(group.members[1].number(Ask::Append(2000)), 2001);
    assert!(group.end().iter().copied().eq(0..=2000));
}

#[test]
fn wait_is_answered_when_all_others_hold_it() {
    let group = Group::start();
    for n in 0..20 {
        group.members[0].number(Ask::Append(n));
    }
    for member in &group.members {
        assert_eq!(member.number(Ask::Wait(20, 2)), 2);
    }
    group.end();
}

type Alone = LogReplica<ShmFabric, durable::Durable, Journal, Writers>;

/// The only member of a cluster, with its log in `data`.
fn alone(data: &Path, life: u64, inbox: Receiver<(Ask, Sender<Told>)>) -> Alone {
    let memory = tempfile::tempdir_in("/dev/shm").unwrap();
    let fabric = ShmFabric::create(&setup_of(LogProtocol::Durable, memory.path(), 0, 1)).unwrap();
    let identity = Identity { cluster: 5, node: NodeId(1), incarnation: Incarnation::FIRST };
    let (directory, start) = if life == 1 {
        (Directory::create(data, &identity), Start::Bootstrap)
    } else {
        let start = Start::Recovered { applied: Prefix::ZERO, head: None };
        (Directory::open(data, &identity), start)
    };
    let disk = LogDisk::open(directory.unwrap()).unwrap();
    let config = NodeConfig {
        me: Rank::at(0),
        members: 1,
        start,
        timing: node::Timing::default(),
        memory_outlives_process: true,
        peer_works: false,
    };
    let writers = Writers { inbox: Some(inbox), ..Writers::default() };
    let loop_config = Config::new(Origin { rank: config.me, life: Incarnation(life) }, 1);
    Replica::new(loop_config, fabric, (Journal::default(), writers), Some(disk), |memory| {
        registry::member::<durable::Spec, _, _>(config, &SHAPE, Sound, memory)
    })
    .unwrap()
}

/// D5 of `proto::disk`. The trap: the member that alone decides takes its log for decided, executes
/// it up to the damage, and answers a read before it looks at its disk again.
#[test]
fn a_member_that_cannot_read_its_log_ends_and_answers_nothing() {
    let base = tempfile::tempdir().unwrap();
    let data = base.path().join("data");
    let (clients, inbox) = channel();
    let mut replica = alone(&data, 1, inbox);
    let word = |n: u64| 0x5EED_0000_0000 + n;
    for n in 0..40 {
        let (teller, told) = channel();
        clients.send((Ask::Append(word(n)), teller)).unwrap();
        let mut is_told = false;
        let stops = |_: &mut Writers, _: &mut ShmFabric| {
            is_told |= told.try_recv() == Ok(Told::Number(n + 1));
            is_told
        };
        replica.run(stops).unwrap();
    }
    drop(replica);

    let (clients, inbox) = channel();
    let mut replica = alone(&data, 2, inbox);
    let segment = data.join("log-00000000");
    let file = std::fs::File::options().read(true).write(true).open(segment).unwrap();
    let mut bytes = vec![0; 64 << 10];
    file.read_exact_at(&mut bytes, 0).unwrap();
    let at = bytes.windows(8).position(|bytes| bytes == word(7).to_le_bytes()).unwrap();
    file.write_all_at(b"rot", at as u64).unwrap();
    let (teller, told) = channel();
    clients.send((Ask::Length, teller)).unwrap();
    let mut answer = None;
    let ended = replica.run(|_, _| {
        answer = told.try_recv().ok();
        answer.is_some()
    });
    assert_eq!((answer, told.try_recv().ok()), (None, None), "of 40 words that are acknowledged");
    let why = ended.unwrap_err().to_string();
    assert!(why.contains("Replace this member"), "{why}");
}
