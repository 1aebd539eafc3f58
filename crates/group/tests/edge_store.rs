//! The example `edge-store`: its clients speak HTTP, its processes are killed one after the other,
//! and nothing that was answered is lost or there twice.

#[path = "../examples/edge-store/http.rs"]
mod http;
#[path = "../examples/edge-store/keeper.rs"]
mod keeper;
#[path = "../examples/edge-store/member.rs"]
mod member;
#[path = "../examples/edge-store/store.rs"]
mod store;

use keeper::Keeper;
use member::Role;
use std::io::{self, BufRead, BufReader, Read, Write};
use std::net::TcpStream;
use std::process::Command;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::time::{Duration, Instant};

const PATIENCE: Duration = Duration::from_secs(60);
/// The number of additions that each client makes between two deaths.
const N_BETWEEN: u64 = 50;

/// The role of a process that another test of this file started.
const ROLE: &str = "GREGALE_EDGE_STORE=";

/// The entry of the processes that the other tests start; not a test of its own.
#[test]
fn child() {
    let role = std::env::args().find_map(|word| Some(word.strip_prefix(ROLE)?.to_owned()));
    let Some(role) = role else { return };
    let words: Vec<&str> = role.split(' ').collect();
    let [founds, directory, data, seat, port] = words[..] else { panic!("no role: {role}") };
    let (seat, port) = (seat.parse().unwrap(), port.parse().unwrap());
    let (founds, data) = (founds == "true", (data != "-").then(|| data.into()));
    member::run(&Role { founds, directory: directory.into(), data, seat, port }).unwrap();
}

fn arguments(role: &Role) -> Vec<String> {
    let Role { founds, directory, data, seat, port } = role;
    let data = data.as_ref().map_or("-".into(), |data| data.display().to_string());
    let role = format!("{ROLE}{founds} {} {data} {seat} {port}", directory.display());
    let own = ["--exact", "child", "--nocapture", "--test-threads=1", "--skip"];
    own.map(str::to_owned).into_iter().chain([role]).collect()
}

/// A connection to one member.
struct Client(BufReader<TcpStream>);

impl Client {
    fn connect(port: u16) -> io::Result<Client> {
        let stream = TcpStream::connect(("127.0.0.1", port))?;
        stream.set_read_timeout(Some(PATIENCE))?;
        Ok(Client(BufReader::new(stream)))
    }

    fn ask(&mut self, method: &str, target: &str, body: &str) -> io::Result<(u16, String)> {
        self.send(method, target, body)?;
        self.answer()
    }

    fn send(&mut self, method: &str, target: &str, body: &str) -> io::Result<()> {
        let length = body.len();
        let request =
            format!("{method} /{target} HTTP/1.1\r\nContent-Length: {length}\r\n\r\n{body}");
        self.0.get_mut().write_all(request.as_bytes())
    }

    fn answer(&mut self) -> io::Result<(u16, String)> {
        let mut head = String::new();
        while !head.ends_with("\r\n\r\n") {
            if self.0.read_line(&mut head)? == 0 {
                return Err(io::ErrorKind::UnexpectedEof.into());
            }
        }
        let word = |text: &str| head.split(text).nth(1).map(|rest| rest.split_whitespace().next());
        let (Some(Some(status)), Some(Some(length))) = (word("HTTP/1.1"), word("Content-Length:"))
        else {
            panic!("no answer: {head}")
        };
        let mut text = vec![0; length.parse().expect("a length")];
        self.0.read_exact(&mut text)?;
        Ok((status.parse().expect("a status"), String::from_utf8(text).expect("text")))
    }
}

fn ask(port: u16, method: &str, target: &str, body: &str) -> (u16, String) {
    Client::connect(port).and_then(|mut client| client.ask(method, target, body)).unwrap()
}

/// What the clients of one member know: additions that were answered, and those of which they do
/// not know.
#[derive(Default)]
struct Known {
    answered: AtomicU64,
    unknown: AtomicU64,
}

/// Adds one to a number, again and again, at one member; connects again when that has ended.
fn add(port: u16, known: &Known, is_over: &AtomicBool) {
    let mut client = None;
    while !is_over.load(Ordering::SeqCst) {
        let Some(connected) = client.as_mut() else {
            client = Client::connect(port).ok();
            if client.is_none() {
                std::thread::yield_now(); // its member is on the way
            }
            continue;
        };
        match connected.ask("POST", "sum", "1") {
            Ok((200, _)) => known.answered.fetch_add(1, Ordering::SeqCst),
            Ok((503, _)) => continue, // not executed
            Ok((504, _)) | Err(_) => {
                client = None;
                known.unknown.fetch_add(1, Ordering::SeqCst)
            }
            Ok(other) => panic!("{other:?}"),
        };
    }
}

/// Waits until each client but that of the dead member has had some more answers.
fn let_add(known: &[Known], but: Option<usize>) {
    let before: Vec<u64> = known.iter().map(|one| one.answered.load(Ordering::SeqCst)).collect();
    let by = Instant::now() + PATIENCE;
    for at in (0..known.len()).filter(|at| Some(*at) != but) {
        while known[at].answered.load(Ordering::SeqCst) < before[at] + N_BETWEEN {
            assert!(Instant::now() < by, "the client of seat {} gets no answers", at + 1);
            std::thread::yield_now();
        }
    }
}

/// Clients add at each member while `strike` does something to the store. Returns the sums of what
/// was answered, and of what may have been executed.
fn add_meanwhile(store: &mut Keeper, strike: impl FnOnce(&mut Keeper, &[Known])) -> (u64, u64) {
    let ports = store.ports.clone();
    let known: Vec<Known> = ports.iter().map(|_| Known::default()).collect();
    let is_over = AtomicBool::new(false);
    std::thread::scope(|scope| {
        for (port, known) in ports.iter().zip(&known) {
            let is_over = &is_over;
            scope.spawn(move || add(*port, known, is_over));
        }
        let_add(&known, None);
        strike(store, &known);
        is_over.store(true, Ordering::SeqCst);
    });
    let all = |count: fn(&Known) -> &AtomicU64| -> u64 {
        known.iter().map(|one| count(one).load(Ordering::SeqCst)).sum()
    };
    (all(|one| &one.answered), all(|one| &one.unknown))
}

fn kill(store: &Keeper, seats: &[usize]) {
    let pids = seats.iter().map(|seat| store.pid(*seat).to_string());
    let killed = Command::new("kill").arg("-9").args(pids).status();
    assert!(killed.unwrap().success());
}

/// Waits until the keeper has found processes that have ended, and others serve in their place.
fn replace_the_dead(store: &mut Keeper) {
    let by = Instant::now() + PATIENCE;
    while !store.look_after().unwrap() {
        assert!(Instant::now() < by, "the processes have ended");
        std::thread::yield_now();
    }
}

#[test]
fn what_was_answered_is_there_once_whichever_members_were_killed() {
    let mut store = Keeper::start(keeper::free_ports().unwrap(), None, arguments).unwrap();
    let (answered, unknown) = add_meanwhile(&mut store, |store, known| {
        for seat in [1, 3, 2] {
            kill(store, &[seat]);
            let_add(known, Some(seat - 1));
            replace_the_dead(store);
            let_add(known, None);
        }
    });
    for port in &store.ports {
        let (status, sum) = ask(*port, "GET", "sum", "");
        let sum: u64 = sum.parse().unwrap();
        assert_eq!(status, 200);
        assert!((answered..=answered + unknown).contains(&sum), "{answered} + {unknown}: {sum}");
        assert_eq!(ask(*port, "GET", "sum?local", ""), (200, sum.to_string()), "copies are equal");
        assert!(ask(*port, "GET", "", "").1.contains("survives 1 failure"));
    }
}

/// The disk of this machine, and not its memory.
fn data_directory() -> tempfile::TempDir {
    tempfile::Builder::new().prefix("gregale-edge-store").tempdir().unwrap()
}

#[test]
fn a_store_on_disk_has_all_that_was_answered_after_all_its_members_were_killed_at_once() {
    let data = data_directory();
    let place = Some(data.path().to_owned());
    let mut store = Keeper::start(keeper::free_ports().unwrap(), place.clone(), arguments).unwrap();
    let (answered, unknown) = add_meanwhile(&mut store, |store, known| {
        for _ in 0..2 {
            kill(store, &[1, 2, 3]);
            replace_the_dead(store);
            let_add(known, None);
        }
    });
    let sum: u64 = ask(store.ports[0], "GET", "sum", "").1.parse().unwrap();
    assert!((answered..=answered + unknown).contains(&sum), "{answered} + {unknown}: {sum}");
    // Ended in order, and started again by another keeper.
    drop(store);
    let again = Keeper::start(keeper::free_ports().unwrap(), place, arguments).unwrap();
    for port in &again.ports {
        assert_eq!(ask(*port, "GET", "sum", ""), (200, sum.to_string()));
    }
}

fn signal(store: &Keeper, seat: usize, name: &str) {
    let done = Command::new("kill").args([name, &store.pid(seat).to_string()]).status();
    assert!(done.unwrap().success());
}

#[test]
fn a_member_that_was_stopped_answers_nothing_old_by_its_lease() {
    let mut store = Keeper::start(keeper::free_ports().unwrap(), None, arguments).unwrap();
    let [first, .., third] = store.ports[..] else { unreachable!("there are three") };
    let mut sum = 0;
    for _ in 0..3 {
        let mut add = || {
            sum += 1;
            assert_eq!(ask(first, "POST", "sum", "1"), (200, sum.to_string()));
        };
        add();
        let mut reader = Client::connect(third).unwrap();
        assert_eq!(reader.ask("GET", "sum?leased", "").unwrap(), (200, sum_of(first)));
        signal(&store, 3, "-STOP");
        wait_until_out(first, 3);
        add();
        reader.send("GET", "sum?leased", "").unwrap();
        signal(&store, 3, "-CONT");
        match reader.answer() {
            Ok((200, old)) => panic!("{old} of {sum}, by a member that is not in the group"),
            Ok((503 | 504, _)) | Err(_) => {}
            Ok(other) => panic!("{other:?}"),
        }
        replace_the_dead(&mut store);
        assert_eq!(ask(third, "GET", "sum?leased", ""), (200, sum.to_string()));
    }
}

/// Waits until the group is without the member on a seat.
fn wait_until_out(port: u16, seat: usize) {
    let by = Instant::now() + PATIENCE;
    while ask(port, "GET", "", "").1.lines().next().is_some_and(|view| {
        let members = view.split("; ").next().unwrap_or("");
        members.split(' ').any(|word| word == seat.to_string())
    }) {
        assert!(Instant::now() < by, "a member that is stopped is excluded");
        std::thread::yield_now();
    }
}

fn sum_of(port: u16) -> String {
    ask(port, "GET", "sum", "").1
}

/// The time of the last call that a member has executed.
fn latest(port: u16) -> String {
    let (_, text) = ask(port, "GET", "", "");
    text.lines().find_map(|line| line.strip_prefix("at ")).expect("a time").to_owned()
}

#[test]
fn what_a_key_held_is_told_by_every_member_also_after_the_death_of_all() {
    let data = data_directory();
    let place = Some(data.path().to_owned());
    let mut store = Keeper::start(keeper::free_ports().unwrap(), place, arguments).unwrap();
    let first = store.ports[0];
    let mut times = Vec::new();
    for n in 0..40 {
        assert!(ask(first, "PUT", "a", &n.to_string()).0 <= 201);
        times.push(latest(first));
    }
    assert_eq!(ask(first, "DELETE", "a", "").0, 200);
    let tell = |port: u16| -> Vec<_> {
        times.iter().map(|time| ask(port, "GET", &format!("a?at={time}"), "")).collect()
    };
    let told: Vec<_> = (0..40).map(|n| (200, n.to_string())).collect();
    for port in &store.ports {
        assert_eq!((tell(*port), ask(*port, "GET", "a?ago=0", "").0), (told.clone(), 404));
    }
    kill(&store, &[1, 2, 3]);
    replace_the_dead(&mut store);
    for port in &store.ports {
        assert_eq!((tell(*port), ask(*port, "GET", "a", "").0), (told.clone(), 404));
    }
}

#[test]
fn the_front_door_says_what_it_does_not_do() {
    let store = Keeper::start(keeper::free_ports().unwrap(), None, arguments).unwrap();
    let [first, second, ..] = store.ports[..] else { unreachable!("there are three") };
    assert_eq!(ask(first, "PUT", "a", "x").0, 201);
    assert_eq!(ask(second, "PUT", "a", "y").0, 200);
    assert_eq!(ask(first, "GET", "a", ""), (200, "y".into()));
    assert_eq!(ask(first, "POST", "a", "1").0, 409, "it is no number");
    assert_eq!(ask(first, "POST", "b", "z").0, 400);
    assert_eq!(ask(first, "PATCH", "a", "").0, 405);
    assert_eq!(ask(first, "GET", "a?when=1", "").0, 400);
    assert_eq!(ask(first, "PUT", "a", &"x".repeat(http::BODY_BYTES_MAX + 1)).0, 400);
    assert_eq!(ask(first, "GET", "a%20b", "").0, 400);
    assert_eq!((ask(second, "DELETE", "a", "").0, ask(second, "DELETE", "a", "").0), (200, 404));
    assert_eq!(ask(first, "GET", "a", "").0, 404);
    for method in ["PUT", "POST", "DELETE"] {
        assert_eq!(ask(first, method, "", "1").0, 405, "{method} of no key");
    }
    assert_eq!(ask(first, "PUT", "a", "xyz").0, 201);
    for (request, status) in [
        ("PUT /a HTTP/1.1\r\nContent-Length : 1\r\n\r\nx", "400"),
        ("PUT /a HTTP/1.1\r\n Content-Length: 1\r\n\r\nx", "400"),
        ("PUT /a HTTP/1.1\r\nContent-Length: +1\r\n\r\nx", "400"),
        ("PUT /a HTTP/1.1\r\nContent-Length:\r\n\r\nx", "400"),
        ("PUT /a HTTP/1.1\r\nContent-Length: 1\r\nContent-Length: 2\r\n\r\nxx", "400"),
        ("PUT /a HTTP/1.0\r\nContent-Length: 3\r\nContent-Length: 3\r\n\r\nxyz", "200"),
        ("GET /a HTTP/1.1\r\nconnection: x, Close\r\n\r\n", "200"),
        ("GET /a HTTP/1.0\r\n\r\n", "200"),
    ] {
        let answer = until_closed(first, request);
        assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        assert!(answer.contains("\r\nConnection: close\r\n"), "{request}: {answer}");
    }
    let head = until_closed(first, "HEAD /a HTTP/1.1\r\nConnection: close\r\n\r\n");
    let told = "HTTP/1.1 200 OK\r\nContent-Length: 3\r\nConnection: close\r\n\r\n";
    assert_eq!(head, told, "the length, and no body");
}

/// All that a member answers to `request` until it closes the connection.
fn until_closed(port: u16, request: &str) -> String {
    let Client(mut stream) = Client::connect(port).unwrap();
    stream.get_mut().write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}
