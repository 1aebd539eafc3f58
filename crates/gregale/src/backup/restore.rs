//! Writing a backup into a running cluster.
//!
//! A restore uses ordinary writes, many in flight: a restored key is as durable as any other, and a
//! cluster of any size, protocol and durability accepts it. It is not atomic: a client that reads
//! meanwhile sees a part.

use super::{ANSWER_WITHIN, RestoreArgs, read};
use crate::resp::{Connection, Value, encode, refused, unanswered};
use console::{Failure, Format, Outcome};
use kv::backup::Entry;
use kv::store::Db;
use serde::Serialize;
use std::io;
use std::net::SocketAddr;
use std::process::ExitCode;
use std::time::{Duration, Instant};

/// The most writes in flight, and about the most bytes of them.
const BATCH_LEN: usize = 512;
const BATCH_BYTES: usize = 512 << 10;
/// The time during which the cluster may be unable to take writes.
const TRY_FOR: Duration = Duration::from_secs(60);
/// The pause between two attempts.
const PAUSE: Duration = Duration::from_millis(50);

/// The printed summary of a restore. The names are an interface: additions only.
#[derive(Debug, Serialize)]
struct Report {
    file: String,
    /// Keys that were written, including those that have expired again.
    written: u64,
    /// Keys in the database afterwards.
    keys: u64,
}

/// `gregale restore`
pub(crate) fn restore(args: &RestoreArgs) -> Outcome {
    let file = &args.file;
    let whole = read(file, |_| Ok(()))?; // I3 of the module above
    let mut writer = Writer::open(args.connect.address, args.connect.password())?;
    let n = writer.n_keys()?;
    if n != 0 && !args.force {
        return Err(Failure::new(format_args!(
            "{} holds {n} keys: restore into an empty cluster, or say --force, which overwrites \
             keys that are in the file too and leaves the others",
            args.connect.address
        )));
    }
    let outcome = read(file, |entry| writer.put(entry));
    let outcome = outcome.and_then(|summary| writer.flush().map(|()| summary));
    let again = outcome.map_err(|failure| {
        let n = writer.n_written;
        Failure::new(format_args!(
            "{failure} ({n} of {} keys were written, or more; continue with --force)",
            whole.n_entries
        ))
    })?;
    if again != whole {
        return Err(Failure::new(format_args!(
            "{} changed while it was read: the database holds what it was for a moment",
            file.display()
        )));
    }
    let name = file.display().to_string();
    let report = Report { file: name, written: writer.n_written, keys: writer.n_keys()? };
    match args.format {
        Format::Json => outln!("{}", serde_json::to_string(&report).map_err(Failure::new)?),
        Format::Table => outln!(
            "{}: {} keys written, the database holds {} now",
            report.file,
            report.written,
            report.keys
        ),
    }
    Ok(ExitCode::SUCCESS)
}

struct Writer<'a> {
    address: SocketAddr,
    password: Option<&'a str>,
    connection: Connection,
    /// The database of the next entry.
    db: Db,
    batch: Vec<u8>,
    n_batch: usize,
    /// The writes that were acknowledged, without those of a batch that is to be sent again.
    n_written: u64,
}

impl Writer<'_> {
    fn open(address: SocketAddr, password: Option<&str>) -> Outcome<Writer<'_>> {
        let connection = Connection::open(address, password, ANSWER_WITHIN)?;
        let (batch, n_batch, n_written) = (Vec::new(), 0, 0);
        let db = Db::ZERO;
        Ok(Writer { address, password, connection, db, batch, n_batch, n_written })
    }

    fn n_keys(&mut self) -> Outcome<u64> {
        let mut sum = 0;
        // Database 0 comes last: the connection stays there.
        for db in Db::all().rev() {
            self.db = db;
            self.select()?;
            match self.connection.ask(&[b"DBSIZE"])? {
                Value::Integer(n) => sum += n.unsigned_abs(),
                _ => return Err(refused(self.address, "no number to DBSIZE")),
            }
        }
        Ok(sum)
    }

    /// Selects the database of the next entry on the connection.
    fn select(&mut self) -> Outcome<()> {
        let number = self.db.to_string();
        match self.connection.ask(&[b"SELECT", number.as_bytes()])? {
            Value::Error(line) => Err(refused(self.address, &line)),
            _ => Ok(()),
        }
    }

    fn put(&mut self, entry: Entry<'_>) -> Outcome<()> {
        if entry.db != self.db {
            // A batch that is sent again after a broken connection begins with SELECT too.
            self.flush()?;
            self.db = entry.db;
            self.select()?;
        }
        match entry.expire_at_ms {
            None => encode(&[b"SET", entry.key, entry.value], &mut self.batch),
            Some(at) => {
                let at = at.to_string();
                let words = [&b"SET"[..], entry.key, entry.value, b"PXAT", at.as_bytes()];
                encode(&words, &mut self.batch);
            }
        }
        self.n_batch += 1;
        if self.n_batch == BATCH_LEN || self.batch.len() >= BATCH_BYTES {
            self.flush()?;
        }
        Ok(())
    }

    /// Sends the batch until all of it is acknowledged. A repetition changes nothing: the same keys
    /// get the same values.
    fn flush(&mut self) -> Outcome<()> {
        let end = Instant::now() + TRY_FOR;
        while self.n_batch != 0 {
            match self.write() {
                Ok((_, None)) => {
                    self.n_written += self.n_batch as u64;
                    self.n_batch = 0;
                    self.batch.clear();
                }
                Ok((n_done, Some(line))) => {
                    let kinds = ["TRYAGAIN", "LOADING", "UNKNOWN"];
                    let may_pass = kinds.iter().any(|kind| line.starts_with(kind));
                    if !may_pass || Instant::now() > end {
                        self.n_written += n_done;
                        return Err(refused(self.address, &line));
                    }
                    std::thread::sleep(PAUSE);
                }
                Err(error) => self.reconnect(error, end)?,
            }
        }
        Ok(())
    }

    /// The number of acknowledged writes of the batch, and the first error among the replies.
    fn write(&mut self) -> io::Result<(u64, Option<String>)> {
        self.connection.send(&self.batch)?;
        let (mut n_done, mut first) = (0, None);
        for _ in 0..self.n_batch {
            match self.connection.receive()? {
                Value::Error(line) => drop(first.get_or_insert(line)),
                _ => n_done += 1,
            }
        }
        Ok((n_done, first))
    }

    /// A member that died is back soon: its supervisor keeps its port open.
    fn reconnect(&mut self, error: io::Error, end: Instant) -> Outcome<()> {
        let mut failure = unanswered(self.address, &error);
        while Instant::now() < end {
            std::thread::sleep(PAUSE);
            match Connection::open(self.address, self.password, ANSWER_WITHIN) {
                Ok(connection) => {
                    self.connection = connection;
                    return self.select();
                }
                Err(again) => failure = again,
            }
        }
        Err(failure)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::{Read, Write as _};
    use std::net::TcpListener;

    /// It said that no key was written, though the limit of memory was reached in the middle.
    #[test]
    fn what_was_written_of_a_batch_that_failed_is_counted() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        let address = listener.local_addr().unwrap();
        let member = std::thread::spawn(move || {
            let (mut stream, _) = listener.accept().unwrap();
            stream.write_all(b"+OK\r\n+OK\r\n-OOM no room\r\n").unwrap();
            stream.read_to_end(&mut Vec::new()).unwrap();
        });
        let mut writer = Writer::open(address, None).unwrap();
        for key in [b"a", b"b", b"c"] {
            let entry = Entry { db: Db::ZERO, key, value: b"v", expire_at_ms: None };
            writer.put(entry).unwrap();
        }
        let refused = writer.flush().unwrap_err().to_string();
        assert!(refused.contains("OOM no room"), "{refused}");
        assert_eq!(writer.n_written, 2);
        drop(writer);
        member.join().unwrap();
    }
}
