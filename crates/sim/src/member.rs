//! A member as the simulator runs it: a `proto` node of some protocol.

use crate::{Birth, Life, NodeHost, Setup, Shape};
use base::{Inbox, Instant, Prefix, Rank, Slot};
use core::marker::PhantomData;
use proto::disk::DiskEvent;
use proto::members::{Change, ChangeRefused, Configuration, StateHead};
use proto::node::{Node, NodeConfig, Start};
use proto::planted::{Bugs, Planted, Planting, Sound};
use proto::registry::{self, LogSpec};
use proto::{Refused, Status, Ticket};

/// A member that replicates by the protocol `S`.
struct Member<S: LogSpec, P: Planting<S::Bug>>(Node<S::Machine<P>>, PhantomData<S>);

/// The number of words in the region of a member among `members`.
pub(crate) fn n_words<S: LogSpec>(members: usize, shape: &Shape) -> usize {
    S::layout(members, shape).n_words as usize
}

/// Begins a life.
pub(crate) fn start<S: LogSpec>(setup: &Setup, host: &mut NodeHost<'_>) -> Box<dyn Life> {
    match setup.bug {
        None => Member::<S, _>::start(setup, Sound, host),
        Some(bug) => Member::<S, _>::start(setup, Planted(S::Bug::ALL[bug]), host),
    }
}

impl<S: LogSpec, P: Planting<S::Bug>> Member<S, P> {
    fn start(setup: &Setup, planted: P, host: &mut NodeHost<'_>) -> Box<dyn Life> {
        let config = NodeConfig {
            me: setup.me,
            members: setup.members,
            start: match setup.birth {
                Birth::Fresh if setup.founders.len() < setup.members => {
                    Start::Found { voters: setup.founders }
                }
                Birth::Fresh => Start::Bootstrap,
                Birth::Joined { incarnation } => Start::Join { incarnation },
                Birth::Reattached => Start::Reattach,
                Birth::Recovered { applied, head } => Start::Recovered { applied, head },
            },
            timing: setup.timing,
            memory_outlives_process: setup.memory_outlives_process,
            peer_works: setup.peer_works,
        };
        let node = registry::member::<S, _, _>(config, &setup.shape, planted, host);
        let node = node.expect("the world's memory and disks fit the protocol and this birth");
        Box::new(Member::<S, P>(node, PhantomData))
    }
}

impl<S: LogSpec, P: Planting<S::Bug>> Life for Member<S, P> {
    fn value_bytes_max(&self) -> usize {
        self.0.value_bytes_max()
    }

    fn propose(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, Refused> {
        self.0.propose(value, now, host)
    }

    fn read(&mut self, ticket: Ticket, now: Instant, host: &mut NodeHost<'_>) {
        self.0.read(ticket, now, host);
    }

    fn run(&mut self, events: &Inbox, now: Instant, host: &mut NodeHost<'_>) {
        events.iter().for_each(|event| self.0.on_event(event, now, host));
        self.0.poll(now, host);
    }

    fn on_disk(&mut self, event: DiskEvent, now: Instant, host: &mut NodeHost<'_>) {
        self.0.on_disk(event, now, host);
    }

    fn snapshotted(&mut self, prefix: Prefix, host: &mut NodeHost<'_>) {
        self.0.snapshotted(prefix, host);
    }

    fn deadline(&self) -> Instant {
        self.0.deadline()
    }

    fn install(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut NodeHost<'_>,
    ) {
        self.0.install(applied, head, now, host);
    }

    fn state_head(&self, prefix: Prefix) -> Option<StateHead> {
        self.0.state_head(prefix)
    }

    fn status(&self) -> Status {
        self.0.status()
    }

    fn configuration(&self) -> Option<Configuration> {
        self.0.configuration()
    }

    fn change(
        &mut self,
        change: Change,
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, ChangeRefused> {
        self.0.change(change, now, host)
    }

    fn trusted(&self) -> Option<Rank> {
        self.0.trusted()
    }

    fn held(&self) -> Prefix {
        self.0.held_by_all()
    }

    fn granted(&self, now: Instant) -> Option<Rank> {
        S::granted(self.0.machine(), now)
    }

    fn n_caught_up(&self) -> u64 {
        S::n_caught_up(self.0.machine())
    }
}
