//! Patterns of KEYS and SCAN: `*`, `?`, `[a-z]`, `[^a-z]`, `\x`, byte by byte as Redis matches.

/// Whether all of `text` matches `pattern`. The time is at most the product of the lengths: after a
/// mismatch only the last `*` takes one more byte, since an earlier one could not do better.
pub(crate) fn matches(pattern: &[u8], text: &[u8]) -> bool {
    let (mut p, mut t) = (0, 0);
    let mut star: Option<(usize, usize)> = None;
    loop {
        if pattern.get(p) == Some(&b'*') {
            p += 1;
            star = Some((p, t));
            continue;
        }
        let step = match (pattern.get(p), text.get(t)) {
            (None, None) => return true,
            (Some(_), Some(&byte)) => one(&pattern[p..], byte),
            (None, Some(_)) | (Some(_), None) => None,
        };
        match (step, &mut star) {
            (Some(used), _) => {
                p += used;
                t += 1;
            }
            (None, Some((after, from))) if *from < text.len() => {
                *from += 1;
                (p, t) = (*after, *from);
            }
            (None, _) => return false,
        }
    }
}

/// The length of the first element of `pattern`, if it matches `byte`. `pattern` is not empty.
fn one(pattern: &[u8], byte: u8) -> Option<usize> {
    match pattern {
        [b'?', ..] => Some(1),
        [b'[', class @ ..] => {
            let (used, found) = in_class(class, byte);
            found.then_some(used + 1)
        }
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
        ] {
            assert_eq!(matches(pattern.as_bytes(), text.as_bytes()), expected, "{pattern} {text}");
        }
    }

    #[test]
    fn many_stars_do_not_explode() {
        let pattern = "*a".repeat(200) + "b";
        assert!(!matches(pattern.as_bytes(), &[b'a'; 4000]));
    }
}
