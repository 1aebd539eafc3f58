//! Three regions in plain memory, and one member's view of them.

use super::entry;
use base::verb::Unsupported;
use base::{At, Event, Inbox, Outcome, Port, Rank, Slot, Token};
use proto::{Host, Note};

/// The number of replicas, which is the rivals' too.
pub(super) const MEMBERS: usize = 3;

/// The members' regions and inboxes, and their deliveries.
pub(super) struct Memory {
    regions: [Vec<u64>; MEMBERS],
    pub(super) inboxes: [Inbox; MEMBERS],
    /// The numbers of entries delivered.
    pub(super) delivered: [u64; MEMBERS],
    /// The sum of all entries' first bytes, so that the state machines have looked at them.
    pub(super) sum: u64,
}

impl Memory {
    /// Empty regions of `n_words`.
    pub(super) fn new(n_words: usize) -> Memory {
        Memory {
            regions: std::array::from_fn(|_| vec![0; n_words]),
            inboxes: Default::default(),
            delivered: [0; MEMBERS],
            sum: 0,
        }
    }
}

/// One member's port and state machine.
pub(super) struct View<'m> {
    pub(super) memory: &'m mut Memory,
    pub(super) me: usize,
}

impl Port for View<'_> {
    fn load(&self, at: At) -> u64 {
        self.memory.regions[self.me][at.0 as usize]
    }
    fn load_into(&self, at: At, words: &mut [u64]) {
        let at = at.0 as usize;
        words.copy_from_slice(&self.memory.regions[self.me][at..at + words.len()]);
    }
    fn store(&mut self, at: At, word: u64) {
        self.memory.regions[self.me][at.0 as usize] = word;
    }
    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        let memory = &mut *self.memory;
        let at = at.0 as usize;
        memory.regions[to.index()][at..at + words.len()].copy_from_slice(words);
        if let Some(token) = token {
            let outcome = Outcome::Written;
            memory.inboxes[self.me].push(Event::Completed { from: to, token, outcome });
        }
    }
    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        let Memory { regions, inboxes, .. } = &mut *self.memory;
        let at = at.0 as usize;
        inboxes[self.me].push_read(to, token, n_words, |words| {
            words.copy_from_slice(&regions[to.index()][at..at + n_words]);
        });
    }
    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        let memory = &mut *self.memory;
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
        let memory = &mut *self.memory;
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
        self.memory.inboxes[to.index()].push(event);
        true
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Err(Unsupported("plain memory has no permissions"))
    }
}

impl Host for View<'_> {
    type Disk = proto::disk::NoDisk;

    fn deliver(&mut self, _: Slot, value: &[u8]) {
        // A no-op of the protocol has no entries.
        if !value.is_empty() {
            let (entries, sum) = entry::read(value);
            let memory = &mut *self.memory;
            memory.delivered[self.me] += entries;
            memory.sum = memory.sum.wrapping_add(sum);
        }
    }
    fn notify(&mut self, _: Note) {}
}
