//! States that travel: the runtime's answer to `NeedState`.
//!
//! - I1 A donor lives, runs, is reachable, holds a state, and covers what was asked for: a learner
//!   gives nothing away. By construction: `on_fetch` looks at all of it at one instant.

use crate::plan::MS;
use crate::queue::Happening;
use crate::states::State;
use crate::world::{FETCH_NS_MAX, World};

impl World {
    pub(crate) fn on_fetch(&mut self, node: usize, life: u32) {
        let process = &self.net.processes[node];
        if !process.alive || process.life != life {
            return;
        }
        let Some(prefix) = self.shells[node].needs else { return };
        let members = self.plan.members;
        let reachable = |peer: usize| {
            self.net.wires[peer * members + node].n_holds == 0
                && self.net.wires[node * members + peer].n_holds == 0
        };
        let donors: Vec<usize> = (0..members)
            .filter(|peer| *peer != node && self.net.processes[*peer].runs() && reachable(*peer))
            .filter(|peer| self.holds_state(*peer))
            .filter(|peer| self.shells[*peer].order.applied() >= prefix)
            .collect();
        let now = self.net.now();
        let delay = 1 + self.rng.below(FETCH_NS_MAX);
        if donors.is_empty() {
            let delay = delay * self.plan.pace;
            self.net.queue.push(now + delay, Happening::Fetch { node: node as u8, life });
            return;
        }
        let donor = donors[self.rng.below(donors.len() as u64) as usize];
        let applied = self.shells[donor].order.applied();
        let head = self.machines[donor].as_ref().and_then(|machine| machine.state_head(applied));
        let parcel = State { kv: self.shells[donor].kv.clone(), prefix: applied, head };
        self.shells[node].parcel = Some(parcel);
        self.net.queue.push(now + delay, Happening::Install { node: node as u8, life });
    }

    pub(crate) fn on_install(&mut self, node: usize, life: u32) {
        let process = &self.net.processes[node];
        if !process.alive || process.life != life {
            return;
        }
        let now = self.net.now();
        if !process.runs() {
            // It waits in the process's inbox, so to say.
            self.net.queue.push(now + MS, Happening::Install { node: node as u8, life });
            return;
        }
        let Some(parcel) = self.shells[node].parcel.take() else { return };
        let Some(mut machine) = self.machines[node].take() else { return };
        let needed = self.shells[node].needs.take();
        let reached = parcel.prefix.max(self.shells[node].order.applied());
        self.receive(node, &mut *machine, parcel);
        let short = needed.is_some_and(|needed| needed > reached);
        if short && self.shells[node].needs.is_none() {
            // More was asked for while this state was under way.
            self.shells[node].needs = needed;
            self.net.queue.push(now + MS, Happening::Fetch { node: node as u8, life });
        }
        self.machines[node] = Some(machine);
        self.net.arm_run(node, now);
    }
}
