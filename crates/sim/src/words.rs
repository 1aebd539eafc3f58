//! A queue of words, those in front side by side.
//!
//! - I1 No room is lost: after a push, at least half of the words that are kept wait. Taken words
//!   make room as soon as they are the greater part.

/// Replaces `words` by those that hold the bytes of a message.
pub(crate) fn words_of(message: &[u8], words: &mut Vec<u64>) {
    words.clear();
    let (whole, rest) = message.as_chunks::<8>();
    words.extend(whole.iter().map(|word| u64::from_le_bytes(*word)));
    if !rest.is_empty() {
        let mut word = [0; 8];
        word[..rest.len()].copy_from_slice(rest);
        words.push(u64::from_le_bytes(word));
    }
}

/// A queue of words.
#[derive(Default)]
pub(crate) struct Words {
    words: Vec<u64>,
    /// The number of words that were taken.
    n_taken: usize,
}

impl Words {
    /// Puts `words` at the end.
    #[inline]
    pub(crate) fn push(&mut self, words: &[u64]) {
        if words.is_empty() {
            return;
        }
        if 2 * self.n_taken > self.words.len() {
            self.words.copy_within(self.n_taken.., 0);
            self.words.truncate(self.words.len() - self.n_taken);
            self.n_taken = 0;
        }
        self.words.extend_from_slice(words);
    }

    /// The `n` words in front.
    #[inline]
    pub(crate) fn first(&self, n: usize) -> &[u64] {
        &self.words[self.n_taken..][..n]
    }

    /// Removes the `n` words in front.
    #[inline]
    pub(crate) fn take(&mut self, n: usize) {
        self.n_taken += n;
        assert!(self.n_taken <= self.words.len(), "{n} words were not there");
    }

    /// Keeps the `n` words in front.
    pub(crate) fn truncate(&mut self, n: usize) {
        self.words.truncate(self.n_taken + n);
    }

    pub(crate) fn clear(&mut self) {
        self.words.clear();
        self.n_taken = 0;
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::VecDeque;

    #[test]
    fn i1_words_come_out_as_they_went_in_and_the_room_is_used_again() {
        let mut rng = base::Rng::new(9);
        let (mut words, mut twin) = (Words::default(), VecDeque::<u64>::new());
        for n in 0..10_000 {
            let pushed: Vec<u64> = (0..rng.below(6)).map(|word| 10 * n + word).collect();
            words.push(&pushed);
            twin.extend(&pushed);
            assert!(pushed.is_empty() || words.words.len() <= 2 * twin.len());
            if rng.chance(1, 50) {
                let kept = rng.below(twin.len() as u64 + 1) as usize;
                words.truncate(kept);
                twin.truncate(kept);
            }
            let taken = rng.below(twin.len().min(8) as u64 + 1) as usize;
            assert!(twin.iter().take(taken).eq(words.first(taken)));
            words.take(taken);
            twin.drain(..taken);
        }
        words.clear();
        assert!(words.first(0).is_empty());
    }
}
