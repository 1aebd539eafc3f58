//! Letters that found no room on their way out, for a while.
//!
//! - A1 *Bounds.* At most [`LATE_MAX`] wait; one more is lost, and asked for again. Tested by
//!   `a1_what_finds_no_room_waits_in_its_order_and_no_more_than_there_is_place_for`.

use crate::event::{Member, View};
use std::collections::VecDeque;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Duration;

/// The most letters that wait.
const LATE_MAX: usize = 256;

/// The time after which room is looked for again.
pub(super) const LOOK_EVERY: Duration = Duration::from_millis(1);

/// See the module's text.
#[derive(Debug, Default)]
pub(super) struct Late(Mutex<VecDeque<(Member, Vec<u8>)>>);

impl Late {
    fn letters(&self) -> MutexGuard<'_, VecDeque<(Member, Vec<u8>)>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Sends a letter with `tell`, which says whether there was room, or keeps it.
    pub(super) fn send(&self, to: Member, letter: Vec<u8>, tell: impl Fn(usize, &[u8]) -> bool) {
        let mut letters = self.letters();
        let is_sent = letters.is_empty() && tell(to.seat, &letter);
        if !is_sent && letters.len() < LATE_MAX {
            letters.push_back((to, letter));
        }
    }

    /// Sends what waits, as far as there is room. Returns whether something still waits.
    pub(super) fn send_again(&self, tell: impl Fn(usize, &[u8]) -> bool) -> bool {
        let mut letters = self.letters();
        while letters.front().is_some_and(|(to, letter)| tell(to.seat, letter)) {
            letters.pop_front();
        }
        !letters.is_empty()
    }

    /// Drops letters to processes that are not in `view`.
    pub(super) fn keep_members(&self, view: &View) {
        self.letters().retain(|(to, _)| view.members.contains(to));
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::cell::{Cell, RefCell};

    #[test]
    fn a1_what_finds_no_room_waits_in_its_order_and_no_more_than_there_is_place_for() {
        let late = Late::default();
        let (room, sent) = (Cell::new(1), RefCell::new(Vec::new()));
        let tell = |seat: usize, letter: &[u8]| {
            let is_room = room.get() > 0;
            if is_room {
                room.set(room.get() - 1);
                sent.borrow_mut().push((seat, letter[0]));
            }
            is_room
        };
        let to = |seat| Member { seat, incarnation: 7, metadata: [0; 2] };
        (0..3).for_each(|n| late.send(to(1), vec![n], tell));
        room.set(1);
        late.send(to(2), vec![3], tell);
        assert_eq!(sent.borrow()[..], [(1, 0)], "none goes before those that wait");
        assert!(late.send_again(tell));
        room.set(9);
        assert!(!late.send_again(tell));
        assert_eq!(sent.borrow()[..], [(1, 0), (1, 1), (1, 2), (2, 3)]);
        room.set(0);
        (0..2 * LATE_MAX).for_each(|_| late.send(to(1), vec![0], tell));
        assert_eq!(late.letters().len(), LATE_MAX);
    }
}
