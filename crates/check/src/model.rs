//! The effect of one command on one key: the reference for the rest of this crate.
//!
//! It is plain on purpose. The search works on numbered values for speed; whatever order it finds
//! is replayed here before it is reported, and the brute-force twin in the tests knows only this.

use crate::{Action, Reply};

/// Executes `action` on `value`; `None` is the absence of a value.
pub fn apply(action: &Action, value: &mut Option<Vec<u8>>) -> Reply {
    match action {
        Action::Get => Reply::Value(value.clone()),
        Action::Set(new) => {
            *value = Some(new.clone());
            Reply::Ok
        }
        Action::Swap(new) => Reply::Value(value.replace(new.clone())),
        Action::Cas { expect, value: new } => {
            let equal = value == expect;
            if equal {
                *value = Some(new.clone());
            }
            Reply::Done(equal)
        }
        Action::Append(tail) => {
            let whole = value.get_or_insert_default();
            whole.extend_from_slice(tail);
            Reply::Number(whole.len() as i64)
        }
        Action::Incr(by) => {
            let sum = number(value.as_deref()).and_then(|number| number.checked_add(*by));
            match sum {
                Some(sum) => {
                    *value = Some(decimal(sum));
                    Reply::Number(sum)
                }
                None => Reply::Refused,
            }
        }
        Action::Delete => Reply::Done(value.take().is_some()),
    }
}

/// The number that a value is, as Redis reads it: an optional minus, no leading zero, no plus, no
/// blank, within 64 bits. No value counts as 0.
pub(crate) fn number(value: Option<&[u8]>) -> Option<i64> {
    let Some(value) = value else { return Some(0) };
    match value.strip_prefix(b"-").unwrap_or(value) {
        [b'0'] if value.len() == 1 => Some(0),
        [b'1'..=b'9', ..] => std::str::from_utf8(value).ok()?.parse().ok(),
        _ => None,
    }
}

fn decimal(number: i64) -> Vec<u8> {
    number.to_string().into_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_canonical_numbers_count_up() {
        assert_eq!(number(None), Some(0));
        assert_eq!(number(Some(b"0")), Some(0));
        assert_eq!(number(Some(b"-12")), Some(-12));
        assert_eq!(number(Some(b"-9223372036854775808")), Some(i64::MIN));
        for wrong in [
            "",
            "-",
            "--1",
            "1-",
            "00",
            "-01",
            "+1",
            "01",
            "-0",
            " 1",
            "1 ",
            "1.0",
            "9223372036854775808",
        ] {
            assert_eq!(number(Some(wrong.as_bytes())), None, "{wrong:?}");
        }
    }

    #[test]
    fn a_refused_command_changes_nothing() {
        let mut value = Some(b"9223372036854775807".to_vec());
        assert_eq!(apply(&Action::Incr(1), &mut value), Reply::Refused);
        assert_eq!(value, Some(b"9223372036854775807".to_vec()));
        let cas = Action::Cas { expect: None, value: b"x".to_vec() };
        assert_eq!(apply(&cas, &mut value), Reply::Done(false));
        assert_eq!(value, Some(b"9223372036854775807".to_vec()));
    }

    #[test]
    fn the_absence_of_a_value_is_empty_to_append_and_zero_to_incr() {
        let mut value = None;
        assert_eq!(apply(&Action::Append(b"ab".to_vec()), &mut value), Reply::Number(2));
        assert_eq!(apply(&Action::Delete, &mut value), Reply::Done(true));
        assert_eq!(apply(&Action::Incr(-3), &mut value), Reply::Number(-3));
        assert_eq!(apply(&Action::Get, &mut value), Reply::Value(Some(b"-3".to_vec())));
    }
}
