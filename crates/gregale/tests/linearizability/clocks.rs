//! Clients with locks, while clocks are set, and through long silences.

use crate::client::{MEMBERS, Shared};
use crate::support::{Cluster, FakeClock, wait_until};
use std::sync::atomic::Ordering;
use std::time::Duration;

/// The difference, in seconds, by which the wall clock of all members is set wrong.
const STEPS_S: [i64; 4] = [3_600, -3_600, 86_400, 0];
/// A silence longer than usual for clients, sessions or a leader's stamps.
const SILENCE: Duration = Duration::from_secs(60);
/// The writes that are acknowledged while a lock has to be held.
const WRITES_MEANWHILE: u64 = 300;

/// Sets the members' wall clock, while locks are held and clients write.
pub(crate) fn set_clock(clock: &FakeClock, n: usize, cluster: &Cluster, shared: &Shared) {
    let name = format!("lock{n}");
    take(cluster, &name);
    clock.set(STEPS_S[n % STEPS_S.len()]);
    let count = || shared.n_acknowledged_writes.load(Ordering::Relaxed);
    let enough = count() + WRITES_MEANWHILE;
    wait_until("writes while a lock is held", || count() >= enough);
    is_held(cluster, &name);
    // A clock that was set back does not stop time.
    assert_eq!(cluster.cli(1, &["SET", "blink", "v", "PX", "200"]), "OK");
    wait_until("a key to expire", || cluster.cli(2, &["GET", "blink"]).is_empty());
}

/// Silences all clients for a minute; then takes a lock.
pub(crate) fn keep_silence(cluster: &Cluster, shared: &Shared) {
    shared.is_quiet.store(true, Ordering::Relaxed);
    std::thread::sleep(SILENCE);
    take(cluster, "lock-after-silence");
    is_held(cluster, "lock-after-silence");
    shared.is_quiet.store(false, Ordering::Relaxed);
    is_held(cluster, "lock-after-silence");
}

fn take(cluster: &Cluster, name: &str) {
    // Two clients that share a name are one holder; after an unknown outcome the lock is requested
    // again.
    wait_until("a lock to be taken", || cluster.cli(1, &["SET", name, "me", "EX", "60"]) == "OK");
}

fn is_held(cluster: &Cluster, name: &str) {
    for id in 1..=MEMBERS as u16 {
        assert_eq!(cluster.cli(id, &["GET", name]), "me", "{name} was lost by member {id}");
    }
}
