//! Plain memory, links that a test holds, and disks, for machines that a test steps; and the golden
//! scripts of the protocols' folders ([`golden`]).

pub(crate) mod bytes;
pub(crate) mod disk;
pub(crate) mod golden;

use crate::{Host, Note};
use alloc::collections::VecDeque;
use alloc::string::String;
use alloc::vec;
use alloc::vec::Vec;
use base::verb::Unsupported;
use base::{At, Event, Inbox, Outcome, Port, Rank, Slot, Token};
use disk::TestDisk;

/// What is posted on a link.
#[derive(Clone, Debug)]
pub(crate) enum Verb {
    Write { at: At, words: Vec<u64>, token: Option<Token> },
    Read { at: At, n_words: usize, token: Token },
    Cas { at: At, expected: u64, desired: u64, token: Option<Token> },
    Message(Vec<u8>),
}

impl Verb {
    const fn token(&self) -> Option<Token> {
        match self {
            Verb::Write { token, .. } | Verb::Cas { token, .. } => *token,
            Verb::Read { token, .. } => Some(*token),
            Verb::Message(_) => None,
        }
    }
}

/// The fate of a verb.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fate {
    Done,
    /// A CAS found another word than it expected.
    Failed,
    /// The owner of the memory permits another writer.
    Refused,
}

/// What a world has done, for a script to tell.
#[derive(Clone, Debug)]
pub(crate) enum Effect {
    /// A verb, from where to where.
    Verb(usize, usize, Verb, Fate),
    Delivered(usize, Slot, Vec<u8>),
    Noted(usize, Note),
}

/// Memory and links. What is posted on a link takes effect at once, unless the link is held: then
/// it is kept, in order.
#[derive(Debug)]
pub(crate) struct World {
    pub(crate) memory: Vec<Vec<u64>>,
    /// The writer that each member permits, and from where on.
    pub(crate) permitted: Vec<Option<(At, Rank)>>,
    pub(crate) links: Vec<Vec<VecDeque<Verb>>>,
    pub(crate) held: Vec<(usize, usize)>,
    /// The links that broke: the effect of what is posted there is unknown.
    pub(crate) down: Vec<(usize, usize)>,
    pub(crate) inboxes: Vec<Inbox>,
    /// Empty for machines in memory.
    pub(crate) disks: Vec<TestDisk>,
    pub(crate) delivered: Vec<Vec<Vec<u8>>>,
    pub(crate) notes: Vec<Vec<Note>>,
    pub(crate) n_wakes: usize,
    pub(crate) effects: Vec<Effect>,
}

/// One member's way to the world.
pub(crate) struct View<'w> {
    pub(crate) world: &'w mut World,
    pub(crate) me: usize,
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
        unreachable!("no machine that stands here has a use for it");
    }
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.post(to, Verb::Message(message.to_vec()));
        true
    }
    fn wake(&mut self, _: Rank) {
        self.world.n_wakes += 1;
    }
    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        self.world.permitted[self.me] = writer.map(|writer| (from, writer));
        Ok(())
    }
}

impl View<'_> {
    fn post(&mut self, to: Rank, verb: Verb) {
        let way = (self.me, to.index());
        if self.world.down.contains(&way) {
            return self.world.tell_unknown(way, &verb);
        }
        self.world.links[way.0][way.1].push_back(verb);
        if !self.world.held.contains(&way) {
            self.world.let_through(way.0, way.1, usize::MAX);
        }
    }
}

impl Host for View<'_> {
    type Disk = TestDisk;

    fn disk(&mut self) -> Option<&mut TestDisk> {
        self.world.disks.get_mut(self.me)
    }
    fn deliver(&mut self, slot: Slot, value: &[u8]) {
        self.world.delivered[self.me].push(value.to_vec());
        self.world.effects.push(Effect::Delivered(self.me, slot, value.to_vec()));
    }
    fn notify(&mut self, note: Note) {
        self.world.notes[self.me].push(note);
        self.world.effects.push(Effect::Noted(self.me, note));
    }
}

impl World {
    pub(crate) fn new(n: usize, n_words: usize) -> World {
        World {
            memory: vec![vec![0; n_words]; n],
            permitted: vec![None; n],
            links: (0..n).map(|_| (0..n).map(|_| VecDeque::new()).collect()).collect(),
            held: Vec::new(),
            down: Vec::new(),
            inboxes: (0..n).map(|_| Inbox::new()).collect(),
            disks: Vec::new(),
            delivered: vec![Vec::new(); n],
            notes: vec![Vec::new(); n],
            n_wakes: 0,
            effects: Vec::new(),
        }
    }

    fn tell_unknown(&mut self, (from, to): (usize, usize), verb: &Verb) {
        if let Some(token) = verb.token() {
            let (peer, outcome) = (Rank::at(to), Outcome::Unknown);
            self.inboxes[from].push(Event::Completed { from: peer, token, outcome });
        }
    }

    /// Nothing that is on its way from `from` to `to` takes effect.
    pub(crate) fn lose(&mut self, from: usize, to: usize) {
        for verb in core::mem::take(&mut self.links[from][to]) {
            self.tell_unknown((from, to), &verb);
        }
    }

    /// The first `n` verbs on a link take effect.
    pub(crate) fn let_through(&mut self, from: usize, to: usize, n: usize) {
        for _ in 0..n {
            let Some(verb) = self.links[from][to].pop_front() else { return };
            let fate = self.perform(from, to, &verb);
            self.effects.push(Effect::Verb(from, to, verb, fate));
        }
    }

    fn perform(&mut self, from: usize, to: usize, verb: &Verb) -> Fate {
        let memory = &mut self.memory[to];
        let done = |token, outcome| Event::Completed { from: Rank::at(to), token, outcome };
        match verb {
            Verb::Write { at, words, token } => {
                let admits = |(start, writer): (At, Rank)| at.0 < start.0 || writer.index() == from;
                let refused = to != from && !self.permitted[to].is_none_or(admits);
                if !refused {
                    let at = at.0 as usize;
                    memory[at..at + words.len()].copy_from_slice(words);
                }
                let outcome = if refused { Outcome::Refused } else { Outcome::Written };
                if let Some(token) = *token {
                    self.inboxes[from].push(done(token, outcome));
                }
                if refused { Fate::Refused } else { Fate::Done }
            }
            Verb::Read { at, n_words, token } => {
                let at = at.0 as usize;
                let outcome = Outcome::Read(&memory[at..at + n_words]);
                self.inboxes[from].push(done(*token, outcome));
                Fate::Done
            }
            Verb::Cas { at, expected, desired, token } => {
                let word = &mut memory[at.0 as usize];
                let before = *word;
                if before == *expected {
                    *word = *desired;
                }
                if let Some(token) = *token {
                    self.inboxes[from].push(done(token, Outcome::Before(before)));
                }
                if before == *expected { Fate::Done } else { Fate::Failed }
            }
            Verb::Message(bytes) => {
                self.inboxes[to].push(Event::Message { from: Rank::at(from), bytes });
                Fate::Done
            }
        }
    }

    /// Lets the process of `from` die: the first half of its next WRITE to `to` arrives, and
    /// nothing else that it has posted.
    pub(crate) fn tear(&mut self, from: usize, to: usize) {
        let written = self.links[from][to].iter().find_map(|verb| match verb {
            Verb::Write { at, words, token: Some(_) } => Some((at.0 as usize, words)),
            _ => None,
        });
        let (at, words) = written.expect("a WRITE of an entry is on its way");
        for (offset, word) in words.iter().enumerate().take(words.len() / 2) {
            self.memory[to][at + offset] = *word;
        }
        self.links[from].iter_mut().for_each(VecDeque::clear);
    }

    /// What took effect since the last call.
    pub(crate) fn take_effects(&mut self) -> Vec<Effect> {
        core::mem::take(&mut self.effects)
    }
}

/// A value as a reader sees it.
pub(crate) fn shown(value: &[u8]) -> String {
    if value.is_empty() {
        "a no-op".into()
    } else {
        alloc::format!("{:?}", String::from_utf8_lossy(value))
    }
}
