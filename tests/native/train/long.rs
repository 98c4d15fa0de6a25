//! Tests that long trainings use constant memory, whatever is read. `WARPWEFT_STEPS=10000` takes 10,000 steps.

use super::{classifier, everywhere, noise};
use pollster::block_on;
use std::cell::RefCell;
use std::rc::Rc;
use warpweft::device::{Device, Stats};
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::Tensor;
use warpweft::train::*;

fn steps() -> u64 {
    std::env::var("WARPWEFT_STEPS").ok().and_then(|steps| steps.parse().ok()).unwrap_or(400)
}

/// Returns the counters that must not grow.
fn held(stats: &Stats) -> [u64; 4] {
    [stats.nodes, stats.used_bytes, stats.plans, stats.pipelines]
}

/// Returns a trainer with four steps per epoch, and an optimizer that other code also holds.
fn trainer(device: &Device) -> Result<Trainer<Sequential, Rc<RefCell<Optimizer>>>> {
    let x = device.tensor(&noise(180, 3), &[60, 3])?;
    let data = Dataset::new(&x, &x.slice(1, ..1)?.gt(0.0)?.reshape(&[60])?.cast(DType::I32)?)?;
    let model = classifier(device, 1)?;
    let optimizer = Optimizer::new(Adam::new(0.01), &model.parameters())?;
    let loader = DataLoader::new(&data, 15)?.shuffle(5);
    Ok(Trainer::new(model, Rc::new(RefCell::new(optimizer)), loader, |model, x: &Tensor, y| {
        model.forward(x)?.cross_entropy(y, CrossEntropyOptions::default())
    })?
    .validate_on(DataLoader::new(&data, 30)?)
    .epochs(steps() / 4))
}

#[test]
fn nothing_grows() {
    everywhere("long trainings", |device| {
        for every in [1, 10, 0] {
            let mut trainer = trainer(device)?;
            let optimizer = trainer.optimizer.clone();
            let mut seen = Vec::new();
            while let Some(step) = block_on(trainer.next_step())? {
                if every > 0 && step.step % every == 0 {
                    assert!(block_on(step.loss.item::<f32>())?.is_finite(), "step {}", step.step);
                }
                drop(step.loss);
                // At the end of an epoch, no work is in flight.
                if step.ended.is_some() {
                    block_on(device.synchronize())?;
                    seen.push(held(&device.stats()));
                }
            }
            assert_eq!(optimizer.borrow().steps(), steps(), "the optimiser is shared");
            let (early, late) = seen.split_at(seen.len() / 2);
            let most = |part: &[[u64; 4]], n: usize| part.iter().map(|held| held[n]).max();
            for (n, what) in ["nodes", "bytes", "plans", "pipelines"].into_iter().enumerate() {
                let (before, after) = (most(early, n), most(late, n));
                assert!(after <= before, "{what}, read every {every}: {before:?}, {after:?}");
            }
        }
        Ok(())
    });
}
