//! The marked methods of a block, each checked: what cannot be called from elsewhere is refused
//! with the place that is at fault.

use proc_macro2::{TokenStream, TokenTree};
use quote::ToTokens;
use syn::ext::IdentExt;
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

/// Names that the handles of all types have.
const HANDLE_NAMES: [&str; 6] = ["in_shard", "for_key", "clone", "deref", "from", "close"];

impl Method {
    /// The names by which the handles call the method.
    fn calls(&self) -> Vec<String> {
        let endings: &[&str] = match self.kind {
            Kind::Ordered => &["", "_each"],
            Kind::Query => &["", "_each", "_ordered", "_leased", "_ahead", "_at"],
            Kind::Temporal => &["", "_at"],
            Kind::P2p => &["_at"],
        };
        let name = self.name.unraw();
        endings.iter().map(|ending| format!("{name}{ending}")).collect()
    }

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
    let mut methods: Vec<Method> = Vec::new();
    for item in &mut block.items {
        if let ImplItem::Fn(function) = item
            && let Some(kind) = take_mark(&mut function.attrs)?
        {
            let method = method(kind, function)?;
            check_names(&method, &methods)?;
            methods.push(method);
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

/// Refuses a method of which a handle would have a call twice, or in place of its own.
fn check_names(method: &Method, before: &[Method]) -> syn::Result<()> {
    for call in method.calls() {
        let why = if HANDLE_NAMES.contains(&&*call) {
            format!("the handle has a `{call}` of its own: give the method another name")
        } else if let Some(other) = before.iter().find(|other| other.calls().contains(&call)) {
            let other = &other.name;
            format!("the handle has `{call}` for `{other}` already: give the method another name")
        } else {
            continue;
        };
        return Err(Error::new(method.name.span(), why));
    }
    Ok(())
}

fn method(kind: Kind, function: &ImplItemFn) -> syn::Result<Method> {
    let signature = &function.sig;
    if let Some(cfg) = function.attrs.iter().find(|attribute| attribute.path().is_ident("cfg")) {
        let text = "all members have the same replicated methods: no `cfg` on one of them";
        return Err(Error::new(cfg.span(), text));
    }
    if let Some(unsafety) = &signature.unsafety {
        let text = "a replicated method is called for other members: it cannot be unsafe";
        return Err(Error::new(unsafety.span(), text));
    }
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
        _ => check_inside(kind.to_token_stream()).map(|()| kind),
    }
}

/// Refuses what cannot be sent inside of a type.
fn check_inside(tokens: TokenStream) -> syn::Result<()> {
    for token in tokens {
        match token {
            TokenTree::Ident(name) if name == "Self" => {
                let text = "name the type: the handle is another `Self`";
                return Err(Error::new(name.span(), text));
            }
            TokenTree::Punct(sign) if sign.as_char() == '&' => {
                let text = "what crosses between members is owned: take `Vec<String>` for \
                            `Vec<&str>`";
                return Err(Error::new(sign.span(), text));
            }
            TokenTree::Group(group) => check_inside(group.stream())?,
            _ => {}
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refusal(methods: &str) -> String {
        let block = syn::parse_str(&format!("impl Store {{ {methods} }}")).unwrap();
        collect(TokenStream::new(), block).err().map_or(String::new(), |error| error.to_string())
    }

    #[test]
    fn what_cannot_be_called_from_elsewhere_is_refused() {
        let (owned, name) = ("what crosses between members is owned: take", "name the type: the");
        // (Code with this word stands in one crate alone.)
        let not_safe = format!("#[ordered] un{} fn a(&mut self) {{}}", "safe");
        for (methods, why) in [
            ("#[cfg(unix)] #[ordered] fn a(&mut self) {}", "all members have the same"),
            (&not_safe, "a replicated method is called for"),
            ("#[ordered] fn a(&mut self, k: &str) {}", owned),
            ("#[ordered] fn a(&mut self, k: Vec<&str>) {}", owned),
            ("#[query] fn a(&self) -> Option<(u8, &'static str)> { None }", owned),
            ("#[query] fn a(&self) -> Self { Store }", name),
            ("#[ordered] fn a(&mut self, k: Vec<Self>) {}", name),
        ] {
            let refused = refusal(methods);
            assert!(refused.starts_with(why), "{methods}: {refused}");
        }
        let not_marked = "#[cfg(unix)] fn a(&self) -> &Self { self }";
        assert_eq!(refusal(&format!("{not_marked} #[ordered] fn b(&mut self) {{}}")), "");
    }

    #[test]
    fn a_handle_has_each_name_once() {
        let twice = |call: &str, of: &str| {
            format!("the handle has `{call}` for `{of}` already: give the method another name")
        };
        let of_its_own = |call: &str| {
            format!("the handle has a `{call}` of its own: give the method another name")
        };
        for (methods, why) in [
            ("#[query] fn free(&self) {} #[query] fn free_at(&self) {}", twice("free_at", "free")),
            (
                "#[ordered] fn free_each(&mut self) {} #[ordered] fn free(&mut self) {}",
                twice("free_each", "free_each"),
            ),
            (
                "#[p2p] fn free(&self, here: &Here) {} #[query] fn free_at(&self) {}",
                twice("free_at", "free"),
            ),
            ("#[ordered] fn clone(&mut self) {}", of_its_own("clone")),
            ("#[query] fn for_key(&self) {}", of_its_own("for_key")),
            ("#[p2p] fn clone(&self, here: &Here) {}", String::new()),
            ("fn clone(&self) {} #[ordered] fn free(&mut self) {}", String::new()),
        ] {
            assert_eq!(refusal(methods), why);
        }
    }
}
