//! Groups of shm members in a directory of their own under /dev/shm.

use base::{FABRIC_SEATS_MAX, Incarnation, Rank};
use fabric::conformance::child::Child;
use fabric::conformance::{Group, N_WORDS};
use fabric::setup::Setup;
use fabric::shm::ShmFabric;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU64, Ordering::SeqCst};
use tempfile::TempDir;

/// A group; everything that it made is removed when it is dropped.
pub(crate) struct ShmGroup {
    directory: TempDir,
    members: usize,
    /// The number of memories that each member has had, by rank.
    incarnations: [AtomicU64; FABRIC_SEATS_MAX],
}

pub(crate) fn setup(directory: &Path, me: Rank, members: usize, incarnation: u64) -> Setup {
    Setup {
        cluster: "conformance".into(),
        secret: b"secret".to_vec(),
        me,
        members,
        incarnation: Incarnation(incarnation),
        directory: directory.to_owned(),
        layout: 1,
        rules: 0,
        n_words: N_WORDS,
    }
}

fn open(setup: &Setup) -> ShmFabric {
    let region = setup.directory.join(format!("node-{}.region", setup.me.member()));
    let opened = if region.exists() { ShmFabric::attach(setup) } else { ShmFabric::create(setup) };
    opened.unwrap_or_else(|error| panic!("{error}"))
}

impl ShmGroup {
    pub(crate) fn new(members: usize) -> ShmGroup {
        let directory = tempfile::tempdir_in("/dev/shm").expect("a directory on tmpfs");
        ShmGroup { directory, members, incarnations: std::array::from_fn(|_| AtomicU64::new(1)) }
    }

    #[allow(dead_code, reason = "not every test file opens members by hand")]
    pub(crate) fn setup(&self, me: Rank) -> Setup {
        setup(self.directory.path(), me, self.members, self.incarnations[me.index()].load(SeqCst))
    }

    /// Opens the place that [`Group::spawn`] described.
    pub(crate) fn open_place(place: &str) -> ShmFabric {
        let mut words = place.splitn(4, ' ');
        let mut number = || words.next().and_then(|word| word.parse::<usize>().ok()).unwrap();
        let (me, members, incarnation) = (number(), number(), number() as u64);
        let directory = PathBuf::from(words.next().unwrap());
        open(&setup(&directory, Rank::at(me), members, incarnation))
    }
}

impl Group for ShmGroup {
    type Fabric = ShmFabric;

    fn members(&self) -> usize {
        self.members
    }

    fn open(&self, me: Rank) -> ShmFabric {
        open(&self.setup(me))
    }

    fn withdraw(&self, me: Rank, fabric: ShmFabric) {
        self.incarnations[me.index()].fetch_add(1, SeqCst);
        fabric.remove().unwrap_or_else(|error| panic!("{error}"));
    }

    fn spawn(&self, me: Rank) -> Child {
        let Setup { members, incarnation, directory, .. } = self.setup(me);
        let directory = directory.display();
        let place = format!("{} {members} {} {directory}", me.index(), incarnation.0);
        Child::of_this_program("child_process", &place)
    }
}
