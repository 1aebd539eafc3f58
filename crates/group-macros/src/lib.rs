//! `#[replicated]`, which `gregale-group` re-exports and documents.
//!
//! ```text
//! impl Store {                         impl Store { .. as it was, without the marks }
//!     #[ordered] fn put(&mut self, ..)  impl Replicated for Store { number -> method }
//!     #[query]   fn get(&self, ..)      struct StoreHandle; put, get, get_ordered
//!     #[p2p]     fn at(&self, here, ..)                     at_at
//! }
//! ```
#![forbid(unsafe_code)]

mod expand;
mod methods;

use proc_macro::TokenStream;
use syn::{ItemImpl, parse_macro_input};

/// Makes a replicated object of a type: its methods that are marked `#[ordered]`, `#[query]`,
/// `#[temporal]` or `#[p2p]` can be called at any member of a group, through a handle that this
/// macro makes.
#[proc_macro_attribute]
pub fn replicated(arguments: TokenStream, item: TokenStream) -> TokenStream {
    let block = parse_macro_input!(item as ItemImpl);
    let expanded = methods::collect(arguments.into(), block).map(expand::expand);
    expanded.unwrap_or_else(syn::Error::into_compile_error).into()
}
