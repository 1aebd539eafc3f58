//! Permissions: no clock and no hash-map order in what must replay, no `unsafe` by default.
//!
//! The rule `ratchet` counts the `unsafe` where it is allowed.

use super::source::has_word;
use super::{Finding, Tree};

/// Folders with what a seed replays, and what would break that.
const REPLAYS: [&str; 6] = [
    "crates/proto/src/",
    "crates/engine/src/",
    "crates/sim/src/",
    "crates/model/src/",
    "crates/kv/src/connection/",
    "crates/kv/src/door/",
];
const NOT_REPLAYED: [(&str, &str); 9] = [
    ("std::time", "time is handed in: use base::Instant, and core::time::Duration for spans"),
    ("SystemTime", "time is handed in: use base::Instant"),
    ("HashMap", "its order is random: use BTreeMap"),
    ("HashSet", "its order is random: use BTreeSet"),
    ("RandomState", "it is random"),
    ("std::thread", "one thread only: schedules do not replay"),
    ("std::net", "effects go through the host"),
    ("thread_rng", "randomness comes from the seed: use base::Rng"),
    ("async", "effects are values; nothing waits inside"),
];

/// The only crates that may contain `unsafe`: shared memory, and names that C code calls.
pub(super) const UNSAFE_CRATES: [&str; 3] = ["crates/region", "crates/pow", "crates/preload"];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for (file, source) in tree.rust() {
        let Some(dir) = file.crate_dir() else { continue };
        // Examples and tests may look at a clock: they drive what replays.
        let replays = REPLAYS.iter().any(|folder| file.path.starts_with(folder));
        for (n, line) in source.code.lines().enumerate() {
            if replays {
                for (word, why) in NOT_REPLAYED.iter().filter(|(word, _)| has_word(line, word)) {
                    let what = format!("`{word}` in {dir}: {why}");
                    findings.push(Finding::new(&file.path, n + 1, what));
                }
            }
            if has_word(line, "unsafe") && !UNSAFE_CRATES.contains(&dir) {
                let what = "`unsafe` outside of crates/region: build it on what region offers";
                findings.push(Finding::new(&file.path, n + 1, what));
            }
        }
        let is_root =
            ["src/lib.rs", "src/main.rs"].iter().any(|root| file.path == format!("{dir}/{root}"));
        let forbids = source.code.contains("#![forbid(unsafe_code)]");
        if is_root && !forbids && !UNSAFE_CRATES.contains(&dir) {
            let what = "`#![forbid(unsafe_code)]` is missing";
            findings.push(Finding::new(&file.path, 0, what));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(path: &str, text: &str) -> Vec<String> {
        let mut findings = Vec::new();
        check(&Tree::made_up(&[(path, text)]), &mut findings);
        findings.iter().map(Finding::to_string).collect()
    }

    #[test]
    fn canary_what_does_not_replay_is_found() {
        for (word, _) in NOT_REPLAYED {
            let text = format!("//! A.\nuse {word};\n");
            for folder in REPLAYS {
                let found = found(&format!("{folder}x.rs"), &text);
                assert!(found.len() == 1 && found[0].contains(word), "{word}: {found:?}");
            }
            assert_eq!(found("crates/kv/src/x.rs", &text), Vec::<String>::new());
        }
        assert_eq!(
            found("crates/sim/examples/x.rs", "//! A.\nuse std::time;\n"),
            Vec::<String>::new()
        );
        let comment = "//! A HashMap would not do.\n";
        assert_eq!(found("crates/proto/src/x.rs", comment), Vec::<String>::new());
    }

    #[test]
    fn canary_unsafe_outside_of_region_is_found() {
        let text = "//! A.\nfn f() { unsafe { g() } }\n";
        assert_eq!(found("crates/kv/src/x.rs", text).len(), 1);
        assert_eq!(found("crates/region/src/x.rs", text), Vec::<String>::new());
        let comment = "//! Nothing unsafe.\n#![forbid(unsafe_code)]\n";
        assert_eq!(found("crates/kv/src/lib.rs", comment), Vec::<String>::new());
    }

    #[test]
    fn canary_a_crate_that_does_not_forbid_unsafe_is_found() {
        assert_eq!(found("crates/kv/src/lib.rs", "//! A.\n").len(), 1);
        assert_eq!(found("crates/gregale/src/main.rs", "//! A.\n").len(), 1);
        assert_eq!(found("crates/region/src/lib.rs", "//! A.\n"), Vec::<String>::new());
        assert_eq!(found("crates/kv/src/x.rs", "//! A.\n"), Vec::<String>::new());
    }
}
