//! Tests the spans that a subscriber of the `tracing` crate receives, in a separate process.

use std::sync::{Arc, Mutex};
use warpweft_native::prelude::*;

/// A subscriber that stores the names of the spans.
#[derive(Clone, Default)]
struct SpanNames(Arc<Mutex<Vec<&'static str>>>);

impl tracing::Subscriber for SpanNames {
    fn enabled(&self, metadata: &tracing::Metadata<'_>) -> bool {
        metadata.target() == "warpweft"
    }
    fn new_span(&self, span: &tracing::span::Attributes<'_>) -> tracing::Id {
        self.0.lock().expect("no panic").push(span.metadata().name());
        tracing::Id::from_u64(1)
    }
    fn record(&self, _: &tracing::Id, _: &tracing::span::Record<'_>) {}
    fn record_follows_from(&self, _: &tracing::Id, _: &tracing::Id) {}
    fn event(&self, _: &tracing::Event<'_>) {}
    fn enter(&self, _: &tracing::Id) {}
    fn exit(&self, _: &tracing::Id) {}
}

#[test]
fn subscribers_hear_of_spans() -> Result<()> {
    let span_names = SpanNames::default();
    tracing::subscriber::set_global_default(span_names.clone()).expect("the first");
    let device = Device::with_blocking(Preference::Cpu)?;
    let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    let names = || std::mem::take(&mut *span_names.0.lock().expect("no panic"));
    x.exp().read_blocking::<f32>()?;
    assert_eq!(names(), ["upload", "plan", "submit", "compile", "read"]);
    // A cached plan is neither planned nor compiled again.
    x.exp().read_blocking::<f32>()?;
    assert_eq!(names(), ["submit", "read"]);
    Ok(())
}
