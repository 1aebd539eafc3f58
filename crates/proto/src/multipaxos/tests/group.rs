//! Members whose memory outlives them, whose links a test holds, and whose clocks it sets.

use super::super::*;
use crate::node::Timing;
use crate::planted::Planted;
use crate::registry::LogSpec;
use alloc::collections::{BTreeSet, VecDeque};
use alloc::vec;
use base::{Port, Token, verb::Unsupported};

pub(super) const SHAPE: LogShape = LogShape { ring_slots: 16, value_bytes: 64 };

#[derive(Default)]
pub(super) struct World {
    memory: Vec<Vec<u64>>,
    links: Vec<Vec<VecDeque<Vec<u8>>>>,
    /// Links that keep what is sent.
    pub(super) held: BTreeSet<(usize, usize)>,
    pub(super) notes: Vec<Vec<Note>>,
    pub(super) delivered: Vec<Vec<Vec<u8>>>,
}

pub(super) struct View<'w>(&'w mut World, usize);

impl Port for View<'_> {
    fn load(&self, at: At) -> u64 {
        self.0.memory[self.1][at.0 as usize]
    }
    fn load_into(&self, at: At, words: &mut [u64]) {
        let at = at.0 as usize;
        words.copy_from_slice(&self.0.memory[self.1][at..at + words.len()]);
    }
    fn store(&mut self, at: At, word: u64) {
        self.0.memory[self.1][at.0 as usize] = word;
    }
    fn write(&mut self, _: Rank, _: At, _: &[u64], _: Option<Token>) {
        unreachable!("messages alone");
    }
    fn read(&mut self, _: Rank, _: At, _: usize, _: Token) {
        unreachable!("messages alone");
    }
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {
        unreachable!("messages alone");
    }
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {
        unreachable!("messages alone");
    }
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        let link = &mut self.0.links[self.1][to.index()];
        if link.len() >= 64 {
            return false; // no room
        }
        link.push_back(message.to_vec());
        true
    }
    fn wake(&mut self, _: Rank) {}
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}

impl Host for View<'_> {
    type Disk = crate::disk::NoDisk;

    fn deliver(&mut self, _: Slot, value: &[u8]) {
        self.0.delivered[self.1].push(value.to_vec());
    }
    fn notify(&mut self, note: Note) {
        self.0.notes[self.1].push(note);
    }
}

/// A group of members, each with a clock of its own.
pub(super) struct Group {
    pub(super) world: World,
    members: Vec<Option<Box<dyn Member>>>,
    bug: Option<Bug>,
    pub(super) clocks: Vec<Instant>,
}

/// A machine, sound or with a bug.
trait Member {
    fn act(
        &mut self,
        action: Action<'_>,
        now: Instant,
        host: &mut View<'_>,
    ) -> Result<Slot, Refused>;
    fn status(&self) -> Status;
    fn holders(&self, prefix: Prefix) -> MemberSet;
    fn deadline(&self) -> Option<Instant>;
}

pub(super) enum Action<'a> {
    Poll,
    Lead,
    Propose(&'a [u8]),
    Read(Ticket),
    Install(Prefix),
    Event(Event<'a>),
}

impl<P: Planting<Bug>> Member for MultiPaxos<P> {
    fn act(
        &mut self,
        action: Action<'_>,
        now: Instant,
        host: &mut View<'_>,
    ) -> Result<Slot, Refused> {
        match action {
            Action::Poll => self.poll(now, host),
            Action::Lead => self.lead(now, host),
            Action::Propose(value) => return self.propose(value, now, host),
            Action::Read(ticket) => self.read(ticket, now, host),
            Action::Install(applied) => self.install(applied, None, now, host),
            Action::Event(event) => self.on_event(event, now, host),
        }
        Ok(Slot::ZERO)
    }
    fn status(&self) -> Status {
        Replicator::status(self)
    }
    fn holders(&self, prefix: Prefix) -> MemberSet {
        Replicator::holders(self, prefix)
    }
    fn deadline(&self) -> Option<Instant> {
        Replicator::deadline(self)
    }
}

impl Group {
    pub(super) fn new(bug: Option<Bug>, n: usize) -> Group {
        let n_words = Spec::layout(n, &SHAPE).n_words as usize;
        let world = World {
            memory: vec![vec![0; n_words]; n],
            links: (0..n).map(|_| (0..n).map(|_| VecDeque::new()).collect()).collect(),
            notes: vec![Vec::new(); n],
            delivered: vec![Vec::new(); n],
            ..World::default()
        };
        let clocks = vec![Instant(1); n];
        let mut group = Group { world, members: Vec::new(), bug, clocks };
        group.members.resize_with(n, || None);
        (0..n).for_each(|member| group.start(member, Start::Bootstrap));
        group
    }

    /// With a leader that serves.
    pub(super) fn led(bug: Option<Bug>, n: usize, leader: usize) -> Group {
        let mut group = Group::new(bug, n);
        let _slot = group.act(leader, Action::Lead);
        group.run(5);
        assert_eq!(group.status(leader).role, Role::Leader);
        group
    }

    pub(super) fn start(&mut self, me: usize, start: Start) {
        let config = NodeConfig {
            me: Rank::at(me),
            members: self.members.len(),
            start,
            timing: Timing::default(),
            memory_outlives_process: false,
            peer_works: false,
        };
        let view = &mut View(&mut self.world, me);
        let base = At(crate::omega::N_WORDS);
        self.members[me] = Some(match self.bug {
            None => Box::new(MultiPaxos::new(&config, base, &SHAPE, Sound, view)),
            Some(bug) => Box::new(MultiPaxos::new(&config, base, &SHAPE, Planted(bug), view)),
        });
    }

    /// The process dies; its memory stays. What it has sent is on its way.
    pub(super) fn kill(&mut self, member: usize) {
        self.members[member] = None;
    }

    pub(super) fn act(&mut self, member: usize, action: Action<'_>) -> Result<Slot, Refused> {
        let machine = self.members[member].as_mut().expect("it lives");
        machine.act(action, self.clocks[member], &mut View(&mut self.world, member))
    }

    /// Lets every member run for so many milliseconds, each taking what has arrived.
    pub(super) fn run(&mut self, n: u64) {
        for _ in 0..n {
            for member in 0..self.members.len() {
                self.clocks[member] = self.clocks[member].plus(Duration::from_millis(1));
                self.turn(member);
            }
        }
    }

    /// One turn of `member`, at the time that its clock shows.
    pub(super) fn turn(&mut self, member: usize) {
        for from in 0..self.members.len() {
            if !self.world.held.contains(&(from, member)) {
                let n = self.world.links[from][member].len();
                self.take(from, member, n);
            }
        }
        if self.members[member].is_some() {
            let _slot = self.act(member, Action::Poll);
        }
    }

    /// `to` takes the first `n` messages of `from`.
    pub(super) fn take(&mut self, from: usize, to: usize, n: usize) {
        for _ in 0..n {
            let Some(bytes) = self.world.links[from][to].pop_front() else { return };
            if self.members[to].is_some() {
                let event = Event::Message { from: Rank::at(from), bytes: &bytes };
                let _slot = self.act(to, Action::Event(event));
            }
        }
    }

    /// How many messages are on their way.
    pub(super) fn under_way(&self, from: usize, to: usize) -> usize {
        self.world.links[from][to].len()
    }

    /// The link breaks: what is on its way is lost.
    pub(super) fn lose(&mut self, from: usize, to: usize) {
        self.world.links[from][to].clear();
    }

    pub(super) fn hold(&mut self, links: &[(usize, usize)]) {
        self.world.held.extend(links);
    }

    pub(super) fn release_all(&mut self) {
        self.world.held.clear();
    }

    pub(super) fn status(&self, member: usize) -> Status {
        self.members[member].as_ref().expect("it lives").status()
    }

    /// The time until which `member` sleeps if nothing happens.
    pub(super) fn deadline(&self, member: usize) -> Option<Instant> {
        self.members[member].as_ref().expect("it lives").deadline()
    }

    /// The members that hold `prefix`, as `member` knows.
    pub(super) fn holders(&self, member: usize, prefix: Prefix) -> MemberSet {
        self.members[member].as_ref().expect("it lives").holders(prefix)
    }

    pub(super) fn propose(&mut self, member: usize, value: &[u8]) -> Slot {
        self.act(member, Action::Propose(value)).expect("it leads, and there is room")
    }

    pub(super) fn read(&mut self, member: usize, ticket: u64) {
        let _slot = self.act(member, Action::Read(Ticket(ticket)));
    }

    pub(super) fn has_answered(&self, member: usize, ticket: u64) -> bool {
        self.world.notes[member].contains(&Note::ReadReady(Ticket(ticket)))
    }
}

impl Group {
    /// The link breaks and is there again: the first message on its way is lost, and what was sent
    /// afterwards arrives.
    pub(super) fn lose_first(&mut self, from: usize, to: usize) {
        self.world.links[from][to].pop_front();
    }
}
