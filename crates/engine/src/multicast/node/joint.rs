//! States of all groups of a node at one moment, from another node.
//!
//! Where an application's groups are not independent of each other, a state of one group fits only
//! together with the others' of the same moment. So a node that misses messages which others have
//! dropped, in any of its groups, takes the states of all of them, from one node.
//!
//! ```text
//! node that misses something                      node that misses nothing
//! rests in all groups; ASK with its places    ->  has reached these places: encodes all states
//! NEXT, piece by piece                        <-  PIECE (empty: not now; another node is asked)
//! installs all; continues
//! ```
//! - N9 States are installed all together, on members that are where they were when the states were
//!   requested, and that the giver had passed or reached in every group. That undoes nothing (P8),
//!   and nothing that groups did together is half present: everything is as it was at the giver at
//!   one moment, and later messages are delivered in the order of each group. By
//!   `Node::give_states`, which compares, and by resting ([`Multicast::rest`]), in which a member
//!   delivers nothing. The application has taken everything that was delivered before: on disk, the
//!   request leaves when that is synced (N5), and is handed over then. Asserted in
//!   `Node::install_states`.
//! - N10 A resting node leads no group (Ω is told), and gives no states: it may be behind in some
//!   groups only.
//! - N11 A giver keeps the bytes of one request per node, until they are taken, or the node asks
//!   again, gives it up or is gone; asked for more then, it says that it has none. Pieces travel
//!   one at a time, so that no stream reaches its bound. A giver that is not heard, and was when it
//!   was asked, encodes, and is waited for: another one would stand still in its turn, and this
//!   one's work would be lost. By `Node::wait_for_giver`. One that is silent already is asked if
//!   there is no other.
//! - N12 With a disk everything is written and synced before the node continues: a later life has
//!   all states of that moment, or none. By `Node::install_states`, with which the turn ends: a
//!   change behind the first piece would be applied to the states of before, if the node died
//!   before the last one. Asserted by the journal (K5).
//!
//! Limit: a node that is behind in no group has to exist. Floors rise to what a majority has
//! delivered, so there is no such node only if each node of a majority has missed more than is
//! retained, each in another group, at the same time.

use super::Node;
use crate::ground::Ground;
use crate::multicast::application::{Application, Delivery};
use crate::multicast::bugs::Bug;
use crate::multicast::journal::Journal;
use crate::multicast::member::whole;
use crate::multicast::stop::StopError;
use crate::multicast::world::{Record, State};
use base::{Instant, Rank, SeatSet};
use core::time::Duration;
use proto::amcast::wire::{Malformed, Reader, number};
use proto::amcast::{GroupId, Multicast, Place};
use proto::planted::Planting;
use std::collections::BTreeMap;

/// The size of a piece.
const PIECE_BYTES: usize = 256 << 10;
/// The time for a piece of a giver that is heard.
pub(super) const PATIENCE: Duration = Duration::from_secs(10);
/// The longest time for which a giver is waited for that is not heard: it encodes all at once.
const ENCODES_MAX: Duration = Duration::from_secs(600);
/// The bytes that an asker has that needs no more.
const ENOUGH: usize = usize::MAX;
/// The pause before another node is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// The states on their way, at either end.
#[derive(Debug, Default)]
pub(super) struct Joint {
    /// Whether all members here rest.
    rests: bool,
    /// The number of the last request.
    pub(super) number: u64,
    /// The node that was asked, and the time by which a piece has to come.
    pub(super) asked: Option<(Rank, Instant)>,
    /// The time of the question.
    asked_at: Instant,
    /// The life of that node that was asked: its next process has not heard the question.
    asked_life: Option<u64>,
    /// Whether that node was heard when it was asked.
    was_heard: bool,
    pub(super) last_asked: Option<Rank>,
    pub(super) ask_at: Instant,
    pub(super) gathered: Vec<u8>,
    /// Whether all pieces have come.
    pub(super) is_whole: bool,
    /// The states that others asked for (N11).
    pub(super) giving: BTreeMap<Rank, (u64, Vec<u8>)>,
}

/// One group's part of the states that are given.
struct Given {
    group: GroupId,
    machine: Vec<u8>,
    state: State,
}

fn decode(bytes: &[u8]) -> Result<Vec<Given>, Malformed> {
    let mut from = Reader::new(bytes);
    let mut all = Vec::new();
    while !from.is_at_end() {
        let group = GroupId::new(from.byte()?.into()).ok_or(Malformed)?;
        let machine = from.bytes()?.to_vec();
        let state = State::decode(from.bytes()?)?;
        all.push(Given { group, machine, state });
    }
    Ok(all)
}

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// Whether the members here rest, so that others must lead (N10).
    pub(super) const fn rests(&self) -> bool {
        self.joint.rests
    }

    /// Checks whether something is missing here, and asks for it.
    pub(super) fn mind_states(&mut self) {
        if !self.app.states_are_joint() {
            return;
        }
        let now = self.desk.now;
        let linked = self.world.streams.linked();
        self.joint.giving.retain(|to, _| linked.contains(*to));
        let is_behind = self.is_behind();
        if is_behind != self.joint.rests {
            self.joint.rests = is_behind;
            for member in &mut self.members {
                member.machine.rest(is_behind);
                self.touched.insert(member.pid.group);
            }
        }
        self.wait_for_giver();
        let asked_life = self.joint.asked_life;
        let streams = &self.world.streams;
        let is_lost = |(of, until): (Rank, Instant)| {
            until <= now || !linked.contains(of) || streams.life(of) != asked_life
        };
        if !is_behind || self.joint.asked.is_some_and(is_lost) {
            if let Some((of, _)) = self.joint.asked.take() {
                self.world.tell(of, &Record::Next(self.joint.number, ENOUGH));
            }
            self.joint.is_whole = false;
            self.joint.gathered = Vec::new();
        }
        // Each member first has to learn the epoch of its group.
        let is_in = |member: &crate::multicast::member::Member<M>| member.machine.is_in_an_epoch();
        let is_ready = is_behind && self.members.iter().all(is_in);
        if is_ready && self.joint.asked.is_none() && self.joint.ask_at <= now {
            self.ask_for_states(linked);
        }
    }

    /// Gives the node that was asked more time while it stands still.
    fn wait_for_giver(&mut self) {
        let now = self.desk.now;
        let Some((giver, until)) = self.joint.asked else { return };
        let stands_still = self.joint.was_heard && self.is_silent(giver);
        if stands_still && now.since(self.joint.asked_at) < ENCODES_MAX {
            self.joint.asked = Some((giver, until.max(now.plus(PATIENCE))));
        }
    }

    /// Whether Ω of a group here does not hear `node`.
    pub(super) fn is_silent(&self, node: Rank) -> bool {
        self.members.iter().any(|member| member.misses(node))
    }

    /// Notes the groups whose member here keeps too much for others, which refuse further messages.
    pub(super) fn note_kept(&mut self) {
        let most = self.world.kept_bytes_max;
        let keeps = self.members.iter().filter(|one| one.machine.n_kept_bytes() > most);
        self.desk.kept = keeps.map(|member| member.pid.group).collect();
    }

    fn ask_for_states(&mut self, linked: SeatSet) {
        let now = self.desk.now;
        self.joint.ask_at = now.plus(ASK_EVERY);
        let hosted = self.world.places.hosted(self.world.me);
        let can = |node: &Rank| hosted.is_within(self.world.places.hosted(*node));
        let (silent, heard): (Vec<Rank>, Vec<Rank>) =
            linked.iter().filter(can).partition(|node| self.is_silent(*node));
        let is_heard = !heard.is_empty();
        let able = if is_heard { heard } else { silent };
        let after = self.joint.last_asked.map_or(0, |last| last.index() + 1);
        let next = able.iter().find(|node| node.index() >= after).or(able.first());
        let Some(node) = next.copied() else { return };
        self.joint.number += 1;
        (self.joint.last_asked, self.joint.was_heard) = (Some(node), is_heard);
        (self.joint.asked, self.joint.asked_at) = (Some((node, now.plus(PATIENCE))), now);
        self.joint.asked_life = self.world.streams.life(node);
        let stands = |member: &crate::multicast::member::Member<M>| {
            (member.pid.group, member.machine.delivered_upto())
        };
        let stands = self.members.iter().map(stands).collect();
        self.world.tell(node, &Record::Ask(self.joint.number, stands));
    }

    /// Gives states to `to`, which misses messages and has reached these places (N9).
    pub(super) fn give_states(&mut self, to: Rank, number: u64, stands: &[(GroupId, Place)]) {
        let has_passed = |(group, place): &(GroupId, Place)| {
            let at = self.member_of[group.index()]?;
            let machine = &self.members[usize::from(at)].machine;
            (machine.delivered_upto() >= *place).then_some(())
        };
        let is_good = self.app.states_are_joint()
            && !self.joint.rests
            && self.desk.is_seated
            && !self.is_behind()
            && (stands.iter().all(|stand| has_passed(stand).is_some())
                || self.world.planted.has(Bug::GivesFromBehind));
        let mut bytes = Vec::new();
        for (group, _) in stands.iter().filter(|_| is_good) {
            let at = usize::from(self.member_of[group.index()].expect("it has passed"));
            let Some(state) = self.world.state(*group, &mut self.app) else { break };
            bytes.push(group.index() as u8);
            let (mut machine, mut app) = (Vec::new(), Vec::new());
            self.members[at].machine.give_state(&mut machine);
            state.encode(&mut app);
            for part in [machine, app] {
                put(&part, &mut bytes);
            }
        }
        self.joint.giving.insert(to, (number, bytes));
        self.give_piece(to, number, 0);
    }

    /// Sends the next piece to `to`, which has everything below `at`.
    pub(super) fn give_piece(&mut self, to: Rank, number: u64, at: usize) {
        let giving = self.joint.giving.get(&to).filter(|(of, _)| *of == number);
        let Some((_, bytes)) = giving else {
            if at != ENOUGH {
                // They were dropped with a link whose end the asker has not noticed.
                self.world.tell(to, &Record::Piece(number, at, 0, Vec::new()));
            }
            return;
        };
        if at > bytes.len() {
            self.joint.giving.remove(&to);
            return;
        }
        let end = (at + PIECE_BYTES).min(bytes.len());
        let record = Record::Piece(number, at, bytes.len(), bytes[at..end].to_vec());
        self.world.tell(to, &record);
        if end == bytes.len() {
            self.joint.giving.remove(&to);
        }
    }

    /// Adds a piece of the requested states.
    pub(super) fn take_piece(
        &mut self,
        from: Rank,
        number: u64,
        (at, n_bytes): (usize, usize),
        piece: &[u8],
    ) {
        let now = self.desk.now;
        let joint = &mut self.joint;
        let is_awaited = joint.asked.is_some_and(|(of, _)| of == from) && joint.number == number;
        if !is_awaited || at != joint.gathered.len() || joint.is_whole {
            return;
        }
        if n_bytes == 0 {
            (joint.asked, joint.gathered) = (None, Vec::new()); // not now, or no longer
            return;
        }
        joint.asked = Some((from, now.plus(PATIENCE)));
        joint.gathered.extend_from_slice(piece);
        let have = joint.gathered.len();
        joint.is_whole = have == n_bytes;
        if !joint.is_whole {
            self.world.tell(from, &Record::Next(number, have));
        }
    }

    /// Installs the states, as soon as the disk can take them.
    pub(super) fn install_states(&mut self, ground: &mut impl Ground) -> Result<bool, StopError> {
        if !self.joint.is_whole {
            return Ok(false);
        }
        let n_waiting = self.world.delivered.len();
        assert!(n_waiting == 0, "N9: {n_waiting} deliveries of before wait for the application");
        // A whole under way ends first, since the next one is of another moment (N12).
        let can_write = |(journal, disk): (&mut Journal, &mut _)| journal.can_begin_whole(disk);
        if !self.journal.as_mut().zip(ground.disk()).is_none_or(can_write) {
            return Ok(false);
        }
        let bytes = std::mem::take(&mut self.joint.gathered);
        (self.joint.is_whole, self.joint.asked) = (false, None);
        let garbled = |Malformed| StopError::Garbled;
        let all = decode(&bytes).map_err(garbled)?;
        for given in &all {
            let at = self.member_of[given.group.index()].ok_or(Malformed).map_err(garbled)?;
            let member = &mut self.members[usize::from(at)];
            self.world.acting = member.pid;
            let stage =
                &mut crate::multicast::world::Stage { world: &mut self.world, app: &mut self.app };
            let taken = member.machine.take_state(&given.machine, self.desk.now, stage);
            taken.map_err(garbled)?;
            self.touched.insert(given.group);
        }
        self.app.forget(&mut self.desk);
        self.desk.figures.states += 1;
        let n = if self.world.planted.has(Bug::OneStateInstalled) { 1 } else { all.len() };
        for given in all.into_iter().take(n) {
            self.app.install(given.group, &given.state.app, &mut self.desk);
            for (at, message) in given.state.since {
                self.deliver(Delivery { group: given.group, message, at });
            }
        }
        if let (Some(journal), Some(disk)) = (&mut self.journal, ground.disk()) {
            // An earlier whole with later changes would combine two moments (N12).
            let lives = self.desk.lives();
            let whole = whole(lives, &mut self.members, &self.world, &mut self.app);
            journal.begin_whole(disk, &whole);
            journal.finish();
        }
        Ok(true)
    }
}

fn put(part: &[u8], out: &mut Vec<u8>) {
    number(part.len() as u64, out);
    out.extend_from_slice(part);
}
