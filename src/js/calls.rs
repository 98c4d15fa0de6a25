//! What methods of one form have in common: arguments converted, the core's method called, the result converted. Each is
//! there once for each list of types, and not in each method.

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
            $(let $value = $ty::from_js($value.0, At { op, what: $value.1 })?;)*
            given(method(&core $(, $value)*), op)
        }
    )* };
}

calls! {
    /// Of a method without arguments.
    call0();
    /// Of one with one.
    call1(a: A);
    /// Of one with two.
    call2(a: A, b: B);
    /// Of one with three.
    call3(a: A, b: B, c: C);
    /// Of one with four.
    call4(a: A, b: B, c: C, d: D);
}
