//! A small cluster of a replicated log, whole: every order in which the verbs of its members take
//! effect and their completions arrive.
//!
//! The machines are those that ship, as the registry starts them, over plain memory. Each verb to
//! another member takes effect at one instant, at any time after its posting and in posting order
//! on its link (T2); its completion arrives at any later time, in order too (T4).
//!
//! - G1 *Agreement*: no two members deliver different values for one slot.
//! - G2 *Validity*: a delivered value is a no-op, or was proposed for its slot.
//! - G3 *Integrity*: a member delivers each slot once a life, in order.
//! - G4 *A lone member decides*: from every reachable state, if the others stop for ever, with
//!   their posts never taking effect, a member that is trusted and reaches any majority's memory
//!   decides a value of its own, within [`N_LONE_TURNS`] turns.
//! - G5 *Reads*: a read that a member may answer sees all that was answered before it began: every
//!   value that its proposer has delivered, and the state of every earlier answer.
//! - The machines' own assertions, which name their invariants.
//!
//! A crash needs no step of its own: to crash is never to act again, every prefix of a run is
//! walked, and G4 lets each survivor continue from every state. Verbs that a dead member had posted
//! still take effect in the runs in which they do. To come back without the state is a step.
//!
//! **Bounds** ([`Bounds`]): three members, and how many terms, values, reads, returns and broken
//! links there are. **Left out**: time stands still, so nothing is repeated and no patience ends,
//! except in the runs of G4; Ω, whose verdicts are steps; a member's verbs to its own memory take
//! effect when they are posted, as on shared memory, and complete in the same turn; a state comes
//! from another member in one step; members do not change.

mod fabric;
mod judge;
mod part;

use crate::World;
use crate::mix::Mix;
use base::{Event, Instant, Prefix, Rank};
use core::time::Duration;
use fabric::{Done, Found, Hands, Link, Memory, Report, Verb};
use judge::Ledger;
use part::Part;
use proto::node::{NodeConfig, Start, Timing};
use proto::registry::LogSpec;
use proto::{LogShape, Replicator, Role, Ticket};
use std::collections::VecDeque;
use std::fmt;
use std::hash::{Hash, Hasher};
use std::rc::Rc;

/// The number of members.
pub const MEMBERS: usize = 3;

/// The number of turns that a lone member may need; each ends a pause of 20 ms.
pub const N_LONE_TURNS: usize = 64;

const SHAPE: LogShape = LogShape { ring_slots: 8, value_bytes: 8 };
const PAUSE: Duration = Duration::from_millis(20);
/// The time at which the walk stands.
const START: Instant = Instant(1);

/// The bounds of a world: how often each member may take a step of its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Hash)]
pub struct Bounds {
    /// The number of values that member 0 has decided, and all have applied, before the walk. It
    /// leads then, unless the number is zero.
    pub prelude: u64,
    /// Terms that begin.
    pub terms: [u8; MEMBERS],
    /// Values that are proposed.
    pub values: [u8; MEMBERS],
    /// Reads that begin.
    pub reads: [u8; MEMBERS],
    /// Processes that die and come back with their region and without the state.
    pub returns: [u8; MEMBERS],
    /// Links of the member that break and are back at once.
    pub breaks: [u8; MEMBERS],
    /// The ways on which verbs and completions are late: by any time, each by its own. On the
    /// others everything takes effect and completes at once.
    pub late: &'static [(usize, usize)],
    /// Members that look at their memory at any time; the others do whenever it has changed.
    pub lazy: &'static [usize],
}

/// The next event.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Step {
    /// A member is trusted, and begins a term.
    Lead(usize),
    /// The leader proposes.
    Propose(usize),
    /// A client asks for a linearizable read.
    Read(usize),
    /// A member looks at its memory.
    Poll(usize),
    /// The oldest verb from one member to another takes effect.
    Perform(usize, usize),
    /// The oldest completion from the second member reaches the first.
    Complete(usize, usize),
    /// A member's process dies, and the next one begins.
    Return(usize),
    /// A member installs the state of another.
    Install(usize, usize),
    /// The link from one member to another breaks; it is back at once.
    Break(usize, usize),
}

/// The machine of a protocol, with a planted mistake or none.
pub type MachineOf<S> = <S as LogSpec>::Machine<Option<<S as LogSpec>::Bug>>;

/// One member.
#[derive(Clone, Debug, Hash)]
struct Member<M> {
    machine: M,
    /// The number of slots that this life has delivered or installed.
    applied: u64,
    /// Reads that are not answered yet, with the prefix that each must see.
    reads: Vec<(Ticket, u64)>,
    n_tickets: u64,
    /// The prefix that it asked a state for.
    wants: Option<Prefix>,
}

/// The whole state.
pub struct Cluster<S: LogSpec> {
    members: Vec<Part<Member<MachineOf<S>>>>,
    memories: Vec<Rc<Memory>>,
    /// The hash of each memory when its owner looked at it last.
    looked: [u64; MEMBERS],
    links: Vec<Part<Link>>,
    ledger: Part<Ledger>,
    left: Bounds,
    planted: Option<S::Bug>,
    now: Instant,
    is_live: bool,
}

impl<S: LogSpec> fmt::Debug for Cluster<S> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Cluster").field("left", &self.left).finish_non_exhaustive()
    }
}

impl<S: LogSpec> Clone for Cluster<S> {
    fn clone(&self) -> Cluster<S> {
        Cluster {
            members: self.members.clone(),
            memories: self.memories.clone(),
            looked: self.looked,
            links: self.links.clone(),
            ledger: self.ledger.clone(),
            left: self.left,
            planted: self.planted,
            now: self.now,
            is_live: self.is_live,
        }
    }
}

fn config(me: usize, start: Start) -> NodeConfig {
    NodeConfig {
        me: Rank::at(me),
        members: MEMBERS,
        start,
        timing: Timing::default(),
        memory_outlives_process: true,
        peer_works: false,
    }
}

const fn peers(me: usize) -> [usize; MEMBERS - 1] {
    [(me + 1) % MEMBERS, (me + 2) % MEMBERS]
}

/// The ways from a member to another.
fn ways() -> impl Iterator<Item = (usize, usize)> {
    (0..MEMBERS).flat_map(|from| peers(from).map(|to| (from, to)))
}

impl<S: LogSpec> Cluster<S>
where
    MachineOf<S>: Clone + Hash,
{
    /// The world before any step, with a planted mistake or none.
    ///
    /// # Panics
    /// If the members do not come to rest by themselves before the walk: our own bug.
    pub fn new(bounds: &Bounds, planted: Option<S::Bug>) -> Cluster<S> {
        let n_words = S::layout(MEMBERS, &SHAPE).n_words as usize;
        let mut memories = vec![Memory::new(n_words); MEMBERS];
        let start = |me: usize, memory: &mut Memory| {
            let machine = start::<S>(me, Start::Bootstrap, planted, memory);
            Part::new(Member::new(machine, 0))
        };
        let members = (0..).zip(&mut memories).map(|(me, memory)| start(me, memory)).collect();
        let mut world = Cluster {
            members,
            memories: memories.into_iter().map(Rc::new).collect(),
            looked: [0; MEMBERS],
            links: vec![Part::new(Link::default()); MEMBERS * MEMBERS],
            ledger: Part::new(Ledger::default()),
            left: *bounds,
            planted,
            now: START,
            is_live: false,
        };
        world.begin(bounds.prelude).expect("nothing goes wrong while no step is late");
        world
    }

    /// The same, judged in each state by G4 too: by far the most expensive part.
    #[must_use]
    pub const fn with_liveness(mut self) -> Cluster<S> {
        self.is_live = true;
        self
    }

    fn begin(&mut self, prelude: u64) -> Result<(), String> {
        for me in 0..MEMBERS {
            self.raise_links(me)?;
        }
        self.settle(|_, _| false, |_| false)?;
        if prelude > 0 {
            self.lead(0)?;
            self.settle(|_, _| false, |_| false)?;
        }
        for _ in 0..prelude {
            self.propose(0)?;
            self.settle(|_, _| false, |_| false)?;
        }
        Ok(())
    }

    fn raise_links(&mut self, me: usize) -> Result<(), String> {
        for peer in Rank::all(MEMBERS) {
            self.event(me, Event::LinkUp(peer))?;
        }
        Ok(())
    }

    /// Takes what can be taken until nothing is under way.
    fn settle(
        &mut self,
        is_late: impl Fn(usize, usize) -> bool,
        is_lazy: impl Fn(usize) -> bool,
    ) -> Result<(), String> {
        loop {
            let mut has_moved = false;
            for (from, to) in ways().filter(|(from, to)| !is_late(*from, *to)) {
                while !self.link(from, to).posted.is_empty() {
                    self.perform(from, to)?;
                    has_moved = true;
                }
                while !self.link(from, to).done.is_empty() {
                    self.complete(from, to)?;
                    has_moved = true;
                }
            }
            for me in (0..MEMBERS).filter(|me| !is_lazy(*me)) {
                if self.looked[me] != self.memories[me].print() {
                    self.turn(me, |_, _, _| {})?;
                    has_moved = true;
                }
            }
            if !has_moved {
                return Ok(());
            }
        }
    }

    fn link(&self, from: usize, to: usize) -> &Link {
        &self.links[from * MEMBERS + to].of
    }

    fn link_mut(&mut self, from: usize, to: usize) -> &mut Link {
        self.links[from * MEMBERS + to].change()
    }

    fn machine(&self, me: usize) -> &MachineOf<S> {
        &self.members[me].of.machine
    }

    /// One turn of a member: `act`, the completions from its own memory, and a poll.
    fn turn(
        &mut self,
        me: usize,
        act: impl FnOnce(&mut MachineOf<S>, Instant, &mut Hands<'_>),
    ) -> Result<(), String> {
        let reports = self.act(me, act);
        self.judge(me, reports)
    }

    fn act(
        &mut self,
        me: usize,
        act: impl FnOnce(&mut MachineOf<S>, Instant, &mut Hands<'_>),
    ) -> Vec<Report> {
        let (now, rank) = (self.now, Rank::at(me));
        let memory = Rc::make_mut(&mut self.memories[me]);
        let mut hands = Hands {
            me: rank,
            memory,
            posted: Vec::new(),
            own: VecDeque::new(),
            reports: Vec::new(),
        };
        let machine = &mut self.members[me].change().machine;
        act(machine, now, &mut hands);
        loop {
            while let Some(done) = hands.own.pop_front() {
                machine.on_event(done.event(rank), now, &mut hands);
            }
            machine.poll(now, &mut hands);
            if hands.own.is_empty() {
                break;
            }
        }
        let Hands { posted, reports, .. } = hands;
        self.looked[me] = self.memories[me].print();
        for (to, verb) in posted {
            self.link_mut(me, to.index()).posted.push_back(verb);
        }
        reports
    }

    fn event(&mut self, me: usize, event: Event<'_>) -> Result<(), String> {
        self.turn(me, |machine, now, hands| machine.on_event(event, now, hands))
    }

    fn lead(&mut self, me: usize) -> Result<(), String> {
        self.turn(me, |machine, now, hands| machine.lead(now, hands))
    }

    fn propose(&mut self, me: usize) -> Result<(), String> {
        let n_before = self.ledger.of.proposed.iter().filter(|one| one.1 == me).count();
        let value = (1 + me + MEMBERS * n_before) as u8;
        let mut slot = None;
        let reports = self.act(me, |machine, now, hands| {
            slot = machine.propose(&[value], now, hands).ok();
        });
        if let Some(slot) = slot {
            self.ledger.change().proposed.push((value, me, slot.0));
        }
        self.judge(me, reports)
    }

    fn read(&mut self, me: usize) -> Result<(), String> {
        let seen = self.ledger.of.seen;
        let member = self.members[me].change();
        let ticket = Ticket(member.n_tickets);
        member.n_tickets += 1;
        member.reads.push((ticket, seen));
        self.turn(me, |machine, now, hands| machine.read(ticket, now, hands))
    }

    /// The oldest verb from one member to another takes effect.
    fn perform(&mut self, from: usize, to: usize) -> Result<(), String> {
        let Some(verb) = self.link_mut(from, to).posted.pop_front() else {
            return Ok(());
        };
        if let Verb::Message(bytes) = verb {
            return self.event(to, Event::Message { from: Rank::at(from), bytes: &bytes });
        }
        if let Some(done) = Rc::make_mut(&mut self.memories[to]).perform(&verb) {
            self.link_mut(from, to).done.push_back(done);
        }
        Ok(())
    }

    /// The oldest completion from `to` reaches `from`.
    fn complete(&mut self, from: usize, to: usize) -> Result<(), String> {
        match self.link_mut(from, to).done.pop_front() {
            Some(done) => self.event(from, done.event(Rank::at(to))),
            None => Ok(()),
        }
    }

    /// The process of a member dies with what it posted and what took no effect yet; the next one
    /// has its region, and not its state.
    fn come_back(&mut self, me: usize) -> Result<(), String> {
        for to in peers(me) {
            *self.link_mut(me, to) = Link::default();
        }
        let memory = Rc::make_mut(&mut self.memories[me]);
        let machine = start::<S>(me, Start::Reattach, self.planted, memory);
        let n_tickets = self.members[me].of.n_tickets;
        self.members[me] = Part::new(Member::new(machine, n_tickets));
        self.raise_links(me)
    }

    fn can_give(&self, from: usize, to: usize) -> bool {
        let applied = Prefix(self.members[from].of.applied);
        let is_wanted = self.members[to].of.wants.is_some_and(|wanted| wanted <= applied);
        let serves = self.machine(from).status().role != Role::Learner;
        is_wanted && serves && self.machine(to).status().applied <= applied
    }

    fn install(&mut self, me: usize, from: usize) -> Result<(), String> {
        let applied = Prefix(self.members[from].of.applied);
        let head = self.machine(from).state_head(applied);
        let member = self.members[me].change();
        (member.applied, member.wants) = (applied.0, None);
        self.turn(me, |machine, now, hands| machine.install(applied, head, now, hands))
    }

    /// Nothing on the link takes effect any longer, and no completion says which did.
    fn break_link(&mut self, from: usize, to: usize) -> Result<(), String> {
        let Link { posted, done } = std::mem::take(self.link_mut(from, to));
        let performed = done.iter().map(|done| done.token);
        let lost: Vec<_> = performed.chain(posted.iter().filter_map(Verb::token)).collect();
        let peer = Rank::at(to);
        self.turn(from, |machine, now, hands| {
            for token in lost {
                let unknown = Done { token, result: Found::Unknown };
                machine.on_event(unknown.event(peer), now, hands);
            }
            machine.on_event(Event::LinkDown(peer), now, hands);
            machine.on_event(Event::LinkUp(peer), now, hands);
        })
    }
}

fn start<S: LogSpec>(
    me: usize,
    start: Start,
    planted: Option<S::Bug>,
    memory: &mut Memory,
) -> MachineOf<S> {
    let (me_at, posted, own) = (Rank::at(me), Vec::new(), VecDeque::new());
    let mut hands = Hands { me: me_at, memory, posted, own, reports: Vec::new() };
    let machine = S::start(&config(me, start), &SHAPE, planted, &mut hands);
    assert!(hands.posted.is_empty() && hands.own.is_empty(), "nothing is posted yet");
    machine.expect("this host has all that a protocol in memory needs")
}

impl<M> Member<M> {
    const fn new(machine: M, n_tickets: u64) -> Member<M> {
        Member { machine, applied: 0, reads: Vec::new(), n_tickets, wants: None }
    }
}

impl<S: LogSpec> World for Cluster<S>
where
    MachineOf<S>: Clone + Hash,
{
    type Step = Step;

    fn steps(&self, out: &mut Vec<Step>) {
        for me in 0..MEMBERS {
            let role = self.machine(me).status().role;
            if role == Role::Follower && self.left.terms[me] > 0 {
                out.push(Step::Lead(me));
            }
            if role == Role::Leader && self.left.values[me] > 0 {
                out.push(Step::Propose(me));
            }
            if role != Role::Learner && self.left.reads[me] > 0 {
                out.push(Step::Read(me));
            }
            if self.left.returns[me] > 0 {
                out.push(Step::Return(me));
            }
            if self.looked[me] != self.memories[me].print() {
                out.push(Step::Poll(me));
            }
            for peer in peers(me) {
                if self.left.breaks[me] > 0 {
                    out.push(Step::Break(me, peer));
                }
                if self.can_give(peer, me) {
                    out.push(Step::Install(me, peer));
                }
                let Link { posted, done } = self.link(me, peer);
                if !posted.is_empty() {
                    out.push(Step::Perform(me, peer));
                }
                if !done.is_empty() {
                    out.push(Step::Complete(me, peer));
                }
            }
        }
    }

    fn take(&mut self, step: Step) -> Result<(), String> {
        match step {
            Step::Lead(me) => {
                self.left.terms[me] -= 1;
                self.lead(me)
            }
            Step::Propose(me) => {
                self.left.values[me] -= 1;
                self.propose(me)
            }
            Step::Read(me) => {
                self.left.reads[me] -= 1;
                self.read(me)
            }
            Step::Poll(me) => self.turn(me, |_, _, _| {}),
            Step::Perform(from, to) => self.perform(from, to),
            Step::Complete(from, to) => self.complete(from, to),
            Step::Return(me) => {
                self.left.returns[me] -= 1;
                self.come_back(me)
            }
            Step::Install(me, from) => self.install(me, from),
            Step::Break(from, to) => {
                self.left.breaks[from] -= 1;
                self.break_link(from, to)
            }
        }?;
        let Bounds { late, lazy, .. } = self.left;
        self.settle(|from, to| late.contains(&(from, to)), |me| lazy.contains(&me))
    }

    fn fingerprint(&mut self) -> u64 {
        let mut mix = Mix::new();
        self.members.iter_mut().for_each(|member| mix.write_u64(member.print()));
        self.memories.iter().for_each(|memory| mix.write_u64(memory.print()));
        self.links.iter_mut().for_each(|link| mix.write_u64(link.print()));
        mix.write_u64(self.ledger.print());
        self.left.hash(&mut mix);
        mix.finish()
    }

    fn check(&self) -> Result<(), String> {
        if !self.is_live {
            return Ok(());
        }
        let can_lead = |me: &usize| self.machine(*me).status().role != Role::Learner;
        for me in (0..MEMBERS).filter(can_lead) {
            // Every majority: all memories, or all but one.
            self.lone(me, |_| true)?;
            for silent in peers(me) {
                self.lone(me, |to| to != silent)?;
            }
        }
        Ok(())
    }
}
