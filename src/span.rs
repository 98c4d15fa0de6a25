//! Spans of the `tracing` crate: what takes long natively, for whatever subscriber an app has set. Without one they cost a
//! comparison. Browsers have their own tools, and there are none there.

/// A span until the end of the block.
#[cfg(not(target_arch = "wasm32"))]
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)*) => {
        let _span = tracing::debug_span!(target: "warpweft", $name $(, $field = $value)*).entered();
    };
}
/// Nothing.
#[cfg(target_arch = "wasm32")]
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)*) => {
        $( let _ = || $value; )*
    };
}
pub(crate) use span;
