//! Answered: an answer that reaches a member's client is that of its own command, executed in the
//! slot that it names, or of its own read, performed for it.
//!
//! Why it matters: another command's answer is often the same. Why no false alarm: a member answers
//! only after some member has executed the command, or performed the read, and each is noted then.

use base::Slot;
use engine::Origin;
use std::collections::BTreeSet;

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
}

impl Answered {
    /// Notes that the command is executed in `slot`.
    pub(crate) fn executes(&mut self, of: Origin, number: u64, slot: Slot) {
        self.executed.insert((name(of, number), slot));
    }

    /// Notes that the read is performed.
    pub(crate) fn performs(&mut self, of: Origin, number: u64) {
        self.performed.insert(name(of, number));
    }

    /// The client is told that its command was executed in `slot`.
    pub(crate) fn tells(&self, of: Origin, number: u64, slot: Slot) -> Result<(), String> {
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
}
