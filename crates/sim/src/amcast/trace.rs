//! A run as text.

use std::cell::RefCell;
use std::fmt;
use std::rc::Rc;

/// Every step as text, if that is kept; the caller reads it after the run.
#[derive(Clone, Debug, Default)]
pub(super) struct Trace(Option<Rc<RefCell<String>>>);

impl Trace {
    pub(super) fn new(is_wanted: bool) -> Trace {
        Trace(is_wanted.then(Rc::default))
    }

    pub(super) fn into_text(self) -> String {
        self.0.map(|text| text.take()).unwrap_or_default()
    }

    pub(super) fn is_wanted(&self) -> bool {
        self.0.is_some()
    }

    /// Adds a line, if text is kept.
    pub(super) fn add(&self, line: impl FnOnce(&mut String) -> fmt::Result) {
        if let Some(text) = &self.0 {
            let mut text = text.borrow_mut();
            // (A string accepts every write.)
            let _ = line(&mut text);
            text.push('\n');
        }
    }
}
