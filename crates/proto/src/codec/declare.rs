//! The declaration of a message.

/// Declares a message, or a part of one, and with it its bytes.
///
/// ```
/// use proto::codec::{self, Coded, Padded, Words};
/// proto::coded! {
///     #[derive(Debug, PartialEq)]
///     enum Frame<'a> in Words {
///         /// Bytes behind a number.
///         Piece { offset: u64, bytes: &'a [u8] } = 1,
///         /// A number, and a word that is not used.
///         Taken { offset: u64 as Padded<1> } = 2,
///         Last(bool) = 3,
///         End = 4,
///     }
/// }
/// let mut out = Vec::new();
/// Frame::Piece { offset: 5, bytes: b"abc" }.put(&mut out);
/// assert_eq!(out, [1, 5, 0, 0, 0, 0, 0, 0, 0, b'a', b'b', b'c']);
/// assert_eq!(codec::decode(&out), Ok(Frame::Piece { offset: 5, bytes: b"abc" }));
/// assert_eq!(codec::decode::<Words, Frame<'_>>(&out[..8]), Err(codec::Malformed));
/// assert_eq!(codec::decode(&[4]), Ok(Frame::End));
/// ```
#[macro_export]
macro_rules! coded {
    (@format $format:ty) => { $format };
    (@format $format:ty, $own:ty) => { $own };
    (@named $name:ident $only:ty) => { $name };
    (
        $(#[$meta:meta])*
        $vis:vis struct $name:ident $(<$life:lifetime>)? in $format:ty {
            $($(#[$about:meta])* $seen:vis $field:ident: $type:ty $(as $own:ty)?),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis struct $name $(<$life>)? {
            $($(#[$about])* $seen $field: $type,)*
        }

        impl<'wire $(: $life, $life)?> $crate::codec::Coded<'wire, $format> for $name $(<$life>)? {
            fn put(&self, out: &mut impl $crate::codec::Out) {
                $(<$type as $crate::codec::Coded<
                    '_, $crate::coded!(@format $format $(, $own)?)
                >>::put(&self.$field, out);)*
            }

            fn take(
                from: &mut $crate::codec::Reader<'wire>,
            ) -> Result<Self, $crate::codec::Malformed> {
                Ok($name {
                    $($field: <$type as $crate::codec::Coded<
                        'wire, $crate::coded!(@format $format $(, $own)?)
                    >>::take(from)?,)*
                })
            }
        }
    };
    (
        $(#[$meta:meta])*
        $vis:vis enum $name:ident $(<$life:lifetime>)? in $format:ty {
            $(
                $(#[$doc:meta])*
                $kind:ident
                $({ $($(#[$about:meta])* $field:ident: $type:ty $(as $own:ty)?),* $(,)? })?
                $(($only:ty $(as $only_own:ty)?))?
                = $tag:literal
            ),* $(,)?
        }
    ) => {
        $(#[$meta])*
        $vis enum $name $(<$life>)? {
            $($(#[$doc])* $kind $({ $($(#[$about])* $field: $type,)* })? $(($only))?,)*
        }

        impl<'wire $(: $life, $life)?> $crate::codec::Tagged<'wire, $format> for $name $(<$life>)? {
            fn tag(&self) -> u8 {
                match self {
                    $($name::$kind { .. } => $tag,)*
                }
            }

            fn put_fields(&self, out: &mut impl $crate::codec::Out) {
                match self {
                    $($name::$kind {
                        $($($field,)*)? $(0: $crate::coded!(@named only $only))?
                    } => {
                        $($(<$type as $crate::codec::Coded<
                            '_, $crate::coded!(@format $format $(, $own)?)
                        >>::put($field, out);)*)?
                        $(<$only as $crate::codec::Coded<
                            '_, $crate::coded!(@format $format $(, $only_own)?)
                        >>::put(only, out);)?
                    })*
                }
            }

            fn take_fields(
                tag: u8,
                from: &mut $crate::codec::Reader<'wire>,
            ) -> Result<Self, $crate::codec::Malformed> {
                Ok(match tag {
                    $($tag => $name::$kind {
                        $($($field: <$type as $crate::codec::Coded<
                            'wire, $crate::coded!(@format $format $(, $own)?)
                        >>::take(from)?,)*)?
                        $(0: <$only as $crate::codec::Coded<
                            'wire, $crate::coded!(@format $format $(, $only_own)?)
                        >>::take(from)?)?
                    },)*
                    _ => return Err($crate::codec::Malformed),
                })
            }
        }

        impl<'wire $(: $life, $life)?> $crate::codec::Coded<'wire, $format> for $name $(<$life>)? {
            fn put(&self, out: &mut impl $crate::codec::Out) {
                use $crate::codec::{Format, Tagged};
                <$format>::put_tag(self.tag(), out);
                self.put_fields(out);
            }

            fn take(
                from: &mut $crate::codec::Reader<'wire>,
            ) -> Result<Self, $crate::codec::Malformed> {
                use $crate::codec::{Format, Tagged};
                Self::take_fields(<$format>::tag(from)?, from)
            }
        }
    };
}
