//! The allowed dependencies between crates.
//!
//! A protocol that could reach a socket would sooner or later do so, and then it would not run in
//! the simulator; a table that names every arrow turns that into a failing test.

use super::{Finding, Tree};

/// (crate, crates of this workspace that it may depend on). A crate that is not listed may not
/// exist.
const ALLOWED: [(&str, &[&str]); 26] = [
    ("base", &[]),
    ("region", &["base"]),
    ("proto", &["base"]),
    ("storage", &["base"]),
    ("check", &[]),
    ("client", &[]),
    ("report", &[]),
    ("powercut", &["base"]),
    ("console", &[]),
    ("pow", &[]),
    ("waits", &[]),
    ("group-macros", &[]),
    ("preload", &["waits"]),
    ("fabric", &["base", "region"]),
    ("model", &["base", "proto"]),
    ("replicate", &["base", "engine", "proto"]),
    ("sim", &["base", "check", "engine", "group", "kv", "proto", "replicate", "storage"]),
    ("engine", &["base", "proto"]),
    ("runtime", &["base", "engine", "fabric", "proto", "region", "storage"]),
    ("kv", &["base", "engine", "pow", "proto"]),
    ("multicast", &["base", "engine", "fabric", "proto", "region", "runtime", "storage"]),
    (
        "group",
        &["base", "engine", "fabric", "group-macros", "proto", "region", "runtime", "storage"],
    ),
    (
        "bench",
        &[
            "base",
            "check",
            "engine",
            "fabric",
            "group",
            "kv",
            "multicast",
            "proto",
            "region",
            "report",
            "runtime",
            "sim",
            "storage",
        ],
    ),
    (
        "gregale",
        &[
            "base",
            "check",
            "console",
            "fabric",
            "kv",
            "multicast",
            "proto",
            "region",
            "replicate",
            "runtime",
            "storage",
            "waits",
        ],
    ),
    ("workbench", &["base", "bench", "console", "kv", "proto", "report", "sim"]),
    ("xtask", &[]),
];

/// Tests may also use these: they contain no part of the system.
const FOR_TESTS: [&str; 4] = ["base", "check", "client", "powercut"];

pub(super) fn check(tree: &Tree, findings: &mut Vec<Finding>) {
    for file in &tree.files {
        let Some(dir) = file.crate_dir() else { continue };
        if file.path != format!("{dir}/Cargo.toml") {
            continue;
        }
        let name = dir.strip_prefix("crates/").unwrap_or(dir);
        let Some((_, allowed)) = ALLOWED.iter().find(|(known, _)| *known == name) else {
            let what = format!(
                "no arrow is known for the crate `{name}`: add it to ARCHITECTURE.md and to \
                 xtask/src/tidy/arrows.rs"
            );
            findings.push(Finding::new(&file.path, 0, what));
            continue;
        };
        let manifest: toml::Table = match toml::from_str(&file.text) {
            Ok(manifest) => manifest,
            Err(e) => {
                findings.push(Finding::new(&file.path, 0, format!("no TOML: {}", e.message())));
                continue;
            }
        };
        for (dependency, is_for_tests) in dependencies(&manifest) {
            // A crate's own name stands here when its tests switch on a feature of it.
            let is_ours = ALLOWED.iter().any(|(known, _)| *known == dependency);
            let is_allowed = allowed.contains(&dependency.as_str())
                || dependency == name
                || is_for_tests && FOR_TESTS.contains(&dependency.as_str());
            if is_ours && !is_allowed {
                let what = format!(
                    "`{name}` must not depend on `{dependency}`: arrows point down only \
                     (ARCHITECTURE.md); move what is shared further down"
                );
                findings.push(Finding::new(&file.path, line_of(&file.text, &dependency), what));
            }
        }
    }
}

/// Names of crates, without the prefix of this workspace; and whether only tests see them.
pub(super) fn dependencies(manifest: &toml::Table) -> Vec<(String, bool)> {
    let mut found = Vec::new();
    let mut tables = vec![manifest];
    if let Some(toml::Value::Table(targets)) = manifest.get("target") {
        tables.extend(targets.values().filter_map(toml::Value::as_table));
    }
    for table in tables {
        for (section, is_for_tests) in
            [("dependencies", false), ("build-dependencies", false), ("dev-dependencies", true)]
        {
            let Some(toml::Value::Table(entries)) = table.get(section) else { continue };
            for (name, value) in entries {
                let package = value.get("package").and_then(toml::Value::as_str).unwrap_or(name);
                let short = package.strip_prefix("gregale-").unwrap_or(package);
                found.push((short.to_owned(), is_for_tests));
            }
        }
    }
    found
}

fn line_of(text: &str, name: &str) -> usize {
    let is_entry = |line: &str| {
        let line = line.trim_start().trim_start_matches("gregale-");
        line.strip_prefix(name).is_some_and(|rest| rest.trim_start().starts_with(['=', '.']))
    };
    text.lines().position(is_entry).map_or(0, |at| at + 1)
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
    fn canary_an_arrow_that_points_up_is_found() {
        for entry in [
            "[dependencies]\nruntime = { workspace = true }\n",
            "[dependencies]\nruntime.workspace = true\n",
            "[dependencies]\nr = { package = \"gregale-runtime\", path = \"../runtime\" }\n",
            "[dependencies]\ngregale-runtime = \"0.1\"\n",
            "[build-dependencies]\nruntime = { workspace = true }\n",
            "[dev-dependencies]\nruntime = { workspace = true }\n",
            "[target.'cfg(unix)'.dependencies]\nruntime = { workspace = true }\n",
        ] {
            let found = found("crates/proto/Cargo.toml", entry);
            assert_eq!(found.len(), 1, "{entry}: {found:?}");
            assert!(found[0].contains("`proto` must not depend on `runtime`"), "{found:?}");
        }
    }

    #[test]
    fn canary_a_crate_that_nobody_drew_is_found() {
        assert_eq!(found("crates/surprise/Cargo.toml", "[package]\n").len(), 1);
    }

    #[test]
    fn arrows_down_and_foreign_crates_are_fine() {
        let text = "[dependencies]\nbase = { workspace = true }\nlibc = \"0.2\"\n\
                    [dev-dependencies]\ncheck = { workspace = true }\n";
        assert_eq!(found("crates/proto/Cargo.toml", text), Vec::<String>::new());
    }

    /// Cargo refuses cycles, but the table must not allow one in the first place.
    #[test]
    fn the_table_has_no_cycle() {
        let mut placed: Vec<&str> = Vec::new();
        while placed.len() < ALLOWED.len() {
            let before = placed.len();
            for (name, below) in ALLOWED {
                let is_next = !placed.contains(&name) && below.iter().all(|b| placed.contains(b));
                if is_next {
                    placed.push(name);
                }
            }
            assert!(placed.len() > before, "a cycle above {placed:?}");
        }
    }
}
