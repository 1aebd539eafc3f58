//! Load on a server that speaks RESP: redis-benchmark, and a client that waits for replicas.

use crate::group::Error;
use crate::pipeline::{Pipeline, Told};
use report::Row;
use std::io::ErrorKind;
use std::process::Command;
use std::time::Duration;

/// The number of connections.
pub(super) const CLIENTS: usize = 50;
/// The size of values.
pub(crate) const VALUE_BYTES: usize = 32;

/// Runs `redis-benchmark` with this many requests, at `keys` keys.
///
/// # Errors
/// It is not installed, or the server fails it.
pub(super) fn redis_benchmark(
    port: u16,
    op: &str,
    pipeline: usize,
    requests: u64,
    keys: u64,
) -> Result<Told, Error> {
    let mut arguments = vec![
        ("-p", port.to_string()),
        ("-t", op.to_ascii_lowercase()),
        ("-c", CLIENTS.to_string()),
        ("-d", VALUE_BYTES.to_string()),
        ("-P", pipeline.to_string()),
        ("-n", requests.to_string()),
    ];
    // Without it, all requests are at one key.
    if keys > 1 {
        arguments.push(("-r", keys.to_string()));
    }
    run(&arguments, &[])
}

/// A kind of SETs.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sets {
    /// The number of connections.
    pub(crate) clients: usize,
    /// The requests of each that are under way at once.
    pub(crate) pipeline: usize,
    /// The size of values.
    pub(crate) value_bytes: usize,
    /// The number of keys, taken at random; a single key has 8 bytes.
    pub(crate) keys: u64,
}

impl Sets {
    /// Runs `redis-benchmark` with this many of them.
    ///
    /// # Errors
    /// It is not installed, or the server fails it.
    pub(crate) fn run(&self, port: u16, requests: u64) -> Result<Told, Error> {
        let mut arguments = vec![
            ("-p", port.to_string()),
            ("-c", self.clients.to_string()),
            ("-P", self.pipeline.to_string()),
            ("-n", requests.max(self.clients as u64).to_string()),
        ];
        if self.keys == 1 {
            // The keys of redis-benchmark's own SET have 16 bytes.
            let value = "x".repeat(self.value_bytes);
            return run(&arguments, &["SET", "key:0000", &value]);
        }
        arguments.extend([
            ("-t", "set".to_owned()),
            ("-d", self.value_bytes.to_string()),
            ("-r", self.keys.to_string()),
        ]);
        run(&arguments, &[])
    }

    /// Runs as many as take about `span`, after some uncounted ones that show how fast the server
    /// is.
    ///
    /// # Errors
    /// As [`Sets::run`].
    pub(crate) fn run_for(&self, port: u16, span: Duration) -> Result<Told, Error> {
        let few = (20 * self.clients * self.pipeline).max(200) as u64;
        let first = self.run(port, few)?;
        self.run(port, few.max((first.per_s * span.as_secs_f64()) as u64))
    }
}

/// Runs the program with flags, and with a command of our own if there is one.
fn run(flags: &[(&str, String)], words: &[&str]) -> Result<Told, Error> {
    let mut command = Command::new("redis-benchmark");
    command.arg("--csv").args(flags.iter().flat_map(|(flag, value)| [*flag, value.as_str()]));
    command.args(words);
    let output = command.output().map_err(|source| match source.kind() {
        ErrorKind::NotFound => {
            Error::Peer("redis-benchmark is not installed: install redis-tools (Debian)".to_owned())
        }
        _ => Error::os("run redis-benchmark", source),
    })?;
    let text = String::from_utf8_lossy(&output.stdout);
    // (It ends with 1 at the first request that is refused.)
    let told = parse_csv(&text).filter(|_| output.status.success());
    told.ok_or_else(|| {
        let errors = String::from_utf8_lossy(&output.stderr);
        Error::Peer(format!("redis-benchmark printed no result: {text} {errors}"))
    })
}

/// Parses the line behind the heading.
fn parse_csv(text: &str) -> Option<Told> {
    let mut lines = text.lines().map(|line| line.split(',').map(|cell| cell.trim_matches('"')));
    let heading: Vec<&str> = lines.next()?.collect();
    let cells: Vec<&str> = lines.next()?.collect();
    let cell = |name: &str| {
        let at = heading.iter().position(|found| *found == name)?;
        cells.get(at)?.parse::<f64>().ok()
    };
    Some(Told {
        per_s: cell("rps")?,
        p50_ns: cell("p50_latency_ms")? * 1e6,
        p99_ns: cell("p99_latency_ms")? * 1e6,
    })
}

/// Adds a SET of the one key.
fn set(to: &mut Pipeline) {
    let value = "x".repeat(VALUE_BYTES);
    let request = format!("*3\r\n$3\r\nSET\r\n$7\r\nbench:k\r\n${VALUE_BYTES}\r\n{value}\r\n");
    to.push(&request, "+OK\r\n");
}

/// Adds a GET of the one key.
fn get(to: &mut Pipeline) {
    let value = "x".repeat(VALUE_BYTES);
    let request = "*2\r\n$3\r\nGET\r\n$7\r\nbench:k\r\n";
    to.push(request, &format!("${VALUE_BYTES}\r\n{value}\r\n"));
}

/// SETs of one key.
pub(crate) fn sets(clients: usize, n_commands: usize) -> Pipeline {
    let mut all = Pipeline::new(clients);
    (0..n_commands).for_each(|_| set(&mut all));
    all
}

/// GETs of that key, once it is set.
pub(crate) fn gets(clients: usize) -> Pipeline {
    let mut all = Pipeline::new(clients);
    get(&mut all);
    all
}

/// A SET and GET of one key in turn, `n_commands` in all.
fn pairs(clients: usize, n_commands: usize) -> Pipeline {
    let mut all = Pipeline::new(clients);
    for _ in 0..n_commands / 2 {
        set(&mut all);
        get(&mut all);
    }
    all
}

/// SETs in batches of `pipeline`, each followed by a WAIT: a client of Redis has to do this for an
/// answer which says that `replicas` hold the write too.
///
/// # Errors
/// The server is not there, or answers with an error or with fewer replicas.
pub(super) fn set_and_wait(
    port: u16,
    pipeline: usize,
    replicas: usize,
    span: Duration,
) -> Result<Told, Error> {
    let mut all = sets(CLIENTS, pipeline);
    let digits = replicas.to_string();
    all.request += &format!("*3\r\n$4\r\nWAIT\r\n${}\r\n{digits}\r\n$1\r\n0\r\n", digits.len());
    all.reply += &format!(":{replicas}\r\n");
    all.run_for(port, span)
}

/// The clients and pipelines of SET and GET in turn.
const MIXED: [(usize, usize); 3] = [(1, 16), (1, 256), (64, 16)];

/// SET and GET in turn, beside as many SETs in the same pipelines.
///
/// # Errors
/// As [`Pipeline::run_for`].
pub(super) fn mixed(server: &str, port: u16, span: Duration) -> Result<Vec<Row>, Error> {
    let rows = MIXED.into_iter().map(|(clients, pipeline)| {
        let (sets, pairs) = (sets(clients, pipeline), pairs(clients, pipeline));
        // The first part is not counted: connections are made, and pages are touched.
        pairs.run_for(port, span / 10)?;
        let sets = sets.run_for(port, span)?;
        let told = pairs.run_for(port, span)?;
        let times = if clients == 1 { "1 client".into() } else { format!("{clients} clients") };
        Ok(Row::new(format!("SET GET, {times}, -P {pipeline}"))
            .with("server", server)
            .with("clients", clients)
            .with("pipeline", pipeline)
            .with("value_bytes", VALUE_BYTES)
            .with("per_s", told.per_s)
            .with("p50_ns", told.p50_ns)
            .with("p99_ns", told.p99_ns)
            .with("sets_per_s", sets.per_s)
            .with("sets_over_mixed", sets.per_s / told.per_s))
    });
    rows.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pipeline_of_pairs_is_as_long_as_one_of_sets() {
        let (sets, pairs) = (sets(1, 16), pairs(1, 16));
        assert_eq!((sets.n_commands, pairs.n_commands), (16, 16));
        let n = |text: &str, what: &str| text.matches(what).count();
        assert_eq!((n(&pairs.request, "SET"), n(&pairs.request, "GET")), (8, 8));
        assert_eq!((n(&pairs.reply, "+OK"), n(&sets.reply, "+OK")), (8, 16));
    }

    #[test]
    fn a_result_is_read_by_its_heading() {
        let text = "\"test\",\"rps\",\"avg_latency_ms\",\"min_latency_ms\",\"p50_latency_ms\",\
                    \"p95_latency_ms\",\"p99_latency_ms\",\"max_latency_ms\"\n\
                    \"SET\",\"105263.16\",\"0.319\",\"0.096\",\"0.271\",\"0.391\",\"2.775\",\"7.7\"\n";
        let told = parse_csv(text).expect("as redis-benchmark prints it");
        assert_eq!(told.per_s, 105_263.16);
        assert_eq!((told.p50_ns.round(), told.p99_ns.round()), (271_000.0, 2_775_000.0));
        assert_eq!(parse_csv("WARNING\n"), None);
    }
}
