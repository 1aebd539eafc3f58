//! A leader that writes what it has decided to a peer has written its ballot there first, on the
//! same link: the reader pairs the two words.
//!
//! Why it matters: a prefix beside an older ballot says that a value of that ballot was decided,
//! and it may have lost. Why no false alarm: a link that breaks loses what was posted, so its
//! poster knows nothing of what stands at the other end until it has written it again; links keep
//! the order of what is posted (T2).
//!
//! - I1 The ballot that was posted last on the link, since it is up, is the newest one that this
//!   process has posted.

use base::At;
use std::fmt;

/// The words of one protocol, and what stands on each link.
#[derive(Default)]
pub(crate) struct Introduced {
    /// The place of the ballot that each node writes; the decided prefix is the word after it.
    places: Vec<At>,
    /// The newest ballot of each process.
    newest: Vec<u64>,
    /// The ballot that was posted on each link since it is up; 0 for none.
    posted: Vec<u64>,
}

impl Introduced {
    /// For nodes that write their ballots to these places.
    pub(crate) fn at(places: Vec<At>) -> Introduced {
        let members = places.len();
        Introduced { places, newest: vec![0; members], posted: vec![0; members * members] }
    }

    /// The process of `node` is another one.
    pub(crate) fn begin(&mut self, node: usize) {
        if let Some(newest) = self.newest.get_mut(node) {
            *newest = 0;
        }
    }

    /// The link is up, and nothing was posted on it.
    pub(crate) fn connect(&mut self, link: usize) {
        if let Some(posted) = self.posted.get_mut(link) {
            *posted = 0;
        }
    }

    /// Notes what `node` writes on `link`, which is up.
    pub(crate) fn note(
        &mut self,
        node: usize,
        link: usize,
        at: At,
        words: &[u64],
    ) -> Result<(), Unmet> {
        let Some(place) = self.places.get(node) else { return Ok(()) };
        let word = |place: At| words.get(place.0.checked_sub(at.0)? as usize).copied();
        if let Some(ballot) = word(*place) {
            self.posted[link] = ballot;
            self.newest[node] = self.newest[node].max(ballot);
        }
        let Some(prefix) = word(place.plus(1)) else { return Ok(()) };
        let (posted, newest) = (self.posted[link], self.newest[node]);
        if posted == newest { Ok(()) } else { Err(Unmet { prefix, posted, newest }) }
    }
}

/// A prefix beside another ballot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Unmet {
    prefix: u64,
    posted: u64,
    newest: u64,
}

impl fmt::Display for Unmet {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Unmet { prefix, posted, newest } = self;
        write!(
            f,
            "prefix {prefix} is written beside ballot {posted:#x}, and was decided by {newest:#x}"
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn i1_a_ballot_is_written_again_on_each_link_and_in_each_term() {
        let mut introduced = Introduced::at(vec![At(8), At(16)]);
        let mut note = |at, words: &[u64]| introduced.note(0, 1, At(at), words);
        assert!(note(8, &[5]).is_ok() && note(9, &[1]).is_ok() && note(9, &[2]).is_ok());
        assert!(note(16, &[7, 7]).is_ok(), "words of another node");
        introduced.connect(1);
        assert!(introduced.note(0, 1, At(9), &[3]).is_err(), "nothing stands there for sure");
        assert!(introduced.note(0, 1, At(8), &[5, 3]).is_ok(), "both at once");
        assert!(introduced.note(0, 0, At(8), &[6]).is_ok(), "another link");
        assert!(introduced.note(0, 1, At(9), &[4]).is_err(), "that of an earlier term");
        introduced.begin(0);
        introduced.connect(1);
        assert!(introduced.note(0, 1, At(8), &[2]).is_ok());
        assert!(introduced.note(0, 1, At(9), &[4]).is_ok());
        assert!(Introduced::default().note(0, 1, At(9), &[4]).is_ok(), "no such words");
    }
}
