//! The program that is replicated: its command, and what is known of it.

mod saving;

use super::{Config, Durability, Protocol};
use crate::elf;
use clap::ValueEnum;
use console::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::path::PathBuf;
use std::time::Duration;

pub(crate) use saving::{EndBy, SaveBy};

/// The order in which a copy of the program sees the input of different connections.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum InputOrder {
    /// One connection after the other: the next one's input waits until the program is at rest.
    #[default]
    Serial,
    /// What lies there at once, for programs with one loop that waits for descriptors: each value
    /// of the log is what one turn of the loop finds.
    Loop,
    /// As the program takes it: copies may differ, which only their answers show.
    Relaxed,
}

/// The way in which it is known that the program is at rest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum RestBy {
    /// Every request has its reply, in Redis's protocol.
    Resp,
    /// The same in memcached's protocol of lines.
    Memcached,
    /// The program says nothing for 2 ms, and all its threads sleep.
    Quiet,
    /// Every thread of the program waits, by what the preloaded library says.
    Waits,
}

/// The protocol whose reads run beside the log, at the copy beside the client alone.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum ReadsOf {
    /// None: reads go through the log as all requests do.
    #[default]
    None,
    /// Redis's protocol: GET, HGET, LRANGE, ZRANGE and their kin.
    Resp,
    /// Memcached's protocol of lines: get and gets.
    Memcached,
}

impl ReadsOf {
    /// How the rest of the program has to be known: a read's answer is counted too.
    const fn rest(self) -> Option<RestBy> {
        match self {
            ReadsOf::None => None,
            ReadsOf::Resp => Some(RestBy::Resp),
            ReadsOf::Memcached => Some(RestBy::Memcached),
        }
    }

    /// The protocol whose reads can run beside the log, where rest is known so.
    pub(crate) fn by(rest: RestBy) -> Option<ReadsOf> {
        [ReadsOf::Resp, ReadsOf::Memcached].into_iter().find(|of| of.rest() == Some(rest))
    }
}

/// The word of a command line that says which keys are evicted, and the one for none.
const EVICTION: &str = "--maxmemory-policy";
const KEEPS_ALL: &str = "noeviction";

/// Words of a command line by which what reads do would decide what writes do, or by which a
/// read's name is another command's.
const UNFIT_FOR_READS: [&str; 2] = [EVICTION, "--rename-command"];

/// The way in which a member is attached to its copy of the program.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Attach {
    /// By its streams, and by a library that is loaded into it.
    Preload,
    /// By its streams alone: for static programs, and such as make system calls past the C library.
    Proxy,
}

/// Where what the program draws comes from.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Chance {
    /// From a stream that all copies share, by the preloaded library.
    #[default]
    Shared,
    /// From the kernel: copies draw differently.
    Kernel,
}

/// Which time a copy sees.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Time {
    /// That of its host: what depends on it differs between copies.
    #[default]
    Kernel,
    /// That of the log, the same for all copies, by the preloaded library: clocks show it, and
    /// waits end by it.
    Log,
}

/// How much a copy is kept from what differs between hosts, and from what is not its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Confine {
    /// As far as the host allows: it is said what it does not.
    #[default]
    Best,
    /// Wholly, or the copy does not start.
    Strict,
    /// Not at all.
    None,
}

impl Confine {
    /// Its name on a command line.
    pub(crate) const fn name(self) -> &'static str {
        match self {
            Confine::Best => "best",
            Confine::Strict => "strict",
            Confine::None => "none",
        }
    }
}

/// When an answer leaves to its client.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum Output {
    /// At once; the copies are compared after every so many entries.
    #[default]
    AtOnce,
    /// When a majority's copies are known to have given the same, by their hashes in the log.
    Strict,
}

/// What a member does when no majority of the copies answers alike.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub(crate) enum WhenSplit {
    /// It serves on, and `status` says so.
    #[default]
    Serve,
    /// It serves no client until its process is begun again.
    Stop,
}

/// The entries of connections from one comparison of the copies' answers to the next.
pub(crate) const COMPARE: u64 = 1000;

/// The seconds after which a copy that takes up nothing is dropped, if others have gone past it.
pub(crate) const STALL_S: u64 = replicate::stall::STALLED_AFTER.as_secs();

/// The least number of entries from one checkpoint to the next, where there is a way to save.
const CHECKPOINT: u64 = 100_000;

/// See [`Program::time_step_ms`].
const TIME_STEP_MS: u64 = 10;

/// A program that is replicated. The same at all members.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(deny_unknown_fields)]
pub(crate) struct Program {
    /// The command line, with `{socket}`, `{socketdir}`, `{port}` or `{udp}` where it listens, and
    /// `{dir}` for its directory.
    pub(crate) command: String,
    /// The directory of the program's first state; without one, it is empty.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) genesis: Option<PathBuf>,
    /// See [`InputOrder`].
    #[serde(default)]
    pub(crate) order: InputOrder,
    /// See [`RestBy`]; by default as the program's name says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) rest: Option<RestBy>,
    /// See [`ReadsOf`].
    #[serde(default)]
    pub(crate) reads: ReadsOf,
    /// The entries of connections from one comparison of the copies' answers to the next; 0 for
    /// none.
    #[serde(default = "usual_compare")]
    pub(crate) compare: u64,
    /// The least number of entries from one checkpoint to the next; 0 for none. By default as the
    /// program's name says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) checkpoint: Option<u64>,
    /// See [`SaveBy`]; by default as the program's rest is known.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) save: Option<SaveBy>,
    /// See [`EndBy`].
    #[serde(default)]
    pub(crate) end: EndBy,
    /// The seconds after which all clients are closed that put a checkpoint off; never without.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) close_s: Option<u64>,
    /// The seconds after which a copy that takes up nothing is dropped, if a majority's copies have
    /// answered alike further on; 0 for never.
    #[serde(default = "usual_stall")]
    pub(crate) stall_s: u64,
    /// See [`WhenSplit`].
    #[serde(default)]
    pub(crate) split: WhenSplit,
    /// See [`Output`].
    #[serde(default)]
    pub(crate) output: Output,
    /// See [`Attach`]; by default as the program's file says.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) attach: Option<Attach>,
    /// See [`Chance`].
    #[serde(default)]
    pub(crate) chance: Chance,
    /// See [`Time`].
    #[serde(default)]
    pub(crate) time: Time,
    /// See [`Confine`].
    #[serde(default)]
    pub(crate) confine: Confine,
    /// Whether the program has the host's network: else it has one of its own, with nothing in it.
    #[serde(default)]
    pub(crate) outbound: bool,
    /// Whether the program asks its clients for a password: then it may be served to other hosts.
    #[serde(default)]
    pub(crate) authenticates: bool,
}

fn usual_compare() -> u64 {
    COMPARE
}

fn usual_stall() -> u64 {
    STALL_S
}

/// The parts of a command line in braces that are replaced.
const PLACEHOLDERS: [&str; 5] = ["socket", "socketdir", "port", "udp", "dir"];

impl Program {
    /// A program of which the command line alone is known.
    pub(crate) fn of(command: &str) -> Program {
        Program {
            command: command.to_owned(),
            genesis: None,
            order: InputOrder::default(),
            rest: None,
            reads: ReadsOf::default(),
            compare: COMPARE,
            checkpoint: None,
            save: None,
            end: EndBy::default(),
            close_s: None,
            stall_s: STALL_S,
            split: WhenSplit::default(),
            output: Output::default(),
            attach: None,
            chance: Chance::default(),
            time: Time::default(),
            confine: Confine::default(),
            outbound: false,
            authenticates: false,
        }
    }

    /// The words of the command line.
    pub(crate) fn words(&self) -> Outcome<Vec<String>> {
        let words = shlex::split(&self.command).ok_or_else(|| {
            Failure::new(format_args!(
                "--replicate {:?} is no command line: look for a quote that is not closed",
                self.command
            ))
        })?;
        if words.is_empty() {
            return Err(Failure::new(format_args!(
                "--replicate {:?} names no program: give a command line, as \
                 'redis-server --port 0 --unixsocket {{socket}}'",
                self.command
            )));
        }
        Ok(words)
    }

    /// Whether the program listens at a port, not at a socket in the file system.
    pub(crate) fn listens_at_port(&self) -> bool {
        self.command.contains("{port}")
    }

    /// Whether clients speak to the program by UDP.
    pub(crate) fn is_told_by_udp(&self) -> bool {
        self.command.contains("{udp}")
    }

    /// Whether the program makes a socket in a directory, by a name of its own.
    pub(crate) fn names_its_socket(&self) -> bool {
        self.command.contains("{socketdir}")
    }

    /// How it is known that the program is at rest.
    pub(crate) fn rest(&self) -> RestBy {
        self.rest.unwrap_or_else(|| match (self.name().as_str(), self.attach()) {
            // A turn is held by the library.
            _ if self.order == InputOrder::Loop => RestBy::Waits,
            ("redis-server" | "valkey-server", _) => RestBy::Resp,
            ("memcached", _) => RestBy::Memcached,
            (_, Attach::Preload) => RestBy::Waits,
            (_, Attach::Proxy) => RestBy::Quiet,
        })
    }

    /// The name of the program's file.
    fn name(&self) -> String {
        let words = self.words().unwrap_or_default();
        words.first().map_or("", |word| word.rsplit('/').next().unwrap_or(word)).to_owned()
    }

    /// Whether clients speak Redis's protocol, however its rest is known.
    pub(crate) fn speaks_resp(&self) -> bool {
        let is_redis = matches!(self.name().as_str(), "redis-server" | "valkey-server");
        is_redis || self.rest() == RestBy::Resp
    }

    /// Whether clients speak memcached's protocols, however its rest is known.
    pub(crate) fn speaks_memcached(&self) -> bool {
        self.name() == "memcached" || self.rest() == RestBy::Memcached
    }

    /// The time after which a copy that takes up nothing is dropped.
    pub(crate) fn stalled_after(&self) -> Duration {
        if self.stall_s == 0 { Duration::MAX } else { Duration::from_secs(self.stall_s) }
    }

    /// The least time from one time that the copies are told to the next, but for timers; 0 if
    /// their clocks are the kernel's.
    pub(crate) fn time_step_ms(&self) -> u64 {
        if self.time == Time::Log { TIME_STEP_MS } else { 0 }
    }

    /// How a member is attached to its copy.
    pub(crate) fn attach(&self) -> Attach {
        self.attach.unwrap_or_else(|| {
            if self.saves_processes() {
                return Attach::Proxy; // what the library shares with the member cannot be dumped
            }
            let words = self.words().unwrap_or_default();
            let file = words.first().and_then(|name| find(name));
            match file.is_some_and(|file| elf::loads_libraries(&file)) {
                true => Attach::Preload,
                false => Attach::Proxy,
            }
        })
    }

    /// Refuses a command that cannot be replicated.
    pub(crate) fn check(&self) -> Outcome<()> {
        let words = self.words()?;
        for name in words.iter().flat_map(|word| in_braces(word)) {
            if !PLACEHOLDERS.contains(&name) {
                return Err(Failure::new(format_args!(
                    "--replicate: {{{name}}} stands for nothing; there are {{socket}}, \
                     {{socketdir}}, {{port}}, {{udp}} and {{dir}}"
                )));
            }
        }
        let places = [
            self.command.contains("{socket}"),
            self.names_its_socket(),
            self.listens_at_port(),
            self.is_told_by_udp(),
        ];
        if places.iter().filter(|is_said| **is_said).count() != 1 {
            return Err(Failure::new(
                "--replicate: say where the program listens, by {socket} for a Unix socket's path, \
                 {socketdir} for the directory in which it makes one, {port} for a port of \
                 127.0.0.1, or {udp} for one that it hears by UDP, and by one of them alone: \
                 'redis-server --port 0 --unixsocket {socket}'",
            ));
        }
        // (Without a word about rest, it follows from how the member is attached.)
        if self.rest == Some(RestBy::Waits) && self.attach() == Attach::Proxy {
            return Err(Failure::new(
                "--program-rest waits takes the preloaded library: say --program-attach preload, \
                 or --program-rest quiet if the program is static",
            ));
        }
        if self.time == Time::Log && self.attach() == Attach::Proxy {
            return Err(Failure::new(
                "--program-time log takes the preloaded library, which static programs do not load: \
                 say --program-time kernel, or --program-attach preload",
            ));
        }
        let is_held = self.rest() != RestBy::Quiet && self.attach() == Attach::Preload;
        if self.order == InputOrder::Loop && !is_held {
            return Err(Failure::new(
                "--program-order loop holds the program's loop by the preloaded library: say \
                 --program-rest waits (or resp, or memcached), and --program-attach preload",
            ));
        }
        // A datagram that finds no room is lost, in one copy alone: the next is fed at rest.
        let is_fed_at_rest = self.rest() == RestBy::Waits && self.order == InputOrder::Serial;
        if self.is_told_by_udp() && !is_fed_at_rest {
            return Err(Failure::new(
                "--replicate: a program at {udp} is fed with the next datagram when it waits: say \
                 --program-rest waits, --program-attach preload and --program-order serial",
            ));
        }
        self.check_reads(&words)?;
        self.check_eviction(&words)?;
        self.check_output()?;
        if !is_there(&words[0]) {
            return Err(Failure::new(format_args!(
                "--replicate: there is no program {:?}: install it, or name its path",
                words[0]
            )));
        }
        self.check_checkpoints()?;
        if let Some(genesis) = self.genesis.as_ref().filter(|genesis| !genesis.is_dir()) {
            return Err(Failure::new(format_args!(
                "--genesis {}: there is no such directory",
                genesis.display()
            )));
        }
        Ok(())
    }

    /// Refuses to hold answers where nothing would tell what a majority's copies have given.
    fn check_output(&self) -> Outcome<()> {
        if self.output != Output::Strict {
            return Ok(());
        }
        if self.reads != ReadsOf::None {
            return Err(Failure::new(
                "--program-output strict: a read beside the log is answered by one copy alone, so no \
                 majority can give the same: say --program-reads none, or --program-output at-once",
            ));
        }
        if self.compare == 0 {
            return Err(Failure::new(
                "--program-output strict: an answer leaves when the copies were compared, so say \
                 --program-compare 1000, or --program-output at-once",
            ));
        }
        Ok(())
    }

    /// Refuses a program that evicts keys by a clock that each copy has of its own.
    fn check_eviction(&self, words: &[String]) -> Outcome<()> {
        let policy = words.windows(2).find(|two| two[0] == EVICTION && two[1] != KEEPS_ALL);
        if let Some([_, policy]) = policy
            && self.time == Time::Kernel
        {
            return Err(Failure::new(format_args!(
                "--replicate: with {EVICTION} {policy} each copy evicts other keys, by its own clock: \
                 say {EVICTION} {KEEPS_ALL}, or --program-time log"
            )));
        }
        Ok(())
    }

    /// Refuses reads beside the log where they cannot be told, or would change something.
    fn check_reads(&self, words: &[String]) -> Outcome<()> {
        let Some(rest) = self.reads.rest() else { return Ok(()) };
        if self.rest() != rest || self.order != InputOrder::Serial {
            return Err(Failure::new(
                "--program-reads: a read's answer is known by the replies of its protocol, and its \
                 place by the serial order: say --program-rest resp for --program-reads resp, \
                 --program-rest memcached for memcached, and --program-order serial",
            ));
        }
        let unfit = words.windows(2).find(|two| {
            let is_harmless = two[0] == EVICTION && two[1] == KEEPS_ALL;
            UNFIT_FOR_READS.contains(&two[0].as_str()) && !is_harmless
        });
        if let Some([word, value]) = unfit {
            return Err(Failure::new(format_args!(
                "--program-reads: with {word} {value} a read that one copy alone executes could change \
                 what a write does there: leave that off, or say --program-reads none"
            )));
        }
        Ok(())
    }
}

/// The names in braces in a word.
fn in_braces(word: &str) -> impl Iterator<Item = &str> {
    let named = |name: &&str| name.chars().all(|c| c.is_ascii_lowercase()) && !name.is_empty();
    word.split('{')
        .skip(1)
        .filter_map(|rest| rest.split_once('}'))
        .map(|(name, _)| name)
        .filter(named)
}

fn is_there(program: &str) -> bool {
    find(program).is_some()
}

/// The file of a program.
pub(crate) fn find(program: &str) -> Option<PathBuf> {
    if program.contains('/') {
        return Some(PathBuf::from(program)).filter(|path| path.is_file());
    }
    let path = std::env::var_os("PATH").unwrap_or_default();
    std::env::split_paths(&path)
        .map(|directory| directory.join(program))
        .find(|path| path.is_file())
}

impl Config {
    /// Refuses settings that a replicated program does not have.
    pub(super) fn check_program(&self) -> Outcome<()> {
        let Some(program) = &self.program else { return Ok(()) };
        program.check()?;
        check_kind(self.protocol, self.durability, self.partitions.is_some())?;
        if self.requirepass.is_some() || self.cluster_discovery || self.maxmemory > 0 {
            return Err(Failure::new(
                "requirepass, cluster_discovery and maxmemory are the key-value store's: a \
                 replicated program has settings of its own",
            ));
        }
        let ip = self.own().client.ip();
        if !ip.is_loopback() && !program.authenticates {
            return Err(Failure::new(format_args!(
                "{ip} is not loopback: bind to 127.0.0.1, or say --program-authenticates if the \
                 program asks its clients for a password"
            )));
        }
        Ok(())
    }
}

/// Refuses what no program can be replicated by.
pub(crate) fn check_kind(
    protocol: Protocol,
    durability: Durability,
    has_partitions: bool,
) -> Outcome<()> {
    if !matches!(protocol, Protocol::Log(_)) || has_partitions {
        return Err(Failure::new(format_args!(
            "a program needs one order of everything, which {} does not give: leave --protocol \
             and --partitions out",
            protocol.name()
        )));
    }
    if durability == Durability::DiskAll {
        return Err(Failure::new(
            "a copy answers when a majority has the input: say --durability disk-quorum",
        ));
    }
    Ok(())
}

#[cfg(test)]
mod tests;
