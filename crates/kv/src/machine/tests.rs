//! Tests of the machine: one log, several replicas, and everything that may be repeated, lost or
//! cut.

use base::{Incarnation, Rank, Rng, Slot};
use proptest::prelude::*;

use super::*;
use crate::client_sessions::{CallNumber, IDLE_MS, REPLY_BYTES_MAX, SessionId};
use crate::entry::command::{Queued, put_plain, put_transaction, put_versions};
use crate::entry::{Appended, BatchWriter, SessionCommand};
use crate::sessions::WINDOW;
use crate::snapshot;
use crate::store::DbKey;

mod bounds;
mod calls;
mod reads;

const NOW: u64 = 1_700_000_000_000;

fn origin(rank: usize, incarnation: u64) -> Origin {
    Origin { rank: Rank::at(rank), incarnation: Incarnation(incarnation) }
}

fn plain(line: &str) -> Vec<u8> {
    let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
    let mut out = Vec::new();
    put_plain(&args, Protocol::Resp2, &mut out);
    out
}

fn transaction(guards: &[(&str, u64)], lines: &[&str]) -> Vec<u8> {
    let mut queued = Queued::default();
    for line in lines {
        let args: Vec<&[u8]> = line.split(' ').map(str::as_bytes).collect();
        queued.push(&args);
    }
    let guards: Vec<(&[u8], u64)> =
        guards.iter().map(|(key, version)| (key.as_bytes(), *version)).collect();
    let mut out = Vec::new();
    let guards: Vec<_> =
        guards.iter().map(|(key, version)| (DbKey::from(*key), *version)).collect();
    put_transaction(guards.into_iter(), &queued, Protocol::Resp2, &mut out);
    out
}

/// The values of the log for these commands.
fn values(stamp_ms: u64, bytes_max: usize, commands: &[(Origin, u64, Vec<u8>)]) -> Vec<Vec<u8>> {
    let (mut writer, mut values, mut at) = (BatchWriter::new(), Vec::new(), 0);
    while at < commands.len() {
        let mut out = Vec::new();
        writer.begin(stamp_ms, &mut out);
        while let Some((origin, sequence, command)) = commands.get(at) {
            let sequence = Sequence(*sequence);
            match writer.append(*origin, sequence, command, bytes_max, &mut out) {
                Appended::Whole => at += 1,
                Appended::Part | Appended::Full => break,
            }
        }
        values.push(out);
    }
    values
}

/// A replica and its answers.
struct Replica {
    machine: Machine,
    next: Slot,
    heard: Vec<(Origin, u64, String)>,
}

impl Replica {
    fn new() -> Replica {
        Replica { machine: Machine::new(0), next: Slot::ZERO, heard: Vec::new() }
    }

    fn apply(&mut self, value: &[u8]) {
        let heard = &mut self.heard;
        let mut sink = |origin, sequence: Sequence, reply: &[u8]| {
            heard.push((origin, sequence.0, reply.escape_ascii().to_string()));
        };
        self.machine.apply(self.next, value, &mut sink).unwrap();
        self.next = self.next.next();
    }

    /// Applies one command and returns its reply.
    fn call(&mut self, origin: Origin, sequence: u64, command: Vec<u8>) -> String {
        for value in values(NOW, 4096, &[(origin, sequence, command)]) {
            self.apply(&value);
        }
        self.heard.pop().expect("each command is answered").2
    }

    fn get(&self, key: &str) -> String {
        let mut reply = Reply::default();
        let outcome = self.machine.read(&plain(&format!("GET {key}")), 0, 0, &mut reply);
        assert_eq!(outcome, ReadOutcome::Done);
        reply.take().escape_ascii().to_string()
    }
}

const ME: Origin = Origin { rank: Rank::at(0), incarnation: Incarnation(1) };

#[test]
fn m2_a_counter_counts_each_command_once() {
    // Every command is decided up to three times, in any order within the window.
    for seed in 0..20 {
        let mut rng = Rng::new(seed);
        let origins = [origin(0, 3), origin(1, 1), origin(2, 9)];
        let mut log = Vec::new();
        for sequence in 1..=200 {
            for from in origins {
                for _ in 0..1 + rng.below(3) {
                    log.push((from, sequence, plain("INCR n")));
                }
            }
        }
        for _ in 0..log.len() {
            // Commands move a little, as they do when leaders change.
            let at = rng.below(log.len() as u64) as usize;
            let by = rng.below(50) as usize;
            let with = (at + by).min(log.len() - 1);
            log.swap(at, with);
        }
        let mut replica = Replica::new();
        values(NOW, 512, &log).iter().for_each(|value| replica.apply(value));
        assert_eq!(replica.get("n"), r"$3\r\n600\r\n", "seed {seed}");
        // Each repetition got the same reply.
        assert_eq!(replica.heard.len(), log.len());
        let mut by_command = replica.heard.clone();
        by_command.sort();
        by_command.dedup();
        assert_eq!(by_command.len(), 600);
    }
}

#[test]
fn m2_what_cannot_be_answered_is_called_unknown_and_not_executed() {
    let mut replica = Replica::new();
    replica.call(ME, 1, plain("INCR n"));
    replica.call(ME, WINDOW + 1, plain("INCR n"));
    let old = replica.call(ME, 1, plain("INCR n"));
    assert!(old.starts_with("-UNKNOWN this write is too old"), "{old}");
    replica.call(origin(0, 2), 1, plain("INCR n"));
    let past = replica.call(ME, WINDOW + 2, plain("INCR n"));
    assert!(past.starts_with("-UNKNOWN the replica that took this write has been"), "{past}");
    assert_eq!(replica.get("n"), r"$1\r\n3\r\n");
    let long = format!("SET k {}", "x".repeat(100_000));
    replica.call(origin(0, 2), 2, plain(&long));
    replica.call(origin(0, 2), 3, plain("GETSET k y"));
    let forgotten = replica.call(origin(0, 2), 3, plain("GETSET k y"));
    assert!(forgotten.starts_with("-UNKNOWN this write was executed"), "{forgotten}");
}

#[test]
fn m3_state_time_is_the_largest_stamp() {
    let mut replica = Replica::new();
    for (stamp, expected) in [(NOW, NOW), (NOW - 5000, NOW), (NOW + 10, NOW + 10)] {
        let mut tick = Vec::new();
        BatchWriter::new().begin(stamp, &mut tick);
        replica.apply(&tick);
        assert_eq!(replica.machine.state_ms(), expected);
    }
}

#[test]
fn m4_a_transaction_is_executed_whole_or_not_at_all() {
    let mut replica = Replica::new();
    replica.call(ME, 1, plain("SET k v"));
    let version = replica.machine.store().version(b"k");
    let absent = replica.machine.store().version(b"absent");
    let reply = replica.call(
        ME,
        2,
        transaction(&[("k", version), ("absent", absent)], &["SET k 1", "INCR k", "GET k"]),
    );
    assert_eq!(reply, r"*3\r\n+OK\r\n:2\r\n$1\r\n2\r\n");
    // The same guards again: the key has changed.
    let reply = replica.call(ME, 3, transaction(&[("k", version)], &["SET k 9"]));
    assert_eq!(reply, r"*-1\r\n");
    assert_eq!(replica.get("k"), r"$1\r\n2\r\n");
    // An error undoes nothing.
    let reply = replica.call(ME, 4, transaction(&[], &["SET k x", "INCR k", "SET l y"]));
    assert_eq!(reply, r"*3\r\n+OK\r\n-ERR value is not an integer or out of range\r\n+OK\r\n");
    assert_eq!(replica.get("l"), r"$1\r\ny\r\n");
    // A retry is answered from memory, whatever the guards are now.
    let reply = replica.call(ME, 3, transaction(&[("k", version)], &["SET k 9"]));
    assert_eq!(reply, r"*-1\r\n");
    assert_eq!(replica.call(ME, 5, transaction(&[], &[])), r"*0\r\n");
}

#[test]
fn m4_a_malformed_transaction_executes_nothing() {
    let mut replica = Replica::new();
    let mut cut = transaction(&[], &["SET k 1", "SET l 1"]);
    cut.pop();
    let reply = replica.call(ME, 1, cut);
    assert!(reply.starts_with("-ERR a replica has put a malformed command"), "{reply}");
    assert_eq!(replica.get("k"), r"$-1\r\n");
}

#[test]
fn a_reply_is_in_the_protocol_that_the_command_names() {
    let mut replica = Replica::new();
    let mut command = Vec::new();
    put_plain(&[b"GETDEL", b"k"], Protocol::Resp3, &mut command);
    assert_eq!(replica.call(ME, 1, command), r"_\r\n");
    assert_eq!(replica.call(ME, 2, plain("GETDEL k")), r"$-1\r\n");
}

#[test]
fn what_is_no_command_of_the_store_is_answered_and_changes_nothing() {
    let mut replica = Replica::new();
    let mut versions = Vec::new();
    put_versions(&[b"k"], &mut versions);
    for (sequence, command) in
        [Vec::new(), vec![9], versions, plain("PING")].into_iter().enumerate()
    {
        let reply = replica.call(ME, sequence as u64 + 1, command);
        assert!(reply.starts_with("-ERR a replica has put a malformed command"), "{reply}");
    }
    let unknown = replica.call(ME, 9, plain("NOSUCH"));
    assert!(unknown.starts_with(r"-ERR unknown command \'NOSUCH\'"), "{unknown}");
    assert_eq!(replica.call(ME, 10, plain("GET k")), r"$-1\r\n", "a read may go through the log");
}

#[test]
#[should_panic(expected = "M5")]
fn m5_a_slot_below_the_prefix_is_a_bug() {
    let mut replica = Replica::new();
    replica.apply(b"");
    replica.next = Slot::ZERO;
    replica.apply(b"");
}

#[test]
fn m6_a_long_command_is_executed_once_with_its_last_fragment() {
    let mut replica = Replica::new();
    let value = "v".repeat(20_000);
    let parts = values(NOW, 4096, &[(ME, 1, plain(&format!("SET k {value}")))]);
    assert!(parts.len() > 4, "it is cut");
    let (last, first) = parts.split_last().unwrap();
    for part in first {
        replica.apply(part);
        assert!(replica.heard.is_empty());
        assert_eq!(replica.get("k"), r"$-1\r\n");
    }
    replica.apply(last);
    assert_eq!(replica.heard, [(ME, 1, r"+OK\r\n".to_owned())]);
    assert_eq!(replica.get("k").len(), value.len() + r"$20000\r\n\r\n".len());
}

#[test]
fn m6_a_leader_that_dies_between_fragments_executes_nothing() {
    let long = (ME, 1, plain(&format!("SET k {}", "v".repeat(9000))));
    let parts = values(NOW, 4096, std::slice::from_ref(&long));
    let others = values(NOW, 4096, &[(origin(1, 1), 1, plain("INCR n"))]);
    for dies_after in 1..parts.len() {
        let mut replica = Replica::new();
        parts[..dies_after].iter().for_each(|part| replica.apply(part));
        // The next leader has something else to propose ...
        others.iter().for_each(|value| replica.apply(value));
        assert!(replica.machine.assembly.pending.is_none(), "M6: dropped at once");
        // ... and the rest of the old leader's command cannot complete it.
        parts[dies_after..].iter().for_each(|part| replica.apply(part));
        assert_eq!(replica.get("k"), r"$-1\r\n");
        // The origin sends it again; the new leader cuts it at other places.
        values(NOW, 3000, std::slice::from_ref(&long)).iter().for_each(|part| replica.apply(part));
        let answers: Vec<_> = replica.heard.iter().filter(|heard| heard.0 == ME).collect();
        assert_eq!(answers, [&(ME, 1, r"+OK\r\n".to_owned())], "executed once");
    }
}

#[test]
fn m6_pieces_that_two_leaders_cut_differently_are_not_mixed() {
    let long = (ME, 1, plain(&format!("SET k {}", "v".repeat(9000))));
    let (one, two) = (
        values(NOW, 4096, std::slice::from_ref(&long)),
        values(NOW, 3000, std::slice::from_ref(&long)),
    );
    let mut replica = Replica::new();
    replica.apply(&one[0]);
    two[1..].iter().for_each(|part| replica.apply(part));
    assert_eq!(replica.get("k"), r"$-1\r\n");
    // Time may pass between two fragments: a tick is no frame.
    let mut tick = Vec::new();
    BatchWriter::new().begin(NOW, &mut tick);
    for part in &one {
        replica.apply(part);
        replica.apply(&tick);
        replica.apply(b"");
    }
    assert_eq!(replica.heard, [(ME, 1, r"+OK\r\n".to_owned())]);
}

#[test]
fn m7_a_value_that_is_no_batch_changes_nothing() {
    let mut machine = Machine::new(0);
    let mut good = values(NOW, 4096, &[(ME, 1, plain("SET k v"))]).remove(0);
    good.push(0xff);
    let before = machine.digest();
    let error = machine.apply(Slot::ZERO, &good, &mut |_, _, _| panic!("nothing is answered"));
    assert_eq!(error, Err(EntryError::Tag { found: 0xff }));
    assert_eq!(machine.prefix(), Slot::ZERO.prefix_through());
    machine.prefix = Prefix::ZERO;
    assert_eq!(machine.digest(), before, "not even time");
}

#[test]
fn a_read_that_would_see_an_expiry_asks_for_a_tick() {
    let mut replica = Replica::new();
    replica.call(ME, 1, plain(&format!("SET k v PXAT {}", NOW + 1000)));
    replica.call(ME, 2, plain("SET l w"));
    let read = |replica: &Replica, line: &str, stamp: u64| {
        let mut reply = Reply::default();
        match replica.machine.read(&plain(line), stamp, 0, &mut reply) {
            ReadOutcome::Done => reply.take().escape_ascii().to_string(),
            ReadOutcome::NeedsTick => {
                assert!(reply.is_empty());
                "tick".to_owned()
            }
        }
    };
    assert_eq!(read(&replica, "GET k", NOW + 999), r"$1\r\nv\r\n");
    assert_eq!(read(&replica, "GET k", NOW + 1000), "tick");
    assert_eq!(read(&replica, "MGET l k", NOW + 1000), "tick");
    assert_eq!(read(&replica, "DBSIZE", NOW + 1000), "tick");
    assert_eq!(read(&replica, "GET l", NOW + 1000), r"$1\r\nw\r\n");
    let mut watch = Vec::new();
    put_versions(&[b"l", b"k"], &mut watch);
    let mut reply = Reply::default();
    let outcome = replica.machine.read(&watch, NOW + 1000, 0, &mut reply);
    assert_eq!(outcome, ReadOutcome::NeedsTick);
    // A key ages although nothing is written.
    assert_eq!(read(&replica, "PTTL k", NOW + 400), r":600\r\n");
    assert_eq!(read(&replica, "TTL k", NOW + 400), r":1\r\n");
    assert_eq!(read(&replica, "TTL k", NOW + 501), r":0\r\n");
    assert_eq!(read(&replica, "TTL l", NOW + 400), r":-1\r\n");
    // A clock that is behind reads the state as it is.
    assert_eq!(read(&replica, "PTTL k", 0), r":1000\r\n");
    let mut tick = Vec::new();
    BatchWriter::new().begin(NOW + 1000, &mut tick);
    replica.apply(&tick);
    assert_eq!(read(&replica, "GET k", NOW + 1000), r"$-1\r\n");
}

#[test]
fn a_read_cannot_write() {
    let machine = Machine::new(0);
    for command in [plain("SET k v"), plain("PING"), transaction(&[], &["GET k"]), Vec::new()] {
        let mut reply = Reply::default();
        assert_eq!(machine.read(&command, 0, 0, &mut reply), ReadOutcome::Done);
        assert!(reply.as_bytes().starts_with(b"-ERR a replica has put"));
    }
}

/// A log as a cluster makes it: several origins and lives, retries, long commands, transactions,
/// expiries, ticks, dying leaders.
fn random_log(seed: u64) -> Vec<Vec<u8>> {
    let mut rng = Rng::new(seed);
    let mut incarnations = [1; 3];
    let mut sequences = [0; 3];
    let mut log = Vec::new();
    let mut recent = Vec::new();
    for step in 0..60 {
        let stamp = NOW + step * 100 - rng.below(200);
        let mut commands = Vec::new();
        for _ in 0..rng.below(6) {
            if !recent.is_empty() && rng.chance(1, 4) {
                let at = rng.below(recent.len() as u64) as usize;
                let again: &(Origin, u64, Vec<u8>) = &recent[at];
                commands.push(again.clone());
                continue;
            }
            let rank = rng.below(3) as usize;
            if rng.chance(1, 40) {
                incarnations[rank] += 1;
                sequences[rank] = 0;
            }
            sequences[rank] += 1 + rng.below(3);
            let key = rng.below(8);
            let command = match rng.below(8) {
                0 => plain(&format!("INCR n{key}")),
                1 => plain(&format!("APPEND k{key} {}", "x".repeat(rng.below(900) as usize))),
                2 => plain(&format!("SET k{key} v PXAT {}", stamp + rng.below(800))),
                3 => plain(&format!("DEL k{key} n{}", rng.below(8))),
                4 => plain(&format!("GETDEL k{key}")),
                5 => plain("RANDOMKEY"),
                6 => transaction(
                    &[(&format!("k{key}"), rng.below(40))],
                    &[&format!("SET k{key} t"), "GET k1", "RANDOMKEY"],
                ),
                _ => plain(&format!("SET big{key} {}", "y".repeat(2000))),
            };
            let one = (origin(rank, incarnations[rank]), sequences[rank], command);
            recent.push(one.clone());
            commands.push(one);
        }
        let mut values = if commands.is_empty() {
            let mut tick = Vec::new();
            BatchWriter::new().begin(stamp, &mut tick);
            vec![tick]
        } else {
            values(stamp, 700, &commands)
        };
        if rng.chance(1, 8) {
            values.truncate(rng.below(values.len() as u64) as usize);
            values.push(Vec::new());
        }
        log.append(&mut values);
    }
    log
}

proptest! {
    #![proptest_config(ProptestConfig::with_cases(48))]

    #[test]
    fn m1_one_log_one_state(seed: u64, cut in 0.0..1.0f64) {
        let log = random_log(seed);
        let (mut one, mut two) = (Replica::new(), Replica::new());
        let cut = (cut * log.len() as f64) as usize;
        for (at, value) in log.iter().enumerate() {
            one.apply(value);
            two.apply(value);
            if at == cut {
                // The second replica is lost, and comes back with a snapshot of a live one.
                let mut bytes = Vec::new();
                snapshot::save(&one.machine, &mut bytes);
                two.machine = snapshot::restore(&bytes, 0).unwrap();
                prop_assert_eq!(two.machine.assembly.clone(), one.machine.assembly.clone());
            }
            prop_assert_eq!(one.machine.digest(), two.machine.digest(), "after value {}", at);
        }
        prop_assert_eq!(one.heard, two.heard);
        one.machine.store().check();
        two.machine.store().check();
    }

    #[test]
    fn m1_another_log_another_state(seed: u64, at in 0.0..1.0f64) {
        let log = random_log(seed);
        let (mut one, mut two) = (Replica::new(), Replica::new());
        let odd = (at * log.len() as f64) as usize;
        for (at, value) in log.iter().enumerate() {
            one.apply(value);
            let extra = values(NOW, 700, &[(origin(5, 1), 1, plain("SET only here"))]);
            two.apply(if at == odd { &extra[0] } else { value });
        }
        prop_assert_ne!(one.machine.digest(), two.machine.digest());
    }
}

fn session(command: SessionCommand<'_>) -> Vec<u8> {
    let mut out = Vec::new();
    command.put(&mut out);
    out
}

fn in_session(id: SessionId, number: u64, acknowledged: u64, command: &[u8]) -> Vec<u8> {
    let (number, acknowledged) = (CallNumber(number), CallNumber(acknowledged));
    session(SessionCommand::Call { id, number, acknowledged, command })
}

/// Opens the only session of a replica.
fn open(replica: &mut Replica, sequence: u64) -> SessionId {
    let reply = replica.call(ME, sequence, session(SessionCommand::Open));
    let id = replica.machine.client_sessions().issued();
    assert_eq!(reply, format!(r"*3\r\n:{}\r\n:0\r\n:{IDLE_MS}\r\n", id.0));
    id
}

#[test]
fn m8_a_call_is_executed_once_whoever_repeats_it() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    let incr = |number| in_session(id, number, 0, &plain("INCR n"));
    assert_eq!(replica.call(ME, 2, incr(1)), r":1\r\n");
    // Another member, and another life: to the members' own table, these are new.
    assert_eq!(replica.call(origin(1, 9), 1, incr(1)), r":1\r\n");
    assert_eq!(replica.call(origin(0, 2), 1, incr(1)), r":1\r\n");
    let gap = replica.call(origin(1, 9), 2, incr(3));
    assert!(gap.starts_with("-GAP") && gap.ends_with(r"next one is 2\r\n"), "{gap}");
    // An error is a reply like any other.
    let wrong = in_session(id, 2, 1, &plain("INCRBY n x"));
    let error = r"-ERR value is not an integer or out of range\r\n";
    assert_eq!(replica.call(origin(1, 9), 3, wrong.clone()), error);
    assert_eq!(replica.call(origin(2, 1), 1, wrong), error);
    let acknowledged = replica.call(origin(2, 1), 2, incr(1));
    assert!(acknowledged.starts_with("-ACKED"), "{acknowledged}");
    assert_eq!(replica.get("n"), r"$1\r\n1\r\n");
    assert_eq!(replica.call(origin(2, 1), 3, session(SessionCommand::End(id))), r"+OK\r\n");
    let ended = replica.call(origin(2, 1), 4, incr(3));
    assert!(ended.starts_with("-NOSESSION"), "{ended}");
    assert_eq!(replica.get("n"), r"$1\r\n1\r\n");
}

#[test]
fn m8_an_exec_is_one_call() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    let version = replica.machine.store().version(b"n");
    let both = in_session(id, 1, 0, &transaction(&[("n", version)], &["INCR n", "INCR n"]));
    assert_eq!(replica.call(ME, 2, both.clone()), r"*2\r\n:1\r\n:2\r\n");
    // The guard would fail now, but it is not checked again.
    assert_eq!(replica.call(origin(1, 1), 1, both), r"*2\r\n:1\r\n:2\r\n");
    assert_eq!(replica.get("n"), r"$1\r\n2\r\n");
}

#[test]
fn m8_a_reply_that_is_too_long_is_given_once_and_the_command_executed_once() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    replica.call(ME, 2, plain(&format!("SET k {}", "x".repeat(REPLY_BYTES_MAX))));
    let take = in_session(id, 1, 0, &plain("GETSET k y"));
    assert!(replica.call(ME, 3, take.clone()).len() > REPLY_BYTES_MAX);
    let again = replica.call(origin(1, 1), 1, take);
    assert!(again.starts_with("-TOOLONG"), "{again}");
    assert_eq!(replica.get("k"), r"$1\r\ny\r\n");
}

#[test]
fn m8_an_expired_session_executes_nothing() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    let incr = |number| in_session(id, number, 0, &plain("INCR n"));
    replica.call(ME, 2, incr(1));
    let read =
        session(SessionCommand::Read { id, number: CallNumber(2), command: &plain("GET n") });
    let mut reply = Reply::default();
    assert_eq!(replica.machine.read(&read, NOW, 0, &mut reply), ReadOutcome::Done);
    assert_eq!(reply.take(), b"$1\r\n1\r\n");
    let late = NOW + IDLE_MS;
    assert_eq!(replica.machine.read(&read, late, 0, &mut reply), ReadOutcome::NeedsTick);
    assert!(reply.is_empty());
    // The call comes with the stamp at which its session expires, which is too late.
    values(late, 4096, &[(ME, 3, incr(2))]).iter().for_each(|value| replica.apply(value));
    let heard = replica.heard.pop().unwrap().2;
    assert!(heard.starts_with("-NOSESSION"), "{heard}");
    assert_eq!(replica.machine.read(&read, late, 0, &mut reply), ReadOutcome::Done);
    assert!(reply.take().starts_with(b"-NOSESSION"));
    assert_eq!(replica.get("n"), r"$1\r\n1\r\n");
    assert!(replica.machine.client_sessions().is_empty());
}

#[test]
fn m8_a_read_waits_for_no_call_and_sees_them_all() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    let command = plain("GET n");
    let read = |number| {
        session(SessionCommand::Read { id, number: CallNumber(number), command: &command })
    };
    let mut reply = Reply::default();
    replica.machine.read(&read(2), NOW, 0, &mut reply);
    assert!(reply.take().starts_with(b"-GAP"), "call 1 has not been executed");
    replica.machine.read(&read(1), NOW, 0, &mut reply);
    assert_eq!(reply.take(), b"$-1\r\n");
    // In the log, and around any other than a plain command, it is malformed.
    assert!(replica.call(ME, 2, read(1)).starts_with("-ERR a replica has put a malformed"));
    let nested = session(SessionCommand::Read { id, number: CallNumber(1), command: &read(1) });
    replica.machine.read(&nested, NOW, 0, &mut reply);
    assert!(reply.take().starts_with(b"-ERR a replica has put a malformed"));
    let nested = in_session(id, 1, 0, &session(SessionCommand::Open));
    assert!(replica.call(ME, 3, nested).starts_with("-ERR a replica has put a malformed"));
}

#[test]
fn m8_calls_go_on_after_a_snapshot() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    let idle = {
        replica.call(ME, 2, session(SessionCommand::Open));
        replica.machine.client_sessions().issued()
    };
    for number in 1..=5 {
        replica.call(ME, 2 + number, in_session(id, number, 2, &plain("INCR n")));
    }
    let mut bytes = Vec::new();
    snapshot::save(&replica.machine, &mut bytes);
    let mut other = Replica::new();
    other.machine = snapshot::restore(&bytes, 0).unwrap();
    other.next = replica.next;
    assert_eq!(other.machine.digest(), replica.machine.digest());
    for replica in [&mut replica, &mut other] {
        let again = replica.call(origin(1, 1), 1, in_session(id, 4, 0, &plain("INCR n")));
        assert_eq!(again, r":4\r\n");
        let acknowledged = replica.call(origin(1, 1), 2, in_session(id, 2, 0, &plain("INCR n")));
        assert!(acknowledged.starts_with("-ACKED"));
        let next = replica.call(origin(1, 1), 3, in_session(id, 6, 5, &plain("INCR n")));
        assert_eq!(next, r":6\r\n");
        let first = replica.call(origin(1, 1), 4, in_session(idle, 1, 0, &plain("INCR n")));
        assert_eq!(first, r":7\r\n");
        values(NOW + IDLE_MS, 4096, &[(ME, 100, session(SessionCommand::Open))])
            .iter()
            .for_each(|value| replica.apply(value));
        assert_eq!(replica.machine.client_sessions().len(), 1, "the two others expire alike");
    }
    assert_eq!(other.machine.digest(), replica.machine.digest());
}
