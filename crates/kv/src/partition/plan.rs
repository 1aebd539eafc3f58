//! The partitions that a command concerns, and whether they can execute it one by one.
//!
//! - L1 a command's partitions are a function of its bytes, so that its sender and every replica
//!   that executes it agree. By construction. The one exception is the partition in which a new
//!   session lives: the addressees of the message that opens it decide that.

use super::hash::{Partitions, partition_of};
use super::scan;
use crate::client_sessions::SessionId;
use crate::command::{Args, CommandSpec, flag, keys_of, resolve};
use crate::entry::command::Item;
use crate::entry::{Command, SessionCommand};
use crate::reply::Reply;

/// The division of a keyspace among partitions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Map {
    /// The number of partitions.
    pub n: usize,
    /// Whether there is a limit of memory, so that a write of several partitions may have to be
    /// refused because of one of them.
    pub is_limited: bool,
}

/// The combination of several partitions' answers.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Merge {
    /// The sum of the answers.
    Sum,
    /// The first answer: all are the same.
    First,
    /// One array of all elements.
    Concatenate,
    /// One array, whose elements have the places of their keys.
    Scatter,
    /// One array of integers, each the least one at its place.
    Least,
}

/// The way in which a command is executed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Shape {
    /// The one partition that it concerns executes it.
    One(usize),
    /// Each of these partitions executes it for its own keys, at its own turn.
    Each(Partitions, Merge),
    /// All of these partitions execute it at once: the content of one decides the effect on
    /// another.
    Together(Partitions),
}

impl Shape {
    /// The partitions that the command concerns.
    pub(super) fn partitions(self) -> Partitions {
        match self {
            Shape::One(at) => Partitions::one(at),
            Shape::Each(all, _) | Shape::Together(all) => all,
        }
    }

    fn together(all: Partitions) -> Shape {
        match all.lowest() {
            Some(only) if all.len() == 1 => Shape::One(only),
            Some(_) => Shape::Together(all),
            None => Shape::One(0),
        }
    }

    fn each(all: Partitions, merge: Merge) -> Shape {
        match all.lowest() {
            Some(only) if all.len() == 1 => Shape::One(only),
            Some(_) => Shape::Each(all, merge),
            None => Shape::One(0),
        }
    }
}

impl Map {
    /// The partition of a key.
    pub fn partition_of(&self, key: &[u8]) -> usize {
        partition_of(key, self.n)
    }

    /// The partition that keeps a client's session.
    pub(super) fn home_of(&self, id: SessionId) -> usize {
        // Less than `n`, which fits.
        (id.0 % self.n as u64) as usize
    }

    fn all(&self) -> Partitions {
        Partitions::first(self.n)
    }

    /// The partitions that the command in these bytes concerns (L1). New sessions go to one
    /// partition after another; `opened` counts them.
    pub fn route(&self, command: &[u8], opened: &mut usize) -> Partitions {
        match Command::decode(command) {
            Ok(Command::Session(SessionCommand::Open)) => {
                let home = *opened % self.n;
                *opened = opened.wrapping_add(1);
                Partitions::one(home)
            }
            Ok(command) => self.shape(&command).partitions(),
            // Any partition may answer that it is malformed.
            Err(_) => Partitions::one(0),
        }
    }

    pub(super) fn shape(&self, command: &Command<'_>) -> Shape {
        match command {
            Command::Plain { args, .. } => self.shape_of_args(args),
            Command::Transaction { guards, items, .. } => {
                let watched =
                    guards.clone().map(|(key, _)| Partitions::one(self.partition_of(key.key)));
                let executed = items.clone().map(|item| match item {
                    Item::Execute(args) if is_select(&args) => Partitions::NONE,
                    Item::Execute(args) => self.shape_of_args(&args).partitions(),
                    Item::Answered(_) => Partitions::NONE,
                });
                Shape::together(watched.chain(executed).fold(Partitions::NONE, Partitions::and))
            }
            Command::Versions { keys, .. } => Shape::each(self.of_keys(keys), Merge::Scatter),
            Command::Session(command) => self.shape_of_session(command),
        }
    }

    fn shape_of_session(&self, command: &SessionCommand<'_>) -> Shape {
        let (id, called) = match *command {
            // The session lives where the message was sent; see `Map::route`.
            SessionCommand::Open => return Shape::One(0),
            SessionCommand::Resume(id) | SessionCommand::End(id) => (id, &[][..]),
            SessionCommand::Call { id, command, .. } => (id, command),
            SessionCommand::Read { id, command, .. } => (id, command),
        };
        let of_call = match Command::decode(called) {
            Ok(command @ (Command::Plain { .. } | Command::Transaction { .. })) => {
                self.shape(&command).partitions()
            }
            Ok(Command::Versions { .. } | Command::Session(_)) | Err(_) => Partitions::NONE,
        };
        Shape::together(of_call.and(Partitions::one(self.home_of(id))))
    }

    fn of_keys(&self, keys: &[&[u8]]) -> Partitions {
        keys.iter().map(|key| self.partition_of(key)).collect()
    }

    pub(super) fn shape_of_args(&self, args: &Args<'_>) -> Shape {
        // The partition that executes the command makes the error reply again.
        match resolve(args, &mut Reply::default()) {
            Some(spec) => self.shape_of(spec, args),
            None => Shape::One(0),
        }
    }

    pub(super) fn shape_of(&self, spec: &CommandSpec, args: &[&[u8]]) -> Shape {
        match spec.name {
            "scan" => return Shape::One(scan::partition(args[1]).min(self.n - 1)),
            "keys" => return Shape::each(self.all(), Merge::Concatenate),
            "dbsize" => return Shape::each(self.all(), Merge::Sum),
            "flushall" | "flushdb" | "swapdb" | "script|load" | "script|flush" => {
                return Shape::each(self.all(), Merge::First);
            }
            "publish" => return Shape::One(self.partition_of(args[1])),
            "script|exists" => return Shape::each(self.all(), Merge::Least),
            "randomkey" => return Shape::together(self.all()),
            _ => {}
        }
        let Ok(keys) = keys_of(spec, args) else { return Shape::One(0) };
        let all: Partitions =
            keys.filter_map(|at| args.get(at)).map(|key| self.partition_of(key)).collect();
        match spec.name {
            // A key without a value: any partition may refuse it.
            "mset" | "msetnx" if args.len().is_multiple_of(2) => Shape::One(0),
            "mget" => Shape::each(all, Merge::Scatter),
            "del" | "unlink" | "exists" | "touch" => Shape::each(all, Merge::Sum),
            "mset" if !(self.is_limited && spec.is(flag::DENYOOM)) => {
                Shape::each(all, Merge::First)
            }
            _ => Shape::together(all),
        }
    }
}

/// Whether the command concerns the rest of its transaction, and no partition.
fn is_select(args: &[&[u8]]) -> bool {
    args[0].eq_ignore_ascii_case(b"select")
}

/// Whether executing it changes nothing but time, so that only the process that answers it needs
/// to.
pub(super) fn is_read(command: &Command<'_>) -> bool {
    match command {
        Command::Plain { args, .. } => {
            resolve(args, &mut Reply::default()).is_some_and(|spec| !spec.is_write())
        }
        Command::Versions { .. } | Command::Session(SessionCommand::Read { .. }) => true,
        Command::Transaction { .. } | Command::Session(_) => false,
    }
}
