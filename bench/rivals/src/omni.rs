//! The `omnipaxos` crate: a leader-based Paxos log, three replicas in one thread.

use crate::{Core, REPLICAS, VALUE_BYTES, Value};
use omnipaxos::messages::Message;
use omnipaxos::util::LogEntry;
use omnipaxos::{ClusterConfig, OmniPaxos, OmniPaxosConfig, ServerConfig, macros};
use omnipaxos_storage::memory_storage::MemoryStorage;

/// By value: the form that is cheapest for this crate.
#[derive(Clone, Debug, macros::Entry)]
struct Entry([u8; VALUE_BYTES]);

type Replica = OmniPaxos<Entry, MemoryStorage<Entry>>;

/// Three replicas, of which `leader` leads.
pub(crate) struct Omni {
    replicas: Vec<Replica>,
    messages: Vec<Message<Entry>>,
    leader: usize,
    /// Entries that each replica has handed to its state machine.
    applied: Vec<usize>,
    sum: u64,
}

impl Omni {
    fn pump(&mut self) {
        loop {
            let mut messages = std::mem::take(&mut self.messages);
            self.replicas.iter_mut().for_each(|r| r.take_outgoing_messages(&mut messages));
            if messages.is_empty() {
                self.messages = messages;
                return;
            }
            for message in messages.drain(..) {
                let to = message.get_receiver() as usize - 1;
                self.replicas[to].handle_incoming(message);
            }
            self.messages = messages;
        }
    }
}

impl Core for Omni {
    const PEER: &str = "omnipaxos";

    fn start() -> Omni {
        let nodes: Vec<u64> = (1..=REPLICAS as u64).collect();
        let replicas = nodes.iter().map(|&pid| {
            let config = OmniPaxosConfig {
                cluster_config: ClusterConfig {
                    configuration_id: 1,
                    nodes: nodes.clone(),
                    ..ClusterConfig::default()
                },
                server_config: ServerConfig { pid, ..ServerConfig::default() },
            };
            config.build(MemoryStorage::default()).expect("a valid configuration")
        });
        let mut cluster = Omni {
            replicas: replicas.collect(),
            messages: vec![],
            leader: 0,
            applied: vec![0; REPLICAS],
            sum: 0,
        };
        for _ in 0..1000 {
            cluster.replicas.iter_mut().for_each(Replica::tick);
            cluster.pump();
            if let Some((leader, true)) = cluster.replicas[0].get_current_leader() {
                cluster.leader = leader as usize - 1;
                return cluster;
            }
        }
        panic!("no leader after 1000 ticks");
    }

    fn decide(&mut self, values: &[Value]) {
        for value in values {
            self.replicas[self.leader].append(Entry(*value)).expect("no reconfiguration");
        }
        self.pump();
        for (replica, applied) in self.replicas.iter().zip(&mut self.applied) {
            for entry in replica.read_decided_suffix(*applied).unwrap_or_default() {
                if let LogEntry::Decided(Entry(value)) = entry {
                    self.sum += u64::from(value[0]);
                    *applied += 1;
                }
            }
        }
    }

    fn applied(&self) -> usize {
        self.applied.iter().copied().min().unwrap_or(0)
    }

    fn sum(&self) -> u64 {
        self.sum
    }
}
