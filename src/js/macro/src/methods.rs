//! Generation of a JavaScript class from the public methods of an `impl` block.

use crate::docs::{camel, jsdoc};
use crate::settings::{Default, Settings};
use crate::types::{self, Param};
use proc_macro2::TokenStream;
use quote::{format_ident, quote};
use syn::{Expr, FnArg, Ident, ImplItem, ImplItemFn, ItemImpl, Pat, Result, ReturnType, Type};

/// Returns the `impl` block followed by the class's methods.
pub fn class(mut item: ItemImpl, settings: TokenStream) -> Result<TokenStream> {
    let only = Settings::new(settings)?.only;
    let Type::Path(path) = &*item.self_ty else {
        return Err(syn::Error::new_spanned(&item.self_ty, "#[js] is for a type with a name"));
    };
    let class = path.path.segments.last().map(|last| last.ident.to_string()).unwrap_or_default();
    let shell = format_ident!("Js{class}");
    let mut methods = Vec::new();
    for part in &mut item.items {
        let ImplItem::Fn(method) = part else { continue };
        let settings = Settings::take(&mut method.attrs)?;
        let chosen = only.is_empty() || only.contains(&method.sig.ident.to_string());
        if matches!(method.vis, syn::Visibility::Public(_)) && chosen && !settings.skip {
            methods.push(Method::new(method, &settings, &class)?.written());
        }
    }
    Ok(quote! {
        #item
        #[cfg(target_arch = "wasm32")]
        const _: () = {
            use crate::js::*;
            #[wasm_bindgen(js_class = #class)]
            impl #shell { #(#methods)* }
        };
    })
}

/// The source of a parameter's value.
#[derive(PartialEq)]
enum Place {
    /// A separate argument.
    Argument,
    /// The n-th field of the options object, as listed in the setting `options`.
    Field(usize),
    /// The whole options object.
    Object,
}

/// A field of the options object: its name, its TypeScript declaration, and its description.
struct Field {
    name: String,
    ts: String,
    doc: String,
}

/// A parameter of the Rust method.
struct Input<'a> {
    name: Ident,
    param: Param,
    place: Place,
    default: Option<&'a Expr>,
}

impl Input<'_> {
    fn js_name(&self) -> String {
        camel(&self.name.to_string())
    }

    fn optional(&self) -> bool {
        self.param.optional || self.default.is_some()
    }

    /// Returns the conversion of the JavaScript value, which is an expression for a reference.
    fn converted(&self, value: &TokenStream, at: usize) -> TokenStream {
        let (name, owned, js_name) = (&self.name, &self.param.owned, self.js_name());
        let at_it = quote!(At { op: method_name, argument: #js_name });
        let converted = match self.param.more {
            [] => quote!(<#owned as FromJs>::from_js(#value, #at_it)?),
            _ => quote!(<#owned as FromJs>::from_call(#value, options.after(#at), #at_it)?),
        };
        let Some(default) = self.default else { return quote!(let #name = #converted;) };
        let plain = matches!(self.param.ts.as_str(), "number" | "boolean");
        let usual = if plain { quote!(#default) } else { quote!(<#owned>::from(#default)) };
        quote!(let #name = if #value.is_undefined() { #usual } else { #converted };)
    }
}

/// A method to generate.
struct Method<'a> {
    rust: &'a ImplItemFn,
    settings: &'a Settings,
    class: &'a str,
    js: String,
    on_self: bool,
    inputs: Vec<Input<'a>>,
}

impl<'a> Method<'a> {
    fn new(rust: &'a ImplItemFn, settings: &'a Settings, class: &'a str) -> Result<Method<'a>> {
        let js = settings.name.clone().unwrap_or_else(|| camel(&rust.sig.ident.to_string()));
        let on_self = rust.sig.receiver().is_some();
        let mut inputs = Vec::new();
        for input in &rust.sig.inputs {
            let FnArg::Typed(input) = input else { continue };
            let Pat::Ident(pattern) = &*input.pat else {
                return Err(syn::Error::new_spanned(&input.pat, "#[js] needs a name here"));
            };
            let name = pattern.ident.clone();
            let mut param = types::param(&input.ty, &rust.sig.generics)?;
            if param.ts == "Axes" && !settings.keepdims {
                param.more = &[];
            }
            let of = |list: &'a [Default]| list.iter().position(|one| one.name == name);
            let (place, default) = match (of(&settings.options), of(&settings.spread)) {
                (Some(at), _) => (Place::Field(at), settings.options[at].value.as_ref()),
                (_, Some(at)) => (Place::Object, settings.spread[at].value.as_ref()),
                _ => {
                    let found = of(&settings.default).map(|at| &settings.default[at]);
                    (Place::Argument, found.and_then(|found| found.value.as_ref()))
                }
            };
            inputs.push(Input { name, param, place, default });
        }
        Ok(Method { rust, settings, class, js, on_self, inputs })
    }

    /// Returns the fields of the options object, in the order in which they are read.
    fn fields(&self) -> Vec<Field> {
        let mut fields: Vec<Field> = Vec::new();
        for input in &self.inputs {
            if let Place::Argument = input.place {
                for (name, ts, doc) in input.param.more {
                    fields.push(Field {
                        name: name.to_string(),
                        ts: format!("{name}?: {ts}"),
                        doc: format!("`{name}`: {doc}"),
                    });
                }
            }
        }
        let mut named: Vec<(usize, &Input)> = Vec::new();
        for input in &self.inputs {
            if let Place::Field(at) = input.place {
                named.push((at, input));
            }
        }
        named.sort_by_key(|(at, _)| *at);
        for (_, input) in named {
            let mark = if input.optional() { "?" } else { "" };
            let (name, ts) =
                (input.js_name(), format!("{}{mark}: {}", input.js_name(), input.param.ts));
            let doc = input
                .default
                .map_or(String::new(), |usual| format!("`{name}`: {}", describe_default(usual)));
            fields.push(Field { name, ts, doc });
        }
        fields
    }

    fn written(&self) -> TokenStream {
        let fields = self.fields();
        let objects: Vec<&Input> =
            self.inputs.iter().filter(|i| i.place == Place::Object).collect();
        let mut parameters = Vec::new();
        let mut taken = Vec::new();
        let mut at = 0;
        for input in self.inputs.iter().filter(|input| input.place == Place::Argument) {
            let name = &input.name;
            let js = format_ident!("js_{}", name);
            taken.push(input.converted(&quote!(#js), at));
            at += input.param.more.len();
            parameters.push(input);
        }
        for input in &self.inputs {
            if let Place::Field(n) = input.place {
                let at = at + n;
                taken.push(input.converted(&quote!((&options.get(#at))), at));
            }
        }
        let more = fields.len();
        for input in &objects {
            let (name, owned) = (&input.name, &input.param.owned);
            taken.push(
                quote!(let #name = <#owned as FromOptions>::from_options(options.after(#more))?;),
            );
        }
        let (opened, last) = self.options(&fields, &objects);
        let typed = self.class == "Tensor" && !self.on_self;
        let parameters = parameters.into_iter().map(|input| argument(input, typed)).chain(last);
        let (this, called) = self.called();
        let name = format_ident!("{}", self.rust.sig.ident);
        let (js, op) = (format_ident!("{}", self.js), &self.js);
        let kind = self.settings.getter.then(|| quote!(getter,));
        let docs = jsdoc(&self.rust.attrs, self.class, self.settings.example.as_deref());
        let receiver = self.on_self.then(|| quote!(&self,));
        let body = quote!(#(#taken)* #called);
        let body = match self.rust.sig.generics.const_params().next() {
            None => quote!({ #body }),
            // One instance for each number of window axes.
            Some(_) => quote!(match spatial(&this, &options)? {
                1 => { const N: usize = 1; #body }
                2 => { const N: usize = 2; #body }
                _ => { const N: usize = 3; #body }
            }),
        };
        let any_axes = self.rust.sig.generics.const_params().next().map(|_| {
            quote!(
                const N: usize = 2;
            )
        });
        let (result, ts, finished) = self.result(&body);
        let body = match self.shared() {
            Some(call) => call,
            None => quote! {
                let method_name = #op;
                #any_axes
                #this
                #opened
                #finished
            },
        };
        let shown = ts.map(|ts| quote!(, unchecked_return_type = #ts));
        let docs = docs.lines().map(|line| format!(" {line}"));
        quote! {
            #(#[doc = #docs])*
            #[wasm_bindgen(#kind js_name = #js #shown)]
            pub fn #name(#receiver #(#parameters),*) -> Answer<#result> {
                #body
            }
        }
    }

    /// Returns a call of a shared function (`call0` to `call4`), if the method has the common form: convert some arguments,
    /// call the core, convert the result. Sharing keeps the WebAssembly small.
    fn shared(&self) -> Option<TokenStream> {
        let ReturnType::Type(_, ty) = &self.rust.sig.output else { return None };
        let plain = types::inside(ty, "Result").unwrap_or(ty);
        let alone = |input: &Input| input.place == Place::Argument && input.param.more.is_empty();
        let lends = matches!(plain, Type::Reference(_)) || types::inside(plain, "Option").is_some();
        let tuple = matches!(plain, Type::Tuple(_)) || types::awaited(ty).is_some();
        let generic = self.rust.sig.generics.const_params().next().is_some();
        if !self.on_self || lends || tuple || generic || !self.inputs.iter().all(alone) {
            return None;
        }
        let call = format_ident!("call{}", self.inputs.len());
        let (class, rust, op) = (format_ident!("{}", self.class), &self.rust.sig.ident, &self.js);
        let (mut given, mut taken, mut passed) = (Vec::new(), Vec::new(), Vec::new());
        for input in &self.inputs {
            let (name, owned, js_name) = (&input.name, &input.param.owned, input.js_name());
            let js = format_ident!("js_{}", name);
            given.push(quote!((#js, #js_name)));
            let pass = input.param.pass(name);
            passed.push(quote!(#pass));
            taken.push(match input.default {
                None => quote!(#name: #owned),
                Some(_) => quote!(#name: Option<#owned>),
            });
        }
        let defaults = self.inputs.iter().filter_map(|input| {
            let (name, owned, default) = (&input.name, &input.param.owned, input.default?);
            let plain = matches!(input.param.ts.as_str(), "number" | "boolean");
            let usual = if plain { quote!(#default) } else { quote!(<#owned>::from(#default)) };
            Some(quote!(let #name = #name.unwrap_or(#usual);))
        });
        Some(quote!(#call(self, #op, #(#given,)* |this: &#class #(, #taken)*| {
            #(#defaults)*
            this.#rust(#(#passed),*)
        })))
    }

    /// Returns the code that opens the options object, and its parameter.
    fn options(&self, fields: &[Field], objects: &[&Input]) -> (TokenStream, Option<TokenStream>) {
        if fields.is_empty() && objects.is_empty() {
            return (quote!(let options = Options::none(method_name);), None);
        }
        let known = fields.iter().map(|field| field.name.as_str()).collect::<Vec<_>>().join(" ");
        let others = objects.iter().map(|input| &input.param.owned);
        let opened = quote! {
            const KNOWN: Known = &[#known #(, <#others as FromOptions>::KNOWN)*];
            let options = Options::open(options, KNOWN, method_name)?;
        };
        let mut shown: Vec<String> = objects.iter().map(|input| input.param.ts.clone()).collect();
        if !fields.is_empty() {
            let fields: Vec<&str> = fields.iter().map(|field| field.ts.as_str()).collect();
            shown.push(format!("{{ {} }}", fields.join("; ")));
        }
        let docs = fields.iter().map(|field| field.doc.as_str()).filter(|doc| !doc.is_empty());
        let doc = docs.collect::<Vec<_>>().join(" ");
        let doc = (!doc.is_empty()).then(|| quote!(, param_description = #doc));
        let shown = shown.join(" & ");
        let needed = self.settings.required
            || self.inputs.iter().any(|i| matches!(i.place, Place::Field(_)) && !i.optional());
        let kind = if needed {
            format_ident!("unchecked_param_type")
        } else {
            format_ident!("unchecked_optional_param_type")
        };
        (opened, Some(quote!(#[wasm_bindgen(#kind = #shown #doc)] options: &JsValue)))
    }

    /// Returns the code that gets the core's object, and the call of its method.
    fn called(&self) -> (TokenStream, TokenStream) {
        let (rust, class) = (&self.rust.sig.ident, format_ident!("{}", self.class));
        let passed = self.inputs.iter().map(|input| input.param.pass(&input.name));
        match self.on_self {
            true => (quote!(let this = self.core(method_name)?;), quote!(this.#rust(#(#passed),*))),
            false => (quote!(), quote!(#class::#rust(#(#passed),*))),
        }
    }

    /// Returns the result type, its TypeScript name, and the conversion of the call's result.
    fn result(&self, called: &TokenStream) -> (TokenStream, Option<String>, TokenStream) {
        let ReturnType::Type(_, ty) = &self.rust.sig.output else {
            return (quote!(()), None, quote!(#called; Ok(())));
        };
        let own = |plain: &Type| self.settings.returns.clone().or_else(|| self.shown(plain));
        if let Some(output) = types::awaited(ty) {
            let plain = types::inside(&output, "Result").unwrap_or(&output);
            let ts = format!("Promise<{}>", own(plain).unwrap_or("void".to_string()));
            let named = quote!(work.await.map_err(|error| error.within(method_name)));
            let made = quote!(let work = #called; Ok(promise(async move { #named })));
            return (quote!(js_sys::Promise), Some(ts), made);
        }
        let plain = types::inside(ty, "Result").unwrap_or(ty);
        if let Type::Tuple(tuple) = plain {
            if !self.settings.parts.is_empty() {
                let names = &self.settings.parts;
                let parts = names.iter().zip(&tuple.elems).map(|(name, part)| {
                    format!("{name}: {}", self.shown(part).unwrap_or_default())
                });
                let ts = format!("{{ {} }}", parts.collect::<Vec<_>>().join("; "));
                let ts = self.settings.returns.clone().unwrap_or(ts);
                let made =
                    quote!(Ok(named(&[#(#names),*], Returned::returned(#called, method_name)?)));
                return (quote!(JsValue), Some(ts), made);
            }
        }
        let lasting = types::lasting(ty);
        let result = quote!(<#lasting as IntoJs>::Js);
        let ts = match types::inside(plain, "Option") {
            Some(_) => own(plain).map(|ts| format!("{ts} | undefined")),
            None => own(plain),
        };
        (result, ts, quote!(given(#called, method_name)))
    }

    /// Returns the TypeScript name of a result, or nothing if wasm-bindgen's is right.
    fn shown(&self, ty: &Type) -> Option<String> {
        let name = types::typescript(ty, &self.rust.sig.generics).ok()?;
        let typed = self.inputs.iter().any(|input| input.param.typed);
        let tensor = match self.class {
            "Tensor" if !self.on_self => "Tensor<T>",
            _ if typed => "Tensor<T>",
            "Tensor" => "Tensor<D>",
            _ => "Tensor",
        };
        Some(match name.as_str() {
            "Tensor" => tensor.to_string(),
            "readonly Tensor[]" => "Tensor[]".to_string(),
            "[]" => return None,
            other => other.to_string(),
        })
    }
}

/// Returns the code of a parameter. If `typed`, tensors have the element type of the result.
fn argument(input: &Input, typed: bool) -> TokenStream {
    let (name, js) = (format_ident!("js_{}", input.name), input.js_name());
    let ts =
        if typed { input.param.ts.replace("Tensor", "Tensor<T>") } else { input.param.ts.clone() };
    let described = input.default.map(|usual| {
        let description = describe_default(usual);
        quote!(, param_description = #description)
    });
    match input.optional() {
        true => {
            quote!(#[wasm_bindgen(js_name = #js, unchecked_optional_param_type = #ts #described)] #name: &JsValue)
        }
        false => quote!(#[wasm_bindgen(js_name = #js, unchecked_param_type = #ts)] #name: &JsValue),
    }
}

/// Describes a default value.
pub fn describe_default(value: &Expr) -> String {
    match crate::docs::text(value) {
        Some(text) => format!("Default: `\"{text}\"`."),
        None if matches!(value, Expr::Call(_)) => "Default: random.".to_string(),
        None => format!("Default: {}.", crate::docs::code(value)),
    }
}
