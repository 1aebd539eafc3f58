//! Bad input, and machines that lack a permission: one line, exit code 2, nothing left behind.

use crate::support::{Cluster, GREGALE, free_ports, gregale, memory_unless_told, refused};
use std::io::Write;
use std::net::TcpListener;
use std::os::unix::fs::OpenOptionsExt;
use std::path::Path;
use std::process::Command;

fn up(flags: &[&str]) -> String {
    let port = free_ports(3).to_string();
    let name = format!("refused{}-{port}", std::process::id());
    let mut words = vec!["up", "--cluster", &name, "--port", &port];
    words.extend_from_slice(memory_unless_told(flags));
    words.extend_from_slice(flags);
    let text = refused(&gregale(&words));
    let directory = format!("/dev/shm/gregale-{name}-{port}");
    assert!(!Path::new(&directory).exists(), "{directory} is left");
    text
}

#[test]
fn durability_and_where_it_is_kept_must_fit() {
    assert!(up(&["--durability", "memory-quorum", "--data", "/tmp/x"]).contains("--data"));
    let text = up(&["--protocol", "velos", "--durability", "disk-quorum", "--data", "/tmp/x"]);
    assert!(text.contains("velos does not provide disk-quorum"), "{text}");
    let text = up(&["--protocol", "velos", "--durability", "disk-all", "--data", "/tmp/x"]);
    assert!(text.contains("velos does not provide disk-all"), "{text}");
}

#[test]
fn a_data_directory_of_something_else_is_refused_and_left_alone() {
    let data = tempfile::tempdir().unwrap();
    std::fs::write(data.path().join("thesis.txt"), b"x").unwrap();
    let path = data.path().to_str().unwrap();
    let text = up(&["--durability", "disk-quorum", "--data", path]);
    assert!(text.contains("thesis.txt"), "{text}");
    assert_eq!(std::fs::read_dir(data.path()).unwrap().count(), 1);
}

#[test]
fn a_protocol_that_the_fabric_cannot_carry_is_refused() {
    let text = up(&["--protocol", "mu"]);
    assert!(text.contains("mu") && text.contains("--fabric tcp"), "{text}");
}

#[test]
fn strangers_are_not_served_without_a_password() {
    let text = up(&["--bind", "0.0.0.0"]);
    assert!(text.contains("not loopback") && text.contains("--requirepass"), "{text}");
}

#[test]
fn a_port_in_use_is_named() {
    let port = free_ports(3);
    let _taken = TcpListener::bind(("127.0.0.1", port + 1)).unwrap();
    let text = refused(&gregale(&["up", "--cluster", "taken", "--port", &port.to_string()]));
    assert!(!Path::new(&format!("/dev/shm/gregale-taken-{port}")).exists());
    assert!(text.contains(&format!("127.0.0.1:{}", port + 1)) && text.contains("--port"), "{text}");
}

#[test]
fn an_unknown_key_is_named_with_its_line() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("member.toml");
    std::fs::write(&path, "cluster = \"x\"\nmember = 1\nmaxmemry = 5\n").unwrap();
    let text = refused(&gregale(&["serve", "--config", path.to_str().unwrap()]));
    assert!(text.contains("line 3") && text.contains("maxmemry"), "{text}");
    let text = refused(&gregale(&["serve", "--config", "/nowhere.toml"]));
    assert!(text.contains("/nowhere.toml"), "{text}");
}

#[test]
fn an_unknown_flag_is_a_usage_error() {
    let output = gregale(&["up", "--colour"]);
    assert_eq!(output.status.code(), Some(2));
    assert!(String::from_utf8_lossy(&output.stderr).contains("--colour"));
}

#[test]
fn status_without_a_cluster_says_what_to_do() {
    let port = free_ports(1);
    let text = refused(&gregale(&["status", "--connect", &format!("127.0.0.1:{port}")]));
    assert!(text.contains("no answer") && text.contains("--connect"), "{text}");
}

#[test]
fn a_full_file_system_is_named() {
    let mount = tempfile::tempdir().unwrap();
    let path = mount.path().to_str().unwrap();
    let mounted =
        Command::new("mount").args(["-t", "tmpfs", "-o", "size=1m", "none", path]).status();
    if !mounted.is_ok_and(|status| status.success()) {
        // Only root may mount; CI runs as root.
        println!("skipped: cannot mount a small tmpfs (not root?)");
        return;
    }
    let text = up(&["--directory", path]);
    let left = std::fs::read_dir(mount.path()).unwrap().count();
    let unmounted = Command::new("umount").arg(path).status().unwrap();
    assert!(unmounted.success());
    assert!(text.contains("no room") || text.contains("full"), "{text}");
    assert_eq!(left, 0, "something is left");
}

#[test]
fn descriptors_that_ran_out_are_named() {
    let port = free_ports(3).to_string();
    let name = format!("fds{}", std::process::id());
    let data = tempfile::tempdir().unwrap();
    let path = data.path().join("data");
    let flags = format!("--cluster {name} --port {port} --data {}", path.display());
    let script = format!("ulimit -n 12; exec {GREGALE} up {flags}");
    let output = Command::new("bash").args(["-c", &script]).output().unwrap();
    let text = refused(&output);
    assert!(text.contains("ulimit -n"), "{text}");
    assert!(!Path::new(&format!("/dev/shm/gregale-{name}-{port}")).exists());
    // The point of the interruption decides: either the whole beginning is there, or nothing.
    assert!(path.join("cluster.toml").exists() || !path.join("secret").exists());
}

/// A secret that no other user can read, which would be complained of.
fn write_secret(path: &Path) {
    let mut options = std::fs::File::options();
    let mut file = options.write(true).create_new(true).mode(0o600).open(path).unwrap();
    file.write_all(b"0123456789abcdef0123456789abcdef").unwrap();
}

#[test]
fn a_member_with_another_secret_is_refused() {
    let cluster = Cluster::start();
    let directory = tempfile::tempdir().unwrap();
    let original = cluster.directory().join("member-1.toml");
    let secret = directory.path().join("secret");
    write_secret(&secret);
    let ports = free_ports(2);
    let mut config: toml::Table =
        toml::from_str(&std::fs::read_to_string(original).unwrap()).unwrap();
    config["secret_file"] = secret.to_str().unwrap().into();
    config["start"] = "reattach".into();
    let own = config["members"].as_array_mut().unwrap()[0].as_table_mut().unwrap();
    own["client"] = format!("127.0.0.1:{ports}").into();
    own["control"] = format!("127.0.0.1:{}", ports + 1).into();
    let path = directory.path().join("member.toml");
    std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
    let text = refused(&gregale(&["serve", "--config", path.to_str().unwrap()]));
    assert!(text.contains("another cluster") || text.contains("owned by process"), "{text}");
}

/// What a process says that would found itself beside `cluster` as member 3, at addresses of its
/// own, with its memory in `directory`, and with `change` in its file.
fn refused_as_member_3(
    cluster: &Cluster,
    directory: &Path,
    change: impl FnOnce(&mut toml::Table),
) -> String {
    let original = std::fs::read_to_string(cluster.directory().join("member-3.toml")).unwrap();
    let mut config: toml::Table = toml::from_str(&original).unwrap();
    change(&mut config);
    config["directory"] = directory.to_str().unwrap().into();
    config["start"] = "bootstrap".into();
    let ports = free_ports(3);
    let own = config["members"].as_array_mut().unwrap()[2].as_table_mut().unwrap();
    for (at, name) in ["client", "control", "fabric"].into_iter().enumerate() {
        own[name] = format!("127.0.0.1:{}", ports + at as u16).into();
    }
    let path = directory.join("member.toml");
    std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
    refused(&gregale(&["serve", "--config", path.to_str().unwrap()]))
}

#[test]
fn a_peer_of_another_cluster_is_refused_over_tcp() {
    let cluster = Cluster::start_with(&["--fabric", "tcp"]);
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let secret = directory.path().join("secret");
    write_secret(&secret);
    let text = refused_as_member_3(&cluster, directory.path(), |config| {
        config["secret_file"] = secret.to_str().unwrap().into();
    });
    assert!(text.contains("secret"), "{text}");
    assert!(!directory.path().join("node-3.region").exists(), "a region is left");
}

/// Without that it would have executed commands in another way than the others, without a sign.
#[test]
fn c1_a_member_with_another_limit_of_memory_is_refused_over_tcp() {
    let cluster = Cluster::start_with(&["--fabric", "tcp"]);
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let text = refused_as_member_3(&cluster, directory.path(), |config| {
        config.insert("maxmemory".into(), 1_000_000.into());
    });
    assert!(text.contains("the memory layouts differ"), "{text}");
    assert!(text.contains("(here: maxmemory = 1000000, entries of format "), "{text}");
}

/// A replica that gives up removes the memory that it made, perhaps before its sentinel looks: the
/// cause is reported once.
#[test]
fn a_sentinel_that_finds_no_memory_ends_without_a_word() {
    let cluster = Cluster::start_with(&["--fabric", "tcp"]);
    let directory = tempfile::tempdir_in("/dev/shm").unwrap();
    let original = std::fs::read_to_string(cluster.directory().join("member-3.toml")).unwrap();
    let mut config: toml::Table = toml::from_str(&original).unwrap();
    config["directory"] = directory.path().to_str().unwrap().into();
    let path = directory.path().join("member.toml");
    std::fs::write(&path, toml::to_string(&config).unwrap()).unwrap();
    let output = gregale(&["sentinel", "--config", path.to_str().unwrap()]);
    assert!(output.status.success() && output.stderr.is_empty(), "{output:?}");
}

#[test]
fn every_subcommand_has_help_with_an_example() {
    for command in ["up", "serve", "status", "protocols"] {
        let output = gregale(&[command, "--help"]);
        let text = String::from_utf8(output.stdout).unwrap();
        assert!(output.status.success() && text.contains("Example"), "{command}: {text}");
    }
    let output = gregale(&["protocols"]);
    assert!(String::from_utf8(output.stdout).unwrap().contains("velos"));
}

/// A directory with a `gregale` of its own. (It is a link: a file that was just written may still
/// be open for writing in a child that another test has forked, and then cannot be run.)
fn gregale_alone() -> tempfile::TempDir {
    let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).unwrap();
    std::fs::hard_link(GREGALE, directory.path().join("gregale")).unwrap();
    directory
}

#[test]
fn a_workbench_that_is_not_there_is_named_with_its_build() {
    let directory = gregale_alone();
    let mut command = Command::new(directory.path().join("gregale"));
    let text = refused(&command.args(["sim", "--seeds", "3"]).output().unwrap());
    assert!(text.contains("gregale sim") && text.contains("gregale-workbench"), "{text}");
    assert!(text.contains("cargo build --release --package"), "{text}");
}

#[test]
fn the_workbench_is_told_every_word_and_its_exit_code_is_ours() {
    let directory = gregale_alone();
    let program = directory.path().join("gregale-workbench");
    // A link, too: to a program that prints its arguments.
    std::os::unix::fs::symlink("/bin/echo", &program).unwrap();
    for words in [&["sim", "--seed", "3", "--trace"][..], &["bench", "kv", "--", "-x"]] {
        let mut command = Command::new(directory.path().join("gregale"));
        let output = command.args(words).output().unwrap();
        assert_eq!(String::from_utf8_lossy(&output.stdout).trim(), words.join(" "));
        assert!(output.status.success());
    }
    std::fs::remove_file(&program).unwrap();
    std::os::unix::fs::symlink("/bin/false", &program).unwrap();
    let mut command = Command::new(directory.path().join("gregale"));
    assert_eq!(command.args(["bench", "--help"]).output().unwrap().status.code(), Some(1));
}
