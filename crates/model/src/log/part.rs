//! Parts of a state that is copied often and changed little.

use crate::mix::print_of;
use std::hash::Hash;
use std::rc::Rc;

/// A part of the state, shared by the states that have it in common, beside its hash.
#[derive(Debug)]
pub(super) struct Part<T> {
    pub(super) of: Rc<T>,
    /// Not known after a change, until it is asked for.
    print: Option<u64>,
}

impl<T> Clone for Part<T> {
    fn clone(&self) -> Part<T> {
        Part { of: Rc::clone(&self.of), print: self.print }
    }
}

impl<T: Clone + Hash> Part<T> {
    pub(super) fn new(of: T) -> Part<T> {
        Part { of: Rc::new(of), print: None }
    }

    pub(super) fn change(&mut self) -> &mut T {
        self.print = None;
        Rc::make_mut(&mut self.of)
    }

    pub(super) fn print(&mut self) -> u64 {
        *self.print.get_or_insert_with(|| print_of(&*self.of))
    }
}
