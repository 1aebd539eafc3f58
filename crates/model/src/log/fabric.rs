//! Memory and links: what a machine of this world acts through.

use crate::mix::print_of;
use base::verb::Unsupported;
use base::{At, Event, Outcome, Port, Rank, Slot, Token};
use proto::disk::NoDisk;
use proto::{Host, Note};
use std::collections::VecDeque;

/// A member's region, with a hash that follows each store.
#[derive(Clone, Debug)]
pub(super) struct Memory {
    words: Vec<u64>,
    print: u64,
}

impl Memory {
    pub(super) fn new(n_words: usize) -> Memory {
        Memory { words: vec![0; n_words], print: 0 }
    }

    pub(super) const fn print(&self) -> u64 {
        self.print
    }

    fn set(&mut self, at: usize, word: u64) {
        let before = std::mem::replace(&mut self.words[at], word);
        if before != word {
            self.print ^= print_of(&(at, before)) ^ print_of(&(at, word));
        }
    }

    /// Performs a verb; a message is not one.
    pub(super) fn perform(&mut self, verb: &Verb) -> Option<Done> {
        match verb {
            Verb::Write { at, words, token } => {
                for (at, word) in (at.0 as usize..).zip(words) {
                    self.set(at, *word);
                }
                token.map(|token| Done { token, result: Found::Nothing })
            }
            Verb::Read { at, n_words, token } => {
                let at = at.0 as usize;
                let words = self.words[at..at + n_words].to_vec();
                Some(Done { token: *token, result: Found::Words(words) })
            }
            Verb::Cas { at, expected, desired, token } => {
                let at = at.0 as usize;
                let before = self.words[at];
                if before == *expected {
                    self.set(at, *desired);
                }
                token.map(|token| Done { token, result: Found::Before(before) })
            }
            Verb::Message(_) => None,
        }
    }
}

/// What one member posted to another.
#[derive(Clone, Debug, Hash)]
pub(super) enum Verb {
    Write { at: At, words: Vec<u64>, token: Option<Token> },
    Read { at: At, n_words: usize, token: Token },
    Cas { at: At, expected: u64, desired: u64, token: Option<Token> },
    Message(Vec<u8>),
}

impl Verb {
    /// The token that the poster waits for.
    pub(super) const fn token(&self) -> Option<Token> {
        match self {
            Verb::Write { token, .. } | Verb::Cas { token, .. } => *token,
            Verb::Read { token, .. } => Some(*token),
            Verb::Message(_) => None,
        }
    }
}

/// A completion on its way to the poster.
#[derive(Clone, Debug, Hash)]
pub(super) struct Done {
    pub(super) token: Token,
    pub(super) result: Found,
}

#[derive(Clone, Debug, Hash)]
pub(super) enum Found {
    Nothing,
    Words(Vec<u64>),
    Before(u64),
    Unknown,
}

impl Done {
    pub(super) fn event(&self, from: Rank) -> Event<'_> {
        let outcome = match &self.result {
            Found::Nothing => Outcome::Written,
            Found::Words(words) => Outcome::Read(words),
            Found::Before(word) => Outcome::Before(*word),
            Found::Unknown => Outcome::Unknown,
        };
        Event::Completed { from, token: self.token, outcome }
    }
}

/// The way from one member to another and back.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Link {
    pub(super) posted: VecDeque<Verb>,
    pub(super) done: VecDeque<Done>,
}

/// What a machine reports in one turn.
#[derive(Clone, Debug)]
pub(super) enum Report {
    Delivered(Slot, Vec<u8>),
    Noted(Note),
}

/// One member's hands during one turn. Its own memory answers at once; everything else waits on the
/// links.
pub(super) struct Hands<'w> {
    pub(super) me: Rank,
    pub(super) memory: &'w mut Memory,
    /// Posted in this turn, to others.
    pub(super) posted: Vec<(Rank, Verb)>,
    /// Completions from the own memory.
    pub(super) own: VecDeque<Done>,
    pub(super) reports: Vec<Report>,
}

impl Hands<'_> {
    fn post(&mut self, to: Rank, verb: Verb) {
        if to == self.me {
            self.own.extend(self.memory.perform(&verb));
        } else {
            self.posted.push((to, verb));
        }
    }
}

impl Port for Hands<'_> {
    fn load(&self, at: At) -> u64 {
        self.memory.words[at.0 as usize]
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        let at = at.0 as usize;
        words.copy_from_slice(&self.memory.words[at..at + words.len()]);
    }

    fn store(&mut self, at: At, word: u64) {
        self.memory.set(at.0 as usize, word);
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        self.post(to, Verb::Write { at, words: words.to_vec(), token });
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        self.post(to, Verb::Read { at, n_words, token });
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        self.post(to, Verb::Cas { at, expected, desired, token });
    }

    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {
        unreachable!("no protocol of this world adds");
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.posted.push((to, Verb::Message(message.to_vec())));
        true
    }

    fn wake(&mut self, _: Rank) {}

    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Err(Unsupported("the explorer's memory is open to all"))
    }
}

impl Host for Hands<'_> {
    type Disk = NoDisk;

    fn deliver(&mut self, slot: Slot, value: &[u8]) {
        self.reports.push(Report::Delivered(slot, value.to_vec()));
    }

    fn notify(&mut self, note: Note) {
        self.reports.push(Report::Noted(note));
    }
}
