//! The attribute `#[js]`, which generates the JavaScript API from Rust code.
//!
//! On an `impl` block, it keeps the Rust methods and generates a method of the JavaScript class for each public one, with the
//! same documentation. On a struct or an enum, it generates the TypeScript type and the conversion. All generated code is for
//! wasm32 only, and the crate `warpweft` uses the attribute behind its feature `js`.
//!
//! For example, `pub fn softmax(&self, axis: isize) -> Tensor` in `#[js] impl Tensor` becomes the JavaScript method
//! `softmax(axis)`. With `#[js(default(axis = -1))]`, the argument is optional.
//!
//! Settings of a method in `#[js(...)]`:
//!
//! - `skip`: no generated method. JavaScript lacks it, or `src/js` has a hand-written one.
//! - `name = "where"`: the name in JavaScript, instead of the Rust name in camel case.
//! - `default(a = -2, b = -1)`: optional parameters and their defaults.
//! - `options(bias, eps = 1e-5)`: parameters that are fields of an options object, the last argument, with their
//!   defaults.
//! - `returns(values, indices)`: a tuple is returned as an object with these field names.
//! - `dtype = I32`: the element type of the result, if it differs from this tensor's.
//! - `types = Select`: the row's types. The result of a selection may have any type.
//! - `returns = "Ordered<D>"`: the TypeScript type of the result.
//! - `getter`: the method is a property.
//! - `keepdims`: the axes have the option `keepdim`.
//! - `spread(options)`: a struct of options, whose fields become fields of the options object. A struct that borrows tensors
//!   has its lifetime in the type of the parameter, as in `NormOptions<'_>`.
//! - `required`: the options object is not optional.
//! - `example = "..."`: a JavaScript example for the documentation.
//!
//! On an `impl` block, `only(run, submit)` selects the methods that JavaScript has.

mod data;
mod docs;
mod methods;
mod settings;
#[cfg(test)]
mod tests;
mod types;

use proc_macro::TokenStream;
use quote::{quote, ToTokens};
use syn::Item;

/// Generates JavaScript classes, types and conversions. The [crate](self) documentation lists the settings.
#[proc_macro_attribute]
pub fn js(settings: TokenStream, item: TokenStream) -> TokenStream {
    let made = match syn::parse::<Item>(item.clone()) {
        Ok(Item::Impl(item)) => methods::class(item, settings.into()),
        Ok(Item::Struct(item)) => data::object(item, settings.into()),
        Ok(Item::Enum(item)) => data::words(item),
        Ok(other) => Err(syn::Error::new_spanned(other, "#[js] is for impl, struct and enum")),
        Err(error) => Err(error),
    };
    made.unwrap_or_else(|error| {
        let (error, item) = (error.to_compile_error(), proc_macro2::TokenStream::from(item));
        quote!(#item #error)
    })
    .into_token_stream()
    .into()
}
