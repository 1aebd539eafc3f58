//! Transfers of states: the runtime's answer to `NeedState`.
//!
//! ```text
//! lacking     asks | ...... | state ...... | values ...... | values: the machine hears of it
//! giving           | as it is now | as it is then, if it still gives
//! ```
//! A transfer takes time, and the world continues: members change, its giver dies or lags itself,
//! and the executed part stays where it is while another member is asked.
//!
//! - I1 A giver lives, runs, is reachable, holds a state, and has executed everything that the
//!   asking member has. By construction: `is_there` checks all of it at one instant.
//! - I2 A member that has executed more than its machine has applied gives nothing: its machine
//!   does not know the members after that. Sweeps with [`Snapshots::OfWhatIsNotApplied`] are
//!   caught.
//! - I4 A member that has executed everything that its machine has requested, and that every
//!   reachable member would refuse, continues from that: the others may wait for it. (`catchup`'s
//!   I6.)
//! - I3 A machine that reaches by itself what it has requested is not told of a state. By
//!   construction: `mind_transfer`, `is_news`.

use crate::coverage::Mark;
use crate::plan::MS;
use crate::queue::Happening;
use crate::states::State;
use crate::world::saving::Snapshots;
use crate::world::{Phase, World};
use base::Prefix;
use proto::{Role, Status};

/// The longest time that a part of a state travels from one node to another...
const PART_NS_MAX: u64 = 5 * MS;
/// ... and the longest of a few of them.
const LONG_PART_NS_MAX: u64 = 400 * MS;
const LONG_PART_EVERY: u64 = 6;
/// The time that a silent giver is waited for.
const PATIENCE_NS: u64 = 20 * MS;

/// A part of a state on its way.
pub(crate) struct Parcel {
    state: State,
    giver: usize,
    givers_life: u32,
    /// Whether the other side then has everything that its giver had.
    is_last: bool,
}

impl World {
    /// Begins a transfer, since the machine cannot continue by itself.
    pub(crate) fn need_state(&mut self, node: usize, at_least: Prefix) {
        let shell = &mut self.shells[node];
        if shell.installing.is_some() {
            // The machine asks again if the state that is here is not enough.
            return;
        }
        let is_asked = shell.transfer.needs.is_some();
        shell.transfer.needs = Some(shell.transfer.needs.unwrap_or_default().max(at_least));
        if !is_asked {
            shell.transfer.n_begun += 1;
            self.plan_fetch(node, PART_NS_MAX);
        }
    }

    fn plan_fetch(&mut self, node: usize, within_ns: u64) {
        let at = self.net.now() + 1 + self.rng.below(within_ns);
        let (life, transfer) = (self.net.processes[node].life, self.shells[node].transfer.n_begun);
        self.net.queue.push(at, Happening::Fetch { node: node as u16, life, transfer });
    }

    fn is_present(&self, node: usize, life: u32, transfer: u32) -> bool {
        let process = &self.net.processes[node];
        process.alive && process.life == life && self.shells[node].transfer.n_begun == transfer
    }

    pub(crate) fn on_fetch(&mut self, node: usize, life: u32, transfer: u32) {
        if !self.is_present(node, life, transfer) || self.shells[node].transfer.needs.is_none() {
            return;
        }
        if self.all_refuse(node) && self.has_enough(node) {
            self.end_transfer(node); // I4
            return self.net.arm_run(node, self.net.now());
        }
        let there: Vec<usize> =
            (0..self.plan.members).filter(|peer| self.is_there(*peer, node)).collect();
        // An ambush: a member that lags itself is asked more often than by chance.
        let ahead: Vec<usize> = there.iter().copied().filter(|peer| self.is_ahead(*peer)).collect();
        let asked = if !ahead.is_empty() && self.rng.chance(1, 2) { ahead } else { there };
        if asked.is_empty() {
            return self.plan_fetch(node, PART_NS_MAX * self.plan.pace);
        }
        let giver = asked[self.rng.below(asked.len() as u64) as usize];
        if self.is_kept_from_giving(giver) {
            self.net.coverage.hit(Mark::GiverLagsItself);
            return self.plan_fetch(node, PART_NS_MAX * self.plan.pace);
        }
        self.send_part(giver, node);
    }

    /// Whether `node` can reach another member, and none gives it a state.
    fn all_refuse(&self, node: usize) -> bool {
        let members = self.plan.members;
        let asked = || {
            (0..members)
                .filter(|peer| self.net.processes[*peer].runs() && self.reaches(*peer, node))
        };
        let gives = |peer: usize| self.is_there(peer, node) && !self.is_kept_from_giving(peer);
        asked().next().is_some() && !asked().any(gives)
    }

    /// Whether the state executed at `node` is what its machine has requested, and news to it.
    fn has_enough(&self, node: usize) -> bool {
        let is_enough =
            self.shells[node].transfer.needs.is_some_and(|needed| self.applied(node) >= needed);
        let has_head =
            self.shells[node].transfer.givers_head.is_some_and(|(of, _)| of == self.applied(node));
        (has_head || !self.subject.needs_head) && is_enough && self.is_ahead(node)
    }

    fn reaches(&self, one: usize, other: usize) -> bool {
        let members = self.plan.members;
        let wires = [one * members + other, other * members + one];
        one != other && wires.iter().all(|wire| self.net.wires[*wire].n_holds == 0)
    }

    /// I1.
    fn is_there(&self, giver: usize, to: usize) -> bool {
        self.net.processes[giver].runs()
            && self.reaches(giver, to)
            && self.holds_state(giver)
            && self.applied(giver) >= self.applied(to)
    }

    /// Whether a transfer has brought more than the machine has applied.
    fn is_ahead(&self, node: usize) -> bool {
        self.applied(node) > self.shells[node].delivered.applied()
    }

    /// I2.
    pub(crate) fn is_kept_from_giving(&self, node: usize) -> bool {
        self.is_ahead(node) && self.subject.snapshots != Snapshots::OfWhatIsNotApplied
    }

    /// Sends the present state of `giver` to `to`.
    fn send_part(&mut self, giver: usize, to: usize) {
        let prefix = self.applied(giver);
        let head = self.machines[giver].as_ref().and_then(|machine| machine.state_head(prefix));
        let state = State { kv: self.shells[giver].kv.clone(), prefix, head };
        let is_last = self.rng.chance(1, 2);
        let givers_life = self.net.processes[giver].life;
        self.shells[to].transfer.parcel = Some(Parcel { state, giver, givers_life, is_last });
        // (Members of the core have to catch up with one another in bounded time.)
        let is_long = self.rng.chance(1, LONG_PART_EVERY) && self.phase == Phase::Safety;
        let within = if is_long { LONG_PART_NS_MAX } else { PART_NS_MAX };
        let at = self.net.now() + 1 + self.rng.below(within);
        self.plan_install(to, at);
    }

    fn plan_install(&mut self, node: usize, at: u64) {
        let (life, transfer) = (self.net.processes[node].life, self.shells[node].transfer.n_begun);
        self.net.queue.push(at, Happening::Install { node: node as u16, life, transfer });
    }

    pub(crate) fn on_install(&mut self, node: usize, life: u32, transfer: u32) {
        if !self.is_present(node, life, transfer) {
            return;
        }
        let now = self.net.now();
        if !self.net.processes[node].runs() {
            // It waits, as if in the process's inbox.
            return self.plan_install(node, now + MS);
        }
        let Some(Parcel { state, giver, givers_life, is_last }) =
            self.shells[node].transfer.parcel.take()
        else {
            return;
        };
        self.execute(node, state);
        if is_last {
            self.end_transfer(node);
        } else if self.net.processes[giver].life == givers_life
            && self.is_there(giver, node)
            && !self.is_kept_from_giving(giver)
        {
            self.send_part(giver, node);
        } else {
            self.plan_fetch(node, PATIENCE_NS);
        }
        self.net.arm_run(node, now);
    }

    /// Executes a part of a state that has arrived, if it is ahead of the present state.
    fn execute(&mut self, node: usize, State { kv, prefix, head }: State) {
        let shell = &mut self.shells[node];
        shell.transfer.givers_head = head.map(|head| (prefix, head));
        if prefix > shell.order.applied() {
            shell.kv = kv;
            shell.order.installed(prefix);
            self.disks[node].give_up_snapshot();
        }
    }

    fn end_transfer(&mut self, node: usize) {
        let Some(mut machine) = self.machines[node].take() else { return };
        // (A machine that lacks more asks again.)
        self.shells[node].transfer.needs = None;
        if self.is_news(node, machine.status()) {
            self.take_over(node, &mut *machine);
        }
        self.machines[node] = Some(machine);
    }

    /// I3: whether what is executed here is news to the machine.
    pub(crate) fn is_news(&self, node: usize, status: Status) -> bool {
        self.applied(node) > status.applied || status.role == Role::Learner
    }

    /// I3: ends a transfer that is no longer of use.
    pub(crate) fn mind_transfer(&mut self, node: usize, status: Status) {
        if self.shells[node].transfer.needs.is_none() && self.shells[node].installing.is_none() {
            return;
        }
        if self.is_news(node, status) {
            return;
        }
        let shell = &mut self.shells[node];
        shell.installing = None;
        if shell.transfer.needs.is_some_and(|needed| status.applied >= needed) {
            shell.transfer.needs = None;
            shell.transfer.parcel = None;
            shell.transfer.n_begun += 1;
            self.net.coverage.hit(Mark::CaughtUpMeanwhile);
        }
    }
}
