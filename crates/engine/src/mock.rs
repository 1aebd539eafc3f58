//! For tests: a port that only carries messages, a machine that obeys, an application that has no
//! clients.

use crate::bugs::Bug;
use crate::config::{Bounds, Config};
use crate::core::Core;
use crate::desk::{Desk, PATIENCE, View};
use crate::host::HostState;
use crate::outbox::Sequence;
use crate::plant::{Plant, StableStorage};
use crate::seats::Changed;
use crate::service::{
    Answer, Answers, Appended, Application, Asker, Door, Origin, Performed, ReadAnswer, Saving,
};
use crate::stats::{DiskFigures, Stats};
use base::verb::Unsupported;
use base::{
    At, Ballot, Event, Inbox, Incarnation, Instant, MAX_MEMBERS, MemberSet, Port, Prefix, Rank,
    Slot, Token,
};
use core::time::Duration;
use proto::disk::{Disk, DiskEvent, Entry, EntryHead, Flush};
use proto::members::{Change, ChangeRefused, Configuration, Members, StateHead};
use proto::node::{Node, NodeConfig, Start, Timing};
use proto::{Host, Refused, Replicator, Role, Status, Ticket};
use std::cell::{Cell, RefCell};
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) sent: [Vec<Vec<u8>>; MAX_MEMBERS],
    /// How many messages fit between two takes.
    pub(crate) room: usize,
    /// What all its clocks show.
    pub(crate) now: Instant,
    /// The planted mistake.
    pub(crate) bug: Option<Bug>,
    /// The memory of the members, if there is any: else all words are 0.
    pub(crate) memory: Option<Memory>,
}

impl Default for Wire {
    fn default() -> Wire {
        let sent = Default::default();
        Wire { sent, room: usize::MAX, now: Instant(1), bug: None, memory: None }
    }
}

/// The words of all members, which each of them writes, as one of them sees them.
#[derive(Clone, Debug)]
pub(crate) struct Memory {
    words: Rc<RefCell<[[u64; Memory::N_WORDS]; MAX_MEMBERS]>>,
    me: Rank,
}

impl Memory {
    const N_WORDS: usize = 128;

    /// One for each member.
    pub(crate) fn of_all() -> impl Iterator<Item = Memory> {
        let words = Rc::new(RefCell::new([[0; Memory::N_WORDS]; MAX_MEMBERS]));
        Rank::all(MAX_MEMBERS).map(move |me| Memory { words: Rc::clone(&words), me })
    }

    fn read(&self, at: At, into: &mut [u64]) {
        let n = into.len();
        into.copy_from_slice(&self.words.borrow()[self.me.index()][at.0 as usize..][..n]);
    }

    fn write(&self, to: Rank, at: At, words: &[u64]) {
        let n = words.len();
        self.words.borrow_mut()[to.index()][at.0 as usize..][..n].copy_from_slice(words);
    }
}

impl Wire {
    pub(crate) fn take(&mut self, to: Rank) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent[to.index()])
    }
}

impl Port for Wire {
    fn load(&self, at: At) -> u64 {
        let mut word = [0];
        self.load_into(at, &mut word);
        word[0]
    }
    fn load_into(&self, at: At, words: &mut [u64]) {
        if let Some(memory) = &self.memory {
            memory.read(at, words);
        }
    }
    fn store(&mut self, at: At, word: u64) {
        if let Some(memory) = &self.memory {
            memory.write(memory.me, at, &[word]);
        }
    }
    fn write(&mut self, to: Rank, at: At, words: &[u64], _: Option<Token>) {
        if let Some(memory) = &self.memory {
            memory.write(to, at, words);
        }
    }
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {}
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        let queue = &mut self.sent[to.index()];
        let room = queue.len() < self.room;
        if room {
            queue.push(message.to_vec());
        }
        room
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}

impl Plant for Wire {
    type Disk = Shelf;

    fn now(&self) -> Instant {
        self.now
    }

    fn boot_now(&self) -> Instant {
        self.now
    }

    fn wall_ms(&self) -> u64 {
        0
    }

    fn flush(&mut self) {}

    fn poll(&mut self, _: &mut Inbox) {}

    fn lead(&mut self, _: bool) {}

    fn say(&mut self, _: &str) {}

    fn has_planted(&self, bug: Bug) -> bool {
        self.bug == Some(bug)
    }
}

/// A disk whose snapshots come to their end when a test says so. All entries of its log are empty.
#[derive(Debug, Default)]
pub(crate) struct Shelf {
    /// A snapshot is due.
    pub(crate) is_due: bool,
    /// The prefix of the snapshot that is being written, and whether it was given up.
    pub(crate) writing: Option<(Prefix, bool)>,
    /// All its pieces are there.
    pub(crate) is_whole: bool,
    /// Whether none is begun until the machine waits for one.
    pub(crate) is_put_off: bool,
    /// Whether the next snapshot that ends has failed.
    pub(crate) fails: bool,
    /// How many have become durable.
    pub(crate) n_snapshots: u64,
    /// Whether a snapshot that is whole becomes durable at once.
    pub(crate) is_slow: bool,
    /// The entry that cannot be read.
    pub(crate) damaged: Option<Slot>,
    /// The failure of the disk, after that entry was read.
    pub(crate) failure: Option<&'static str>,
}

impl StableStorage for Shelf {
    fn pump(&mut self, _: Instant, _: impl FnMut(DiskEvent)) {}

    fn look_within(&self) -> Option<Duration> {
        None
    }

    fn failure(&self) -> Option<&str> {
        self.failure
    }

    fn figures(&self) -> DiskFigures {
        DiskFigures::default()
    }

    fn wants_snapshot(&self) -> bool {
        self.is_due && self.writing.is_none()
    }

    fn is_writing(&self) -> bool {
        self.writing.is_some()
    }

    fn begin_snapshot(&mut self, prefix: Prefix, _: Option<StateHead>, _: Instant) -> bool {
        assert!(self.writing.is_none(), "one at a time");
        if self.is_put_off {
            return false;
        }
        (self.writing, self.is_whole) = (Some((prefix, false)), false);
        true
    }

    fn hurry_snapshot(&mut self) {
        self.is_put_off = false;
    }

    fn snapshot_pause(&self, _: Instant) -> Option<Duration> {
        None
    }

    fn wants_piece(&self) -> bool {
        self.writing.is_some_and(|(_, is_given_up)| !is_given_up) && !self.is_whole
    }

    fn snapshot_piece(&mut self, _: Vec<u8>, is_last: bool) {
        self.is_whole = is_last;
    }

    fn give_up_snapshot(&mut self) {
        if let Some((_, is_given_up)) = &mut self.writing {
            *is_given_up = !self.is_whole;
        }
    }

    fn snapshotted(&mut self, _: Instant) -> Option<Prefix> {
        let (prefix, is_given_up) = self.writing?;
        let is_durable = self.is_whole && !self.is_slow;
        if !(is_durable || is_given_up || self.fails) {
            return None;
        }
        self.writing = None;
        if is_given_up || std::mem::take(&mut self.fails) {
            return None;
        }
        self.n_snapshots += 1;
        Some(prefix)
    }
}

impl Disk for Shelf {
    fn append(&mut self, _: Entry<'_>) {}

    fn room(&self) -> usize {
        usize::MAX
    }

    fn cut(&mut self, _: Slot) {}

    fn begin_at(&mut self, _: Slot) {}

    fn put_meta(&mut self, _: &[u8]) {}

    fn meta(&self) -> &[u8] {
        &[]
    }

    fn sync(&mut self) -> Flush {
        Flush(0)
    }

    fn read(&mut self, slot: Slot, into: &mut Vec<u8>) -> Option<EntryHead> {
        into.clear();
        if self.damaged == Some(slot) {
            self.failure = Some("an entry cannot be read");
            return None;
        }
        Some(EntryHead { slot, ballot: Ballot::NONE, view: 0 })
    }

    fn head(&self, _: Slot) -> Option<EntryHead> {
        None
    }

    fn start(&self) -> Slot {
        Slot::ZERO
    }

    fn end(&self) -> Slot {
        Slot::ZERO
    }

    fn free_below(&mut self, _: Slot) {}
}

/// A machine that applies what a test says is decided, and is told of states.
#[derive(Debug, Default)]
pub(crate) struct Obedient {
    /// Every slot below is decided, and known here.
    pub(crate) decided: Rc<Cell<Prefix>>,
    pub(crate) applied: Prefix,
    /// The states that it was told to continue from.
    pub(crate) installed: Vec<(Prefix, Option<StateHead>)>,
    /// The members.
    pub(crate) configuration: Cell<Option<Configuration>>,
}

impl Obedient {
    /// What goes with a state of everything below `prefix`.
    pub(crate) fn head(prefix: Prefix) -> StateHead {
        let (ballot, members) = (Ballot(prefix.0), Members::default());
        StateHead { ballot, members_at: prefix, members, coming: None }
    }
}

impl Replicator for Obedient {
    const NEEDS_HEAD: bool = true;

    fn value_bytes_max(&self) -> usize {
        100
    }
    fn lead<H: Host>(&mut self, _: Instant, _: &mut H) {}
    fn follow<H: Host>(&mut self, _: Instant, _: &mut H) {}
    fn propose<H: Host>(&mut self, _: &[u8], _: Instant, _: &mut H) -> Result<Slot, Refused> {
        Err(Refused::NotLeader)
    }
    fn read<H: Host>(&mut self, _: Ticket, _: Instant, _: &mut H) {}
    fn on_event<H: Host>(&mut self, _: Event<'_>, _: Instant, _: &mut H) {}
    fn heard(&mut self, _: MemberSet) {}
    fn poll<H: Host>(&mut self, _: Instant, host: &mut H) {
        while self.applied < self.decided.get() {
            let slot = self.applied.next_slot();
            if let Some(disk) = host.disk()
                && disk.read(slot, &mut Vec::new()).is_none()
            {
                break;
            }
            host.deliver(slot, b"value");
            self.applied = slot.prefix_through();
        }
    }
    fn deadline(&self) -> Option<Instant> {
        None
    }
    fn install<H: Host>(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        _: Instant,
        _: &mut H,
    ) {
        self.installed.push((applied, head));
        self.applied = applied;
    }
    fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        assert!(prefix <= self.applied, "{prefix} is asked for, and {} is applied", self.applied);
        Some(Obedient::head(prefix))
    }
    fn status(&self) -> Status {
        let (ballot, committed) = (Ballot::NONE, self.decided.get());
        Status { role: Role::Follower, ballot, committed, applied: self.applied }
    }
    fn configuration(&self) -> Option<Configuration> {
        self.configuration.get()
    }
    fn change<H: Host>(&mut self, _: Change, _: Instant, _: &mut H) -> Result<Slot, ChangeRefused> {
        let begun = |of: Configuration| Configuration { is_decided: false, ..of };
        self.configuration.set(self.configuration.get().map(begun));
        Ok(Slot::ZERO)
    }
    fn holders(&self, _: Prefix) -> MemberSet {
        MemberSet::EMPTY
    }
    fn applied_by(&self, _: Rank) -> Prefix {
        Prefix::ZERO
    }
}

/// An application whose states are some bytes.
#[derive(Debug, Default)]
pub(crate) struct Passive {
    n_saves: u64,
    /// Saves that were begun, and neither ended nor forgotten.
    pub(crate) open: Vec<Saving>,
    /// Its states never come to their last piece.
    pub(crate) has_more: bool,
    /// Commands do not fit into one batch.
    pub(crate) takes_parts: bool,
    /// How often half a command was given up.
    pub(crate) n_abandoned: usize,
    /// How many states were put in place.
    pub(crate) n_restored: usize,
    /// When its first key expires.
    pub(crate) next_expiry_ms: Option<u64>,
}

impl Application for Passive {
    fn apply(&mut self, _: Slot, _: &[u8], _: &mut Answers) {}

    fn state_ms(&self) -> u64 {
        0
    }

    fn next_expiry_ms(&self) -> Option<u64> {
        self.next_expiry_ms
    }

    fn read(&mut self, _: &[u8], _: u64, _: &mut Vec<u8>) -> Performed {
        Performed::Done
    }

    fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        self.open.push(Saving(self.n_saves));
        Saving(self.n_saves)
    }

    fn save_piece(&mut self, _: Saving, _: usize, out: &mut Vec<u8>) -> Option<bool> {
        out.extend_from_slice(b"a state");
        Some(self.has_more)
    }

    fn end_save(&mut self, saving: Saving) {
        self.open.retain(|open| *open != saving);
    }

    fn begin_restore(&mut self) {}

    fn restore_piece(&mut self, _: &[u8]) -> Result<bool, String> {
        Ok(false)
    }

    fn end_restore(&mut self) -> Result<(), String> {
        self.n_restored += 1;
        self.open.clear();
        Ok(())
    }

    fn give_up_restore(&mut self) {}

    fn begin(&mut self, _: u64, _: &mut Vec<u8>) {}

    fn append(&mut self, _: Origin, _: Sequence, _: &[u8], _: usize, _: &mut Vec<u8>) -> Appended {
        if self.takes_parts { Appended::Part } else { Appended::Whole }
    }

    fn abandon(&mut self) {
        self.n_abandoned += 1;
    }
}

/// A door that no client knows.
#[derive(Debug, Default)]
pub(crate) struct Closed {
    /// The operators' changes that have ended.
    pub(crate) ended: Vec<(Asker, Changed)>,
    /// How often answers were put on their way.
    pub(crate) n_flushes: usize,
}

impl Door<Passive> for Closed {
    fn perform(&mut self, _: Asker, _: u64, _: &mut Passive, _: &mut Desk) -> Performed {
        Performed::Done
    }

    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {}

    fn answer(&mut self, _: Asker, _: Answer<'_>, _: &mut Desk) {}

    fn answer_read(&mut self, _: Asker, _: ReadAnswer<'_>, _: &mut Desk) {}

    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {}

    fn answer_change(&mut self, asker: Asker, changed: Changed, _: &mut Desk) {
        self.ended.push((asker, changed));
    }

    fn resume(&mut self, _: &mut Passive, _: &mut Desk) -> bool {
        false
    }

    fn flush(&mut self, _: &mut Desk) {
        self.n_flushes += 1;
    }

    fn publish(&mut self, _: &View, _: &Stats, _: &mut Passive) {}
}

/// A member of these tests, without its turns.
pub(crate) type Member = Core<Wire, Obedient, Passive, Closed>;

/// One of three members, without its loop. It keeps no values for others.
pub(crate) fn core(me: usize, decided: Rc<Cell<Prefix>>) -> Member {
    let origin = Origin { rank: Rank::at(me), life: Incarnation(1) };
    let config = Config { backlog_bytes: 0, ..Config::new(origin, 3) };
    let desk = Desk::new(View::new(origin.rank, 3), PATIENCE);
    let host = HostState::new(
        Wire::default(),
        (Passive::default(), Closed::default()),
        None,
        desk,
        &config,
    );
    let of_node = NodeConfig {
        me: origin.rank,
        members: 3,
        start: Start::Bootstrap,
        timing: Timing::default(),
        memory_outlives_process: false,
        peer_works: true,
    };
    let node = Node::new(&of_node, Obedient { decided, ..Obedient::default() });
    Core::new(node, host, Bounds::default())
}
