//! Tests of what a client of a session concludes from an error.

use super::*;

fn script(text: &str) -> Vec<u8> {
    let mut out = Vec::new();
    put_plain(&[b"EVAL", text.as_bytes(), b"0"], Protocol::Resp2, &mut out);
    out
}

#[test]
fn m8_a_called_commands_own_error_is_not_taken_for_the_fate_of_the_call() {
    let mut replica = Replica::new();
    let id = open(&mut replica, 1);
    let mut number = 0;
    let mut answer = |text: &str| {
        number += 1;
        let text = format!("redis.call('INCR','x') return redis.error_reply('{text}')");
        let call = in_session(id, number, number - 1, &script(&text));
        let first = replica.call(ME, 2 * number, call.clone());
        assert_eq!(replica.call(origin(1, 1), number, call), first, "E3");
        first
    };
    for code in [
        "GAP",
        "WINDOW",
        "NOTCALLED",
        "EXECABORT",
        "MAXSESSIONS",
        "TRYAGAIN",
        "LOADING",
        "UNKNOWN",
        "NOSESSION",
        "ACKED",
        "TOOLONG",
        "NOAUTH",
        "WRONGPASS",
    ] {
        assert_eq!(answer(&format!("{code} q")), format!("-ERR {code} q\\r\\n"));
    }
    assert_eq!(answer("NOSESSION"), "-ERR NOSESSION\\r\\n");
    assert_eq!(answer("ERR data lost: q"), "-ERR ERR data lost: q\\r\\n");
    assert_eq!(answer("GAPS q"), "-GAPS q\\r\\n");
    assert_eq!(answer("ERR NOSESSION"), "-ERR NOSESSION\\r\\n");
    assert_eq!(replica.get("x"), "$2\\r\\n17\\r\\n", "each was executed once");
}

#[test]
fn m8_an_exec_over_the_memory_limit_uses_its_number_up_and_says_so() {
    let mut replica = Replica::new();
    replica.machine = Machine::new(60_000);
    let id = open(&mut replica, 1);
    replica.call(ME, 2, plain(&format!("SET a {}", "x".repeat(70_000))));
    let exec = in_session(id, 1, 0, &transaction(&[], &["SET b 1", "DEL a"]));
    let refused = "-OOM command not allowed when used memory > \\'maxmemory\\'.\\r\\n";
    assert_eq!(replica.call(ME, 3, exec.clone()), refused);
    assert_eq!(replica.call(origin(1, 1), 1, exec), refused);
    assert_eq!(replica.call(ME, 4, in_session(id, 2, 1, &plain("DEL a"))), ":1\\r\\n");
}
