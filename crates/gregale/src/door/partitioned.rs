//! The process around the door of a keyspace in partitions: sockets, signals, the supervisor,
//! figures. `kv`'s [`PartitionDoor`] does the rest.

use super::process::{self, Process, give_statuses};
use super::sockets::Sockets;
use super::{KEY_CHANNEL, KEY_LISTENER, KEY_SIGNALS, KEY_STATUS, Stop};
use crate::channel::{ReplicaEnd, Report};
use crate::config::{Config, Partitioning};
use crate::control::Board;
use crate::signals::Signals;
use crate::status::PartitionStatus;
use base::{Incarnation, Instant};
use console::Outcome;
use kv::door::{Clocked, PartitionConfig, PartitionDoor, partition_seats};
use kv::entry;
use multicast::{Application, Cut, Delivery, Descriptors, Desk, GroupId, MessageId, Snapshot};
use runtime::{Interest, PATIENCE, Poller, Ready, Stats, View, boot_now, unix_ms};
use std::io::{self, Read};
use std::net::TcpListener;
use std::sync::Arc;

impl Clocked for Process {
    fn wall_ms(&self) -> u64 {
        unix_ms()
    }

    fn boot_now(&self) -> Instant {
        boot_now()
    }

    fn say(&mut self, line: &str) {
        runtime::complain(format_args!("{line}"));
    }
}

/// The service of a process; see the module's text.
pub(crate) struct PartitionedDoor {
    door: PartitionDoor<Process, Sockets>,
    board: Arc<Board>,
    signals: Signals,
    stop: Option<Stop>,
    /// Whether the supervisor knows that this member serves.
    reported: bool,
}

impl PartitionedDoor {
    /// A service behind `listener`, which is bound. `life` is the number of this life of the
    /// process.
    pub(crate) fn new(
        config: &Config,
        partitions: Partitioning,
        life: Incarnation,
        listener: TcpListener,
        board: &Arc<Board>,
        signals: Signals,
        channel: Option<Arc<ReplicaEnd>>,
    ) -> Outcome<PartitionedDoor> {
        let members = config.members.len();
        let of_door = PartitionConfig {
            origin: entry::Origin { rank: config.rank(), incarnation: life },
            seats: partition_seats(usize::from(partitions.n), members),
            members,
            order: partitions.order.into(),
            memory_bytes_max: config.maxmemory,
            patience: PATIENCE,
        };
        let outside = Process::new(config, board, channel)?;
        let (of_clients, sockets) = (process::door_config(config), Sockets::new(listener)?);
        Ok(PartitionedDoor {
            door: PartitionDoor::new(of_door, of_clients, outside, sockets),
            board: Arc::clone(board),
            signals,
            stop: None,
            reported: false,
        })
    }

    /// The order to stop, if there was one.
    pub(crate) fn stop(&self) -> Option<Stop> {
        self.stop
    }

    /// Publishes the door's view, if it has changed.
    fn publish_news(&mut self) {
        if let Some(view) = self.door.take_news() {
            self.publish(&view);
        }
    }

    /// Leaves the figures on the board, and reports to the supervisor once that clients are
    /// answered.
    fn publish(&mut self, view: &View) {
        let status = |of: &kv::door::PartitionFigures| PartitionStatus {
            id: of.id,
            leader: of.leader,
            executed: of.executed,
            keys: of.keys,
        };
        self.board.leave_partitions(self.door.partitions().iter().map(status).collect());
        self.board.leave(view, &Stats::new(), self.door.figures());
        if self.door.has_served() && !self.reported {
            self.reported = true;
            self.door.clients.outside.tell(&Report::Serving);
        }
        self.door.streams.listen_again();
    }
}

impl Descriptors for PartitionedDoor {
    fn begin(&mut self, poller: &Poller) -> io::Result<()> {
        poller.add(&self.signals.pipe, KEY_SIGNALS, Interest::Read)?;
        if let Some(channel) = &self.door.clients.outside.channel {
            poller.add(channel.as_fd(), KEY_CHANNEL, Interest::Read)?;
        }
        self.door.clients.outside.register(poller)?;
        self.door.streams.register(poller)
    }

    fn on_ready(&mut self, ready: Ready, cast: &mut Desk) {
        match ready.key {
            KEY_LISTENER => self.door.accept(cast),
            KEY_SIGNALS => {
                // The number of signals does not matter.
                let _ = (&self.signals.pipe).read(&mut [0; 64]);
                self.stop = Some(Stop::HandOver);
            }
            KEY_CHANNEL => {
                let channel = &self.door.clients.outside.channel;
                if channel.as_ref().is_some_and(|channel| channel.asks_to_stop()) {
                    self.stop = Some(Stop::Remove);
                }
            }
            KEY_STATUS => give_statuses(&mut self.door.clients),
            _ => self.door.on_ready(ready, cast),
        }
    }
}

impl Application for PartitionedDoor {
    fn deliver(&mut self, delivery: Delivery, cast: &mut Desk) {
        self.door.deliver(delivery, cast);
    }

    fn snapshot(&mut self, snapshot: Snapshot, group: GroupId, cut: Cut, cast: &mut Desk) {
        self.door.snapshot(snapshot, group, cut, cast);
    }

    fn outcome(&mut self, id: MessageId, outcome: multicast::Outcome, cast: &mut Desk) {
        self.door.outcome(id, outcome, cast);
    }

    fn keeps_states(&self) -> bool {
        self.door.keeps_states()
    }

    fn states_are_joint(&self) -> bool {
        self.door.states_are_joint()
    }

    fn forget(&mut self, cast: &mut Desk) {
        self.door.forget(cast);
    }

    fn state(&mut self, group: GroupId) -> Vec<u8> {
        self.door.state(group)
    }

    fn install(&mut self, group: GroupId, state: &[u8], cast: &mut Desk) {
        self.door.install(group, state, cast);
    }

    fn turn(&mut self, cast: &mut Desk) -> bool {
        let worked = self.door.turn(cast);
        self.publish_news();
        worked
    }

    fn held(&mut self, cast: &mut Desk) {
        self.door.held(cast);
        self.publish_news();
    }

    fn deadline(&self) -> Option<Instant> {
        self.door.deadline()
    }
}
