//! Clients with large requests that read no reply.

use crate::support::{Cluster, PATIENCE, wait_until};
use redis::Commands;
use std::io::{Read, Write};
use std::net::TcpStream;

const VALUE_BYTES: usize = 512 << 10;
/// Clients that do not read; each asks for a gigabyte.
const CLIENTS: usize = 4;
const GETS: usize = 2048;
/// The most memory that a member may take; the requests of the clients took twice as much before.
const MEMBER_BYTES_MAX: u64 = 512 << 20;

/// The peak memory of the process.
fn peak_bytes(pid: u32) -> u64 {
    let status = std::fs::read_to_string(format!("/proc/{pid}/status")).unwrap();
    let line = status.lines().find(|line| line.starts_with("VmHWM:")).unwrap();
    line.split_whitespace().nth(1).unwrap().parse::<u64>().unwrap() << 10
}

fn executed(cluster: &Cluster) -> usize {
    let stats = cluster.cli(1, &["INFO", "stats"]);
    let line = stats.lines().find_map(|line| line.strip_prefix("total_commands_processed:"));
    line.unwrap().trim().parse().unwrap()
}

fn ask(cluster: &Cluster, n: usize) -> TcpStream {
    let mut stream = TcpStream::connect(("127.0.0.1", cluster.port_of(1))).unwrap();
    stream.set_read_timeout(Some(PATIENCE)).unwrap();
    stream.set_write_timeout(Some(PATIENCE)).unwrap();
    stream.write_all(&b"GET k\r\n".repeat(n)).unwrap();
    stream
}

fn clients_that_do_not_read_cost_little(flags: &[&str]) {
    let cluster = Cluster::start_with(flags);
    let value = "x".repeat(VALUE_BYTES);
    let mut other = cluster.connect(1);
    let _: () = other.set("k", &value).unwrap();
    let before = executed(&cluster);
    let streams: Vec<TcpStream> = (0..CLIENTS).map(|_| ask(&cluster, GETS)).collect();
    wait_until("their requests to be taken", || executed(&cluster) >= before + CLIENTS);
    // Earlier requests have been answered as far as they ever will be.
    for n in 0..10 {
        let _: () = other.set("n", n).unwrap();
        let found: usize = other.get("n").unwrap();
        assert_eq!(found, n);
    }
    let peak = peak_bytes(cluster.pid_of(1));
    assert!(peak < MEMBER_BYTES_MAX, "member 1 took {peak} bytes");
    // A client that reads after all gets everything, in order.
    drop(streams);
    let n = 100;
    let mut late = ask(&cluster, n);
    late.write_all(b"PING\r\n").unwrap();
    let reply = format!("${VALUE_BYTES}\r\n{value}\r\n");
    let mut found = vec![0; reply.len()];
    for _ in 0..n {
        late.read_exact(&mut found).unwrap();
        assert!(found == reply.as_bytes());
    }
    late.read_exact(&mut found[..7]).unwrap();
    assert_eq!(&found[..7], b"+PONG\r\n");
    assert!(peak_bytes(cluster.pid_of(1)) < MEMBER_BYTES_MAX);
}

#[test]
fn clients_that_do_not_read_cost_a_member_little() {
    clients_that_do_not_read_cost_little(&[]);
}

#[test]
fn clients_that_do_not_read_cost_a_member_of_partitions_little() {
    clients_that_do_not_read_cost_little(&["--partitions", "2"]);
}

/// The only limit that can be set, and it is kept.
#[test]
fn a_client_over_its_output_limit_is_closed() {
    let cluster = Cluster::start();
    let mut other = cluster.connect(1);
    let _: () = other.set("k", "x".repeat(VALUE_BYTES)).unwrap();
    let limit = "client-output-buffer-limit";
    let told = |words: &[&str]| cluster.cli(1, words);
    assert_eq!(told(&["CONFIG", "SET", limit, "normal 512kb 0 0"]), "OK");
    assert!(told(&["CONFIG", "GET", limit]).contains("normal 524288 0 0 slave"));
    let mut stream = ask(&cluster, GETS);
    let mut rest = Vec::new();
    // It ends early, whether by an end of file or by a reset.
    let _ = stream.read_to_end(&mut rest);
    assert!(rest.len() < GETS * VALUE_BYTES);
    let stats = told(&["INFO", "stats"]);
    assert!(stats.contains("client_output_buffer_limit_disconnections:1"), "{stats}");
}
