//! `gregale replicate doctor` on real programs: each verdict is as in its file of `tests/doctor`
//! (`UPDATE=1` writes them).

use crate::support::gregale;
use std::path::Path;

pub(crate) fn is_as_in_its_file(name: &str, words: &[&str], code: i32) {
    let output = gregale(&[&["replicate", "doctor"], words].concat());
    let said = String::from_utf8(output.stdout).unwrap();
    assert_eq!(output.status.code(), Some(code), "{said}");
    let file = Path::new(env!("CARGO_MANIFEST_DIR")).join(format!("tests/doctor/{name}.txt"));
    if std::env::var_os("UPDATE").is_some() {
        std::fs::write(&file, &said).unwrap();
    }
    let expected = std::fs::read_to_string(&file).unwrap_or_default();
    assert_eq!(said, expected, "UPDATE=1 writes {}", file.display());
}

#[test]
fn the_doctor_knows_redis() {
    is_as_in_its_file("redis-server", &["redis-server --port 0 --unixsocket {socket}"], 0);
}

#[test]
fn the_doctor_knows_memcached() {
    is_as_in_its_file("memcached", &["memcached -s {socket}"], 0);
}

#[test]
fn the_doctor_knows_beanstalkd() {
    is_as_in_its_file("beanstalkd", &["beanstalkd"], 0);
}

#[test]
fn the_doctor_knows_mariadb() {
    is_as_in_its_file("mariadbd", &["/usr/sbin/mariadbd"], 0);
}

#[test]
fn the_doctor_knows_postgresql() {
    let file = crate::postgres::tool("postgres");
    is_as_in_its_file("postgres", &[file.to_str().unwrap()], 0);
}

/// No server, a script, and ourselves: Rust's standard library makes system calls of its own.
#[test]
fn the_doctor_tells_what_is_no_server() {
    is_as_in_its_file("cat", &["cat"], 1);
    let output = gregale(&["replicate", "doctor", "/etc/hostname"]);
    assert_eq!(output.status.code(), Some(2));
    let error = String::from_utf8(output.stderr).unwrap();
    assert!(error.contains("no program for 64 bits"), "{error}");
    let output = gregale(&["replicate", "doctor", "no-such-program", "--format", "json"]);
    assert_eq!(output.status.code(), Some(2));
}

/// A program that the compiler of C has linked statically is fed without the library.
#[test]
fn the_doctor_tells_a_static_program() {
    let directory = tempfile::tempdir().unwrap();
    let source = directory.path().join("server.c");
    let text = "#include <sys/socket.h>\nint main(void) { return accept(0, 0, 0); }\n";
    std::fs::write(&source, text).unwrap();
    let made = directory.path().join("server");
    let compiled = std::process::Command::new("cc")
        .args(["-static", "-o"])
        .args([&made, &source])
        .status()
        .unwrap();
    assert!(compiled.success());
    let command = made.display().to_string();
    let output = gregale(&["replicate", "doctor", &command, "--format", "json"]);
    let said: serde_json::Value = serde_json::from_slice(&output.stdout).unwrap();
    assert_eq!(said["settings"]["attach"], "proxy", "{said}");
    assert_eq!(said["settings"]["rest"], "quiet", "{said}");
    assert_eq!(said["facts"][0], "static: it loads no library", "{said}");
}
