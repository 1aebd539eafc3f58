//! The promise of `disk-all`, judged whether members change or not: everything that a member
//! reports as held by every disk is on the disk of each voter, and can be recovered from any one of
//! them alone; and where every voter is well, the committed prefix is held so in the end.
//!
//! - I1 *Every voter*: of the newest decided configuration, whichever member knows of it, and of
//!   the one that the reporting member uses. (A learner becomes a voter only when it has the
//!   committed prefix, so a report by an older configuration is true of a newer one.)
//! - I2 A disk that was lost or damaged counts as before, for its member's earlier reports: it is
//!   one of those that may be lost. By the ballot: the member's reports since it found the damage
//!   are in a later ballot, or say that something is missing.

use crate::checks::configurations::votes;
use crate::checks::held;
use crate::coverage::Mark;
use crate::world::World;
use crate::{Life, Property};
use base::{MemberSet, Rank};
use proto::Role;

impl World {
    /// Looks on each disk for what `node` reports as held by every disk.
    pub(crate) fn look_at_held(&mut self, node: usize, machine: &dyn Life) {
        if !self.subject.is_durable {
            return;
        }
        let prefix = machine.held();
        let said = (machine.status().ballot, prefix);
        let before = std::mem::replace(&mut self.shells[node].held, said);
        if said == before {
            return;
        }
        if prefix > before.1 && self.has_goal() {
            self.net.coverage.hit(Mark::HeldAmidChange);
        }
        let own = machine.configuration().map(|configuration| configuration.members);
        let decided = self.ledger.configurations.newest().map(|(_, members)| members);
        for members in own.into_iter().chain(decided) {
            let vouched = |rank| self.vouched(rank, members.incarnation(rank), said.0);
            let disks = members.voters.iter().map(|rank| (rank, vouched(rank)));
            if let Err(detail) = held::check(prefix, disks) {
                self.net.violate(Property::Held, format!("at r{node}: {detail}"));
            }
        }
    }

    /// The prefix that is not reported as held although every voter is well: a client that waits
    /// for it in `disk-all` waits for ever.
    pub(crate) fn unheld(&mut self) -> Option<String> {
        let newest = self.ledger.configurations.newest().map(|(_, members)| members);
        let is_well = |rank: Rank| {
            let incarnation = self.incarnation(rank.index());
            newest.is_none_or(|members| votes(&members, rank, incarnation))
                && self.in_core(rank.index())
        };
        let voters = newest.map_or(MemberSet::all(self.plan.members), |members| members.voters);
        if !self.subject.is_durable || !voters.iter().all(is_well) {
            return None;
        }
        self.net.coverage.hit(Mark::AllHadToHold);
        let wanted = self.ledger.to_be_held;
        let mut most = None;
        for node in (0..self.plan.members).filter(|node| self.net.processes[*node].runs()) {
            let machine = self.machines[node].as_ref();
            let leads = machine.filter(|machine| machine.status().role == Role::Leader);
            most = most.max(leads.map(|leader| leader.held()));
        }
        (most < Some(wanted)).then(|| {
            format!(
                "every voter of {voters:?} is well, and all are said to hold {most:?} of {wanted}"
            )
        })
    }
}
