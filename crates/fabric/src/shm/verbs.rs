//! The verbs: this CPU performs them at once, on the memory of any member.

use super::ShmFabric;
use super::ring::MESSAGE_BYTES_MAX;
use base::verb::Area;
use base::verb::Unsupported;
use base::{At, Event, Incarnation, Outcome, Port, Rank, Token};
use region::Words;
use std::sync::Arc;
use std::sync::atomic::{Ordering::SeqCst, fence};

/// The mapped memory of a process.
#[derive(Debug)]
struct Shared(Words);

impl Area for Shared {
    #[inline]
    fn load(&self, at: At) -> u64 {
        self.0.load(at.0)
    }

    #[inline]
    fn store(&self, at: At, word: u64) {
        self.0.store(at.0, word);
    }

    #[inline]
    fn load_into(&self, at: At, words: &mut [u64]) {
        self.0.load_into(at.0, words);
    }

    #[inline]
    fn write(&self, at: At, words: &[u64]) {
        self.0.write_words(at.0, words);
    }

    #[inline]
    fn write_bytes(&self, at: At, bytes: &[u8]) {
        self.0.write_bytes(at.0, bytes);
    }
}

impl ShmFabric {
    #[inline]
    fn complete(&mut self, from: Rank, token: Option<Token>, outcome: Outcome<'_>) {
        if let Some(token) = token {
            self.done.push(Event::Completed { from, token, outcome });
        }
    }
}

impl Port for ShmFabric {
    #[inline]
    fn load(&self, at: At) -> u64 {
        self.own.load(at.0)
    }

    #[inline]
    fn load_into(&self, at: At, words: &mut [u64]) {
        self.own.load_into(at.0, words);
    }

    #[inline]
    fn store(&mut self, at: At, word: u64) {
        self.own.store(at.0, word);
    }

    #[inline]
    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        let outcome = match &self.memory[to.index()] {
            Some(memory) => {
                memory.write_words(at.0, words);
                Outcome::Written
            }
            None => Outcome::Unknown,
        };
        self.unfenced.insert(to);
        self.complete(to, token, outcome);
    }

    #[inline]
    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        if self.unfenced.contains(to) {
            // T2, S1: without the fence this load may overtake earlier stores in the store buffer,
            // and two nodes that each WRITE and then READ could both miss the other's word.
            fence(SeqCst);
            self.unfenced = base::SeatSet::EMPTY;
        }
        match &self.memory[to.index()] {
            Some(memory) => {
                self.done.push_read(to, token, n_words, |words| memory.load_into(at.0, words));
            }
            None => self.complete(to, Some(token), Outcome::Unknown),
        }
    }

    #[inline]
    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        let outcome = match &self.memory[to.index()] {
            Some(memory) => Outcome::Before(memory.cas(at.0, expected, desired)),
            None => Outcome::Unknown,
        };
        self.unfenced.insert(to);
        self.complete(to, token, outcome);
    }

    #[inline]
    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        let outcome = match &self.memory[to.index()] {
            Some(memory) => Outcome::Before(memory.fetch_add(at.0, add)),
            None => Outcome::Unknown,
        };
        self.unfenced.insert(to);
        self.complete(to, token, outcome);
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        if to == self.me {
            assert!(
                message.len() <= MESSAGE_BYTES_MAX,
                "a message of {} bytes: the longest is {MESSAGE_BYTES_MAX}",
                message.len()
            );
            self.done.push(Event::Message { from: to, bytes: message });
            return true;
        }
        let sent = self.links[to.index()].send(message);
        if sent {
            self.ring(to);
        }
        sent
    }

    #[inline]
    fn wake(&mut self, to: Rank) {
        if to != self.me {
            self.ring(to);
        }
    }

    fn permit_writer(&mut self, _from: At, _writer: Option<Rank>) -> Result<(), Unsupported> {
        Err(Unsupported("shared memory cannot revoke another process's mapping; use --fabric tcp"))
    }

    /// A group's process begins with memory of its own, so a region is that of one process.
    fn area(&self, of: Rank, incarnation: Incarnation) -> Option<Arc<dyn Area>> {
        let is_it = match of == self.me {
            true => self.setup.incarnation == incarnation,
            false => self.links[of.index()].incarnation() == Some(incarnation),
        };
        let memory = self.memory[of.index()].clone().filter(|_| is_it)?;
        Some(Arc::new(Shared(memory)))
    }

    fn has_ended(&self, seat: Rank, incarnation: Incarnation) -> bool {
        seat != self.me && self.links[seat.index()].has_ended(incarnation)
    }
}
