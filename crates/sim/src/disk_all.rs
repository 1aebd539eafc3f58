//! What `disk-all` promises, judged whether members change or not: all that a member says every
//! disk holds is on the disk of each voter, and can be had back from any one of them alone; and
//! where every voter is well, what is committed comes to be held so.
//!
//! - I1 *Every voter*: of the newest configuration that is decided, whoever knows of it, and of the
//!   one by which the member that says so goes. (A learner votes only when it has what is
//!   committed, so what was said by an older configuration is true of a newer one.)
//! - I2 A disk that was lost or damaged counts as it was before, for what its member said before:
//!   that is one of those that may be lost. By the ballot: what a member has said since it found
//!   the damage it said in a later one, or with the word that something is missing.

use crate::checks::configurations::votes;
use crate::checks::held;
use crate::coverage::Mark;
use crate::world::World;
use crate::{Life, Property};
use base::{MemberSet, Rank};
use proto::Role;

impl World {
    /// What `node` says every disk holds is looked for on each.
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

    /// What is not said to be on every disk although every voter is well: whoever waits for it in
    /// `disk-all` waits for ever.
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
