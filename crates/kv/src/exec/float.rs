//! The floats of INCRBYFLOAT: x86's 80-bit extended format, which Redis uses there, computed with
//! exact integers so that every machine gives the same digits.
//!
//! Redis reads with `strtold`, adds, and prints 17 digits after the point without trailing zeros.
//! Each of the three steps is exact here but for its one rounding (to nearest, ties to even), as
//! in the hardware and the C library: `0.1 + 0.2` is `0.3`, and the oracle test compares thousands.

use std::cmp::Ordering;
use std::fmt;

use num_bigint::{BigInt, BigUint, Sign};

/// Bits of the significand.
const MANTISSA_BITS: i64 = 64;

/// The exponent of the last bit of the smallest numbers.
const EXPONENT_MIN: i64 = -16_445;

/// The number of bits before the point at which numbers are infinite.
const INTEGER_BITS_MAX: i64 = 16_384;

/// The longest text that Redis reads as a float.
pub(super) const TEXT_BYTES_MAX: usize = 5 * 1024;

/// The decimal exponent above which every number is infinite, or below whose negative it is zero.
const DECIMAL_MAGNITUDE_MAX: i64 = 4_960;

/// The largest exponent that is told from larger ones. All texts with it are out of range, and sums
/// with the number of a text's digits stay far from the limits of integers.
const EXPONENT_MAX: i64 = 1 << 32;

/// Digits that Redis prints after the point.
const FRACTION_DIGITS: usize = 17;

/// A number of the extended format.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Extended {
    /// `mantissa * 2^exponent`.
    Finite {
        /// Whether the number is negative, or minus zero.
        negative: bool,
        /// The significant bits.
        mantissa: u64,
        /// The exponent of the mantissa's last bit.
        exponent: i64,
    },
    /// An infinity: it can be read, but no sum with it is answered.
    Infinite,
}

impl Extended {
    /// The number that `text` spells as C reads it, all of it; `None` for anything else, for NaN
    /// and for what is too large or too small to be represented.
    pub(crate) fn parse(text: &[u8]) -> Option<Extended> {
        if text.is_empty() || text.len() >= TEXT_BYTES_MAX {
            return None;
        }
        let (negative, text) = match text {
            [b'-', rest @ ..] => (true, rest),
            [b'+', rest @ ..] => (false, rest),
            rest => (false, rest),
        };
        if text.eq_ignore_ascii_case(b"inf") || text.eq_ignore_ascii_case(b"infinity") {
            return Some(Extended::Infinite);
        }
        let (radix, text) = match text {
            [b'0', b'x' | b'X', rest @ ..] => (16, rest),
            rest => (10, rest),
        };
        let (digits, fraction_digits, exponent) = split(text, radix)?;
        let number = BigUint::parse_bytes(&digits, radix)?;
        if number == BigUint::ZERO {
            return Some(Extended::Finite { negative, mantissa: 0, exponent: 0 });
        }
        let found = if radix == 16 {
            let exponent = exponent - 4 * fraction_digits;
            if exponent.abs() > 4 * INTEGER_BITS_MAX {
                return None;
            }
            round(negative, &number, exponent, false)
        } else {
            from_decimal(negative, &number, exponent - fraction_digits)?
        };
        match found {
            Extended::Finite { mantissa: 1.., .. } => Some(found),
            // The C library reports a range error.
            Extended::Finite { mantissa: 0, .. } | Extended::Infinite => None,
        }
    }

    /// The sum, rounded once; `None` when it is not a finite number.
    pub(crate) fn add(&self, other: &Extended) -> Option<Extended> {
        let (Extended::Finite { exponent: a, .. }, Extended::Finite { exponent: b, .. }) =
            (*self, *other)
        else {
            return None;
        };
        let exponent = a.min(b);
        let sum = self.scaled(exponent) + other.scaled(exponent);
        let rounded = round(sum.sign() == Sign::Minus, sum.magnitude(), exponent, false);
        matches!(rounded, Extended::Finite { .. }).then_some(rounded)
    }

    /// The number in units of `2^exponent`, which is not above its own exponent.
    fn scaled(&self, unit: i64) -> BigInt {
        match *self {
            Extended::Finite { negative, mantissa, exponent } => {
                let magnitude = BigInt::from(mantissa) << (exponent - unit).unsigned_abs();
                if negative { -magnitude } else { magnitude }
            }
            Extended::Infinite => BigInt::ZERO,
        }
    }
}

/// Parses `digits[.digits][e[+-]digits]`, or `p` in radix 16: all digits, the number of digits
/// after the point, and the exponent.
fn split(text: &[u8], radix: u32) -> Option<(Vec<u8>, i64, i64)> {
    let mark = if radix == 16 { b'p' } else { b'e' };
    let mantissa_end = text.iter().position(|byte| byte.to_ascii_lowercase() == mark);
    let (mantissa, exponent) = match mantissa_end {
        Some(at) => (&text[..at], parse_exponent(&text[at + 1..])?),
        None => (text, 0),
    };
    let point = mantissa.iter().position(|&byte| byte == b'.');
    let fraction_digits = point.map_or(0, |at| mantissa.len() - at - 1);
    let mut digits = mantissa.to_vec();
    if let Some(at) = point {
        digits.remove(at);
    }
    let is_digit = |byte: &u8| (*byte as char).is_digit(radix);
    (!digits.is_empty() && digits.iter().all(is_digit)).then_some((
        digits,
        fraction_digits as i64,
        exponent,
    ))
}

fn parse_exponent(text: &[u8]) -> Option<i64> {
    let (negative, digits) = match text {
        [b'-', rest @ ..] => (true, rest),
        [b'+', rest @ ..] => (false, rest),
        rest => (false, rest),
    };
    if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
        return None;
    }
    // A long exponent is far out of range, so its exact value does not matter.
    let magnitude = digits
        .iter()
        .fold(0i64, |value, digit| (value * 10 + i64::from(digit - b'0')).min(EXPONENT_MAX));
    Some(if negative { -magnitude } else { magnitude })
}

/// `number * 10^exponent`, rounded once; `None` when it is far out of range.
fn from_decimal(negative: bool, number: &BigUint, exponent: i64) -> Option<Extended> {
    // 0.30103 is just above the decimal logarithm of 2.
    let magnitude = number.bits() as i64 * 30_103 / 100_000 + exponent;
    if magnitude.abs() > DECIMAL_MAGNITUDE_MAX {
        return None;
    }
    let power = |exponent: u64| BigUint::from(10u32).pow(exponent as u32);
    if exponent >= 0 {
        return Some(round(negative, &(number * power(exponent.unsigned_abs())), 0, false));
    }
    let divisor = power(exponent.unsigned_abs());
    // Enough bits in the quotient that its remainder is below the rounding position.
    let wanted = divisor.bits() + MANTISSA_BITS as u64 + 2;
    let shift = wanted.saturating_sub(number.bits());
    let scaled = number << shift;
    let quotient = &scaled / &divisor;
    let inexact = &quotient * &divisor != scaled;
    Some(round(negative, &quotient, -(shift as i64), inexact))
}

/// `number * 2^exponent`, or a little more if `inexact`, as the nearest number of the format.
fn round(negative: bool, number: &BigUint, exponent: i64, inexact: bool) -> Extended {
    let excess = number.bits() as i64 - MANTISSA_BITS;
    let shift = excess.max(EXPONENT_MIN - exponent).max(0).unsigned_abs();
    let (kept, up) = divide_by_power(number, shift, inexact);
    let kept = if up { kept + 1u32 } else { kept };
    // Rounding up may have carried into a 65th bit; then the last bit is zero.
    let carry = u64::from(kept.bits() > MANTISSA_BITS as u64);
    let exponent = exponent + (shift + carry) as i64;
    let mantissa = u64::try_from(kept >> carry).expect("rounded to 64 bits");
    let bits = i64::from(u64::BITS - mantissa.leading_zeros());
    if mantissa != 0 && bits + exponent > INTEGER_BITS_MAX {
        return Extended::Infinite;
    }
    Extended::Finite { negative, mantissa, exponent }
}

/// `number / 2^shift` rounded down, and whether rounding to the nearest, ties to even, adds one.
fn divide_by_power(number: &BigUint, shift: u64, inexact: bool) -> (BigUint, bool) {
    if shift == 0 {
        return (number.clone(), false);
    }
    let kept = number >> shift;
    let rest = number - (&kept << shift);
    let half = BigUint::from(1u32) << (shift - 1);
    let up = match rest.cmp(&half) {
        Ordering::Less => false,
        Ordering::Equal => inexact || kept.bit(0),
        Ordering::Greater => true,
    };
    (kept, up)
}

impl fmt::Display for Extended {
    /// `%.17Lf` without trailing zeros, and without the sign of a zero.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Extended::Finite { negative, mantissa, exponent } = *self else {
            return f.write_str("inf");
        };
        let number = BigUint::from(mantissa) * BigUint::from(10u32).pow(FRACTION_DIGITS as u32);
        let scaled = if exponent >= 0 {
            number << exponent.unsigned_abs()
        } else {
            let (down, up) = divide_by_power(&number, exponent.unsigned_abs(), false);
            if up { down + 1u32 } else { down }
        };
        let digits = format!("{scaled:0>width$}", scaled = scaled.to_string(), width = 18);
        let (integer, fraction) = digits.split_at(digits.len() - FRACTION_DIGITS);
        let fraction = fraction.trim_end_matches('0');
        if negative && scaled != BigUint::ZERO {
            f.write_str("-")?;
        }
        f.write_str(integer)?;
        if fraction.is_empty() { Ok(()) } else { write!(f, ".{fraction}") }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sum(a: &str, b: &str) -> Option<String> {
        let (a, b) = (Extended::parse(a.as_bytes())?, Extended::parse(b.as_bytes())?);
        a.add(&b).map(|sum| sum.to_string())
    }

    #[test]
    fn sums() {
        for (a, b, expected) in [
            ("0.1", "0.2", "0.3"),
            ("10.50", "0.1", "10.6"),
            ("5.0e3", "2.0e2", "5200"),
            ("3", "-5", "-2"),
            ("1e19", "1", "10000000000000000001"),
            ("0x10", "0x.8p1", "17"),
            ("-0", "0", "0"),
            ("-1e-30", "0", "0"),
            ("1e4932", "0", &("1".to_owned() + &"0".repeat(4932))[..20]),
        ] {
            let sum = sum(a, b).unwrap();
            if a == "1e4932" {
                assert!(sum.starts_with("1000000000000000000") || sum.starts_with("9999"), "{sum}");
                assert!(sum.len() >= 4932);
            } else {
                assert_eq!(sum, expected, "{a} + {b}");
            }
        }
        assert_eq!(sum("1.1e4932", "1.1e4932"), None, "a sum that overflows");
        assert_eq!(sum("inf", "1"), None);
    }

    #[test]
    fn what_is_not_a_number() {
        for text in [
            "",
            " 1",
            "1 ",
            "+",
            "-",
            ".",
            "e5",
            "1e",
            "1e+",
            "0x",
            "0xg",
            "nan",
            "NAN(1)",
            "--1",
            "1.2.3",
            "1e5000",
            "1e-5000",
            "abc",
            "1\0",
            "0x1p",
            "1e99999999999999999999",
            // The exponent and the digits after the point are below the smallest integer together.
            "0x.1p-9999999999999999999",
            "0.1e-9999999999999999999",
            "0.5e-9223372036854775807",
            "0x0.8p-9223372036854775807",
            "0x.1p9999999999999999999",
            // The longest text has an exponent of a few thousand digits.
            &format!("0x.{}1p-{}", "0".repeat(2000), "9".repeat(2000)),
            &format!("0x1{}p-{}", "0".repeat(2000), "9".repeat(2000)),
        ] {
            assert_eq!(Extended::parse(text.as_bytes()), None, "{text:?}");
        }
        assert_eq!(Extended::parse(&[b'1'; TEXT_BYTES_MAX]), None);
        for text in ["1.", ".5", "1E5", "+1", "INF", "-Infinity", "0x1P-3", "0e999999999999999999"]
        {
            assert!(Extended::parse(text.as_bytes()).is_some(), "{text:?}");
        }
    }
}
