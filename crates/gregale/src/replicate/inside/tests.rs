//! Tests of the preloaded library: what a program in C that loads it sees.

use super::*;
use std::process::{Command, Stdio};

const SECOND_MS: u64 = 1000;

/// The program of `tests.c`, with the library of `library.c`.
fn compiled(directory: &Path) -> PathBuf {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/replicate/inside");
    let compile = |flags: &[&str], from: &str, to: &str| {
        let mut cc = Command::new("cc");
        cc.args(["-O1", "-pthread", "-o"]).args([directory.join(to), source.join(from)]);
        assert!(cc.args(flags).status().unwrap().success(), "{cc:?}");
    };
    let directory_flag = format!("-L{}", directory.display());
    let path_flag = format!("-Wl,-rpath,{}", directory.display());
    compile(&["-shared", "-fPIC"], "library.c", "libbegins.so");
    compile(&[&directory_flag, &path_flag, "-lbegins"], "tests.c", "program");
    directory.join("program")
}

/// What the program says that does this, with the library, by the log's time.
fn said(what: &str) -> String {
    ran(what).0
}

/// The same, and the page as the program has left it.
fn ran(what: &str) -> (String, Inside) {
    let directory = tempfile::tempdir().unwrap();
    let program = compiled(directory.path());
    let library = write_library(directory.path()).unwrap();
    let mut inside = Inside::make(directory.path().join("page"), false, 7).unwrap();
    inside.tell_time(5 * SECOND_MS);
    let preload = format!("LD_PRELOAD={}", library.display());
    let page = format!("{}={}", waits::PAGE, inside.path().display());
    let mut ends = Command::new("timeout");
    let output = ends.args(["60", "env", &preload, &page]).arg(program).arg(what).output().unwrap();
    (String::from_utf8(output.stdout).unwrap(), inside)
}

#[test]
fn a_thread_that_waits_by_the_logs_time_is_cancelled() {
    assert_eq!(said("sleeps"), "cancelled, -1, -1\n");
    assert_eq!(said("waits"), "cancelled, 0, -1\n", "it has the mutex when it is cancelled");
}

/// More threads than the page has slots for: the one that signals has none.
#[test]
fn a_signal_of_any_thread_ends_a_wait_by_the_logs_time() {
    assert_eq!(said("signals"), "over, 0, 0\n");
}

#[test]
fn what_a_library_of_the_program_draws_and_reads_at_its_beginning_is_shared() {
    let [one, other] = [said("begins"), said("begins")];
    assert_eq!(one, other);
    assert!(one.ends_with(" 5\n"), "the log's time: {one}");
}

/// The slot of a thread that lives is not another one's: a program that works would be at rest.
#[test]
fn a_thread_that_a_library_has_started_at_its_beginning_keeps_its_slot() {
    let (said, inside) = ran("starts");
    assert_eq!(said, "started\n");
    assert_eq!(inside.page.threads().count(), 3, "the first one, the library's, the program's");
}

/// The C library's own threads have other names for the same.
#[test]
fn the_threads_of_c11_are_seen_as_those_of_posix() {
    let (said, inside) = ran("c11");
    assert_eq!(said, "7, 0\n");
    assert_eq!(inside.page.threads().count(), 2, "the first one, and one that waits");
}

/// There were more than the page has slots for: the last one is seen to wait.
#[test]
fn a_program_whose_crowd_of_threads_has_ended_is_seen_at_rest_again() {
    let (said, inside) = ran("passes");
    assert_eq!(said, "passed\n");
    assert_ne!(inside.page.look(), Look::Moves);
}

/// Python loads OpenSSL for itself alone: it does not stand behind the preloaded library.
#[test]
fn a_library_that_is_loaded_for_a_part_of_the_program_draws_by_the_kernel() {
    let directory = tempfile::tempdir().unwrap();
    let preload = write_library(directory.path()).unwrap();
    let mut python3 = Command::new("python3");
    let draws = "import ssl; print(len(ssl.RAND_bytes(8)))";
    let output = python3.args(["-c", draws]).env("LD_PRELOAD", preload).output().unwrap();
    assert_eq!(String::from_utf8_lossy(&output.stdout), "8\n", "{output:?}");
}

/// A shell has the library, and what it has begun is a program without: a static one.
#[test]
fn a_program_without_the_library_is_found_behind_a_shell_that_has_it() {
    let directory = tempfile::tempdir().unwrap();
    let library = write_library(directory.path()).unwrap();
    let mut shell = Command::new("sh")
        .args(["-c", "echo up; read line"])
        .env("LD_PRELOAD", &library)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .spawn()
        .unwrap();
    let mut up = [0; 3];
    shell.stdout.take().unwrap().read_exact(&mut up).unwrap();
    assert!(!is_without(Some(shell.id()), shell.id()) && !is_without(None, shell.id()));
    let own = std::process::id();
    assert!(is_without(Some(own), shell.id()), "this process listens, and does not have it");
    drop(shell.stdin.take());
    shell.wait().unwrap();
    assert!(!is_without(None, u32::MAX), "of that nothing is known");
}
