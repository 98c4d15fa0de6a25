//! Spans of the `tracing` crate for slow steps, natively, for any subscriber that an app has set. Without a subscriber, a
//! span costs one comparison. Browsers have other tools, so spans are empty there.

/// Opens a span until the end of the block.
#[cfg(not(target_arch = "wasm32"))]
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)*) => {
        let _span = tracing::debug_span!(target: "warpweft", $name $(, $field = $value)*).entered();
    };
}
/// Evaluates no field and opens no span.
#[cfg(target_arch = "wasm32")]
macro_rules! span {
    ($name:literal $(, $field:ident = $value:expr)*) => {
        $( let _ = || $value; )*
    };
}
pub(crate) use span;
