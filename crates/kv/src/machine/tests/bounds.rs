//! Tests of the cost of one entry of the log (M9), and of refusals by the limit of memory.

use super::{ME, NOW, Replica, in_session, open, plain, transaction, values};
use crate::entry::FORMAT;
use crate::machine::Machine;
use crate::reply::Reply;
use crate::text;
use base::Slot;

fn filled() -> Replica {
    let mut replica = Replica::new();
    replica.call(ME, 1, plain(&format!("SET v {}", "x".repeat(500_000))));
    replica
}

fn error(text: &str) -> String {
    format!("-{text}\r\n").as_bytes().escape_ascii().to_string()
}

/// Its answer would have 20 MB.
fn long_answer() -> Vec<u8> {
    let mget = format!("MGET{}", " v".repeat(40));
    transaction(&[], &["INCR n", &mget, "INCR n"])
}

#[test]
fn m9_a_reply_that_no_member_could_hold_is_not_made() {
    let mut replica = filled();
    let reply = replica.call(ME, 2, long_answer());
    assert_eq!(reply, error(text::UNKNOWN_REPLY), "and it was executed");
    assert_eq!(replica.get("n"), "$1\\r\\n2\\r\\n");
    assert_eq!(replica.call(ME, 2, long_answer()), reply, "the same when it is repeated");
    assert_eq!(replica.get("n"), "$1\\r\\n2\\r\\n");
}

#[test]
fn m9_a_call_whose_reply_is_too_long_says_that_it_was_executed() {
    let mut replica = filled();
    let id = open(&mut replica, 2);
    let reply = replica.call(ME, 3, in_session(id, 1, 0, &long_answer()));
    assert_eq!(reply, error(text::EXECUTED_TOO_LONG));
    assert_eq!(replica.get("n"), "$1\\r\\n2\\r\\n");
}

#[test]
fn a_read_whose_reply_is_too_long_is_refused() {
    let replica = filled();
    let mut reply = Reply::default();
    reply.ok();
    replica.machine.read(&plain(&format!("MGET{}", " v".repeat(40))), 0, 0, &mut reply);
    reply.ok();
    let text = format!("+OK\r\n-{}\r\n+OK\r\n", text::ANSWER_TOO_LONG);
    assert_eq!(reply.as_bytes(), text.as_bytes());
    reply.clear();
    replica.machine.read(&plain(&format!("MGET{}", " v".repeat(30))), 0, 0, &mut reply);
    assert!(reply.as_bytes().starts_with(b"*30\r\n") && reply.len() > 15_000_000);
}

#[test]
fn m9_a_transaction_takes_so_many_steps_and_no_more() {
    let mut replica = Replica::new();
    replica.call(ME, 1, plain(&format!("MSET a {} b {}", "x".repeat(2000), "y".repeat(2000))));
    let reply = replica.call(ME, 2, transaction(&[], &["LCS a b LEN"; 6]));
    assert!(reply.starts_with("*6\\r\\n:0\\r\\n:0\\r\\n:0\\r\\n:0\\r\\n-ERR LCS"), "{reply}");
    let reply = replica.call(ME, 3, transaction(&[], &["LCS a b LEN"]));
    assert_eq!(reply, "*1\\r\\n:0\\r\\n", "each has its own");
}

/// 40,000 of them in one transaction kept every member busy for some 20 s.
#[test]
fn m9_a_transaction_reads_so_many_bytes_and_no_more() {
    let mut replica = filled();
    let reply = replica.call(ME, 2, transaction(&[], &["BITCOUNT v"; 1000]));
    let n_spent = reply.matches("too many steps").count();
    assert!((700..1000).contains(&n_spent), "{n_spent}");
    // The payloads of more DUMPs would be longer than a reply can be.
    let lines = [vec!["DUMP v"; 30], vec!["BITCOUNT v"; 200]].concat();
    let reply = filled().call(ME, 2, transaction(&[], &lines));
    let n_spent = reply.matches("too many steps").count();
    assert!((40..60).contains(&n_spent), "{n_spent}: without the DUMPs there would be none");
    let mut replica = filled();
    let small: Vec<String> = (0..3000).map(|at| format!("SETBIT v {at} 1")).collect();
    let small: Vec<&str> = small.iter().map(|line| &line[..]).collect();
    let reply = replica.call(ME, 2, transaction(&[], &small));
    assert!(reply.starts_with("*3000") && !reply.contains('-'), "small changes of a long value");
}

#[test]
fn over_its_memory_a_transaction_is_refused_whole_and_never_in_the_middle() {
    let mut replica = Replica::new();
    replica.machine = Machine::new(60_000);
    let long = "x".repeat(40_000);
    let fill = format!("SET b {long}");
    let move_it = ["GET a", "DEL a", &fill, "SET c precious"];
    replica.call(ME, 1, plain(&format!("SET a {long}")));
    // The transaction is under its limit at first, and over it after the third command.
    let grow = format!("SET d {long}");
    let reply = replica.call(ME, 2, transaction(&[], &[&grow, "DEL a", "SET c precious"]));
    assert_eq!(reply, "*3\\r\\n+OK\\r\\n:1\\r\\n+OK\\r\\n");
    replica.call(ME, 3, plain(&format!("SET a {long}")));
    let reply = replica.call(ME, 4, transaction(&[], &move_it));
    assert_eq!(reply, error(text::OUT_OF_MEMORY_IN_EXEC));
    assert_eq!(replica.get("b"), "$-1\\r\\n", "nothing of it was executed");
    let reply = replica.call(ME, 5, transaction(&[], &["DEL a", "GET b"]));
    assert_eq!(reply, "*2\\r\\n:1\\r\\n$-1\\r\\n", "what needs no memory is not refused");
}

/// A million sessions of a minute, set in pipelines, took memory for ever more keys.
#[test]
fn m10_more_expired_keys_are_removed_than_come() {
    let mut replica = Replica::new();
    let mut most = 0;
    for turn in 0..200 {
        let set = |at: u64| (ME, 1000 * turn + at + 1, plain(&format!("SET {turn}:{at} v PX 10")));
        let commands: Vec<_> = (0..1000).map(set).collect();
        let [value] = &values(NOW + 10 * turn, 1 << 20, &commands)[..] else { panic!("one value") };
        replica.apply(value);
        most = most.max(replica.machine.store().len());
    }
    assert!(most <= 2000, "{most}");
    replica.machine.store().check();
}

#[test]
fn m10_what_a_script_or_a_transaction_makes_is_removed_as_fast() {
    let mut replica = Replica::new();
    let text = "for at = 1, 5000 do redis.call('SET', ARGV[1] .. at, 'v', 'PX', 10) end";
    let args = |turn: u64| [b"EVAL".to_vec(), text.into(), b"0".to_vec(), turn.to_string().into()];
    for turn in 0..6 {
        let mut script = Vec::new();
        let args = args(turn);
        let args: Vec<&[u8]> = args.iter().map(|arg| &arg[..]).collect();
        crate::entry::command::put_plain(&args, crate::Protocol::Resp2, &mut script);
        let lines: Vec<String> = (0..500).map(|at| format!("SET {turn}t{at} v PX 10")).collect();
        let lines: Vec<&str> = lines.iter().map(|line| &line[..]).collect();
        let commands = [(ME, 2 * turn + 1, script), (ME, 2 * turn + 2, transaction(&[], &lines))];
        values(NOW + 10 * turn, 1 << 20, &commands).iter().for_each(|value| replica.apply(value));
        assert!(replica.machine.store().len() <= 2 * 5500, "{}", replica.machine.store().len());
    }
}

/// A log of an earlier version means what it meant: a replica that has executed part of it is to
/// agree with one that executes it now, to the versions that WATCH compares.
#[test]
fn m10_a_value_of_an_earlier_format_removes_as_few_as_it_did() {
    let commands: Vec<_> =
        (1..=1000).map(|at| (ME, at, plain(&format!("SET {at} v PX 9")))).collect();
    let len_behind = |format: u8, second: &[(_, u64, Vec<u8>)]| {
        let mut machine = Machine::new(0);
        let mut log = values(NOW, 1 << 20, &commands);
        log.extend(values(NOW + 10, 1 << 20, second));
        if second.is_empty() {
            let mut tick = Vec::new();
            crate::entry::BatchWriter::new().begin(NOW + 10, &mut tick);
            log.push(tick);
        }
        for (at, value) in log.iter_mut().enumerate() {
            value[0] = format;
            machine.apply(Slot(at as u64), value, &mut |_, _, _| {}).unwrap();
        }
        machine.store().len()
    };
    let ten: Vec<_> = (1001..=1010).map(|at| (ME, at, plain(&format!("SET {at} v")))).collect();
    assert_eq!([3, FORMAT].map(|format| len_behind(format, &ten)), [1010 - 64, 1010 - 64 - 20]);
    assert_eq!([3, FORMAT].map(|format| len_behind(format, &[])), [1000 - 64, 1000 - 64 - 512]);
}
