//! Real directories, and a real process that is killed while it writes.

use base::{Ballot, Incarnation, Instant, NodeId, Slot};
use std::io::{BufRead as _, BufReader, Write as _};
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc::sync_channel;
use std::time::Duration;
use storage::directory::DirectoryError;
use storage::inspect::{Detail, inspect};
use storage::log::{self, Opened, Options};
use storage::media::Os;
use storage::snapshot::SnapshotWriter;
use storage::{Committer, Directory, Identity, Report};

const ME: Identity = Identity { cluster: 7, node: NodeId(2), incarnation: Incarnation(3) };
const PATIENCE: Duration = Duration::from_secs(20);
/// The variable that names the directory to the process that this test starts from itself.
const WRITER: &str = "GREGALE_STORAGE_TEST_DIR";

fn options() -> Options {
    Options { segment_bytes: 64 * 1024, unsynced_bytes: 1 << 20, ..Options::default() }
}

fn open(directory: &Directory) -> Opened<Os> {
    log::open(directory.media(), &options(), directory.log()).expect("sound")
}

/// Opens a directory that this process has released. A child that another test is just starting
/// holds every open file, and so the lock, until it runs its own program.
fn reopen(path: &Path) -> Directory {
    let until = std::time::Instant::now() + PATIENCE;
    loop {
        match Directory::open(path, &ME) {
            Err(DirectoryError::InUse(_)) if std::time::Instant::now() < until => {
                std::thread::yield_now();
            }
            answer => return answer.unwrap(),
        }
    }
}

fn payload(slot: u64) -> Vec<u8> {
    (0..slot % 700).map(|n| (n * 7 + slot) as u8).collect()
}

fn commit(opened: &mut Opened<Os>) {
    opened.log.sync();
    while let Some(batch) = opened.log.take() {
        opened.writer.write(&batch).unwrap();
        opened.log.done(batch.end());
    }
}

fn check(opened: &mut Opened<Os>, n_confirmed: u64) {
    let end = opened.log.end().0;
    assert!(end >= n_confirmed, "{n_confirmed} entries were confirmed, {end} are there");
    let mut found = Vec::new();
    for slot in 0..end {
        let head = opened.log.read(Slot(slot), &mut found).unwrap().unwrap();
        assert!(head.ballot == Ballot(slot % 5) && found == payload(slot), "slot {slot}");
    }
}

#[test]
fn a_directory_keeps_its_log_and_inspect_describes_it() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("deep/data");
    {
        let directory = Directory::create(&path, &ME).unwrap();
        let mut opened = open(&directory);
        opened.log.put_meta(b"promised");
        for slot in 0..300 {
            // The durable protocol marks the configurations of its members.
            let view = if slot == 5 { 1 << 63 | 2 } else { 1 };
            opened.log.append(Slot(slot), Ballot(slot % 5), view, &payload(slot)).unwrap();
            if slot % 7 == 0 {
                commit(&mut opened);
            }
        }
        commit(&mut opened);
        let mut snapshot =
            SnapshotWriter::create(directory.media(), directory.log(), Slot(100), b"").unwrap();
        snapshot.write(b"the state").unwrap();
        snapshot.finish().unwrap();
    }
    let text = inspect(&path, Detail::Records).unwrap().to_string();
    for part in [
        "node 2 incarnation 3 of cluster 0000000000000007",
        "snapshot-0000000000000064: everything below slot 100, 9 bytes in 1 chunks",
        "log-00000000:",
        "ballots up to 4, views up to 2",
        "log: slots 0 to 300 (exclusive)",
        "metadata 8 bytes",
        "intact, ends at",
    ] {
        assert!(text.contains(part), "{part:?} is missing in:\n{text}");
    }
    let marked: Vec<&str> = text.lines().filter(|line| line.ends_with(" configuration")).collect();
    assert!(
        matches!(marked[..], [line] if line.contains("slot          5 ballot      0 view    2 "))
    );
    {
        let directory = reopen(&path);
        let mut opened = open(&directory);
        assert_eq!((opened.log.meta(), &opened.torn), (&b"promised"[..], &None));
        check(&mut opened, 300);
    }
    // Both name a flipped byte in the middle.
    let file = path.join("log-00000000");
    let mut bytes = std::fs::read(&file).unwrap();
    bytes[20_000] ^= 4;
    std::fs::write(&file, &bytes).unwrap();
    let found = inspect(&path, Detail::Segments).unwrap();
    assert_eq!(found.damages().count(), 1);
    let text = found.to_string();
    assert!(text.contains("DAMAGED") && text.contains("log-00000000 is damaged at byte"), "{text}");
    let directory = reopen(&path);
    let refused = log::open(directory.media(), &options(), directory.log()).unwrap_err();
    assert!(refused.to_string().contains("log-00000000 is damaged at byte"), "{refused}");
}

/// The process that `a_process_killed_while_it_writes...` starts and kills; not a test of its own.
#[test]
fn helper_writer_process() {
    let Ok(path) = std::env::var(WRITER) else { return };
    let directory = Directory::open(Path::new(&path), &ME).unwrap();
    let opened = open(&directory);
    let mut log = opened.log;
    let (wake, woken) = sync_channel(1);
    let wake = move || {
        let _ = wake.try_send(());
    };
    let mut committer = Committer::start(opened.writer, wake).unwrap();
    let (mut reports, mut waiting) = (Vec::new(), Vec::new());
    // The process ends by being killed; the bound is for a run in which it is not.
    for _ in 0..1_000_000 {
        for _ in 0..3 {
            let slot = log.end().0;
            log.append(Slot(slot), Ballot(slot % 5), 1, &payload(slot)).unwrap();
        }
        waiting.push((log.sync(), log.end().0));
        committer.pump(&mut log, Instant::ZERO, &mut reports).unwrap();
        while waiting.len() > 4 {
            woken.recv_timeout(PATIENCE).expect("the disk works");
            committer.pump(&mut log, Instant::ZERO, &mut reports).unwrap();
            for report in reports.drain(..) {
                let Report::Synced(flush) = report else { continue };
                let confirmed = waiting.iter().rfind(|(asked, _)| *asked <= flush).unwrap().1;
                waiting.retain(|(asked, _)| *asked > flush);
                println!("confirmed {confirmed}");
                std::io::stdout().flush().unwrap();
            }
        }
    }
}

#[test]
fn a_process_killed_while_it_writes_loses_nothing_that_it_confirmed() {
    let dir = tempfile::tempdir().unwrap();
    drop(Directory::create(dir.path(), &ME).unwrap());
    let mut n_confirmed = 0;
    for round in 0..8 {
        let mut child = Command::new(std::env::current_exe().unwrap())
            .args(["--exact", "helper_writer_process", "--nocapture", "--test-threads=1"])
            .env(WRITER, dir.path())
            .stdout(Stdio::piped())
            .spawn()
            .unwrap();
        let mut lines = BufReader::new(child.stdout.take().unwrap()).lines();
        let mut next =
            || lines.find_map(|line| line.ok()?.rsplit_once("confirmed ")?.1.parse::<u64>().ok());
        for _ in 0..20 + round {
            n_confirmed = next().expect("the writer lives");
        }
        child.kill().unwrap();
        child.wait().unwrap();
        // The entries in the pipe were confirmed as well.
        while let Some(confirmed) = next() {
            n_confirmed = confirmed;
        }
        let directory = Directory::open(dir.path(), &ME).expect("the lock went with the process");
        check(&mut open(&directory), n_confirmed);
    }
    assert!(n_confirmed > 8 * 20);
}
