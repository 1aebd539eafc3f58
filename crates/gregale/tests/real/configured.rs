//! Unmodified programs that read their settings from a file: nginx as a store of files, slapd,
//! mosquitto, clamd. Members die meanwhile.

use crate::copies::program;
use crate::support::{Cluster, Ends, wait_until};
use crate::unmodified::{Client, agreed, are_level, kill_in_turn};
use std::collections::BTreeMap;
use std::io::{Read, Write};
use std::path::Path;
use std::process::{Command, Output, Stdio};
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use tempfile::TempDir;

/// The most writes of one client: a member that comes back executes all of them.
const WRITES_MAX: u64 = 60;

/// No name that a file was made or changed at is shown: those times are the kernel's.
const NGINX: &str = "
daemon off;
user root;
worker_processes 1;
pid nginx.pid;
error_log error.log;
events { worker_connections 500; }
http {
    access_log off;
    etag off;
    add_header Last-Modified '';
    keepalive_timeout 1d;
    client_body_temp_path tmp;
    proxy_temp_path tmp;
    fastcgi_temp_path tmp;
    uwsgi_temp_path tmp;
    scgi_temp_path tmp;
    server {
        listen unix:SOCKET;
        location / { root www; dav_methods PUT DELETE MKCOL COPY MOVE; }
    }
}
";

const SLAPD: &str = "
include /etc/ldap/schema/core.schema
modulepath /usr/lib/ldap
moduleload back_mdb
pidfile DIR/slapd.pid
threads 4
sizelimit unlimited
database mdb
suffix dc=example
rootdn cn=admin,dc=example
rootpw secret
directory DIR/db
";

const MOSQUITTO: &str = "
listener 0 SOCKET
allow_anonymous true
persistence false
sys_interval 0
max_keepalive 65535
user root
";

const CLAMD: &str = "
LocalSocket SOCKET
Foreground yes
DatabaseDirectory DIR/db
TemporaryDirectory DIR/tmp
SelfCheck 0
ReadTimeout 3600
CommandReadTimeout 3600
User root
";

/// A cluster whose copies have `settings` with their own directory and socket, and are started by
/// `start` where those are.
fn start(settings: &str, start: &str) -> (Cluster, TempDir) {
    start_with(tempfile::tempdir().unwrap(), settings, start)
}

/// The same with what `genesis` holds already.
fn start_with(genesis: TempDir, settings: &str, start: &str) -> (Cluster, TempDir) {
    let script = format!(
        "cd \"$1\" && mkdir -p www tmp db && sed \"s,SOCKET,$2,; s,DIR,$1,\" settings > own && \
         exec {start}"
    );
    std::fs::write(genesis.path().join("settings"), settings).unwrap();
    std::fs::write(genesis.path().join("start.sh"), script).unwrap();
    let from = genesis.path().to_str().unwrap();
    let command = "sh {dir}/start.sh {dir} {socket}";
    let flags = ["--replicate", command, "--genesis", from, "--program-time", "log"];
    (Cluster::start_with(&[&flags[..], &["--program-compare", "50"]].concat()), genesis)
}

/// Writers of member 1 call `write` with a name, until both other members were killed and are back.
/// Returns the names.
fn write_while_members_die(
    cluster: &Cluster,
    write: impl Fn(&str) + Sync,
    is_back: impl Fn(u16) -> bool,
) -> Vec<String> {
    let is_over = AtomicBool::new(false);
    let written = Mutex::new(Vec::new());
    std::thread::scope(|scope| {
        let ends = Ends(&is_over);
        for writer in 0..3 {
            let (write, is_over, written) = (&write, &is_over, &written);
            scope.spawn(move || {
                for n in 0..WRITES_MAX {
                    if is_over.load(Ordering::Relaxed) {
                        return;
                    }
                    let name = format!("{writer}-{n:04}");
                    write(&name);
                    written.lock().unwrap().push(name);
                }
            });
        }
        kill_in_turn(cluster, &[2, 3], is_back);
        drop(ends);
    });
    wait_until("the copies to be level", || are_level(cluster));
    let mut written = written.into_inner().unwrap();
    written.sort();
    assert!(!written.is_empty());
    written
}

/// Asks `client` for something by HTTP. Returns the status and the body.
fn http<S: Read + Write>(
    client: &mut Client<S>,
    method: &str,
    path: &str,
    body: &str,
) -> (u16, String) {
    let len = body.len();
    client.say(&format!("{method} /{path} HTTP/1.1\r\nHost: x\r\nContent-Length: {len}\r\n\r\n"));
    client.say(body);
    let status = client.line().split(' ').nth(1).unwrap().parse().unwrap();
    let mut len = 0;
    loop {
        let line = client.line();
        if line.is_empty() {
            return (status, client.bytes(len));
        }
        if let Some(said) = line.strip_prefix("Content-Length: ") {
            len = said.parse().unwrap();
        }
    }
}

/// Master and worker: a file is written by one process, and the other one is idle.
#[test]
fn nginx_has_every_acknowledged_file_at_every_copy() {
    let (mut cluster, _genesis) = start(NGINX, "/usr/sbin/nginx -p \"$1\" -c own");
    let port = cluster.port_of(1);
    let names = write_while_members_die(
        &cluster,
        |name| {
            // A connection of each file's own, which ends in the order too.
            let mut client = Client::at(port);
            assert_eq!(http(&mut client, "PUT", name, &format!("of {name}")).0, 201, "{name}");
            assert_eq!(http(&mut client, "PUT", "last", name).0 / 100, 2);
        },
        |id| {
            Client::of(&cluster, id).hears("GET /none HTTP/1.1\r\nHost: x\r\n\r\n", "HTTP/1.1 404")
        },
    );
    let mut client = Client::of(&cluster, 3);
    assert_eq!(http(&mut client, "DELETE", &names[0], "").0, 204);
    let look = |socket: &Path| -> BTreeMap<String, (u16, String)> {
        let mut client = Client::past(socket);
        let all = names.iter().map(String::as_str).chain(["last"]);
        all.map(|name| (name.to_owned(), http(&mut client, "GET", name, ""))).collect()
    };
    wait_until("the deletion to be executed", || agreed(&cluster, look)[&names[0]].0 == 404);
    let files = agreed(&cluster, look);
    for name in &names[1..] {
        assert_eq!(files[name], (200, format!("of {name}")));
    }
    assert!(names.contains(&files["last"].1));
    assert_eq!(cluster.stop(), Some(0));
}

/// What a tool says, which is given `input`. It has half a minute.
fn tool(words: &[&str], input: &str) -> Output {
    let mut child = Command::new("timeout")
        .arg("30")
        .args(words)
        .stdin(Stdio::piped())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .unwrap();
    child.stdin.take().unwrap().write_all(input.as_bytes()).unwrap();
    child.wait_with_output().unwrap()
}

fn said(output: Output) -> String {
    assert!(output.status.success(), "{}", String::from_utf8_lossy(&output.stderr));
    String::from_utf8(output.stdout).unwrap()
}

const ADMIN: [&str; 5] = ["-x", "-D", "cn=admin,dc=example", "-w", "secret"];

/// A pool of threads, and ids and stamps that it makes of chance and the time.
#[test]
fn slapd_has_the_same_entries_ids_and_stamps_at_every_copy() {
    let url = "ldapi://$(echo \"$2\" | sed s,/,%2F,g)";
    let (mut cluster, _genesis) =
        start(SLAPD, &format!("/usr/sbin/slapd -f own -h \"{url}\" -d 0"));
    let at = |id: u16| format!("ldap://127.0.0.1:{}", cluster.port_of(id));
    let of_first = at(1);
    let add = |text: &str| {
        said(tool(&[&["ldapadd", "-H", &of_first], &ADMIN[..]].concat(), text));
    };
    add("dn: dc=example\nobjectClass: dcObject\nobjectClass: organization\no: x\ndc: example\n");
    let search = ["-LLL", "-o", "ldif-wrap=no", "-b", "dc=example"];
    let names = write_while_members_die(
        &cluster,
        |name| add(&format!("dn: cn={name},dc=example\nobjectClass: person\ncn: {name}\nsn: x\n")),
        |id| {
            let words = ["ldapsearch", "-H", &at(id)];
            tool(&[&words, &ADMIN[..], &search].concat(), "").status.success()
        },
    );
    let entries = agreed(&cluster, |socket| {
        let url = format!("ldapi://{}", socket.display().to_string().replace('/', "%2F"));
        let words = ["ldapsearch", "-H", &url];
        // With what the server has made up.
        said(tool(&[&words, &ADMIN[..], &search, &["*", "+"]].concat(), ""))
    });
    for name in &names {
        assert!(entries.contains(&format!("dn: cn={name},dc=example\n")), "{name}: {entries}");
    }
    assert!(entries.contains("entryUUID: ") && entries.contains("entryCSN: "), "{entries}");
    assert_eq!(cluster.stop(), Some(0));
}

#[test]
fn mosquitto_keeps_every_acknowledged_message_at_every_copy() {
    let (mut cluster, _genesis) = start(MOSQUITTO, "/usr/sbin/mosquitto -c own");
    let port = cluster.port_of(1).to_string();
    let publish = |name: &str| {
        let topic = format!("kept/{name}");
        let words = ["mosquitto_pub", "-p", &port, "-q", "1", "-r", "-t", &topic, "-m", name];
        said(tool(&words, ""));
    };
    let names = write_while_members_die(&cluster, publish, |id| {
        let port = cluster.port_of(id).to_string();
        tool(&["mosquitto_pub", "-p", &port, "-q", "1", "-t", "x", "-m", "x"], "").status.success()
    });
    let n = names.len().to_string();
    let messages = agreed(&cluster, |socket| {
        let path = socket.to_str().unwrap();
        let of = ["mosquitto_sub", "--unix", path, "-t", "kept/#", "--retained-only", "-C", &n];
        let text = said(tool(&of, ""));
        let mut lines: Vec<String> = text.lines().map(str::to_owned).collect();
        lines.sort();
        lines
    });
    assert_eq!(messages, names);
    assert_eq!(cluster.stop(), Some(0));
}

/// What clamd says of a stream.
fn scan<S: Read + Write>(client: &mut Client<S>, stream: &str) -> String {
    let len = u32::try_from(stream.len()).unwrap();
    let bytes = [b"nINSTREAM\n", &len.to_be_bytes()[..], stream.as_bytes(), &[0; 4]].concat();
    client.send(&bytes);
    client.bare_line()
}

/// A pool of threads that scans, and loads what it knows when it starts.
#[test]
fn clamd_says_the_same_of_each_stream_at_every_copy() {
    let genesis = tempfile::tempdir().unwrap();
    std::fs::create_dir(genesis.path().join("db")).unwrap();
    let marker: String = b"evil-marker".iter().map(|byte| format!("{byte:02x}")).collect();
    let signature = format!("Test.Marker:0:*:{marker}\n");
    std::fs::write(genesis.path().join("db/own.ndb"), signature).unwrap();
    let (mut cluster, _genesis) = start_with(genesis, CLAMD, "/usr/sbin/clamd -F -c own");
    let port = cluster.port_of(1);
    let is_right = |client: &mut Client<_>, name: &str| {
        let bad = scan(client, &format!("{name} has an evil-marker"));
        bad.ends_with("Test.Marker.UNOFFICIAL FOUND")
    };
    write_while_members_die(
        &cluster,
        |name| {
            assert!(is_right(&mut Client::at(port), name), "{name}");
            assert!(scan(&mut Client::at(port), name).ends_with("OK"), "{name}");
        },
        |id| Client::of(&cluster, id).hears("nPING\n", "PONG"),
    );
    assert!(is_right(&mut Client::of(&cluster, 3), "another member's"));
    let verdicts = program(&cluster, 1, 1)["verdicts"].clone();
    assert_eq!((&verdicts["differed"], &verdicts["split"]), (&0.into(), &0.into()), "{verdicts}");
    assert!(verdicts["agreed_at"].as_u64() > Some(0), "{verdicts}");
    assert_eq!(cluster.stop(), Some(0));
}
