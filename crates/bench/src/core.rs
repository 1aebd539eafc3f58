//! The protocol core alone: three machines in one thread over plain memory, no fabric.
//!
//! What is measured: propose, the WRITEs and CASes at three acceptors, their completions, the
//! delivery at the leader, and the learning and delivery at both followers. This is what a library
//! such as `omnipaxos` does when its three replicas live in one thread.

use base::verb::Unsupported;
use base::{At, Event, Inbox, Instant, Outcome, Port, Rank, Slot, Token};
use proto::node::{Node, NodeConfig, Start, Timing, velos_layout};
use proto::velos::{Shape, Velos};
use proto::{Host, Note};
use std::cell::RefCell;

/// Three regions and their owners' inboxes.
struct Memory {
    regions: [Vec<u64>; 3],
    inboxes: [Inbox; 3],
    delivered_bytes: [u64; 3],
    delivered: [u64; 3],
}

struct View<'m> {
    memory: &'m RefCell<Memory>,
    me: usize,
}

impl Port for View<'_> {
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
        let Memory { regions, inboxes, .. } = &mut *self.memory.borrow_mut();
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

impl Host for View<'_> {
    fn deliver(&mut self, _: Slot, value: &[u8]) {
        let memory = &mut *self.memory.borrow_mut();
        memory.delivered[self.me] += 1;
        memory.delivered_bytes[self.me] += value.len() as u64;
    }
    fn notify(&mut self, _: Note) {}
}

/// Three machines, and the memory that they share.
pub struct Core {
    memory: RefCell<Memory>,
    nodes: Vec<Node<Velos>>,
    spare: Inbox,
    now: Instant,
    leader: usize,
}

impl std::fmt::Debug for Core {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Core").finish_non_exhaustive()
    }
}

impl Core {
    /// A group in which somebody leads.
    ///
    /// # Panics
    /// If it does not come to lead: the protocol is broken.
    pub fn new(shape: &Shape) -> Core {
        let n_words = velos_layout(3, shape).n_words as usize;
        let memory = RefCell::new(Memory {
            regions: std::array::from_fn(|_| vec![0; n_words]),
            inboxes: Default::default(),
            delivered_bytes: [0; 3],
            delivered: [0; 3],
        });
        let nodes = (0..3)
            .map(|me| {
                let config = NodeConfig {
                    me: Rank::at(me),
                    members: 3,
                    start: Start::Bootstrap,
                    timing: Timing::default(),
                    memory_outlives_process: true,
                    peer_works: false,
                };
                Node::velos(config, shape, &mut View { memory: &memory, me })
            })
            .collect();
        let mut core = Core { memory, nodes, spare: Inbox::new(), now: Instant(1), leader: 0 };
        for me in 0..3 {
            for peer in Rank::all(3) {
                let view = &mut View { memory: &core.memory, me };
                core.nodes[me].on_event(Event::LinkUp(peer), core.now, view);
            }
        }
        for _ in 0..1000 {
            core.now = core.now.plus(std::time::Duration::from_millis(1));
            (0..3).for_each(|me| core.step(me));
        }
        let leads = |node: &Node<Velos>| node.status().role == proto::Role::Leader;
        core.leader = core.nodes.iter().position(leads).expect("somebody leads");
        core
    }

    fn step(&mut self, me: usize) {
        std::mem::swap(&mut self.spare, &mut self.memory.borrow_mut().inboxes[me]);
        for at in 0..self.spare.len() {
            let view = &mut View { memory: &self.memory, me };
            self.nodes[me].on_event(self.spare.event(at), self.now, view);
        }
        self.spare.clear();
        self.nodes[me].poll(self.now, &mut View { memory: &self.memory, me });
    }

    /// Has one value decided and delivered at all three.
    ///
    /// # Panics
    /// If it is not: the protocol is broken.
    pub fn decide(&mut self, value: &[u8]) {
        self.now = Instant(self.now.0 + 1000);
        let before = self.memory.borrow().delivered;
        let me = self.leader;
        self.nodes[me]
            .propose(value, self.now, &mut View { memory: &self.memory, me })
            .expect("leads and has room");
        self.step(me);
        (0..3).filter(|at| *at != me).for_each(|at| self.step(at));
        let after = self.memory.borrow().delivered;
        assert!((0..3).all(|me| after[me] == before[me] + 1), "{before:?} {after:?}");
    }
}
