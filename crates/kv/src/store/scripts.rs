//! The scripts that a replica knows by the hash of their text.
//!
//! The cache is replicated state: EVALSHA must find, or miss, the same scripts at every replica.

use std::collections::BTreeMap;
use std::sync::Arc;

use sha1::{Digest, Sha1};

/// The number of scripts from EVAL above which the oldest is dropped; the same as Redis 7.4.
pub const EVALUATED_MAX: usize = 500;

/// The most bytes of the texts from SCRIPT LOAD, and of those from EVAL.
pub const BYTES_MAX: usize = 4 << 20;

/// The SHA-1 of a script's text: its name.
pub(crate) type Sha = [u8; 20];

/// The name of a script.
pub(crate) fn sha_of(text: &[u8]) -> Sha {
    Sha1::digest(text).into()
}

/// The name in Redis's form.
pub(crate) fn hex(sha: &Sha) -> String {
    sha.iter().map(|byte| format!("{byte:02x}")).collect()
}

/// Parses a name in either case.
pub(crate) fn parse_sha(text: &[u8]) -> Option<Sha> {
    let text = std::str::from_utf8(text).ok().filter(|text| text.len() == 40)?;
    let mut sha = Sha::default();
    for (at, byte) in sha.iter_mut().enumerate() {
        let digits = text.get(2 * at..2 * at + 2)?;
        *byte = u8::from_str_radix(digits, 16).ok().filter(|_| !digits.starts_with('+'))?;
    }
    Some(sha)
}

#[derive(Clone, Debug)]
struct Known {
    text: Arc<[u8]>,
    /// Its place among the scripts from EVAL; `None` if it is from SCRIPT LOAD.
    order: Option<u64>,
}

/// One script, as a snapshot keeps it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct ScriptRef<'a> {
    /// Its place among the scripts from EVAL.
    pub(crate) order: Option<u64>,
    pub(crate) text: &'a [u8],
}

/// The known scripts; see the module's text.
#[derive(Clone, Debug, Default)]
pub(crate) struct Scripts {
    known: BTreeMap<Sha, Known>,
    /// The scripts from EVAL, in the order in which they came.
    evaluated: BTreeMap<u64, Sha>,
    /// The place of the next one.
    next: u64,
    evaluated_bytes: usize,
    loaded_bytes: usize,
}

impl Scripts {
    pub(crate) fn get(&self, sha: &Sha) -> Option<Arc<[u8]>> {
        self.known.get(sha).map(|known| Arc::clone(&known.text))
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.known.is_empty()
    }

    /// Adds a script from EVAL: it stays until many others have come.
    pub(crate) fn evaluate(&mut self, sha: Sha, text: Arc<[u8]>) {
        if text.len() > BYTES_MAX || self.known.contains_key(&sha) {
            return;
        }
        let order = self.next;
        self.add(sha, text, Some(order));
        while self.evaluated.len() > EVALUATED_MAX || self.evaluated_bytes > BYTES_MAX {
            let Some((_, oldest)) = self.evaluated.pop_first() else { return };
            if let Some(known) = self.known.remove(&oldest) {
                self.evaluated_bytes -= known.text.len();
            }
        }
    }

    /// Adds a script from SCRIPT LOAD: it stays until SCRIPT FLUSH. False if there is no room.
    pub(crate) fn load(&mut self, sha: Sha, text: &[u8]) -> bool {
        if self.known.get(&sha).is_some_and(|known| known.order.is_none()) {
            return true;
        }
        if self.loaded_bytes + text.len() > BYTES_MAX {
            return false;
        }
        if let Some(known) = self.known.remove(&sha)
            && let Some(order) = known.order
        {
            self.evaluated.remove(&order);
            self.evaluated_bytes -= known.text.len();
        }
        self.add(sha, text.into(), None);
        true
    }

    pub(crate) fn flush(&mut self) {
        *self = Scripts { next: self.next, ..Scripts::default() };
    }

    /// All scripts in the order of their names.
    pub(crate) fn all(&self) -> impl Iterator<Item = (&Sha, ScriptRef<'_>)> {
        self.known
            .iter()
            .map(|(sha, known)| (sha, ScriptRef { order: known.order, text: &known.text }))
    }

    /// The place of the next script from EVAL.
    pub(crate) fn next(&self) -> u64 {
        self.next
    }

    /// Adds a script of a snapshot, after [`Scripts::restore_next`]. False if the snapshot is
    /// invalid.
    pub(crate) fn restore(&mut self, script: ScriptRef<'_>) -> bool {
        let sha = sha_of(script.text);
        let is_free = !self.known.contains_key(&sha)
            && script
                .order
                .is_none_or(|order| order < self.next && !self.evaluated.contains_key(&order));
        if is_free {
            let next = self.next;
            self.add(sha, script.text.into(), script.order);
            self.next = next;
        }
        is_free
    }

    pub(crate) fn restore_next(&mut self, next: u64) {
        self.next = next;
    }

    fn add(&mut self, sha: Sha, text: Arc<[u8]>, order: Option<u64>) {
        match order {
            Some(order) => {
                self.evaluated.insert(order, sha);
                self.evaluated_bytes += text.len();
                self.next += 1;
            }
            None => self.loaded_bytes += text.len(),
        }
        self.known.insert(sha, Known { text, order });
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_eval_brought_gives_way_and_what_was_loaded_stays() {
        let mut scripts = Scripts::default();
        let text = |n: usize| format!("return {n}").into_bytes();
        assert!(scripts.load(sha_of(&text(0)), &text(0)));
        for n in 0..=EVALUATED_MAX + 1 {
            scripts.evaluate(sha_of(&text(n)), text(n).into());
        }
        assert!(scripts.get(&sha_of(&text(0))).is_some(), "it was loaded");
        assert!(scripts.get(&sha_of(&text(1))).is_none(), "the oldest gave way");
        assert!(scripts.get(&sha_of(&text(2))).is_some());
        let long = vec![b'-'; BYTES_MAX];
        assert!(!scripts.load(sha_of(&long), &long), "there is no room beside the first");
        scripts.flush();
        assert!(scripts.is_empty() && scripts.load(sha_of(&long), &long));
    }

    #[test]
    fn a_name_is_read_in_either_case() {
        let sha = sha_of(b"return 1");
        let text = hex(&sha);
        assert_eq!(text, "e0e1f9fabfc9d4800c877a703b823ac0578ff8db");
        assert_eq!(parse_sha(text.to_uppercase().as_bytes()), Some(sha));
        assert_eq!(parse_sha(b"nope"), None);
        assert_eq!(parse_sha("\u{e9}".repeat(20).as_bytes()), None);
    }
}
