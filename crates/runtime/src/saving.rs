//! A snapshot that is written while the replica keeps serving.
//!
//! ```text
//! loop    freeze | piece | ... others' work ... | piece | ...            | end
//! thread         create   write, now and then sync                        sync, rename, sync
//! ```
//! - I1 a snapshot holds the state of the slot at which it was begun. By construction: the
//!   application's promise ([`engine::Application::begin_save`]).
//! - I2 at most [`PIECES_MAX`] pieces wait for the thread; then none is made.
//! - I3 a snapshot that was given up leaves no file: the thread removes its file when the pieces
//!   end early. Until then, no other snapshot is begun.

use base::{Prefix, Slot};
use std::io;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::mpsc::{Receiver, Sender, TryRecvError, channel};
use storage::media::Os;
use storage::snapshot::{self, PassedOver, SnapshotError, SnapshotWriter};

/// The number of snapshots that are kept, so that a damaged one is not the only one.
const SNAPSHOTS_KEPT: usize = 2;
/// The bound of I2. A piece has some 64 KiB.
const PIECES_MAX: usize = 16;

enum Piece {
    Bytes(Vec<u8>),
    End,
}

/// The loop's end of the thread that writes a snapshot.
#[derive(Debug)]
pub(crate) struct Writing {
    /// `None` when the pieces have ended, or the snapshot was given up.
    pieces: Option<Sender<Piece>>,
    n_waiting: Arc<AtomicUsize>,
    n_bytes: u64,
    outcome: Receiver<Result<Option<Slot>, String>>,
}

/// The end of a snapshot.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It is durable and covers everything below this prefix.
    Written(Prefix),
    /// It was given up, and its file is removed.
    GivenUp,
    /// It failed, for this reason.
    Failed(String),
}

impl Writing {
    /// Begins the snapshot of everything below `prefix`, with a note. `ring` is called when there
    /// is room again, and at the end. Those that were passed over take no place of older ones.
    pub(crate) fn begin(
        media: Os,
        passed_over: PassedOver,
        log: u64,
        prefix: Prefix,
        note: Vec<u8>,
        ring: impl Fn() + Send + 'static,
    ) -> io::Result<Writing> {
        let (pieces, inbox) = channel();
        let (to, outcome) = channel();
        let n_waiting = Arc::new(AtomicUsize::new(0));
        let count = Arc::clone(&n_waiting);
        let write = move || {
            let taken = || {
                // Relaxed: the piece itself came through the channel.
                count.fetch_sub(1, Ordering::Relaxed);
                ring();
            };
            let of = (log, Slot(prefix.0), &note[..]);
            let written = write(&media, of, &passed_over, &inbox, &taken);
            // Without a receiver the replica has ended.
            let _ = to.send(written.map_err(|error| error.to_string()));
            ring();
        };
        std::thread::Builder::new().name("snapshot".into()).spawn(write)?;
        Ok(Writing { pieces: Some(pieces), n_waiting, n_bytes: 0, outcome })
    }

    /// Whether a piece is wanted now.
    pub(crate) fn has_room(&self) -> bool {
        self.pieces.is_some() && self.n_waiting.load(Ordering::Relaxed) < PIECES_MAX
    }

    /// Hands over the next bytes of the state.
    pub(crate) fn piece(&mut self, bytes: Vec<u8>) {
        self.n_bytes += bytes.len() as u64;
        self.send(Piece::Bytes(bytes));
    }

    /// Ends the pieces; returns the number of bytes.
    pub(crate) fn end(&mut self) -> u64 {
        self.send(Piece::End);
        self.pieces = None;
        self.n_bytes
    }

    /// Gives the snapshot up (I3).
    pub(crate) fn give_up(&mut self) {
        self.pieces = None;
    }

    fn send(&mut self, piece: Piece) {
        self.n_waiting.fetch_add(1, Ordering::Relaxed);
        if let Some(pieces) = &self.pieces
            && pieces.send(piece).is_err()
        {
            // The thread has failed; its outcome says why.
            self.pieces = None;
        }
    }

    /// The end of the snapshot, when it is known.
    pub(crate) fn outcome(&mut self) -> Option<End> {
        match self.outcome.try_recv() {
            Ok(Ok(Some(slot))) => Some(End::Written(Prefix(slot.0))),
            Ok(Ok(None)) => Some(End::GivenUp),
            Ok(Err(why)) => Some(End::Failed(why)),
            Err(TryRecvError::Empty) => None,
            Err(TryRecvError::Disconnected) => Some(End::Failed("its thread ended".to_owned())),
        }
    }
}

/// `None` if it was given up.
fn write(
    media: &Os,
    (log, slot, note): (u64, Slot, &[u8]),
    passed_over: &PassedOver,
    pieces: &Receiver<Piece>,
    taken: &impl Fn(),
) -> Result<Option<Slot>, SnapshotError> {
    let mut writer = SnapshotWriter::create(media, log, slot, note)?;
    while let Ok(piece) = pieces.recv() {
        match piece {
            Piece::Bytes(bytes) => writer.write(&bytes)?,
            Piece::End => {
                let slot = writer.finish()?;
                // An old snapshot that cannot be removed now is removed with the next one.
                let _ = snapshot::delete_old(media, slot, SNAPSHOTS_KEPT, passed_over);
                return Ok(Some(slot));
            }
        }
        taken();
    }
    Ok(None) // I3: the writer removes its file when it is dropped
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::sync::mpsc::RecvTimeoutError;
    use std::time::Duration;

    struct Fixture {
        _base: tempfile::TempDir,
        media: Os,
        rings: Receiver<()>,
        writing: Writing,
    }

    fn begin() -> Fixture {
        let base = tempfile::tempdir().unwrap();
        let media = Os::new(base.path()).unwrap();
        let (bell, rings) = channel();
        let ring = move || bell.send(()).unwrap_or_default();
        let (passed_over, note) = (PassedOver::default(), b"note".to_vec());
        let writing = Writing::begin(media.clone(), passed_over, 7, Prefix(9), note, ring);
        Fixture { _base: base, media, rings, writing: writing.unwrap() }
    }

    fn outcome(fixture: &mut Fixture) -> End {
        loop {
            if let Some(end) = fixture.writing.outcome() {
                return end;
            }
            let rung = fixture.rings.recv_timeout(Duration::from_secs(20));
            assert_ne!(rung, Err(RecvTimeoutError::Timeout), "no outcome");
        }
    }

    #[test]
    fn pieces_become_a_snapshot() {
        let mut fixture = begin();
        for n in 0..100u8 {
            while !fixture.writing.has_room() {
                fixture.rings.recv_timeout(Duration::from_secs(20)).expect("I2: room comes");
            }
            fixture.writing.piece(vec![n; 5000]);
        }
        assert_eq!(fixture.writing.end(), 500_000);
        assert_eq!(outcome(&mut fixture), End::Written(Prefix(9)));
        let found = snapshot::Snapshot::open(&fixture.media, Slot(9)).unwrap();
        found.verify().unwrap();
        assert_eq!((found.n_bytes(), found.note()), (500_000, &b"note"[..]));
    }

    #[test]
    fn i3_one_that_was_given_up_leaves_nothing() {
        let mut fixture = begin();
        fixture.writing.piece(vec![1; 200_000]);
        fixture.writing.give_up();
        assert!(!fixture.writing.has_room());
        assert_eq!(outcome(&mut fixture), End::GivenUp);
        assert_eq!(std::fs::read_dir(fixture._base.path()).unwrap().count(), 0);
    }
}
