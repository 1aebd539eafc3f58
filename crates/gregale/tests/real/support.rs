//! Clusters for tests: started, watched, and reliably ended.

use std::cell::RefCell;
use std::ffi::OsStr;
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::sync::atomic::{AtomicBool, AtomicU16, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

/// The binary under test.
pub(crate) const GREGALE: &str = env!("CARGO_BIN_EXE_gregale");

/// The longest time for anything that takes milliseconds on an idle machine.
pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

/// A cluster of its own, which is ended when the value is dropped.
pub(crate) struct Cluster {
    name: String,
    /// The user of its processes, where that is not the test's.
    user: Option<&'static str>,
    flags: Vec<String>,
    supervisor: Child,
    lines: Receiver<String>,
    /// The supervisor's messages up to its being ready.
    said: Vec<String>,
    pub(crate) port: u16,
    pub(crate) nodes: u16,
    directory: PathBuf,
    password: Option<String>,
}

impl Cluster {
    /// Three members over shared memory.
    pub(crate) fn start() -> Cluster {
        Cluster::start_with(&[])
    }

    /// A cluster with more flags.
    pub(crate) fn start_with(flags: &[&str]) -> Cluster {
        Cluster::begin(None, flags)
    }

    /// A cluster whose processes are `user`'s, if the test runs as root.
    pub(crate) fn start_as(user: &'static str, flags: &[&str]) -> Cluster {
        Cluster::begin(Some(user), flags)
    }

    fn begin(user: Option<&'static str>, flags: &[&str]) -> Cluster {
        Cluster::begin_with(user, flags, PATIENCE, |_| {})
    }

    /// A cluster that has to be ready `within` this time. Calls `launched` with its port when its
    /// supervisor runs.
    pub(crate) fn begin_with(
        user: Option<&'static str>,
        flags: &[&str],
        within: Duration,
        launched: impl Fn(u16),
    ) -> Cluster {
        let value_of = |flag: &str| {
            flags.iter().position(|word| *word == flag).map(|at| flags[at + 1].to_owned())
        };
        let number = |flag| value_of(flag).map(|text| text.parse().unwrap());
        let nodes: u16 = number("--seats").or(number("--nodes")).unwrap_or(3);
        // Another process may take a free port before `up` does: then other ports are tried.
        for _ in 0..5 {
            let port = free_ports(nodes);
            let name = format!("test{}", std::process::id());
            let mut all: Vec<&str> = memory_unless_told(flags).to_vec();
            all.extend_from_slice(flags);
            let flags: Vec<String> = all.into_iter().map(str::to_owned).collect();
            let (supervisor, lines) = launch(user, &name, port, &flags);
            let base = value_of("--directory").unwrap_or("/dev/shm".to_owned());
            let directory = PathBuf::from(format!("{base}/gregale-{name}-{port}"));
            let password = value_of("--requirepass");
            let said = Vec::new();
            let mut cluster = Cluster {
                name,
                user,
                flags,
                supervisor,
                lines,
                said,
                port,
                nodes,
                directory,
                password,
            };
            launched(port);
            if cluster.try_wait_for("ready", within) {
                return cluster;
            }
            assert_eq!(
                cluster.supervisor.wait().unwrap().code(),
                Some(2),
                "a cluster that does not come up says why"
            );
        }
        panic!("no cluster came up; its reasons stand above");
    }

    /// Sends SIGKILL to the supervisor and to all members, which are `pids`, as a power cut ends
    /// processes; returns when none of them is left. `killed` is called when all have got the
    /// signal. (The members are not asked for their pids: members whose disk has failed answer
    /// nothing.)
    pub(crate) fn kill_all(&mut self, pids: &[u32], killed: impl FnOnce()) {
        // The supervisor must neither restart a member nor, by its death, ask one to end in order.
        signal(self.supervisor.id(), "STOP");
        pids.iter().for_each(|pid| signal(*pid, "KILL"));
        signal(self.supervisor.id(), "KILL");
        killed();
        self.wait_for_end();
        wait_until("all processes to end", || !pids.iter().any(|pid| is_alive(*pid)));
    }

    /// Runs the same command again, on the same ports.
    pub(crate) fn start_again(&mut self) {
        let end = Instant::now() + PATIENCE;
        loop {
            self.said.clear();
            (self.supervisor, self.lines) = launch(self.user, &self.name, self.port, &self.flags);
            if self.try_wait_for("ready", PATIENCE) {
                return;
            }
            // A port may be taken for a moment; the message is shown above otherwise.
            assert!(Instant::now() < end, "the cluster does not come up again");
        }
    }

    /// Waits for a line of the supervisor that contains `text`.
    pub(crate) fn wait_for(&mut self, text: &str) -> String {
        self.wait_for_one(&[text])
    }

    /// Waits for a line of the supervisor that contains one of `texts`.
    pub(crate) fn wait_for_one(&mut self, texts: &[&str]) -> String {
        let end = Instant::now() + PATIENCE;
        let mut heard = Vec::new();
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if texts.iter().any(|text| line.contains(text)) => return line,
                Ok(line) => heard.push(line),
                Err(error) => panic!("no line with {texts:?} among {heard:#?}: {error}"),
            }
        }
    }

    /// The supervisor's messages before it was ready.
    pub(crate) fn said(&self) -> Vec<String> {
        self.said.clone()
    }

    /// Its messages since then, each once.
    pub(crate) fn heard(&self) -> Vec<String> {
        self.lines.try_iter().collect()
    }

    fn try_wait_for(&mut self, text: &str, within: Duration) -> bool {
        let end = Instant::now() + within;
        loop {
            let left = end.saturating_duration_since(Instant::now());
            match self.lines.recv_timeout(left) {
                Ok(line) if line == text => return true,
                Ok(line) => self.said.push(line),
                Err(RecvTimeoutError::Disconnected) => return false,
                Err(RecvTimeoutError::Timeout) => panic!("the cluster is not ready in time"),
            }
        }
    }

    /// The client port of member `id`.
    pub(crate) fn port_of(&self, id: u16) -> u16 {
        self.port + id - 1
    }

    /// A connection to member `id`. Every member answers within its own patience. (A time-out of
    /// the socket would make a read end with EINTR whenever a child of another test ends while that
    /// test is starting one.)
    pub(crate) fn connect(&self, id: u16) -> redis::Connection {
        let port = self.port_of(id);
        let password = self.password.as_ref().map_or(String::new(), |word| format!(":{word}@"));
        let client = redis::Client::open(format!("redis://{password}127.0.0.1:{port}")).unwrap();
        client.get_connection_with_timeout(PATIENCE).unwrap()
    }

    /// Runs `redis-cli` at member `id`; returns its output without the line break.
    pub(crate) fn cli(&self, id: u16, words: &[&str]) -> String {
        let port = self.port_of(id).to_string();
        let output = Command::new("redis-cli")
            .args(["-p", &port])
            .args(words)
            .output()
            .expect("redis-cli is needed: apt-get install redis-tools");
        String::from_utf8(output.stdout).unwrap().trim_end().to_owned()
    }

    /// The output of `gregale status` at member `id`, once it answers: on a busy machine a member
    /// may take longer than the command waits.
    pub(crate) fn status_at(&self, id: u16) -> serde_json::Value {
        let address = format!("127.0.0.1:{}", self.port_of(id));
        let mut words = vec!["status", "--connect", &address, "--format", "json"];
        if let Some(password) = &self.password {
            words.extend(["--password", password]);
        }
        let end = Instant::now() + PATIENCE;
        loop {
            let output = gregale(&words);
            // (1: the data is lost.)
            if matches!(output.status.code(), Some(0 | 1)) {
                return serde_json::from_slice(&output.stdout).unwrap();
            }
            let error = String::from_utf8_lossy(&output.stderr);
            assert!(Instant::now() < end, "no status at member {id}: {error}");
        }
    }

    /// A metric of member `id`, without the prefix of its name.
    pub(crate) fn metric(&self, id: u16, name: &str) -> f64 {
        let config = std::fs::read_to_string(self.directory.join(format!("member-{id}.toml")));
        let config: toml::Value = toml::from_str(&config.unwrap()).unwrap();
        let control = config["members"][usize::from(id) - 1]["control"].as_str().unwrap();
        let mut stream = TcpStream::connect(control).unwrap();
        stream.set_read_timeout(Some(PATIENCE)).unwrap();
        stream.write_all(b"GET /metrics HTTP/1.0\r\n\r\n").unwrap();
        let mut text = String::new();
        stream.read_to_string(&mut text).unwrap();
        assert!(text.starts_with("HTTP/1.0 200 OK\r\n"), "{text}");
        let line = text.lines().find_map(|line| line.strip_prefix(&format!("gregale_{name} ")));
        line.unwrap_or_else(|| panic!("no {name}")).parse().unwrap()
    }

    /// Runs `gregale member` at member `at`.
    pub(crate) fn member(&self, at: u16, words: &[&str]) -> Output {
        let address = format!("127.0.0.1:{}", self.port_of(at));
        gregale(&[&["member"], words, &["--connect", &address]].concat())
    }

    /// The part and incarnation of member `id`, according to `at`.
    pub(crate) fn seat(&self, at: u16, id: u16) -> (String, u64) {
        let status = self.status_at(at);
        let member = &status["members"][usize::from(id) - 1];
        (member["membership"].as_str().unwrap().to_owned(), member["incarnation"].as_u64().unwrap())
    }

    /// Waits until member `id` votes as an incarnation above `before`, and returns that: the member
    /// that is asked may be behind.
    pub(crate) fn votes_above(&self, at: u16, id: u16, before: u64) -> u64 {
        let mut found = 0;
        wait_until("a new incarnation to vote", || {
            let (membership, incarnation) = self.seat(at, id);
            found = incarnation;
            membership == "voter" && incarnation > before
        });
        found
    }

    /// Waits until member `at` reports that member `id` has one of `roles`.
    pub(crate) fn wait_for_role(&self, at: u16, id: u16, roles: &[&str]) {
        wait_until(&format!("member {id} to be {roles:?}"), || {
            roles.contains(&role(&self.status_at(at), id).as_str())
        });
    }

    /// Waits until member `at` itself takes member `id` for dead. (`status` asks every member
    /// afresh, and may know it sooner than a leader, which acts by its own detector.)
    pub(crate) fn wait_until_missed(&self, at: u16, id: u16) {
        let name = format!("gregale_member{id}:");
        wait_until(&format!("member {at} to miss member {id}"), || {
            let info = self.cli(at, &["INFO", "gregale"]);
            info.lines().any(|line| line.starts_with(&name) && line.contains(",state=down,"))
        });
    }

    /// The leader's id.
    pub(crate) fn leader(&self) -> u16 {
        self.leader_seen_by(1)
    }

    /// The leader's id, according to member `at`.
    pub(crate) fn leader_seen_by(&self, at: u16) -> u16 {
        let mut found = 0;
        wait_until("a leader", || {
            let status = self.status_at(at);
            let leads = (1..=self.nodes).find(|id| role(&status, *id) == "leader");
            found = leads.unwrap_or(0);
            leads.is_some()
        });
        found
    }

    /// The process of member `id`.
    pub(crate) fn pid_of(&self, id: u16) -> u32 {
        let other = if id == 1 { 2.min(self.nodes) } else { 1 };
        let status = self.status_at(other);
        status["members"][usize::from(id) - 1]["pid"].as_u64().unwrap() as u32
    }

    /// The supervisor's process.
    pub(crate) fn pid(&self) -> u32 {
        self.supervisor.id()
    }

    /// The directory of its memory.
    pub(crate) fn directory(&self) -> &PathBuf {
        &self.directory
    }

    /// Sends SIGTERM to the supervisor; returns its exit code.
    pub(crate) fn stop(&mut self) -> Option<i32> {
        signal(self.supervisor.id(), "TERM");
        self.wait_for_end()
    }

    /// The supervisor's exit code.
    pub(crate) fn wait_for_end(&mut self) -> Option<i32> {
        let mut code = None;
        wait_until("the supervisor to end", || match self.supervisor.try_wait().unwrap() {
            Some(status) => {
                code = status.code();
                true
            }
            None => false,
        });
        code
    }
}

impl Drop for Cluster {
    fn drop(&mut self) {
        if let Ok(None) = self.supervisor.try_wait() {
            signal(self.supervisor.id(), "TERM");
            let end = Instant::now() + PATIENCE;
            while matches!(self.supervisor.try_wait(), Ok(None)) && Instant::now() < end {
                std::thread::sleep(Duration::from_millis(5));
            }
            let _ = self.supervisor.kill();
            let _ = self.supervisor.wait();
        }
        if std::thread::panicking() {
            self.said.extend(self.heard());
            self.said.iter().for_each(|line| println!("{line}"));
        } else {
            assert!(!self.directory.exists(), "{} is left behind", self.directory.display());
        }
        let _ = std::fs::remove_dir_all(&self.directory);
    }
}

/// The library that sets a program's wall clock by a file.
const LIBFAKETIME: &str = "/usr/lib/x86_64-linux-gnu/faketime/libfaketimeMT.so.1";

/// A wall clock that a test sets. The monotonic clocks stay as they are.
pub(crate) struct FakeClock(PathBuf);

impl FakeClock {
    /// A clock that is right, in a file below `directory`.
    pub(crate) fn new(directory: &Path) -> FakeClock {
        assert!(Path::new(LIBFAKETIME).exists(), "libfaketime is needed: apt-get install faketime");
        let clock = FakeClock(directory.join("wall-clock"));
        clock.set(0);
        clock
    }

    /// Seconds ahead of the right time; programs see it within a second.
    pub(crate) fn set(&self, ahead_s: i64) {
        // Renamed into its place: no program reads half a file.
        let next = self.0.with_extension("next");
        std::fs::write(&next, format!("{ahead_s:+}s")).unwrap();
        std::fs::rename(&next, &self.0).unwrap();
    }

    /// The clusters that `start` starts, and their members, use this clock.
    pub(crate) fn for_all<T>(&self, start: impl FnOnce() -> T) -> T {
        let variables = [
            ("LD_PRELOAD", LIBFAKETIME),
            ("FAKETIME_TIMESTAMP_FILE", self.0.to_str().expect("a plain path")),
            ("FAKETIME_CACHE_DURATION", "1"),
            ("FAKETIME_DONT_FAKE_MONOTONIC", "1"),
        ];
        let owned = variables.map(|(name, value)| (name.to_owned(), value.to_owned()));
        let before = ENVIRONMENT.replace(owned.to_vec());
        let started = start();
        ENVIRONMENT.set(before);
        started
    }
}

std::thread_local! {
    /// The environment of the clusters that this thread starts.
    static ENVIRONMENT: RefCell<Vec<(String, String)>> = const { RefCell::new(Vec::new()) };
    /// The program of the clusters that this thread starts.
    static PROGRAM: RefCell<PathBuf> = RefCell::new(GREGALE.into());
}

/// Starts something of the program in this file.
pub(crate) fn with_program<T>(program: &Path, start: impl FnOnce() -> T) -> T {
    let before = PROGRAM.replace(program.to_owned());
    let started = start();
    PROGRAM.set(before);
    started
}

/// Starts something of the program under another name, whose file is replaced afterwards; returns
/// its directory too.
pub(crate) fn with_replaced_program<T>(start: impl FnOnce() -> T) -> (T, tempfile::TempDir) {
    let built = Path::new(GREGALE);
    let place = tempfile::tempdir_in(built.parent().expect("a directory")).unwrap();
    let program = place.path().join("gregale");
    // (A copy is refused as busy if another test starts a process while it is written.)
    std::fs::hard_link(built, &program).unwrap();
    let started = with_program(&program, start);
    std::fs::remove_file(&program).unwrap();
    std::fs::write(&program, "another version").unwrap();
    (started, place)
}

/// A command as `user`, if the test runs as root; else the test's user is as good.
pub(crate) fn as_user(user: &str, program: impl AsRef<OsStr>) -> Command {
    if !rustix::process::geteuid().is_root() {
        return Command::new(program);
    }
    let mut command = Command::new("setpriv");
    command.args(["--reuid", user, "--regid", user, "--clear-groups"]).arg(program);
    command
}

fn launch(
    user: Option<&str>,
    name: &str,
    port: u16,
    flags: &[String],
) -> (Child, Receiver<String>) {
    let program = PROGRAM.with_borrow(Clone::clone);
    let mut supervisor = user
        .map_or_else(|| Command::new(&program), |user| as_user(user, &program))
        .args(["up", "--cluster", name, "--port", &port.to_string()])
        .args(flags)
        .envs(ENVIRONMENT.with_borrow(Clone::clone))
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::inherit())
        .spawn()
        .unwrap();
    let stdout = supervisor.stdout.take().unwrap();
    let (sender, lines) = channel();
    std::thread::spawn(move || {
        for line in BufReader::new(stdout).lines().map_while(Result::ok) {
            if sender.send(line).is_err() {
                break;
            }
        }
    });
    (supervisor, lines)
}

/// Tests keep nothing on disk except where the disk is their subject.
pub(crate) fn memory_unless_told(flags: &[&str]) -> &'static [&'static str] {
    let told = flags.contains(&"--durability") || flags.contains(&"--data");
    if told { &[] } else { &["--durability", "memory-quorum"] }
}

/// A cluster that keeps its state below `data`.
pub(crate) fn start_on_disk(data: &Path, flags: &[&str]) -> Cluster {
    let path = data.to_str().expect("a plain path");
    let mut all = vec!["--durability", "disk-quorum", "--data", path];
    all.extend_from_slice(flags);
    Cluster::start_with(&all)
}

/// A member's role in a status.
pub(crate) fn role(status: &serde_json::Value, id: u16) -> String {
    status["members"][usize::from(id) - 1]["role"].as_str().unwrap().to_owned()
}

/// Repeats a write that may be executed twice until its outcome is known: on a busy machine the
/// service may give an answer up.
pub(crate) fn until_known<T>(mut write: impl FnMut() -> redis::RedisResult<T>) -> T {
    let end = Instant::now() + PATIENCE;
    loop {
        match write() {
            Err(error) if error.to_string().contains("UNKNOWN") && Instant::now() < end => {}
            answer => return answer.unwrap(),
        }
    }
}

/// Polls a condition until it holds; fails after [`PATIENCE`].
pub(crate) fn wait_until(what: &str, holds: impl FnMut() -> bool) {
    wait_within(PATIENCE, what, holds);
}

/// Polls a condition with a patience of its own.
pub(crate) fn wait_within(patience: Duration, what: &str, mut holds: impl FnMut() -> bool) {
    let end = Instant::now() + patience;
    while !holds() {
        assert!(Instant::now() < end, "waited in vain for {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Ends the loops of clients however its owner ends: a panic there must not leave them running.
pub(crate) struct Ends<'a>(pub(crate) &'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Sends a signal.
pub(crate) fn signal(pid: u32, name: &str) {
    let sent = Command::new("kill").args([&format!("-{name}"), &pid.to_string()]).status();
    assert!(sent.unwrap().success(), "kill -{name} {pid}");
}

/// Whether a process exists and is not a zombie.
pub(crate) fn is_alive(pid: u32) -> bool {
    std::fs::read_to_string(format!("/proc/{pid}/stat"))
        .is_ok_and(|stat| !stat.rsplit(") ").next().unwrap_or("Z").starts_with('Z'))
}

/// The process with an argument that ends with `text`.
pub(crate) fn process_with(text: &str) -> Option<u32> {
    let mut entries = std::fs::read_dir("/proc").unwrap();
    entries.find_map(|entry| {
        let pid: u32 = entry.ok()?.file_name().to_str()?.parse().ok()?;
        let line = std::fs::read(format!("/proc/{pid}/cmdline")).ok()?;
        let mut words = line.split(|byte| *byte == 0);
        words.any(|word| word.ends_with(text.as_bytes())).then_some(pid)
    })
}

/// The first of `n` consecutive ports on which no process listens.
pub(crate) fn free_ports(n: u16) -> u16 {
    // Below the range from which the kernel takes ports by itself.
    static NEXT: AtomicU16 = AtomicU16::new(0);
    loop {
        let block = NEXT.fetch_add(1, Ordering::Relaxed);
        let start = 10_000 + (std::process::id() % 97) as u16 * 200 + (block * 8) % 200;
        let free = |port| TcpListener::bind(SocketAddr::from((Ipv4Addr::LOCALHOST, port))).is_ok();
        if (start..start + n).all(free) {
            return start;
        }
    }
}

/// Runs the binary to its end.
pub(crate) fn gregale(words: &[&str]) -> Output {
    Command::new(GREGALE).args(words).stdin(Stdio::null()).output().unwrap()
}

/// Runs the binary, which must refuse with exit code 2 and one line on standard error; returns the
/// line.
pub(crate) fn refused(output: &Output) -> String {
    let text = String::from_utf8(output.stderr.clone()).unwrap();
    assert_eq!(output.status.code(), Some(2), "{text}");
    assert_eq!(text.trim_end().lines().count(), 1, "{text}");
    text.trim_end().to_owned()
}
