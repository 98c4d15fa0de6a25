//! Mapping of Rust types to JavaScript: the type a parameter is converted to, how it is passed on, and its TypeScript name. The
//! traits of `src/js` do the conversion. A type that is in no list keeps its name.

use proc_macro2::{Ident, TokenStream};
use quote::quote;
use syn::{Expr, GenericArgument, GenericParam, Generics, PathArguments, Type, TypeParamBound};

/// Types with another name in TypeScript.
const NAMES: &[(&str, &str)] = &[
    ("usize", "number"),
    ("isize", "number"),
    ("u32", "number"),
    ("i32", "number"),
    ("u64", "number"),
    ("f64", "number"),
    ("bool", "boolean"),
    ("String", "string"),
    ("str", "string"),
    ("Conv2dOptions", "ConvOptions"),
    ("Amounts", "readonly (readonly [before: number, after: number])[]"),
    ("Extents", "Shape"),
    ("TensorSpec", "Shape | number"),
    ("Scan", "number"),
    ("Sections", "number | readonly number[]"),
    ("Integers", "number | readonly number[]"),
    ("ScatterReduction", "Reduction | \"mean\""),
];

/// A field of an options object: its name, its TypeScript type, and its description.
pub type Field = (&'static str, &'static str, &'static str);

/// Types that read more than their argument, namely these fields of the options object. `Axes` does so only with the setting
/// `keepdims`.
const MORE: &[(&str, &[Field])] = &[
    ("Axes", &[("keepdim", "boolean", "Keep the axes, with extent 1. Default: false.")]),
    (
        "Scan",
        &[
            ("exclusive", "boolean", "Leave each element out of its own result. Default: false."),
            ("reverse", "boolean", "Go from the end to the start. Default: false."),
        ],
    ),
    ("TensorSpec", &[("dtype", "T", "The type of the elements. Default: `\"f32\"`.")]),
    ("ScatterReduction", &[("includeSelf", "boolean", "Count what is there. Default: true.")]),
];

/// Types that are optional, with a default in their conversion.
const OPTIONAL: &[&str] = &["Axes"];

/// Types that determine the element type of the result, which is the type parameter `T`.
const TYPED: &[&str] = &["DType", "TensorSpec"];

/// The type of a parameter.
pub struct Param {
    /// The type that the value is converted to.
    pub owned: TokenStream,
    /// The TypeScript type.
    pub ts: String,
    /// Whether the parameter is optional.
    pub optional: bool,
    /// Fields of the options object that belong to the parameter.
    pub more: &'static [Field],
    /// Whether the parameter determines the element type of the result.
    pub typed: bool,
    form: Form,
}

/// The form in which the converted value is passed on.
enum Form {
    Value,
    Reference,
    References,
    Slice,
    OptionalReference,
    /// Options that borrow tensors. The converted value owns the tensors.
    Borrowed,
}

impl Param {
    /// Returns the expression that passes on a variable.
    pub fn pass(&self, name: &Ident) -> Expr {
        match self.form {
            Form::Value => syn::parse_quote!(#name),
            Form::Reference | Form::Slice => syn::parse_quote!(&#name),
            Form::References => syn::parse_quote!(&#name.iter().collect::<Vec<_>>()),
            Form::OptionalReference => syn::parse_quote!(#name.as_ref()),
            Form::Borrowed => syn::parse_quote!(#name.borrowed()),
        }
    }
}

/// Analyzes the type of a parameter.
pub fn param(ty: &Type, generics: &Generics) -> syn::Result<Param> {
    let plain = |inner: &Type, form| -> syn::Result<Param> {
        let name = head(inner, generics)?;
        Ok(Param {
            owned: owned(inner, generics)?,
            ts: if name == "DType" { "T".to_string() } else { typescript(inner, generics)? },
            typed: TYPED.contains(&name.as_str()),
            optional: OPTIONAL.contains(&name.as_str()),
            more: MORE.iter().find(|(of, _)| *of == name).map_or(&[], |(_, fields)| fields),
            form,
        })
    };
    if let Some(inner) = inside(ty, "Option") {
        let (inner, form) = match inner {
            Type::Reference(to) => (&*to.elem, Form::OptionalReference),
            other => (other, Form::Value),
        };
        let mut found = plain(inner, form)?;
        let owned = found.owned;
        found.owned = quote!(Option<#owned>);
        found.optional = true;
        return Ok(found);
    }
    if let Some(options) = borrowing(ty) {
        let mut found = plain(ty, Form::Borrowed)?;
        found.owned = quote!(<#options<'static> as BorrowedOptions>::Owned);
        return Ok(found);
    }
    let Type::Reference(to) = ty else { return plain(ty, Form::Value) };
    let Type::Slice(list) = &*to.elem else { return plain(&to.elem, Form::Reference) };
    let (element, form) = match &*list.elem {
        Type::Reference(to) => (&*to.elem, Form::References),
        other => (other, Form::Slice),
    };
    let mut found = plain(element, form)?;
    let one = found.owned;
    found.owned = quote!(Vec<#one>);
    found.ts = match found.ts.as_str() {
        pair if pair.starts_with('[') => {
            "readonly (readonly [before: number, after: number])[]".to_string()
        }
        // Axes may be one number or a list.
        "number" if head(element, generics)? == "isize" => "Axes".to_string(),
        "Variable" => "Module | readonly Variable[]".to_string(),
        one => format!("readonly {one}[]"),
    };
    Ok(found)
}

/// Returns the name of options with a lifetime, such as `NormOptions<'_>`.
fn borrowing(ty: &Type) -> Option<&Ident> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    let PathArguments::AngleBracketed(list) = &segment.arguments else { return None };
    let borrows = only_lifetimes(list) && segment.ident.to_string().ends_with("Options");
    borrows.then_some(&segment.ident)
}

/// Returns the type without Rust-only parts: `impl Into<T>` and `T: Borrow<U>` become `T` and `U`.
fn owned(ty: &Type, generics: &Generics) -> syn::Result<TokenStream> {
    Ok(match ty {
        Type::ImplTrait(bounds) => {
            let inner = bound(&bounds.bounds).ok_or_else(|| unknown(ty))?;
            return owned(&inner, generics);
        }
        Type::Path(path) if path.path.segments.len() == 1 => {
            let segment = &path.path.segments[0];
            if let Some(inner) = generic(&segment.ident, generics) {
                return owned(&inner, generics);
            }
            match &segment.arguments {
                // Lifetimes are elided.
                PathArguments::AngleBracketed(list) if only_lifetimes(list) => {
                    let ident = &segment.ident;
                    quote!(#ident)
                }
                _ => quote!(#path),
            }
        }
        other => quote!(#other),
    })
}

fn only_lifetimes(list: &syn::AngleBracketedGenericArguments) -> bool {
    list.args.iter().all(|argument| matches!(argument, GenericArgument::Lifetime(_)))
}

/// Returns the TypeScript name of a type.
pub fn typescript(ty: &Type, generics: &Generics) -> syn::Result<String> {
    match ty {
        Type::Tuple(tuple) => {
            let parts: syn::Result<Vec<_>> =
                tuple.elems.iter().map(|part| typescript(part, generics)).collect();
            Ok(format!("[{}]", parts?.join(", ")))
        }
        Type::Array(_) => Ok("PerAxis".to_string()),
        // Declarative macros wrap types in groups.
        Type::Group(group) => typescript(&group.elem, generics),
        Type::Reference(to) => typescript(&to.elem, generics),
        Type::Slice(list) => Ok(format!("readonly {}[]", typescript(&list.elem, generics)?)),
        _ => {
            if let Some(inner) = inside(ty, "Vec").or_else(|| inside(ty, "Option")) {
                let inner_text = typescript(inner, generics)?;
                let list = inside(ty, "Vec").is_some();
                return Ok(if list { format!("readonly {inner_text}[]") } else { inner_text });
            }
            let name = head(ty, generics)?;
            let found = NAMES.iter().find(|(rust, _)| *rust == name);
            Ok(found.map_or(name.clone(), |(_, ts)| ts.to_string()))
        }
    }
}

/// Returns the name of a type, without its path and parameters.
fn head(ty: &Type, generics: &Generics) -> syn::Result<String> {
    match ty {
        Type::ImplTrait(bounds) => {
            head(&bound(&bounds.bounds).ok_or_else(|| unknown(ty))?, generics)
        }
        Type::Path(path) => {
            let segment = path.path.segments.last().ok_or_else(|| unknown(ty))?;
            match generic(&segment.ident, generics) {
                Some(inner) => head(&inner, generics),
                None => Ok(segment.ident.to_string()),
            }
        }
        Type::Tuple(_) | Type::Array(_) => Ok(String::new()),
        Type::Group(group) => head(&group.elem, generics),
        _ => Err(unknown(ty)),
    }
}

/// Returns the type that a type parameter is bound to.
fn generic(name: &Ident, generics: &Generics) -> Option<Type> {
    generics.params.iter().find_map(|param| match param {
        GenericParam::Type(param) if param.ident == *name => bound(&param.bounds),
        _ => None,
    })
}

/// Returns the `T` of `Into<T>` or `Borrow<T>`.
fn bound<'a>(bounds: impl IntoIterator<Item = &'a TypeParamBound>) -> Option<Type> {
    bounds.into_iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let segment = bound.path.segments.last()?;
        let known = segment.ident == "Into" || segment.ident == "Borrow";
        known.then(|| argument(&segment.arguments).cloned()).flatten()
    })
}

/// Returns the `T` of `Wrapper<T>`.
pub fn inside<'a>(ty: &'a Type, wrapper: &str) -> Option<&'a Type> {
    let Type::Path(path) = ty else { return None };
    let segment = path.path.segments.last()?;
    (segment.ident == wrapper).then(|| argument(&segment.arguments)).flatten()
}

fn argument(arguments: &PathArguments) -> Option<&Type> {
    let PathArguments::AngleBracketed(list) = arguments else { return None };
    list.args.iter().find_map(|argument| match argument {
        GenericArgument::Type(ty) => Some(ty),
        _ => None,
    })
}

fn unknown(ty: &Type) -> syn::Error {
    let message =
        "#[js] knows no such type in JavaScript: say #[js(skip)] and write the method in src/js";
    syn::Error::new_spanned(ty, message)
}

/// Returns the output of a future: the `T` of `impl Future<Output = T>` or `Pending<T>`.
pub fn awaited(ty: &Type) -> Option<Type> {
    if let Some(inner) = inside(ty, "Pending") {
        return Some(inner.clone());
    }
    let Type::ImplTrait(bounds) = ty else { return None };
    bounds.bounds.iter().find_map(|bound| {
        let TypeParamBound::Trait(bound) = bound else { return None };
        let PathArguments::AngleBracketed(list) = &bound.path.segments.last()?.arguments else {
            return None;
        };
        list.args.iter().find_map(|argument| match argument {
            GenericArgument::AssocType(output) => Some(output.ty.clone()),
            _ => None,
        })
    })
}

/// Returns the type with a `'static` lifetime, for the associated type `<T as IntoJs>::Js` in a signature.
pub fn lasting(ty: &Type) -> TokenStream {
    match ty {
        Type::Reference(to) => {
            let inner = &to.elem;
            quote!(&'static #inner)
        }
        other => quote!(#other),
    }
}
