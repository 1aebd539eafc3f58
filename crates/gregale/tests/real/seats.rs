//! Members of a replicated program that come, go, and are replaced while clients write: by orders
//! over control ports.

use crate::copies::{REDIS, all_say, control, digests, leader, pid_of, program, sockets, status};
use crate::support::{
    Cluster, Ends, PATIENCE, gregale, refused, signal, start_on_disk, wait_until,
};
use redis::Commands;
use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::Output;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

over_both_fabrics! {
    members_in_memory_change_while_clients_write
}

/// Clients that write, at each of two members.
const CLIENTS: usize = 8;
/// The time for which such a client thinks: a newcomer's copy executes what was written before it
/// came, beside what is written meanwhile, and has to catch up.
const THINKS_FOR: Duration = Duration::from_millis(20);

/// `gregale member WORDS`, over the control port of member `at`, with this secret.
fn order(cluster: &Cluster, at: u16, words: &[&str], secret: &Path) -> Output {
    let (control, secret) = (control(cluster, at), secret.to_str().unwrap());
    let reach = ["--control", &control, "--secret-file", secret];
    gregale(&[&["member"], words, &reach].concat())
}

fn done(output: &Output) {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

/// Repeats an order until it is carried out; what is said of the failures, if it never is.
fn until_done(mut order: impl FnMut() -> Output) {
    let end = Instant::now() + PATIENCE;
    let mut said = Vec::new();
    loop {
        let output = order();
        if output.status.success() {
            return;
        }
        said.push(output);
        assert!(Instant::now() < end, "not carried out: {said:?}");
    }
}

pub(crate) fn seat(cluster: &Cluster, at: u16, id: u16) -> (String, u64) {
    let status = status(cluster, at).unwrap_or_default();
    let member = &status["members"][usize::from(id) - 1];
    let membership = member["membership"].as_str().unwrap_or_default();
    (membership.to_owned(), member["incarnation"].as_u64().unwrap_or_default())
}

pub(crate) fn votes_above(cluster: &Cluster, at: u16, id: u16, before: u64) {
    wait_until("a new incarnation to vote", || {
        let (membership, incarnation) = seat(cluster, at, id);
        membership == "voter" && incarnation > before
    });
}

/// The copies of so many members have the same content, and no member has found them to differ.
fn agree(cluster: &Cluster, n: usize, at: u16) {
    wait_until("the copies to be equal", || {
        sockets(cluster).len() == n && digests(cluster).len() == 1
    });
    let verdicts = program(cluster, at, at)["verdicts"].clone();
    assert_eq!((verdicts["differed"].as_u64(), verdicts["split"].as_u64()), (Some(0), Some(0)));
}

fn is_known(cluster: &Cluster, name: &str) -> bool {
    all_say(cluster, &["CLIENT", "LIST"]).iter().any(|list| list.contains(name))
}

/// While clients of the others write, member `id` dies and loses its data, is replaced, is removed,
/// and is added again. No client of the others notices.
fn members_change(cluster: &Cluster, secret: &Path, lose: impl FnOnce(u16)) {
    let id = leader(cluster, 1) % 3 + 1;
    let others: Vec<u16> = (1..=3).filter(|other| *other != id).collect();
    let at = others[0];
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let counts = |other: u16, n: usize| {
            let mut connection = cluster.connect(other);
            let is_over = &is_over;
            move || {
                let mut last = 0i64;
                while !is_over.load(Ordering::Relaxed) {
                    let now: i64 =
                        connection.incr(format!("n{n}"), 1).expect("a survivor's client");
                    assert_eq!(now, last + 1, "each is executed once");
                    last = now;
                    std::thread::sleep(THINKS_FOR);
                }
                last
            }
        };
        let all = others.iter().flat_map(|other| (0..CLIENTS).map(move |n| (*other, n)));
        let counting: Vec<_> = all
            .map(|(other, n)| scope.spawn(counts(other, usize::from(other) * CLIENTS + n)))
            .collect();
        let (_, first) = seat(cluster, at, id);
        let pid = pid_of(cluster, at, id);
        // The process must not write into what is being removed.
        signal(pid, "STOP");
        lose(id);
        signal(pid, "KILL");
        // The supervisor may have begun a new incarnation for the data that is lost.
        until_done(|| order(cluster, at, &["replace", &id.to_string()], secret));
        votes_above(cluster, at, id, first);
        let (_, second) = seat(cluster, at, id);
        let mut ghost = cluster.connect(id);
        let _: () = redis::cmd("CLIENT").arg("SETNAME").arg("ghost").query(&mut ghost).unwrap();
        wait_until("all copies to know the client", || is_known(cluster, "ghost"));

        done(&order(cluster, at, &["remove", &id.to_string()], secret));
        wait_until("the seat to be empty", || seat(cluster, at, id).0 == "none");
        wait_until("the client to be ended", || !is_known(cluster, "ghost"));
        assert!(redis::cmd("PING").query::<String>(&mut ghost).is_err(), "its member is gone");
        let before: i64 =
            cluster.connect(at).get(format!("n{}", usize::from(at) * CLIENTS)).unwrap();
        let agreed = || program(cluster, at, at)["verdicts"]["agreed_at"].as_u64().unwrap_or(0);
        let agreed_before = agreed();
        wait_until("the two that are left to be compared", || agreed() > agreed_before + 400);
        let after: i64 =
            cluster.connect(at).get(format!("n{}", usize::from(at) * CLIENTS)).unwrap();
        assert!(after > before, "two serve");

        done(&order(cluster, at, &["add", &id.to_string()], secret));
        votes_above(cluster, at, id, second);
        drop(ends);
        let answered: Vec<i64> = counting.into_iter().map(|one| one.join().unwrap()).collect();
        let at_newcomer = |n: usize| -> i64 {
            let (other, n) = (others[n / CLIENTS], n % CLIENTS);
            cluster.connect(id).get(format!("n{}", usize::from(other) * CLIENTS + n)).unwrap()
        };
        for (n, last) in answered.into_iter().enumerate() {
            assert_eq!(at_newcomer(n), last, "the newcomer has what was answered");
        }
    });
    agree(cluster, 3, at);
}

fn start(flags: &[&str]) -> Cluster {
    let program = ["--replicate", REDIS, "--program-compare", "200"];
    Cluster::start_with(&[flags, &program].concat())
}

fn secret_of(cluster: &Cluster) -> PathBuf {
    cluster.directory().join("secret")
}

fn members_in_memory_change_while_clients_write(flags: &[&str]) {
    let mut cluster = start(flags);
    let secret = secret_of(&cluster);
    members_change(&cluster, &secret, |_| {});
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn members_on_disk_change_while_clients_write() {
    let data = tempfile::tempdir().unwrap();
    let program = ["--replicate", REDIS, "--program-compare", "200"];
    let mut cluster = start_on_disk(data.path(), &program);
    let secret = data.path().join("secret");
    let is_named = |line: &String| line.ends_with(&format!("--secret-file {}", secret.display()));
    assert!(cluster.said().iter().any(is_named), "{:?}", cluster.said());
    members_change(&cluster, &secret, |id| {
        std::fs::remove_dir_all(data.path().join(format!("member-{id}"))).unwrap();
    });
    let list = order(&cluster, 1, &["list"], &secret);
    assert_eq!(String::from_utf8_lossy(&list.stdout).matches("voter").count(), 3);
    assert_eq!(cluster.stop(), Some(0));
    drop(cluster);
    let cluster = start_on_disk(data.path(), &program);
    wait_until("the copies to be equal", || digests(&cluster).len() == 1);
}

#[test]
fn members_are_changed_by_those_who_know_the_secret_alone() {
    let cluster = start(&[]);
    let other = tempfile::NamedTempFile::new().unwrap();
    std::fs::write(other.path(), "no secret of this cluster").unwrap();
    let wrong = refused(&order(&cluster, 1, &["remove", "3"], other.path()));
    assert!(wrong.contains("refused the proof"), "{wrong}");
    let address = control(&cluster, 1);
    let without = refused(&gregale(&["member", "remove", "3", "--control", &address]));
    assert!(without.contains("--secret-file"), "{without}");
    let leader_at = control(&cluster, leader(&cluster, 1));
    let mut stream = std::net::TcpStream::connect(&leader_at).unwrap();
    stream.write_all(b"POST /members/remove/3 HTTP/1.0\r\n\r\n").unwrap();
    let mut said = String::new();
    stream.read_to_string(&mut said).unwrap();
    assert!(said.starts_with("HTTP/1.0 403 Forbidden\r\n"), "{said}");
    assert_eq!(seat(&cluster, 1, 3), ("voter".to_owned(), 1));
    let odd = refused(&order(&cluster, 1, &["remove", "9"], &secret_of(&cluster)));
    assert!(odd.contains("no member 9"), "{odd}");
}

/// The same way changes the members of the key-value store.
#[test]
fn members_of_the_store_are_changed_over_control_ports_too() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start_on_disk(data.path(), &[]);
    let secret = data.path().join("secret");
    let id = leader(&cluster, 1);
    let other = id % 3 + 1;
    done(&order(&cluster, other, &["remove", &id.to_string()], &secret));
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    wait_until("the seat to be empty", || seat(&cluster, other, id).0 == "none");
    let again = refused(&order(&cluster, other, &["remove", &id.to_string()], &secret));
    assert!(again.contains("takes part no more"), "{again}");
    done(&order(&cluster, other, &["add"], &secret));
    assert_eq!(cluster.cli(id, &["GET", "k"]), "v");
    assert_eq!(cluster.stop(), Some(0));
}
