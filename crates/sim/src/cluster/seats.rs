//! The seats of a simulated cluster: the disk or memory on each, and the last reports of the
//! members. The changes are in `supervisor`.

use super::disk::Platter;
use super::operator::Operator;
use crate::Store;
use crate::checks::configurations::{Configurations, votes};
use base::{Ballot, Incarnation, MemberSet, Rank};
use core::time::Duration;
use proto::members::{Configuration, Members};

/// One seat.
#[derive(Debug)]
pub(super) struct Seat {
    /// The disk or memory that is in place.
    pub(super) incarnation: Incarnation,
    /// Whether no process has begun on it.
    pub(super) is_new: bool,
    /// Whether a process runs there, or would if it were not dead now.
    pub(super) is_taken: bool,
    /// Whether the supervisor was told to begin another incarnation.
    pub(super) is_to_renew: bool,
    /// Whether its last process has found its log damaged.
    pub(super) says_damaged: bool,
    /// The replaced disk that is still there.
    pub(super) attic: Option<(Platter, Incarnation)>,
    /// The time until which the disk in place is the replaced one, and the other is in the attic.
    pub(super) is_haunted_until: Option<u64>,
}

/// The members that one member reported last.
#[derive(Clone, Copy, Debug)]
pub(super) struct Shown {
    pub(super) life: u32,
    /// The ballot under which it led, if it did.
    pub(super) led: Option<Ballot>,
    pub(super) of: Configuration,
}

/// The seats of the module's text.
pub(super) struct Seats {
    founders: MemberSet,
    pub(super) seats: Vec<Seat>,
    pub(super) shown: Vec<Option<Shown>>,
    pub(super) configurations: Configurations,
    pub(super) operator: Option<Operator>,
    /// The disks' kind, the bytes after which a snapshot is due, and its duration; `None` without
    /// disks.
    of_disks: Option<(Store, u64, Duration)>,
}

impl Seats {
    /// `members` seats, of which the founders' are taken.
    pub(super) fn new(
        members: usize,
        operator: Option<Operator>,
        of_disks: Option<(Store, u64, Duration)>,
    ) -> Seats {
        let founders = operator.as_ref().map_or(MemberSet::all(members), Operator::founders);
        let seat = |rank| Seat {
            incarnation: Incarnation::FIRST,
            is_new: true,
            is_taken: founders.contains(rank),
            is_to_renew: false,
            says_damaged: false,
            attic: None,
            is_haunted_until: None,
        };
        Seats {
            founders,
            seats: Rank::all(members).map(seat).collect(),
            shown: vec![None; members],
            configurations: Configurations::default(),
            operator,
            of_disks,
        }
    }

    /// An empty disk, where there are disks.
    pub(super) fn new_platter(&self) -> Option<Platter> {
        let (store, log_bytes, writing) = self.of_disks?;
        Some(Platter::new(store, log_bytes, writing))
    }

    /// The members that the cluster begins with.
    pub(super) const fn founders(&self) -> MemberSet {
        self.founders
    }

    /// The disk or memory in place at `node`.
    pub(super) fn incarnation(&self, node: usize) -> Incarnation {
        self.seats[node].incarnation
    }

    /// Whether `node` has a process, dead or alive.
    pub(super) fn is_taken(&self, node: usize) -> bool {
        self.seats[node].is_taken
    }

    /// Whether the disk in place at `node` is one that was replaced.
    pub(super) fn is_haunted(&self, node: usize) -> bool {
        self.seats[node].is_haunted_until.is_some()
    }

    /// Whether no process has begun on what is in place at `node`.
    pub(super) fn is_new(&self, node: usize) -> bool {
        self.seats[node].is_new
    }

    /// Begins a process at `node`. Returns whether it is the first one on what is in place.
    pub(super) fn begin(&mut self, node: usize) -> bool {
        self.shown[node] = None;
        std::mem::take(&mut self.seats[node].is_new)
    }

    /// The newest members that are decided; before that the founders.
    pub(super) fn members(&self) -> Members {
        self.configurations.newest().map_or_else(|| self.first(), |(_, members)| members)
    }

    fn first(&self) -> Members {
        Members::first(self.founders)
    }

    /// Every configuration that governs or may yet govern.
    pub(super) fn governing(&self) -> Vec<Members> {
        let possible = self.configurations.successors();
        if possible.is_empty() { vec![self.first()] } else { possible }
    }

    /// Whether what is in place at `node` is a member by the decided configuration.
    pub(super) fn sits(&self, node: usize) -> bool {
        let (rank, members) = (Rank::at(node), self.members());
        members.all().contains(rank) && members.incarnation(rank) == self.incarnation(node)
    }

    /// Whether what is in place at `node` is a voter by the decided configuration.
    pub(super) fn votes(&self, node: usize) -> bool {
        votes(&self.members(), Rank::at(node), self.incarnation(node))
    }
}
