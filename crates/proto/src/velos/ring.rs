//! The leader's state of the ring's places, over all its terms.
//!
//! - I3, I6 (the parent's) are kept here: a place is taken for a slot only within a ring of what a
//!   majority has applied, and only its completion ends a CAS that is under way.

use super::*;

/// The progress of a slot at the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub(super) enum Phase {
    /// The slot has no phase in this term.
    #[default]
    Idle,
    /// A prepare is under way.
    Preparing,
    /// A majority promised and holds no value: any value may be proposed.
    Free,
    /// A majority promised; the value that has to be proposed is being read.
    Fetching,
    /// The value is proposed.
    Accepting,
    /// A majority accepted it.
    Decided,
}

/// The leader's state of one place of the ring.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Cell {
    pub(super) slot: Slot,
    pub(super) term: u32,
    pub(super) phase: Phase,
    /// Whether the value was found rather than proposed here.
    pub(super) adopted: bool,
    pub(super) prepared: MemberSet,
    /// The part of `prepared` whose word is of this use of the place or an earlier one (I8).
    pub(super) vouched: MemberSet,
    pub(super) accepted: MemberSet,
    /// The acceptors to which a CAS is under way: only its completion removes the mark, whichever
    /// use of the place it is about (I6).
    pub(super) busy: MemberSet,
    /// The acceptors to which a message is under way. It may be lost, and may be sent twice.
    pub(super) asked: MemberSet,
    /// The expected word of each acceptor when the next CAS arrives. Words stay packed, as they are
    /// compared and swapped.
    pub(super) predicted: [u64; MAX_MEMBERS],
    /// The word that the CAS under way expects.
    pub(super) expected: [u64; MAX_MEMBERS],
    /// The tag of the accept that was last posted to each, in this use of the place.
    pub(super) offered: [Tag; MAX_MEMBERS],
    /// The results of completed prepares: accepted ballot and tag.
    pub(super) found: [(Ballot, Tag); MAX_MEMBERS],
    /// The member from which the value is being read, and the time at which that began.
    pub(super) source: Option<(Rank, Instant)>,
    /// The label and payload, encoded once a ballot.
    pub(super) value: Vec<u64>,
}

impl Cell {
    /// Whether an operation under way to `rank` must complete first.
    pub(super) fn is_waiting(&self, rank: Rank) -> bool {
        self.busy.contains(rank) || self.asked.contains(rank)
    }

    /// Notes that the effect of a CAS at `rank` is unknown: unless the acceptor has done all that
    /// it should, it must promise again. True if it must.
    pub(super) fn doubt(&mut self, rank: Rank, is_forgotten: bool) -> bool {
        if is_forgotten {
            self.busy.remove(rank);
        }
        let has_promised = self.phase == Phase::Free && self.vouched.contains(rank);
        let is_in_doubt = !self.accepted.contains(rank) && !has_promised;
        if is_in_doubt {
            self.prepared.remove(rank);
            self.vouched.remove(rank);
        }
        is_in_doubt
    }

    /// Forgets what is known of a seat's old memory, since another is at the seat of `rank`.
    fn forget(&mut self, rank: Rank) {
        for set in [&mut self.prepared, &mut self.vouched, &mut self.accepted, &mut self.asked] {
            set.remove(rank);
        }
        let at = rank.index();
        (self.predicted[at], self.expected[at]) = (0, 0);
        (self.offered[at], self.found[at]) = (Tag::NONE, (Ballot::NONE, Tag::NONE));
    }
}

/// The places, and the terms that have used them.
#[derive(Clone, Debug, Hash)]
pub(super) struct Ring {
    pub(super) cells: Vec<Cell>,
    /// The terms so far, which identify the completions of an earlier one.
    pub(super) terms: Terms,
    /// The acceptors that the current ballot contacts by message.
    pub(super) by_message: MemberSet,
    /// A lower bound of the prefix that a majority has applied, as of the last poll (I3).
    recyclable: Prefix,
    /// The number of slots that may be under way at once.
    pub(super) window: u64,
}

impl Ring {
    /// `ring_slots` places, a power of two, of which `window` may be under way.
    pub(super) fn new(ring_slots: u32, window: u64) -> Ring {
        assert!(ring_slots.is_power_of_two(), "a slot's place is some of its bits");
        Ring {
            cells: (0..ring_slots).map(|_| Cell::default()).collect(),
            terms: Terms::default(),
            by_message: MemberSet::EMPTY,
            recyclable: Prefix::ZERO,
            window,
        }
    }

    /// Begins a term, which contacts these acceptors by message.
    pub(super) fn begin_term(&mut self, by_message: MemberSet) {
        self.terms.begin();
        self.by_message = by_message;
    }

    /// Notes that a majority has applied everything below `applied`.
    pub(super) const fn recycle(&mut self, applied: Prefix) {
        self.recyclable = applied;
    }

    /// The first slot whose place is not free yet (I3).
    pub(super) fn free_below(&self) -> u64 {
        self.recyclable.0 + self.cells.len() as u64
    }

    pub(super) fn cell(&mut self, slot: Slot) -> &mut Cell {
        let index = slot.0 as usize & (self.cells.len() - 1);
        &mut self.cells[index]
    }

    /// The cell of `slot` in the term of that number, if it is the present one; `None` where the
    /// place has another use.
    pub(super) fn current(&mut self, number: u32, slot: Slot) -> Option<&mut Cell> {
        let newest = self.terms.newest();
        let cell = self.cell(slot);
        (number == newest && cell.slot == slot && cell.term == newest).then_some(cell)
    }

    /// The phase of `slot` in this term.
    pub(super) fn phase_of(&mut self, slot: Slot) -> Phase {
        let cell = self.current(self.terms.newest(), slot);
        cell.map_or(Phase::Idle, |cell| cell.phase)
    }

    /// Whether the value of `slot` was found, in this term.
    pub(super) fn is_adopted(&mut self, slot: Slot) -> bool {
        self.current(self.terms.newest(), slot).is_some_and(|cell| cell.adopted)
    }

    /// Takes the place of `slot` for it; `own` is the own acceptor's word there. Returns the
    /// acceptors that have promised it already.
    pub(super) fn take(&mut self, slot: Slot, own: u64) -> MemberSet {
        let is_free = slot.0 < self.free_below();
        assert!(is_free, "I3: {slot} would overwrite what a majority has not applied");
        let (number, n_cells) = (self.terms.newest(), self.cells.len() as u64);
        let by_message = self.by_message;
        let cell = self.cell(slot);
        let mut promised = MemberSet::EMPTY;
        if cell.term != number {
            // A new term does not know the others' words; it predicts that they equal its own.
            cell.term = number;
            cell.predicted = [own; MAX_MEMBERS];
            (cell.busy, cell.asked) = (MemberSet::EMPTY, MemberSet::EMPTY);
        } else {
            assert!(cell.slot.0 + n_cells == slot.0, "a place is used again one ring later");
            // An acceptor that accepted the place's last use under this ballot has promised it for
            // this one (I1): no lower ballot can change that word, which has no value of this use.
            promised = cell.accepted.difference(by_message).difference(cell.busy);
        }
        cell.slot = slot;
        cell.phase = Phase::Preparing;
        cell.adopted = false;
        (cell.prepared, cell.vouched) = (promised, promised);
        cell.accepted = MemberSet::EMPTY;
        cell.offered = [Tag::NONE; MAX_MEMBERS];
        cell.found = [(Ballot::NONE, Tag::NONE); MAX_MEMBERS];
        promised
    }

    /// Takes the completion of a CAS of the term `number` to `from` (`before`: the word that was
    /// there; `None`: unknown). Removes its mark (I6). Returns the slot that the place is used for
    /// now, if the CAS was about an earlier use: its prepare has waited.
    pub(super) fn settle(
        &mut self,
        from: Rank,
        number: u32,
        slot: Slot,
        before: Option<u64>,
    ) -> Option<Slot> {
        let newest = self.terms.newest();
        let cell = self.cell(slot);
        if number != newest || cell.term != newest {
            return None;
        }
        assert!(cell.busy.remove(from), "I6: {from} answers a CAS that was not under way");
        if cell.slot == slot {
            return None;
        }
        let expected = cell.expected[from.index()];
        if let Some(before) = before.filter(|before| *before != expected) {
            cell.predicted[from.index()] = before;
        }
        Some(cell.slot)
    }

    /// Notes the answer of `from` to a message about the place of `slot`. Returns the slot that the
    /// place is used for now, if it is in this term.
    pub(super) fn answered(&mut self, from: Rank, slot: Slot) -> Option<Slot> {
        let newest = self.terms.newest();
        let cell = self.cell(slot);
        cell.asked.remove(from);
        (cell.term == newest).then_some(cell.slot)
    }

    /// Forgets what is known and predicted of a seat's old memory, since another is there.
    pub(super) fn forget(&mut self, rank: Rank) {
        let newest = self.terms.newest();
        let of_term = self.cells.iter_mut().filter(|cell| cell.term == newest);
        of_term.for_each(|cell| cell.forget(rank));
    }

    /// Forgets the messages to `rank`: unanswered ones are lost, also those about slots that others
    /// have decided meanwhile, since their places will be used again.
    pub(super) fn lose_messages(&mut self, rank: Rank) {
        if self.by_message.contains(rank) {
            self.cells.iter_mut().for_each(|cell| {
                cell.asked.remove(rank);
            });
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PEER: Rank = Rank::at(1);

    fn led() -> Ring {
        let mut ring = Ring::new(4, 2);
        ring.begin_term(MemberSet::EMPTY);
        ring
    }

    #[test]
    fn i1_what_was_accepted_is_promised_for_the_next_use_unless_a_cas_is_under_way() {
        let mut ring = led();
        assert!(ring.take(Slot(1), 0).is_empty());
        ring.cell(Slot(1)).accepted = MemberSet::all(3);
        ring.cell(Slot(1)).busy.insert(PEER);
        ring.recycle(Prefix(2));
        let promised = ring.take(Slot(5), 0);
        assert!(promised.len() == 2 && !promised.contains(PEER));
        assert_eq!(
            (ring.phase_of(Slot(1)), ring.phase_of(Slot(5))),
            (Phase::Idle, Phase::Preparing)
        );
        // The completion is about the earlier use: what waited for it continues.
        assert_eq!(ring.settle(PEER, 1, Slot(1), Some(7)), Some(Slot(5)));
        assert_eq!(ring.cell(Slot(5)).predicted[PEER.index()], 7);
    }

    #[test]
    #[should_panic(expected = "I3")]
    fn i3_a_place_is_not_taken_before_a_majority_has_applied_its_last_use() {
        led().take(Slot(4), 0);
    }

    #[test]
    #[should_panic(expected = "I6")]
    fn i6_a_completion_that_no_cas_awaits_is_noticed() {
        let mut ring = led();
        ring.take(Slot(1), 0);
        ring.settle(PEER, 1, Slot(1), None);
    }

    #[test]
    fn a_completion_of_an_earlier_term_changes_nothing() {
        let mut ring = led();
        ring.take(Slot(1), 0);
        ring.cell(Slot(1)).busy.insert(PEER);
        ring.begin_term(MemberSet::EMPTY);
        ring.take(Slot(1), 9);
        assert_eq!(ring.settle(PEER, 1, Slot(1), Some(7)), None);
        assert_eq!(ring.cell(Slot(1)).predicted[PEER.index()], 9);
        assert!(ring.current(1, Slot(1)).is_none() && ring.current(2, Slot(1)).is_some());
    }
}
