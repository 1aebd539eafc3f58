//! The code that a block becomes: the numbered methods of the object, and the handles that call
//! them, in a member and outside of the group.

use crate::methods::{Block, Kind, Method};
use proc_macro2::{Ident, Span, TokenStream};
use quote::{format_ident, quote};
use syn::Visibility;

pub(crate) fn expand(block: Block) -> TokenStream {
    let Block { block, name, methods } = block;
    let object = dispatch(&block.self_ty, &methods);
    let handle = handle(&name, &block.self_ty, &methods);
    let remote = remote(&name, &block.self_ty, &methods);
    quote! { #block #object #handle #remote }
}

/// The object as the group's runtime calls it.
fn dispatch(object: &syn::Type, methods: &[Method]) -> TokenStream {
    let list = methods.iter().map(|method| {
        let (name, signature) = (method.name.to_string(), method.signature());
        let kind = match method.kind {
            Kind::Ordered => quote!(Ordered),
            Kind::Query | Kind::Temporal => quote!(Query),
            Kind::P2p => quote!(P2p),
        };
        let kind = quote!(::group::MethodKind::#kind);
        quote! { ::group::Method { name: #name, signature: #signature, kind: #kind } }
    });
    let ordered = arms(methods, |kind| kind == Kind::Ordered);
    let queries = arms(methods, |kind| matches!(kind, Kind::Query | Kind::Temporal));
    let p2p = arms(methods, |kind| kind == Kind::P2p);
    let here = own("here");
    let types = methods.iter().flat_map(|method| {
        let arguments = method.arguments.iter().map(|(_, kind)| kind);
        arguments.chain([&method.result])
    });
    quote! {
        impl ::group::Replicated for #object {
            const METHODS: &'static [::group::Method] = &[#(#list),*];

            fn describe(shapes: &mut ::group::Shapes) {
                shapes.add::<Self>();
                #(shapes.add::<#types>();)*
            }

            fn execute(
                &mut self,
                method: u16,
                arguments: &[u8],
            ) -> ::core::result::Result<::std::vec::Vec<u8>, ::group::Undecodable> {
                match method {
                    #(#ordered,)*
                    _ => ::core::result::Result::Err(::group::Undecodable),
                }
            }

            fn answer(
                &self,
                method: u16,
                arguments: &[u8],
            ) -> ::core::result::Result<::std::vec::Vec<u8>, ::group::Undecodable> {
                match method {
                    #(#queries,)*
                    _ => ::core::result::Result::Err(::group::Undecodable),
                }
            }

            fn run_here(
                &self,
                method: u16,
                arguments: &[u8],
                #here: &::group::Here,
            ) -> ::core::result::Result<::std::vec::Vec<u8>, ::group::Undecodable> {
                match method {
                    #(#p2p,)*
                    _ => ::core::result::Result::Err(::group::Undecodable),
                }
            }
        }
    }
}

/// From a number and arguments to a method and its result, for methods of some kinds.
fn arms(methods: &[Method], is_meant: impl Fn(Kind) -> bool) -> impl Iterator<Item = TokenStream> {
    let numbered = (0u16..).zip(methods);
    numbered.filter(move |(_, method)| is_meant(method.kind)).map(|(number, method)| {
        let name = &method.name;
        let (names, types) = split(method);
        let here = own("here");
        let here = (method.kind == Kind::P2p).then(|| quote!(#here,));
        quote! {
            #number => {
                let (#(#names,)*): (#(#types,)*) = ::group::decode(arguments)?;
                ::core::result::Result::Ok(::group::encode(&self.#name(#here #(#names),*)))
            }
        }
    })
}

/// The handle of a member: a clone of the replica, with the object's methods.
fn handle(name: &Ident, object: &syn::Type, methods: &[Method]) -> TokenStream {
    let docs = format!("Calls [`{name}`], which is replicated, at this member of its group.");
    let calls = (0u16..).zip(methods).map(|(number, method)| match method.kind {
        Kind::Ordered => ordered_call(number, method),
        Kind::Query => query_calls(number, method),
        Kind::Temporal => temporal_call(number, method),
        Kind::P2p => p2p_call(number, method),
    });
    let inner = quote!(::group::Replica<#object>);
    around(&format_ident!("{name}Handle"), &inner, &docs, widest(methods), calls)
}

/// The handle of a client outside of the group.
fn remote(name: &Ident, object: &syn::Type, methods: &[Method]) -> TokenStream {
    let docs = format!("Calls [`{name}`], which is replicated, from outside of its group.");
    let calls = (0u16..).zip(methods).map(|(number, method)| remote_calls(number, method));
    let inner = quote!(::group::Remote<#object>);
    around(&format_ident!("{name}Remote"), &inner, &docs, widest(methods), calls)
}

/// A handle around `inner`, with these calls.
fn around(
    handle: &Ident,
    inner: &TokenStream,
    docs: &str,
    visibility: &Visibility,
    calls: impl Iterator<Item = TokenStream>,
) -> TokenStream {
    quote! {
        #[doc = #docs]
        #[derive(Clone, Debug)]
        #[allow(dead_code, reason = "a program need not have clients")]
        #visibility struct #handle(#inner);

        #[allow(dead_code, reason = "a program need not call every method")]
        impl #handle {
            /// The same in another shard of the object's subgroup, from 0.
            #visibility fn in_shard(&self, shard: usize) -> Self {
                #handle(self.0.in_shard(shard))
            }

            /// The same in the shard that `key` belongs to.
            #visibility fn for_key(&self, key: &impl ::group::Key) -> Self {
                #handle(self.0.in_shard(self.0.shard_for(key)))
            }

            #(#calls)*
        }

        impl ::core::convert::From<#inner> for #handle {
            fn from(inner: #inner) -> Self {
                #handle(inner)
            }
        }

        impl ::core::ops::Deref for #handle {
            type Target = #inner;

            fn deref(&self) -> &Self::Target {
                &self.0
            }
        }
    }
}

fn remote_calls(number: u16, method: &Method) -> TokenStream {
    let Method { name, visibility, docs, result, .. } = method;
    let (names, types) = split(method);
    let result = quote!(::core::result::Result<#result, ::group::RemoteError>);
    let one = |name: &Ident, call: TokenStream, text: &str| {
        quote! {
            #(#docs)*
            #[doc = ""]
            #[doc = #text]
            #visibility fn #name(&self, #(#names: #types),*) -> #result {
                #call
            }
        }
    };
    let arguments = quote!(&(#(#names,)*));
    match method.kind {
        Kind::Ordered => {
            let text = "Every member executes it, at the same place of the group's order.";
            one(name, quote!(self.0.call(#number, #arguments)), text)
        }
        Kind::Query => {
            let ordered = format_ident!("{name}_ordered");
            let here = "Answered by a member's copy at once, which may lag behind others'.";
            let there = "Answered at a place of the group's order.";
            let here = one(name, quote!(self.0.query(#number, #arguments)), here);
            let there = one(&ordered, quote!(self.0.call(#number, #arguments)), there);
            quote!(#here #there)
        }
        Kind::Temporal => {
            let then = names[0];
            let text = "Answered by a copy that has executed all that can have this time.";
            one(name, quote!(self.0.query_then(#number, #then, #arguments)), text)
        }
        Kind::P2p => {
            let (at, seat) = (format_ident!("{name}_at"), own("seat"));
            quote! {
                #(#docs)*
                #[doc = ""]
                #[doc = "Executed by the member on `seat` alone."]
                #visibility fn #at(&self, #seat: usize, #(#names: #types),*) -> #result {
                    self.0.call_at(#seat, #number, #arguments)
                }
            }
        }
    }
}

/// A call to which each member replies.
fn each_call(number: u16, method: &Method) -> TokenStream {
    let Method { name, visibility, docs, result, .. } = method;
    let (names, types) = split(method);
    let each = format_ident!("{name}_each");
    quote! {
        #(#docs)*
        #[doc = ""]
        #[doc = "At one place of the group's order; each member of the shard tells its result."]
        #visibility fn #each(&self, #(#names: #types),*) -> ::group::Replies<#result> {
            self.0.call_each(#number, &(#(#names,)*))
        }
    }
}

fn ordered_call(number: u16, method: &Method) -> TokenStream {
    let Method { name, visibility, docs, result, .. } = method;
    let (names, types) = split(method);
    let each = each_call(number, method);
    quote! {
        #each

        #(#docs)*
        #[doc = ""]
        #[doc = "Every member executes it, at the same place of the group's order."]
        #visibility fn #name(&self, #(#names: #types),*) -> ::group::Pending<#result> {
            self.0.call(#number, &(#(#names,)*))
        }
    }
}

fn query_calls(number: u16, method: &Method) -> TokenStream {
    let Method { name, visibility, docs, result, .. } = method;
    let (names, types) = split(method);
    let (ordered, at) = (format_ident!("{name}_ordered"), format_ident!("{name}_at"));
    let (leased, ahead) = (format_ident!("{name}_leased"), format_ident!("{name}_ahead"));
    let (each, object, seat) = (each_call(number, method), own("object"), own("seat"));
    quote! {
        #each

        #(#docs)*
        #[doc = ""]
        #[doc = "Answered by this member's copy at once, which may lag behind others'."]
        #visibility fn #name(
            &self,
            #(#names: #types),*
        ) -> ::core::result::Result<#result, ::group::CallError> {
            self.0.query(|#object| #object.#name(#(#names),*))
        }

        #(#docs)*
        #[doc = ""]
        #[doc = "Answered at a place of the group's order: it sees every call that ended before."]
        #visibility fn #ordered(&self, #(#names: #types),*) -> ::group::Pending<#result> {
            self.0.call(#number, &(#(#names,)*))
        }

        #(#docs)*
        #[doc = ""]
        #[doc = "Answered by this member's copy, in a group with leases: it sees every call that"]
        #[doc = "ended before, and no message is sent."]
        #visibility fn #leased(
            &self,
            #(#names: #types),*
        ) -> ::core::result::Result<#result, ::group::CallError> {
            self.0.ask_leased(#number, &(#(#names,)*))
        }

        #(#docs)*
        #[doc = ""]
        #[doc = "Answered as this member's copy will be when everything is executed that the member"]
        #[doc = "holds by now, unless a failure cuts some of it off."]
        #visibility fn #ahead(
            &self,
            #(#names: #types),*
        ) -> ::core::result::Result<#result, ::group::CallError> {
            self.0.ask_ahead(#number, &(#(#names,)*))
        }

        #(#docs)*
        #[doc = ""]
        #[doc = "Answered by the copy of the member on `seat`."]
        #visibility fn #at(&self, #seat: usize, #(#names: #types),*) -> ::group::Pending<#result> {
            self.0.ask(#seat, #number, &(#(#names,)*))
        }
    }
}

fn temporal_call(number: u16, method: &Method) -> TokenStream {
    let Method { name, visibility, docs, result, .. } = method;
    let (names, types) = split(method);
    let (then, at, seat) = (names[0], format_ident!("{name}_at"), own("seat"));
    quote! {
        #(#docs)*
        #[doc = ""]
        #[doc = "Answered by a copy that has executed all that can have this time, or an earlier"]
        #[doc = "one: by this member's, or by that of a member of the shard."]
        #visibility fn #name(
            &self,
            #(#names: #types),*
        ) -> ::core::result::Result<#result, ::group::CallError> {
            self.0.ask_then(#number, #then, &(#(#names,)*))
        }

        #(#docs)*
        #[doc = ""]
        #[doc = "The same of the copy of the member on `seat`: several can be asked at once."]
        #visibility fn #at(&self, #seat: usize, #(#names: #types),*) -> ::group::Pending<#result> {
            self.0.ask_then_at(#seat, #number, #then, &(#(#names,)*))
        }
    }
}

fn p2p_call(number: u16, method: &Method) -> TokenStream {
    let Method { name, visibility, docs, result, .. } = method;
    let (names, types) = split(method);
    let (at, seat) = (format_ident!("{name}_at"), own("seat"));
    quote! {
        #(#docs)*
        #[doc = ""]
        #[doc = "Executed by the member on `seat` alone, once."]
        #visibility fn #at(&self, #seat: usize, #(#names: #types),*) -> ::group::Pending<#result> {
            self.0.call_at(#seat, #number, &(#(#names,)*))
        }
    }
}

fn split(method: &Method) -> (Vec<&Ident>, Vec<&syn::Type>) {
    method.arguments.iter().map(|(name, kind)| (name, kind)).unzip()
}

/// A name of the code that is made, which is never that of an argument.
fn own(name: &str) -> Ident {
    Ident::new(name, Span::mixed_site())
}

/// The handle can be named where the most visible of its methods can. (Of `pub(super)` and
/// `pub(in ..)` the first one counts: which of them reaches farther is not known here.)
fn widest(methods: &[Method]) -> &Visibility {
    let rank = |visibility: &&Visibility| match visibility {
        Visibility::Public(_) => 3,
        Visibility::Restricted(one) if one.path.is_ident("crate") => 2,
        Visibility::Restricted(one) if one.path.is_ident("self") => 0,
        Visibility::Restricted(_) => 1,
        Visibility::Inherited => 0,
    };
    // (Of equals the last one is the largest.)
    let all = methods.iter().rev().map(|method| &method.visibility);
    all.max_by_key(rank).unwrap_or(&Visibility::Inherited)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::methods::collect;
    use quote::ToTokens;
    use syn::parse_quote;

    #[test]
    fn a_handle_is_as_visible_as_the_most_visible_of_its_methods() {
        let cases: [(syn::ItemImpl, &str); 4] = [
            (
                parse_quote! { impl Store {
                    #[ordered] pub(crate) fn a(&mut self) {}
                    #[ordered] pub(super) fn b(&mut self) {}
                } },
                "pub (crate)",
            ),
            (
                parse_quote! { impl Store {
                    #[ordered] pub(super) fn a(&mut self) {}
                    #[ordered] pub(crate) fn b(&mut self) {}
                    #[ordered] pub(self) fn c(&mut self) {}
                } },
                "pub (crate)",
            ),
            (
                parse_quote! { impl Store {
                    #[ordered] pub(in crate::a) fn a(&mut self) {}
                    #[ordered] pub(super) fn b(&mut self) {}
                } },
                "pub (in crate :: a)",
            ),
            (
                parse_quote! { impl Store {
                    #[ordered] pub fn a(&mut self) {}
                    #[ordered] pub(crate) fn b(&mut self) {}
                } },
                "pub",
            ),
        ];
        for (block, visibility) in cases {
            let block = collect(TokenStream::new(), block).unwrap();
            assert_eq!(widest(&block.methods).to_token_stream().to_string(), visibility);
        }
    }
}
