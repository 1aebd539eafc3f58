//! The board between the thread that runs a process and the threads that call it.
//!
//! - B1 *Bounds.* Messages that wait to be sent are at most a window, times that are asked for at
//!   most [`ASKED_MAX`], reads that wait at most [`READS_MAX`]; events that wait to be taken are at
//!   most [`Options::events`], and behind them what a view ends with (`engine::group`, G3), and an
//!   event for each read, and for each of at most [`AHEAD_MAX`] looks ahead.
//! - B2 *Deadlines.* Every wait has one, and an end wakes all that wait.
//! - B3 *Large messages* are copied by the thread that sends them, not under the lock: once, into a
//!   place that all members read (`vsync::landing`), if the process has put one here; over tcp into
//!   bytes that are sent from where they are (`vsync::packed`). A sender that cannot wait for a
//!   place is not refused while the window has room: its message goes through the ring. Tested by
//!   `b3_a_large_message_without_a_place_or_time_to_wait_for_one_is_taken`.

use crate::deadline::deadline;
use crate::error::Refused;
use crate::event::{Ended, Event, Fate, StateWanted};
use crate::ground::LETTER_BYTES_MAX;
use crate::layout::{self, Subgroup};
use crate::options::{LANDED_BYTES_MIN, Options, Transport};
use crate::teller::Place;
use crate::time::Time;
use base::{Bulk, Rank, SeatSet};
use proto::vsync::{Blank, Mode, Payload, Relayed, ShardId};
use runtime::clock::boot_now;
use rustix::event::{EventfdFlags, eventfd};
use rustix::fd::{AsFd, BorrowedFd, OwnedFd};
use std::collections::{BTreeSet, VecDeque};
use std::io;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The most times that are asked for: the latest ones are dropped.
pub(crate) const ASKED_MAX: usize = 1024;
/// The most reads that wait.
pub(crate) const READS_MAX: usize = 1024;

/// The most looks ahead that were not taken: each has as many messages as the members' windows.
pub(crate) const AHEAD_MAX: usize = 16;

/// The most places that wait to be filled.
pub(crate) const BLANKS_MAX: usize = 8;
/// The time after which messages are sent without places, when none comes free: applications keep
/// them all. (On a busy host a process may not run for a tenth of that.)
const STARVES_AFTER: Duration = Duration::from_secs(1);
/// The time between two looks for a place.
const LOOK_EVERY: Duration = Duration::from_micros(200);

/// What is written on the board.
#[derive(Debug, Default)]
pub(crate) struct Notes {
    /// By subgroup, messages that wait for room in the machine, each with its shard.
    pub(crate) sends: Vec<VecDeque<(u16, Payload)>>,
    /// Places for large messages.
    pub(crate) blanks: Vec<Blank>,
    /// The last time at which one was put there.
    pub(crate) blank_at: Option<Instant>,
    /// Letters that wait for room on the way, at most a window.
    pub(crate) letters: VecDeque<(Rank, Vec<u8>)>,
    /// States that the application gave, at most one for each that was wanted.
    pub(crate) states: Vec<(StateWanted, Vec<u8>)>,
    /// The times up to which the application asks for the order of a subgroup to be final.
    pub(crate) asked: BTreeSet<(Time, u16)>,
    /// Reads of the order.
    pub(crate) reads: Reads,
    /// The end of the lease, on the clock of the host.
    pub(crate) lease_until: base::Instant,
    /// The latest time that has led to what is sent.
    pub(crate) learned: Time,
    /// Seats that the application takes for failed.
    pub(crate) suspects: SeatSet,
    /// What the application has not taken.
    pub(crate) events: VecDeque<Event>,
    /// By subgroup, the number of messages that were taken here.
    pub(crate) n_taken: Vec<u64>,
    /// By subgroup, this process's place in it.
    pub(crate) places: Vec<Place>,
    /// The members of the view, if they are fewer than the group wants.
    pub(crate) inadequate: Option<usize>,
    /// The time within which the process ends, if it is asked to leave.
    pub(crate) leave_within: Option<Duration>,
    /// Whether the handle was dropped.
    pub(crate) is_abandoned: bool,
    /// The trouble of the disk, while it has one.
    pub(crate) trouble: Option<String>,
    pub(crate) ended: Option<Ended>,
    /// Whether the application has taken an event since the process looked last.
    pub(crate) has_taken: bool,
}

/// Reads of the order that applications ask for, each by its subgroup and a token.
#[derive(Debug, Default)]
pub(crate) struct Reads {
    /// Those that wait until what is received now is delivered.
    pub(crate) behind: Vec<(u16, u64)>,
    /// The number of all of these that wait.
    pub(crate) n_behind: usize,
    /// Looks at what is held and not delivered.
    pub(crate) ahead: Vec<(u16, u64)>,
    /// The number of those whose event was not taken.
    n_ahead: usize,
}

/// What callers are told of a subgroup, and how its messages travel.
#[derive(Clone, Debug, Default)]
struct Described {
    name: String,
    /// The least members that its shards need.
    least: usize,
    /// Whether large messages go beside its rings (B3).
    is_ordered: bool,
}

fn describe(options: &Options) -> Vec<Described> {
    let is_ordered = options.mode != Mode::Unordered;
    if options.layout.is_empty() {
        let names = layout::names(&options.layout).into_iter();
        return names.map(|name| Described { name, least: 1, is_ordered }).collect();
    }
    let described = |one: &Subgroup| Described {
        name: one.name.clone(),
        least: one.least,
        is_ordered: is_ordered && !one.unordered,
    };
    options.layout.iter().map(described).collect()
}

/// The board; see the module's text.
#[derive(Debug)]
pub(crate) struct Board {
    notes: Mutex<Notes>,
    /// Signals events and the end.
    news: Condvar,
    /// Signals room and the end.
    room: Condvar,
    bell: OwnedFd,
    /// What was sent of large messages over a network.
    relayed: Mutex<Relayed>,
    /// Whether the bell was rung and not heard: a burst of calls costs one system call.
    has_rung: AtomicBool,
    window: usize,
    message_bytes: u32,
    adequate: usize,
    /// Whether the fabric carries large messages as they are.
    is_packed: bool,
    subgroups: Vec<Described>,
    pub(crate) events_max: usize,
    pub(crate) clock: Clock,
}

/// The clock by which leases run.
#[derive(Debug)]
pub(crate) enum Clock {
    /// The host's.
    Host,
    /// One that is set, in simulations.
    Set(AtomicU64),
}

impl Clock {
    pub(crate) fn now(&self) -> base::Instant {
        match self {
            Clock::Host => boot_now(),
            Clock::Set(now) => base::Instant(now.load(Ordering::SeqCst)),
        }
    }

    /// Sets a clock that is set.
    pub(crate) fn set(&self, to: base::Instant) {
        if let Clock::Set(now) = self {
            now.store(to.0, Ordering::SeqCst);
        }
    }
}

impl Board {
    pub(crate) fn new(options: &Options, clock: Clock) -> io::Result<Board> {
        let names = layout::names(&options.layout);
        let notes = Notes {
            sends: vec![VecDeque::new(); names.len()],
            n_taken: vec![0; names.len()],
            places: vec![Place::default(); names.len()],
            ..Notes::default()
        };
        Ok(Board {
            subgroups: describe(options),
            notes: Mutex::new(notes),
            news: Condvar::new(),
            room: Condvar::new(),
            bell: eventfd(0, EventfdFlags::NONBLOCK | EventfdFlags::CLOEXEC)?,
            relayed: Mutex::default(),
            has_rung: AtomicBool::new(false),
            window: options.window as usize,
            message_bytes: options.message_bytes,
            adequate: options.adequate,
            is_packed: matches!(options.transport, Transport::Tcp { .. }),
            events_max: options.events,
            clock,
        })
    }

    pub(crate) fn notes(&self) -> MutexGuard<'_, Notes> {
        // No holder leaves the notes half changed when it panics.
        self.notes.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// What the process has sent of large messages over a network.
    pub(crate) fn relayed(&self) -> MutexGuard<'_, Relayed> {
        self.relayed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    // ---- the calls ----

    /// Takes a message for a shard, which gets a later time than `after`, or waits for room until
    /// `patience` ends.
    pub(crate) fn send(
        &self,
        after: Time,
        id: ShardId,
        message: &[u8],
        patience: Duration,
    ) -> Result<u64, Refused> {
        let (bytes, subgroup) = (message.len(), usize::from(id.subgroup));
        if bytes > self.message_bytes as usize {
            return Err(Refused::TooLong { bytes, most: self.message_bytes });
        }
        let has_room = |notes: &Notes| {
            if notes.leave_within.is_some() {
                return Err(Refused::Leaving);
            }
            if let Some(members) = notes.inadequate {
                return Err(Refused::Inadequate { members, adequate: self.adequate });
            }
            self.check_place(id, notes.places.get(subgroup))?;
            Ok(notes.sends[subgroup].len())
        };
        let is_ordered = self.subgroups.get(subgroup).is_some_and(|one| one.is_ordered);
        let until = (bytes >= LANDED_BYTES_MIN && is_ordered).then(|| deadline(patience));
        let mut notes = self.wait_for_room(patience, has_room)?;
        let message = if let Some(until) = until {
            // B3
            let blank = self.wait_for_blank(notes, until);
            let message = match blank {
                Some(blank) => blank.fill(message),
                None if self.is_packed => Payload::packed(Bulk::copied(message)),
                None => message.into(),
            };
            let left = until.saturating_duration_since(Instant::now());
            notes = self.wait_for_room(left, has_room)?;
            message
        } else {
            message.into()
        };
        notes.learned = notes.learned.max(after);
        notes.sends[subgroup].push_back((id.shard, message));
        notes.n_taken[subgroup] += 1;
        let number = notes.n_taken[subgroup];
        drop(notes);
        self.ring();
        Ok(number)
    }

    /// Whether a message for the shard can be sent by a process with this place in its subgroup.
    fn check_place(&self, id: ShardId, place: Option<&Place>) -> Result<(), Refused> {
        let place = place.filter(|place| place.shard == Some(id.shard));
        if place.is_some_and(|place| place.is_sender && !place.is_inadequate) {
            return Ok(());
        }
        let described = self.subgroups.get(usize::from(id.subgroup));
        let Described { name: subgroup, least, .. } = described.cloned().unwrap_or_default();
        Err(match place {
            Some(place) if !place.is_sender => Refused::NoSender { subgroup },
            Some(_) => Refused::InadequateSubgroup { subgroup, least },
            None => Refused::OtherShard { subgroup, shard: id.shard },
        })
    }

    /// Takes a letter, or waits for room until `patience` ends.
    pub(crate) fn tell_member(
        &self,
        to: Rank,
        letter: &[u8],
        patience: Duration,
    ) -> Result<(), Refused> {
        let (bytes, most) = (letter.len(), LETTER_BYTES_MAX as u32);
        if bytes > LETTER_BYTES_MAX {
            return Err(Refused::TooLong { bytes, most });
        }
        let mut notes = self.wait_for_room(patience, |notes| Ok(notes.letters.len()))?;
        notes.letters.push_back((to, letter.to_vec()));
        drop(notes);
        self.ring();
        Ok(())
    }

    /// The notes, as soon as fewer than a window wait of what `waiting` counts, unless it refuses.
    fn wait_for_room(
        &self,
        patience: Duration,
        waiting: impl Fn(&Notes) -> Result<usize, Refused>,
    ) -> Result<MutexGuard<'_, Notes>, Refused> {
        let mut until = None;
        let mut notes = self.notes();
        loop {
            if let Some(ended) = &notes.ended {
                return Err(ended.clone().into());
            }
            let waiting = waiting(&notes)?;
            // B1
            if waiting < self.window {
                return Ok(notes);
            }
            let until = *until.get_or_insert_with(|| deadline(patience));
            notes = wait(&self.room, notes, until).ok_or(Refused::Busy { waiting })?;
        }
    }

    /// A place for a large message, if there are such places and one comes free until then.
    fn wait_for_blank<'a>(
        &'a self,
        mut notes: MutexGuard<'a, Notes>,
        until: Instant,
    ) -> Option<Blank> {
        loop {
            if let Some(blank) = notes.blanks.pop() {
                return Some(blank);
            }
            let last = notes.blank_at?;
            let now = Instant::now();
            // The window has room: without a place a message goes through the ring, which costs
            // copies.
            if now >= last + STARVES_AFTER || now >= until {
                return None;
            }
            // What others read is given back without a word to this process.
            self.ring();
            let slice = (now + LOOK_EVERY).min(until);
            notes = wait(&self.room, notes, slice).unwrap_or_else(|| self.notes());
        }
    }

    /// The next event; `None` after the timeout, or if all were taken and the last was the end.
    pub(crate) fn next(&self, timeout: Duration) -> Option<Event> {
        let until = deadline(timeout);
        let mut notes = self.notes();
        loop {
            if let Some(event) = notes.events.pop_front() {
                notes.has_taken = true;
                notes.reads.n_ahead -= usize::from(matches!(event, Event::Ahead { .. }));
                let rings = notes.events.len() + 1 == self.events_max;
                drop(notes);
                if rings {
                    self.ring(); // there is room again
                }
                return Some(event);
            }
            if notes.ended.is_some() {
                return None;
            }
            notes = wait(&self.news, notes, until)?;
        }
    }

    /// Takes all events that are there, after a wait for the first one.
    pub(crate) fn take(&self, into: &mut VecDeque<Event>, timeout: Duration) {
        let until = deadline(timeout);
        let mut notes = self.notes();
        while notes.events.is_empty() {
            if notes.ended.is_some() {
                return;
            }
            match wait(&self.news, notes, until) {
                Some(again) => notes = again,
                None => return,
            }
        }
        notes.has_taken = true;
        let rings = notes.events.len() >= self.events_max;
        if notes.reads.n_ahead > 0 {
            let is_look = |event: &&Event| matches!(event, Event::Ahead { .. });
            let n_looks = notes.events.iter().filter(is_look).count();
            notes.reads.n_ahead -= n_looks;
        }
        move_all(&mut notes.events, into);
        drop(notes);
        if rings {
            self.ring(); // there is room again
        }
    }

    /// Waits for what becomes of own message `number` of a subgroup.
    pub(crate) fn wait_fate(
        &self,
        subgroup: usize,
        number: u64,
        timeout: Duration,
    ) -> Result<Fate, Ended> {
        let until = deadline(timeout);
        let mut notes = self.notes();
        loop {
            let place = notes.places.get(subgroup).filter(|place| place.n_own >= number);
            let held = place.and_then(|place| place.answers_in(self.clock.now()));
            if let (Some(place), None) = (place, held) {
                let is_unsent = place.unsent.iter().any(|numbers| numbers.contains(&number));
                return Ok(if is_unsent { Fate::Unsent } else { Fate::Delivered });
            }
            if let Some(ended) = &notes.ended {
                return Err(ended.clone());
            }
            let by = held.map_or(until, |left| until.min(Instant::now() + left));
            match wait(&self.news, notes, by) {
                Some(again) => notes = again,
                None if by < until => notes = self.notes(),
                None => return Ok(Fate::Open),
            }
        }
    }

    /// Takes a read that waits.
    pub(crate) fn catch_up(&self, subgroup: u16, token: u64) -> Result<(), Refused> {
        let mut notes = self.notes();
        if notes.reads.n_behind >= READS_MAX {
            return Err(Refused::Reads { waiting: notes.reads.n_behind });
        }
        notes.reads.behind.push((subgroup, token));
        notes.reads.n_behind += 1;
        drop(notes);
        self.ring();
        Ok(())
    }

    /// Takes a look ahead that is asked for.
    pub(crate) fn look_ahead(&self, subgroup: u16, token: u64) -> Result<(), Refused> {
        let mut notes = self.notes();
        if notes.reads.n_ahead >= AHEAD_MAX {
            return Err(Refused::Reads { waiting: notes.reads.n_ahead });
        }
        notes.reads.ahead.push((subgroup, token));
        notes.reads.n_ahead += 1;
        drop(notes);
        self.ring();
        Ok(())
    }

    /// Asks for an order to be final up to `time`.
    pub(crate) fn ask_final(&self, subgroup: u16, time: Time) {
        self.tell(|notes| {
            notes.asked.insert((time, subgroup));
            if notes.asked.len() > ASKED_MAX {
                notes.asked.pop_last();
            }
        });
    }

    /// Changes the notes, and wakes the process.
    pub(crate) fn tell(&self, change: impl FnOnce(&mut Notes)) {
        change(&mut self.notes());
        self.ring();
    }

    // ---- the process ----

    /// Wakes the threads that wait for events.
    pub(crate) fn announce_news(&self) {
        self.news.notify_all();
    }

    /// Wakes the threads that wait for room.
    pub(crate) fn announce_room(&self) {
        self.room.notify_all();
    }

    /// Wakes all threads that wait (B2): the process has ended.
    pub(crate) fn announce_end(&self) {
        self.announce_news();
        self.announce_room();
    }

    /// The descriptor that is readable after a call.
    pub(crate) fn bell(&self) -> BorrowedFd<'_> {
        self.bell.as_fd()
    }

    /// Notes that the bell was heard: what was written before it will be looked at.
    pub(crate) fn hear(&self) {
        // The counter is only a bell: the calls are on the board.
        let _count = rustix::io::read(&self.bell, &mut [0; 8]);
        self.has_rung.store(false, Ordering::SeqCst);
    }

    fn ring(&self) {
        if !self.has_rung.swap(true, Ordering::SeqCst) {
            // A full counter is a bell that rings already.
            let _rings = rustix::io::write(&self.bell, &1u64.to_ne_bytes());
        }
    }
}

/// Waits until `signal` is given or the time has come, which it is already if there is `None`.
fn wait<'a>(
    signal: &Condvar,
    notes: MutexGuard<'a, Notes>,
    until: Instant,
) -> Option<MutexGuard<'a, Notes>> {
    // B2
    let left = until.saturating_duration_since(Instant::now());
    if left.is_zero() {
        return None;
    }
    let (notes, _) = signal.wait_timeout(notes, left).unwrap_or_else(PoisonError::into_inner);
    Some(notes)
}

/// Moves all events behind those of `to`.
pub(crate) fn move_all(from: &mut VecDeque<Event>, to: &mut VecDeque<Event>) {
    if to.is_empty() {
        std::mem::swap(from, to);
    } else {
        to.append(from);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn board() -> Board {
        Board::new(&Options::shm("test", "sesame", "app 1"), Clock::Host)
            .expect("an event descriptor")
    }

    #[test]
    fn b1_the_latest_times_that_are_asked_for_are_dropped_whichever_subgroup_they_are_of() {
        let board = board();
        let far = |n: usize| Time::from_nanos(u64::MAX - n as u64);
        (0..2 * ASKED_MAX).for_each(|n| board.ask_final(0, far(n)));
        board.ask_final(1, Time::from_nanos(7));
        let notes = board.notes();
        assert_eq!(notes.asked.len(), ASKED_MAX);
        assert_eq!(notes.asked.first(), Some(&(Time::from_nanos(7), 1)));
    }

    #[test]
    fn b1_reads_that_wait_are_bounded_also_those_that_the_process_has_taken() {
        let board = board();
        (0..READS_MAX as u64).for_each(|token| assert_eq!(board.catch_up(0, token), Ok(())));
        let refused = Err(Refused::Reads { waiting: READS_MAX });
        assert_eq!(board.catch_up(0, 0), refused);
        board.notes().reads.behind.clear();
        assert_eq!(board.catch_up(0, 0), refused, "they wait in the process now");
        board.notes().reads.n_behind = 1;
        assert_eq!(board.catch_up(0, 0), Ok(()), "the process has said that all but one are told");
    }

    #[test]
    fn b1_looks_ahead_are_bounded_until_their_events_are_taken() {
        let board = board();
        (0..AHEAD_MAX as u64).for_each(|token| assert_eq!(board.look_ahead(0, token), Ok(())));
        let refused = Err(Refused::Reads { waiting: AHEAD_MAX });
        assert_eq!(board.look_ahead(0, 0), refused);
        board.tell(|notes| {
            let told = notes.reads.ahead.drain(..);
            let told = told.map(|(_, token)| Event::Ahead { token, messages: Vec::new() });
            notes.events.extend(told.collect::<Vec<_>>());
        });
        assert_eq!(board.look_ahead(0, 0), refused, "their events wait");
        assert!(matches!(board.next(Duration::ZERO), Some(Event::Ahead { token: 0, .. })));
        assert_eq!(board.look_ahead(0, 0), Ok(()));
        assert_eq!(board.look_ahead(0, 0), refused);
        board.take(&mut VecDeque::new(), Duration::ZERO);
        (1..AHEAD_MAX as u64).for_each(|token| assert_eq!(board.look_ahead(0, token), Ok(())));
        assert_eq!(board.look_ahead(0, 0), refused, "one waits for the process");
    }

    #[test]
    fn b3_a_large_message_without_a_place_or_time_to_wait_for_one_is_taken() {
        let options = Options { message_bytes: 8192, ..Options::shm("test", "sesame", "app 1") };
        let board = Board::new(&options, Clock::Host).expect("an event descriptor");
        board.tell(|notes| {
            notes.places[0].shard = Some(0);
            notes.places[0].is_sender = true;
            notes.blank_at = Some(Instant::now());
        });
        let send = || board.send(Time::default(), ShardId::default(), &[7; 5000], Duration::ZERO);
        assert_eq!([send(), send()], [Ok(1), Ok(2)]);
    }

    #[test]
    fn b2_an_end_is_not_waited_for_while_others_can_have_leases() {
        let board = board();
        board.tell(|notes| {
            notes.places[0].n_own = 1;
            notes.places[0].answers_from = base::Instant(u64::MAX);
        });
        let fate = |span| board.wait_fate(0, 1, span);
        assert_eq!(fate(Duration::from_millis(1)), Ok(Fate::Open));
        board.tell(|notes| notes.ended = Some(Ended::Partitioned));
        assert_eq!(fate(Duration::from_secs(60)), Err(Ended::Partitioned));
    }
}
