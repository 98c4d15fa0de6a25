//! Generic calls for methods with the same number of arguments: convert the arguments, call the core's method, convert the
//! result. One instance per list of types, instead of one per method, keeps the WebAssembly small.

use super::{given, Answer, At, FromJs, IntoJs, Shell};
use wasm_bindgen::prelude::*;

macro_rules! calls {
    ($($(#[$doc:meta])* $name:ident($($value:ident: $ty:ident),*);)*) => { $(
        $(#[$doc])*
        #[inline(never)]
        pub fn $name<S: Shell, $($ty: FromJs,)* R: IntoJs>(
            shell: &S,
            op: &'static str,
            $($value: (&JsValue, &'static str),)*
            method: fn(&S::Core $(, $ty)*) -> R,
        ) -> Answer<R::Js> {
            let core = shell.core(op)?;
            $(let $value = $ty::from_js($value.0, At { op, argument: $value.1 })?;)*
            given(method(&core $(, $value)*), op)
        }
    )* };
}

calls! {
    /// Calls a method without arguments.
    call0();
    /// Calls a method with one argument.
    call1(a: A);
    /// Calls a method with two arguments.
    call2(a: A, b: B);
    /// Calls a method with three arguments.
    call3(a: A, b: B, c: C);
    /// Calls a method with four arguments.
    call4(a: A, b: B, c: C, d: D);
}
