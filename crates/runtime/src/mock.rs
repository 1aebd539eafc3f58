//! For tests: a port that only carries messages, a machine that obeys, a service without clients.

use crate::core::Core;
use crate::desk::{Desk, PATIENCE, View};
use crate::outbox::Sequence;
use crate::poller::{Poller, Ready};
use crate::replica::Config;
use crate::service::{
    Answer, Answers, Appended, Asker, Origin, Performed, ReadAnswer, Saving, Service,
};
use crate::stats::Stats;
use crate::world::World;
use base::verb::Unsupported;
use base::{
    At, Ballot, Event, Inbox, Incarnation, Instant, MAX_MEMBERS, MemberSet, Port, Prefix, Rank,
    Slot, Token,
};
use fabric::{Atomicity, Capabilities, Fabric};
use proto::members::{Configuration, Members, StateHead};
use proto::node::{Node, NodeConfig, Start, Timing};
use proto::{Host, Refused, Replicator, Role, Status, Ticket};
use std::cell::Cell;
use std::os::fd::BorrowedFd;
use std::rc::Rc;

#[derive(Debug)]
pub(crate) struct Wire {
    pub(crate) sent: [Vec<Vec<u8>>; MAX_MEMBERS],
    /// How many messages fit between two takes.
    pub(crate) room: usize,
}

impl Default for Wire {
    fn default() -> Wire {
        Wire { sent: Default::default(), room: usize::MAX }
    }
}

impl Wire {
    pub(crate) fn take(&mut self, to: Rank) -> Vec<Vec<u8>> {
        std::mem::take(&mut self.sent[to.index()])
    }
}

impl Port for Wire {
    fn load(&self, _: At) -> u64 {
        0
    }
    fn load_into(&self, _: At, _: &mut [u64]) {}
    fn store(&mut self, _: At, _: u64) {}
    fn write(&mut self, _: Rank, _: At, _: &[u64], _: Option<Token>) {}
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

impl Fabric for Wire {
    fn capabilities(&self) -> Capabilities {
        Capabilities {
            name: "mock",
            memory_outlives_process: false,
            atomicity: Atomicity::WithCpu,
            write_permission: false,
            peer_works: true,
        }
    }
    fn flush(&mut self) {}
    fn poll(&mut self, _: &mut Inbox) {}
    fn wait_fd(&self) -> BorrowedFd<'_> {
        unreachable!("a core waits for nothing")
    }
    fn prepare_sleep(&mut self) {}
    fn awake(&mut self) {}
    fn lead(&mut self, _: bool) {}
}

/// A machine that applies what a test says is decided, and is told of states.
#[derive(Debug, Default)]
pub(crate) struct Obedient {
    /// Every slot below is decided, and known here.
    pub(crate) decided: Rc<Cell<Prefix>>,
    pub(crate) applied: Prefix,
    /// What it was told to go on from.
    pub(crate) installed: Vec<(Prefix, Option<StateHead>)>,
    /// Who takes part.
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
            host.deliver(self.applied.next_slot(), b"value");
            self.applied = self.applied.next_slot().prefix_through();
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
    fn holders(&self, _: Prefix) -> MemberSet {
        MemberSet::EMPTY
    }
    fn applied_by(&self, _: Rank) -> Prefix {
        Prefix::ZERO
    }
}

/// A service whose states are some bytes, and which no client knows.
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
}

impl Service for Passive {
    fn apply(&mut self, _: Slot, _: &[u8], _: &mut Answers) {}
    fn state_ms(&self) -> u64 {
        0
    }
    fn next_expiry_ms(&self) -> Option<u64> {
        None
    }
    fn begin_save(&mut self) -> Saving {
        self.n_saves += 1;
        self.open.push(Saving(self.n_saves));
        Saving(self.n_saves)
    }
    fn save_piece(&mut self, _: Saving, out: &mut Vec<u8>) -> Option<bool> {
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
    fn perform(&mut self, _: Asker, _: u64, _: &mut Desk) -> Performed {
        Performed::Done
    }
    fn describe_read(&mut self, _: Asker, _: &mut Vec<u8>) {}
    fn perform_described(&mut self, _: &[u8], _: u64, _: &mut Vec<u8>) -> Performed {
        Performed::Done
    }
    fn answer(&mut self, _: Asker, _: Answer<'_>, _: &mut Desk) {}
    fn answer_read(&mut self, _: Asker, _: ReadAnswer<'_>, _: &mut Desk) {}
    fn answer_wait(&mut self, _: Asker, _: usize, _: &mut Desk) {}
    fn on_ready(&mut self, _: Ready, _: &Poller, _: &mut Desk) {}
    fn resume(&mut self, _: &Poller, _: &mut Desk) -> bool {
        false
    }
    fn flush(&mut self, _: &Poller, _: &mut Desk) {}
    fn publish(&mut self, _: &View, _: &Stats) {}
}

/// One of three members, without its loop. It keeps no values for others.
pub(crate) fn core(me: usize, decided: Rc<Cell<Prefix>>) -> Core<Wire, Obedient, Passive> {
    let origin = Origin { rank: Rank::at(me), life: Incarnation(1) };
    let config = Config { backlog_bytes: 0, ..Config::new(origin, 3) };
    let desk = Desk::new(View::new(origin.rank, 3), PATIENCE);
    let world = World::new(Wire::default(), Passive::default(), None, desk, &config);
    let of_node = NodeConfig {
        me: origin.rank,
        members: 3,
        start: Start::Bootstrap,
        timing: Timing::default(),
        memory_outlives_process: false,
        peer_works: true,
    };
    Core::new(Node::new(&of_node, Obedient { decided, ..Obedient::default() }), world)
}
