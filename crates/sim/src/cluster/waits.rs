//! Clients that WAIT, in a quarter of the runs.
//!
//! - N1 as many members as a client is told hold the writes that it was told of, and the leader is
//!   not among them. (A member that has died since held them.) A member with a disk holds what is
//!   durable there, and not what it has executed. By [`Waits::judge`], at the end of the turn that
//!   answers.
//! - N2 what is drawn here changes nothing that is drawn elsewhere. By [`Waits::draw`], with a
//!   generator of its own.

use base::{Prefix, Rank, Rng};
use engine::{Asker, View};
use proto::Role;
use std::collections::BTreeMap;

/// The requests of all clients, and what members are known to have held.
#[derive(Debug)]
pub(super) struct Waits {
    rng: Rng,
    is_on: bool,
    n_members: u64,
    /// The most that each member ever had executed, or had on its disk.
    held: Vec<Prefix>,
}

/// What the clients of one door were told.
#[derive(Debug, Default)]
pub(super) struct Waited {
    /// By connection: the prefix that covers the writes which were called executed.
    written: BTreeMap<u64, Prefix>,
    answered: Vec<(Prefix, usize)>,
}

impl Waited {
    /// A write of a connection was called executed.
    pub(super) fn executed(&mut self, asker: Asker, through: Prefix) {
        let written = self.written.entry(asker.connection).or_default();
        *written = through.max(*written);
    }

    /// A client was told that so many members hold its writes.
    pub(super) fn answer(&mut self, asker: Asker, n: usize) {
        let written = self.written.get(&asker.connection).copied();
        self.answered.push((written.unwrap_or_default(), n));
    }

    /// The answers since the last call.
    pub(super) fn take(&mut self) -> Vec<(Prefix, usize)> {
        std::mem::take(&mut self.answered)
    }
}

/// The most members that can hold `prefix` beside the leader.
fn most(held: &[Prefix], prefix: Prefix, leader: Option<usize>) -> usize {
    let holds = |held: &Prefix| *held >= prefix;
    let n = held.iter().filter(|held| holds(held)).count();
    // Without a leader in sight, one of them decided it.
    let is_counted = leader.is_none_or(|leader| held.get(leader).is_some_and(holds));
    n.saturating_sub(usize::from(is_counted))
}

impl Waits {
    /// N2. `can_be`: whether answers can be judged in such a cluster.
    pub(super) fn draw(seed: u64, can_be: bool, n_members: usize) -> Waits {
        let mut rng = Rng::new(seed ^ 0x7761_6974_7321);
        let is_on = can_be && rng.chance(1, 4);
        Waits { is_on, n_members: n_members as u64, rng, held: vec![Prefix::ZERO; n_members] }
    }

    /// The words of the next request, if there is one.
    pub(super) fn think(&mut self) -> Option<[String; 3]> {
        if !self.is_on || !self.rng.chance(1, 12) {
            return None;
        }
        let (n, ms) = (self.rng.range(1, self.n_members), self.rng.range(1, 20));
        Some(["WAIT".to_owned(), n.to_string(), ms.to_string()])
    }
}

impl Waits {
    /// N1, and so I16, after a turn of the member of this view, which has answered so. `on_disk`:
    /// what its disk has, if it has one.
    pub(super) fn judge(
        &mut self,
        view: &View,
        on_disk: Option<Prefix>,
        answered: &[(Prefix, usize)],
    ) -> Result<(), String> {
        let held = &mut self.held[view.me.index()];
        *held = on_disk.unwrap_or(view.applied).max(*held);
        let leads = (view.role == Role::Leader).then_some(view.me);
        let leader = leads.or(view.trusted).map(Rank::index);
        for (prefix, n) in answered {
            let most = most(&self.held, *prefix, leader);
            if *n > most {
                return Err(format!(
                    "{n} members are said to hold {prefix} beside the leader, {leader:?}, and \
                     {most} do: {:?}",
                    self.held
                ));
            }
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn n1_a_member_with_a_disk_holds_what_is_there() {
        let mut waits = Waits::draw(1, true, 3);
        let mut judge = |me, on_disk, answered: &[(Prefix, usize)]| {
            let view = View { applied: Prefix(5), ..View::new(Rank::at(me), 3) };
            waits.judge(&view, on_disk, answered)
        };
        assert_eq!(judge(1, Some(Prefix(5)), &[]), Ok(()));
        assert!(judge(2, Some(Prefix(4)), &[(Prefix(5), 1)]).is_err(), "one of them decided it");
        assert_eq!(judge(2, Some(Prefix(5)), &[(Prefix(5), 1)]), Ok(()));
        assert_eq!(judge(0, None, &[(Prefix(5), 2)]), Ok(()));
    }

    #[test]
    fn n1_the_leader_and_members_that_lack_the_writes_do_not_count() {
        let held = [Prefix(5), Prefix(5), Prefix(3)];
        assert_eq!(most(&held, Prefix(5), Some(0)), 1);
        assert_eq!(most(&held, Prefix(3), Some(0)), 2);
        assert_eq!(most(&held, Prefix(5), Some(2)), 2, "it leads, and has not executed it");
        assert_eq!(most(&held, Prefix(5), None), 1, "one of them decided it");
        assert_eq!(most(&held, Prefix(9), None), 0);
    }
}
