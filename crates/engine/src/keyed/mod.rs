//! The family of protocols that keep each key by itself: what a member does in its turns.
//!
//! A client's request is about some keys, and of each the machine does one operation, the *part*
//! of the request. What a value is, what a request makes of it, and what is answered, is the
//! application's business ([`Registers`]).
//!
//! - E1 a request has one answer, by `Requests`: when its last part has ended.
//! - E2 parts of one client about one key are done one after the other, in the order in which they
//!   came; parts about different keys may overlap. By `requests::Lanes`; test
//!   `e2_one_client_is_served_in_its_order`.
//! - E3 a write is answered as not done only if none of its parts can have had an effect; if some
//!   were done and others not, its outcome is unknown. By `requests::Outcome`.
//! - E4 everything that was taken from the desk has a deadline: a part that was not begun when it
//!   passes ends as not done, and the machine ends what was begun (its K1).
//! - E5 what waits here is bounded: what has no room stays on the desk, and then the door reads no
//!   clients. By `Requests::has_room`.

mod registers;
mod requests;
#[cfg(test)]
mod tests;

use crate::bugs::Bug;
use crate::config::Config;
use crate::desk::{Desk, Laid, Overdue, View};
use crate::engine::Engine;
use crate::family::{Family, Parts};
use crate::flow::CHANNEL;
use crate::plant::{self, Plant};
use crate::seats::{Changed, NoChange};
use crate::service::{Answer, Door, Origin, ReadAnswer};
use crate::stats::Stats;
use base::verb::Relay;
use base::{Event, Inbox, Instant, Port, Slot};
use core::time::Duration;
use proto::Role;
use proto::keyed::{Claim, End, KeyedHost, KeyedMachine, KeyedStatus, Refused, Tag, Ticket};
pub use registers::{Plan, Registers};
use requests::{Outcome, Part, Requests};

/// How often what could not be begun is looked at.
const SWEEP_EVERY: Duration = Duration::from_millis(50);

/// What the machine sees of this process.
#[derive(Debug)]
struct HostState<P, A> {
    plant: P,
    app: A,
    requests: Requests,
    /// Parts that have ended, for the turn to take.
    ended: Vec<Part>,
}

impl<P: Plant, A: Registers> KeyedHost for HostState<P, A> {
    fn register(&self, key: &[u8]) -> Option<(Tag, &[u8])> {
        self.app.register(key)
    }

    fn put_register(&mut self, key: &[u8], tag: Tag, value: &[u8]) {
        self.plant.claim(plant::Claim::Keeps { key, tag });
        self.app.put_register(key, tag, value);
    }

    fn next_register(&self, after: Option<&[u8]>) -> Option<(&[u8], Tag, &[u8])> {
        self.app.next_register(after)
    }

    fn compute(&mut self, ticket: Ticket, value: &[u8], new: &mut Vec<u8>) -> bool {
        let HostState { requests, app, .. } = self;
        requests.perform(Part::of(ticket), |request, at, reply| {
            app.perform(request, at, value, new, reply)
        })
    }

    fn end(&mut self, ticket: Ticket, end: End<'_>) {
        let HostState { plant, requests, app, ended } = self;
        let part = Part::of(ticket);
        let outcome = match end {
            End::Value(value) => {
                requests.perform(part, |request, at, reply| {
                    app.perform(request, at, value, &mut Vec::new(), reply)
                });
                Outcome::Done
            }
            End::Written => Outcome::Done,
            End::NotDone => Outcome::NotDone,
            End::Unknown => Outcome::Unknown,
        };
        if plant.has_planted(Bug::LastPartDecides) {
            requests.forget_outcome(part, outcome);
        }
        requests.end(part, outcome);
        ended.push(part);
    }

    fn claim(&mut self, claim: Claim<'_>) {
        self.plant.claim(plant::Claim::OfKey(claim));
    }
}

impl<P: Port, A> Relay for HostState<P, A> {
    type Port = P;

    fn port(&self) -> &P {
        &self.plant
    }

    fn port_mut(&mut self) -> &mut P {
        &mut self.plant
    }
}

/// A member that keeps each key by itself. See the module's text.
#[derive(Debug)]
pub struct Keyed<P, M, A, D> {
    machine: M,
    host: HostState<P, A>,
    door: D,
    desk: Desk,
    stats: Stats,
    origin: Origin,
    next_sweep_at: Instant,
}

impl<P: Plant, M: KeyedMachine, A: Registers, D: Door<A>> Engine<Keyed<P, M, A, D>> {
    /// Puts plant, application, door and machine together.
    pub fn keyed(
        config: &Config,
        plant: P,
        (app, door): (A, D),
        machine: M,
    ) -> Engine<Keyed<P, M, A, D>> {
        let view = View::new(config.origin.rank, config.members);
        Engine::of(Keyed {
            machine,
            host: HostState { plant, app, requests: Requests::default(), ended: Vec::new() },
            door,
            desk: Desk::bounded(view, config.patience, config.bounds),
            stats: Stats::new(),
            origin: config.origin,
            next_sweep_at: Instant::ZERO,
        })
    }

    /// The machine.
    pub fn machine(&self) -> &M {
        &self.family.machine
    }
}

impl<P: Plant, M: KeyedMachine, A: Registers, D: Door<A>> Keyed<P, M, A, D> {
    fn refresh_view(&mut self) {
        let KeyedStatus { counts, heard, counting, is_lost } = self.machine.status();
        let view = &mut self.desk.view;
        // Every member that counts takes reads and writes, as a leader does elsewhere.
        view.role = if counts { Role::Leader } else { Role::Learner };
        view.trusted = counts.then_some(self.origin.rank);
        (view.heard, view.able) = (heard, counting);
        view.data_lost = is_lost;
    }

    /// From the desk to the parts that can be begun, as long as there is room (E5).
    fn take(&mut self) -> bool {
        let Keyed { host, door, desk, stats, .. } = self;
        let (now, patience) = (desk.now, desk.patience);
        let holders = base::majority(desk.view.members) - 1;
        let (mut refused, mut waits) = (Vec::new(), Vec::new());
        let mut worked = false;
        let mut room = Vec::new();
        desk.take(|laid| {
            if !host.requests.has_room() {
                return false;
            }
            worked = true;
            room.clear();
            let (asker, is_read) = match laid {
                Laid::Write(asker, command) => {
                    room.extend_from_slice(command);
                    (asker, false)
                }
                Laid::Read(asker) => {
                    door.describe_read(asker, &mut room);
                    (asker, true)
                }
                Laid::Wait(asker) => {
                    waits.push(asker);
                    return true;
                }
            };
            if room.is_empty() {
                return true; // its client is gone
            }
            stats.reads_performed += u64::from(is_read);
            match host.app.plan(&room) {
                Ok(plan) => {
                    let has_bug = host.plant.has_planted(Bug::RequestsOvertake);
                    let lane = if has_bug { host.requests.new_lane() } else { asker.connection };
                    host.requests.take((asker, lane), &room, plan, now.plus(patience));
                }
                Err(reply) => refused.push((asker, reply)),
            }
            true
        });
        for (asker, reply) in refused {
            door.answer_read(asker, ReadAnswer::Forwarded(&reply), desk);
        }
        // What was answered is at a majority.
        waits.into_iter().for_each(|asker| door.answer_wait(asker, holders, desk));
        while let Some((asker, ..)) = desk.wanted.pop_front() {
            worked = true;
            door.answer_change(asker, Changed::Refused(NoChange::Fixed), desk);
        }
        worked
    }

    /// Begins the parts whose turn has come, as far as the machine takes them.
    fn begin(&mut self) -> bool {
        let (machine, host, now) = (&mut self.machine, &mut self.host, self.desk.now);
        let mut worked = false;
        while let Some(part) = host.requests.next_part() {
            let Some(begun) = host.requests.begin(part) else { continue };
            if begun.deadline <= now {
                // E4
                host.end(part.ticket(), End::NotDone);
                worked = true;
                continue;
            }
            match machine.submit(part.ticket(), begun.op(), begun.deadline, now, host) {
                Ok(()) => worked = true,
                Err(Refused::Full | Refused::Merging) => {
                    host.requests.again(part);
                    break;
                }
            }
        }
        worked
    }

    /// Answers the requests whose last part has ended (E1).
    fn answer(&mut self) -> bool {
        let Keyed { host, door, desk, stats, .. } = self;
        // Another part may begin, even if no request has ended.
        let worked = !host.ended.is_empty();
        for part in std::mem::take(&mut host.ended) {
            let Some(request) = host.requests.finish(part) else { continue };
            let asker = request.asker;
            match request.outcome {
                Outcome::Done => {
                    let mut reply = Vec::new();
                    host.app.join(&request.bytes, &request.replies, &mut reply);
                    if request.is_write {
                        door.answer(asker, Answer::Executed(Slot::ZERO, &reply), desk);
                    } else {
                        door.answer_read(asker, ReadAnswer::Forwarded(&reply), desk);
                    }
                }
                // E3
                Outcome::Unknown if request.is_write => {
                    stats.commands_unknown += 1;
                    door.answer(asker, Answer::Unknown, desk);
                }
                Outcome::NotDone | Outcome::Unknown => {
                    door.answer_read(asker, ReadAnswer::Unavailable, desk);
                }
            }
        }
        worked
    }
}

impl<P: Plant, M: KeyedMachine, A: Registers, D: Door<A>> Family for Keyed<P, M, A, D> {
    type Plant = P;
    type App = A;
    type Door = D;

    fn parts(&mut self) -> Parts<'_, P, A, D> {
        let Keyed { host: HostState { plant, app, .. }, door, desk, stats, .. } = self;
        Parts { plant, app, door, desk, stats }
    }

    fn plant(&self) -> &P {
        &self.host.plant
    }

    fn app(&self) -> &A {
        &self.host.app
    }

    fn desk(&self) -> &Desk {
        &self.desk
    }

    fn stats(&self) -> &Stats {
        &self.stats
    }

    fn into_plant(self) -> P {
        self.host.plant
    }

    /// There is no disk.
    fn failure(&self) -> Option<&str> {
        None
    }

    fn is_idle(&self) -> bool {
        self.host.requests.is_empty() && self.desk.is_idle()
    }

    /// No member depends on one.
    fn resign(&mut self) {}

    fn has_handed_over(&self) -> bool {
        true
    }

    fn advance(&mut self, inbox: &mut Inbox) -> bool {
        self.refresh_view();
        let mut worked = self.take();
        worked |= self.begin();
        inbox.clear();
        self.host.plant.poll(inbox);
        worked |= !inbox.is_empty();
        let now = self.desk.now;
        for event in inbox.iter() {
            // Frames are of engines that replicate a log.
            if !matches!(event, Event::Message { bytes, .. } if bytes.first() == Some(&CHANNEL)) {
                self.machine.on_event(event, now, &mut self.host);
            }
        }
        self.machine.poll(now, &mut self.host);
        self.host.plant.flush();
        worked |= self.answer();
        worked | self.door.resume(&mut self.host.app, &mut self.desk)
    }

    fn work_once(&mut self) -> bool {
        false
    }

    fn send(&mut self) {
        self.door.flush(&mut self.desk);
        self.host.plant.flush();
    }

    /// E4
    fn sweep(&mut self) {
        let now = self.desk.now;
        if now < self.next_sweep_at {
            return;
        }
        self.next_sweep_at = now.plus(SWEEP_EVERY);
        for part in self.host.requests.overdue(now) {
            self.host.end(part.ticket(), End::NotDone);
        }
        self.answer();
        let mut late = Vec::new();
        self.desk.expire(|overdue| late.push(overdue));
        for overdue in late {
            let (Overdue::Read(asker) | Overdue::Write(asker)) = overdue;
            self.door.answer_read(asker, ReadAnswer::Unavailable, &mut self.desk);
        }
    }

    fn deadline(&self, now: Instant) -> Instant {
        let at = self.machine.deadline();
        let at = self.door.deadline().unwrap_or(at).min(at).max(now);
        if self.is_idle() { at } else { at.min(self.next_sweep_at.max(now.plus(SWEEP_EVERY / 50))) }
    }

    fn publish(&mut self) {
        self.host.app.note(self.machine.counts());
        self.door.publish(&self.desk.view, &self.stats, &mut self.host.app);
    }
}
