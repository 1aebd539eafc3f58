//! CLIENT PAUSE: for some time the requests of all clients of a replica wait, or their writes do.
//!
//! Only requests to this replica wait; writes at other members are executed.

use core::time::Duration;
use std::sync::{Mutex, PoisonError};

use base::Instant;

use super::door::Door;
use super::held::Kind;

/// The longest pause: ten years and a day.
const PAUSE_MAX: Duration = Duration::from_secs(3651 * 86_400);

/// The requests that wait. The larger value includes the smaller one.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(super) enum Scope {
    Writes,
    All,
}

#[derive(Debug, Default)]
struct State {
    pause: Option<(Scope, Instant)>,
    /// A pause has ended since the owner last asked.
    has_ended: bool,
}

/// The pause of all connections of a replica.
#[derive(Debug, Default)]
pub struct Pauses(Mutex<State>);

impl Pauses {
    fn with<T>(&self, f: impl FnOnce(&mut State) -> T) -> T {
        f(&mut self.0.lock().unwrap_or_else(PoisonError::into_inner))
    }

    /// Pauses for `ms` from `now` on. A pause in force becomes neither shorter nor smaller.
    pub(super) fn begin(&self, scope: Scope, now: Instant, ms: u64) {
        let until = now.plus(Duration::from_millis(ms).min(PAUSE_MAX));
        self.with(|state| {
            let both = state
                .pause
                .map_or((scope, until), |(other, end)| (scope.max(other), until.max(end)));
            state.pause = Some(both);
        });
    }

    /// CLIENT UNPAUSE
    pub(super) fn end(&self) {
        self.with(|state| state.has_ended |= state.pause.take().is_some());
    }

    pub(super) fn scope(&self) -> Option<Scope> {
        self.with(|state| state.pause.map(|(scope, _)| scope))
    }

    /// Whether a pause has ended, by CLIENT UNPAUSE or its time. The owner then asks each
    /// connection for requests again.
    pub fn has_ended(&self, now: Instant) -> bool {
        self.with(|state| {
            if state.pause.is_some_and(|(_, until)| until <= now) {
                state.pause = None;
                state.has_ended = true;
            }
            std::mem::take(&mut state.has_ended)
        })
    }
}

impl Door {
    /// Whether no request is taken, since clients are paused (C12).
    pub(super) fn is_paused(&self) -> bool {
        self.config.pauses.scope() == Some(Scope::All)
    }

    /// Whether the held request waits for the end of a pause (C12).
    pub(super) fn pauses(&self, kind: Kind) -> bool {
        match self.config.pauses.scope() {
            None => false,
            Some(Scope::All) => true,
            Some(Scope::Writes) => match kind {
                Kind::Write | Kind::LongWrite | Kind::Open => true,
                Kind::Exec => self.transaction.as_ref().is_some_and(|open| open.writes),
                Kind::Read
                | Kind::KeyedRead
                | Kind::LoggedRead
                | Kind::Watch
                | Kind::Wait { .. }
                | Kind::Info
                | Kind::Member
                | Kind::Clients
                | Kind::Channels
                | Kind::Topology
                | Kind::Kill => false,
            },
        }
    }
}
