//! Two judges of one record, and a forged record to test them with.

use check::{Action, Command, End, History, Limits, Op, Reply, Verdict};
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command as Process;
use std::sync::OnceLock;

/// The directory in which the second judge is built and a rejected record stays: cargo's directory
/// for the files of integration tests.
fn workplace() -> &'static Path {
    Path::new(env!("CARGO_TARGET_TMPDIR"))
}

/// Checks that both judges find an order that explains the record. Otherwise the record is kept,
/// and the panic names its path.
pub(crate) fn both_accept(history: &History, name: &str) {
    let path = write(history, name);
    match check::judge(history, Limits::default()).expect("our recorder writes what can be") {
        Verdict::Linearizable(_) => {}
        verdict => panic!("{verdict}\nthe record is kept in {}", path.display()),
    }
    assert_eq!(porcupine(&path), "linearizable", "the record is kept in {}", path.display());
    std::fs::remove_file(path).expect("just written");
}

/// Checks that neither judge finds an order that explains the record.
pub(crate) fn both_reject(history: &History, name: &str) {
    let path = write(history, &format!("{name}-forged"));
    let verdict = check::judge(history, Limits::default()).expect("forged, but possible");
    assert!(verdict.is_violation(), "a forgery passes for right: {verdict}");
    assert_eq!(porcupine(&path), "violation", "of the forgery in {}", path.display());
    std::fs::remove_file(path).expect("just written");
}

/// The record with the answers of two reads of one key swapped, such that the earlier read has now
/// seen what was written only after it had ended.
pub(crate) fn forge(history: &History) -> Option<History> {
    let reads = || history.ops.iter().enumerate().filter_map(|(n, op)| Some((n, seen(op)?)));
    let writer_of = |value: &Vec<u8>| {
        let is_by = |command: &Command| match &command.action {
            Action::Set(new) | Action::Swap(new) | Action::Cas { value: new, .. } => new == value,
            Action::Get | Action::Append(_) | Action::Incr(_) | Action::Delete => false,
        };
        history.ops.iter().find(|op| op.commands.iter().any(is_by))
    };
    for (early, (key, early_value)) in reads() {
        let Some(at_ns) = history.ops[early].complete_ns() else { continue };
        for (late, (late_key, late_value)) in reads() {
            let is_later = late_key == key
                && late_value != early_value
                && writer_of(late_value).is_some_and(|writer| writer.invoke_ns > at_ns);
            if is_later {
                let mut forged = history.clone();
                let (a, b) = (forged.ops[early].end.clone(), forged.ops[late].end.clone());
                set_replies(&mut forged.ops[early], b);
                set_replies(&mut forged.ops[late], a);
                return Some(forged);
            }
        }
    }
    None
}

/// The key and the value, if it is a read of an existing key.
fn seen(op: &Op) -> Option<(&Vec<u8>, &Vec<u8>)> {
    match (op.commands.as_slice(), &op.end) {
        ([Command { key, action: Action::Get }], End::Answered { replies, .. }) => {
            match replies.as_slice() {
                [Reply::Value(Some(value))] => Some((key, value)),
                _ => None,
            }
        }
        _ => None,
    }
}

fn set_replies(op: &mut Op, of: End) {
    if let (End::Answered { replies, .. }, End::Answered { replies: other, .. }) = (&mut op.end, of)
    {
        *replies = other;
    }
}

fn write(history: &History, name: &str) -> PathBuf {
    let path = workplace().join(format!("linearizability-{name}.jsonl"));
    let file = File::create(&path).expect("cargo has made the directory");
    check::file::write(history, BufWriter::new(file)).expect("room for the record");
    path
}

/// The second judge's verdict.
fn porcupine(path: &Path) -> String {
    static BUILT: OnceLock<PathBuf> = OnceLock::new();
    let program = BUILT.get_or_init(|| {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/porcupine");
        let program = workplace().join("porcupine");
        let mut go = Process::new("go");
        go.args(["build", "-o"]).arg(&program).arg(".").current_dir(&source);
        let built = go.output().unwrap_or_else(|error| {
            panic!(
                "cannot run `go` ({error}): the second judge needs Go 1.19 or later in PATH: \
                 apt-get install golang"
            )
        });
        assert!(
            built.status.success(),
            "cannot build {}: run `go mod download` there once with a network\n{}",
            source.display(),
            String::from_utf8_lossy(&built.stderr)
        );
        program
    });
    // Long: on a loaded machine a minute may be a few seconds of it.
    let judged =
        Process::new(program).args(["-timeout", "5m"]).arg(path).output().expect("just built");
    let text = String::from_utf8_lossy(&judged.stdout);
    let errors = String::from_utf8_lossy(&judged.stderr);
    let word = text.split_whitespace().next().unwrap_or_default().to_owned();
    assert!(!word.is_empty(), "the second judge has no verdict: {errors}");
    word
}
