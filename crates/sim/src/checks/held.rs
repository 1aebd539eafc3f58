//! Held: a prefix that a member reports as held by every voter's disk is durable on each.
//!
//! Clients with `disk-all` depend on it: with all disks but one lost, the remaining one has the
//! prefix, whichever it is.
//!
//! Why no false alarm: the disks are examined at the moment of the report, everything below is
//! decided, and no member cuts decided entries; a log that begins later has its state on the disk,
//! which counts.

use base::{Prefix, Rank};

/// Checks that `held` is on `disks`, the voters', with the end of each one's durable prefix.
pub(crate) fn check(
    held: Prefix,
    mut disks: impl Iterator<Item = (Rank, Prefix)>,
) -> Result<(), String> {
    match disks.find(|(_, durable)| *durable < held) {
        Some((rank, durable)) => {
            Err(format!("everybody is said to hold {held}, r{} holds {durable}", rank.index()))
        }
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_disk_that_lacks_it_is_a_violation() {
        let disks = [(Rank::at(0), Prefix(7)), (Rank::at(1), Prefix(4))];
        assert_eq!(check(Prefix(4), disks.into_iter()), Ok(()));
        let violation = check(Prefix(5), disks.into_iter());
        assert!(violation.is_err_and(|detail| detail.contains("r1 holds")));
    }
}
