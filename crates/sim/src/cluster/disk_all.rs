//! What a client is told of its write is on the disks of a majority; under `disk-all` on the disk
//! of every voter, so that it can be recovered from any one of them alone.
//!
//! The judge looks at what leaves the doors, at whichever member, and not at what a machine reports
//! (that is `crate::disk_all`).
//!
//! - D1 *Every voter* is one of the newest decided configuration. A learner becomes a voter when it
//!   has the committed prefix, so an answer that left before is true of the configuration after it.
//! - D2 A voter whose disk was replaced, and not kept, is not looked at: no member has that disk.
//! - D3 The slot of an answer has the same value on all disks: an entry that no leader has cut yet
//!   does not count.
//! - D4 A majority is one of a configuration that may govern the slot, or of one before or after
//!   it: a leader counts by the latest in its log (I7 of `proto::durable`), and changes may have
//!   been decided since it counted. A disk that is damaged counts by what it once held.

use super::disk::Platter;
use super::world::World;
use crate::Property;
use crate::checks::held;
use crate::coverage::Mark;
use base::{Incarnation, Prefix, Rank, majority};

impl World {
    /// I11, I17: looks on each disk for what the clients of `node` were told in its last turn.
    pub(super) fn look_at_told(&mut self, node: usize) {
        let Some(member) = &mut self.members[node] else { return };
        let told = member.take_told();
        if told == Prefix::ZERO || !self.has_disks() {
            return;
        }
        if !self.waits_for_all {
            if let Some(detail) = self.lacks_majority(told) {
                self.violate(
                    Property::Durability,
                    format!("a client of r{node} was told: {detail}"),
                );
            }
            return;
        }
        self.net.borrow_mut().coverage.hit(Mark::ToldByAllDisks);
        if let Err(detail) = self.is_on_all_disks(told) {
            self.violate(Property::Held, format!("a client of r{node} was told: {detail}"));
        }
    }

    fn is_on_all_disks(&mut self, told: Prefix) -> Result<(), String> {
        let members = self.seats.members(); // D1
        let mut disks = Vec::new();
        for rank in members.voters.iter() {
            if let Some(platter) = self.platter_of(rank, members.incarnation(rank)) {
                let last = told.0.checked_sub(1).map(base::Slot);
                let entry = last.and_then(|slot| platter.log.durable_entry(slot));
                disks.push((rank, platter.held(), entry.map(<[u8]>::to_vec)));
            }
        }
        held::check(told, disks.iter().map(|(rank, held, _)| (*rank, *held)))?;
        // D3
        let mut entries = disks.iter().filter_map(|(rank, _, entry)| Some((rank, entry.as_ref()?)));
        let first = entries.next();
        match first.and_then(|(_, one)| entries.find(|(_, entry)| *entry != one)) {
            Some((rank, _)) => {
                Err(format!("every disk is said to hold {told}, {rank} has another value there"))
            }
            None => Ok(()),
        }
    }

    /// D4
    fn lacks_majority(&mut self, told: Prefix) -> Option<String> {
        let last = told.0.checked_sub(1).map(base::Slot)?;
        let mut may_govern = self.seats.configurations.around(last);
        may_govern.extend(self.seats.configurations.possible());
        let mut shown = Vec::new();
        for members in may_govern {
            let mut n_holding = 0;
            for rank in members.voters.iter() {
                let disk = self.platter_of(rank, members.incarnation(rank)); // D2
                let vouched = disk.map(|disk| disk.vouched());
                n_holding += usize::from(vouched.is_none_or(|vouched| vouched >= told));
                shown.push((rank, vouched));
            }
            if n_holding >= majority(members.voters.len()) {
                return None;
            }
        }
        Some(format!("{told} is said to be on the disks of a majority, and they hold {shown:?}"))
    }

    /// D2: the disk of this incarnation, wherever it is.
    fn platter_of(&mut self, rank: Rank, of: Incarnation) -> Option<&Platter> {
        let at = rank.index();
        if self.seats.incarnation(at) != of {
            let attic = self.seats.seats[at].attic.as_ref();
            return attic.filter(|(_, incarnation)| *incarnation == of).map(|(disk, _)| disk);
        }
        match &mut self.members[at] {
            Some(member) => member.disk().map(|disk| &*disk),
            None => self.platters[at].as_ref(),
        }
    }
}
