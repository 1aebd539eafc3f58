//! The values of a simulated program, and the commands that read and write them.
//!
//! - Each value has the version of its last change, and so has a key that is gone: a watched key
//!   was changed if its version was.

use std::collections::BTreeMap;

/// A command.
pub(super) type Words = Vec<Vec<u8>>;

/// The values of the module's text.
#[derive(Debug, Default)]
pub(super) struct Values {
    /// The values, each with the version of its last change.
    keys: BTreeMap<Vec<u8>, (Vec<u8>, u64)>,
    /// The versions of the keys that are gone.
    gone: BTreeMap<Vec<u8>, u64>,
    version: u64,
}

/// The number that was written as such a word.
pub(super) fn number(word: Vec<u8>) -> u64 {
    u64::from_le_bytes(word.try_into().expect("a number"))
}

impl Values {
    pub(super) fn version_of(&self, key: &[u8]) -> u64 {
        let there = self.keys.get(key).map(|(_, version)| *version);
        there.or_else(|| self.gone.get(key).copied()).unwrap_or(0)
    }

    fn get(&self, key: &[u8]) -> Option<&Vec<u8>> {
        self.keys.get(key).map(|(value, _)| value)
    }

    fn set(&mut self, key: &[u8], value: Vec<u8>) {
        self.version += 1;
        self.keys.insert(key.to_vec(), (value, self.version));
    }

    /// The keys that have values.
    pub(super) fn keys(&self) -> impl Iterator<Item = &Vec<u8>> {
        self.keys.keys()
    }

    /// Hands what it holds to `put`, word by word.
    pub(super) fn save(&self, put: &mut impl FnMut(&[u8])) {
        put(&self.version.to_le_bytes());
        put(&(self.keys.len() as u64).to_le_bytes());
        for (key, (value, version)) in &self.keys {
            put(key);
            put(value);
            put(&version.to_le_bytes());
        }
        put(&(self.gone.len() as u64).to_le_bytes());
        for (key, version) in &self.gone {
            put(key);
            put(&version.to_le_bytes());
        }
    }

    /// Takes that back.
    pub(super) fn restore(&mut self, word: &mut impl FnMut() -> Vec<u8>) {
        self.version = number(word());
        for _ in 0..number(word()) {
            let (key, value, version) = (word(), word(), number(word()));
            self.keys.insert(key, (value, version));
        }
        for _ in 0..number(word()) {
            let (key, version) = (word(), number(word()));
            self.gone.insert(key, version);
        }
    }

    /// Executes a command, and appends its reply.
    pub(super) fn command(&mut self, words: &Words, reply: &mut Vec<u8>) {
        let bulk = |value: Option<&Vec<u8>>, reply: &mut Vec<u8>| match value {
            None => reply.extend(b"$-1\r\n"),
            Some(value) => {
                reply.extend(format!("${}\r\n", value.len()).bytes());
                reply.extend_from_slice(value);
                reply.extend(b"\r\n");
            }
        };
        let key = &words[1];
        match &words[0][..] {
            b"GET" => bulk(self.get(key), reply),
            b"SET" => {
                self.set(key, words[2].clone());
                reply.extend(b"+OK\r\n");
            }
            b"GETSET" => {
                bulk(self.get(key), reply);
                self.set(key, words[2].clone());
            }
            b"APPEND" => {
                let mut value = self.get(key).cloned().unwrap_or_default();
                value.extend_from_slice(&words[2]);
                reply.extend(format!(":{}\r\n", value.len()).bytes());
                self.set(key, value);
            }
            b"INCRBY" => {
                let number = |bytes: &[u8]| {
                    std::str::from_utf8(bytes).ok().and_then(|text| text.parse::<i64>().ok())
                };
                let sum = self.get(key).map_or(Some(0), |value| number(value)).unwrap_or(0)
                    + number(&words[2]).unwrap_or(0);
                reply.extend(format!(":{sum}\r\n").bytes());
                self.set(key, sum.to_string().into_bytes());
            }
            b"DEL" => {
                self.version += 1;
                let was_there = self.keys.remove(key).is_some();
                self.gone.insert(key.clone(), self.version);
                reply.extend(format!(":{}\r\n", u8::from(was_there)).bytes());
            }
            other => {
                reply.extend(format!("-ERR {}\r\n", String::from_utf8_lossy(other)).bytes());
            }
        }
    }
}
