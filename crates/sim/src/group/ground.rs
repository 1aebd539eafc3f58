//! What a simulated process of a group stands on.

use super::date::Date;
use crate::Snapshots;
use crate::disk::Disk;
use crate::stored::Store;
use crate::world::port::SimPort;
use base::verb::Relay;
use base::{Inbox, Instant};
use engine::Ground;
use engine::group::WallClock;
use proto::disk::DiskEvent;
use proto::vsync::Time;

/// The bytes that may wait for a disk: some pieces of a state.
const UNSYNCED_BYTES_MAX: usize = 40 << 10;

/// The disk of a process of a durable group.
pub(super) fn new_disk() -> Disk {
    let mut disk = Disk::new(Store::Model, Snapshots::default());
    disk.let_wait(UNSYNCED_BYTES_MAX);
    disk
}

/// What a simulated process stands on.
pub(super) struct SimGround<'a> {
    pub(super) port: &'a mut SimPort,
    pub(super) date: Date,
    /// In a durable group.
    pub(super) disk: Option<&'a mut Disk>,
}

impl Relay for SimGround<'_> {
    type Port = SimPort;

    fn port(&self) -> &SimPort {
        self.port
    }

    fn port_mut(&mut self) -> &mut SimPort {
        self.port
    }
}

impl WallClock for SimGround<'_> {
    fn wall(&self) -> Time {
        date(self.date, self.port)
    }
}

impl Ground for SimGround<'_> {
    type Disk = Disk;

    fn poll(&mut self, inbox: &mut Inbox) {
        self.port.poll(inbox);
    }

    fn flush(&mut self) {
        self.port.breaks_are_heard();
    }

    fn disk(&mut self) -> Option<&mut Disk> {
        self.disk.as_deref_mut()
    }

    fn poll_disk(&mut self, _: Instant, events: &mut Vec<DiskEvent>) {
        if let Some(disk) = &mut self.disk {
            events.append(&mut disk.events);
        }
    }
}

/// What the clock of the host of `port` shows.
pub(super) fn date(date: Date, port: &SimPort) -> Time {
    let (net, seat) = (port.net().borrow(), port.me().index());
    date.at(net.now(), net.processes[seat].wall.at(net.now()))
}
