//! The network and the memory: everything that happens to a verb between its posting and its
//! completion, and every fault that the fabric's promises allow.
//!
//! What is *not* promised (fabric, T1..T10) is broken here: a WRITE lands in two parts with time
//! between them, a READ samples its words at two times (T3); links overtake each other; completions
//! are late; a process is stopped between two of its own posts; a verb that was reported as unknown
//! still takes effect until its link is up again.
//!
//! - I1 A node's verbs to one peer take effect in posting order (T2): see [`Link`].
//! - I2 After `LinkUp` nothing posted before it takes effect. By construction: the link is cleared.
//! - I3 A verb with a token completes once (T4). By construction: its completion is made when it
//!   leaves the queue, by taking effect or by the break.
//! - I4 A verb that is posted before its poster has handled a break takes no effect (T10): a link
//!   that is back sooner is up when the run that got the report is over. Asserted in `connect`.
//! - I5 No message of a new link comes before its receiver's `LinkUp` (T7), though the sender's
//!   side may be up earlier.

use crate::accepts::Accepts;
use crate::checks::Claimed;
use crate::checks::introduced::Introduced;
use crate::checks::single_writer::Trespass;
use crate::checks::witnesses::Witnesses;
use crate::clock::{Clock, MS, Wall};
use crate::costs::{Costs, UNSENT};
use crate::coverage::{Coverage, Mark};
use crate::link::{Action, Done, Link, Result as Fate, Verb, in_first_half};
use crate::memory::Region;
use crate::parcels::Parcels;
use crate::queue::Queue;
use crate::trace::{Topic, Trace};
use crate::world::Phase;
use crate::world::snares::Snares;
use crate::world::wire::Wire;
use crate::{Property, Provider, Violation, Weather};
use base::{At, Event, Inbox, Instant, Outcome, Rank, Rng, Token};
use proto::claims::Reads;

/// The time within which a wire that is not held carries, however slow it is: a slower connection
/// counts as one that breaks (tcp gives it up), and a wire that is held is another fault.
pub(crate) const LATE_NS_MAX: u64 = 1_000 * MS;

/// One node's process, as the network sees it.
pub(crate) struct Process {
    pub(crate) alive: bool,
    /// The number of faults that have stopped it: it runs at 0.
    pub(crate) n_stops: u32,
    /// The number of its lives.
    pub(crate) life: u32,
    pub(crate) clock: Clock,
    pub(crate) wall: Wall,
    /// What the next turn is told, if it was stopped then (`late`).
    pub(crate) late: Option<Instant>,
    /// The nanoseconds that one run of its loop takes.
    pub(crate) effort: u64,
    /// The time until which its processor is taken.
    pub(crate) busy_until: u64,
    pub(crate) inbox: Inbox,
    /// The first word of its region with one permitted writer, and that writer; `None` if all may
    /// write.
    pub(crate) permitted: Option<(u32, Rank)>,
    /// Whether the machine reported that it leads, for coverage.
    pub(crate) leads: bool,
}

impl Process {
    pub(crate) fn runs(&self) -> bool {
        self.alive && self.n_stops == 0
    }
}

/// The fabric of the whole world.
pub(crate) struct Net {
    pub(crate) queue: Queue,
    pub(crate) trace: Trace,
    pub(crate) rng: Rng,
    pub(crate) weather: Weather,
    pub(crate) members: usize,
    pub(crate) regions: Vec<Region>,
    pub(crate) parcels: Parcels,
    pub(crate) links: Vec<Link>,
    pub(crate) wires: Vec<Wire>,
    pub(crate) processes: Vec<Process>,
    pub(crate) coverage: Coverage,
    pub(crate) introduced: Introduced,
    pub(crate) witnesses: Witnesses,
    pub(crate) accepts: Accepts,
    pub(crate) violation: Option<Violation>,
    pub(crate) claimed: Claimed,
    /// Ambushes for verbs and answers.
    pub(crate) snares: Snares,
    pub(crate) n_posted_in_all: u64,
    /// What verbs take, in an experiment about throughput.
    pub(crate) costs: Option<Costs>,
}

impl Net {
    pub(crate) fn new(
        members: usize,
        n_clients: usize,
        n_words: usize,
        weather: Weather,
        mut rng: Rng,
        trace: Trace,
    ) -> Net {
        let process = |origin| Process {
            alive: false,
            n_stops: 0,
            life: 0,
            clock: Clock::new(origin),
            wall: Wall::new(),
            late: None,
            effort: 500,
            busy_until: 0,
            inbox: Inbox::new(),
            permitted: None,
            leads: false,
        };
        Net {
            queue: Queue::new(members, n_clients),
            trace,
            weather,
            members,
            regions: (0..members).map(|_| Region::new(n_words)).collect(),
            parcels: Parcels::default(),
            links: (0..members * members)
                .map(|link| Link::new(link / members, link % members))
                .collect(),
            wires: Wire::all(members, weather.unevenness, rng.clone()),
            processes: (0..members).map(|_| process(rng.below(1 << 40))).collect(),
            rng,
            coverage: Coverage::default(),
            introduced: Introduced::default(),
            witnesses: Witnesses::new(Reads::Unseen, members),
            accepts: Accepts::default(),
            violation: None,
            claimed: Claimed::default(),
            snares: Snares::default(),
            n_posted_in_all: 0,
            costs: None,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.queue.now()
    }

    pub(crate) fn link_index(&self, from: usize, to: usize) -> usize {
        from * self.members + to
    }

    /// The node that posts to this link, and the node of the region.
    #[inline]
    pub(crate) fn ends(&self, index: usize) -> (usize, usize) {
        let link = &self.links[index];
        (link.from, link.to)
    }

    /// Notes a violation. Only the first counts; its consequences would only confuse.
    pub(crate) fn violate(&mut self, property: Property, detail: String) {
        if self.violation.is_none() {
            self.violation = Some(Violation { at_ns: self.now(), property, detail });
        }
    }

    /// Judges that a run has come to its last phase: one that ends before has judged little.
    pub(crate) fn judge_end(&mut self, phase: Phase) {
        if phase != Phase::Over {
            self.violate(Property::Liveness, "nothing is left to happen, and much to judge".into());
        }
    }

    #[inline]
    fn judge(&mut self, verdict: Result<(), Trespass>, node: usize) {
        if let Err(detail) = verdict {
            self.violate(Property::SingleWriter, format!("in the region of r{node}: {detail}"));
        }
    }

    /// The time that the wire takes now: never longer than [`LATE_NS_MAX`].
    fn delay(&mut self, from: usize, to: usize) -> u64 {
        let weather = &self.weather;
        let mut delay = weather.latency_ns + self.rng.below(weather.jitter_ns + 1);
        if from == to {
            return delay / 4;
        }
        if self.rng.chance(1, 64) {
            delay *= 1 + self.rng.below(weather.spike);
        }
        (delay * self.wires[from * self.members + to].slowness).min(LATE_NS_MAX)
    }

    // ---- posting ----

    pub(crate) fn post(&mut self, from: usize, to: usize, verb: Posting<'_>) {
        let index = self.link_index(from, to);
        let mut delay = self.delay(from, to);
        let now = self.now();
        self.n_posted_in_all += 1;
        if from != to {
            delay += self.is_late_by(verb.action);
        }
        let link = &mut self.links[index];
        if !link.up {
            if let Some(token) = verb.token {
                self.complete(index, (token, 0), Fate::Unknown, &[]);
            }
            return;
        }
        if matches!(verb.action, Action::Write)
            && let Err(detail) = self.introduced.note(from, index, verb.at, verb.payload)
        {
            self.violate(Property::Introduced, format!("r{from} to r{to}: {detail}"));
        }
        let is_witness = match verb.action {
            Action::Read => self.witnesses.is_one(verb.at.0, true),
            Action::Write => self.witnesses.is_one(verb.at.0, false),
            Action::Cas { .. } | Action::FetchAdd(_) | Action::Message(_) | Action::Parcel => false,
        };
        let link = &mut self.links[index];
        let arrives_at = match &self.costs {
            Some(_) if from != to => UNSENT,
            _ => link.last_arrival.max(now + delay),
        };
        link.last_arrival = arrives_at;
        link.payload.push(verb.payload);
        link.verbs.push_back(Verb {
            action: verb.action,
            at: verb.at.0,
            n_words: verb.n_words,
            token: verb.token,
            arrives_at,
            is_here: false,
            witness: if is_witness { self.n_posted_in_all } else { 0 },
        });
        if arrives_at == UNSENT {
            self.wait_for_nic(from, index, verb.n_words);
        } else if link.verbs.len() == 1 {
            self.arm_verb(index, arrives_at);
        }
    }

    /// The number of verbs and messages on the way.
    pub(crate) fn n_posted(&self, from: usize, to: usize) -> usize {
        self.links[self.link_index(from, to)].verbs.len()
    }

    pub(crate) fn arm_verb(&mut self, index: usize, at: u64) {
        self.queue.set_verb(index, at);
    }

    /// Whether nothing can take effect on this link now.
    fn blocked(&self, index: usize) -> bool {
        let link = &self.links[index];
        link.frozen
            || link.dead_end
            || self.wires[index].n_holds > 0
            || (self.weather.provider == Provider::Tcp
                && link.from != link.to
                && !self.processes[link.to].runs())
    }

    // ---- taking effect ----

    #[inline(never)]
    pub(crate) fn on_verb(&mut self, index: usize) {
        while let Some(verb) = self.links[index].verbs.front().copied() {
            if self.blocked(index) {
                return;
            }
            if verb.arrives_at > self.now() {
                return self.arm_verb(index, verb.arrives_at);
            }
            if !self.is_received(index, verb) {
                continue;
            }
            if self.take_effect(index, verb) {
                self.links[index].pop();
            } else {
                let pause = 1 + self.rng.below(self.weather.tear_ns);
                let at = self.now() + pause;
                return self.arm_verb(index, at);
            }
        }
    }

    /// Lets up to `n_most` WRITEs that are the next ones on this link take effect now.
    pub(crate) fn land_early(&mut self, index: usize, n_most: usize) {
        let now = self.now();
        let next = self.links[index].verbs.iter_mut().take(n_most);
        for verb in next.take_while(|verb| matches!(verb.action, Action::Write | Action::Parcel)) {
            verb.arrives_at = verb.arrives_at.min(now);
        }
        self.on_verb(index);
    }

    /// Performs a verb. True when it is complete; false after its first half.
    fn take_effect(&mut self, index: usize, verb: Verb) -> bool {
        let (from, to) = self.ends(index);
        let (at, n_words) = (verb.at as usize, verb.n_words as usize);
        let denied = self.processes[to]
            .permitted
            .is_some_and(|(start, rank)| rank.index() != from && verb.at + verb.n_words > start);
        if denied && from != to && !matches!(verb.action, Action::Read | Action::Message(_)) {
            self.finish(index, verb, Fate::Refused);
            return true;
        }
        let is_beside = matches!(verb.action, Action::Message(_) | Action::Parcel);
        assert!(
            is_beside || at + n_words <= self.regions[to].n_words(),
            "a verb of r{from} reaches beyond the region of r{to}: words {at}..+{n_words}"
        );
        match verb.action {
            Action::Write | Action::Read => {
                let half = self.links[index].half;
                let torn = half.is_none() && n_words > 1 && self.rng.chance(self.weather.tear, 8);
                let pattern = match half {
                    // The second half is the rest of the first.
                    Some(pattern) => !pattern,
                    None if torn => self.rng.next_u64(),
                    None => u64::MAX,
                };
                match verb.action {
                    Action::Write => self.land(index, verb, pattern),
                    _ if verb.token.is_some() => self.sample(index, verb, pattern),
                    _ => {}
                }
                if torn {
                    self.links[index].half = Some(pattern);
                    self.coverage.hit(Mark::TornVerb);
                    return false;
                }
                match verb.action {
                    Action::Write => {
                        self.accepts.note(to, verb.at);
                        self.finish(index, verb, Fate::Written);
                    }
                    _ => self.finish(index, verb, Fate::Read(verb.n_words)),
                }
            }
            Action::Cas { expected, desired } => {
                let (before, verdict) = self.regions[to].cas(at, expected, desired);
                self.judge(verdict, to);
                if before != expected {
                    self.coverage.hit(Mark::FailedCas);
                    if self.processes[from].leads {
                        self.coverage.hit(Mark::FailedCasOfLeader);
                    }
                }
                if before == expected && (expected ^ desired) & self.accepts.accepting.mask != 0 {
                    self.accepts.note(to, verb.at);
                }
                let hit = u64::from(before == expected);
                self.trace.record(
                    self.queue.now(),
                    from,
                    Topic::Cas,
                    (to as u64) << 32 | u64::from(verb.at),
                    hit,
                );
                self.finish(index, verb, Fate::Before(before));
            }
            Action::FetchAdd(add) => {
                let (before, verdict) = self.regions[to].fetch_add(at, add);
                self.judge(verdict, to);
                self.trace.record(
                    self.queue.now(),
                    from,
                    Topic::FetchAdd,
                    u64::from(verb.at),
                    before,
                );
                self.finish(index, verb, Fate::Before(before));
            }
            Action::Parcel => {
                let words = self.links[index].payload.first(n_words);
                self.parcels.put((from, to), At(verb.at), words);
                self.finish(index, verb, Fate::Written);
            }
            Action::Message(n_bytes) => {
                self.trace.record(
                    self.queue.now(),
                    from,
                    Topic::Message,
                    to as u64,
                    u64::from(n_bytes),
                );
                if self.processes[to].alive {
                    self.bring(index, n_words, n_bytes as usize);
                    if from != to {
                        self.has_said(from, verb.action);
                    }
                }
                self.finish(index, verb, Fate::Written);
            }
        }
        if from != to && !matches!(verb.action, Action::Read | Action::Message(_)) {
            self.attract(to);
            self.has_said(from, verb.action);
        }
        true
    }

    /// Hands a message to its receiver, or keeps it until the receiver's side of a new connection
    /// is up (I5).
    fn bring(&mut self, index: usize, n_words: usize, n_bytes: usize) {
        let (from, to) = self.ends(index);
        let is_early = self.links[self.link_index(to, from)].returning;
        let payload = self.links[index].payload.first(n_words);
        let fill = |bytes: &mut [u8]| {
            for (chunk, word) in bytes.chunks_mut(8).zip(payload) {
                chunk.copy_from_slice(&word.to_le_bytes()[..chunk.len()]);
            }
        };
        if is_early {
            let mut message = vec![0; n_bytes];
            fill(&mut message);
            self.links[index].early.push(message);
            return;
        }
        self.processes[to].inbox.push_message(Rank::at(from), n_bytes, fill);
        self.arm_run(to, self.now());
    }

    fn land(&mut self, index: usize, verb: Verb, pattern: u64) {
        let (from, to) = self.ends(index);
        let words = self.links[index].payload.first(verb.n_words as usize);
        let writer = Rank::at(from);
        let spoils = self.links[index].half.is_none()
            && self.accepts.are_spoilt(&self.regions[to], self.members, At(verb.at), words);
        let verdict = self.regions[to].write_some(verb.at as usize, words, pattern, writer);
        self.judge(verdict, to);
        if spoils {
            let detail = format!("r{from} writes over what r{to} has accepted, at {}", verb.at);
            self.violate(Property::Safe, detail);
        }
        let what = (to as u64) << 32 | u64::from(verb.at);
        self.trace.record(self.queue.now(), from, Topic::Write, what, u64::from(verb.n_words));
    }

    fn sample(&mut self, index: usize, verb: Verb, pattern: u64) {
        let (from, to) = self.ends(index);
        let n_words = verb.n_words as usize;
        let sample = &mut self.links[index].sample;
        sample.resize(n_words, 0);
        let region = &self.regions[to];
        for (word, sampled) in sample.iter_mut().enumerate() {
            if in_first_half(pattern, word) {
                *sampled = region.load(verb.at as usize + word);
            }
        }
        let what = (to as u64) << 32 | u64::from(verb.at);
        self.trace.record(self.queue.now(), from, Topic::Read, what, u64::from(verb.n_words));
    }

    /// Notes a change in the region of `node`: its loop may notice it by itself, or not.
    fn attract(&mut self, node: usize) {
        match (self.weather.provider, self.weather.notice_ns) {
            (_, Some(notice)) => {
                let at = self.now() + self.rng.below(notice + 1);
                self.arm_run(node, at);
            }
            (Provider::Tcp, None) => self.arm_run(node, self.now()),
            (Provider::Shm, None) => {}
        }
    }

    // ---- completing ----

    fn finish(&mut self, index: usize, verb: Verb, fate: Fate) {
        let Some(token) = verb.token else { return };
        let sample = std::mem::take(&mut self.links[index].sample);
        self.complete(index, (token, verb.witness), fate, &sample);
        self.links[index].sample = sample;
    }

    fn complete(
        &mut self,
        index: usize,
        (token, witness): (Token, u64),
        fate: Fate,
        words: &[u64],
    ) {
        let (from, to) = self.ends(index);
        let delay = self.delay(to, from);
        let now = self.now();
        let link = &mut self.links[index];
        let ready_at = link.last_done.max(now + delay);
        link.last_done = ready_at;
        link.done.push_back(Done { token, result: fate, ready_at, witness });
        link.done_words.push(words);
        if link.done.len() == 1 {
            self.arm_done(index, ready_at);
        }
    }

    fn arm_done(&mut self, index: usize, at: u64) {
        self.queue.set_completion(index, at);
    }

    #[inline(never)]
    pub(crate) fn on_completion(&mut self, index: usize) {
        let (from, to) = self.ends(index);
        let now = self.now();
        if self.links[index].up && self.wires[to * self.members + from].n_holds > 0 {
            return;
        }
        while let Some(done) = self.links[index].done.front().copied() {
            if done.ready_at > now {
                return self.arm_done(index, done.ready_at);
            }
            self.hand_over(index, done);
            self.links[index].done.pop_front();
            if from != to {
                self.has_answered(to, done.result);
            }
            self.arm_run(from, now);
        }
    }

    /// Puts a completion into its poster's inbox.
    pub(crate) fn hand_over(&mut self, index: usize, done: Done) {
        let (from, to) = self.ends(index);
        let (peer, token) = (Rank::at(to), done.token);
        let link = &mut self.links[index];
        let inbox = &mut self.processes[from].inbox;
        let outcome = match done.result {
            Fate::Read(n_words) => {
                let words = link.done_words.first(n_words as usize);
                if done.witness > 0 {
                    self.witnesses.answered(from, to, done.witness, words);
                }
                let outcome = Outcome::Read(words);
                inbox.push(Event::Completed { from: peer, token, outcome });
                return link.done_words.take(n_words as usize);
            }
            Fate::Written => {
                if done.witness > 0 {
                    self.witnesses.answered(from, to, done.witness, &[]);
                }
                Outcome::Written
            }
            Fate::Before(before) => Outcome::Before(before),
            Fate::Refused => Outcome::Refused,
            Fate::Unknown => Outcome::Unknown,
        };
        self.trace.record(self.queue.now(), from, Topic::Completed, to as u64, token.0);
        inbox.push(Event::Completed { from: peer, token, outcome });
    }

    /// Lets a link's work continue, since a fault that held it may have ended.
    pub(crate) fn kick(&mut self, index: usize) {
        let now = self.now();
        if let Some(verb) = self.links[index].verbs.front() {
            let at = verb.arrives_at.max(now);
            self.arm_verb(index, at);
        }
        if let Some(done) = self.links[index].done.front() {
            let at = done.ready_at.max(now);
            self.arm_done(index, at);
        }
    }

    // ---- processes ----

    /// Loses the memory of `node`, which gets a new one.
    pub(crate) fn clear_region(&mut self, node: usize) {
        let n_words = self.regions[node].n_words();
        self.regions[node] = Region::new(n_words);
    }

    /// Lets the loop of `node` run at `at`, if it does not run earlier.
    pub(crate) fn arm_run(&mut self, node: usize, at: u64) {
        let process = &self.processes[node];
        if !process.runs() {
            return;
        }
        let at = at.max(process.busy_until);
        if at < self.queue.run_at(node) {
            self.queue.set_run(node, at);
        }
    }

    /// Puts an event about `about` into the inbox of `node`, if it lives.
    pub(crate) fn tell(&mut self, node: usize, event: Event<'_>) {
        if self.processes[node].alive {
            self.processes[node].inbox.push(event);
            self.arm_run(node, self.now());
        }
    }
}

/// A verb that a node posts.
pub(crate) struct Posting<'a> {
    pub(crate) action: Action,
    pub(crate) at: At,
    pub(crate) n_words: u32,
    pub(crate) payload: &'a [u64],
    pub(crate) token: Option<Token>,
}
