//! A process with objects that its caller runs by steps: a simulation, which has one thread for
//! all processes, and whose time is not the host's.
//!
//! All but the thread, the descriptors and the seat is what ships: the board, what stands between
//! it and the machine (`boarded`), and the objects' host.

use crate::board::{Board, Clock};
use crate::boarded::{Boarded, Hearer};
use crate::door::Group;
use crate::event::{Member, StateWanted};
use crate::ground::{letter, send_letter};
use crate::object::{Objects, Replicas, Stepped};
use crate::options::Options;
use crate::post::Post;
use crate::teller::Teller;
use base::verb::Relay;
use base::{Inbox, Instant, Rank};
use engine::Ground;
use engine::group::{Application, Installed, Process, WallClock};
use proto::disk::DiskEvent;
use proto::vsync::bugs::Plantings;
use proto::vsync::{self, Delivery, Knock, Position, ShardId, Time};
use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

pub use crate::object::bugs;
pub use crate::object::{ask_again, ask_for_replies_again, look_at_copy};

/// One thing that a process has said or was told, in its order, for a judge.
#[derive(Clone, Debug)]
pub enum Heard {
    /// The machine has taken a message for a shard.
    Multicast(ShardId),
    /// A view begins.
    Installed(Installed),
    /// The view has too few members.
    Inadequate(usize),
    /// A subgroup has too few members.
    InadequateSubgroup(usize),
    /// So many messages that the machine had taken for a shard are not sent.
    Unsent(ShardId, usize),
    /// A message is delivered.
    Delivered(Delivery),
    /// A state is wanted. The judge's part of it is to be [`SimulatedProcess::stash`]ed.
    Asked(Rank, ShardId, Position),
    /// A state came, with the judge's part of it.
    Took(ShardId, Position, Vec<u8>),
    /// The process is no longer in the group.
    Ended(vsync::End),
}

/// See the module's text.
pub struct SimulatedProcess<P> {
    boarded: Boarded<P, Witnessed>,
    objects: Stepped,
    letters: Vec<(Rank, Vec<u8>)>,
    is_over: bool,
}

impl<P: Plantings> SimulatedProcess<P> {
    /// The process `me`, with these objects.
    ///
    /// # Panics
    /// If the objects do not fit the layout of `options`.
    pub fn new(
        process: Process<P>,
        me: Knock,
        options: &Options,
        replicas: Replicas,
        planted: Option<bugs::Bug>,
    ) -> SimulatedProcess<P> {
        let board = Board::new(options, Clock::Set(0.into())).expect("an event descriptor");
        let board = Arc::new(board);
        let group = Group::run_by_its_caller(Arc::clone(&board), Member::of(&me));
        let app = Witnessed {
            teller: Teller::new(me, options),
            heard: Vec::new(),
            stash: BTreeMap::new(),
        };
        SimulatedProcess {
            boarded: Boarded::new(process, app, board, options.patience),
            objects: Stepped::new(group, replicas, planted),
            letters: Vec::new(),
            is_over: false,
        }
    }

    /// One turn at `now` of all but the objects. Returns when the next one is due, and whether
    /// something happened.
    pub fn turn(&mut self, now: Instant, ground: &mut impl WallClock) -> (Instant, bool) {
        self.boarded.board.clock.set(now);
        let mut posted = Posted { ground, letters: &mut self.letters };
        let turn = self.boarded.advance(now, &mut posted);
        let ended = self.boarded.app.teller.ended.take();
        if let Some(ended) = ended.or_else(|| self.boarded.overdue(now)).filter(|_| !self.is_over) {
            self.boarded.finish(ended);
            self.is_over = true;
        }
        turn
    }

    /// Has the objects execute what they were told. Returns the time after which to do so again
    /// though nothing happens; `None` if the process is over.
    pub fn execute(&mut self) -> Option<Duration> {
        self.objects.step()
    }

    /// What has been said and told since the last call.
    pub fn heard(&mut self) -> Vec<Heard> {
        std::mem::take(&mut self.boarded.app.heard)
    }

    /// Keeps the judge's part of a state that is wanted, which goes with it.
    pub fn stash(&mut self, to: Rank, shard: ShardId, at: Position, bytes: Vec<u8>) {
        self.boarded.app.stash.insert((to, shard, at), bytes);
    }

    /// Whether it is no longer in the group.
    pub const fn is_over(&self) -> bool {
        self.is_over
    }

    /// The objects, from the first view on that was executed.
    pub const fn objects(&self) -> Option<&Objects> {
        self.objects.get()
    }

    /// Whether its objects have executed all that it was told.
    pub fn is_idle(&self) -> bool {
        self.boarded.board.notes().events.is_empty()
    }

    /// The process below.
    pub const fn process(&self) -> &Process<P> {
        &self.boarded.process
    }

    /// Asks to leave within so long, as [`Group::leave`].
    pub fn leave(&self, within: Duration) {
        self.boarded.board.tell(|notes| {
            notes.leave_within.get_or_insert(within);
        });
    }

    /// Takes it that the member on `seat` has failed, as [`Group::suspect`].
    pub fn suspect(&self, seat: Rank) {
        self.boarded.board.tell(|notes| {
            notes.suspects.insert(seat);
        });
    }

    /// Takes it that something of this time has led to what is sent from now on, as
    /// [`Group::learn`].
    pub fn learn(&self, time: Time) {
        self.boarded.board.tell(|notes| notes.learned = notes.learned.max(time.into()));
    }
}

/// The part that makes events, and a list of what it is told.
struct Witnessed {
    teller: Teller,
    heard: Vec<Heard>,
    stash: BTreeMap<(Rank, ShardId, Position), Vec<u8>>,
}

impl Application for Witnessed {
    fn install(&mut self, installed: Installed) {
        self.heard.push(Heard::Installed(installed.clone()));
        self.teller.install(installed);
    }

    fn inadequate(&mut self, n_members: usize) {
        self.heard.push(Heard::Inadequate(n_members));
        self.teller.inadequate(n_members);
    }

    fn inadequate_subgroup(&mut self, subgroup: usize) {
        self.heard.push(Heard::InadequateSubgroup(subgroup));
        self.teller.inadequate_subgroup(subgroup);
    }

    fn unsent(&mut self, shard: ShardId, n_messages: usize) {
        self.heard.push(Heard::Unsent(shard, n_messages));
        self.teller.unsent(shard, n_messages);
    }

    fn deliver(&mut self, delivery: Delivery) {
        self.heard.push(Heard::Delivered(delivery.clone()));
        self.teller.deliver(delivery);
    }

    fn give(&mut self, to: Rank, shard: ShardId, at: Position) -> Option<Vec<u8>> {
        self.heard.push(Heard::Asked(to, shard, at));
        self.teller.give(to, shard, at)
    }

    fn take(&mut self, shard: ShardId, at: Position, mut bytes: Vec<u8>) {
        let (n_judged, rest) = bytes.split_first_chunk().expect("both parts of a state");
        let objects = rest[u64::from_le_bytes(*n_judged) as usize..].to_vec();
        bytes.truncate(bytes.len() - objects.len());
        self.heard.push(Heard::Took(shard, at, bytes.split_off(8)));
        self.teller.take(shard, at, objects);
    }

    fn end(&mut self, end: vsync::End) {
        self.heard.push(Heard::Ended(end));
        self.teller.end(end);
    }

    fn is_full(&self) -> bool {
        self.teller.is_full()
    }
}

impl Hearer for Witnessed {
    fn teller(&self) -> &Teller {
        &self.teller
    }

    fn teller_mut(&mut self) -> &mut Teller {
        &mut self.teller
    }

    fn multicast(&mut self, shard: ShardId) {
        self.heard.push(Heard::Multicast(shard));
    }

    fn never_taken(&mut self, shard: ShardId) {
        self.teller.unsent(shard, 1);
    }

    fn given(&mut self, wanted: &StateWanted, bytes: Vec<u8>) -> Vec<u8> {
        let StateWanted { to, shard, at } = *wanted;
        let judged = &self.stash[&(to, shard, at)];
        [&(judged.len() as u64).to_le_bytes()[..], judged, &bytes].concat()
    }
}

/// A ground from which letters are taken out.
struct Posted<'a, G> {
    ground: &'a mut G,
    letters: &'a mut Vec<(Rank, Vec<u8>)>,
}

impl<G: WallClock> Relay for Posted<'_, G> {
    type Port = G;

    fn port(&self) -> &G {
        self.ground
    }

    fn port_mut(&mut self) -> &mut G {
        self.ground
    }
}

impl<G: WallClock> WallClock for Posted<'_, G> {
    fn wall(&self) -> Time {
        self.ground.wall()
    }
}

impl<G: WallClock> Ground for Posted<'_, G> {
    type Disk = G::Disk;

    fn poll(&mut self, inbox: &mut Inbox) {
        self.ground.poll(inbox);
        let letters = inbox.iter().filter_map(|event| letter(&event));
        self.letters.extend(letters.map(|(from, letter)| (from, letter.to_vec())));
    }

    fn flush(&mut self) {
        self.ground.flush();
    }

    fn disk(&mut self) -> Option<&mut G::Disk> {
        self.ground.disk()
    }

    fn poll_disk(&mut self, now: Instant, events: &mut Vec<DiskEvent>) {
        self.ground.poll_disk(now, events);
    }
}

impl<G: WallClock> Post for Posted<'_, G> {
    fn send_letter(&mut self, seat: Rank, letter: &[u8]) -> bool {
        send_letter(self.ground, seat, letter)
    }

    fn take_letters(&mut self) -> Vec<(Rank, Vec<u8>)> {
        std::mem::take(self.letters)
    }

    fn trouble(&self) -> Option<&str> {
        None
    }
}
