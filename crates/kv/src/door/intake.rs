//! Where a door lays down what its clients want, and the words in which it hears the outcome.

use base::{Ballot, Instant, MAX_MEMBERS, MemberSet, Prefix, Rank, Slot};
use core::time::Duration;
use proto::Role;
use proto::members::{Change, Configuration};

/// A request without an answer, in the door's own names. They are handed back as they were.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asker {
    /// The client's connection.
    pub connection: u64,
    /// The request, among those of that connection.
    pub request: u64,
}

/// The end of a command.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Answer<'a> {
    /// Executed in this slot, with this reply.
    Executed(Slot, &'a [u8]),
    /// The deadline passed: it was executed, or not, or will be.
    Unknown,
}

/// The end of a read that was not performed on the state that is here.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum ReadAnswer<'a> {
    /// Another member answered it.
    Forwarded(&'a [u8]),
    /// No member could answer in time. A read has no effect, so trying again is safe.
    Unavailable,
}

/// How the replica stands.
#[derive(Clone, Copy, Debug)]
pub struct View {
    /// This member.
    pub me: Rank,
    /// Its role.
    pub role: Role,
    /// Its ballot, or the highest that it knows.
    pub ballot: Ballot,
    /// Every slot below is decided, as far as it knows.
    pub committed: Prefix,
    /// Every slot below is executed here.
    pub applied: Prefix,
    /// The member that it trusts to lead.
    pub trusted: Option<Rank>,
    /// Members that were heard lately.
    pub heard: MemberSet,
    /// What each member is known to have executed.
    pub applied_by: [Prefix; MAX_MEMBERS],
    /// No live member holds the state: it is lost.
    pub data_lost: bool,
    /// The members that take part, if that can change and is known here.
    pub configuration: Option<Configuration>,
}

impl View {
    /// Before the first turn.
    pub fn new(me: Rank) -> View {
        View {
            me,
            role: Role::Learner,
            ballot: Ballot::NONE,
            committed: Prefix::ZERO,
            applied: Prefix::ZERO,
            trusted: None,
            heard: MemberSet::EMPTY,
            applied_by: [Prefix::ZERO; MAX_MEMBERS],
            data_lost: false,
            configuration: None,
        }
    }

    /// Whether clients of this member are answered.
    pub fn serves(&self) -> bool {
        match self.role {
            Role::Leader => true,
            Role::Follower => self.trusted.is_some_and(|leader| self.heard.contains(leader)),
            Role::Candidate | Role::Learner => false,
        }
    }
}

/// Takes the requests of all clients of a member.
///
/// The time and the view are those of the present turn.
pub trait Intake {
    /// This turn's time.
    fn now(&self) -> Instant;

    /// How the replica stands.
    fn view(&self) -> View;

    /// [`View::applied`], which is asked for often.
    fn applied(&self) -> Prefix {
        self.view().applied
    }

    /// [`View::data_lost`], which is asked for with each request.
    fn data_lost(&self) -> bool {
        self.view().data_lost
    }

    /// Whether more may be laid down; if not, clients are not read from in this turn.
    fn has_room(&self) -> bool;

    /// Lays down a command for the log. Its end is [`super::RespClients::answer`].
    fn write(&mut self, asker: Asker, command: &[u8]);

    /// Lays down a read. Its end is [`super::RespDoor::perform`] or
    /// [`super::RespClients::answer_read`].
    fn read(&mut self, asker: Asker);

    /// Lays down a wait until `n` members besides the leader hold `prefix`, or `timeout` is over.
    /// Its end is [`super::RespClients::answer_wait`]. False if there are too many already.
    #[must_use]
    fn wait(&mut self, asker: Asker, prefix: Prefix, n: usize, timeout: Option<Duration>) -> bool;

    /// The client is gone: its waits end without an answer. Its commands take their course.
    fn forget_waits(&mut self, connection: u64);

    /// Lays down a change of the members. Its end is [`super::RespClients::answer_change`]. False
    /// if there are too many already.
    #[must_use]
    fn change(&mut self, asker: Asker, change: Change) -> bool;

    /// The process around the door was told to begin a new incarnation on `rank`.
    fn renew(&mut self, rank: Rank);

    /// The seat whose old incarnation was ended from here and whose new one does not vote yet.
    fn renewing(&self) -> Option<Rank>;

    /// A read was performed, and its answer takes `n_bytes` of what the turn may answer.
    fn charge(&mut self, n_bytes: usize);
}
