//! Reads in the log, behind writes of their client.

use super::*;

/// The trap: a second execution would show what its client wrote after it.
#[test]
fn m2_a_read_in_the_log_answers_what_it_saw_first() {
    let mut replica = Replica::new();
    replica.call(ME, 1, plain("SET k 1"));
    let first = replica.call(ME, 2, plain("GET k"));
    assert_eq!(first, r"$1\r\n1\r\n");
    replica.call(ME, 3, plain("SET k 2"));
    assert_eq!(replica.call(ME, 2, plain("GET k")), first);
    let long = format!("SET k {}", "x".repeat(100_000));
    replica.call(ME, 4, plain(&long));
    assert!(replica.call(ME, 5, plain("GET k")).len() > 100_000);
    let forgotten = replica.call(ME, 5, plain("GET k"));
    assert!(forgotten.starts_with("-TRYAGAIN "), "{forgotten}");
}

/// State time is that of the batch, so every replica that executes it finds the same keys expired.
#[test]
fn m1_a_read_in_the_log_sees_keys_expire_by_the_batch() {
    let mut replica = Replica::new();
    for value in values(NOW, 512, &[(ME, 1, plain("SET k 1 PX 50")), (ME, 2, plain("GET k"))]) {
        replica.apply(&value);
    }
    for value in values(NOW + 50, 512, &[(ME, 3, plain("GET k"))]) {
        replica.apply(&value);
    }
    let heard: Vec<_> = replica.heard.iter().map(|heard| format!("{heard:?}")).collect();
    assert!(heard[1].contains("$1") && heard[2].contains("$-1"), "{heard:?}");
}
