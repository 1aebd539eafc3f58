//! The floor of a failover: from `kill -9` of a busy process to a thread of another process that
//! slept until then and learns of it.
//!
//! No sleeping process learns of a death sooner, whatever it does then. The floor is measured by
//! the means of the fabrics (`region::robust`), with nothing else beside: no second watcher, no
//! poll loop that has to be woken by the watching thread, no takeover, no value.

use crate::clock::shared_ns;
use crate::group::{Error, Group, Launcher, Plan};
use crate::member::Wait;
use crate::worker::order::{Answer, FabricKind, Part};
use base::{Incarnation, NodeId};
use region::layout::Shape;
use region::robust::{Held, Seen};
use region::{Identity, Owner, Region};
use report::Latency;
use rustix::process::{Signal, kill_process};
use std::path::Path;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

/// The watcher's place at the victim.
const WATCHER: usize = 1;
/// The longest wait for anything.
const PATIENCE: Duration = Duration::from_secs(20);

fn identity() -> Identity {
    let shape = Shape { n_seats: 2, n_words: 8, ring_words: 0 };
    Identity { cluster: 0, node: NodeId(1), incarnation: None, layout: 0, rules: 0, shape }
}

/// The process that is killed: it has the locks that report its death.
pub(crate) struct Victim {
    held: Held,
    _owner: Owner,
}

impl Victim {
    /// Makes its region in `directory`.
    ///
    /// # Errors
    /// The region's.
    pub(crate) fn begin(directory: &Path) -> Result<Victim, region::Error> {
        let owner = Region::create(directory, &identity(), Incarnation(1))?;
        Ok(Victim { held: Held::hold(&owner, PATIENCE), _owner: owner })
    }

    /// Whether a death would be reported.
    pub(crate) fn is_ready(&self) -> bool {
        self.held.is_complete()
    }
}

/// Kills this many processes.
///
/// # Errors
/// [`Error`].
pub fn floor(launcher: &Launcher, kills: u32) -> Result<Latency, Error> {
    let mut latency = Latency::new();
    for _ in 0..kills {
        latency.record_ns(kill(launcher)?);
    }
    Ok(latency)
}

fn kill(launcher: &Launcher) -> Result<u64, Error> {
    let plan = Plan::of(Part::Victim, FabricKind::Shm, 1, Wait::Spin);
    let mut group = Group::start(launcher, &plan)?;
    match group.members[0].answer(PATIENCE)? {
        Answer::Done => {}
        other => return Err(group.members[0].misspoke(&other)),
    }
    let region = Region::open_peer(group.directory(), &identity())
        .map_err(|error| Error::os("map the victim's region", std::io::Error::other(error)))?;
    let mut watch = region.watch(WATCHER);
    let (say, said) = channel();
    let waiter = std::thread::spawn(move || {
        let until = Instant::now() + PATIENCE;
        while Instant::now() < until {
            if matches!(watch.wait(PATIENCE), Seen::Ended(_)) {
                // If the measurement failed, no thread listens.
                let _ = say.send(shared_ns());
                return;
            }
        }
    });
    // The victim is busy, and the waiter asleep, for this long.
    std::thread::sleep(Duration::from_millis(10));
    let killed_at = shared_ns();
    kill_process(group.members[0].pid(), Signal::KILL)
        .map_err(|errno| Error::os("kill the victim", errno))?;
    let known_at = said.recv_timeout(PATIENCE);
    drop(group); // the victim has ended then, if not before
    let _ended = waiter.join();
    known_at
        .map(|at| at.saturating_sub(killed_at))
        .map_err(|_| Error::late("no thread learned of the victim's death", PATIENCE))
}
