//! A trial of a program: it is started as a copy is, a few connections are made, and what it asks
//! of the kernel is watched (`trace`). What a trial does not show is not said to be absent.
//!
//! - R1 nothing is left behind: the program and all that it began end with the trial, and its
//!   directory is removed. By `Scratch`, and `trace`, T1.

mod trace;

use super::copy::Copy;
use super::place::Place;
use crate::config::{Attach, Program, RestBy};
use base::Incarnation;
use console::{Failure, Outcome};
use nix::unistd::Pid;
use replicate::program::{Connected, Program as _, Received, Repose};
use runtime::Poller;
use serde::Serialize;
use std::fs::DirBuilder;
use std::os::unix::fs::DirBuilderExt;
use std::path::{Path, PathBuf};
use std::sync::atomic::Ordering;
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};
use trace::{Kind, Seen, Shared, Tracer};

/// The name of our library in a copy's directory.
const LIBRARY: &str = "preload.so";
/// The connections that are made at once.
const CONNECTIONS: u64 = 3;
/// The time for the program to answer a request, and to rest after it.
const ANSWERS_WITHIN: Duration = Duration::from_secs(10);
/// The interval at which the program is looked at.
const LOOK_EVERY: Duration = Duration::from_millis(5);
/// The time for which a program is watched after its last answer.
const WATCHED_FOR: Duration = Duration::from_millis(300);
/// The bytes of an answer that are read at once.
const ANSWER_BYTES: usize = 4096;

/// What a trial has shown.
#[derive(Debug, Default, PartialEq, Eq, Serialize)]
pub(super) struct Trial {
    pub(super) outcome: String,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    pub(super) why_not: Vec<String>,
    pub(super) facts: Vec<String>,
    pub(super) warnings: Vec<String>,
}

/// What the connections have met.
#[derive(Clone, Debug, Default)]
struct Served {
    n_connected: u64,
    n_answered: u64,
    is_asked: bool,
    has_loaded: bool,
    rests: bool,
    refusal: Option<String>,
}

/// The directory of a trial (R1).
struct Scratch(PathBuf);

impl Scratch {
    fn make() -> Outcome<Scratch> {
        let path = std::env::temp_dir().join(format!("gregale-trial-{}", std::process::id()));
        DirBuilder::new()
            .mode(0o700)
            .create(&path)
            .map_err(|error| Failure::os(format_args!("make {}", path.display()), error))?;
        Ok(Scratch(path))
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Tries `program`. Each connection sends `request`, if there is one.
///
/// # Errors
/// The program cannot be started or traced.
pub(super) fn try_out(program: &Program, request: Option<&[u8]>) -> Outcome<Trial> {
    let scratch = Scratch::make()?;
    let place = Place::within(&scratch.0, &scratch.0, 1, program, Incarnation::FIRST)?;
    let (run, output) = (place.run().to_owned(), place.output());
    let mut copy = Copy::new(program, place, 1)?.traced();
    let poller = Poller::new().map_err(|error| Failure::os("make an epoll set", error))?;
    copy.register(&poller, 0, 1).map_err(|error| Failure::os("watch a descriptor", error))?;
    let mut launch = copy.command()?;
    let shared = Shared::default();
    let (sender, started) = channel();
    let (seen, served) = std::thread::scope(|scope| {
        // The thread that has started the program alone may trace it.
        let trace = || {
            let child = launch.spawn();
            let first = child.as_ref().map_or(0, |child| child.id() as i32);
            let _ = sender.send(child);
            Tracer::new(&shared).follow(Pid::from_raw(first))
        };
        let tracing = scope.spawn(trace);
        let child = started.recv().map_err(|_| Failure::new("the trial has failed"))?;
        copy.adopt(child.map_err(|error| copy.not_started(error))?)?;
        let served = serve(&mut copy, program, request, &shared);
        shared.is_over.store(true, Ordering::Release);
        copy.kill();
        let seen = tracing.join().map_err(|_| Failure::new("the trial has failed"))?;
        Ok::<_, Failure>((seen?, served))
    })?;
    let said = std::fs::read(output).unwrap_or_default();
    let said = String::from_utf8_lossy(&said[said.len().saturating_sub(300)..]).into_owned();
    Ok(told(program, &seen, &served, said.trim(), &run, &scratch.0))
}

/// Connects, asks, and looks whether the program rests then.
fn serve(copy: &mut Copy, program: &Program, request: Option<&[u8]>, shared: &Shared) -> Served {
    let mut served = Served::default();
    let goes_on = || !shared.has_ended.load(Ordering::Acquire);
    for key in 0..CONNECTIONS {
        loop {
            match copy.connect(key) {
                Connected::Done => break,
                Connected::Later if goes_on() => std::thread::sleep(LOOK_EVERY),
                Connected::Later | Connected::Refused => {
                    served.refusal = copy.failure();
                    return served;
                }
            }
        }
        served.n_connected += 1;
    }
    served.has_loaded = copy.has_loaded();
    served.refusal = copy.failure();
    shared.is_asked.store(true, Ordering::Release);
    for key in 0..CONNECTIONS {
        let Some(request) = request else { break };
        served.is_asked = true;
        let sent = copy.write(key, request) == Ok(request.len());
        served.n_answered += u64::from(sent && is_answered(copy, key));
    }
    let rests_by_itself = program.attach() == Attach::Preload;
    let end = Instant::now() + ANSWERS_WITHIN;
    while rests_by_itself && !served.rests && goes_on() && Instant::now() < end {
        served.rests = copy.repose() == Repose::AtRest;
        std::thread::sleep(LOOK_EVERY);
    }
    (0..CONNECTIONS).for_each(|key| copy.close(key));
    let end = Instant::now() + WATCHED_FOR;
    while goes_on() && Instant::now() < end {
        std::thread::sleep(LOOK_EVERY);
    }
    served
}

fn is_answered(copy: &mut Copy, key: u64) -> bool {
    let mut answer = [0; ANSWER_BYTES];
    let end = Instant::now() + ANSWERS_WITHIN;
    while Instant::now() < end {
        match copy.read(key, &mut answer) {
            Ok(Received::Bytes(_)) => return true,
            Ok(Received::Nothing) => std::thread::sleep(LOOK_EVERY),
            Ok(Received::End) | Err(_) => return false,
        }
    }
    false
}

/// The request that programs with this rest answer.
pub(super) fn request_of(rest: RestBy) -> Option<&'static [u8]> {
    match rest {
        RestBy::Resp => Some(b"PING\r\n"),
        RestBy::Memcached => Some(b"version\r\n"),
        RestBy::Quiet | RestBy::Waits => None,
    }
}

/// What was seen, as the settings and rules that it is about.
fn told(
    program: &Program,
    seen: &Seen,
    served: &Served,
    said: &str,
    run: &Path,
    scratch: &Path,
) -> Trial {
    let mut of = Trial::default();
    let Served { n_connected, n_answered, .. } = served;
    of.outcome = match (n_connected, served.is_asked) {
        (0, _) => "took no connection".to_owned(),
        (n, false) => format!("took {n} connections, and was asked nothing"),
        (n, true) => format!("took {n} connections, and answered {n_answered} requests"),
    };
    if *n_connected < CONNECTIONS || seen.end.is_some() {
        let end = seen.end.as_ref().map_or_else(String::new, |end| format!("it ended ({end}); "));
        let said = said.replace('\n', " | ");
        let said = if said.is_empty() { "nothing".to_owned() } else { said };
        of.why_not.push(format!("{end}it does not serve as a copy is started; it said: {said}"));
    }
    of.why_not.extend(served.refusal.clone());
    let is_within = program.attach() == Attach::Preload;
    let has = |kind| seen.kinds.contains(&kind);
    let facts = [
        (seen.has_threads, "has begun threads"),
        (seen.has_children, "has begun processes"),
        (is_within && served.has_loaded, "has loaded the library"),
        (served.rests, "says that it rests when it has nothing to do"),
    ];
    of.facts.extend(facts.iter().filter(|(holds, _)| *holds).map(|(_, text)| (*text).to_owned()));
    let served_well = *n_connected == CONNECTIONS && seen.end.is_none();
    let warnings = [
        (
            // (Once or twice it is a lock that was held by chance.)
            seen.n_wakes >= CONNECTIONS && seen.has_threads,
            "its threads wake each other while requests are served: what races beyond one request \
             makes copies differ (--program-order serial waits for the end of each request)",
        ),
        (
            is_within && served_well && !served.rests,
            "does not say that it rests: say --program-rest quiet (some 400 requests a second)",
        ),
        (
            has(Kind::Ring),
            "has made a ring of io_uring: what it waits for there is not seen, and what it reads \
             has no turns; switch it off, or say --program-rest quiet",
        ),
        (
            is_within && has(Kind::Wait),
            "waits past the C library: such waits are not seen, and cost 5 ms each \
             (--program-rest quiet looks at its threads)",
        ),
        (
            is_within && has(Kind::Chance),
            "draws past the C library: each copy draws from its own kernel, so copies whose \
             answers show it differ",
        ),
        (
            is_within && has(Kind::Clock),
            "reads clocks past the C library, which --program-time log does not cover",
        ),
        (has(Kind::Timer), "has set timers of the kernel, which --program-time log does not cover"),
        (
            has(Kind::Datagrams) && !program.is_told_by_udp(),
            "has made sockets for UDP: what it gets by them is replicated at {udp} alone; switch \
             that off",
        ),
    ];
    let warned = warnings.iter().filter(|(holds, _)| *holds);
    of.warnings.extend(warned.map(|(_, text)| (*text).to_owned()));
    let to_peers = seen.peers.iter().map(|peer| {
        format!(
            "has connected to {peer}: a copy has a network of its own; --program-outbound gives it \
             the host's, and then each copy hears what it hears"
        )
    });
    of.warnings.extend(to_peers);
    of.warnings.extend(seen.written.iter().filter_map(|path| of_file(path, run, scratch)));
    of
}

/// What there is to say about a file that was opened for writing.
fn of_file(path: &Path, run: &Path, scratch: &Path) -> Option<String> {
    let is_its_own = path.starts_with(run) || path.starts_with(scratch);
    if is_its_own || path.starts_with("/dev") || path.starts_with("/proc") {
        return None;
    }
    let is_shared = path.starts_with("/tmp") || path.starts_with("/var/tmp");
    let path = path.display();
    Some(if is_shared {
        format!("has written {path}: copies of one host share that directory; let it use $TMPDIR")
    } else {
        format!("has opened {path} for writing: a copy writes to {{dir}} and $TMPDIR alone")
    })
}
