//! `gregale status`, and what a cluster says about itself.
//!
//! The names in [`ClusterStatus`] are an interface: additions only.

use crate::cli::{Format, StatusArgs};
use crate::failure::{Failure, Outcome};
use serde::{Deserialize, Serialize};
use std::io::{BufRead, BufReader, Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::process::ExitCode;
use std::time::Duration;

/// How long a member may take to answer for all.
const ANSWER_WITHIN: Duration = Duration::from_secs(3);
/// The longest answer that is believed.
const ANSWER_BYTES_MAX: u64 = 1 << 20;

/// A cluster, as one of its members sees it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct ClusterStatus {
    pub(crate) cluster: String,
    /// The protocol's family.
    pub(crate) engine: String,
    pub(crate) protocol: String,
    pub(crate) durability: String,
    pub(crate) fabric: String,
    /// The agreed membership's number.
    pub(crate) view: u64,
    /// The leader's, or the highest that is known.
    pub(crate) ballot: u64,
    pub(crate) members: Vec<MemberStatus>,
}

/// One member of it.
#[derive(Clone, Debug, Serialize, Deserialize)]
pub(crate) struct MemberStatus {
    pub(crate) id: u16,
    /// 0 if it was never heard.
    pub(crate) pid: u32,
    pub(crate) client: String,
    /// leader, candidate, follower, learner or down.
    pub(crate) role: String,
    pub(crate) committed: u64,
    pub(crate) applied: u64,
}

/// Asks a member, prints its answer.
pub(crate) fn run(args: &StatusArgs) -> Outcome {
    let json = ask(args.connect, args.password.as_deref())?;
    let status: ClusterStatus = serde_json::from_str(&json).map_err(|error| {
        Failure::new(format_args!(
            "{} answers, but not as gregale does ({error}): is it another server's port?",
            args.connect
        ))
    })?;
    match args.format {
        Format::Json => println!("{json}"),
        Format::Table => print!("{}", table(&status)),
    }
    Ok(ExitCode::SUCCESS)
}

/// INFO over a client connection, of a section that only gregale has.
fn ask(address: SocketAddr, password: Option<&str>) -> Outcome<String> {
    let mend = "is the cluster up? Any live member's client port will do: --connect ADDRESS:PORT";
    let fail = |error: std::io::Error| {
        Failure::new(format_args!("no answer from {address}: {error}; {mend}"))
    };
    let stream = TcpStream::connect_timeout(&address, ANSWER_WITHIN).map_err(fail)?;
    stream.set_read_timeout(Some(ANSWER_WITHIN)).map_err(fail)?;
    let mut writer = &stream;
    let mut reader = BufReader::new((&stream).take(ANSWER_BYTES_MAX));
    if let Some(password) = password {
        let request = format!("*2\r\n$4\r\nAUTH\r\n${}\r\n{password}\r\n", password.len());
        writer.write_all(request.as_bytes()).map_err(fail)?;
        let line = read_line(&mut reader).map_err(fail)?;
        if line != "+OK" {
            return Err(refusal(address, &line));
        }
    }
    let section = crate::door::STATUS_SECTION;
    let request = format!("*2\r\n$4\r\nINFO\r\n${}\r\n{section}\r\n", section.len());
    writer.write_all(request.as_bytes()).map_err(fail)?;
    let line = read_line(&mut reader).map_err(fail)?;
    let Some(length) = line.strip_prefix('$').and_then(|digits| digits.parse::<usize>().ok())
    else {
        return Err(refusal(address, &line));
    };
    if length as u64 > ANSWER_BYTES_MAX {
        return Err(refusal(address, &line));
    }
    let mut body = vec![0; length];
    reader.read_exact(&mut body).map_err(fail)?;
    String::from_utf8(body).map_err(|_| refusal(address, "no text"))
}

fn refusal(address: SocketAddr, line: &str) -> Failure {
    let line = line.trim_start_matches('-');
    let mend = if line.starts_with("NOAUTH") || line.starts_with("WRONGPASS") {
        "give --password, or set GREGALE_REQUIREPASS"
    } else {
        "is it another server's port?"
    };
    Failure::new(format_args!("{address} answers {line:?}; {mend}"))
}

fn read_line(reader: &mut impl BufRead) -> std::io::Result<String> {
    let mut line = String::new();
    reader.read_line(&mut line)?;
    if line.is_empty() {
        return Err(std::io::ErrorKind::UnexpectedEof.into());
    }
    Ok(line.trim_end().to_owned())
}

/// For people. A member's lag is what the most advanced member has committed and it has not
/// applied.
fn table(status: &ClusterStatus) -> String {
    let newest = status.members.iter().map(|member| member.committed).max().unwrap_or(0);
    let mut text = format!(
        "cluster {}: {} ({}) over {}, {}; view {}, ballot {}\n",
        status.cluster,
        status.protocol,
        status.engine,
        status.fabric,
        status.durability,
        status.view,
        status.ballot
    );
    let header = ["id", "pid", "client", "role", "committed", "applied", "lag"].map(str::to_owned);
    let rows: Vec<[String; 7]> = std::iter::once(header)
        .chain(status.members.iter().map(|member| {
            let down = member.role == "down";
            let number = |n: u64| if down { "-".to_owned() } else { n.to_string() };
            [
                member.id.to_string(),
                if member.pid == 0 { "-".to_owned() } else { member.pid.to_string() },
                member.client.clone(),
                member.role.clone(),
                number(member.committed),
                number(member.applied),
                number(newest.saturating_sub(member.applied)),
            ]
        }))
        .collect();
    let width = |column: usize| rows.iter().map(|row| row[column].len()).max().unwrap_or(0);
    let widths: Vec<usize> = (0..7).map(width).collect();
    for row in &rows {
        let cells = row.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}  "));
        text += cells.collect::<String>().trim_end();
        text.push('\n');
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_table_says_who_lags_and_who_is_down() {
        let member = |id, role: &str, applied| MemberStatus {
            id,
            pid: 40 + u32::from(id),
            client: format!("127.0.0.1:{}", 6999 + id),
            role: role.into(),
            committed: 9,
            applied,
        };
        let status = ClusterStatus {
            cluster: "demo".into(),
            engine: "one-sided".into(),
            protocol: "velos".into(),
            durability: "memory-quorum".into(),
            fabric: "shm".into(),
            view: 1,
            ballot: 9,
            members: vec![member(1, "leader", 9), member(2, "follower", 7), member(3, "down", 0)],
        };
        let text = table(&status);
        let lines: Vec<Vec<&str>> = text.lines().map(|l| l.split_whitespace().collect()).collect();
        assert_eq!(lines[3], ["2", "42", "127.0.0.1:7001", "follower", "9", "7", "2"]);
        assert_eq!(lines[4], ["3", "43", "127.0.0.1:7002", "down", "-", "-", "-"]);
    }
}
