//! The `raft` crate of TiKV: three replicas in one thread.

use crate::{Core, REPLICAS, Value};
use raft::eraftpb::{Entry, Message, MessageType};
use raft::storage::MemStorage;
use raft::{Config, RawNode, StateRole};

/// Three replicas, of which the first leads.
pub(crate) struct Tikv {
    replicas: Vec<RawNode<MemStorage>>,
    messages: Vec<Message>,
    applied: Vec<usize>,
    sum: u64,
}

impl Tikv {
    /// Runs until no replica has anything to do: each one's ready is persisted (in memory), applied
    /// and acknowledged, and its messages are delivered.
    fn pump(&mut self) {
        loop {
            let mut is_idle = true;
            for at in 0..REPLICAS {
                if self.replicas[at].has_ready() {
                    is_idle = false;
                    self.ready(at);
                }
            }
            for message in std::mem::take(&mut self.messages) {
                is_idle = false;
                let to = message.to as usize - 1;
                self.replicas[to].step(message).expect("a message of a member");
            }
            if is_idle {
                return;
            }
        }
    }

    fn ready(&mut self, at: usize) {
        let replica = &mut self.replicas[at];
        let mut ready = replica.ready();
        self.messages.extend(ready.take_messages());
        let committed = ready.take_committed_entries();
        if !ready.entries().is_empty() {
            replica.mut_store().wl().append(ready.entries()).expect("to memory");
        }
        if let Some(state) = ready.hs() {
            replica.mut_store().wl().set_hardstate(state.clone());
        }
        self.messages.extend(ready.take_persisted_messages());
        let mut light = replica.advance(ready);
        if let Some(commit) = light.commit_index() {
            replica.mut_store().wl().mut_hard_state().set_commit(commit);
        }
        self.messages.extend(light.take_messages());
        let later = light.take_committed_entries();
        replica.advance_apply();
        for entry in committed.iter().chain(&later) {
            if let Some(first) = entry.data.first() {
                self.sum += u64::from(*first);
                self.applied[at] += 1;
            }
        }
    }
}

impl Core for Tikv {
    const PEER: &str = "raft";

    fn start() -> Tikv {
        let voters: Vec<u64> = (1..=REPLICAS as u64).collect();
        let logger = slog::Logger::root(slog::Discard, slog::o!());
        let replicas = voters.iter().map(|&id| {
            let config = Config {
                id,
                max_size_per_msg: 1 << 20,
                max_inflight_msgs: 1024,
                ..Config::default()
            };
            let storage = MemStorage::new_with_conf_state((voters.clone(), vec![]));
            RawNode::new(&config, storage, &logger).expect("a valid configuration")
        });
        let mut cluster = Tikv {
            replicas: replicas.collect(),
            messages: vec![],
            applied: vec![0; REPLICAS],
            sum: 0,
        };
        cluster.replicas[0].campaign().expect("a member may campaign");
        cluster.pump();
        assert_eq!(cluster.replicas[0].raft.state, StateRole::Leader, "it is alone in asking");
        cluster
    }

    /// One proposal for the whole batch: the form that is cheapest for this crate.
    fn decide(&mut self, values: &[Value]) {
        let mut proposal = Message::default();
        proposal.set_msg_type(MessageType::MsgPropose);
        proposal.from = 1;
        proposal.entries = values
            .iter()
            .map(|value| Entry { data: value.to_vec().into(), ..Entry::default() })
            .collect::<Vec<_>>()
            .into();
        self.replicas[0].step(proposal).expect("the leader takes proposals");
        self.pump();
    }

    fn applied(&self) -> usize {
        self.applied.iter().copied().min().unwrap_or(0)
    }

    fn sum(&self) -> u64 {
        self.sum
    }
}
