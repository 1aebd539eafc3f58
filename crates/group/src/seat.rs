//! A seat: the place in the fabric that a process takes, and gives back when it ends.
//!
//! - S1 *One process a seat.* A seat is taken only when its last process has ended, which the
//!   kernel says: the lock of its memory is free. On TCP between hosts, where there is no such
//!   lock, the members refuse an incarnation that is lower than one that they have met. By
//!   [`Region::discard`], and the fabric's handshake.
//! - S2 *Incarnations rise.* The incarnation is the wall clock's time, and above the last one in
//!   the memory of the seat. Hosts that succeed each other on a seat need clocks that differ by
//!   less than the pause between the two processes. A process that leaves in order removes its
//!   memory: if the clock is set back behind that, the next incarnation is lower. On shared memory
//!   nothing relies on it (`fabric::shm`, L5 of its links); on TCP that process is refused.
//! - S3 *New memory.* A process begins with memory of its own; its predecessor's, dead words of
//!   another incarnation, is removed. So the region is always of the incarnation that is named.

use crate::error::Error;
use crate::event::number;
use crate::options::{Options, Transport};
use crate::words;
use base::{FABRIC_SEATS_MAX, Incarnation, Rank};
use fabric::shm::{self, RING_WORDS, ShmFabric};
use fabric::tcp::{self, TcpFabric};
use fabric::{HostFabric, OpenError, Setup};
use region::{Region, sweep};
use rustix::io::Errno;
use std::net::{SocketAddr, TcpListener};
use std::time::{Duration, SystemTime, UNIX_EPOCH};

/// How often a directory is made again that a process which left has removed.
const TRIES: usize = 3;

/// The wait for a listener that may be another process's.
const CONNECT_MAX: Duration = Duration::from_millis(200);

// ---- the ways to the other seats ----

/// A process that this one can never be in a group with, and why.
pub(crate) fn never_met(fabric: &HostFabric) -> Option<(Rank, String)> {
    match fabric {
        // The memory of the others was looked at before this process took its seat.
        HostFabric::Shm(_) => None,
        HostFabric::Tcp(fabric) => fabric.links().find_map(|link| {
            let error = link.last_error.filter(tcp::LinkError::is_lasting_refusal)?;
            Some((link.rank, error.to_string()))
        }),
    }
}

/// The state of the way to every other seat, for people.
pub(crate) fn said(fabric: &HostFabric) -> String {
    let on_shm = |link: shm::LinkReport| {
        let state = match link.state {
            shm::LinkState::Up => "lives, and is in no view of this group or full",
            shm::LinkState::Failed => "has died",
            shm::LinkState::Down => "is empty",
        };
        let seat = number(link.peer);
        match link.trouble.filter(|_| link.state != shm::LinkState::Down) {
            Some(trouble) => format!("seat {seat} {state}: {trouble}"),
            None => format!("seat {seat} {state}"),
        }
    };
    let on_tcp = |link: tcp::LinkStatus| {
        let (seat, address) = (number(link.rank), link.address);
        match (link.state, link.last_error) {
            (tcp::LinkState::Up, _) => {
                format!("seat {seat} lives, and is in no view of this group or full")
            }
            (_, Some(error)) => format!("seat {seat} at {address}: {error}"),
            (_, None) => format!("seat {seat} at {address} has not connected"),
        }
    };
    let ways: Vec<String> = match fabric {
        HostFabric::Shm(fabric) => fabric.links().map(on_shm).collect(),
        HostFabric::Tcp(fabric) => {
            let others = fabric.links().filter(|link| link.state != tcp::LinkState::Own);
            others.map(on_tcp).collect()
        }
    };
    ways.join("; ")
}

// ---- taking one ----

/// Whether a process founds its group.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Founds {
    /// It does.
    Yes,
    /// It joins.
    No,
}

/// Takes the first of the seats in question that no living process has.
pub(crate) fn take(options: &Options, founds: Founds) -> Result<(Setup, HostFabric), Error> {
    match &options.transport {
        Transport::Shm => take_shm(options, founds),
        Transport::Tcp { addresses, listen } => take_tcp(options, addresses, *listen),
    }
}

/// Takes a seat over shared memory.
fn take_shm(options: &Options, founds: Founds) -> Result<(Setup, HostFabric), Error> {
    if founds == Founds::Yes {
        // The remains of a group that was killed as a whole.
        sweep(&options.directory).map_err(|source| open_error(options, source.into()))?;
        let is_gone = |seat: &Rank| !Region::is_there(&options.directory, seat.member());
        Rank::all(FABRIC_SEATS_MAX).filter(is_gone).for_each(|seat| words::remove(options, seat));
    }
    // A group of another size has other seats.
    for seat in Rank::all(FABRIC_SEATS_MAX) {
        let identity = options.setup(seat, Incarnation(1)).identity_of(seat, RING_WORDS);
        let identity = region::Identity { incarnation: None, ..identity };
        match Region::open_peer(&options.directory, &identity) {
            Ok(_) | Err(region::Error::Missing { .. }) => {}
            Err(why) => return Err(refused(options, seat, why.to_string())),
        }
    }
    take_first(options, |setup| {
        let setup = succeed(setup, RING_WORDS)?;
        let fabric = ShmFabric::create(&setup)?;
        Ok((setup, HostFabric::Shm(fabric)))
    })
}

/// Takes a seat over TCP.
fn take_tcp(
    options: &Options,
    addresses: &[SocketAddr],
    listen: Option<SocketAddr>,
) -> Result<(Setup, HostFabric), Error> {
    take_first(options, |setup| {
        let address = listen.unwrap_or(addresses[setup.me.index()]);
        let listener = TcpListener::bind(address)
            .map_err(|source| OpenError::Os { doing: format!("listen at {address}"), source })?;
        let setup = succeed(setup, 0)?;
        let fabric = TcpFabric::create(&setup, listener, addresses)?;
        Ok((setup, HostFabric::Tcp(fabric)))
    })
}

/// Takes the first of the seats in question that `open` can take.
fn take_first(
    options: &Options,
    open: impl Fn(Setup) -> Result<(Setup, HostFabric), OpenError>,
) -> Result<(Setup, HostFabric), Error> {
    let mut said = Vec::new();
    for seat in options.candidates() {
        let mut tries = 0;
        let opened = loop {
            tries += 1;
            match open(options.setup(seat, Incarnation(1))) {
                Err(error) if is_gone(&error) && tries < TRIES => {}
                opened => break opened,
            }
        };
        match opened {
            Ok(opened) => {
                words::write(options, seat);
                return Ok(opened);
            }
            Err(error) if is_taken(&error) => said.push(format!("seat {}: {error}", number(seat))),
            Err(source) => return Err(Error::Open { seat: number(seat), source }),
        }
    }
    Err(Error::NoSeat { said: said.join("; ") })
}

/// Whether another process has the seat.
fn is_taken(error: &OpenError) -> bool {
    match error {
        OpenError::Region(error) => {
            matches!(error, region::Error::Locked { .. } | region::Error::Exists { .. })
        }
        OpenError::Os { source, .. } => {
            let errno = Errno::from_io_error(source);
            matches!(errno, Some(Errno::ADDRINUSE | Errno::ADDRNOTAVAIL))
        }
        _ => false,
    }
}

/// Whether a process that left has removed the directory in this moment.
fn is_gone(error: &OpenError) -> bool {
    match error {
        OpenError::Region(region::Error::Os { source, .. }) => {
            source.kind() == std::io::ErrorKind::NotFound
        }
        _ => false,
    }
}

/// S1 to S3: the setup of the process that follows the last one on its seat.
fn succeed(setup: Setup, ring_words: u32) -> Result<Setup, OpenError> {
    let identity = setup.identity_of(setup.me, ring_words);
    let last = Region::incarnation_in(&setup.directory, &identity);
    Region::discard(&setup.directory, setup.me.member())?;
    // S2
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default().as_nanos() as u64;
    let incarnation = last.map_or(now, |last| now.max(last.0 + 1)).max(1);
    Ok(Setup { incarnation: Incarnation(incarnation), ..setup })
}

/// The seats whose processes live, or may do so, besides that of `me`.
pub(crate) fn living(options: &Options, me: Rank) -> Vec<Rank> {
    let others = Rank::all(options.seats).filter(|seat| *seat != me);
    match &options.transport {
        Transport::Shm => {
            others.filter(|seat| Region::is_there(&options.directory, seat.member())).collect()
        }
        Transport::Tcp { addresses, .. } => {
            let listens = |seat: &Rank| {
                let address = &addresses[seat.index()];
                std::net::TcpStream::connect_timeout(address, CONNECT_MAX).is_ok()
            };
            others.filter(listens).collect()
        }
    }
}

pub(crate) fn refused(options: &Options, seat: Rank, why: String) -> Error {
    let why = match words::read(options, seat, &why) {
        Some(theirs) => format!("{why}; that process has: {theirs}"),
        None => why,
    };
    Error::Refused { seat: number(seat), why, own: options.described() }
}

fn open_error(options: &Options, source: OpenError) -> Error {
    Error::Open { seat: options.seat.unwrap_or(1), source }
}
