//! Tests of a cluster's directory, by the ids of its invariants.

use super::*;
use base::{Ballot, Incarnation, NodeId, Slot};
use proto::disk::{Disk, DiskEvent, Entry, EntryHead};
use std::time::{Duration, Instant};
use storage::Identity;

const QUORUM: Durability = Durability::DiskQuorum;

#[test]
fn i1_another_cluster_is_refused_with_what_is_there() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    drop(Data::open(&path, "one", (3, 3), QUORUM).unwrap());
    let refused = Data::open(&path, "two", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("\"one\" of 3 members"), "{refused}");
    let refused = Data::open(&path, "one", (5, 5), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("say --cluster one --nodes 3, or"), "{refused}");
    assert!(Data::open(&path, "one", (3, 3), QUORUM).is_ok());
    let path = base.path().join("seats");
    drop(Data::open(&path, "one", (3, 5), QUORUM).unwrap());
    let refused = Data::open(&path, "one", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("say --cluster one --nodes 3 --seats 5, or"), "{refused}");
}

#[test]
fn i1_a_directory_of_something_else_is_left_alone() {
    let base = tempfile::tempdir().unwrap();
    std::fs::write(base.path().join("thesis.txt"), b"x").unwrap();
    let refused = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("thesis.txt"), "{refused}");
    assert_eq!(std::fs::read_dir(base.path()).unwrap().count(), 1);
}

#[test]
fn a_beginning_that_fails_is_taken_back() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let data = Data::open(&path, "one", (3, 3), QUORUM).unwrap();
    data.undo();
    assert!(!path.exists(), "nothing is left of it");
}

#[test]
fn i2_a_lost_directory_is_no_beginning_once_the_cluster_was_founded() {
    let base = tempfile::tempdir().unwrap();
    let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    assert_eq!(data.start_of(1).unwrap(), Start::Bootstrap);
    std::fs::create_dir(data.member(1)).unwrap();
    std::fs::write(data.member(1).join("identity"), b"").unwrap();
    assert_eq!(data.start_of(1).unwrap(), Start::Reattach);
    assert_eq!(data.start_of(2).unwrap(), Start::Bootstrap);
    assert!(!data.is_lost(2), "it never was");
    data.founded().unwrap();
    assert!(data.is_lost(2) && !data.is_lost(1));
    drop(data);
    let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    assert_eq!(data.start_of(2).unwrap(), Start::Reattach);
}

/// Makes a member's directory, with or without an entry in its log.
fn begin_member(data: &Data, member: u16, entry: Option<&[u8]>) {
    let identity = Identity { cluster: 5, node: NodeId(member), incarnation: Incarnation::FIRST };
    let directory = Directory::create(&data.member(member), &identity).unwrap();
    let Some(payload) = entry else { return };
    let (mut disk, _) = LogDisk::open(directory).unwrap();
    let head = EntryHead { slot: Slot::ZERO, ballot: Ballot(3), view: 0 };
    disk.append(Entry { head, payload });
    let flush = disk.sync();
    let (mut synced, end) = (None, Instant::now() + Duration::from_secs(30));
    while synced < Some(flush) {
        assert!(Instant::now() < end, "it is never synced");
        disk.pump(base::Instant::ZERO, |event| {
            if let DiskEvent::Synced(done) = event {
                synced = Some(done);
            }
        });
        std::thread::yield_now();
    }
}

/// Two members had acknowledged writes before the third came up, and one lost its disk.
#[test]
fn i2_a_lost_directory_is_no_beginning_once_any_log_holds_an_entry() {
    let base = tempfile::tempdir().unwrap();
    let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    begin_member(&data, 1, None);
    drop(data);
    let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    data.look_for_entries().unwrap();
    assert!(
        !data.is_founded() && data.start_of(2).unwrap() == Start::Bootstrap,
        "nothing was promised"
    );
    begin_member(&data, 2, Some(b"acknowledged"));
    drop(data);
    let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    data.look_for_entries().unwrap();
    assert!(data.is_lost(3) && data.start_of(3).unwrap() == Start::Reattach);
    assert!(!data.is_lost(1) && !data.is_lost(2));
}

#[test]
fn i3_a_promise_is_not_lowered_by_leaving_a_flag_out() {
    let base = tempfile::tempdir().unwrap();
    let path = base.path().join("data");
    let open = |durability| Data::open(&path, "one", (3, 3), durability).map(drop);
    open(QUORUM).unwrap();
    open(Durability::DiskAll).unwrap();
    let refused = open(QUORUM).unwrap_err().to_string();
    assert!(refused.contains("--durability disk-all"), "{refused}");
    open(Durability::DiskAll).unwrap();
}

/// Its disks were intact, and refused from then on: their secret was gone.
#[test]
fn i6_no_cluster_is_begun_over_the_disks_of_one_that_lost_its_file() {
    let base = tempfile::tempdir().unwrap();
    let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    begin_member(&data, 2, None);
    let secret = std::fs::read(data.secret_file()).unwrap();
    drop(data);
    std::fs::remove_file(base.path().join(CLUSTER)).unwrap();
    let refused = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("member-2") && refused.contains("from a copy"), "{refused}");
    assert_eq!(std::fs::read(base.path().join("secret")).unwrap(), secret);
    // The remains of a failed attempt are no obstacle.
    std::fs::remove_dir_all(base.path().join("member-2")).unwrap();
    Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
}

/// A disk that cannot be looked into, for any user: a link to itself.
fn make_unreadable(data: &Path, member: u16) {
    let name = format!("member-{member}");
    std::os::unix::fs::symlink(&name, data.join(&name)).unwrap();
}

/// It was taken for none, and its secret was overwritten.
#[test]
fn i6_no_cluster_is_begun_beside_a_disk_that_cannot_be_looked_into() {
    let base = tempfile::tempdir().unwrap();
    make_unreadable(base.path(), 2);
    std::fs::write(base.path().join("secret"), "old").unwrap();
    let refused = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.starts_with("cannot read ") && refused.contains("member-2"), "{refused}");
    assert_eq!(std::fs::read(base.path().join("secret")).unwrap(), b"old");
    assert!(!base.path().join(CLUSTER).exists());
}

/// The disks were not mounted, and their secret was overwritten.
#[test]
fn i6_no_cluster_is_begun_where_a_member_had_a_disk() {
    let base = tempfile::tempdir().unwrap();
    std::fs::create_dir(base.path().join("member-3")).unwrap();
    std::fs::write(base.path().join("secret"), "old").unwrap();
    std::fs::write(base.path().join("member-3.life"), "700 1 12 1\n").unwrap();
    let refused = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("member-3.life") && refused.contains("mount"), "{refused}");
    assert_eq!(std::fs::read(base.path().join("secret")).unwrap(), b"old");
    // A life that never had one is no obstacle, and a secret is put aside, in any case.
    std::fs::write(base.path().join("member-3.life"), "700 1 12 0\n").unwrap();
    drop(Data::open(base.path(), "one", (3, 3), QUORUM).unwrap());
    assert_eq!(std::fs::read(base.path().join("secret.old-1")).unwrap(), b"old");
    std::fs::remove_file(base.path().join(CLUSTER)).unwrap();
    drop(Data::open(base.path(), "one", (3, 3), QUORUM).unwrap());
    assert!(base.path().join("secret.old-2").exists());
    assert_eq!(std::fs::read(base.path().join("secret.old-1")).unwrap(), b"old");
}

/// It was removed as what the start had made, and no copy was left.
#[test]
fn i6_a_secret_that_cannot_be_put_aside_stays() {
    let base = tempfile::tempdir().unwrap();
    let (secret, aside) = (base.path().join("secret"), base.path().join("secret.old-1"));
    std::fs::write(&secret, "old").unwrap();
    std::fs::create_dir(&aside).unwrap();
    let refused = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap_err().to_string();
    assert!(refused.contains("secret.old-1"), "{refused}");
    assert_eq!(std::fs::read(&secret).unwrap(), b"old");
    std::fs::remove_dir(&aside).unwrap();
    drop(Data::open(base.path(), "one", (3, 3), QUORUM).unwrap());
    assert_eq!(std::fs::read(&aside).unwrap(), b"old");
}

#[test]
fn i2_a_disk_that_cannot_be_looked_into_is_not_called_lost() {
    let base = tempfile::tempdir().unwrap();
    let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    data.founded().unwrap();
    make_unreadable(data.path(), 2);
    assert!(data.is_lost(1) && !data.is_lost(2));
    let unread = data.has_identity(2).unwrap_err().to_string();
    assert!(unread.starts_with("cannot read ") && unread.contains("member-2"), "{unread}");
}

/// A second `up` on other ports marked the running cluster `disk-all` before it failed.
#[test]
fn i5_a_directory_in_use_is_refused_and_left_as_it_is() {
    let base = tempfile::tempdir().unwrap();
    let open = |durability| Data::open(base.path(), "one", (3, 3), durability);
    let running = open(QUORUM).unwrap();
    let file = base.path().join(CLUSTER);
    let before = std::fs::read_to_string(&file).unwrap();
    let refused = open(Durability::DiskAll).unwrap_err().to_string();
    assert!(refused.contains("in use by another process"), "{refused}");
    assert_eq!(std::fs::read_to_string(&file).unwrap(), before);
    drop(running);
    open(Durability::DiskAll).unwrap();
}

#[test]
fn i2_an_empty_seat_is_no_loss() {
    let base = tempfile::tempdir().unwrap();
    let mut data = Data::open(base.path(), "one", (3, 4), QUORUM).unwrap();
    assert_eq!((data.members(), data.founders()), (4, 3));
    data.founded().unwrap();
    assert!(data.is_vacant(4) && !data.is_lost(4));
    data.set_seat(4, Seat::Wanted).unwrap();
    assert!(data.is_wanted(4));
    data.set_seat(4, Seat::Taken).unwrap();
    data.set_seat(2, Seat::Vacant).unwrap();
    drop(data);
    let data = Data::open(base.path(), "one", (4, 4), QUORUM).unwrap();
    assert!(data.is_lost(4) && !data.is_lost(2) && data.is_vacant(2));
}

#[test]
fn empty_seats_that_cannot_be_are_refused() {
    let base = tempfile::tempdir().unwrap();
    let open = |vacant: &str| {
        let text = "version = 1\nname = \"one\"\nmembers = 3\nfounded = false\nvacant = ";
        std::fs::write(base.path().join(CLUSTER), format!("{text}{vacant}\n")).unwrap();
        Data::open(base.path(), "one", (3, 3), QUORUM)
    };
    for wrong in ["[4]", "[0]", "[1, 2, 3]", "[2, 3, 1, 1]"] {
        let refused = open(wrong).unwrap_err().to_string();
        assert!(refused.contains("cluster.toml: `vacant` names"), "{refused}");
    }
    assert_eq!(open("[2, 2]").unwrap().founders(), 2);
}

#[test]
fn what_an_earlier_incarnation_left_is_put_aside_each_time() {
    let base = tempfile::tempdir().unwrap();
    let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    assert_eq!(data.retire(1).unwrap(), None);
    for n in 1..3 {
        std::fs::create_dir(data.member(1)).unwrap();
        std::fs::write(data.member(1).join("identity"), n.to_string()).unwrap();
        let aside = data.retire(1).unwrap().expect("there was something");
        assert!(aside.ends_with(format!("member-1.old-{n}")) && !data.member(1).exists());
        assert_eq!(std::fs::read_to_string(aside.join("identity")).unwrap(), n.to_string());
    }
}

/// A flag that was wrong at the first start was demanded at each later one.
#[test]
fn i7_what_a_start_that_failed_has_recorded_is_replaced() {
    let base = tempfile::tempdir().unwrap();
    let keep = |command: Option<&str>, maxmemory| {
        let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
        let program = command.map(str::to_owned);
        let kept = Keyspace { maxmemory, program, ..Keyspace::default() };
        data.keep_to(kept, true).map_err(|error| error.to_string())
    };
    keep(Some("redis-servr {socket}"), 0).unwrap();
    keep(None, 5).unwrap();
    let data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    begin_member(&data, 1, None);
    drop(data);
    keep(None, 5000).unwrap();
    let refused = keep(Some("redis-server {socket}"), 0).unwrap_err();
    assert!(refused.contains("--maxmemory 5000"), "its disk is not a program's: {refused}");
    let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
    data.founded().unwrap();
    drop(data);
    assert!(keep(None, 5).unwrap_err().contains("--maxmemory 5000"));
}

/// A log was read without its limit of memory, and writes appeared that had been refused.
#[test]
fn i7_a_log_whose_settings_are_not_known_is_not_read_without_a_word() {
    let base = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"one\"\nmembers = 3\nfounded = true\n";
    std::fs::write(base.path().join(CLUSTER), text).unwrap();
    let keep = |is_said| {
        let mut data = Data::open(base.path(), "one", (3, 3), QUORUM).unwrap();
        let kept = data.keep_to(Keyspace::default(), is_said);
        kept.map_err(|error| error.to_string())
    };
    let refused = keep(false).unwrap_err();
    assert!(refused.contains("has no [keyspace]") && refused.contains("--maxmemory"), "{refused}");
    keep(true).unwrap();
    keep(false).unwrap();
}

#[test]
fn a_number_of_seats_that_cannot_be_is_refused() {
    let base = tempfile::tempdir().unwrap();
    let text = "version = 1\nname = \"one\"\nmembers = 0\nfounded = true\n";
    std::fs::write(base.path().join(CLUSTER), text).unwrap();
    let refused = Data::open_any(base.path()).unwrap_err().to_string();
    assert!(refused.contains("members = 0: it is 1 to 7"), "{refused}");
}

/// A cluster whose log may have entries.
fn founded(path: &Path) -> Data {
    let mut data = Data::open(path, "one", (3, 3), QUORUM).unwrap();
    data.founded().unwrap();
    data
}

#[test]
fn i7_a_log_is_not_read_under_another_limit_or_in_other_parts() {
    let base = tempfile::tempdir().unwrap();
    let keep = |maxmemory, partitions| {
        let mut data = founded(base.path());
        data.keep_to(Keyspace { maxmemory, partitions, ..Keyspace::default() }, true)
            .map_err(|error| error.to_string())
    };
    keep(5000, None).unwrap();
    keep(5000, None).unwrap();
    assert!(keep(0, None).unwrap_err().contains("--maxmemory 5000"));
    let parts = Partitioning { n: 2, order: crate::config::Order::Linearizable };
    assert!(keep(5000, Some(parts)).unwrap_err().contains("no --partitions"));

    let other = tempfile::tempdir().unwrap();
    let keep = |partitions| {
        let mut data = founded(other.path());
        let kept = data.keep_to(Keyspace { partitions, ..Keyspace::default() }, true);
        kept.map_err(|error| error.to_string())
    };
    keep(Some(parts)).unwrap();
    keep(Some(parts)).unwrap();
    let said = "--maxmemory 0 --partitions 2 --order linearizable";
    assert!(keep(None).unwrap_err().contains(said));
    assert!(keep(Some(Partitioning { n: 3, ..parts })).unwrap_err().contains(said));

    let third = tempfile::tempdir().unwrap();
    let keep = |holds_answers| {
        let mut data = founded(third.path());
        let program = Some("redis-server {socket}".to_owned());
        let kept = Keyspace { program, holds_answers, ..Keyspace::default() };
        data.keep_to(kept, true).map_err(|error| error.to_string())
    };
    keep(false).unwrap();
    keep(false).unwrap();
    assert!(keep(true).unwrap_err().contains("no --program-output strict"));
}

/// With other times or points a program's copies would execute its log otherwise than before.
#[test]
fn i7_a_programs_log_is_not_executed_under_other_settings() {
    let base = tempfile::tempdir().unwrap();
    let keep = |settings: Option<&str>| {
        let mut data = founded(base.path());
        let program = Some("redis-server {socket}".to_owned());
        let settings = settings.map(str::to_owned);
        let kept = Keyspace { program, settings, ..Keyspace::default() };
        data.keep_to(kept, true).map_err(|error| error.to_string())
    };
    keep(None).unwrap();
    keep(Some("compare = 1000")).unwrap();
    keep(Some("compare = 1000")).unwrap();
    let refused = keep(Some("compare = 0")).unwrap_err();
    assert!(refused.contains("(compare = 1000)"), "{refused}");
}
