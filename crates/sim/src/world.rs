//! The world: nodes, network, clients, faults, and the one loop in which everything happens.
//!
//! - I1 Everything follows from the seed: each part draws from a generator of its own, so that one
//!   part's draws do not move another's. By test: whole traces of two runs are equal.
//! - I2 A run has three phases: *safety* (faults, checks), *healing* (a chosen core is repaired and
//!   left alone), *liveness* (each client must get answers from the core, in bounded time).

pub(crate) mod ambush;
mod claims;
mod clients;
mod disk_faults;
mod faults;
pub(crate) mod flushes;
pub(crate) mod late;
mod memories;
pub(crate) mod net;
pub(crate) mod nics;
pub(crate) mod node;
mod operator;
pub(crate) mod outage;
mod phases;
pub(crate) mod port;
mod requests;
pub(crate) mod rest;
pub(crate) mod saving;
pub(crate) mod silence;
pub(crate) mod snares;
mod travel;
mod wire;

use crate::checks::introduced::Introduced;
use crate::checks::witnesses::Witnesses;
use crate::checks::{linearizable, real_time};
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::disks::Disks;
use crate::ledger::{Ledger, Reply};
use crate::plan::{Kind, MS, Plan};
use crate::queue::{Fault, Happening};
use crate::subject::{Life, Subject};
use crate::trace::{Topic, Trace};
use crate::{Birth, Config, Outcome, Property, Provider, Setup, kv};
use ambush::Ambushes;
use base::{Event, MemberSet, Prefix, Rank, Rng};
use clients::Client;
use faults::Faults;
use net::Net;
use node::{NodeHost, Shell};
use operator::Operator;
use outage::Outages;
use phases::Core;
use proto::{Note, Role};

/// The phase of a run (I2).
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) enum Phase {
    Safety,
    Healing,
    Liveness,
    Over,
}

/// The number of operations that each client must complete in the liveness phase.
pub(crate) const N_LIVE_OPERATIONS: u32 = 5;
/// Between two decisions there are some hundred records; this many mean a storm without progress.
const N_RECORDS_MAX: u64 = 3_000_000;

/// The simulated world around members of one kind.
pub(crate) struct World {
    pub(crate) subject: Subject,
    pub(crate) net: Net,
    pub(crate) plan: Plan,
    /// Boxed: each run takes the machine out of its place and puts it back.
    pub(crate) machines: Vec<Option<Box<dyn Life>>>,
    pub(crate) shells: Vec<Shell>,
    /// The disks, empty and unused where the protocol has none.
    pub(crate) disks: Vec<Disk>,
    pub(crate) ledger: Ledger,
    pub(crate) clients: Vec<Client>,
    pub(crate) faults: Faults,
    pub(crate) ambushes: Ambushes,
    pub(crate) phase: Phase,
    pub(crate) core: Core,
    pub(crate) rng: Rng,
    pub(crate) leader: Option<(usize, u64)>,
    /// The operator, where members change.
    pub(crate) operator: Option<Operator>,
    scratch: Vec<u64>,
    pub(crate) batch: Vec<kv::Command>,
    pub(crate) value: Vec<u8>,
    /// The events that the loop takes; empty between two runs.
    taken_in: base::Inbox,
    notes: Vec<Note>,
}

/// The counts that distinguish a storm from a busy run, whose records are many too.
#[derive(Default)]
struct Progress {
    n_decided: u64,
    /// The number of records at the last decision.
    n_records: u64,
}

impl Progress {
    fn is_storm(&mut self, n_decided: u64, n_records: u64, n_max: u64) -> bool {
        if n_decided > self.n_decided {
            *self = Progress { n_decided, n_records };
        }
        n_records - self.n_records > n_max
    }
}

/// Runs one seed, from beginning to end.
pub fn run(subject: &Subject, config: &Config, seed: u64) -> Outcome {
    let provider = config.provider.or(subject.provider);
    let config = &Config { provider, ..config.clone() };
    let mut rng = Rng::new(seed);
    let mut plan = Plan::draw(config, &mut rng);
    if subject.is_durable {
        plan.disks = Disks::draw(seed, &mut plan.kinds, plan.weather.provider);
    }
    ambush::draw(seed, &mut plan, subject.is_durable);
    if subject.has_steady_clocks {
        plan.kinds.retain(|kind| *kind != Kind::Jump);
    }
    if config.is_long {
        plan.stretch(seed);
    }
    let operator =
        subject.has_operator.then(|| Operator::draw(seed, config, &mut plan, subject.is_durable));
    let mut world = World::new(subject.equipped(seed), plan, rng, config.trace);
    (world.operator, world.core.silence) = (operator, silence::Silence::draw(seed));
    world.begin();
    world.run_to_the_end();
    world.judge()
}

impl World {
    pub(crate) fn new(subject: Subject, plan: Plan, mut rng: Rng, keep_trace: bool) -> World {
        let members = plan.members;
        let n_words = (subject.n_words)(members, &plan.shape);
        let mut net = Net::new(
            members,
            plan.n_clients,
            n_words,
            plan.weather,
            rng.fork(),
            Trace::new(keep_trace),
        );
        let introduction = |rank| (subject.introduction)(members, &plan.shape, rank);
        net.witnesses = Witnesses::new((subject.claims.reads)(members, &plan.shape), members);
        net.accepts.accepting = (subject.claims.accepting)(members, &plan.shape);
        net.accepts.rising = (subject.claims.rising)(members, &plan.shape);
        net.accepts.spoils = Some((subject.claims.spoils, plan.shape));
        net.introduced = Introduced::at(Rank::all(members).map_while(introduction).collect());
        World {
            subject,
            net,
            machines: (0..members).map(|_| None).collect(),
            shells: (0..members).map(|_| Shell::new()).collect(),
            disks: (0..members).map(|_| Disk::new(subject.store, subject.snapshots)).collect(),
            ledger: Ledger::new(plan.shape.ring_slots),
            clients: (0..plan.n_clients).map(|_| Client::new(rng.fork())).collect(),
            faults: Faults::new(rng.fork(), &plan),
            ambushes: Ambushes::default(),
            phase: Phase::Safety,
            core: Core::of(MemberSet::all(members)),
            leader: None,
            operator: None,
            scratch: Vec::new(),
            batch: Vec::new(),
            value: Vec::new(),
            taken_in: base::Inbox::new(),
            notes: Vec::new(),
            plan,
            rng,
        }
    }

    /// Starts every founder, with the empty state.
    pub(crate) fn begin(&mut self) {
        for node in 0..self.plan.members {
            if self.founders().contains(Rank::at(node)) {
                self.be_born(node, Birth::Fresh);
            }
        }
        self.open_office();
        for client in 0..self.clients.len() {
            let at = 2 * MS * (client as u64 + 1);
            self.net.queue.set_client(client, at);
        }
        self.net.queue.push(self.plan.strike_every_ns, Happening::Strike);
        self.net.queue.push(self.plan.safety_ns, Happening::Phase);
    }

    fn run_to_the_end(&mut self) {
        let mut progress = Progress::default();
        while self.phase != Phase::Over && self.net.violation.is_none() {
            match self.net.queue.pop_until(u64::MAX) {
                Some(what) => self.happen(what),
                None => break,
            }
            let n_decided = self.ledger.agreement.n_decided();
            let n_max = N_RECORDS_MAX * self.plan.pace;
            if progress.is_storm(n_decided, self.net.trace.n_records(), n_max) {
                let detail = format!("{n_max} records and no decision: something spins");
                self.net.violate(Property::Liveness, detail);
            }
        }
        self.net.judge_end(self.phase);
    }

    /// Judges the properties of a whole history.
    pub(crate) fn judge(mut self) -> Outcome {
        if let Err(detail) = real_time::check(&self.ledger.operations) {
            self.net.violate(Property::RealTime, detail);
        }
        let verdict = linearizable::check(&self.ledger.operations);
        let is_judged = verdict == Ok(linearizable::Judged::Whole);
        if let Err(detail) = verdict {
            self.net.violate(Property::Linearizable, detail);
        }
        let operations = &self.ledger.operations;
        Outcome {
            violation: self.net.violation.take(),
            fingerprint: self.net.trace.fingerprint(),
            n_records: self.net.trace.n_records(),
            virtual_ns: self.net.queue.now(),
            is_judged,
            n_asked: operations.len(),
            n_answered: operations.iter().filter(|one| one.answered_at.is_some()).count(),
            coverage: self.net.coverage,
            trace: self.net.trace.into_text(),
        }
    }

    /// Performs one event.
    pub(crate) fn happen(&mut self, what: Happening) {
        match what {
            Happening::Verb(link) => {
                self.net.on_verb(link as usize);
                self.judge_accepted();
            }
            Happening::Completion(link) => self.net.on_completion(link as usize),
            Happening::Run(node) => self.on_run(node as usize),
            Happening::Client(client) => self.on_client(client as usize),
            Happening::Request { node, client, attempt } => {
                self.on_request(node as usize, client as usize, attempt);
            }
            Happening::Answer { client, attempt, index } => {
                let reply = self.ledger.replies[index as usize];
                self.on_answer(client as usize, attempt, reply);
            }
            Happening::Strike => self.on_strike(),
            Happening::Operate => self.on_operate(),
            Happening::Depose => unreachable!("clusters alone depose their leaders"),
            Happening::Left(_) => unreachable!("a sweep counts no costs"),
            Happening::Spring(node) => self.on_spring(node as usize),
            Happening::Mend(fault) => self.mend(fault),
            Happening::Break(link) => {
                self.faults.outages.on_break(&mut self.net, link as usize);
            }
            Happening::Reconnect(link) => self.on_reconnect(link as usize),
            Happening::Reset(link) => {
                self.faults.outages.reset(&mut self.net, link as usize);
            }
            Happening::Hint { to, about, life } => {
                Outages::hint(&mut self.net, to as usize, about as usize, life);
            }
            Happening::Fetch { node, life, transfer } => {
                self.on_fetch(node as usize, life, transfer);
            }
            Happening::Install { node, life, transfer } => {
                self.on_install(node as usize, life, transfer);
            }
            Happening::PowerCut(node) => self.on_power_cut(node as usize),
            Happening::Disk { node, life } => self.on_disk(node as usize, life),
            Happening::Snapshot { node, life } => self.on_snapshot(node as usize, life),
            Happening::Phase => self.on_phase(),
        }
    }

    // ---- lives ----

    /// Starts a process: the first, or one on the region that its predecessor left.
    pub(crate) fn be_born(&mut self, node: usize, birth: Birth) {
        let members = self.plan.members;
        let now = self.net.now();
        Outages::begin_process(&mut self.net, node);
        self.shells[node] = Shell::new();
        if let Birth::Recovered { .. } = birth {
            self.recover(node);
            if self.plan.weather.provider == Provider::Tcp {
                self.net.clear_region(node);
            }
        }
        if let Birth::Joined { .. } = birth {
            if self.memories_change() {
                self.replace_memory(node);
            } else {
                self.net.clear_region(node);
            }
        }
        let setup = Setup {
            me: Rank::at(node),
            members,
            founders: self.founders(),
            birth,
            shape: self.plan.shape,
            peer_works: self.plan.weather.provider == Provider::Tcp,
            memory_outlives_process: self.plan.weather.provider == Provider::Shm,
            timing: self.plan.timing(),
            bug: self.subject.bug,
        };
        let start = self.subject.start;
        let machine = self.with_host(node, |host, _| start(&setup, host));
        let role = machine.status().role;
        if birth == Birth::Reattached && role != Role::Learner {
            // This is a contract of its own: no later property need catch the consequences.
            let detail =
                format!("r{node} is a {role:?} right after its restart, without the state");
            self.net.violate(Property::Learner, detail);
        }
        self.machines[node] = Some(machine);
        self.net.arm_run(node, now);
        for peer in (0..members).filter(|peer| *peer != node) {
            let (out, back) = (self.net.link_index(node, peer), self.net.link_index(peer, node));
            match (self.plan.weather.provider, birth) {
                // Each member maps every region before the first line of protocol runs.
                (_, Birth::Fresh) if self.founders().contains(Rank::at(peer)) => {
                    self.net.connect(out);
                }
                // A seat that never had a member has nothing to map.
                (Provider::Shm, _) if self.memories_change() && !self.is_taken(peer) => {}
                (Provider::Shm, Birth::Joined { .. }) if self.memories_change() => {
                    self.net.connect(out);
                }
                (Provider::Shm, _) => {
                    self.net.connect(out);
                    self.net.tell(peer, Event::LinkUp(Rank::at(node)));
                    self.net.kick(back);
                }
                (Provider::Tcp, _) => {
                    let at = now + self.rng.below(10 * MS);
                    self.net.queue.push(at, Happening::Reconnect(out as u32));
                }
            }
        }
    }

    /// Lets `node`'s machine act. (The machine is not in its place meanwhile.)
    pub(crate) fn with_host<T>(
        &mut self,
        node: usize,
        act: impl FnOnce(&mut NodeHost<'_>, base::Instant) -> T,
    ) -> T {
        self.with_inbox(node, |host, clock, _| act(host, clock))
    }

    /// The same, with the events that its loop takes.
    fn with_inbox<T>(
        &mut self,
        node: usize,
        act: impl FnOnce(&mut NodeHost<'_>, base::Instant, &base::Inbox) -> T,
    ) -> T {
        let clock = self.net.processes[node].clock.at(self.net.now());
        let mut host = NodeHost {
            me: Rank::at(node),
            net: &mut self.net,
            shell: &mut self.shells[node],
            disk: self.subject.is_durable.then_some(&mut self.disks[node]),
            ledger: &mut self.ledger,
            scratch: &mut self.scratch,
        };
        let result = act(&mut host, clock, &self.taken_in);
        if self.subject.is_durable {
            self.plan_flushes(node);
            self.ledger.firsts.clear();
        } else {
            self.judge_accepted();
            self.judge_decided(node);
        }
        result
    }

    /// The role that the machine of `node` reports; a dead node has no role.
    pub(crate) fn role(&self, node: usize) -> Option<Role> {
        let machine = self.machines[node].as_ref()?;
        self.net.processes[node].alive.then(|| machine.status().role)
    }

    /// Whether `node` lives and holds the state.
    pub(crate) fn holds_state(&self, node: usize) -> bool {
        self.role(node).is_some_and(|role| role != Role::Learner)
    }

    // ---- the loop of one node ----

    #[inline(never)]
    fn on_run(&mut self, node: usize) {
        if !self.net.processes[node].runs() {
            return;
        }
        self.begin_halfway(node);
        let Some(mut machine) = self.machines[node].take() else { return };
        let n_posted = self.net.n_posted_in_all;
        std::mem::swap(&mut self.net.processes[node].inbox, &mut self.taken_in);
        let n_events = self.taken_in.len() as u64;
        let breaks = self.net.tells_of_breaks(node);
        if self.subject.is_durable {
            self.attend_disk(node, &mut *machine);
        }
        if !self.is_gone(node) {
            let late = self.net.take_late(node);
            self.with_inbox(node, |host, clock, inbox| {
                machine.run(inbox, late.unwrap_or(clock), host);
            });
        }
        self.taken_in.clear();
        if !self.is_gone(node) {
            self.heed(node, &mut *machine);
            self.serve(node, &mut *machine);
            self.heed(node, &mut *machine);
        }
        if self.is_gone(node) {
            self.net.breaks_are_heard(node, breaks);
            return self.die_halfway(node, machine);
        }
        self.outlive_halfway(node);
        let status = machine.status();
        let now = self.net.now();
        self.net.trace.record(now, node, Topic::Run, n_events, status.applied.0);
        let caught_up = machine.n_caught_up();
        if caught_up > self.shells[node].n_caught_up {
            self.shells[node].n_caught_up = caught_up;
            self.net.coverage.hit(Mark::CaughtUpByRead);
        }
        self.mind_transfer(node, status);
        if let Some(detail) = self.core.rest.turn(node, self.core.silence, now) {
            self.net.violate(Property::Liveness, detail);
        }
        if self.shells[node].delivered.applied() != status.applied {
            let (said, true_) = (status.applied, self.shells[node].delivered.applied());
            self.net.violate(Property::Order, format!("r{node} says {said}, delivered {true_}"));
        }
        self.net.processes[node].leads = status.role == Role::Leader;
        self.judge_ballot(node, &status);
        self.judge_open_reads(node, &status);
        self.observe_state_time(node, &*machine);
        if self.subject.is_durable {
            self.look_at_disks(node, &*machine);
            self.look_at_held(node, &*machine);
            self.judge_elected(node, &*machine);
            self.spring_unsynced(node, n_posted);
        } else if self.subject.has_operator {
            self.look_at_members(node, &*machine);
        }
        if status.role == Role::Candidate {
            self.lay_ambush_for_candidate(node);
        }
        let busy = 1 + self.net.rng.below(2 * self.net.processes[node].effort);
        self.net.processes[node].busy_until = now + busy;
        self.net.breaks_are_heard(node, breaks);
        let deadline = self.net.processes[node].clock.when(machine.deadline());
        let next_stamp = self.next_idle_stamp(node, &*machine);
        self.net.arm_run(node, next_stamp.map_or(deadline, |at| at.min(deadline)));
        self.machines[node] = Some(machine);
    }

    /// Performs the requests in the machine's notes.
    #[inline]
    pub(crate) fn heed(&mut self, node: usize, machine: &mut dyn Life) {
        while !self.shells[node].notes.is_empty() {
            self.heed_noted(node, machine);
        }
    }

    fn heed_noted(&mut self, node: usize, machine: &mut dyn Life) {
        std::mem::swap(&mut self.notes, &mut self.shells[node].notes);
        let mut notes = std::mem::take(&mut self.notes);
        for note in notes.drain(..) {
            self.on_note(node, machine, note);
        }
        self.notes = notes;
    }

    fn on_note(&mut self, node: usize, machine: &mut dyn Life, note: Note) {
        let now = self.net.now();
        match note {
            Note::Leading { ballot } => {
                self.net.trace.record(now, node, Topic::Leading, ballot.0, 0);
                self.cover_leading(node, ballot.0);
                self.shells[node].stamper.begin_reign(now);
            }
            Note::Deposed { ballot } => {
                self.net.trace.record(now, node, Topic::Deposed, ballot.0, 0);
                self.shells[node].stamper.end_reign();
                // A proposed and undelivered value: its outcome is unknown here.
                for client in 0..kv::N_CLIENTS {
                    let seat = &mut self.shells[node].waiting[client];
                    if let Some(waiting) = seat.filter(|waiting| waiting.proposed) {
                        *seat = None;
                        self.with_host(node, |host, _| {
                            host.reply(client as u8, waiting.attempt, Reply::Unknown);
                        });
                    }
                }
            }
            Note::ReadReady(ticket) => {
                self.net.trace.record(now, node, Topic::ReadReady, ticket.0, 0);
                let leads = machine.status().role == Role::Leader;
                self.judge_read(node, machine, ticket);
                let prefix = self.shells[node].order.applied().0;
                let place = Some(real_time::place_of_read(prefix));
                for request in self.take_reads(node, ticket) {
                    let answer = self.shells[node].kv.read(request.command.key);
                    let reply = Reply::Done { answer, place };
                    self.net.coverage.hit(if leads {
                        Mark::LeaderRead
                    } else {
                        Mark::FollowerRead
                    });
                    self.with_host(node, |host, _| {
                        host.reply(request.command.client, request.attempt, reply);
                    });
                }
            }
            Note::ReadRefused(ticket) => {
                self.net.trace.record(now, node, Topic::ReadRefused, ticket.0, 0);
                self.net.coverage.hit(Mark::ReadRefused);
                self.forget_read(node, ticket);
                for request in self.take_reads(node, ticket) {
                    self.turn_away(node, machine, request);
                }
            }
            Note::NeedState(prefix) => {
                self.net.trace.record(now, node, Topic::NeedState, prefix.0, 0);
                self.need_state(node, prefix);
            }
        }
    }

    fn cover_leading(&mut self, node: usize, ballot: u64) {
        let waiting = self.clients.iter().any(Client::waits);
        if self.leader.is_some_and(|(leader, _)| leader != node) && waiting {
            self.net.coverage.hit(Mark::LeaderChangedUnderLoad);
        }
        let others = (0..self.plan.members).filter(|other| *other != node);
        if others
            .into_iter()
            .any(|other| self.net.processes[other].leads && self.net.processes[other].alive)
        {
            self.net.coverage.hit(Mark::TwoLeaders);
        }
        self.leader = Some((node, ballot));
        self.spring_succession(node);
    }

    pub(crate) fn in_core(&self, node: usize) -> bool {
        self.core.members.contains(Rank::at(node))
    }

    /// The prefix that `node` has applied.
    pub(crate) fn applied(&self, node: usize) -> Prefix {
        self.shells[node].order.applied()
    }

    pub(crate) fn fault_ends(&mut self, at: u64, fault: Fault) {
        self.net.queue.push(at, Happening::Mend(fault));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_storm_is_many_records_without_a_decision_and_a_busy_run_is_none() {
        let mut progress = Progress::default();
        for n in 0..100 {
            assert!(!progress.is_storm(n, 100 * n, 1000), "a decision now and then");
        }
        assert!(!progress.is_storm(99, 9900 + 1000, 1000));
        assert!(progress.is_storm(99, 9900 + 1001, 1000));
    }
}
