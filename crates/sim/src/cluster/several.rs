//! Commands of several keys at once, of a keyspace in partitions: its partitions execute them piece
//! by piece, each its own keys.
//!
//! - V1 what such a command writes is there whole or not at all, and what it reads is of one
//!   moment. By construction: it is one operation of the history that is judged, with a part for
//!   each key.
//! - V2 what is drawn here changes nothing that is drawn elsewhere. By a generator of its own.

use base::Rng;
use check::{Action, Command};

/// The keys: more than a run has partitions, so that most commands concern several.
const N_KEYS: u64 = 6;

/// The requests of all clients.
#[derive(Debug)]
pub(super) struct Several {
    rng: Rng,
    is_on: bool,
    n_values: u64,
}

/// A request: its words, and what it does to each key.
#[derive(Debug)]
pub(super) struct Act {
    pub(super) words: Vec<Vec<u8>>,
    pub(super) commands: Vec<Command>,
    pub(super) is_read: bool,
}

fn key(n: u64) -> Vec<u8> {
    format!("several:{n}").into_bytes()
}

impl Several {
    /// V2. `can_be`: whether the cluster has partitions.
    pub(super) fn draw(seed: u64, can_be: bool) -> Several {
        let mut rng = Rng::new(seed ^ 0x0073_6576_6572_616c);
        Several { is_on: can_be && rng.chance(3, 4), rng, n_values: 0 }
    }

    /// Every key, if any is used.
    pub(super) fn keys(&self) -> impl Iterator<Item = Vec<u8>> {
        (0..if self.is_on { N_KEYS } else { 0 }).map(key)
    }

    /// The next request, if there is one.
    pub(super) fn think(&mut self) -> Option<Act> {
        if !self.is_on || !self.rng.chance(1, 3) {
            return None;
        }
        let first = self.rng.below(N_KEYS);
        let n = self.rng.range(2, 3);
        let keys = (0..n).map(|at| key((first + at) % N_KEYS));
        if self.rng.chance(1, 2) {
            let keys: Vec<Vec<u8>> = keys.collect();
            let words = [b"MGET".to_vec()].into_iter().chain(keys.iter().cloned()).collect();
            let commands = keys.into_iter().map(|key| Command::new(key, Action::Get)).collect();
            return Some(Act { words, commands, is_read: true });
        }
        let mut words = vec![b"MSET".to_vec()];
        let mut commands = Vec::new();
        for key in keys {
            self.n_values += 1;
            let value = self.n_values.to_string().into_bytes();
            words.extend([key.clone(), value.clone()]);
            commands.push(Command::new(key, Action::Set(value)));
        }
        Some(Act { words, commands, is_read: false })
    }
}
