//! The events to come, in their order.
//!
//! - I1 The order is total and depends only on what was pushed and set: by time; at one time the
//!   pushed events, in order of pushing, then the timers, in order of their index. By construction:
//!   no two keys are equal.
//! - I2 Time never runs backwards: asserted when an event is pushed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// An event to come. The list is closed: the world handles each in one `match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The first verb of this link continues to take effect.
    Verb(u32),
    /// The first completion of this link reaches its poster.
    Completion(u32),
    /// A node's loop runs once.
    Run(u16),
    /// A client reaches the time of its next look: the answer's deadline, or a new thought.
    Client(u8),
    /// A request reaches a node.
    Request {
        /// The node.
        node: u16,
        /// The client.
        client: u8,
        /// The client's ordinal of the request.
        attempt: u32,
    },
    /// An answer reaches its client.
    Answer {
        /// The client.
        client: u8,
        /// The attempt that is answered.
        attempt: u32,
        /// The index of the answer in the world's table.
        index: u32,
    },
    /// The fault planner strikes.
    Strike,
    /// An ambush for this node springs.
    Spring(u16),
    /// A fault that lasts ends.
    Mend(Fault),
    /// One direction of a connection finds out that it is broken.
    Break(u32),
    /// Both ends of a broken connection try again.
    Reconnect(u32),
    /// A connection is reset.
    Reset(u32),
    /// A node learns (rightly or not) that another's process has failed.
    Hint {
        /// The node that learns it.
        to: u16,
        /// The node whose process is meant.
        about: u16,
        /// The life that has ended, by the report.
        life: u32,
    },
    /// A node asks the others for their state.
    Fetch {
        /// The node.
        node: u16,
        /// The life of the node.
        life: u32,
        /// The transfer of the node.
        transfer: u32,
    },
    /// The next part of a requested state is at its node.
    Install {
        /// The node.
        node: u16,
        /// The life of the node.
        life: u32,
        /// The transfer of the node.
        transfer: u32,
    },
    /// A flush of a node's disk ends.
    Disk {
        /// The node of the disk.
        node: u16,
        /// The life in which it asked.
        life: u32,
    },
    /// The thread that writes a node's snapshot takes its next step.
    Snapshot {
        /// The node of the snapshot.
        node: u16,
        /// The life in which it was begun.
        life: u32,
    },
    /// The power fails, for one node or (where all are on one host) for all.
    PowerCut(u16),
    /// The operator looks for the next step.
    Operate,
    /// The leader dies although all is well (clusters).
    Depose,
    /// The next phase of the run begins.
    Phase,
    /// A piece of a verb has left a node (`costs`).
    Left(u16),
}

/// A fault that has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A dead process is started again.
    Crash(u16),
    /// A stopped process resumes.
    Pause(u16),
    /// A cut direction carries again.
    Cut(u32),
    /// A slow direction is as fast as before.
    Slow(u32),
    /// A slow process is as fast as before.
    Sluggish(u16),
    /// A partition heals.
    Partition,
    /// A disk that stood still or was full works again.
    Disk(u16),
    /// A wall clock is correct again.
    Wall(u16),
}

#[derive(Clone, Copy)]
struct Entry {
    at: u64,
    sequence: u64,
    what: Happening,
}

impl PartialEq for Entry {
    fn eq(&self, other: &Entry) -> bool {
        self.sequence == other.sequence
    }
}

impl Eq for Entry {}

impl PartialOrd for Entry {
    fn partial_cmp(&self, other: &Entry) -> Option<Ordering> {
        Some(self.cmp(other))
    }
}

impl Ord for Entry {
    /// The heap gives its greatest first: the earliest is the greatest.
    fn cmp(&self, other: &Entry) -> Ordering {
        (other.at, other.sequence).cmp(&(self.at, self.sequence))
    }
}

/// The recurring events, of which each has at most one time: a link's next verb and completion, a
/// node's next run, a client's next look. They play a tournament: setting one plays its matches
/// again, and the winner of all is known. No branch depends on times, which no processor can
/// predict.
struct Timers {
    /// The second half has the key of each timer, its time and then its index: the earliest key is
    /// the earliest timer, ties go to the lower index; `NEVER` if it is not set. Before them are
    /// the winners: the earlier of the two at twice a place is at that place, so that the earliest
    /// of all is at place 1.
    keys: Box<[u64]>,
    /// The place of the first timer: a power of two.
    leaves: usize,
    /// The lowest bits of a key are the timer's index: so many.
    index_bits: u32,
    /// The event of each timer.
    what: Vec<Happening>,
}

/// Not scheduled.
pub(crate) const NEVER: u64 = u64::MAX;

impl Timers {
    fn new(what: Vec<Happening>) -> Timers {
        let leaves = what.len().next_power_of_two();
        let keys = vec![NEVER; 2 * leaves].into_boxed_slice();
        Timers { keys, leaves, index_bits: leaves.trailing_zeros(), what }
    }

    #[inline]
    fn set(&mut self, timer: usize, at: u64) {
        let is_in_time = at == NEVER || at.leading_zeros() >= self.index_bits;
        debug_assert!(is_in_time, "I1: {at} ns is too late");
        let mut key = if at == NEVER { NEVER } else { at << self.index_bits | timer as u64 };
        let keys = &mut self.keys[..];
        let mut place = self.leaves + timer;
        keys[place] = key;
        while place > 1 {
            key = key.min(keys[place ^ 1]);
            place /= 2;
            keys[place] = key;
        }
    }

    #[inline]
    fn at(&self, timer: usize) -> u64 {
        self.time_of(self.keys[self.leaves + timer])
    }

    #[inline]
    fn time_of(&self, key: u64) -> u64 {
        if key == NEVER { NEVER } else { key >> self.index_bits }
    }

    #[inline]
    fn first(&self) -> (u64, usize) {
        let key = self.keys[1];
        (self.time_of(key), (key & ((1 << self.index_bits) - 1)) as usize)
    }
}

/// The events to come.
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    timers: Timers,
    members: usize,
    links: usize,
    pushed: u64,
    now: u64,
}

impl Queue {
    pub(crate) fn new(members: usize, n_clients: usize) -> Queue {
        let links = members * members;
        let what = (0..links)
            .map(|link| Happening::Verb(link as u32))
            .chain((0..links).map(|link| Happening::Completion(link as u32)))
            .chain((0..members).map(|node| Happening::Run(node as u16)))
            .chain((0..n_clients).map(|client| Happening::Client(client as u8)));
        Queue {
            heap: BinaryHeap::new(),
            timers: Timers::new(what.collect()),
            members,
            links,
            pushed: 0,
            now: 0,
        }
    }

    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// Plans `what` for `at`; an event in the past happens now.
    pub(crate) fn push(&mut self, at: u64, what: Happening) {
        self.pushed += 1;
        self.heap.push(Entry { at: at.max(self.now), sequence: self.pushed, what });
    }

    fn set(&mut self, timer: usize, at: u64) {
        self.timers.set(timer, at.max(self.now));
    }

    /// Sets the time at which the first verb of `link` continues; replaces the time before.
    pub(crate) fn set_verb(&mut self, link: usize, at: u64) {
        self.set(link, at);
    }

    /// Sets the time at which the first completion of `link` arrives.
    pub(crate) fn set_completion(&mut self, link: usize, at: u64) {
        self.set(self.links + link, at);
    }

    /// Sets the time at which `node`'s loop runs.
    pub(crate) fn set_run(&mut self, node: usize, at: u64) {
        self.set(2 * self.links + node, at);
    }

    /// The time at which `node`'s loop is set to run.
    pub(crate) fn run_at(&self, node: usize) -> u64 {
        self.timers.at(2 * self.links + node)
    }

    /// Sets the time of `client`'s next look.
    pub(crate) fn set_client(&mut self, client: usize, at: u64) {
        self.set(2 * self.links + self.members + client, at);
    }

    /// The next event, if it is not later than `limit`; time moves to it.
    #[inline]
    pub(crate) fn pop_until(&mut self, limit: u64) -> Option<Happening> {
        let (at, timer) = self.timers.first();
        let once = self.heap.peek().map_or(NEVER, |entry| entry.at);
        let next = at.min(once);
        if next == NEVER || next > limit {
            return None;
        }
        assert!(next >= self.now, "I2: time never runs backwards");
        self.now = next;
        if once <= at {
            return self.heap.pop().map(|entry| entry.what);
        }
        self.timers.set(timer, NEVER);
        Some(self.timers.what[timer])
    }

    /// Moves the time to `at` without an event.
    pub(crate) fn pass(&mut self, at: u64) {
        self.now = self.now.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_events_of_one_time_come_in_order_of_pushing() {
        let mut queue = Queue::new(3, 0);
        queue.push(7, Happening::Reconnect(1));
        queue.push(5, Happening::Reconnect(2));
        queue.push(7, Happening::Reconnect(3));
        queue.push(5, Happening::Reconnect(4));
        let mut order = Vec::new();
        while let Some(Happening::Reconnect(link)) = queue.pop_until(10) {
            order.push(link);
        }
        assert_eq!(order, [2, 4, 1, 3]);
    }

    #[test]
    fn i2_what_is_late_happens_now() {
        let mut queue = Queue::new(1, 0);
        queue.push(5, Happening::Phase);
        assert_eq!(queue.pop_until(4), None);
        assert_eq!(queue.pop_until(5), Some(Happening::Phase));
        queue.push(1, Happening::Strike);
        assert_eq!(queue.pop_until(9), Some(Happening::Strike));
        assert_eq!(queue.now(), 5);
        queue.set_run(0, 2);
        assert_eq!(queue.pop_until(9), Some(Happening::Run(0)));
        assert_eq!(queue.now(), 5);
    }

    #[test]
    fn a_timer_has_one_time_and_the_earliest_comes_first() {
        let mut rng = base::Rng::new(4);
        let mut queue = Queue::new(3, 5);
        let mut twin = vec![NEVER; 26];
        for _ in 0..5000 {
            let timer = rng.below(26) as usize;
            if rng.chance(3, 4) {
                twin[timer] = queue.now() + rng.below(50);
                queue.set(timer, twin[timer]);
            } else if let Some(what) = queue.pop_until(NEVER - 1) {
                let first = *twin.iter().min().expect("26 timers");
                let timer = twin.iter().position(|at| *at == first).expect("it is one of them");
                assert_eq!((queue.now(), what), (first, queue.timers.what[timer]));
                twin[timer] = NEVER;
            } else {
                assert!(twin.iter().all(|at| *at == NEVER));
            }
        }
    }
}
