//! Three regions in plain memory, and what one member's engine stands on: its view of them.

use base::verb::Unsupported;
use base::{At, Event, Inbox, Instant, Outcome, Port, Rank, Token};
use engine::Plant;
use runtime::disk::LogDisk;
use std::cell::{Cell, RefCell};
use std::rc::Rc;

/// The number of replicas, which is the rivals' too.
pub(super) const MEMBERS: usize = 3;

/// The members' regions, and the events that they have not polled.
#[derive(Debug)]
pub(super) struct Memory {
    regions: [Vec<u64>; MEMBERS],
    pub(super) inboxes: [Inbox; MEMBERS],
}

impl Memory {
    /// Empty regions of `n_words`.
    pub(super) fn new(n_words: usize) -> Memory {
        Memory { regions: std::array::from_fn(|_| vec![0; n_words]), inboxes: Default::default() }
    }
}

/// One member's view of the memory, and the clock of all members.
#[derive(Debug)]
pub(super) struct View {
    pub(super) memory: Rc<RefCell<Memory>>,
    pub(super) clock: Rc<Cell<Instant>>,
    pub(super) me: usize,
}

impl Port for View {
    fn load(&self, at: At) -> u64 {
        self.memory.borrow().regions[self.me][at.0 as usize]
    }
    fn load_into(&self, at: At, words: &mut [u64]) {
        let at = at.0 as usize;
        words.copy_from_slice(&self.memory.borrow().regions[self.me][at..at + words.len()]);
    }
    fn store(&mut self, at: At, word: u64) {
        self.memory.borrow_mut().regions[self.me][at.0 as usize] = word;
    }
    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        let memory = &mut *self.memory.borrow_mut();
        let at = at.0 as usize;
        memory.regions[to.index()][at..at + words.len()].copy_from_slice(words);
        if let Some(token) = token {
            let outcome = Outcome::Written;
            memory.inboxes[self.me].push(Event::Completed { from: to, token, outcome });
        }
    }
    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        let Memory { regions, inboxes } = &mut *self.memory.borrow_mut();
        let at = at.0 as usize;
        inboxes[self.me].push_read(to, token, n_words, |words| {
            words.copy_from_slice(&regions[to.index()][at..at + n_words]);
        });
    }
    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        let memory = &mut *self.memory.borrow_mut();
        let word = &mut memory.regions[to.index()][at.0 as usize];
        let before = *word;
        if before == expected {
            *word = desired;
        }
        if let Some(token) = token {
            let outcome = Outcome::Before(before);
            memory.inboxes[self.me].push(Event::Completed { from: to, token, outcome });
        }
    }
    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        let memory = &mut *self.memory.borrow_mut();
        let word = &mut memory.regions[to.index()][at.0 as usize];
        let before = *word;
        *word = before.wrapping_add(add);
        if let Some(token) = token {
            let outcome = Outcome::Before(before);
            memory.inboxes[self.me].push(Event::Completed { from: to, token, outcome });
        }
    }
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        let from = Rank::at(self.me);
        let event = Event::Message { from, bytes: message };
        self.memory.borrow_mut().inboxes[to.index()].push(event);
        true
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Err(Unsupported("plain memory has no permissions"))
    }
}

impl Plant for View {
    /// No member has one.
    type Disk = LogDisk;

    fn now(&self) -> Instant {
        self.clock.get()
    }

    fn boot_now(&self) -> Instant {
        self.clock.get()
    }

    fn wall_ms(&self) -> u64 {
        self.clock.get().0 / 1_000_000
    }

    fn flush(&mut self) {}

    fn poll(&mut self, inbox: &mut Inbox) {
        // The engine has cleared it, so both keep their buffers.
        debug_assert!(inbox.is_empty());
        std::mem::swap(inbox, &mut self.memory.borrow_mut().inboxes[self.me]);
    }

    fn lead(&mut self, _: bool) {}

    fn say(&mut self, line: &str) {
        eprintln!("bench core: member {}: {line}", self.me + 1);
    }
}
