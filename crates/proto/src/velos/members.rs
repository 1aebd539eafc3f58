//! Changes of the members: the incarnation at the other end of a link, the effect of an entry that
//! names members, and the way a leader begins one (the parent's I9 to I13; `eras` counts).
//!
//! A new incarnation learns first: from the entry that seats it on, leaders propose to its memory
//! as to any member's, and do not count it; it fetches the state from a live member. The entry that
//! makes it a voter comes when it has applied nearly everything.

use super::claims::claimed_by_majority;
use super::eras::seal_claim;
use super::*;
use crate::le_word;
use crate::members::{Change, ChangeRefused, Configuration, MEMBERS_BYTES, Members};
use crate::value::Content;

/// The length of an entry that names members: the base of the change, and the new members.
const ENTRY_BYTES: usize = 8 + MEMBERS_BYTES;

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    /// The distance from the slot that decides a configuration to the first that it governs, and
    /// from the applied prefix to the first slot that may not be prepared (I9).
    pub(super) fn alpha(&self) -> u64 {
        u64::from(self.places.ring_slots() / 2)
    }

    // ---- the incarnations at the links ----

    /// Asks for the incarnation behind a link that works: before the answer, nothing that counts is
    /// posted to it (I10). A link leads to one memory as long as it is up.
    pub(super) fn on_link_up<H: Host>(&mut self, rank: Rank, host: &mut H) {
        if rank == self.me {
            return self.links.own_up(rank);
        }
        // I13: that it lives is heard behind what it claims. Until then this memory holds what its
        // predecessor claimed, if that had the same memory.
        if self.planted.has(Bug::AliveAtLinkUp) {
            self.claims.are_alive([rank].into_iter().collect());
        }
        self.links.up(rank);
        self.ask_who(rank, host);
        let held = if self.is_learner() { Prefix::ZERO } else { self.applied };
        self.claim(rank, held, host);
    }

    fn ask_who<H: Host>(&self, rank: Rank, host: &mut H) {
        host.read(rank, self.places.incarnation(), 1, tokens::make(tokens::MEET, 0, 0));
    }

    /// Asks again for the incarnations of regions whose owner had not begun.
    pub(super) fn ask_unbegun<H: Host>(&mut self, host: &mut H) {
        self.links.take_unbegun().iter().for_each(|rank| self.ask_who(rank, host));
    }

    pub(super) fn on_met<H: Host>(&mut self, rank: Rank, outcome: Outcome<'_>, host: &mut H) {
        let Outcome::Read(&[incarnation]) = outcome else {
            // The link broke (T4): when it is back, the question is repeated.
            return self.links.lose_answer(rank);
        };
        if incarnation == 0 {
            self.links.find_unbegun(rank);
            return self.clock.nudge(self.clock.now.plus(RETRY_AFTER));
        }
        if !self.links.meet(rank) {
            return;
        }
        if self.eras.meet(rank, Incarnation(incarnation)) {
            self.forget_acceptor(rank);
        }
        self.learner.restart();
        self.repost(rank, host);
    }

    /// Forgets what is known and predicted of a seat's old memory, since another is there.
    fn forget_acceptor(&mut self, rank: Rank) {
        self.ring.forget(rank);
        self.doubt_rounds();
    }

    // ---- the other members' claims (I13) ----

    /// Tells `rank` the applied prefix, and the incarnation that claims it.
    pub(super) fn claim<H: Host>(&self, rank: Rank, held: Prefix, host: &mut H) {
        let words = [held.0, seal_claim(held, self.eras.own())];
        host.write(rank, self.places.applied(self.me), &words, None);
    }

    pub(super) fn read_applied<H: Host>(&mut self, host: &H) {
        for rank in self.peers() {
            let mut words = [0; 2];
            host.load_into(self.places.applied(rank), &mut words);
            // In most cases nothing has changed since the last poll.
            if self.claims.is_news(rank, words) || self.planted.has(Bug::AnyClaim) {
                self.hear_claim(rank, words);
            }
        }
    }

    fn hear_claim(&mut self, rank: Rank, words: [u64; 2]) {
        let newest = self.eras.newest().members.incarnation(rank);
        let present = self.eras.present().members.incarnation(rank);
        let any = self.planted.has(Bug::AnyClaim);
        if let Some(prefix) = self.claims.hear(rank, words, [newest, present], any) {
            self.hear_rumour(prefix);
        }
    }

    /// The prefix that this incarnation on the seat of `rank` has applied, as far as is known. Dead
    /// incarnations do not count: what they had applied was lost with them.
    pub(super) fn claimed(&self, rank: Rank, incarnation: Incarnation) -> Prefix {
        if rank == self.me {
            let counts = incarnation == self.eras.own() && !self.is_learner();
            return if counts { self.applied } else { Prefix::ZERO };
        }
        self.claims.of(rank, incarnation)
    }

    /// The prefix that a majority of the present voters has applied: below it, ring places may be
    /// used again (I3). A majority of any other era that may govern meanwhile shares a member with
    /// it: eras differ by one voter, and none begins to end before it is settled.
    pub(super) fn applied_by_majority(&self) -> Prefix {
        if self.planted.has(Bug::RecycleEarly) {
            return self.applied;
        }
        let members = &self.eras.present().members;
        let claims =
            members.voters.iter().map(|rank| self.claimed(rank, members.incarnation(rank)));
        claimed_by_majority(members.voters.len(), claims)
    }

    // ---- entries that name members ----

    /// Adopts a decided entry that names members; the application above does not receive it.
    pub(super) fn adopt(&mut self, slot: Slot, payload: &[u8]) {
        let Some((base, members)) = payload.split_at_checked(8) else { return };
        let base = le_word(base);
        if let Some(members) = Members::decode(members) {
            self.counters.changes_decided +=
                u64::from(self.eras.decide(slot, Prefix(base), &members));
        }
    }

    /// Updates the fed members at each poll, notes a settled era, and helps the next era to begin.
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

    /// Proposes no-ops up to where the next era begins, as far as there is room: until then the old
    /// era's majority counts, and no other member may join. Mutant `HASTENS_SHORT`.
    fn hasten<H: Host>(&mut self, host: &mut H) {
        let Some(until) = self.eras.coming().map(|coming| coming.from) else { return };
        let until = until.0 - u64::from(self.planted.has(Bug::HastensShort));
        loop {
            let Some(term) = &self.term else { return };
            let has_room = term.next.0 - self.applied.0 < self.ring.window;
            if !term.announced || term.next.0 >= until || !has_room || !self.fill_next(host) {
                return;
            }
            self.extend_window(2, host);
        }
    }

    /// Publishes the decided slots and steps down when the last slot in which this member may
    /// propose has passed; other members continue.
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
            let is_near = self.applied.ahead_of(holds) < self.ring.window && holds > Prefix::ZERO;
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

    /// The members whose votes elect, for Ω; `None` if they are all members, or unknown.
    pub(super) fn known_electors(&self) -> Option<MemberSet> {
        let (present, newest) = (self.eras.present(), self.eras.newest());
        let are_all =
            newest.from == Prefix::ZERO && newest.members.voters == MemberSet::all(self.members);
        (self.eras.is_known() && !are_all).then_some(present.members.voters)
    }

    /// The leader of the newest known ballot, which a member follows that does not know the
    /// members.
    pub(super) fn known_leader(&self) -> Option<Rank> {
        if self.eras.is_known() {
            return None;
        }
        self.news.ballot().proposer()
    }
}
