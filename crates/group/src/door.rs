//! The door itself: a process of a group on a thread of its own, and calls from any other thread.

use crate::board::{Board, Clock};
use crate::data;
use crate::deadline::deadline;
use crate::error::{Error, Refused};
use crate::event::{Ended, Event, Fate, Member, StateWanted};
use crate::node;
use crate::options::Options;
use crate::seat::Founds;
use crate::time::Time;
use base::Rank;
use proto::vsync::{Relayed, ShardId};
use std::collections::VecDeque;
use std::sync::Arc;
use std::sync::mpsc::{RecvTimeoutError, sync_channel};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

/// The time beyond the patience, and beyond what a log may take to be read, after which a thread
/// that says nothing is given up: its own deadlines come first.
const GRACE: Duration = Duration::from_secs(10);

/// A process's membership in a group, as views and messages of bytes. Dropping it ends the process
/// at once, and the others take it
/// for failed; [`Group::close`] leaves in order.
///
/// ```
/// use group::{Event, Group, Options};
/// use std::time::Duration;
///
/// type Problem = Box<dyn std::error::Error + Send + Sync>;
///
/// /// What one process of the group does: here each on a thread, elsewhere each on its own.
/// fn member(group: &Group, greeting: &str) -> Result<Vec<String>, Problem> {
///     let (mut heard, mut has_spoken) = (Vec::new(), false);
///     while heard.len() < 3 {
///         match group.next(Duration::from_secs(10)).ok_or("nothing happens")? {
///             Event::View(view) => {
///                 println!("{view}"); // view 2: seats 1 2; joined 2; survives no failure
///                 if view.members.len() == 3 && !has_spoken {
///                     has_spoken = true;
///                     group.send(greeting.as_bytes())?;
///                 }
///             }
///             Event::Delivered(message) => heard.push(String::from_utf8(message.bytes.to_vec())?),
///             Event::Ended(why) => return Err(why.into()),
///             Event::Inadequate { .. }
///             | Event::InadequateSubgroup { .. }
///             | Event::Unsent { .. }
///             | Event::Letter { .. }
///             | Event::StateWanted(_)
///             | Event::State { .. }
///             | Event::Final { .. }
///             | Event::CaughtUp { .. }
///             | Event::Ahead { .. } => {}
///         }
///     }
///     Ok(heard)
/// }
///
/// # let directory = tempfile::Builder::new().prefix("gregale-").tempdir_in("/dev/shm")?;
/// let options = Options::shm("greeters", "only the greeters know this", "greeter 1");
/// # let options = Options { directory: directory.path().into(), ..options };
/// let groups = [Group::found(&options)?, Group::join(&options)?, Group::join(&options)?];
/// std::thread::scope(|scope| {
///     let run = |(group, word)| scope.spawn(move || member(group, word));
///     let members: Vec<_> = groups.iter().zip(["hello", "salut", "ciao"]).map(run).collect();
///     let heard: Vec<_> = members.into_iter().map(|one| one.join().unwrap().unwrap()).collect();
///     assert!(heard.iter().all(|one| *one == heard[0]), "one order: {heard:?}");
/// });
/// for group in groups {
///     group.close(Duration::from_secs(5))?;
/// }
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[derive(Debug)]
pub struct Group {
    board: Arc<Board>,
    me: Member,
    thread: Option<JoinHandle<()>>,
}

impl Group {
    /// Founds the group: its first view has this process alone.
    ///
    /// # Errors
    /// [`Error`]; among others if a process that can be reached is in the group already. Nothing is
    /// left behind.
    pub fn found(options: &Options) -> Result<Group, Error> {
        Group::begin(options, Founds::Yes)
    }

    /// Joins the group, with any member's help. Returns when this process is in a view.
    ///
    /// # Errors
    /// [`Error`]; among others if no member lets it in within [`Options::patience`], and if it has
    /// another secret, version or configuration. Nothing is left behind.
    pub fn join(options: &Options) -> Result<Group, Error> {
        Group::begin(options, Founds::No)
    }

    fn begin(options: &Options, founds: Founds) -> Result<Group, Error> {
        options.check()?;
        let board =
            Board::new(options, Clock::Host).map_err(Error::os("make an event descriptor"))?;
        let board = Arc::new(board);
        let (report, reported) = sync_channel(1);
        let (ours, theirs) = (Arc::clone(&board), options.clone());
        let reading = data::reading_max(options);
        let body = move || {
            let last = Last(Arc::clone(&ours));
            node::run(&theirs, founds, &ours, &report);
            drop(last);
        };
        let thread = std::thread::Builder::new().name(format!("group-{}", options.name));
        let thread = thread.spawn(body).map_err(Error::os("start a thread"))?;
        let within = options.patience.saturating_add(GRACE).saturating_add(reading);
        let reported = reported.recv_timeout(within).unwrap_or_else(|error| {
            let why = match error {
                RecvTimeoutError::Timeout => format!("its thread says nothing for {within:?}"),
                RecvTimeoutError::Disconnected => "its thread has panicked".to_owned(),
            };
            Err(Ended::Os(why).into())
        });
        match reported {
            Ok(me) => Ok(Group { board, me, thread: Some(thread) }),
            Err(error) => {
                board.tell(|notes| notes.is_abandoned = true);
                // A thread that reported ends at once; one that hangs is not waited for.
                if thread.is_finished() || !matches!(error, Error::Ended(Ended::Os(_))) {
                    let _panicked = thread.join();
                }
                Err(error)
            }
        }
    }

    /// The process `me`, which no thread runs.
    pub(crate) const fn run_by_its_caller(board: Arc<Board>, me: Member) -> Group {
        Group { board, me, thread: None }
    }

    /// This process.
    pub const fn me(&self) -> Member {
        self.me
    }

    /// Multicasts `message` to the view (in a group with a layout, to shard 0 of its first
    /// subgroup; see [`Group::send_in`]): every member delivers it, this process too, unless this
    /// process is no longer in the group first. Returns the number of the message, from 1; it is
    /// safe when it is delivered here ([`crate::Delivered::own`], [`Group::wait_delivered`]).
    ///
    /// # Errors
    /// [`Refused`], at once: nothing of the message left this process.
    pub fn send(&self, message: &[u8]) -> Result<u64, Refused> {
        self.send_within(message, Duration::ZERO)
    }

    /// The same, and waits for room for as long as `patience`.
    ///
    /// # Errors
    /// [`Refused`]: nothing of the message left this process.
    pub fn send_within(&self, message: &[u8], patience: Duration) -> Result<u64, Refused> {
        self.send_after(Time::default(), ShardId::default(), message, patience)
    }

    /// Multicasts `message` in a shard that this process is in: every member of it delivers it, and
    /// no other one. Returns the number of the message among those of its subgroup, from 1. If the
    /// process is moved out of the shard before the message is on its way, [`Event::Unsent`] says
    /// so: it never reaches another shard.
    ///
    /// # Errors
    /// [`Refused`], after at most `patience`: nothing of the message left this process.
    pub fn send_in(
        &self,
        shard: ShardId,
        message: &[u8],
        patience: Duration,
    ) -> Result<u64, Refused> {
        self.send_after(Time::default(), shard, message, patience)
    }

    /// The same, of what something of the time `after` has led to ([`Group::learn`]).
    pub(crate) fn send_after(
        &self,
        after: Time,
        shard: ShardId,
        message: &[u8],
        patience: Duration,
    ) -> Result<u64, Refused> {
        self.board.send(after, shard, message, patience)
    }

    /// Waits for what becomes of the message with this number in a subgroup ([`Group::send_in`]).
    ///
    /// # Errors
    /// [`Ended`]: the message may be delivered by others, or never.
    pub fn wait_fate(&self, subgroup: u16, number: u64, timeout: Duration) -> Result<Fate, Ended> {
        self.board.wait_fate(subgroup.into(), number, timeout)
    }

    /// Waits until the message with this number is delivered here, which says that every member of
    /// the view has it, and that no later view goes without it. False after the timeout.
    ///
    /// # Errors
    /// [`Ended`]: the message may be delivered by others, or never.
    pub fn wait_delivered(&self, number: u64, timeout: Duration) -> Result<bool, Ended> {
        Ok(self.board.wait_fate(0, number, timeout)? == Fate::Delivered)
    }

    /// The next event; `None` after the timeout, and for good after [`Event::Ended`].
    pub fn next(&self, timeout: Duration) -> Option<Event> {
        self.board.next(timeout)
    }

    /// Appends all events that are there to `into`, after a wait for the first one.
    pub fn take(&self, into: &mut VecDeque<Event>, timeout: Duration) {
        self.board.take(into, timeout);
    }

    /// Sends a letter to the member on `seat` alone: an [`Event::Letter`] there. It comes once or
    /// not at all: it is lost with the link, with the member, and if the other application has no
    /// room.
    ///
    /// # Errors
    /// [`Refused`]: nothing of the letter left this process. No letter is longer than
    /// [`crate::LETTER_BYTES_MAX`].
    pub fn tell(&self, seat: usize, letter: &[u8]) -> Result<(), Refused> {
        self.tell_within(seat, letter, Duration::ZERO)
    }

    /// The same, and waits for room for as long as `patience`.
    ///
    /// # Errors
    /// [`Refused`]: nothing of the letter left this process.
    pub fn tell_within(
        &self,
        seat: usize,
        letter: &[u8],
        patience: Duration,
    ) -> Result<(), Refused> {
        match Rank::numbered(seat) {
            Some(seat) => self.board.tell_member(seat, letter, patience),
            None => Ok(()), // no such member: it is lost
        }
    }

    /// Asks to be told when the order of the own shard of a subgroup is final up to `time`: by
    /// [`Event::Final`], behind every message that has that time or an earlier one. It takes about
    /// a beat ([`crate::Timing`]) after the clocks of all members' hosts show the time. A process
    /// that is moved meanwhile is told of its next shard.
    pub fn ask_final(&self, subgroup: u16, time: Time) {
        self.board.ask_final(subgroup, time);
    }

    /// Asks to be told, by [`Event::CaughtUp`], when everything is delivered in a subgroup that
    /// this process has received now: what was answered before by any member of its shard is a
    /// part of it. A read from what is there then is linearizable, if the process
    /// [`Group::has_lease`] behind it. (With `keeps_state`: once it has the state. Each call has an
    /// event of its own, beyond [`crate::Options::events`]; a process that is in no shard of the
    /// subgroup is told nothing.)
    ///
    /// # Errors
    /// [`Refused::Reads`]: 1024 calls wait already.
    pub fn catch_up(&self, subgroup: u16, token: u64) -> Result<(), Refused> {
        self.board.catch_up(subgroup, token)
    }

    /// Asks to be told, by [`Event::Ahead`], what this process holds of the order of its shard of a
    /// subgroup beyond what it has been delivered. That may be cut off when the view ends. Nothing
    /// is held of a subgroup in which the process has no shard, and without an order.
    ///
    /// # Errors
    /// [`Refused::Reads`]: the events of 16 calls were not taken.
    pub fn look_ahead(&self, subgroup: u16, token: u64) -> Result<(), Refused> {
        self.board.look_ahead(subgroup, token)
    }

    /// Whether this process may answer a read of its shard of a subgroup now, which had caught up
    /// in `view` ([`Event::CaughtUp`], [`Options::lease`]). It has been in the shard since then.
    pub fn has_lease(&self, subgroup: u16, view: u64) -> bool {
        let notes = self.board.notes();
        let is_free = notes.places.get(usize::from(subgroup)).is_some_and(|place| {
            place.answers_in(self.board.clock.now()).is_none() && place.is_in_since(view)
        });
        // The clock is read last, behind the read (`vsync`, E1).
        is_free && notes.ended.is_none() && self.board.clock.now() < notes.lease_until
    }

    /// How long updates of a subgroup must not be answered yet, which others may have leases
    /// against. ([`Group::wait_fate`] waits for it.)
    pub fn answers_in(&self, subgroup: u16) -> Option<Duration> {
        let now = self.board.clock.now();
        self.board.notes().places.get(usize::from(subgroup))?.answers_in(now)
    }

    /// Takes it that something of this time has led to what is sent from now on, which gets later
    /// times. (What was delivered to this process has done so anyhow.) Give no other times than
    /// those that a group has told: one that is ahead takes the group along for good.
    ///
    /// # Errors
    /// [`Refused::FarTime`] for a time that is ahead of this host's clock by more than a day:
    /// nothing is learned.
    pub fn learn(&self, time: Time) -> Result<(), Refused> {
        time.check_near()?;
        let mut notes = self.board.notes();
        notes.learned = notes.learned.max(time);
        Ok(())
    }

    /// Gives a newcomer the state that [`Event::StateWanted`] asked for.
    pub fn give(&self, wanted: StateWanted, state: Vec<u8>) {
        self.board.tell(|notes| notes.states.push((wanted, state)));
    }

    /// The trouble of this process's disk, while it has one: it is full, or takes long. Meanwhile
    /// nothing is delivered in the shards that this process is in.
    pub fn trouble(&self) -> Option<String> {
        self.board.notes().trouble.clone()
    }

    /// What this process has sent of large messages over tcp, and what it has relayed for others.
    pub fn relayed(&self) -> Relayed {
        *self.board.relayed()
    }

    /// Takes it that the member on `seat` has failed: it is excluded, whether it has or not.
    pub fn suspect(&self, seat: usize) {
        if let Some(seat) = Rank::numbered(seat) {
            self.board.tell(|notes| {
                notes.suspects.insert(seat);
            });
        }
    }

    /// Asks to leave, when everything that this process sent is delivered, or half of `patience`
    /// has passed: [`Event::Ended`] follows within `patience`. Take the events until then.
    pub fn leave(&self, patience: Duration) {
        self.board.tell(|notes| {
            notes.leave_within.get_or_insert(patience);
        });
        self.board.announce_room(); // what waits for some is refused now
    }

    /// Is gone from the group at once; the others take this process for failed.
    pub(crate) fn abandon(&self) {
        self.board.tell(|notes| notes.is_abandoned = true);
    }

    /// Leaves in order, and drops the events that come until then. Everything that was sent before
    /// is delivered then; half of `patience` is for that.
    ///
    /// # Errors
    /// The other reason why the process is no longer in the group.
    pub fn close(mut self, patience: Duration) -> Result<(), Ended> {
        self.leave(patience);
        let until = deadline(patience) + GRACE;
        let mut last = None;
        while let Some(event) = self.next(until.saturating_duration_since(Instant::now())) {
            if let Event::Ended(ended) = event {
                last = Some(ended);
            }
        }
        let last = last.or_else(|| self.board.notes().ended.clone());
        self.join_thread();
        match last {
            Some(Ended::Left) => Ok(()),
            Some(ended) => Err(ended),
            None => Err(Ended::LeftInHaste),
        }
    }

    fn join_thread(&mut self) {
        self.abandon();
        if let Some(Err(panic)) = self.thread.take().map(JoinHandle::join)
            && !std::thread::panicking()
        {
            std::panic::resume_unwind(panic);
        }
    }
}

impl Drop for Group {
    fn drop(&mut self) {
        self.join_thread();
    }
}

/// The end of the thread: whatever ends it, no other thread waits for it.
struct Last(Arc<Board>);

impl Drop for Last {
    fn drop(&mut self) {
        let mut notes = self.0.notes();
        if notes.ended.is_none() {
            let ended = Ended::Os("the thread of the process has ended".to_owned());
            notes.events.push_back(Event::Ended(ended.clone()));
            notes.ended = Some(ended);
        }
        drop(notes);
        self.0.announce_end();
    }
}
