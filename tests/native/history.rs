//! Tests the history of tensors, which must be freed with the handles, in any order.

use crate::suite::Place;
use pollster::block_on;
use warpweft::device::Device;
use warpweft::error::Result;
use warpweft::tensor::Tensor;

fn open() -> Device {
    Place::Cpu.open().expect("the CPU is there")
}

/// Returns a chain of `steps` steps, all held, and a tensor that depends on all of them.
fn joined(device: &Device, steps: usize) -> Result<(Vec<Tensor>, Tensor)> {
    let (mut x, mut held) = (device.ones(&[4])?, Vec::new());
    for _ in 0..steps {
        x = x.mul(0.999)?;
        held.push(x.clone());
        x = x.add(0.001)?;
        held.push(x.clone());
    }
    let every: Vec<&Tensor> = held.iter().step_by(2).collect();
    let all = Tensor::stack(&every, 0)?;
    all.run()?;
    Ok((held, all))
}

/// Returns the numbers below `count` in random order.
fn shuffled(count: usize) -> Vec<usize> {
    let mut order: Vec<usize> = (0..count).collect();
    let mut state = 1u64;
    for last in (1..count).rev() {
        state = state.wrapping_mul(6364136223846793005).wrapping_add(1442695040888963407);
        order.swap(last, (state >> 33) as usize % (last + 1));
    }
    order
}

#[test]
fn handles_go_in_any_order() {
    // If each dropped handle updated all newer nodes, this would take minutes.
    let device = open();
    let steps = 4000;
    for order in ["newest first", "shuffled"] {
        let (held, all) = joined(&device, steps).expect("a chain");
        let mut held: Vec<Option<Tensor>> = held.into_iter().map(Some).collect();
        match order {
            "shuffled" => shuffled(held.len()).into_iter().for_each(|at| held[at] = None),
            _ => while held.pop().is_some() {},
        }
        assert_eq!(device.stats().nodes, 1, "{order}: only the join is held, and has no past");
        let read = block_on(all.read::<f32>()).expect("it is there");
        let (mut x, mut wanted) = (1.0f32, Vec::new());
        for _ in 0..steps {
            let y = x * 0.999;
            wanted.extend([y; 4]);
            x = y + 0.001;
        }
        assert_eq!(read, wanted, "{order}");
    }
}

#[test]
fn gradients_of_a_sequence_go_in_any_order() {
    let device = open();
    let steps = 2000;
    let w = device.tensor(&[0.999f32], &[1]).expect("data");
    let mut x = device.ones(&[1]).expect("ones");
    let mut held = Vec::new();
    for _ in 0..steps {
        x = x.mul(&w).expect("a product");
        held.push(x.clone());
    }
    let slope = x.sum(()).and_then(|sum| sum.grad(&[&w])).expect("a gradient").remove(0);
    drop(x);
    let read = block_on(slope.item::<f32>()).expect("read");
    let wanted = f64::from(steps) * 0.999f64.powi(steps - 1);
    assert!((f64::from(read) / wanted - 1.0).abs() < 1e-3, "{read}, not {wanted}");
    while held.pop().is_some() {}
    drop(slope);
    assert_eq!(device.stats().nodes, 1, "the factor alone");
}

#[test]
fn what_is_detached_when_it_is_computed_lets_its_past_go() {
    let device = open();
    let a = device.uniform(&[8, 8], 0.0, 1.0, 1).expect("numbers");
    a.run().expect("computed");
    let before = device.stats().nodes;
    let mut kept = Vec::new();
    for n in 0..10 {
        let mut x = a.add(n).expect("a sum");
        for _ in 0..50 {
            x = x.mul(0.5).expect("a product");
        }
        let sum = x.sum(()).expect("a sum");
        block_on(sum.item::<f32>()).expect("read");
        kept.push(sum.detach());
    }
    // The detached tensor has the memory of the sum, and the sum is freed.
    assert_eq!(device.stats().nodes - before, 10);
    // Reachable history is kept: the sum is held here, and so are its operands.
    let sum = a.square().sum(()).expect("a sum");
    block_on(sum.item::<f32>()).expect("read");
    let (other, slope) = (sum.detach(), sum.grad(&[&a]).expect("a gradient").remove(0));
    drop(sum);
    block_on(other.item::<f32>()).expect("read");
    let twice = block_on(a.mul(2).expect("twice").read::<f32>()).expect("read");
    assert_eq!(block_on(slope.read::<f32>()).expect("read"), twice);
}

#[test]
fn gradients_get_to_what_is_held_whatever_goes() {
    // Drops handles while updates are pending. Gradients must still reach the held tensors.
    let device = open();
    let order = shuffled(300);
    let w = device.tensor(&[1.01f32], &[1]).expect("data");
    let mut x = w.mul(1.0).expect("a product");
    let mut held = vec![Some(x.clone())];
    for _ in 1..300 {
        x = x.mul(&w).expect("a product");
        held.push(Some(x.clone()));
    }
    x.run().expect("computed");
    for &at in &order {
        held[at] = None;
        // Only `x` is computed, so the whole history stays.
        x.grad(&[&w]).expect("a gradient");
    }
    let slope = x.grad(&[&w]).expect("a gradient").remove(0);
    let read = f64::from(block_on(slope.item::<f32>()).expect("read"));
    let wanted = 300.0 * 1.01f64.powi(299);
    assert!((read / wanted - 1.0).abs() < 1e-3, "{read}, not {wanted}");
}
