//! Large messages in memory that all members look into: written once by their sender, and read in
//! place.
//!
//! Where a fabric has such memory ([`Port::area`]), the region of a seat ends with a *landing
//! area*: places for the messages of its process. A sender fills a place, and writes into the rings
//! of the others where the message lies, in place of its bytes. A member takes a *hold* of the
//! place when it receives the message. Its application reads there, or copies the message when it
//! first asks for all bytes. When it has copied the message or dropped it, the hold *releases* the
//! place: it writes the number of the use into a word of the sender's area, whichever thread that
//! happens on.
//!
//! ```text
//! uses[place] | released[seat][place] | places
//! ```
//! The words `released[seat]` are written by the process on `seat`, all else by the owner. They
//! belong to no view. Where no place is free, and where messages have no order, a message goes into
//! the rings themselves.
//!
//! - V18 *One use at a time.* A place has one message at a time, of one *use*. The numbers of uses
//!   rise, and a place shows its own before the first word of its message. A reader looks at the
//!   number behind what it has read: if that is another one, its process has been left behind
//!   before the message was delivered, and ends. An application meets that never (asserted in
//!   `Hold::read_words` and `Payload::deref`).
//! - V19 *Used again.* A place is used again when each process that was sent its message has
//!   released that use, or has ended: not when it has left the view, since its application may
//!   still read. Asserted in `Landing::blank`. Mutants `PLACE_AT_ONCE`, `PLACE_OF_THE_REMOVED`.
//! - V20 *Received is held.* A member tells that it has received such a message when it holds the
//!   place. So it can deliver the message, whatever becomes of the sender. Mutant
//!   `RECEIVED_UNHELD`.
//! - V21 *Another use.* What a view cut off was looked at by no application, and is dropped by all
//!   (V3). It is sent again as another use of its place: releases of the cut off one count for
//!   nothing. Where a log has copied it, it has no place any longer, and goes through the rings.
//!   Mutant `USE_KEPT`.
//! - V22 *Copied before the end.* A process whose applications still hold messages copies these
//!   before its end is known (`Machine::copy_held`). Mutant `ENDS_UNCOPIED`.
//!
//! **Assumes** of the fabric: a process begins with an area of its own; one that is said to have
//! ended looks at nothing any longer.

use super::bugs::{Bug, Plantings};
use super::payload::Payload;
use super::place::{Hold, Plan, Use, hold};
use super::view::Knock;
use alloc::collections::VecDeque;
use alloc::sync::{Arc, Weak};
use alloc::vec::Vec;
use base::verb::Area;
use base::{Incarnation, Port, Rank};

/// The most places that are looked at for a free one.
const LOOKS_MAX: usize = 64;

/// A place for a message of this process, to be filled.
#[derive(Debug)]
pub struct Blank(Hold);

impl Blank {
    /// The message with these bytes, which must not be longer than the longest. Any thread may do
    /// that.
    ///
    /// # Panics
    /// If it is longer.
    pub fn fill(self, bytes: &[u8]) -> Payload {
        let Blank(mut hold) = self;
        let n_words = bytes.len().div_ceil(8);
        assert!(n_words <= hold.plan.stride as usize, "{} bytes for a place", bytes.len());
        hold.area.write_bytes(hold.plan.words_of(hold.held.place), bytes);
        hold.n_bytes = bytes.len();
        Payload::landed(Arc::new(hold))
    }
}

/// The processes that a use waits for, and its number.
#[derive(Clone, Debug, Default)]
struct Place {
    number: u64,
    readers: Vec<(Rank, Incarnation)>,
}

/// The own landing area.
#[derive(Debug)]
pub(super) struct Landing<P> {
    planted: P,
    plan: Plan,
    me: Knock,
    places: Vec<Place>,
    free: Vec<u32>,
    /// Places that have a message, or wait for one: the order in which they are looked at.
    out: VecDeque<u32>,
    n_uses: u64,
    /// The members of the present view.
    members: Vec<(Rank, Incarnation)>,
    /// Holds that may outlive this process's end (V22).
    holds: Vec<Weak<Hold>>,
    /// Their number at which those that are gone are forgotten.
    n_holds_max: usize,
}

impl<P: Plantings> Landing<P> {
    pub(super) fn new(plan: Plan, me: Knock, planted: P) -> Landing<P> {
        Landing {
            planted,
            plan,
            me,
            places: alloc::vec![Place::default(); plan.n_places as usize],
            free: (0..plan.n_places).rev().collect(),
            out: VecDeque::new(),
            n_uses: 0,
            members: Vec::new(),
            holds: Vec::new(),
            n_holds_max: 64,
        }
    }

    /// Notes the members of the view that begins.
    pub(super) fn enter(&mut self, members: impl Iterator<Item = Knock>) {
        self.members = members.map(|one| (one.seat, one.incarnation)).collect();
    }

    /// A free place, if there is one.
    pub(super) fn blank(&mut self, port: &impl Port) -> Option<Blank> {
        let area = self.area(port)?;
        if self.free.is_empty() {
            self.reclaim(&*area, port);
        }
        let place = self.free.pop()?;
        assert!(
            self.is_released(place, &*area, port) || self.is_hasty(),
            "V19: place {place} is used again while its message may be read"
        );
        self.out.push_back(place);
        Some(Blank(self.hold_own(area, place, 0)))
    }

    fn area(&self, port: &impl Port) -> Option<Arc<dyn Area>> {
        let Knock { seat, incarnation, .. } = self.me;
        if self.plan.n_places == 0 { None } else { port.area(seat, incarnation) }
    }

    /// V18: begins the next use of a place, which this process alone holds.
    fn hold_own(&mut self, area: Arc<dyn Area>, place: u32, n_bytes: usize) -> Hold {
        self.n_uses += 1;
        let (number, Knock { seat, incarnation, .. }) = (self.n_uses, self.me);
        let of = &mut self.places[place as usize];
        of.number = number;
        of.readers.clear();
        of.readers.push((seat, incarnation));
        area.store(self.plan.use_of(place), number);
        hold(area, self.plan, Use { place, number }, seat, n_bytes)
    }

    /// Finds places that are free.
    fn reclaim(&mut self, area: &dyn Area, port: &impl Port) {
        for _ in 0..self.out.len().min(LOOKS_MAX) {
            let Some(place) = self.out.pop_front() else { return };
            if self.is_released(place, area, port) || self.is_released_hastily(place, area) {
                self.free.push(place);
            } else {
                self.out.push_back(place);
            }
        }
    }

    /// V19
    fn is_released(&self, place: u32, area: &dyn Area, port: &impl Port) -> bool {
        let Place { number, readers } = &self.places[place as usize];
        readers.iter().all(|(seat, incarnation)| {
            area.load(self.plan.released_by(*seat, place)) >= *number
                || port.has_ended(*seat, *incarnation)
        })
    }

    fn is_hasty(&self) -> bool {
        self.planted.has(Bug::PlaceAtOnce) || self.planted.has(Bug::PlaceOfTheRemoved)
    }

    fn is_released_hastily(&self, place: u32, area: &dyn Area) -> bool {
        let Place { number, readers } = &self.places[place as usize];
        let has = |seat: Rank| area.load(self.plan.released_by(seat, place)) >= *number;
        let is_gone = |one: &(Rank, Incarnation)| !self.members.contains(one);
        self.planted.has(Bug::PlaceAtOnce) && has(self.me.seat)
            || self.planted.has(Bug::PlaceOfTheRemoved)
                && readers.iter().all(|one| has(one.0) || is_gone(one))
    }

    /// Notes that `message` is sent to these processes.
    pub(super) fn send(&mut self, message: &Payload, to: impl Iterator<Item = Knock>) {
        if let Some(hold) = message.hold() {
            let place = &mut self.places[hold.held.place as usize];
            assert_eq!(place.number, hold.held.number, "V18: what is sent is in its place");
            place.readers.extend(to.map(|one| (one.seat, one.incarnation)));
        }
    }

    /// V21: what becomes of a message that its view has cut off, which is sent again.
    pub(super) fn send_again(&mut self, message: Payload) -> Payload {
        let Some(hold) = message.hold().filter(|_| !self.planted.has(Bug::UseKept)) else {
            return message;
        };
        if hold.is_copied() {
            // Its place may have another message: a log has copied it, here and elsewhere.
            return Payload::from(&*message);
        }
        let (area, place, n_bytes) = (Arc::clone(&hold.area), hold.held.place, hold.len());
        drop(message);
        Payload::landed(Arc::new(self.hold_own(area, place, n_bytes)))
    }

    /// The same of one that is not sent again: no other process reads it.
    pub(super) fn give_up(&mut self, message: &Payload) {
        if let Some(hold) = message.hold() {
            self.places[hold.held.place as usize].readers.truncate(1);
        }
    }

    /// The same of one that goes through rings.
    pub(super) fn take_back(&mut self, message: Payload) -> Payload {
        if message.hold().is_none() {
            return message;
        }
        self.give_up(&message);
        Payload::from(&*message)
    }

    /// Notes a message that the application is given.
    pub(super) fn note(&mut self, message: &Payload) {
        let Some(hold) = message.hold() else { return };
        if self.holds.len() >= self.n_holds_max {
            self.holds.retain(|hold| hold.strong_count() > 0);
            self.n_holds_max = 64 + 2 * self.holds.len();
        }
        self.holds.push(Arc::downgrade(hold));
    }

    /// V22
    pub(super) fn copy_held(&self) {
        if !self.planted.has(Bug::EndsUncopied) {
            for hold in self.holds.iter().filter_map(Weak::upgrade) {
                hold.words();
            }
        }
    }
}

/// Takes a hold of a use of a place in the area of `of`, of a message of `n_bytes`; `None` if that
/// cannot be looked into.
pub(super) fn take_hold(
    plan: &Plan,
    of: &Knock,
    held: Use,
    reader: Rank,
    n_bytes: usize,
    port: &impl Port,
) -> Option<Hold> {
    let area = port.area(of.seat, of.incarnation).filter(|_| held.place < plan.n_places)?;
    Some(hold(area, *plan, held, reader, n_bytes))
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::At;
    use core::sync::atomic::AtomicU64;
    use core::sync::atomic::Ordering::SeqCst;

    #[derive(Debug)]
    struct Heap(Vec<AtomicU64>);

    impl Area for Heap {
        fn load(&self, at: At) -> u64 {
            self.0[at.0 as usize].load(SeqCst)
        }

        fn store(&self, at: At, word: u64) {
            self.0[at.0 as usize].store(word, SeqCst);
        }

        fn load_into(&self, at: At, words: &mut [u64]) {
            words.iter_mut().zip(0..).for_each(|(word, n)| *word = self.load(at.plus(n)));
        }

        fn write(&self, at: At, words: &[u64]) {
            words.iter().zip(0..).for_each(|(word, n)| self.store(at.plus(n), *word));
        }
    }

    const ME: Rank = Rank::at(0);
    const OTHER: Rank = Rank::at(1);

    /// Two places of 9000 bytes, and the first use of the second one.
    fn used(bytes: &[u8]) -> (Arc<dyn Area>, Plan, Payload) {
        let plan = Plan::new(At(5), 2, 2, 9000);
        let n_words = 5 + plan.n_words() as usize;
        let area: Arc<dyn Area> = Arc::new(Heap((0..n_words).map(|_| 0.into()).collect()));
        let held = Use { place: 1, number: 7 };
        area.store(plan.use_of(1), 7);
        let blank = Blank(hold(Arc::clone(&area), plan, held, ME, 0));
        (area, plan, blank.fill(bytes))
    }

    fn hold_of(area: &Arc<dyn Area>, plan: Plan, n_bytes: usize) -> Payload {
        let held = Use { place: 1, number: 7 };
        Payload::landed(Arc::new(hold(Arc::clone(area), plan, held, OTHER, n_bytes)))
    }

    fn read(message: &Payload) -> Vec<u8> {
        let mut bytes = Vec::new();
        message.read(|some| bytes.extend_from_slice(some));
        bytes
    }

    #[test]
    fn bytes_of_any_length_are_read_where_they_are_and_copied_once() {
        for n in [0, 1, 7, 8, 9, 4095, 4096, 4097, 8191, 9000] {
            let bytes: Vec<u8> = (0..n).map(|byte| (byte * 7 % 251) as u8).collect();
            let (area, plan, own) = used(&bytes);
            let other = hold_of(&area, plan, n);
            assert_eq!((read(&own), read(&other)), (bytes.clone(), bytes.clone()));
            let mut head = [0; 11];
            let n_head = other.head(&mut head);
            assert_eq!(&head[..n_head], &bytes[..n.min(11)]);
            assert_eq!(area.load(plan.released_by(OTHER, 1)), 0, "it was not asked for as a whole");
            assert_eq!(&*other, &bytes[..]);
            assert_eq!(area.load(plan.released_by(OTHER, 1)), 7, "it has a copy");
            assert_eq!(area.load(plan.released_by(ME, 1)), 0);
            drop(own);
            assert_eq!(area.load(plan.released_by(ME, 1)), 7);
        }
    }

    #[test]
    fn v18_another_use_is_not_taken_for_the_one_that_is_held() {
        let (area, plan, _own) = used(b"what it was");
        let (copied, late) = (hold_of(&area, plan, 11), hold_of(&area, plan, 11));
        assert_eq!(copied.bytes(), Some(&b"what it was"[..]));
        area.store(plan.use_of(1), 8);
        area.write(plan.words_of(1), &[u64::MAX, u64::MAX]);
        assert_eq!(copied.bytes(), Some(&b"what it was"[..]), "a copy stays");
        assert_eq!(read(&copied), b"what it was");
        assert_eq!(late.bytes(), None);
    }

    #[test]
    fn a_place_is_released_once_however_often_it_is_dropped() {
        let (area, plan, _own) = used(b"a");
        let hold = hold_of(&area, plan, 1);
        assert_eq!(&*hold, b"a");
        // The next use, which this process has held and dropped already.
        area.store(plan.released_by(OTHER, 1), 9);
        drop(hold.clone());
        drop(hold);
        assert_eq!(area.load(plan.released_by(OTHER, 1)), 9);
    }

    #[test]
    fn uses_and_areas_have_words_of_their_own() {
        for of in [Use { place: 0, number: 1 }, Use { place: 65_535, number: (1 << 48) - 1 }] {
            assert_eq!(Use::of(of.word()), of);
        }
        let (_, plan, _own) = used(b"");
        let mut words: Vec<u32> = Vec::new();
        for place in 0..2 {
            words.extend([plan.use_of(place).0, plan.released_by(ME, place).0]);
            words.push(plan.released_by(OTHER, place).0);
            words.extend((0..plan.stride).map(|n| plan.words_of(place).0 + n));
        }
        words.sort_unstable();
        assert!(words.into_iter().eq(5..5 + plan.n_words()));
    }
}
