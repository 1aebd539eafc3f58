//! The memory of processes that others look into, where it is shared.
//!
//! A process begins with memory of its own. What others hold of its predecessor's stays as it is.

use base::verb::Area;
use base::{At, Incarnation, Rank};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};

/// The last process on a seat, and its memory.
type Seated = (Incarnation, Arc<Memory>);

/// The areas of the last processes on all seats.
#[derive(Clone, Default)]
pub(crate) struct Areas(Rc<RefCell<Vec<Option<Seated>>>>);

impl Areas {
    /// Begins a process with memory of its own.
    pub(crate) fn begin(&self, seat: usize, incarnation: Incarnation, n_words: usize) {
        let areas = &mut *self.0.borrow_mut();
        if areas.len() <= seat {
            areas.resize(seat + 1, None);
        }
        let words = (0..n_words).map(|_| AtomicU64::new(0)).collect();
        areas[seat] = Some((incarnation, Arc::new(Memory(words))));
    }

    /// What [`base::Port::area`] says.
    pub(crate) fn area(&self, of: Rank, incarnation: Incarnation) -> Option<Arc<dyn Area>> {
        let areas = self.0.borrow();
        let (present, memory) = areas.get(of.index())?.as_ref()?;
        if *present == incarnation { Some(Arc::clone(memory) as Arc<dyn Area>) } else { None }
    }
}

#[derive(Debug)]
struct Memory(Vec<AtomicU64>);

impl Area for Memory {
    fn load(&self, at: At) -> u64 {
        self.0[at.0 as usize].load(SeqCst)
    }

    fn store(&self, at: At, word: u64) {
        self.0[at.0 as usize].store(word, SeqCst);
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        for (word, n) in words.iter_mut().zip(0..) {
            *word = self.load(at.plus(n));
        }
    }

    fn write(&self, at: At, words: &[u64]) {
        for (word, n) in words.iter().zip(0..) {
            self.store(at.plus(n), *word);
        }
    }
}
