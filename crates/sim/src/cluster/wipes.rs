//! Clients that empty the whole store, in one run of sixteen of a log: also while a member writes
//! its state, or takes another one's.
//!
//! - F1 nothing that was there before is there afterwards, at any member, and what was watched has
//!   changed. By construction: FLUSHALL stands in a transaction behind a read of every key, and is
//!   one operation of the history, which deletes all of them.
//! - F2 what is drawn here changes nothing that is drawn elsewhere. By [`Wipes::draw`], with a
//!   generator of its own. But other clients' keys have judges that know of no flush, so the runs
//!   have none of those.

use super::resp::Value;
use base::Rng;
use check::{Action, Command, Reply};

/// A flush: the words of its transaction, and what it does to each key.
#[derive(Debug)]
pub(super) struct Wipe {
    pub(super) words: Vec<Vec<Vec<u8>>>,
    pub(super) commands: Vec<Command>,
}

/// The most flushes of a run: each is about all keys, so the judge sees no key by itself.
const N_MAX: u32 = 6;

/// The flushes of all clients.
#[derive(Debug)]
pub(super) struct Wipes {
    rng: Rng,
    pub(super) is_on: bool,
    pub(super) n_sent: u32,
}

impl Wipes {
    /// F2. `can_be`: whether clients of such a cluster flush.
    pub(super) fn draw(seed: u64, can_be: bool) -> Wipes {
        let mut rng = Rng::new(seed ^ 0x0063_6c65_6172);
        Wipes { is_on: can_be && rng.chance(1, 16), rng, n_sent: 0 }
    }

    /// The next flush, if there is one. `keys`: all that there may be.
    pub(super) fn think(&mut self, keys: impl FnOnce() -> Vec<Vec<u8>>) -> Option<Wipe> {
        if !self.is_on || self.n_sent == N_MAX || !self.rng.chance(1, 16) {
            return None;
        }
        self.n_sent += 1;
        let keys = keys();
        let read = |key: &Vec<u8>| vec![b"GET".to_vec(), key.clone()];
        let flush = if self.rng.chance(1, 2) { b"FLUSHALL" } else { &b"FLUSHDB"[..] };
        let words = keys.iter().map(read).chain([vec![flush.to_vec()]]).collect();
        let commands = keys.into_iter().map(|key| Command::new(key, Action::Delete)).collect();
        Some(Wipe { words, commands })
    }

    /// What a flush did to each key.
    ///
    /// # Errors
    /// An answer to something else.
    pub(super) fn replies(mut list: Vec<Value>) -> Result<Vec<Reply>, String> {
        match list.pop() {
            Some(Value::Text(word)) if word == "OK" => {}
            last => return Err(format!("{last:?} is no answer to a flush")),
        }
        let was = |value| match value {
            Value::Bytes(value) => Ok(Reply::Done(value.is_some())),
            other => Err(format!("{other:?} is no answer to a read")),
        };
        list.into_iter().map(was).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn f1_a_flush_deletes_what_was_there() {
        let there = || Value::Bytes(Some(b"1".to_vec()));
        let list = |last: &str| vec![there(), Value::Bytes(None), Value::Text(last.to_owned())];
        let done = [true, false].map(Reply::Done);
        assert_eq!(Wipes::replies(list("OK")), Ok(done.into()));
        assert!(Wipes::replies(list("no")).is_err());
        assert!(Wipes::replies(vec![there()]).is_err());
        assert!(Wipes::replies(Vec::new()).is_err());
    }
}
