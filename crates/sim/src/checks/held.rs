//! Held: what a member says is on the disk of every voter is durable on each.
//!
//! It is what clients are told of in `disk-all`: with all disks but one lost, the one that is left
//! has it, whichever it is.
//!
//! Why no false alarm: the disks are looked at in the moment in which it is said, what is below is
//! decided, and nobody cuts what is decided; a log that begins later has its state on the disk,
//! which counts.

use base::{Prefix, Rank};

/// `held` is said to be everywhere; `disks` are the voters', with the end of what each has durably.
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
