//! Published programs, unchanged.

use crate::support::Cluster;
use std::process::Command;

#[test]
fn redis_benchmark_runs_at_every_member() {
    let cluster = Cluster::start();
    for id in 1..=3 {
        let port = cluster.port_of(id).to_string();
        for pipeline in ["1", "16"] {
            let output = Command::new("redis-benchmark")
                .args(["-p", &port, "-c", "20", "-n", "4000", "-d", "32", "-P", pipeline])
                .args(["-t", "set,get,incr,mset,ping", "-r", "1000", "--csv"])
                .output()
                .expect("redis-benchmark is needed: apt-get install redis-tools");
            let text = String::from_utf8(output.stdout).unwrap();
            assert!(output.status.success(), "{text}");
            assert!(text.contains("\"SET\"") && text.contains("\"MSET (10 keys)\""), "{text}");
            assert!(!text.to_lowercase().contains("err"), "{text}");
        }
    }
}

const SCRIPT: &str = r#"
import sys, redis
ports = [int(word) for word in sys.argv[1:]]
members = [redis.Redis(port=port, socket_timeout=30) for port in ports]
for n, member in enumerate(members):
    assert member.ping()
    assert member.set("k", n) is True
    assert members[(n + 1) % len(members)].get("k") == str(n).encode()
    with member.pipeline(transaction=True) as pipe:
        assert pipe.set("t", 1).incr("t").get("t").execute() == [True, 2, b"2"]
    with member.pipeline() as pipe:
        pipe.watch("t")
        value = int(pipe.get("t"))
        pipe.multi()
        pipe.set("t", value + 1)
        assert pipe.execute() == [True]
    member.mset({f"s{i}": i for i in range(100)})
    assert len(set(member.scan_iter(match="s*", count=7))) == 100
    assert member.info("gregale")["gregale_members"] == 3
    try:
        member.incr("k2" if member.set("k2", "x") else "k2")
        raise SystemExit("no error")
    except redis.ResponseError as error:
        assert "not an integer" in str(error)
print("well")
"#;

#[test]
fn redis_py_works_unchanged() {
    let cluster = Cluster::start();
    let ports: Vec<String> = (1..=3).map(|id| cluster.port_of(id).to_string()).collect();
    // Debian's python3-redis is /usr/bin/python3's; another python may come first in the path.
    let python = ["/usr/bin/python3", "python3"]
        .into_iter()
        .find(|python| {
            Command::new(python)
                .args(["-c", "import redis"])
                .output()
                .is_ok_and(|o| o.status.success())
        })
        .expect("redis-py is needed: apt-get install python3-redis");
    let output = Command::new(python).args(["-c", SCRIPT]).args(&ports).output().unwrap();
    assert_eq!(
        String::from_utf8_lossy(&output.stdout).trim(),
        "well",
        "{}",
        String::from_utf8_lossy(&output.stderr)
    );
}
