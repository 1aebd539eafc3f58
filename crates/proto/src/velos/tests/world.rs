//! Plain memory and links that a test can hold.

use super::*;

#[derive(Debug)]
pub(super) enum Verb {
    Write { at: At, words: Vec<u64>, token: Option<Token> },
    Read { at: At, n_words: usize, token: Token },
    Cas { at: At, expected: u64, desired: u64, token: Option<Token> },
    Message(Vec<u8>),
}

/// Memory and links. A held link keeps the verbs posted to it, in order.
pub(super) struct World {
    pub(super) memory: Vec<Vec<u64>>,
    pub(super) links: Vec<Vec<VecDeque<Verb>>>,
    pub(super) held: Vec<(usize, usize)>,
    pub(super) inboxes: Vec<Inbox>,
    pub(super) delivered: Vec<Vec<Vec<u8>>>,
    pub(super) notes: Vec<Vec<Note>>,
    pub(super) n_wakes: usize,
}

pub(super) struct View<'w> {
    pub(super) world: &'w mut World,
    pub(super) me: usize,
}

impl Port for View<'_> {
    fn load(&self, at: At) -> u64 {
        self.world.memory[self.me][at.0 as usize]
    }
    fn load_into(&self, at: At, words: &mut [u64]) {
        let at = at.0 as usize;
        words.copy_from_slice(&self.world.memory[self.me][at..at + words.len()]);
    }
    fn store(&mut self, at: At, word: u64) {
        self.world.memory[self.me][at.0 as usize] = word;
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
        unreachable!("Velos has no use for it");
    }
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.post(to, Verb::Message(message.to_vec()));
        true
    }
    fn wake(&mut self, _: Rank) {
        self.world.n_wakes += 1;
    }
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), base::verb::Unsupported> {
        Ok(())
    }
}

impl View<'_> {
    fn post(&mut self, to: Rank, verb: Verb) {
        self.world.links[self.me][to.index()].push_back(verb);
        if !self.world.held.contains(&(self.me, to.index())) {
            self.world.let_through(self.me, to.index(), usize::MAX);
        }
    }
}

impl Host for View<'_> {
    type Disk = crate::disk::NoDisk;

    fn deliver(&mut self, _: Slot, value: &[u8]) {
        self.world.delivered[self.me].push(value.to_vec());
    }
    fn notify(&mut self, note: Note) {
        self.world.notes[self.me].push(note);
    }
}

impl World {
    /// Nothing that is on its way from `from` to `to` takes effect.
    pub(super) fn lose(&mut self, from: usize, to: usize) {
        for verb in self.links[from][to].drain(..) {
            let token = match verb {
                Verb::Write { token, .. } | Verb::Cas { token, .. } => token,
                Verb::Read { token, .. } => Some(token),
                Verb::Message(_) => None,
            };
            if let Some(token) = token {
                let (from_peer, outcome) = (Rank::at(to), Outcome::Unknown);
                self.inboxes[from].push(Event::Completed { from: from_peer, token, outcome });
            }
        }
    }

    pub(super) fn let_through(&mut self, from: usize, to: usize, n: usize) {
        for _ in 0..n {
            let Some(verb) = self.links[from][to].pop_front() else { return };
            let peer = Rank::at(to);
            let memory = &mut self.memory[to];
            let done = |token, outcome| Event::Completed { from: peer, token, outcome };
            match verb {
                Verb::Write { at, words, token } => {
                    let at = at.0 as usize;
                    memory[at..at + words.len()].copy_from_slice(&words);
                    if let Some(token) = token {
                        self.inboxes[from].push(done(token, Outcome::Written));
                    }
                }
                Verb::Read { at, n_words, token } => {
                    let at = at.0 as usize;
                    self.inboxes[from].push(done(token, Outcome::Read(&memory[at..at + n_words])));
                }
                Verb::Cas { at, expected, desired, token } => {
                    let word = &mut memory[at.0 as usize];
                    let before = *word;
                    if before == expected {
                        *word = desired;
                    }
                    if let Some(token) = token {
                        self.inboxes[from].push(done(token, Outcome::Before(before)));
                    }
                }
                Verb::Message(bytes) => {
                    self.inboxes[to].push(Event::Message { from: Rank::at(from), bytes: &bytes });
                }
            }
        }
    }
}
