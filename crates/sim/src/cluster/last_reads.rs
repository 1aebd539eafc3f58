//! The last reads of a run: every key, at every seated member, when all is well (the world's I5).
//!
//! - L1 A planned read is left, or under way, until it is answered: an interrupted one is left
//!   again. By construction: [`LastReads::begin`] and [`LastReads::interrupt`] move reads between
//!   the two, and only [`LastReads::finish`] drops any.
//! - L2 A client asks for [`READS_MAX`] keys at once. Where connections are closed again and again
//!   for checkpoints, it has some answers of each.

/// See L2.
const READS_MAX: usize = 64;

/// A key, and the member that is to be asked for it.
type Read = (usize, Vec<u8>);

/// The reads that clients still have to make.
#[derive(Debug)]
pub(super) struct LastReads {
    /// The lists that clients appended to.
    lists: Vec<Vec<u8>>,
    /// By client; the reads of one member follow each other.
    left: Vec<Vec<Read>>,
    under_way: Vec<Vec<Read>>,
}

impl LastReads {
    pub(super) fn new(n_clients: usize) -> LastReads {
        let none = vec![Vec::new(); n_clients];
        LastReads { lists: Vec::new(), left: none.clone(), under_way: none }
    }

    /// Notes a list that a client appends to from now on.
    pub(super) fn add_list(&mut self, list: Vec<u8>) {
        self.lists.push(list);
    }

    /// Plans the reads of these keys and of every list, at these members.
    pub(super) fn plan(&mut self, mut keys: Vec<Vec<u8>>, members: impl Iterator<Item = usize>) {
        keys.extend(self.lists.iter().cloned());
        let n_clients = self.left.len();
        self.left.iter_mut().for_each(Vec::clear);
        for member in members {
            let here = keys.iter().map(|key| (member, key.clone()));
            self.left[member % n_clients].extend(here);
        }
    }

    /// The number of reads that `client` still has to make.
    pub(super) fn n_left(&self, client: usize) -> usize {
        self.left[client].len() + self.under_way[client].len()
    }

    /// The member that `client` has to ask next.
    pub(super) fn next_member(&self, client: usize) -> Option<usize> {
        self.left[client].last().map(|(member, _)| *member)
    }

    /// Begins reads of `client` at its next member; the result is their keys.
    pub(super) fn begin(&mut self, client: usize) -> Vec<Vec<u8>> {
        let left = &mut self.left[client];
        let next = left.last().map(|(member, _)| *member);
        let is_elsewhere = |(member, _): &Read| Some(*member) != next;
        let from = left.iter().rposition(is_elsewhere).map_or(0, |at| at + 1);
        let from = from.max(left.len().saturating_sub(READS_MAX));
        self.under_way[client] = left.drain(from..).collect();
        self.under_way[client].iter().map(|(_, key)| key.clone()).collect()
    }

    /// Notes that all of the reads under way of `client` are answered.
    pub(super) fn finish(&mut self, client: usize) {
        self.under_way[client].clear();
    }

    /// Notes that the client was interrupted: its reads are repeated.
    pub(super) fn interrupt(&mut self, client: usize) {
        let mut again = std::mem::take(&mut self.under_way[client]);
        self.left[client].append(&mut again);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn l1_a_read_that_is_interrupted_is_made_again() {
        let mut reads = LastReads::new(2);
        reads.add_list(b"list".to_vec());
        reads.plan(vec![b"key".to_vec()], [0, 1, 2].into_iter());
        assert_eq!((reads.n_left(0), reads.n_left(1)), (4, 2));
        assert_eq!(reads.next_member(0), Some(2), "two members ask the first client");
        assert_eq!(reads.begin(0), [b"key".to_vec(), b"list".to_vec()]);
        assert_eq!((reads.n_left(0), reads.next_member(0)), (4, Some(0)));
        reads.interrupt(0);
        assert_eq!(reads.next_member(0), Some(2));
        assert_eq!(reads.begin(0).len(), 2);
        reads.finish(0);
        assert_eq!((reads.n_left(0), reads.next_member(0)), (2, Some(0)));
    }

    #[test]
    fn l2_many_reads_are_made_in_pieces() {
        let mut reads = LastReads::new(1);
        reads.plan(vec![b"key".to_vec(); READS_MAX + 1], [0].into_iter());
        for left in [READS_MAX + 1, 1] {
            assert_eq!(reads.n_left(0), left);
            assert_eq!(reads.begin(0).len(), left.min(READS_MAX));
            reads.finish(0);
        }
        assert_eq!((reads.n_left(0), reads.next_member(0)), (0, None));
    }
}
