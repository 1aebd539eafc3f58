//! The processes of one measurement, from the parent's side.

use super::Case;
use super::worker::{Said, Spec, Took};
use crate::child::{Child, Directory};
use crate::clock::shared_ns;
use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::process::free_ports;
use crate::run::Effort;
use crate::worker::order::FabricKind;
use group::{Mode, Schedule};
use std::net::SocketAddr;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// The longest time for anything but the load itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time from the order to the common start of all processes.
const LEAD: Duration = Duration::from_millis(20);

type Worker = Child<Said>;

/// Runs one group under load, with its logs in `place` if it is durable.
///
/// # Errors
/// [`Error`]; nothing is left behind.
pub fn measure(
    launcher: &Launcher,
    case: &Case,
    place: Option<&Place>,
    effort: &Effort,
) -> Result<Vec<Took>, Error> {
    static GROUPS: AtomicU32 = AtomicU32::new(0);
    let number = GROUPS.fetch_add(1, Ordering::Relaxed);
    let name = format!("multicast-{}-{number}", std::process::id());
    // This comes before the workers: it is dropped after them.
    let directory = Directory::make(&name)?;
    let logs = place.map(Place::fresh).transpose()?;
    let addresses: Vec<SocketAddr> = match case.fabric {
        FabricKind::Shm => Vec::new(),
        FabricKind::Tcp => {
            let first = free_ports(case.members)?;
            let ports = first..first + case.members as u16;
            ports.map(|port| SocketAddr::from(([127, 0, 0, 1], port))).collect()
        }
    };
    let mut workers: Vec<Worker> = Vec::new();
    for seat in 1..=case.members {
        let spec = Spec {
            group: name.clone(),
            directory: directory.path().to_owned(),
            addresses: addresses.clone(),
            seat,
            members: case.members,
            sends: seat <= case.senders,
            window: case.window,
            relay: Schedule::ALL.iter().position(|one| *one == case.relay).unwrap_or_default(),
            data: logs.as_ref().map(|logs| logs.path().join(seat.to_string())),
            is_unordered: case.mode == Mode::Unordered,
            is_checked: case.is_checked,
            message_bytes: case.message_bytes,
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
