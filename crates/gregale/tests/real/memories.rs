//! Members that come, go, and are replaced while the cluster runs, in memory alone.

use crate::support::{Cluster, is_alive, signal, wait_until};
use redis::Commands;

fn change(cluster: &Cluster, at: u16, words: &[&str]) {
    let output = cluster.member(at, words);
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
}

over_both_fabrics! {
    a_member_whose_memory_is_gone_comes_back_by_itself_and_counts
    a_living_member_is_replaced_by_one_command
    a_removed_member_ends_and_is_added_again
}

/// Replaces every member in turn, the leader among them: all acknowledged writes are there at the
/// end, although none of the memories that acknowledged them exists any longer.
fn a_member_whose_memory_is_gone_comes_back_by_itself_and_counts(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    let mut written = 0i64;
    for victim in 1..=3u16 {
        let other = victim % 3 + 1;
        let third = 6 - victim - other;
        let before = cluster.seat(other, victim).1;
        let pid = cluster.pid_of(victim);
        // This comes before its end: its next life begins at once.
        std::fs::remove_file(cluster.directory().join(format!("node-{victim}.region"))).unwrap();
        signal(pid, "KILL");
        cluster.wait_for(&format!("member {victim} votes"));
        cluster.votes_above(other, victim, before);
        // It counts: with it and one other member the cluster makes progress, far beyond one ring.
        let paused = cluster.pid_of(third);
        signal(paused, "STOP");
        let mut connection = cluster.connect(other);
        for _ in 0..700 {
            written += 1;
            let counted: i64 = connection.incr("n", 1).unwrap();
            assert_eq!(counted, written, "none lost, none twice");
        }
        signal(paused, "CONT");
        let counted: i64 = cluster.connect(victim).get("n").unwrap();
        assert_eq!(counted, written);
        // (The next one's memory goes only when this one's state is not the only one left.)
        wait_until("the third to have everything", || {
            let status = cluster.status_at(other);
            let applied = |id: u16| status["members"][usize::from(id) - 1]["applied"].as_u64();
            applied(third) >= applied(other) && applied(victim) >= applied(other)
        });
    }
    assert_eq!(cluster.stop(), Some(0));
}

fn a_living_member_is_replaced_by_one_command(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    assert_eq!(cluster.cli(1, &["SET", "k", "v"]), "OK");
    let leader = cluster.leader();
    let id = leader % 3 + 1;
    let other = 6 - id - leader;
    assert_eq!(cluster.seat(other, id), ("voter".into(), 1));
    let pid = cluster.pid_of(id);
    change(&cluster, other, &["replace", &id.to_string()]);
    assert!(!is_alive(pid), "the old one ended");
    cluster.votes_above(other, id, 1);
    assert_eq!(cluster.cli(id, &["GET", "k"]), "v");
    assert_eq!(cluster.stop(), Some(0));
}

fn a_removed_member_ends_and_is_added_again(flags: &[&str]) {
    let mut cluster = Cluster::start_with(flags);
    // The leader itself is replaced, by a request to another member.
    let id = cluster.leader();
    let other = id % 3 + 1;
    let pid = cluster.pid_of(id);
    let asked = cluster.member(other, &["remove", &id.to_string()]);
    // It may have ended before it can answer that this is decided, or be deposed before it is.
    assert!(asked.status.success(), "{asked:?}");
    cluster.wait_for(&format!("member {id} was removed from the cluster"));
    wait_until("its process to end", || !is_alive(pid));
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    wait_until("the seat to be empty", || cluster.seat(other, id).0 == "none");
    change(&cluster, other, &["add"]);
    cluster.votes_above(other, id, 1);
    assert_eq!(cluster.cli(id, &["GET", "k"]), "v");
    assert_eq!(cluster.stop(), Some(0));
}
