//! Versions: where each key is kept by itself, an operation ends when a majority holds what it has
//! found or written, and a replica that begins to count holds all that was confirmed before its run
//! began.
//!
//! - V1 a seat *holds* a version if its replica has that one or a newer one. A seat whose replica
//!   does not count yet, or is dead, holds what its earlier runs had.
//!
//! Why it matters: a version that a minority holds is read by some clients and not by others, and
//! which ones is chance. Why no false alarm: an operation counts replies of runs that are not known
//! to be over. A run that counts has the states of a majority, each given by a member that had
//! noted the run: such a member either had the version, or its reply tells the operation of the run
//! (A3 to A6 of `proto::abd`).

use base::{Rank, majority};
use proto::keyed::{Claim, Tag};
use std::collections::BTreeMap;

type Replica = BTreeMap<Vec<u8>, Tag>;

/// What is known of one seat.
#[derive(Default)]
struct Seat {
    /// The versions of the present run.
    kept: Replica,
    /// The newest versions that any run had.
    ever: Replica,
    /// What was confirmed when the present run began.
    owed: Replica,
    counts: bool,
    n_runs: u64,
}

/// What is known of all replicas.
#[derive(Default)]
pub(crate) struct Versions {
    seats: Vec<Seat>,
    confirmed: Replica,
}

fn raise(replica: &mut Replica, key: &[u8], tag: Tag) {
    match replica.get_mut(key) {
        Some(held) => *held = tag.max(*held),
        None => {
            replica.insert(key.to_vec(), tag);
        }
    }
}

impl Versions {
    /// A run of this seat begins. The first one counts, since the empty state is the state then.
    pub(crate) fn begin(&mut self, rank: Rank) {
        let is_known = self.seats.len() > rank.index();
        if !is_known {
            self.seats.resize_with(rank.index() + 1, Seat::default);
        }
        let seat = &mut self.seats[rank.index()];
        let founds = seat.n_runs == 0;
        seat.n_runs += 1;
        (seat.kept, seat.counts) = (Replica::new(), founds);
        seat.owed.clone_from(&self.confirmed);
    }

    /// The replica of this seat has this version from now on, if it is newer.
    pub(crate) fn keeps(&mut self, rank: Rank, key: &[u8], tag: Tag) {
        let seat = &mut self.seats[rank.index()];
        seat.kept.insert(key.to_vec(), tag);
        raise(&mut seat.ever, key, tag);
    }

    /// The machine of this seat claims something.
    pub(crate) fn claims(&mut self, rank: Rank, claim: Claim<'_>) -> Result<(), String> {
        match claim {
            Claim::Confirms { key, tag } => {
                if tag != Tag::NONE {
                    raise(&mut self.confirmed, key, tag);
                }
                self.check_confirmed(key, tag)
            }
            Claim::Counts => {
                let seat = &mut self.seats[rank.index()];
                seat.counts = true;
                let kept = &seat.kept;
                let lacks =
                    |(key, tag): &(&Vec<u8>, &Tag)| kept.get(*key).is_none_or(|held| held < *tag);
                seat.owed.iter().find(lacks).map_or(Ok(()), |(key, tag)| {
                    let shown = String::from_utf8_lossy(key);
                    let held = seat.kept.get(key);
                    Err(format!("its replica counts with {held:?} of {shown:?}, not {tag:?}"))
                })
            }
        }
    }

    fn check_confirmed(&self, key: &[u8], tag: Tag) -> Result<(), String> {
        let held = |seat: &Seat| {
            let replica = if seat.counts { &seat.kept } else { &seat.ever }; // V1
            replica.get(key).copied().unwrap_or(Tag::NONE)
        };
        let held: Vec<Tag> = self.seats.iter().map(held).collect();
        let n_holding = held.iter().filter(|held| **held >= tag).count();
        if n_holding >= majority(self.seats.len()) {
            return Ok(());
        }
        let shown = String::from_utf8_lossy(key);
        Err(format!("{tag:?} of {shown:?} is said to be at a majority, and they hold {held:?}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::Incarnation;

    const KEY: &[u8] = b"k";

    fn tag(counter: u64) -> Tag {
        Tag { counter, rank: 0, run: Incarnation(1) }
    }

    fn three() -> Versions {
        let mut versions = Versions::default();
        (0..3).for_each(|at| versions.begin(Rank::at(at)));
        versions
    }

    fn confirms(versions: &mut Versions, counter: u64) -> Result<(), String> {
        versions.claims(Rank::at(0), Claim::Confirms { key: KEY, tag: tag(counter) })
    }

    #[test]
    fn a_version_that_a_minority_holds_is_a_violation() {
        let mut versions = three();
        versions.keeps(Rank::at(0), KEY, tag(2));
        assert!(confirms(&mut versions, 2).is_err());
        versions.keeps(Rank::at(1), KEY, tag(3));
        assert_eq!(confirms(&mut versions, 2), Ok(()));
        assert!(confirms(&mut versions, 3).is_err());
    }

    #[test]
    fn v1_a_replica_that_counts_holds_what_its_own_run_has() {
        let mut versions = three();
        [0, 1].into_iter().for_each(|at| versions.keeps(Rank::at(at), KEY, tag(2)));
        versions.begin(Rank::at(1));
        assert_eq!(confirms(&mut versions, 2), Ok(()), "its earlier run may have answered");
        let _ = versions.claims(Rank::at(1), Claim::Counts);
        assert!(confirms(&mut versions, 2).is_err());
    }

    #[test]
    fn a_replica_that_lacks_what_was_confirmed_before_it_does_not_count() {
        let mut versions = three();
        let counts = |versions: &mut Versions| versions.claims(Rank::at(2), Claim::Counts);
        [0, 1].into_iter().for_each(|at| versions.keeps(Rank::at(at), KEY, tag(2)));
        versions.begin(Rank::at(2));
        assert_eq!(confirms(&mut versions, 2), Ok(()));
        assert_eq!(counts(&mut versions), Ok(()), "it was confirmed after the run had begun");
        versions.begin(Rank::at(2));
        assert!(counts(&mut versions).is_err());
        versions.keeps(Rank::at(2), KEY, tag(2));
        assert_eq!(counts(&mut versions), Ok(()));
    }
}
