//! Tests that the example draws the image that it computes.

#[path = "../examples/share_device.rs"]
mod share_device;

#[test]
fn an_app_draws_what_tensors_computed() {
    let required = std::env::var("WARPWEFT_REQUIRE").unwrap_or_default();
    match share_device::run().expect("it runs") {
        Some((right, all)) => assert_eq!((right, all), (64 * 64, 64 * 64)),
        None => assert!(!required.contains("wgpu"), "WARPWEFT_REQUIRE={required}, but no adapter"),
    }
}
