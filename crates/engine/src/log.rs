//! The family of protocols that replicate a log: what a member does in its turns.

use crate::bugs::Bug;
use crate::config::Config;
use crate::core::{Core, SWEEP_EVERY};
use crate::desk::{Desk, View};
use crate::engine::Engine;
use crate::family::{Family, Parts};
use crate::flow::{CHANNEL, Incoming};
use crate::host::HostState;
use crate::plant::{Plant, StableStorage};
use crate::service::{Application, Door};
use crate::stats::Stats;
use base::{Event, Inbox, Instant, Prefix};
use core::time::Duration;
use proto::node::Node;
use proto::{MESSAGE_CHANNEL, Replicator};

const _: () = assert!(CHANNEL != MESSAGE_CHANNEL, "the engine and the machines share a channel");

/// A state that a disk had, and the prefix that it covers.
pub type FoundState = (Prefix, Vec<u8>);

/// A member of a replicated log. See the module's text.
#[derive(Debug)]
pub struct Log<P: Plant, R, A, D> {
    core: Core<P, R, A, D>,
    incoming: Incoming,
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Engine<Log<P, R, A, D>> {
    /// Puts plant, disk, application, door and machine together. `node` makes the machine. `found`
    /// is what the disk had.
    ///
    /// # Errors
    /// A state that the application does not take, or what `node` says.
    pub fn new<E: From<String>>(
        config: &Config,
        plant: P,
        (app, door): (A, D),
        (disk, found): (Option<P::Disk>, Option<FoundState>),
        node: impl FnOnce(&mut HostState<P, A, D>) -> Result<Node<R>, E>,
    ) -> Result<Engine<Log<P, R, A, D>>, E> {
        let view = View::new(config.origin.rank, config.members);
        let desk = Desk::bounded(view, config.patience, config.bounds);
        let mut host = HostState::new(plant, (app, door), disk, desk, config);
        if let Some((prefix, state)) = found {
            crate::catchup::put_in_place(&mut host, prefix, &state)?;
        }
        let node = node(&mut host)?;
        let core = Core::new(node, host, config.bounds);
        Ok(Engine::of(Log { core, incoming: Incoming::default() }))
    }

    /// The machine.
    pub fn node(&self) -> &Node<R> {
        &self.family.core.node
    }

    /// Its disk, if it has one.
    pub fn disk(&mut self) -> Option<&mut P::Disk> {
        self.family.core.host.disk.as_mut()
    }
}

impl<P: Plant, R: Replicator, A: Application, D: Door<A>> Family for Log<P, R, A, D> {
    type Plant = P;
    type App = A;
    type Door = D;

    fn parts(&mut self) -> Parts<'_, P, A, D> {
        let HostState { plant, app, door, desk, stats, .. } = &mut self.core.host;
        Parts { plant, app, door, desk, stats }
    }

    fn plant(&self) -> &P {
        &self.core.host.plant
    }

    fn app(&self) -> &A {
        &self.core.host.app
    }

    fn desk(&self) -> &Desk {
        &self.core.host.desk
    }

    fn stats(&self) -> &Stats {
        &self.core.host.stats
    }

    fn into_plant(self) -> P {
        self.core.host.plant
    }

    fn failure(&self) -> Option<&str> {
        self.core.host.disk.as_ref().and_then(StableStorage::failure)
    }

    fn is_idle(&self) -> bool {
        self.core.host.desk.is_idle()
    }

    /// Leadership, if it is here.
    fn resign(&mut self) {
        let now = self.core.now();
        self.core.node.resign(now, &mut self.core.host);
    }

    /// Another member leads, or no other member is there to lead.
    fn has_handed_over(&self) -> bool {
        let me = self.core.host.origin.rank;
        let led_by_another = self.core.node.trusted().is_some_and(|leader| leader != me);
        led_by_another || self.core.host.desk.view.members == 1
    }

    fn advance(&mut self, inbox: &mut Inbox) -> bool {
        let core = &mut self.core;
        core.refresh_view();
        let mut worked = core.dispatch_commands();
        worked |= core.dispatch_reads();
        worked |= core.perform_ripe();
        core.host.flows.send(&mut core.host.plant);
        core.host.plant.flush();
        inbox.clear();
        core.host.plant.poll(inbox);
        worked |= !inbox.is_empty();
        for event in inbox.iter() {
            match event {
                Event::Message { from, bytes } if bytes.first() == Some(&CHANNEL) => {
                    core.on_message(from, bytes, &mut self.incoming);
                }
                Event::LinkDown(peer) | Event::LinkUp(peer) => {
                    if !core.host.plant.has_planted(Bug::StreamsOutliveLinks) {
                        self.incoming.reset(peer);
                    }
                    core.on_event(event);
                }
                // A suspicion ends no stream: were it false, the peer would not begin a new one.
                Event::ProcessFailed(_) | Event::Completed { .. } | Event::Message { .. } => {
                    core.on_event(event);
                }
            }
        }
        worked |= core.refuse_streams(&mut self.incoming);
        let before = core.host.executed();
        let now = core.now();
        core.node.poll(now, &mut core.host);
        worked |= core.host.executed() != before;
        worked |= core.take_notes();
        worked |= core.mind_disk();
        let hastens = core.host.plant.has_planted(Bug::ToldBeforeHeld);
        let held = if hastens { core.node.status().committed } else { core.node.held_by_all() };
        worked |= core.host.tell_held(held);
        core.mind_fetch();
        worked |= core.mind_giving();
        core.poll_ticks();
        worked |= core.mind_seats();
        worked |= core.end_waits();
        let HostState { door, app, desk, .. } = &mut core.host;
        worked |= door.resume(app, desk);
        worked
    }

    /// Reading a state takes its time.
    fn work_once(&mut self) -> bool {
        self.core.mind_restoring()
    }

    fn send(&mut self) {
        let HostState { door, desk, flows, plant, .. } = &mut self.core.host;
        door.flush(desk);
        flows.send(plant);
        plant.flush();
    }

    fn sweep(&mut self) {
        self.core.sweep();
    }

    fn deadline(&self, now: Instant) -> Instant {
        let core = &self.core;
        if core.has_state_to_read() || core.host.desk.has_ripe() {
            return now;
        }
        let desk = &core.host.desk;
        let mut end = core.node.deadline();
        let mut consider = |at: Option<Instant>| end = end.min(at.unwrap_or(end));
        consider(self.incoming.deadline());
        consider(core.fetch.deadline());
        consider(core.give.deadline());
        consider(core.give.pause(now).map(|pause| now.plus(pause)));
        if core.has_seats() {
            consider(core.seats.deadline(core.host.leads));
        }
        let look_within = core.host.disk.as_ref().and_then(StableStorage::look_within);
        consider(look_within.map(|within| now.plus(within)));
        consider(core.snapshot_pause(now).map(|pause| now.plus(pause)));
        consider(core.host.door.deadline());
        consider(desk.waits.iter().filter_map(|wait| wait.deadline).min());
        if !desk.is_idle() {
            consider(Some(core.next_sweep_at.max(now.plus(SWEEP_EVERY / 50))));
            consider(Some(core.pause_until).filter(|at| *at > now));
            consider(Some(core.read_pause_until).filter(|at| *at > now));
        }
        if core.host.flows.is_pending() {
            consider(Some(now.plus(Duration::from_millis(1))));
        }
        // A batch that waits for room in the machine is stamped: the next tick comes behind it.
        if core.host.leads && !core.batch.is_built {
            let expires = core.host.app.next_expiry_ms().is_some();
            consider(Some(core.ticks.deadline(expires).max(now)));
        }
        end
    }

    fn publish(&mut self) {
        let HostState { app, door, stats, desk, disk, state_clock, flows, plant, .. } =
            &mut self.core.host;
        stats.state_time_ahead_ms = state_clock.ahead_ms(plant.wall_ms(), plant.boot_now());
        stats.state_bytes_sent = self.core.give.n_bytes;
        stats.state_bytes_received = self.core.fetch.n_bytes;
        stats.transfers_given_up = self.core.fetch.n_given_up;
        stats.frames_malformed = self.incoming.n_malformed;
        stats.frames_passed_on = flows.n_passed_on;
        stats.disk = disk.as_ref().map(StableStorage::figures);
        door.publish(desk.view(), stats, app);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mock;
    use crate::wire::Frame;
    use base::{Rank, Slot};
    use std::cell::Cell;
    use std::rc::Rc;

    /// Seed 12 of a day of `velos-cluster`: followers slept, so the ring was full, and the leader's
    /// tick, which was due, waited behind the batch that had been built. The loop never slept.
    #[test]
    fn a_leader_whose_next_batch_waits_for_room_sleeps() {
        let mut core = mock::core(0, Default::default());
        core.host.leads = true;
        core.ticks.begin_reign(false, Instant(5));
        let now = Instant(6);
        core.node.poll(now, &mut core.host);
        let mut family = Log { core, incoming: Incoming::default() };
        assert_eq!(family.deadline(now), now, "the first stamp is due");
        family.core.batch.is_built = true;
        assert!(family.deadline(now) > now, "it is in the batch that waits");
    }

    /// I3 of [`crate::engine`]. What was made before the failure leaves as little as what was made
    /// after it: nothing tells them apart.
    #[test]
    fn nothing_leaves_a_member_whose_disk_has_failed() {
        let turn = |damaged: Option<Slot>| {
            let decided = Prefix(9);
            let mut core = mock::core(0, Rc::new(Cell::new(decided)));
            core.host.disk = Some(mock::Shelf { damaged, ..mock::Shelf::default() });
            let mut engine = Engine::of(Log { core, incoming: Incoming::default() });
            engine.begin_turn();
            engine.begin_slice();
            engine.work();
            let host = &mut engine.family.core.host;
            let frame = Frame::CommandsRefused { life: 1, attempt: 1 };
            host.flows.push(Rank::at(1), &frame);
            let executed = host.executed();
            assert!(!engine.advance(), "nothing is left to do");
            engine.send();
            let HostState { door, plant, .. } = &engine.family.core.host;
            (executed, door.n_flushes, plant.sent[1].len())
        };
        assert_eq!(turn(None), (Prefix(9), 2, 1));
        assert_eq!(turn(Some(Slot(4))), (Prefix(4), 0, 0));
    }
}
