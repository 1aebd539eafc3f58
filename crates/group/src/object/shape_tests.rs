//! Shapes of types: as they are sent, told apart below their names, of any type.

#![allow(dead_code, reason = "types that are described, and not used")]

use super::*;
use crate::object::{Deltas, Local, Persistent, Volatile};
use serde::{Deserialize, Serialize};
use std::net::IpAddr;
use std::num::NonZeroU32;
use std::time::Duration;

fn shape<T: DeserializeOwned>() -> String {
    let mut shapes = Shapes::default();
    shapes.add::<T>();
    shapes.to_string()
}

#[derive(Deserialize)]
struct Item {
    name: String,
    prices: Vec<Price>,
    at: Option<(u8, [i16; 2])>,
    #[serde(skip)]
    seen: u64,
}

#[derive(Deserialize)]
enum Price {
    Free,
    Of(NonZeroU32),
    From { least: u32, how: How },
    Both(f64, bool),
}

#[derive(Deserialize)]
enum How {
    Cash,
    Card(u64),
    By(String),
}

#[test]
fn fields_and_variants_are_told_as_they_are_sent() {
    let item = "Item{name:str,prices:[Price],at:?(u8,(i16,i16))}";
    let price = "Price<Free|Of(u32)|From{least:u32,how:How}|Both(f64,bool)>";
    assert_eq!(shape::<Item>(), format!("How<Cash|Card(u64)|By(str)>; {item}; {price}"));
    let map = shape::<BTreeMap<String, Vec<Duration>>>();
    assert_eq!(map, "{[str->[Duration]]}; Duration{secs:u64,nanos:u32}");
    assert_eq!(shape::<(usize, (), char)>(), "(u64,(),char)");
}

#[test]
fn types_of_one_name_that_differ_below_have_other_shapes() {
    mod other {
        #[derive(serde::Deserialize)]
        pub(super) enum How {
            Cash,
            Card(u64),
            By(char),
        }
    }
    assert_ne!(shape::<How>(), shape::<other::How>());
    assert_ne!(shape::<Vec<Option<How>>>(), shape::<Vec<Option<other::How>>>());
    let both = shape::<(How, other::How)>();
    assert_eq!(both, "(How,How); How<Cash|Card(u64)|By(char)>; How<Cash|Card(u64)|By(str)>");
}

#[test]
fn values_with_versions_and_local_ones_have_the_shape_of_what_is_sent() {
    #[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
    struct List(Vec<u8>);

    impl crate::object::Delta for List {
        type Change = usize;

        fn take_change(&mut self) -> Option<usize> {
            None
        }

        fn redo(&mut self, change: &usize) {
            panic!("{change} was made up");
        }
    }

    let kept = shape::<(Persistent<List, Deltas>, Local<u16>)>();
    assert!(
        kept.contains("Kept{first:List,since:Moment,steps:[(Moment,u64)],n_most:u64}"),
        "{kept}"
    );
    assert!(kept.starts_with("(Kept,Local); "), "{kept}");
    assert_ne!(shape::<Volatile<u8>>(), shape::<Volatile<u16>>());
}

#[test]
fn s2_types_that_contain_themselves_have_a_shape() {
    #[derive(Deserialize)]
    struct Tree {
        leaf: u8,
        below: Vec<Tree>,
        beside: Option<Box<Tree>>,
    }
    #[derive(Deserialize)]
    enum Sum {
        Of(Box<Sum>, Box<Sum>),
        Number(i64),
    }
    #[derive(Deserialize)]
    struct Endless {
        again: Box<Endless>,
        n: u8,
    }
    assert_eq!(shape::<Tree>(), "Tree{leaf:u8,below:[Tree],beside:?Tree}");
    let sum = shape::<Sum>();
    assert!(sum.contains("Sum<Of(Sum,Sum)|Number(i64)>"), "{sum}");
    assert!(shape::<Endless>().contains("\"n\""), "{}", shape::<Endless>());
}

#[test]
fn what_refuses_the_made_up_is_named_as_far_as_it_is_read() {
    #[derive(Deserialize)]
    struct Host {
        before: u8,
        address: IpAddr,
        strict: Strict,
        behind: u16,
    }
    #[derive(Deserialize)]
    #[serde(try_from = "String")]
    struct Strict(String);

    impl TryFrom<String> for Strict {
        type Error = String;

        fn try_from(text: String) -> Result<Strict, String> {
            Err(text)
        }
    }
    let host = shape::<Host>();
    assert!(host.contains("Host{before:u8,address:IpAddr,strict:str}"), "{host}");
    assert!(host.contains("\"behind\""), "{host}");
    assert!(host.contains("IpAddr<V4("), "{host}");
}
