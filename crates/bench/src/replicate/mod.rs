//! Replicated programs, beside the program alone and beside three copies of it behind a bare
//! fan-out. All are measured in turn in each run, never at once.

mod fan_out;
mod kills;
mod program;

pub use program::{Order, Program};

use crate::cluster::{Cluster, Fabric, Plan, Replicated};
use crate::disk::Place;
use crate::group::Error;
use crate::kv::load::VALUE_BYTES;
use crate::pipeline::Told;
use crate::process::free_ports;
use crate::run::{self, Effort};
use fan_out::FanOut;
use report::{Progress, Report, Row, median, median_rows};
use std::path::PathBuf;
use std::time::Duration;

const ALONE: &str = "alone";
const COPIES: &str = "fan-out to three copies";
const MEMBERS: usize = 3;

/// The settings of a comparison.
#[derive(Clone, Debug)]
pub struct Setting {
    /// The `gregale` to start.
    pub gregale: PathBuf,
    /// Our own fabrics.
    pub fabrics: Vec<Fabric>,
    /// The programs.
    pub programs: Vec<Program>,
    /// The orders, of which each program is run in those that it takes.
    pub orders: Vec<Order>,
    /// The numbers of connections.
    pub clients: Vec<usize>,
    /// The entries from one comparison of the copies' answers to the next; 0 for none. Under
    /// [`Order::Loop`] they are not compared.
    pub compare: u64,
    /// Whether clients read, through the log and beside it, in place of writing.
    pub gets: bool,
    /// The directory of logs on disk; without it, members are in memory.
    pub data: Option<PathBuf>,
}

impl Setting {
    /// The orders that the program takes.
    ///
    /// # Errors
    /// It takes none of them.
    fn orders_of(&self, program: Program) -> Result<Vec<Order>, Error> {
        let all = self.orders.iter().copied().filter(|order| program.takes(*order));
        let orders: Vec<Order> = all.collect();
        if orders.is_empty() {
            let name = program.name();
            return Err(Error::Peer(format!("{name} has several loops: say --order serial")));
        }
        Ok(orders)
    }

    /// A cluster, and the place of its logs.
    fn start(
        &self,
        program: Program,
        fabric: Fabric,
        (order, place): (Order, Reads),
    ) -> Result<(Cluster, Plan, Option<Place>), Error> {
        let data = self.data.as_ref().map(|at| Place::new(Some(at), &self.gregale)).transpose()?;
        let plan = Plan {
            gregale: self.gregale.clone(),
            fabric,
            protocol: None,
            data: data.as_ref().map(|data| data.path().to_owned()),
            snapshot_log_bytes: None,
            program: Some(Replicated {
                command: program.command(),
                order: order.flag(),
                rest: program.rest(order),
                compare: if order == Order::Loop { 0 } else { self.compare },
                reads: if place == Reads::Beside { program.protocol() } else { "none" },
            }),
        };
        Ok((Cluster::start_as(&plan)?, plan, data))
    }
}

/// The place where a cluster executes reads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Reads {
    InLog,
    Beside,
}

/// A server that is measured.
#[derive(Clone, Copy, Debug)]
enum Server {
    /// The program, and clients at it.
    Alone,
    /// Three copies behind a fan-out.
    Copies,
    /// A cluster.
    Ours(Fabric, Order, Reads),
}

/// Measures everything, with all servers in turn in every run.
///
/// # Errors
/// A program is not installed, no order fits it, or a server fails.
pub fn report(setting: &Setting, effort: &Effort) -> Result<Report, Error> {
    let mut turns = Vec::new();
    for program in setting.programs.iter().copied() {
        let orders = setting.orders_of(program)?;
        turns.extend([(program, Server::Alone), (program, Server::Copies)]);
        for fabric in setting.fabrics.iter().copied() {
            for order in &orders {
                turns.push((program, Server::Ours(fabric, *order, Reads::InLog)));
                if setting.gets && *order == Order::Serial {
                    turns.push((program, Server::Ours(fabric, *order, Reads::Beside)));
                }
            }
        }
    }
    let mut progress = Progress::new("replicate", u64::from(effort.runs) * turns.len() as u64);
    let (mut runs, mut done) = (Vec::new(), 0);
    for _ in 0..effort.runs {
        let mut rows = Vec::new();
        for (program, server) in &turns {
            progress.set(done, program.name());
            rows.extend(measure(setting, *program, *server, effort.span)?);
            done += 1;
        }
        runs.push(rows);
    }
    Ok(run::report("replicate", effort.runs, compare(&median_rows(&runs))))
}

/// Kills leaders as often as the setting says, one after the other in each cluster.
///
/// # Errors
/// As [`report()`]; or a client of a survivor loses its connection, or an update.
pub fn kills(setting: &Setting, n: u32) -> Result<Report, Error> {
    let mut cases = Vec::new();
    for program in setting.programs.iter().copied() {
        for order in setting.orders_of(program)? {
            cases.extend(setting.fabrics.iter().map(|fabric| (program, *fabric, order)));
        }
    }
    let mut progress = Progress::new("replicate-kills", u64::from(n) * cases.len() as u64);
    let (mut rows, mut done) = (Vec::new(), 0);
    for (program, fabric, order) in cases {
        let (cluster, plan, _data) = setting.start(program, fabric, (order, Reads::InLog))?;
        let mut silences = Vec::new();
        for _ in 0..n {
            progress.set(done, program.name());
            silences.push(kills::silence(&cluster, program)?);
            done += 1;
        }
        let row = Row::new(format!("{}, kill -9 of the leader", program.name()))
            .with("program", program.name())
            .with("fabric", fabric.name())
            .with("durability", plan.durability())
            .with("order", order.name())
            .with("kills", silences.len())
            .with("silence_p50_ns", median(&silences).unwrap_or(f64::NAN))
            .with("silence_max_ns", silences.into_iter().fold(f64::NAN, f64::max));
        rows.push(row);
    }
    Ok(run::report("replicate-kills", 1, rows))
}

/// All numbers of connections at one server.
fn measure(
    setting: &Setting,
    program: Program,
    server: Server,
    span: Duration,
) -> Result<Vec<Row>, Error> {
    let directory = tempfile::tempdir().map_err(|source| Error::os("make a directory", source))?;
    let load = |port: u16, what: &dyn Fn(Row) -> Row| {
        let rows = setting.clients.iter().map(|clients| {
            let writes = program.load(*clients);
            // The first part is not counted: connections are made, and pages are touched.
            writes.run_for(port, span / 10)?;
            let load = if setting.gets { program.reads(*clients) } else { writes };
            Ok(what(row(program, *clients, &load.run_for(port, span)?)))
        });
        rows.collect::<Result<Vec<Row>, Error>>()
    };
    match server {
        Server::Alone => {
            let port = free_ports(1)?;
            let _running = program.start_at_port(port, directory.path())?;
            load(port, &|row| row.with("server", ALONE))
        }
        Server::Copies => {
            let place = |at: usize| directory.path().join(at.to_string());
            let (mut sockets, mut running) = (Vec::new(), Vec::new());
            for at in 0..MEMBERS {
                std::fs::create_dir(place(at))
                    .map_err(|source| Error::os("make a directory for a copy", source))?;
                let socket = place(at).join("socket");
                running.push(program.start_at_socket(&socket, &place(at))?);
                sockets.push(socket);
            }
            let fan_out = FanOut::start(sockets)?;
            load(fan_out.port, &|row| row.with("server", COPIES))
        }
        Server::Ours(fabric, order, place) => {
            let (cluster, plan, _data) = setting.start(program, fabric, (order, place))?;
            let mut rows = Vec::new();
            let (leader, follower) = cluster.ports()?;
            for (name, port) in [("the leader", leader), ("a follower", follower)] {
                rows.extend(load(port, &|row| {
                    row.with("server", name)
                        .with("fabric", fabric.name())
                        .with("durability", plan.durability())
                        .with("order", order.name())
                        .with("reads", if place == Reads::Beside { "beside" } else { "in the log" })
                })?);
            }
            Ok(rows)
        }
    }
}

fn row(program: Program, clients: usize, told: &Told) -> Row {
    Row::new(format!("{}, {clients} clients", program.name()))
        .with("program", program.name())
        .with("clients", clients)
        .with("value_bytes", VALUE_BYTES)
        .with("per_s", told.per_s)
        .with("p50_ns", told.p50_ns)
        .with("p99_ns", told.p99_ns)
}

/// Our rows, each beside the program alone (`peer`) and three copies behind a fan-out (`floor`).
fn compare(rows: &[Row]) -> Vec<Row> {
    let is_ours = |row: &&Row| row.get("fabric").is_some();
    let compared = rows.iter().filter(is_ours).map(|ours| {
        let of = |server: &str, field: &str| {
            let is_it =
                |row: &&Row| row.case() == ours.case() && row.get("server") == Some(&server.into());
            rows.iter().find(is_it).and_then(|row| row.number(field)).unwrap_or(f64::NAN)
        };
        let number = |field: &str| ours.number(field).unwrap_or(f64::NAN);
        ours.clone()
            .with("peer_per_s", of(ALONE, "per_s"))
            .with("peer_p50_ns", of(ALONE, "p50_ns"))
            .with("floor_copies_per_s", of(COPIES, "per_s"))
            .with("floor_copies_p50_ns", of(COPIES, "p50_ns"))
            .with("of_peer", number("per_s") / of(ALONE, "per_s"))
            .with("of_floor", number("per_s") / of(COPIES, "per_s"))
            .with("added_p50_ns", number("p50_ns") - of(ALONE, "p50_ns"))
    });
    compared.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_of_ours_stands_beside_the_program_alone_and_the_copies() {
        let told = |per_s, p50_ns| Told { per_s, p50_ns, p99_ns: 9.0 };
        let of = |clients, per_s, p50_ns, server: &str| {
            row(Program::Redis, clients, &told(per_s, p50_ns)).with("server", server)
        };
        let rows = [
            of(1, 100.0, 10.0, ALONE),
            of(4, 300.0, 11.0, ALONE),
            of(1, 50.0, 20.0, COPIES),
            of(4, 160.0, 22.0, COPIES),
            of(1, 40.0, 26.0, "the leader").with("fabric", "shm"),
            of(4, 120.0, 30.0, "the leader").with("fabric", "shm"),
        ];
        let compared = compare(&rows);
        let all = |field| compared.iter().map(|row| row.number(field)).collect::<Vec<_>>();
        assert_eq!(all("of_floor"), [Some(0.8), Some(0.75)]);
        assert_eq!(all("of_peer"), [Some(0.4), Some(0.4)]);
        assert_eq!(all("added_p50_ns"), [Some(16.0), Some(19.0)]);
    }

    #[test]
    fn logs_in_memory_are_not_measured_as_ones_on_disk() {
        let setting = Setting {
            gregale: "gregale".into(),
            fabrics: vec![Fabric::Shm],
            programs: vec![Program::Redis],
            orders: vec![Order::Serial],
            clients: vec![1],
            compare: 0,
            gets: false,
            data: Some("/dev/shm".into()),
        };
        let started = setting.start(Program::Redis, Fabric::Shm, (Order::Serial, Reads::InLog));
        let error = started.map(drop).expect_err("a tmpfs");
        assert!(error.to_string().contains("/dev/shm is in memory"), "{error}");
    }

    #[test]
    fn a_program_with_several_loops_is_refused_where_no_order_fits() {
        let setting = Setting {
            gregale: "gregale".into(),
            fabrics: vec![Fabric::Shm],
            programs: vec![Program::Memcached],
            orders: vec![Order::Loop],
            clients: vec![1],
            compare: 0,
            gets: false,
            data: None,
        };
        let refused = report(&setting, &Effort::QUICK).unwrap_err();
        assert!(refused.to_string().contains("say --order serial"), "{refused}");
    }
}
