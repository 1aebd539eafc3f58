//! Answered: an answer that reaches a member's client is that of its own command, executed in the
//! slot that it names, or of its own read, performed for it. What a process calls executed was
//! executed in the order in which the process took it from its clients.
//!
//! Why it matters: another command's answer is often the same, and two commands that were swapped
//! seldom concern one key. Why no false alarm: a member answers only after some member has executed
//! the command, or performed the read, and each is noted then. A command whose end is unknown may
//! be executed behind later ones of its process, so the order is judged when a client is told. Of
//! each command the first execution counts, which is noted in the order of the slots: a member that
//! skips slots has the state of one that executed them. What a replicated program is fed is put in
//! order by its connections (I2 of `replicate::table`), and may be taken again later.

use base::Slot;
use engine::Origin;
use std::collections::{BTreeMap, BTreeSet};

/// The process that a command or read is of, and its number there.
type Name = (usize, u64, u64);

const fn name(of: Origin, number: u64) -> Name {
    (of.rank.index(), of.life.0, number)
}

/// Everything that was executed or performed for the clients of a process.
#[derive(Default)]
pub(crate) struct Answered {
    executed: BTreeSet<(Name, Slot)>,
    performed: BTreeSet<Name>,
    /// Of each process the last command of which some member has noted an execution.
    latest: BTreeMap<(usize, u64), u64>,
    /// The commands that were executed first when a later one of their process had been.
    late: BTreeSet<Name>,
    /// Whether a process's commands may be executed in another order than its own.
    pub(crate) may_swap: bool,
}

impl Answered {
    /// Notes that the command is executed in `slot`.
    pub(crate) fn executes(&mut self, of: Origin, number: u64, slot: Slot) {
        let name = name(of, number);
        let is_known = self.executed.range((name, Slot::ZERO)..=(name, Slot(u64::MAX))).count() > 0;
        self.executed.insert((name, slot));
        let latest = self.latest.entry((name.0, name.1)).or_default();
        if !is_known && number < *latest && !self.may_swap {
            self.late.insert(name);
        }
        *latest = number.max(*latest);
    }

    /// Notes that the read is performed.
    pub(crate) fn performs(&mut self, of: Origin, number: u64) {
        self.performed.insert(name(of, number));
    }

    /// The client is told that its command was executed in `slot`.
    pub(crate) fn tells(&self, of: Origin, number: u64, slot: Slot) -> Result<(), String> {
        if self.late.contains(&name(of, number)) {
            return Err(format!("command {number} of {of:?} was executed behind a later one"));
        }
        if self.executed.contains(&(name(of, number), slot)) {
            return Ok(());
        }
        Err(format!("command {number} of {of:?} is called executed in slot {slot}, and was not"))
    }

    /// The client is told what its read has found.
    pub(crate) fn tells_read(&self, of: Origin, number: u64) -> Result<(), String> {
        if self.performed.contains(&name(of, number)) {
            return Ok(());
        }
        Err(format!("read {number} of {of:?} is answered, and was not performed"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use base::{Incarnation, Rank};

    #[test]
    fn another_lifes_answer_is_a_violation() {
        let of = |life| Origin { rank: Rank::at(1), life: Incarnation(life) };
        let mut answered = Answered::default();
        answered.executes(of(1), 4, Slot(9));
        assert!(answered.tells(of(1), 4, Slot(9)).is_ok());
        assert!(answered.tells(of(2), 4, Slot(9)).is_err());
        assert!(answered.tells(of(1), 4, Slot(8)).is_err());
        assert!(answered.tells(of(1), 5, Slot(9)).is_err());
        answered.performs(of(1), 4);
        assert!(answered.tells_read(of(1), 4).is_ok());
        assert!(answered.tells_read(of(2), 4).is_err() && answered.tells_read(of(1), 5).is_err());
    }
    #[test]
    fn what_was_executed_behind_a_later_command_is_called_executed_by_no_process() {
        let of = Origin { rank: Rank::at(1), life: Incarnation(1) };
        let mut answered = Answered::default();
        // Command 2 is executed again later, which changes nothing.
        for (number, slot) in [(1, 0), (2, 1), (4, 1), (2, 2), (3, 3), (4, 4)] {
            answered.executes(of, number, Slot(slot));
        }
        for (number, slot) in [(1, 0), (2, 2), (4, 1), (4, 4)] {
            assert!(answered.tells(of, number, Slot(slot)).is_ok(), "{number}");
        }
        assert!(answered.tells(of, 3, Slot(3)).is_err());
    }
}
