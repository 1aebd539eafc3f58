//! The marked methods of a block, each checked: what cannot be called from elsewhere is refused
//! with the place that is at fault.

use proc_macro2::TokenStream;
use quote::ToTokens;
use syn::spanned::Spanned;
use syn::{
    Attribute, Error, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, ReturnType, Signature,
    Type, Visibility, parse_quote,
};

/// The way in which a method is called.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(crate) enum Kind {
    /// At every member, in one order.
    Ordered,
    /// At one member.
    Query,
    /// At one member, as of a time.
    Temporal,
    /// At one member, which it may change.
    P2p,
}

/// A marked method.
pub(crate) struct Method {
    pub(crate) kind: Kind,
    pub(crate) name: Ident,
    pub(crate) visibility: Visibility,
    /// Attributes of the method that its callers see too: documentation.
    pub(crate) docs: Vec<Attribute>,
    pub(crate) arguments: Vec<(Ident, Type)>,
    pub(crate) result: Type,
}

impl Method {
    /// The name and the types, which all members have to agree on.
    pub(crate) fn signature(&self) -> String {
        let kind = match self.kind {
            Kind::Ordered => "ordered",
            Kind::Query => "query",
            Kind::Temporal => "temporal",
            Kind::P2p => "p2p",
        };
        let types = self.arguments.iter().map(|(_, kind)| text(kind)).collect::<Vec<_>>();
        format!("{kind} {}({}) -> {}", self.name, types.join(", "), text(&self.result))
    }
}

fn text(tokens: &impl ToTokens) -> String {
    tokens.to_token_stream().to_string().replace(' ', "")
}

/// A block and its marked methods.
pub(crate) struct Block {
    /// The block without the marks.
    pub(crate) block: ItemImpl,
    /// The name of the type.
    pub(crate) name: Ident,
    pub(crate) methods: Vec<Method>,
}

/// Takes the marks off a block.
pub(crate) fn collect(arguments: TokenStream, mut block: ItemImpl) -> syn::Result<Block> {
    if !arguments.is_empty() {
        return Err(Error::new(arguments.span(), "#[replicated] takes no arguments"));
    }
    if let Some((_, path, _)) = &block.trait_ {
        return Err(Error::new(path.span(), "#[replicated] stands above a type's own methods"));
    }
    if !block.generics.params.is_empty() {
        let text = "a replicated type has no parameters: members could choose different ones";
        return Err(Error::new(block.generics.span(), text));
    }
    let name = match &*block.self_ty {
        Type::Path(path) if path.qself.is_none() => path.path.segments.last(),
        _ => None,
    };
    let Some(name) = name.map(|segment| segment.ident.clone()) else {
        return Err(Error::new(block.self_ty.span(), "name the replicated type"));
    };
    let mut methods = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item
            && let Some(kind) = take_mark(&mut function.attrs)?
        {
            methods.push(method(kind, function)?);
        }
    }
    if methods.is_empty() {
        let text = "no method is marked #[ordered], #[query], #[temporal] or #[p2p]: there is \
                    nothing to call";
        return Err(Error::new(block.self_ty.span(), text));
    }
    Ok(Block { block, name, methods })
}

fn take_mark(attributes: &mut Vec<Attribute>) -> syn::Result<Option<Kind>> {
    let mut marks = Vec::new();
    let kinds = [
        ("ordered", Kind::Ordered),
        ("query", Kind::Query),
        ("temporal", Kind::Temporal),
        ("p2p", Kind::P2p),
    ];
    for (name, kind) in kinds {
        let marked = attributes.extract_if(.., |attribute| attribute.path().is_ident(name));
        marks.extend(marked.map(|attribute| (kind, attribute)));
    }
    match &marks[..] {
        [] => Ok(None),
        [(kind, attribute)] => {
            attribute.meta.require_path_only()?;
            Ok(Some(*kind))
        }
        [_, (_, second), ..] => Err(Error::new(second.span(), "a method is marked once")),
    }
}

fn method(kind: Kind, function: &ImplItemFn) -> syn::Result<Method> {
    let signature = &function.sig;
    if let Some(asyncness) = &signature.asyncness {
        return Err(Error::new(asyncness.span(), "a replicated method runs to its end: no async"));
    }
    if !signature.generics.params.is_empty() {
        let text = "a replicated method has no parameters of types: they are not sent";
        return Err(Error::new(signature.generics.span(), text));
    }
    let mut inputs = signature.inputs.iter();
    let Some(FnArg::Receiver(receiver)) = inputs.next() else {
        let text = "a replicated method has the object as its first argument";
        return Err(Error::new(signature.span(), text));
    };
    let (is_by_reference, is_mutable) = (
        receiver.reference.is_some() && receiver.colon_token.is_none(),
        receiver.mutability.is_some(),
    );
    match kind {
        Kind::Ordered if !(is_by_reference && is_mutable) => {
            return Err(Error::new(receiver.span(), "an ordered method takes `&mut self`"));
        }
        Kind::Query | Kind::Temporal if !is_by_reference || is_mutable => {
            return Err(Error::new(receiver.span(), "a query takes `&self`: it changes nothing"));
        }
        Kind::P2p if !is_by_reference || is_mutable => {
            let text = "a p2p method takes `&self`: it changes what its member has for itself, by \
                        `Local` fields, and not the copy";
            return Err(Error::new(receiver.span(), text));
        }
        Kind::Ordered | Kind::Query | Kind::Temporal | Kind::P2p => {}
    }
    if kind == Kind::P2p {
        check_here(inputs.next(), signature)?;
    }
    let arguments = inputs.map(argument).collect::<syn::Result<Vec<_>>>()?;
    if kind == Kind::Temporal && arguments.is_empty() {
        let text = "a temporal query has the time as its first argument: `then: Time`";
        return Err(Error::new(signature.span(), text));
    }
    let result = match &signature.output {
        ReturnType::Default => parse_quote!(()),
        ReturnType::Type(_, kind) => owned(kind)?.clone(),
    };
    let docs = function.attrs.iter().filter(|attribute| attribute.path().is_ident("doc"));
    Ok(Method {
        kind,
        name: signature.ident.clone(),
        visibility: function.vis.clone(),
        docs: docs.cloned().collect(),
        arguments,
        result,
    })
}

/// The argument that a p2p method is lent, and that is not sent.
fn check_here(input: Option<&FnArg>, signature: &Signature) -> syn::Result<()> {
    let is_lent = match input {
        Some(FnArg::Typed(typed)) => match &*typed.ty {
            Type::Reference(reference) => reference.mutability.is_none(),
            _ => false,
        },
        _ => false,
    };
    if is_lent {
        return Ok(());
    }
    let text = "a p2p method has `here: &Here` behind `&self`: with it, it reaches `Local` fields";
    Err(Error::new(input.map_or_else(|| signature.span(), Spanned::span), text))
}

fn argument(input: &FnArg) -> syn::Result<(Ident, Type)> {
    let FnArg::Typed(typed) = input else {
        return Err(Error::new(input.span(), "the object is the first argument"));
    };
    let Pat::Ident(pattern) = &*typed.pat else {
        return Err(Error::new(typed.pat.span(), "give the argument a name"));
    };
    Ok((pattern.ident.clone(), owned(&typed.ty)?.clone()))
}

/// What is sent has to be owned.
fn owned(kind: &Type) -> syn::Result<&Type> {
    match kind {
        Type::Reference(_) => {
            let text = "what crosses between members is owned: take `String` for `&str`, \
                        `Vec<T>` for `&[T]`";
            Err(Error::new(kind.span(), text))
        }
        Type::ImplTrait(_) => Err(Error::new(kind.span(), "name the type: it is sent")),
        _ => Ok(kind),
    }
}
