//! Members without a supervisor: `gregale serve`, one file each, over tcp.

use crate::support::{GREGALE, PATIENCE, free_ports, gregale, signal, wait_until};
use redis::Commands;
use std::path::Path;
use std::process::{Child, Command, Stdio};

/// A process of `gregale serve`, which is killed when the value is dropped.
struct Server {
    process: Child,
    /// The directory of its memory, as on a host of its own.
    memory: Option<tempfile::TempDir>,
}

impl Server {
    /// Kills the process. Its memory is still there.
    fn die(mut self) -> tempfile::TempDir {
        self.process.kill().unwrap();
        self.process.wait().unwrap();
        self.memory.take().expect("until now")
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

/// Three seats and their ports.
struct Layout {
    /// The ports of each member: for clients, for control, and of the fabric.
    ports: [[u16; 3]; 3],
    base: tempfile::TempDir,
}

impl Layout {
    fn new() -> Layout {
        let base = tempfile::tempdir().unwrap();
        std::fs::write(base.path().join("secret"), "a secret that three members share").unwrap();
        Layout { ports: [0; 3].map(|_| ports_of_a_seat()), base }
    }

    /// Moves a member's fabric port: processes that start later look for it there.
    fn move_seat(&mut self, id: u16) {
        self.ports[usize::from(id) - 1] = ports_of_a_seat();
    }

    /// Starts member `id` with the disk called `disk`.
    fn serve(&self, id: u16, disk: &str, start: &str) -> Server {
        self.serve_in(tempfile::tempdir_in("/dev/shm").unwrap(), id, disk, start)
    }

    /// The same, on the memory of an earlier process.
    fn serve_in(&self, memory: tempfile::TempDir, id: u16, disk: &str, start: &str) -> Server {
        let mut text = format!(
            "cluster = \"three\"\nmember = {id}\nfabric = \"tcp\"\nprotocol = \"durable\"\n\
             durability = \"disk-quorum\"\nstart = \"{start}\"\ndirectory = {:?}\ndata = {:?}\n\
             secret_file = {:?}\nsnapshot_log_bytes = 20000\n",
            memory.path(),
            self.base.path().join(disk),
            self.base.path().join("secret"),
        );
        for (ports, id) in self.ports.iter().zip(1..) {
            let [client, control, fabric] = ports.map(|port| format!("\"127.0.0.1:{port}\""));
            text += &format!(
                "[[members]]\nid = {id}\nclient = {client}\ncontrol = {control}\nfabric = {fabric}\n",
            );
        }
        let file = self.base.path().join(format!("{disk}.toml"));
        std::fs::write(&file, text).unwrap();
        let mut command = Command::new(GREGALE);
        command.args(["serve", "--config"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
        Server { process: command.spawn().unwrap(), memory: Some(memory) }
    }

    fn cli(&self, id: u16, words: &[&str]) -> String {
        let port = self.ports[usize::from(id) - 1][0].to_string();
        let output = Command::new("redis-cli").args(["-p", &port]).args(words).output();
        let output = output.expect("redis-cli is needed: apt-get install redis-tools");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    fn wait_for_write(&self, at: u16, key: &str, value: &str) {
        wait_until("a write", || self.cli(at, &["SET", key, value]) == "OK");
    }

    /// The part and incarnation of member `id`, according to member 1 once it answers.
    fn seat(&self, id: u16) -> (String, u64) {
        let address = format!("127.0.0.1:{}", self.ports[0][0]);
        let words = ["status", "--connect", &address, "--format", "json"];
        let mut status = serde_json::Value::Null;
        wait_until("a status", || {
            let answer = serde_json::from_slice(&gregale(&words).stdout);
            answer.map(|answer| status = answer).is_ok()
        });
        let member = &status["members"][usize::from(id) - 1];
        let membership = member["membership"].as_str().unwrap().to_owned();
        (membership, member["incarnation"].as_u64().unwrap())
    }
}

fn ports_of_a_seat() -> [u16; 3] {
    let first = free_ports(3);
    [first, first + 1, first + 2]
}

fn has_identity(base: &Path, disk: &str) -> bool {
    base.join(disk).join("identity").exists()
}

#[test]
fn a_new_disk_joins_in_the_place_of_a_dead_member_without_a_supervisor() {
    let layout = Layout::new();
    let _first = layout.serve(1, "one", "bootstrap");
    let second = layout.serve(2, "two", "bootstrap");
    let third = layout.serve(3, "three", "bootstrap");
    layout.wait_for_write(3, "k", "v");
    let value = "x".repeat(1000);
    for n in 0..100 {
        // More than the log keeps: the new disk is sent a state.
        layout.wait_for_write(1, &format!("k{n}"), &value);
    }
    assert_eq!(layout.seat(3), ("voter".into(), 1));

    drop(third);
    layout.wait_for_write(1, "k", "while it is away");
    let fourth = layout.serve(3, "four", "join");
    let mut incarnation = 0;
    wait_until("the new incarnation to vote", || {
        let (membership, number) = layout.seat(3);
        incarnation = number;
        membership == "voter" && number > 1
    });
    assert!(has_identity(layout.base.path(), "four"));
    wait_until("an answer", || layout.cli(3, &["DBSIZE"]) == "101");
    assert_eq!(layout.cli(3, &["GET", "k"]), "while it is away");

    // It counts: with it and one other member the cluster makes progress.
    signal(second.process.id(), "STOP");
    layout.wait_for_write(3, "k", "without the second");
    signal(second.process.id(), "CONT");

    // Its next life continues with the content of its directory, though the file says `join`.
    drop(fourth);
    layout.wait_for_write(1, "k", "once more");
    let _fourth = layout.serve(3, "four", "join");
    wait_until("its answer", || layout.cli(3, &["GET", "k"]) == "once more");
    assert_eq!(layout.seat(3), ("voter".into(), incarnation));

    // The old disk learns that it was replaced, and its process ends.
    drop(_fourth);
    let mut old = layout.serve(3, "three", "bootstrap");
    let end = std::time::Instant::now() + PATIENCE;
    let status = loop {
        if let Some(status) = old.process.try_wait().unwrap() {
            break status;
        }
        assert!(std::time::Instant::now() < end, "it goes on as if nothing had happened");
        std::thread::sleep(std::time::Duration::from_millis(5));
    };
    assert!(!status.success(), "{status}");
    layout.wait_for_write(1, "k", "and it has changed nothing");
}

#[test]
fn a_member_moves_to_another_address_and_stays_who_it_is() {
    let mut layout = Layout::new();
    let disks = ["one", "two", "three"];
    let start = |layout: &Layout, id: u16, how| layout.serve(id, disks[usize::from(id) - 1], how);
    let mut servers = [1, 2, 3].map(|id| Some(start(&layout, id, "bootstrap")));
    layout.wait_for_write(3, "k", "before");
    // It goes first, and the others, which connect to it, are told one after the other.
    layout.move_seat(1);
    for id in [1, 2, 3] {
        servers[usize::from(id) - 1] = None;
        servers[usize::from(id) - 1] = Some(start(&layout, id, "reattach"));
        layout.wait_for_write(id.max(2), "k", &format!("since {id} knows"));
    }
    wait_until("an answer where it is now", || layout.cli(1, &["GET", "k"]) == "since 3 knows");
    assert_eq!(layout.seat(1), ("voter".into(), 1));
    // It counts: without the second, it is needed.
    servers[1] = None;
    layout.wait_for_write(3, "k", "with two");
}

/// As docs/operations.md says: the line may stay, in this boot and in the next.
#[test]
fn a_founder_whose_file_still_says_bootstrap_continues() {
    let layout = Layout::new();
    let [first, second, _third] = [(1, "one"), (2, "two"), (3, "three")]
        .map(|(id, disk)| layout.serve(id, disk, "bootstrap"));
    layout.wait_for_write(1, "k", "v");
    let memory = second.die();
    let second = layout.serve_in(memory, 2, "two", "bootstrap");
    drop(first);
    // The second counts.
    layout.wait_for_write(3, "k", "w");
    drop(second);
    let _second = layout.serve(2, "two", "bootstrap");
    layout.wait_for_write(3, "k", "x");
    assert_eq!(layout.cli(2, &["GET", "k"]), "x");
}

/// The member of a cluster of one, with its memory and its disk in `base`.
fn serve_alone(base: &Path, fabric: &str, [client, control, peers]: [u16; 3]) -> Server {
    let text = format!(
        "cluster = \"one\"\nmember = 1\nfabric = {fabric:?}\nprotocol = \"durable\"\n\
         durability = \"disk-quorum\"\nstart = \"bootstrap\"\ndirectory = {:?}\ndata = {:?}\n\
         secret_file = {:?}\n[[members]]\nid = 1\nclient = \"127.0.0.1:{client}\"\n\
         control = \"127.0.0.1:{control}\"\nfabric = \"127.0.0.1:{peers}\"\n",
        base.join("memory"),
        base.join("disk"),
        base.join("secret"),
    );
    std::fs::write(base.join("secret"), "a secret of one member").unwrap();
    let file = base.join("one.toml");
    std::fs::write(&file, text).unwrap();
    let mut command = Command::new(GREGALE);
    command.args(["serve", "--config"]).arg(file).stdin(Stdio::null()).stdout(Stdio::null());
    Server { process: command.spawn().unwrap(), memory: None }
}

/// The host starts again, or the program is another version: where its directory is no tmpfs, the
/// region of the life before is still there. Its promises are on its disk.
fn a_durable_member_begins_new_memory_where_the_old_is_of_no_use(fabric: &str) {
    let base = tempfile::tempdir_in("/dev/shm").unwrap();
    let ports = ports_of_a_seat();
    let client = redis::Client::open(format!("redis://127.0.0.1:{}", ports[0])).unwrap();
    let mut lives = 0;
    let mut served = || {
        wait_until("a write", || {
            let Ok(mut open) = client.get_connection_with_timeout(PATIENCE) else { return false };
            open.incr::<_, _, u64>("lives", 1).map(|n| lives = n).is_ok()
        });
        lives
    };
    const VERSION_BYTE: u64 = 8;
    const BOOT_BYTE: u64 = 6 * 8;
    const LAYOUT_BYTE: u64 = 7 * 8;
    const RULES_BYTE: u64 = 14 * 8;
    let write = |byte| {
        let region = base.path().join("memory/node-1.region");
        let region = std::fs::File::options().write(true).open(region).unwrap();
        std::os::unix::fs::FileExt::write_all_at(&region, &7_u64.to_ne_bytes(), byte).unwrap();
    };
    let bytes = [BOOT_BYTE, VERSION_BYTE, RULES_BYTE, LAYOUT_BYTE];
    for (life, byte) in (1..).zip(bytes) {
        let mut server = serve_alone(base.path(), fabric, ports);
        assert_eq!(served(), life, "what was acknowledged before");
        signal(server.process.id(), "TERM");
        assert!(server.process.wait().unwrap().success());
        write(byte);
    }
    // Another setting is refused, and what is no region at all may be another's, and stays.
    let mut server = serve_alone(base.path(), fabric, ports);
    assert!(!server.process.wait().unwrap().success());
    write(0);
    let mut server = serve_alone(base.path(), fabric, ports);
    assert!(!server.process.wait().unwrap().success());
}

#[test]
fn a_durable_member_begins_new_memory_where_the_old_is_of_no_use_over_shm() {
    a_durable_member_begins_new_memory_where_the_old_is_of_no_use("shm");
}

#[test]
fn a_durable_member_begins_new_memory_where_the_old_is_of_no_use_over_tcp() {
    a_durable_member_begins_new_memory_where_the_old_is_of_no_use("tcp");
}
