//! One node around its machine: state machine, sessions, requests; and the [`Host`] that the
//! machine acts through.

use crate::checks::agreement::Delivery;
use crate::checks::order::Order;
use crate::checks::reads::Taken;
use crate::checks::real_time::place_of_write;
use crate::checks::validity::Origin;
use crate::coverage::Mark;
use crate::disk::Disk;
use crate::dying::Dying;
use crate::kv::{Applied, Command, Kv, N_CLIENTS, commands};
use crate::ledger::{Ledger, Reply};
use crate::link::Action;
use crate::queue::Happening;
use crate::stamper::Stamper;
use crate::states::State;
use crate::trace::Topic;
use crate::words::words_of;
use crate::world::net::{Net, Posting};
use crate::world::travel::Parcel;
use crate::{Property, Provider};
use base::{At, Ballot, Port, Prefix, Rank, Slot, Token, verb::Unsupported};
use proto::members::StateHead;
use proto::{Host, Note, Ticket};

/// A client's request at a node.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Request {
    pub(crate) command: Command,
    pub(crate) attempt: u32,
}

/// A write that a client waits for here.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Waiting {
    pub(crate) sequence: u32,
    pub(crate) attempt: u32,
    pub(crate) proposed: bool,
}

/// A life of a node, without its machine.
pub(crate) struct Shell {
    pub(crate) kv: Kv,
    /// The prefix that is executed here: by deliveries, or by a state from elsewhere.
    pub(crate) order: Order,
    /// The prefix that the machine has delivered, or that a state installed in it covers. A
    /// transfer under way may have brought more.
    pub(crate) delivered: Order,
    pub(crate) waiting: [Option<Waiting>; N_CLIENTS],
    /// The requests that arrived since the loop last ran.
    pub(crate) arrived: Vec<Request>,
    pub(crate) to_propose: Vec<Request>,
    pub(crate) to_read: Vec<Request>,
    /// The reads whose check is under way.
    pub(crate) checking: Vec<(Ticket, Request)>,
    pub(crate) next_ticket: u64,
    pub(crate) notes: Vec<Note>,
    pub(crate) transfer: Transfer,
    /// The state that came from elsewhere, is executed here, and is not durable yet.
    pub(crate) installing: Option<State>,
    pub(crate) n_caught_up: u64,
    pub(crate) stamper: Stamper,
    /// The death in the middle of this call, if one is planned.
    pub(crate) dying: Option<Dying>,
    /// The prefix that was last reported as held by every disk, and the ballot of that.
    pub(crate) held: (Ballot, Prefix),
    /// The reads that are under way, with what is judged when they are answered.
    pub(crate) taken: Vec<Taken>,
    /// The prefix of the last durable state of which the machine has heard in this life.
    pub(crate) told: Prefix,
}

/// The transfer of a state to a node.
#[derive(Default)]
pub(crate) struct Transfer {
    /// The prefix of the state that is requested, while one is under way.
    pub(crate) needs: Option<Prefix>,
    /// The number of transfers that were begun.
    pub(crate) n_begun: u32,
    /// The part of a state that is on its way here.
    pub(crate) parcel: Option<Parcel>,
    /// The head that came with the last state from a giver.
    pub(crate) givers_head: Option<(Prefix, StateHead)>,
}

impl Shell {
    pub(crate) fn new() -> Shell {
        Shell {
            kv: Kv::default(),
            order: Order::default(),
            delivered: Order::default(),
            waiting: [None; N_CLIENTS],
            arrived: Vec::new(),
            to_propose: Vec::new(),
            to_read: Vec::new(),
            checking: Vec::new(),
            next_ticket: 0,
            notes: Vec::new(),
            transfer: Transfer::default(),
            installing: None,
            n_caught_up: 0,
            stamper: Stamper::default(),
            dying: None,
            held: (Ballot::NONE, Prefix::ZERO),
            taken: Vec::new(),
            told: Prefix::ZERO,
        }
    }
}

/// The most verbs and messages on the way to one peer before a message is refused.
const N_POSTED_MAX: usize = 256;

/// The environment of a simulated machine.
pub struct NodeHost<'a> {
    pub(crate) me: Rank,
    pub(crate) net: &'a mut Net,
    pub(crate) shell: &'a mut Shell,
    /// The disk, for a protocol that has one.
    pub(crate) disk: Option<&'a mut Disk>,
    pub(crate) ledger: &'a mut Ledger,
    /// A buffer kept from call to call, for the words of messages.
    pub(crate) scratch: &'a mut Vec<u64>,
}

impl NodeHost<'_> {
    fn post(
        &mut self,
        to: Rank,
        action: Action,
        at: At,
        words: usize,
        payload: &[u64],
        token: Option<Token>,
    ) {
        if !self.acts() {
            return;
        }
        let posting = Posting { action, at, n_words: words as u32, payload, token };
        self.net.post(self.me.index(), to.index(), posting);
    }

    /// Whether a WRITE of this node into what it has accepted itself is under way.
    fn writes_to_itself(&self) -> bool {
        let me = self.me.index();
        let verbs = &self.net.links[self.net.link_index(me, me)].verbs;
        let accepting = &self.net.accepts.accepting;
        let is_one = |at| accepting.index(at).is_some();
        verbs.iter().any(|verb| matches!(verb.action, Action::Write) && is_one(verb.at))
    }

    /// Sends `reply` to a client.
    pub(crate) fn reply(&mut self, client: u8, attempt: u32, reply: Reply) {
        if !self.acts() {
            return;
        }
        let delay =
            self.net.weather.latency_ns + self.net.rng.below(self.net.weather.jitter_ns + 1);
        let index = self.ledger.keep(reply);
        let answer = Happening::Answer { client, attempt, index };
        self.net.queue.push(self.net.now() + delay, answer);
    }
}

impl Port for NodeHost<'_> {
    fn load(&self, at: At) -> u64 {
        let own = self.shell.dying.as_ref().and_then(|dying| dying.stored(at));
        own.unwrap_or_else(|| self.net.regions[self.me.index()].load(at.0 as usize))
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        let region = &self.net.regions[self.me.index()];
        words.copy_from_slice(region.words(at.0 as usize, words.len()));
        if let Some(dying) = &self.shell.dying {
            dying.overlay(at, words);
        }
    }

    fn store(&mut self, at: At, word: u64) {
        if !self.acts() {
            return self.shell.dying.iter_mut().for_each(|dying| dying.store(at, word));
        }
        let me = self.me.index();
        let before = self.net.regions[me].load(at.0 as usize);
        if let Err(detail) = self.net.accepts.check_risen(at.0, before, word) {
            self.net.violate(Property::Safe, format!("in its own region, r{me}: {detail}"));
        }
        if let Err(detail) = self.net.regions[me].write(at.0 as usize, word, self.me) {
            self.net.violate(Property::SingleWriter, format!("in its own region, r{me}: {detail}"));
        }
        self.net.accepts.note(me, at.0);
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        self.post(to, Action::Write, at, words.len(), words, token);
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        self.post(to, Action::Read, at, n_words, &[], Some(token));
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        self.post(to, Action::Cas { expected, desired }, at, 1, &[], token);
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        self.post(to, Action::FetchAdd(add), at, 1, &[], token);
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        if !self.net.has_room(self.me.index(), to.index(), N_POSTED_MAX) {
            return false;
        }
        self.net.coverage.hit(Mark::MachineMessage);
        let mut words = std::mem::take(self.scratch);
        words_of(message, &mut words);
        self.post(to, Action::Message(message.len() as u32), At(0), words.len(), &words, None);
        *self.scratch = words;
        true
    }

    fn wake(&mut self, to: Rank) {
        if !self.acts() {
            return;
        }
        let delay = self.net.weather.latency_ns + self.net.rng.below(10_000);
        let at = self.net.now() + delay;
        self.net.arm_run(to.index(), at);
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        match self.net.weather.provider {
            Provider::Shm => Err(Unsupported("a mapping cannot be revoked; use tcp")),
            Provider::Tcp => {
                if !self.acts() {
                    return Ok(());
                }
                let me = self.me.index();
                if writer.is_some_and(|writer| writer != self.me) && self.writes_to_itself() {
                    let detail = format!("r{me} grants its log, and still writes to it");
                    self.net.violate(Property::Safe, detail);
                }
                self.net.regions[me].set_exclusive(from.0 as usize);
                self.net.processes[me].permitted = writer.map(|rank| (from.0, rank));
                Ok(())
            }
        }
    }
}

impl Host for NodeHost<'_> {
    type Disk = Disk;

    fn disk(&mut self) -> Option<&mut Disk> {
        self.disk.as_deref_mut()
    }

    fn deliver(&mut self, slot: Slot, value: &[u8]) {
        if self.is_ghost() {
            return;
        }
        let me = self.me.index();
        self.net.trace.record(self.net.now(), me, Topic::Deliver, slot.0, crate::kv::hash(value));
        if let Err(detail) = self.shell.delivered.delivered(slot) {
            self.net.violate(Property::Order, format!("at r{me}: {detail}"));
        }
        let origin = match self.ledger.proposals.delivered(value) {
            Ok(origin) => origin,
            Err(detail) => {
                // Its bytes have no meaning: to continue would only crash on them.
                return self
                    .net
                    .violate(Property::Validity, format!("slot {slot} at r{me}: {detail}"));
            }
        };
        match self.ledger.agreement.delivered(slot, crate::kv::hash(value)) {
            Ok(Delivery::First) => {
                let number = origin.and_then(|_| crate::kv::number(value));
                if let Err(detail) = self.ledger.state_time.decided(slot, number) {
                    self.net.violate(Property::StateTime, detail);
                }
                self.cover(slot, origin);
                self.ledger.firsts.push((slot, crate::kv::hash(value)));
            }
            Ok(Delivery::Repeated) => {}
            Err(detail) => self.net.violate(Property::Agreement, format!("at r{me}: {detail}")),
        }
        if self.shell.order.applied().contains(slot) {
            // A transfer has brought it before the protocol could.
            return;
        }
        if let Err(detail) = self.shell.order.delivered(slot) {
            self.net.violate(Property::Order, format!("at r{me}: {detail}"));
        }
        self.shell.kv.begin(slot, value);
        if origin.is_some() {
            for (index, command) in commands(value).enumerate() {
                self.apply(slot, index, command);
            }
        }
        let digest = self.shell.kv.digest();
        if let Err(detail) = self.ledger.digests.reached(slot.prefix_through(), digest) {
            self.net.violate(Property::Digest, format!("at r{me}: {detail}"));
        }
    }

    fn notify(&mut self, note: Note) {
        if self.is_ghost() {
            return;
        }
        self.shell.notes.push(note);
    }
}

impl NodeHost<'_> {
    fn apply(&mut self, slot: Slot, index: usize, command: Command) {
        let (answer, place) = match self.shell.kv.apply(command) {
            Applied::Now(answer) => (answer, Some(place_of_write(slot.0, index))),
            Applied::Before(answer) => {
                self.net.coverage.hit(Mark::Deduplicated);
                (answer, None)
            }
            Applied::Abandoned => return,
        };
        let seat = &mut self.shell.waiting[command.client as usize];
        if let Some(waiting) = seat.filter(|waiting| waiting.sequence == command.sequence) {
            *seat = None;
            self.reply(command.client, waiting.attempt, Reply::Done { answer, place });
        }
    }

    fn cover(&mut self, slot: Slot, origin: Option<Origin>) {
        let net = &mut *self.net;
        if slot.0 >= self.ledger.ring_slots {
            net.coverage.hit(Mark::SlotRecycled);
        }
        let Some(origin) = origin else { return };
        if origin.node as usize != self.me.index() {
            let proposer = &net.processes[origin.node as usize];
            net.coverage.hit(if proposer.alive && proposer.life == origin.life {
                Mark::AdoptedFromLiving
            } else {
                Mark::AdoptedFromDead
            });
        }
    }
}
