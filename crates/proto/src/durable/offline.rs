//! A log without its machine: `gregale recover` reads with it a disk that is left when the majority
//! is not, and writes a new one in its place.
//!
//! - R1 Nothing here is a step of the protocol: a recovered cluster is another cluster. Its members
//!   have new incarnations, and the operator of the tool ensures that the old ones cannot
//!   communicate with the new (another secret, another fingerprint).
//! - R2 A log is read as its member would continue it: a process may have died between a state that
//!   it installed and the log's new beginning there, and what the log holds beyond the state is
//!   then off the decided path. By construction in [`inspect`].

use super::Unusable;
use super::log::{IS_CONFIGURATION, Log, promise_in};
use crate::disk::{Disk, EntryHead, Flush};
use crate::members::{Configuration, Members, StateHead};
use crate::planted::Sound;
use base::{Ballot, Incarnation, MemberSet, Prefix, Rank};

/// The content of a disk.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holding {
    /// The incarnation of the disk.
    pub incarnation: Incarnation,
    /// The highest ballot that it has promised to follow.
    pub promised: Ballot,
    /// The ballot of its last entry, which with `end` is its newness.
    pub last: Ballot,
    /// The first slot that it holds as an entry.
    pub start: Prefix,
    /// The end of the log: one past its last entry.
    pub end: Prefix,
    /// The newest configuration that it holds. It is known to be decided only if it stands before
    /// the log's start: the log alone does not tell.
    pub configuration: Option<Configuration>,
    /// The members before a configuration that is not known to be decided. They are decided, since
    /// a change begins only when the last one is.
    pub before: Option<Members>,
}

impl Holding {
    /// The newness of the log: of two logs the greater holds everything decided that the other one
    /// holds.
    pub fn newness(&self) -> (Ballot, Prefix) {
        (self.last, self.end)
    }
}

/// Reads the content of a disk, with the prefix and the head of the newest state beside it (R2).
/// Its requests to the disk meanwhile need not be performed.
///
/// # Errors
/// [`Unusable`]: there is no log, or another version's.
pub fn inspect<D: Disk>(
    disk: &mut D,
    state: Option<(Prefix, StateHead)>,
) -> Result<Holding, Unusable> {
    let mut log = Log::recover(Sound, 0, disk)?;
    if let Some((prefix, head)) = state {
        log.continue_from(Sound, prefix, Some(head), disk);
    }
    let newest = log.members();
    // A log begins only where everything before is decided.
    let is_decided = newest.is_none_or(|(at, _)| *at <= log.start());
    let before = log.members_before().filter(|_| !is_decided).map(|(_, members)| *members);
    let configuration = newest.map(|(at, members)| Configuration {
        at: *at,
        members: *members,
        is_decided,
        leaving: before.map_or(MemberSet::EMPTY, |it| it.voters.difference(members.voters)),
    });
    Ok(Holding {
        incarnation: log.incarnation(),
        promised: log.promised(),
        last: log.last_ballot(),
        start: log.start(),
        end: log.end(),
        configuration,
        before,
    })
}

/// The highest ballot that a disk with this meta has promised to follow; `None` for another
/// version's, or none at all.
pub fn promised(meta: &[u8]) -> Option<Ballot> {
    promise_in(meta)
}

/// Whether an entry is a configuration, and not a value to be applied.
pub const fn is_configuration(head: &EntryHead) -> bool {
    head.view & IS_CONFIGURATION != 0
}

/// The head of the state of everything that `old` holds, when `me` alone is the cluster, in
/// `incarnation`. The other seats' members may return only as later incarnations.
pub fn head_of_one(old: &Holding, me: Rank, incarnation: Incarnation) -> StateHead {
    assert!(
        incarnation > old.incarnation && incarnation > Incarnation::FIRST,
        "R1: a new incarnation"
    );
    let mut members = old.configuration.map_or(Members::default(), |of| of.members);
    (members.voters, members.learners) = ([me].into_iter().collect(), MemberSet::EMPTY);
    members.incarnations[me.index()] = incarnation.0;
    StateHead { ballot: old.last, members_at: old.end, members, coming: None }
}

/// Begins a log on an empty disk that continues from a durable state of `prefix`, and requests its
/// sync. No ballot up to `promised` gets a vote.
///
/// # Errors
/// [`Unusable`]: the disk is not empty.
pub fn begin_from<D: Disk>(
    disk: &mut D,
    prefix: Prefix,
    head: &StateHead,
    (incarnation, promised): (Incarnation, Ballot),
) -> Result<Flush, Unusable> {
    let mut log = Log::create(incarnation, None, 0, disk)?;
    if promised > Ballot::NONE {
        log.promise(promised, disk);
    }
    let members = Some((head.members_at, head.members));
    log.begin_at(Sound, prefix, Some(head.ballot), members, disk);
    Ok(disk.sync())
}
