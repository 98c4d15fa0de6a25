//! Tests the costs of programs with many operations or reads: how often a value is computed, how long programs are planned, and
//! what remains of dropped tensors. Uses the reference backend with a browser's limits.

use crate::reference;
use crate::shaders::source;
use crate::suite::{absent, Place};
use std::collections::HashSet;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::device::{Device, Plan};
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::kernel::{Atom, Index, Kernel};
use warpweft::optim::{Lamb, Muon, Optimizer, Rule};
use warpweft::tensor::{Conv2dOptions, NormOptions, Tensor, Variable};

fn ones(device: &Device, shape: &[usize]) -> Result<Tensor> {
    device.tensor(&vec![1.0f32; shape.iter().product()], shape)
}

fn read(tensor: &Tensor) -> Vec<f32> {
    pollster::block_on(tensor.read()).expect("it can be read")
}

/// Returns the number of kernels that `work` runs.
fn kernels(device: &Device, work: impl FnOnce() -> Result<()>) -> u64 {
    let before = device.stats().kernels;
    work().expect("it can be recorded");
    device.stats().kernels - before
}

/// Plans one result.
fn plan(result: &Tensor) -> Plan {
    let mut batch = result.device().batch();
    batch.add(result).expect("it lives on this device");
    (*batch.plan().expect("it can be planned")).clone()
}

/// Returns the length of the longest source of a plan's kernels, in bytes.
fn longest(plan: &Plan) -> usize {
    let length = |kernel| source(kernel, ReferenceBackend::LIMITS.config).text.len();
    plan.dispatches.iter().map(|d| length(&d.kernel)).max().unwrap_or(0)
}

#[test]
fn a_loop_that_reads_in_each_step_computes_each_step_twice_at_most() {
    let power = |steps: usize| {
        let device = reference::device();
        kernels(&device, || {
            let a = ones(&device, &[6, 6])?;
            let mut x = ones(&device, &[6, 1])?;
            let mut first = None;
            for _ in 0..steps {
                let y = a.matmul(&x)?;
                let norm = y.norm_l2(&[])?;
                x = y.div(&norm)?;
                first.get_or_insert(x.clone());
                read(&norm);
            }
            Ok(())
        })
    };
    // A matmul, a norm and a division are three kernels.
    for steps in [10, 40, 80] {
        let kernels = power(steps);
        assert!(kernels <= 2 * 3 * steps as u64, "{kernels} kernels for {steps} steps");
    }
}

#[test]
fn what_a_second_read_computes_again_the_third_one_finds() {
    let device = reference::device();
    let x = ones(&device, &[8, 8]).expect("data");
    let h = x.matmul(&x).expect("a product");
    let mut counts = Vec::new();
    for factor in [1.0, 2.0, 3.0] {
        counts.push(kernels(&device, || {
            read(&h.mul(factor)?.sum(&[])?);
            Ok(())
        }));
    }
    assert!(counts[0] >= 2 && counts[1] == counts[0] && counts[2] == 1, "{counts:?}");
}

#[test]
fn what_is_cheap_or_dropped_is_not_written() {
    let device = reference::device();
    let x = ones(&device, &[64]).expect("data");
    let cheap = x.mul(2.0).expect("a product");
    for n in 0..3 {
        let product = x.outer(&x).expect("a product");
        read(&cheap.add(n as f32).expect("a sum"));
        read(&product.add(n as f32).expect("a sum").sum(&[]).expect("a sum"));
    }
    // Only `x` still has data.
    assert_eq!(device.stats().used_bytes, 256);
}

#[test]
fn values_of_variables_are_computed_with_what_is_read() {
    let device = reference::device();
    let w = Variable::new(&ones(&device, &[4, 4]).expect("data"));
    let x = ones(&device, &[2, 4]).expect("data");
    let mut submits = Vec::new();
    for _ in 0..6 {
        let loss = x.matmul(&w.value()).and_then(|y| y.tanh().sum(&[])).expect("a loss");
        loss.backward(&[&w]).expect("gradients");
        let gradient = w.take_gradient().expect("backward left one");
        let next = w.value().sub(&gradient.mul(0.1).expect("a step")).expect("a step");
        w.assign(&next).expect("the same shape");
        read(&loss);
        submits.push(device.stats().submits);
    }
    assert_eq!(submits, [1, 2, 3, 4, 5, 6]);
    let stats = device.stats();
    assert!(stats.plans <= 2, "{} plans", stats.plans);
}

#[test]
fn steps_that_nobody_waits_for_do_not_pile_up() {
    for place in [Place::Reference, Place::Cpu] {
        let device = place.open().expect("it is there");
        let w = Variable::new(&ones(&device, &[4]).expect("data"));
        let mut most = 0;
        for _ in 0..10_000 {
            let loss = w.value().square().sum(&[]).expect("a loss");
            loss.backward(&[&w]).expect("gradients");
            let gradient = w.take_gradient().expect("backward left one");
            let next = w.value().sub(&gradient.mul(0.0001).expect("a step")).expect("a step");
            w.assign(&next).expect("the same shape");
            most = most.max(device.stats().nodes);
        }
        assert!((1_000..2_100).contains(&most), "{place:?}: {most} nodes");
        let want = (0..10_000).fold(1.0, |w, _| w - 0.0001 * 2.0 * w);
        let got = read(&w.value());
        assert!(got.iter().all(|w| (f64::from(*w) - want).abs() < 1e-4), "{got:?}, {want}");
        let stats = device.stats();
        assert!(stats.plans <= 3 && stats.submits > 10, "{place:?}: {stats:?}");
    }
}

/// Runs a step often on each kind of device, starting from four ones. The sum must be four times 2, with few nodes and bytes.
fn loops(steps: usize, mut step: impl FnMut(&Device, Tensor) -> Result<Tensor>) {
    for place in [Place::Cpu, Place::Reference, Place::Wgpu] {
        let device = match place.open() {
            Ok(device) => device,
            Err(error) => {
                absent(place, "loops that never read", &error);
                continue;
            }
        };
        let mut x = ones(&device, &[4]).expect("data");
        let mut most = 0;
        for _ in 0..steps {
            x = step(&device, x).expect("it can be recorded");
            most = most.max(device.stats().nodes);
        }
        assert!(most < 33_000, "{place:?}: {most} nodes");
        let stats = device.stats();
        assert!(stats.peak_bytes < 300 << 20, "{place:?}: {stats:?}");
        assert!(stats.plans < 20, "{place:?}: {stats:?}");
        assert_eq!(read(&x), [2.0; 4], "{place:?}");
    }
}

#[test]
fn a_loop_that_never_reads_does_not_grow() {
    loops(100_000, |_, x| x.mul(0.5)?.add(1));
}

#[test]
fn a_loop_that_reads_something_else_does_not_grow() {
    loops(100_000, |device, x| {
        if device.stats().nodes % 1000 == 0 {
            read(&ones(device, &[1])?.add(1)?);
        }
        x.mul(0.5)?.add(1)
    });
}

#[test]
fn uploads_of_a_loop_that_never_reads_do_not_pile_up() {
    let much = vec![1.0f32; 4 << 20];
    loops(50, |device, x| {
        let data = device.tensor(&much, &[much.len()])?;
        x.mul(0.5)?.add(&data.slice(0, 0..4)?)
    });
}

/// Returns sums of `count` numbers, from the left and as a tree.
fn sums(device: &Device, count: usize) -> Result<[Tensor; 4]> {
    let parts: Vec<Tensor> = (0..count).map(|_| ones(device, &[3])).collect::<Result<_>>()?;
    let mut left = parts[0].clone();
    for part in &parts[1..] {
        left = left.add(part)?;
    }
    let mut tree = parts.clone();
    while tree.len() > 1 {
        tree = tree
            .chunks(2)
            .map(|pair| if let [a, b] = pair { a.add(b) } else { Ok(pair[0].clone()) })
            .collect::<Result<_>>()?;
    }
    let (mut chain, mut diamonds) = (parts[0].clone(), parts[0].clone());
    for n in 0..count {
        chain = chain.add(n as f32)?;
        diamonds = diamonds.sin().mul(&diamonds.cos())?;
    }
    Ok([left, tree.remove(0), chain, diamonds])
}

#[test]
fn kernels_grow_with_operations_and_no_faster() {
    let device = reference::device();
    let small = sums(&device, 500).expect("sums").map(|sum| plan(&sum).dispatches.len());
    let large = sums(&device, 4000).expect("sums").map(|sum| plan(&sum).dispatches.len());
    for (few, many) in small.into_iter().zip(large) {
        assert!(many <= 8 * few + 8, "{small:?} kernels of 500 operations, {large:?} of 4,000");
    }
}

#[test]
fn a_recurrent_network_takes_a_kernel_or_two_a_step() {
    let device = reference::device();
    let steps = |count: usize| -> Result<usize> {
        let (w, u) = (ones(&device, &[8, 8])?, ones(&device, &[8, 8])?);
        let x = ones(&device, &[count, 1, 8])?;
        let mut h = ones(&device, &[1, 8])?;
        for n in 0..count {
            h = x.select(0, n as isize)?.matmul(&u)?.add(&h.matmul(&w)?)?.tanh();
        }
        Ok(plan(&h).dispatches.len())
    };
    let (few, many) = (steps(50).expect("steps"), steps(400).expect("steps"));
    assert!(few <= 100 && many <= 8 * few, "{few} kernels for 50 steps, {many} for 400");
}

/// Returns the layers of a small encoder without weights, because this test is about the norms.
fn encoder(device: &Device) -> Result<Tensor> {
    let w = ones(device, &[16, 16])?;
    let mut x = ones(device, &[2, 8, 16])?;
    for _ in 0..6 {
        let h = x.layer_norm(&[-1], NormOptions::default())?.matmul(&w)?.gelu();
        x = x.add(&h.matmul(&w)?)?.layer_norm(&[-1], NormOptions::default())?;
    }
    Ok(x)
}

#[test]
fn a_mean_at_the_end_changes_nothing_before_it() {
    let device = reference::device();
    let x = encoder(&device).expect("an encoder");
    let mean = x.mean(&[1]).expect("a mean");
    let (alone, together) = (plan(&x).dispatches.len(), plan(&mean).dispatches.len());
    assert!(together <= alone + 1, "{alone} kernels, and {together} with a mean");
}

#[test]
fn a_view_of_a_product_costs_no_kernel() {
    let device = reference::device();
    let x = ones(&device, &[1, 6, 5, 7]).expect("an image");
    let w = ones(&device, &[4, 6, 1, 1]).expect("a window");
    let y = x.conv2d(&w, None, Conv2dOptions::default()).expect("a convolution");
    assert_eq!(plan(&y).dispatches.len(), 1, "{}", plan(&y));
    let product = ones(&device, &[6, 4]).and_then(|a| a.matmul(&ones(&device, &[4, 10])?));
    let moved = product.and_then(|p| p.reshape(&[2, 3, 5, 2])?.relu().add(1.0)).expect("a product");
    assert_eq!(plan(&moved).dispatches.len(), 1, "{}", plan(&moved));
    assert!(read(&moved).iter().all(|&x| x == 5.0));
}

#[test]
fn ten_thousand_rows_written_in_place() {
    for place in [Place::Cpu, Place::Wgpu] {
        let device = match place.open() {
            Ok(device) => device,
            Err(error) => {
                absent(place, "ten thousand rows", &error);
                continue;
            }
        };
        let cache = Variable::new(&ones(&device, &[64, 8]).expect("data"));
        let mut settled = device.stats();
        for n in 0..10_000isize {
            let row = device.full(&[1, 8], n as f64, DType::F32).expect("recorded");
            cache.assign_slice(0, n % 64, &row).expect("it fits");
            drop(row);
            device.submit().expect("it runs");
            if n == 20 {
                settled = device.stats();
            }
        }
        let after = device.stats();
        let counts = |s: &warpweft::device::Stats| {
            [s.plans, s.pipelines, s.buffers, s.bytes, s.peak_bytes, s.nodes, s.bind_groups]
        };
        assert_eq!(counts(&after), counts(&settled), "{place:?}");
        let want = |at: usize| 10_000 - 1 - (10_000 - 1 - at / 8) % 64;
        let got = read(&cache.value());
        assert!((0..512).all(|at| got[at] == want(at) as f32), "{place:?}: {got:?}");
    }
}

#[test]
fn ten_thousand_steps_in_place() {
    for place in [Place::Cpu, Place::Wgpu] {
        let device = match place.open() {
            Ok(device) => device,
            Err(error) => {
                absent(place, "ten thousand steps", &error);
                continue;
            }
        };
        let x = ones(&device, &[8]).expect("data");
        let [w, mean] = [2.0, 0.0].map(|by| Variable::new(&x.mul(by).expect("recorded")));
        let mut settled = device.stats();
        for n in 0..10_000 {
            // The loss is least at w = 1. The mean of gradients is a second state.
            let loss = w.value().mul(&x).and_then(|y| y.sub(1.0)?.square().sum(()));
            let gradient = loss.expect("a loss").grad(&[&w.value()]).expect("a gradient").remove(0);
            let next = mean.value().mul(0.5).and_then(|mean| mean.add(&gradient.mul(0.5)?));
            let next = next.expect("recorded").detach();
            let step = next.mul(0.1).and_then(|step| w.value().sub(&step));
            w.assign(&step.expect("recorded").detach()).expect("fits");
            mean.assign(&next).expect("it fits");
            drop((gradient, next));
            device.submit().expect("it runs");
            if n == 20 {
                settled = device.stats();
            }
        }
        let after = device.stats();
        let counts = |s: &warpweft::device::Stats| {
            [s.plans, s.pipelines, s.buffers, s.bytes, s.peak_bytes, s.nodes, s.bind_groups]
        };
        assert_eq!(counts(&after), counts(&settled), "{place:?}");
        let plan = device.last_plan().expect("it ran");
        assert_eq!((plan.in_place.len(), plan.outputs.len()), (2, 0), "{plan}");
        assert_eq!(device.memory().variables, 2 * 256, "{place:?}");
        assert!(read(&w.value()).iter().all(|x| (x - 1.0).abs() < 1e-5), "{place:?}");
    }
}

#[test]
fn parts_of_a_join_are_computed_where_they_go() {
    let device = reference::device();
    let part = |n: usize| ones(&device, &[300])?.sin().mul(n)?.add(&ones(&device, &[300])?);
    let parts: Vec<Tensor> = (0..40).map(|n| part(n).expect("a part")).collect();
    let joined = Tensor::stack(&parts.iter().collect::<Vec<_>>(), 0).expect("a join");
    let plan = plan(&joined);
    assert_eq!(plan.temporaries.len(), 0, "{plan}");
    assert!(plan.dispatches.len() <= 40, "{plan}");
}

#[test]
fn texts_stay_short_when_rows_are_made_of_rows() {
    let device = reference::device();
    let mut l = ones(&device, &[5]).expect("numbers");
    for step in 0..10 {
        let of = l.log_softmax(0).and_then(|p| p.select(0, step % 5)).expect("a probability");
        let gradient = of.grad(&[&l]).expect("a gradient").remove(0);
        l = l.sub(&gradient.mul(0.25).expect("a step")).expect("a step");
    }
    let plan = plan(&l);
    let (kernels, text) = (plan.dispatches.len(), longest(&plan));
    assert!(text <= 20 << 10 && kernels <= 20, "{kernels} kernels, the longest {text} bytes");
}

/// Returns the number of distinct kernels of a plan.
fn distinct(plan: &Plan) -> usize {
    plan.dispatches.iter().map(|d| &d.kernel).collect::<HashSet<_>>().len()
}

#[test]
fn steps_of_a_loop_share_their_kernels() {
    let device = reference::device();
    let logistic = |steps: usize| {
        let rate = ones(&device, &[16]).expect("data");
        let mut x = ones(&device, &[16]).expect("data");
        for _ in 0..steps {
            x = &rate * &x * (1.0 - &x);
        }
        plan(&x)
    };
    let filter = |steps: usize| {
        let (mut last, mut before) = (ones(&device, &[8])?, ones(&device, &[8])?);
        let mut all = Vec::new();
        for _ in 0..steps {
            let y = ones(&device, &[8])? * 0.2 + &last * 1.2 - &before * 0.5;
            all.push(y.clone());
            (before, last) = (last, y);
        }
        Ok::<_, warpweft::error::Error>(plan(&Tensor::stack(&all, 0)?))
    };
    for steps in [200, 2_000] {
        let (long, stacked) = (logistic(steps), filter(steps).expect("a plan"));
        assert!(long.dispatches.len() >= steps / 70, "{}", long.dispatches.len());
        assert!(distinct(&long) <= 6, "{} of {}", distinct(&long), long.dispatches.len());
        assert!(distinct(&stacked) <= 20, "{} of {}", distinct(&stacked), stacked.dispatches.len());
    }
}

#[test]
fn a_sequence_takes_few_kernels_a_step_forward_and_backward() {
    let device = reference::device();
    let made = |steps: usize| -> Result<Plan> {
        let [w, u] = [ones(&device, &[16, 16])?, ones(&device, &[16, 16])?];
        let (b, x) = (ones(&device, &[16])?, ones(&device, &[steps, 2, 16])?);
        let mut h = device.zeros(&[2, 16])?;
        for t in 0..steps {
            h = (x.select(0, t as isize)?.matmul(&w)? + h.matmul(&u)? + &b).tanh();
        }
        let gradients = h.square().sum(())?.grad(&[&w, &u, &b, &x])?;
        let mut batch = device.batch();
        for gradient in &gradients {
            batch.add(gradient)?;
        }
        Ok((*batch.plan()?).clone())
    };
    for steps in [100, 400] {
        let plan = made(steps).expect("a plan");
        // Forward: two matmuls and a state. Backward: a matmul for the previous step and one for the input.
        let kernels = plan.dispatches.len();
        assert!(kernels <= 5 * steps + steps / 5 + 10, "{kernels} kernels for {steps} steps");
        assert!(distinct(&plan) <= 30, "{} kernels for {steps} steps", distinct(&plan));
    }
}

#[test]
fn parts_of_a_gradient_share_their_kernels() {
    let device = reference::device();
    // Rows of 20 elements, which are five vectors of four, and rows of 18.
    for (width, by_fours) in [(20, true), (18, false)] {
        let made = |count: usize| -> Result<(Plan, Vec<Index>)> {
            let w = ones(&device, &[4, width])?;
            let parts = (0..count).map(|_| ones(&device, &[1, 4])).collect::<Result<Vec<_>>>()?;
            let joined = parts.iter().map(|part| part.sin().matmul(&w)).collect::<Result<Vec<_>>>();
            let loss = Tensor::concat(&joined?, 0)?.exp().sum(())?;
            let parts: Vec<&Tensor> = parts.iter().collect();
            let mut batch = device.batch();
            for gradient in &loss.grad(&parts)? {
                batch.add(gradient)?;
            }
            let plan = (*batch.plan()?).clone();
            let backward = plan.dispatches.iter().filter_map(|dispatch| match &*dispatch.kernel {
                Kernel::Matmul(product) if product.k == width => Some(product.a.view()?.1.clone()),
                _ => None,
            });
            let indices = backward.collect();
            Ok((plan, indices))
        };
        let (plan, many) = made(40).expect("a plan");
        assert!(many.len() == 40 && distinct(&plan) <= 6, "{plan}");
        let index = &many[0];
        let fours = index.terms.iter().all(|(atom, n)| *atom == Atom::Coord(1) || n % 4 == 0);
        assert_eq!((index.offset, fours), (0, by_fours), "{index:?}");
        assert!(many.iter().all(|other| other == index), "{many:?}");
        // The kernels of only two parts keep constant offsets, because compilers optimize constants better.
        let (plan, two) = made(2).expect("a plan");
        let offsets: HashSet<i64> = two.iter().map(|index| index.offset).collect();
        assert_eq!(offsets, HashSet::from([0, width as i64]), "{plan}");
    }
}

#[test]
fn what_was_recorded_and_dropped_leaves_nothing() {
    let device = reference::device();
    let x = ones(&device, &[4]).expect("data");
    let live = device.stats().nodes;
    let mut held: Vec<Tensor> = (0..10_000).map(|_| x.add(1.0).expect("a sum")).collect();
    held.drain(..);
    assert_eq!(device.stats().nodes, live);
    device.submit().expect("nothing to do");
    assert_eq!(device.stats().submits, 0);
}

#[test]
fn rules_of_matrices_take_as_many_kernels_as_there_are_shapes() {
    fn update(rule: impl Rule + 'static, count: usize) -> u64 {
        let device = reference::device();
        let matrix = |_| Ok(Variable::new(&ones(&device, &[4, 6])?));
        let parameters: Vec<Variable> =
            (0..count).map(matrix).collect::<Result<_>>().expect("4 x 6");
        let mut optimizer = Optimizer::new(rule, &parameters).expect("they are matrices");
        let mut step = || {
            let values: Vec<Tensor> = parameters.iter().map(Variable::value).collect();
            optimizer.minimize(&Tensor::stack(&values, 0)?.square().sum(())?)
        };
        step().expect("it is a step");
        kernels(&device, step)
    }
    for [few, many] in
        [[2, 12].map(|n| update(Muon::new(0.1), n)), [2, 12].map(|n| update(Lamb::new(0.1), n))]
    {
        assert!(many <= few + 2, "{many} kernels for 12 matrices, {few} for 2");
    }
}

/// Tests an evaluation that keeps the loss of each batch. Planned piece by piece, three thousand pieces took half a minute.
#[test]
fn pieces_of_a_join_that_are_kept_are_planned_together() {
    let losses = |count: usize| -> Result<(u64, f32, f32)> {
        let device = reference::device();
        let x = device.linspace(0.0, 1.0, 4 * count)?.reshape(&[-1, 1])?;
        x.run()?;
        let row = |i: usize| x.narrow(0, 4 * i as isize, 4)?.mul(3)?.softmax(0)?.square().mean(());
        let kept: Vec<Tensor> = (0..count).map(row).collect::<Result<_>>()?;
        let all = Tensor::stack(&kept, 0)?;
        let mut mean = Vec::new();
        let before = device.stats().kernels;
        mean.extend(read(&all.mean(())?));
        device.submit()?;
        let own: f32 = read(&kept[count - 1])[0];
        Ok((device.stats().kernels - before, mean[0], own))
    };
    let (few, _, last) = losses(50).expect("it can be planned");
    let (many, mean, own) = losses(3000).expect("it can be planned");
    // The rows consist of nearly equal numbers, so each softmax is about a quarter.
    assert!((mean - 0.0625).abs() < 1e-4 && (own - 0.0625).abs() < 1e-6, "{mean}, {own}");
    assert!((last - 0.0625).abs() < 1e-3, "{last}");
    assert!(many <= 60 * few, "{few} kernels for 50 pieces, {many} for 3000");
}
