//! Unmodified programs other than Redis, which are known to be at rest by the preloaded library:
//! threads (memcached), an event loop (beanstalkd, and Redis by the turn), deaths of members.

use crate::copies::{REDIS, all_say, digests, pid_of, sockets, status};
use crate::support::{Cluster, Ends, PATIENCE, free_ports, gregale, signal, wait_until};
use redis::Commands;
use std::collections::{BTreeMap, BTreeSet};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::os::unix::net::UnixStream;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};

/// Four threads, each with a loop of its own.
const MEMCACHED: &str = "memcached -s {socket} -U 0 -t 4 -u root";
const BEANSTALKD: &str = "beanstalkd -l unix:{socket}";

/// The most writes of one client: a member that comes back executes all of them, and where the
/// machine is busy it is no faster at that than the others are with new ones.
const WRITES_MAX: u64 = 150;

/// A client of a protocol of lines, and the name of what it speaks to.
pub(crate) struct Client<S>(BufReader<S>, String);

impl Client<TcpStream> {
    pub(crate) fn of(cluster: &Cluster, id: u16) -> Client<TcpStream> {
        Client::at(cluster.port_of(id))
    }

    /// A client of the member that listens there.
    pub(crate) fn at(port: u16) -> Client<TcpStream> {
        let stream = TcpStream::connect(("127.0.0.1", port)).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream), format!("the member at {port}"))
    }
}

impl Client<UnixStream> {
    /// A client of a copy, past its member.
    pub(crate) fn past(socket: &std::path::Path) -> Client<UnixStream> {
        let stream = UnixStream::connect(socket).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        Client(BufReader::new(stream), socket.display().to_string())
    }
}

impl<S: Read + Write> Client<S> {
    pub(crate) fn say(&mut self, words: &str) {
        self.send(words.as_bytes());
    }

    pub(crate) fn send(&mut self, bytes: &[u8]) {
        self.0.get_mut().write_all(bytes).unwrap();
    }

    pub(crate) fn try_say(&mut self, words: &str) -> std::io::Result<()> {
        self.0.get_mut().write_all(words.as_bytes())
    }

    /// A line, or nothing at the end.
    pub(crate) fn try_line(&mut self) -> std::io::Result<String> {
        let mut line = String::new();
        self.0.read_line(&mut line).map(|_| line)
    }

    pub(crate) fn line(&mut self) -> String {
        let line = self.bare_line();
        assert!(line.ends_with('\r'), "a whole line: {line:?}");
        line.trim_end().to_owned()
    }

    /// A line that ends by a line feed alone.
    pub(crate) fn bare_line(&mut self) -> String {
        let read = self.try_line();
        let line = read.unwrap_or_else(|error| panic!("no line from {}: {error}", self.1));
        let whole = line.strip_suffix('\n');
        whole.unwrap_or_else(|| panic!("a whole line: {line:?}")).to_owned()
    }

    pub(crate) fn bytes(&mut self, len: usize) -> String {
        let mut bytes = vec![0; len];
        let read = self.0.read_exact(&mut bytes);
        read.unwrap_or_else(|error| panic!("no {len} bytes from {}: {error}", self.1));
        String::from_utf8_lossy(&bytes).into_owned()
    }

    pub(crate) fn ask(&mut self, words: &str) -> String {
        self.say(words);
        self.line()
    }

    /// Whether the answer begins so. A member that is being killed may have let the connection in.
    pub(crate) fn hears(&mut self, words: &str, answer: &str) -> bool {
        let line = self.try_say(words).and_then(|()| self.try_line());
        line.is_ok_and(|line| line.starts_with(answer))
    }

    /// Lines up to the one that is `end`.
    fn lines_to(&mut self, end: &str) -> Vec<String> {
        let mut lines = Vec::new();
        loop {
            let line = self.line();
            if line == end {
                return lines;
            }
            lines.push(line);
        }
    }
}

/// Kills members 2 and 3 in turn, and waits until each is back.
pub(crate) fn kill_in_turn(cluster: &Cluster, victims: &[u16], is_back: impl Fn(u16) -> bool) {
    for victim in victims {
        signal(pid_of(cluster, 1, *victim), "KILL");
        wait_until("the member to be back", || is_back(*victim));
    }
}

/// Whether all copies have executed what this member has.
pub(crate) fn are_level(cluster: &Cluster) -> bool {
    let status = status(cluster, 1).unwrap_or_default();
    let members = status["members"].as_array().cloned().unwrap_or_default();
    let executed: BTreeSet<_> =
        members.iter().filter_map(|of| of["program"]["executed"].as_u64()).collect();
    let waits = members.iter().any(|of| of["program"]["waiting_bytes"].as_u64() != Some(0));
    executed.len() == 1 && !waits && members.len() == 3
}

/// What all copies show alike. (A copy may have been given the last input, and not have read it.)
pub(crate) fn agreed<T: Ord>(cluster: &Cluster, look: impl Fn(&std::path::Path) -> T) -> T {
    let mut agreed = None;
    wait_until("the copies to be equal", || {
        let mut all: BTreeSet<T> = sockets(cluster).iter().map(|at| look(at)).collect();
        agreed = all.pop_first();
        all.is_empty()
    });
    agreed.unwrap()
}

/// The values of all keys, with memcached's own numbers of changes: these tell their order.
fn contents(socket: &std::path::Path, keys: &[String]) -> Vec<String> {
    let mut client = Client::past(socket);
    client.say(&format!("gets {}\r\n", keys.join(" ")));
    client.lines_to("END")
}

#[test]
fn memcached_with_threads_has_every_acknowledged_write_at_every_copy() {
    a_cache_has_every_acknowledged_write("memcached");
    a_cache_has_every_acknowledged_write("waits");
}

fn a_cache_has_every_acknowledged_write(rest: &str) {
    let mut cluster = Cluster::start_with(&["--replicate", MEMCACHED, "--program-rest", rest]);
    assert_eq!(Client::of(&cluster, 1).ask("set n 0 0 1\r\n0\r\n"), "STORED");
    let is_over = AtomicBool::new(false);
    let stored = Mutex::new(BTreeMap::new());
    let n_counted: u64 = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let clients = [1, 1, 1, 1].map(|id| Client::of(&cluster, id));
        let writers = clients.into_iter().enumerate().map(|(writer, mut client)| {
            let (is_over, stored) = (&is_over, &stored);
            scope.spawn(move || {
                let mut n = 0u64;
                while !is_over.load(Ordering::Relaxed) && n < WRITES_MAX {
                    let (key, value) = (format!("k{writer}-{}", n % 50), format!("{n:08}"));
                    let said = client.ask(&format!("set {key} 0 0 8\r\n{value}\r\n"));
                    assert_eq!(said, "STORED");
                    stored.lock().unwrap().insert(key, value);
                    client.ask("incr n 1\r\n").parse::<u64>().unwrap();
                    n += 1;
                }
                n
            })
        });
        let writers: Vec<_> = writers.collect();
        kill_in_turn(&cluster, &[2, 3, 2], |id| {
            Client::of(&cluster, id).hears("get n\r\n", "VALUE n")
        });
        drop(ends);
        writers.into_iter().map(|writer| writer.join().unwrap()).sum()
    });
    wait_until("the copies to be level", || are_level(&cluster));
    let stored = stored.into_inner().unwrap();
    let mut keys: Vec<String> = stored.keys().cloned().collect();
    keys.push("n".to_owned());
    let lines = agreed(&cluster, |at| contents(at, &keys));
    for (key, value) in &stored {
        let at = lines.iter().position(|line| line.starts_with(&format!("VALUE {key} ")));
        assert_eq!(&lines[at.expect("an acknowledged write") + 1], value, "{key}");
    }
    assert_eq!(lines.last().unwrap(), &n_counted.to_string(), "each was executed once");
    println!("{n_counted} increments");
    assert_eq!(cluster.stop(), Some(0));
}

/// The jobs that are there, by number. (A copy shows a job whose body it has not read yet, with
/// bytes of its own choice and no end of a line: the length says what comes.)
pub(crate) fn jobs(socket: &std::path::Path, n_max: u64) -> BTreeMap<u64, String> {
    let mut client = Client::past(socket);
    let mut jobs = BTreeMap::new();
    for id in 1..=n_max {
        let said = client.ask(&format!("peek {id}\r\n"));
        if let Some(of) = said.strip_prefix("FOUND ") {
            let len: usize = of.split(' ').nth(1).unwrap().parse().unwrap();
            jobs.insert(id, client.bytes(len));
            client.bytes(2);
        }
    }
    jobs
}

fn a_queue_keeps_every_acknowledged_job(flags: &[&str]) {
    let mut cluster = Cluster::start_with(&[&["--replicate", BEANSTALKD], flags].concat());
    let is_over = AtomicBool::new(false);
    let (put, taken) = (Mutex::new(BTreeMap::new()), Mutex::new(BTreeSet::new()));
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        for producer in 0..3 {
            let mut client = Client::of(&cluster, 1);
            let (is_over, put) = (&is_over, &put);
            scope.spawn(move || {
                for n in 0..WRITES_MAX {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let body = format!("{producer}-{n:06}");
                    // One of several words is a request that comes in pieces.
                    client.say(&format!("put 0 0 3600 {}\r\n", body.len()));
                    let said = client.ask(&format!("{body}\r\n"));
                    let id: u64 = said.strip_prefix("INSERTED ").unwrap().parse().unwrap();
                    assert_eq!(put.lock().unwrap().insert(id, body), None, "{id} is new");
                }
            });
        }
        let mut client = Client::of(&cluster, 1);
        let (is_over, taken) = (&is_over, &taken);
        scope.spawn(move || {
            for _ in 0..2 * WRITES_MAX {
                if is_over.load(Ordering::Relaxed) {
                    return;
                }
                let said = client.ask("reserve-with-timeout 0\r\n");
                if let Some(of) = said.strip_prefix("RESERVED ") {
                    let id: u64 = of.split(' ').next().unwrap().parse().unwrap();
                    client.line();
                    assert_eq!(client.ask(&format!("delete {id}\r\n")), "DELETED");
                    assert!(taken.lock().unwrap().insert(id), "{id} is taken once");
                }
            }
        });
        kill_in_turn(&cluster, &[2, 3], |id| {
            Client::of(&cluster, id).hears("use other\r\n", "USING other\r\n")
        });
        drop(ends);
    });
    let (put, taken) = (put.into_inner().unwrap(), taken.into_inner().unwrap());
    wait_until("the copies to be level", || are_level(&cluster));
    let n_max = *put.keys().next_back().unwrap();
    let expected: BTreeMap<_, _> = put.into_iter().filter(|(id, _)| !taken.contains(id)).collect();
    assert_eq!(agreed(&cluster, |at| jobs(at, n_max)), expected);
    println!("{n_max} jobs, {} taken", taken.len());
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn beanstalkd_keeps_every_acknowledged_job() {
    a_queue_keeps_every_acknowledged_job(&[]);
}

#[test]
fn beanstalkd_by_the_turn_keeps_every_acknowledged_job() {
    a_queue_keeps_every_acknowledged_job(&["--program-order", "loop"]);
}

/// The next line that is no question of the server's whether its client is there, which is
/// answered.
fn past_pings(client: &mut Client<TcpStream>) -> String {
    let mut line = client.line();
    while line == "PING" {
        client.say("PONG\r\n");
        line = client.line();
    }
    line
}

/// A program in Go loads no library, makes its system calls itself, and listens at a port. Its
/// server's name is drawn, so answers are not compared.
#[test]
fn a_subscriber_of_nats_hears_each_acknowledged_message_once() {
    let command = "/usr/sbin/nats-server -a 127.0.0.1 -p {port}";
    let how = ["--replicate", command, "--program-order", "relaxed", "--program-compare", "0"];
    let mut cluster = Cluster::start_with(&how);
    let connect = |port: u16| {
        let mut client = Client::at(port);
        assert!(client.line().starts_with("INFO "));
        client.say("CONNECT {\"verbose\":false}\r\n");
        client
    };
    let port = cluster.port_of(1);
    let mut hears = connect(port);
    assert_eq!(hears.ask("SUB news 1\r\nPING\r\n"), "PONG");
    let is_over = AtomicBool::new(false);
    let n_said = std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        let speaker = scope.spawn(|| {
            let mut client = connect(port);
            let mut n = 0;
            while n < WRITES_MAX && !is_over.load(Ordering::Relaxed) {
                client.say(&format!("PUB news 6\r\n{n:06}\r\nPING\r\n"));
                assert_eq!(past_pings(&mut client), "PONG");
                n += 1;
            }
            n
        });
        kill_in_turn(&cluster, &[2, 3], |id| Client::of(&cluster, id).hears("PING\r\n", "INFO "));
        drop(ends);
        speaker.join().unwrap()
    });
    assert!(n_said > 0);
    for n in 0..n_said {
        assert_eq!(past_pings(&mut hears), "MSG news 1 6");
        assert_eq!(hears.line(), format!("{n:06}"));
    }
    hears.say("PING\r\n");
    assert_eq!(past_pings(&mut hears), "PONG", "nothing twice");
    assert_eq!(cluster.stop(), Some(0));
}

/// Clients of all members at once, with requests of several commands each: what a turn of Redis's
/// loop finds decides in which order they are executed.
#[test]
fn redis_by_the_turn_does_the_same_at_every_copy() {
    does_the_same_by_the_turn(&[]);
}

/// The same, of turns that are over when each request has its reply.
#[test]
fn redis_by_the_turn_and_its_replies_does_the_same_at_every_copy() {
    does_the_same_by_the_turn(&["--program-rest", "resp"]);
}

fn does_the_same_by_the_turn(rest: &[&str]) {
    let order = ["--replicate", REDIS, "--program-order", "loop"];
    let mut cluster = Cluster::start_with(&[&order[..], rest].concat());
    std::thread::scope(|scope| {
        for writer in 0..6u16 {
            let mut connection = cluster.connect(writer % 3 + 1);
            scope.spawn(move || {
                for n in 0..30 {
                    let value = format!("{writer}-{n}");
                    let said: redis::RedisResult<()> = redis::pipe()
                        .rpush("list", &value)
                        .ignore()
                        .append("text", &value)
                        .ignore()
                        .rpush("list", "x".repeat(usize::from(writer) * 700))
                        .ignore()
                        .query(&mut connection);
                    if said.is_err() {
                        assert_eq!(writer % 3, 2, "a survivor's client goes on");
                        return;
                    }
                }
            });
        }
        kill_in_turn(&cluster, &[3], |id| cluster.cli(id, &["PING"]) == "PONG");
    });
    let n: usize = cluster.connect(2).llen("list").unwrap();
    assert!(n >= 4 * 60, "what was answered is there: {n}");
    wait_until("the copies to be equal", || are_level(&cluster) && digests(&cluster).len() == 1);
    assert_eq!(cluster.stop(), Some(0));
}

/// The names that a program makes up are the same at all copies, and so is the order of its tables.
#[test]
fn what_redis_draws_is_the_same_at_every_copy() {
    // Redis moves the keys of a table that grows as time passes, and a key that comes meanwhile
    // lies before or behind them. So all come at once.
    let draws = |flags: &[&str], expected: [usize; 2]| {
        let mut cluster = Cluster::start_with(&[&["--replicate", REDIS], flags].concat());
        let pairs: Vec<String> = (0..50).flat_map(|n| [format!("key-{n}"), "x".into()]).collect();
        let pairs: Vec<&str> = pairs.iter().map(String::as_str).collect();
        assert_eq!(cluster.cli(1, &[&["MSET"], &pairs[..]].concat()), "OK");
        wait_until("the copies to be level", || are_level(&cluster));
        wait_until("what copies draw", || {
            let n_said = |words: &[&str]| all_say(&cluster, words).len();
            [n_said(&["ACL", "GENPASS"]), n_said(&["KEYS", "*"])] == expected
        });
        assert_eq!(cluster.stop(), Some(0));
    };
    draws(&[], [1, 1]);
    draws(&["--program-chance", "kernel"], [3, 3]);
}

/// A copy reaches no network, and writes nowhere but in its place; its member reaches it.
#[test]
fn a_copy_is_confined_where_the_host_allows_it() {
    let genesis = tempfile::tempdir().unwrap();
    // (A copy may write below these two. The repository may be there.)
    let is_shared = |path: &String| path.starts_with("/tmp") || path.starts_with("/var/tmp");
    let places = [env!("CARGO_MANIFEST_DIR").to_owned(), std::env::var("HOME").unwrap_or_default()];
    let place = places.into_iter().find(|path| !path.is_empty() && !is_shared(path));
    let outside = tempfile::tempdir_in(place.expect("a place of its own for HOME")).unwrap();
    let file = outside.path().join("file");
    let script = format!(
        "cat /proc/net/dev > net; cat /proc/self/personality > addresses; echo \"$TMPDIR\" > own; \
         echo x > \"$TMPDIR/file\" || echo refused > own; \
         echo x > {} || echo refused > writes; exec beanstalkd -l unix:$1",
        file.display()
    );
    std::fs::write(genesis.path().join("start.sh"), script).unwrap();
    let from = genesis.path().to_str().unwrap();
    let command = "sh {dir}/start.sh {socket}";
    let start = |how: &str| {
        let flags = ["--replicate", command, "--genesis", from, "--program-confine", how];
        Cluster::start_with(&flags)
    };
    let found = |cluster: &Cluster, name: &str| {
        let copies = std::fs::read_dir(cluster.directory().join("copy-1")).unwrap();
        let run = copies.flatten().next().unwrap().path();
        std::fs::read_to_string(run.join("dir").join(name)).unwrap_or_default()
    };
    let mut cluster = start("none");
    assert_eq!(found(&cluster, "writes"), "");
    let own = found(&cluster, "own");
    assert!(own.contains("/copy-1/") && own.trim_end().ends_with("/tmp"), "{own}");
    assert!(file.exists());
    assert_eq!(cluster.stop(), Some(0));
    std::fs::remove_file(&file).unwrap();
    let mut cluster = start("best");
    assert_eq!(Client::of(&cluster, 2).ask("use other\r\n"), "USING other");
    if cluster.said().iter().any(|line| line.contains("not confined")) {
        return; // the host does not allow it, and the member says so
    }
    let net = found(&cluster, "net");
    assert!(net.lines().skip(2).all(|line| line.trim_start().starts_with("lo:")), "{net}");
    assert_eq!((found(&cluster, "writes").as_str(), file.exists()), ("refused\n", false));
    assert_ne!(found(&cluster, "own"), "refused\n");
    assert_eq!(found(&cluster, "addresses").trim(), "00040000");
    assert_eq!(cluster.stop(), Some(0));
}

/// Several loops have no turns that copies could share.
#[test]
fn a_program_with_several_loops_is_not_fed_by_the_turn() {
    let port = free_ports(3).to_string();
    let words = ["up", "--durability", "memory-quorum", "--port", &port];
    let output =
        gregale(&[&words[..], &["--replicate", MEMCACHED, "--program-order", "loop"]].concat());
    let error = String::from_utf8(output.stderr).unwrap();
    assert_eq!(output.status.code(), Some(2), "{error}");
    let told = error.contains("waits for descriptors in");
    assert!(told && error.contains("--program-order serial"), "{error}");
}

/// Without the library, silence tells.
#[test]
fn a_program_that_loads_no_library_is_replicated_by_its_silence() {
    let mut cluster =
        Cluster::start_with(&["--replicate", BEANSTALKD, "--program-attach", "proxy"]);
    let said = Client::of(&cluster, 1).ask("put 0 0 60 3\r\nabc\r\n");
    assert_eq!(said, "INSERTED 1");
    assert_eq!(Client::of(&cluster, 2).ask("put 0 0 60 3\r\ndef\r\n"), "INSERTED 2");
    wait_until("the copies to be level", || are_level(&cluster));
    assert_eq!(agreed(&cluster, |at| jobs(at, 2)).len(), 2);
    assert_eq!(cluster.stop(), Some(0));
}
