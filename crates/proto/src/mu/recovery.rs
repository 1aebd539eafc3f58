//! The recovery of what a predecessor has left in the granted logs.

use super::leader::{ADOPT, APPLIED, Cell, LABEL, Phase, token};
use super::*;

impl<P: Planting<Bug>> Mu<P> {
    /// Reads the granted logs for entries that a predecessor may have decided.
    pub(super) fn recover<H: Host>(&mut self, host: &mut H) {
        let Some(term) = &self.term else { return };
        let granted = term.granted;
        let until = term.recover_until.unwrap_or(term.next);
        let ring = self.places.ring_slots();
        let oldest = Prefix(until.0.saturating_sub(ring));
        if self.applied < oldest {
            // This member is more than a ring behind: no log holds its next slot any longer.
            self.request_state(oldest, host);
            return self.depose(host);
        }
        let is_near = self.applied.0 >= (until.0 + self.window).saturating_sub(ring);
        if is_near || self.planted.has(Bug::RecoverReused) {
            return self.read_labels(host);
        }
        granted.iter().for_each(|rank| self.ask_applied(rank, host));
    }

    /// M7: asks the owner of a granted log whether it has applied the slot that this member lacks.
    pub(super) fn ask_applied<H: Host>(&mut self, owner: Rank, host: &mut H) {
        let Some(term) = &mut self.term else { return };
        term.unheard.insert(owner);
        let token = token(APPLIED, self.terms.post(owner), 0);
        host.read(owner, self.places.applied(owner), 1, token);
    }

    pub(super) fn on_applied<H: Host>(&mut self, from: Rank, outcome: Outcome<'_>, host: &mut H) {
        let Some(term) = &mut self.term else { return };
        match outcome {
            Outcome::Read(words) if Prefix(words[0]) <= self.applied => {
                term.unheard.remove(from);
                if !term.unheard.is_empty() {
                    return;
                }
                if term.granted.len() < self.grants_needed() {
                    // A link broke after its owner had answered: a later grant is read no more.
                    return self.depose(host);
                }
                self.read_labels(host);
            }
            Outcome::Read(words) => {
                self.request_state(Prefix(words[0]), host);
                self.depose(host);
            }
            _ => self.depose(host),
        }
    }

    fn read_labels<H: Host>(&mut self, host: &mut H) {
        let Some(term) = &self.term else { return };
        let (granted, number) = (term.granted, self.terms.newest());
        let half = Half::before(term.ballot, self.planted);
        let until = term.recover_until.unwrap_or(term.next);
        for slot in (self.applied.0..until.0).map(Slot) {
            *self.cell(slot) =
                Cell { slot, term: number, phase: Phase::Reading, ..Cell::default() };
            for rank in granted.iter() {
                let label = token(LABEL, self.terms.post(rank), slot.0);
                host.read(rank, self.places.entry(slot, half), value::HEADER_WORDS, label);
            }
        }
    }

    pub(super) fn on_label<H: Host>(
        &mut self,
        from: Rank,
        slot: Slot,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let Outcome::Read(words) = outcome else {
            // That log is out of reach: the next attempt asks the logs that are within reach.
            return self.depose(host);
        };
        let quorum = self.grants_needed();
        let label = value::label(words);
        if label.is_some_and(|label| label.slot > slot) {
            // The slot is recycled: a majority applied it long ago, and this member did not.
            self.request_state(slot.prefix_through(), host);
            return self.depose(host);
        }
        let cell = self.cell(slot);
        cell.read.insert(from);
        cell.found[from.index()] =
            label.filter(|label| label.slot == slot).map_or(Ballot::NONE, |label| label.ballot);
        if cell.read.len() >= quorum {
            self.resolve(slot, host);
        }
    }

    /// Proposes the highest entry of a granted majority, or a no-op if there is no entry (M3).
    fn resolve<H: Host>(&mut self, slot: Slot, host: &mut H) {
        let Some(term) = &self.term else { return };
        let at = self.places.entry(slot, Half::before(term.ballot, self.planted));
        let n_words = self.places.area_words as usize;
        let planted = self.planted;
        let cell = self.cell(slot);
        let found = |rank: &Rank| cell.found[rank.index()];
        let holders = cell.read.iter().filter(|rank| found(rank) != Ballot::NONE);
        let best = match planted.has(Bug::AdoptLowest) {
            false => holders.max_by_key(found),
            true => holders.min_by_key(found),
        };
        match best.filter(|_| !planted.has(Bug::IgnoreFoundValue)) {
            Some(rank) => {
                cell.phase = Phase::Fetching;
                let adopt = token(ADOPT, self.terms.post(rank), slot.0);
                host.read(rank, at, n_words, adopt);
            }
            None => self.begin_write(slot, &[], host),
        }
    }

    pub(super) fn on_adopted<H: Host>(&mut self, slot: Slot, outcome: Outcome<'_>, host: &mut H) {
        // The grant excluded every other writer before this READ, so the entry no longer changes.
        // If its payload is not whole, its writer was interrupted, and this log has not helped to
        // decide anything of this slot (M5).
        let Outcome::Read(words) = outcome else { return self.depose(host) };
        let whole = value::decode(words).filter(|(label, _)| label.slot == slot);
        match whole {
            Some((_, payload)) => self.begin_write(slot, payload, host),
            None => {
                let cell = self.cell(slot);
                let highest = cell.read.iter().max_by_key(|rank| cell.found[rank.index()]);
                if let Some(torn) = highest {
                    cell.found[torn.index()] = Ballot::NONE;
                }
                self.resolve(slot, host);
            }
        }
    }
}
