//! Choosing kernels, also by measuring.

use super::{objects, values};
use crate::backend::Pending;
use crate::device::Variants;
use crate::error::{Error, Result};
use crate::tune;
use wasm_bindgen::JsValue;

/// The number of the kernels that a device runs, after others were chosen where there is a number.
pub fn variants(device: u32, chosen: &[u32], answer: &mut Vec<f64>) -> Result<()> {
    let device = objects::device(device)?;
    if let Some(&number) = chosen.first() {
        let unknown = || Error::data("tune: there are no such kernels");
        device.set_variants(Variants::from_number(number).ok_or_else(unknown)?)?;
    }
    answer.push(device.variants().number().into());
    Ok(())
}

/// Measures which kernels are fastest on a device; their number.
pub fn tune(device: u32) -> Result<Pending<Result<JsValue>>> {
    let device = objects::device(device)?;
    Ok(Box::pin(async move {
        let tuned = tune::tune(&device, values::now).await?;
        Ok(tuned.variants.number().into())
    }))
}
