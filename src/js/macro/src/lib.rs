//! `#[js]`: JavaScript out of warpweft's own Rust.
//!
//! On `impl Tensor` it leaves the methods as they are and makes each public one a method of the JavaScript class `Tensor`,
//! with the same documentation. On a struct or an enum it makes the TypeScript type, and what converts between the two.
//! The crate puts it behind its feature `js`; on other machines than wasm32 nothing is made.
//!
//! What a method's own `#[js(...)]` says:
//!
//! - `skip`: JavaScript does not have it, or by hand (`src/js`);
//! - `name = "where"`: another name than the Rust one in camel case;
//! - `default(a = -2, b = -1)`: parameters that may be left out;
//! - `options(weight, epsilon = 1e-5)`: parameters that are fields of one object, the last argument, with their defaults;
//! - `returns(values, indices)`: the names under which an object has the parts of a tuple;
//! - `dtype = I32`: the type of the result's elements, where it is not that of this tensor's;
//! - `types = Select`: the row's types, of which this one's results have any;
//! - `returns = "Ordered<D>"`: the result's type for TypeScript;
//! - `getter`: a property;
//! - `keepdims`: axes that come with the option `keepDims`;
//! - `spread(options)`: a struct of options, whose fields stand in that object;
//! - `required`: the object can not be left out;
//! - `example = "..."`: JavaScript for the documentation.
//!
//! On the impl itself `only(run, flush)` names the methods that JavaScript has, where they are few.

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

/// See the [crate](self).
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
