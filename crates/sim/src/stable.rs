//! Machines on disks: the disk's reports, the remains of a process, and the start of the next one.
//!
//! - D1 a member that is told that its disk is full does not lead, nor try to: the others would
//!   wait for a disk that may stay full. Judged in `attend_disk`.

use crate::coverage::Mark;
use crate::states::State;
use crate::stored::Unusable;
use crate::subject::Subject;
use crate::trace::Topic;
use crate::world::World;
use crate::{Birth, Life, Property, Store};
use base::{Prefix, Rng};
use proto::Role;
use proto::disk::DiskEvent;

impl Subject {
    /// Chooses the disks of this seed: where members change, one seed in four runs on the released
    /// log.
    pub(crate) fn equipped(self, seed: u64) -> Subject {
        let mut rng = Rng::new(seed ^ 0x6c6f_6773);
        let ships = self.has_operator && self.store == Store::Model && rng.chance(1, 4);
        Subject { store: if ships { Store::Log } else { self.store }, ..self }
    }
}

impl World {
    /// Tells the machine its disk's events, and writes the state at intervals.
    pub(crate) fn attend_disk(&mut self, node: usize, machine: &mut dyn Life) {
        for event in std::mem::take(&mut self.disks[node].events) {
            self.net.trace.record(self.net.now(), node, Topic::Disk, event_number(event), 0);
            self.with_host(node, |host, clock| machine.on_disk(event, clock, host));
            if self.is_gone(node) {
                return;
            }
            if matches!(event, DiskEvent::Synced(_)) {
                self.judge_kept(node);
            }
            let leads = matches!(machine.status().role, Role::Leader | Role::Candidate);
            if leads && event == DiskEvent::Full {
                let detail = format!("r{node} leads, or tries to, and its disk is full");
                self.net.violate(Property::Liveness, detail); // D1
            }
        }
        self.attend_snapshots(node, machine);
    }

    /// Recovers the state of the last snapshot from the disk of a dead process.
    pub(crate) fn recover(&mut self, node: usize) {
        let applied = match &self.disks[node].snapshot {
            Some(State { kv, prefix, .. }) => {
                self.shells[node].kv = kv.clone();
                self.shells[node].order.installed(*prefix);
                self.shells[node].delivered.installed(*prefix);
                if let Err(detail) = self.ledger.digests.reached(*prefix, kv.digest()) {
                    self.net.violate(Property::Digest, format!("on r{node}'s disk: {detail}"));
                }
                *prefix
            }
            None => Prefix::ZERO,
        };
        self.net.trace.record(self.net.now(), node, Topic::Install, applied.0, 1);
    }

    /// The start of the next life of `node`, if its disk is intact.
    pub(crate) fn rebirth(&mut self, node: usize) -> Option<Birth> {
        if !self.subject.is_durable {
            return Some(Birth::Reattached);
        }
        let revived = self.disks[node].revive(&mut self.net.rng);
        match (revived, self.disks[node].is_unusable()) {
            (Ok(()), false) => {}
            (Err(Unusable::Damaged(_)), true) => {
                // It stops and reports that: the operator has to replace the member.
                self.net.coverage.hit(Mark::DamageFound);
                self.net.trace.record(self.net.now(), node, Topic::Disk, u64::MAX - 4, 0);
                return None;
            }
            (Ok(()), true) => {
                let detail = format!("r{node} starts on a damaged disk, and does not notice");
                self.net.violate(Property::Durability, detail);
                return None;
            }
            (Err(Unusable::Damaged(detail) | Unusable::Broken(detail)), _) => {
                self.net.violate(Property::Durability, format!("r{node}: {detail}"));
                return None;
            }
        }
        if self.disks[node].is_blank() {
            // It died before anything of it was durable: no message can have left it either.
            return Some(self.first_birth(node));
        }
        let snapshot = self.disks[node].snapshot.as_ref();
        let (applied, head) =
            snapshot.map_or((Prefix::ZERO, None), |state| (state.prefix, state.head));
        Some(Birth::Recovered { applied, head })
    }
}

fn event_number(event: DiskEvent) -> u64 {
    match event {
        DiskEvent::Synced(flush) => flush.0,
        DiskEvent::Full => u64::MAX,
        DiskEvent::Room => u64::MAX - 1,
        DiskEvent::Stalled => u64::MAX - 2,
        DiskEvent::Flowing => u64::MAX - 3,
    }
}
