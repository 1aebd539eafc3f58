//! A member's directory without a replica: its content, and a new directory that continues from it.
//!
//! For `gregale recover`. The module blocks, unlike the rest of the crate: no client is served
//! meanwhile.
//!
//! - I1 the old directory is not written to. By construction: a [`Survivor`] has a log that is only
//!   read (`frozen`).
//! - I2 a state is folded as a replica executes: in slot order, each value once, values whose
//!   predecessor was lost skipped ([`engine::order`]), configurations not at all; and nothing that
//!   lost to the snapshot beside the log (R2 of [`proto::durable::offline`]).

use crate::disk::{Found, LogDisk, OpenError};
use crate::frozen::FrozenDisk;
use base::{Ballot, Incarnation, Instant, Prefix};
use engine::order::{Order, Place};
use engine::{StableStorage, put_head, split_state};
use proto::disk::{Disk, DiskEvent, Flush};
use proto::durable::Unusable;
use proto::durable::offline::{self, Holding};
use proto::members::StateHead;
use std::time::Duration;
use storage::Directory;

/// The time for the disk to write everything.
const WRITE_WITHIN: Duration = Duration::from_secs(600);
/// The bytes of a state that are handed over at a time.
const PIECE_BYTES: usize = 64 << 10;
/// The interval at which the disk is checked.
const LOOK_EVERY: Duration = Duration::from_millis(5);

/// A replicated state that is executed without clients.
pub trait State {
    /// Executes a decided value and discards the answers.
    fn apply(&mut self, slot: base::Slot, value: &[u8]);

    /// See [`engine::Application::begin_save`].
    fn save(&mut self, out: &mut Vec<u8>);

    /// See [`engine::Application::restore`].
    ///
    /// # Errors
    /// The bytes are invalid; the error says how.
    fn restore(&mut self, state: &[u8]) -> Result<(), String>;
}

/// The reason why a directory cannot be used.
#[derive(Debug, thiserror::Error)]
pub enum Useless {
    /// It cannot be opened.
    #[error(transparent)]
    Open(#[from] OpenError),
    /// This version does not read its log.
    #[error("{0}")]
    Log(Unusable),
    /// Its log begins behind what its snapshot covers.
    #[error(
        "{place}: slots {} to {} are in no snapshot and in no log: it cannot be recovered",
        from.0,
        to.0
    )]
    Hole {
        /// The directory.
        place: String,
        /// The prefix that the newest whole snapshot covers.
        from: Prefix,
        /// The prefix at which the log begins.
        to: Prefix,
    },
    /// The disk failed while it was read or written.
    #[error("{0}")]
    Disk(String),
    /// The snapshot holds no state of this version.
    #[error("{place}: the snapshot is of no use: {why}")]
    State {
        /// The directory.
        place: String,
        /// The reason.
        why: String,
    },
}

/// A directory that was opened to read its content.
#[derive(Debug)]
pub struct Survivor {
    disk: FrozenDisk,
    found: Option<Found>,
    holding: Holding,
}

impl Survivor {
    /// Reads the directory, and excludes other processes meanwhile.
    ///
    /// # Errors
    /// [`Useless`]: the directory cannot be used.
    pub fn open(directory: Directory) -> Result<Survivor, Useless> {
        let (disk, found) = FrozenDisk::open(directory)?;
        Survivor::of(disk, found)
    }

    fn of(mut disk: FrozenDisk, found: Option<Found>) -> Result<Survivor, Useless> {
        // (Without its head, a snapshot of an earlier version is not compared.)
        let state = found.as_ref().and_then(|found| Some((found.prefix, found.head?)));
        let holding = offline::inspect(&mut disk, state).map_err(Useless::Log)?;
        // An entry that was not read may be a configuration, which the content then lacks.
        if let Some(why) = disk.failure() {
            return Err(Useless::Disk(why.to_owned()));
        }
        let from = found.as_ref().map_or(Prefix::ZERO, |found| found.prefix);
        if from < holding.start {
            return Err(Useless::Hole { place: disk.place(), from, to: holding.start });
        }
        Ok(Survivor { disk, found, holding })
    }

    /// The content of its log.
    pub fn holding(&self) -> &Holding {
        &self.holding
    }

    /// The prefix that its newest snapshot covers.
    pub fn snapshot(&self) -> Option<Prefix> {
        self.found.as_ref().map(|found| found.prefix)
    }

    /// Its whole content as one state (I2), in the form of a snapshot, and the prefix that this
    /// covers.
    ///
    /// # Errors
    /// [`Useless`]: the disk or the snapshot failed.
    pub fn fold(&mut self, state: &mut impl State) -> Result<(Prefix, Vec<u8>), Useless> {
        let Survivor { disk, found, holding } = self;
        let (mut order, mut at) = (Order::START, Prefix::ZERO);
        if let Some(Found { prefix, state: bytes, .. }) = found {
            let restored = match split_state(bytes) {
                Some((place, body)) => state.restore(body).map(|()| place),
                None => Err("another version wrote it".to_owned()),
            };
            let place = restored.map_err(|why| Useless::State { place: disk.place(), why })?;
            (order, at) = (Order::resume(place), *prefix);
        }
        let mut value = Vec::new();
        while at < holding.end {
            let slot = at.next_slot();
            let Some(head) = disk.read(slot, &mut value) else {
                let why = disk.failure().unwrap_or("an entry that it listed is not there");
                return Err(Useless::Disk(why.to_owned()));
            };
            if !offline::is_configuration(&head)
                && let Some((place, body)) = Place::split(&value)
                && order.admits(place)
            {
                state.apply(slot, body);
            }
            at = slot.prefix_through();
        }
        let mut bytes = Vec::new();
        put_head(order.last(), &mut bytes);
        state.save(&mut bytes);
        Ok((at, bytes))
    }
}

/// Fills `directory`, which was just created, with a log that continues from `state`, which covers
/// everything below `prefix`. All of it is durable on return.
///
/// # Errors
/// [`Useless`]: the disk failed.
pub fn begin_from(
    directory: Directory,
    (prefix, state): (Prefix, Vec<u8>),
    head: StateHead,
    (incarnation, promised): (Incarnation, Ballot),
) -> Result<(), Useless> {
    let (mut disk, _) = LogDisk::open(directory)?;
    // The state comes first: a log that names a missing state could not be recovered.
    write_snapshot(&mut disk, prefix, &state, head)?;
    let flush = offline::begin_from(&mut disk, prefix, &head, (incarnation, promised))
        .map_err(Useless::Log)?;
    wait_for(&mut disk, flush)
}

fn write_snapshot(
    disk: &mut LogDisk,
    prefix: Prefix,
    state: &[u8],
    head: StateHead,
) -> Result<(), Useless> {
    if !disk.begin_snapshot(prefix, Some(head), Instant::ZERO) {
        let why = disk.no_snapshot().unwrap_or_default();
        return Err(Useless::Disk(format!("{}: {why}", disk.place())));
    }
    let mut left = state;
    while !left.is_empty() {
        let (piece, rest) = left.split_at(left.len().min(PIECE_BYTES));
        wait_until(disk, |disk| {
            // A thread that has failed takes no piece; its reason is among those waited for.
            disk.snapshotted(Instant::ZERO);
            Ok(disk.wants_piece().then_some(()))
        })?;
        disk.snapshot_piece(piece.to_vec(), rest.is_empty());
        left = rest;
    }
    let written = |disk: &mut LogDisk| disk.snapshotted(Instant::ZERO) == Some(prefix);
    wait_until(disk, |disk| Ok(written(disk).then_some(())))
}

fn wait_for(disk: &mut LogDisk, flush: Flush) -> Result<(), Useless> {
    let mut synced = None;
    wait_until(disk, |disk| {
        disk.pump(Instant::ZERO, |event| {
            if let DiskEvent::Synced(done) = event {
                synced = synced.max(Some(done));
            }
        });
        Ok((synced >= Some(flush)).then_some(()))
    })
}

fn wait_until(
    disk: &mut LogDisk,
    mut holds: impl FnMut(&mut LogDisk) -> Result<Option<()>, Useless>,
) -> Result<(), Useless> {
    let end = std::time::Instant::now() + WRITE_WITHIN;
    loop {
        if holds(disk)?.is_some() {
            return Ok(());
        }
        if let Some(why) = disk.failure().or(disk.trouble()).or(disk.no_snapshot()) {
            return Err(Useless::Disk(why.to_owned()));
        }
        if std::time::Instant::now() >= end {
            let place = disk.place();
            return Err(Useless::Disk(format!("{place}: the disk does not come to an end")));
        }
        std::thread::sleep(LOOK_EVERY);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::NodeId;
    use proto::disk::{Entry, EntryHead};
    use proto::members::Members;
    use std::collections::BTreeMap;
    use std::os::unix::fs::FileExt;
    use std::path::Path;
    use storage::Identity;

    fn content(path: &Path) -> BTreeMap<String, Vec<u8>> {
        let files = std::fs::read_dir(path).unwrap().map(|file| file.unwrap());
        let content = |file: &std::fs::DirEntry| std::fs::read(file.path()).unwrap();
        files.map(|file| (file.file_name().into_string().unwrap(), content(&file))).collect()
    }

    /// Before the operator had confirmed anything, the last disk was repaired.
    #[test]
    fn i1_a_disk_that_is_looked_at_stays_as_it_is() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("disk");
        let identity = Identity { cluster: 5, node: NodeId(2), incarnation: Incarnation(7) };
        let directory = Directory::create(&path, &identity).unwrap();
        let members = Members::default();
        let head = StateHead { ballot: Ballot(3), members_at: Prefix(9), members, coming: None };
        let begun = (Incarnation(7), Ballot(4));
        begin_from(directory, (Prefix(9), b"state".to_vec()), head, begun).unwrap();
        let segment = path.join("log-00000000");
        let n_bytes = std::fs::metadata(&segment).unwrap().len();
        let file = std::fs::File::options().write(true).open(&segment).unwrap();
        file.write_all_at(b"rest", n_bytes - 4).unwrap();
        std::fs::write(path.join("snapshot.part"), b"unfinished").unwrap();
        let before = content(&path);
        let survivor = Survivor::open(Directory::open_any(&path).unwrap()).unwrap();
        assert_eq!(survivor.snapshot(), Some(Prefix(9)));
        assert_eq!((survivor.holding().promised, survivor.holding().end), (Ballot(4), Prefix(9)));
        drop(survivor);
        assert!(content(&path) == before, "a file was changed, made or removed");
        drop(LogDisk::open(Directory::open_any(&path).unwrap()).unwrap());
        assert!(content(&path) != before, "an opening repairs");
    }

    /// The values that it has executed, in its one string.
    #[derive(Default)]
    struct Text(String);

    impl State for Text {
        fn apply(&mut self, _: base::Slot, value: &[u8]) {
            self.0 += core::str::from_utf8(value).unwrap();
        }
        fn save(&mut self, out: &mut Vec<u8>) {
            out.extend_from_slice(self.0.as_bytes());
        }
        fn restore(&mut self, state: &[u8]) -> Result<(), String> {
            self.0 = String::from_utf8(state.to_vec()).map_err(|error| error.to_string())?;
            Ok(())
        }
    }

    /// What is recovered of a log of values of the ballots 3, 3 and 20, and of a snapshot of
    /// `prefix` whose last slot was decided in `ballot`: the process died before its log began
    /// there.
    fn recovered_beside(prefix: u64, ballot: u64) -> ((Ballot, Prefix), (Prefix, String)) {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("disk");
        let identity = Identity { cluster: 5, node: NodeId(2), incarnation: Incarnation(7) };
        let (mut disk, _) = LogDisk::open(Directory::create(&path, &identity).unwrap()).unwrap();
        let members = Members::default();
        let head = |ballot| StateHead {
            ballot: Ballot(ballot),
            members_at: Prefix::ZERO,
            members,
            coming: None,
        };
        let begun = (Incarnation(7), Ballot(4));
        offline::begin_from(&mut disk, Prefix::ZERO, &head(0), begun).unwrap();
        for (slot, ballot, index, value) in [(0, 3, 0, "a"), (1, 3, 1, "b"), (2, 20, 0, "c")] {
            let place = Place { reign: Ballot(ballot), index };
            let payload = [&place.to_bytes()[..], value.as_bytes()].concat();
            let head = EntryHead { slot: base::Slot(slot), ballot: Ballot(ballot), view: 0 };
            disk.append(Entry { head, payload: &payload });
        }
        let mut state = Vec::new();
        put_head(Place { reign: Ballot(ballot), index: 1 }, &mut state);
        state.extend_from_slice(b"decided ");
        write_snapshot(&mut disk, Prefix(prefix), &state, head(ballot)).unwrap();
        let flush = disk.sync();
        wait_for(&mut disk, flush).unwrap();
        drop(disk);
        let mut survivor = Survivor::open(Directory::open_any(&path).unwrap()).unwrap();
        let mut text = Text::default();
        let (end, _) = survivor.fold(&mut text).unwrap();
        (survivor.holding().newness(), (end, text.0))
    }

    /// A new log in the directory `path`.
    fn begun(path: &Path) -> LogDisk {
        let identity = Identity { cluster: 5, node: NodeId(2), incarnation: Incarnation(7) };
        let (mut disk, _) = LogDisk::open(Directory::create(path, &identity).unwrap()).unwrap();
        let (head, begun) = (head_at(Prefix::ZERO), (Incarnation(7), Ballot(4)));
        offline::begin_from(&mut disk, Prefix::ZERO, &head, begun).unwrap();
        disk
    }

    fn head_at(prefix: Prefix) -> StateHead {
        let members = Members::default();
        StateHead { ballot: Ballot(3), members_at: prefix, members, coming: None }
    }

    /// The trap: such a configuration was left out, and the one before it decided whether a
    /// majority is left.
    #[test]
    fn a_disk_that_fails_while_it_is_inspected_is_of_no_use() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("disk");
        let mut disk = begun(&path);
        let head = EntryHead { slot: base::Slot(0), ballot: Ballot(3), view: 1 << 63 };
        assert!(offline::is_configuration(&head));
        // The members stand in a head behind the ballot and their place.
        disk.append(Entry { head, payload: &head_at(Prefix::ZERO).encode()[16..] });
        let flush = disk.sync();
        wait_for(&mut disk, flush).unwrap();
        drop(disk);
        let opened = || FrozenDisk::open(Directory::open_any(&path).unwrap()).unwrap();
        let (disk, found) = opened();
        let newest = Survivor::of(disk, found).unwrap().holding().configuration.unwrap();
        assert_eq!(newest.at, Prefix(1));
        let (disk, found) = opened();
        std::fs::remove_file(path.join("log-00000000")).unwrap();
        let failed = Survivor::of(disk, found).map(|of| *of.holding());
        assert!(
            matches!(&failed, Err(Useless::Disk(why)) if why.contains("log-00000000")),
            "{failed:?}"
        );
    }

    /// The trap: pieces that the thread has not taken leave no room, and a failure was looked for
    /// behind the last piece alone.
    #[test]
    fn a_snapshot_that_fails_before_its_last_piece_says_why() {
        let base = tempfile::tempdir().unwrap();
        let path = base.path().join("disk");
        let mut disk = begun(&path);
        // A directory has the name of the unfinished snapshot.
        let name = storage::snapshot::name(base::Slot(9));
        std::fs::create_dir(path.join(format!("{name}.part"))).unwrap();
        // More pieces than may wait for the thread.
        let state = vec![7; 4 << 20];
        let failed = write_snapshot(&mut disk, Prefix(9), &state, head_at(Prefix(9)));
        assert!(matches!(&failed, Err(Useless::Disk(why)) if why.contains(&name)), "{failed:?}");
    }

    #[test]
    fn i2_what_lost_to_the_snapshot_beside_the_log_does_not_come_back() {
        let decided = |text: &str| format!("decided {text}");
        assert_eq!(recovered_beside(2, 3), ((Ballot(20), Prefix(3)), (Prefix(3), decided("c"))));
        assert_eq!(recovered_beside(2, 8), ((Ballot(8), Prefix(2)), (Prefix(2), decided(""))));
        // The state covers more than the log, whose ballot counts no more.
        assert_eq!(recovered_beside(9, 8), ((Ballot(8), Prefix(9)), (Prefix(9), decided(""))));
    }
}
