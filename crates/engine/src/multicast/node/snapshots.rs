//! Snapshots of hosted groups at one timestamp: cuts of their members, put together.

use super::Node;
use crate::multicast::application::Application;
use crate::multicast::bugs::Bug;
use crate::multicast::desk::Snapshot;
use crate::multicast::world::Handed;
use proto::amcast::{Cut, GroupId, Multicast, Timestamp};
use proto::planted::Planting;
use std::collections::BTreeMap;

/// The snapshots that were begun and are not over.
#[derive(Debug, Default)]
pub(super) struct Cuts {
    /// The snapshots that wait for a cut of one group at one timestamp.
    waiting: BTreeMap<(GroupId, Timestamp), Vec<Snapshot>>,
    /// The number of groups that are still missing in each snapshot.
    n_left: BTreeMap<Snapshot, usize>,
}

impl<M: Multicast, A: Application, P: Planting<Bug>> Node<M, A, P> {
    /// Begins the snapshots that the application requested: all groups at one timestamp, above
    /// everything that any member here has delivered, so that everything that was answered here is
    /// included.
    pub(super) fn begin_snapshots(&mut self) -> bool {
        let asked = std::mem::take(&mut self.desk.asked);
        let lowest = self.members.iter().filter_map(|member| member.machine.lowest_cut()).max();
        let at = lowest.unwrap_or(Timestamp::ZERO);
        for &(snapshot, groups) in &asked {
            self.cuts.n_left.insert(snapshot, groups.len());
            for group in groups.iter() {
                self.touched.insert(group);
                self.cuts.waiting.entry((group, at)).or_default().push(snapshot);
                let member = self.member_of[group.index()].expect("the desk has looked");
                let member = &mut self.members[usize::from(member)];
                // This fails only if there are too many other cuts, and then this snapshot is
                // missed.
                if member.machine.cut(at, self.desk.now).is_err() {
                    self.world.hand(Handed::Cut(group, at, Cut::Missed));
                }
            }
        }
        self.desk.n_snapshots = self.cuts.n_left.len();
        !asked.is_empty()
    }

    pub(super) fn on_cut(&mut self, group: GroupId, at: Timestamp, cut: Cut) {
        for snapshot in self.cuts.waiting.remove(&(group, at)).unwrap_or_default() {
            if let Some(left) = self.cuts.n_left.get_mut(&snapshot) {
                *left -= 1;
                if *left == 0 {
                    self.cuts.n_left.remove(&snapshot);
                }
            }
            self.app.snapshot(snapshot, group, cut, &mut self.desk);
        }
        self.desk.n_snapshots = self.cuts.n_left.len();
    }
}
