//! Tests of the supervisor, without processes.

use super::*;
use clap::Parser;
use std::net::TcpListener;
use std::os::unix::process::ExitStatusExt;

#[derive(Parser)]
struct Line {
    #[command(flatten)]
    up: UpArgs,
}

/// A supervisor of three members, whose processes are not started.
fn supervise(words: &[&str], test: impl FnOnce(&mut Supervisor<'_>)) {
    let args = Line::parse_from([&["up"], words].concat()).up;
    let base = tempfile::tempdir().unwrap();
    let directory = Directory::create(base.path(), "x", 7000).unwrap();
    let data = args.durability().is_on_disk().then(|| {
        let path = base.path().join("data");
        Data::open(&path, "x", (args.nodes, args.seats()), args.durability()).unwrap()
    });
    let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
    let sockets = || Sockets { client: listen(), control: listen(), fabric: None };
    let sockets = (0..args.seats()).map(|_| sockets()).collect();
    let signals = UnixStream::pair().unwrap().0;
    let say = Say::to(args.format, std::io::sink()).unwrap();
    test(&mut Supervisor::new(&args, &directory, data, sockets, signals, say).unwrap());
}

const MEMORY: [&str; 2] = ["--durability", "memory-quorum"];

fn killed() -> ExitStatus {
    ExitStatus::from_raw(9)
}

/// The member became a learner, which never votes, and the cluster was given up after 30 seconds.
#[test]
fn i3_a_member_that_died_before_it_had_memory_is_founded() {
    supervise(&MEMORY, |up| {
        up.has_died(0, &killed());
        assert_eq!(up.members[0].config.start, Start::Bootstrap);
        std::fs::write(up.directory.path().join("node-1.region"), b"").unwrap();
        up.has_died(0, &killed());
        assert_eq!(up.members[0].config.start, Start::Reattach);
    });
}

#[test]
fn i3_a_member_that_died_before_it_had_a_disk_is_founded() {
    supervise(&[], |up| {
        up.has_died(1, &killed());
        assert_eq!(up.members[1].config.start, Start::Bootstrap);
        let place = up.data.as_ref().unwrap().member(2);
        std::fs::create_dir(&place).unwrap();
        std::fs::write(place.join("identity"), b"").unwrap();
        up.has_died(1, &killed());
        assert_eq!(up.members[1].config.start, Start::Reattach);
    });
}

/// The memory of a member that had served was gone before all had served.
#[test]
fn i4_memory_that_is_lost_while_the_cluster_is_founded_is_replaced() {
    supervise(&MEMORY, |up| {
        assert_eq!(up.lost(1), None, "it never had any");
        up.members[0].founded();
        assert_eq!(up.lost(1).as_deref(), Some(up.directory.path()));
        up.is_ready = true;
        assert!(up.lost(2).is_some(), "the others may have decided without it");
    });
}

/// Two members had acknowledged writes for half a minute, and were ended with their memory.
#[test]
fn i6_a_majority_that_serves_continues_without_a_founder_that_hangs() {
    for words in [&MEMORY[..], &[], &["--partitions", "2"]] {
        supervise(words, |up| {
            up.members[0].state = State::Serving;
            let given_up = up.go_on_with_some().unwrap_err().to_string();
            assert!(given_up.contains("do not serve after 30 s"), "{given_up}");
            up.members[2].state = State::Serving;
            up.go_on_with_some().unwrap();
            assert!(up.is_ready);
        });
    }
}

/// The second of two that served died a moment before the end of the wait.
#[test]
fn i6_a_majority_that_has_served_is_waited_for_again() {
    for words in [&MEMORY[..], &[], &["--partitions", "2"]] {
        supervise(words, |up| {
            up.serves(0);
            assert!(!up.continues(), "nothing was acknowledged");
            up.serves(1);
            up.has_died(1, &killed());
            up.ready_by = Instant::now();
            up.go_on_with_some().unwrap();
            assert!(!up.is_ready && up.ready_by > Instant::now() + READY_WITHIN / 2);
            assert_eq!(up.continues(), up.data.is_none(), "no refusal ends what is in memory");
            up.serves(1);
            up.go_on_with_some().unwrap();
            assert!(up.is_ready);
        });
    }
}

/// The others had begun again and fetched the state when the last memory with it was discarded.
#[test]
fn no_memory_is_discarded_while_too_few_other_members_serve() {
    supervise(&MEMORY, |up| {
        up.members[0].state = State::Serving;
        up.members[1].state = State::Learner;
        up.members[2].state = State::Serving;
        up.renew(1);
        assert_eq!((up.members[0].state, up.members[0].wanted_ms), (State::Serving, None));
        // It was removed, and has ended.
        (up.members[1].state, up.members[1].has_parted) = (State::Dead, true);
        assert_eq!([1, 2].map(|id| up.needed_without(id)), [None; 2]);
        up.members[2].state = State::Starting;
        assert_eq!([1, 2].map(|id| up.needed_without(id)), [Some(3), None]);
    });
}

/// `up` ended, each time, and what was on whole disks could not be reached.
#[test]
fn i7_a_founded_cluster_is_not_given_up_because_it_is_slow() {
    supervise(&[], |up| {
        up.data.as_mut().unwrap().founded().unwrap();
        up.members[0].state = State::Dead;
        up.ready_by = Instant::now();
        up.go_on_with_some().unwrap();
        assert!(!up.is_ready && up.ready_by > Instant::now() + READY_WITHIN / 2);
        up.members[1].refused = true;
        let given_up = up.go_on_with_some().unwrap_err().to_string();
        assert!(given_up.contains("what they said stands above"), "{given_up}");
    });
    supervise(&[], |up| assert!(up.go_on_with_some().is_err(), "it was never founded"));
}

/// Its memory goes with it, and it was founded again, which the others refused.
#[test]
fn i3_a_member_of_partitions_that_ended_in_order_is_not_founded_again() {
    const PARTS: [&str; 4] = ["--partitions", "2", MEMORY[0], MEMORY[1]];
    supervise(&PARTS, |up| {
        up.has_died(0, &ExitStatus::from_raw(0));
        assert_eq!(up.members[0].config.start, Start::Reattach);
        up.has_died(1, &killed());
        assert_eq!(up.members[1].config.start, Start::Bootstrap, "it has left nothing");
        up.is_refused(1, "the others know another one");
        assert_eq!(up.members[1].config.start, Start::Reattach);
    });
    supervise(&[], |up| {
        up.has_died(0, &ExitStatus::from_raw(0));
        assert_eq!(up.members[0].config.start, Start::Bootstrap, "it has no disk");
        up.is_refused(1, "its disk is full");
        assert_eq!(up.members[1].config.start, Start::Bootstrap);
    });
}

/// The operator was sent to `recover`, which gives acknowledged writes up.
#[test]
fn disks_that_cannot_be_looked_into_are_named_as_such() {
    supervise(&[], |up| {
        let data = up.data.as_mut().unwrap();
        data.founded().unwrap();
        for name in ["member-1", "member-2"] {
            std::os::unix::fs::symlink(name, data.path().join(name)).unwrap();
        }
        let refused = up.check_disks().unwrap_err().to_string();
        assert!(refused.contains("cannot read ") && refused.contains("member-1"), "{refused}");
        assert!(!refused.contains("recover"), "{refused}");
    });
}

/// They were written into a directory of a cluster that no member could run.
#[test]
fn settings_that_no_member_takes_are_refused_before_anything_is_written() {
    let base = tempfile::tempdir().unwrap();
    let place = |name: &str| base.path().join(name).to_str().unwrap().to_owned();
    let (data, directory) = (place("data"), place("shm"));
    std::fs::create_dir(&directory).unwrap();
    let free = TcpListener::bind("127.0.0.1:0").unwrap().local_addr().unwrap().port();
    let (port, command) = (free.to_string(), "redis-server --port 0 --unixsocket {socket}");
    let words = ["up", "--nodes", "1", "--port", &port, "--data", &data, "--directory", &directory];
    let wrong = ["--replicate", command, "--requirepass", "secret"];
    let args = Line::parse_from([&words[..], &wrong].concat()).up;
    let refused = run(&args).unwrap_err().to_string();
    assert!(refused.contains("are the key-value store's"), "{refused}");
    assert!(!std::path::Path::new(&data).exists());
    assert_eq!(std::fs::read_dir(&directory).unwrap().count(), 0);
}

/// The line could not be run: redis-cli asked at 127.0.0.1. And empty seats were counted, or not,
/// by the flags of this start.
#[test]
fn the_first_lines_name_the_members_as_they_are() {
    supervise(&["--nodes", "2", "--seats", "5"], |up| {
        let (near, mut far) = UnixStream::pair().unwrap();
        up.say = Say::to(console::Format::Table, near).unwrap();
        up.members[1].config.members[1].client = "[::1]:7001".parse().unwrap();
        up.say.starting(up.args, "1.0", up.here().count());
        up.say.members(up.here().map(|member| (&member.config, 5)));
        up.say = Say::to(console::Format::Table, std::io::sink()).unwrap();
        let mut said = String::new();
        far.read_to_string(&mut said).unwrap();
        assert!(said.contains(", 2 members, "), "{said}");
        assert!(said.contains("member 2: pid 5, redis-cli -h ::1 -p 7001, "), "{said}");
        let first = up.members[0].config.own().client.port();
        assert!(said.contains(&format!("member 1: pid 5, redis-cli -p {first}, ")), "{said}");
    });
}

/// The message named no disk.
#[test]
fn without_a_member_nothing_is_started() {
    supervise(&["--nodes", "1"], |up| {
        up.members[0].state = State::Vacant;
        let refused = up.check_disks().unwrap_err().to_string();
        assert!(refused.contains("no member votes, since every seat is in `vacant`"), "{refused}");
    });
}

// One hung member took down an existing cluster that served.
#[test]
fn a_hung_member_is_waited_for_and_then_done_without() {
    let is_there = |quorum: Quorum, third| {
        let served = (State::Serving, false);
        quorum.is_there([served, served, third].into_iter())
    };
    let hung = (State::Starting, false);
    assert!(!is_there(Quorum::All, hung) && is_there(Quorum::Majority, hung));
    assert!(is_there(Quorum::All, (State::Dead, true)), "it has said why");
    let alone = [(State::Serving, false), hung, hung];
    assert!(!Quorum::Majority.is_there(alone.into_iter()));
}
