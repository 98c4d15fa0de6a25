//! Tests finding the operation that caused a non-finite value.

use super::everywhere;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::nn::*;
use warpweft::optim::*;
use warpweft::tensor::{NonFinite, Tensor, Variable};
use warpweft::train::*;

fn found(x: &Tensor) -> Result<Option<NonFinite>> {
    block_on(x.find_non_finite())
}

/// Returns the finding as a sentence.
fn sentence(x: &Tensor) -> Result<String> {
    Ok(found(x)?.expect("it is not finite").to_string())
}

#[test]
fn the_first_operation_is_named_with_its_operands() {
    everywhere("values that are not finite", |device| {
        let x = device.tensor(&[3.0f32, 1.0, 0.5], &[3])?;
        let loss = x.sub(1)?.sqrt().exp().sum(())?;
        assert_eq!(sentence(&loss)?, "sqrt gave a NaN, f32 [3], for sub f32 [3]");
        // The finding is the same after the loss was read.
        block_on(loss.item::<f32>())?;
        assert_eq!(sentence(&loss)?, "sqrt gave a NaN, f32 [3], for sub f32 [3]");
        assert_eq!(found(&x.square().sum(())?)?, None);
        let far = x.mul(100)?.exp();
        assert_eq!(sentence(&far.sum(())?)?, "exp gave an infinity, f32 [3], for mul f32 [3]");
        let given = device.tensor(&[1.0f32, f32::NAN], &[2])?;
        let got = found(&given.add(1)?)?.expect("it is not finite");
        let want = NonFinite {
            op: "data",
            shape: vec![2],
            dtype: DType::F32,
            nan: true,
            operands: vec![],
        };
        assert_eq!(got, want);
        // Integers and shapes without elements cause no finding.
        assert_eq!(found(&x.argmax(0)?)?, None);
        assert_eq!(found(&device.zeros(&[0])?.log())?, None);
        Ok(())
    });
}

#[test]
fn infinities_that_do_not_matter_are_passed_over() {
    everywhere("a mask of infinities", |device| {
        let x = device.tensor(&[1.0f32, 2.0, -1.0], &[3])?;
        let masked = x.gt(0)?.where_cond(&x, f64::NEG_INFINITY)?.softmax(-1)?;
        assert_eq!(found(&masked)?, None);
        assert_eq!(
            sentence(&masked.log())?,
            "log gave an infinity, f32 [3], for div f32 [3]",
            "the mask is older, and is not it"
        );
        Ok(())
    });
}

#[test]
fn gradients_are_looked_through_as_well() {
    everywhere("gradients that are not finite", |device| {
        let x = device.tensor(&[4.0f32, 0.0], &[2])?;
        let loss = x.sqrt().sum(())?;
        assert_eq!(found(&loss)?, None);
        let gradient = loss.grad(&[&x])?.remove(0);
        let got = found(&gradient)?.expect("the slope at 0");
        assert_eq!((&got.shape[..], got.nan), (&[2][..], false), "{got}");
        Ok(())
    });
}

/// Returns a trainer whose third batch has a logarithm of 0.
fn trainer(device: &Device, of_gradient: bool) -> Result<Trainer<Linear>> {
    let mut x = vec![1.0f32; 8];
    x[5] = 0.0;
    let data = Dataset::new(&device.tensor(&x, &[8, 1])?, &device.ones(&[8, 1])?)?;
    let model = Linear::without_bias(&Generator::new(device, 1), 1, 1)?;
    let optimizer = Optimizer::new(Sgd::new(0.01), &model.parameters())?;
    Trainer::new(model, optimizer, DataLoader::new(&data, 2)?, move |model, x, y| {
        let y = y.mul(model.weight.value().square().sum(())?)?;
        match of_gradient {
            // The derivative of the root at 0 is infinite. Times 0, it is NaN.
            true => x.mul(&y)?.sqrt().mean(()),
            false => x.log().mul(&y)?.mean(()),
        }
    })
}

#[test]
fn a_trainer_names_the_step_and_the_operation() {
    everywhere("a trainer that looks", |device| {
        let mut trainer = trainer(device, false)?.detect_anomaly(true);
        let error = block_on(trainer.fit()).map(drop).expect_err("the third batch is bad");
        assert_eq!(error.kind(), ErrorKind::InvalidState);
        let want = "train: the loss of step 2 must be finite, got one that is not: ";
        assert!(error.message().starts_with(want), "{error}");
        assert!(error.message().contains("log gave an infinity, f32 [2, 1], for "), "{error}");
        assert_eq!(trainer.steps(), 2);
        let weight = block_on(trainer.model.weight.value().item::<f32>())?;
        assert!(weight.is_finite(), "{weight}");

        let mut trainer = super::anomaly::trainer(device, true)?.detect_anomaly(true);
        let error = block_on(trainer.fit()).map(drop).expect_err("its gradient is bad");
        let want = "train: the gradient with respect to `weight` of step 2 must be finite, got one that is not: ";
        assert!(error.message().starts_with(want), "{error}");
        assert_eq!(trainer.steps(), 2);
        Ok(())
    });
}

#[test]
fn what_is_found_does_not_depend_on_what_was_read() {
    everywhere("a search again and again", |device| {
        for kept in 0..8 {
            let x = device.tensor(&[1.0f32, -1.0, 2.0, -2.0], &[2, 2])?;
            let w = Variable::new(&device.tensor(&[1.0f32, 1.0], &[2, 1])?);
            let (loss, parts) = {
                let product = x.matmul(&w.value())?;
                let log = product.log();
                let flat = log.reshape(&[-1])?;
                (flat.mean(())?, [product, log, flat])
            };
            // The tensors that are held in addition to the loss, and read.
            let held: Vec<Tensor> = parts
                .into_iter()
                .enumerate()
                .filter(|(n, _)| kept >> n & 1 == 1)
                .map(|(_, x)| x)
                .collect();
            let want = "log gave an infinity, f32 [2, 1], for matmul f32 [2, 1]";
            for round in 0..4 {
                assert_eq!(sentence(&loss)?, want, "round {round}, {kept:b} held");
            }
            for part in &held {
                block_on(part.read::<f32>())?;
                assert_eq!(sentence(&loss)?, want, "{kept:b} held and read");
            }
            block_on(loss.item::<f32>())?;
            for round in 0..4 {
                assert_eq!(sentence(&loss)?, want, "round {round} after reading, {kept:b} held");
            }
            assert_eq!(sentence(&loss.sqrt().mul(2)?)?, want, "{kept:b} held");
        }
        Ok(())
    });
}

#[test]
fn what_only_renames_values_is_not_blamed() {
    everywhere("views of values that are not finite", |device| {
        let bad = Variable::new(&device.tensor(&[1.0f32, 0.0], &[2])?.log());
        let flat = Variable::flatten(&[bad.clone(), Variable::new(&device.ones(&[3])?)])?;
        // The finding for a variable is data, or the operation that computed its value. A view is never the cause.
        for read in [false, true] {
            if read {
                block_on(flat.value().read::<f32>())?;
            }
            let views = bad.value().reshape(&[2, 1])?.permute(&[1, 0])?.expand(&[3, 2])?;
            let got = found(&views.sum(())?)?.expect("it is not finite");
            assert!(["data", "log"].contains(&got.op), "{got}");
        }
        let x = device.tensor(&[4.0f32, 0.0], &[2])?;
        let y = x.log();
        let copy = Variable::new(&y);
        for _ in 0..2 {
            assert_eq!(
                sentence(&copy.value().reshape(&[2, 1])?.sum(())?)?,
                "log gave an infinity, f32 [2], for data f32 [2]"
            );
            block_on(copy.value().read::<f32>())?;
        }
        Ok(())
    });
}
