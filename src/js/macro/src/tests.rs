//! Tests of the generated documentation and code.

use crate::docs::{camel, jsdoc};
use crate::{data, methods};
use syn::{parse_quote, Attribute};

fn docs(lines: &[&str]) -> Vec<Attribute> {
    lines.iter().map(|line| parse_quote!(#[doc = #line])).collect()
}

#[test]
fn names_are_in_camel_case() {
    assert_eq!(camel("index_select"), "indexSelect");
    assert_eq!(camel("conv_transpose1d"), "convTranspose1d");
    assert_eq!(camel("where_cond"), "where");
    assert_eq!(camel("relu"), "relu");
}

#[test]
fn documentation_is_javascript() {
    let rust = docs(&[
        " As [`Tensor::index_select`], with `align_corners`, see [`Device::submit`](crate::device::Device::submit).",
        "",
        " # Errors",
        " `Shape` if an axis does not exist.",
        "",
        " ```",
        " # let device = 1;",
        " assert!(true);",
        " ```",
    ]);
    let found = jsdoc(&rust, "Tensor", Some("x.indexSelect(0, y)"));
    let wanted =
        "As {@link Tensor.indexSelect}, with `alignCorners`, see {@link Device.submit}.\n\n\
        @throws `Shape` if an axis does not exist.\n\n@example\n```ts\nx.indexSelect(0, y)\n```";
    assert_eq!(found, wanted);
    let only_rust =
        docs(&[" With [`Axes::keepdim`] they stay; `[a, b]` and `x + y` are as they are."]);
    assert_eq!(
        jsdoc(&only_rust, "Tensor", None),
        "With `keepdim` they stay; `[a, b]` and `x + y` are as they are."
    );
}

fn made(item: syn::ItemImpl) -> String {
    methods::class(item, Default::default()).expect("it is well formed").to_string()
}

#[test]
fn methods_are_typed() {
    let text = made(parse_quote! {
        impl Tensor {
            /// The sum.
            #[js(keepdims)]
            pub fn sum(&self, axes: impl Into<Axes>) -> Result<Tensor> { x }
            #[cfg_attr(feature = "js", js(options(weight, eps = 1e-5)))]
            pub fn rms_norm(&self, weight: Option<&Tensor>, eps: f64) -> Result<Tensor> { x }
            #[js(skip)]
            pub fn hidden(&self, callback: fn()) {}
            fn private(&self, callback: fn()) {}
        }
    });
    for part in [
        "unchecked_optional_param_type = \"{ keepdim?: boolean }\"",
        "unchecked_optional_param_type = \"Axes\"",
        "unchecked_optional_param_type = \"{ weight?: Tensor; eps?: number }\"",
        "`eps`: Default: 1e-5.",
        "js_name = rmsNorm",
        "unchecked_return_type = \"Tensor<D>\"",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    assert!(!text.contains("js_name = hidden") && !text.contains("js_name = private"), "{text}");
}

#[test]
fn what_is_not_known_is_refused() {
    let setting = methods::class(
        parse_quote! { impl Tensor { #[js(skipp)] pub fn f(&self) {} } },
        Default::default(),
    );
    assert!(setting.is_err_and(|error| error.to_string().contains("no such setting")));
    let ty = methods::class(
        parse_quote! { impl Tensor { pub fn f(&self, callback: fn()) {} } },
        Default::default(),
    );
    assert!(ty.is_err_and(|error| error.to_string().contains("js(skip)")));
}

#[test]
fn enums_are_words() {
    let text = data::words(parse_quote! {
        /// How.
        pub enum Resize {
            /// The nearest.
            NearestExact,
        }
    });
    let text = text.expect("it is well formed").to_string();
    assert!(text.contains("export type Resize = \\\"nearest-exact\\\";"), "{text}");
}

#[test]
fn options_that_borrow_are_owned_in_javascript() {
    let text = data::object(
        parse_quote! {
            /// Options.
            pub struct NormOptions<'a> {
                /// The weight.
                pub weight: Option<&'a Tensor>,
                pub eps: f64,
            }
        },
        Default::default(),
    );
    let text = text.expect("it is well formed").to_string();
    for part in [
        "weight?: Tensor;\\n  eps?: number;",
        "pub struct Owned { weight : Option < Tensor > , eps : f64 }",
        "NormOptions { weight : self . weight . as_ref () , eps : self . eps }",
        "KNOWN : & 'static str = \"weight eps\"",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
    let text = made(parse_quote! {
        impl Tensor {
            #[js(options(axes = -1), spread(options))]
            pub fn layer_norm(&self, axes: impl Into<Axes>, options: NormOptions<'_>) -> Result<Tensor> { x }
        }
    });
    for part in [
        "unchecked_optional_param_type = \"NormOptions & { axes?: Axes }\"",
        "< NormOptions < 'static > as BorrowedOptions > :: Owned",
        "options . borrowed ()",
    ] {
        assert!(text.contains(part), "{part} is not in {text}");
    }
}
