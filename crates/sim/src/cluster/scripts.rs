//! Scripts in place of commands, in a quarter of the runs of a log: what a script does is one
//! operation of the history.
//!
//! - K1 a script is called by its text, or by the name that a member gave it when it was loaded:
//!   from then on every member knows it, whatever dies (I3: NOSCRIPT is no answer that may pass).
//!   By [`Scripts::loaded`], and `client`, C1.
//! - K2 what is drawn here changes nothing that is drawn elsewhere. By [`Scripts::draw`], with a
//!   generator of its own.

use super::resp::{Value, may_pass};
use base::Rng;
use check::{Action, Command};

/// A script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Script {
    /// Adds to a number.
    Add,
    /// Writes, and returns what was there.
    Swap,
    /// Moves an amount from one number to another.
    Move,
}

impl Script {
    const ALL: [Script; 3] = [Script::Add, Script::Swap, Script::Move];

    const fn text(self) -> &'static str {
        match self {
            Script::Add => "return redis.call('INCRBY', KEYS[1], ARGV[1])",
            Script::Swap => {
                "local was = redis.call('GET', KEYS[1])
                 redis.call('SET', KEYS[1], ARGV[1])
                 return was"
            }
            Script::Move => {
                "local one = redis.call('INCRBY', KEYS[1], ARGV[1])
                 return {one, redis.call('DECRBY', KEYS[2], ARGV[1])}"
            }
        }
    }
}

/// A request about a script.
#[derive(Debug)]
pub(super) enum Request {
    /// A member is to give it a name.
    Load(Script),
    /// It is called: the words, what it does to each key, and whether it answers a list.
    Call { words: Vec<Vec<u8>>, commands: Vec<Command>, is_list: bool },
}

/// The scripts of all clients.
#[derive(Debug)]
pub(super) struct Scripts {
    rng: Rng,
    is_on: bool,
    n_keys: u64,
    /// The name of each that was loaded.
    names: [Option<String>; Script::ALL.len()],
    /// The scripts that were called by their names.
    pub(super) n_by_name: u32,
}

impl Scripts {
    /// K2. `can_be`: whether members of such a cluster execute scripts.
    pub(super) fn draw(seed: u64, can_be: bool, n_keys: u64) -> Scripts {
        let mut rng = Rng::new(seed ^ 0x0073_6372_6970_7473);
        let is_on = can_be && rng.chance(1, 4);
        Scripts { rng, is_on, n_keys, names: Default::default(), n_by_name: 0 }
    }

    /// The next request, if there is one. `value`: one that no client has written.
    pub(super) fn think(&mut self, value: impl FnOnce() -> Vec<u8>) -> Option<Request> {
        if !self.is_on || !self.rng.chance(1, 4) {
            return None;
        }
        let script = Script::ALL[self.rng.below(3) as usize];
        if self.rng.chance(1, 4) {
            return Some(Request::Load(script));
        }
        let amount = 1 + self.rng.below(9) as i64;
        let at = self.rng.below(self.n_keys);
        let (keys, argument, actions) = match script {
            Script::Add => {
                (vec![format!("counter:{at}")], amount.to_string(), vec![Action::Incr(amount)])
            }
            Script::Swap => {
                let value = value();
                let text = String::from_utf8_lossy(&value).into_owned();
                (vec![format!("register:{at}")], text, vec![Action::Swap(value)])
            }
            Script::Move => {
                let keys = ["account:a", "account:b"].map(str::to_owned);
                (keys.into(), amount.to_string(), vec![Action::Incr(amount), Action::Incr(-amount)])
            }
        };
        let mut words = match &self.names[script as usize] {
            Some(name) if self.rng.chance(1, 2) => {
                self.n_by_name += 1;
                vec!["EVALSHA".to_owned(), name.clone()]
            }
            _ => vec!["EVAL".to_owned(), script.text().to_owned()],
        };
        words.push(keys.len().to_string());
        words.extend(keys.iter().cloned());
        words.push(argument);
        let commands = keys.into_iter().zip(actions).map(|(key, act)| Command::new(key, act));
        let words = words.into_iter().map(String::into_bytes).collect();
        let is_list = script == Script::Move;
        Some(Request::Call { words, commands: commands.collect(), is_list })
    }

    /// The words with which it is loaded.
    pub(super) fn load(script: Script) -> [&'static [u8]; 3] {
        [b"SCRIPT", b"LOAD", script.text().as_bytes()]
    }

    /// K1: takes the answer to that. False if it was refused, or its end is unknown.
    ///
    /// # Errors
    /// An answer that no door may give.
    pub(super) fn loaded(&mut self, script: Script, value: Value) -> Result<bool, String> {
        let name = match value {
            Value::Error(why) if may_pass(&why) => return Ok(false),
            Value::Bytes(Some(name)) => {
                String::from_utf8(name).map_err(|error| error.to_string())?
            }
            other => return Err(format!("{other:?} is no name of a script")),
        };
        match &self.names[script as usize] {
            Some(before) if *before != name => {
                Err(format!("{script:?} is called {name}, and was called {before}"))
            }
            _ => {
                self.names[script as usize] = Some(name);
                Ok(true)
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn k1_a_script_that_is_called_otherwise_is_noticed() {
        let mut scripts = Scripts::draw(1, true, 2);
        let name = |name: &str| Value::Bytes(Some(name.as_bytes().to_vec()));
        assert_eq!(scripts.loaded(Script::Add, Value::Error("UNKNOWN it".to_owned())), Ok(false));
        assert_eq!(scripts.loaded(Script::Add, name("ab")), Ok(true));
        assert_eq!(scripts.loaded(Script::Swap, name("cd")), Ok(true));
        assert!(scripts.loaded(Script::Add, name("cd")).is_err());
        assert!(scripts.loaded(Script::Add, Value::Number(1)).is_err());
    }

    #[test]
    fn a_script_has_an_action_for_each_key() {
        let mut scripts = Scripts { is_on: true, ..Scripts::draw(1, true, 2) };
        let mut n = 0;
        while n < 50 {
            if let Some(Request::Call { words, commands, .. }) = scripts.think(|| b"7".to_vec()) {
                let n_keys = String::from_utf8_lossy(&words[2]).parse();
                assert_eq!(n_keys, Ok(commands.len()));
                n += 1;
            }
        }
    }
}
