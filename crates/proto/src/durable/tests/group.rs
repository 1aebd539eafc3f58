//! A group of machines whose links and disks the test controls.

use super::*;
use crate::disk::Flush;
use crate::registry::{self, LogSpec};
use crate::stage::disk::TestDisk;
use alloc::collections::BTreeSet;
use alloc::vec::Vec;
use base::verb::Unsupported;
use base::{Inbox, Outcome, Port, Token};

const SHAPE: LogShape = LogShape { ring_slots: 16, value_bytes: 64 };

/// The member that one of `n` trusts where memory outlives its process, when all others have died.
pub(super) fn trusted_by_the_last(n: usize) -> Option<Rank> {
    let n_words = Spec::layout(n, &SHAPE).n_words as usize;
    let mut world = World::new(n, n_words);
    let config = NodeConfig {
        me: Rank::at(0),
        members: n,
        start: Start::Bootstrap,
        timing: crate::node::Timing::default(),
        memory_outlives_process: true,
        peer_works: false,
    };
    let host = &mut View(&mut world, 0);
    let mut node = registry::member::<Spec, _, _>(config, &SHAPE, Sound, host).expect("a new disk");
    for other in Rank::all(n).filter(|other| *other != Rank::at(0)) {
        node.on_event(Event::ProcessFailed(other), Instant(2), host);
    }
    node.poll(Instant(3), host);
    node.trusted()
}

#[derive(Debug, Default)]
struct World {
    memory: Vec<Vec<u64>>,
    inboxes: Vec<Inbox>,
    disks: Vec<TestDisk>,
    delivered: Vec<Vec<Vec<u8>>>,
    notes: Vec<Vec<Note>>,
    /// The members that each has woken.
    wakes: Vec<MemberSet>,
    paused: MemberSet,
    slow: Vec<Option<Slow>>,
    writes_cut: BTreeSet<(usize, usize)>,
    messages_cut: BTreeSet<(usize, usize)>,
}

impl World {
    fn new(n: usize, n_words: usize) -> World {
        World {
            memory: vec![vec![0; n_words]; n],
            inboxes: (0..n).map(|_| Inbox::new()).collect(),
            disks: vec![TestDisk::default(); n],
            delivered: vec![Vec::new(); n],
            notes: vec![Vec::new(); n],
            wakes: vec![MemberSet::EMPTY; n],
            slow: vec![None; n],
            ..World::default()
        }
    }
}

/// The time of a sync after which a disk reports that it stalls.
const STALLED_AFTER: Duration = Duration::from_millis(500);

/// A disk with one sync at a time, which takes long and covers what was requested before it began.
#[derive(Clone, Copy, Debug)]
struct Slow {
    takes: Duration,
    /// The beginning of the sync under way, and the last request that it covers.
    under_way: Option<(Instant, u64)>,
    is_stalled: bool,
}

impl Slow {
    fn news(&mut self, disk: &mut TestDisk, now: Instant) -> Vec<DiskEvent> {
        let mut news = Vec::new();
        if let Some((since, upto)) = self.under_way {
            if now.since(since) >= self.takes {
                self.under_way = None;
                if core::mem::take(&mut self.is_stalled) {
                    news.push(DiskEvent::Flowing);
                }
                while disk.next_sync().is_some_and(|Flush(number)| number <= upto) {
                    news.extend(disk.end_sync().map(DiskEvent::Synced));
                }
            } else if now.since(since) > STALLED_AFTER && !self.is_stalled {
                self.is_stalled = true;
                news.push(DiskEvent::Stalled);
            }
        }
        if self.under_way.is_none() && disk.next_sync().is_some() {
            self.under_way = Some((now, disk.n_flushes));
        }
        news
    }
}

struct View<'w>(&'w mut World, usize);

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
    fn write(&mut self, to: Rank, at: At, words: &[u64], _: Option<Token>) {
        if !self.0.writes_cut.contains(&(self.1, to.index())) {
            let at = at.0 as usize;
            self.0.memory[to.index()][at..at + words.len()].copy_from_slice(words);
        }
    }
    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        if !self.0.writes_cut.contains(&(self.1, to.index())) {
            let words = &self.0.memory[to.index()][at.0 as usize..][..n_words];
            let outcome = Outcome::Read(words);
            self.0.inboxes[self.1].push(Event::Completed { from: to, token, outcome });
        }
    }
    fn cas(&mut self, _: Rank, _: At, _: u64, _: u64, _: Option<Token>) {}
    fn fetch_add(&mut self, _: Rank, _: At, _: u64, _: Option<Token>) {}
    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        if !self.0.messages_cut.contains(&(self.1, to.index())) {
            if self.0.paused.contains(to) && self.0.inboxes[to.index()].iter().count() >= 16 {
                return false; // no room, since no member takes anything out
            }
            let event = Event::Message { from: Rank::at(self.1), bytes: message };
            self.0.inboxes[to.index()].push(event);
        }
        true
    }
    fn wake(&mut self, to: Rank) {
        self.0.wakes[self.1].insert(to);
    }
    fn permit_writer(&mut self, _: At, _: Option<Rank>) -> Result<(), Unsupported> {
        Ok(())
    }
}

impl Host for View<'_> {
    type Disk = TestDisk;

    fn disk(&mut self) -> Option<&mut TestDisk> {
        Some(&mut self.0.disks[self.1])
    }
    fn deliver(&mut self, _: Slot, value: &[u8]) {
        if !value.is_empty() {
            self.0.delivered[self.1].push(value.to_vec());
        }
    }
    fn notify(&mut self, note: Note) {
        self.0.notes[self.1].push(note);
    }
}

pub(super) struct Group<P: Planting<Bug>> {
    world: World,
    members: Vec<Option<Durable<P>>>,
    planted: P,
    now: Instant,
    peer_works: bool,
}

impl<P: Planting<Bug>> Group<P> {
    pub(super) fn new(planted: P, n: usize) -> Group<P> {
        Group::over(planted, n, false)
    }

    /// A group where posting to a peer wakes it.
    pub(super) fn new_over_links_that_wake(planted: P, n: usize) -> Group<P> {
        Group::over(planted, n, true)
    }

    fn over(planted: P, n: usize, peer_works: bool) -> Group<P> {
        let n_words = Places::new(At(0), n, &SHAPE).end().0 as usize;
        let world = World::new(n, n_words);
        let mut group = Group { world, members: Vec::new(), planted, now: Instant(1), peer_works };
        group.members.resize_with(n, || None);
        (0..n).for_each(|member| group.start(member, Start::Bootstrap));
        group
    }

    /// A group with a leader that serves.
    pub(super) fn led(planted: P, n: usize, leader: usize) -> Group<P> {
        let mut group = Group::new(planted, n);
        group.lead(leader);
        group.run(30);
        assert_eq!(group.status(leader).role, Role::Leader);
        group
    }

    fn start(&mut self, member: usize, start: Start) {
        let config = NodeConfig {
            me: Rank::at(member),
            members: self.members.len(),
            start,
            timing: crate::node::Timing::default(),
            memory_outlives_process: false,
            peer_works: self.peer_works,
        };
        let machine =
            Durable::new(&config, At(0), &SHAPE, self.planted, &mut View(&mut self.world, member));
        self.members[member] = Some(machine.expect("the disk fits"));
    }

    fn act<T>(
        &mut self,
        member: usize,
        act: impl FnOnce(&mut Durable<P>, Instant, &mut View<'_>) -> T,
    ) -> T {
        let machine = self.members[member].as_mut().expect("it is alive");
        act(machine, self.now, &mut View(&mut self.world, member))
    }

    /// Lets every member run for so many milliseconds.
    pub(super) fn run(&mut self, n: u64) {
        self.run_in_steps(n, Duration::from_millis(1));
    }

    /// Lets every member run for so many steps of this length. (None sleeps here: see `wakes`.)
    pub(super) fn run_in_steps(&mut self, n: u64, step: Duration) {
        for _ in 0..n {
            self.now = self.now.plus(step);
            for member in 0..self.members.len() {
                if self.members[member].is_none() {
                    self.world.inboxes[member].clear();
                    continue;
                }
                if self.world.paused.contains(Rank::at(member)) {
                    continue;
                }
                let inbox = core::mem::take(&mut self.world.inboxes[member]);
                for event in inbox.iter() {
                    self.act(member, |machine, now, host| machine.on_event(event, now, host));
                }
                for event in self.disk_news(member) {
                    self.disk_event(member, event);
                }
                self.act(member, |machine, now, host| machine.poll(now, host));
            }
        }
    }

    fn disk_news(&mut self, member: usize) -> Vec<DiskEvent> {
        let disk = &mut self.world.disks[member];
        if let Some(slow) = &mut self.world.slow[member] {
            return slow.news(disk, self.now);
        }
        core::iter::from_fn(|| disk.end_sync().map(DiskEvent::Synced)).collect()
    }

    /// Lets each sync of a disk take so long from now on.
    pub(super) fn slow_disk(&mut self, member: usize, takes: Duration) {
        self.world.slow[member] = Some(Slow { takes, under_way: None, is_stalled: false });
    }

    pub(super) fn event(&mut self, member: usize, event: Event<'_>) {
        self.act(member, |machine, now, host| machine.on_event(event, now, host));
    }

    pub(super) fn disk_event(&mut self, member: usize, event: DiskEvent) {
        self.act(member, |machine, now, host| machine.on_disk(event, now, host));
    }

    pub(super) fn lead(&mut self, member: usize) {
        self.act(member, |machine, now, host| machine.lead(now, host));
    }

    pub(super) fn follow(&mut self, member: usize) {
        self.act(member, |machine, now, host| machine.follow(now, host));
    }

    pub(super) fn propose(&mut self, member: usize, value: &[u8]) {
        self.try_propose(member, value).expect("it leads");
    }

    pub(super) fn try_propose(&mut self, member: usize, value: &[u8]) -> Result<Slot, Refused> {
        self.act(member, |machine, now, host| machine.propose(value, now, host))
    }

    pub(super) fn change(&mut self, member: usize, change: Change) -> Result<Slot, ChangeRefused> {
        self.act(member, |machine, now, host| machine.change(change, now, host))
    }

    pub(super) fn request_vote(
        &mut self,
        member: usize,
        candidate: (Rank, Incarnation),
        ballot: Ballot,
        log: (Ballot, Prefix),
    ) {
        self.heal();
        self.act(member, |of, _, host| of.on_request_vote(candidate, ballot, log, host));
    }

    pub(super) fn vote(
        &mut self,
        member: usize,
        from: (Rank, Incarnation),
        ballot: Ballot,
        candidate: Incarnation,
    ) {
        self.act(member, |of, _, host| of.on_vote(from, ballot, candidate, host));
    }

    /// The number of votes for `candidate` that are on their way to its seat.
    pub(super) fn n_votes_sent(&self, to: usize, candidate: Incarnation) -> usize {
        let is_vote = |event: &Event<'_>| match event {
            Event::Message { bytes, .. } => matches!(
                Message::decode(bytes),
                Some(Message::Vote { candidate: of, .. }) if of == candidate
            ),
            _ => false,
        };
        self.world.inboxes[to].iter().filter(is_vote).count()
    }

    pub(super) fn now(&self) -> Instant {
        self.now
    }

    pub(super) fn hasten(&mut self, member: usize, prefix: Prefix) {
        self.act(member, |machine, now, host| machine.hasten(prefix, now, host));
    }

    /// Whether a leader waits for no event in particular.
    pub(super) fn is_settled(&self, member: usize) -> bool {
        self.member(member).released_at().is_none()
    }

    pub(super) fn snapshotted(&mut self, member: usize, prefix: Prefix) {
        self.act(member, |machine, _, host| machine.snapshotted(prefix, host));
    }

    /// Installs a state without its head, as from an older version's snapshot.
    pub(super) fn install(&mut self, member: usize, prefix: Prefix) {
        self.install_with(member, prefix, None);
    }

    pub(super) fn install_with(&mut self, member: usize, prefix: Prefix, head: Option<StateHead>) {
        self.act(member, |machine, now, host| machine.install(prefix, head, now, host));
    }

    /// Returns whether a read at `member` is answered.
    pub(super) fn read(&mut self, member: usize, ticket: u64) -> bool {
        self.begin_read(member, ticket);
        self.run(5);
        self.is_answered(member, ticket)
    }

    pub(super) fn begin_read(&mut self, member: usize, ticket: u64) {
        self.act(member, |machine, now, host| machine.read(Ticket(ticket), now, host));
    }

    pub(super) fn is_answered(&self, member: usize, ticket: u64) -> bool {
        self.world.notes[member].contains(&Note::ReadReady(Ticket(ticket)))
    }

    pub(super) fn is_refused(&self, member: usize, ticket: u64) -> bool {
        self.world.notes[member].contains(&Note::ReadRefused(Ticket(ticket)))
    }

    /// The members that it has woken since the last call.
    pub(super) fn wakes(&mut self, member: usize) -> MemberSet {
        core::mem::take(&mut self.world.wakes[member])
    }

    pub(super) fn hold_disk(&mut self, member: usize) {
        self.world.disks[member].is_held = true;
    }

    /// Makes an entry unreadable.
    pub(super) fn spoil(&mut self, member: usize, slot: Slot) {
        self.world.disks[member].damaged = Some(slot);
    }

    /// Stops the process. Its messages wait, as many as there is room for.
    pub(super) fn pause(&mut self, member: usize) {
        self.world.paused.insert(Rank::at(member));
    }

    pub(super) fn resume(&mut self, member: usize) {
        self.world.paused.remove(Rank::at(member));
    }

    /// The number of streams that a leader's term has opened.
    pub(super) fn n_streams(&self, leader: usize) -> u64 {
        match &self.member(leader).office {
            Office::Leader(term) => term.n_streams,
            Office::None | Office::Candidate(_) => 0,
        }
    }

    pub(super) fn release_disk(&mut self, member: usize) {
        self.world.disks[member].is_held = false;
    }

    pub(super) fn cut_writes(&mut self, from: usize, to: usize) {
        self.world.writes_cut.insert((from, to));
    }

    pub(super) fn cut_messages(&mut self, from: usize, to: usize) {
        self.world.messages_cut.insert((from, to));
    }

    pub(super) fn isolate(&mut self, member: usize) {
        for other in (0..self.members.len()).filter(|other| *other != member) {
            for (from, to) in [(member, other), (other, member)] {
                self.cut_writes(from, to);
                self.cut_messages(from, to);
            }
        }
    }

    pub(super) fn restore_writes(&mut self, from: usize, to: usize) {
        self.world.writes_cut.remove(&(from, to));
    }

    pub(super) fn heal(&mut self) {
        self.world.writes_cut.clear();
        self.world.messages_cut.clear();
    }

    pub(super) fn reconnect(&mut self, a: usize, b: usize) {
        for (at, peer) in [(a, b), (b, a)] {
            let peer = Rank::at(peer);
            self.world.inboxes[at].push(Event::LinkDown(peer));
            self.world.inboxes[at].push(Event::LinkUp(peer));
        }
    }

    /// Ends the process, and loses what was not synced.
    pub(super) fn power_cut(&mut self, member: usize) {
        self.members[member] = None;
        self.world.disks[member].lose_unsynced();
        self.world.memory[member].fill(0);
        self.world.delivered[member].clear();
        self.world.notes[member].clear();
    }

    pub(super) fn recover(&mut self, member: usize) {
        self.start(member, Start::Recovered { applied: Prefix::ZERO, head: None });
    }

    /// What the disk holds that was synced.
    pub(super) fn stable_disk(&self, member: usize) -> TestDisk {
        let mut disk = self.world.disks[member].clone();
        disk.lose_unsynced();
        disk
    }

    /// Starts a disk on the seat that was another one's.
    pub(super) fn recover_from(&mut self, member: usize, disk: TestDisk) {
        self.world.disks[member] = disk;
        self.recover(member);
    }

    /// Starts another disk on the same seat.
    pub(super) fn join(&mut self, member: usize, incarnation: Incarnation) {
        self.world.disks[member] = TestDisk::default();
        self.start(member, Start::Join { incarnation });
    }

    /// The last acknowledgement of `follower` to `leader`.
    pub(super) fn ack(&self, leader: usize, follower: usize) -> Option<Ack> {
        let at = Places::new(At(0), self.members.len(), &SHAPE).ack(Rank::at(follower)).0 as usize;
        let words = self.world.memory[leader][at..at + ACK_WORDS].try_into().expect("as long");
        Ack::decode(&words, false)
    }

    pub(super) fn forge_ack(&mut self, leader: usize, follower: usize, ack: Ack) {
        self.forge(leader, follower, ack.encode());
    }

    pub(super) fn forge(&mut self, leader: usize, follower: usize, words: [u64; ACK_WORDS]) {
        let at = Places::new(At(0), self.members.len(), &SHAPE).ack(Rank::at(follower)).0 as usize;
        self.world.memory[leader][at..at + ACK_WORDS].copy_from_slice(&words);
    }

    pub(super) fn member(&self, member: usize) -> &Durable<P> {
        self.members[member].as_ref().expect("it is alive")
    }

    pub(super) const fn len(&self) -> usize {
        self.members.len()
    }

    pub(super) fn is_up(&self, member: usize) -> bool {
        self.members[member].is_some()
    }

    pub(super) fn status(&self, member: usize) -> Status {
        self.member(member).status()
    }

    /// Whether `member` has asked for a state in its present life.
    pub(super) fn asks_for_state(&self, member: usize) -> bool {
        self.world.notes[member].iter().any(|note| matches!(note, Note::NeedState(_)))
    }

    /// Whether `member` was elected, and still takes itself for the leader.
    pub(super) fn holds_office(&self, member: usize) -> bool {
        matches!(self.member(member).office, Office::Leader(_))
    }

    /// The values delivered in its present life, without no-ops.
    pub(super) fn values(&self, member: usize) -> &[Vec<u8>] {
        &self.world.delivered[member]
    }
}
