//! Two judges, one corpus: ours and porcupine (`tools/porcupine`, another language, other authors,
//! no shared code) must agree on histories that are right and on histories that are not.

mod common;

use base::Rng;
use check::{Limits, Verdict, file, judge};
use common::{ALL, GET_INCR_DELETE, GET_SET, Shape};
use std::collections::BTreeMap;
use std::fs::File;
use std::io::BufWriter;
use std::path::{Path, PathBuf};
use std::process::Command;

fn build(into: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../tools/porcupine");
    let program = into.join("porcupine");
    let built = Command::new("go")
        .args(["build", "-o"])
        .arg(&program)
        .arg(".")
        .current_dir(&source)
        .output()
        .unwrap_or_else(|e| {
            panic!("cannot run `go` ({e}): the second judge needs Go 1.19 or later in PATH")
        });
    assert!(
        built.status.success(),
        "cannot build {}: run `go mod download` there once with a network\n{}",
        source.display(),
        String::from_utf8_lossy(&built.stderr)
    );
    program
}

fn shapes() -> [Shape; 6] {
    let base = Shape {
        ops: 60,
        clients: 6,
        keys: 3,
        values: 0,
        unknown_permille: 0,
        failed_permille: 20,
        txn_permille: 0,
        actions: GET_SET,
    };
    [
        base,
        Shape { actions: ALL, values: 4, ..base },
        Shape { actions: ALL, unknown_permille: 60, ..base },
        Shape { actions: ALL, txn_permille: 200, values: 5, ..base },
        Shape { ops: 12, clients: 12, keys: 1, unknown_permille: 200, actions: ALL, ..base },
        // Many unknown operations that say the same.
        Shape { keys: 1, unknown_permille: 300, actions: GET_INCR_DELETE, ..base },
    ]
}

#[test]
fn both_judges_agree() {
    let dir = tempfile::tempdir().expect("a directory for the corpus");
    let program = build(dir.path());
    let mut expected = BTreeMap::new();
    for seed in 0..400 {
        let mut rng = Rng::new(seed);
        let shape = &shapes()[seed as usize % shapes().len()];
        let mut history = common::right(&mut rng, shape);
        (0..seed / 5 % 4).for_each(|_| common::spoil(&mut rng, &mut history));
        if history.ops.iter().any(|op| op.validate().is_err()) {
            continue;
        }
        let path = dir.path().join(format!("{seed}.jsonl"));
        let out = BufWriter::new(File::create(&path).expect("in our own directory"));
        file::write(&history, out).expect("in our own directory");
        let verdict = match judge(&history, Limits::default()).expect("validated") {
            Verdict::Linearizable(_) => "linearizable",
            Verdict::Violation(_) => "violation",
            Verdict::GaveUp(gave_up) => panic!("seed {seed}: {gave_up}"),
        };
        expected.insert(path, verdict);
    }
    let count = |word| expected.values().filter(|verdict| **verdict == word).count();
    let (right, wrong) = (count("linearizable"), count("violation"));
    assert!(right > 100 && wrong > 100, "a corpus of both kinds: {right} right, {wrong} wrong");

    let judged = Command::new(&program).args(expected.keys()).output().expect("just built");
    let judged = String::from_utf8_lossy(&judged.stdout).into_owned()
        + &String::from_utf8_lossy(&judged.stderr);
    let mut lines = judged.lines();
    for (path, ours) in &expected {
        let line = lines.next().unwrap_or_else(|| panic!("no verdict on {path:?}: {judged}"));
        assert_eq!(line, format!("{ours} {}", path.display()), "ours, then porcupine's");
    }
}
