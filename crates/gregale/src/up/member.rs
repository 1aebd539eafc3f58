//! A replica, as its supervisor sees it.

use super::directory::Directory;
use super::restarts::Restarts;
use crate::channel::{Report, Sockets, SupervisorEnd};
use crate::config::{Config, Start};
use crate::program::this_program;
use console::{Failure, Outcome};
use runtime::{Interest, Poller};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fd::OwnedFd;
use rustix::io::retry_on_intr;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use serde_json::json;
use std::collections::VecDeque;
use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpStream};
use std::os::unix::net::UnixStream;
use std::os::unix::process::ExitStatusExt;
use std::process::{Child, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// The most clients of a member that is away that are kept until they have read the reason.
const TURNED_AWAY_MAX: usize = 16;

/// The wait for the end of a process that was killed.
const KILLED_WITHIN: Timespec = Timespec { tv_sec: 0, tv_nsec: 500_000_000 };

/// The time to wait for a new incarnation before another member may be replaced.
const JOINS_WITHIN: Duration = Duration::from_secs(60);

/// How far a member's process has come in reading.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Reads {
    /// It does not run.
    NoProcess,
    /// It runs, and the kernel does not tell.
    Unknown,
    /// It has read that many bytes so far.
    Bytes(u64),
}

impl Reads {
    /// What the kernel tells in `io`, a file of a process that runs.
    fn of(io: &str) -> Reads {
        let bytes = io.lines().find_map(|line| line.strip_prefix("rchar: ")?.parse().ok());
        bytes.map_or(Reads::Unknown, Reads::Bytes)
    }

    /// The words about member `id`.
    pub(super) fn text(self, id: u16) -> String {
        match self {
            Reads::NoProcess => format!("member {id} does not run"),
            Reads::Unknown => format!("member {id} runs"),
            Reads::Bytes(bytes) => format!("member {id} has read {:.1} MB", bytes as f64 / 1e6),
        }
    }

    /// The same for programs: `read_bytes` is null where it is not known.
    pub(super) fn json(self, id: u16) -> serde_json::Value {
        let bytes = match self {
            Reads::NoProcess | Reads::Unknown => None,
            Reads::Bytes(bytes) => Some(bytes),
        };
        json!({"id": id, "runs": self != Reads::NoProcess, "read_bytes": bytes})
    }
}

/// The state of a replica.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// It was started and has reported nothing yet.
    Starting,
    /// It answers clients.
    Serving,
    /// It runs without its earlier memory, and counts in no quorum.
    Learner,
    /// It is dead and is not restarted.
    Dead,
    /// Its seat is empty.
    Vacant,
    /// Its disk or memory is lost, and no member serves that could admit it again.
    Held,
    /// It is dead until that time.
    Waiting(Instant),
}

struct Running {
    child: Child,
    channel: SupervisorEnd,
    /// The descriptor that is readable once the process has ended.
    pidfd: OwnedFd,
    /// It has closed its end of the channel, and is about to end.
    has_closed: bool,
}

/// The supervisor's answers to clients of a member that does not run.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Porter {
    Absent,
    Present,
    /// The socket cannot accept: most likely no descriptors are left.
    Helpless,
}

/// The replica's state at its supervisor; see the module's text.
pub(super) struct Member {
    pub(super) config: Config,
    pub(super) state: State,
    /// Whether its last life refused to run, and never served.
    pub(super) refused: bool,
    /// Whether its last life found that it is no longer a member.
    pub(super) has_parted: bool,
    /// The time until which a new incarnation that has not reported its vote is waited for.
    pub(super) joins_until: Option<Instant>,
    /// The time at which an operator requested a new incarnation: any from then on has a higher
    /// number.
    pub(super) wanted_ms: Option<u64>,
    /// Whether a new incarnation is to begin as soon as its process has ended.
    pub(super) renews_when_gone: bool,
    sockets: Sockets,
    running: Option<Running>,
    last_pid: u32,
    /// The number of deaths in a row, each soon after the start.
    restarts: Restarts,
    porter: Porter,
    /// The answered clients, closed when others come: a client that is still sending would lose its
    /// answer.
    turned_away: VecDeque<TcpStream>,
}

impl Member {
    pub(super) fn new(config: Config, sockets: Sockets) -> Member {
        Member {
            config,
            state: State::Starting,
            refused: false,
            has_parted: false,
            joins_until: None,
            wanted_ms: None,
            renews_when_gone: false,
            sockets,
            running: None,
            last_pid: 0,
            restarts: Restarts::default(),
            porter: Porter::Absent,
            turned_away: VecDeque::new(),
        }
    }

    /// The id of its process, or of its last one.
    pub(super) fn pid(&self) -> u32 {
        self.last_pid
    }

    /// Has its next life be a new incarnation.
    pub(super) fn joins(&mut self) {
        self.config.start = Start::Join;
        // A member that fails repeatedly is waited for only once.
        self.joins_until = self.joins_until.or_else(|| Some(Instant::now() + JOINS_WITHIN));
    }

    /// Notes that it has its vote. Returns whether a new incarnation was waited for.
    pub(super) fn votes(&mut self) -> bool {
        (self.wanted_ms, self.has_parted) = (None, false);
        self.joins_until.take().is_some()
    }

    /// Has any later life begin with the region of this one.
    pub(super) fn founded(&mut self) {
        self.config.start = Start::Reattach;
    }

    /// Notes that its seat is empty since incarnation `last` left it. Returns whether that is news.
    /// An incarnation that had the seat is told so, and ends by itself; one that began because its
    /// disk was lost asks for the seat, and would get it.
    pub(super) fn vacate(&mut self, last: u64) -> bool {
        let is_wanted = self.wanted_ms.is_some_and(|wanted| last < wanted);
        // A removal that is told once more takes no later order back.
        let is_ordered = self.has_parted && self.renews_when_gone;
        if self.state == State::Vacant || is_wanted || is_ordered {
            return false;
        }
        self.renews_when_gone = false; // that order is taken back
        if self.running.is_some() && self.joins_until.is_none() {
            self.has_parted = true;
        } else {
            self.kill();
            self.state = State::Vacant;
            // No operator waits for it any longer, and therefore no other member has to.
            self.joins_until = None;
        }
        true
    }

    /// How far its process has come in reading.
    pub(super) fn reads(&self) -> Reads {
        let Some(running) = &self.running else { return Reads::NoProcess };
        let io = std::fs::read_to_string(format!("/proc/{}/io", running.child.id()));
        Reads::of(&io.unwrap_or_default())
    }

    pub(super) fn restart_at(&self) -> Option<Instant> {
        match self.state {
            State::Waiting(at) => Some(at),
            State::Starting
            | State::Serving
            | State::Learner
            | State::Dead
            | State::Vacant
            | State::Held => None,
        }
    }

    /// Starts its process and passes the sockets.
    pub(super) fn spawn(&mut self, directory: &Directory) -> Outcome<()> {
        let path = directory.write_config(&self.config)?;
        let (near, far) =
            UnixStream::pair().map_err(|error| Failure::os("make a socket pair", error))?;
        let mut command = this_program();
        // I2: a supervised process asks for a signal at this process's death.
        command.arg("serve").arg("--supervised").arg("--config").arg(path);
        command.stdin(Stdio::from(OwnedFd::from(far)));
        // The file already contains the settings of the environment.
        for (key, _) in std::env::vars_os() {
            if key.to_string_lossy().starts_with("GREGALE_") {
                command.env_remove(key);
            }
        }
        let mut child = command.spawn().map_err(|error| Failure::os("start a replica", error))?;
        // The command holds a copy of the other end, which would hide the end of the stream.
        drop(command);
        self.last_pid = child.id();
        let begun = SupervisorEnd::new(near).and_then(|channel| {
            channel.pass(&self.sockets)?;
            let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK)
                .map_err(|error| Failure::os("watch a replica", error))?;
            Ok((channel, pidfd))
        });
        let (channel, pidfd) = begun.inspect_err(|_| {
            let _ = child.kill();
            let _ = child.wait(); // it has begun nothing
        })?;
        self.running = Some(Running { child, channel, pidfd, has_closed: false });
        self.state = State::Starting;
        self.restarts.started_at = Some(Instant::now());
        (self.refused, self.has_parted) = (false, false);
        self.renews_when_gone = false; // this is the new life
        Ok(())
    }

    /// Watches channel and process under the keys `key` and `key + 1`.
    pub(super) fn watch(&self, poller: &Poller, key: u64) -> Outcome<()> {
        let Some(running) = &self.running else { return Ok(()) };
        poller
            .add(running.channel.as_fd(), key, Interest::Read)
            .and_then(|()| poller.add(&running.pidfd, key + 1, Interest::Read))
            .map_err(|error| Failure::os("watch a replica", error))
    }

    /// Its reports, and the cause of its death if it died.
    pub(super) fn hear(&mut self, poller: &Poller) -> Outcome<(Vec<Report>, Option<ExitStatus>)> {
        let Some(running) = &mut self.running else { return Ok((Vec::new(), None)) };
        let status =
            running.child.try_wait().map_err(|error| Failure::os("wait for a replica", error))?;
        let mut reports = Vec::new();
        match running.channel.reports() {
            _ if running.has_closed => {}
            Some(said) => reports = said,
            // It has not died yet, and may take long: it cannot end while its disk stands still.
            // The end of the stream would be reported again and again.
            None => {
                running.has_closed = true;
                let _ = poller.remove(running.channel.as_fd());
            }
        }
        if status.is_some() {
            self.running = None;
        }
        Ok((reports, status))
    }

    /// Notes that it is dead since `now`; it is restarted after the pause that this returns, if
    /// any.
    pub(super) fn died(&mut self, restarts: bool, now: Instant) -> Option<Duration> {
        if self.state == State::Vacant {
            return None; // it was killed for that, and has ended now
        }
        if !restarts || self.has_parted {
            self.state = State::Dead;
            return None;
        }
        let served = self.state == State::Serving;
        // What ended a replica that served need not be there for the next one: its program died.
        self.refused &= !served;
        let pause = self.restarts.pause(self.refused, served, now);
        self.state = State::Waiting(now + pause);
        Some(pause)
    }

    /// The reason why no process of it will take its clients soon. (A member that died is back in a
    /// moment: its clients wait for that.)
    fn away(&self) -> Option<&'static str> {
        const NO_PART: &str = "takes no part: use another one, or `gregale member add`";
        match self.state {
            State::Vacant => Some(NO_PART),
            State::Dead if self.has_parted => Some(NO_PART),
            State::Dead => Some("is dead and stays so: use another one"),
            State::Held => Some("has lost its disk, and waits until others serve"),
            State::Waiting(_) if self.refused => {
                Some("cannot run, as `gregale up` says: use another one")
            }
            State::Waiting(_) | State::Starting | State::Serving | State::Learner => None,
        }
    }

    /// Watches the door of a member that is away, under the key `key`, and no other.
    pub(super) fn mind_door(&mut self, poller: &Poller, key: u64) -> Outcome<()> {
        let client = &self.sockets.client;
        let failed = |error| Failure::os("watch a listening socket", error);
        match (self.away(), self.porter) {
            (Some(_), Porter::Absent) => {
                client.set_nonblocking(true).map_err(failed)?;
                poller.add(client, key, Interest::Read).map_err(failed)?;
                self.porter = Porter::Present;
            }
            (None, porter) => {
                if porter == Porter::Present {
                    poller.remove(client).map_err(failed)?;
                }
                self.porter = Porter::Absent;
                self.turned_away.clear();
            }
            (Some(_), Porter::Present | Porter::Helpless) => {}
        }
        Ok(())
    }

    /// Answers the clients at its door, which would otherwise wait in the backlog for ever.
    pub(super) fn turn_away(&mut self, poller: &Poller) {
        let Some(why) = self.away() else { return };
        let line = match self.config.program {
            None => format!("-LOADING member {} {why}\r\n", self.config.member),
            // Its clients would not understand: the end of the connection says enough.
            Some(_) => String::new(),
        };
        for _ in 0..TURNED_AWAY_MAX {
            match self.sockets.client.accept() {
                Ok((mut client, _)) => {
                    // A client that does not take the answer has gone already.
                    let _ = client.set_nonblocking(true);
                    let _ = client.write_all(line.as_bytes());
                    let _ = client.shutdown(Shutdown::Write);
                    self.turned_away.push_back(client);
                    if self.turned_away.len() > TURNED_AWAY_MAX {
                        self.turned_away.pop_front();
                    }
                }
                Err(error) if error.kind() == ErrorKind::WouldBlock => return,
                Err(error) if error.kind() == ErrorKind::ConnectionAborted => {}
                Err(_) => {
                    self.turned_away.clear();
                    let _ = poller.remove(&self.sockets.client);
                    self.porter = Porter::Helpless;
                    return;
                }
            }
        }
    }

    pub(super) fn ask_to_stop(&mut self) {
        if let Some(running) = &self.running {
            running.channel.stop();
        }
    }

    /// Kills its process, whose death is heard later.
    pub(super) fn end(&mut self) {
        if let Some(running) = &mut self.running {
            // A dead process cannot be killed again, and no other error has a remedy.
            let _ = running.child.kill();
        }
    }

    /// Whether no process of it is left.
    pub(super) fn is_gone(&mut self) -> bool {
        self.running.is_none()
    }

    /// Kills its process, and waits for its end a moment. False if it has not ended: it cannot
    /// while its disk stands still, and its death is heard later.
    pub(super) fn kill(&mut self) -> bool {
        let Some(running) = &mut self.running else { return true };
        // A dead process cannot be killed again, and no other error has a remedy.
        let _ = running.child.kill();
        let mut ends = [PollFd::new(&running.pidfd, PollFlags::IN)];
        let _ = retry_on_intr(|| poll(&mut ends, Some(&KILLED_WITHIN)));
        let has_ended = !matches!(running.child.try_wait(), Ok(None));
        if has_ended {
            self.running = None;
        }
        has_ended
    }
}

/// The way in which a process ended, for people.
pub(super) fn how(status: &ExitStatus) -> String {
    match (status.code(), status.signal()) {
        (Some(code), _) => format!("exit code {code}"),
        (None, Some(9)) => "signal 9, SIGKILL".into(),
        (None, Some(11)) => "signal 11, SIGSEGV".into(),
        (None, Some(6)) => "signal 6, SIGABRT".into(),
        (None, Some(7)) => "signal 7, SIGBUS".into(),
        (None, Some(signal)) => format!("signal {signal}"),
        (None, None) => "unknown".into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read;
    use std::net::TcpListener;

    fn member() -> Member {
        let text = "cluster = \"x\"\nmember = 1\nstart = \"bootstrap\"\ndirectory = \"/x\"\n\
            secret_file = \"/x/secret\"\n[[members]]\nid = 1\nclient = \"127.0.0.1:7000\"\n\
            control = \"127.0.0.1:7200\"\n";
        let listen = || TcpListener::bind("127.0.0.1:0").unwrap();
        let sockets = Sockets { client: listen(), control: listen(), fabric: None };
        Member::new(toml::from_str(text).unwrap(), sockets)
    }

    #[test]
    fn a_member_that_runs_is_not_said_to_be_down_where_the_kernel_tells_nothing() {
        let io = "rchar: 2500000\nwchar: 7\n";
        let cases = [
            (Reads::NoProcess, "member 2 does not run", false),
            (Reads::of(""), "member 2 runs", true),
            (Reads::of("wchar: 7\n"), "member 2 runs", true),
            (Reads::of(io), "member 2 has read 2.5 MB", true),
        ];
        for (reads, text, runs) in cases {
            assert_eq!((reads.text(2).as_str(), &reads.json(2)["runs"]), (text, &json!(runs)));
        }
        assert_eq!(Reads::of(io).json(2)["read_bytes"], 2_500_000);
    }

    #[test]
    fn one_that_is_dead_when_it_is_removed_does_not_come_back() {
        let mut dead = member();
        dead.died(true, Instant::now());
        assert!(dead.restart_at().is_some());
        assert!(dead.vacate(1) && dead.state == State::Vacant && dead.restart_at().is_none());
        assert!(!dead.vacate(1), "no news");
        // An operator has requested another incarnation since then.
        let mut wanted = member();
        (wanted.state, wanted.wanted_ms) = (State::Held, Some(700));
        assert!(!wanted.vacate(1) && wanted.state == State::Held);
        assert!(wanted.vacate(700), "that one was removed too");
    }

    /// The trap: a process did not end when it was killed for its replacement, and the member was
    /// removed meanwhile. When the process ended, the member came back, and had a vote again.
    #[test]
    fn an_order_to_replace_a_member_ends_with_its_removal() {
        let mut hanging = member();
        hanging.renews_when_gone = true;
        assert!(hanging.vacate(1) && !hanging.renews_when_gone);
        hanging.wanted_ms = Some(700);
        (hanging.state, hanging.renews_when_gone) = (State::Starting, true);
        assert!(!hanging.vacate(1) && hanging.renews_when_gone, "a later order stands");
        (hanging.wanted_ms, hanging.has_parted) = (None, true);
        assert!(!hanging.vacate(1) && hanging.renews_when_gone, "it was given after the removal");
    }

    /// Its port was silent for a second.
    #[test]
    fn a_dead_member_is_restarted_at_once_and_later_only_if_it_dies_again_and_again() {
        let start = Instant::now();
        let at = |s| start + Duration::from_secs(s);
        let mut member = member();
        let mut die = |refused, started, died| {
            (member.restarts.started_at, member.refused) = (Some(at(started)), refused);
            let pause = member.died(true, at(died)).unwrap();
            assert_eq!(member.restart_at(), Some(at(died) + pause));
            pause.as_millis()
        };
        assert_eq!([die(false, 0, 60), die(false, 60, 61)], [0, 0], "the first time");
        assert_eq!([die(false, 61, 62), die(false, 62, 63), die(false, 63, 64)], [100, 200, 400]);
        assert_eq!(die(false, 64, 64 + 3600), 0, "it has proved that it can live");
        let refusals = [1, 2, 3, 4, 5, 6, 7].map(|s| die(true, s, s));
        assert_eq!(refusals, [1000, 2000, 4000, 8000, 16000, 30000, 30000]);
        let mut killed = |started: u64| {
            // Some of them say why: their program has ended.
            (member.state, member.refused) = (State::Serving, started.is_multiple_of(3));
            member.restarts.started_at = Some(at(started));
            let pause = member.died(true, at(started + 1)).unwrap().as_millis();
            assert!(member.away().is_none(), "its clients wait for it");
            pause
        };
        let pauses: Vec<u128> = (100..150).map(&mut killed).collect();
        assert!(pauses.iter().all(|pause| *pause <= 1000), "it served each time: {pauses:?}");
        // Its copy had other answers than the others', and the next one has not.
        (member.state, member.refused) = (State::Starting, true);
        member.restarts.started_at = Some(at(150));
        let pause = member.died(true, at(151)).unwrap();
        assert_eq!(pause.as_millis(), 1000, "its fifty earlier ends were not refusals");
    }

    /// A removal right after a replacement left its seat, and all others, closed for a minute.
    #[test]
    fn a_removed_member_is_not_waited_for() {
        let mut member = member();
        member.wanted_ms = Some(700);
        member.joins();
        assert!(member.joins_until.is_some());
        assert!(member.vacate(700) && member.joins_until.is_none());
    }

    /// The member died between its vote and the report of it. Its next process reported nothing,
    /// since it had not begun as a new incarnation, and no other member could be replaced for a
    /// minute.
    #[test]
    fn a_vote_that_a_later_process_tells_of_ends_the_wait() {
        let mut member = member();
        member.joins();
        member.founded();
        member.died(true, Instant::now());
        assert!(member.joins_until.is_some(), "it may have its vote or not");
        assert!(member.votes() && member.joins_until.is_none());
        assert!(!member.votes(), "no news");
    }

    /// They waited in the backlog of a socket from which no process accepts.
    #[test]
    fn clients_of_one_that_is_away_are_told() {
        let mut member = member();
        let mut poller = Poller::new().unwrap();
        let address = member.sockets.client.local_addr().unwrap();
        let wait = Some(Duration::from_secs(30));
        for (state, text) in [(State::Vacant, "member add"), (State::Held, "lost its disk")] {
            member.state = state;
            member.mind_door(&poller, 7).unwrap();
            let mut client = TcpStream::connect(address).unwrap();
            client.set_read_timeout(wait).unwrap();
            let mut ready = Vec::new();
            poller.wait(wait, &mut ready).unwrap();
            assert!(ready.iter().any(|event| event.key == 7));
            member.turn_away(&poller);
            let mut answer = String::new();
            client.read_to_string(&mut answer).unwrap();
            assert!(answer.starts_with("-LOADING member 1") && answer.contains(text), "{answer}");
            assert!(answer.ends_with("\r\n"));
        }
        // Its process takes them from now on.
        member.state = State::Starting;
        member.mind_door(&poller, 7).unwrap();
        let _client = TcpStream::connect(address).unwrap();
        let mut ready = Vec::new();
        poller.wait(Some(Duration::ZERO), &mut ready).unwrap();
        member.turn_away(&poller);
        assert!(ready.is_empty() && member.sockets.client.accept().is_ok(), "it is still there");
    }
}
