//! `gregale up`: a whole cluster on this machine, one process per replica.
//!
//! The supervisor holds the listening sockets and the cluster's directory on tmpfs; replicas come
//! and go. It restarts a replica that dies at once, with the region that outlived it: until then no
//! process answers at its port. A replica that dies repeatedly is restarted later each time.
//!
//! - I1 nothing is left behind: the directory is removed when the supervisor ends, also after a
//!   failed start, and the next supervisor sweeps the directory of a killed one. Tests
//!   `nothing_is_left_*`.
//! - I2 no replica outlives its supervisor: each asks the kernel for a signal at its parent's
//!   death.
//! - I3 a member is founded until a life of it has left a region or a disk, and any later life
//!   begins with that: a process that died before it made one has promised nothing. One that ends
//!   in order, or is refused by the others, may have left none although it had promised.
//! - I4 a member whose disk, or memory, is lost is replaced by a new incarnation only while others
//!   serve: the serving members admit it.
//! - I6 what was acknowledged in memory is not given up: once a majority has served, no member that
//!   hangs, dies or refuses to run ends the others. By [`Supervisor::go_on_with_some`].
//! - I7 a cluster that was founded is not given up because it is slow: a member says nothing while
//!   it reads its disk, which takes as long as there is much on it. By [`Supervisor::is_slow`].
//! - U1 what is in the way of one member's process, or of `cluster.toml` (a full disk, a process
//!   that cannot end while its disk stands still, a program file that was replaced), costs the
//!   others nothing: it is said, and tried again. By [`Supervisor::spawn_again`],
//!   [`Supervisor::has_written`], [`Member::kill`].
//! - U2 a directory on tmpfs that is removed under members with disks costs a restart of them: what
//!   they acknowledged is on their disks. With `--no-restart` the others continue as they are. By
//!   [`Directory::restore`].
//! - I5 one member at a time is replaced on an operator's order, whichever leader passes it on: a
//!   member that the last leader ended was heard by the next one a moment ago. By
//!   [`Supervisor::renew`].

mod args;
pub(crate) mod data;
mod directory;
mod member;
mod plan;
mod restarts;
mod say;
mod seats;

pub(crate) use args::UpArgs;

use crate::channel::{Report, Sockets};
use crate::config::{self, FabricKind, Start};
use base::NodeId;
use console::{Failure, Outcome};
use data::{Data, Keyspace, Seat};
use directory::Directory;
use member::{Member, State};
use plan::{config_of, listed, listen};
use region::Region;
use runtime::{Interest, Poller};
use say::Say;
use std::io::Read;
use std::os::unix::net::UnixStream;
use std::path::PathBuf;
use std::process::{ExitCode, ExitStatus};
use std::time::{Duration, Instant};

/// The time until all members have to serve.
const READY_WITHIN: Duration = Duration::from_secs(30);
/// The time for a replica to stop before it is killed.
const STOP_WITHIN: Duration = Duration::from_secs(3);

const KEY_SIGNAL: u64 = u64::MAX;
/// The keys of the doors of members that are away; below are those of channels and processes.
const KEY_DOOR: u64 = 1 << 32;

/// Runs the cluster until a signal.
pub(crate) fn run(args: &UpArgs) -> Outcome {
    args.check()?;
    if let Some(program) = args.program.program() {
        crate::replicate::check_saver(&program)?;
    }
    // Ports come first: a second `up` of the same cluster ends here, before it touches anything.
    let sockets = listen(args)?;
    // What can be refused is refused before anything is written.
    let mut config = config_of(args, 1, &listed(&sockets)?, &args.directory, None);
    config.data = args.data_directory();
    config.validate()?;
    let directory = Directory::create(&args.directory, &args.cluster, args.port)?;
    let data = args
        .data_directory()
        .map(|path| {
            let members = (args.nodes, args.seats());
            let mut data = Data::open(&path, &args.cluster, members, args.durability())?;
            // The multicast's disks are different.
            if args.partitions.is_none() && !data.is_in_partitions() {
                data.look_for_entries()?;
            }
            let keyspace = Keyspace {
                maxmemory: args.maxmemory(),
                partitions: args.partitioning(),
                program: args.program.replicate.clone(),
                holds_answers: args.program.program_output == config::Output::Strict,
                settings: args.program.program().map(|program| program.shared()),
            };
            data.keep_to(keyspace, args.names_keyspace())?;
            Ok(data)
        })
        .transpose()?;
    let say = Say::new(args.format)?;
    let mut supervisor = Supervisor::new(args, &directory, data, sockets, signals()?, say)?;
    let outcome = supervisor.run();
    supervisor.stop();
    outcome
}

/// A pipe that is readable once the cluster is to stop.
fn signals() -> Outcome<UnixStream> {
    let (signals, pipe) =
        UnixStream::pair().map_err(|error| Failure::os("make a pipe for signals", error))?;
    for signal in crate::signals::ending() {
        let pipe = pipe.try_clone().map_err(|error| Failure::os("copy a pipe", error))?;
        signal_hook::low_level::pipe::register(signal, pipe)
            .map_err(|error| Failure::os("wait for signals", error))?;
    }
    Ok(signals)
}

struct Supervisor<'a> {
    args: &'a UpArgs,
    directory: &'a Directory,
    data: Option<Data>,
    say: Say,
    poller: Poller,
    signals: UnixStream,
    members: Vec<Member>,
    is_ready: bool,
    /// Whether a majority has served since the start, and may have acknowledged writes (I6).
    has_served: bool,
    started: Instant,
    ready_by: Instant,
    /// The time at which `data` is written that could not be.
    write_at: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    fn new(
        args: &'a UpArgs,
        directory: &'a Directory,
        data: Option<Data>,
        sockets: Vec<Sockets>,
        signals: UnixStream,
        say: Say,
    ) -> Outcome<Supervisor<'a>> {
        let poller = Poller::new().map_err(|error| Failure::os("make an epoll set", error))?;
        poller
            .add(&signals, KEY_SIGNAL, Interest::Read)
            .map_err(|error| Failure::os("wait for signals", error))?;

        let listed = listed(&sockets)?;
        let members = sockets
            .into_iter()
            .zip(1..)
            .map(|(sockets, member)| {
                let mut config = config_of(args, member, &listed, directory.path(), data.as_ref());
                if let Some(data) = &data {
                    config.start = data.start_of(member)?;
                }
                let mut it = Member::new(config, sockets);
                if data.as_ref().is_some_and(|data| data.is_vacant(member)) {
                    it.state = State::Vacant;
                }
                if data.as_ref().is_some_and(|data| data.is_wanted(member)) {
                    it.wanted_ms = Some(runtime::unix_ms());
                }
                Ok(it)
            })
            .collect::<Outcome<_>>()?;
        Ok(Supervisor {
            args,
            directory,
            data,
            say,
            poller,
            signals,
            members,
            is_ready: false,
            has_served: false,
            started: Instant::now(),
            ready_by: Instant::now() + READY_WITHIN,
            write_at: None,
        })
    }

    fn run(&mut self) -> Outcome {
        self.say.starting(self.args, env!("CARGO_PKG_VERSION"), self.here().count());
        if let Some(path) = self.directory.swept().filter(|_| self.data.is_none()) {
            self.say.swept(path);
        }
        self.check_disks()?;
        for at in 0..self.members.len() {
            if self.members[at].state != State::Vacant {
                self.spawn(at)?;
            }
        }
        self.say.members(self.here().map(|member| (&member.config, member.pid())));
        let mut ready = Vec::new();
        loop {
            for (member, key) in self.members.iter_mut().zip(KEY_DOOR..) {
                member.mind_door(&self.poller, key)?;
            }
            let timeout =
                self.next_deadline().map(|at| at.saturating_duration_since(Instant::now()));
            self.poller
                .wait(timeout, &mut ready)
                .map_err(|error| Failure::os("wait for the replicas", error))?;
            for event in &ready {
                if event.key == KEY_SIGNAL {
                    let _ = (&self.signals).read(&mut [0; 16]);
                    self.say.stopping();
                    return Ok(ExitCode::SUCCESS);
                }
                match event.key.checked_sub(KEY_DOOR) {
                    Some(at) => self.members[at as usize].turn_away(&self.poller),
                    None => self.hear((event.key / 2) as usize)?,
                }
            }
            self.restart_due();
            self.write_due();
            if !self.is_ready && Instant::now() >= self.ready_by {
                self.go_on_with_some()?;
            }
        }
    }

    /// Refuses to start anything where a majority of the disks is lost, or cannot be looked into:
    /// the remaining members could only wait for the others for ever.
    fn check_disks(&self) -> Outcome<()> {
        let Some(data) = &self.data else { return Ok(()) };
        // A member whose new incarnation has no vote yet does not count.
        let voters: Vec<u16> = self
            .here()
            .map(|member| member.config.member)
            .filter(|id| !data.is_wanted(*id))
            .collect();
        if voters.is_empty() {
            return Err(Failure::new(format_args!(
                "nothing is started: no member votes, since every seat is in `vacant` or `wanted` \
                 of cluster.toml in {}; take those out that have their disks",
                data.path().display()
            )));
        }
        let found: Vec<Outcome<bool>> = voters.iter().map(|id| data.has_identity(*id)).collect();
        let whole = found.iter().filter(|found| matches!(found, Ok(true))).count();
        if !data.is_founded() || whole >= base::majority(found.len()) {
            return Ok(());
        }
        let unread = found.iter().filter_map(|found| found.as_ref().err());
        let unread: Vec<String> = unread.map(Failure::to_string).collect();
        if !unread.is_empty() {
            return Err(Failure::new(format_args!(
                "nothing is started, since no majority of the disks is left without these: {}",
                unread.join("; ")
            )));
        }
        let lost = voters.iter().filter(|id| data.is_lost(**id));
        let places = lost.map(|id| data.member(*id).display().to_string());
        Err(Failure::new(format_args!(
            "nothing is started: {} no longer hold data, and the members with the other disks are \
             no majority; bring those disks back, or see `gregale recover --help`",
            places.collect::<Vec<_>>().join(" and ")
        )))
    }

    /// Ends the wait for members. A majority has served clients since it runs: the cluster
    /// continues without a minority, hung or dead. A majority that served, and does not now, is
    /// waited for again (I6), and so is one that takes long to begin with its disks (I7).
    fn go_on_with_some(&mut self) -> Outcome<()> {
        if !self.can_serve(Quorum::Majority) {
            if !self.has_served && !self.is_slow() {
                return Err(self.not_ready());
            }
            let absent = self.here().filter(|member| member.state != State::Serving);
            let absent = absent.map(|member| (member.config.member, member.reads()));
            let absent: Vec<_> = absent.collect();
            let why =
                if self.has_served { "one has served since the start" } else { "it was founded" };
            self.say.waits(self.started.elapsed(), why, &absent);
            self.ready_by = Instant::now() + READY_WITHIN;
            return Ok(());
        }
        for member in self.here().filter(|member| member.state != State::Serving) {
            self.say.missing(member.config.member, READY_WITHIN);
        }
        self.be_ready();
        Ok(())
    }

    /// Whether a cluster that was founded may still come by itself: a majority of its members have
    /// not said that they cannot (I7).
    fn is_slow(&self) -> bool {
        let is_founded = self.data.as_ref().is_some_and(Data::is_founded);
        let may_come = |member: &&Member| match member.state {
            State::Serving | State::Starting | State::Waiting(_) => !member.refused,
            State::Learner | State::Dead | State::Vacant | State::Held => false,
        };
        let n = self.here().filter(may_come).count();
        is_founded && n >= base::majority(self.here().count())
    }

    fn be_ready(&mut self) {
        self.is_ready = true;
        let noted = self.data.as_mut().map_or(Ok(()), Data::founded);
        self.has_written(noted);
        self.say.ready();
    }

    fn not_ready(&self) -> Failure {
        let seconds = READY_WITHIN.as_secs();
        let held = self.members.iter().filter(|member| member.state == State::Held);
        let held: Vec<String> = held.map(|member| member.config.member.to_string()).collect();
        if held.is_empty() {
            return Failure::new(format_args!(
                "the members do not serve after {seconds} s; what they said stands above"
            ));
        }
        Failure::new(format_args!(
            "no member serves after {seconds} s: members {} have lost their disks, and the others are \
             no majority; bring those disks back, or see `gregale recover --help`",
            held.join(", ")
        ))
    }

    fn next_deadline(&self) -> Option<Instant> {
        let restarts = self.members.iter().filter_map(Member::restart_at);
        restarts.chain((!self.is_ready).then_some(self.ready_by)).chain(self.write_at).min()
    }

    fn spawn(&mut self, at: usize) -> Outcome<()> {
        let id = self.members[at].config.member;
        if let Some(place) = self.lost(id) {
            let waits = !self.members.iter().any(|member| member.state == State::Serving);
            if self.members[at].config.start != Start::Join {
                let what = if self.data.is_some() { "disk" } else { "memory" };
                self.say.lost(id, what, &place, waits);
            }
            let member = &mut self.members[at];
            if waits {
                // The member has to wait until others serve (I4).
                member.state = State::Held;
                return Ok(());
            }
            member.joins();
        }
        if self.data.is_some() && self.directory.restore()? {
            // The others' memory has lost its name, so that no member would find it (U2). Members
            // that would not be restarted continue without the new one.
            let ends_others = self.args.fabric == FabricKind::Shm && !self.args.no_restart;
            self.say.remade(self.directory.path(), ends_others);
            if ends_others {
                self.members.iter_mut().for_each(Member::end);
            }
        }
        let member = &mut self.members[at];
        member.spawn(self.directory)?;
        member.watch(&self.poller, 2 * at as u64).inspect_err(|_| {
            member.kill();
        })
    }

    /// The same, of a member of a cluster that runs: what is in the way of one member's process
    /// does not end the others (U1).
    fn spawn_again(&mut self, at: usize) {
        let Err(failure) = self.spawn(at) else { return };
        let member = &mut self.members[at];
        member.refused = true;
        let pause = member.died(!self.args.no_restart, Instant::now());
        self.say.not_started(member.config.member, &failure.to_string(), pause);
    }

    /// The path of the disk, or without disks the memory, of member `id`, if it is gone.
    fn lost(&self, id: u16) -> Option<PathBuf> {
        if let Some(data) = &self.data {
            return data.is_lost(id).then(|| data.member(id));
        }
        let config = &self.members[usize::from(id) - 1].config;
        let may_return = config.protocol.members_change() && config.partitions.is_none();
        // A founder that never had memory has lost none, while none was needed without it.
        let had_it = self.is_ready || config.start != Start::Bootstrap;
        let directory = self.directory.path();
        (had_it && may_return && !Region::is_there(directory, NodeId(id)))
            .then(|| directory.to_path_buf())
    }

    /// Starts the members that lost their disk, or memory, as new incarnations: others serve now.
    fn release_held(&mut self) {
        let held = |member: &Member| member.state == State::Held;
        for at in 0..self.members.len() {
            if held(&self.members[at]) {
                self.spawn_again(at);
            }
        }
    }

    /// Handles a replica's reports, or its death.
    fn hear(&mut self, at: usize) -> Outcome<()> {
        let (reports, death) = self.members[at].hear(&self.poller)?;
        let id = self.members[at].config.member;
        let (mut renewals, mut vacated, mut seats) = (Vec::new(), Vec::new(), Vec::new());
        for report in reports {
            let continues = self.continues();
            let member = &mut self.members[at];
            match report {
                Report::Serving => self.serves(at),
                Report::Learner(why) => {
                    member.state = State::Learner;
                    self.say.learner(id, &why);
                }
                Report::Renew(id) => renewals.push(id),
                Report::Votes(incarnation) => {
                    // Every process reports it once; only the report of a new incarnation is news.
                    if member.votes() {
                        self.say.votes(id, incarnation);
                    }
                    seats.push(Seat::Taken);
                }
                Report::Replaced(why) => {
                    self.say.parted(id, &why);
                    (member.refused, member.has_parted) = (true, true);
                }
                Report::Removed(why) => {
                    self.say.parted(id, &why);
                    (member.refused, member.has_parted) = (true, true);
                    seats.push(Seat::Vacant);
                }
                Report::Vacant(id, last) => vacated.push((id, last)),
                Report::Refused(why) => {
                    if !continues {
                        return Err(Failure::new(format_args!("member {id}: {why}")));
                    }
                    self.is_refused(at, &why);
                }
            }
        }
        let is_renewed = death.is_some_and(|how| self.has_died(at, &how));
        seats.into_iter().for_each(|seat| self.note_seat(id, seat));
        if is_renewed {
            self.begin_anew(at);
        }
        for (id, last) in vacated {
            self.vacate(id, last);
        }
        for id in renewals {
            self.renew(id);
        }
        if self.members.iter().any(|member| member.state == State::Serving) {
            self.release_held();
        }
        if !self.is_ready && self.can_serve(Quorum::All) {
            self.be_ready();
        }
        Ok(())
    }

    /// Whether a member that refuses to run does not end the others. A founding that is refused is
    /// given up, unless memory may hold acknowledged writes (I6); a cluster that existed before
    /// continues without a minority of its disks.
    fn continues(&self) -> bool {
        self.is_ready
            || match &self.data {
                Some(data) => data.is_founded(),
                None => self.has_served,
            }
    }

    /// Notes that a member serves.
    fn serves(&mut self, at: usize) {
        let member = &mut self.members[at];
        member.state = State::Serving;
        member.founded();
        // A founder that comes late is news too.
        if self.is_ready {
            self.say.serves_again(member.config.member, member.pid());
        }
        self.has_served |= self.can_serve(Quorum::Majority);
    }

    /// Notes that a member refuses to run, in a cluster that continues.
    fn is_refused(&mut self, at: usize, why: &str) {
        let member = &mut self.members[at];
        let id = member.config.member;
        match member.state {
            State::Serving => self.say.gave_up(id, why),
            _ => self.say.refused(id, why),
        }
        member.refused = true;
        // The others may have begun with a life of it that left nothing (I3).
        let config = &member.config;
        let is_admitted = |of: config::Partitioning| of.order != config::Order::Reply;
        let may_return = config.data.is_none() && config.partitions.is_some_and(is_admitted);
        if may_return && config.start == Start::Bootstrap {
            member.founded();
        }
    }

    /// Notes a death. Returns whether a new incarnation is to begin now.
    fn has_died(&mut self, at: usize, how: &ExitStatus) -> bool {
        // One that ends in order had begun, and in partitions its memory goes with it.
        let is_left = self.has_left(at) || (self.data.is_none() && how.success());
        let member = &mut self.members[at];
        if is_left {
            // It may have been part of the cluster, however far it got (I3).
            member.founded();
        }
        let is_renewed = std::mem::take(&mut member.renews_when_gone);
        if !is_renewed && member.state != State::Vacant {
            let pause = member.died(!self.args.no_restart, Instant::now());
            self.say.died(member.config.member, how, pause);
        }
        is_renewed
    }

    /// Whether a life of the member has left a disk, or without disks memory (I3).
    fn has_left(&self, at: usize) -> bool {
        let id = self.members[at].config.member;
        match &self.data {
            // What is not known may be there.
            Some(data) => data.has_identity(id).unwrap_or(true),
            None => Region::is_there(self.directory.path(), NodeId(id)),
        }
    }

    /// The seats that are taken.
    fn here(&self) -> impl Iterator<Item = &Member> {
        self.members.iter().filter(|member| member.state != State::Vacant)
    }

    fn can_serve(&self, quorum: Quorum) -> bool {
        quorum.is_there(self.here().map(|member| (member.state, member.refused)))
    }

    fn restart_due(&mut self) {
        let now = Instant::now();
        for at in 0..self.members.len() {
            if self.members[at].restart_at().is_some_and(|due| due <= now) {
                self.spawn_again(at);
                if self.members[at].state == State::Starting {
                    self.say.restarted(self.members[at].config.member, self.members[at].pid());
                }
            }
        }
    }

    /// Ends every replica: asks it, waits, kills it.
    fn stop(&mut self) {
        self.members.iter_mut().for_each(Member::ask_to_stop);
        let end = Instant::now() + STOP_WITHIN;
        let mut ready = Vec::new();
        while self.members.iter_mut().any(|member| !member.is_gone()) {
            let left = end.saturating_duration_since(Instant::now());
            if left.is_zero() || self.poller.wait(Some(left), &mut ready).is_err() {
                break;
            }
            for event in ready.iter().filter(|event| event.key < KEY_DOOR) {
                // Further reports do not matter: it is stopping.
                let _ = self.members[(event.key / 2) as usize].hear(&self.poller);
            }
        }
        for member in &mut self.members {
            // One that cannot end yet does so by itself.
            let _ = member.kill();
        }
    }
}

/// The members that have to serve before the cluster is reported as ready.
#[derive(Clone, Copy, Debug)]
enum Quorum {
    /// All members, except those that reported why they never will; and a majority of all.
    All,
    Majority,
}

impl Quorum {
    /// Whether the cluster is ready. For each member with a seat: its state, and whether it refused
    /// to run.
    fn is_there(self, members: impl Iterator<Item = (State, bool)>) -> bool {
        let (mut n, mut n_serving, mut all_settled) = (0, 0, true);
        for (state, refused) in members {
            let serves = state == State::Serving;
            n += 1;
            n_serving += usize::from(serves);
            all_settled &= serves || refused;
        }
        let waits_for_nobody = match self {
            Quorum::All => all_settled,
            Quorum::Majority => true,
        };
        n_serving >= base::majority(n) && waits_for_nobody
    }
}

#[cfg(test)]
mod tests;
