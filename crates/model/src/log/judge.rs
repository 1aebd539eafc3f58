//! The judge of a cluster: the parent's G1 to G5.

use super::fabric::Report;
use super::{Cluster, MachineOf, N_LONE_TURNS, PAUSE, peers};
use proto::registry::LogSpec;
use proto::{Note, Replicator, Role, Ticket};
use std::hash::Hash;

/// What all members together have done.
#[derive(Clone, Debug, Default, Hash)]
pub(super) struct Ledger {
    /// The value of each slot that any member has delivered; zero is a no-op.
    pub(super) decided: Vec<u8>,
    /// Every value, with its proposer and slot.
    pub(super) proposed: Vec<(u8, usize, u64)>,
    /// The prefix that a client may have seen.
    pub(super) seen: u64,
}

impl<S: LogSpec> Cluster<S>
where
    MachineOf<S>: Clone + Hash,
{
    pub(super) fn judge(&mut self, me: usize, reports: Vec<Report>) -> Result<(), String> {
        for report in reports {
            match report {
                Report::Delivered(slot, value) => self.judge_delivery(me, slot.0, &value)?,
                Report::Noted(Note::ReadReady(ticket)) => self.judge_read(me, ticket)?,
                Report::Noted(Note::ReadRefused(ticket)) => {
                    self.members[me].change().reads.retain(|one| one.0 != ticket);
                }
                Report::Noted(Note::NeedState(prefix)) => {
                    self.members[me].change().wants = Some(prefix);
                }
                Report::Noted(Note::Leading { .. } | Note::Deposed { .. }) => {}
            }
        }
        Ok(())
    }

    fn judge_delivery(&mut self, me: usize, slot: u64, value: &[u8]) -> Result<(), String> {
        let value = value.first().copied().unwrap_or(0);
        let member = self.members[me].change();
        let next = member.applied;
        member.applied += 1;
        if next != slot {
            return Err(format!("G3: member {me} delivers slot {slot}, and slot {next} is next"));
        }
        let proposal = self.ledger.of.proposed.iter().find(|one| one.0 == value).copied();
        if value != 0 && proposal.is_none_or(|(_, _, of)| of != slot) {
            return Err(format!("G2: {value} was delivered for {slot}, and not proposed for it"));
        }
        let ledger = self.ledger.change();
        if proposal.is_some_and(|(_, proposer, _)| proposer == me) {
            ledger.seen = ledger.seen.max(slot + 1);
        }
        match ledger.decided.get(slot as usize) {
            None => ledger.decided.push(value),
            Some(first) if *first == value => {}
            Some(first) => {
                return Err(format!("G1: {first} and {value} were delivered for slot {slot}"));
            }
        }
        Ok(())
    }

    fn judge_read(&mut self, me: usize, ticket: Ticket) -> Result<(), String> {
        let member = self.members[me].change();
        let at = member.reads.iter().position(|one| one.0 == ticket);
        let (applied, must_see) = (member.applied, at.map(|at| member.reads.remove(at).1));
        let ledger = self.ledger.change();
        ledger.seen = ledger.seen.max(applied);
        match must_see {
            None => Err(format!("G5: member {me} answers {ticket:?}, which is not asked")),
            Some(prefix) if prefix > applied => {
                Err(format!("G5: member {me} answers from {applied} slots, and {prefix} were seen"))
            }
            Some(_) => Ok(()),
        }
    }

    /// G4, for one member and those whose memory answers.
    pub(super) fn lone(&self, me: usize, answers: impl Fn(usize) -> bool) -> Result<(), String> {
        let mut alone = self.clone();
        alone.lead(me)?;
        let n_before = alone.ledger.of.proposed.len();
        for _ in 0..N_LONE_TURNS {
            alone.now = alone.now.plus(PAUSE);
            for to in peers(me).into_iter().filter(|to| answers(*to)) {
                while !alone.link(me, to).posted.is_empty() {
                    alone.perform(me, to)?;
                }
                while !alone.link(me, to).done.is_empty() {
                    alone.complete(me, to)?;
                }
            }
            alone.turn(me, |_, _, _| {})?;
            if alone.machine(me).status().role == Role::Leader {
                alone.propose(me)?;
            }
            let Ledger { decided, proposed, .. } = &*alone.ledger.of;
            let is_decided =
                |(value, _, slot): &(u8, usize, u64)| decided.get(*slot as usize) == Some(value);
            if proposed[n_before..].iter().any(is_decided) {
                return Ok(());
            }
        }
        Err(format!("G4: member {me}, alone, does not decide"))
    }
}

#[cfg(test)]
mod tests {
    use super::super::Bounds;
    use super::*;
    use proto::velos::Spec;

    #[test]
    fn canary_g4_a_member_that_reaches_no_majority_does_not_decide() {
        let world = Cluster::<Spec>::new(&Bounds::default(), None);
        assert!(world.lone(0, |peer| peer == 1).is_ok());
        assert!(world.lone(0, |_| false).is_err());
    }
}
