//! Trains one model on several ranks.
//! `cargo build --release -p warpweft-native --features mpi --example data_parallel`
//! `mpirun -n 4 target/release/examples/data_parallel`

use warpweft_native::{nn::*, optim::*, prelude::*, train::*};

fn main() -> Result<()> {
    let world = World::init()?;
    let device = Device::new_blocking()?;
    let x = device.uniform(&[4096, 8], -1.0, 1.0, 1)?;
    let data = Dataset::new(&x, &x.sum(1)?.sin().unsqueeze(1)?)?;
    let generator = Generator::new(&device, 0);
    let model = Sequential::new()
        .push(Linear::new(&generator, 8, 64)?)
        .push(|x: &Tensor| Ok(x.tanh()))
        .push(Linear::new(&generator, 64, 1)?);
    let optimizer = Optimizer::new(Adam::new(1e-3), &model.parameters())?;
    let loader = DataLoader::new(&data, 32)?.shuffle(2);
    let mut trainer = Trainer::new(model, optimizer, loader, |model, x, y| {
        model.forward(x)?.mse_loss(y, LossReduction::Mean)
    })?
    .epochs(10)
    .data_parallel(&world)?;
    for epoch in trainer.fit_blocking()? {
        if world.rank() == 0 {
            println!("epoch {}: {:.5}", epoch.epoch, epoch.loss);
        }
    }
    Ok(())
}
