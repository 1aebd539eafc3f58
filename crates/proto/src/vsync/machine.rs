//! One process of a group: outside, then inside one view after another, then ended.
//!
//! ```text
//! outside --welcome--> inside view v --decision--> inside view v + 1 ... --> ended
//!                                     (its own leave is decided) --> leaving --> ended
//! ```
//!
//! - V11 *Last words.* A member that has left remains until the others have committed the change,
//!   or for a while: its echo may be the one that they lack, and what a process has posted can be
//!   lost with it. Mutant `LEAVE_AT_ONCE`.
//! - V12 *An application that is full.* While it takes nothing, what is stable stays in the rings,
//!   which holds up senders and no view: what a view ends with is delivered all the same, or this
//!   member would not have delivered the same messages as the others (V6). Mutant `HOLDS_THE_END`.

mod knocks;
mod large;
mod log;
mod passage;
pub(super) mod status;
#[cfg(test)]
mod tests;

use super::bugs::{Bug, Plantings};
use super::change::{Asking, Decided, Turn};
use super::clock::Time;
use super::current::Current;
use super::durable::Kept;
use super::journal::{Journal, Record};
use super::landing::Landing;
use super::layout::{Layout, Shape};
use super::outbox::Outbox;
use super::payload::Payload;
use super::restart::Returning;
use super::shard::{ShardId, Subgroup};
use super::state::{Gifts, Want};
use super::view::{Change, View};
use super::wire::{Message, Piece};
use super::{Config, End, Mode, Output, Position, Refused, Start};
use crate::node::Layout as Region;
use crate::planted::Sound;
use crate::sst::Seen;
use alloc::boxed::Box;
use alloc::vec::Vec;
use base::{Event, Instant, Port, Rank, SeatSet};
use core::time::Duration;
use knocks::Knocks;
use status::Ending;

/// The region of a seat in a group of this shape.
pub fn region(shape: &Shape) -> Region {
    Layout::new(shape).region()
}

/// The words of a row in a group of this shape.
pub fn row_words(shape: &Shape) -> u32 {
    Layout::new(shape).columns.row_words()
}

/// One process of a group. See the module's text.
///
/// The caller's part: every event of the fabric goes to [`Machine::on_event`]; [`Machine::poll`] is
/// called after each batch of events and calls, and not later than [`Machine::deadline`]. What
/// `poll` appends is performed in its order.
#[derive(Debug)]
pub struct Machine<P = Sound> {
    planted: P,
    config: Config,
    layout: Layout,
    life: Life<P>,
    /// The description of the subgroups.
    subgroups: Vec<Subgroup>,
    /// Own messages, by subgroup.
    outboxes: Vec<Outbox>,
    gifts: Gifts,
    /// The own large messages.
    landing: Landing<P>,
    /// Seats whose links came up since the last poll: they may miss anything.
    renewed: SeatSet,
    /// Outputs between two polls.
    pending: Vec<Output>,
    /// The log of a durable group's process.
    journal: Journal,
    /// By subgroup: what this process keeps of its shard.
    kept: Vec<Kept>,
    /// The record of its view that is written last, and the first one that was not freed.
    entry: Record,
    freed: Record,
    /// Whether the application wants to leave: through as many views as it takes.
    is_leaving: bool,
    /// Whether the application takes no messages now (V12).
    is_held: bool,
    next_beat_at: Instant,
    /// The host's clock, as it was told last.
    wall: Time,
    /// By subgroup: when it may answer, once it is a member no longer.
    answers: Vec<Instant>,
}

/// Where a process is.
#[derive(Debug)]
enum Life<P> {
    /// It asks to be let in; or, with the log of one before, to restart the group.
    Outside {
        next_knock_at: Instant,
        returning: Option<Box<Returning<P>>>,
    },
    Inside(Box<Inside<P>>),
    /// It has left, and its old row stays for those that have not seen the decision (V11).
    Leaving {
        current: Box<Current<P>>,
        until: Instant,
    },
    /// It is a member no longer. What it told last of the end of a view, for judges: others may act
    /// upon that, though no turn of a member shows it.
    Ended(Option<Ending>),
}

/// A member.
#[derive(Debug)]
struct Inside<P> {
    current: Current<P>,
    /// The view before, whose row stays readable (C9).
    last: Option<Current<P>>,
    /// Processes that ask to be let in.
    knocks: Knocks,
    /// Members whose failure was reported in this view, or before, where that was not used.
    reported: SeatSet,
    /// By subgroup: a newcomer's wait for the state of its shard.
    wants: Vec<Option<Want>>,
}

/// A view as it begins.
#[derive(Debug)]
struct Begun {
    view: View,
    /// The trims of the view before, if they are known.
    trims: Vec<u64>,
    /// The members of that one that have left as they wished.
    left: SeatSet,
}

impl Begun {
    const fn new(view: View) -> Begun {
        Begun { view, trims: Vec::new(), left: SeatSet::EMPTY }
    }
}

impl<P: Plantings> Inside<P> {
    fn new(current: Current<P>, last: Option<Current<P>>, wants: Vec<Option<Want>>) -> Inside<P> {
        Inside { current, last, knocks: Knocks::default(), reported: SeatSet::EMPTY, wants }
    }

    /// Asks members of its shards for their states, where this one waits for one and no answer
    /// comes.
    fn ask_for_states(&mut self, config: &Config, now: Instant, port: &mut impl Port) {
        let current = &self.current;
        for want in self.wants.iter_mut().zip(&current.lanes) {
            let (Some(want), Some(lane)) = want else { continue };
            let elders = lane.senders.iter().map(|sender| sender.process.seat);
            let is_asked = |seat: &Rank| *seat != current.me && current.trusted().contains(*seat);
            if let Some(giver) = want.ask(elders.filter(is_asked), config.timing.ask_every, now) {
                // If there is no room, the next one is asked in a while.
                let _ = port.send(giver, &Message::WantState(lane.id).encoded());
            }
        }
    }
}

impl Machine {
    /// A process of a group.
    pub fn new(config: Config, now: Instant) -> Machine {
        Machine::with(config, Sound, now)
    }
}

impl<P: Plantings> Machine<P> {
    /// The same, perhaps with a planted mistake.
    pub fn with(config: Config, planted: P, now: Instant) -> Machine<P> {
        assert!(config.shape.mode != Mode::Durable, "a durable group has disks: Machine::on");
        let mut machine = Machine::outside(config, planted, now);
        machine.found(now);
        machine
    }

    /// A process outside.
    fn outside(config: Config, planted: P, now: Instant) -> Machine<P> {
        let layout = Layout::new(&config.shape);
        config.assert_modes();
        assert!(config.me.seat.index() < config.shape.n_seats, "no such seat: {:?}", config.me);
        let subgroups = config.subgroups();
        let n_shards: usize = subgroups.iter().map(|subgroup| subgroup.shards.len()).sum();
        let (n_subgroups, shape) = (subgroups.len(), &config.shape);
        assert_eq!((n_subgroups, n_shards), (shape.n_subgroups, shape.n_shards), "another layout");
        Machine {
            planted,
            life: Life::Outside { next_knock_at: now, returning: None },
            outboxes: (0..n_subgroups).map(|_| Outbox::default()).collect(),
            kept: alloc::vec![Kept::default(); n_subgroups],
            journal: Journal::default(),
            entry: Record(0),
            freed: Record(0),
            subgroups,
            gifts: Gifts::default(),
            landing: Landing::new(layout.landing, config.me, planted),
            renewed: SeatSet::EMPTY,
            pending: Vec::new(),
            is_leaving: false,
            is_held: false,
            next_beat_at: now,
            wall: Time::default(),
            answers: alloc::vec![Instant::ZERO; n_subgroups],
            layout,
            config,
        }
    }

    /// Begins the first view, where this process is a founder.
    fn found(&mut self, now: Instant) {
        if let Start::Found(founders) = &self.config.start {
            let group = self.config.group;
            let view = View { group, ..View::founded_by(founders, &self.subgroups) };
            self.begin(Begun::new(view), None, Vec::new(), now);
        }
    }

    // ---- the application's calls ----

    /// Multicasts `message` to a shard that this process is in. It will be delivered, here too,
    /// unless this process is no longer in the group first, or not in the shard
    /// ([`Output::Unsent`]): it is sent again in the next view if this one ends before that.
    ///
    /// # Errors
    /// [`Refused`]: nothing happened. [`Machine::accepts`] says it before the message is given.
    pub fn multicast(&mut self, shard: ShardId, message: Payload) -> Result<(), Refused> {
        self.accepts(shard, message.len())?;
        let message = self.as_it_travels(shard, message);
        self.outboxes[usize::from(shard.subgroup)].put(message);
        Ok(())
    }

    /// Whether a message of `n_bytes` would be taken now for this shard.
    ///
    /// # Errors
    /// [`Refused`]: why it would not.
    pub fn accepts(&self, shard: ShardId, n_bytes: usize) -> Result<(), Refused> {
        let Life::Inside(inside) = &self.life else { return Err(Refused::NotMember) };
        if n_bytes > self.config.shape.message_bytes as usize {
            return Err(Refused::TooLong);
        }
        let lane = inside.current.lane_of(shard.subgroup.into()).filter(|lane| lane.id == shard);
        let lane = lane.ok_or(Refused::OtherShard)?;
        // L6
        if !lane.order.has(lane.turn) && !self.planted.has(Bug::SilentSends) {
            return Err(Refused::NoSender);
        }
        if !lane.is_adequate {
            return Err(Refused::Inadequate);
        }
        if self.outboxes[lane.subgroup()].n_waiting() >= self.config.shape.window as usize {
            return Err(Refused::Full);
        }
        Ok(())
    }

    /// Asks to leave. The process stays a member until [`End::Left`].
    pub fn leave(&mut self) {
        self.is_leaving = true;
        match &mut self.life {
            Life::Inside(inside) => inside.current.ask_to_leave(),
            Life::Outside { .. } => self.end(End::Left),
            Life::Leaving { .. } | Life::Ended(_) => {}
        }
    }

    /// Delivers nothing from now on that can wait (V12), or delivers again. Meanwhile at most a
    /// window of each member is delivered at the end of a view, and to a newcomer what follows its
    /// state.
    pub fn hold(&mut self, is_full: bool) {
        self.is_held = is_full;
    }

    /// Takes the application's word, or another detector's, that the member on `seat` has failed.
    pub fn suspect(&mut self, seat: Rank) {
        if let Life::Inside(inside) = &mut self.life {
            inside.reported.insert(seat);
        }
    }

    /// Takes it that the host's clock shows this time. To be called before [`Machine::poll`].
    pub fn see(&mut self, wall: Time) {
        self.wall = self.wall.max(wall);
    }

    /// Takes it that something of this time has led to what is multicast from now on: messages get
    /// later stamps (K1).
    pub fn learn(&mut self, time: Time) {
        if let Life::Inside(inside) = &mut self.life {
            inside.current.clock.see(time);
        }
    }

    /// Gives the state that [`Output::GiveState`] asked for.
    /// (One that is for this process itself is kept in its log.)
    pub fn give(&mut self, to: Rank, shard: ShardId, at: Position, state: Vec<u8>) {
        if to == self.config.me.seat {
            self.keep(shard, at, &state);
        } else {
            self.gifts.give(to, shard, at, state);
        }
    }

    /// The time at which [`Machine::poll`] is due even if nothing happens.
    pub fn deadline(&self) -> Instant {
        match &self.life {
            Life::Outside { next_knock_at, returning } => {
                let deadline = returning.as_ref().map(|returning| returning.deadline());
                deadline.map_or(*next_knock_at, |deadline| deadline.min(*next_knock_at))
            }
            Life::Inside(inside) => inside.current.next_act_at().min(self.next_beat_at),
            Life::Leaving { .. } => self.next_beat_at,
            Life::Ended(_) => Instant(u64::MAX),
        }
    }

    // ---- the fabric's events ----

    /// Takes one event of the fabric.
    pub fn on_event(&mut self, event: Event<'_>, now: Instant, port: &mut impl Port) {
        match event {
            Event::LinkUp(seat) => {
                if !self.planted.has(Bug::NoRenewal) {
                    self.renewed.insert(seat);
                }
                if let Life::Outside { next_knock_at, .. } = &mut self.life {
                    *next_knock_at = now;
                }
            }
            Event::LinkDown(seat) => {
                self.gifts.stop(seat);
                self.forget_knock(seat);
            }
            Event::ProcessFailed(seat) => {
                self.suspect(seat);
                self.forget_knock(seat);
            }
            Event::Message { from, bytes } => {
                if let Some(message) = Message::decoded(bytes) {
                    self.on_message(from, message, now, port);
                }
            }
            // No verb of this machine has a token.
            Event::Completed { .. } => {}
        }
    }

    fn on_message(&mut self, from: Rank, message: Message<'_>, now: Instant, port: &mut impl Port) {
        match message {
            Message::Knock(knock) => self.on_knock(from, knock, now, port),
            Message::Welcome { trims, view } => self.on_welcome(view, trims, now),
            Message::Call(_)
            | Message::Report(_)
            | Message::Propose { .. }
            | Message::Accepted(_) => self.on_restart(from, message, now, port),
            Message::WantState(shard) => self.on_want_state(from, shard),
            Message::Piece(piece) => self.on_piece(from, &piece, now),
        }
    }

    /// (A member that is in another shard yet, here, is given one that it does not take: V9.)
    fn on_want_state(&mut self, from: Rank, shard: ShardId) {
        let Life::Inside(inside) = &self.life else { return };
        let (current, subgroup) = (&inside.current, usize::from(shard.subgroup));
        let Some(lane) = current.lane_of(subgroup) else { return };
        let may_have =
            lane.id == shard && current.is_ready(subgroup) && current.seats.contains(from);
        if may_have && self.gifts.want(from, shard) {
            let at = current.position(subgroup);
            self.pending.push(Output::GiveState { to: from, shard, at });
        }
    }

    fn on_piece(&mut self, from: Rank, piece: &Piece<'_>, now: Instant) {
        let Life::Inside(inside) = &mut self.life else { return };
        let subgroup = usize::from(piece.shard.subgroup);
        let Some(lane) = inside.current.lane_of(subgroup) else { return };
        if let Some(want) = inside.wants[subgroup].as_mut().filter(|_| lane.id == piece.shard) {
            want.take(from, piece, now, self.planted);
        }
    }

    // ---- turns ----

    /// Does everything that there is to do now, and appends what the application has to know.
    pub fn poll(&mut self, now: Instant, port: &mut impl Port, out: &mut Vec<Output>) {
        self.restart(now, port);
        while let Life::Inside(_) = &self.life {
            out.append(&mut self.pending);
            match self.turn(now, port, out) {
                Turn::Stay => break,
                Turn::End(end) => self.end(end),
                Turn::Install(decided) => self.install(&decided, now, port, out),
            }
        }
        if let Life::Leaving { current, until } = &mut self.life {
            current.look(port);
            if current.is_known() || *until <= now {
                self.life = Life::Ended(current.ending());
                self.pending.push(Output::Ended(End::Left));
            }
        }
        out.append(&mut self.pending);
        self.note_given(out);
        self.tell(now, port);
    }

    /// One turn inside a view.
    fn turn(&mut self, now: Instant, port: &mut impl Port, out: &mut Vec<Output>) -> Turn {
        let Life::Inside(inside) = &mut self.life else { return Turn::Stay };
        let current = &mut inside.current;
        current.clock.see_host(self.wall);
        current.tick_answers(now);
        // V10
        if current.look(port) == Seen::Later {
            return Turn::End(End::Excluded);
        }
        current.renew_lease(now);
        let (table, beat) = (&current.table, current.row.beat);
        let trusted = current.trusted().intersection(current.others());
        let silent = current.detector.look(trusted, |seat| table.get(seat, beat, 0), now);
        let failed = silent.union(inside.reported);
        let knocks = inside.knocks.fresh(self.config.timing.ask_every, now);
        if self.is_leaving && current.has_disks() && current.view.members.len() == 1 {
            // W5: its log has the group's states.
            return Turn::End(End::Left);
        }
        let asking = Asking { knocks: &knocks, layout: &self.subgroups };
        let turn = current.turn_of_change(failed, asking, &mut self.journal);
        if turn != Turn::Stay {
            return turn;
        }
        if let Some(end) = self.take_states(port, out) {
            return Turn::End(end);
        }
        self.mind_log(out);
        let Life::Inside(inside) = &mut self.life else { return Turn::Stay };
        let current = &mut inside.current;
        // W4
        if current.is_wedged() || !self.journal.is_synced(current.entry) {
            return Turn::Stay;
        }
        current.claim(self.renewed, port);
        for (subgroup, outbox) in self.outboxes.iter_mut().enumerate() {
            while current.has_lane(subgroup) {
                if current.is_durable(subgroup) {
                    if let Err(end) = current.note_received(subgroup, port) {
                        return Turn::End(end);
                    }
                    let (kept, journal) = (&mut self.kept[subgroup], &mut self.journal);
                    if let Err(end) = current.persist(subgroup, kept, outbox, journal, port) {
                        return Turn::End(end);
                    }
                }
                if let Err(end) = current.receive(subgroup, self.is_held, outbox, port, out) {
                    return Turn::End(end);
                }
                if !current.send(subgroup, outbox, &mut self.landing, port) {
                    break;
                }
            }
        }
        Turn::Stay
    }

    /// Ends the view with what was decided, and begins the next.
    fn install(
        &mut self,
        decided: &Decided,
        now: Instant,
        port: &mut impl Port,
        out: &mut Vec<Output>,
    ) {
        let life = core::mem::replace(&mut self.life, Life::Ended(None));
        let Life::Inside(inside) = life else { return };
        let Inside { mut current, mut wants, reported, .. } = *inside;
        let (me, change) = (current.me, decided.change());
        self.answers = current.answers_behind(change);
        current.commit(decided);
        current.push(self.renewed, port);
        if change.removed.contains(me) {
            // The trim was made without the row of this process, and may be beyond what it holds.
            return self.end_behind(&current, End::Excluded);
        }
        if let Err(end) = self.deliver_end(&mut current, &mut wants, change, port, out) {
            return self.end_behind(&current, end);
        }
        current.let_all_go(port);
        if change.left.contains(me) {
            let is_rude = self.planted.has(Bug::LeaveAtOnce);
            let span = if is_rude { Duration::ZERO } else { self.config.timing.suspect_after };
            self.life = Life::Leaving { current: Box::new(current), until: now.plus(span) };
            return;
        }
        let next = current.view.after(change, &self.subgroups, self.planted);
        // What came too late for this change is a reason for the next one.
        let stays = |at: &Rank| current.view.member(*at).is_some_and(|of| next.has(&of.process));
        let failed = current.suspected(me).union(reported).iter().filter(stays).collect();
        let begun = Begun { view: next, trims: change.trims.clone(), left: change.left };
        for joiner in &change.joined {
            let (trims, view) = (begun.trims.clone(), begun.view.clone());
            let welcome = Message::Welcome { trims, view };
            let _ = port.send(joiner.seat, &welcome.encoded());
        }
        out.append(&mut self.pending);
        self.begin(begun, Some(current), wants, now);
        if let Life::Inside(inside) = &mut self.life {
            inside.reported = failed;
        }
    }

    fn end(&mut self, end: End) {
        if let Life::Inside(inside) = core::mem::replace(&mut self.life, Life::Ended(None)) {
            self.answers = inside.current.answers_behind(&Change::default());
            // (What this turn has changed in its present row is not told.)
            self.life = Life::Ended(inside.last.as_ref().and_then(Current::ending));
        }
        self.pending.push(Output::Ended(end));
    }

    /// The same, behind a view whose end it has told.
    fn end_behind(&mut self, current: &Current<P>, end: End) {
        self.life = Life::Ended(current.ending());
        self.pending.push(Output::Ended(end));
    }

    // ---- what is told to others ----

    /// Tells the others what is new.
    fn tell(&mut self, now: Instant, port: &mut impl Port) {
        let renewed = core::mem::replace(&mut self.renewed, SeatSet::EMPTY);
        let is_beat = self.next_beat_at <= now;
        if is_beat {
            self.next_beat_at = now.plus(self.config.timing.beat_every);
        }
        match &mut self.life {
            Life::Outside { next_knock_at, .. } if *next_knock_at <= now => {
                *next_knock_at = now.plus(self.config.timing.ask_every);
                // A process that may be in a view has its name on its disk.
                if self.journal.is_idle() {
                    self.knock(port);
                }
            }
            Life::Inside(inside) => {
                let current = &mut inside.current;
                let is_news = current.has_news() || !renewed.is_empty();
                if is_beat {
                    current.beat(now);
                } else if is_news {
                    current.show_clock_again();
                }
                // In the order in which a member needs them: the end of the last view, messages of
                // this one, and the row that guards them.
                if let Some(last) = &mut inside.last {
                    last.push(renewed, port);
                }
                let is_logged =
                    self.journal.is_synced(current.entry) || self.planted.has(Bug::RowBeforeView);
                if is_logged {
                    let whole = renewed.intersection(current.others());
                    if !whole.is_empty() {
                        current.claim(whole, port);
                    }
                    for (subgroup, outbox) in self.outboxes.iter().enumerate() {
                        current.write_ring(subgroup, outbox, whole, port);
                    }
                    current.push(renewed, port);
                    current.relay(whole, now, port);
                }
                if is_news && is_logged {
                    current.others().iter().for_each(|peer| port.wake(peer));
                }
                inside.ask_for_states(&self.config, now, port);
                self.gifts.send(port);
            }
            Life::Leaving { current, .. } => {
                if is_beat {
                    current.beat(now);
                }
                current.push(renewed, port);
            }
            Life::Outside { .. } | Life::Ended(_) => {}
        }
    }
}
