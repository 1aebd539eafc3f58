//! Marks of a thread: what it does, for code of types and methods that cannot be told.

use std::cell::Cell;
use std::thread::LocalKey;

/// A mark of this thread, which is set as long as this is there, also if a type's code panics. One
/// may be within another.
pub(super) struct Marked {
    key: &'static LocalKey<Cell<bool>>,
    before: bool,
}

impl Marked {
    pub(super) fn new(key: &'static LocalKey<Cell<bool>>) -> Marked {
        Marked { key, before: key.replace(true) }
    }
}

impl Drop for Marked {
    fn drop(&mut self) {
        self.key.set(self.before);
    }
}
