//! The processes of one measurement, from the parent's side.

use super::spec::{Asks, Load, Spec, Took};
use crate::crew::Ground;
use crate::disk::Place;
use crate::group::{Error, Launcher};
use crate::run::Effort;
use crate::worker::order::FabricKind;
use std::time::Duration;

/// The longest time for anything but the load itself.
const PATIENCE: Duration = Duration::from_secs(60);
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

/// Runs one group, with its logs in `place` if it is durable.
///
/// # Errors
/// [`Error`]; nothing is left behind.
pub fn measure(
    launcher: &Launcher,
    crew: &Crew,
    place: Option<&Place>,
    effort: &Effort,
) -> Result<Vec<Took>, Error> {
    let place = place.filter(|_| crew.is_durable);
    // It is dropped after the workers.
    let ground = Ground::make("versions", crew.fabric, crew.members, place)?;
    let spec = |seat| Spec {
        group: ground.name.clone(),
        directory: ground.directory(),
        addresses: ground.addresses.clone(),
        seat,
        members: crew.members,
        n_shards: crew.n_shards,
        n_kept: (crew.kept_bytes() / crew.value_bytes).clamp(KEPT_MIN, KEPT_MAX),
        window: crew.window as u32,
        message_bytes: (crew.value_bytes + HEAD_BYTES) as u32,
        data: ground.data(seat),
        is_raw: crew.is_raw,
        load: crew.load.filter(|(n, _)| seat <= *n).map(|(_, load)| load),
        asks: crew.asks.filter(|_| seat == crew.members),
        warm_up: effort.span / 4,
        span: effort.span,
    };
    crate::crew::measure(launcher, crew.members, spec, (PATIENCE, effort.span))
}
