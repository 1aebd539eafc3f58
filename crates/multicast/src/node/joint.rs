//! States of all groups of a node at one moment, from another node.
//!
//! Where an application's groups are not independent of each other, a state of one of them fits
//! only together with the others' of the same moment. So a node that lacks what others have
//! forgotten, in any of its groups, takes the states of all of them, from one node.
//!
//! ```text
//! node that lacks something                       node that lacks nothing
//! rests in all groups; ASK where each stands  ->  stands as far in each: says all states at once
//! NEXT, piece by piece                        <-  PIECE (empty: not now; another is asked)
//! installs all; continues
//! ```
//! - N9 States are installed all together, on members that stand where they stood when it was
//!   asked, and that the giver had passed or reached in every group. Nothing is undone by that
//!   (P8), and nothing that groups did together is half there: everything is as it was at the
//!   giver at one moment, and what follows is delivered in the order of each group. By
//!   `Node::give_states`, which compares, and by resting ([`Multicast::rest`]), in which a member
//!   delivers nothing.
//! - N10 A node that rests leads no group (Ω is told), and gives no states: it may be half behind.
//! - N11 A giver keeps the bytes of one request a node, until they are taken or it asks again or is
//!   gone. Pieces travel one at a time, so that no stream's bound is met.
//! - N12 With a disk everything is written and synced before the node continues: a later life has
//!   all states of that moment, or none. By `Node::install_states`.
//!
//! Limit: a node that is behind in no group has to be there. Floors rise to what a majority has
//! delivered, so there is none only if a majority of nodes has each missed more than is retained,
//! each of another group, at the same time.

use super::Node;
use crate::application::{Application, Delivery};
use crate::member::whole;
use crate::world::{Record, State};
use base::{Instant, MemberSet, Rank};
use fabric::Fabric;
use proto::amcast::wire::{Malformed, Reader, number};
use proto::amcast::{GroupId, Multicast, Place};
use std::collections::BTreeMap;
use std::io;
use std::time::Duration;

/// The size of a piece.
const PIECE_BYTES: usize = 256 << 10;
/// How long a piece may take: a giver says a large state in one go.
const PATIENCE: Duration = Duration::from_secs(10);
/// How long to wait before another node is asked.
const ASK_EVERY: Duration = Duration::from_millis(20);

/// States on their way, at either end.
#[derive(Debug, Default)]
pub(super) struct Joint {
    /// All members here rest.
    rests: bool,
    /// The last request's number.
    number: u64,
    /// Who was asked, and by when something has to come.
    asked: Option<(Rank, Instant)>,
    last_asked: Option<Rank>,
    ask_at: Instant,
    gathered: Vec<u8>,
    /// Everything has come.
    is_whole: bool,
    /// What others asked for (N11).
    giving: BTreeMap<Rank, (u64, Vec<u8>)>,
}

/// One group's part of what is given.
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

impl<F: Fabric, M: Multicast, A: Application> Node<F, M, A> {
    /// Whether the members here rest: others shall lead (N10).
    pub(super) const fn rests(&self) -> bool {
        self.joint.rests
    }

    /// Looks whether something is lacking here, and asks for it.
    pub(super) fn mind_states(&mut self) {
        if !self.app.states_are_joint() {
            return;
        }
        let now = self.desk.now;
        let linked = self.world.streams.linked();
        self.joint.giving.retain(|to, _| linked.contains(*to));
        let is_behind = self.members.iter().any(|member| member.machine.is_behind());
        if is_behind != self.joint.rests {
            self.joint.rests = is_behind;
            for member in &mut self.members {
                member.machine.rest(is_behind);
                self.touched.insert(member.pid.group);
            }
        }
        let is_lost = |(of, until): (Rank, Instant)| until <= now || !linked.contains(of);
        if !is_behind || self.joint.asked.is_some_and(is_lost) {
            self.joint.asked = None;
            self.joint.is_whole = false;
            self.joint.gathered = Vec::new();
        }
        // Each of them first hears where its group stands.
        let is_in = |member: &crate::member::Member<M>| member.machine.is_in_an_epoch();
        let is_ready = is_behind && self.members.iter().all(is_in);
        if is_ready && self.joint.asked.is_none() && self.joint.ask_at <= now {
            self.ask_for_states(linked);
        }
    }

    /// Groups whose member here keeps too much for others take nothing more.
    pub(super) fn note_kept(&mut self) {
        let most = self.world.kept_bytes_max;
        let keeps = self.members.iter().filter(|one| one.machine.n_kept_bytes() > most);
        self.desk.kept = keeps.map(|member| member.pid.group).collect();
    }

    fn ask_for_states(&mut self, linked: MemberSet) {
        let now = self.desk.now;
        self.joint.ask_at = now.plus(ASK_EVERY);
        let hosted = self.world.places.hosted(self.world.me);
        let can = |node: &Rank| hosted.is_within(self.world.places.hosted(*node));
        let able: Vec<Rank> = linked.iter().filter(can).collect();
        let after = self.joint.last_asked.map_or(0, |last| last.index() + 1);
        let next = able.iter().find(|node| node.index() >= after).or(able.first());
        let Some(node) = next.copied() else { return };
        self.joint.number += 1;
        self.joint.last_asked = Some(node);
        self.joint.asked = Some((node, now.plus(PATIENCE)));
        let stands =
            |member: &crate::member::Member<M>| (member.pid.group, member.machine.delivered_upto());
        let stands = self.members.iter().map(stands).collect();
        self.world.tell(node, &Record::Ask(self.joint.number, stands));
    }

    /// `to` lacks something, and stands there (N9).
    pub(super) fn give_states(&mut self, to: Rank, number: u64, stands: &[(GroupId, Place)]) {
        let has_passed = |(group, place): &(GroupId, Place)| {
            let at = self.member_of[group.index()]?;
            let machine = &self.members[usize::from(at)].machine;
            (machine.delivered_upto() >= *place).then_some(())
        };
        let is_good = self.app.states_are_joint()
            && !self.joint.rests
            && self.desk.is_seated
            && !self.members.iter().any(|member| member.machine.is_behind())
            && stands.iter().all(|stand| has_passed(stand).is_some());
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

    /// `to` has everything below `at`.
    pub(super) fn give_piece(&mut self, to: Rank, number: u64, at: usize) {
        let Some((of, bytes)) = self.joint.giving.get(&to) else { return };
        if *of != number || at > bytes.len() {
            return;
        }
        let end = (at + PIECE_BYTES).min(bytes.len());
        let record = Record::Piece(number, at, bytes.len(), bytes[at..end].to_vec());
        self.world.tell(to, &record);
        if end == bytes.len() {
            self.joint.giving.remove(&to);
        }
    }

    /// A piece of what was asked for has come.
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
            joint.asked = None; // not now
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

    /// Installs what has come, as soon as the application has everything that was delivered before.
    pub(super) fn install_states(&mut self) -> io::Result<bool> {
        if !self.joint.is_whole || !self.world.delivered.is_empty() {
            return Ok(false);
        }
        let bytes = std::mem::take(&mut self.joint.gathered);
        (self.joint.is_whole, self.joint.asked) = (false, None);
        let garbled = |Malformed| io::Error::other("a node gave states that are none: update all");
        let all = decode(&bytes).map_err(garbled)?;
        for given in &all {
            let at = self.member_of[given.group.index()].ok_or(Malformed).map_err(garbled)?;
            let member = &mut self.members[usize::from(at)];
            self.world.acting = member.pid;
            let stage = &mut crate::world::Stage { world: &mut self.world, app: &mut self.app };
            let taken = member.machine.take_state(&given.machine, self.desk.now, stage);
            taken.map_err(garbled)?;
            self.touched.insert(given.group);
        }
        self.app.forget(&mut self.desk);
        for given in all {
            self.app.install(given.group, &given.state.app, &mut self.desk);
            for (at, message) in given.state.since {
                self.deliver(Delivery { group: given.group, message, at });
            }
        }
        if let Some(journal) = &mut self.journal {
            // N12: what an earlier whole and later changes make together would be of two moments.
            journal.finish()?;
            let lives = self.desk.sender() >> crate::desk::RANK_BITS;
            journal.begin_whole(&whole(lives, &mut self.members, &self.world, &mut self.app));
            journal.finish()?;
        }
        Ok(true)
    }
}

fn put(part: &[u8], out: &mut Vec<u8>) {
    number(part.len() as u64, out);
    out.extend_from_slice(part);
}
