//! The mark of a thread that executes a method at its place in the order (O3).

use std::cell::Cell;

thread_local! {
    static IS_IN_HANDLER: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread executes a method of an object at its place in the order.
pub(super) fn is_in_handler() -> bool {
    IS_IN_HANDLER.get()
}

/// Runs a method at its place in the order.
pub(super) fn in_handler<T>(run: impl FnOnce() -> T) -> T {
    IS_IN_HANDLER.set(true);
    let result = run();
    IS_IN_HANDLER.set(false);
    result
}
