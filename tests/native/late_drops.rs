//! Tests programs whose temporary tensors are dropped late, at a time that the program does not choose. A garbage collector
//! drops them so.

use crate::suite::Place;
use pollster::block_on;
use std::collections::VecDeque;
use warpweft::device::Device;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::Tensor;

/// Tensors that the program no longer uses. Each one is dropped when `delay` newer ones are there.
struct Garbage {
    delay: usize,
    tensors: VecDeque<Tensor>,
}

impl Garbage {
    fn new(delay: usize) -> Garbage {
        Garbage { delay, tensors: VecDeque::new() }
    }

    /// Returns the tensor, and keeps another handle of it for a while.
    fn keep(&mut self, tensor: Tensor) -> Tensor {
        self.tensors.push_back(tensor.clone());
        while self.tensors.len() > self.delay {
            self.tensors.pop_front();
        }
        tensor
    }
}

fn open() -> Device {
    Place::Cpu.open().expect("the CPU is there")
}

fn item(x: &Tensor) -> f32 {
    block_on(x.item()).expect("one number")
}

fn matrix(device: &Device, seed: u32) -> Result<Tensor> {
    device.uniform(&[16, 16], -0.5, 0.5, seed)
}

/// Returns a deep layer of a network with this weight.
fn layer(device: &Device, w: &Tensor, garbage: &mut Garbage) -> Result<Tensor> {
    let mut x = matrix(device, 1)?;
    for _ in 0..6 {
        x = garbage.keep(x.matmul(w)?);
        x = garbage.keep(x.tanh());
    }
    Ok(x)
}

/// Returns the gradient of a loss. Before it is taken, `reads` read the loss and other results of the same layer, and then all
/// temporaries are dropped. Their first argument is the layer.
fn gradient_after(
    delay: usize,
    reads: impl Fn(&Tensor, &Tensor, &mut Garbage) -> Result<()>,
) -> Result<Vec<f32>> {
    let device = open();
    let mut garbage = Garbage::new(delay);
    let w = matrix(&device, 2)?;
    let loss = {
        let h = layer(&device, &w, &mut garbage)?;
        let loss = garbage.keep(h.square()).mean(())?;
        reads(&h, &loss, &mut garbage)?;
        loss
    };
    garbage.tensors.clear();
    // A batch in between, as any program may run one.
    item(&matrix(&device, 3)?.sum(())?);
    let slope = loss.grad(&[&w])?.remove(0);
    block_on(slope.read())
}

#[test]
fn reads_leave_gradients_as_they_are() {
    let wanted = gradient_after(0, |_, _, _| Ok(())).expect("a gradient");
    assert!(wanted.iter().any(|slope| slope.abs() > 1e-4), "{wanted:?}");
    for delay in [0, 1, 5, 1000] {
        let same = |what: &str, reads: &dyn Fn(&Tensor, &Tensor, &mut Garbage) -> Result<()>| {
            let got = gradient_after(delay, reads).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(got, wanted, "{what}, {delay} temporaries");
        };
        same("two reads", &|h, loss, garbage| {
            item(loss);
            item(&garbage.keep(h.abs().mean(())?));
            Ok(())
        });
        same("many reads", &|h, loss, garbage| {
            item(loss);
            for n in 0..5 {
                item(&garbage.keep(h.mul(n)?.mean(())?));
            }
            Ok(())
        });
        same("a read of the layer", &|h, loss, _| {
            block_on(h.read::<f32>())?;
            item(loss);
            Ok(())
        });
        same("a read of the layer behind the loss", &|h, loss, _| {
            item(loss);
            block_on(h.read::<f32>())?;
            Ok(())
        });
        // The loss is computed by the second batch, and the layer by the first.
        same("the loss last", &|h, loss, garbage| {
            item(&garbage.keep(h.abs().mean(())?));
            item(loss);
            item(&garbage.keep(h.exp().mean(())?));
            Ok(())
        });
    }
}

/// Returns the nodes and the bytes of a device after 200 and after 1,000 rounds of a loop, without the temporaries.
fn growth(
    delay: usize,
    step: impl Fn(&Tensor, &Tensor, &mut Garbage) -> Result<Tensor>,
) -> Result<[(u64, u64); 2]> {
    let device = open();
    let mut garbage = Garbage::new(delay);
    let w = matrix(&device, 2)?;
    let mut state = matrix(&device, 1)?;
    let mut rounds = |count| {
        for _ in 0..count {
            state = step(&state, &w, &mut garbage)?;
        }
        garbage.tensors.clear();
        item(&state.sum(())?);
        item(&state.abs().sum(())?);
        let memory = device.memory();
        Ok((device.stats().nodes, memory.allocated - memory.pooled))
    };
    Ok([rounds(200)?, rounds(800)?])
}

#[test]
fn loops_that_read_derived_values_stay_flat() {
    let next = |x: &Tensor, w: &Tensor| x.matmul(w)?.tanh().mul(1.5);
    for delay in [0, 1, 5, 100] {
        let flat = |what: &str, step: &dyn Fn(&Tensor, &Tensor, &mut Garbage) -> Result<Tensor>| {
            let [early, late] = growth(delay, step).unwrap_or_else(|e| panic!("{what}: {e}"));
            assert_eq!(early, late, "{what}, {delay} temporaries");
        };
        flat("one read", &|x, w, garbage| {
            let y = garbage.keep(next(x, w)?);
            item(&garbage.keep(y.sum(())?));
            Ok(y)
        });
        flat("two reads", &|x, w, garbage| {
            let y = garbage.keep(next(x, w)?);
            item(&garbage.keep(y.sum(())?));
            item(&garbage.keep(y.square().sum(())?));
            Ok(y)
        });
        flat("the next step is recorded before the read", &|x, w, garbage| {
            let y = garbage.keep(next(x, w)?);
            item(&garbage.keep(x.sum(())?));
            Ok(y)
        });
        flat("the step and the read share a value", &|x, w, garbage| {
            let half = garbage.keep(x.mul(0.5)?);
            let y = garbage.keep(next(&half, w)?);
            item(&garbage.keep(half.sum(())?));
            item(&garbage.keep(half.abs().sum(())?));
            Ok(y)
        });
    }
}

#[test]
fn a_sequence_with_a_read_in_each_step_has_a_gradient() {
    let run = |reads: bool, delay: usize| -> Result<Vec<f32>> {
        let device = open();
        let mut garbage = Garbage::new(delay);
        let w = matrix(&device, 2)?;
        let mut state = matrix(&device, 1)?;
        let mut total = device.zeros(&[])?;
        for _ in 0..8 {
            state = garbage.keep(state.matmul(&w)?.tanh());
            let loss = garbage.keep(state.square().mean(())?);
            if reads {
                item(&loss);
                item(&state.abs().sum(())?);
            }
            total = garbage.keep(total.add(&loss)?);
        }
        garbage.tensors.clear();
        let slope = total.grad(&[&w])?.remove(0);
        block_on(slope.read())
    };
    let wanted = run(false, 0).expect("a gradient");
    for delay in [0, 1, 5, 100] {
        let got = run(true, delay).unwrap_or_else(|e| panic!("{delay} temporaries: {e}"));
        assert_eq!(got, wanted, "{delay} temporaries");
    }
}

/// The second read stores the softmax, because the first one computed it already. The program did not ask for that, so the
/// gradient must not depend on the size.
#[test]
fn a_large_value_that_a_batch_stored_by_itself_passes_gradients() {
    let run = || -> Result<f32> {
        let device = open();
        let x = device.uniform(&[2048, 3000], -1.0, 1.0, 1)?;
        let loss = {
            let weights = x.softmax(1)?;
            let loss = weights.square().sum(())?;
            item(&loss);
            item(&weights.sum(())?);
            loss
        };
        item(&x.sum(())?);
        let slope = loss.grad(&[&x])?.remove(0);
        Ok(item(&slope.abs().sum(())?))
    };
    let sum = run().unwrap_or_else(|e| panic!("{e}"));
    assert!(sum > 0.0 && sum.is_finite(), "{sum}");
}

#[test]
fn history_of_dropped_values_ends_before_memory_runs_out() {
    let device = open();
    let first = device.uniform(&[512, 512], -0.5, 0.5, 1).expect("a matrix");
    let mut x = first.clone();
    x.run().expect("it fits");
    device.set_memory_limit(Some(device.stats().used_bytes + (4 << 20)));
    for step in 0..40 {
        x = x.add(1.0).and_then(|x| x.tanh().mul(0.5)).expect("recorded");
        x.run().unwrap_or_else(|e| panic!("step {step}: {e}"));
    }
    let lost = x.sum(()).and_then(|sum| sum.grad(&[&first])).expect_err("the history is gone");
    assert!(lost.message().contains("was dropped after it was computed"), "{lost}");
    // Where nothing can be dropped, the error stays.
    let held: Vec<Tensor> = (0..8).map(|n| x.add(n).expect("recorded")).collect();
    let refused = held.iter().filter_map(|x| x.run().err()).next().expect("it does not fit");
    assert_eq!(refused.kind(), ErrorKind::Memory);
}
