//! An example of the README; `UPDATE_EXPECT=1` rewrites this file.

use warpweft_native::{nn::*, optim::*, prelude::*};

pub fn main() -> Result<()> {
    let generator = Generator::new(&Device::new_blocking()?, 0);
    let model = Sequential::new()
        .push(Linear::new(&generator, 1, 16)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 16, 1)?);
    let mut optimizer = Optimizer::new(Adam::new(0.01), &model.parameters())?;
    let x = generator.device().linspace(-3.0, 3.0, 64)?.reshape(&[64, 1])?;
    for step in 0..500 {
        let loss = model.forward(&x)?.mse_loss(&x.sin(), LossReduction::Mean)?;
        optimizer.minimize(&loss)?; // computes the gradients and updates the parameters
        if step % 100 == 0 {
            println!("{step}: {}", loss.item_blocking::<f32>()?);
        }
    }
    let error = model.forward(&x)?.sub(&x.sin())?.abs().max(())?; // over all axes
    assert!(error.item_blocking::<f32>()? < 0.1);
    Ok(())
}
