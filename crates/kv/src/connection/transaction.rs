//! MULTI, EXEC, DISCARD, WATCH, UNWATCH.
//!
//! Commands are queued here in encoded form. EXEC sends all of them as one command of the log, with
//! the watched keys and the versions that WATCH saw as guards. So the log decides whether a watched
//! key has changed, at every replica alike.

use crate::entry::command::Queued;
use crate::entry::{CALL_HEAD_BYTES_MAX, COMMAND_BYTES_MAX, Command};
use crate::store::Db;

/// The most bytes of one transaction's commands. Room for one value of any length.
pub const QUEUED_BYTES_MAX: usize = COMMAND_BYTES_MAX - WATCHED_BYTES_MAX - 64;

/// The most bytes of the watched keys of one connection, counting a few bytes for each version.
pub const WATCHED_BYTES_MAX: usize = 64 << 10;

// Beside commands and guards there are the kind, two counts, and the head of a session's call.
const _: () = assert!(CALL_HEAD_BYTES_MAX + 1 + 10 + 10 <= 64);

/// The most bytes that a guard takes beside its key.
const GUARD_BYTES: usize = 14;

const _: () = assert!(
    QUEUED_BYTES_MAX > crate::store::VALUE_BYTES_MAX + crate::store::KEY_BYTES_MAX + 1024,
    "a transaction has room for any SET"
);

/// An open MULTI.
#[derive(Debug, Default)]
pub(super) struct Transaction {
    pub(super) queued: Queued,
    /// Whether a command was refused, so that EXEC must discard the rest.
    pub(super) is_dirty: bool,
    /// Whether a queued command is a write.
    pub(super) writes: bool,
    /// The last database that a queued SELECT names.
    pub(super) selects: Option<Db>,
}

/// The watched keys.
#[derive(Debug, Default)]
pub(super) struct Watched {
    pub(super) guards: Vec<(Db, Vec<u8>, u64)>,
    /// The bytes of the guards, and of the keys whose versions are being read.
    bytes: usize,
    /// Whether a WATCH has failed: the next EXEC aborts (C5).
    pub(super) is_broken: bool,
    /// A count that rises when the keys are forgotten, so that a read under way adds none.
    pub(super) generation: u64,
}

impl Watched {
    /// Reserves room for keys to watch; without room, the guard is broken (C5).
    pub(super) fn admit(&mut self, keys: &[&[u8]]) -> bool {
        let bytes: usize = keys.iter().map(|key| key.len() + GUARD_BYTES).sum();
        let fits = self.bytes + bytes <= WATCHED_BYTES_MAX;
        if fits {
            self.bytes += bytes;
        } else {
            self.is_broken = true;
        }
        fits
    }

    /// Handles `reply` to the read of `command`, which a WATCH of `generation` asked for. Returns
    /// whether the read succeeded.
    pub(super) fn saw(&mut self, generation: u64, command: &[u8], reply: &[u8]) -> bool {
        if generation != self.generation {
            return true; // forgotten meanwhile
        }
        match (Command::decode(command), versions(reply)) {
            (Ok(Command::Versions { db, keys }), Some(versions))
                if keys.len() == versions.len() =>
            {
                let guards = keys.iter().zip(versions);
                let guards = guards.map(|(key, version)| (db, key.to_vec(), version));
                self.guards.extend(guards);
                true
            }
            _ => {
                self.is_broken = true;
                false
            }
        }
    }

    /// Forgets the watched keys.
    pub(super) fn clear(&mut self) {
        let generation = self.generation + 1;
        *self = Watched { generation, ..Watched::default() };
    }
}

/// The array of integers with which a machine answers a read of versions.
fn versions(reply: &[u8]) -> Option<Vec<u64>> {
    let text = std::str::from_utf8(reply).ok()?;
    let mut lines = text.strip_suffix("\r\n")?.split("\r\n");
    let len: usize = lines.next()?.strip_prefix('*')?.parse().ok()?;
    let versions: Option<Vec<u64>> = lines
        .map(|line| line.strip_prefix(':')?.parse::<i64>().ok().map(|version| version as u64))
        .collect();
    versions.filter(|versions| versions.len() == len)
}
