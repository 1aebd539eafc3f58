//! The shapes of types, in words: what their bytes are made of. Types of one name that differ in
//! their fields differ here.
//!
//! ```text
//! Item, from  struct Item { name: String, prices: Vec<Price> }  enum Price { Free, Of(u32) }
//!     ->  Item{name:str,prices:[Price]}; Price(Free|Of(u32))
//! ```
//! A type is asked by its own `Deserialize`, which says what it reads next: so fields of fields,
//! renamed and skipped ones, and types of other crates are seen as they are sent.
//!
//! - S1 *The same at all.* A shape follows from the type alone. By construction: what is read is
//!   made up in one way, and names are in order.
//! - S2 *It ends.* Types that contain themselves are followed once; behind [`DEPTH_MAX`] nothing is
//!   read, and after [`ROUNDS_MAX`] rounds variants are named, and not followed. Tested by
//!   `s2_types_that_contain_themselves_have_a_shape`.
//!
//! A type whose `Deserialize` refuses what is made up (numbers are 1, texts "a", lists have one
//! element) is seen up to there; of a struct all field names are.

use super::mark::Marked;
use serde::de::{
    self, DeserializeOwned, DeserializeSeed, EnumAccess, IntoDeserializer, MapAccess, SeqAccess,
    VariantAccess, Visitor,
};
use std::any::type_name;
use std::cell::Cell;
use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

/// The deepest nesting that is followed.
const DEPTH_MAX: usize = 64;
/// The most rounds: each follows one variant of each enum.
const ROUNDS_MAX: usize = 1 << 10;
/// The most things that are read in a round.
const STEPS_MAX: usize = 1 << 14;

thread_local! {
    static IS_TRACED: Cell<bool> = const { Cell::new(false) };
}

/// Whether this thread reads what is made up, which means nothing.
pub(super) fn is_traced() -> bool {
    IS_TRACED.get()
}

/// The shapes of types.
#[derive(Debug, Default)]
pub struct Shapes {
    /// By name: what structs and enums are made of. Types of one name may have several.
    forms: BTreeMap<&'static str, BTreeSet<String>>,
    /// The types that were asked for, by what they are called there.
    roots: BTreeSet<String>,
    enums: BTreeMap<Named, Variants>,
    /// The types that are being read.
    open: Vec<Named>,
    /// The number of these that are within themselves.
    n_within: usize,
    /// The number of enums with variants that were not followed yet, in this round.
    n_unfinished: usize,
    n_steps: usize,
}

/// A type: its name, and that of what reads it, which types of one name do not share.
type Named = (&'static str, &'static str);

/// What was read of an enum.
#[derive(Debug)]
struct Variants {
    is_finished: Vec<bool>,
    /// What each is made of.
    forms: Vec<String>,
    /// One that could be read to its end.
    simple: Option<usize>,
    /// Those that could not, before one could.
    failed: Vec<usize>,
}

impl Variants {
    fn new(n: usize) -> Variants {
        let (is_finished, forms) = (vec![false; n], vec![String::new(); n]);
        Variants { is_finished, forms, simple: None, failed: Vec::new() }
    }

    /// The variant to be read, of an enum within itself or not.
    fn next(&self, is_within: bool) -> usize {
        let next = self.is_finished.iter().position(|is_finished| !is_finished);
        next.filter(|_| !is_within).or(self.simple).unwrap_or(0)
    }

    /// Notes what variant `at` is made of, if everything in it was seen, and whether it could be
    /// read to its end.
    fn note(&mut self, at: usize, form: String, is_all_seen: bool, is_read: bool) {
        let (Some(is_finished), Some(place)) =
            (self.is_finished.get_mut(at), self.forms.get_mut(at))
        else {
            return; // an enum without variants
        };
        (*is_finished, *place) = (is_all_seen, form);
        if !is_read && self.simple.is_none() {
            self.failed.push(at);
        }
        if is_read && self.simple.is_none() {
            self.simple = Some(at);
            // With it, what contains the enum itself can be read.
            self.failed.drain(..).for_each(|at| self.is_finished[at] = false);
        }
    }
}

impl Shapes {
    /// Adds what the bytes of a `T` are made of.
    pub fn add<T: DeserializeOwned>(&mut self) {
        let _traced = Marked::new(&IS_TRACED);
        for _ in 0..ROUNDS_MAX {
            let mut text = String::new();
            (self.n_unfinished, self.n_steps, self.n_within) = (0, 0, 0);
            self.open.clear();
            let _read = T::deserialize(Tracer { shapes: self, out: &mut text });
            self.roots.insert(text);
            if self.n_unfinished == 0 {
                break;
            }
        }
    }

    /// Reads a struct or an enum with `read`, which is given a place for what it is made of.
    fn within<V>(
        &mut self,
        named: Named,
        out: &mut String,
        read: impl FnOnce(&mut Shapes, &mut String) -> Result<V, Stop>,
    ) -> Result<V, Stop> {
        out.push_str(named.0);
        self.step()?;
        let is_within = self.open.contains(&named);
        self.n_within += usize::from(is_within);
        self.open.push(named);
        let mut form = String::new();
        let value = read(self, &mut form);
        self.open.pop();
        self.n_within -= usize::from(is_within);
        if !is_within && self.n_within == 0 && !form.is_empty() {
            self.forms.entry(named.0).or_default().insert(form);
        }
        value
    }

    /// S2
    fn step(&mut self) -> Result<(), Stop> {
        self.n_steps += 1;
        if self.open.len() < DEPTH_MAX && self.n_steps < STEPS_MAX { Ok(()) } else { Err(Stop) }
    }
}

impl fmt::Display for Shapes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let is_named = |root: &&String| !self.forms.contains_key(root.as_str());
        let mut texts: Vec<String> = self.roots.iter().filter(is_named).cloned().collect();
        for (name, forms) in &self.forms {
            texts.extend(forms.iter().map(|form| format!("{name}{form}")));
        }
        f.write_str(&texts.join("; "))
    }
}

/// The end of what can be read.
#[derive(Debug)]
struct Stop;

impl fmt::Display for Stop {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("what was made up is not read further")
    }
}

impl std::error::Error for Stop {}

impl de::Error for Stop {
    fn custom<T: fmt::Display>(_: T) -> Stop {
        Stop
    }
}

/// A place from which a value is read: what it is called, or is made of, is written to `out`.
struct Tracer<'a> {
    shapes: &'a mut Shapes,
    out: &'a mut String,
}

macro_rules! simple {
    ($($read:ident $visit:ident $value:expr, $name:expr;)*) => {
        $(fn $read<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
            self.out.push_str($name);
            self.shapes.step()?;
            visitor.$visit($value)
        })*
    };
}

impl<'de> de::Deserializer<'de> for Tracer<'_> {
    type Error = Stop;

    simple! {
        deserialize_bool visit_bool false, "bool";
        deserialize_i8 visit_i8 1, "i8";
        deserialize_i16 visit_i16 1, "i16";
        deserialize_i32 visit_i32 1, "i32";
        deserialize_i64 visit_i64 1, "i64";
        deserialize_i128 visit_i128 1, "i128";
        deserialize_u8 visit_u8 1, "u8";
        deserialize_u16 visit_u16 1, "u16";
        deserialize_u32 visit_u32 1, "u32";
        deserialize_u64 visit_u64 1, "u64";
        deserialize_u128 visit_u128 1, "u128";
        deserialize_f32 visit_f32 1.0, "f32";
        deserialize_f64 visit_f64 1.0, "f64";
        deserialize_char visit_char 'a', "char";
        deserialize_str visit_str "a", "str";
        deserialize_string visit_str "a", "str";
        deserialize_bytes visit_bytes b"a", "bytes";
        deserialize_byte_buf visit_bytes b"a", "bytes";
    }

    fn deserialize_any<V: Visitor<'de>>(self, _: V) -> Result<V::Value, Stop> {
        // Bytes of postcard do not say what they are.
        self.out.push('?');
        Err(Stop)
    }

    fn deserialize_identifier<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_any(visitor)
    }

    fn deserialize_ignored_any<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.deserialize_any(visitor)
    }

    fn deserialize_unit<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.out.push_str("()");
        visitor.visit_unit()
    }

    fn deserialize_unit_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.out.push_str(name);
        visitor.visit_unit()
    }

    fn deserialize_newtype_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.shapes.within((name, type_name::<V>()), self.out, |shapes, out| {
            out.push('(');
            let value = visitor.visit_newtype_struct(Tracer { shapes, out });
            out.push(')');
            value
        })
    }

    fn deserialize_option<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        self.out.push('?');
        if self.shapes.n_within > 0 {
            return visitor.visit_none();
        }
        visitor.visit_some(self)
    }

    fn deserialize_seq<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let Tracer { shapes, out } = self;
        out.push('[');
        let left = usize::from(shapes.n_within == 0);
        let value = visitor.visit_seq(Parts { shapes, out: &mut *out, names: &[], left, n: 0 });
        out.push(']');
        value
    }

    fn deserialize_tuple<V: Visitor<'de>>(self, n: usize, visitor: V) -> Result<V::Value, Stop> {
        let Tracer { shapes, out } = self;
        out.push('(');
        let value = visitor.visit_seq(Parts { shapes, out: &mut *out, names: &[], left: n, n: 0 });
        out.push(')');
        value
    }

    fn deserialize_tuple_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        n: usize,
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.shapes.within((name, type_name::<V>()), self.out, |shapes, out| {
            Tracer { shapes, out }.deserialize_tuple(n, visitor)
        })
    }

    fn deserialize_map<V: Visitor<'de>>(self, visitor: V) -> Result<V::Value, Stop> {
        let Tracer { shapes, out } = self;
        out.push_str("{[");
        let left = usize::from(shapes.n_within == 0);
        let value = visitor.visit_map(Parts { shapes, out: &mut *out, names: &[], left, n: 0 });
        out.push_str("]}");
        value
    }

    fn deserialize_struct<V: Visitor<'de>>(
        self,
        name: &'static str,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.shapes.within((name, type_name::<V>()), self.out, |shapes, out| {
            Tracer { shapes, out }.read_fields(fields, visitor)
        })
    }

    fn deserialize_enum<V: Visitor<'de>>(
        self,
        name: &'static str,
        variants: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.shapes.within((name, type_name::<V>()), self.out, |shapes, out| {
            let (key, is_within) = ((name, type_name::<V>()), shapes.n_within > 0);
            let known = shapes.enums.entry(key);
            let at = known.or_insert_with(|| Variants::new(variants.len())).next(is_within);
            let (mut form, n_before) = (String::new(), shapes.n_unfinished);
            let value = visitor.visit_enum(Variant { shapes: &mut *shapes, out: &mut form, at });
            if is_within {
                return value;
            }
            let is_all_seen = shapes.n_unfinished == n_before;
            let known = shapes.enums.get_mut(&key).expect("it was entered");
            known.note(at, form, is_all_seen, value.is_ok());
            if known.is_finished.iter().all(|is_finished| *is_finished) {
                let forms = variants.iter().zip(&known.forms);
                let texts: Vec<_> = forms.map(|(name, form)| format!("{name}{form}")).collect();
                *out = format!("<{}>", texts.join("|"));
            } else {
                shapes.n_unfinished += 1;
            }
            value
        })
    }

    fn is_human_readable(&self) -> bool {
        false
    }
}

impl Tracer<'_> {
    fn read_fields<'de, V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        let Tracer { shapes, out } = self;
        out.push('{');
        let left = fields.len();
        let value = visitor.visit_seq(Parts { shapes, out: &mut *out, names: fields, left, n: 0 });
        out.push('}');
        if value.is_err() {
            // What could not be read has its name at least.
            out.push_str(&format!("{fields:?}"));
        }
        value
    }
}

/// The elements of a list, a tuple or a map, or the fields of a struct.
struct Parts<'a> {
    shapes: &'a mut Shapes,
    out: &'a mut String,
    names: &'static [&'static str],
    left: usize,
    /// The number of those before.
    n: usize,
}

impl<'de> SeqAccess<'de> for Parts<'_> {
    type Error = Stop;

    fn next_element_seed<T: DeserializeSeed<'de>>(
        &mut self,
        seed: T,
    ) -> Result<Option<T::Value>, Stop> {
        let Some(left) = self.left.checked_sub(1) else { return Ok(None) };
        self.left = left;
        if self.n > 0 {
            self.out.push(',');
        }
        if let Some(name) = self.names.get(self.n) {
            self.out.push_str(name);
            self.out.push(':');
        }
        self.n += 1;
        self.shapes.step()?;
        seed.deserialize(Tracer { shapes: self.shapes, out: self.out }).map(Some)
    }
}

impl<'de> MapAccess<'de> for Parts<'_> {
    type Error = Stop;

    fn next_key_seed<K: DeserializeSeed<'de>>(
        &mut self,
        seed: K,
    ) -> Result<Option<K::Value>, Stop> {
        self.next_element_seed(seed)
    }

    fn next_value_seed<T: DeserializeSeed<'de>>(&mut self, seed: T) -> Result<T::Value, Stop> {
        self.out.push_str("->");
        seed.deserialize(Tracer { shapes: self.shapes, out: self.out })
    }
}

/// A variant of an enum, by its number.
struct Variant<'a> {
    shapes: &'a mut Shapes,
    out: &'a mut String,
    at: usize,
}

impl<'a, 'de> EnumAccess<'de> for Variant<'a> {
    type Error = Stop;
    type Variant = Tracer<'a>;

    fn variant_seed<T: DeserializeSeed<'de>>(
        self,
        seed: T,
    ) -> Result<(T::Value, Tracer<'a>), Stop> {
        let number = (self.at as u32).into_deserializer();
        let value = seed.deserialize::<de::value::U32Deserializer<Stop>>(number)?;
        Ok((value, Tracer { shapes: self.shapes, out: self.out }))
    }
}

impl<'de> VariantAccess<'de> for Tracer<'_> {
    type Error = Stop;

    fn unit_variant(self) -> Result<(), Stop> {
        Ok(())
    }

    fn newtype_variant_seed<T: DeserializeSeed<'de>>(self, seed: T) -> Result<T::Value, Stop> {
        let Tracer { shapes, out } = self;
        out.push('(');
        let value = seed.deserialize(Tracer { shapes, out: &mut *out });
        out.push(')');
        value
    }

    fn tuple_variant<V: Visitor<'de>>(self, n: usize, visitor: V) -> Result<V::Value, Stop> {
        de::Deserializer::deserialize_tuple(self, n, visitor)
    }

    fn struct_variant<V: Visitor<'de>>(
        self,
        fields: &'static [&'static str],
        visitor: V,
    ) -> Result<V::Value, Stop> {
        self.read_fields(fields, visitor)
    }
}

#[cfg(test)]
#[path = "shape_tests.rs"]
mod tests;
