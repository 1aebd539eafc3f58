//! The format of recorded histories: golden lines, round trips, and what is refused.

mod common;

use base::Rng;
use check::file::{ReadError, read, write};
use check::{Action, Command, End, History, Op, Reply};
use common::{ALL, Shape};

const GOLDEN: &str = r#"{"history":"gregale","version":1}
{"client":1,"invoke_ns":100,"complete_ns":180,"op":"set","key":"a","value":"x","result":"ok"}
{"client":2,"invoke_ns":120,"complete_ns":190,"op":"get","key":"a","result":{"value":null}}
{"client":2,"invoke_ns":200,"complete_ns":290,"op":"swap","key":"a","value":"y","result":{"value":"x"}}
{"client":3,"invoke_ns":210,"complete_ns":220,"op":"cas","key":"a","expect":null,"value":"z","result":{"done":false}}
{"client":3,"invoke_ns":230,"complete_ns":240,"op":"append","key":{"hex":"00ff"},"value":{"hex":"c3"},"result":{"number":1}}
{"client":3,"invoke_ns":250,"op":"incr","key":"n","by":-1}
{"client":3,"invoke_ns":260,"complete_ns":270,"op":"incr","key":"a","by":1,"result":"refused"}
{"client":3,"invoke_ns":280,"complete_ns":290,"op":"delete","key":"n","result":"failed"}
{"client":1,"invoke_ns":300,"complete_ns":390,"op":"txn","commands":[{"op":"get","key":"a"},{"op":"delete","key":"b"}],"result":{"all":[{"value":"y"},{"done":false}]}}
"#;

fn golden() -> History {
    let op = |client, span: [u64; 2], key: &[u8], action, reply| {
        Op::answered(client, span[0], span[1], Command::new(key, action), reply)
    };
    let value = |text: &str| Reply::Value(Some(text.into()));
    let cas = Action::Cas { expect: None, value: b"z".to_vec() };
    let delete = Command::new("n", Action::Delete);
    let end = End::Failed { at_ns: 290 };
    let failed = Op { client: 3, invoke_ns: 280, commands: vec![delete], end };
    let commands = vec![Command::new("a", Action::Get), Command::new("b", Action::Delete)];
    let end = End::Answered { at_ns: 390, replies: vec![value("y"), Reply::Done(false)] };
    let txn = Op { client: 1, invoke_ns: 300, commands, end };
    [
        op(1, [100, 180], b"a", Action::Set(b"x".to_vec()), Reply::Ok),
        op(2, [120, 190], b"a", Action::Get, Reply::Value(None)),
        op(2, [200, 290], b"a", Action::Swap(b"y".to_vec()), value("x")),
        op(3, [210, 220], b"a", cas, Reply::Done(false)),
        op(3, [230, 240], &[0, 255], Action::Append(vec![0xc3]), Reply::Number(1)),
        Op::unknown(3, 250, Command::new("n", Action::Incr(-1))),
        op(3, [260, 270], b"a", Action::Incr(1), Reply::Refused),
        failed,
        txn,
    ]
    .into_iter()
    .collect()
}

#[test]
fn golden_lines_are_written_and_read() {
    let mut text = Vec::new();
    write(&golden(), &mut text).expect("to memory");
    assert_eq!(String::from_utf8(text).expect("JSON is text"), GOLDEN);
    assert_eq!(read(GOLDEN.as_bytes()).expect("golden"), golden());
}

#[test]
fn files_can_be_concatenated() {
    let twice = GOLDEN.repeat(2);
    assert_eq!(read(twice.as_bytes()).expect("golden").ops.len(), 2 * golden().ops.len());
}

#[test]
fn what_is_written_is_read_back() {
    let shape = Shape {
        ops: 2000,
        clients: 9,
        keys: 5,
        values: 0,
        unknown_permille: 50,
        failed_permille: 50,
        txn_permille: 100,
        actions: ALL,
    };
    let history = common::right(&mut Rng::new(1), &shape);
    let mut text = Vec::new();
    write(&history, &mut text).expect("to memory");
    assert_eq!(read(text.as_slice()).expect("own"), history);
}

#[test]
fn what_is_no_operation_is_refused_with_its_line() {
    let first = r#"{"client":1,"invoke_ns":1,"op":"get","key":"a"}"#;
    let cases = [
        (r#"{"client":1,"invoke_ns":1,"op":"get","key":"a""#, "EOF"),
        (r#"{"client":1,"invoke_ns":1,"op":"fetch","key":"a"}"#, "unknown variant"),
        (r#"{"client":1,"invoke_ns":1,"complet_ns":2,"op":"get","key":"a"}"#, "complet_ns"),
        (r#"{"client":1,"invoke_ns":1,"op":"get"}"#, "`key` is missing"),
        (r#"{"client":1,"invoke_ns":1,"op":"set","key":"a"}"#, "`value` belongs"),
        (r#"{"client":1,"invoke_ns":1,"op":"cas","key":"a","value":"b"}"#, "`expect` belongs"),
        (r#"{"client":1,"invoke_ns":1,"op":"incr","key":"a"}"#, "`by` belongs"),
        (r#"{"client":1,"invoke_ns":1,"op":"txn"}"#, "`commands` is missing"),
        (r#"{"client":1,"invoke_ns":1,"op":"get","key":{"hex":"0"}}"#, "even number"),
        (r#"{"client":1,"invoke_ns":1,"op":"get","key":{"hex":"0g"}}"#, "hexadecimal"),
        (r#"{"client":1,"invoke_ns":1,"op":"get","key":{"hex":"00","x":1}}"#, "did not match"),
        (r#"{"client":1,"invoke_ns":1,"complete_ns":2,"op":"get","key":"a"}"#, "come together"),
        (r#"{"client":1,"invoke_ns":1,"op":"set","key":"a","value":"b","result":"ok"}"#, "come to"),
        (
            r#"{"client":1,"invoke_ns":3,"complete_ns":2,"op":"get","key":"a","result":{"value":null}}"#,
            "monotonic",
        ),
        (
            r#"{"client":1,"invoke_ns":1,"complete_ns":2,"op":"get","key":"a","result":"ok"}"#,
            "never answered",
        ),
        (r#"{"history":"gregale","version":2}"#, "version 2"),
        (r#"{"history":"of art","version":1}"#, "of art"),
        ("SET a b", "expected value"),
    ];
    for (line, why) in cases {
        let error = read(format!("{first}\n\n{line}\n").as_bytes()).expect_err(line).to_string();
        assert!(error.starts_with("line 3 ") || error.starts_with("line 3:"), "{error}");
        assert!(error.contains(why), "{line}: {error}");
    }
}

#[test]
fn an_empty_file_proves_nothing() {
    let error = read(&b"{\"history\":\"gregale\",\"version\":1}\n"[..]).expect_err("empty");
    assert!(matches!(error, ReadError::Empty));
}
