//! What happens next.
//!
//! - I1 The order is total and depends on nothing but the pushes: by time, then by order of
//!   pushing. By construction: the key is (time, sequence) and no two sequences are equal.
//! - I2 Time never runs backwards: asserted when an event is pushed.

use std::cmp::Ordering;
use std::collections::BinaryHeap;

/// Something that is going to happen. Closed: the world handles each in one `match`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Happening {
    /// The first verb of this link goes on taking effect.
    Verb(u8),
    /// The first completion of this link reaches its poster.
    Completion(u8),
    /// A node's loop runs once.
    Run(u8),
    /// A client looks at what it waits for: the answer's deadline, or time to think of a new one.
    Client(u8),
    /// A request reaches a node.
    Request {
        /// Which node.
        node: u8,
        /// Whose request.
        client: u8,
        /// The client's name for it.
        attempt: u32,
    },
    /// An answer reaches its client.
    Answer {
        /// Which client.
        client: u8,
        /// To which of its attempts.
        attempt: u32,
        /// Index of the answer in the world's table.
        index: u32,
    },
    /// The fault planner strikes.
    Strike,
    /// A fault that lasts comes to its end.
    Mend(Fault),
    /// One direction of a connection finds out that it is broken.
    Break(u8),
    /// Both ends of a broken connection try again.
    Reconnect(u8),
    /// A node hears (rightly or not) that another's process has failed.
    Hint {
        /// Who hears it.
        to: u8,
        /// Whom it is about.
        about: u8,
        /// The life that is said to have ended.
        life: u32,
    },
    /// A node asks the others for their state.
    Fetch {
        /// Which node.
        node: u8,
        /// In which of its lives.
        life: u32,
    },
    /// The state that a node asked for is there.
    Install {
        /// Which node.
        node: u8,
        /// In which of its lives.
        life: u32,
    },
    /// The next phase of the run begins.
    Phase,
}

/// A fault that has an end.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Fault {
    /// A dead process is started again.
    Crash(u8),
    /// A stopped process goes on.
    Pause(u8),
    /// A cut direction carries again.
    Cut(u8),
    /// A slow direction is as fast as before.
    Slow(u8),
    /// A slow process is as fast as before.
    Sluggish(u8),
    /// A partition heals.
    Partition,
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

/// The events to come.
#[derive(Default)]
pub(crate) struct Queue {
    heap: BinaryHeap<Entry>,
    pushed: u64,
    now: u64,
}

impl Queue {
    pub(crate) fn now(&self) -> u64 {
        self.now
    }

    /// `what` happens at `at`; what is already past happens now.
    pub(crate) fn push(&mut self, at: u64, what: Happening) {
        self.pushed += 1;
        self.heap.push(Entry { at: at.max(self.now), sequence: self.pushed, what });
    }

    /// The next event, if it is not later than `limit`; time moves to it.
    pub(crate) fn pop_until(&mut self, limit: u64) -> Option<Happening> {
        if self.heap.peek()?.at > limit {
            return None;
        }
        let entry = self.heap.pop()?;
        assert!(entry.at >= self.now, "I2: time never runs backwards");
        self.now = entry.at;
        Some(entry.what)
    }

    /// Nothing happens until `at`.
    pub(crate) fn pass(&mut self, at: u64) {
        self.now = self.now.max(at);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_events_of_one_time_come_in_order_of_pushing() {
        let mut queue = Queue::default();
        queue.push(7, Happening::Run(1));
        queue.push(5, Happening::Run(2));
        queue.push(7, Happening::Run(3));
        queue.push(5, Happening::Run(4));
        let mut order = Vec::new();
        while let Some(Happening::Run(node)) = queue.pop_until(10) {
            order.push(node);
        }
        assert_eq!(order, [2, 4, 1, 3]);
    }

    #[test]
    fn i2_what_is_late_happens_now() {
        let mut queue = Queue::default();
        queue.push(5, Happening::Phase);
        assert_eq!(queue.pop_until(4), None);
        assert_eq!(queue.pop_until(5), Some(Happening::Phase));
        queue.push(1, Happening::Strike);
        assert_eq!(queue.pop_until(9), Some(Happening::Strike));
        assert_eq!(queue.now(), 5);
    }
}
