//! The members of a group with views under measurement, from the parent's side.
//!
//! Each is a process. The first founds the group, the others join it one after the other; when all
//! are inside they are told a common start, and report what they have measured.

use crate::child::{Child, Directory};
use crate::clock::shared_ns;
use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::process::loopback;
use crate::worker::order::FabricKind;
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};
use std::fmt::Debug;
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;
use tempfile::TempDir;

/// The time from the order to the common start of all processes.
const LEAD: Duration = Duration::from_millis(20);

/// A message of a member, one JSON line each.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) enum Said<Took> {
    /// It is a member.
    Inside,
    /// All are, and what is to be measured is there.
    Complete,
    /// Its measurements.
    Took(Took),
    /// It cannot continue, for this reason.
    Failed(String),
}

/// What the members of one group share; removed when it is dropped.
#[derive(Debug)]
pub(crate) struct Ground {
    /// The group's name.
    pub(crate) name: String,
    memory: Directory,
    /// The addresses of all seats, on TCP.
    pub(crate) addresses: Vec<SocketAddr>,
    logs: Option<TempDir>,
}

impl Ground {
    /// That of a group of `members`, with its logs in `place` if it has some.
    pub(crate) fn make(
        bench: &str,
        fabric: FabricKind,
        members: usize,
        place: Option<&Place>,
    ) -> Result<Ground, Error> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let name = format!("{bench}-{}-{number}", std::process::id());
        Ok(Ground {
            memory: Directory::make(&name)?,
            name,
            addresses: loopback(fabric, members)?,
            logs: place.map(Place::fresh).transpose()?,
        })
    }

    /// The directory of the group's memory.
    pub(crate) fn directory(&self) -> PathBuf {
        self.memory.path().to_owned()
    }

    /// The directory of the log of `seat`, if the group has logs.
    pub(crate) fn data(&self, seat: usize) -> Option<PathBuf> {
        self.logs.as_ref().map(|logs| logs.path().join(seat.to_string()))
    }
}

/// Runs a member on each seat from 1 to `members`, by its `spec`, which measures for `span`;
/// nothing else takes longer than `patience`.
///
/// # Errors
/// [`Error`]; nothing is left behind.
pub(crate) fn measure<Spec, Took>(
    launcher: &Launcher,
    members: usize,
    spec: impl Fn(usize) -> Spec,
    (patience, span): (Duration, Duration),
) -> Result<Vec<Took>, Error>
where
    Spec: Serialize,
    Took: DeserializeOwned + Debug + Send + 'static,
{
    let mut workers = Vec::new();
    for seat in 1..=members {
        let worker = Child::start(launcher, seat, &spec(seat))?;
        // The next one finds a member to join.
        expect(&worker, patience, |said| matches!(said, Said::Inside).then_some(()))?;
        workers.push(worker);
    }
    for worker in &workers {
        expect(worker, patience, |said| matches!(said, Said::Complete).then_some(()))?;
    }
    let at = shared_ns() + LEAD.as_nanos() as u64;
    for worker in &mut workers {
        worker.tell(&at)?;
    }
    let took = |said| if let Said::Took(took) = said { Some(took) } else { None };
    workers.iter().map(|worker| expect(worker, patience + 2 * span, took)).collect()
}

/// What `worker` says next, if it is what is due.
fn expect<Took, T>(
    worker: &Child<Said<Took>>,
    patience: Duration,
    is: impl Fn(Said<Took>) -> Option<T>,
) -> Result<T, Error>
where
    Took: DeserializeOwned + Debug + Send + 'static,
{
    let said = worker.hear(patience)?.ok_or_else(|| worker.late(patience))?;
    if let Said::Failed(cause) = said {
        return Err(worker.failed(cause));
    }
    let text = format!("it said {said:?}");
    is(said).ok_or_else(|| worker.failed(text))
}
