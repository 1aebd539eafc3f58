//! The costs of a network: what a verb takes of the hosts at its two ends, for experiments about
//! throughput (`group::shapes`). Seeds have none: there a verb takes the time that chance gives it.
//!
//! ```text
//! verbs by link -> NIC out of a host -> latency -> NIC in of the other one -> takes effect
//!                   one at a time, links in turn      one at a time
//! ```
//! - I1 *Room.* Each direction of a NIC carries one piece of a verb at a time, and the memory of a
//!   host moves the bytes of both. By construction: each is free again when the piece ends.
//! - I2 *In turn.* A NIC sends for its links in turn, a piece of the first verb of each, as NICs do
//!   for queue pairs: a word for one peer does not wait for all that another one is sent.
//! - I3 *Order.* The verbs of a link leave, and take effect, in posting order (T2).

use std::collections::VecDeque;

/// The time of arrival of a verb that has not left.
pub(crate) const UNSENT: u64 = u64::MAX;

/// The longest piece of a verb: a NIC serves another link behind it.
const PIECE_BYTES: u64 = 16 << 10;

/// What hosts and their network can do.
#[derive(Clone, Copy, Debug)]
pub struct Rates {
    /// The name in reports.
    pub name: &'static str,
    /// The nanoseconds from one host to another.
    pub latency_ns: u64,
    /// The bytes of a microsecond, in each direction of a NIC.
    pub nic_bytes_per_us: u64,
    /// The bytes of a microsecond that a host's memory moves, in both directions together.
    pub host_bytes_per_us: u64,
    /// The bytes of a verb beyond its payload.
    pub header_bytes: u64,
    /// What a verb takes is a multiple of so many bytes.
    pub cell_bytes: u64,
}

impl Rates {
    /// The hosts of the paper's first cluster: 100 Gbit/s in each direction, 16 GB/s of memory in
    /// both (4.1), frames of 80 bytes and 54 bytes of headers (3.6), 1.5 us for a round trip.
    pub const FRACTUS: Rates = Rates {
        name: "rdma-100g",
        latency_ns: 750,
        nic_bytes_per_us: 12_500,
        host_bytes_per_us: 16_000,
        header_bytes: 54,
        cell_bytes: 80,
    };

    /// Those of its second one: 56 Gbit/s, which it gives as 8 GB/s.
    pub const STAMPEDE: Rates = Rates {
        name: "rdma-56g",
        nic_bytes_per_us: 7_000,
        host_bytes_per_us: 8_000,
        ..Rates::FRACTUS
    };

    /// The first ones over TCP: every byte is copied at both ends, at the 3.75 GB/s of a copy that
    /// no cache holds (4.3).
    pub const TCP: Rates =
        Rates { name: "tcp-100g", latency_ns: 15_000, host_bytes_per_us: 3_750, ..Rates::FRACTUS };

    fn wire_bytes(&self, n_bytes: u64) -> u64 {
        (n_bytes + self.header_bytes).next_multiple_of(self.cell_bytes)
    }
}

/// One host's NIC and memory.
#[derive(Clone, Debug, Default)]
struct Host {
    /// The links that have something to send, in turn, each with what is left of its verbs.
    waiting: VecDeque<(usize, VecDeque<u64>)>,
    /// The times until which each is taken.
    out_until: u64,
    in_until: u64,
    memory_until: u64,
    /// Whether an end of a piece is planned.
    is_sending: bool,
    /// The verbs that were posted here, and their bytes on the wire.
    sent: (u64, u64),
}

/// The hosts of a network.
pub(crate) struct Costs {
    rates: Rates,
    hosts: Vec<Host>,
}

/// What a NIC has done when a piece has left.
pub(crate) struct Left {
    /// The link whose first unsent verb has left as a whole, if one has.
    pub(crate) link: Option<usize>,
    /// The time at which the next piece will have left, if there is one.
    pub(crate) next_at: Option<u64>,
}

impl Costs {
    pub(crate) fn new(rates: Rates, n_hosts: usize) -> Costs {
        Costs { rates, hosts: vec![Host::default(); n_hosts] }
    }

    pub(crate) const fn latency_ns(&self) -> u64 {
        self.rates.latency_ns
    }

    /// By host, the number of verbs that were posted there, and their bytes on the wire.
    pub(crate) fn sent(&self) -> impl Iterator<Item = (u64, u64)> + '_ {
        self.hosts.iter().map(|host| host.sent)
    }

    /// A verb of so many bytes waits on `link`, out of `from`. The time at which its first piece
    /// will have left, if the NIC was idle.
    pub(crate) fn post(&mut self, from: usize, link: usize, n_bytes: u64, now: u64) -> Option<u64> {
        let wire_bytes = self.rates.wire_bytes(n_bytes);
        let host = &mut self.hosts[from];
        host.sent = (host.sent.0 + 1, host.sent.1 + wire_bytes);
        match host.waiting.iter_mut().find(|(of, _)| *of == link) {
            Some((_, verbs)) => verbs.push_back(wire_bytes),
            None => host.waiting.push_back((link, VecDeque::from([wire_bytes]))),
        }
        if host.is_sending { None } else { self.send(from, now) }
    }

    /// Begins the next piece. The time at which it will have left.
    fn send(&mut self, from: usize, now: u64) -> Option<u64> {
        let rates = self.rates;
        let host = &mut self.hosts[from];
        let piece = host.waiting.front()?.1.front()?.min(&PIECE_BYTES);
        let (nic, memory) = spans(rates, *piece);
        host.memory_until = host.memory_until.max(now) + memory;
        host.out_until = (host.out_until.max(now) + nic).max(host.memory_until);
        host.is_sending = true;
        Some(host.out_until)
    }

    /// The piece that `from` was sending has left (I2).
    pub(crate) fn on_left(&mut self, from: usize, now: u64) -> Left {
        let host = &mut self.hosts[from];
        host.is_sending = false;
        let mut sent = None;
        if let Some((link, mut verbs)) = host.waiting.pop_front() {
            let rest = verbs.front_mut().expect("what was sent is of a verb");
            *rest = rest.saturating_sub(PIECE_BYTES);
            if *rest == 0 {
                verbs.pop_front();
                sent = Some(link);
            }
            if !verbs.is_empty() {
                host.waiting.push_back((link, verbs));
            }
        }
        Left { link: sent, next_at: self.send(from, now) }
    }

    /// The time at which a verb of so many bytes, which comes to `to` now, is in its memory.
    pub(crate) fn receive(&mut self, to: usize, n_bytes: u64, now: u64) -> u64 {
        let wire_bytes = self.rates.wire_bytes(n_bytes);
        let (nic, memory) = spans(self.rates, wire_bytes);
        let host = &mut self.hosts[to];
        // Its bytes have come while they were sent, if nothing else came.
        host.in_until = now.max(host.in_until + nic);
        let began = now.saturating_sub(memory);
        host.memory_until = host.memory_until.max(began) + memory;
        host.in_until.max(host.memory_until)
    }
}

/// The nanoseconds of a NIC, and of a host's memory, for so many bytes.
const fn spans(rates: Rates, n_bytes: u64) -> (u64, u64) {
    (n_bytes * 1000 / rates.nic_bytes_per_us, n_bytes * 1000 / rates.host_bytes_per_us)
}

#[cfg(test)]
mod tests {
    use super::*;

    const RATES: Rates = Rates {
        name: "round",
        latency_ns: 100,
        nic_bytes_per_us: 1000,
        host_bytes_per_us: 1000,
        header_bytes: 0,
        cell_bytes: 1,
    };

    #[test]
    fn i1_a_nic_carries_one_verb_at_a_time() {
        let mut costs = Costs::new(RATES, 2);
        assert_eq!(costs.post(0, 1, 300, 0), Some(300));
        assert_eq!(costs.post(0, 1, 200, 10), None, "it is sending");
        let left = costs.on_left(0, 300);
        assert_eq!((left.link, left.next_at), (Some(1), Some(500)));
        let left = costs.on_left(0, 500);
        assert_eq!((left.link, left.next_at), (Some(1), None));
        assert_eq!(costs.receive(1, 300, 400), 400, "it came while it was sent");
        assert_eq!(costs.receive(1, 200, 400), 600, "behind what came in the same moment");
    }

    #[test]
    fn i2_links_are_served_in_turn_whatever_one_of_them_sends() {
        let mut costs = Costs::new(RATES, 3);
        let first = costs.post(0, 1, 10 * PIECE_BYTES, 0).unwrap();
        assert_eq!(costs.post(0, 2, 8, 0), None);
        let left = costs.on_left(0, first);
        assert_eq!(left.link, None, "a piece of ten");
        let next = left.next_at.unwrap();
        assert_eq!(costs.on_left(0, next).link, Some(2), "the word, behind one piece");
        assert_eq!(next, first + 8);
    }

    #[test]
    fn a_hosts_memory_moves_the_bytes_of_both_directions() {
        let mut costs = Costs::new(Rates { nic_bytes_per_us: 2000, ..RATES }, 2);
        assert_eq!(costs.post(0, 1, 1000, 0), Some(1000), "by its memory, not by its NIC");
        assert_eq!(costs.receive(0, 1000, 1000), 2000, "its memory was taken");
    }
}
