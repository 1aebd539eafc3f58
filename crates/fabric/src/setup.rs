//! The arguments with which a provider opens one member's end of a group, and the reasons to
//! refuse.

use base::{FABRIC_SEATS_MAX, Incarnation, Rank};
use hmac::{Hmac, Mac};
use region::{Identity, Shape};
use sha2::Sha256;
use std::fmt;
use std::io;
use std::path::PathBuf;

/// The longest name of a cluster, in bytes.
pub const CLUSTER_NAME_BYTES_MAX: usize = 64;

/// A member's place in its group.
#[derive(Clone)]
pub struct Setup {
    /// The cluster's name.
    pub cluster: String,
    /// The secret that only the members know.
    pub secret: Vec<u8>,
    /// The member's rank.
    pub me: Rank,
    /// The number of members.
    pub members: usize,
    /// The incarnation of this member's memory.
    pub incarnation: Incarnation,
    /// The directory of the regions: on tmpfs, the same for all members of one host.
    pub directory: PathBuf,
    /// The fingerprint of the protocol and its parameters.
    pub layout: u64,
    /// The version of the rules by which members act on each other's words and messages, apart from
    /// their settings: members of different versions refuse each other.
    pub rules: u64,
    /// Words of the protocol in each region.
    pub n_words: u32,
}

impl Setup {
    /// The default directory of the regions of `cluster`.
    pub fn default_directory(cluster: &str) -> PathBuf {
        PathBuf::from("/dev/shm").join(format!("gregale-{cluster}"))
    }

    /// Refuses settings that no provider can open.
    ///
    /// # Errors
    /// [`OpenError::Setup`], naming the field.
    pub fn validate(&self) -> Result<(), OpenError> {
        let plain = |c: char| c.is_ascii_alphanumeric() || "-_.".contains(c);
        let name = &self.cluster;
        let wrong = if name.is_empty() || name.len() > CLUSTER_NAME_BYTES_MAX {
            format!("the cluster's name has {} bytes: give it 1 to 64", name.len())
        } else if !name.chars().all(plain) || name.starts_with('.') {
            format!("the cluster's name {name:?} is no plain word: use letters, digits, - _ .")
        } else if self.members == 0 || self.members > FABRIC_SEATS_MAX {
            format!("a group of {}: it can have 1 to {FABRIC_SEATS_MAX} members", self.members)
        } else if self.me.index() >= self.members {
            format!("member {} of a group of {}", self.me.member(), self.members)
        } else if self.incarnation.0 == 0 {
            "incarnation 0: incarnations count from 1".to_owned()
        } else if self.n_words == 0 {
            "a region of no words: the protocol must say how many it needs".to_owned()
        } else {
            return Ok(());
        };
        Err(OpenError::Setup(wrong))
    }

    /// A number that is the same for two members exactly if they have the same cluster name and
    /// secret.
    pub fn cluster_fingerprint(&self) -> u64 {
        // The hash is keyed, so that it binds the name to the secret, and reveals neither.
        let mac = <Hmac<Sha256> as Mac>::new_from_slice(&self.secret);
        let mut mac = mac.expect("HMAC takes keys of any length");
        mac.update(b"gregale region 1\0");
        mac.update(self.cluster.as_bytes());
        let digest = mac.finalize().into_bytes();
        let (first, _) = digest.split_first_chunk().expect("a SHA-256 has 32 bytes");
        u64::from_le_bytes(*first)
    }

    /// A number that differs if the layout or the rules do, for peers that compare one number. It
    /// is the layout itself under rules 0.
    pub(crate) fn agreement(&self) -> u64 {
        self.layout ^ self.rules.wrapping_mul(0x9e37_79b9_7f4a_7c15) // odd: no two rules are alike
    }

    /// The identity of the region of `rank`; `incarnation` matters only for the member's own one.
    pub fn identity_of(&self, rank: Rank, ring_words: u32) -> Identity {
        Identity {
            cluster: self.cluster_fingerprint(),
            node: rank.member(),
            incarnation: (rank == self.me).then_some(self.incarnation),
            layout: self.layout,
            rules: self.rules,
            shape: Shape { n_seats: self.members, n_words: self.n_words, ring_words },
        }
    }
}

/// Omits the secret.
impl fmt::Debug for Setup {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Setup")
            .field("cluster", &self.cluster)
            .field("me", &self.me)
            .field("members", &self.members)
            .field("incarnation", &self.incarnation)
            .field("directory", &self.directory)
            .field("layout", &self.layout)
            .field("rules", &self.rules)
            .field("n_words", &self.n_words)
            .finish_non_exhaustive()
    }
}

/// The reason why a provider could not be opened. Everything made on the way has been removed
/// again.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum OpenError {
    /// The settings contradict each other.
    #[error("{0}")]
    Setup(String),
    /// This member's memory is not available: missing, locked, another cluster's, no room, ...
    #[error(transparent)]
    Region(#[from] region::Error),
    /// The operating system refused another operation.
    #[error("cannot {doing}: {source}")]
    Os {
        /// The operation and its arguments.
        doing: String,
        /// The system's answer.
        source: io::Error,
    },
}

impl OpenError {
    /// An error whose `doing` follows the word "cannot".
    pub(crate) fn os(doing: impl Into<String>, source: impl Into<io::Error>) -> OpenError {
        OpenError::Os { doing: doing.into(), source: source.into() }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn setup() -> Setup {
        Setup {
            cluster: "test".into(),
            secret: b"sesame".to_vec(),
            me: Rank::at(0),
            members: 3,
            incarnation: Incarnation(1),
            directory: Setup::default_directory("test"),
            layout: 1,
            rules: 0,
            n_words: 8,
        }
    }

    #[test]
    fn what_contradicts_itself_is_refused_with_its_name() {
        assert!(setup().validate().is_ok());
        let refused = |setup: Setup| setup.validate().unwrap_err().to_string();
        assert!(refused(Setup { cluster: "../x".into(), ..setup() }).contains("plain word"));
        assert!(refused(Setup { cluster: "a/b".into(), ..setup() }).contains("plain word"));
        assert!(refused(Setup { cluster: String::new(), ..setup() }).contains("0 bytes"));
        assert!(refused(Setup { members: 33, ..setup() }).contains("1 to 32"));
        assert!(refused(Setup { me: Rank::at(3), ..setup() }).contains("member 4 of a group of 3"));
        assert!(refused(Setup { incarnation: Incarnation(0), ..setup() }).contains("from 1"));
        assert!(refused(Setup { n_words: 0, ..setup() }).contains("no words"));
    }

    #[test]
    fn a_cluster_is_its_name_and_its_secret() {
        let print = setup().cluster_fingerprint();
        assert_eq!(print, setup().cluster_fingerprint());
        assert_ne!(print, Setup { cluster: "other".into(), ..setup() }.cluster_fingerprint());
        assert_ne!(print, Setup { secret: b"x".to_vec(), ..setup() }.cluster_fingerprint());
    }

    #[test]
    fn members_agree_on_their_layout_and_on_their_rules() {
        assert_eq!(setup().agreement(), setup().layout);
        let of = |layout, rules| Setup { layout, rules, ..setup() }.agreement();
        let all = [of(1, 0), of(2, 0), of(1, 1), of(1, 4), of(1, 5)];
        assert!((0..all.len()).all(|at| !all[..at].contains(&all[at])), "{all:?}");
    }

    #[test]
    fn the_secret_is_never_printed() {
        assert!(!format!("{:?}", setup()).contains("sesame"));
        assert!(!format!("{:?}", setup()).contains("115"));
    }
}
