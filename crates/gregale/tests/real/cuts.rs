//! Members that cannot reach each other, while a third reaches both.

use crate::support::{GREGALE, PATIENCE, free_ports, wait_until};
use redis::Commands;
use std::io::{ErrorKind, Read, Write};
use std::net::{Shutdown, TcpListener, TcpStream};
use std::process::{Child, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

/// The interval at which a wire checks whether it is cut.
const LOOK_EVERY: Duration = Duration::from_millis(5);
const INCREMENTS: i64 = 200;

/// A wire that carries connections to `target`. While it is cut it carries nothing and accepts
/// nothing, and tells neither end.
fn wire(target: u16, is_cut: Arc<AtomicBool>) -> u16 {
    let listener = TcpListener::bind(("127.0.0.1", 0)).unwrap();
    let port = listener.local_addr().unwrap().port();
    std::thread::spawn(move || {
        for near in listener.incoming().map_while(Result::ok) {
            let Ok(far) = TcpStream::connect(("127.0.0.1", target)) else { continue };
            for (from, to) in [(&near, &far), (&far, &near)] {
                let (from, to) = (from.try_clone().unwrap(), to.try_clone().unwrap());
                let is_cut = Arc::clone(&is_cut);
                std::thread::spawn(move || carry(from, to, &is_cut));
            }
        }
    });
    port
}

fn carry(mut from: TcpStream, mut to: TcpStream, is_cut: &AtomicBool) {
    from.set_read_timeout(Some(LOOK_EVERY)).unwrap();
    let _ = to.set_nodelay(true);
    let mut bytes = vec![0; 64 << 10];
    loop {
        if is_cut.load(Ordering::Relaxed) {
            std::thread::sleep(LOOK_EVERY);
            continue;
        }
        match from.read(&mut bytes) {
            Ok(n) if n > 0 && to.write_all(&bytes[..n]).is_ok() => {}
            Err(error)
                if matches!(
                    error.kind(),
                    ErrorKind::WouldBlock | ErrorKind::TimedOut | ErrorKind::Interrupted
                ) => {}
            Ok(_) | Err(_) => break,
        }
    }
    let _ = (from.shutdown(Shutdown::Both), to.shutdown(Shutdown::Both));
}

/// Three members over tcp; every connection between two of them goes by a wire.
struct Group {
    /// The ports of each member: for clients, for control, of the fabric.
    ports: [[u16; 3]; 3],
    /// The wires of each pair.
    cuts: Vec<([usize; 2], Arc<AtomicBool>)>,
    processes: Vec<Child>,
    _places: Vec<tempfile::TempDir>,
}

impl Group {
    fn start(mode: &str) -> Group {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("secret"), "a secret that three members share").unwrap();
        let ports = [0; 3].map(|_| {
            let first = free_ports(3);
            [first, first + 1, first + 2]
        });
        let pairs = [[0, 1], [0, 2], [1, 2]];
        let cuts: Vec<_> = pairs.map(|pair| (pair, Arc::new(AtomicBool::new(false)))).into();
        let mut group = Group { ports, cuts, processes: Vec::new(), _places: Vec::new() };
        for me in 0..3 {
            let memory = tempfile::tempdir_in("/dev/shm").unwrap();
            let mut text = format!(
                "cluster = \"cut\"\nmember = {}\nfabric = \"tcp\"\nstart = \"bootstrap\"\n\
                 directory = {:?}\nsecret_file = {:?}\n{mode}",
                me + 1,
                memory.path(),
                base.path().join("secret"),
            );
            if mode.contains("durable") {
                text += &format!("data = {:?}\n", base.path().join(format!("data-{me}")));
            }
            for (at, [client, control, fabric]) in ports.into_iter().enumerate() {
                let fabric = if at == me { fabric } else { wire(fabric, group.cut_of(me, at)) };
                text += &format!(
                    "[[members]]\nid = {}\nclient = \"127.0.0.1:{client}\"\n\
                     control = \"127.0.0.1:{control}\"\nfabric = \"127.0.0.1:{fabric}\"\n",
                    at + 1
                );
            }
            let file = base.path().join(format!("member-{me}.toml"));
            std::fs::write(&file, text).unwrap();
            let mut command = Command::new(GREGALE);
            command.args(["serve", "--config"]).arg(file);
            command.stdin(Stdio::null()).stdout(Stdio::null());
            group.processes.push(command.spawn().unwrap());
            group._places.push(memory);
        }
        group._places.push(base);
        group
    }

    fn cut_of(&self, one: usize, other: usize) -> Arc<AtomicBool> {
        let pair = [one.min(other), one.max(other)];
        Arc::clone(&self.cuts.iter().find(|(of, _)| *of == pair).unwrap().1)
    }

    fn try_connect(&self, at: usize) -> redis::RedisResult<redis::Connection> {
        let client = redis::Client::open(format!("redis://127.0.0.1:{}", self.ports[at][0]))?;
        client.get_connection_with_timeout(PATIENCE)
    }

    /// The member that leads, from 0, according to `at`.
    fn leader(&self, at: usize) -> Option<usize> {
        let info: String =
            redis::cmd("INFO").arg("gregale").query(&mut self.try_connect(at).ok()?).ok()?;
        let id = info.lines().find_map(|line| line.strip_prefix("gregale_leader:"))?;
        id.trim().parse::<usize>().ok()?.checked_sub(1)
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        for process in &mut self.processes {
            let _ = process.kill();
            let _ = process.wait();
        }
    }
}

/// Its commands went to no member that took them, and each was unknown five seconds later.
fn clients_of_a_follower_that_is_cut_off_are_served(mode: &str) {
    let group = Group::start(mode);
    wait_until("all to serve under one leader", || {
        let set = |at| group.try_connect(at).and_then(|mut of| of.set::<_, _, ()>("k", at));
        (0..3).all(|at| set(at).is_ok()) && group.leader(0).is_some()
    });
    let leader = group.leader(0).unwrap();
    let (follower, between) = ((leader + 1) % 3, (leader + 2) % 3);
    let mut client = group.try_connect(follower).unwrap();
    let mut elsewhere = group.try_connect(between).unwrap();
    let cut = group.cut_of(leader, follower);
    for is_cut in [true, false, true] {
        cut.store(is_cut, Ordering::Relaxed);
        let _: () = elsewhere.set("n", 0).unwrap();
        // Writes and reads, in order, each once. (Writes alone come first: reads wait for them.)
        let mut pipe = redis::pipe();
        for _ in 0..INCREMENTS {
            pipe.incr("n", 1);
        }
        let counted: Vec<i64> = pipe.query(&mut client).unwrap();
        assert!(counted.into_iter().eq(1..=INCREMENTS), "cut: {is_cut}");
        for n in INCREMENTS..INCREMENTS + 20 {
            let read: i64 = client.get("n").unwrap();
            assert_eq!(read, n, "cut: {is_cut}");
            let _: i64 = client.incr("n", 1).unwrap();
        }
        let read: i64 = elsewhere.get("n").unwrap();
        assert_eq!(read, INCREMENTS + 20);
        assert_eq!(group.leader(between), Some(leader), "nobody is unseated for it");
    }
    assert_eq!(group.leader(follower), Some(leader));
}

#[test]
fn clients_of_a_velos_follower_that_is_cut_off_are_served() {
    clients_of_a_follower_that_is_cut_off_are_served("protocol = \"velos\"\n");
}

#[test]
fn clients_of_a_durable_follower_that_is_cut_off_are_served() {
    clients_of_a_follower_that_is_cut_off_are_served(
        "protocol = \"durable\"\ndurability = \"disk-quorum\"\n",
    );
}
