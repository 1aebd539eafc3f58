//! The key-value door of a keyspace in partitions: Redis clients on one side, atomic multicast on
//! the other.
//!
//! [`crate::partition`] decides which partitions a command concerns, when it is sent and how it is
//! executed; the multicast orders messages. This module connects the two, and serves clients as
//! the ordinary door does. It has no socket and no clock: the process around it is [`Clocked`].
//!
//! - I1 every command that changes or reads the state is multicast, except reads that ask for a
//!   snapshot and see no expiry that is due (`partition`'s R3): no answer comes from a replica's
//!   momentary state. By construction: only deliveries reach the state, and snapshots between them
//!   at the place of a timestamp.
//! - I2 each request is taken from the desk within a patience, or refused, and ends within as long
//!   again with its answer or with what is known of it. By [`Desk::expire`] and `Sender::expire`.
//! - I3 back-pressure reaches the client: messages that the multicast refuses stay with the sender
//!   until it is full; then requests stay on the desk, and then no input is read from clients.

use super::clients::RespClients;
use super::figures::{Held, PartitionFigures};
use super::outside::{self, Figures, Outside};
use super::snapshots::Snapshots;
use super::state::{Holding, of_each};
use super::ticks::Ticks;
use crate::entry::{self, Sequence};
use crate::partition::{
    self, Executor, Fate, NOT_BY_PIECES, Name, Order, PUT_OFF, Partitions, Place, SNAPSHOT_REQUEST,
    Sender,
};
use crate::{backup, text};
use base::{Evidence, Instant, Prefix, Rank, Slot, StateClock};
use core::time::Duration;
use engine::multicast::{
    Application, Cut, Delivery, Desk as Cast, GroupId, GroupSet, MemberView, MessageId, Options,
    Outcome, PAYLOAD_BYTES_MAX, Refused, Snapshot,
};
use engine::streams::{Pipes, Ready, Streams};
use engine::{Answer, Asker, Desk, Laid, Overdue, ReadAnswer, View};
use proto::Role;
use std::sync::Arc;

const _: () = assert!(partition::PAYLOAD_BYTES_MAX <= PAYLOAD_BYTES_MAX);

/// The interval at which figures are published.
const PUBLISH_EVERY: Duration = Duration::from_millis(250);

const NO_BACKUPS: &[u8] =
    b"-ERR backups of a keyspace in partitions are not built yet; copy keys with SCAN\r\n";

const MISSED: &[u8] =
    b"-TRYAGAIN this replica was given a newer state while it waited for the snapshot\r\n";

/// The process around a door of partitions, with its clocks.
pub trait Clocked: Outside {
    /// Milliseconds since 1970 by the wall clock, which may be set.
    fn wall_ms(&self) -> u64;

    /// The time since the machine was started, with the time during which it was suspended.
    fn boot_now(&self) -> Instant;

    /// A line for the operator.
    fn say(&mut self, line: &str);
}

/// The parameters of a process.
#[derive(Clone, Debug)]
pub struct PartitionConfig {
    /// The process.
    pub origin: entry::Origin,
    /// The members of each partition, from 1, in the order of their ranks there.
    pub seats: Vec<Vec<usize>>,
    /// The number of processes.
    pub members: usize,
    /// The order of commands of several partitions.
    pub order: Order,
    /// The limit of memory of all partitions; 0 for none.
    pub memory_bytes_max: u64,
    /// The patience of I2.
    pub patience: Duration,
}

/// The members of each partition's group. The first one leads it first, so the leads are spread.
pub fn seats(n_partitions: usize, n_members: usize) -> Vec<Vec<usize>> {
    let of = |partition| (0..n_members).map(move |at| (partition + at) % n_members + 1);
    (0..n_partitions).map(|partition| of(partition).collect()).collect()
}

/// The client that waits for a command.
#[derive(Clone, Copy, Debug)]
struct Waiting {
    asker: Asker,
    is_read: bool,
}

/// The door of a process; see the module's text.
pub struct PartitionDoor<O, S> {
    /// All connections.
    pub clients: RespClients<O>,
    /// The streams of the connections' bytes.
    pub streams: S,
    executor: Executor,
    sender: Sender<Waiting>,
    ticks: Ticks,
    snapshots: Snapshots,
    desk: Desk,
    me: Rank,
    n_members: usize,
    /// The members of each partition in the order of their ranks there.
    seats: Vec<Vec<usize>>,
    held: Held,
    /// State time: the largest stamp that a partition executed here.
    state_clock: StateClock,
    /// Whether its replicas can come back, from its disk or from another process.
    keeps_states: bool,
    /// A buffer for the bytes of a read.
    read: Vec<u8>,
    /// The reason why nothing is sent, if that lasts.
    refused: Option<Refused>,
    patience: Duration,
    /// Whether it was ever able to answer clients.
    has_served: bool,
    /// The status as of the last time that figures were published, until it is taken.
    news: Option<View>,
    publish_at: Instant,
}

impl<O: Clocked, S: Streams> PartitionDoor<O, S> {
    /// A door without a client.
    pub fn new(
        config: PartitionConfig,
        of_clients: outside::Config,
        outside: O,
        streams: S,
    ) -> PartitionDoor<O, S> {
        let PartitionConfig { origin, seats, members, order, memory_bytes_max, patience } = config;
        let executor = Executor::new(origin, seats.len(), order, memory_bytes_max);
        PartitionDoor {
            clients: RespClients::new(of_clients, outside),
            streams,
            sender: Sender::new(origin, executor.map()),
            executor,
            ticks: Ticks::default(),
            snapshots: Snapshots::default(),
            desk: Desk::new(View::new(origin.rank, members), patience),
            me: origin.rank,
            n_members: members,
            seats,
            held: Held { order: order.name(), ..Held::default() },
            state_clock: StateClock::default(),
            // With `reply` the answers that may be released depend on what this process itself has
            // executed.
            keeps_states: order != Order::Reply,
            read: Vec::new(),
            refused: None,
            patience,
            has_served: false,
            news: None,
            publish_at: Instant::ZERO,
        }
    }

    /// The replicas of this process.
    pub fn executor(&self) -> &Executor {
        &self.executor
    }

    /// Whether it was ever able to answer clients.
    pub fn has_served(&self) -> bool {
        self.has_served
    }

    /// The partitions, as of the last time that figures were published.
    pub fn partitions(&self) -> &[PartitionFigures] {
        &self.held.partitions
    }

    /// The status of this process, if figures were published since the last call.
    pub fn take_news(&mut self) -> Option<View> {
        self.news.take()
    }

    /// The figures, as of the last time that they were published.
    pub fn figures(&self) -> Figures {
        let (wall_ms, boot_now) = clocks(&self.clients.outside);
        let ahead_ms = self.state_clock.ahead_ms(wall_ms, boot_now);
        Figures {
            keys: self.held.sum.keys,
            memory_bytes: self.held.sum.memory_bytes,
            state_time_ahead_ms: ahead_ms,
            ..self.clients.figures()
        }
    }

    /// Accepts clients that wait.
    pub fn accept(&mut self, cast: &Cast) {
        self.clients.accept(&mut self.streams, cast.now());
    }

    /// A client's stream is ready.
    pub fn on_ready(&mut self, ready: Ready, cast: &Cast) {
        let view = *self.desk.view();
        self.desk.turn(cast.now(), view);
        self.clients.on_ready(ready, &mut self.streams, &self.held, &mut self.desk);
    }

    /// Moves requests from the desk to the sender, as long as it has room (I3).
    fn take(&mut self, cast: &mut Cast) -> bool {
        let PartitionDoor { desk, sender, clients, read, n_members, executor, snapshots, .. } =
            self;
        let state_clock = &mut self.state_clock;
        let deadline = desk.now().plus(self.patience);
        let mut worked = false;
        desk.take(|laid| {
            let (asker, is_read) = match laid {
                Laid::Write(asker, command) => {
                    read.clear();
                    read.extend_from_slice(command);
                    (asker, false)
                }
                Laid::Read(asker) => {
                    read.clear();
                    clients.describe_read(asker, read);
                    (asker, true)
                }
                Laid::Wait(asker) => {
                    // An answered command was delivered, so a majority holds it.
                    clients.answer_wait(asker, base::majority(*n_members) - 1);
                    worked = true;
                    return true;
                }
            };
            if !sender.has_room() {
                return false;
            }
            worked = true;
            match read.first() {
                None => {} // its client is gone
                Some(&backup::REQUEST) if is_read => {
                    clients.answer_read(asker, ReadAnswer::Forwarded(NO_BACKUPS));
                }
                Some(&SNAPSHOT_REQUEST) if is_read => {
                    let Some(all) = executor.snapshot_of(&read[1..]) else {
                        let refusal = format!("-{NOT_BY_PIECES}\r\n");
                        clients.answer_read(asker, ReadAnswer::Forwarded(refusal.as_bytes()));
                        return true;
                    };
                    let (wall_ms, boot_now) = clocks(&clients.outside);
                    let now_ms = state_clock.now_ms(wall_ms, executor.state_ms(), boot_now);
                    if executor.sees_an_expiry(&read[1..], now_ms) {
                        // I1: a message with this read decides the time.
                        let waiting = Waiting { asker, is_read };
                        let read = &read[1..];
                        let sequence = sender.submit(asker.connection, waiting, read, deadline);
                        executor.may_put_off(sequence);
                        return true;
                    }
                    match cast.snapshot(GroupSet::from_bits(all.bits())) {
                        Ok(Snapshot(number)) => {
                            let sequence = Snapshots::sequence(number);
                            let payload = executor.snapshot_payload(sequence, &read[1..], now_ms);
                            snapshots.wait(number, asker, deadline, (all, payload));
                        }
                        // S2: the refusal comes at once, so that no request waits behind it.
                        Err(_) => clients.answer_read(asker, ReadAnswer::Unavailable),
                    }
                }
                Some(_) => {
                    let waiting = Waiting { asker, is_read };
                    let sequence = sender.submit(asker.connection, waiting, read, deadline);
                    if is_read {
                        executor.may_put_off(sequence);
                    }
                }
            }
            true
        });
        worked
    }

    /// Ends requests whose time is over (I2).
    fn expire(&mut self) {
        while let Some(number) = self.snapshots.late(self.desk.now()) {
            self.give_snapshot_up(number, ReadAnswer::Unavailable);
        }
        let PartitionDoor { desk, sender, clients, refused, .. } = self;
        let refusal = match refused {
            Some(why) => format!("-TRYAGAIN {why}\r\n"),
            None => format!("-{}\r\n", text::NOT_LEADER),
        };
        let not_sent = ReadAnswer::Forwarded(refusal.as_bytes());
        sender.expire(desk.now(), |Waiting { asker, is_read }, fate| match (fate, is_read) {
            (_, true) => clients.answer_read(asker, ReadAnswer::Unavailable),
            (Fate::Unknown, false) => clients.answer(asker, Answer::Unknown),
            (Fate::NotSent, false) => clients.answer_read(asker, not_sent),
        });
        // Requests for which the sender has no room stay on the desk.
        desk.expire(|overdue| match overdue {
            Overdue::Read(asker) => clients.answer_read(asker, ReadAnswer::Unavailable),
            Overdue::Write(asker) => clients.answer_read(asker, not_sent),
        });
    }

    /// Reads what clients have sent.
    fn hear(&mut self, cast: &Cast) -> bool {
        let view = *self.desk.view();
        self.desk.turn(cast.now(), view);
        self.clients.resume(&self.held, &mut self.desk)
    }

    /// Sends clients what there is for them, and publishes this member's figures.
    fn tell(&mut self, cast: &mut Cast) {
        if cast.now() >= self.publish_at {
            self.publish_at = cast.now().plus(PUBLISH_EVERY);
            self.publish(cast);
        }
        self.clients.flush(&mut self.streams, &mut self.desk);
    }

    /// Ends snapshot `number` without a result: its asker is told, and its pieces are withdrawn.
    fn give_snapshot_up(&mut self, number: u64, answer: ReadAnswer<'_>) {
        let Some(asker) = self.snapshots.end(number) else { return };
        self.clients.answer_read(asker, answer);
        let PartitionDoor { executor, sender, snapshots, clients, .. } = self;
        executor.forget_snapshot(number, &mut |sequence, reply| {
            give(sender, snapshots, clients, sequence, reply);
        });
    }

    fn send(&mut self, cast: &mut Cast) -> bool {
        if !self.sender.wants_to_send() {
            return false;
        }
        let mut worked = false;
        // The sender keeps deadlines, and only an own delivery is an outcome.
        let options = Options::default();
        let mut why = None;
        let stamp_ms = self.stamp_ms();
        self.sender.send(stamp_ms, |to, batch| {
            match cast.multicast(GroupSet::from_bits(to.bits()), batch, &options) {
                Ok(_) => {
                    worked = true;
                    return true;
                }
                Err(refused @ (Refused::Kept { .. } | Refused::TooMuchUnderWay { .. })) => {
                    why = Some(refused);
                }
                Err(_) => {}
            }
            false
        });
        self.refused = why;
        worked
    }

    /// Lets time pass in partitions whose keys are due.
    fn tick(&mut self, cast: &mut Cast) -> bool {
        if !self.has_served || !self.ticks.is_due(cast.now(), &self.executor) {
            return false;
        }
        let at = (cast.now(), self.stamp_ms());
        let led: Vec<bool> = cast.members().iter().map(|member| member.is_primary).collect();
        let leads = |partition: usize| led.get(partition).is_some_and(|leads| *leads);
        self.ticks.look(at, &self.executor, leads, |to, batch| {
            let sent = cast.multicast(GroupSet::from_bits(1 << to), batch, &Options::default());
            sent.ok().map(name_of)
        })
    }

    fn stamp_ms(&mut self) -> u64 {
        let (wall_ms, boot_now) = clocks(&self.clients.outside);
        self.state_clock.stamp(wall_ms, self.executor.state_ms(), boot_now)
    }

    /// The figures for INFO, status and metrics.
    fn look(&mut self, cast: &Cast) {
        let mut sum = Holding::default();
        self.held.partitions.clear();
        for (id, seats) in self.seats.iter().enumerate() {
            let figures = self.executor.figures(id);
            sum.keys += figures.keys;
            sum.memory_bytes += figures.memory_bytes;
            sum.changes += figures.changes;
            let trusted = cast.members().get(id).and_then(|member| member.trusted);
            let leader = trusted.and_then(|rank| seats.get(rank.index()));
            self.held.partitions.push(PartitionFigures {
                id,
                leader: leader.map_or(0, |member| *member as u16),
                executed: figures.executed,
                keys: figures.keys,
            });
        }
        sum.databases = of_each(|db| self.executor.keys_of(db));
        self.held.sum = sum;
    }

    /// The status of this process.
    pub fn view(&self, cast: &Cast) -> View {
        let mut view = View::new(self.me, self.n_members);
        let leads = cast.members().iter().any(|member| member.is_primary);
        let knows_leader = |member: &MemberView| member.trusted.is_some() && member.is_seated;
        let knows_leaders = cast.members().iter().all(knows_leader);
        view.role = match (leads, knows_leaders) {
            (true, _) => Role::Leader,
            (false, true) => Role::Follower,
            (false, false) => Role::Candidate,
        };
        let delivered = cast.members().iter().map(|member| member.delivered).sum();
        let executed = (0..self.seats.len()).map(|at| self.executor.figures(at).executed).sum();
        (view.committed, view.applied) = (Prefix(delivered), Prefix(executed));
        view.heard = cast.linked().iter().collect();
        view.heard.insert(self.me);
        view.able = view.heard;
        view
    }

    /// Publishes figures.
    fn publish(&mut self, cast: &Cast) {
        self.look(cast);
        let view = self.view(cast);
        self.desk.turn(cast.now(), view);
        // A new incarnation serves when it has its seats, and the states of all partitions.
        self.has_served |= matches!(view.role, Role::Leader | Role::Follower)
            && cast.members().iter().all(|member| member.is_seated)
            && self.held.partitions.iter().all(|of| of.leader != 0);
        self.news = Some(view);
    }
}

impl<O: Clocked> PartitionDoor<O, Pipes> {
    /// Accepts clients and reads from all that are ready: what a poller does for sockets.
    pub fn poll(&mut self, cast: &Cast) {
        self.accept(cast);
        for ready in self.streams.ready() {
            self.on_ready(ready, cast);
        }
    }
}

/// The wall clock, and the time since the machine was started.
fn clocks(outside: &impl Clocked) -> (u64, Instant) {
    (outside.wall_ms(), outside.boot_now())
}

fn name_of(id: MessageId) -> Name {
    Name { sender: id.sender, sequence: id.sequence }
}

/// Handles the end of a command of this process, or of a snapshot read.
fn give<O: Outside>(
    sender: &mut Sender<Waiting>,
    snapshots: &mut Snapshots,
    clients: &mut RespClients<O>,
    sequence: Sequence,
    reply: &[u8],
) {
    if let Some(number) = Snapshots::number(sequence) {
        match snapshots.end(number) {
            Some(asker) if reply == PUT_OFF => clients.ask_again(asker),
            Some(asker) => clients.answer_read(asker, ReadAnswer::Forwarded(reply)),
            None => {}
        }
        return;
    }
    match sender.answered(sequence) {
        Some(Waiting { asker, is_read: true }) if reply == PUT_OFF => clients.ask_again(asker),
        Some(Waiting { asker, is_read: true }) => {
            clients.answer_read(asker, ReadAnswer::Forwarded(reply));
        }
        Some(Waiting { asker, is_read: false }) => {
            // WAIT is the only command that looks at slots; it is answered without one here.
            clients.answer(asker, Answer::Executed(Slot(0), reply));
        }
        None => {}
    }
}

impl<O: Clocked, S: Streams> Application for PartitionDoor<O, S> {
    fn deliver(&mut self, delivery: Delivery, _: &mut Cast) {
        let PartitionDoor { executor, sender, snapshots, clients, .. } = self;
        let Delivery { group, message, at } = delivery;
        let name = name_of(message.id);
        let all = Partitions::from_bits(message.dest.bits());
        let mut answer = |sequence: Sequence, reply: &[u8]| {
            give(sender, snapshots, clients, sequence, reply);
        };
        let place = Place { at: at.0, name };
        if let Err(error) =
            executor.deliver(group.index(), place, all, &message.payload, &mut answer)
        {
            clients.outside.say(&format!("{:?} is no batch and was skipped: {error}", message.id));
        }
        self.ticks.delivered(name);
        // Messages that are delivered before this member serves may have been on a disk for hours.
        // Later, all members stamp: a state time that is ahead raises the estimate with the next
        // stamp, and one that is behind belongs to a message that was under way.
        if self.has_served && !self.state_clock.is_founded() {
            let boot_now = self.clients.outside.boot_now();
            self.state_clock.observe(self.executor.state_ms(), Evidence::Present, boot_now);
        }
        let published = self.executor.take_published();
        // Messages published before this life served a client are not sent to its clients.
        if self.has_served {
            self.clients.tell(&published);
        }
    }

    fn snapshot(&mut self, snapshot: Snapshot, group: GroupId, cut: Cut, _: &mut Cast) {
        let Snapshot(number) = snapshot;
        if cut == Cut::Missed {
            return self.give_snapshot_up(number, ReadAnswer::Forwarded(MISSED));
        }
        let PartitionDoor { executor, sender, snapshots, clients, .. } = self;
        // Its asker may have been told that it takes too long.
        let Some(waiting) = snapshots.get(number) else { return };
        let (all, payload) = (waiting.all, Arc::clone(&waiting.payload));
        executor.snapshot(group.index(), number, all, &payload, &mut |sequence, reply| {
            give(sender, snapshots, clients, sequence, reply);
        });
    }

    fn outcome(&mut self, _: MessageId, _: Outcome, _: &mut Cast) {}

    fn keeps_states(&self) -> bool {
        self.keeps_states
    }

    // Without all of them, a command that is executed in several partitions at once would be
    // present in only some (`kv::partition`'s Q1, Q2).
    fn states_are_joint(&self) -> bool {
        self.keeps_states
    }

    fn forget(&mut self, _: &mut Cast) {
        while let Some(number) = self.snapshots.late(Instant(u64::MAX)) {
            self.give_snapshot_up(number, ReadAnswer::Forwarded(MISSED));
        }
        let PartitionDoor { executor, sender, clients, .. } = self;
        executor.begin_again();
        sender.abandon(|Waiting { asker, is_read }| match is_read {
            true => clients.answer_read(asker, ReadAnswer::Unavailable),
            false => clients.answer(asker, Answer::Unknown),
        });
    }

    fn state(&mut self, group: GroupId) -> Vec<u8> {
        let mut out = Vec::new();
        self.executor.save(group.index(), &mut out);
        out
    }

    fn install(&mut self, group: GroupId, state: &[u8], _: &mut Cast) {
        if let Err(error) = self.executor.restore(group.index(), state) {
            // To continue would mean to answer from a state that never existed.
            panic!("partition {} cannot come back: {error}", group.index());
        }
    }

    fn turn(&mut self, cast: &mut Cast) -> bool {
        let mut worked = self.hear(cast);
        worked |= self.take(cast);
        self.expire();
        worked |= self.send(cast);
        worked |= self.tick(cast);
        self.tell(cast);
        worked
    }

    // I2: commands stay on the desk, and their deadlines end them there.
    fn held(&mut self, cast: &mut Cast) {
        self.hear(cast);
        self.expire();
        self.tell(cast);
    }

    fn deadline(&self) -> Option<Instant> {
        let ends = [self.sender.deadline(), self.snapshots.deadline()];
        ends.into_iter().flatten().chain([self.publish_at]).min()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn leading_is_shared() {
        assert_eq!(seats(4, 3), [[1, 2, 3], [2, 3, 1], [3, 1, 2], [1, 2, 3]]);
        assert_eq!(seats(2, 1), [[1], [1]]);
    }
}
