//! The processes of one measurement, from the parent's side.

use super::Case;
use super::worker::{Spec, Took};
use crate::crew::{self, Ground};
use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::run::Effort;
use group::{Mode, Schedule};
use std::time::Duration;

/// The longest time for anything but the load itself.
const PATIENCE: Duration = Duration::from_secs(30);

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
    // It is dropped after the workers.
    let ground = Ground::make("multicast", case.fabric, case.members, place)?;
    let spec = |seat| Spec {
        group: ground.name.clone(),
        directory: ground.directory(),
        addresses: ground.addresses.clone(),
        seat,
        members: case.members,
        sends: seat <= case.senders,
        window: case.window,
        chosen: case.is_chosen.then_some(case.senders),
        relay: Schedule::ALL.iter().position(|one| *one == case.relay).unwrap_or_default(),
        data: ground.data(seat),
        is_unordered: case.mode == Mode::Unordered,
        is_checked: case.is_checked,
        message_bytes: case.message_bytes,
        warm_up: effort.span / 4,
        span: effort.span,
    };
    crew::measure(launcher, case.members, spec, (PATIENCE, effort.span))
}
