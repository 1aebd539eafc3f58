//! Integers as Redis reads them: strictly, so that every integer has one spelling.

/// The integer that `text` spells: only a leading `-` as a sign, no leading zero, no space, in
/// range.
pub(crate) fn parse(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', digits @ ..] => (true, digits),
        digits => (false, digits),
    };
    match digits {
        [b'0'] if !negative => return Some(0),
        [b'1'..=b'9', ..] if digits.len() <= 19 => {}
        _ => return None,
    }
    // Nineteen digits fit a u64, so only the last step can leave the range of an i64.
    let mut magnitude = 0u64;
    for &digit in digits {
        if !digit.is_ascii_digit() {
            return None;
        }
        magnitude = magnitude * 10 + u64::from(digit - b'0');
    }
    if negative { 0i64.checked_sub_unsigned(magnitude) } else { i64::try_from(magnitude).ok() }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn one_spelling_each() {
        for (text, value) in [
            ("0", Some(0)),
            ("-1", Some(-1)),
            ("9223372036854775807", Some(i64::MAX)),
            ("-9223372036854775808", Some(i64::MIN)),
            ("9223372036854775808", None),
            ("-9223372036854775809", None),
            ("99999999999999999999", None),
            ("", None),
            ("-", None),
            ("-0", None),
            ("+1", None),
            ("01", None),
            (" 1", None),
            ("1 ", None),
            ("1x", None),
            ("0x1", None),
        ] {
            assert_eq!(parse(text.as_bytes()), value, "{text:?}");
        }
    }

    proptest! {
        #[test]
        fn exactly_what_rust_prints(value: i64, text in "-?[0-9]{0,21}") {
            prop_assert_eq!(parse(value.to_string().as_bytes()), Some(value));
            let strict = text.parse::<i64>().ok().filter(|value| value.to_string() == text);
            prop_assert_eq!(parse(text.as_bytes()), strict);
        }
    }
}
