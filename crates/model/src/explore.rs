//! A depth-first walk over every state that a world can reach.
//!
//! - I1 Each state is expanded once. States are told apart by 64 bits of a hash: with n states the
//!   chance that two share one, and one of them is skipped, is about n^2 / 2^65 (a few in a million
//!   for ten million states).
//! - I2 The walk is complete, or says that it is not: it ends with every state expanded, at the
//!   first violation, or at the caller's bound, and [`Explored`] says which.

use std::panic::{AssertUnwindSafe, catch_unwind};

/// A system with all its possible next steps.
pub trait World: Clone {
    /// One thing that can happen.
    type Step: Copy + std::fmt::Debug;

    /// Appends the steps that can happen now.
    fn steps(&self, out: &mut Vec<Self::Step>);

    /// Takes a step.
    ///
    /// # Errors
    /// The property that this step breaks.
    fn take(&mut self, step: Self::Step) -> Result<(), String>;

    /// A hash of the state; equal for states that differ by a symmetry only.
    fn fingerprint(&mut self) -> u64;

    /// Checks the property that must hold in every state.
    ///
    /// # Errors
    /// The property that does not hold.
    fn check(&self) -> Result<(), String>;
}

/// A way to a state in which a property does not hold.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Violation {
    /// The property that does not hold.
    pub property: String,
    /// The steps from the beginning.
    pub path: Vec<String>,
}

/// The result of a walk.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explored {
    /// The number of different states.
    pub n_states: u64,
    /// The number of steps taken.
    pub n_steps: u64,
    /// Whether every reachable state was expanded.
    pub is_complete: bool,
    /// The first violation.
    pub violation: Option<Violation>,
}

/// Walks from `initial`, through at most `n_states_max` states.
pub fn explore<W: World>(initial: W, n_states_max: u64) -> Explored {
    let mut walk = Walk { seen: Seen::new(), n_steps: 0, path: Vec::new() };
    let violation = walk.run(initial, n_states_max);
    let is_complete = violation.is_none() && walk.path.is_empty();
    Explored { n_states: walk.seen.len, n_steps: walk.n_steps, is_complete, violation }
}

/// A state on the way, and its steps that have not been taken yet.
struct Frame<W: World> {
    world: W,
    todo: Vec<W::Step>,
    taken: Option<W::Step>,
}

struct Walk<W: World> {
    seen: Seen,
    n_steps: u64,
    path: Vec<Frame<W>>,
}

impl<W: World> Walk<W> {
    fn run(&mut self, mut initial: W, n_states_max: u64) -> Option<Violation> {
        self.seen.insert(initial.fingerprint());
        if let Err(property) = initial.check() {
            return Some(self.violation(property));
        }
        self.enter(initial, None);
        // Vectors of finished frames are used again: one allocation a level, not a state.
        while let Some(frame) = self.path.last_mut() {
            let Some(step) = frame.todo.pop() else {
                self.path.pop();
                continue;
            };
            self.n_steps += 1;
            let mut next = frame.world.clone();
            frame.taken = Some(step);
            if let Err(property) = take(&mut next, step) {
                return Some(self.violation(property));
            }
            if !self.seen.insert(next.fingerprint()) {
                continue;
            }
            if let Err(property) = next.check() {
                return Some(self.violation(property));
            }
            if self.seen.len >= n_states_max {
                // Incomplete, and `is_complete` sees it: the path is not empty.
                return None;
            }
            self.enter(next, None);
        }
        None
    }

    fn enter(&mut self, world: W, taken: Option<W::Step>) {
        let mut todo = Vec::new();
        world.steps(&mut todo);
        self.path.push(Frame { world, todo, taken });
    }

    fn violation(&self, property: String) -> Violation {
        let steps = self.path.iter().filter_map(|frame| frame.taken);
        Violation { property, path: steps.map(|step| format!("{step:?}")).collect() }
    }
}

/// Takes `step`. An assertion that does not hold is a violation like any other: it names its
/// invariant. (The walk ends then, so nothing is left of the world that it stopped in.)
fn take<W: World>(world: &mut W, step: W::Step) -> Result<(), String> {
    catch_unwind(AssertUnwindSafe(|| world.take(step))).unwrap_or_else(|panic| {
        let text = panic.downcast_ref::<String>().cloned();
        let text = text.or_else(|| panic.downcast_ref::<&str>().map(|text| (*text).to_owned()));
        Err(text.unwrap_or_else(|| "a panic without a text".to_owned()))
    })
}

/// The states seen so far: an open-addressing set of hashes.
struct Seen {
    slots: Vec<u64>,
    len: u64,
}

impl Seen {
    fn new() -> Seen {
        Seen { slots: vec![0; 1 << 12], len: 0 }
    }

    /// Adds `hash`. True if it was not there.
    fn insert(&mut self, hash: u64) -> bool {
        // Zero marks an empty slot.
        let hash = hash.max(1);
        if self.len as usize * 2 >= self.slots.len() {
            self.grow();
        }
        let at = Seen::place(&self.slots, hash);
        let is_new = self.slots[at] == 0;
        self.slots[at] = hash;
        self.len += u64::from(is_new);
        is_new
    }

    fn place(slots: &[u64], hash: u64) -> usize {
        let mask = slots.len() - 1;
        let mut at = hash as usize & mask;
        while slots[at] != 0 && slots[at] != hash {
            at = (at + 1) & mask;
        }
        at
    }

    fn grow(&mut self) {
        let mut slots = vec![0; self.slots.len() * 2];
        for hash in self.slots.iter().copied().filter(|hash| *hash != 0) {
            let at = Seen::place(&slots, hash);
            slots[at] = hash;
        }
        self.slots = slots;
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Two counters below a bound; a violation hides at one pair.
    #[derive(Clone)]
    struct Counters {
        at: [u32; 2],
        bound: u32,
        trap: Option<[u32; 2]>,
    }

    impl World for Counters {
        type Step = usize;

        fn steps(&self, out: &mut Vec<usize>) {
            out.extend((0..2).filter(|which| self.at[*which] < self.bound));
        }

        fn take(&mut self, step: usize) -> Result<(), String> {
            self.at[step] += 1;
            Ok(())
        }

        fn fingerprint(&mut self) -> u64 {
            (u64::from(self.at[0]) << 32 | u64::from(self.at[1]))
                .wrapping_mul(0x9e37_79b9_7f4a_7c15)
        }

        fn check(&self) -> Result<(), String> {
            if self.trap == Some(self.at) { Err("trapped".into()) } else { Ok(()) }
        }
    }

    #[test]
    fn i1_every_state_is_counted_once() {
        let explored = explore(Counters { at: [0, 0], bound: 99, trap: None }, u64::MAX);
        assert_eq!((explored.n_states, explored.is_complete), (100 * 100, true));
        assert_eq!(explored.n_steps, 2 * 99 * 100);
    }

    #[test]
    fn a_violation_comes_with_the_way_to_it() {
        let trap = Some([3, 2]);
        let explored = explore(Counters { at: [0, 0], bound: 9, trap }, u64::MAX);
        let violation = explored.violation.expect("it is reachable");
        assert_eq!(violation.path.len(), 5);
        assert!(!explored.is_complete);
    }

    #[test]
    fn i2_a_bounded_walk_says_that_it_is_incomplete() {
        let explored = explore(Counters { at: [0, 0], bound: 99, trap: None }, 500);
        assert!(!explored.is_complete && explored.violation.is_none());
        assert_eq!(explored.n_states, 500);
    }
}
