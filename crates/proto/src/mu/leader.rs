//! The leader: requests for the logs, writes of new entries. See `recovery` for a predecessor's.

use super::wire::Message;
use super::*;
use crate::value::{Content, Label};

/// The progress of a slot at the leader.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) enum Phase {
    #[default]
    Idle,
    /// The granted logs are being read for entries of a predecessor.
    Reading,
    /// The entry that has to be proposed is being copied.
    Fetching,
    /// The entry is written to the granted logs.
    Writing,
    /// A majority of the granted logs hold it.
    Decided,
}

/// The leader's state of one slot.
#[derive(Debug, Default)]
pub(super) struct Cell {
    pub(super) slot: Slot,
    pub(super) term: u32,
    pub(super) phase: Phase,
    /// The logs whose entry has been read, and the ballot of each.
    pub(super) read: MemberSet,
    pub(super) found: [Ballot; MAX_MEMBERS],
    /// The logs that hold this term's entry.
    pub(super) held: MemberSet,
    pub(super) value: Vec<u64>,
}

/// One attempt to lead.
#[derive(Debug)]
pub(super) struct Term {
    pub(super) ballot: Ballot,
    pub(super) granted: MemberSet,
    /// The first slot from which no log of the granted majority has an entry. `None` before that
    /// majority.
    pub(super) recover_until: Option<Slot>,
    /// The owners of granted logs that have not said how much they have applied (M7).
    pub(super) unheard: MemberSet,
    top: Slot,
    pub(super) next: Slot,
    pub(super) announced: bool,
    published: Prefix,
    introduced: MemberSet,
}

/// The proof for a read that the logs are still this leader's: one WRITE to each, refused if not.
#[derive(Debug)]
struct Probe {
    ticket: Ticket,
    number: u64,
    passed: MemberSet,
}

/// The probes under way, oldest first.
#[derive(Debug, Default)]
pub(super) struct Probes {
    probes: Vec<Probe>,
    n_probes: u64,
}

impl Probes {
    const fn is_full(&self) -> bool {
        self.probes.len() >= PROBES_MAX
    }

    /// Begins a probe. Returns its number, which none has had before.
    fn begin(&mut self, ticket: Ticket) -> u64 {
        self.n_probes += 1;
        let number = self.n_probes;
        self.probes.push(Probe { ticket, number, passed: MemberSet::EMPTY });
        number
    }

    /// Notes that a log took the probe's WRITE. Returns the read, which may be answered now, if so
    /// many logs did.
    fn pass(&mut self, number: u64, log: Rank, quorum: usize) -> Option<Ticket> {
        let at = self.probes.iter().position(|probe| probe.number == number)?;
        let passed = &mut self.probes[at].passed;
        passed.insert(log);
        (passed.len() >= quorum).then(|| self.probes.remove(at).ticket)
    }

    /// Whether the probe of this number is under way.
    fn is_under_way(&self, number: u64) -> bool {
        self.probes.iter().any(|probe| probe.number == number)
    }

    /// Ends all of them. Returns their reads, which are refused.
    fn give_up(&mut self) -> impl Iterator<Item = Ticket> + use<> {
        core::mem::take(&mut self.probes).into_iter().map(|probe| probe.ticket)
    }
}

/// The number of probes that may be under way.
const PROBES_MAX: usize = 256;

pub(super) const WRITE: u8 = 1;
pub(super) const LABEL: u8 = 2;
pub(super) const ADOPT: u8 = 3;
pub(super) const PROBE: u8 = 4;
pub(super) const FETCH_LABEL: u8 = 5;
pub(super) const FETCH_VALUE: u8 = 6;
pub(super) const APPLIED: u8 = 7;

/// A token of kind, bits of the term's number (see [`Terms`]) or none, slot or number.
pub(super) const fn token(kind: u8, bits: u32, low: u64) -> Token {
    assert!(low < 1 << 44);
    Token((kind as u64) << 60 | (bits as u64) << 44 | low)
}

impl<P: Planting<Bug>> Mu<P> {
    pub(super) fn start_term<H: Host>(&mut self, host: &mut H) {
        assert!(self.term.is_none() && !self.is_learner());
        self.learn(host);
        let floor = self.candidacy.highest().max(self.grants.promised());
        let ballot = self.candidacy.stand(self.me, floor, false);
        self.terms.begin();
        let next = self.applied.next_slot();
        self.term = Some(Term {
            ballot,
            granted: MemberSet::EMPTY,
            recover_until: None,
            unheard: MemberSet::EMPTY,
            top: next,
            next,
            announced: false,
            published: Prefix::ZERO,
            introduced: MemberSet::EMPTY,
        });
        // The own log gets a request like any other, without the fabric.
        let request = self.request(ballot);
        self.on_message(self.me, request, host);
        for rank in self.links.iter().filter(|rank| *rank != self.me) {
            let _sent = host.send(rank, &request.encode());
        }
        self.clock.nudge(self.clock.now.plus(REPEAT_AFTER));
    }

    fn request(&self, ballot: Ballot) -> Message {
        Message::Request { ballot, from: self.applied.next_slot() }
    }

    pub(super) fn on_message<H: Host>(&mut self, from: Rank, message: Message, host: &mut H) {
        match message {
            Message::Request { ballot, from: first } => {
                self.on_request(from, ballot, first, host);
            }
            Message::Granted { ballot, top } => self.on_granted(from, ballot, top, host),
            Message::Denied { ballot, promised } => {
                self.candidacy.see(promised);
                if self.term.as_ref().is_some_and(|term| term.ballot == ballot) {
                    self.depose(host);
                }
            }
        }
    }

    fn on_request<H: Host>(&mut self, from: Rank, ballot: Ballot, first: Slot, host: &mut H) {
        let lower = self.planted.has(Bug::GrantLower);
        if !self.grants.may_promise(from, ballot, lower) {
            let denied = Message::Denied { ballot, promised: self.grants.promised() };
            return self.post(from, denied, host);
        }
        self.grants.promise(ballot, lower);
        self.candidacy.see(ballot);
        host.store(self.places.promised(), ballot.0);
        if self.term.as_ref().is_some_and(|term| term.ballot < ballot) {
            self.depose(host);
        }
        if !self.terms.is_idle(self.me) && !self.planted.has(Bug::GrantWhileWriting) {
            // M6: the member that asked asks again.
            return;
        }
        // Once the half was granted, its leader may be writing into it.
        if self.grants.grant(ballot) {
            self.permit(Some(self.me), host);
            self.clear_half(
                Half::of(ballot, self.planted),
                Half::before(ballot, self.planted),
                first,
                host,
            );
        }
        self.permit((!self.planted.has(Bug::AdmitAnybody)).then_some(from), host);
        let labels = (0..self.places.ring_slots())
            .map(Slot)
            .flat_map(|place| Half::BOTH.map(|half| self.label_at(place, half, host)));
        let top = labels.flatten().map(|label| label.slot.next()).max().unwrap_or_default();
        self.post(from, Message::Granted { ballot, top }, host);
    }

    fn permit<H: Host>(&self, writer: Option<Rank>, host: &mut H) {
        host.permit_writer(self.places.log, writer).expect("it could when this node started");
    }

    pub(super) fn label_at<H: Host>(&self, slot: Slot, half: Half, host: &H) -> Option<Label> {
        let mut words = [0; value::HEADER_WORDS];
        host.load_into(self.places.entry(slot, half), &mut words);
        value::label(&words)
    }

    /// M5: copies the newest entry of each place, and all for `first` or later, so that none is in
    /// `half` alone. If this is interrupted, `half` is as it was, and nothing was granted.
    pub(super) fn clear_half<H: Host>(
        &mut self,
        half: Half,
        other: Half,
        first: Slot,
        host: &mut H,
    ) {
        let (mut words, mut kept) = (core::mem::take(&mut self.learner.scratch), Vec::new());
        let (places, n_words) = (self.places, self.places.area_words);
        let age = |label: Option<Label>| label.map(|label| (label.slot, label.ballot));
        for place in (0..places.ring_slots()).map(Slot).filter(|_| half != other) {
            if self.label_at(place, half, host).is_none_or(|label| label.slot < first) {
                continue;
            }
            // A label may be whole and its payload not: then the entry does not count.
            let newer = age(value::load(host, places.entry(place, half), n_words, &mut words));
            let older = age(value::load(host, places.entry(place, other), n_words, &mut kept));
            if newer > older {
                for (word, at) in words.iter().zip(0..) {
                    host.store(places.entry(place, other).plus(at), *word);
                }
            }
        }
        self.learner.scratch = words;
    }

    fn post<H: Host>(&mut self, to: Rank, message: Message, host: &mut H) {
        if to == self.me {
            self.on_message(to, message, host);
        } else {
            // A full queue has the effect of a loss: the candidate asks again.
            let _sent = host.send(to, &message.encode());
        }
    }

    /// The number of granted logs with which a term recovers.
    pub(super) fn grants_needed(&self) -> usize {
        if self.planted.has(Bug::GrantOfOne) { 1 } else { self.quorum() }
    }

    fn on_granted<H: Host>(&mut self, from: Rank, ballot: Ballot, top: Slot, host: &mut H) {
        let quorum = self.grants_needed();
        let Some(term) = &mut self.term else { return };
        // A log with many unanswered earlier terms is asked again, until it has answered; and one
        // whose link is down, over the next link: what is posted to it until then is lost, and one
        // lost probe refuses every read.
        let is_reached = self.links.contains(from) && self.terms.may_post(from);
        let is_of_use = term.ballot == ballot && is_reached;
        if !is_of_use || !term.granted.insert(from) {
            return;
        }
        if !term.unheard.is_empty() {
            return self.ask_applied(from, host);
        }
        if term.recover_until.is_some() {
            // The grant is late: the entries under way are written there too.
            return self.write_missing(from, host);
        }
        term.top = term.top.max(top);
        if term.granted.len() >= quorum {
            term.recover_until = Some(term.top);
            if self.planted.has(Bug::ProposeBeforeCopy) {
                term.announced = true;
                host.notify(Note::Leading { ballot });
            }
            self.recover(host);
        }
    }

    pub(super) fn on_completed<H: Host>(
        &mut self,
        from: Rank,
        token: Token,
        outcome: Outcome<'_>,
        host: &mut H,
    ) {
        let kind = (token.0 >> 60) as u8;
        let bits = (token.0 >> 44) as u32 & 0xffff;
        let low = token.0 & ((1 << 44) - 1);
        match kind {
            FETCH_LABEL => return self.on_fetched_label(from, low, outcome, host),
            FETCH_VALUE => return self.on_fetched_value(low, outcome),
            PROBE => return self.on_probed(from, low, outcome, host),
            _ => {}
        }
        let slot = Slot(low);
        let of = self.terms.settle(from, bits);
        let is_present = self.term.is_some() && of == self.terms.newest();
        if kind == APPLIED {
            if is_present {
                self.on_applied(from, outcome, host);
            }
            return;
        }
        let cell = self.cell(slot);
        if !is_present || cell.term != of || cell.slot != slot {
            return;
        }
        match (kind, cell.phase) {
            (LABEL, Phase::Reading) => self.on_label(from, slot, outcome, host),
            (ADOPT, Phase::Fetching) => self.on_adopted(slot, outcome, host),
            (WRITE, Phase::Writing | Phase::Decided) => self.on_written(from, slot, outcome, host),
            _ => {}
        }
    }

    pub(super) fn begin_write<H: Host>(&mut self, slot: Slot, payload: &[u8], host: &mut H) {
        let Some(term) = &mut self.term else { return };
        let (ballot, content) = (term.ballot, Content::Value);
        let label = Label { slot, ballot, decided: self.applied, content };
        let granted = term.granted;
        term.next = term.next.max(slot.next());
        let number = self.terms.newest();
        let cell = self.cell(slot);
        (cell.slot, cell.term, cell.phase) = (slot, number, Phase::Writing);
        cell.held = MemberSet::EMPTY;
        value::encode(&mut cell.value, label, payload);
        granted.iter().for_each(|rank| self.write_to(rank, slot, host));
    }

    fn write_to<H: Host>(&mut self, to: Rank, slot: Slot, host: &mut H) {
        let term = self.term.as_ref().filter(|term| term.granted.contains(to));
        let ballot = term.map(|term| term.ballot).expect("M2: its log was granted");
        let at = self.places.entry(slot, Half::of(ballot, self.planted));
        let token = token(WRITE, self.terms.post(to), slot.0);
        host.write(to, at, &self.cell(slot).value, Some(token));
    }

    fn on_written<H: Host>(&mut self, from: Rank, slot: Slot, outcome: Outcome<'_>, host: &mut H) {
        let quorum = if self.planted.has(Bug::IgnoreMajority) { 1 } else { self.quorum() };
        match outcome {
            Outcome::Written => {
                let cell = self.cell(slot);
                cell.held.insert(from);
                if cell.phase == Phase::Writing && cell.held.len() >= quorum {
                    cell.phase = Phase::Decided;
                    self.advance(host);
                }
            }
            Outcome::Refused => self.depose(host),
            Outcome::Read(_) | Outcome::Before(_) | Outcome::Unknown => {}
        }
    }

    pub(super) fn advance<H: Host>(&mut self, host: &mut H) {
        while self.term.is_some() {
            let (slot, number) = (self.applied.next_slot(), self.terms.newest());
            let cell = self.cell(slot);
            if cell.slot != slot || cell.term != number || cell.phase != Phase::Decided {
                break;
            }
            let words = core::mem::take(&mut cell.value);
            self.deliver(slot, &words, host);
            self.cell(slot).value = words;
        }
        let Some(term) = &mut self.term else { return };
        let (ballot, decided) = (term.ballot, self.applied);
        self.facts[self.me.index()] = Fact { ballot, decided };
        let recovered = term.recover_until.is_some_and(|until| decided.0 >= until.0);
        if recovered && !term.announced {
            term.announced = true;
            term.next = term.next.max(decided.next_slot());
            host.notify(Note::Leading { ballot });
        }
    }

    pub(super) fn propose_value<H: Host>(
        &mut self,
        value: &[u8],
        host: &mut H,
    ) -> Result<Slot, Refused> {
        if value.len() > self.value_bytes_max {
            return Err(Refused::TooLong);
        }
        let recyclable = self.applied_by_majority().0 + self.places.ring_slots();
        let Some(term) = self.term.as_ref().filter(|term| term.announced) else {
            return Err(Refused::NotLeader);
        };
        let slot = term.next;
        if slot.0 - self.applied.0 >= self.window || slot.0 >= recyclable {
            return Err(Refused::Full);
        }
        self.begin_write(slot, value, host);
        Ok(slot)
    }

    pub(super) fn publish<H: Host>(&mut self, host: &mut H) {
        let decided = self.applied;
        let at = self.places.fact(self.me);
        let Some(term) = &mut self.term else { return };
        if decided > term.published && term.next.0 <= decided.0 {
            term.published = decided;
            for rank in Rank::all(self.members).filter(|rank| *rank != self.me) {
                if term.introduced.insert(rank) {
                    host.write(rank, at, &[term.ballot.0], None);
                }
                host.write(rank, at.plus(1), &[decided.0], None);
            }
        }
    }

    /// Writes the entries under way that `rank` missed.
    fn write_missing<H: Host>(&mut self, rank: Rank, host: &mut H) {
        let Some(term) = &self.term else { return };
        let (next, number) = (term.next, self.terms.newest());
        for slot in (self.applied.0..next.0).map(Slot) {
            let cell = self.cell(slot);
            let ours = cell.slot == slot && cell.term == number;
            if ours && cell.phase == Phase::Writing && !cell.held.contains(rank) {
                self.write_to(rank, slot, host);
            }
        }
    }

    pub(super) fn on_link_down(&mut self, rank: Rank) {
        if let Some(term) = &mut self.term {
            // Only the owner knows whether its grant outlives the link: it is asked again.
            term.granted.remove(rank);
        }
    }

    pub(super) fn on_link_up<H: Host>(&mut self, rank: Rank, host: &mut H) {
        if let Some(term) = &mut self.term {
            // A grant that came after the previous link's end covers what that link lost too: only
            // a grant over this link makes `write_missing` write it again.
            term.granted.remove(rank);
            term.introduced.remove(rank);
            if !self.planted.has(Bug::PublishedOutlivesLink) {
                term.published = Prefix::ZERO;
            }
            let ballot = term.ballot;
            let _sent = host.send(rank, &self.request(ballot).encode());
            // Its owner may be writing into it, and does not answer then (M6).
            self.clock.nudge(self.clock.now.plus(REPEAT_AFTER));
        }
    }

    pub(super) fn repeat_lost<H: Host>(&mut self, host: &mut H) {
        self.learner.give_up_late(self.clock.now);
        let Some(term) = &self.term else { return };
        let (ballot, missing) = (term.ballot, self.links.difference(term.granted));
        if missing.is_empty() {
            return;
        }
        let request = self.request(ballot).encode();
        for rank in missing.iter().filter(|rank| *rank != self.me) {
            let _sent = host.send(rank, &request);
        }
        if missing.contains(self.me) {
            self.on_message(self.me, self.request(ballot), host);
        }
        self.clock.nudge(self.clock.now.plus(REPEAT_AFTER));
    }

    /// Begins a probe: a leader may answer reads if, after they arrived, a majority of the logs
    /// still took a write of its. No other leader can have got a grant of them before that, and
    /// nothing that it lacks can be decided.
    pub(super) fn start_probe<H: Host>(&mut self, ticket: Ticket, host: &mut H) {
        let granted = match &self.term {
            Some(_) if self.planted.has(Bug::ReadWithoutCheck) => {
                return host.notify(Note::ReadReady(ticket));
            }
            Some(term)
                if (term.announced || self.planted.has(Bug::ReadBeforeRecovery))
                    && !self.probes.is_full() =>
            {
                term.granted
            }
            _ => return host.notify(Note::ReadRefused(ticket)),
        };
        let number = self.probes.begin(ticket);
        let word = [self.grants.promised().0];
        for rank in granted.iter() {
            let token = token(PROBE, 0, number);
            host.write(rank, self.places.probe(), &word, Some(token));
        }
        if granted.len() < self.quorum() {
            self.refuse_probes(host);
        }
    }

    fn on_probed<H: Host>(&mut self, from: Rank, number: u64, outcome: Outcome<'_>, host: &mut H) {
        if !self.probes.is_under_way(number) && !self.planted.has(Bug::AnyProbeEndsTheTerm) {
            // It was answered, or is of an earlier term: it says nothing of this one.
            return;
        }
        match outcome {
            Outcome::Written => {
                let quorum = if self.planted.has(Bug::ReadChecksOne) { 1 } else { self.quorum() };
                if let Some(ticket) = self.probes.pass(number, from, quorum) {
                    host.notify(Note::ReadReady(ticket));
                }
            }
            Outcome::Refused => self.depose(host),
            Outcome::Read(_) | Outcome::Before(_) | Outcome::Unknown => self.refuse_probes(host),
        }
    }

    pub(super) fn refuse_probes<H: Host>(&mut self, host: &mut H) {
        for ticket in self.probes.give_up() {
            host.notify(Note::ReadRefused(ticket));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_read_is_answered_once_when_a_majority_of_logs_took_its_probe() {
        let mut probes = Probes::default();
        let (first, second) = (probes.begin(Ticket(1)), probes.begin(Ticket(2)));
        assert_eq!(probes.pass(first, Rank::at(0), 2), None);
        assert_eq!(probes.pass(first, Rank::at(0), 2), None, "one log counts once");
        assert_eq!(probes.pass(first, Rank::at(2), 2), Some(Ticket(1)));
        assert_eq!(probes.pass(first, Rank::at(1), 2), None);
        assert_eq!(probes.give_up().collect::<Vec<_>>(), [Ticket(2)]);
        assert_eq!(probes.pass(second, Rank::at(1), 1), None);
    }
}
