//! Through the kernel: real system calls, real caches that must not be there.

use powercut::{Manner, PowerCut};
use std::fs::{self, File};
use std::io::Write;

fn mount(at: &std::path::Path) -> Option<PowerCut> {
    PowerCut::mount(at).inspect_err(|why| println!("skipped: {why}")).ok()
}

#[test]
fn what_was_synced_is_there_and_the_rest_is_not() {
    let base = tempfile::tempdir().unwrap();
    let Some(disk) = mount(base.path()) else { return };
    let at = |name: &str| disk.path().join(name);
    fs::create_dir(at("d")).unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    let mut kept = File::create(at("d/kept")).unwrap();
    kept.write_all(&[1; 10_000]).unwrap();
    kept.sync_data().unwrap();
    File::create(at("d/unsynced")).unwrap().write_all(b"x").unwrap();
    File::open(at("d")).unwrap().sync_all().unwrap();
    kept.write_all(&[2; 10_000]).unwrap();
    fs::write(at("d/unnamed"), b"y").unwrap();
    fs::rename(at("d/unsynced"), at("d/renamed")).unwrap();
    assert_eq!(fs::read(at("d/kept")).unwrap().len(), 20_000);
    drop(kept);
    let lost = disk.cut(Manner::DropAll).unwrap();
    assert!(lost.sectors > 0 && lost.names == 2, "{lost:?}");
    assert_eq!(fs::read(at("d/kept")).unwrap(), [1; 10_000]);
    assert_eq!(fs::read(at("d/unsynced")).unwrap(), b"");
    let mut names: Vec<_> =
        fs::read_dir(at("d")).unwrap().map(|e| e.unwrap().file_name()).collect();
    names.sort();
    assert_eq!(names, ["kept", "unsynced"]);
    assert_eq!(disk.n_syncs(), [1, 2]);
}

#[test]
fn the_power_is_not_cut_under_an_open_file() {
    let base = tempfile::tempdir().unwrap();
    let Some(disk) = mount(base.path()) else { return };
    let mut open = File::create(disk.path().join("a")).unwrap();
    std::thread::scope(|scope| {
        let cutting = scope.spawn(|| disk.cut(Manner::DropAll));
        open.write_all(b"x").unwrap();
        drop(open);
        let lost = cutting.join().unwrap().expect("it was closed");
        // The sector and the length that were written while the cut was waited for.
        assert_eq!((lost.sectors, lost.names), (2, 1));
    });
}

#[test]
fn a_sync_under_way_when_the_power_fails_makes_nothing_durable() {
    let base = tempfile::tempdir().unwrap();
    let Some(disk) = mount(base.path()) else { return };
    let mut open = File::create(disk.path().join("a")).unwrap();
    File::open(disk.path()).unwrap().sync_all().unwrap();
    open.write_all(b"x").unwrap();
    disk.fail();
    std::thread::scope(|scope| {
        let syncing = scope.spawn(|| open.sync_all());
        disk.let_go();
        assert!(syncing.join().unwrap().is_err());
    });
    drop(open);
    disk.cut(Manner::DropAll).unwrap();
    assert_eq!(fs::read(disk.path().join("a")).unwrap(), b"");
    fs::write(disk.path().join("a"), b"y").unwrap();
}
