//! The provider that a process has chosen when it began.
//!
//! Whatever runs over a fabric is compiled once for each type of fabric. A process that can be told
//! to use either runs over this one, and is compiled once: a branch for each verb in place of a
//! second copy of every engine with every protocol.

use crate::shm::{RING_WORDS, ShmFabric};
use crate::tcp::TcpFabric;
use crate::{At, Capabilities, Fabric, Inbox, OpenError, Port, Setup, Token};
use base::verb::{Area, Unsupported};
use base::{Incarnation, Parcel, Rank};
use region::Region;
use std::net::{SocketAddr, TcpListener};
use std::os::fd::BorrowedFd;
use std::sync::Arc;

/// One of the providers that ship.
#[derive(Debug)]
#[expect(
    clippy::large_enum_variant,
    reason = "a process has one, and each verb would pay for a box"
)]
pub enum HostFabric {
    /// Shared memory, for the processes of one host.
    Shm(ShmFabric),
    /// TCP, for several hosts.
    Tcp(TcpFabric),
}

/// What a node opens its end with.
#[derive(Debug)]
pub enum Way<'a> {
    /// Shared memory.
    Shm,
    /// TCP: where this node listens, and where all do, by rank.
    Tcp(TcpListener, &'a [SocketAddr]),
}

impl Way<'_> {
    /// Whether a node whose promises are elsewhere makes new memory, since that of the life before
    /// is of no use ([`Region::begins_anew`]).
    ///
    /// # Errors
    /// [`OpenError`] if what is left of it cannot be removed.
    pub fn begins_anew(&self, setup: &Setup) -> Result<bool, OpenError> {
        let ring_words = match self {
            Way::Shm => RING_WORDS,
            Way::Tcp(..) => 0,
        };
        let identity = setup.identity_of(setup.me, ring_words);
        Ok(Region::begins_anew(&setup.directory, &identity)?)
    }
}

/// The same call to whichever provider it is.
macro_rules! pass_on {
    ($self:ident.$call:ident($($argument:expr),*)) => {
        match $self {
            HostFabric::Shm(fabric) => fabric.$call($($argument),*),
            HostFabric::Tcp(fabric) => fabric.$call($($argument),*),
        }
    };
}

impl HostFabric {
    /// Opens a node's end: on new memory if that `is_new`, else on that of an earlier life.
    ///
    /// # Errors
    /// [`OpenError`]
    pub fn open(setup: &Setup, way: Way<'_>, is_new: bool) -> Result<HostFabric, OpenError> {
        match way {
            Way::Shm if is_new => ShmFabric::create(setup).map(HostFabric::Shm),
            Way::Shm => ShmFabric::attach(setup).map(HostFabric::Shm),
            Way::Tcp(listener, addresses) if is_new => {
                TcpFabric::create(setup, listener, addresses).map(HostFabric::Tcp)
            }
            Way::Tcp(listener, addresses) => {
                TcpFabric::attach(setup, listener, addresses).map(HostFabric::Tcp)
            }
        }
    }

    /// Leaves for good: the node's memory is removed, and its promises with it.
    ///
    /// # Errors
    /// [`OpenError`] if the memory cannot be removed.
    pub fn remove(self) -> Result<(), OpenError> {
        pass_on!(self.remove())
    }
}

impl Port for HostFabric {
    fn load(&self, at: At) -> u64 {
        pass_on!(self.load(at))
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        pass_on!(self.load_into(at, words));
    }

    fn store(&mut self, at: At, word: u64) {
        pass_on!(self.store(at, word));
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        pass_on!(self.write(to, at, words, token));
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        pass_on!(self.read(to, at, n_words, token));
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        pass_on!(self.cas(to, at, expected, desired, token));
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        pass_on!(self.fetch_add(to, at, add, token));
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        pass_on!(self.send(to, message))
    }

    fn wake(&mut self, to: Rank) {
        pass_on!(self.wake(to));
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        pass_on!(self.permit_writer(from, writer))
    }

    fn area(&self, of: Rank, incarnation: Incarnation) -> Option<Arc<dyn Area>> {
        pass_on!(self.area(of, incarnation))
    }

    fn has_ended(&self, seat: Rank, incarnation: Incarnation) -> bool {
        pass_on!(self.has_ended(seat, incarnation))
    }

    fn has_parcels(&self) -> bool {
        pass_on!(self.has_parcels())
    }

    fn put_parcel(&mut self, to: Rank, at: At, parcel: &Parcel) {
        pass_on!(self.put_parcel(to, at, parcel));
    }

    fn has_room(&self, to: Rank, n_bytes: usize) -> bool {
        pass_on!(self.has_room(to, n_bytes))
    }

    fn take_parcel(&mut self, from: Rank, at: At) -> Option<Parcel> {
        pass_on!(self.take_parcel(from, at))
    }
}

impl Fabric for HostFabric {
    fn capabilities(&self) -> Capabilities {
        pass_on!(self.capabilities())
    }

    fn flush(&mut self) {
        pass_on!(self.flush());
    }

    fn poll(&mut self, inbox: &mut Inbox) {
        pass_on!(self.poll(inbox));
    }

    fn wait_fd(&self) -> BorrowedFd<'_> {
        pass_on!(self.wait_fd())
    }

    fn prepare_sleep(&mut self) {
        pass_on!(self.prepare_sleep());
    }

    fn awake(&mut self) {
        pass_on!(self.awake());
    }

    fn lead(&mut self, leads: bool) {
        pass_on!(self.lead(leads));
    }

    fn is_alert(&mut self) -> bool {
        pass_on!(self.is_alert())
    }
}
