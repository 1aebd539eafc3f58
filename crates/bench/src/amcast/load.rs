//! The clients of one node: one beside each of its members, as in the thesis (4.5.2).
//!
//! A client multicasts to its member's group and to others at random. A message is complete when
//! the client's own member delivers it.
//!
//! - B1 An open loop's times count from when a message *should* have been multicast, also if it was
//!   refused at first: an overloaded system does not slow down the clock that measures it.

use crate::clock::shared_ns;
use base::{Instant, Rng};
use multicast::{Delivery, Desk, GroupId, GroupSet, Options};
use report::Latency;
use serde::{Deserialize, Serialize};
use std::collections::VecDeque;
use std::time::Duration;

/// The rate at which clients multicast.
#[derive(Clone, Copy, Debug, PartialEq, Serialize, Deserialize)]
pub enum Pace {
    /// Each client has a fixed number of messages under way.
    Closed {
        /// The number.
        outstanding: usize,
    },
    /// The clients of one node multicast at a fixed rate, at random moments.
    Open {
        /// The number of messages a second.
        per_s: f64,
    },
}

/// The work of a node's clients.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Plan {
    /// The number of groups of a message.
    pub destinations: usize,
    /// The bytes of a payload.
    pub message_bytes: usize,
    /// The rate.
    pub pace: Pace,
    /// The time before the measurement.
    pub warm_up: Duration,
    /// The time of the measurement.
    pub span: Duration,
}

/// The bytes in front of a payload: node, client, and the time at which it should have been
/// multicast.
pub const HEADER_BYTES: usize = 10;

/// The measurements.
#[derive(Clone, Debug, Default)]
pub(super) struct Seen {
    pub(super) completed: u64,
    pub(super) refused: u64,
    pub(super) latency: Vec<(u64, u64)>,
    pub(super) since_ns: u64,
}

/// The clients of a node.
pub(super) struct Load {
    plan: Plan,
    node: u8,
    n_groups: usize,
    rng: Rng,
    /// The clients that want to multicast, and since when.
    ready: VecDeque<(u8, u64)>,
    /// The time at which the next message of an open loop should be multicast.
    next_ns: u64,
    runs: bool,
    completed: u64,
    refused: u64,
    latency: Latency,
    since_ns: u64,
    now: (u64, Instant),
}

impl Load {
    pub(super) fn new(plan: &Plan, node: usize, n_groups: usize) -> Load {
        assert!((1..=n_groups).contains(&plan.destinations), "as many groups as there are");
        Load {
            plan: plan.clone(),
            node: node as u8,
            n_groups,
            rng: Rng::new(node as u64),
            ready: VecDeque::new(),
            next_ns: 0,
            runs: false,
            completed: 0,
            refused: 0,
            latency: Latency::new(),
            since_ns: 0,
            now: (0, Instant::ZERO),
        }
    }

    /// Makes all clients want to multicast.
    pub(super) fn begin(&mut self, now: u64) {
        self.runs = true;
        self.next_ns = now;
        if let Pace::Closed { outstanding } = self.plan.pace {
            let clients = (0..outstanding).flat_map(|_| 0..self.n_groups);
            self.ready.extend(clients.map(|client| (client as u8, now)));
        }
    }

    /// Starts the measurement.
    pub(super) fn measure(&mut self, now: u64) {
        (self.completed, self.refused, self.since_ns) = (0, 0, now);
        self.latency = Latency::new();
    }

    pub(super) const fn end(&mut self) {
        self.runs = false;
    }

    pub(super) fn seen(&self) -> Seen {
        Seen {
            completed: self.completed,
            refused: self.refused,
            latency: self.latency.buckets().collect(),
            since_ns: self.since_ns,
        }
    }

    pub(super) fn delivered(&mut self, delivery: &Delivery) {
        let Some((header, _)) = delivery.message.payload.split_first_chunk::<HEADER_BYTES>() else {
            return;
        };
        let [node, client, since @ ..] = *header;
        let is_ours = node == self.node && usize::from(client) == delivery.group.index();
        if !self.runs || !is_ours {
            return;
        }
        let now = shared_ns();
        self.completed += 1;
        self.latency.record_ns(now.saturating_sub(u64::from_le_bytes(since)));
        if let Pace::Closed { .. } = self.plan.pace {
            self.ready.push_back((client, now));
        }
    }

    /// Multicasts the messages that are due. True if there were any.
    pub(super) fn go_on(&mut self, now: u64, desk: &mut Desk) -> bool {
        self.now = (now, desk.now());
        if let (true, Pace::Open { per_s }) = (self.runs, self.plan.pace) {
            while self.next_ns <= now {
                let client = self.rng.below(self.n_groups as u64) as u8;
                self.ready.push_back((client, self.next_ns));
                // The gaps have the distribution of a Poisson process.
                let uniform = (self.rng.next_u64() >> 11) as f64 / (1u64 << 53) as f64;
                self.next_ns += (-(1.0 - uniform).ln() / per_s * 1e9) as u64;
            }
        }
        let mut worked = false;
        while let Some(&(client, since)) = self.ready.front() {
            if !self.multicast(client, since, desk) {
                self.refused += 1;
                break;
            }
            self.ready.pop_front();
            worked = true;
        }
        worked
    }

    fn multicast(&mut self, client: u8, since: u64, desk: &mut Desk) -> bool {
        let mut dest: GroupSet = GroupId::at(client.into()).alone();
        while dest.len() < self.plan.destinations {
            dest.insert(GroupId::at(self.rng.below(self.n_groups as u64) as usize));
        }
        let mut payload = vec![0; self.plan.message_bytes.max(HEADER_BYTES)];
        (payload[0], payload[1]) = (self.node, client);
        payload[2..HEADER_BYTES].copy_from_slice(&since.to_le_bytes()); // B1
        // A late message is a sample, however late.
        let options = Options { patience: Duration::from_secs(3600), ..Options::default() };
        desk.multicast(dest, payload, &options).is_ok()
    }

    /// The time at which the next message is due.
    pub(super) fn deadline(&self) -> Option<Instant> {
        let (now, at) = self.now;
        match self.plan.pace {
            Pace::Open { .. } if self.runs => {
                Some(at.plus(Duration::from_nanos(self.next_ns.saturating_sub(now))))
            }
            Pace::Open { .. } | Pace::Closed { .. } => None,
        }
    }
}
