//! A web page with a Rust crate that uses warpweft: fits a line to points, on WebGPU or on the CPU. The feature `js` is off, so
//! the page's module has the functions of this file and none of warpweft's classes.
//!
//! `wasm-pack build --target web` creates `pkg/`, which `index.html` imports.

use warpweft::device::{Device, Preference};
use warpweft::tensor::Variable;
use wasm_bindgen::prelude::*;

#[wasm_bindgen(start)]
fn start() {
    console_error_panic_hook::set_once();
}

/// Returns the slope and the intercept of the line nearest to points, by gradient descent. `device` is `auto`, `cpu`, or
/// another value of [`Preference`].
#[wasm_bindgen(js_name = fitLine)]
pub async fn fit_line(device: &str, x: &[f32], y: &[f32], steps: u32) -> Result<Vec<f32>, JsError> {
    let device = Device::with(Preference::parse(device)).await?;
    let x = device.tensor(x, &[x.len()])?;
    let y = device.tensor(y, &[y.len()])?;
    let [slope, height] = [0.0f32, 0.0].map(|start| device.tensor(&[start], &[]));
    let (slope, height) = (Variable::new(&slope?), Variable::new(&height?));
    for _ in 0..steps {
        let line = x.mul(slope.value())?.add(height.value())?;
        line.sub(&y)?.square().mean(())?.backward(&[&slope, &height])?;
        for variable in [&slope, &height] {
            let Some(gradient) = variable.take_gradient() else { continue };
            variable.assign(&variable.value().sub(&gradient.mul(0.1)?)?)?;
        }
        device.submit()?;
    }
    Ok(vec![slope.value().item().await?, height.value().item().await?])
}
