//! Regions as files: ownership, refusals, and what is left behind.

use base::{Incarnation, NodeId};
use region::{Error, Identity, Owner, Region, Shape, layout, sweep};
use std::os::unix::fs::{FileExt, PermissionsExt};
use std::path::Path;
use std::time::{Duration, Instant};
use tempfile::TempDir;

const ONE: Incarnation = Incarnation(1);

fn identity(node: u16) -> Identity {
    let shape = Shape { n_seats: 3, n_words: 64, ring_words: 16 };
    Identity { cluster: 0xc, node: NodeId(node), incarnation: None, layout: 0x1, rules: 0, shape }
}

fn directory() -> TempDir {
    tempfile::tempdir_in("/dev/shm").unwrap()
}

fn names(directory: &Path) -> Vec<String> {
    let listing = std::fs::read_dir(directory).unwrap();
    listing.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect()
}

/// Attaches to a region that this process has released. A child that another test is just starting
/// holds every open file, and so the lock, until it runs its own program.
fn attach(directory: &Path, identity: &Identity) -> Result<Owner, Error> {
    let until = Instant::now() + Duration::from_secs(10);
    loop {
        match Region::attach(directory, identity) {
            Err(Error::Locked { .. }) if Instant::now() < until => std::thread::yield_now(),
            answer => return answer,
        }
    }
}

#[test]
fn what_one_life_writes_the_next_one_and_the_peers_read() {
    let dir = directory();
    let own = Region::create(dir.path(), &identity(1), ONE).unwrap();
    own.words().store(63, 17);
    own.ring(2).store(layout::ring::FRAMES + 15, 18);
    let peer = Region::open_peer(dir.path(), &identity(1)).unwrap();
    assert_eq!(peer.words().load(63), 17);
    assert_eq!(peer.ring(2).load(layout::ring::FRAMES + 15), 18);
    assert_eq!((peer.words().load(0), peer.ring(0).load(0)), (0, 0));
    assert_eq!((peer.life(), peer.incarnation()), (own.life(), ONE));
    let life = own.life();
    assert_eq!(peer.owner_pid(), u64::from(std::process::id()));
    drop(own);
    let again = attach(dir.path(), &identity(1)).unwrap();
    assert!(again.life() > life, "I5");
    assert_eq!(again.words().load(63), 17);
    assert_eq!(peer.words().cas(63, 17, 19), 17);
    assert_eq!(again.words().load(63), 19);
}

#[test]
fn i4_a_region_has_one_owner() {
    let dir = directory();
    let own = Region::create(dir.path(), &identity(1), ONE).unwrap();
    let pid = u64::from(std::process::id());
    for refused in [
        Region::attach(dir.path(), &identity(1)).unwrap_err(),
        Region::create(dir.path(), &identity(1), ONE).unwrap_err(),
    ] {
        assert!(matches!(refused, Error::Locked { pid: owner, .. } if owner == pid), "{refused}");
        assert!(refused.to_string().contains(&format!("owned by process {pid}")));
    }
    // A mapped view, a peer's or the node's own, does not keep the lock.
    let view = own.region().clone();
    drop(own);
    assert!(attach(dir.path(), &identity(1)).is_ok());
    drop(view);
}

#[test]
fn a_region_is_never_made_over_another_nor_attached_where_none_is() {
    let dir = directory();
    let missing = Region::attach(dir.path(), &identity(1)).unwrap_err();
    assert!(matches!(missing, Error::Missing { .. }), "{missing}");
    assert!(matches!(
        Region::open_peer(dir.path(), &identity(1)).unwrap_err(),
        Error::Missing { .. }
    ));
    drop(Region::create(dir.path(), &identity(1), ONE).unwrap());
    let exists = Region::create(dir.path(), &identity(1), ONE).unwrap_err();
    assert!(matches!(exists, Error::Exists { .. }), "{exists}");
}

#[test]
fn i6_a_stranger_is_refused_before_a_word_is_touched() {
    let dir = directory();
    drop(Region::create(dir.path(), &identity(1), ONE).unwrap());
    let path = dir.path().join("node-1.region");
    let before = std::fs::read(&path).unwrap();
    let wrong = [
        Identity { cluster: 0xd, ..identity(1) },
        Identity { layout: 0x2, ..identity(1) },
        Identity { rules: 0x2, ..identity(1) },
        Identity { shape: Shape { n_seats: 3, n_words: 65, ring_words: 16 }, ..identity(1) },
        Identity { shape: Shape { n_seats: 3, n_words: 64, ring_words: 0 }, ..identity(1) },
        Identity { incarnation: Some(Incarnation(2)), ..identity(1) },
    ];
    for identity in &wrong {
        assert!(Region::attach(dir.path(), identity).is_err());
        assert!(Region::open_peer(dir.path(), identity).is_err());
    }
    std::fs::rename(&path, dir.path().join("node-2.region")).unwrap();
    let renamed = Region::open_peer(dir.path(), &identity(2)).unwrap_err();
    assert!(matches!(renamed, Error::Node { .. }), "{renamed}");
    assert_eq!(std::fs::read(dir.path().join("node-2.region")).unwrap(), before);
}

#[test]
fn files_that_are_no_regions_are_refused() {
    let dir = directory();
    let path = dir.path().join("node-1.region");
    let total = identity(1).shape.total_bytes();
    for contents in [vec![], vec![0; 100], vec![0; 4096], vec![0xff; total]] {
        std::fs::write(&path, &contents).unwrap();
        let refused = Region::open_peer(dir.path(), &identity(1)).unwrap_err();
        assert!(matches!(refused, Error::NotARegion { .. }), "{}: {refused}", contents.len());
    }
    std::fs::remove_file(&path).unwrap();
    drop(Region::create(dir.path(), &identity(1), ONE).unwrap());
    let file = std::fs::OpenOptions::new().write(true).open(&path).unwrap();
    file.set_len(total as u64 - 8).unwrap();
    let cut = attach(dir.path(), &identity(1)).unwrap_err();
    assert!(matches!(cut, Error::NotARegion { .. }), "{cut}");
    file.set_len(total as u64).unwrap();
    file.write_all_at(&7_u64.to_ne_bytes(), 6 * 8).unwrap();
    let stale = attach(dir.path(), &identity(1)).unwrap_err();
    assert!(matches!(stale, Error::StaleBoot { .. }), "{stale}");
}

#[test]
fn only_its_user_may_open_a_region() {
    let dir = directory();
    let inner = dir.path().join("cluster");
    let _own = Region::create(&inner, &identity(1), ONE).unwrap();
    let mode = |path: &Path| std::fs::metadata(path).unwrap().permissions().mode() & 0o777;
    assert_eq!((mode(&inner), mode(&inner.join("node-1.region"))), (0o700, 0o600));
}

#[test]
fn a_removed_region_leaves_nothing_and_says_so_to_its_peers() {
    let dir = directory();
    let inner = dir.path().join("cluster");
    let own = Region::create(&inner, &identity(1), ONE).unwrap();
    let peer = Region::open_peer(&inner, &identity(1)).unwrap();
    assert!(!peer.is_retired());
    own.remove().unwrap();
    assert!(peer.is_retired());
    assert!(names(dir.path()).is_empty());
    peer.words().store(0, 1); // still mapped: no fault
}

#[test]
fn a_sweep_takes_what_nobody_owns() {
    let dir = directory();
    let own = Region::create(dir.path(), &identity(1), ONE).unwrap();
    drop(Region::create(dir.path(), &identity(2), ONE).unwrap());
    std::fs::write(dir.path().join("notes.txt"), "mine").unwrap();
    assert_eq!(sweep(dir.path()).unwrap(), [dir.path().join("node-2.region")]);
    let mut left = names(dir.path());
    left.sort();
    assert_eq!(left, ["node-1.region", "notes.txt"]);
    drop(own);
    assert_eq!(sweep(&dir.path().join("absent")).unwrap(), Vec::<std::path::PathBuf>::new());
}

/// A tmpfs of its own that is too small, which is unmounted in any case.
struct SmallTmpfs(TempDir);

impl SmallTmpfs {
    fn mount(bytes: u64) -> Option<SmallTmpfs> {
        let dir = tempfile::tempdir().unwrap();
        let mut mount = std::process::Command::new("mount");
        mount.args(["-t", "tmpfs", "-o", &format!("size={bytes}"), "gregale-test"]).arg(dir.path());
        mount.stderr(std::process::Stdio::null());
        mount.status().is_ok_and(|status| status.success()).then(|| SmallTmpfs(dir))
    }
}

impl Drop for SmallTmpfs {
    fn drop(&mut self) {
        let _ = std::process::Command::new("umount").arg(self.0.path()).status();
    }
}

#[test]
fn i3_a_full_tmpfs_is_an_error_that_leaves_nothing_behind() {
    let Some(small) = SmallTmpfs::mount(64 << 10) else {
        println!("skipped: mounting a tmpfs needs root");
        return;
    };
    let dir = small.0.path().join("cluster");
    let shape = Shape { n_seats: 3, n_words: 16 << 10, ring_words: 0 };
    let too_large = Identity { shape, ..identity(1) };
    let full = Region::create(&dir, &too_large, ONE).unwrap_err();
    assert!(matches!(full, Error::Full { .. }), "{full}");
    assert!(full.to_string().contains("no room for a region of 139264 bytes"), "{full}");
    assert!(names(small.0.path()).is_empty(), "I3");
    let fits = Region::create(&dir, &identity(1), ONE).unwrap();
    fits.words().store(0, 1);
    fits.remove().unwrap();
}

#[test]
fn a_region_without_an_owner_is_discarded_and_a_successor_makes_its_own() {
    let dir = directory();
    let own = Region::create(dir.path(), &identity(1), ONE).unwrap();
    let refused = Region::discard(dir.path(), NodeId(1));
    assert!(matches!(refused, Err(Error::Locked { .. })), "{refused:?}");
    assert_eq!(Region::incarnation_in(dir.path(), &identity(1)), Some(ONE));
    let peer = Region::open_peer(dir.path(), &identity(1)).unwrap();
    drop(own);
    let until = Instant::now() + Duration::from_secs(10);
    while let Err(error) = Region::discard(dir.path(), NodeId(1)) {
        // (See `attach`.)
        assert!(matches!(error, Error::Locked { .. }) && Instant::now() < until, "{error}");
        std::thread::yield_now();
    }
    assert!(!Region::is_there(dir.path(), NodeId(1)));
    assert!(!peer.is_named(dir.path(), &identity(1)), "whoever maps it sees that it is over");
    assert_eq!(Region::incarnation_in(dir.path(), &identity(1)), None);
    Region::discard(dir.path(), NodeId(1)).expect("nothing is there any more");
    let next = Region::create(dir.path(), &identity(1), Incarnation(7)).unwrap();
    assert_eq!(next.incarnation(), Incarnation(7));
}
