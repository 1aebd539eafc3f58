//! The processes of one measurement, from the parent's side.

use super::load::Plan;
use super::worker::{Contender, Said, Spec, Took};
use crate::child::{Child, Directory};
use crate::clock::shared_ns;
use crate::group::{Error, Launcher};
use crate::process::loopback;
use crate::worker::order::FabricKind;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

/// The longest time for anything but the load itself.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time from the order to the common start of all processes.
const LEAD: Duration = Duration::from_millis(20);

/// The shape of a system under measurement.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Shape {
    /// The number of groups.
    pub groups: usize,
    /// The number of members of each; there are as many nodes, each with one member of every group.
    pub members: usize,
}

type Worker = Child<Said>;

fn hear(worker: &Worker, patience: Duration) -> Result<Said, Error> {
    match worker.hear(patience)? {
        Some(Said::Failed(cause)) => Err(worker.failed(cause)),
        Some(said) => Ok(said),
        None => Err(worker.late(patience)),
    }
}

/// Runs one system under one load.
///
/// # Errors
/// [`Error`]; nothing is left behind.
pub fn measure(
    launcher: &Launcher,
    contender: Contender,
    fabric: FabricKind,
    shape: Shape,
    plan: &Plan,
) -> Result<Vec<Took>, Error> {
    static SYSTEMS: AtomicU32 = AtomicU32::new(0);
    let number = SYSTEMS.fetch_add(1, Ordering::Relaxed);
    let cluster = format!("amcast-{}-{number}", std::process::id());
    // This comes before the workers: it is dropped after them.
    let directory = Directory::make(&cluster)?;
    let addresses = loopback(fabric, shape.members)?;
    let spec = |node: usize| Spec {
        contender,
        addresses: addresses.clone(),
        cluster: cluster.clone(),
        directory: directory.path().to_owned(),
        groups: shape.groups,
        nodes: shape.members,
        node,
        plan: plan.clone(),
    };
    let workers = (1..=shape.members).map(|node| Child::start(launcher, node, &spec(node)));
    let mut workers = workers.collect::<Result<Vec<Worker>, Error>>()?;
    let until = Instant::now() + PATIENCE;
    for worker in &workers {
        match hear(worker, until.saturating_duration_since(Instant::now()))? {
            Said::Ready => {}
            other => return Err(misspoke(worker, &other)),
        }
    }
    let at = shared_ns() + LEAD.as_nanos() as u64;
    for worker in &mut workers {
        worker.tell(&at)?;
    }
    let takes = PATIENCE + plan.warm_up + plan.span;
    workers
        .iter()
        .map(|worker| match hear(worker, takes)? {
            Said::Took(took) => Ok(took),
            other => Err(misspoke(worker, &other)),
        })
        .collect()
}

fn misspoke(worker: &Worker, said: &Said) -> Error {
    worker.failed(format!("it said {said:?}"))
}
