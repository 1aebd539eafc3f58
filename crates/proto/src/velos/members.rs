//! Members that change: who is met at the other end of a link, what an entry that names members
//! does, and how a leader begins one (the parent's I9 to I13; `eras` says who counts).
//!
//! A new incarnation learns first: from the entry that seats it on, leaders propose to its memory
//! as to anybody's, and count it for nothing; it has the state from a live member. The entry that
//! lets it vote comes when it has applied nearly everything.

use super::eras::seal_claim;
use super::*;
use crate::le_word;
use crate::members::{Change, ChangeRefused, Configuration, MEMBERS_BYTES, Members};
use crate::value::Content;

/// An entry that names members: those that it was made from, and those that are to be.
const ENTRY_BYTES: usize = 8 + MEMBERS_BYTES;

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    /// So long after the slot that decides it a configuration begins to govern, and so far beyond
    /// the applied prefix a slot may be prepared (I9).
    pub(super) fn alpha(&self) -> u64 {
        u64::from(self.places.ring_slots() / 2)
    }

    // ---- who is there ----

    /// A link works: nothing is posted to it that counts before it is known whose memory is at its
    /// end (I10). A link leads to one memory as long as it is up.
    pub(super) fn on_link_up<H: Host>(&mut self, rank: Rank, host: &mut H) {
        if rank == self.me {
            self.links.insert(rank);
            return;
        }
        self.failed.remove(rank);
        self.links.remove(rank);
        self.unmet.insert(rank);
        self.ask_who(rank, host);
        let held = if self.is_learner() { Prefix::ZERO } else { self.applied };
        self.claim(rank, held, host);
    }

    fn ask_who<H: Host>(&self, rank: Rank, host: &mut H) {
        host.read(rank, self.places.incarnation(), 1, tokens::make(tokens::MEET, 0, 0));
    }

    /// Whose region was there before its owner had begun is asked again.
    pub(super) fn ask_unbegun<H: Host>(&mut self, host: &mut H) {
        let unbegun = core::mem::take(&mut self.unbegun);
        unbegun.iter().for_each(|rank| self.ask_who(rank, host));
    }

    pub(super) fn on_met<H: Host>(&mut self, rank: Rank, outcome: Outcome<'_>, host: &mut H) {
        let Outcome::Read(&[incarnation]) = outcome else {
            // The link broke (T4): its coming back asks again.
            self.unmet.remove(rank);
            return;
        };
        if incarnation == 0 {
            self.unbegun.insert(rank);
            return self.nudge(self.now.plus(RETRY_AFTER));
        }
        if !self.unmet.remove(rank) {
            return;
        }
        if self.eras.meet(rank, Incarnation(incarnation)) {
            self.forget_acceptor(rank);
        }
        self.links.insert(rank);
        self.restart_fetches();
        self.repost(rank, host);
    }

    /// Another memory is there: what is known of the old one, and was predicted, is void.
    fn forget_acceptor(&mut self, rank: Rank) {
        let n_terms = self.terms.newest();
        self.cells
            .iter_mut()
            .filter(|cell| cell.term == n_terms)
            .for_each(|cell| cell.forget(rank));
        self.doubt_rounds();
    }

    // ---- what others claim to have applied (I13) ----

    /// Tells `rank` what is applied here, and which incarnation says so.
    pub(super) fn claim<H: Host>(&self, rank: Rank, held: Prefix, host: &mut H) {
        let words = [held.0, seal_claim(held, self.eras.own())];
        host.write(rank, self.places.applied(self.me), &words, None);
    }

    pub(super) fn read_applied<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            let mut words = [0; 2];
            host.load_into(self.places.applied(rank), &mut words);
            // Mostly nothing was said since the last time.
            if words != self.said[rank.index()] || self.planted.has(Bug::AnyClaim) {
                self.hear_claim(rank, words);
            }
        }
    }

    fn hear_claim(&mut self, rank: Rank, words: [u64; 2]) {
        let prefix = Prefix(words[0]);
        let newest = self.eras.newest().members.incarnation(rank);
        let present = self.eras.present().members.incarnation(rank);
        let mut named = [newest, present].into_iter().filter(|of| of.0 > 0);
        let of =
            named.find(|of| words[1] == seal_claim(prefix, *of) || self.planted.has(Bug::AnyClaim));
        if let Some(of) = of {
            self.said[rank.index()] = words;
            self.claims[rank.index()] = (prefix, of);
            self.hear_rumour(prefix);
        }
    }

    /// What this incarnation on the seat of `rank` has applied, as far as is known. The dead do not
    /// count: what they had applied went with them.
    pub(super) fn claimed(&self, rank: Rank, incarnation: Incarnation) -> Prefix {
        if rank == self.me {
            let counts = incarnation == self.eras.own() && !self.is_learner();
            return if counts { self.applied } else { Prefix::ZERO };
        }
        let (prefix, of) = self.claims[rank.index()];
        if of == incarnation && !self.failed.contains(rank) { prefix } else { Prefix::ZERO }
    }

    /// The prefix that a majority of the present voters has applied: below it, ring places may be
    /// used again (I3). A majority of any other era that may govern meanwhile shares a member with
    /// it: eras differ by one voter, and none begins to end before it is settled.
    pub(super) fn applied_by_majority(&self) -> Prefix {
        if self.planted.has(Bug::RecycleEarly) {
            return self.applied;
        }
        let members = &self.eras.present().members;
        let n_voters = members.voters.len();
        // In falling order: the one at which a majority is full.
        let mut highest = [Prefix::ZERO; MAX_MEMBERS];
        for (n_there, rank) in members.voters.iter().enumerate() {
            let claimed = self.claimed(rank, members.incarnation(rank));
            let mut at = n_there;
            while at > 0 && highest[at - 1] < claimed {
                highest[at] = highest[at - 1];
                at -= 1;
            }
            highest[at] = claimed;
        }
        // (Where nobody votes, nothing is claimed.)
        highest[majority(n_voters) - 1]
    }

    // ---- entries that name members ----

    /// Such an entry is decided, and delivered to nobody above.
    pub(super) fn adopt(&mut self, slot: Slot, payload: &[u8]) {
        let Some((base, members)) = payload.split_at_checked(8) else { return };
        let base = le_word(base);
        if let Some(members) = Members::decode(members) {
            self.counters.changes_decided +=
                u64::from(self.eras.decide(slot, Prefix(base), &members));
        }
    }

    /// At each poll: who is fed from now on, who may be taken away, and whether the next era should
    /// be helped to come.
    pub(super) fn tend_members<H: Host>(&mut self, host: &mut H) {
        if !self.eras.is_settled() {
            let is_settled = self.eras.has_settled(|rank, of| self.claimed(rank, of));
            self.eras.note_settled(is_settled);
        }
        let Some(term) = &mut self.term else { return };
        let fed = self.eras.fed();
        let before = core::mem::replace(&mut term.feeds, fed);
        let mut news = fed.difference(before);
        news.remove(self.me);
        news.iter().for_each(|rank| self.repost(rank, host));
        self.hasten(host);
    }

    /// No-ops up to where the next era begins, as far as there is room: until then the old one's
    /// majority is what counts, and nobody else may join.
    fn hasten<H: Host>(&mut self, host: &mut H) {
        let Some(until) = self.eras.coming().map(|coming| coming.from) else { return };
        loop {
            let Some(term) = &self.term else { return };
            let has_room = term.next.0 - self.applied.0 < self.window;
            if !term.announced || term.next.0 >= until.0 || !has_room || !self.fill_next(host) {
                return;
            }
            self.extend_window(2, host);
        }
    }

    /// The era in which this member may propose is over: it publishes what it has decided, and
    /// others go on.
    pub(super) fn retire<H: Host>(&mut self, host: &mut H) {
        let applied = self.applied.next_slot();
        if let Some(term) = &mut self.term
            && !self.eras.may_propose(applied)
        {
            term.next = term.next.max(applied);
            self.publish(host);
            self.step_down(host);
        }
    }

    // ---- changes ----

    pub(super) fn begin_change<H: Host>(
        &mut self,
        change: Change,
        host: &mut H,
    ) -> Result<Slot, ChangeRefused> {
        let Some(term) = self.term.as_ref().filter(|term| term.announced) else {
            return Err(ChangeRefused::NotLeader);
        };
        if ENTRY_BYTES > self.value_bytes_max {
            return Err(ChangeRefused::Fixed);
        }
        // I12.
        let settled = self.eras.is_settled()
            || self.planted.has(Bug::ChangeUnsettled) && self.eras.coming().is_none();
        if !settled || term.is_changing(self.applied) {
            return Err(ChangeRefused::Pending);
        }
        let before = *self.eras.newest();
        let after = before.members.after(change, self.me)?;
        if let Change::Promote(rank) = change {
            let holds = self.claimed(rank, before.members.incarnation(rank));
            let is_near = self.applied.ahead_of(holds) < self.window && holds > Prefix::ZERO;
            if !is_near && !self.planted.has(Bug::PromoteBeforeCaughtUp) {
                return Err(ChangeRefused::LagsBehind);
            }
        }
        let mut entry = [0; ENTRY_BYTES];
        entry[..8].copy_from_slice(&before.from.0.to_le_bytes());
        entry[8..].copy_from_slice(&after.encode());
        let slot =
            self.propose_content(Content::Members, &entry, host).map_err(
                |refused| match refused {
                    Refused::NotLeader => ChangeRefused::NotLeader,
                    Refused::Full | Refused::TooLong => ChangeRefused::Pending,
                },
            )?;
        if let Some(term) = &mut self.term {
            term.changing = Some((slot, after));
        }
        Ok(slot)
    }

    pub(super) fn known_configuration(&self) -> Option<Configuration> {
        if !self.eras.is_known() {
            return None;
        }
        let newest = self.eras.newest();
        let changing = self.term.as_ref().and_then(|term| term.changing);
        if let Some((slot, members)) = changing.filter(|(slot, _)| !self.applied.contains(*slot)) {
            let leaving = newest.members.voters.difference(members.voters);
            let at = Prefix(slot.0 + self.alpha());
            return Some(Configuration { at, members, is_decided: false, leaving });
        }
        let leaving = self.eras.present().members.voters.difference(newest.members.voters);
        let (at, members) = (newest.from, newest.members);
        Some(Configuration { at, members, is_decided: self.eras.is_settled(), leaving })
    }

    /// Whose votes elect, if that is not everybody, as Ω takes it to be.
    pub(super) fn known_electors(&self) -> Option<MemberSet> {
        let (present, newest) = (self.eras.present(), self.eras.newest());
        let are_all =
            newest.from == Prefix::ZERO && newest.members.voters == MemberSet::all(self.members);
        (self.eras.is_known() && !are_all).then_some(present.members.voters)
    }

    /// Who does not know the members follows whoever leads by the newest right that it has heard
    /// of.
    pub(super) fn known_leader(&self) -> Option<Rank> {
        if self.eras.is_known() {
            return None;
        }
        self.published.ballot.proposer()
    }
}
