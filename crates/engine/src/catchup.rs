//! State transfer, joined to the machine and the service.
//!
//! ```text
//! state = format (4: 1) | last executed place (16) | the application's bytes
//! ```
//! - I1 after a state was installed, own commands without an answer go out again: their answers may
//!   lie in slots that this member never executed itself. The state remembers them.
//! - I2 what a machine is told of a state (the ballot and the members that it ends with) is what
//!   was said of exactly that prefix, by a member whose log leads there; else nothing.
//!   Asserted in `head_here`.
//! - I3 the machine hears of a state from another member once, when exactly what is executed here
//!   is durable. While that is under way nothing more is fetched, and a snapshot of something older
//!   that ends meanwhile is not the machine's business.
//! - I4 a member that has executed more than its machine has applied gives no state and begins no
//!   snapshot of its own: the machine does not know the members after what it has not applied,
//!   nor whether its log agrees with that. Asserted in `give_head`.
//! - I5 the machine hears of a state only if that is ahead of what the machine has applied, or if
//!   the machine is a learner. A machine that reaches by itself what it has asked for ends the
//!   transfer.
//! - I6 a member that has executed all that its machine has asked for, and that every reachable
//!   member refuses, continues from what it has: the others may need its disk or its memory to get
//!   ahead of it, and would wait for it as it waits for them. What is executed is a whole state at
//!   every moment, and each frame of values comes with the head of the state that it leads to. A
//!   machine that needs the head (I2) would only ask again without it. By construction:
//!   `fetch_from`, `end_of_values`. Tested (`HEAD_OF_THE_LAST_VALUES`).

use crate::bugs::Bug;
use crate::core::Core;
use crate::host::HostState;
use crate::order::{HEADER_BYTES, Order, Place};
use crate::pace::Pace;
use crate::plant::{Claim, Plant, StableStorage};
use crate::service::{Application, Door};
use crate::transfer::{self, Step};
use crate::wire::Frame;
use base::{Instant, MemberSet, Prefix, Rank, Slot};
use core::time::Duration;
use proto::members::StateHead;
use proto::{Replicator, Role};

#[cfg(test)]
mod tests;

/// The bytes of a piece of a state, about.
pub(crate) const PIECE_BYTES: usize = 64 << 10;
/// The bytes by which a piece is usually longer.
const MARGIN_BYTES: usize = 16 << 10;
/// The version of the bytes in front of the service's.
const FORMAT: [u8; 4] = 1u32.to_le_bytes();
/// How many bytes stand there.
pub(crate) const HEAD_BYTES: usize = FORMAT.len() + HEADER_BYTES;

/// What the machine has to hear of a state that another member gives.
#[derive(Debug, Default)]
pub(crate) struct Taking {
    /// The machine has asked for at least this.
    wanted: Prefix,
    /// A state is in place here that is not durable yet: the machine hears of it later.
    installs: bool,
    /// The head that the giving member named for a state, and that state's prefix.
    donors_head: Option<(Prefix, StateHead)>,
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Core<P, R, A, D> {
    /// The machine cannot continue by itself.
    pub(crate) fn need_state(&mut self, at_least: Prefix) {
        self.taking.wanted = self.taking.wanted.max(at_least);
        // I3: what is here has to become durable first; the machine asks again.
        if !self.fetch.is_active() && !self.taking.installs {
            self.start_fetch();
        }
    }

    /// Whether more is executed here than the machine has applied: by a transfer that has not come
    /// to its end, or whose state is not durable yet.
    fn is_ahead(&self) -> bool {
        self.host.executed() > self.node.status().applied
    }

    /// Whether a state that is executed here is news to the machine (I5).
    fn is_news(&self) -> bool {
        self.is_ahead() || self.node.status().role == Role::Learner
    }

    fn start_fetch(&mut self) {
        let me: MemberSet = [self.host.origin.rank].into_iter().collect();
        let able = self.node.able().difference(me);
        // No member says that it has the state. Ask every member that is up, and learn that none
        // has.
        let sources = if able.is_empty() { self.node.heard().difference(me) } else { able };
        self.fetch_from(sources);
    }

    fn fetch_from(&mut self, sources: MemberSet) {
        let (have, now) = (self.host.executed(), self.now());
        let all_refuse = !sources.is_empty() && sources.difference(self.fetch.refused()).is_empty();
        let is_known = !R::NEEDS_HEAD || self.donors_head().is_some();
        let has_enough = self.is_ahead() && have >= self.taking.wanted;
        if all_refuse && has_enough && is_known {
            self.fetch.end(); // I6
            return self.take_over();
        }
        self.fetch.start(have, sources, now, &mut self.host.flows);
    }

    /// Ends a transfer that is no longer of use (I5), and asks another member if the one that was
    /// asked is silent.
    pub(crate) fn mind_fetch(&mut self) {
        let is_under_way = self.fetch.is_active() || self.taking.installs;
        if is_under_way && !self.is_news() {
            let has_enough = self.node.status().applied >= self.taking.wanted;
            if self.taking.installs || has_enough {
                return self.end_taking();
            }
        }
        if self.fetch.is_overdue(self.now()) {
            self.start_fetch();
        }
    }

    /// There is nothing that the machine has to hear of.
    fn end_taking(&mut self) {
        self.fetch.end();
        self.taking.installs = false;
        self.send_again(); // I1
    }

    /// A frame of a transfer, as the giving or the lacking side.
    pub(crate) fn on_state_frame(&mut self, from: Rank, frame: &Frame<'_>) {
        let now = self.now();
        match *frame {
            Frame::StateWanted { transfer, have } => self.give_state(from, transfer, have),
            Frame::StateHead { transfer, prefix, head } => {
                if self.fetch.is_present(from, transfer) {
                    self.taking.donors_head = StateHead::decode(head).map(|head| (prefix, head));
                }
            }
            Frame::StateTaken { transfer, .. }
            | Frame::StateAgain { transfer, .. }
            | Frame::ValuesTaken { transfer, .. } => {
                let Some(log_goes_on) = self.prepare_values(from, transfer, frame) else {
                    self.give.refuse(from, &mut self.host.flows);
                    return self.end_saves();
                };
                let HostState { backlog, flows, .. } = &mut self.host;
                self.give.on_frame(from, frame, now, (backlog, log_goes_on), flows);
            }
            _ => match self.fetch.on_frame(from, frame, now, &mut self.host.flows) {
                // Its end may come when all has been read.
                Step::Nothing => self.end_restoring(),
                Step::Execute(items) => {
                    for (slot, value) in items.iter() {
                        if Slot(slot) == self.host.executed().next_slot() {
                            self.host.execute(Slot(slot), value);
                        }
                    }
                    let last = matches!(frame, Frame::Values { last: true, .. });
                    let next = self.host.executed().next_slot();
                    if self.fetch.executed(next, last, &mut self.host.flows) {
                        self.take_over();
                    }
                }
            },
        }
    }

    fn give_state(&mut self, to: Rank, transfer: u64, have: Prefix) {
        let learner = self.node.status().role == Role::Learner;
        let is_ahead = self.is_ahead(); // I4
        let host = &mut self.host;
        // A member that is behind the asking one has nothing for it. Two such members ask each
        // other in vain once, and then a third.
        if learner || is_ahead || host.executed() < have {
            host.flows.push(to, &Frame::StateRefused { transfer, learner });
            return;
        }
        let executed = host.executed();
        let first = match transfer::is_kept(have, &host.backlog) {
            true => self.end_of_values(have.next_slot()),
            false => executed,
        };
        self.give_head(to, transfer, first);
        let now = self.now();
        let HostState { backlog, flows, app, order, .. } = &mut self.host;
        self.give.begin((to, transfer), have, backlog, now, flows, || {
            let mut head = Vec::new();
            put_head(order.last(), &mut head);
            (app.begin_save(), head)
        });
        self.end_saves();
    }

    /// The prefix to which the next values lead.
    fn end_of_values(&self, next: Slot) -> Prefix {
        let HostState { backlog, plant, .. } = &self.host;
        if plant.has_planted(Bug::HeadOfTheLastValues) {
            return self.host.executed();
        }
        self.give.end_of_values(next, backlog)
    }

    /// Before values follow: what goes with the state that the next frame of them leads to (I2), so
    /// that the other side may continue from each (I6). With the last of them it has what is here;
    /// or what it has already, if they are kept no more and this member knows what goes with that
    /// (true). The other machine then continues from there: its log may reach back further than the
    /// values do, and if not, it asks for a newer state. `None` if nothing may follow (I4).
    fn prepare_values(&mut self, to: Rank, transfer: u64, frame: &Frame<'_>) -> Option<bool> {
        let Some(next) = self.give.values_from(to, frame) else { return Some(false) };
        if self.is_ahead() {
            return None;
        }
        let is_kept = next >= self.host.backlog.oldest();
        let prefix = if is_kept { self.end_of_values(next) } else { next.prefix_before() };
        let is_known = self.give_head(to, transfer, prefix);
        Some(!is_kept && is_known)
    }

    /// What goes with the state at `prefix`; false if that is not known here.
    fn give_head(&mut self, to: Rank, transfer: u64, prefix: Prefix) -> bool {
        let applied = self.node.status().applied;
        assert!(prefix <= applied, "I4: {prefix} is given, and {applied} is applied");
        let Some(head) = self.node.state_head(prefix) else { return false };
        self.host.plant.claim(Claim::Ends { prefix, head });
        let head = &head.encode();
        self.host.flows.push(to, &Frame::StateHead { transfer, prefix, head });
        true
    }

    /// Makes the next piece of a state that another member waits for, if it is time for one. True
    /// if it did.
    pub(crate) fn mind_giving(&mut self) -> bool {
        let now = self.now();
        self.give.sweep(now);
        let wanted = self.give.wants_piece(now);
        if let Some((to, saving)) = wanted {
            let HostState { app, flows, plant, piece_bytes, .. } = &mut self.host;
            let began = plant.now();
            let mut piece = Vec::with_capacity(*piece_bytes + MARGIN_BYTES);
            match app.save_piece(saving, *piece_bytes, &mut piece) {
                Some(more) => self.give.piece(to, piece, more, (began, plant.now()), flows),
                None => self.give.refuse(to, flows),
            }
        }
        self.end_saves();
        wanted.is_some()
    }

    fn end_saves(&mut self) {
        while let Some(saving) = self.give.ended() {
            self.host.app.end_save(saving);
        }
    }

    /// What the member that the present state comes from said of it, and of which prefix.
    fn donors_head(&self) -> Option<(Prefix, StateHead)> {
        let is_any = self.host.plant.has_planted(Bug::HeadOfAnotherPrefix);
        self.taking.donors_head.filter(|(prefix, _)| is_any || *prefix == self.host.executed())
    }

    /// The head of what is executed here, if a member has named it.
    fn head_here(&self) -> Option<StateHead> {
        let executed = self.host.executed();
        self.donors_head().map(|(named, head)| {
            assert!(named == executed, "I2: the head of {named}, and {executed} is executed");
            head
        })
    }

    /// The state is here and the machine continues from it. Where there is a disk, not before the
    /// state is durable: the log below it is given up.
    fn take_over(&mut self) {
        if !self.is_news() {
            return self.end_taking();
        }
        let is_too_soon = self.host.plant.has_planted(Bug::InstalledBeforeDurable);
        if self.host.disk.is_some() && !is_too_soon {
            self.taking.installs = true;
            return;
        }
        self.install();
    }

    /// The machine hears of the state that is executed here.
    fn install(&mut self) {
        let (executed, now) = (self.host.executed(), self.now());
        let head = self.head_here();
        let ends = |head| Claim::Ends { prefix: executed, head };
        self.host.plant.claims(head.map(ends).into_iter());
        self.node.install(executed, head, now, &mut self.host);
        self.send_again(); // I1
    }

    /// Hands the disk what is asked of it, and the machine what became of it. True if there was
    /// news.
    pub(crate) fn mind_disk(&mut self) -> bool {
        let Some(disk) = &mut self.host.disk else { return false };
        let now = self.host.desk.now;
        let mut events = std::mem::take(&mut self.disk_events);
        disk.pump(now, |event| events.push(event));
        let snapshotted = disk.snapshotted(now);
        let is_due = disk.wants_snapshot();
        let worked = !events.is_empty() || snapshotted.is_some();
        for event in events.drain(..) {
            self.node.on_disk(event, now, &mut self.host);
        }
        self.disk_events = events;
        if let Some(prefix) = snapshotted {
            if self.taking.installs && prefix == self.host.executed() {
                self.taking.installs = false;
                if self.is_news() {
                    self.install();
                }
            }
            // I3: a transfer that is under way may have brought the state further than the machine
            // is: it hears of that at the transfer's end.
            if prefix <= self.node.status().applied {
                self.node.snapshotted(prefix, &mut self.host);
            }
        }
        if is_due || self.taking.installs {
            self.begin_snapshot();
        }
        self.go_on_with_snapshot();
        if worked {
            // What the machine asked for meanwhile.
            let HostState { disk, .. } = &mut self.host;
            disk.iter_mut().for_each(|disk| disk.pump(now, |event| self.disk_events.push(event)));
        }
        worked
    }

    fn begin_snapshot(&mut self) {
        if !self.taking.installs && self.is_ahead() {
            return; // I4: when the transfer is over
        }
        let now = self.now();
        // I2: the own log may not belong to a state that came from elsewhere.
        let own = || self.node.state_head(self.host.executed());
        let state_head = if self.taking.installs { self.head_here() } else { own() };
        let HostState { app, order, backlog, disk, plant, .. } = &mut self.host;
        let Some(disk) = disk.as_mut().filter(|disk| !disk.is_writing()) else { return };
        let prefix = match backlog.end() {
            end if plant.has_planted(Bug::SnapshotClaimsMore) => end.next_slot().prefix_through(),
            end => end,
        };
        if self.taking.installs {
            disk.hurry_snapshot();
        }
        if disk.begin_snapshot(prefix, state_head, now) {
            let ends = |head| Claim::Ends { prefix, head };
            plant.claims(state_head.map(ends).into_iter());
            let mut head = Vec::new();
            let has_bug = plant.has_planted(Bug::SnapshotWithoutPlace);
            put_head(if has_bug { Place::default() } else { order.last() }, &mut head);
            disk.snapshot_piece(head, false);
            self.saving = Some((app.begin_save(), Pace::new(plant.now())));
            let prefix = self.host.executed();
            if self.host.plant.has_planted(Bug::SnapshotCountsEarly)
                && prefix <= self.node.status().applied
            {
                self.node.snapshotted(prefix, &mut self.host);
            }
        }
    }

    /// Makes the next piece of the snapshot that is being written, if it is time for one.
    fn go_on_with_snapshot(&mut self) {
        let HostState { app, disk, plant, piece_bytes, .. } = &mut self.host;
        let (Some((saving, pace)), Some(disk)) = (&mut self.saving, disk) else { return };
        let saving = *saving;
        if !disk.is_writing() {
            // It has failed: what is there of it is worthless.
            app.end_save(saving);
            self.saving = None;
            return;
        }
        // A state that the machine waits for is not paced, but takes one piece at a time too.
        let began = plant.now();
        if disk.wants_piece() && (self.taking.installs || pace.pause(began).is_zero()) {
            let mut piece = Vec::with_capacity(*piece_bytes + MARGIN_BYTES);
            let more = app.save_piece(saving, *piece_bytes, &mut piece);
            let more = more.expect("where a state is put in place, this save is forgotten");
            disk.snapshot_piece(piece, !more);
            pace.made(began, plant.now());
            if !more {
                app.end_save(saving);
                self.saving = None;
            }
        }
    }

    /// How long there is nothing to do for the snapshot that is being written.
    pub(crate) fn snapshot_pause(&self, now: Instant) -> Option<Duration> {
        let disk = self.host.disk.as_ref()?;
        if self.taking.installs && self.saving.is_none() {
            return disk.snapshot_pause(now);
        }
        // Without room, the thread rings.
        let (_, pace) = self.saving.as_ref().filter(|_| disk.wants_piece())?;
        Some(if self.taking.installs { Duration::ZERO } else { pace.pause(now) })
    }
}

/// Appends what stands before the application's bytes in a state whose last value is at `place`.
pub fn put_head(place: Place, out: &mut Vec<u8>) {
    out.extend_from_slice(&FORMAT);
    out.extend_from_slice(&place.to_bytes());
}

/// The place and the application's bytes of a state; `None` if another version wrote it.
pub fn split_state(state: &[u8]) -> Option<(Place, &[u8])> {
    let (head, body) = state.split_at_checked(HEAD_BYTES)?;
    Some((split_head(head)?, body))
}

/// The place that the bytes in front of the service's name.
pub(crate) fn split_head(head: &[u8]) -> Option<Place> {
    let (format, rest) = head.split_first_chunk::<4>()?;
    let (place, _) = (*format == FORMAT).then(|| Place::split(rest))??;
    Some(place)
}

pub(crate) fn is_older() -> String {
    "it is older than the one that is here".to_owned()
}

/// Puts a state in place, which covers everything below `prefix`.
///
/// # Errors
/// What is wrong with it; then everything is as it was.
pub(crate) fn put_in_place<P: Plant, A: Application, D: Door<A>>(
    host: &mut HostState<P, A, D>,
    prefix: Prefix,
    state: &[u8],
) -> Result<(), String> {
    if prefix < host.executed() {
        return Err(is_older());
    }
    let unknown = || "it has not the form that this version writes".to_owned();
    let (place, body) = split_state(state).ok_or_else(unknown)?;
    host.app.restore(body)?;
    replace(host, prefix, place);
    Ok(())
}

/// The service has the state of everything below `prefix`, whose last value stands at `place`.
pub(crate) fn replace<P: Plant, A, D>(host: &mut HostState<P, A, D>, prefix: Prefix, place: Place) {
    host.order = Order::resume(place);
    host.backlog.restart(prefix);
    if let Some(disk) = &mut host.disk {
        // It is of the state that was replaced.
        disk.give_up_snapshot();
    }
}
