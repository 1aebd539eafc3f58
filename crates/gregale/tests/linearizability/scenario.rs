//! One run: a cluster, its clients, its nemesis, and the record of it.

use crate::client::{Client, MEMBERS, Manner, Shared};
use crate::nemesis::Nemesis;
use crate::support::{Cluster, Ends, FakeClock, wait_until};
use check::{End, History, Reply};
use powercut::PowerCut;
use std::fmt;
use std::path::Path;
use std::sync::atomic::{AtomicU64, Ordering};
use std::thread::ScopedJoinHandle;

/// The place of acknowledged writes.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Place<'a> {
    /// In the memory of a majority.
    Memory,
    /// On disk, which the kernel keeps for killed processes.
    Disk,
    /// On a disk whose power fails.
    Power(&'a PowerCut),
    /// On disks, of which the third member's is this one: its power fails while the others
    /// continue.
    OnePower(&'a PowerCut),
    /// As [`Place::Power`], with a disk that ignores syncs.
    LyingPower(&'a PowerCut),
}

/// The parameters of a run.
pub(crate) struct Scenario<'a> {
    /// The fabric between the members.
    pub(crate) fabric: &'a str,
    /// The place of acknowledged writes.
    pub(crate) place: Place<'a>,
    /// The seed of operations and faults.
    pub(crate) seed: u64,
    /// The number of clients: a third each are roaming, impatient and loyal.
    pub(crate) n_clients: u64,
    /// The number of power cuts, where the power can be cut.
    pub(crate) n_cuts: usize,
    /// Whether wall clocks are set and clients are quiet for a minute.
    pub(crate) sets_clocks: bool,
}

/// The results of a run.
pub(crate) struct Record {
    /// The clients' record, and each member's answers at the end.
    pub(crate) history: History,
    /// Writes that were acknowledged while faults were committed.
    pub(crate) n_acknowledged_writes: u64,
    /// Outcomes that the service itself reported as unknown.
    pub(crate) n_called_unknown: u64,
    /// Answers while faults were committed, by member.
    pub(crate) n_answered_by: [u64; MEMBERS],
    /// The number of times that another member was seen leading than before.
    pub(crate) n_leader_changes: usize,
}

impl fmt::Display for Record {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let ops = &self.history.ops;
        let count = |wanted: fn(&End) -> bool| ops.iter().filter(|op| wanted(&op.end)).count();
        write!(
            f,
            "{} operations ({} refused, {} of unknown outcome, {} called so), {} writes acknowledged, answers by \
             member {:?}, {} changes of the leader",
            ops.len(),
            count(|end| matches!(end, End::Failed { .. })),
            count(|end| matches!(end, End::Unknown)),
            self.n_called_unknown,
            self.n_acknowledged_writes,
            self.n_answered_by,
            self.n_leader_changes,
        )
    }
}

/// Runs the scenario, and checks on the way that all members agree in the end.
pub(crate) fn run(scenario: &Scenario<'_>) -> Record {
    let data = tempfile::tempdir().expect("a directory for the logs");
    let path = match scenario.place {
        Place::Memory | Place::Disk => data.path().to_owned(),
        Place::Power(disk) | Place::LyingPower(disk) => disk.path().join("data"),
        Place::OnePower(disk) => disk.path().parent().expect("mounted below it").to_owned(),
    };
    let path = path.to_str().expect("a plain path");
    // Snapshots are made all the time: members die in the middle of them, and come back from them.
    let flags = [
        &["--fabric", scenario.fabric][..],
        &["--durability", "disk-quorum", "--data", path, "--snapshot-log-bytes", "20000"],
    ]
    .concat();
    let is_durable = !matches!(scenario.place, Place::Memory);
    let flags = if is_durable { &flags[..] } else { &flags[..2] };
    let beside = tempfile::tempdir().expect("a directory for the clock");
    let clock = scenario.sets_clocks.then(|| FakeClock::new(beside.path()));
    let mut cluster = match &clock {
        Some(clock) => clock.for_all(|| Cluster::start_with(flags)),
        None => Cluster::start_with(flags),
    };
    if let Place::LyingPower(disk) = scenario.place {
        disk.lie(true);
    }
    let shared = Shared::new([1, 2, 3].map(|id| cluster.port_of(id)));
    let mut history = History::new();
    let mut n_leader_changes = 0;
    std::thread::scope(|scope| {
        let clients: Vec<ScopedJoinHandle<'_, History>> = (0..scenario.n_clients)
            .map(|id| {
                let client = Client::new(id, scenario.seed, Manner::of(id), &shared);
                scope.spawn(move || client.run())
            })
            .collect();
        {
            let _ends = Ends(&shared.is_over);
            let nemesis =
                Nemesis::new(&mut cluster, Path::new(path), &shared, scenario.seed, clock.as_ref());
            n_leader_changes = nemesis.run(scenario.n_cuts, scenario.place);
        }
        for client in clients {
            history.ops.extend(client.join().expect("its own message stands above").ops);
        }
    });
    ended(cluster, &shared, history, (scenario.n_clients, scenario.seed), n_leader_changes)
}

/// Ends a run whose faults are over: waits until all members agree on every key, and stops the
/// cluster. Returns the record of `history` and of these last reads.
pub(crate) fn ended(
    cluster: Cluster,
    shared: &Shared,
    history: History,
    (n_clients, seed): (u64, u64),
    n_leader_changes: usize,
) -> Record {
    let read_all = |id: u64, member: usize| {
        Client::new(id, seed, Manner::Loyal(member), shared).read_all(member)
    };
    ended_by(read_all, cluster, shared, history, n_clients, n_leader_changes)
}

/// The same, of other clients: `read_all` is how one of this number reads every key at a member.
pub(crate) fn ended_by(
    read_all: impl Fn(u64, usize) -> (Vec<Reply>, History),
    mut cluster: Cluster,
    shared: &Shared,
    mut history: History,
    n_clients: u64,
    n_leader_changes: usize,
) -> Record {
    let load = |n: &AtomicU64| n.load(Ordering::Relaxed);
    let n_acknowledged_writes = load(&shared.n_acknowledged_writes);
    let n_called_unknown = load(&shared.n_called_unknown);
    let n_answered_by = shared.n_answered_by.each_ref().map(load);
    // A write that its client gave up may still be under way, so members may agree a little later.
    let mut id = n_clients;
    wait_until("the members to agree on every key", || {
        let reads: Vec<_> = (0..MEMBERS)
            .map(|member| {
                id += 1;
                let (replies, seen) = read_all(id, member);
                history.ops.extend(seen.ops);
                replies
            })
            .collect();
        reads.iter().all(|replies| *replies == reads[0])
    });
    assert_eq!(cluster.stop(), Some(0), "a healed cluster stops in order");
    Record { history, n_acknowledged_writes, n_called_unknown, n_answered_by, n_leader_changes }
}
