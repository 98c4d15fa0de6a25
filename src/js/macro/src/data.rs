//! Structs and enums: options objects, result objects, and words.

use crate::docs::{camel, jsdoc};
use crate::settings::Settings;
use crate::types;
use proc_macro2::TokenStream;
use quote::{quote, ToTokens};
use syn::{Attribute, Fields, Ident, ItemEnum, ItemStruct, Result, Type};

/// Generates the object type for a struct. Structs are options that are read, or results with `#[js(result)]`.
pub fn object(mut item: ItemStruct, settings: TokenStream) -> Result<TokenStream> {
    let about = Settings::new(settings)?;
    let name = about.name.clone().unwrap_or_else(|| item.ident.to_string());
    let (generics, params, bounds) = item.generics.split_for_impl();
    let mut fields = Vec::new();
    let mut shown = format!("{}export interface {name} {{\n", comment(&item.attrs, &name, ""));
    let mut own = Vec::new();
    for field in &mut item.fields {
        let settings = Settings::take(&mut field.attrs)?;
        let Some(ident) = field.ident.clone().filter(|_| !settings.skip) else { continue };
        let js = settings.name.clone().unwrap_or_else(|| camel(&ident.to_string()));
        let inner = types::inside(&field.ty, "Option");
        let plain = inner.unwrap_or(&field.ty);
        let ts = match settings.returns {
            Some(ts) => ts,
            None => types::typescript(plain, &item.generics)?,
        };
        let needed = about.parts.iter().any(|part| ident == part);
        let mark = match about.result {
            true if inner.is_none() => "",
            true => " | undefined",
            false if needed => "",
            false => "?",
        };
        let read = if about.result { "readonly " } else { "" };
        let (before, after) = if about.result { ("", mark) } else { (mark, "") };
        shown += &comment(&field.attrs, &name, "  ");
        shown += &format!("  {read}{js}{before}: {ts}{after};\n");
        own.push(js);
        fields.push(OptionField { name: ident, ty: field.ty.clone(), is_needed: needed });
    }
    shown += "}\n";
    let ident = &item.ident;
    let made = if about.result {
        let names = fields.iter().map(|field| &field.name);
        quote! {
            impl #generics IntoJs for &#ident #params #bounds {
                type Js = JsValue;
                fn into_js(self) -> CoreResult<JsValue> {
                    let values = [#((&self.#names).value()),*];
                    Ok(named(&[#(#own),*], values))
                }
            }
            impl #generics IntoJs for #ident #params #bounds {
                type Js = JsValue;
                fn into_js(self) -> CoreResult<JsValue> { (&self).into_js() }
            }
        }
    } else if item.generics.lifetimes().next().is_some() {
        borrowed(ident, &fields, &own)
    } else {
        let (known, taken) = (own.join(" "), taken(&fields, &own));
        let needed = fields.iter().enumerate().filter(|(_, field)| field.is_needed);
        let needed: Vec<TokenStream> = needed
            .map(|(at, field)| {
                let (ty, value) = (&field.ty, converted(&own[at]));
                quote!({ let value = fields.get(#at); let made: #ty = #value; made })
            })
            .collect();
        let begin = match needed.is_empty() {
            true => quote!(<Self as Default>::default()),
            false => quote!(Self::new(#(#needed),*)),
        };
        quote! {
            impl #generics FromOptions for #ident #params #bounds {
                const KNOWN: &'static str = #known;
                fn from_options(fields: Rest<'_>) -> CoreResult<Self> {
                    let mut options = #begin;
                    #(#taken)*
                    Ok(options)
                }
            }
        }
    };
    Ok(beside(item.to_token_stream(), &shown, made))
}

/// A field of options.
struct OptionField {
    name: Ident,
    ty: Type,
    is_needed: bool,
}

/// Returns the conversion of the variable `value`, which is the field with this name in JavaScript.
fn converted(js: &str) -> TokenStream {
    quote!(FromJs::from_js(&value, At { op: fields.op(), argument: #js })?)
}

/// Returns the code that sets the fields of `options` that were passed.
fn taken(fields: &[OptionField], own: &[String]) -> Vec<TokenStream> {
    let each = fields.iter().zip(own).enumerate().filter(|(_, (field, _))| !field.is_needed);
    each.map(|(at, (field, js))| {
        let (name, value) = (&field.name, converted(js));
        quote! {
            let value = fields.get(#at);
            if !value.is_undefined() { options.#name = #value; }
        }
    })
    .collect()
}

/// Returns the conversion to options that borrow tensors. JavaScript's options are converted to a struct `Owned` with the same
/// fields, which owns its tensors and lends them.
fn borrowed(ident: &Ident, fields: &[OptionField], own: &[String]) -> TokenStream {
    let (known, taken) = (own.join(" "), taken(fields, own));
    let (mut declared, mut usual, mut lent) = (Vec::new(), Vec::new(), Vec::new());
    for OptionField { name, ty, .. } in fields {
        match types::inside(ty, "Option") {
            Some(Type::Reference(to)) => {
                let inner = &to.elem;
                declared.push(quote!(#name: Option<#inner>));
                usual.push(quote!(#name: None));
                lent.push(quote!(#name: self.#name.as_ref()));
            }
            _ => {
                declared.push(quote!(#name: #ty));
                usual.push(quote!(#name: <#ident as Default>::default().#name));
                lent.push(quote!(#name: self.#name));
            }
        }
    }
    quote! {
        pub struct Owned { #(#declared),* }
        impl BorrowedOptions for #ident<'static> { type Owned = Owned; }
        impl FromOptions for Owned {
            const KNOWN: &'static str = #known;
            fn from_options(fields: Rest<'_>) -> CoreResult<Self> {
                let mut options = Owned { #(#usual),* };
                #(#taken)*
                Ok(options)
            }
        }
        impl Owned {
            pub fn borrowed(&self) -> #ident<'_> { #ident { #(#lent),* } }
        }
    }
}

/// Generates the word type for an enum without fields: `NearestExact` becomes `"nearest-exact"`.
pub fn words(mut item: ItemEnum) -> Result<TokenStream> {
    let name = item.ident.to_string();
    let (mut listed, mut descriptions, mut variants) = (Vec::new(), String::new(), Vec::new());
    for variant in &mut item.variants {
        let settings = Settings::take(&mut variant.attrs)?;
        if !matches!(variant.fields, Fields::Unit) {
            let message = "#[js] makes words of variants without fields";
            return Err(syn::Error::new_spanned(variant, message));
        }
        let word = settings.name.unwrap_or_else(|| kebab(&variant.ident.to_string()));
        let doc = jsdoc(&variant.attrs, &name, None).replace('\n', " ");
        descriptions += &format!("\n- `\"{word}\"`: {doc}");
        listed.push(word);
        variants.push(variant.ident.clone());
    }
    let quoted: Vec<String> = listed.iter().map(|word| format!("\"{word}\"")).collect();
    let doc = format!("{}\n{descriptions}", jsdoc(&item.attrs, &name, None));
    let shown = format!("{}export type {name} = {};\n", framed(&doc, ""), quoted.join(" | "));
    let ident = &item.ident;
    let made = quote! {
        impl FromJs for #ident {
            fn from_js(value: &JsValue, at: At) -> CoreResult<#ident> {
                const ALL: &[#ident] = &[#(#ident::#variants),*];
                Ok(ALL[word(value, &[#(#listed),*], at)?])
            }
        }
        impl IntoJs for #ident {
            type Js = String;
            fn into_js(self) -> CoreResult<String> {
                Ok(match self { #(#ident::#variants => #listed),* }.to_string())
            }
        }
    };
    Ok(beside(item.to_token_stream(), &shown, made))
}

/// Returns the item followed by the generated JavaScript code.
fn beside(item: TokenStream, shown: &str, made: TokenStream) -> TokenStream {
    quote! {
        #item
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use crate::js::*;
            #[wasm_bindgen(typescript_custom_section)]
            const SHOWN: &str = #shown;
            #made
        };
    }
}

fn comment(attributes: &[Attribute], name: &str, indent: &str) -> String {
    framed(&jsdoc(attributes, name, None), indent)
}

/// Formats a text as a JSDoc comment.
fn framed(text: &str, indent: &str) -> String {
    match text.trim() {
        "" => String::new(),
        line if !line.contains('\n') => format!("{indent}/** {line} */\n"),
        text => {
            let lines: Vec<String> = text
                .lines()
                .map(|line| format!("{indent} * {line}").trim_end().to_string())
                .collect();
            format!("{indent}/**\n{}\n{indent} */\n", lines.join("\n"))
        }
    }
}

/// Converts a name to kebab case: `NearestExact` becomes `nearest-exact`.
fn kebab(name: &str) -> String {
    let mut out = String::new();
    for c in name.chars() {
        if c.is_uppercase() && !out.is_empty() {
            out.push('-');
        }
        out.extend(c.to_lowercase());
    }
    out
}
