//! The committer thread over a simulated disk that stalls, fills and fails.

use base::{Ballot, Instant, Rng};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, sync_channel};
use std::time::Duration;
use storage::committer::{Fatal, IN_FLIGHT_MAX, STALLED_AFTER};
use storage::log::{self, Options};
use storage::media::{Media as _, Simulated};
use storage::{Committer, Flush, Log, Report};

const LOG: u64 = 3;
/// The longest wait for any event.
const PATIENCE: Duration = Duration::from_secs(20);

struct Rig {
    disk: Simulated,
    log: Log<Simulated>,
    committer: Committer,
    woken: Receiver<()>,
    now: Instant,
}

fn options() -> Options {
    Options { segment_bytes: Options::SEGMENT_MIN, unsynced_bytes: 1 << 20, ..Options::default() }
}

impl Rig {
    fn new() -> Rig {
        let disk = Simulated::new();
        let opened = log::open(&disk, &options(), LOG).unwrap();
        let (wake, woken) = sync_channel(1);
        let wake = move || {
            let _ = wake.try_send(());
        };
        let committer = Committer::start(opened.writer, wake).unwrap();
        Rig { disk, log: opened.log, committer, woken, now: Instant::ZERO }
    }

    fn append(&mut self, n_bytes: usize) -> Flush {
        let slot = self.log.end();
        self.log.append(slot, Ballot(1), 1, &vec![9; n_bytes]).unwrap();
        self.log.sync()
    }

    fn pump(&mut self) -> Result<Vec<Report>, Fatal> {
        let mut reports = Vec::new();
        self.committer.pump(&mut self.log, self.now, &mut reports)?;
        Ok(reports)
    }

    /// Pumps until a report satisfies `is_it`; returns all reports until then.
    fn until(&mut self, is_it: impl Fn(&Report) -> bool) -> Result<Vec<Report>, Fatal> {
        let deadline = std::time::Instant::now() + PATIENCE;
        let mut all = Vec::new();
        loop {
            all.extend(self.pump()?);
            if all.iter().any(&is_it) {
                return Ok(all);
            }
            assert!(std::time::Instant::now() < deadline, "it never came: {all:?}");
            match self.woken.recv_timeout(PATIENCE) {
                Ok(()) | Err(RecvTimeoutError::Timeout | RecvTimeoutError::Disconnected) => {}
            }
        }
    }
}

#[test]
fn what_is_reported_as_synced_survives_a_power_cut() {
    let mut rig = Rig::new();
    for n in 0..100 {
        let flush = rig.append(n * 30);
        rig.until(|report| *report == Report::Synced(flush)).unwrap();
    }
    rig.append(10);
    let Rig { disk, committer, log, .. } = rig;
    disk.set_faults(|faults| faults.cut_after = Some(0));
    drop(committer);
    assert_eq!(log.end().0, 101);
    disk.power_cut(&mut Rng::new(8));
    assert_eq!(log::open(&disk, &options(), LOG).unwrap().log.end().0, 100);
}

#[test]
fn a_stalled_disk_is_told_and_never_blocks_the_poll_loop() {
    let mut rig = Rig::new();
    let flush = rig.append(10);
    rig.until(|report| *report == Report::Synced(flush)).unwrap();
    rig.disk.hold();
    let mut last = rig.append(10);
    assert_eq!(rig.pump().unwrap(), []);
    for _ in 0..100 {
        last = rig.append(5000);
        assert_eq!(rig.pump().unwrap(), [], "nothing is synced, and pump returns");
        assert!(rig.committer.n_in_flight() <= IN_FLIGHT_MAX, "I1");
    }
    assert_eq!(rig.committer.n_in_flight(), IN_FLIGHT_MAX, "a large second batch is handed over");
    rig.now = rig.now.plus(STALLED_AFTER + Duration::from_millis(1));
    assert_eq!(rig.pump().unwrap(), [Report::Stalled]);
    assert_eq!(rig.pump().unwrap(), [], "told once");
    rig.disk.let_go();
    let reports = rig.until(|report| *report == Report::Synced(last)).unwrap();
    assert_eq!(reports[0], Report::Flowing);
}

#[test]
fn i2_a_full_disk_is_told_with_its_place_and_goes_on_by_itself() {
    let mut rig = Rig::new();
    let flush = rig.append(10);
    rig.until(|report| *report == Report::Synced(flush)).unwrap();
    // The next segment may exist already: the log is filled until the one after that does not fit.
    rig.disk.set_faults(|faults| faults.capacity = Some(70_000));
    let mut last = flush;
    let mut reports = Vec::new();
    for _ in 0..30 {
        last = rig.append(3000);
        // A quick committer reports the full disk among these already, and once.
        reports.extend(rig.pump().unwrap());
    }
    let is_full = |report: &Report| matches!(report, Report::Full(_));
    if !reports.iter().any(is_full) {
        reports.extend(rig.until(is_full).unwrap());
    }
    let full = reports.iter().find(|report| matches!(report, Report::Full(_)));
    assert!(format!("{full:?}").contains("a simulated disk is full"), "{full:?}");
    assert!(!reports.contains(&Report::Synced(last)), "I2: not all of it fits");
    rig.disk.set_faults(|faults| faults.capacity = None);
    let reports = rig.until(|report| *report == Report::Synced(last)).unwrap();
    let is_told = reports.contains(&Report::Room);
    assert!(is_told || rig.until(|report| *report == Report::Room).is_ok());
    assert_eq!(log::open(&rig.disk, &options(), LOG).unwrap().log.end().0, 31);
}

#[test]
fn i2_a_process_without_descriptors_is_told_and_goes_on_by_itself() {
    let mut rig = Rig::new();
    rig.disk.set_faults(|faults| faults.n_not_opened = u64::MAX);
    let mut last = rig.append(3000);
    let mut reports = Vec::new();
    for _ in 0..30 {
        last = rig.append(3000);
        reports.extend(rig.pump().unwrap());
    }
    let is_full = |report: &Report| matches!(report, Report::Full(_));
    if !reports.iter().any(is_full) {
        reports.extend(rig.until(is_full).unwrap());
    }
    let full = reports.iter().find(|report| is_full(report));
    assert!(format!("{full:?}").contains("raise the limit of open files"), "{full:?}");
    rig.disk.set_faults(|faults| faults.n_not_opened = 0);
    rig.until(|report| *report == Report::Synced(last)).unwrap();
    assert_eq!(log::open(&rig.disk, &options(), LOG).unwrap().log.end().0, 31);
}

fn n_segments(disk: &Simulated) -> usize {
    disk.list().unwrap().iter().filter(|name| name.starts_with("log-")).count()
}

fn fill(rig: &mut Rig, n_segments: u32) -> Flush {
    let mut last = rig.append(10);
    for _ in 0..n_segments {
        last = rig.append(options().payload_max());
        rig.until(|report| *report == Report::Synced(last)).unwrap();
    }
    last
}

#[test]
fn i4_all_old_segments_are_given_back_in_a_pause() {
    let mut rig = Rig::new();
    fill(&mut rig, 50);
    assert!(n_segments(&rig.disk) >= 50);
    rig.log.free_below(rig.log.end());
    let flush = rig.append(10);
    rig.until(|report| *report == Report::Synced(flush)).unwrap();
    let deadline = std::time::Instant::now() + PATIENCE;
    while n_segments(&rig.disk) > 4 {
        assert!(std::time::Instant::now() < deadline, "{} are left", n_segments(&rig.disk));
        rig.pump().unwrap();
        std::thread::yield_now();
    }
}

#[test]
fn i3_a_thread_that_panics_is_fatal_for_good() {
    let disk = Simulated::new();
    let opened = log::open(&disk, &options(), LOG).unwrap();
    let (wake, woken) = sync_channel(1);
    let has_panicked = AtomicBool::new(false);
    let wake = move || {
        assert!(has_panicked.swap(true, Ordering::SeqCst), "planted");
        let _ = wake.try_send(());
    };
    let committer = Committer::start(opened.writer, wake).unwrap();
    let mut rig = Rig { disk, log: opened.log, committer, woken, now: Instant::ZERO };
    rig.append(10);
    let fatal = rig.until(|_| false).unwrap_err();
    assert!(fatal.0.contains("has panicked"), "{fatal}");
    assert_eq!(rig.pump().unwrap_err(), fatal);
}

#[test]
fn i3_a_failed_sync_is_fatal_for_good() {
    let mut rig = Rig::new();
    let flush = rig.append(10);
    rig.until(|report| *report == Report::Synced(flush)).unwrap();
    rig.disk.set_faults(|faults| faults.fail_sync_after = Some(0));
    let flush = rig.append(10);
    let fatal = rig.until(|report| *report == Report::Synced(flush)).unwrap_err();
    assert!(fatal.0.contains("the process must stop"), "{fatal}");
    assert_eq!(rig.pump().unwrap_err(), fatal);
}
