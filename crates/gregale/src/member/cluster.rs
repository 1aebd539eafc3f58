//! A running cluster as `gregale member` reaches it: by the members' client ports, or by their
//! control ports.

use super::args::ReachArgs;
use crate::connect::exchange;
use crate::control::FORBIDDEN;
use crate::orders::{Sent, authorization};
use crate::resp::{Connection, Value, refused};
use crate::status::{self, ClusterStatus, MemberStatus};
use console::{Failure, Outcome};
use std::net::{SocketAddr, TcpStream};
use std::path::PathBuf;
use std::time::Duration;

/// The longest time of one answer of a leader: it decides, or gives up at its own deadline.
const ANSWER_WITHIN: Duration = Duration::from_secs(8);

/// The outcome of a request.
pub(super) enum Answer {
    Done,
    /// The first word says what kind of refusal it is.
    Refused(String),
    /// Nothing was sent.
    Unreachable(String),
    /// The request was sent, and no answer came.
    Silent(String),
}

/// The ports by which members are asked.
enum Ports {
    /// The clients', with their password.
    Client { password: Option<String> },
    /// The control ports. What changes members takes the secret.
    Control { secret_file: Option<PathBuf> },
}

/// The cluster of the module's text.
pub(super) struct Cluster {
    addresses: Vec<SocketAddr>,
    ports: Ports,
}

impl Cluster {
    /// The cluster of which `reach` names a member.
    ///
    /// # Errors
    /// A secret for client ports, which take a password.
    pub(super) fn of(reach: &ReachArgs) -> Outcome<Cluster> {
        if let Some(address) = reach.control {
            let secret_file = reach.secret_file.clone();
            return Ok(Cluster { addresses: vec![address], ports: Ports::Control { secret_file } });
        }
        if reach.secret_file.is_some() {
            let why = "--secret-file belongs to --control: client ports take a password";
            return Err(Failure::new(why));
        }
        let password = reach.connect.password().map(str::to_owned);
        let addresses = vec![reach.connect.address];
        Ok(Cluster { addresses, ports: Ports::Client { password } })
    }

    fn fetch(&self, address: SocketAddr) -> Outcome<ClusterStatus> {
        let fetched = match &self.ports {
            Ports::Client { password } => status::fetch(address, password.as_deref()),
            Ports::Control { .. } => status::fetch_control(address),
        };
        fetched.map(|(status, _)| status)
    }

    /// The status as the leader sees it, if a leader answers; otherwise as the first member that
    /// answers does.
    pub(super) fn status(&mut self) -> Outcome<ClusterStatus> {
        let mut failure = None;
        for address in self.addresses.clone() {
            match self.fetch(address) {
                Ok(status) => {
                    self.learn(&status);
                    let leader = self.leader_of(&status).filter(|leader| *leader != address);
                    let by_leader = leader.and_then(|at| self.fetch(at).ok());
                    return Ok(by_leader.unwrap_or(status));
                }
                Err(error) => failure = failure.or(Some(error)),
            }
        }
        Err(failure.unwrap_or_else(|| Failure::new("no address to connect to")))
    }

    fn address(&self, member: &MemberStatus) -> Option<SocketAddr> {
        let address = match self.ports {
            Ports::Client { .. } => &member.client,
            Ports::Control { .. } => &member.control,
        };
        address.parse().ok()
    }

    /// Notes all members' addresses: the member that was named may be the one that is replaced.
    fn learn(&mut self, status: &ClusterStatus) {
        for member in &status.members {
            if let Some(address) = self.address(member)
                && !self.addresses.contains(&address)
            {
                self.addresses.push(address);
            }
        }
    }

    pub(super) fn leader_of(&self, status: &ClusterStatus) -> Option<SocketAddr> {
        let leads = |member: &&MemberStatus| member.role == "leader";
        status.members.iter().find(leads).and_then(|member| self.address(member))
    }

    /// Sends an order to `leader`.
    ///
    /// # Errors
    /// It cannot be made, or is not allowed.
    pub(super) fn ask(&self, leader: SocketAddr, verb: &str, id: u16) -> Outcome<Answer> {
        match &self.ports {
            Ports::Client { password } => Ok(ask_client(leader, password.as_deref(), verb, id)),
            Ports::Control { secret_file: Some(file) } => {
                let secret = std::fs::read(file);
                let secret = secret
                    .map_err(|error| Failure::os(format_args!("read {}", file.display()), error))?;
                ask_control(leader, secret.trim_ascii(), Sent { verb, id })
            }
            Ports::Control { secret_file: None } => Err(Failure::new(
                "a change over a control port takes the cluster's secret: name its file by \
                 --secret-file (`gregale up` prints it)",
            )),
        }
    }

    /// The failure of a refusal that is not known.
    pub(super) fn refused(&self, leader: SocketAddr, line: &str) -> Failure {
        match self.ports {
            Ports::Client { .. } => refused(leader, line),
            Ports::Control { .. } => Failure::new(format_args!("{leader} answered {line}")),
        }
    }
}

fn ask_client(leader: SocketAddr, password: Option<&str>, verb: &str, id: u16) -> Answer {
    let mut connection = match Connection::open(leader, password, ANSWER_WITHIN) {
        Ok(connection) => connection,
        Err(failure) => return Answer::Unreachable(failure.to_string()),
    };
    let (verb, id) = (verb.to_ascii_uppercase(), id.to_string());
    match connection.call(&[b"GREGALE.MEMBER", verb.as_bytes(), id.as_bytes()]) {
        Ok(Value::Error(line)) => Answer::Refused(line),
        Ok(_) => Answer::Done,
        Err(error) => Answer::Silent(error.to_string()),
    }
}

fn ask_control(leader: SocketAddr, secret: &[u8], sent: Sent<'_>) -> Outcome<Answer> {
    let connect = || TcpStream::connect_timeout(&leader, ANSWER_WITHIN);
    let challenge = crate::connect::fetch(leader, "/challenge", ANSWER_WITHIN);
    let (challenge, stream) = match challenge.and_then(|challenge| Ok((challenge, connect()?))) {
        Ok(both) => both,
        Err(error) => return Ok(Answer::Unreachable(error.to_string())),
    };
    let challenge = String::from_utf8_lossy(&challenge);
    let proof = authorization(secret, challenge.trim(), &sent);
    let path = sent.path();
    let request = format!("POST {path} HTTP/1.0\r\nAuthorization: {proof}\r\n\r\n");
    let (line, body) = match exchange(stream, &request, ANSWER_WITHIN) {
        Ok(answer) => answer,
        Err(error) => return Ok(Answer::Silent(error.to_string())),
    };
    if line.contains(FORBIDDEN) {
        return Err(Failure::new(format_args!(
            "{leader} refused the proof: is that the file of this cluster's secret?"
        )));
    }
    let body = String::from_utf8_lossy(&body).trim().to_owned();
    Ok(if body == "done" { Answer::Done } else { Answer::Refused(body) })
}

pub(super) fn member_of(status: &ClusterStatus, id: u16) -> Outcome<&MemberStatus> {
    let found = status.members.iter().find(|member| member.id == id);
    found.ok_or_else(|| {
        Failure::new(format_args!(
            "no member {id}: the cluster has seats 1 to {}",
            status.members.len()
        ))
    })
}
