//! Calls rows of the pointwise table by name, through the public methods.

use warpweft::error::{Error, Result};
use warpweft::tensor::{Operand, Tensor};

macro_rules! define_calls {
    ($($(#[doc = $doc:literal])+ $kind:ident $name:ident($($arg:ident),+ $(; $($parameter:ident = $usual:literal),+)?)
        $(-> $result:ident)?: $types:ident, $domain:expr => $formula:expr $(, gradient |$y:ident| $gradient:expr)?;)*) => {
        /// Calls the method of this name with a tensor, further operands and parameters.
        pub fn call(name: &str, first: &Tensor, rest: &[Operand], parameters: &[f64]) -> Result<Tensor> {
            match name {
                $(stringify!($name) => {
                    let mut _parameters = parameters.iter().copied();
                    define_calls!(@$kind $name first rest _parameters [$($($parameter),+)?])
                })*
                _ => Err(Error::argument(format!("there is no row {name}"))),
            }
        }
    };
    (@unary $name:ident $first:ident $rest:ident $p:ident [$($parameter:ident),*]) => {
        Ok($first.$name($({ let $parameter = $p.next().expect("a parameter"); $parameter }),*))
    };
    (@binary $name:ident $first:ident $rest:ident $p:ident [$($parameter:ident),*]) => {
        $first.$name(&$rest[0] $(, { let $parameter = $p.next().expect("a parameter"); $parameter })*)
    };
    (@ternary $name:ident $first:ident $rest:ident $p:ident [$($parameter:ident),*]) => {
        $first.$name(&$rest[0], &$rest[1] $(, { let $parameter = $p.next().expect("a parameter"); $parameter })*)
    };
}

warpweft::pointwise_rows!(define_calls);
