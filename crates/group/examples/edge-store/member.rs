//! One process of the store: a member of the group, and its front door.

use super::http::{self, Answer, Request};
use super::store::{Store, StoreHandle};
use group::{CallError, HistoryError, Options, Replica, Time};
use std::io::Read;
use std::net::{Ipv4Addr, TcpListener};
use std::path::PathBuf;
use std::time::Duration;

/// The longest time for leaving in order.
const FAREWELL: Duration = Duration::from_secs(5);
/// What the others wait for after a member is gone, which may answer by its lease.
const LEASE: Duration = Duration::from_millis(300);
/// The longest wait for the end of the membership, after which it is waited for again.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// What a process is told by its parent, in its arguments.
#[derive(Clone, Debug)]
pub(crate) struct Role {
    pub(crate) founds: bool,
    /// The directory of the group's memory.
    pub(crate) directory: PathBuf,
    /// The directory of its log, in a durable store.
    pub(crate) data: Option<PathBuf>,
    pub(crate) seat: usize,
    pub(crate) port: u16,
}

/// Runs the process until its input ends; says `ready` when it serves.
pub(crate) fn run(role: &Role) -> Result<(), Box<dyn std::error::Error>> {
    let mut options = Options::shm("edge-store", "only its members know this", "edge-store 1");
    options.directory = role.directory.join("memory");
    options.seat = Some(role.seat);
    // On a machine with other work a process may wait longer than usual for its turn.
    options.timing.suspect_after = Duration::from_secs(1);
    options.lease = Some(LEASE);
    if let Some(data) = &role.data {
        options = options.durable(role.seat, data);
    }
    let replica = if role.founds {
        Replica::found(&options, Store::default())?
    } else {
        Replica::join(&options)?
    };
    let store = StoreHandle::from(Replica::clone(&replica));
    let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, role.port))?;
    std::thread::spawn(move || {
        for stream in listener.incoming().flatten() {
            let store = store.clone();
            std::thread::spawn(move || http::serve(&stream, |request| answer(&store, request)));
        }
    });
    println!("ready");
    std::thread::spawn({
        let replica = replica.clone();
        move || {
            // A member that the group has lost has no store to serve.
            while replica.wait_end(LOOK_EVERY).is_none() {}
            std::process::exit(1);
        }
    });
    std::io::stdin().read_to_end(&mut Vec::new())?;
    Ok(replica.close(FAREWELL)?)
}

/// The answer to one request.
fn answer(store: &StoreHandle, request: &Request) -> Answer {
    let Request { method, path, query, body, .. } = request;
    if path.is_empty() {
        return match method.as_str() {
            "GET" => overview(store),
            _ => Answer(405, "GET, of the whole store; a path names a key".into()),
        };
    }
    let key = path.clone();
    let answered = match (method.as_str(), query.as_str()) {
        ("GET", "") => store.get_ordered(key).wait().map(found),
        ("GET", "local") => store.get(key).map(found),
        ("GET", "leased") => store.get_leased(key).map(found),
        ("GET", query) => match time(query) {
            Some(then) => store.held(then, key).map(held),
            None => {
                return Answer(
                    400,
                    "GET, with ?local, ?leased, ?at=NANOSECONDS or ?ago=SECONDS".into(),
                );
            }
        },
        ("PUT", "") => store.put(key, body.clone()).wait().map(|is_new| {
            let status = if is_new { 201 } else { 200 };
            Answer(status, String::new())
        }),
        ("DELETE", "") => store.delete(key).wait().map(|was_there| {
            let status = if was_there { 200 } else { 404 };
            Answer(status, String::new())
        }),
        ("POST", "") => match body.trim().parse() {
            Ok(n) => store.add(key, n).wait().map(|sum| match sum {
                Some(sum) => Answer(200, sum.to_string()),
                None => Answer(409, "the key holds no number, or the sum is too large".into()),
            }),
            Err(_) => return Answer(400, "POST adds a number, which is the body".into()),
        },
        _ => return Answer(405, "GET, PUT, DELETE, or POST to add a number".into()),
    };
    answered.unwrap_or_else(|error| {
        // Nothing happened, or it is unknown what did.
        let status = if matches!(error, CallError::NotExecuted(_)) { 503 } else { 504 };
        Answer(status, error.to_string())
    })
}

fn found(value: Option<String>) -> Answer {
    value.map_or_else(|| Answer(404, String::new()), |value| Answer(200, value))
}

fn held(value: Result<Option<String>, HistoryError>) -> Answer {
    value.map_or_else(|pruned| Answer(410, pruned.to_string()), found)
}

/// The time that a question is about: `at=NANOSECONDS` since 1970, or `ago=SECONDS`.
fn time(query: &str) -> Option<Time> {
    match query.split_once('=')? {
        ("at", ns) => ns.parse().ok().map(Time::from_nanos),
        ("ago", seconds) => {
            let span = Duration::try_from_secs_f64(seconds.parse().ok()?).ok()?;
            Some(Time::now().before(span))
        }
        _ => None,
    }
}

fn overview(store: &StoreHandle) -> Answer {
    match store.len() {
        Ok(n_keys) => {
            let (view, time) = (store.view(), store.latest().as_nanos());
            Answer(200, format!("{view}\n{n_keys} keys\nat {time}\n"))
        }
        Err(error) => Answer(503, error.to_string()),
    }
}
