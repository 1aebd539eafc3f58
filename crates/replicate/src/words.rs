//! Words of 64 bits as bytes: the form in which the ground of a state is moved.

/// Appends words.
pub(crate) fn put(out: &mut Vec<u8>, words: &[u64]) {
    words.iter().for_each(|word| out.extend_from_slice(&word.to_le_bytes()));
}

/// Takes the next word off `rest`.
pub(crate) fn take(rest: &mut &[u8]) -> Option<u64> {
    let (word, left) = rest.split_first_chunk()?;
    *rest = left;
    Some(u64::from_le_bytes(*word))
}

/// Takes the next words off `rest`.
pub(crate) fn take_all<const N: usize>(rest: &mut &[u8]) -> Option<[u64; N]> {
    let mut words = [0; N];
    for word in &mut words {
        *word = take(rest)?;
    }
    Some(words)
}
