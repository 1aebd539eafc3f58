//! A process's way to the simulated memory and network.

use crate::areas::Areas;
use crate::dying::Dying;
use crate::link::Action;
use crate::words::words_of;
use crate::world::net::{Net, Posting};
use crate::{Property, Provider, parcels};
use base::verb::{Area, Unsupported};
use base::{At, Inbox, Incarnation, Instant, Parcel, Port, Rank, Rng, SeatSet, Token};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::Arc;

/// The most verbs and messages on the way to one peer before a message is refused.
const N_POSTED_MAX: usize = 256;

/// The verbs and messages on the way to one peer from which on there is no room for what can wait.
const N_RELAYED_MAX: usize = 24;

/// The verbs of one process, over the network that all share.
pub(crate) struct SimPort {
    me: Rank,
    net: Rc<RefCell<Net>>,
    /// The links whose break was reported at the last poll.
    told: SeatSet,
    scratch: Vec<u64>,
    /// The death in the middle of a turn, if it is to be.
    pub(crate) dying: Option<Dying>,
    /// The number of requests to its process's disk that are not durable, where it has one.
    asked: Option<Rc<Cell<usize>>>,
    /// The choices of WRITEs that land between two loads of a turn.
    races: Option<RefCell<Rng>>,
    /// The memory that processes look into, in groups.
    areas: Option<Areas>,
}

impl SimPort {
    pub(crate) fn new(me: Rank, net: Rc<RefCell<Net>>) -> SimPort {
        let (told, scratch) = (SeatSet::EMPTY, Vec::new());
        let (dying, asked, races, areas) = (None, None, None, None);
        SimPort { me, net, told, scratch, dying, asked, races, areas }
    }

    /// Lets a death in the middle of a turn note how many requests to the disk came before it:
    /// `asked` has the number.
    pub(crate) fn on_disk(&mut self, asked: Option<Rc<Cell<usize>>>) {
        self.asked = asked;
    }

    /// Lets its owner look into the memory of others, where that is shared.
    pub(crate) fn look_into(&mut self, areas: Areas) {
        self.areas = Some(areas);
    }

    /// Lets WRITEs of others land while its owner looks at its memory, as they do where that is
    /// shared: a turn is not an instant.
    pub(crate) fn race(&mut self, rng: Rng) {
        self.races = Some(RefCell::new(rng));
    }

    fn race_on(&self) {
        let Some(mut rng) = self.races.as_ref().map(RefCell::borrow_mut) else { return };
        if rng.chance(1, 8) {
            let net = &mut *self.net.borrow_mut();
            let from = rng.below(net.members as u64) as usize;
            let link = net.link_index(from, self.me.index());
            net.land_early(link, 1 + rng.below(24) as usize);
        }
    }

    pub(crate) fn me(&self) -> Rank {
        self.me
    }

    pub(crate) fn net(&self) -> &Rc<RefCell<Net>> {
        &self.net
    }

    /// The time on this node's clock.
    pub(crate) fn now(&self) -> Instant {
        let net = self.net.borrow();
        net.processes[self.me.index()].clock.at(net.now())
    }

    /// Takes the events that have come since the last poll.
    pub(crate) fn poll(&mut self, inbox: &mut Inbox) {
        self.breaks_are_heard();
        let mut net = self.net.borrow_mut();
        self.told = net.tells_of_breaks(self.me.index());
        std::mem::swap(&mut net.processes[self.me.index()].inbox, inbox);
    }

    /// Notes that the reports of breaks have been handled (fabric T10).
    pub(crate) fn breaks_are_heard(&mut self) {
        let told = std::mem::replace(&mut self.told, SeatSet::EMPTY);
        self.net.borrow_mut().breaks_are_heard(self.me.index(), told);
    }

    /// Whether the next effect happens (`dying`, H1).
    fn acts(&mut self) -> bool {
        let Some(dying) = &mut self.dying else { return true };
        let was_gone = dying.is_gone;
        let acts = dying.acts();
        if dying.is_gone && !was_gone {
            dying.n_asked = self.asked.as_ref().map(|asked| asked.get());
        }
        acts
    }

    fn post(&mut self, to: Rank, posting: Posting<'_>) {
        if !self.acts() {
            return;
        }
        self.net.borrow_mut().post(self.me.index(), to.index(), posting);
    }
}

impl Port for SimPort {
    fn load(&self, at: At) -> u64 {
        let own = self.dying.as_ref().and_then(|dying| dying.stored(at));
        own.unwrap_or_else(|| self.net.borrow().regions[self.me.index()].load(at.0 as usize))
    }

    fn load_into(&self, at: At, words: &mut [u64]) {
        self.race_on();
        let net = self.net.borrow();
        net.regions[self.me.index()].load_into(at.0 as usize, words);
        if let Some(dying) = &self.dying {
            dying.overlay(at, words);
        }
    }

    fn store(&mut self, at: At, word: u64) {
        if !self.acts() {
            return self.dying.iter_mut().for_each(|dying| dying.store(at, word));
        }
        let (me, net) = (self.me.index(), &mut *self.net.borrow_mut());
        if let Err(detail) = net.regions[me].write(at.0 as usize, word, self.me) {
            net.violate(Property::SingleWriter, format!("in its own region, r{me}: {detail}"));
        }
    }

    fn write(&mut self, to: Rank, at: At, words: &[u64], token: Option<Token>) {
        let n_words = words.len() as u32;
        self.post(to, Posting { action: Action::Write, at, n_words, payload: words, token });
    }

    fn read(&mut self, to: Rank, at: At, n_words: usize, token: Token) {
        let (n_words, token) = (n_words as u32, Some(token));
        self.post(to, Posting { action: Action::Read, at, n_words, payload: &[], token });
    }

    fn cas(&mut self, to: Rank, at: At, expected: u64, desired: u64, token: Option<Token>) {
        let action = Action::Cas { expected, desired };
        self.post(to, Posting { action, at, n_words: 1, payload: &[], token });
    }

    fn fetch_add(&mut self, to: Rank, at: At, add: u64, token: Option<Token>) {
        let action = Action::FetchAdd(add);
        self.post(to, Posting { action, at, n_words: 1, payload: &[], token });
    }

    fn send(&mut self, to: Rank, message: &[u8]) -> bool {
        if !self.net.borrow().has_room(self.me.index(), to.index(), N_POSTED_MAX) {
            return false;
        }
        if !self.acts() {
            return true;
        }
        let mut words = std::mem::take(&mut self.scratch);
        words_of(message, &mut words);
        let action = Action::Message(message.len() as u32);
        let n_words = words.len() as u32;
        let posting = Posting { action, at: At(0), n_words, payload: &words, token: None };
        self.net.borrow_mut().post(self.me.index(), to.index(), posting);
        self.scratch = words;
        true
    }

    fn wake(&mut self, to: Rank) {
        if !self.acts() {
            return;
        }
        let net = &mut *self.net.borrow_mut();
        let delay = net.weather.latency_ns + net.rng.below(10_000);
        let at = net.now() + delay;
        net.arm_run(to.index(), at);
    }

    fn permit_writer(&mut self, from: At, writer: Option<Rank>) -> Result<(), Unsupported> {
        if self.net.borrow().weather.provider == Provider::Shm {
            return Err(Unsupported("a mapping cannot be revoked; use tcp"));
        }
        if self.acts() {
            let (me, net) = (self.me.index(), &mut *self.net.borrow_mut());
            net.regions[me].set_exclusive(from.0 as usize);
            net.processes[me].permitted = writer.map(|rank| (from.0, rank));
        }
        Ok(())
    }

    fn n_writes(&self, at: At, n_words: u32) -> Option<u64> {
        // (Each look of a race lets something land.)
        let is_counted = self.races.is_none() && self.dying.is_none();
        let region = &self.net.borrow().regions[self.me.index()];
        is_counted.then(|| region.n_changes(at.0 as usize, n_words as usize))
    }

    fn has_parcels(&self) -> bool {
        self.areas.is_some() && self.net.borrow().weather.provider == Provider::Tcp
    }

    fn put_parcel(&mut self, to: Rank, at: At, parcel: &Parcel) {
        let mut words = std::mem::take(&mut self.scratch);
        parcels::to_words(parcel, &mut words);
        let n_words = words.len() as u32;
        let action = Action::Parcel;
        self.post(to, Posting { action, at, n_words, payload: &words, token: None });
        self.scratch = words;
    }

    fn has_room(&self, to: Rank, _: usize) -> bool {
        self.net.borrow().n_posted(self.me.index(), to.index()) < N_RELAYED_MAX
    }

    fn take_parcel(&mut self, from: Rank, at: At) -> Option<Parcel> {
        self.net.borrow_mut().parcels.take(self.me.index(), from, at)
    }

    fn area(&self, of: Rank, incarnation: Incarnation) -> Option<Arc<dyn Area>> {
        let is_shared = self.net.borrow().weather.provider == Provider::Shm;
        self.areas.as_ref().filter(|_| is_shared)?.area(of, incarnation)
    }

    fn has_ended(&self, seat: Rank, incarnation: Incarnation) -> bool {
        let process = &self.net.borrow().processes[seat.index()];
        let present = u64::from(process.life);
        let has_ended = present > incarnation.0 || present == incarnation.0 && !process.alive;
        self.areas.is_some() && has_ended
    }
}
