//! What two operators do at once, and what one leaves behind.

use crate::support::start_on_disk as start;

/// Both disks were put aside, and a majority was gone for good.
#[test]
fn two_replacements_at_once_leave_a_majority() {
    let data = tempfile::tempdir().unwrap();
    let mut cluster = start(data.path(), &[]);
    let leader = cluster.leader();
    let id = leader % 3 + 1;
    let other = 6 - id - leader;
    let ask = |verb, id: u16| cluster.cli(leader, &["GREGALE.MEMBER", verb, &id.to_string()]);
    assert!(ask("RENEW", id).contains("begins a new incarnation"));
    for refused in [ask("RENEW", other), ask("REMOVE", other), ask("RENEW", leader)] {
        assert!(refused.contains("BUSY"), "{refused}");
    }
    cluster.wait_for(&format!("member {id} votes"));
    assert_eq!(cluster.cli(other, &["SET", "k", "v"]), "OK");
    assert_eq!(cluster.seat(other, other), ("voter".into(), 1));
    assert_eq!(cluster.stop(), Some(0));
}
