//! What `gregale status` prints for people.

use super::*;

#[test]
fn the_table_says_who_lags_and_who_is_down() {
    let member = |id, role: &str, applied| MemberStatus {
        id,
        pid: 40 + u32::from(id),
        client: format!("127.0.0.1:{}", 6999 + id),
        control: format!("127.0.0.1:{}", 7199 + id),
        membership: Membership::Voter,
        incarnation: 1,
        role: role.into(),
        committed: 9,
        applied,
        decision_p50_us: None,
        state_time_ahead_ms: 0,
        data_lost: id != 2,
        sentinel: Some(SentinelStatus { pid: (id == 2).then_some(77), replaced: 4 }),
        program: (id == 2).then_some(ProgramStatus {
            executed: 5,
            reads: 8,
            waiting_bytes: 6,
            stalled_ms: 4_200,
            transcript_bytes: 70,
            clients: 1,
            connections: 3,
            began_at: 2,
            checkpoint_at: 4,
            checkpoints: 1,
            checkpoints_in_vain: 0,
            trouble: Some("no room".into()),
            clock_spins: 0,
            held: HeldAnswers { bytes: 12, left: 3, refused: 2 },
            verdicts: Verdicts {
                matched: 4,
                split: 1,
                agreed_at: 4000,
                agreed_by: 3,
                split_at: 5000,
                ..Verdicts::default()
            },
        }),
        disk: (id == 1).then(|| DiskStatus {
            directory: "/data/member-1".into(),
            log_start: 3,
            log_end: 9,
            logged_bytes: 77,
            snapshots: 1,
            trouble: Some("/data/member-1 is full".into()),
            last_trouble: None,
        }),
    };
    let status = ClusterStatus {
        cluster: "demo".into(),
        engine: "one-sided".into(),
        protocol: "velos".into(),
        durability: "memory-quorum".into(),
        fabric: "shm".into(),
        view: 1,
        view_is_decided: true,
        ballot: 9,
        writes_wait_for: vec![3],
        members: vec![member(1, "leader", 9), member(2, "follower", 7), member(3, "down", 0)],
        order: None,
        partitions: vec![PartitionStatus { id: 0, leader: 2, executed: 5, keys: 1 }],
    };
    let text = table(&status);
    let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
    assert_eq!(lines[3], ["2", "42", "127.0.0.1:7001", "follower", "9", "7", "2", "voter", "1"]);
    assert_eq!(lines[4], ["3", "43", "127.0.0.1:7002", "down", "-", "-", "-", "voter", "1"]);
    assert!(text.contains("disk 1  /data/member-1: slots 3 to 9 (exclusive), 77 bytes"), "{text}");
    assert!(text.contains("DATA LOST  seen by member 1, 3: no live member"), "{text}");
    assert!(text.contains("writes wait for the disk of member 3:"), "{text}");
    assert!(text.contains("sentinel 1  NONE:"), "{text}");
    assert!(text.contains("sentinel 2  pid 77, 4 died and were replaced\n"), "{text}");
    let copy = "copy 2  5 entries executed, 8 reads beside the log, 6 of 70 bytes wait, 1 of 3 \
                connections here; 12 bytes of answers are held, 2 comparisons refused some; \
                NOTHING TAKEN UP for 4 s\n";
    assert!(text.contains(copy), "{text}");
    let checkpoints = "at entry 4, the copy began at 2; not saved here: no room\n";
    assert!(text.contains(checkpoints), "{text}");
    let verdicts = "3 copies agree up to entry 4000; NO MAJORITY at entry 5000\n";
    assert!(text.contains(verdicts), "{text}");
    assert!(text.contains("partition 0  leader 2, 1 keys, 5 executed\n"), "{text}");
    assert!(text.ends_with("TROUBLE: /data/member-1 is full\n"), "{text}");
}
