//! A program that hears its clients by UDP (`udp.py`).

use crate::copies::{leader, pid_of, program};
use crate::support::{Cluster, Ends, PATIENCE, signal, wait_until};
use std::net::UdpSocket;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

/// A client asks again when it has heard nothing for so long.
const AGAIN_AFTER: Duration = Duration::from_millis(300);

/// A client of the member at this port.
fn client(port: u16) -> UdpSocket {
    let socket = UdpSocket::bind("127.0.0.1:0").unwrap();
    socket.connect(("127.0.0.1", port)).unwrap();
    socket.set_read_timeout(Some(AGAIN_AFTER)).unwrap();
    socket
}

/// Asks until there is an answer to that: one to an earlier asking may come again.
fn ask(client: &UdpSocket, words: &str, about: &str) -> String {
    let (end, mut heard) = (Instant::now() + PATIENCE, [0; 2000]);
    while Instant::now() < end {
        // (A port that no member hears at for a moment refuses.)
        if client.send(words.as_bytes()).is_err() {
            std::thread::sleep(AGAIN_AFTER);
            continue;
        }
        while let Ok(n) = client.recv(&mut heard) {
            let said = String::from_utf8_lossy(&heard[..n]);
            if let Some(answer) = said.strip_prefix(about) {
                return answer.trim().to_owned();
            }
        }
    }
    panic!("no answer to {words:?}");
}

/// Clients of all members count while leaders and others are killed: each request has an effect
/// once, however often it was sent, and all copies have the same sum.
#[test]
fn a_program_by_udp_counts_each_request_once_while_members_die() {
    let genesis = tempfile::tempdir().unwrap();
    std::fs::write(genesis.path().join("udp.py"), include_str!("udp.py")).unwrap();
    let from = genesis.path().to_str().unwrap();
    let command = "/usr/bin/python3 {dir}/udp.py {udp}";
    let how = ["--replicate", command, "--genesis", from, "--program-compare", "50"];
    let mut cluster = Cluster::start_with(&how);
    let is_over = AtomicBool::new(false);
    let asked: u64 = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let counts = |id: u16| {
            let (port, is_over) = (cluster.port_of(id), &is_over);
            scope.spawn(move || {
                let (mut n, mut last) = (0, 0);
                while !is_over.load(Ordering::Relaxed) {
                    n += 1;
                    // Each request by a client of its own, now and then.
                    let client = client(port);
                    for part in 0..50 {
                        let name = format!("{id}.{n}.{part}");
                        let sum = ask(&client, &format!("add {name} 1"), &format!("{name} "));
                        let sum: u64 = sum.parse().expect("a sum");
                        assert!(sum > last, "{sum} after {last}");
                        last = sum;
                    }
                }
                n * 50
            })
        };
        let counting = [1, 2, 3].map(counts);
        for round in 0..3u16 {
            let victim = if round == 1 { 2 } else { leader(&cluster, 1) };
            let asked = victim % 3 + 1;
            let pid = pid_of(&cluster, asked, victim);
            let executed = |id: u16| program(&cluster, asked, id)["executed"].as_u64().unwrap_or(0);
            let level = executed(asked) + 50;
            signal(pid, "KILL");
            // (Its copy may be behind the others' for as long as they are asked without a pause.)
            wait_until("the others to go on, and the killed one to have executed as much", || {
                let is_back = pid_of(&cluster, asked, victim) != pid;
                is_back && executed(asked) >= level && executed(victim) >= level
            });
        }
        drop(ends);
        counting.into_iter().map(|one| one.join().unwrap()).sum()
    });
    for id in 1..=3 {
        assert_eq!(ask(&client(cluster.port_of(id)), "sum", "sum"), format!("{asked} of {asked}"));
    }
    let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
    assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()), "{verdicts}");
    println!("{asked} requests, {verdicts}");
    // What is longer than an entry is dropped, as a network may.
    let long = client(cluster.port_of(1));
    long.send(&[b'x'; 5000]).unwrap();
    assert_eq!(ask(&long, "sum", "sum"), format!("{asked} of {asked}"));
    assert_eq!(cluster.stop(), Some(0));
}
