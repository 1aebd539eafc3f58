//! The decisions of a seed before the first event: the group, the weather, the faults, the
//! workload.
//!
//! Swarm style: a seed does not draw a little of everything but switches kinds of fault on and off
//! and draws their intensities; bugs that need one kind undisturbed by another are found that way.

pub(crate) use crate::clock::MS;
use crate::disks::Disks;
use crate::kinds::KINDS;
pub(crate) use crate::kinds::Kind;
use crate::{Provider, Shape};
use base::Rng;
use proto::node::Timing;

/// The settings that the caller fixes for all seeds; the seed decides those that are `None`.
#[derive(Clone, Debug, Default)]
pub struct Config {
    /// The number of members.
    pub members: Option<usize>,
    /// The promises of the fabric beyond the common ones.
    pub provider: Option<Provider>,
    /// Whether to keep the text of the trace.
    pub trace: bool,
    /// Whether each run is a day: few operations, idle hours, faults that last for hours.
    pub is_long: bool,
}

/// The properties of the fabric, fixed for a run.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Weather {
    pub(crate) provider: Provider,
    pub(crate) latency_ns: u64,
    pub(crate) jitter_ns: u64,
    /// The largest factor by which one verb in 64 takes longer.
    pub(crate) spike: u64,
    /// The share of verbs of several words that are torn, in eighths...
    pub(crate) tear: u64,
    /// ... and the longest time between the two parts.
    pub(crate) tear_ns: u64,
    /// The longest time until a node notices a change of its region; `None`: it never does alone.
    pub(crate) notice_ns: Option<u64>,
    /// Whether a verb reported as unknown may take effect until its link is up again.
    pub(crate) late_effects: bool,
    /// Whether others act between two effects of one call (`ambush`, A2).
    pub(crate) interleaves: bool,
    /// The most messages on the way from one node to another, if that is few: then senders meet a
    /// flow without room.
    pub(crate) n_messages_max: Option<u8>,
    /// Wires differ by up to this power of two: what one process says to two others, and what two
    /// say to one, comes in any order for the whole run.
    pub(crate) unevenness: u64,
}

impl Weather {
    /// All is to be well: flows have room, as what is asked for then takes many messages.
    pub(crate) const fn clear_up(&mut self) {
        self.n_messages_max = None;
    }
}

/// A whole run, before it begins.
#[derive(Clone, Debug)]
pub(crate) struct Plan {
    pub(crate) members: usize,
    pub(crate) shape: Shape,
    pub(crate) weather: Weather,
    pub(crate) kinds: Vec<Kind>,
    /// The mean time between two strikes.
    pub(crate) strike_every_ns: u64,
    /// The longest time that a fault lasts.
    pub(crate) fault_ns_max: u64,
    /// The share of deaths that the peers learn of in time, in eighths.
    pub(crate) hints: u64,
    pub(crate) n_clients: usize,
    pub(crate) n_keys: u64,
    /// The mean time that a client thinks.
    pub(crate) think_ns: u64,
    /// The longest time that a client waits for one node's answer before it asks another.
    pub(crate) patience_ns: u64,
    /// The share of operations that are reads, in eighths.
    pub(crate) reads: u64,
    /// The share of requests, in eighths, that go to any node; the rest go to the presumed leader.
    pub(crate) anywhere: u64,
    /// The duration of the safety phase.
    pub(crate) safety_ns: u64,
    pub(crate) disks: Disks,
    /// The factor by which everything that recurs without a client's request is slower than usual:
    /// beats, attempts to connect, looks at a full disk.
    pub(crate) pace: u64,
}

impl Plan {
    pub(crate) fn draw(config: &Config, rng: &mut Rng) -> Plan {
        let members = match rng.below(16) {
            0 => 1,
            1 => 2,
            2 => 4,
            3 | 4 => 5,
            5 => 7,
            _ => 3,
        };
        let provider = if rng.chance(1, 2) { Provider::Shm } else { Provider::Tcp };
        let provider = config.provider.unwrap_or(provider);
        let latency_ns = 100 << rng.below(8);
        let mut kinds: Vec<Kind> = KINDS.into_iter().filter(|_| rng.chance(1, 2)).collect();
        if provider == Provider::Shm {
            kinds.retain(|kind| *kind != Kind::Reset);
        }
        // (No draw of its own, so that the other runs meet what they met.)
        let mut own = rng.clone();
        let n_messages_max = own.chance(1, 4).then(|| own.range(2, 8) as u8);
        let unevenness = if own.chance(1, 4) { own.range(2, 8) } else { 0 };
        // One run in eight is short and busy: its ring turns over in a few milliseconds.
        let busy = rng.chance(1, 8);
        Plan {
            members: config.members.unwrap_or(members),
            shape: Shape {
                ring_slots: 16 << rng.below(3),
                value_bytes: 104 + 24 * rng.below(4) as u32,
            },
            weather: Weather {
                provider,
                latency_ns,
                jitter_ns: latency_ns << rng.below(5),
                spike: 1 << rng.range(1, 8),
                tear: [0, 1, 4, 8][rng.below(4) as usize],
                tear_ns: latency_ns << rng.below(6),
                notice_ns: rng.chance(3, 4).then(|| 1000 << rng.below(8)),
                late_effects: rng.chance(1, 2),
                interleaves: false,
                n_messages_max,
                unevenness,
            },
            kinds,
            strike_every_ns: MS * (if busy { 15 } else { 20 << rng.below(5) }),
            fault_ns_max: MS * (if busy { 80 } else { 10 << rng.below(8) }),
            hints: [0, 4, 8][rng.below(3) as usize],
            n_clients: rng.range(2, 6) as usize,
            n_keys: rng.range(1, 3),
            think_ns: if busy { MS } else { MS * (8 << rng.below(5)) },
            patience_ns: MS * if busy { 10 } else { 400 },
            reads: rng.range(1, 6),
            anywhere: [0, 0, 1, 2, 4, 8][rng.below(6) as usize],
            safety_ns: if busy { 600 * MS } else { MS * rng.range(2000, 5000) },
            disks: Disks::CALM,
            pace: 1,
        }
    }

    /// Stretches the run to a day.
    pub(crate) fn stretch(&mut self, seed: u64) {
        const SECOND: u64 = 1000 * MS;
        let mut rng = Rng::new(seed ^ 0x64_6179);
        self.pace = 100;
        self.safety_ns = 24 * 3600 * SECOND;
        self.strike_every_ns = (600 * SECOND) << rng.below(5);
        self.fault_ns_max = SECOND * [60, 1800, 4 * 3600, 20 * 3600][rng.below(4) as usize];
        self.think_ns = (30 * SECOND) << rng.below(5);
        if rng.chance(1, 2) {
            // One or two kinds of faults strike, perhaps for longer than a day, and no others.
            let n_kinds = rng.range(1, 2) as usize;
            while self.kinds.len() > n_kinds {
                let gone = rng.below(self.kinds.len() as u64) as usize;
                self.kinds.swap_remove(gone);
            }
            self.strike_every_ns = 2 * 3600 * SECOND;
            self.fault_ns_max = 40 * 3600 * SECOND;
        }
        self.kinds.push(Kind::Wall);
    }

    /// Whether the run lasts a virtual day, and not seconds.
    pub(crate) fn lasts_a_day(&self) -> bool {
        self.pace > 1
    }

    /// The time within which words are heard and answered, and their sync may be under way still.
    pub(crate) fn unsynced_ns(&self) -> u64 {
        2 * (self.weather.latency_ns + self.weather.jitter_ns) + self.disks.latency_ns
    }

    /// The durations of things with their own clock.
    pub(crate) fn timing(&self) -> Timing {
        let usual = Timing::default();
        let pace = self.pace as u32;
        Timing {
            heartbeat_every: usual.heartbeat_every * pace,
            suspect_after: usual.suspect_after * pace,
        }
    }

    /// Three members in good weather, no clients, no faults: for scripts.
    pub(crate) fn calm(members: usize, provider: Provider, shape: Shape) -> Plan {
        Plan {
            members,
            shape,
            weather: Weather {
                provider,
                latency_ns: 1000,
                jitter_ns: 200,
                spike: 1,
                tear: 0,
                tear_ns: 1,
                notice_ns: Some(1000),
                late_effects: false,
                interleaves: false,
                n_messages_max: None,
                unevenness: 0,
            },
            kinds: Vec::new(),
            strike_every_ns: MS,
            fault_ns_max: MS,
            hints: 8,
            n_clients: 0,
            n_keys: 2,
            think_ns: MS,
            patience_ns: 400 * MS,
            reads: 4,
            anywhere: 0,
            safety_ns: u64::MAX / 4,
            disks: Disks::CALM,
            pace: 1,
        }
    }
}
