//! The steps of work that neither the length of a command nor that of its answer bounds.
//!
//! A command pays for what it looks at or copies, out of the steps of its transaction or script
//! ([`STEPS_MAX`](crate::reply::STEPS_MAX)). The prices are in one place, here. A step
//! is some 1.25 ns; where ordinary transactions repeat a command often, its price is lower than its
//! time.
//!
//! - I1 a command is never refused for its own work alone, but for what those before it have left:
//!   it begins while any steps are left, and then takes at most these. A match of patterns, whose
//!   work is not known before, ends with them, and SCAN at its next cursor.
//! - I2 what is refused has changed nothing: a command asks before it changes.

use crate::reply::Reply;

/// The bytes that are copied in the time of a step.
const COPIED_BYTES: usize = 16;

/// The bytes that are looked at one by one in the time of a step.
const WALKED_BYTES: usize = 8;

/// The bytes of a payload of DUMP that are copied and checked in the time of a step.
const DUMPED_BYTES: usize = 2;

/// The square of a number's digits that are read, or printed, in the time of a step.
const DIGITS_SQUARED: usize = 256;

/// The comparisons of a pattern with a key that are made in the time of a step.
const COMPARISONS: usize = 16;

/// The cost of visiting a key.
const KEY_STEPS: usize = 4;

/// The cost of beginning a script: an interpreter of its own. A transaction can have a thousand.
pub(crate) const SCRIPT_STEPS: usize = 12 << 10;

/// The cost of a byte of a script's text, which is compiled each time.
const SCRIPT_BYTE_STEPS: usize = 4;

pub(crate) const SPENT: &str = "ERR the command, or those of its transaction or script so far, \
                                take too many steps (gregale's limit)";

/// Whether there are steps left to begin with, or answers that they are spent.
pub(crate) fn begins(reply: &mut Reply) -> bool {
    let may = reply.steps_left() > 0;
    if !may {
        reply.error(SPENT);
    }
    may
}

/// Pays for copying bytes of values, or answers that no steps are left.
pub(crate) fn copies(n_bytes: usize, reply: &mut Reply) -> bool {
    pays(n_bytes / COPIED_BYTES, reply)
}

/// The same of bytes that have been copied already.
pub(crate) fn has_copied(n_bytes: usize, reply: &mut Reply) {
    reply.pay_steps(n_bytes / COPIED_BYTES);
}

/// Pays for looking at bytes of values, or answers that no steps are left.
pub(crate) fn walks(n_bytes: usize, reply: &mut Reply) -> bool {
    pays(n_bytes / WALKED_BYTES, reply)
}

/// The same of bytes that have been looked at already.
pub(crate) fn has_walked(n_bytes: usize, reply: &mut Reply) {
    reply.pay_steps(n_bytes / WALKED_BYTES);
}

/// Pays for a payload of DUMP, or answers that no steps are left.
pub(crate) fn dumps(n_bytes: usize, reply: &mut Reply) -> bool {
    pays(n_bytes / DUMPED_BYTES, reply)
}

/// Pays for the digits of a float, or answers that no steps are left.
pub(crate) fn counts(n_digits: usize, reply: &mut Reply) -> bool {
    pays(n_digits * n_digits / DIGITS_SQUARED, reply)
}

/// Pays for compiling a script of so many bytes, or answers that no steps are left.
pub(crate) fn compiles(n_bytes: usize, reply: &mut Reply) -> bool {
    pays(SCRIPT_STEPS + n_bytes * SCRIPT_BYTE_STEPS, reply)
}

fn pays(steps: usize, reply: &mut Reply) -> bool {
    // Most commands of most transactions are too small to count.
    if steps == 0 {
        return true;
    }
    let may = begins(reply);
    if may {
        reply.pay_steps(steps);
    }
    may
}

/// The keys that a walk may visit if it can end before it is over; one at least (I1).
pub(crate) fn visits_left(reply: &Reply) -> usize {
    reply.steps_left().div_ceil(KEY_STEPS)
}

/// Pays for visits of keys (I1), and of those that have expired and are not removed yet.
pub(crate) fn visits(n_keys: usize, reply: &mut Reply) {
    reply.pay_steps(n_keys.saturating_mul(KEY_STEPS));
}

/// The comparisons that a walk of keys may make.
#[derive(Debug)]
pub(crate) struct Matching {
    /// What is left beside those that the visit of a key pays for.
    left: usize,
    /// Those that were made beside them.
    made: usize,
}

impl Matching {
    /// What `reply` has left.
    pub(crate) fn new(reply: &Reply) -> Matching {
        Matching { left: reply.steps_left().saturating_mul(COMPARISONS), made: 0 }
    }

    /// Whether all of `key` matches `pattern`; `None` if no comparisons are left.
    pub(crate) fn matches(&mut self, pattern: &[u8], key: &[u8]) -> Option<bool> {
        const PAID: usize = KEY_STEPS * COMPARISONS;
        let mut left = self.left + PAID;
        let Some(found) = super::glob::matches_within(pattern, key, &mut left) else {
            self.made += std::mem::take(&mut self.left);
            return None;
        };
        let after = left.min(self.left);
        self.made += self.left - after;
        self.left = after;
        Some(found)
    }

    /// Pays for what was made.
    pub(crate) fn end(self, reply: &mut Reply) {
        reply.pay_steps(self.made / COMPARISONS);
    }
}
