//! The queries ahead that wait for what their process holds (`ahead`).

use crate::event::Delivered;
use proto::vsync::ShardId;
use std::collections::BTreeMap;
use std::sync::{Mutex, MutexGuard, PoisonError};

/// What a query ahead waits for, and is given.
#[derive(Debug)]
pub(super) enum Ahead {
    /// The copy of a shard.
    Asked(ShardId),
    /// The object's bytes, and what is to be executed behind them.
    Copied(Vec<u8>, Vec<Delivered>),
    /// This process has no copy.
    NoCopy,
}

/// Queries that wait, by their tokens.
#[derive(Debug, Default)]
pub(super) struct Aheads(Mutex<BTreeMap<u64, Ahead>>);

impl Aheads {
    fn lock(&self) -> MutexGuard<'_, BTreeMap<u64, Ahead>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Notes that a query waits for the copy of `shard`.
    pub(super) fn ask(&self, token: u64, shard: ShardId) {
        self.lock().insert(token, Ahead::Asked(shard));
    }

    /// The shard that a query waits for; `None` if its caller has given up.
    pub(super) fn shard_of(&self, token: u64) -> Option<ShardId> {
        if let Some(Ahead::Asked(shard)) = self.lock().get(&token) { Some(*shard) } else { None }
    }

    /// Gives a query what it waits for, if it still does.
    pub(super) fn give(&self, token: u64, ahead: Ahead) {
        if let Some(place) = self.lock().get_mut(&token) {
            *place = ahead;
        }
    }

    /// Whether a query was given what it waits for.
    pub(super) fn is_given(&self, token: u64) -> bool {
        matches!(self.lock().get(&token), Some(Ahead::Copied(..) | Ahead::NoCopy))
    }

    /// Takes what a query was given. It waits no longer.
    pub(super) fn take(&self, token: u64) -> Option<Ahead> {
        self.lock().remove(&token)
    }
}
