//! The mark of a thread that executes a method at its place in the order (O3), and that place.

use super::moment::Moment;
use crate::error::Refused;
use std::cell::Cell;

thread_local! {
    static IS_IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    static IS_AHEAD: Cell<bool> = const { Cell::new(false) };
    static MOMENT: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// Whether this thread executes a method of an object at its place in the order.
pub(super) fn is_in_handler() -> bool {
    IS_IN_HANDLER.get()
}

/// An error if this thread executes a method ahead of its turn (`ahead`, Q2).
pub(super) fn check_turn() -> Result<(), Refused> {
    if IS_AHEAD.get() { Err(Refused::Ahead) } else { Ok(()) }
}

/// The place and the time of the ordered call that this thread executes.
pub(super) fn moment() -> Option<Moment> {
    MOMENT.get()
}

/// Runs a method at its place in the order.
pub(super) fn in_handler<T>(run: impl FnOnce() -> T) -> T {
    IS_IN_HANDLER.set(true);
    let result = run();
    IS_IN_HANDLER.set(false);
    result
}

/// Runs an ordered method of this place and time ahead of its turn.
pub(super) fn ahead<T>(moment: Moment, run: impl FnOnce() -> T) -> T {
    IS_AHEAD.set(true);
    let result = in_order(moment, run);
    IS_AHEAD.set(false);
    result
}

/// Runs an ordered method of this place and time.
pub(super) fn in_order<T>(moment: Moment, run: impl FnOnce() -> T) -> T {
    MOMENT.set(Some(moment));
    let result = in_handler(run);
    MOMENT.set(None);
    result
}
