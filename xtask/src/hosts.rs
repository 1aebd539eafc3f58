//! What a host can do, and the tests that leave themselves out where it cannot.
//!
//! - H1 A test that leaves itself out with CI=true, for a reason that is in no list or although the
//!   host can do what it needs, fails the run. What the host cannot do is told. Tested.
//! - H2 A download that fails is told and fails no run: a registry that answers now may not have
//!   answered then. Tested.

use crate::run::works;
use std::path::{Path, PathBuf};
use std::process::Command;

/// Something that a host may be unable to do, and that tests need.
pub(crate) struct Ability {
    name: &'static str,
    /// The words of tests that leave themselves out for want of it.
    says: &'static [&'static str],
    is_there: fn() -> bool,
}

/// Every reason for which a test may leave itself out.
const ABILITIES: [Ability; 4] = [
    Ability {
        name: "mounting a FUSE file system",
        says: &["skipped: cannot open /dev/fuse", "skipped: cannot mount a FUSE file system"],
        is_there: has_fuse,
    },
    Ability {
        name: "mounting a tmpfs",
        says: &[
            "skipped: no right to mount a small file system",
            "skipped: cannot mount a small tmpfs",
            "skipped: mounting a tmpfs needs root",
        ],
        is_there: mounts,
    },
    Ability {
        name: "network namespaces",
        says: &["skipped: no network namespaces here"],
        is_there: has_namespaces,
    },
    Ability {
        name: "what is downloaded",
        says: &[
            "mvn cannot install",
            "pip cannot install",
            "npm cannot install",
            "go cannot get",
            "skipped: the suite's source cannot be fetched from",
        ],
        // H2
        is_there: || false,
    },
];

/// The lines on tests that left themselves out.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Judged {
    /// Those that the host cannot run, each with what it lacks.
    pub(crate) left_out: Vec<String>,
    /// Those that it could have run, or whose reason is not known.
    pub(crate) wrong: Vec<String>,
}

/// Judges the lines on tests that left themselves out, by what this host can do.
pub(crate) fn judge(skipped: &[String]) -> Judged {
    judge_by(skipped, |ability| (ability.is_there)())
}

/// `can` is asked once about each ability that a line is about.
fn judge_by(skipped: &[String], can: impl Fn(&Ability) -> bool) -> Judged {
    let mut judged = Judged::default();
    let mut lines: Vec<&String> = skipped.iter().collect();
    for ability in &ABILITIES {
        let is_its = |line: &&String| ability.says.iter().any(|words| line.contains(words));
        let (its, others): (Vec<_>, Vec<_>) = lines.into_iter().partition(is_its);
        lines = others;
        if its.is_empty() {
            continue;
        }
        match can(ability) {
            true => judged.wrong.extend(
                its.iter().map(|line| format!("{line} (but this host can: {})", ability.name)),
            ),
            false => judged
                .left_out
                .extend(its.iter().map(|line| format!("{line} (no {})", ability.name))),
        }
    }
    let unknown =
        lines.iter().map(|line| format!("{line} (a reason that xtask/src/hosts.rs lacks)"));
    judged.wrong.extend(unknown);
    judged
}

/// A directory of this process, which is removed in the end.
struct Scratch(PathBuf);

impl Scratch {
    fn new(name: &str) -> Option<Scratch> {
        let path =
            std::env::temp_dir().join(format!("gregale-xtask-{}-{name}", std::process::id()));
        std::fs::create_dir(&path).ok().map(|()| Scratch(path))
    }

    fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Scratch {
    fn drop(&mut self) {
        let _left = std::fs::remove_dir_all(&self.0);
    }
}

/// A command with some seconds.
fn within(seconds: u32, words: &[&str]) -> Command {
    let mut command = Command::new("timeout");
    command.arg(seconds.to_string()).args(words).stdin(std::process::Stdio::null());
    command
}

/// A mount that no process serves, as the kernel does it for a program.
fn has_fuse() -> bool {
    const MOUNT: &str = "exec 3<>/dev/fuse && mount -i -t fuse \
        -o fd=3,rootmode=40000,user_id=0,group_id=0 probe \"$1\" && umount -l \"$1\"";
    let Some(at) = Scratch::new("fuse") else { return false };
    works(within(20, &["bash", "-c", MOUNT, "bash"]).arg(at.path()))
}

fn mounts() -> bool {
    let Some(at) = Scratch::new("mount") else { return false };
    let mount = ["mount", "-t", "tmpfs", "-o", "size=64k", "none"];
    let mounted = works(within(20, &mount).arg(at.path()));
    mounted && works(within(20, &["umount", "-l"]).arg(at.path()))
}

fn has_namespaces() -> bool {
    let name = &format!("gregale-xtask-{}", std::process::id());
    let made = works(&mut within(20, &["ip", "netns", "add", name]));
    let link = ["ip", "-n", name, "link", "add", "a", "type", "veth", "peer", "name", "b"];
    let linked = made && works(&mut within(20, &link));
    let removed = made && works(&mut within(20, &["ip", "netns", "del", name]));
    linked && removed
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(of: &[&str]) -> Vec<String> {
        of.iter().map(|line| (*line).to_owned()).collect()
    }

    #[test]
    fn h1_what_the_host_cannot_do_is_told_and_what_it_can_is_a_failure() {
        let skipped = lines(&[
            "cuts: skipped: cannot open /dev/fuse: No such file or directory (os error 2)",
            "disk::full: skipped: no right to mount a small file system",
            "hosts: skipped: no network namespaces here: ip netns add x: refused",
        ]);
        let judged = judge_by(&skipped, |ability| ability.name == "network namespaces");
        assert_eq!(judged.left_out.len(), 2, "{judged:?}");
        assert!(judged.left_out[0].ends_with("(no mounting a FUSE file system)"), "{judged:?}");
        assert!(judged.left_out[1].starts_with("disk::full: skipped: no right"), "{judged:?}");
        assert_eq!(judged.wrong.len(), 1, "{judged:?}");
        assert!(judged.wrong[0].ends_with("(but this host can: network namespaces)"), "{judged:?}");
    }

    #[test]
    fn h2_a_download_that_failed_is_told() {
        let skipped = lines(&["skipped: jedis_survives: mvn cannot install the driver: exit 1"]);
        let judged = judge(&skipped);
        assert_eq!((judged.left_out.len(), judged.wrong.len()), (1, 0), "{judged:?}");
    }

    #[test]
    fn h1_a_reason_that_is_in_no_list_is_a_failure() {
        let skipped = lines(&["a: skipped: there is no python3", "b: skipped: no time today"]);
        let judged = judge_by(&skipped, |_| panic!("it is about no ability"));
        let expected = lines(&[
            "a: skipped: there is no python3 (a reason that xtask/src/hosts.rs lacks)",
            "b: skipped: no time today (a reason that xtask/src/hosts.rs lacks)",
        ]);
        assert_eq!(judged, Judged { left_out: Vec::new(), wrong: expected });
    }

    #[test]
    fn h1_the_words_of_each_reason_are_those_of_a_test() {
        let root = crate::root();
        let read = |path: &str| std::fs::read_to_string(root.join(path)).expect("readable");
        let said: String = [
            "crates/fabric/tests/tcp_hosts.rs",
            "crates/gregale/tests/libraries/main.rs",
            "crates/gregale/tests/real/disk.rs",
            "crates/gregale/tests/real/refusals.rs",
            "crates/powercut/src/mount.rs",
            "crates/region/tests/files.rs",
            "tools/redis-suite/run",
        ]
        .map(read)
        .concat();
        for words in ABILITIES.iter().flat_map(|ability| ability.says) {
            let words = words.trim_start_matches("skipped: ");
            assert!(said.contains(words), "no test says `{words}`");
        }
    }
}
