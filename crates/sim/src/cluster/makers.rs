//! The makers of checkpoints whose copies go their own way.
//!
//! - M1 a checkpoint does not count whose maker's copy answers otherwise between its point and the
//!   next: what its copy held is not what the log makes. Judged by [`Makers::finding`], of every
//!   checkpoint that a member took for one that counts. (A copy that shows nothing until the next
//!   point is not known to be wrong: `checkpoint`, K2.)

use super::compared::CopyId;
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};
use std::rc::Rc;

/// A journal that all members of a run share.
pub(super) type SharedMakers = Rc<RefCell<Makers>>;

/// The journal of the module's text.
#[derive(Debug, Default)]
pub(super) struct Makers {
    /// The points of checkpoints that counted, with their makers.
    counted: BTreeSet<(u64, CopyId)>,
    /// The place where a copy first answered otherwise.
    shown: BTreeMap<CopyId, u64>,
}

impl Makers {
    /// A checkpoint counts.
    pub(super) fn count(&mut self, at: u64, maker: CopyId) {
        self.counted.insert((at, maker));
    }

    /// A copy, which was fed so many entries, has answered otherwise.
    pub(super) fn show(&mut self, copy: CopyId, at: u64) {
        self.shown.entry(copy).or_insert(at);
    }

    /// What M1 does not hold for, in words; a point is behind so many entries each, and where a
    /// checkpoint was made at a halt.
    pub(super) fn finding(&self, compare: u64) -> Option<String> {
        let is_wrong = |(at, maker): &&(u64, CopyId)| {
            let next = (at / compare + 1) * compare;
            self.shown.get(maker).is_some_and(|shown| *at < *shown && *shown <= next)
        };
        let (at, maker) = self.counted.iter().find(is_wrong)?;
        Some(format!(
            "M1: the checkpoint at {at} counts, and its maker {} differs from {} on, of points \
             behind {compare} entries each",
            maker.0, self.shown[maker]
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, Rank};

    #[test]
    fn m1_a_checkpoint_whose_maker_differs_at_the_next_point_is_noticed() {
        let maker = (Rank::at(1), Incarnation(1));
        let finds = |at, of, shown| {
            let mut makers = Makers::default();
            makers.count(at, of);
            makers.show(maker, shown);
            makers.show(maker, 9);
            makers.finding(8).is_some()
        };
        assert!(finds(16, maker, 17) && finds(16, maker, 24));
        assert!(!finds(16, maker, 16), "K2 judges that");
        assert!(!finds(16, maker, 25), "it agreed at the next point");
        assert!(finds(14, maker, 16) && !finds(14, maker, 17), "it was made at a halt");
        assert!(!finds(16, (Rank::at(1), Incarnation(2)), 17), "another process");
    }
}
