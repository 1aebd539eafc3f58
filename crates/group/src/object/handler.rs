//! The mark of a thread that executes a method of an object, or looks at one (O3); and the place in
//! the order at which it does.

use super::mark::Marked;
use super::moment::Moment;
use crate::error::Refused;
use std::cell::Cell;

thread_local! {
    static IS_IN_HANDLER: Cell<bool> = const { Cell::new(false) };
    static IS_AHEAD: Cell<bool> = const { Cell::new(false) };
    static MOMENT: Cell<Option<Moment>> = const { Cell::new(None) };
}

/// Whether this thread executes a method of an object, or looks at one.
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

/// Runs what has the object, and must not wait for it: a method, or a look at the object. One may
/// be within another.
pub(super) fn in_handler<T>(run: impl FnOnce() -> T) -> T {
    let _in_handler = Marked::new(&IS_IN_HANDLER);
    run()
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

#[cfg(test)]
mod tests {
    use super::*;
    use std::panic::{AssertUnwindSafe, catch_unwind};

    #[test]
    fn o3_the_mark_of_an_outer_method_comes_back_also_behind_a_panic() {
        let inner = || in_handler(|| panic!("as it is asked to"));
        let is_marked = in_handler(|| {
            let panicked = catch_unwind(AssertUnwindSafe(inner)).is_err();
            panicked && is_in_handler()
        });
        assert!(is_marked && !is_in_handler());
    }
}
