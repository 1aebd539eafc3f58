//! One process between its board and its machine, without I/O.
//!
//! ```text
//! turn:  calls from the board -> the process (engine::group) -> events on the board
//! ```
//! The loop of a host's thread (`node`) and simulations run this code alike.
//!
//! - N2 *Own messages in order.* Those of a subgroup are handed to the machine in the order in
//!   which they were taken, so the n-th of them that is delivered, or told to be unsent, is message
//!   n (`vsync`, V7). One for a shard in which this process is not is unsent.
//! - N3 *Leave in order.* A process asks to leave when everything that it took is delivered here,
//!   or half of the time has passed that it was given for that. It has left in order only if all of
//!   it was delivered in the end. Tested by `n3_what_was_sent_just_before_a_close_is_delivered`,
//!   `n3_a_close_that_leaves_messages_behind_says_so`.
//! - N4 *An end.* The last event is [`Event::Ended`], exactly once, whatever ends the process.

use crate::board::{BLANKS_MAX, Board, move_all};
use crate::event::{Ended, Event, StateWanted};
use crate::post::Post;
use crate::teller::Teller;
use crate::time::Time;
use base::{Instant, SeatSet};
use engine::group::{Application, Process};
use proto::planted::Sound;
use proto::vsync::bugs::Plantings;
use proto::vsync::{Payload, Position, Refused, ShardId};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::time::Duration;

/// An application that makes events of what it is told; perhaps with a witness beside it.
pub(crate) trait Hearer: Application {
    /// The part that makes events.
    fn teller(&self) -> &Teller;

    /// The same, to change it.
    fn teller_mut(&mut self) -> &mut Teller;

    /// Notes that the machine has taken a message for `shard`.
    fn multicast(&mut self, _shard: ShardId) {}

    /// Takes it that a message for `shard` is not sent, which the machine has not taken.
    fn never_taken(&mut self, shard: ShardId) {
        self.unsent(shard, 1);
    }

    /// The bytes that are sent of a state which the application gave.
    fn given(&mut self, _wanted: &StateWanted, bytes: Vec<u8>) -> Vec<u8> {
        bytes
    }
}

impl Hearer for Teller {
    fn teller(&self) -> &Teller {
        self
    }

    fn teller_mut(&mut self) -> &mut Teller {
        self
    }
}

/// See the module's text.
pub(crate) struct Boarded<P = Sound, A = Teller> {
    pub(crate) process: Process<P>,
    pub(crate) app: A,
    pub(crate) board: Arc<Board>,
    /// [`crate::Options::patience`].
    patience: Duration,
    /// The time since which the application has taken nothing though its queue is full.
    full_since: Option<Instant>,
    /// Whether the machine was asked to leave.
    is_leaving: bool,
    /// The time at which the process ends though the group has not let it leave.
    leave_by: Option<Instant>,
    /// The time from which on it asks to leave though not everything is delivered (N3).
    leave_from: Option<Instant>,
    /// Whether the application has dropped its handle.
    is_abandoned: bool,
    /// The number of messages that the application has sent in each subgroup.
    n_taken: Vec<u64>,
    /// Reads that wait for deliveries: the subgroup, the token, and the position.
    reads: Vec<(u16, u64, Option<Position>)>,
    /// Looks ahead that were asked for: the subgroup, and the token.
    aheads: Vec<(u16, u64)>,
}

impl<P: Plantings, A: Hearer> Boarded<P, A> {
    pub(crate) fn new(
        process: Process<P>,
        app: A,
        board: Arc<Board>,
        patience: Duration,
    ) -> Boarded<P, A> {
        let n_taken = vec![0; app.teller().places.len()];
        Boarded {
            process,
            app,
            board,
            patience,
            full_since: None,
            is_leaving: false,
            leave_by: None,
            leave_from: None,
            is_abandoned: false,
            n_taken,
            reads: Vec::new(),
            aheads: Vec::new(),
        }
    }

    /// Everything that can be done at `now` without waiting. Returns when it has to be done again,
    /// and whether something happened.
    pub(crate) fn advance(&mut self, now: Instant, post: &mut impl Post) -> (Instant, bool) {
        let mut worked = self.take_calls(now, post);
        worked |= self.send_letters(post);
        let turn = self.process.turn(now, post, &mut self.app);
        worked |= turn.worked;
        self.take_letters(post);
        self.tell_reads();
        self.show_ahead(post);
        self.tell(now, post.trouble());
        let leave_from = self.leave_from.filter(|_| !self.is_leaving);
        let due = [self.leave_by, leave_from].into_iter().flatten().fold(turn.due, Instant::min);
        (due, worked)
    }

    /// The end of a process whose handle was dropped, or that could not leave in time.
    pub(crate) fn overdue(&self, now: Instant) -> Option<Ended> {
        if self.is_abandoned {
            return Some(Ended::LeftInHaste);
        }
        let is_late = self.leave_by.is_some_and(|by| by <= now);
        let is_sluggish = self.app.teller().is_sluggish;
        let ended = if is_sluggish { Ended::Sluggish(self.patience) } else { Ended::LeftInHaste };
        is_late.then_some(ended)
    }

    // ---- calls ----

    /// Takes what was asked for on the board.
    fn take_calls(&mut self, now: Instant, post: &impl Post) -> bool {
        let mut notes = self.board.notes();
        let mut worked = false;
        while notes.blanks.len() < BLANKS_MAX
            && let Some(blank) = self.process.blank(post)
        {
            notes.blanks.push(blank);
            notes.blank_at = Some(std::time::Instant::now());
            worked = true;
        }
        self.process.learn(notes.learned.into());
        for (subgroup, sends) in (0..).zip(&mut notes.sends) {
            worked |= take_sends(&mut self.process, &mut self.app, subgroup, sends);
        }
        for (wanted, bytes) in notes.states.drain(..) {
            let bytes = self.app.given(&wanted, bytes);
            let StateWanted { to, shard, at } = wanted;
            self.process.give(to, shard, at, bytes);
            worked = true;
        }
        for (subgroup, token) in notes.reads.behind.drain(..) {
            self.reads.push((subgroup, token, None));
            worked = true;
        }
        worked |= !notes.reads.ahead.is_empty();
        self.aheads.append(&mut notes.reads.ahead);
        for seat in std::mem::replace(&mut notes.suspects, SeatSet::EMPTY).iter() {
            self.process.suspect(seat);
            worked = true;
        }
        self.n_taken.clone_from(&notes.n_taken);
        self.is_abandoned = notes.is_abandoned;
        if let (Some(within), None) = (notes.leave_within, self.leave_by) {
            self.leave_by = Some(now.plus(within));
            self.leave_from = Some(now.plus(within / 2));
        }
        drop(notes);
        if worked {
            self.board.announce_room(); // there may be some
        }
        self.leave_if_due(now) || worked
    }

    /// N3
    fn leave_if_due(&mut self, now: Instant) -> bool {
        let Some(from) = self.leave_from.filter(|_| !self.is_leaving) else { return false };
        if !self.is_settled() && now < from {
            return false;
        }
        self.is_leaving = true;
        self.process.leave();
        true
    }

    /// Whether everything that was taken from the application is delivered here, or never sent.
    fn is_settled(&self) -> bool {
        let mut subgroups = self.app.teller().places.iter().zip(&self.n_taken);
        subgroups.all(|(place, n_taken)| place.n_own >= *n_taken)
    }

    // ---- letters ----

    /// Sends letters, as far as there is room on the way to each. One to a process that is no
    /// member is lost.
    fn send_letters(&self, post: &mut impl Post) -> bool {
        let mut notes = self.board.notes();
        let (before, mut full) = (notes.letters.len(), SeatSet::EMPTY);
        let view = &self.app.teller().view;
        notes.letters.retain(|(to, letter)| {
            let is_member = view.as_ref().is_some_and(|view| view.has(*to));
            if is_member && !full.contains(*to) && !post.send_letter(*to, letter) {
                full.insert(*to);
            }
            is_member && full.contains(*to)
        });
        let is_any = notes.letters.len() < before;
        drop(notes);
        if is_any {
            self.board.announce_room();
        }
        is_any
    }

    /// Makes events of the letters of members. An application that is full loses them.
    fn take_letters(&mut self, post: &mut impl Post) {
        let app = self.app.teller_mut();
        for (from, bytes) in post.take_letters() {
            let from = app.view.as_ref().and_then(|view| view.member(from));
            if let Some(from) = from.filter(|_| !app.is_full) {
                app.events.push_back(Event::Letter { from, bytes });
            }
        }
    }

    // ---- events ----

    /// Writes the events of a turn on the board, and looks at how the application takes them.
    fn tell(&mut self, now: Instant, trouble: Option<&str>) {
        let app = self.app.teller_mut();
        if app.view.is_some() && app.ended.is_none() {
            *self.board.relayed() = self.process.relayed();
        }
        let mut notes = self.board.notes();
        tell_finals(&self.process, app, &mut notes.asked);
        if notes.trouble.as_deref() != trouble {
            notes.trouble = trouble.map(str::to_owned);
        }
        let is_news = !app.events.is_empty();
        let concerns_senders =
            |event: &Event| matches!(event, Event::View(_) | Event::Inadequate { .. });
        let is_other_view = app.events.iter().any(concerns_senders);
        move_all(&mut app.events, &mut notes.events);
        notes.places.clone_from(&app.places);
        notes.lease_until = self.process.lease_until();
        notes.reads.n_behind = notes.reads.behind.len() + self.reads.len();
        notes.inadequate = app.inadequate;
        app.is_full = notes.events.len() >= self.board.events_max;
        let takes = std::mem::take(&mut notes.has_taken);
        drop(notes);
        if is_news {
            self.board.announce_news();
        }
        if is_other_view {
            self.board.announce_room(); // what waits for some may be refused now
        }
        let since = self.full_since.filter(|_| !takes).unwrap_or(now);
        self.full_since = app.is_full.then_some(since);
        let is_sluggish = app.is_full && now.since(since) > self.patience;
        if is_sluggish && self.leave_by.is_none() {
            // It does not wait for deliveries that are not taken.
            self.leave_by = Some(now.plus(self.patience / 2));
            app.is_sluggish = true;
            self.is_leaving = true;
            self.process.leave();
        }
    }

    /// Tells what is held and not delivered, where that was asked for.
    fn show_ahead(&mut self, post: &impl Post) {
        for (subgroup, token) in self.aheads.drain(..) {
            let ahead = self.process.ahead(subgroup.into(), post);
            self.app.teller_mut().show_ahead(token, subgroup, ahead);
        }
    }

    /// Tells which reads have everything that they wait for: behind what was delivered.
    fn tell_reads(&mut self) {
        let (process, app) = (&self.process, self.app.teller_mut());
        for (subgroup, place) in app.places.iter_mut().enumerate() {
            place.answers_from = process.answers_from(subgroup);
        }
        self.reads.retain_mut(|(subgroup, token, held)| {
            let subgroup = usize::from(*subgroup);
            *held = held.or_else(|| process.held(subgroup));
            let (Some(held), Some(delivered)) = (*held, process.position(subgroup)) else {
                // It waits for the state of its shard; or it is in no shard.
                return app.places.get(subgroup).is_some_and(|place| place.shard.is_some());
            };
            if delivered >= held {
                app.events.push_back(Event::CaughtUp { token: *token, view: delivered.view.0 });
            }
            delivered < held
        });
    }

    /// N4
    pub(crate) fn finish(&mut self, ended: Ended) {
        let is_in_haste = ended == Ended::Left && !self.is_settled(); // N3
        let ended = if is_in_haste { Ended::LeftInHaste } else { ended };
        let mut notes = self.board.notes();
        move_all(&mut self.app.teller_mut().events, &mut notes.events);
        notes.events.push_back(Event::Ended(ended.clone()));
        notes.ended = Some(ended);
        drop(notes);
        self.board.announce_end();
    }
}

/// Tells which of the times that were asked for have come: behind what was delivered.
fn tell_finals<P: Plantings>(
    process: &Process<P>,
    app: &mut Teller,
    asked: &mut BTreeSet<(Time, u16)>,
) {
    if asked.is_empty() {
        return;
    }
    for (subgroup, place) in (0..).zip(&app.places) {
        let (Some(shard), n_asked) = (place.shard, asked.len()) else { continue };
        let time = process.frontier(subgroup.into()).into();
        asked.retain(|(asked, of)| *of != subgroup || *asked > time);
        if asked.len() < n_asked {
            let shard = ShardId { subgroup, shard };
            app.events.push_back(Event::Final { shard, time });
        }
    }
}

/// N2: hands the messages of one subgroup to the machine, as far as it takes them.
fn take_sends<P: Plantings>(
    process: &mut Process<P>,
    app: &mut impl Hearer,
    subgroup: u16,
    sends: &mut VecDeque<(u16, Payload)>,
) -> bool {
    let mut worked = false;
    while let Some((shard, message)) = sends.pop_front() {
        let id = ShardId { subgroup, shard };
        match process.accepts(id, message.len()) {
            Ok(()) => {
                let taken = process.multicast(id, message);
                assert_eq!(taken, Ok(()), "N2: it was accepted a moment ago");
                app.multicast(id);
            }
            Err(Refused::OtherShard | Refused::NoSender) => app.never_taken(id),
            // The window is full, the view inadequate, or there is no view yet.
            Err(_) => {
                sends.push_front((shard, message));
                break;
            }
        }
        worked = true;
    }
    worked
}
