//! The cost of an idle cluster: its processes' time on a processor, as the kernel counts it.

use crate::cluster::{Cluster, Fabric};
use crate::group::Error;
use crate::run;
use report::{Progress, Report, Row, median};
use std::path::Path;
use std::time::{Duration, Instant};

/// The time for a new cluster to settle.
const SETTLE: Duration = Duration::from_secs(2);

/// The report: a row per fabric, in percent of one core.
///
/// # Errors
/// [`Error`].
pub fn report(
    gregale: &Path,
    fabrics: &[Fabric],
    span: Duration,
    runs: u32,
) -> Result<Report, Error> {
    let mut progress = Progress::new("idle", fabrics.len() as u64 * u64::from(runs));
    let (mut rows, mut done) = (Vec::new(), 0);
    for fabric in fabrics {
        let cluster = Cluster::start(gregale, *fabric)?;
        std::thread::sleep(SETTLE);
        let mut percents = Vec::new();
        for _ in 0..runs {
            progress.set(done, fabric.name());
            let (before, at) = (busy_ns(&cluster.processes())?, Instant::now());
            std::thread::sleep(span);
            let busy = busy_ns(&cluster.processes())?.saturating_sub(before);
            percents.push(100.0 * busy as f64 / at.elapsed().as_nanos() as f64);
            done += 1;
        }
        let row = Row::new("idle")
            .with("fabric", fabric.name())
            .with("members", cluster.members())
            .with("processes", cluster.processes().len())
            .with("span_s", span.as_secs_f64())
            .with("cpu_percent", median(&percents).unwrap_or(f64::NAN));
        rows.push(row);
    }
    Ok(run::report("idle", runs, rows))
}

/// The time for which all threads of these processes have been on a processor.
fn busy_ns(pids: &[u32]) -> Result<u64, Error> {
    let mut total = 0;
    for pid in pids {
        let tasks = format!("/proc/{pid}/task");
        let failed = |source| Error::os(format!("read {tasks}"), source);
        for task in std::fs::read_dir(&tasks).map_err(failed)? {
            let path = task.map_err(failed)?.path().join("schedstat");
            // A thread that ended between the two calls no longer has a file.
            let Ok(text) = std::fs::read_to_string(&path) else { continue };
            total += on_processor_ns(&text).ok_or_else(|| {
                Error::Peer(format!("{} does not tell times: {text:?}", path.display()))
            })?;
        }
    }
    Ok(total)
}

/// The first number of a schedstat file.
fn on_processor_ns(text: &str) -> Option<u64> {
    text.split_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_first_number_is_the_time() {
        assert_eq!(on_processor_ns("123456 78 9\n"), Some(123_456));
        assert_eq!(on_processor_ns(""), None);
    }

    #[test]
    fn this_process_has_been_busy() {
        assert!(busy_ns(&[std::process::id()]).expect("/proc is there") > 0);
    }
}
