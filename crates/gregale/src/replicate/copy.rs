//! The copy of the program: its process, and the local streams to it.

mod connecting;

use super::asleep::is_asleep;
use super::confine::NOTE;
use super::criu::{BEGUN, RESTORED_WITHIN, restore_words};
use super::datagrams;
use super::files::{COPIED_WITHIN, Files};
use super::inside::{Inside, is_without, write_library};
use super::place::{Address, Place};
use super::processes::has_ended;
use super::renewal::{Renewals, Start};
use super::save::{Loading, Restored, SAVES_WITHIN, Saved, Saver};
use crate::config::{Attach, EndBy, InputOrder, Program as Settings, RestBy, Time};
use crate::program::this_program;
use console::{Failure, Outcome};
use replicate::program::{Broken, Connected, Interest, Program, Received, Repose};
use runtime::Poller;
use rustix::fd::OwnedFd;
use rustix::io::Errno;
use rustix::net::Shutdown;
use rustix::process::{Pid, PidfdFlags, pidfd_open};
use std::ffi::OsString;
use std::fs::File;
use std::io;
use std::process::{Child, Command, Stdio};
use std::time::{Duration, Instant};

/// The bit that distinguishes the keys of legs from those of clients.
pub(super) const LEG: u64 = 1 << 62;

/// The time in which a program has to listen.
const STARTS_WITHIN: Duration = Duration::from_secs(30);
/// The same, of one that has to recover from its own death first.
const RECOVERS_WITHIN: Duration = Duration::from_secs(600);
/// The variable of the environment with the directory for temporary files.
pub(super) const TEMPORARY: &str = "TMPDIR";
/// The beginning of what a program printed, in which its launch may have left notes.
const NOTES_BYTES: usize = 2000;
/// The end of what a program printed, for the error about its death.
const LAST_WORDS_BYTES: usize = 300;

/// The copy of the module's text.
#[derive(Debug)]
pub(crate) struct Copy {
    /// The words of its command.
    words: Vec<String>,
    /// The process, and the descriptor that is readable once it has ended; none before the start.
    child: Option<(Child, OwnedFd)>,
    place: Place,
    start: Start,
    /// What the host forbids was said.
    has_told_notes: bool,
    /// The poller of the legs, and the keys of the process and of its notices there.
    poller: Option<(Poller, u64, u64)>,
    /// A connection to the program's port that the kernel has not made yet.
    connecting: Option<OwnedFd>,
    legs: Vec<Option<OwnedFd>>,
    /// Its directory is what is saved: then it begins again at halts.
    renewals: Option<Renewals>,
    /// A save under way, behind the place where it was begun and the time by which it has to be
    /// over. It may have no connection yet.
    saver: Option<(u64, Instant, Option<Saver>)>,
    saved: Option<Saved>,
    restored: Restored,
    /// The program reads a checkpoint, as far as is known.
    loads: Option<Loading>,
    /// The program is restored from a dump, and was not seen to be whole yet (`criu`, R2).
    is_restored: bool,
    /// The flags of `launch`.
    flags: Vec<OsString>,
    /// What the program says from inside, if it loads the library.
    inside: Option<Inside>,
    /// The library has to be loaded: nothing else tells when the program is at rest, or its time.
    needs_inside: bool,
    /// The kernel has no descriptor for a leg, which was said.
    is_starved: bool,
    failure: Option<String>,
}

impl Copy {
    /// A copy that is to begin in `place`. It draws by `seed`, unless that is 0.
    pub(crate) fn new(settings: &Settings, place: Place, seed: u64) -> Outcome<Copy> {
        let mut flags: Vec<OsString> = vec!["--confine".into(), settings.confine.name().into()];
        match &place.address {
            Address::Socket(path) => {
                flags.extend(["--sockets".into(), path.parent().unwrap_or(place.run()).into()]);
            }
            Address::Directory(path) => flags.extend(["--files".into(), path.into()]),
            Address::Port(_) | Address::Udp(_) => {}
        }
        let is_at_port = settings.listens_at_port() || settings.is_told_by_udp();
        if !settings.outbound && !is_at_port {
            flags.push("--own-network".into());
        }
        if let Some(sockets) = place.sockets_apart() {
            // (It is started in a directory of its own.)
            let absolute = |path| {
                std::path::absolute(path).map_err(|error| Failure::os("find a directory", error))
            };
            let (run, sockets) = (absolute(place.run())?, absolute(sockets)?);
            flags.extend(["--apart".into(), run.into(), sockets.into()]);
        }
        let is_in_turns = settings.order == InputOrder::Loop;
        let renewals = settings.saves_at_halts().then(|| Renewals {
            files: Files::new(place.run(), COPIED_WITHIN),
            stage: None,
            seed,
            is_in_turns,
            speaks_resp: settings.speaks_resp(),
            asks: settings.end == EndBy::Term,
            dumps: settings.saves_processes(),
        });
        let inside = match settings.attach() {
            Attach::Proxy => None,
            Attach::Preload => {
                flags.extend(["--preload".into(), write_library(place.run())?.into()]);
                Some(Inside::make(place.page().to_owned(), is_in_turns, seed)?)
            }
        };
        Ok(Copy {
            words: place.fill(&settings.words()?),
            child: None,
            place,
            start: Start::new(STARTS_WITHIN),
            has_told_notes: false,
            poller: None,
            connecting: None,
            legs: Vec::new(),
            renewals,
            saver: None,
            saved: None,
            restored: Restored::default(),
            loads: None,
            is_restored: false,
            flags,
            inside,
            needs_inside: settings.rest() == RestBy::Waits
                || settings.time == Time::Log
                || is_in_turns,
            is_starved: false,
            failure: None,
        })
    }

    /// The same, which is traced by the thread that starts it.
    pub(super) fn traced(mut self) -> Copy {
        self.flags.push("--traced".into());
        self
    }

    /// Whether the program has loaded the library.
    pub(super) fn has_loaded(&self) -> bool {
        self.inside.as_ref().is_some_and(Inside::is_loaded)
    }

    /// Ends the program, and does not wait for that.
    pub(super) fn kill(&mut self) {
        let Some((child, _)) = &mut self.child else { return };
        // It leads a group of its own (`launch`), unless it has ended already.
        let _ = rustix::process::kill_process_group(
            Pid::from_child(child),
            rustix::process::Signal::KILL,
        );
        let _ = child.kill();
    }

    /// What starts the program.
    pub(super) fn command(&self) -> Outcome<Command> {
        let Copy { words, place, flags, inside, .. } = self;
        let output = File::create(place.output())
            .map_err(|error| Failure::os("make the file of the program's output", error))?;
        let errors = output.try_clone().map_err(|error| Failure::os("copy a descriptor", error))?;
        let mut launch = this_program();
        launch.args(["launch", "--parent", &std::process::id().to_string()]).args(flags);
        if let Some(inside) = inside {
            launch.env(waits::PAGE, inside.path());
        }
        launch.env(TEMPORARY, place.temporary_seen());
        match self.is_restored {
            true => launch.args(["--restores", "--"]).args(restore_words()),
            false => launch.arg("--").args(words),
        };
        launch.current_dir(place.dir()).stdin(Stdio::null()).stdout(output).stderr(errors);
        Ok(launch)
    }

    /// The failure of a program that could not be started.
    pub(super) fn not_started(&self, error: io::Error) -> Failure {
        Failure::os(format_args!("start {}", self.words[0]), error)
    }

    /// Takes the process that was started.
    pub(super) fn adopt(&mut self, child: Child) -> Outcome<()> {
        let pidfd = pidfd_open(Pid::from_child(&child), PidfdFlags::NONBLOCK)
            .map_err(|error| Failure::os("watch the program", error))?;
        if let Some((poller, key, _)) = &self.poller {
            poller
                .add(&pidfd, *key, Interest::Read)
                .map_err(|error| Failure::os("watch the program", error))?;
        }
        self.child = Some((child, pidfd));
        self.start = Start::new(STARTS_WITHIN);
        Ok(())
    }

    /// Watches the process under `key`, and each leg, from now on.
    pub(super) fn register(&mut self, poller: &Poller, key: u64, notices: u64) -> io::Result<()> {
        if let Some(inside) = &self.inside {
            inside.register(poller, notices)?;
        }
        if let Some((_, pidfd)) = &self.child {
            poller.add(pidfd, key, Interest::Read)?;
        }
        self.poller = Some((poller.clone(), key, notices));
        Ok(())
    }

    /// What became of the program, if it has ended.
    pub(super) fn death(&mut self) -> Option<String> {
        let (child, _) = self.child.as_mut()?;
        let status = child.try_wait().ok().flatten()?;
        let said = std::fs::read(self.place.output()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[said.len().saturating_sub(LAST_WORDS_BYTES)..])
            .trim()
            .replace('\n', " | ");
        let said = if said.is_empty() { "nothing".to_owned() } else { format!("{said:?}") };
        let (name, output) = (&self.words[0], self.place.output());
        let when = if self.start.has_listened { "" } else { " before it listened" };
        Some(format!(
            "{name} has ended{when} ({status}), and its member with it; it said {said}, in {}",
            output.display()
        ))
    }

    /// Says what the host has forbidden, which the copy noted at its start, and refuses a program
    /// that has not loaded the library if that is needed.
    fn has_begun_to_listen(&mut self, leg: &OwnedFd) {
        let is_told = std::mem::replace(&mut self.has_told_notes, true);
        let said = std::fs::read(self.place.output()).unwrap_or_default();
        let said = String::from_utf8_lossy(&said[..said.len().min(NOTES_BYTES)]).into_owned();
        for note in said.lines().filter_map(|line| line.strip_prefix(NOTE)).filter(|_| !is_told) {
            runtime::complain(format_args!("{note}"));
        }
        let listens = self.listening_process(leg);
        let is_without =
            self.child.as_ref().is_some_and(|(child, _)| is_without(listens, child.id()));
        if self.needs_inside && (!self.has_loaded() || is_without) {
            // What has loaded it is a shell that has begun the program.
            let begun = if self.has_loaded() { "the program that listens, begun by " } else { "" };
            self.failure = Some(format!(
                "{begun}{} has not loaded the library that says when it is at rest: say \
                 --program-attach proxy --program-rest quiet",
                self.words[0]
            ));
        }
    }

    /// The program says that a look is worth while.
    pub(super) fn take_notices(&self) {
        if let Some(inside) = &self.inside {
            inside.take_notices();
        }
    }

    /// The reason why this copy cannot be fed as it has to be, if there is one.
    pub(super) fn failure(&self) -> Option<String> {
        let inside = || self.inside.as_ref().and_then(Inside::failure);
        self.failure.clone().or_else(inside)
    }

    /// How often a thread has read the clock again and again, and did not wait.
    pub(super) fn n_spins(&self) -> u64 {
        self.inside.as_ref().map_or(0, Inside::n_spins)
    }

    /// Whether the program was started and, where that can be seen, listens: one that ends before
    /// has refused its settings.
    pub(super) fn is_up(&self) -> bool {
        let listens = match &self.place.address {
            Address::Socket(_) | Address::Directory(_) => {
                self.start.has_listened || self.place.socket().is_some_and(|path| path.exists())
            }
            Address::Port(_) => true,
            Address::Udp(address) => self.start.has_listened || datagrams::is_taken(address.port()),
        };
        self.child.is_some() && listens
    }

    /// Whether the program is restored, and not whole yet.
    fn is_in_pieces(&mut self) -> bool {
        self.is_restored = self.is_restored && !self.place.run().join(BEGUN).exists();
        self.is_restored
    }

    /// Whether the program has read its checkpoint: until then it listens, and refuses requests.
    fn loaded(&mut self) -> Result<(), Errno> {
        let Some(mut loading) = self.loads.take() else { return Ok(()) };
        if loading.connection.is_none() {
            match self.connected() {
                Ok(connection) => {
                    self.start.has_listened = true;
                    loading.connection = Some(connection);
                }
                Err(error) => {
                    self.loads = Some(loading);
                    return Err(error);
                }
            }
        }
        match loading.is_over() {
            Ok(true) => return Ok(()),
            Ok(false) => {}
            Err(why) => self.failure = Some(why), // it is fed nothing
        }
        self.loads = Some(loading);
        Err(Errno::AGAIN)
    }

    /// Forgets the program that has ended: what begins next is told nothing of it.
    fn clear(&mut self) -> Result<(), String> {
        (self.start, self.connecting) = (Start::new(STARTS_WITHIN), None);
        self.place.clear().map_err(|error| format!("cannot remove a socket: {error}"))?;
        let (Some(inside), Some(of)) = (self.inside.take(), &self.renewals) else { return Ok(()) };
        let path = inside.path().to_owned();
        drop(inside);
        let inside =
            Inside::make(path, of.is_in_turns, of.seed).map_err(|failure| failure.to_string())?;
        if let Some((poller, _, notices)) = &self.poller {
            inside
                .register(poller, *notices)
                .map_err(|error| format!("cannot watch the copy's notices: {error}"))?;
        }
        self.inside = Some(inside);
        Ok(())
    }

    fn leg(&self, key: u64) -> Result<&OwnedFd, Broken> {
        self.legs.get(key as usize).and_then(Option::as_ref).ok_or(Broken)
    }
}

impl Program for Copy {
    fn restore(&mut self, bytes: &[u8]) -> Result<(), String> {
        match &mut self.renewals {
            Some(of) => of.files.restore(bytes),
            None => self.restored.take(bytes, &self.place.dir()),
        }
    }

    fn start(&mut self, at: u64) -> Result<(), String> {
        let loads = match &mut self.renewals {
            Some(of) if of.dumps => {
                if self.child.is_some() {
                    return Ok(()); // it continues behind a halt
                }
                self.is_restored = of.put_dump_in_place(&self.place)?;
                None
            }
            Some(of) => {
                of.files.put_in_place(&self.place.dir())?;
                // What it has drawn before is not drawn again.
                if let Some(inside) = self.inside.as_ref().filter(|_| at > 0) {
                    inside.reseed(of.seed_at(at));
                }
                (of.speaks_resp && at > 0).then(Loading::default)
            }
            None => {
                let due = std::mem::take(&mut self.restored).due(); // the file is whole
                due.map(Loading::of)
            }
        };
        self.loads = loads;
        let started = self.command().and_then(|mut launch| {
            let child = launch.spawn().map_err(|error| self.not_started(error))?;
            self.adopt(child)
        });
        if self.is_restored {
            self.start = Start::new(RESTORED_WITHIN);
        } else if at > 0 && self.renewals.is_some() {
            self.start = Start::recovering(RECOVERS_WITHIN);
        }
        started.map_err(|failure| failure.to_string())
    }

    fn end_for_renewal(&mut self, saves: bool) -> Result<bool, String> {
        let Copy { renewals, child, words, inside, .. } = self;
        let of = renewals.as_mut().ok_or("the program is not saved by its files")?;
        if of.dumps {
            let (child, _) = child.as_ref().ok_or("the program was not started")?;
            if !saves {
                of.files.forget();
                return Ok(true);
            }
            return of.dump(child.id(), &self.place);
        }
        if let Some(inside) = inside.as_mut().filter(|_| of.asks) {
            inside.let_go(); // one that is held cannot hear that it is to end
        }
        let is_over = of.end(child, saves, &self.place.dir(), &words[0])?;
        if is_over {
            self.clear()?;
        }
        Ok(is_over)
    }

    fn forget_saved(&mut self) {
        if let Some(of) = &mut self.renewals {
            of.files.forget();
        }
    }

    fn save(&mut self, at: u64) -> Result<Option<u64>, String> {
        if let Some(of) = &mut self.renewals {
            return of.files.poll();
        }
        let begun = self.saver.take().filter(|(place, ..)| *place == at);
        let (_, ends_by, saver) =
            begun.unwrap_or_else(|| (at, Instant::now() + SAVES_WITHIN, None));
        let mut saver = match saver {
            Some(saver) => saver,
            None => match self.connected() {
                Ok(connection) => Saver::begin(connection)?,
                Err(Errno::AGAIN) if Instant::now() < ends_by => {
                    self.saver = Some((at, ends_by, None));
                    return Ok(None);
                }
                Err(error) => return Err(format!("cannot ask the program to save: {error}")),
            },
        };
        let Some(found) = saver.poll(ends_by)? else {
            self.saver = Some((at, ends_by, Some(saver)));
            return Ok(None);
        };
        let saved = Saved::open(&found, &self.place.dir())?;
        let len = saved.len();
        self.saved = Some(saved);
        Ok(Some(len))
    }

    fn read_saved(&mut self, at: u64, into: &mut [u8]) -> Result<usize, String> {
        match &mut self.renewals {
            Some(of) => of.files.read(at, into),
            None => self.saved.as_ref().ok_or("nothing was saved")?.read(at, into),
        }
    }

    fn connect(&mut self, key: u64) -> Connected {
        if self.is_in_pieces() {
            return Connected::Later;
        }
        // One that still begins may refuse its first connection: the feeder sees to it that the
        // program is at rest since it was seen to listen.
        if !self.start.is_seen && self.is_up() {
            self.start.is_seen = true;
            return Connected::Later;
        }
        if !self.start.has_settled() {
            return Connected::Later; // it has to be at rest when it is asked again
        }
        let fd = match self.loaded().and_then(|()| self.connected()) {
            Ok(fd) => fd,
            Err(error) => return self.refuse(error),
        };
        self.is_starved = false;
        if !self.start.has_listened {
            self.has_begun_to_listen(&fd);
        }
        self.start.has_listened = true;
        let watched = self
            .poller
            .as_ref()
            .is_some_and(|(poller, ..)| poller.add(&fd, LEG | key, Interest::Read).is_ok());
        if !watched {
            return Connected::Refused;
        }
        let at = key as usize;
        if at >= self.legs.len() {
            self.legs.resize_with(at + 1, || None);
        }
        self.legs[at] = Some(fd);
        Connected::Done
    }

    fn read(&mut self, key: u64, into: &mut [u8]) -> Result<Received, Broken> {
        if matches!(self.place.address, Address::Udp(_)) {
            return datagrams::read(self.leg(key)?, into);
        }
        match rustix::io::read(self.leg(key)?, into) {
            Ok(0) => Ok(Received::End),
            Ok(n) => Ok(Received::Bytes(n)),
            Err(Errno::AGAIN | Errno::INTR) => Ok(Received::Nothing),
            Err(_) => Err(Broken),
        }
    }

    fn write(&mut self, key: u64, bytes: &[u8]) -> Result<usize, Broken> {
        match rustix::io::write(self.leg(key)?, bytes) {
            Ok(n) => Ok(n),
            Err(Errno::AGAIN | Errno::INTR) => Ok(0),
            Err(_) => Err(Broken),
        }
    }

    fn end(&mut self, key: u64) {
        if let Ok(leg) = self.leg(key) {
            // A program that has closed the leg reports that to the reader.
            let _ = rustix::net::shutdown(leg, Shutdown::Write);
        }
    }

    fn watch(&mut self, key: u64, interest: Interest) -> Result<(), Broken> {
        let leg = self.leg(key)?;
        let (poller, ..) = self.poller.as_ref().ok_or(Broken)?;
        poller.change(leg, LEG | key, interest).map_err(|_| Broken)
    }

    fn close(&mut self, key: u64) {
        if let Some(leg) = self.legs.get_mut(key as usize) {
            *leg = None;
        }
    }

    fn is_asleep(&mut self) -> bool {
        if let Some(inside) = &mut self.inside {
            inside.bury_the_dead();
            if inside.owes_an_end() {
                return false;
            }
        }
        let is_in_pieces = self.is_in_pieces();
        let dumps = self.renewals.as_ref().is_some_and(|of| of.dumps);
        // (Of a program that is dumped, and was restored, the first process is not looked for.)
        let Some(pid) = self.child.as_ref().map(|(child, _)| child.id()) else { return false };
        !is_in_pieces && is_asleep(pid) && (dumps || !has_ended(pid))
    }

    /// (Datagrams are read from the socket that is there. A program that was restored continues.)
    fn has_accepted(&mut self) -> bool {
        let is_seen = !matches!(self.place.address, Address::Udp(_));
        !is_seen || self.inside.as_ref().is_none_or(Inside::has_accepted)
    }

    fn tell_time(&mut self, time_ms: u64) -> bool {
        self.inside.as_mut().is_some_and(|inside| inside.tell_time(time_ms))
    }

    fn awaited_ms(&mut self) -> Option<u64> {
        self.inside.as_ref()?.awaited_ms()
    }

    fn repose(&mut self) -> Repose {
        self.inside.as_mut().map_or(Repose::Moves, Inside::repose)
    }

    fn hold(&mut self) -> bool {
        self.inside.as_mut().is_some_and(Inside::hold)
    }

    fn let_go(&mut self) {
        if let Some(inside) = &mut self.inside {
            inside.let_go();
        }
    }
}

impl Drop for Copy {
    /// The copy, and whatever it has forked, end with the member.
    fn drop(&mut self) {
        self.kill();
        drop(self.renewals.take());
        if let Some((child, _)) = &mut self.child {
            let _ = child.wait();
        }
    }
}
