//! Profiles two steps of a network by kernel and by phase of the host, and writes a trace in Chrome's format for viewers.
//! `cargo run -p warpweft-native --example profiling`

use warpweft_native::prelude::*;
use warpweft_native::profile::Phase;

fn main() -> Result<()> {
    let device = Device::new_blocking()?;
    // Measures the device's maximum speed, so that the profile shows each kernel's share of it.
    device.measure_ceilings_blocking()?;

    let x = device.normal(&[256, 128], 0.0, 1.0, 1)?;
    let hidden = device.normal(&[128, 512], 0.0, 0.1, 2)?;
    let output = device.normal(&[512, 10], 0.0, 0.1, 3)?;
    let step = || -> Result<f32> {
        let scores = x.matmul(&hidden)?.relu().matmul(&output)?;
        let loss = scores.log_softmax(-1)?.narrow(1, 0, 1)?.mean(&[])?.neg();
        let gradients = loss.grad(&[&hidden, &output])?;
        let [first, second] = [0, 1].map(|n| gradients[n].square().sum(&[]));
        first?.add(second?)?.item_blocking()
    };
    // The first step plans and compiles. The second does not.
    for number in [1, 2] {
        let (norm, profile) = device.profile_blocking(step)?;
        println!("step {number}: squared norm of the gradients {norm:.4}\n{profile}");
        let planning = profile.host_time(Phase::Plan) + profile.host_time(Phase::Compile);
        println!("planning and compiling: {} us", planning.as_micros());
        let flops: u64 = profile.kernels().iter().map(|kernel| kernel.work.flops).sum();
        println!("operations of step {number}: {flops}");
        if number == 2 {
            let file = std::env::temp_dir().join("warpweft-trace.json");
            match std::fs::write(&file, profile.to_chrome_trace()) {
                Ok(()) => println!("the trace is in {}", file.display()),
                Err(error) => println!("no trace: {error}"),
            }
        }
    }
    Ok(())
}
