//! Snapshots: the whole state of a machine as bytes, for a replica that has missed too much of the
//! log.
//!
//! ```text
//! snapshot = "gregalkv" | version (4) | chunk+                    all numbers little endian
//! chunk    = payload length (4) | kind (1) | payload | check (8)
//! kinds, in this order:
//!   1 head       prefix (8) | memory limit (8) | state time (8) | count of changes (8)
//!   2 deletions  version (varint) * DELETION_BUCKETS
//!   3 entries*   of database 0:
//!                (key, value: length (varint) | bytes; expiry + 1 or 0; version: varints)*
//!   8 database*  number (1, from 1) | entries of this database
//!   4 session*   rank (1) | incarnation (8) | (sequence (varint) | 0, or length + 1 | reply)*
//!   7 clients*   last id (8) | (id | touched | acknowledged | count: varints
//!              | (0, or length + 1: varint | reply) * count)*
//!   9 scripts*   next place (8) | (place + 1 or 0, text: length (varint) | bytes)*
//!   5 assembly?  rank (1) | incarnation (8) | sequence (8) | total (4) | bytes
//!   6 end        count of entries (8)
//! ```
//! Clients came with version 2, databases with version 3, scripts with version 4. A snapshot has
//! the oldest version that can express its content, so that older builds can read it.
//!
//! A chunk's check is a hash of its other bytes, seeded with the check of the chunk before it. So a
//! chunk that is changed, missing, repeated or out of place is detected at once, and the last check
//! is a digest of the whole snapshot.
//!
//! - P1 machines with equal state give equal snapshots, whatever their history. Entries are walked
//!   in the store's canonical order. Property test `p1_p3_a_restored_machine_is_the_same`.
//! - P2 no chunk is longer than [`CHUNK_BYTES_MAX`]; both sides hold one chunk at a time. Asserted
//!   in [`Saver::chunk`], checked by [`Installer::feed`] before it waits for more.
//! - P3 installing gives a machine that is equal to the one that was saved, to its digest. By
//!   construction of the last chunk's check, which is the digest, and by test.
//! - P4 no snapshot is half installed: [`Installer::finish`] gives a whole machine or an error, and
//!   touches no other. By construction.
//! - P6 a snapshot that is written beside a machine which continues is the one that would have been
//!   written, byte for byte, had the machine stood still. By the store's frozen entries; test
//!   `p6_written_beside_is_written_at_once`.
//! - P7 reading a snapshot resumes where it stopped, after any number of entries: a replica that
//!   installs one does a bounded part of it in each turn. Test
//!   `p7_reading_in_small_steps_gives_the_same_and_no_step_reads_more`.
//! - P5 bytes that no saver wrote give an error, never a panic. Property tests
//!   `p5_a_flipped_bit_is_noticed` and `p5_any_end_is_too_early`.

mod beside;
mod difference;
mod install;
mod save;

pub use beside::Beside;
pub use difference::difference;
pub use install::{Installer, SnapshotError};
pub use save::{Changed, Saver};

use xxhash_rust::xxh3::xxh3_64_with_seed;

use crate::entry::COMMAND_BYTES_MAX;
use crate::machine::Machine;
use crate::store::{Db, KEY_BYTES_MAX, VALUE_BYTES_MAX};

const MAGIC: [u8; 8] = *b"gregalkv";

/// The newest version of the format, for a store with scripts.
pub const VERSION: u32 = 4;

/// The version for a store with a key in another database than 0.
const VERSION_OF_DATABASES: u32 = 3;

/// The version for all other stores.
const VERSION_OF_ONE_DATABASE: u32 = 2;

/// The version of a snapshot of `machine`.
fn version_of(machine: &Machine) -> u32 {
    let store = &machine.store;
    if store.scripts().next() > 0 || !store.scripts().is_empty() {
        VERSION
    } else if Db::all().skip(1).any(|db| store.len_of(db) > 0) {
        VERSION_OF_DATABASES
    } else {
        VERSION_OF_ONE_DATABASE
    }
}

/// The oldest version that can be read.
pub const VERSION_MIN: u32 = 1;

/// The longest chunk.
pub const CHUNK_BYTES_MAX: usize = 1 << 20;

/// The length at which a chunk of entries is closed.
const CHUNK_BYTES: usize = 64 << 10;

const _: () = assert!(CHUNK_BYTES + KEY_BYTES_MAX + VALUE_BYTES_MAX + 100 < CHUNK_BYTES_MAX);
const _: () = assert!(COMMAND_BYTES_MAX + 100 < CHUNK_BYTES_MAX);
const _: () = assert!(CHUNK_BYTES + crate::sessions::REPLY_BYTES_MAX + 100 < CHUNK_BYTES_MAX);
const _: () = {
    use crate::client_sessions::{KEPT_BYTES_MAX, REPLY_BYTES_MAX, UNACKNOWLEDGED_MAX};
    let one = KEPT_BYTES_MAX + REPLY_BYTES_MAX + 10 * UNACKNOWLEDGED_MAX;
    assert!(CHUNK_BYTES + one + 100 < CHUNK_BYTES_MAX);
};

const CHUNK_HEAD_BYTES: usize = 5;
const CHECK_BYTES: usize = 8;

/// The kinds of chunks, in their order.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Kind {
    Head = 1,
    Deletions = 2,
    Entries = 3,
    Session = 4,
    Assembly = 5,
    End = 6,
    Clients = 7,
    Database = 8,
    Scripts = 9,
}

impl Kind {
    const IN_ORDER: [Kind; 9] = {
        use Kind::*;
        [Head, Deletions, Entries, Database, Session, Clients, Scripts, Assembly, End]
    };

    fn from_byte(byte: u8) -> Option<Kind> {
        Kind::IN_ORDER.into_iter().find(|kind| *kind as u8 == byte)
    }

    /// Whether this kind may follow `last`.
    fn follows(self, last: Option<Kind>) -> bool {
        let place = |kind| Kind::IN_ORDER.iter().position(|one| *one == kind);
        match last {
            None => self == Kind::Head,
            Some(Kind::Head) => self == Kind::Deletions,
            Some(last) if last == self => {
                matches!(
                    self,
                    Kind::Entries | Kind::Database | Kind::Session | Kind::Clients | Kind::Scripts
                )
            }
            Some(last) => place(self) > place(last),
        }
    }
}

fn check_of(chunk: &[u8], before: u64) -> u64 {
    xxh3_64_with_seed(chunk, before)
}

/// Appends a snapshot of `machine` to `out`.
pub fn save(machine: &Machine, out: &mut Vec<u8>) {
    let mut saver = Saver::new(machine);
    while saver.chunk(machine, out).expect("the machine is borrowed, so it stands still") {}
}

/// The machine of which `bytes` are a snapshot. `memory_bytes_max` must be that of the cluster.
///
/// # Errors
/// The bytes are not one whole snapshot.
pub fn restore(bytes: &[u8], memory_bytes_max: u64) -> Result<Machine, SnapshotError> {
    let mut installer = Installer::new(memory_bytes_max);
    installer.feed(bytes)?;
    installer.finish()
}

impl Machine {
    /// A hash of the whole state: equal at replicas that applied the same values. It is the last
    /// check of the machine's snapshot, and reads the whole state, so it is for tests, the
    /// simulator and audits.
    pub fn digest(&self) -> u64 {
        let mut saver = Saver::new(self);
        let mut chunk = Vec::with_capacity(2 * CHUNK_BYTES);
        while saver.chunk(self, &mut chunk).expect("the machine is borrowed, so it stands still") {
            chunk.clear();
        }
        saver.check()
    }
}

#[cfg(test)]
mod tests;
