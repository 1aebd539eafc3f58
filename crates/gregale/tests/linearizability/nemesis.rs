//! The nemesis: it kills and pauses members while clients continue.
//!
//! - I1 at most one member is without state at any time: a member is killed only when the last one
//!   killed serves again. The death of more loses data by the definition of memory-quorum, and
//!   would show nothing. Where acknowledged writes are on disk, all members are also killed at
//!   once, and where the disk's power can be cut, unsynced data is lost with them.
//! - I2 no member dies except by the nemesis: a replica that failed by itself (an assertion, for
//!   instance) and was restarted fails the run, however well the clients were served.

use crate::client::{MEMBERS, Shared};
use crate::clocks;
use crate::scenario::Place;
use crate::support::{Cluster, FakeClock, is_alive, role, signal, wait_until};
use base::Rng;
use powercut::{Manner, PowerCut};
use std::path::Path;
use std::process::{Child, Command, Stdio};
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

/// Writes that are acknowledged between two faults, so that each hits a cluster at work.
const WRITES_BETWEEN: u64 = 100;
/// The longest pause of a member that is hung for a random time; suspicion takes less.
const HANG_MS_MAX: u64 = 900;

/// A pause longer than the service's own deadline, by default 5 s.
const SURVIVOR_WITHIN: Duration = Duration::from_millis(6500);

/// The faults.
#[derive(Clone, Copy, Debug)]
enum Fault {
    /// SIGKILL.
    KillLeader,
    /// SIGKILL.
    KillFollower,
    /// SIGSTOP for the leader until another member leads. When it wakes, it still believes that it
    /// leads.
    HangLeaderUntilReplaced,
    /// SIGSTOP for the leader, for a time that others may or may not notice.
    HangLeader,
    /// SIGSTOP for a follower, for a time that others may or may not notice.
    HangFollower,
    /// SIGKILL for the leader while a follower hangs: the successor is the other one, or has to
    /// wait.
    KillLeaderWhileAFollowerHangs,
    /// SIGKILL for a follower while the leader hangs, which wakes to one live follower, or to none
    /// yet.
    KillFollowerWhileTheLeaderHangs,
    /// SIGSTOP for two members, until the third makes progress without their help (it can where a
    /// process's memory outlives it) or has told a client that an outcome is unknown: the commands
    /// that it has begun may take effect after they wake.
    HangAMajority,
    /// SIGKILL for all members at once.
    KillAll,
    /// SIGKILL for all members and the supervisor; unsynced data, or some of it, is lost.
    CutPower(Manner),
    /// Replacement of a dead follower by a new incarnation.
    ReplaceFollower,
    /// Replacement of a live leader.
    ReplaceLeader,
    /// Replacement of a member, in the middle of which the leader dies.
    ReplaceFollowerAndKillTheLeader,
    /// Replacement of a member, in the middle of which the new incarnation dies.
    ReplaceFollowerAndKillItAgain,
    /// Death of a follower with its disk: its supervisor replaces it.
    WipeFollower,
    /// A change of the wall clock of all members.
    SetClock,
    /// A silence of all clients for a minute.
    Silence,
}

/// The faults of each round; the leader's replacement occurs twice.
const ROUND: [Fault; 9] = [
    Fault::KillLeader,
    Fault::KillFollower,
    Fault::HangLeaderUntilReplaced,
    Fault::HangLeader,
    Fault::HangFollower,
    Fault::KillLeaderWhileAFollowerHangs,
    Fault::KillFollowerWhileTheLeaderHangs,
    Fault::HangLeaderUntilReplaced,
    Fault::HangAMajority,
];

/// Further faults, where the state outlives all processes.
const DURABLE: [Fault; 8] = [
    Fault::KillAll,
    Fault::KillAll,
    Fault::KillAll,
    Fault::ReplaceFollower,
    Fault::ReplaceLeader,
    Fault::ReplaceFollowerAndKillTheLeader,
    Fault::ReplaceFollowerAndKillItAgain,
    Fault::WipeFollower,
];
/// Further faults, where the wall clock can be set.
const CLOCKS: [Fault; 5] =
    [Fault::SetClock, Fault::SetClock, Fault::SetClock, Fault::SetClock, Fault::Silence];
/// The time within which a replacement may be disturbed: most are in the middle of it.
const REPLACE_MS: u64 = 400;

/// The nemesis of one run; see the module's text.
pub(crate) struct Nemesis<'a> {
    cluster: &'a mut Cluster,
    /// The directory of the disks.
    data: &'a Path,
    shared: &'a Shared,
    rng: Rng,
    /// The processes that should be alive (I2).
    pids: [u32; MEMBERS],
    /// The number of sectors that power cuts took.
    n_lost: u64,
    /// The members that were seen leading, one for each change.
    leaders: Vec<u16>,
    /// The members' wall clock, where it can be set, and how often it was.
    clock: Option<&'a FakeClock>,
    n_set: usize,
}

impl<'a> Nemesis<'a> {
    pub(crate) fn new(
        cluster: &'a mut Cluster,
        data: &'a Path,
        shared: &'a Shared,
        seed: u64,
        clock: Option<&'a FakeClock>,
    ) -> Nemesis<'a> {
        let pids = [1, 2, 3].map(|id| cluster.pid_of(id));
        let rng = Rng::new(seed);
        Nemesis {
            cluster,
            data,
            shared,
            rng,
            pids,
            n_lost: 0,
            leaders: Vec::new(),
            clock,
            n_set: 0,
        }
    }

    /// Commits all faults, in an order of its own; returns how often the leader changed.
    pub(crate) fn run(mut self, n_cuts: usize, place: Place<'_>) -> usize {
        let mut faults = match place {
            Place::Memory => ROUND.to_vec(),
            Place::Disk => [&ROUND[..], &DURABLE].concat(),
            Place::Power(_) => vec![Fault::KillLeader, Fault::KillFollower, Fault::KillAll],
            Place::OnePower(_) => vec![Fault::KillLeader, Fault::KillLeader, Fault::KillAll],
            // The first report is waited for: then no remains of the previous life are left.
            Place::LyingPower(_) => vec![Fault::CutPower(Manner::DropAll)],
        };
        if let Place::Power(_) | Place::OnePower(_) = place {
            for n in 0..n_cuts {
                let some = Manner::KeepSome(self.rng.below(u64::MAX));
                faults.push(Fault::CutPower(if n % 3 == 0 { Manner::DropAll } else { some }));
            }
        }
        if self.clock.is_some() {
            faults.extend(CLOCKS);
        }
        for n in (1..faults.len()).rev() {
            faults.swap(n, self.rng.below(n as u64 + 1) as usize);
        }
        for fault in faults {
            self.wait_for_writes(&format!("{fault:?}"));
            match (fault, place) {
                (Fault::CutPower(manner), Place::Power(disk) | Place::LyingPower(disk)) => {
                    self.cut_power(disk, manner);
                }
                (Fault::CutPower(manner), Place::OnePower(disk)) => {
                    self.cut_power_of_the_third(disk, manner);
                }
                _ => self.commit(fault),
            }
        }
        if !matches!(place, Place::Memory | Place::Disk) {
            assert!(self.n_lost > 0, "no cut took anything away, so none showed anything");
        }
        self.wait_for_writes("the end");
        self.leader_seen_by(1);
        self.leaders.len() - 1
    }

    fn cut_power(&mut self, disk: &PowerCut, manner: Manner) {
        disk.fail();
        self.cluster.kill_all(&self.pids, || disk.let_go());
        let lost = disk.cut(manner).expect("everybody is dead");
        println!("the power failed ({manner:?}): {lost:?}");
        self.n_lost += lost.sectors;
        self.cluster.start_again();
        self.pids = [1, 2, 3].map(|id| self.cluster.pid_of(id));
        self.leader_seen_by(1);
    }

    /// Its supervisor restarts it soon; then the leader dies, so that the restarted member may be
    /// asked to vote with what it has left.
    fn cut_power_of_the_third(&mut self, disk: &PowerCut, manner: Manner) {
        disk.fail();
        self.kill(3);
        disk.let_go();
        wait_until("the third member to end", || !is_alive(self.pids[2]));
        let lost = disk.cut(manner).expect("its only user is dead");
        println!("the power of member 3 failed ({manner:?}): {lost:?}");
        self.n_lost += lost.sectors;
        self.wait_for_return(3);
        let leader = self.leader_seen_by(3);
        if leader != 3 {
            self.kill(leader);
            self.wait_for_another_leader(3, leader);
            self.wait_for_return(leader);
        }
    }

    fn commit(&mut self, fault: Fault) {
        let leader = self.leader_seen_by(1);
        // One of the two, at random.
        let follower = self.other_than(leader);
        let third = 6 - leader - follower;
        match fault {
            Fault::KillLeader => {
                self.kill(leader);
                self.wait_for_another_leader(follower, leader);
                self.wait_for_return(leader);
            }
            Fault::KillFollower => {
                self.kill(follower);
                self.wait_for_return(follower);
            }
            Fault::HangLeaderUntilReplaced => {
                self.hang(leader);
                self.wait_for_another_leader(follower, leader);
                self.pause();
                self.wake(leader);
            }
            Fault::HangLeader => {
                self.hang(leader);
                self.pause();
                self.wake(leader);
            }
            Fault::HangFollower => {
                self.hang(follower);
                self.pause();
                self.wake(follower);
            }
            Fault::KillLeaderWhileAFollowerHangs => {
                self.hang(follower);
                self.pause();
                self.kill(leader);
                self.pause();
                self.wake(follower);
                self.wait_for_another_leader(third, leader);
                self.wait_for_return(leader);
            }
            Fault::KillFollowerWhileTheLeaderHangs => {
                self.hang(leader);
                self.pause();
                self.kill(follower);
                self.pause();
                self.wake(leader);
                self.wait_for_return(follower);
            }
            Fault::HangAMajority => {
                // Any member, leading or not.
                let survivor = self.rng.range(1, MEMBERS as u64) as u16;
                let hung: Vec<u16> = (1..=MEMBERS as u16).filter(|id| *id != survivor).collect();
                hung.iter().for_each(|id| self.hang(*id));
                self.wait_for_the_survivor();
                hung.iter().for_each(|id| self.wake(*id));
            }
            Fault::SetClock => {
                let clock = self.clock.expect("only where there is a clock to set");
                clocks::set_clock(clock, self.n_set, self.cluster, self.shared);
                self.n_set += 1;
            }
            Fault::Silence => clocks::keep_silence(self.cluster, self.shared),
            Fault::CutPower(_) => unreachable!("only where there is power to cut"),
            Fault::KillAll => {
                (1..=MEMBERS as u16).for_each(|id| self.kill(id));
                // The two happen in any order.
                (0..MEMBERS).for_each(|_| drop(self.cluster.wait_for("serves again")));
                self.pids = [1, 2, 3].map(|id| self.cluster.pid_of(id));
            }
            Fault::ReplaceFollower => {
                self.kill(follower);
                let command = self.replace(follower, third);
                self.replaced(command, &[format!("member {follower} votes")]);
            }
            Fault::ReplaceLeader => {
                let command = self.replace(leader, third);
                self.replaced(command, &[format!("member {leader} votes")]);
            }
            Fault::ReplaceFollowerAndKillTheLeader => {
                let command = self.replace(follower, third);
                std::thread::sleep(Duration::from_millis(self.rng.below(REPLACE_MS)));
                self.kill(leader);
                let said =
                    [format!("member {follower} votes"), format!("member {leader} serves again")];
                self.replaced(command, &said);
            }
            Fault::ReplaceFollowerAndKillItAgain => {
                let command = self.replace(follower, third);
                let old = self.pids[usize::from(follower) - 1];
                let mut pid = old;
                wait_until("a process of the new incarnation", || {
                    pid = self.cluster.pid_of(follower);
                    pid != old
                });
                std::thread::sleep(Duration::from_millis(self.rng.below(REPLACE_MS)));
                signal(pid, "KILL");
                self.cluster.wait_for(&format!("member {follower} died"));
                self.replaced(command, &[format!("member {follower} serves again")]);
            }
            Fault::WipeFollower => {
                // The process must not write into the directory that is being removed.
                self.hang(follower);
                std::fs::remove_dir_all(self.data.join(format!("member-{follower}"))).unwrap();
                self.kill(follower);
                self.cluster.wait_for(&format!("member {follower} votes"));
                self.pids = [1, 2, 3].map(|id| self.cluster.pid_of(id));
            }
        }
        // No member has died by itself (I2).
        for id in 1..=MEMBERS as u16 {
            let (pid, expected) = (self.cluster.pid_of(id), self.pids[usize::from(id) - 1]);
            assert_eq!(pid, expected, "after {fault:?}, member {id} has another process");
        }
    }

    /// Sends an operator's command to the member `at`.
    fn replace(&self, id: u16, at: u16) -> Child {
        let address = format!("127.0.0.1:{}", self.cluster.port_of(at));
        Command::new(env!("CARGO_BIN_EXE_gregale"))
            .args(["member", "replace", &id.to_string(), "--connect", &address])
            .stdout(Stdio::null())
            .spawn()
            .expect("the program is there")
    }

    /// Waits until the command has succeeded, whichever member died meanwhile, and the supervisor
    /// has printed `said`, in any order.
    fn replaced(&mut self, mut command: Child, said: &[String]) {
        let status = command.wait().expect("it is a child of this process");
        assert!(status.success(), "a replacement has to get through: {status}");
        let mut left = said.to_vec();
        while !left.is_empty() {
            let line = self.cluster.wait_for("");
            left.retain(|text| !line.starts_with(text));
        }
        self.pids = [1, 2, 3].map(|id| self.cluster.pid_of(id));
    }

    fn wait_for_writes(&self, before: &str) {
        let count = || self.shared.n_acknowledged_writes.load(Ordering::Relaxed);
        let enough = count() + WRITES_BETWEEN;
        wait_until(&format!("writes to be acknowledged before {before}"), || count() >= enough);
    }

    /// Waits for the duration of a fault, which decides what members notice. No condition ends it.
    fn pause(&mut self) {
        std::thread::sleep(Duration::from_millis(self.rng.below(HANG_MS_MAX)));
    }

    /// Waits until the member has made progress, or has given an answer up. Neither is promised:
    /// whether a client has a write there that can be given up is left to chance.
    fn wait_for_the_survivor(&self) {
        let n_writes = &self.shared.n_acknowledged_writes;
        let n_unknown = &self.shared.n_called_unknown;
        let before = [n_writes, n_unknown].map(|n| n.load(Ordering::Relaxed));
        let end = Instant::now() + SURVIVOR_WITHIN;
        while n_writes.load(Ordering::Relaxed) < before[0] + WRITES_BETWEEN
            && n_unknown.load(Ordering::Relaxed) == before[1]
            && Instant::now() < end
        {
            std::thread::sleep(Duration::from_millis(5));
        }
    }

    fn other_than(&mut self, id: u16) -> u16 {
        let by = self.rng.range(1, MEMBERS as u64 - 1) as u16;
        (id - 1 + by) % MEMBERS as u16 + 1
    }

    fn leader_seen_by(&mut self, at: u16) -> u16 {
        let leader = self.cluster.leader_seen_by(at);
        self.note(leader);
        leader
    }

    fn note(&mut self, leader: u16) {
        if self.leaders.last() != Some(&leader) {
            self.leaders.push(leader);
        }
    }

    /// Waits until another process than the present one of member `old` leads. A killed member is
    /// restarted at once, and may lead again.
    fn wait_for_another_leader(&mut self, at: u16, old: u16) {
        let old_pid = u64::from(self.pids[usize::from(old) - 1]);
        let mut new = 0;
        wait_until(&format!("another leader than member {old} was"), || {
            let status = self.cluster.status_at(at);
            let is_new = |id: u16| {
                let pid = status["members"][usize::from(id) - 1]["pid"].as_u64();
                id != old || pid != Some(old_pid)
            };
            let leads = |id: &u16| is_new(*id) && role(&status, *id) == "leader";
            new = (1..=MEMBERS as u16).find(leads).unwrap_or(0);
            new != 0
        });
        self.leaders.push(new);
    }

    fn hang(&self, id: u16) {
        signal(self.pids[usize::from(id) - 1], "STOP");
    }

    fn wake(&self, id: u16) {
        signal(self.pids[usize::from(id) - 1], "CONT");
    }

    /// I1: the caller waits for the return before another member dies.
    fn kill(&self, id: u16) {
        signal(self.pids[usize::from(id) - 1], "KILL");
    }

    fn wait_for_return(&mut self, id: u16) {
        self.cluster.wait_for(&format!("member {id} serves again"));
        self.pids[usize::from(id) - 1] = self.cluster.pid_of(id);
    }
}
