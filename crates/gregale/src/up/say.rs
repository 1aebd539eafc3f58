//! The messages of `up` to its user: lines for people, or JSON objects, one per line.
//!
//! - I1 the reader of standard output is never waited for, whatever it does: a thread writes. While
//!   it stands still, so many lines wait, and further ones are left out and counted.

use super::UpArgs;
use super::member::{Reads, how};
use crate::config::Config;
use console::{Failure, Format, Outcome};
use serde_json::json;
use std::cell::Cell;
use std::io::Write;
use std::net::Ipv4Addr;
use std::path::Path;
use std::process::ExitStatus;
use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::Duration;

/// What follows a death, for people.
fn restart(pause: Option<Duration>) -> String {
    match pause {
        Some(Duration::ZERO) => "restarting".into(),
        Some(pause) => format!("restarting in {} s", pause.as_secs_f64()),
        None => "it stays dead".into(),
    }
}

/// The most lines that wait for their reader (I1).
const LINES_MAX: usize = 1024;
/// The longest wait at the end for the reader of the last lines.
const READ_WITHIN: Duration = Duration::from_secs(1);

/// The output of `up`; see the module's text.
pub(super) struct Say {
    format: Format,
    /// The way to the thread; `None` once the last line is said.
    lines: Option<SyncSender<String>>,
    /// The end of the thread.
    written: Receiver<()>,
    n_left_out: Cell<u64>,
}

impl Say {
    pub(super) fn new(format: Format) -> Outcome<Say> {
        Say::to(format, std::io::stdout())
    }

    /// Standard output may be closed (`up | head`): the cluster continues.
    pub(super) fn to(format: Format, mut out: impl Write + Send + 'static) -> Outcome<Say> {
        let (lines, waiting) = sync_channel::<String>(LINES_MAX);
        let (ended, written) = sync_channel(0);
        let write = move || {
            let _ended: SyncSender<()> = ended;
            for line in waiting {
                let _ = writeln!(out, "{line}").and_then(|()| out.flush());
            }
        };
        std::thread::Builder::new()
            .name("say".into())
            .spawn(write)
            .map_err(|error| Failure::os("start a thread", error))?;
        Ok(Say { format, lines: Some(lines), written, n_left_out: Cell::new(0) })
    }

    fn print(&self, text: impl FnOnce() -> String, json: impl FnOnce() -> serde_json::Value) {
        let line = match self.format {
            Format::Table => text(),
            Format::Json => json().to_string(),
        };
        let Some(lines) = &self.lines else { return };
        let n = self.n_left_out.get();
        if n > 0 {
            let note = match self.format {
                Format::Table => {
                    format!("({n} lines are left out here: they were not read in time)")
                }
                Format::Json => json!({"event": "left_out", "lines": n}).to_string(),
            };
            if lines.try_send(note).is_ok() {
                self.n_left_out.set(0);
            }
        }
        if lines.try_send(line).is_err() {
            self.n_left_out.set(self.n_left_out.get() + 1);
        }
    }

    /// Reports the beginning, with `n` members.
    pub(super) fn starting(&self, args: &UpArgs, version: &str, n: usize) {
        let (protocol, fabric) = (args.protocol().name(), args.fabric.name());
        let durability = args.durability().name();
        self.print(
            || {
                let parts = args.partitioning().map_or_else(String::new, |of| {
                    format!(", {} partitions ({} order)", of.n, of.order.name())
                });
                let price = args.durability().price();
                format!(
                    "gregale {version}: cluster {:?}, {n} members{parts}, {protocol} over {fabric}, {durability}\n\
                     (an acknowledged update survives {}{}{})",
                    args.cluster,
                    args.durability().promise(),
                    if price.is_some() { ";\n " } else { "" },
                    price.unwrap_or_default()
                )
            },
            || {
                json!({"event": "starting", "version": version, "cluster": args.cluster,
                       "nodes": n, "protocol": protocol, "fabric": fabric,
                       "durability": durability, "partitions": args.partitions,
                       "order": args.partitioning().map(|of| of.order.name())})
            },
        );
    }

    pub(super) fn members<'a>(&self, members: impl Iterator<Item = (&'a Config, u32)>) {
        let mut secret = None;
        for (config, pid) in members {
            secret = config.program.as_ref().map(|_| &config.secret_file);
            let (id, own) = (config.member, config.own());
            let control = own.control;
            self.print(
                || {
                    let (ip, port) = (own.client.ip(), own.client.port());
                    // The address that redis-cli takes without a word.
                    let is_usual = ip == Ipv4Addr::LOCALHOST;
                    let host = if is_usual { String::new() } else { format!("-h {ip} ") };
                    let process =
                        if pid == 0 { "not started".to_owned() } else { format!("pid {pid}") };
                    let client = match config.program {
                        None => format!("redis-cli {host}-p {port}"),
                        Some(_) => format!("{ip}:{port}"),
                    };
                    format!("member {id}: {process}, {client}, http://{control}/metrics")
                },
                || {
                    json!({"event": "started", "id": id, "pid": pid,
                           "client": own.client.to_string(), "control": control.to_string(),
                           "secret_file": config.secret_file.display().to_string()})
                },
            );
        }
        if let (Some(secret), Format::Table) = (secret, self.format) {
            let secret = secret.display();
            self.print(
                || format!("members are changed by --control, with --secret-file {secret}"),
                || json!({}),
            );
        }
    }

    /// Reports that the directory of a killed `up` was swept: with the memory of its members, all
    /// its data.
    pub(super) fn swept(&self, path: &Path) {
        let path = path.display();
        self.print(
            || {
                format!(
                    "this cluster was killed, and its data with it: they were in memory alone \
                     ({path} is removed); it begins empty"
                )
            },
            || json!({"event": "data_lost", "removed": path.to_string()}),
        );
    }

    /// Reports that the directory on tmpfs was removed under members with disks.
    pub(super) fn remade(&self, path: &Path, ends_others: bool) {
        let path = path.display();
        let then = if ends_others { ", and they begin again from their disks" } else { "" };
        self.print(
            || {
                format!(
                    "{path} was removed while the members ran (see RemoveIPC in `man logind.conf`): \
                     it is made again{then}"
                )
            },
            || json!({"event": "remade", "directory": path.to_string()}),
        );
    }

    pub(super) fn ready(&self) {
        self.print(|| "ready".into(), || json!({"event": "ready"}));
    }

    /// Reports a member that is no longer waited for.
    pub(super) fn missing(&self, id: u16, within: Duration) {
        let seconds = within.as_secs();
        self.print(
            || {
                format!(
                    "member {id} does not serve after {seconds} s; the others continue without it"
                )
            },
            || json!({"event": "missing", "id": id, "after_s": seconds}),
        );
    }

    /// Reports that the cluster is not ready, and `why` it is not given up, with what the processes
    /// of `absent` members have read so far.
    pub(super) fn waits(&self, since: Duration, why: &str, absent: &[(u16, Reads)]) {
        let seconds = since.as_secs();
        self.print(
            || {
                let read: Vec<String> = absent.iter().map(|(id, reads)| reads.text(*id)).collect();
                let read = read.join(", ");
                format!("no majority serves after {seconds} s; {why}, and is waited for ({read})")
            },
            || {
                let absent: Vec<_> = absent.iter().map(|(id, reads)| reads.json(*id)).collect();
                json!({"event": "waits", "after_s": seconds, "absent": absent})
            },
        );
    }

    pub(super) fn died(&self, id: u16, status: &ExitStatus, pause: Option<Duration>) {
        let (how, then) = (how(status), restart(pause));
        self.print(
            || format!("member {id} died ({how}); {then}"),
            || {
                json!({"event": "died", "id": id, "how": how,
                       "restart_after_s": pause.map(|pause| pause.as_secs_f64())})
            },
        );
    }

    pub(super) fn restarted(&self, id: u16, pid: u32) {
        self.print(
            || format!("member {id} restarted: pid {pid}"),
            || json!({"event": "restarted", "id": id, "pid": pid}),
        );
    }

    pub(super) fn serves_again(&self, id: u16, pid: u32) {
        self.print(
            || format!("member {id} serves again: pid {pid}"),
            || json!({"event": "serving", "id": id, "pid": pid}),
        );
    }

    pub(super) fn learner(&self, id: u16, why: &str) {
        self.print(
            || format!("member {id} runs as a learner and serves no quorum: {why}"),
            || json!({"event": "learner", "id": id, "why": why}),
        );
    }

    pub(super) fn refused(&self, id: u16, why: &str) {
        self.print(
            || format!("member {id} cannot run: {why}"),
            || json!({"event": "refused", "id": id, "why": why}),
        );
    }

    /// Reports a member whose process could not be started.
    pub(super) fn not_started(&self, id: u16, why: &str, pause: Option<Duration>) {
        let then = restart(pause);
        self.print(
            || format!("member {id} is not started: {why}; {then}"),
            || {
                json!({"event": "not_started", "id": id, "why": why,
                       "restart_after_s": pause.map(|pause| pause.as_secs_f64())})
            },
        );
    }

    /// Reports a member that is to be replaced, and whose process cannot end yet.
    pub(super) fn has_not_ended(&self, id: u16) {
        self.print(
            || {
                format!(
                    "member {id} was killed and has not ended (its disk may stand still): a new \
                     incarnation begins when it has"
                )
            },
            || json!({"event": "has_not_ended", "id": id}),
        );
    }

    /// Reports that the state of the seats could not be written.
    pub(super) fn unwritten(&self, why: &str) {
        self.print(
            || format!("{why}; the members continue, and it is written when there is room"),
            || json!({"event": "unwritten", "why": why}),
        );
    }

    pub(super) fn gave_up(&self, id: u16, why: &str) {
        self.print(
            || format!("member {id} gives up: {why}"),
            || json!({"event": "gave_up", "id": id, "why": why}),
        );
    }

    /// Reports a member whose disk or memory (`what`) is gone: it waits until others serve, or is
    /// replaced by a new incarnation.
    pub(super) fn lost(&self, id: u16, what: &str, place: &Path, waits: bool) {
        let place = place.display();
        let then = if waits { "it waits until others serve" } else { "a new incarnation begins" };
        self.print(
            || format!("member {id} has lost its {what} ({place} holds none); {then}"),
            || json!({"event": "lost", "id": id, "place": place.to_string(), "waits": waits}),
        );
    }

    /// Reports a new incarnation on an operator's order; the old one's directory is now at `aside`.
    pub(super) fn renewed(&self, id: u16, aside: Option<&Path>) {
        let aside = aside.map(|path| path.display().to_string());
        self.print(
            || match &aside {
                Some(path) => format!(
                    "member {id} is replaced by a new incarnation; its old directory is now {path}"
                ),
                None => format!("member {id} is replaced by a new incarnation"),
            },
            || json!({"event": "renewed", "id": id, "aside": aside}),
        );
    }

    /// Reports an operator's order while `other` was not back.
    pub(super) fn not_renewed(&self, id: u16, other: u16) {
        self.print(
            || {
                format!(
                    "member {id} is not replaced: member {other} is, and does not vote yet; try \
                     again when it does"
                )
            },
            || json!({"event": "not_renewed", "id": id, "waits_for": other}),
        );
    }

    /// Reports an operator's order while `other` did not serve, without which the state in memory
    /// could be lost.
    pub(super) fn not_renewed_without(&self, id: u16, other: u16) {
        self.print(
            || {
                format!(
                    "member {id} is not replaced: member {other} does not serve, and the state \
                     could be lost with member {id}; try again when it does"
                )
            },
            || json!({"event": "not_renewed", "id": id, "waits_for": other}),
        );
    }

    pub(super) fn votes(&self, id: u16, incarnation: u64) {
        self.print(
            || format!("member {id} votes: incarnation {incarnation}"),
            || json!({"event": "votes", "id": id, "incarnation": incarnation}),
        );
    }

    pub(super) fn parted(&self, id: u16, why: &str) {
        self.print(|| why.to_owned(), || json!({"event": "parted", "id": id, "why": why}));
    }

    /// Reports that a member was removed while no process of it could hear that.
    pub(super) fn vacated(&self, id: u16) {
        self.print(
            || format!("member {id} was removed and is not started again"),
            || json!({"event": "vacated", "id": id}),
        );
    }

    pub(super) fn stopping(&self) {
        self.print(|| "stopping".into(), || json!({"event": "stopping"}));
    }
}

impl Drop for Say {
    fn drop(&mut self) {
        self.lines = None;
        // It ends when all is written, or never.
        let _ = self.written.recv_timeout(READ_WITHIN);
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{BufRead, BufReader};
    use std::os::unix::net::UnixStream;
    use std::sync::mpsc::channel;

    /// The supervisor stood still with its reader, restarted no member and heard no signal.
    #[test]
    fn i1_a_reader_that_stands_still_is_not_waited_for() {
        let (near, far) = UnixStream::pair().unwrap();
        let (said, all) = channel();
        std::thread::spawn(move || {
            let say = Say::to(Format::Table, near).unwrap();
            (0..20_000).for_each(|id| say.vacated(id));
            said.send(say)
        });
        let say = all.recv_timeout(Duration::from_secs(30)).expect("it waits for its reader");
        let lines = BufReader::new(far).lines().map(Result::unwrap);
        let read = std::thread::spawn(move || lines.collect::<Vec<String>>());
        // What is said once it reads again comes through, behind the number of what did not.
        let end = std::time::Instant::now() + Duration::from_secs(30);
        let mut n_left_out = say.n_left_out.get();
        while say.n_left_out.get() > 0 {
            assert!(std::time::Instant::now() < end, "it is never read");
            n_left_out = say.n_left_out.get();
            std::thread::yield_now();
            say.ready();
        }
        drop(say);
        let read = read.join().unwrap();
        assert_eq!(read[0], "member 0 was removed and is not started again");
        assert_eq!(read[read.len() - 1], "ready");
        let note = format!("({n_left_out} lines are left out here: they were not read in time)");
        assert!(read.contains(&note), "{note}");
    }
}
