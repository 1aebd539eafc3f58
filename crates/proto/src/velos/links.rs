//! The links to the other members, by what is known of the memory behind each (I10).
//!
//! - I16 Nothing that counts is posted over a link before the incarnation behind it is known: what
//!   is `met` has been read since the link came up. By construction: [`Links::meet`] is the only
//!   way from the one set to the other, and a link that comes up, or breaks, leaves `met`.

use super::*;

/// The links that work.
#[derive(Clone, Copy, Debug, Hash)]
pub(super) struct Links {
    /// Those to memory of a known incarnation.
    met: MemberSet,
    /// Those to memory whose incarnation is being read.
    unmet: MemberSet,
    /// The members of `unmet` whose owner had not begun yet.
    unbegun: MemberSet,
}

impl Links {
    /// The link to the own memory alone.
    pub(super) fn new(me: Rank) -> Links {
        let mut met = MemberSet::EMPTY;
        met.insert(me);
        Links { met, unmet: MemberSet::EMPTY, unbegun: MemberSet::EMPTY }
    }

    /// The links to memory of a known incarnation.
    pub(super) const fn met(&self) -> MemberSet {
        self.met
    }

    /// Notes that the link to the own memory, whose incarnation needs no question, is up.
    pub(super) fn own_up(&mut self, me: Rank) {
        self.met.insert(me);
    }

    /// Notes that the link is up: perhaps to other memory than before.
    pub(super) fn up(&mut self, rank: Rank) {
        self.met.remove(rank);
        self.unmet.insert(rank);
    }

    /// Notes that the link is down. The question that was under way completes by itself (T4).
    pub(super) fn down(&mut self, rank: Rank) {
        self.met.remove(rank);
        self.unbegun.remove(rank);
    }

    /// Notes that the question was lost with the link.
    pub(super) fn lose_answer(&mut self, rank: Rank) {
        self.unmet.remove(rank);
    }

    /// Notes that the owner of the memory has not begun: it is asked again later.
    pub(super) fn find_unbegun(&mut self, rank: Rank) {
        self.unbegun.insert(rank);
    }

    /// Those to ask again; the caller does.
    pub(super) fn take_unbegun(&mut self) -> MemberSet {
        core::mem::take(&mut self.unbegun)
    }

    /// Notes the answer. False if it is no longer expected.
    pub(super) fn meet(&mut self, rank: Rank) -> bool {
        let is_expected = self.unmet.remove(rank);
        if is_expected {
            self.met.insert(rank);
        }
        is_expected
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i16_a_link_that_was_down_is_met_again_before_it_counts() {
        let (me, peer) = (Rank::at(0), Rank::at(1));
        let mut links = Links::new(me);
        links.up(peer);
        assert!(!links.met().contains(peer));
        assert!(links.meet(peer) && links.met().contains(peer));
        links.down(peer);
        assert!(!links.met().contains(peer) && !links.meet(peer), "a late answer counts for none");
        links.up(peer);
        links.lose_answer(peer);
        assert!(!links.meet(peer) && links.met().contains(me));
    }

    #[test]
    fn one_that_has_not_begun_is_asked_again_until_its_link_breaks() {
        let peer = Rank::at(1);
        let mut links = Links::new(Rank::at(0));
        links.up(peer);
        links.find_unbegun(peer);
        assert!(links.take_unbegun().contains(peer) && links.take_unbegun().is_empty());
        links.find_unbegun(peer);
        links.down(peer);
        assert!(links.take_unbegun().is_empty());
    }
}
