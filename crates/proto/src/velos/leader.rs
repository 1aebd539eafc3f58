//! The proposer: a term from its ballot to its end, the window of prepared slots, the news for the
//! followers, and the repair of what a fault broke (section 5.1). `slot` has one slot's progress.

use super::*;
use crate::members::Members;

/// One attempt to lead.
#[derive(Clone, Debug, Hash)]
pub(super) struct Term {
    pub(super) ballot: Ballot,
    /// The first slot that has not been proposed for.
    pub(super) next: Slot,
    /// The end of the prepared slots: every slot below is being prepared or further.
    prepared_until: Slot,
    /// The prefix that recovery must fill: a slot just below was found to have an accepted value.
    pub(super) recover_until: Slot,
    /// The first slot that must not be prepared before the acceptors' horizon words allow it (I8).
    horizon: Slot,
    /// The time at which an acceptor was last contacted by message.
    pub(super) asked_at: Instant,
    /// Whether [`Note::Leading`] was given.
    pub(super) announced: bool,
    /// The decided prefix that was last written into the peers' fact words.
    published: Prefix,
    /// The peers that have the ballot in their fact words.
    introduced: MemberSet,
    /// The slot for whose decision sleepers have not been woken yet: this term's first, then its
    /// first own.
    first_news: Option<Slot>,
    /// The proposed and the decided prefix at the last time that lagging members were woken.
    rung_for: (Slot, Prefix),
    /// A change of the members that this term has proposed.
    pub(super) changing: Option<(Slot, Members)>,
    /// The members that this term sends the values under way to.
    pub(super) feeds: MemberSet,
    /// The sum of the members' lags at the last look, and the number of looks that found no
    /// progress.
    lag: u64,
    idle_looks: u32,
}

impl Term {
    /// The end of the prepared slots.
    pub(super) const fn prepared_until(&self) -> Slot {
        self.prepared_until
    }

    /// Whether a change that it has proposed is under way yet.
    pub(super) fn is_changing(&self, applied: Prefix) -> bool {
        self.changing.is_some_and(|(slot, _)| !applied.contains(slot))
    }
}

/// The time that an acceptor may take to answer a message before it is asked again.
const ASK_AGAIN_AFTER: Duration = Duration::from_millis(100);
/// The largest number of doublings of the pause between two looks at a silent member that lags.
const LOOK_DOUBLINGS_MAX: u32 = 6;
/// The number of slots beyond those that need recovery that a candidate prepares: one to announce
/// itself by, and one for what is proposed while that is under way. Each costs a CAS and a READ a
/// member, on words that this processor has not read for long.
const HEADROOM: u64 = 2;
/// The number of further slots that a leader prepares at a time.
const STEP: u64 = 8;

impl<P: Planting<Bug>, W: Widths> Machine<P, W> {
    pub(super) fn start_term<H: Host>(&mut self, host: &mut H) {
        assert!(self.term.is_none() && !self.is_learner());
        self.read_facts(host);
        self.learn(host);
        let first = self.applied.next_slot();
        if !self.can_lead() {
            // Ω does not know yet what was learned just now.
            return;
        }
        let ring = u64::from(self.places.ring_slots());
        let mut floor = self.candidacy.highest();
        let mut recover_until = first;
        for slot in (first.0..first.0 + ring).map(Slot) {
            let word = self.own_word(slot, host);
            if !self.planted.has(Bug::ForgetPromise) {
                floor = floor.max(word.min_proposal);
            }
            let generation = W::PACKING.generation_of(slot, self.places.ring_slots());
            if word.generation == generation && word.has_value() {
                recover_until = slot.next();
            }
        }
        let forgets = self.planted.has(Bug::ForgetPromise);
        let ballot = self.candidacy.stand(self.me, floor, forgets);
        // This comes before the first CAS that uses the ballot, so that no later life uses it again
        // (I2).
        host.store(self.places.highest(), ballot.0);
        self.counters.terms_started += 1;
        let all_by_message = ballot >= W::PACKING.ballot_limit();
        self.ring.begin_term(if all_by_message {
            MemberSet::all(self.members)
        } else {
            MemberSet::EMPTY
        });
        self.term = Some(Term {
            ballot,
            next: first,
            prepared_until: first,
            recover_until,
            horizon: first,
            asked_at: self.clock.now,
            announced: false,
            published: Prefix::ZERO,
            introduced: MemberSet::EMPTY,
            first_news: Some(first),
            rung_for: (Slot::ZERO, Prefix::ZERO),
            changing: None,
            feeds: self.eras.fed(),
            lag: 0,
            idle_looks: 0,
        });
        self.ring.recycle(self.applied_by_majority());
        // The undecided slots come first; the polls that follow extend the window.
        self.extend_window(recover_until.0 - first.0 + HEADROOM, host);
    }

    /// Gives up the lead without a rival's higher ballot.
    pub(super) fn step_down<H: Host>(&mut self, host: &mut H) {
        if let Some(term) = self.term.take() {
            self.counters.deposed += 1;
            host.notify(Note::Deposed { ballot: term.ballot });
        }
    }

    /// Ends the term, since a higher ballot was promised or published.
    pub(super) fn depose<H: Host>(&mut self, by: Ballot, host: &mut H) {
        self.candidacy.see(by);
        self.step_down(host);
        self.candidacy.back_off(self.me, self.clock.now);
    }

    /// Ends the term, since this slot was decided and recycled under a later leader. (An answer
    /// about a slot that is applied by now may show one's own horizon, after nearly a ring was
    /// recovered.) This member would end each term like that, so others should not trust it until
    /// it has applied the slot: some live member has, or it could not be recycled.
    pub(super) fn fall_behind<H: Host>(&mut self, slot: Slot, host: &mut H) {
        if !self.applied.contains(slot) {
            self.learner.note_behind(slot.prefix_through());
            self.request_state(slot.prefix_through(), host);
            self.depose(self.candidacy.highest(), host);
        }
    }

    /// Ends the term of a candidate that finds no free place for its first slot (I3), although more
    /// is decided than is applied here: it learns that first. Those that have applied enough may be
    /// gone, and will never say so.
    pub(super) fn learn_first<H: Host>(&mut self, host: &mut H) {
        let next = self.applied.next_slot();
        let has_begun = |term: &Term| term.announced || term.prepared_until > next;
        if self.term.as_ref().is_none_or(has_begun) || next.0 < self.ring.free_below() {
            return;
        }
        self.weigh_rumour();
        if self.decided_known().contains(next) {
            self.depose(self.candidacy.highest(), host);
        }
    }

    /// Extends the window: a candidate prepares only what it needs to serve; a leader prepares the
    /// rest, in steps, so that the first value does not wait for the whole window.
    pub(super) fn extend_window_at_poll<H: Host>(&mut self, host: &mut H) {
        let Some(term) = &self.term else { return };
        let needed = term.recover_until.0 + HEADROOM;
        let n = if term.announced { STEP } else { 0 };
        self.extend_window(n.max(needed.saturating_sub(term.prepared_until.0)), host);
    }

    /// Prepares up to `n` more slots, as far as the window and the ring allow (I3).
    pub(super) fn extend_window<H: Host>(&mut self, n: u64, host: &mut H) {
        let recycled_below = self.ring.free_below();
        let known_below = self.applied.0 + self.alpha();
        for _ in 0..n {
            let Some(term) = &mut self.term else { return };
            let slot = term.prepared_until;
            // I9, I11.
            let is_known = slot.0 < known_below || self.planted.has(Bug::PrepareAhead);
            if !is_known || !self.eras.may_propose(slot) {
                return;
            }
            if slot.0 >= term.next.0 + self.ring.window / 2 || slot.0 >= recycled_below {
                return;
            }
            term.prepared_until = slot.next();
            if slot >= term.horizon && !self.planted.has(Bug::HorizonAfterCas) {
                // T2: this precedes the first CAS that needs it; it proceeds in steps, so that it
                // costs almost nothing.
                let step = u64::from(self.places.ring_slots() / 8);
                term.horizon = Slot((slot.0 + step).min(recycled_below));
                self.show_horizon(host);
            }
            self.prepare(slot, host);
        }
    }

    /// Shows the horizon, on each link before what needs it (T2). If it is lost with a link, so is
    /// all that needs it, and it is the first to be shown when the link is back (T10, `repost`).
    fn show_horizon<H: Host>(&mut self, host: &mut H) {
        let at = self.places.horizons().plus(self.me.index() as u32);
        let Some(term) = &self.term else { return };
        // I8: an earlier term may have shown one further on.
        let shown = if self.planted.has(Bug::ForgetHorizon) { 0 } else { host.load(at) };
        let horizon = term.horizon.0.max(shown);
        host.store(at, horizon);
        for rank in self.peers() {
            host.write(rank, at, &[horizon], None);
        }
    }

    /// The planted bug: the CAS that uses the place of `slot` again has been posted.
    pub(super) fn show_horizon_late<H: Host>(&mut self, slot: Slot, host: &mut H) {
        if self.planted.has(Bug::HorizonAfterCas)
            && let Some(term) = &mut self.term
        {
            term.horizon = slot.next();
            self.show_horizon(host);
        }
    }

    /// Delivers what is decided and next, and announces the lead once all found values are applied.
    pub(super) fn advance<H: Host>(&mut self, host: &mut H) {
        while self.term.is_some() {
            let slot = self.applied.next_slot();
            if self.ring.phase_of(slot) != Phase::Decided {
                break;
            }
            let cell = self.cell(slot);
            let words = core::mem::take(&mut cell.value);
            self.deliver(slot, &words, host);
            self.cell(slot).value = words;
            self.candidacy.succeed();
        }
        self.retire(host);
        let applied = self.applied.next_slot();
        let Some(term) = &mut self.term else { return };
        if term.next < applied {
            term.next = applied;
        }
        let ballot = term.ballot;
        self.note_fact(self.me, Fact { ballot, decided: self.applied });
        self.fill_holes(host);
        let free =
            self.ring.phase_of(applied) == Phase::Free || self.planted.has(Bug::ReadBeforeRecovery);
        let Some(term) = &mut self.term else { return };
        if !term.announced && free && applied >= term.recover_until {
            term.announced = true;
            host.notify(Note::Leading { ballot });
        }
    }

    /// Gives no-ops to the free slots before a found value, which waits for them.
    fn fill_holes<H: Host>(&mut self, host: &mut H) {
        let is_hole = |term: &Term| term.next < term.recover_until;
        while self.term.as_ref().is_some_and(is_hole) && self.fill_next(host) {}
    }

    /// Gives the next slot a no-op unless it has a value. False if it is not prepared.
    pub(super) fn fill_next<H: Host>(&mut self, host: &mut H) -> bool {
        let Some(slot) = self.term.as_ref().map(|term| term.next) else { return false };
        match self.ring.phase_of(slot) {
            Phase::Free => self.begin_accept(slot, Content::Value, &[], host),
            Phase::Accepting | Phase::Decided => {}
            Phase::Idle | Phase::Preparing | Phase::Fetching => return false,
        }
        if let Some(term) = &mut self.term {
            term.next = slot.next();
        }
        true
    }

    pub(super) fn propose_content<H: Host>(
        &mut self,
        content: Content,
        value: &[u8],
        host: &mut H,
    ) -> Result<Slot, Refused> {
        if value.len() > self.value_bytes_max {
            return Err(Refused::TooLong);
        }
        loop {
            let Some(term) = &self.term else { return Err(Refused::NotLeader) };
            if !term.announced {
                return Err(Refused::NotLeader);
            }
            let slot = term.next;
            let in_flight = slot.0 - self.applied.0;
            let phase = self.ring.phase_of(slot);
            match phase {
                Phase::Free if in_flight < self.ring.window => {
                    self.begin_accept(slot, content, value, host);
                    self.counters.values_proposed += 1;
                    if let Some(term) = &mut self.term {
                        term.next = slot.next();
                    }
                    // The step is two slots a proposal: the window fills as fast as it empties,
                    // without bursts.
                    self.extend_window(2, host);
                    return Ok(slot);
                }
                Phase::Accepting | Phase::Decided => {
                    if let Some(term) = &mut self.term {
                        term.next = slot.next();
                    }
                }
                Phase::Idle | Phase::Preparing | Phase::Free | Phase::Fetching => {
                    self.counters.window_full += 1;
                    return Err(Refused::Full);
                }
            }
        }
    }

    /// Publishes the decided prefix: in a separate write only when no value under way could carry
    /// it; and wakes members that sleep too long.
    pub(super) fn publish<H: Host>(&mut self, host: &mut H) {
        let Some(term) = &mut self.term else { return };
        let decided = self.applied;
        let idle = term.next.0 <= decided.0;
        let fact_at = self.places.fact(self.me);
        // The first decisions of a term do not wait for the next value's label: they end an outage.
        let news = term.first_news.take_if(|slot| decided.contains(*slot)).is_some();
        if news && !decided.contains(term.recover_until) {
            term.first_news = Some(term.recover_until);
        }
        if decided > term.published && (idle || news) {
            term.published = decided;
            // A link that is back but not identified has lost what was posted before, including the
            // ballot.
            let met = |rank: &Rank| {
                self.links.met().contains(*rank) || self.planted.has(Bug::PublishToUnmet)
            };
            for rank in Rank::all(self.members).filter(|rank| *rank != self.me).filter(met) {
                if term.introduced.insert(rank) {
                    // T2: the ballot precedes the prefix; a reader loads them in the other order.
                    host.write(rank, fact_at, &[term.ballot.0], None);
                }
                host.write(rank, fact_at.plus(1), &[decided.0], None);
            }
        }
        if self.peer_works {
            return;
        }
        let (next, rung_for) = (term.next, term.rung_for);
        let mut lag = 0;
        let fed = self.eras.fed();
        let ring = u64::from(self.places.ring_slots());
        let lag_of = |rank: Rank| next.0.saturating_sub(self.claims.last(rank).0);
        let fed = || self.peers().filter(|rank| fed.contains(*rank));
        // A wake-up costs as much as many decisions: when one member's is due, members that are
        // nearly due are woken too. But a member is woken once for the same news: two leaders that
        // lag in each other's eyes would otherwise wake each other for ever.
        let is_new = rung_for != (next, decided);
        let due = is_new && fed().any(|rank| lag_of(rank) >= ring / 4);
        for rank in fed() {
            if news || due && lag_of(rank) >= ring / 8 {
                host.wake(rank);
            }
            if !self.claims.has_failed(rank) {
                lag += lag_of(rank);
            }
        }
        let Some(term) = &mut self.term else { return };
        if due {
            term.rung_for = (next, decided);
        }
        if lag == 0 {
            return;
        }
        // A member that was woken in vain is stopped rather than asleep: it is looked for at
        // growing intervals, until there is news for it, or of it.
        if core::mem::replace(&mut term.lag, lag) != lag {
            term.idle_looks = 0;
        }
        let pause = WAKE_AFTER * (1 << term.idle_looks.min(LOOK_DOUBLINGS_MAX));
        self.clock.nudge(self.clock.now.plus(pause));
    }

    /// Posts to `rank` again what it may have missed, since it is back or is fed from now on; words
    /// with a CAS under way are left out.
    pub(super) fn repost<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let planted = self.planted;
        let Some(term) = &mut self.term else { return };
        if !planted.has(Bug::IntroducedOutlivesLink) {
            term.introduced.remove(rank);
        }
        term.published = Prefix::ZERO;
        let (from, until) = (self.applied.next_slot(), term.prepared_until);
        self.ring.lose_messages(rank);
        if !planted.has(Bug::LostHorizonStays) {
            self.show_horizon(host);
        }
        for slot in (from.0..until.0).map(Slot) {
            if self.ring.phase_of(slot) == Phase::Idle {
                continue;
            }
            // A CAS under way (I6) will complete, and the work continues from there.
            let planted = self.planted;
            if self.cell(slot).doubt(rank, planted.has(Bug::RepostUnanswered)) {
                self.post_prepare(rank, slot, host);
            }
        }
    }

    /// Repeats what may have been lost or overslept: messages, values that could not be copied,
    /// wake-ups.
    pub(super) fn repeat_lost<H: Host>(&mut self, host: &mut H) {
        let Some(term) = &mut self.term else { return };
        term.idle_looks = term.idle_looks.saturating_add(1);
        let (from, until) = (self.applied.next_slot(), term.prepared_until);
        let (ask_again_at, mut waits) = (term.asked_at.plus(ASK_AGAIN_AFTER), false);
        let forgive = self.clock.now >= ask_again_at;
        for slot in (from.0..until.0).map(Slot) {
            if forgive {
                // A restarted acceptor may have lost the message; sending it twice is harmless.
                let by_message = self.ring.by_message;
                let cell = self.cell(slot);
                cell.asked = cell.asked.difference(by_message);
            }
            if self.ring.phase_of(slot) == Phase::Fetching {
                self.give_up_source(slot, host);
            }
            if matches!(self.ring.phase_of(slot), Phase::Preparing | Phase::Accepting) {
                for rank in Rank::all(self.members) {
                    self.repeat_one(rank, slot, host);
                }
                waits |= !self.cell(slot).asked.is_empty();
            }
        }
        if waits && !forgive {
            // A message has no completion (T4): without this nudge nothing may bring another look.
            self.clock.nudge(ask_again_at);
        }
        let next = self.term.as_ref().map_or(Slot::ZERO, |term| term.next);
        let fed = self.eras.fed();
        for rank in self.peers().filter(|rank| fed.contains(*rank)) {
            if self.claims.last(rank).0 < next.0 && !self.peer_works {
                host.wake(rank);
            }
        }
    }

    fn repeat_one<H: Host>(&mut self, rank: Rank, slot: Slot, host: &mut H) {
        let cell = self.cell(slot);
        if cell.vouched.contains(rank) {
            if cell.phase == Phase::Accepting {
                self.post_accept(rank, slot, host);
            }
        } else {
            self.post_prepare(rank, slot, host);
        }
    }
}
