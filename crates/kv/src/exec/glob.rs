//! Patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`, byte by byte as Redis matches.

/// Whether all of `text` matches `pattern`. The time is at most the product of the lengths: after a
/// mismatch only the last `*` takes one more byte, since an earlier one could not do better.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let mut left = usize::MAX;
    matches_within(pattern, text, &mut left).expect("no product of lengths is as large")
}

/// The same, with at most `left` comparisons, of which those that were made are taken; `None` if
/// there are too few. A class counts as its length.
pub(super) fn matches_within(pattern: &[u8], text: &[u8], left: &mut usize) -> Option<bool> {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            if p == pattern.len() {
                return Some(true);
            }
            star = Some((p, t));
            continue;
        }
        let (step, cost) = match (pattern.get(p), text.get(t)) {
            (None, None) => return Some(true),
            (Some(b'['), Some(&byte)) => {
                let (used, found) = in_class(&pattern[p + 1..], byte);
                (found.then_some(used + 1), used + 1)
            }
            (Some(_), Some(&byte)) => (one(&pattern[p..], byte), 1),
            (None, Some(_)) | (Some(_), None) => (None, 1),
        };
        *left = left.checked_sub(cost)?;
        match (step, &mut star) {
            (Some(used), _) => {
                p += used;
                t += 1;
            }
            (None, Some((after, from))) if *from < text.len() => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            (None, _) => return Some(false),
        }
    }
}

/// The length of the first element of `pattern`, if it matches `byte`. `pattern` is not empty, and
/// begins with no class.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'\\', escaped, ..] => (*escaped == byte).then_some(2),
        [literal, ..] => (*literal == byte).then_some(1),
        [] => None,
    }
}

/// The length of a class after its `[`, and whether `byte` is in it. A class without `]` ends with
/// the pattern.
fn in_class(class: &[u8], byte: u8) -> (usize, bool) {
    let negated = class.first() == Some(&b'^');
    let mut at = usize::from(negated);
    let mut found = false;
    loop {
        match class[at..] {
            [] => return (at, found != negated),
            [b'\\', escaped, ..] => {
                found |= escaped == byte;
                at += 2;
            }
            [b']', ..] => return (at + 1, found != negated),
            [low, b'-', high, ..] => {
                found |= (low.min(high)..=low.max(high)).contains(&byte);
                at += 3;
            }
            [literal, ..] => {
                found |= literal == byte;
                at += 1;
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patterns() {
        for (pattern, text, expected) in [
            ("", "", true),
            ("", "a", false),
            ("*", "", true),
            ("*", "anything", true),
            ("a*c", "abbbc", true),
            ("a*c", "abbbd", false),
            ("*a*b*", "xxaxxbxx", true),
            ("*a*b", "ab", true),
            ("*ab*ab", "abxab", true),
            ("*ab*ab", "ab", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("h[ae]llo", "hallo", true),
            ("h[ae]llo", "hillo", false),
            ("h[^e]llo", "hallo", true),
            ("h[^e]llo", "hello", false),
            ("h[a-b]llo", "hbllo", true),
            ("h[b-a]llo", "hallo", true),
            ("h[a-b]llo", "hcllo", false),
            ("\\*", "*", true),
            ("\\*", "a", false),
            ("a\\", "a\\", true),
            ("[\\]]", "]", true),
            ("[abc", "c", true),
            ("[", "a", false),
            ("[a-]", "-", false),
            ("**", "abc", true),
            ("ab*", "ab", true),
            ("ab*", "a", false),
            ("*b*", "abc", true),
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn comparisons_are_counted_and_bounded() {
        let count = |pattern: &str, text: &str| {
            let mut left = 100;
            matches_within(pattern.as_bytes(), text.as_bytes(), &mut left).map(|_| 100 - left)
        };
        assert_eq!(count("user:*", &"user:".repeat(1000)), Some(5), "the rest is not looked at");
        assert_eq!(count("user:*", "other"), Some(1));
        assert_eq!(count("[abcdef]x", "fx"), Some(9), "a class is walked");
        assert_eq!(count("*aaaaaaaab", &"a".repeat(20)), None);
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), &[b'a'; 4000]));
    }
}
