//! A group of real processes, from the parent's side.

use crate::child::{Child, Directory};
use crate::member::Wait;
use crate::worker::order::{Answer, FabricKind, Order, Part, Spec};
use proto::registry::LogProtocol;
use std::ffi::OsString;
use std::net::SocketAddr;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};
use tempfile::TempDir;

/// A failure of a group.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The operating system refused.
    #[error("cannot {doing}: {source}")]
    Os {
        /// The operation.
        doing: String,
        /// The system's answer.
        source: std::io::Error,
    },
    /// A worker gave up.
    #[error("member {member} of the group under measurement failed: {cause}")]
    Worker {
        /// The member's number, from 1.
        member: usize,
        /// The member's text.
        cause: String,
    },
    /// A step took far too long.
    #[error("{what} within {:.0} s: is the machine overloaded?", .patience.as_secs_f64())]
    Late {
        /// What did not come.
        what: String,
        /// How long it was waited for.
        patience: Duration,
    },
    /// A peer program cannot be run or measured.
    #[error("{0}")]
    Peer(String),
}

impl Error {
    /// An error whose `doing` follows the word "cannot".
    pub fn os(doing: impl Into<String>, source: impl Into<std::io::Error>) -> Error {
        Error::Os { doing: doing.into(), source: source.into() }
    }

    /// An error whose `what` has the words "within" and a time behind it.
    pub fn late(what: impl Into<String>, patience: Duration) -> Error {
        Error::Late { what: what.into(), patience }
    }
}

/// The longest time for anything but a measurement.
const PATIENCE: Duration = Duration::from_secs(30);
/// The time after which a lead counts as settled: three heartbeats.
const LASTING: Duration = Duration::from_millis(60);

/// The way to start a worker: a program that calls [`crate::worker::run`] when it gets these.
#[derive(Clone, Debug)]
pub struct Launcher {
    /// The program.
    pub program: PathBuf,
    /// Its arguments.
    pub arguments: Vec<OsString>,
    /// Variables of its environment.
    pub environment: Vec<(OsString, OsString)>,
}

impl Launcher {
    /// This program itself, with one argument.
    ///
    /// # Errors
    /// The kernel does not tell where this program is.
    pub fn this_program(argument: &str) -> Result<Launcher, Error> {
        let program = std::env::current_exe()
            .map_err(|source| Error::os("find the program that runs", source))?;
        Ok(Launcher { program, arguments: vec![argument.into()], environment: Vec::new() })
    }
}

/// One worker process.
#[derive(Debug)]
pub struct Worker {
    child: Child<Answer>,
    /// Whether it leads, by its last report.
    pub leads: bool,
    /// The number of its links, by its last report.
    pub links: usize,
}

impl Worker {
    fn start(launcher: &Launcher, spec: &Spec) -> Result<Worker, Error> {
        let child = Child::start(launcher, spec.me + 1, spec)?;
        Ok(Worker { child, leads: false, links: 0 })
    }

    /// Sends an order.
    ///
    /// # Errors
    /// The worker is gone.
    pub fn order(&mut self, order: &Order) -> Result<(), Error> {
        self.child.tell(order)
    }

    /// The next answer that is not a status.
    ///
    /// # Errors
    /// The worker failed, or sends nothing for `patience`.
    pub fn answer(&mut self, patience: Duration) -> Result<Answer, Error> {
        let until = Instant::now() + patience;
        loop {
            match self.hear(until.saturating_duration_since(Instant::now()))? {
                None => return Err(Error::late("a member did not answer", patience)),
                Some(Answer::Stands { .. }) => {}
                Some(answer) => return Ok(answer),
            }
        }
    }

    fn hear(&mut self, patience: Duration) -> Result<Option<Answer>, Error> {
        let heard = self.child.hear(patience)?;
        match &heard {
            Some(Answer::Failed(cause)) => return Err(self.child.failed(cause)),
            Some(Answer::Stands { leads, links }) => (self.leads, self.links) = (*leads, *links),
            Some(_) | None => {}
        }
        Ok(heard)
    }

    /// Sends an order and waits until it is carried out.
    ///
    /// # Errors
    /// As of [`Worker::answer`].
    pub fn ask(&mut self, order: &Order, takes: Duration) -> Result<Answer, Error> {
        self.order(order)?;
        self.answer(PATIENCE + takes)
    }

    /// The error for an answer that does not fit the order.
    pub fn misspoke(&self, answer: &Answer) -> Error {
        self.child.failed(format!("it answered {answer:?}"))
    }

    /// The worker's process.
    pub fn pid(&self) -> rustix::process::Pid {
        self.child.pid()
    }
}

/// All workers of one group, and their files.
#[derive(Debug)]
pub struct Group {
    /// The members by rank.
    pub members: Vec<Worker>,
    /// The addresses at which the members of a tcp group listen.
    addresses: Vec<SocketAddr>,
    /// The sentinels of a tcp group that decides, one beside each member; they outlive their
    /// members.
    sentinels: Vec<Worker>,
    // These come after the workers: fields drop in this order.
    directory: Directory,
    /// The directory of its logs on disk.
    _data: Option<TempDir>,
}

/// The composition of a group.
#[derive(Clone, Copy, Debug)]
pub struct Plan<'a> {
    /// The provider.
    pub fabric: FabricKind,
    /// The work of its processes.
    pub part: Part,
    /// The number of members.
    pub members: usize,
    /// The way in which an idle member waits.
    pub wait: Wait,
    /// The protocol, if its processes decide.
    pub protocol: LogProtocol,
    /// The directory in which a group whose protocol needs a disk makes one for its logs.
    pub data: Option<&'a Path>,
}

impl Plan<'static> {
    /// Processes that do not decide.
    pub const fn of(part: Part, fabric: FabricKind, members: usize, wait: Wait) -> Plan<'static> {
        Plan { fabric, part, members, wait, protocol: LogProtocol::ALL[0], data: None }
    }
}

/// Whether a protocol keeps what it promises on disk.
pub fn needs_disk(protocol: LogProtocol) -> bool {
    !protocol.row().durability.contains(&"memory-quorum")
}

/// Refuses a fabric on which the protocol does not run.
///
/// # Errors
/// The property that the fabric's memory lacks.
pub fn refuse(protocol: LogProtocol, fabric: FabricKind) -> Result<(), Error> {
    let row = protocol.row();
    if row.fabrics.contains(&fabric.name()) {
        return Ok(());
    }
    let (name, needs, fabric) = (row.name, row.needs, fabric.name());
    Err(Error::Peer(format!("{name} needs {needs}, which {fabric} does not give")))
}

impl Group {
    /// Starts a group and waits until all members are linked and, if they decide, one leads.
    ///
    /// # Errors
    /// [`Error`]; nothing is left behind.
    pub fn start(launcher: &Launcher, plan: &Plan<'_>) -> Result<Group, Error> {
        static GROUPS: AtomicU32 = AtomicU32::new(0);
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let cluster = format!("bench-{}-{number}", std::process::id());
        let directory = Directory::make(&cluster)?;
        let path = directory.path().to_owned();
        let data = plan
            .data
            .filter(|_| needs_disk(plan.protocol))
            .map(tempfile::tempdir_in)
            .transpose()
            .map_err(|source| Error::os("make a directory for a group's logs", source))?;
        let data_path = data.as_ref().map(|data| data.path().to_owned());
        let mut group = Group {
            members: Vec::new(),
            addresses: Vec::new(),
            sentinels: Vec::new(),
            directory,
            _data: data,
        };
        let spec = |me: usize, part: Part| Spec {
            part,
            fabric: plan.fabric,
            me,
            members: plan.members,
            cluster: cluster.clone(),
            directory: path.clone(),
            wait: plan.wait,
            protocol: plan.protocol.name().to_owned(),
            data: data_path.clone(),
        };
        for me in 0..plan.members {
            group.members.push(Worker::start(launcher, &spec(me, plan.part))?);
        }
        if plan.fabric == FabricKind::Tcp {
            group.addresses = group.heard_addresses()?;
            for worker in &mut group.members {
                worker.order(&Order::Peers(group.addresses.clone()))?;
            }
        }
        group.settle(plan)?;
        if plan.fabric == FabricKind::Tcp && plan.part == Part::Member {
            let addresses = std::mem::take(&mut group.addresses);
            for me in 0..plan.members {
                let mut sentinel = Worker::start(launcher, &spec(me, Part::Sentinel))?;
                sentinel.order(&Order::Peers(addresses.clone()))?;
                group.sentinels.push(sentinel);
            }
        }
        Ok(group)
    }

    fn heard_addresses(&mut self) -> Result<Vec<SocketAddr>, Error> {
        self.members
            .iter_mut()
            .map(|worker| match worker.answer(PATIENCE)? {
                Answer::Listening(address) => Ok(address),
                other => {
                    let cause = format!("it said {other:?} instead of where it listens");
                    Err(worker.child.failed(cause))
                }
            })
            .collect()
    }

    fn settle(&mut self, plan: &Plan<'_>) -> Result<(), Error> {
        let until = Instant::now() + PATIENCE;
        let (mut led_by, mut led_since) = (None, Instant::now());
        loop {
            let linked = self.members.iter().all(|worker| worker.links + 1 == plan.members);
            let leader = self.leader();
            if leader != led_by {
                (led_by, led_since) = (leader, Instant::now());
            }
            // Members that start at different moments may first trust different leaders.
            let led = leader.is_some() && led_since.elapsed() >= LASTING;
            if linked && (led || plan.part != Part::Member) {
                return Ok(());
            }
            if Instant::now() >= until {
                return Err(Error::late("the group did not come together", PATIENCE));
            }
            for worker in &mut self.members {
                worker.hear(Duration::from_millis(1))?;
            }
        }
    }

    /// Takes in the members' statuses.
    ///
    /// # Errors
    /// A member failed.
    pub fn catch_up(&mut self) -> Result<(), Error> {
        for worker in &mut self.members {
            while worker.hear(Duration::ZERO)?.is_some() {}
        }
        Ok(())
    }

    /// The leader, if exactly one member reports that it leads.
    pub fn leader(&self) -> Option<usize> {
        let mut leaders = (0..self.members.len()).filter(|at| self.members[*at].leads);
        leaders.next().filter(|_| leaders.next().is_none())
    }

    /// The directory of its files.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }
}
