//! `gregale replicate doctor --trial` on real programs, and on one of ours that does what a
//! replicated program may not do, one thing at a time. What is said of each program is as in its
//! file of `tests/doctor` (`UPDATE=1` writes them).

use crate::doctor::is_as_in_its_file;
use crate::support::gregale;
use std::path::Path;
use std::process::Command;

fn tried(name: &str, command: &str) {
    is_as_in_its_file(&format!("{name}-trial"), &[command, "--trial"], 0);
}

#[test]
fn a_trial_of_redis_shows_what_it_does() {
    let command = "redis-server --port 0 --unixsocket {socket} --dir {dir} --save '' --timeout 0";
    tried("redis-server", command);
}

#[test]
fn a_trial_of_memcached_shows_what_it_does() {
    let user = if rustix::process::geteuid().is_root() { "-u root" } else { "" };
    tried("memcached", &format!("memcached {user} -s {{socket}} -U 0"));
}

#[test]
fn a_trial_of_beanstalkd_shows_what_it_does() {
    let request = "list-tubes\\r\\n";
    let command = "beanstalkd -l unix:{socket}";
    is_as_in_its_file("beanstalkd-trial", &[command, "--trial", "--request", request], 0);
}

/// Our program, which does `what` when it is asked, and the verdict on it.
fn said_of(what: &str) -> (Option<i32>, serde_json::Value) {
    let directory = tempfile::tempdir().unwrap();
    let made = directory.path().join("server");
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/real/trial.c");
    let compiled = Command::new("cc").arg("-o").args([&made, &source]).arg("-pthread").status();
    assert!(compiled.unwrap().success());
    let command = format!("{} {{socket}} {what}", made.display());
    let flags = ["--trial", "--request", "hello", "--format", "json"];
    let output = gregale(&[&["replicate", "doctor", &command], &flags[..]].concat());
    let said = String::from_utf8_lossy(&output.stdout).into_owned();
    let error = String::from_utf8_lossy(&output.stderr).into_owned();
    let said = serde_json::from_str(&said).unwrap_or_else(|_| panic!("{what}: {said}{error}"));
    (output.status.code(), said)
}

fn lists(said: &serde_json::Value, list: &str, text: &str) -> bool {
    let lines = said["trial"][list].as_array().cloned().unwrap_or_default();
    lines.iter().any(|line| line.as_str().unwrap().contains(text))
}

#[test]
fn a_trial_shows_each_thing_that_a_copy_may_not_do() {
    let (code, nothing) = said_of("nothing");
    assert_eq!(code, Some(0), "{nothing}");
    assert_eq!(nothing["trial"]["outcome"], "took 3 connections, and answered 3 requests");
    assert_eq!(nothing["trial"]["warnings"], serde_json::json!([]), "{nothing}");
    assert!(lists(&nothing, "facts", "says that it rests"), "{nothing}");
    let warned = [
        ("ring", "io_uring"),
        ("udp", "UDP"),
        ("outbound", "has connected to 192.0.2.1:9"),
        ("chance", "draws past the C library"),
        ("wrapper", "draws past the C library"),
        ("clock", "reads clocks past the C library"),
        ("wait", "waits past the C library"),
        ("timer", "timers of the kernel"),
        ("file", "has opened /etc/gregale-trial for writing"),
        ("shared", "has written /var/tmp/gregale-trial"),
        ("hand-off", "threads wake each other"),
    ];
    for (what, text) in warned {
        let (code, said) = said_of(what);
        assert_eq!(code, Some(0), "{what}: {said}");
        assert!(lists(&said, "warnings", text), "{what}: {said}");
        let n = said["trial"]["warnings"].as_array().unwrap().len();
        assert_eq!(n, 1, "that alone: {said}");
    }
    let (_, child) = said_of("child");
    assert!(lists(&child, "facts", "has begun processes"), "{child}");
    let _ = std::fs::remove_file("/var/tmp/gregale-trial");
}

#[test]
fn a_program_that_does_not_serve_is_not_replicated() {
    let (code, deaf) = said_of("deaf");
    assert_eq!(code, Some(1), "{deaf}");
    assert!(lists(&deaf, "why_not", "exit status 4"), "{deaf}");
    let (code, ended) = said_of("end");
    assert_eq!(code, Some(1), "{ended}");
    assert!(lists(&ended, "why_not", "exit status 3"), "{ended}");
}
