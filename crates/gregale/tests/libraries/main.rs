//! Published client libraries, unchanged, at the versions that the registries serve today.
//!
//! The packages are installed once, into cargo's directory for tests, and stay there for the next
//! run. Where a registry does not answer, or the language is not installed, a test reports that by
//! name and is skipped: the door is tested, not the network. The programs are in `scripts`; each
//! writes `kill` where a member is to die, and `well` when it has succeeded.
//!
//! Redis's own tests are run in the same way (`tools/redis-suite`).

#[allow(
    dead_code,
    reason = "the harness of the other tests of real clusters, which use more of it"
)]
#[path = "../real/support.rs"]
mod support;

use std::io::{BufRead, BufReader, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};
use std::sync::{Mutex, PoisonError, mpsc};
use std::time::{Duration, Instant};
use support::{Cluster, signal};

/// The time for packages to be installed.
const INSTALL_WITHIN: Duration = Duration::from_secs(240);
/// The time for a program, its builds and the deaths of members included.
const RUN_WITHIN: Duration = Duration::from_secs(240);

/// The interval at which a package manager is checked.
const LOOK_EVERY: Duration = Duration::from_millis(50);

const PYTHON: &str = "/usr/bin/python3";

/// Runs a command to its end; false if it does not exist, fails or takes too long.
fn succeeds(command: &mut Command) -> bool {
    let Ok(mut child) = command.stdin(Stdio::null()).stdout(Stdio::null()).spawn() else {
        return false;
    };
    let deadline = Instant::now() + INSTALL_WITHIN;
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return status.success(),
            Ok(None) if Instant::now() < deadline => std::thread::sleep(LOOK_EVERY),
            _ => {
                drop(child.kill());
                drop(child.wait());
                return false;
            }
        }
    }
}

/// Reports a skipped test by name.
fn skip(test: &str, why: &str) {
    eprintln!("skipped: {test}: {why}");
}

/// A directory with everything that `install` puts there, now or in an earlier run; `None` if the
/// installation fails.
fn packages(name: &str, install: impl FnOnce(&Path) -> bool) -> Option<PathBuf> {
    static ONE_AT_A_TIME: Mutex<()> = Mutex::new(());
    let _one = ONE_AT_A_TIME.lock().unwrap_or_else(PoisonError::into_inner);
    let directory = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libraries").join(name);
    let done = directory.join("installed");
    if !done.exists() {
        std::fs::create_dir_all(&directory).unwrap();
        if !install(&directory) {
            return None;
        }
        std::fs::write(done, "").unwrap();
    }
    Some(directory)
}

/// Packages for Python.
fn pip(name: &str, wanted: &[&str]) -> Option<PathBuf> {
    packages(name, |directory| {
        let mut command = Command::new(PYTHON);
        command.args(["-m", "pip", "install", "--quiet", "--disable-pip-version-check"]);
        command.args(["--root-user-action", "ignore", "--upgrade", "--target"]);
        succeeds(command.arg(directory).args(wanted))
    })
}

/// Packages for node.
fn npm(name: &str, wanted: &[&str]) -> Option<PathBuf> {
    packages(name, |directory| {
        let mut command = Command::new("npm");
        command.args(["install", "--silent", "--no-audit", "--no-fund", "--prefix"]);
        succeeds(command.arg(directory).args(wanted))
    })
}

/// Runs a program against the cluster, kills a member whenever it asks for that, and waits until it
/// has succeeded.
fn run(mut program: Command, cluster: &Cluster) {
    for id in 1..=cluster.nodes {
        program.arg(cluster.port_of(id).to_string());
    }
    let child = program.stdin(Stdio::piped()).stdout(Stdio::piped()).spawn().unwrap();
    let mut child = Ended(child);
    let mut input = child.0.stdin.take().unwrap();
    let output = BufReader::new(child.0.stdout.take().unwrap());
    let (tell, lines) = mpsc::channel();
    // The thread ends with the program's output.
    std::thread::spawn(move || {
        output.lines().map_while(Result::ok).try_for_each(|line| tell.send(line))
    });
    let deadline = Instant::now() + RUN_WITHIN;
    let mut victim = 2;
    loop {
        let line = lines
            .recv_timeout(deadline.saturating_duration_since(Instant::now()))
            .unwrap_or_else(|error| panic!("the program ended, or hangs: {error}"));
        println!("{line}");
        match line.as_str() {
            "kill" => {
                signal(cluster.pid_of(victim), "KILL");
                victim = victim % cluster.nodes + 1;
                input.write_all(b"killed\n").unwrap();
                input.flush().unwrap();
            }
            "well" => return,
            _ => {}
        }
    }
}

/// A program that ends with its test.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        drop(self.0.kill());
        drop(self.0.wait());
    }
}

fn script(name: &str) -> String {
    format!("{}/tests/libraries/scripts/{name}", env!("CARGO_MANIFEST_DIR"))
}

fn python(name: &str, packages: &Path) -> Command {
    let mut command = Command::new(PYTHON);
    command.arg(script(name)).env("PYTHONPATH", packages);
    command
}

#[test]
fn redis_py_in_cluster_mode_survives_a_kill() {
    let Some(packages) = pip("redis-py", &["redis"]) else {
        return skip("redis_py_in_cluster_mode_survives_a_kill", "pip cannot install redis");
    };
    let cluster = Cluster::start_with(&["--cluster-discovery"]);
    run(python("cluster.py", &packages), &cluster);
}

#[test]
fn redis_py_finds_the_leader_as_sentinels_do_and_survives_its_kill() {
    let Some(packages) = pip("redis-py", &["redis"]) else {
        return skip("redis_py_finds_the_leader", "pip cannot install redis");
    };
    let cluster = Cluster::start();
    run(python("sentinel.py", &packages), &cluster);
}

#[test]
fn ioredis_in_cluster_mode_survives_a_kill() {
    let Some(packages) = npm("ioredis", &["ioredis"]) else {
        return skip("ioredis_in_cluster_mode_survives_a_kill", "npm cannot install ioredis");
    };
    let cluster = Cluster::start_with(&["--cluster-discovery"]);
    let mut program = Command::new("node");
    program.arg(script("cluster.js")).env("NODE_PATH", packages.join("node_modules"));
    run(program, &cluster);
}

/// SELECT was refused, and ioredis silently used database 0.
#[test]
fn ioredis_with_a_database_is_served_from_it() {
    let Some(packages) = npm("ioredis", &["ioredis"]) else {
        return skip("ioredis_with_a_database_is_served_from_it", "npm cannot install ioredis");
    };
    let mut program = Command::new("node");
    program.arg(script("database.js")).env("NODE_PATH", packages.join("node_modules"));
    run(program, &Cluster::start());
}

#[test]
fn node_redis_in_cluster_mode_survives_a_kill() {
    let Some(packages) = npm("node-redis", &["redis"]) else {
        return skip("node_redis_in_cluster_mode_survives_a_kill", "npm cannot install redis");
    };
    let cluster = Cluster::start_with(&["--cluster-discovery"]);
    let mut program = Command::new("node");
    program.arg(script("cluster_node_redis.js")).env("NODE_PATH", packages.join("node_modules"));
    run(program, &cluster);
}

/// Runs `scripts/Cluster.java` with one of the libraries of `scripts/pom.xml`.
fn run_java(test: &str, library: &str) {
    let directory = packages("java", |directory| {
        std::fs::copy(script("pom.xml"), directory.join("pom.xml")).unwrap();
        let mut command = Command::new("mvn");
        command.args(["-q", "-B", "dependency:copy-dependencies", "-DoutputDirectory=lib"]);
        succeeds(command.current_dir(directory))
    });
    let Some(directory) = directory else {
        return skip(test, "mvn cannot install jedis and lettuce");
    };
    let cluster = Cluster::start_with(&["--cluster-discovery"]);
    let mut program = Command::new("java");
    program
        .arg("-cp")
        .arg(directory.join("lib").join("*"))
        .args([&script("Cluster.java"), library]);
    run(program, &cluster);
}

#[test]
fn jedis_in_cluster_mode_survives_a_kill() {
    run_java("jedis_in_cluster_mode_survives_a_kill", "jedis");
}

#[test]
fn lettuce_in_cluster_mode_survives_a_kill() {
    run_java("lettuce_in_cluster_mode_survives_a_kill", "lettuce");
}

#[test]
fn go_redis_in_cluster_mode_survives_a_kill() {
    let directory = packages("go-redis", |directory| {
        drop(std::fs::remove_file(directory.join("go.mod")));
        let go = |words: &[&str]| succeeds(Command::new("go").args(words).current_dir(directory));
        go(&["mod", "init", "program"]) && go(&["get", "github.com/redis/go-redis/v9"])
    });
    let is_built = directory.as_ref().is_some_and(|directory| {
        std::fs::copy(script("cluster.go"), directory.join("main.go")).unwrap();
        succeeds(Command::new("go").args(["build", "-o", "program", "."]).current_dir(directory))
    });
    let Some(directory) = directory.filter(|_| is_built) else {
        return skip("go_redis_in_cluster_mode_survives_a_kill", "go cannot get go-redis");
    };
    let cluster = Cluster::start_with(&["--cluster-discovery"]);
    run(Command::new(directory.join("program")), &cluster);
}

#[test]
fn redlock_py_takes_a_lock_and_releases_it() {
    let Some(packages) = pip("redlock-py", &["redlock-py", "redis"]) else {
        return skip("redlock_py_takes_a_lock_and_releases_it", "pip cannot install redlock-py");
    };
    run(python("lock.py", &packages), &Cluster::start());
}

#[test]
fn redlock_py_holds_a_lock_after_a_quiet_minute() {
    let Some(packages) = pip("redlock-py", &["redlock-py", "redis"]) else {
        let test = "redlock_py_holds_a_lock_after_a_quiet_minute";
        return skip(test, "pip cannot install redlock-py");
    };
    run(python("quiet_lock.py", &packages), &Cluster::start());
}

#[test]
fn flask_limiter_limits_over_all_members() {
    let Some(packages) = pip("flask-limiter", &["Flask-Limiter", "redis"]) else {
        return skip("flask_limiter_limits_over_all_members", "pip cannot install Flask-Limiter");
    };
    run(python("limiter.py", &packages), &Cluster::start());
}

#[test]
fn a_message_reaches_subscribers_at_every_member() {
    let Some(packages) = pip("redis-py", &["redis"]) else {
        return skip("a_message_reaches_subscribers_at_every_member", "pip cannot install redis");
    };
    run(python("messages.py", &packages), &Cluster::start());
    run(python("messages.py", &packages), &Cluster::start_with(&["--partitions", "4"]));
}

/// Runs the tests that Redis has of the commands that are here, at a leader and at a follower.
fn run_suite(test: &str, place: &str) {
    let root = concat!(env!("CARGO_MANIFEST_DIR"), "/../..");
    // Each test fetches its own copy: they run at the same time.
    let kept = Path::new(env!("CARGO_TARGET_TMPDIR")).join("libraries/redis-suite").join(place);
    let output = Command::new(format!("{root}/tools/redis-suite/run"))
        .arg(support::GREGALE)
        .args(["leader", "follower"].map(|role| format!("{place}-{role}")))
        .env("REDIS_SUITE_DIR", &kept)
        .stdin(Stdio::null())
        .output()
        .unwrap();
    let told = String::from_utf8_lossy(&output.stdout);
    println!("{told}");
    if output.status.code() == Some(SUITE_CANNOT_RUN) {
        return skip(test, told.trim_end());
    }
    let told = format!("{told}{}", String::from_utf8_lossy(&output.stderr));
    assert!(output.status.success(), "{told}");
    assert_eq!(told.matches(" passed, 0 failed").count(), 2, "{told}");
}

/// What the script returns where it cannot be run.
const SUITE_CANNOT_RUN: i32 = 77;

#[test]
fn redis_s_own_tests_pass_in_memory() {
    run_suite("redis_s_own_tests_pass_in_memory", "memory");
}

#[test]
fn redis_s_own_tests_pass_on_disk() {
    run_suite("redis_s_own_tests_pass_on_disk", "disk");
}
