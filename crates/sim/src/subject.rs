//! The simulated members: whole ones, seen through the runtime's interface.
//!
//! The world is compiled once: it knows its members as [`Life`], and their kind as [`Subject`].
//! Only a member itself is compiled for each protocol, once sound and once with a bug.

use crate::accepts::Spoils;
use crate::coverage::Mark;
use crate::{NodeHost, Provider, Snapshots, Stamps, Store, member};
use base::{At, Inbox, Instant, MemberSet, Prefix, Rank, Slot};
use proto::LogShape;
use proto::claims::{Accepting, Acceptor, Entry, Reads, Rising};
use proto::disk::DiskEvent;
use proto::members::{Change, ChangeRefused, Configuration, StateHead};
use proto::node::Timing;
use proto::planted::{Bugs, Caught, Sound};
use proto::registry::LogSpec;
use proto::{Refused, Replicator, Status, Ticket};

/// The way in which a life begins.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Birth {
    /// With the group, on zeroed memory, with the empty state.
    Fresh,
    /// On an empty disk, on a seat of an existing cluster.
    Joined {
        /// The incarnation of the disk.
        incarnation: base::Incarnation,
    },
    /// On the region of an earlier life, without the state.
    Reattached,
    /// On the disk of an earlier life, with the state of its last snapshot.
    Recovered {
        /// The prefix that the state covers.
        applied: Prefix,
        /// The head that was kept beside it.
        head: Option<StateHead>,
    },
}

/// The parameters of a member.
#[derive(Clone, Copy, Debug)]
pub struct Setup {
    /// The rank of the member.
    pub me: Rank,
    /// The number of seats.
    pub members: usize,
    /// The first voters among them.
    pub founders: MemberSet,
    /// The way in which this life begins.
    pub birth: Birth,
    /// The sizes.
    pub shape: LogShape,
    /// Whether posting to a peer wakes it (`fabric::Capabilities::peer_works`).
    pub peer_works: bool,
    /// Whether a dead process's memory answers.
    pub memory_outlives_process: bool,
    /// The times of its detector's beats and suspicions.
    pub timing: Timing,
    /// Its protocol's planted bug, as an index into the protocol's list.
    pub bug: Option<usize>,
}

/// A member under test, from its start to its end. The world keeps the runtime's part of the
/// contract (`proto::Replicator`).
pub trait Life: 'static {
    /// The longest value, in bytes.
    fn value_bytes_max(&self) -> usize;

    /// See `proto::Replicator::propose`.
    ///
    /// # Errors
    /// Nothing was proposed.
    fn propose(
        &mut self,
        value: &[u8],
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, Refused>;

    /// See `proto::Replicator::read`.
    fn read(&mut self, ticket: Ticket, now: Instant, host: &mut NodeHost<'_>);

    /// Takes all events of the fabric, then reads the own region and takes the time.
    fn run(&mut self, events: &Inbox, now: Instant, host: &mut NodeHost<'_>);

    /// Takes one event of its disk.
    fn on_disk(&mut self, event: DiskEvent, now: Instant, host: &mut NodeHost<'_>);

    /// Notes that a durable state covers everything below `prefix`.
    fn snapshotted(&mut self, prefix: Prefix, host: &mut NodeHost<'_>);

    /// The time at which [`Life::run`] is due even if nothing happens.
    fn deadline(&self) -> Instant;

    /// Continues from the state of `applied`, which the state machine now holds.
    fn install(
        &mut self,
        applied: Prefix,
        head: Option<StateHead>,
        now: Instant,
        host: &mut NodeHost<'_>,
    );

    /// The head of a state of everything below `prefix`.
    fn state_head(&self, prefix: Prefix) -> Option<StateHead>;

    /// The figures of the machine.
    fn status(&self) -> Status;

    /// The members, as far as it knows; `None` where they never change.
    fn configuration(&self) -> Option<Configuration>;

    /// See `proto::Replicator::change`.
    ///
    /// # Errors
    /// Nothing changes.
    fn change(
        &mut self,
        change: Change,
        now: Instant,
        host: &mut NodeHost<'_>,
    ) -> Result<Slot, ChangeRefused>;

    /// The leader, as far as it knows.
    fn trusted(&self) -> Option<Rank>;

    /// The prefix that it reports as held by every voter's disk.
    fn held(&self) -> Prefix;

    /// See [`LogSpec::granted`].
    fn granted(&self, now: Instant) -> Option<Rank>;

    /// The slots that it has read from others' rings and delivered, if it counts them.
    fn n_caught_up(&self) -> u64;
}

/// A protocol, and its environment: a world needs no other knowledge of its members.
#[derive(Clone, Copy)]
pub struct Subject {
    /// The name on the command line and in reports.
    pub name: &'static str,
    /// The description, in a sentence.
    pub text: &'static str,
    pub(crate) is_durable: bool,
    /// See [`proto::Replicator::NEEDS_HEAD`].
    pub(crate) needs_head: bool,
    /// Whether members change, by an operator.
    pub(crate) has_operator: bool,
    /// The kind of the disks.
    pub(crate) store: Store,
    /// The way in which the runtime makes snapshots.
    pub(crate) snapshots: Snapshots,
    /// The way in which leaders stamp their batches.
    pub(crate) stamps: Stamps,
    /// The only fabric that gives what the protocol needs, where not all do.
    pub(crate) provider: Option<Provider>,
    /// Clocks drift, but none jumps: the protocol's promise ends there.
    pub(crate) has_steady_clocks: bool,
    /// The protocol's planted bug, as an index into its list.
    pub(crate) bug: Option<usize>,
    pub(crate) bugs: fn() -> Vec<Listed>,
    /// Bugs of the machine's environment that sweeps must find, and those that show only in runs of
    /// a day.
    pub(crate) around: &'static [Surrounding],
    pub(crate) around_for_days: &'static [Surrounding],
    /// See [`LogSpec::UNMET`].
    pub(crate) unmet: &'static [&'static str],
    /// See [`LogSpec::LEADER_ALONE_READS`].
    pub(crate) leader_alone_reads: bool,
    pub(crate) n_words: fn(usize, &LogShape) -> usize,
    /// See [`LogSpec::introduction`].
    pub(crate) introduction: fn(usize, &LogShape, Rank) -> Option<At>,
    pub(crate) claims: Claims,
    pub(crate) start: fn(&Setup, &mut NodeHost<'_>) -> Box<dyn Life>,
}

/// What the memory of a protocol's members says, for judges.
#[derive(Clone, Copy)]
pub(crate) struct Claims {
    /// See [`LogSpec::accepting`].
    pub(crate) accepting: fn(usize, &LogShape) -> Accepting,
    /// See [`LogSpec::rising`].
    pub(crate) rising: fn(usize, &LogShape) -> Rising,
    /// See [`LogSpec::entry`].
    pub(crate) entry: fn(usize, &LogShape, &[u64], u32) -> Entry,
    /// See [`LogSpec::spoils`].
    pub(crate) spoils: Spoils,
    /// See [`LogSpec::acceptor`].
    pub(crate) acceptor: for<'a> fn(usize, &LogShape, &'a [u64], Slot) -> Option<Acceptor<'a>>,
    /// See [`LogSpec::reads`].
    pub(crate) reads: fn(usize, &LogShape) -> Reads,
}

impl Claims {
    const fn of<S: LogSpec>() -> Claims {
        Claims {
            accepting: S::accepting,
            rising: S::rising,
            entry: S::entry,
            spoils: S::spoils,
            acceptor: S::acceptor,
            reads: S::reads,
        }
    }
}

/// A planted bug of a protocol, without its type.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Listed {
    pub(crate) name: &'static str,
    pub(crate) caught: Caught,
}

/// A planted bug of a machine's environment: its disk, its snapshots, its stamps.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Surrounding {
    /// The name in reports.
    name: &'static str,
    store: Option<Store>,
    snapshots: Snapshots,
    stamps: Stamps,
}

impl Surrounding {
    const fn sound(name: &'static str) -> Surrounding {
        Surrounding { name, store: None, snapshots: Snapshots::Sound, stamps: Stamps::Sound }
    }

    pub(crate) const fn store(name: &'static str, store: Store) -> Surrounding {
        Surrounding { store: Some(store), ..Surrounding::sound(name) }
    }

    pub(crate) const fn snapshots(name: &'static str, snapshots: Snapshots) -> Surrounding {
        Surrounding { snapshots, ..Surrounding::sound(name) }
    }

    pub(crate) const fn stamps(name: &'static str, stamps: Stamps) -> Surrounding {
        Surrounding { stamps, ..Surrounding::sound(name) }
    }

    /// The subject with the bug, named after it.
    pub(crate) fn around(&self, subject: Subject) -> Subject {
        let store = self.store.unwrap_or(subject.store);
        let &Surrounding { name, snapshots, stamps, .. } = self;
        Subject { name, store, snapshots, stamps, ..subject }
    }
}

impl Subject {
    /// The protocol `S` on the fabrics and the disks that it has, with members that never change.
    pub(crate) fn of<S: LogSpec>() -> Subject {
        Subject {
            name: S::ROW.name,
            text: S::ROW.summary,
            is_durable: S::ROW.gives("disk-quorum"),
            needs_head: <S::Machine<Sound> as Replicator>::NEEDS_HEAD,
            has_operator: false,
            store: Store::Model,
            snapshots: Snapshots::Sound,
            stamps: Stamps::Sound,
            provider: (!S::ROW.fabrics.contains(&"shm")).then_some(Provider::Tcp),
            has_steady_clocks: S::NEEDS_STEADY_CLOCKS,
            bug: None,
            bugs: list_bugs::<S>,
            around: &[],
            around_for_days: &[],
            unmet: S::UNMET,
            leader_alone_reads: S::LEADER_ALONE_READS,
            n_words: member::n_words::<S>,
            introduction: S::introduction,
            claims: Claims::of::<S>(),
            start: member::start::<S>,
        }
    }

    /// The same under its own name and another word, which is kept for the rest of the program.
    pub(crate) fn called(self, word: &str, text: &'static str) -> Subject {
        Subject { name: format!("{}-{word}", self.name).leak(), text, ..self }
    }

    /// The same on disks made of `store`.
    pub(crate) const fn on(self, store: Store) -> Subject {
        Subject { store, ..self }
    }

    /// The same with members that change.
    pub(crate) const fn operated(self) -> Subject {
        Subject { has_operator: true, ..self }
    }

    /// The same, in which sweeps must also find these bugs.
    pub(crate) const fn among(self, around: &'static [Surrounding]) -> Subject {
        Subject { around, ..self }
    }

    /// Whether runs of it, of a day if `is_long`, can reach this case.
    pub fn can_reach(&self, mark: Mark, is_long: bool) -> bool {
        (self.has_operator || !mark.needs_operator())
            && (is_long || !mark.needs_long())
            // Where members change, the last change ends the run.
            && (!self.has_operator || mark != Mark::DiedInSilence)
            // Files exist with the released log, also in one of four seeds where members change.
            && (self.store == Store::Log || self.has_operator || !mark.needs_files())
            && (self.store != Store::Log || mark != Mark::DiedHalfway)
            && (!self.has_steady_clocks || mark != Mark::ClockJumped)
            && !self.unmet.contains(&format!("{mark:?}").as_str())
            && if self.is_durable { !mark.needs_cas() } else { !mark.needs_disk() }
    }

    /// The same with a planted bug of its protocol.
    ///
    /// # Panics
    /// If the protocol lists no bug of this name.
    #[must_use]
    pub fn planted(self, bug: &str) -> Subject {
        let at = (self.bugs)().iter().position(|one| one.name == bug);
        assert!(at.is_some(), "{} lists no bug {bug}", self.name);
        Subject { bug: at, ..self }
    }
}

fn list_bugs<S: LogSpec>() -> Vec<Listed> {
    S::Bug::ALL.iter().map(|bug| Listed { name: bug.name(), caught: bug.caught() }).collect()
}
