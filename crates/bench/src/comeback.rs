//! The wait of a client that knows one address, when the member there is killed.
//!
//! The supervisor holds the listening socket and restarts the member. The clock runs from the kill
//! until a SET at the same port is answered, by a client that connects again whenever its
//! connection is closed. Each cluster loses a follower and then its leader: a member that dies
//! again soon after its start is restarted later, which is not measured here.

use crate::cluster::{Cluster, Fabric, Plan};
use crate::disk::Place;
use crate::group::Error;
use crate::run;
use report::{Progress, Report, Row, median};
use rustix::process::{Pid, Signal, kill_process};
use std::io::{Read, Write};
use std::net::{Ipv4Addr, TcpStream};
use std::path::PathBuf;
use std::time::{Duration, Instant};

/// The silence after which a member counts as lost.
const PATIENCE: Duration = Duration::from_secs(30);

/// The settings of a measurement.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The `gregale` to start.
    pub gregale: PathBuf,
    /// The providers.
    pub fabrics: Vec<Fabric>,
    /// The number of clusters of each kind.
    pub clusters: u32,
    /// The directory of data; without it, beside the program.
    pub data: Option<PathBuf>,
}

/// Kills members as often as the setting says: a row for each kind of cluster and of member.
///
/// # Errors
/// [`Error`]: also if a member does not come back.
pub fn report(setting: &Setting) -> Result<Report, Error> {
    let place = Place::new(setting.data.as_deref(), &setting.gregale)?;
    let total = 2 * setting.fabrics.len() as u64 * u64::from(setting.clusters);
    let mut progress = Progress::new("comeback", total);
    let (mut rows, mut done) = (Vec::new(), 0);
    for fabric in &setting.fabrics {
        for is_on_disk in [false, true] {
            let (mut follower, mut leader) = (Vec::new(), Vec::new());
            let data = is_on_disk.then(|| place.fresh()).transpose()?;
            let mut plan = Plan {
                gregale: setting.gregale.clone(),
                fabric: *fabric,
                protocol: None,
                data: None,
                snapshot_log_bytes: None,
                program: None,
            };
            for n in 0..setting.clusters {
                plan.data = data.as_ref().map(|data| data.path().join(n.to_string()));
                progress.set(done, plan.durability());
                let cluster = Cluster::start_as(&plan)?;
                follower.push(silence(&cluster, cluster.ports()?.1)?);
                leader.push(silence(&cluster, cluster.ports()?.0)?);
                done += 1;
            }
            for (case, silences) in [("follower", follower), ("leader", leader)] {
                rows.push(
                    Row::new(case)
                        .with("fabric", fabric.name())
                        .with("protocol", plan.protocol())
                        .with("durability", plan.durability())
                        .with("kills", silences.len())
                        .with("silence_p50_ns", median(&silences).unwrap_or(f64::NAN))
                        .with("silence_max_ns", silences.into_iter().fold(f64::NAN, f64::max)),
                );
            }
        }
    }
    Ok(run::report("comeback", setting.clusters, rows))
}

/// Kills the member at `port`; nanoseconds until it answers again.
fn silence(cluster: &Cluster, port: u16) -> Result<f64, Error> {
    let pid = i32::try_from(cluster.pid_at(port)?).ok().and_then(Pid::from_raw);
    let pid = pid.ok_or_else(|| Error::Peer(format!("the member at port {port} has no pid")))?;
    let killed = Instant::now();
    kill_process(pid, Signal::KILL).map_err(|errno| Error::os("kill a member", errno))?;
    loop {
        if set(port).is_ok_and(|answer| answer == *b"+OK\r\n") {
            return Ok(killed.elapsed().as_nanos() as f64);
        }
        if killed.elapsed() > PATIENCE {
            return Err(Error::Peer(format!("the member at port {port} does not come back")));
        }
        std::thread::sleep(Duration::from_millis(1));
    }
}

fn set(port: u16) -> std::io::Result<[u8; 5]> {
    let mut stream = TcpStream::connect((Ipv4Addr::LOCALHOST, port))?;
    stream.set_read_timeout(Some(PATIENCE))?;
    stream.write_all(b"SET k v\r\n")?;
    let mut answer = [0; 5];
    stream.read_exact(&mut answer)?;
    Ok(answer)
}
