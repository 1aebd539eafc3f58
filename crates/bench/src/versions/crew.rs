//! The processes of one measurement, from the parent's side.

use super::spec::{Asks, Load, Said, Spec, Took};
use crate::child::{Child, Directory};
use crate::clock::shared_ns;
use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::process::free_ports;
use crate::run::Effort;
use crate::worker::order::FabricKind;
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The longest time for anything but the load itself.
const PATIENCE: Duration = Duration::from_secs(60);
/// The time from the order to the common start of all processes.
const LEAD: Duration = Duration::from_millis(20);
/// The bytes of a call beside its value.
const HEAD_BYTES: usize = 64;
/// The bytes of the versions that a value keeps, in memory and on disk (where all of them are
/// written again and again, with the object's state), and the most versions and the fewest.
const KEPT_BYTES: usize = 64 << 20;
const KEPT_ON_DISK_BYTES: usize = 8 << 20;
const KEPT_MAX: usize = 4096;
const KEPT_MIN: usize = 4;

/// A group, and what its members do.
#[derive(Clone, Copy, Debug)]
pub struct Crew {
    /// The provider.
    pub fabric: FabricKind,
    /// The number of members.
    pub members: usize,
    /// The shards of two members each; 0 for a group in one piece.
    pub n_shards: usize,
    /// Whether what is delivered is synced to the logs of all.
    pub is_durable: bool,
    /// Whether bytes are multicast, and no calls made.
    pub is_raw: bool,
    /// The bytes of a value.
    pub value_bytes: usize,
    /// The messages of a member on their way.
    pub window: usize,
    /// The number of members that update, and their updates.
    pub load: Option<(usize, Load)>,
    /// The queries of the last member.
    pub asks: Option<Asks>,
}

impl Crew {
    const fn kept_bytes(&self) -> usize {
        if self.is_durable { KEPT_ON_DISK_BYTES } else { KEPT_BYTES }
    }
}

type Worker = Child<Said>;

/// Runs one group, with its logs in `place` if it is durable.
///
/// # Errors
/// [`Error`]; nothing is left behind.
pub fn measure(
    launcher: &Launcher,
    crew: &Crew,
    place: &Place,
    effort: &Effort,
) -> Result<Vec<Took>, Error> {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    let number = GROUPS.fetch_add(1, Ordering::Relaxed);
    let name = format!("versions-{}-{number}", std::process::id());
    // This comes before the workers: it is dropped after them.
    let directory = Directory::make(&name)?;
    let logs = crew.is_durable.then(|| place.fresh()).transpose()?;
    let addresses: Vec<SocketAddr> = match crew.fabric {
        FabricKind::Shm => Vec::new(),
        FabricKind::Tcp => {
            let first = free_ports(crew.members)?;
            let ports = first..first + crew.members as u16;
            ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
        }
    };
    let mut workers: Vec<Worker> = Vec::new();
    for seat in 1..=crew.members {
        let spec = Spec {
            group: name.clone(),
            directory: directory.path().to_owned(),
            addresses: addresses.clone(),
            seat,
            members: crew.members,
            n_shards: crew.n_shards,
            n_kept: (crew.kept_bytes() / crew.value_bytes).clamp(KEPT_MIN, KEPT_MAX),
            window: crew.window as u32,
            message_bytes: (crew.value_bytes + HEAD_BYTES) as u32,
            data: logs.as_ref().map(|logs| logs.path().join(seat.to_string())),
            is_raw: crew.is_raw,
            load: crew.load.filter(|(n, _)| seat <= *n).map(|(_, load)| load),
            asks: crew.asks.filter(|_| seat == crew.members),
            warm_up: effort.span / 4,
            span: effort.span,
        };
        let worker = Child::start(launcher, seat, &spec)?;
        // The next one finds a member to join.
        worker.expect(PATIENCE, |said| matches!(said, Said::Inside).then_some(()))?;
        workers.push(worker);
    }
    for worker in &workers {
        worker.expect(PATIENCE, |said| matches!(said, Said::Complete).then_some(()))?;
    }
    let at = shared_ns() + LEAD.as_nanos() as u64;
    for worker in &mut workers {
        worker.tell(&at)?;
    }
    let took = |said| if let Said::Took(took) = said { Some(took) } else { None };
    let patience = PATIENCE + 2 * effort.span;
    workers.iter().map(|worker| worker.expect(patience, took)).collect()
}
