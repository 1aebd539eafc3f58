//! A world that a test steps by hand.
//!
//! A script holds wires, stops and kills processes, asks clients' operations and waits for
//! conditions; the same checks run as in a sweep. Time is virtual: waiting costs nothing, and a
//! condition that never comes is an error with a name, not a hang.

use crate::kv::Ask;
use crate::ledger::Reply;
use crate::plan::{MS, Plan};
use crate::world::World;
use crate::{Birth, Config, Provider, Shape, Subject, Violation};
use base::{Event, Prefix, Rank, Rng};
use core::time::Duration;
use proto::Status;

/// A world under a test's control.
pub struct Script(World);

/// A client's operation, for scripts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Operation {
    /// A read of the register's value.
    Read,
    /// A write to it.
    Write(u64),
    /// An addition to it.
    Add(u64),
}

impl Script {
    /// A world of `members` of `subject` that have just started, in good weather, with `n_clients`
    /// silent clients.
    pub fn new(
        subject: Subject,
        members: usize,
        provider: Provider,
        shape: Shape,
        n_clients: usize,
    ) -> Script {
        let plan = Plan { n_clients, think_ns: 0, ..Plan::calm(members, provider, shape) };
        let mut world = World::new(subject, plan, Rng::new(1), Config::default().trace);
        for node in 0..members {
            world.be_born(node, Birth::Fresh);
        }
        Script(world)
    }

    /// Lets `span` pass.
    pub fn run_for(&mut self, span: Duration) {
        let end = self.0.net.now() + span.as_nanos() as u64;
        while let Some(what) = self.0.net.queue.pop_until(end) {
            self.0.happen(what);
        }
        self.0.net.queue.pass(end);
    }

    /// Runs until `condition` holds; false if it does not within `limit`.
    #[must_use]
    pub fn run_until(
        &mut self,
        limit: Duration,
        mut condition: impl FnMut(&Script) -> bool,
    ) -> bool {
        let end = self.0.net.now() + limit.as_nanos() as u64;
        while !condition(self) {
            match self.0.net.queue.pop_until(end) {
                Some(what) => self.0.happen(what),
                None => return false,
            }
        }
        true
    }

    /// Holds everything from `from` to `to`.
    pub fn hold(&mut self, from: usize, to: usize) {
        let wire = self.0.net.link_index(from, to);
        self.0.net.hold(wire);
    }

    /// Lets held messages arrive, and later ones too.
    pub fn release(&mut self, from: usize, to: usize) {
        let wire = self.0.net.link_index(from, to);
        self.0.net.release(wire);
    }

    /// Kills a process.
    pub fn crash(&mut self, node: usize) {
        self.0.crash(node);
    }

    /// Starts a dead process again, on its region.
    pub fn restart(&mut self, node: usize) {
        self.0.restart(node);
    }

    /// Stops a process, wherever it is.
    pub fn pause(&mut self, node: usize) {
        self.0.pause(node);
    }

    /// Stops the disk at `node`, which reports that after a while.
    pub fn stall_disk(&mut self, node: usize) {
        self.0.disks[node].stall(true);
        let now = self.0.net.now();
        self.0.net.arm_run(node, now);
    }

    /// Makes its disk work again.
    pub fn release_disk(&mut self, node: usize) {
        self.0.release_disk(node);
    }

    /// Resumes a stopped process.
    pub fn resume(&mut self, node: usize) {
        self.0.resume(node);
    }

    /// Tells `to`, rightly or not, that the process of `about` has failed.
    pub fn hint(&mut self, to: usize, about: usize) {
        self.0.net.tell(to, Event::ProcessFailed(Rank::at(about)));
    }

    /// Moves the clock of `node` forward.
    pub fn jump(&mut self, node: usize, by: Duration) {
        let now = self.0.net.now();
        self.0.net.processes[node].clock.jump(now, by.as_nanos() as u64);
        self.0.net.arm_run(node, now);
    }

    /// Lets a client ask `node`, that one first, until it is answered or gives up.
    ///
    /// # Panics
    /// If it has an operation under way.
    pub fn ask(&mut self, client: usize, node: usize, key: u8, operation: Operation) {
        let ask = match operation {
            Operation::Read => Ask::Read,
            Operation::Write(value) => Ask::Write(value),
            Operation::Add(amount) => Ask::Add(amount),
        };
        self.0.clients[client].prefer(node);
        self.0.ask(client, key, ask);
    }

    /// The answer to the last operation of `client`, if it has come.
    pub fn answer(&self, client: usize) -> Option<u64> {
        let of_client = |one: &&crate::history::Operation| one.client as usize == client;
        self.0.ledger.operations.iter().rev().find(of_client).and_then(|last| last.answer)
    }

    /// The status of a living node's machine.
    pub fn status(&self, node: usize) -> Option<Status> {
        self.0.role(node)?;
        self.0.machines[node].as_ref().map(|machine| machine.status())
    }

    /// The nodes that lead by their own report.
    pub fn leaders(&self) -> Vec<usize> {
        let leads = |node: &usize| self.0.role(*node) == Some(proto::Role::Leader);
        (0..self.0.plan.members).filter(leads).collect()
    }

    /// The prefix that `node` has delivered.
    pub fn applied(&self, node: usize) -> Prefix {
        self.0.applied(node)
    }

    /// One word of a region.
    pub fn word(&self, node: usize, at: u32) -> u64 {
        self.0.net.regions[node].load(at as usize)
    }

    /// The number of answers with an unknown outcome.
    pub fn n_unknown(&self) -> usize {
        let unknown = |reply: &&Reply| matches!(reply, Reply::Unknown);
        self.0.ledger.replies.iter().filter(unknown).count()
    }

    /// Runs every check, on all that has happened.
    ///
    /// # Errors
    /// The first property that did not hold.
    pub fn check(self) -> Result<(), Violation> {
        self.0.judge().violation.map_or(Ok(()), Err)
    }
}

/// A time that is enough for everything that is not stuck.
pub const PATIENCE: Duration = Duration::from_nanos(5_000 * MS);
