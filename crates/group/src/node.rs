//! The loop of one process: a thread that turns the machine, and sleeps when there is nothing to
//! do.
//!
//! ```text
//! turn:  calls from the board -> the process (engine::group) -> events on the board
//! idle:  announce the sleep; look once more; wait for the fabric, a call, or a deadline
//! ```
//! - N1 *No lost wake-up.* Between `prepare_sleep` and the wait everything is looked at once more
//!   (fabric T9), and the wait ends at the earliest deadline. By construction of `run`.
//! - N2 *Own messages in order.* Those of a subgroup are handed to the machine in the order in
//!   which they were taken, so the n-th of them that is delivered, or told to be unsent, is message
//!   n (`vsync`, V7). One for a shard in which this process is not is unsent.
//! - N3 *Leave in order.* A process asks to leave when everything that it took is delivered here,
//!   or half of the time has passed that it was given for that. It has left in order only if all of
//!   it was delivered in the end. Tested by `n3_what_was_sent_just_before_a_close_is_delivered`,
//!   `n3_a_close_that_leaves_messages_behind_says_so`.
//! - N4 *An end.* The last event is [`Event::Ended`], exactly once, whatever ends the loop.

use crate::board::{BLANKS_MAX, Board, move_all};
use crate::data;
use crate::error::Error;
use crate::event::{Ended, Event, Member, StateWanted, number};
use crate::founding;
use crate::ground::{Place, Standing};
use crate::layout;
use crate::options::{Data, Options};
use crate::probe::Probes;
use crate::seat::{self, Founds, refused};
use crate::teller::Teller;
use crate::time::Time;
use crate::words;
use base::{Instant, SeatSet};
use engine::StableStorage;
use engine::group::{Application, Process};
use fabric::{Fabric, HostFabric, Setup};
use proto::planted::Sound;
use proto::vsync::{self, Knock, Payload, Position, Refused, ShardId, Start};
use runtime::clock::boot_now;
use runtime::disk::LogDisk;
use runtime::{Interest, Poller, Ready};
use std::collections::{BTreeSet, VecDeque};
use std::sync::Arc;
use std::sync::mpsc::SyncSender;
use std::time::Duration;

const KEY_FABRIC: u64 = 0;
const KEY_BELL: u64 = 1;
const KEY_DISK: u64 = 2;
/// The longest sleep.
const SLEEP_MAX: Duration = Duration::from_secs(1);

/// The report that the process is in the group, or why it is not.
pub(crate) type Report = SyncSender<Result<Member, Error>>;

/// Runs the process until it is no longer in the group. All of it happens on this thread: the
/// kernel reports the end of the thread that opened the fabric.
pub(crate) fn run(options: &Options, founds: Founds, board: &Arc<Board>, report: &Report) {
    let served = seat::take(options, founds)
        .and_then(|(setup, fabric)| serve(options, founds, &setup, fabric, board, report));
    if let Err(error) = served {
        // A process that was in the group has reported already; its end says the rest.
        let _heard = report.try_send(Err(error));
    }
}

fn serve(
    options: &Options,
    founds: Founds,
    setup: &Setup,
    fabric: HostFabric,
    board: &Arc<Board>,
    report: &Report,
) -> Result<(), Error> {
    let disk = match data::open(options, founds) {
        Ok(disk) => disk,
        Err(why) => {
            // The seat is given back.
            words::remove(options, setup.me);
            let _closed = fabric.remove();
            return Err(why);
        }
    };
    let mut place = Place::new(fabric, disk);
    let ended = begin(options, founds, setup, &mut place, board)
        .and_then(|mut node| node.run(&mut place, report).map(|ended| (node, ended)));
    let seat = number(setup.me);
    if let Ok((node, _)) = &ended {
        // Before the others know of the end (`vsync::landing`, V22).
        node.process.copy_held();
    }
    words::remove(options, setup.me);
    let closed = place.fabric.remove().map_err(|source| Error::Open { seat, source });
    // The end is told when the seat is free again.
    let (mut node, ended) = ended?;
    node.finish(ended);
    closed
}

fn begin(
    options: &Options,
    founds: Founds,
    setup: &Setup,
    place: &mut Place,
    board: &Arc<Board>,
) -> Result<Node, Error> {
    let mut poller = Poller::new().map_err(Error::os("make a poller"))?;
    let watched = poller
        .add(place.fabric.wait_fd(), KEY_FABRIC, Interest::Read)
        .and_then(|()| poller.add(board.bell(), KEY_BELL, Interest::Read))
        .and_then(|()| match &place.disk {
            Some(disk) => poller.add(disk.wait_fd(), KEY_DISK, Interest::Read),
            None => Ok(()),
        });
    watched.map_err(Error::os("watch descriptors"))?;
    let me = Knock { seat: setup.me, incarnation: setup.incarnation, metadata: options.metadata };
    let start = match founds {
        Founds::Yes => {
            let living = seat::living(options, me.seat);
            founding::ask(place, &mut poller, me.seat, &living)?;
            Start::Found(vec![me])
        }
        Founds::No => Start::Join,
    };
    let config = vsync::Config {
        me,
        start,
        shape: options.shape(),
        timing: options.timing,
        n_adequate: options.adequate,
        keeps_state: options.keeps_state,
        lease: options.lease,
        group: data::new_name(),
        keep_bytes: options.data.as_ref().map_or(Data::KEEP_BYTES, |data| data.keep_bytes),
        layout: layout::described(&options.layout),
    };
    let process = match &mut place.disk {
        None => Process::new(config, boot_now()),
        Some(disk) => Process::on(config, disk, Sound, boot_now()).map_err(|_| {
            let why = disk.failure().unwrap_or("it has the records of something else").to_owned();
            data::refused(options.data.as_ref().map_or("".as_ref(), |data| &data.directory), why)
        })?,
    };
    Ok(Node {
        process,
        app: Teller::new(me, options),
        board: Arc::clone(board),
        options: options.clone(),
        poller,
        ready: Vec::new(),
        probes: Probes::new(&options.transport),
        full_since: None,
        is_leaving: false,
        leave_by: None,
        leave_from: None,
        is_abandoned: false,
        is_inside: false,
        n_taken: vec![0; options.layout.len().max(1)],
        reads: Vec::new(),
        aheads: Vec::new(),
    })
}

/// The loop; see the module's text.
struct Node {
    process: Process,
    app: Teller,
    board: Arc<Board>,
    options: Options,
    poller: Poller,
    ready: Vec<Ready>,
    probes: Probes,
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
    /// Whether the process was in a view.
    is_inside: bool,
    /// The number of messages that the application has sent in each subgroup.
    n_taken: Vec<u64>,
    /// Reads that wait for deliveries: the subgroup, the token, and the position.
    reads: Vec<(u16, u64, Option<Position>)>,
    /// Looks ahead that were asked for: the subgroup, and the token.
    aheads: Vec<(u16, u64)>,
}

impl Node {
    fn run(&mut self, place: &mut Place, report: &Report) -> Result<Ended, Error> {
        let join_by = boot_now().plus(self.options.patience);
        loop {
            let (_, worked) = self.advance(place);
            if let Some(ended) = self.look_around(place, join_by, report)? {
                return Ok(ended);
            }
            if worked {
                continue;
            }
            // N1
            place.fabric.prepare_sleep();
            let (due, worked) = self.advance(place);
            let wait_for_view = (!self.is_inside).then_some(join_by);
            let leave_from = self.leave_from.filter(|_| !self.is_leaving);
            let deadlines = [self.leave_by, leave_from, wait_for_view].into_iter().flatten();
            let next = deadlines.fold(due, Instant::min);
            let look = place.disk.as_ref().and_then(LogDisk::look_within).unwrap_or(SLEEP_MAX);
            let idle = next.since(boot_now()).min(look);
            let is_busy = worked || self.app.ended.is_some();
            let span = if is_busy { Duration::ZERO } else { idle };
            let waited = self.poller.wait(Some(span), &mut self.ready);
            place.fabric.awake();
            if let Err(error) = waited {
                return Ok(Ended::Os(error.to_string()));
            }
            if self.ready.iter().any(|ready| ready.key == KEY_BELL) {
                self.board.hear();
            }
        }
    }

    /// Whether the process has ended, or has to; and whether it may still be let in.
    fn look_around(
        &mut self,
        place: &Place,
        join_by: Instant,
        report: &Report,
    ) -> Result<Option<Ended>, Error> {
        if !self.is_inside && self.app.view.is_some() {
            self.is_inside = true;
            let _hears = report.try_send(Ok(Member::of(&self.app.me)));
        }
        match self.app.ended.take() {
            Some(ended) if self.is_inside => return Ok(Some(ended)),
            Some(ended) => return Err(ended.into()),
            None => {}
        }
        if !self.is_inside {
            self.check_join(place, join_by)?;
        }
        if let Some(why) = place.disk.as_ref().and_then(LogDisk::failure) {
            return Ok(Some(Ended::Os(why.to_owned())));
        }
        Ok(self.overdue())
    }

    /// Whether this process may still be let in.
    fn check_join(&self, place: &Place, join_by: Instant) -> Result<(), Error> {
        if let Some((seat, why)) = seat::never_met(&place.fabric) {
            return Err(refused(&self.options, seat, why));
        }
        if boot_now() < join_by {
            return Ok(());
        }
        let (name, patience) = (self.options.name.clone(), self.options.patience);
        Err(Error::NoAnswer { name, patience, said: seat::said(&place.fabric) })
    }

    /// The end of a process whose handle was dropped, or that could not leave in time.
    fn overdue(&self) -> Option<Ended> {
        if self.is_abandoned {
            return Some(Ended::LeftInHaste);
        }
        let is_late = self.leave_by.is_some_and(|by| by <= boot_now());
        let patience = self.options.patience;
        let ended =
            if self.app.is_sluggish { Ended::Sluggish(patience) } else { Ended::LeftInHaste };
        is_late.then_some(ended)
    }

    /// Everything that can be done without waiting. Returns when it has to be done again, and
    /// whether something happened.
    fn advance(&mut self, place: &mut Place) -> (Instant, bool) {
        let mut worked = self.take_calls(place);
        worked |= self.send_letters(place);
        let now = boot_now();
        let turn = self.process.turn(now, place, &mut self.app);
        worked |= turn.worked;
        let broken = std::mem::replace(&mut place.broken, SeatSet::EMPTY);
        self.probes.look_at(broken, &self.board);
        place.standing = match &self.app.view {
            Some(view) if self.app.ended.is_none() => Standing::Inside(view.number),
            Some(_) | None => Standing::Outside,
        };
        self.take_letters(place);
        self.tell_reads();
        self.show_ahead(place);
        self.tell(now, place.disk.as_ref().and_then(LogDisk::trouble));
        (turn.due, worked)
    }

    /// Sends letters, as far as there is room on the way to each. One to a process that is no
    /// member is lost.
    fn send_letters(&self, place: &mut Place) -> bool {
        let mut notes = self.board.notes();
        let (before, mut full) = (notes.letters.len(), SeatSet::EMPTY);
        notes.letters.retain(|(to, letter)| {
            let is_member = self.app.view.as_ref().is_some_and(|view| view.has(*to));
            if is_member && !full.contains(*to) && !place.send_letter(*to, letter) {
                full.insert(*to);
            }
            is_member && full.contains(*to)
        });
        let is_any = notes.letters.len() < before;
        drop(notes);
        if is_any {
            self.board.announce(); // there is room
        }
        is_any
    }

    /// Makes events of the letters of members. An application that is full loses them.
    fn take_letters(&mut self, place: &mut Place) {
        for (from, bytes) in place.letters.drain(..) {
            let from = self.app.view.as_ref().and_then(|view| view.member(from));
            if let Some(from) = from.filter(|_| !self.app.is_full) {
                self.app.events.push_back(Event::Letter { from, bytes });
            }
        }
    }

    /// Takes what was asked for on the board.
    fn take_calls(&mut self, place: &Place) -> bool {
        let mut notes = self.board.notes();
        let mut worked = false;
        while notes.blanks.len() < BLANKS_MAX
            && let Some(blank) = self.process.blank(place)
        {
            notes.blanks.push(blank);
            notes.blank_at = Some(std::time::Instant::now());
            worked = true;
        }
        self.process.learn(notes.learned.into());
        for (subgroup, sends) in (0..).zip(&mut notes.sends) {
            worked |= take_sends(&mut self.process, &mut self.app, subgroup, sends);
        }
        for (StateWanted { to, shard, at }, bytes) in notes.states.drain(..) {
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
        if let (Some(by), None) = (notes.leave_by, self.leave_by) {
            let left = by.saturating_duration_since(std::time::Instant::now());
            let now = boot_now();
            self.leave_by = Some(now.plus(left));
            self.leave_from = Some(now.plus(left / 2));
        }
        drop(notes);
        if worked {
            self.board.announce(); // there may be room
        }
        self.leave_if_due() || worked
    }

    /// N3
    fn leave_if_due(&mut self) -> bool {
        let Some(from) = self.leave_from.filter(|_| !self.is_leaving) else { return false };
        if !self.is_settled() && boot_now() < from {
            return false;
        }
        self.is_leaving = true;
        self.process.leave();
        true
    }

    /// Whether everything that was taken from the application is delivered here, or never sent.
    fn is_settled(&self) -> bool {
        let mut subgroups = self.app.places.iter().zip(&self.n_taken);
        subgroups.all(|(place, n_taken)| place.n_own >= *n_taken)
    }

    /// Writes the events of a turn on the board, and looks at how the application takes them.
    fn tell(&mut self, now: Instant, trouble: Option<&str>) {
        if self.is_inside && self.app.ended.is_none() {
            *self.board.relayed() = self.process.relayed();
        }
        let mut notes = self.board.notes();
        tell_finals(&self.process, &mut self.app, &mut notes.asked);
        if notes.trouble.as_deref() != trouble {
            notes.trouble = trouble.map(str::to_owned);
        }
        let is_news = !self.app.events.is_empty();
        move_all(&mut self.app.events, &mut notes.events);
        notes.places.clone_from(&self.app.places);
        notes.lease_until = self.process.lease_until();
        notes.reads.n_behind = notes.reads.behind.len() + self.reads.len();
        notes.inadequate = self.app.inadequate;
        self.app.is_full = notes.events.len() >= self.board.events_max;
        let takes = std::mem::take(&mut notes.has_taken);
        drop(notes);
        if is_news {
            self.board.announce();
        }
        let since = self.full_since.filter(|_| !takes).unwrap_or(now);
        self.full_since = self.app.is_full.then_some(since);
        let is_sluggish = self.app.is_full && now.since(since) > self.options.patience;
        if is_sluggish && self.leave_by.is_none() {
            // It does not wait for deliveries that are not taken.
            self.leave_by = Some(now.plus(self.options.patience / 2));
            self.app.is_sluggish = true;
            self.is_leaving = true;
            self.process.leave();
        }
    }

    /// Tells what is held and not delivered, where that was asked for.
    fn show_ahead(&mut self, place: &Place) {
        for (subgroup, token) in self.aheads.drain(..) {
            let ahead = self.process.ahead(subgroup.into(), place);
            self.app.show_ahead(token, subgroup, ahead);
        }
    }

    /// Tells which reads have everything that they wait for: behind what was delivered.
    fn tell_reads(&mut self) {
        for (subgroup, place) in self.app.places.iter_mut().enumerate() {
            place.answers_from = self.process.answers_from(subgroup);
        }
        let (process, events) = (&self.process, &mut self.app.events);
        self.reads.retain_mut(|(subgroup, token, held)| {
            let subgroup = usize::from(*subgroup);
            *held = held.or_else(|| process.held(subgroup));
            let (Some(held), Some(delivered)) = (*held, process.position(subgroup)) else {
                return false; // it is in no view, or in no shard
            };
            if delivered >= held {
                events.push_back(Event::CaughtUp { token: *token, view: delivered.view.0 });
            }
            delivered < held
        });
    }

    /// N4
    fn finish(&mut self, ended: Ended) {
        let is_in_haste = ended == Ended::Left && !self.is_settled(); // N3
        let ended = if is_in_haste { Ended::LeftInHaste } else { ended };
        let mut notes = self.board.notes();
        move_all(&mut self.app.events, &mut notes.events);
        notes.events.push_back(Event::Ended(ended.clone()));
        notes.ended = Some(ended);
        drop(notes);
        self.board.announce();
    }
}

/// Tells which of the times that were asked for have come: behind what was delivered.
fn tell_finals(process: &Process, app: &mut Teller, asked: &mut BTreeSet<(Time, u16)>) {
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
fn take_sends(
    process: &mut Process,
    app: &mut Teller,
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
            }
            Err(Refused::OtherShard) => app.unsent(id, 1),
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
