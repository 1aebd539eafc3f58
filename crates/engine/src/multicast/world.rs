//! A machine's view of its node: the members that live here, and streams to the others.
//!
//! ```text
//! START  0 | addressed members here | message
//! WIRE   1 | group and rank of the sender | addressed members here | the protocol's bytes
//! DONE   2 | name | final timestamp
//! REMOVE 3 | node | incarnation
//! ASK    4 | number | groups and their delivered places   the request for states of all groups
//! NEXT   5 | number | bytes so far
//! PIECE  6 | number | bytes before | bytes of all | bytes            (`node::joint`)
//! WHICH  7 | group | sender | sequences           the question which the group has delivered
//! HAS    8 | group | sender | sequences           one of them has delivered these
//! ```
//! A record goes to a *node* once, however many members it addresses there.

use crate::multicast::application::{Application, Delivery};
use crate::multicast::bugs::Bug;
use crate::multicast::places::Places;
use crate::multicast::span::ASKED_MAX;
use crate::multicast::stream::Streams;
use base::{Incarnation, Port, Rank};
use proto::amcast::wire::{Malformed, Reader, Wire, list, number};
use proto::amcast::{
    Cut, Deliveries, GroupId, GroupSet, Host, Message, MessageId, Pid, Place, RealClock, Timestamp,
    To,
};
use proto::codec::{Coded, Out, Varints};
use proto::planted::{Planting, Sound};
use std::collections::VecDeque;
use std::sync::Arc;

const START: u8 = 0;
const WIRE: u8 = 1;
const DONE: u8 = 2;
const REMOVE: u8 = 3;
const ASK: u8 = 4;
const NEXT: u8 = 5;
const PIECE: u8 = 6;
const WHICH: u8 = 7;
const HAS: u8 = 8;

/// A parcel for members of this node.
#[derive(Clone, Debug)]
pub(crate) enum Parcel<W> {
    /// A sender's message.
    Start(Arc<Message>),
    /// A message of another member.
    Wire(Pid, W),
}

/// Messages of one sender, and a group to which they are addressed.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct Named {
    pub(crate) group: GroupId,
    pub(crate) sender: u64,
    pub(crate) sequences: Vec<u64>,
}

impl Coded<'_, Varints> for Named {
    fn put(&self, out: &mut impl Out) {
        out.push(self.group.index() as u8);
        number(self.sender, out);
        list(&self.sequences, out, |sequence, out| number(*sequence, out));
    }

    fn take(from: &mut Reader<'_>) -> Result<Named, Malformed> {
        let group = GroupId::new(from.byte()?.into()).ok_or(Malformed)?;
        let sender = from.number()?;
        let sequences = from.list(Reader::number)?;
        if sequences.len() > ASKED_MAX {
            return Err(Malformed);
        }
        Ok(Named { group, sender, sequences })
    }
}

/// The content of a record.
#[derive(Debug)]
pub(crate) enum Record<W> {
    /// A parcel for the members of these groups here.
    Parcel(GroupSet, Parcel<W>),
    /// A message of this node was delivered: of this life, or of an earlier one.
    Done(MessageId, Timestamp),
    /// Groups must remove this node, unless it is a later incarnation.
    Remove(Rank, Incarnation),
    /// A node that has reached these places asks for states of all these groups, under a number.
    Ask(u64, Vec<(GroupId, Place)>),
    /// The asker has this many bytes of the states.
    Next(u64, usize),
    /// The bytes of the states after this many of this many.
    Piece(u64, usize, usize, Vec<u8>),
    /// A question: which of these messages has the member of this group here delivered?
    Which(Named),
    /// A member of this group has delivered these.
    Has(Named),
}

impl<W> Record<W> {
    /// Appends a record that concerns states.
    fn encode_states(&self, out: &mut Vec<u8>) {
        match self {
            Record::Ask(n, stands) => {
                out.push(ASK);
                number(*n, out);
                list(stands, out, |(group, (at, id)), out| {
                    out.push(group.index() as u8);
                    at.encode(out);
                    id.encode(out);
                });
            }
            Record::Next(n, at) => {
                out.push(NEXT);
                number(*n, out);
                number(*at as u64, out);
            }
            Record::Piece(n, at, n_bytes, bytes) => {
                out.push(PIECE);
                [*n, *at as u64, *n_bytes as u64].into_iter().for_each(|word| number(word, out));
                number(bytes.len() as u64, out);
                out.extend_from_slice(bytes);
            }
            Record::Parcel(..)
            | Record::Done(..)
            | Record::Remove(..)
            | Record::Which(_)
            | Record::Has(_) => {
                unreachable!("those have writers of their own")
            }
        }
    }
}

impl<W: Wire> Record<W> {
    /// Decodes a record from `node`: members speak only from their own node.
    pub(crate) fn decode(
        bytes: &[u8],
        node: Rank,
        places: &Places,
    ) -> Result<Record<W>, Malformed> {
        let mut from = Reader::new(bytes);
        let record = match from.byte()? {
            START => {
                let to = GroupSet::decode(&mut from)?;
                Record::Parcel(to, Parcel::Start(Wire::decode(&mut from)?))
            }
            WIRE => {
                let (group, rank) = (from.byte()?, from.byte()?);
                let group = GroupId::new(group.into()).ok_or(Malformed)?;
                let rank = Rank::new(rank.into()).ok_or(Malformed)?;
                let pid = Pid { group, rank };
                if places.node_of(pid) != Some(node) {
                    return Err(Malformed);
                }
                let to = GroupSet::decode(&mut from)?;
                Record::Parcel(to, Parcel::Wire(pid, W::decode(&mut from)?))
            }
            DONE => Record::Done(Wire::decode(&mut from)?, Timestamp::decode(&mut from)?),
            REMOVE => {
                let node = Rank::on_fabric(from.byte()?.into()).ok_or(Malformed)?;
                if node.index() >= places.n_nodes() {
                    return Err(Malformed);
                }
                Record::Remove(node, Incarnation(from.number()?))
            }
            ASK => {
                let n = from.number()?;
                let stands = from.list(|from| {
                    let group = GroupId::new(from.byte()?.into()).ok_or(Malformed)?;
                    Ok((group, (Timestamp::decode(from)?, MessageId::decode(from)?)))
                })?;
                Record::Ask(n, stands)
            }
            NEXT => Record::Next(from.number()?, from.number()? as usize),
            PIECE => {
                let (n, at, n_bytes) = (from.number()?, from.number()?, from.number()?);
                Record::Piece(n, at as usize, n_bytes as usize, from.bytes()?.to_vec())
            }
            WHICH => Record::Which(Wire::decode(&mut from)?),
            HAS => Record::Has(Wire::decode(&mut from)?),
            _ => return Err(Malformed),
        };
        if from.is_at_end() { Ok(record) } else { Err(Malformed) }
    }
}

/// An item that waits to be handed to the application.
#[derive(Clone, Debug)]
pub(crate) enum Handed {
    /// The next message.
    Delivery(Delivery),
    /// The state of another member's application, or of this one's in an earlier life.
    State(GroupId, State),
    /// The result of a cut at this timestamp.
    Cut(GroupId, Timestamp, Cut),
}

/// An application's state of one group, with the later deliveries.
#[derive(Clone, Debug, Default)]
pub(crate) struct State {
    pub(crate) app: Vec<u8>,
    pub(crate) since: Vec<(Timestamp, Arc<Message>)>,
}

impl State {
    pub(crate) fn encode(&self, out: &mut Vec<u8>) {
        number(self.app.len() as u64, out);
        out.extend_from_slice(&self.app);
        list(&self.since, out, |(at, message), out| {
            at.encode(out);
            message.encode(out);
        });
    }

    pub(crate) fn decode(bytes: &[u8]) -> Result<State, Malformed> {
        let mut from = Reader::new(bytes);
        let app = from.bytes()?.to_vec();
        let since = from.list(|from| Ok((Timestamp::decode(from)?, Wire::decode(from)?)))?;
        if from.is_at_end() { Ok(State { app, since }) } else { Err(Malformed) }
    }
}

/// The world around the members of one node.
#[derive(Debug)]
pub(crate) struct World<W, P = Sound> {
    pub(crate) planted: P,
    pub(crate) me: Rank,
    pub(crate) places: Places,
    pub(crate) streams: Streams<P>,
    /// The parcels between members that live here.
    pub(crate) local: VecDeque<(GroupSet, Parcel<W>)>,
    /// The items in order; the application gets those that may be known.
    pub(crate) delivered: VecDeque<Handed>,
    /// The number of such items so far.
    pub(crate) n_delivered: u64,
    /// Whether a peer sent an invalid state.
    pub(crate) has_garbage: bool,
    /// The member that acts at the moment.
    pub(crate) acting: Pid,
    /// The host's clock in this turn, if its error was attested.
    pub(crate) clock: Option<RealClock>,
    /// The kept bytes for absent members above which groups refuse messages.
    pub(crate) kept_bytes_max: usize,
    /// Whether a protocol's message only asks for something (S8).
    asks: fn(&W) -> bool,
    head: Vec<u8>,
    body: Vec<u8>,
}

impl<W: Wire, P: Planting<Bug>> World<W, P> {
    pub(crate) fn new(
        me: Rank,
        places: Places,
        streams: Streams<P>,
        (asks, kept_bytes_max): (fn(&W) -> bool, usize),
        planted: P,
    ) -> World<W, P> {
        World {
            planted,
            me,
            places,
            streams,
            local: VecDeque::new(),
            delivered: VecDeque::new(),
            n_delivered: 0,
            has_garbage: false,
            acting: Pid { group: GroupId::at(0), rank: Rank::at(0) },
            clock: None,
            kept_bytes_max,
            asks,
            head: Vec::new(),
            body: Vec::new(),
        }
    }

    /// Sends an own message to every member of every destination.
    pub(crate) fn start(&mut self, message: &Arc<Message>) {
        self.body.clear();
        message.encode(&mut self.body);
        for node in Rank::all(self.places.n_nodes()) {
            let addressed = self.places.hosted(node).intersection(message.dest);
            if addressed.is_empty() {
                continue;
            }
            if node == self.me {
                self.local.push_back((addressed, Parcel::Start(message.clone())));
                continue;
            }
            self.head.clear();
            self.head.push(START);
            addressed.encode(&mut self.head);
            self.streams.push(node, &self.head, &self.body);
        }
    }

    /// Sends own messages again to a node that came back: those under way to it are lost.
    pub(crate) fn start_again<'a>(
        &mut self,
        node: Rank,
        messages: impl Iterator<Item = &'a Arc<Message>>,
    ) {
        for message in messages {
            let addressed = self.places.hosted(node).intersection(message.dest);
            if !addressed.is_empty() {
                self.body.clear();
                message.encode(&mut self.body);
                self.head.clear();
                self.head.push(START);
                addressed.encode(&mut self.head);
                self.streams.push(node, &self.head, &self.body);
            }
        }
    }

    /// Reports a delivery to the node that multicast the message, if it has no member of its own
    /// that delivers it: one group does.
    pub(crate) fn report(&mut self, delivery: &Delivery) {
        let message = &delivery.message;
        if message.dest.iter().next() != Some(delivery.group) {
            return;
        }
        let Some(node) = crate::multicast::desk::node_of_sender(message.id.sender) else { return };
        let hosted = self.places.hosted(node);
        if node == self.me || node.index() >= self.places.n_nodes() || hosted.meets(message.dest) {
            return;
        }
        self.head.clear();
        self.head.push(DONE);
        message.id.encode(&mut self.head);
        delivery.at.encode(&mut self.head);
        self.streams.push(node, &self.head, &[]);
    }

    /// Tells all nodes that groups must remove `node`.
    pub(crate) fn ask_removal(&mut self, node: Rank, incarnation: Incarnation) {
        let me = self.me;
        for to in Rank::all(self.places.n_nodes()).filter(|to| *to != me) {
            self.tell_removal(to, node, incarnation);
        }
    }

    /// Tells the node `to` that groups must remove `node`.
    pub(crate) fn tell_removal(&mut self, to: Rank, node: Rank, incarnation: Incarnation) {
        self.head.clear();
        self.head.extend_from_slice(&[REMOVE, node.index() as u8]);
        number(incarnation.0, &mut self.head);
        self.streams.push(to, &self.head, &[]);
    }

    /// Sends a node a record that concerns states.
    pub(crate) fn tell(&mut self, node: Rank, record: &Record<W>) {
        self.head.clear();
        record.encode_states(&mut self.head);
        self.streams.push(node, &self.head, &[]);
    }

    /// Asks the nodes of a group which of these messages it has delivered (W2).
    pub(crate) fn ask(&mut self, named: &Named) {
        for node in self.places.nodes_of(named.group).to_vec() {
            if self.streams.takes_questions(node) {
                self.say_named(node, WHICH, named);
            }
        }
    }

    /// Answers the question of another node.
    pub(crate) fn answer(&mut self, node: Rank, named: &Named) {
        self.say_named(node, HAS, named);
    }

    fn say_named(&mut self, node: Rank, what: u8, named: &Named) {
        self.head.clear();
        self.head.push(what);
        named.encode(&mut self.head);
        self.streams.push(node, &self.head, &[]);
    }

    fn send_to_node(&mut self, node: Rank, addressed: GroupSet, wire: &W) {
        if node == self.me {
            let parcel = Parcel::Wire(self.acting, wire.clone());
            self.local.push_back((addressed, parcel));
            return;
        }
        // It is repeated while there is no answer (S8).
        if (self.asks)(wire) && !self.streams.takes_questions(node) {
            return;
        }
        if self.body.is_empty() {
            wire.encode(&mut self.body);
        }
        let Pid { group, rank } = self.acting;
        self.head.clear();
        self.head.extend_from_slice(&[WIRE, group.index() as u8, rank.index() as u8]);
        addressed.encode(&mut self.head);
        self.streams.push(node, &self.head, &self.body);
    }
}

/// A world, and the application of its node.
pub(crate) struct Stage<'a, W, A, P> {
    pub(crate) world: &'a mut World<W, P>,
    pub(crate) app: &'a mut A,
}

impl<W: Wire, A: Application, P: Planting<Bug>> Host<W> for Stage<'_, W, A, P> {
    fn send(&mut self, to: To, wire: &W) {
        self.world.send(to, wire);
    }

    fn real_clock(&mut self) -> Option<RealClock> {
        self.world.clock
    }
}

impl<W: Wire, A: Application, P: Planting<Bug>> Deliveries for Stage<'_, W, A, P> {
    fn deliver(&mut self, message: &Arc<Message>, at: Timestamp) {
        let group = self.world.acting.group;
        let delivery = Delivery { group, message: message.clone(), at };
        self.world.hand(Handed::Delivery(delivery));
    }

    fn cut(&mut self, at: Timestamp, cut: Cut) {
        self.world.hand(Handed::Cut(self.world.acting.group, at, cut));
    }

    fn keeps_states(&self) -> bool {
        self.app.takes_states_of_others()
    }

    fn state(&mut self) -> Option<Vec<u8>> {
        // The node itself brings joint states.
        if !self.app.takes_states_of_others() || self.app.states_are_joint() {
            return None;
        }
        let mut out = Vec::new();
        self.world.state(self.world.acting.group, self.app)?.encode(&mut out);
        Some(out)
    }

    fn install(&mut self, state: &[u8], _: Place) {
        if !self.app.states_are_joint() {
            self.world.install(state);
        }
    }
}

impl<W: Wire, P: Planting<Bug>> World<W, P> {
    /// Installs in the acting member's application what [`World::state`] has encoded.
    pub(crate) fn install(&mut self, state: &[u8]) {
        match State::decode(state) {
            Ok(state) => self.hand(Handed::State(self.acting.group, state)),
            Err(Malformed) => self.has_garbage = true,
        }
    }

    /// Queues an item for the application, behind the others.
    pub(crate) fn hand(&mut self, handed: Handed) {
        self.n_delivered += 1;
        self.delivered.push_back(handed);
    }

    /// The state of a group's application after everything that was delivered to it, handed over or
    /// not.
    pub(crate) fn state(&self, group: GroupId, app: &mut impl Application) -> Option<State> {
        if !app.keeps_states() {
            return None;
        }
        let mut state: Option<State> = None;
        let mut since = Vec::new();
        for handed in &self.delivered {
            match handed {
                Handed::Delivery(one) if one.group == group => {
                    since.push((one.at, one.message.clone()));
                }
                Handed::State(of, whole) if *of == group => {
                    state = Some(whole.clone());
                    since.clear();
                }
                Handed::Delivery(_) | Handed::State(..) | Handed::Cut(..) => {}
            }
        }
        let mut state = state.unwrap_or_else(|| State { app: app.state(group), since: Vec::new() });
        if !self.planted.has(Bug::StateWithoutLater) {
            state.since.append(&mut since);
        }
        Some(state)
    }

    fn send(&mut self, to: To, wire: &W) {
        self.body.clear();
        match to {
            To::One(pid) => {
                if let Some(node) = self.places.node_of(pid) {
                    self.send_to_node(node, pid.group.alone(), wire);
                }
            }
            To::Groups(groups) => {
                for node in Rank::all(self.places.n_nodes()) {
                    let mut addressed = self.places.hosted(node).intersection(groups);
                    if node == self.me {
                        addressed = addressed.without(self.acting.group);
                    }
                    if !addressed.is_empty() {
                        self.send_to_node(node, addressed, wire);
                    }
                }
            }
        }
    }
}

/// A fabric by members: Ω of one group speaks of members; the fabric of nodes.
pub(crate) struct ByMember<'a, F> {
    pub(crate) fabric: &'a mut F,
    pub(crate) nodes: &'a [Rank],
}

impl<F: Port> Port for ByMember<'_, F> {
    fn load(&self, at: base::At) -> u64 {
        self.fabric.load(at)
    }

    fn load_into(&self, at: base::At, words: &mut [u64]) {
        self.fabric.load_into(at, words);
    }

    fn store(&mut self, at: base::At, word: u64) {
        self.fabric.store(at, word);
    }

    fn write(&mut self, to: Rank, at: base::At, words: &[u64], token: Option<base::Token>) {
        self.fabric.write(self.nodes[to.index()], at, words, token);
    }

    fn read(&mut self, to: Rank, at: base::At, n_words: usize, token: base::Token) {
        self.fabric.read(self.nodes[to.index()], at, n_words, token);
    }

    fn cas(
        &mut self,
        to: Rank,
        at: base::At,
        expected: u64,
        desired: u64,
        token: Option<base::Token>,
    ) {
        self.fabric.cas(self.nodes[to.index()], at, expected, desired, token);
    }

    fn fetch_add(&mut self, to: Rank, at: base::At, add: u64, token: Option<base::Token>) {
        self.fabric.fetch_add(self.nodes[to.index()], at, add, token);
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        self.fabric.send(self.nodes[to.index()], message)
    }

    fn wake(&mut self, to: Rank) {
        self.fabric.wake(self.nodes[to.index()]);
    }

    fn permit_writer(
        &mut self,
        from: base::At,
        writer: Option<Rank>,
    ) -> Result<(), base::verb::Unsupported> {
        self.fabric.permit_writer(from, writer.map(|rank| self.nodes[rank.index()]))
    }
}
