//! A process with objects: one copy for each subgroup that has an object here, and the thread that
//! executes what is delivered.

use super::aheads::Aheads;
use super::bugs::Bug;
use super::calls::{Calls, Owed, Waiter, told};
use super::codec::{CALL_HEAD_BYTES, Sent, Undecodable, decode_call, encode_call_bytes};
use super::copy::{Call, Part, Replying};
use super::current::Current;
use super::done::{Done, Kind, Known};
use super::finals::{Finals, Held};
use super::gather::NoReply;
use super::handler::{in_handler, is_in_handler};
use super::late::{self, Late};
use super::letters::{Again, Letter, NoAnswer, outcome};
use super::local::Here;
use super::pending::Outcome;
use crate::deadline::deadline;
use crate::door::Group;
use crate::error::{Error, Refused};
use crate::event::{Delivered, Ended, Event, Member, View};
use crate::ground::LETTER_BYTES_MAX;
use crate::layout;
use crate::options::Options;
use crate::time::Time;
use proto::vsync::ShardId;
use std::collections::{BTreeMap, VecDeque};
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

/// The longest wait for events, behind which nothing is looked for but more events.
const LOOK_EVERY: Duration = Duration::from_secs(60);

/// The time after which a time is asked for again that may have been dropped.
const ASK_AGAIN_EVERY: Duration = Duration::from_millis(500);

/// The longest arguments, or result, of which a letter has room beside its head.
pub(super) const BODY_BYTES_MAX: usize = LETTER_BYTES_MAX - 64;

/// What the clones of replicas share with the executing thread (`owner`).
pub(super) struct Host {
    pub(super) group: Group,
    pub(super) calls: Calls,
    /// By subgroup; without one the subgroup has no object here.
    parts: Vec<Option<Arc<dyn Part>>>,
    names: Vec<String>,
    pub(super) options: Options,
    pub(super) current: Current,
    /// Whether a copy that was given could not be read.
    pub(super) is_unreadable: AtomicBool,
    finals: Finals,
    pub(super) done: Done,
    late: Late,
    /// Callers that miss this process's reply, by the tokens of reads that tell when to look.
    again: Mutex<BTreeMap<u64, (Member, Again)>>,
    /// By subgroup, outcomes that others may have leases against, in order, with their tickets.
    owed: Mutex<BTreeMap<u16, VecDeque<(u64, Outcome)>>>,
    pub(super) aheads: Aheads,
    /// Reads that wait until what was received is executed, and the view in which it is.
    reads: Mutex<BTreeMap<u64, Option<u64>>>,
    /// The latest time that this process knows of (O5).
    latest: AtomicU64,
    /// None but in a simulation.
    planted: Option<Bug>,
}

impl Host {
    /// The host of a process in its first view, which is to be [`Host::install`]ed.
    pub(super) fn new(
        group: Group,
        options: &Options,
        parts: Vec<Option<Arc<dyn Part>>>,
        view: View,
        planted: Option<Bug>,
    ) -> Host {
        Host {
            planted,
            calls: Calls::new(group.me().incarnation, parts.len()),
            names: layout::names(&options.layout),
            options: options.clone(),
            parts,
            group,
            current: Current::new(view),
            is_unreadable: AtomicBool::new(false),
            finals: Finals::default(),
            done: Done::default(),
            late: Late::default(),
            again: Mutex::default(),
            owed: Mutex::default(),
            aheads: Aheads::default(),
            reads: Mutex::default(),
            latest: AtomicU64::new(0),
        }
    }

    /// Whether the mistake is planted.
    pub(super) fn has(&self, bug: Bug) -> bool {
        self.planted == Some(bug)
    }

    /// Wakes the threads that wait for the view, or for what the process has besides.
    pub(super) fn announce(&self) {
        self.current.announce();
    }

    pub(super) fn view(&self) -> MutexGuard<'_, View> {
        self.current.view()
    }

    /// Waits until `holds` of the view, or of what the process has besides; `None` after the
    /// timeout.
    pub(super) fn wait_view(
        &self,
        holds: impl Fn(&View) -> bool,
        timeout: Duration,
    ) -> Option<MutexGuard<'_, View>> {
        self.current.wait(holds, timeout)
    }

    /// Waits until every object here is settled.
    pub(super) fn wait_settled(&self, by: Instant, options: &Options) -> Result<(), Error> {
        let is_settled = || self.parts.iter().flatten().all(|part| part.is_settled());
        let holds = |_: &View| is_settled() || self.calls.check().is_err();
        let left = by.saturating_duration_since(Instant::now());
        let waited = self.wait_view(holds, left).is_some();
        if self.is_unreadable.load(Ordering::SeqCst) {
            let why = "the copy that was given cannot be read: do the programs differ, or has the \
                       object's type serde's skip_serializing_if, flatten, untagged or tag?";
            return Err(Error::NoState(why.into()));
        }
        self.calls.check()?;
        if !waited && !is_settled() {
            return Err(no_state(options));
        }
        Ok(())
    }

    /// [`Options::patience`].
    pub(super) const fn patience(&self) -> Duration {
        self.options.patience
    }

    /// The longest arguments of a call that another member makes: a letter has room for it, and a
    /// message.
    pub(super) fn arguments_max(&self) -> usize {
        let most = (self.options.message_bytes as usize).saturating_sub(CALL_HEAD_BYTES);
        most.min(BODY_BYTES_MAX)
    }

    /// The wait for room. O3: room comes by deliveries, for which a handler would wait.
    pub(super) fn send_patience(&self) -> Duration {
        if is_in_handler() { Duration::ZERO } else { self.patience() }
    }

    /// Whether members have leases.
    pub(super) const fn has_leases(&self) -> bool {
        self.options.lease.is_some()
    }

    /// The group's name and its secret, which its clients have to know.
    pub(super) fn access(&self) -> (&str, &str) {
        (&self.options.name, &self.options.secret)
    }

    /// The name of a subgroup; empty in a group without a layout.
    pub(super) fn name_of(&self, subgroup: u16) -> &str {
        let name =
            self.names.get(usize::from(subgroup)).filter(|_| !self.options.layout.is_empty());
        name.map_or("", String::as_str)
    }

    pub(super) fn part(&self, subgroup: u16) -> Option<&Arc<dyn Part>> {
        self.parts.get(usize::from(subgroup))?.as_ref()
    }

    /// Follows the process into a view. An error ends the process.
    pub(super) fn install(&self, view: View) -> Result<(), Ended> {
        let seat = self.group.me().seat;
        for (subgroup, part) in (0..).zip(&self.parts) {
            if let Some(part) = part {
                part.install(&view, subgroup, seat)?;
            }
        }
        let is_in = |shard: ShardId| view.shard_of(shard.subgroup, seat).map(|own| own.id);
        self.finals.keep(|shard| is_in(shard) == Some(shard));
        *self.view() = view.clone();
        // Behind the view: what was entered under the lock of the one before is ended now.
        if !self.has(Bug::GoneAreAwaited) {
            self.calls.keep_asking(&view);
        }
        self.done.keep_members(&view);
        self.late.keep_members(&view);
        // They ask again.
        self.again().clear();
        self.announce();
        Ok(())
    }

    /// Whether this process multicasts in the subgroup, where it is in a shard.
    pub(super) fn sends_in(&self, subgroup: u16) -> bool {
        let subgroup = self.options.layout.get(usize::from(subgroup));
        subgroup.is_none_or(|subgroup| subgroup.senders.has(&self.group.me()))
    }

    /// The reason why this process cannot multicast in a shard.
    pub(super) fn other_shard(&self, shard: ShardId) -> Refused {
        let subgroup = self.names.get(usize::from(shard.subgroup)).cloned().unwrap_or_default();
        Refused::OtherShard { subgroup, shard: shard.shard }
    }

    /// The reason why no member multicasts for this process in a shard, which has no sender.
    pub(super) fn no_sender(&self, shard: ShardId, view: &View) -> Refused {
        if view.shard(shard).is_none_or(|shard| shard.members.is_empty()) {
            return self.other_shard(shard);
        }
        self.not_sender(shard)
    }

    /// The reason why this process does not multicast in its own shard.
    pub(super) fn not_sender(&self, shard: ShardId) -> Refused {
        Refused::NoSender { subgroup: self.names[usize::from(shard.subgroup)].clone() }
    }

    /// Multicasts a call in a shard that this process is in; its outcome goes to `waiter`.
    pub(super) fn multicast(
        &self,
        shard: ShardId,
        ticket: u64,
        call: Call<'_>,
        patience: Duration,
    ) {
        let message = encode_call_bytes(ticket, call.method, call.arguments);
        self.multicast_bytes(shard, ticket, &message, patience);
    }

    /// The same with the message's bytes.
    pub(super) fn multicast_bytes(
        &self,
        shard: ShardId,
        ticket: u64,
        message: &[u8],
        patience: Duration,
    ) {
        // O5
        let owed = match self.group.send_after(self.latest(), shard, message, patience) {
            Ok(number) => {
                let why = self.other_shard(shard);
                self.calls.number(shard.subgroup, number, ticket, &why)
            }
            Err(refused) => self.calls.settle(ticket, Err(refused.into())),
        };
        self.pay(owed);
    }

    /// Sends answers to those that asked this process for a call. Without room one is lost, and its
    /// caller knows no outcome.
    fn pay(&self, owed: impl IntoIterator<Item = Owed>) {
        for (seat, ticket, outcome) in owed {
            let (time, result) = told(&outcome, self.latest(), BODY_BYTES_MAX);
            let _lost = self.group.tell(seat, &Letter::Answer { ticket, time, result }.encode());
        }
    }

    // ---- times ----

    /// The latest time that this process knows of.
    pub(super) fn latest(&self) -> Time {
        Time::from_nanos(self.latest.load(Ordering::SeqCst))
    }

    pub(super) fn learn(&self, time: Time) {
        self.latest.fetch_max(time.as_nanos(), Ordering::SeqCst);
    }

    /// Waits until the own copy of `shard` is final up to `then`. False after `patience`, and if
    /// the process is not in the shard any longer.
    pub(super) fn wait_final(
        &self,
        shard: ShardId,
        then: Time,
        patience: Duration,
    ) -> Result<bool, Ended> {
        let by = deadline(patience);
        while !self.finals.has(shard, then) {
            self.calls.check()?;
            let left = by.saturating_duration_since(Instant::now());
            if left.is_zero() || !self.is_in(shard) {
                return Ok(false);
            }
            self.group.ask_final(shard.subgroup, then);
            let holds = |_: &View| self.finals.has(shard, then) || self.calls.check().is_err();
            let _waited = self.wait_view(holds, left.min(ASK_AGAIN_EVERY));
        }
        Ok(true)
    }

    /// Notes that the own copy of `shard` is final up to `time`, and answers what waits for that.
    fn note_final(&self, shard: ShardId, time: Time) {
        for ((seat, ticket), held) in self.finals.note(shard, time) {
            let call = Call { method: held.method, arguments: &held.arguments };
            self.answer_letter(seat, ticket, shard, call);
        }
        self.announce();
    }

    // ---- the executing thread ----

    /// Until the process is no longer in the group.
    pub(super) fn run(&self, mut events: VecDeque<Event>) {
        let _last = Last(self);
        while let Some(wait) = self.step(&mut events) {
            self.group.take(&mut events, wait);
        }
    }

    /// Executes events. Returns the longest wait for more; `None` if the process has ended.
    pub(super) fn step(&self, events: &mut VecDeque<Event>) -> Option<Duration> {
        if self.has(Bug::StateTooEarly) {
            events.make_contiguous().sort_by_key(|one| !matches!(one, Event::StateWanted(_)));
        }
        while let Some(event) = events.pop_front() {
            if let Err(ended) = self.perform(event) {
                self.group.abandon();
                self.end(&ended);
                return None;
            }
        }
        let is_late = self.late.send_again(|seat, letter| self.has_told(seat, letter));
        Some(self.settle_owed().min(if is_late { late::LOOK_EVERY } else { LOOK_EVERY }))
    }

    /// Sends a letter that tells of what this process has done, as soon as there is room.
    pub(super) fn tell_back(&self, to: Member, letter: Vec<u8>) {
        self.late.send(to, letter, |seat, letter| self.has_told(seat, letter));
    }

    /// Whether there was room for a letter.
    fn has_told(&self, seat: usize, letter: &[u8]) -> bool {
        !matches!(self.group.tell(seat, letter), Err(Refused::Busy { .. }))
    }

    fn owed(&self) -> MutexGuard<'_, BTreeMap<u16, VecDeque<(u64, Outcome)>>> {
        self.owed.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Gives calls their outcomes that no lease is against any longer. Returns the time after which
    /// to look again.
    fn settle_owed(&self) -> Duration {
        let mut look = LOOK_EVERY;
        self.owed().retain(|subgroup, outcomes| {
            if let Some(wait) = self.group.answers_in(*subgroup) {
                look = look.min(wait);
                return true;
            }
            for (ticket, outcome) in outcomes.drain(..) {
                self.pay(self.calls.settle(ticket, outcome));
            }
            false
        });
        look
    }

    pub(super) fn again(&self) -> MutexGuard<'_, BTreeMap<u64, (Member, Again)>> {
        self.again.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn reads(&self) -> MutexGuard<'_, BTreeMap<u64, Option<u64>>> {
        self.reads.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Waits until everything is executed that this process has received now in a subgroup.
    /// Returns the number of the view in which that is so; `None` after the timeout, and if too
    /// many wait.
    pub(super) fn catch_up(&self, subgroup: u16, timeout: Duration) -> Option<u64> {
        let token = self.calls.ticket();
        self.reads().insert(token, None);
        if self.group.catch_up(subgroup, token).is_ok() {
            let holds = |_: &View| matches!(self.reads().get(&token), Some(Some(_)));
            let is_over = |view: &View| holds(view) || self.calls.check().is_err();
            let _waited = self.wait_view(is_over, timeout);
        }
        self.reads().remove(&token).flatten()
    }

    fn end(&self, ended: &Ended) {
        self.calls.end(ended);
        self.announce();
    }

    fn perform(&self, event: Event) -> Result<(), Ended> {
        match event {
            Event::View(view) => self.install(view)?,
            Event::Delivered(delivered) => self.execute(&delivered)?,
            Event::Letter { from, bytes } => self.take_letter(from, &bytes)?,
            Event::StateWanted(wanted) => self.give_state(wanted)?,
            Event::State { shard, bytes } => self.take_state(shard, &bytes)?,
            Event::Unsent { .. } if self.has(Bug::UnsentForgotten) => {}
            Event::Unsent { shard, numbers } => {
                let why = self.other_shard(shard);
                self.pay(self.calls.unsent(shard.subgroup, &numbers, &why));
            }
            Event::Ended(ended) => return Err(ended),
            Event::CaughtUp { token, view } => {
                self.reads().entry(token).and_modify(|caught_up| *caught_up = Some(view));
                self.caught_up(token);
                self.announce();
            }
            Event::Final { shard, time } => self.note_final(shard, time),
            Event::Ahead { token, messages } => self.note_ahead(token, messages),
            Event::Inadequate { .. } | Event::InadequateSubgroup { .. } => {}
        }
        Ok(())
    }

    fn execute(&self, delivered: &Delivered) -> Result<(), Ended> {
        let subgroup = delivered.shard.subgroup;
        self.learn(delivered.time);
        let (Some(part), Some(sent)) = (self.part(subgroup), decode_call(&delivered.bytes)) else {
            return Ok(());
        };
        let Sent { ticket, method, once, arguments } = sent;
        let replying = if once.is_some() { Replying::Each } else { Replying::Caller };
        let outcome = part.execute(delivered, &Call { method, arguments }, replying)?;
        let Some(outcome) = outcome else { return Ok(()) };
        if let Some(number) = delivered.own {
            self.calls.delivered(subgroup, number);
            if once.is_some() {
                self.expect_replies(delivered, ticket);
            }
            if self.has_leases() && self.group.answers_in(subgroup).is_some() {
                self.owed().entry(subgroup).or_default().push_back((ticket, outcome));
            } else {
                self.pay(self.calls.settle(ticket, outcome));
            }
        } else if let Some(once) = once {
            self.reply(delivered.sender, ticket, once, &outcome);
        }
        Ok(())
    }

    /// Notes which members reply to an own call, if each does.
    fn expect_replies(&self, delivered: &Delivered, ticket: u64) {
        if let Some(gather) = self.calls.gather(ticket) {
            let view = self.view();
            let members = view.shard(delivered.shard).map_or(Vec::new(), |one| one.members.clone());
            drop(view);
            gather.expect(delivered.shard, delivered.view, members);
        }
    }

    /// Answers a member's question, makes its call, or takes its answer. An error ends the process.
    fn take_letter(&self, from: Member, bytes: &[u8]) -> Result<(), Ended> {
        match Letter::decode(bytes) {
            Some(Letter::Ask { ticket, then, shard, method, arguments }) => {
                let waits = then > Time::default()
                    && !self.finals.has(shard, then)
                    && !self.has(Bug::AnsweredUnfinal);
                if waits && self.is_in(shard) {
                    let held = Held { shard, then, method, arguments: arguments.to_vec() };
                    self.finals.hold((from.seat, ticket), held);
                    self.group.ask_final(shard.subgroup, then);
                } else {
                    self.answer_letter(from.seat, ticket, shard, Call { method, arguments });
                }
            }
            Some(Letter::Order { ticket, after, shard, method, arguments }) => {
                self.learn(after);
                let own = self.calls.ticket();
                let waiter = Waiter::There { seat: from.seat, ticket };
                if self.calls.enter(own, waiter).is_ok() {
                    if self.has(Bug::OrderedTwice) {
                        self.multicast(shard, own, Call { method, arguments }, Duration::ZERO);
                    }
                    self.multicast(shard, own, Call { method, arguments }, Duration::ZERO);
                }
            }
            // D4
            Some(Letter::P2p { to, .. }) if to != self.group.me().incarnation => {}
            Some(Letter::P2p { ticket, after, shard, method, once, arguments, .. }) => {
                self.learn(after);
                let letter = match self.done.look(from, Kind::P2p, once) {
                    Known::Told(letter) if self.has(Bug::P2pAgain) => {
                        let _again = self.run_here(from, shard, Call { method, arguments })?;
                        letter
                    }
                    Known::New => {
                        let result = self.run_here(from, shard, Call { method, arguments })?;
                        let (time, result) = (self.latest(), result.as_deref().map_err(|why| *why));
                        let letter = Letter::Answer { ticket, time, result }.encode();
                        self.done.keep(from, Kind::P2p, once.number, letter.clone());
                        letter
                    }
                    Known::Told(_) if self.has(Bug::ToldIsDeclined) => {
                        let (time, result) = (self.latest(), Err(NoAnswer::Declined));
                        Letter::Answer { ticket, time, result }.encode()
                    }
                    Known::Told(letter) => letter,
                    Known::Past => return Ok(()),
                };
                self.tell_back(from, letter);
            }
            Some(Letter::Again(again)) => self.reply_again(from, again),
            Some(Letter::Answer { ticket, time, result }) => {
                self.learn(time);
                if let Some(gather) = self.calls.gather(ticket) {
                    gather.hear(from, result.map(<[u8]>::to_vec).map_err(NoReply::from));
                } else {
                    self.calls.settle(ticket, outcome(from.seat, time, result));
                }
            }
            None => {}
        }
        Ok(())
    }

    /// Runs a p2p method for `caller`.
    fn run_here(
        &self,
        caller: Member,
        shard: ShardId,
        call: Call<'_>,
    ) -> Result<Result<Vec<u8>, NoAnswer>, Ended> {
        let here = Here::new(self.group.me(), caller);
        let Some(part) = self.part_in(shard) else { return Ok(Err(NoAnswer::Declined)) };
        Ok(match part.run_here(shard.shard, &call, &here)? {
            Some(result) => fits(result),
            None => Err(NoAnswer::Declined),
        })
    }

    /// Whether this process has the copy of `shard`.
    fn is_in(&self, shard: ShardId) -> bool {
        self.part_in(shard).is_some()
    }

    pub(super) fn part_in(&self, shard: ShardId) -> Option<&Arc<dyn Part>> {
        self.part(shard.subgroup).filter(|part| part.shard() == Some(shard.shard))
    }

    /// Answers the question of the member on `seat`.
    fn answer_letter(&self, seat: usize, ticket: u64, shard: ShardId, call: Call<'_>) {
        if let Some(result) = self.answer(shard, call) {
            let (time, result) = (self.latest(), result.as_deref().map_err(|why| *why));
            // Without room the answer is lost, and the question comes again.
            let answer = Letter::Answer { ticket, time, result }.encode();
            let _lost = self.group.tell(seat, &answer);
        }
    }

    /// The answer to a question; `None` if it has to be asked again.
    fn answer(&self, shard: ShardId, call: Call<'_>) -> Option<Result<Vec<u8>, NoAnswer>> {
        let part = self.part_in(shard);
        let Some(part) = part else { return Some(Err(NoAnswer::Declined)) };
        let answer = || part.answer(shard.shard, &call);
        let answered = in_handler(|| catch_unwind(AssertUnwindSafe(answer)));
        // A query that panics harms nothing here.
        answered.map_or(Some(Err(NoAnswer::Panicked)), |answer| answer.map(fits))
    }
}

/// What of a result a letter can tell.
fn fits(result: Result<Vec<u8>, Undecodable>) -> Result<Vec<u8>, NoAnswer> {
    match result {
        Ok(result) if result.len() <= BODY_BYTES_MAX => Ok(result),
        Ok(_) => Err(NoAnswer::TooLong),
        Err(Undecodable) => Err(NoAnswer::Undecodable),
    }
}

/// The end of the executing thread: whatever ends it, no caller waits for it.
struct Last<'a>(&'a Host);

impl Drop for Last<'_> {
    fn drop(&mut self) {
        self.0.group.abandon();
        self.0.end(&Ended::Os("the thread that executes calls has panicked".into()));
    }
}

/// No copy has come.
pub(super) fn no_state(options: &Options) -> Error {
    Error::NoState(format!("no member gave its copy within {:?}", options.patience))
}
