//! An example of the README; `UPDATE_EXPECT=1` rewrites this file.

use warpweft_native::prelude::*;

pub fn main() -> Result<()> {
    let device = Device::new_blocking()?;                 // a GPU, otherwise the CPU; WARPWEFT_DEVICE=cpu chooses
    let x = device.tensor(&[1.0f32, 2.0, 3.0, 4.0, 5.0, 6.0], &[2, 3])?;
    let w = device.uniform(&[3, 4], -1.0, 1.0, 7)?;
    let y = x.matmul(&w)?.add(0.5)?.gelu().softmax(-1)?;
    println!("{device:?}: {:?}", y.read_blocking::<f32>()?);
    Ok(())
}
