//! Tests the plans of computations with a browser's limits, without a device: the number of kernels, their operations and their
//! operands. `tests/snapshots/plan` has the texts of the plans; `UPDATE_EXPECT=1` rewrites them.

use crate::reference;
use crate::shaders::source;
use expect_test::expect_file;
use pollster::block_on;
use std::path::Path;
use std::sync::Arc;
use warpweft::backend::reference::ReferenceBackend;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::Result;
use warpweft::kernel::{Atom, Inst, Kernel, KernelConfig, Limits, Plan, Program, SlotStorage};
use warpweft::schedule::{schedule, ProductTile, Strategy};
use warpweft::tensor::{
    AttentionOptions, Axes, Conv2dOptions, DequantizeOptions, NormOptions, Operand, RmsNormOptions,
    Tensor,
};
use warpweft_native::TensorBlocking;

/// Plans the results of `build` as one batch, and compares the plan with the snapshot called `name`.
fn plan(name: &str, build: impl FnOnce(&Device) -> Result<Vec<Tensor>>) -> Arc<Plan> {
    plan_on(reference::device(), name, build)
}

/// Returns a device whose threads work alone, as on a software GPU.
fn without_barriers() -> Device {
    choosing(KernelConfig::EMULATED)
}

/// Returns a device with a browser's limits that runs these kernels.
fn choosing(config: KernelConfig) -> Device {
    let limits = Limits { config, ..ReferenceBackend::LIMITS };
    Device::from_backend(Box::new(ReferenceBackend::new(limits)), None)
}

fn plan_on(
    device: Device,
    name: &str,
    build: impl FnOnce(&Device) -> Result<Vec<Tensor>>,
) -> Arc<Plan> {
    let results = build(&device).expect("it can be recorded");
    let mut batch = device.batch();
    for result in &results {
        batch.add(result).expect("it lives on this device");
    }
    let plan = batch.plan().expect("it can be planned");
    batch.run().expect("it runs on the reference");
    let folder = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/snapshots/plan");
    let path = folder.join(format!("{name}.txt"));
    expect_file![path].assert_eq(&plan.to_string());
    plan
}

/// Returns data of dtype `f32`. The values do not matter.
fn data(device: &Device, shape: &[usize]) -> Result<Tensor> {
    device.tensor(&vec![1.0f32; shape.iter().product()], shape)
}

/// Returns the kinds of a plan's kernels, in order.
fn kinds(plan: &Plan) -> Vec<&'static str> {
    plan.dispatches.iter().map(|d| d.kernel.kind()).collect()
}

/// Returns the program of a loop.
fn program(kernel: &Kernel) -> &Program {
    match kernel {
        Kernel::Loop { program, .. } => program,
        other => panic!("a {} is no loop", other.kind()),
    }
}

fn loads(program: &Program) -> usize {
    program.insts.iter().filter(|inst| matches!(inst, Inst::Load { .. })).count()
}

/// Whether the indices of all loads depend only on coordinates.
fn indices_are_plain(program: &Program) -> bool {
    program.insts.iter().all(|inst| match inst {
        Inst::Load { index, .. } => index.terms.iter().all(|(a, _)| matches!(a, Atom::Coord(_))),
        _ => true,
    })
}

fn dims(kernel: &Kernel) -> Vec<usize> {
    match kernel {
        Kernel::Loop { space, .. } => space.dims.clone(),
        other => panic!("a {} is no loop", other.kind()),
    }
}

#[test]
fn a_users_function_shares_a_kernel_with_its_neighbours() {
    let plan = plan("element-function", |d| {
        let source =
            "fn soft_clip(x: f32, limit: f32) -> f32 { return x / (1.0 + abs(x) / limit); }";
        let clip = block_on(d.element_function(source))?;
        let x = data(d, &[64, 64])?;
        let limited = clip.call(&[(&x.mul(3.0)?).into(), Operand::from(1.0)])?;
        Ok(vec![limited.add(1.0)?.sum(1)?])
    });
    assert_eq!(kinds(&plan), ["row"]);
}

#[test]
fn a_chain_is_one_kernel_with_one_load_and_one_store() {
    let plan = plan("chain", |d| {
        let x = data(d, &[64, 64])?;
        Ok(vec![x.mul(2.0)?.add(1.0)?.exp().sqrt().sub(3.0)?.relu().abs().tanh()])
    });
    assert_eq!(kinds(&plan), ["map"]);
    let program = program(&plan.dispatches[0].kernel);
    assert_eq!((loads(program), program.stores.len()), (1, 1));
    assert_eq!(dims(&plan.dispatches[0].kernel), [4096]);
    assert_eq!(plan.scalars, 3);
}

#[test]
fn a_tree_of_pointwise_work_is_one_kernel() {
    let plan = plan("tree", |d| {
        let (x, y) = (data(d, &[8, 16])?, data(d, &[16])?);
        let (a, b) = (x.add(&y)?, x.mul(&y)?);
        Ok(vec![a.exp().mul(&b)?.sub(&a)?])
    });
    assert_eq!(kinds(&plan), ["map"]);
    assert_eq!(loads(program(&plan.dispatches[0].kernel)), 2);
}

#[test]
fn row_programs_are_one_kernel_each() {
    type Work = fn(&Tensor) -> Result<Tensor>;
    const ROWS: &[(&str, Work)] = &[
        ("softmax", |x| x.softmax(-1)),
        ("log-softmax", |x| x.log_softmax(-1)),
        ("layer-norm", |x| x.layer_norm(&[-1], NormOptions::default())),
        ("rms-norm", |x| x.rms_norm(&[-1], RmsNormOptions { eps: 1e-6, ..Default::default() })),
        ("logsumexp", |x| x.logsumexp(&[-1])),
        ("variance", |x| x.var(&[-1], 1.0)),
        ("argmax", |x| x.argmax(-1)),
        ("mean", |x| x.mean(&[-1])),
        ("norm-l2", |x| x.norm_l2(&[-1])),
        ("softmax-of-columns", |x| x.softmax(1)),
        ("layer-norm-of-images", |x| x.layer_norm(&[1, 2], NormOptions::default())),
    ];
    for (name, work) in ROWS {
        let plan = plan(name, |d| Ok(vec![work(&data(d, &[6, 5, 40])?)?]));
        assert_eq!(kinds(&plan), ["row"], "{name}");
        assert_eq!(plan.temporaries.len(), 0, "{name}");
    }
}

#[test]
fn a_whole_row_is_one_kernel_too() {
    for (name, shape) in [("softmax-of-a-vector", &[300][..]), ("softmax-of-one-row", &[1, 300])] {
        let plan = plan(name, |d| Ok(vec![data(d, shape)?.softmax(-1)?]));
        assert_eq!(kinds(&plan), ["row"], "{name}");
    }
}

#[test]
fn a_norm_with_all_around_it_is_one_kernel() {
    let plan = plan("layer-norm-affine", |d| {
        let (x, r) = (data(d, &[6, 40])?, data(d, &[6, 40])?);
        let (w, b) = (data(d, &[40])?, data(d, &[40])?);
        let sum = x.add(&r)?;
        let normal = sum.layer_norm(
            &[-1],
            NormOptions { weight: Some(&w), bias: Some(&b), ..Default::default() },
        )?;
        Ok(vec![normal.relu(), sum])
    });
    assert_eq!(kinds(&plan), ["row"]);
    assert_eq!(plan.outputs.len(), 2);
}

#[test]
fn cross_entropy_is_few_kernels() {
    let plan = plan("cross-entropy", |d| {
        let logits = data(d, &[32, 10])?;
        let labels = d.tensor(&[3i32; 32], &[32])?;
        let chosen = logits.log_softmax(-1)?.mul(&labels.one_hot(10)?)?;
        Ok(vec![chosen.sum(&[-1])?.mean(&[])?.mul(-1.0)?])
    });
    assert_eq!(kinds(&plan), ["row", "row"]);
}

#[test]
fn a_layer_is_one_kernel() {
    let plan = plan("linear-gelu", |d| {
        let (x, w, b) = (data(d, &[32, 48])?, data(d, &[48, 64])?, data(d, &[64])?);
        Ok(vec![x.matmul(&w)?.add(&b)?.gelu()])
    });
    assert_eq!(kinds(&plan), ["matmul"]);
    assert_eq!(plan.temporaries.len(), 0);
}

fn perceptron(d: &Device) -> Result<Tensor> {
    let mut x = data(d, &[32, 48])?;
    for (inputs, outputs) in [(48, 64), (64, 64), (64, 10)] {
        x = x.matmul(&data(d, &[inputs, outputs])?)?.add(&data(d, &[outputs])?)?.relu();
    }
    Ok(x)
}

#[test]
fn three_layers_are_three_kernels() {
    let plan = plan("perceptron", |d| Ok(vec![perceptron(d)?]));
    assert_eq!(kinds(&plan), ["matmul", "matmul", "matmul"]);
    assert_eq!(plan.temporaries.len(), 2);
}

#[test]
fn transposes_are_views_of_a_product() {
    let plan = plan("matmul-views", |d| {
        let (x, w) = (data(d, &[48, 32])?, data(d, &[64, 48])?);
        Ok(vec![x.transpose(0, 1)?.matmul(&w.transpose(0, 1)?)?])
    });
    assert_eq!(kinds(&plan), ["matmul"]);
    let Kernel::Matmul(matmul) = &*plan.dispatches[0].kernel else { panic!("no matmul") };
    assert!(matmul.a.view().is_some() && matmul.b.view().is_some());
}

#[test]
fn light_work_before_a_product_joins_it() {
    let plan = plan("matmul-prologue", |d| {
        let (x, w) = (data(d, &[32, 48])?, data(d, &[48, 64])?);
        Ok(vec![x.mul(0.5)?.matmul(&w.relu())?])
    });
    assert_eq!(kinds(&plan), ["matmul"]);
}

#[test]
fn heavy_work_before_a_product_is_done_once() {
    let plan = plan("matmul-after-gelu", |d| {
        let (x, w) = (data(d, &[32, 48])?, data(d, &[48, 64])?);
        Ok(vec![x.gelu().matmul(&w)?])
    });
    assert_eq!(kinds(&plan), ["map", "matmul"]);
}

#[test]
fn a_convolution_takes_its_bias_and_activation() {
    let plan = plan("convolution", |d| {
        let (x, w) = (data(d, &[2, 3, 16, 16])?, data(d, &[8, 3, 3, 3])?);
        let y = x.conv2d(&w, Some(&data(d, &[8])?), Conv2dOptions::default())?;
        Ok(vec![y.relu()])
    });
    assert_eq!(kinds(&plan), ["conv2d"]);
}

/// Returns self-attention with projections and residual, as in every transformer.
fn attention_block(d: &Device) -> Result<Tensor> {
    let (batch, length, heads, size) = (2, 16, 4, 8);
    let width = heads * size;
    let x = data(d, &[batch, length, width])?;
    let normal = x.layer_norm(
        &[-1],
        NormOptions {
            weight: Some(&data(d, &[width])?),
            bias: Some(&data(d, &[width])?),
            ..Default::default()
        },
    )?;
    let all = normal.matmul(&data(d, &[width, 3 * width])?)?.add(&data(d, &[3 * width])?)?;
    let pieces = all.split(&[width; 3], -1)?;
    let head = |n: usize| pieces[n].reshape(&[batch, length, heads, size])?.permute(&[0, 2, 1, 3]);
    let options = AttentionOptions { is_causal: true, ..Default::default() };
    let seen = head(0)?.attention(&head(1)?, &head(2)?, options)?;
    let joined = seen.permute(&[0, 2, 1, 3])?.reshape(&[batch, length, width])?;
    joined.matmul(&data(d, &[width, width])?)?.add(&data(d, &[width])?)?.add(&x)
}

#[test]
fn an_attention_block_is_four_kernels() {
    let plan = plan("attention-block", |d| Ok(vec![attention_block(d)?]));
    assert_eq!(kinds(&plan), ["row", "matmul", "attention", "matmul"]);
    assert_eq!(plan.temporaries.len(), 2);
}

#[test]
fn a_causal_mask_costs_no_kernel() {
    let plan = plan("attention-mask", |d| {
        let q = data(d, &[1, 2, 16, 8])?;
        let mask = d.tensor(&[true; 16], &[16])?;
        let options = AttentionOptions { attn_mask: Some(&mask), ..Default::default() };
        Ok(vec![q.attention(&q, &q, options)?])
    });
    assert_eq!(kinds(&plan), ["attention"]);
}

#[test]
fn attention_is_taken_apart_where_threads_work_alone() {
    let plan = plan_on(without_barriers(), "attention-apart", |d| {
        let (q, k) = (data(d, &[1, 4, 12, 8])?, data(d, &[1, 4, 20, 8])?);
        let options = AttentionOptions { is_causal: true, ..Default::default() };
        Ok(vec![q.attention(&k, &k, options)?])
    });
    assert_eq!(kinds(&plan), ["matmul", "row", "matmul"]);
    assert_eq!(loads(program(&plan.dispatches[1].kernel)), 1, "scaled and masked before");
    // 2^26 scores are too many to be stored in memory.
    let device = without_barriers();
    let q = data(&device, &[1, 1, 1 << 13, 1]).expect("data");
    let far = q.attention(&q, &q, AttentionOptions::default()).expect("recorded");
    let plan = planned(&device, &far);
    assert_eq!(kinds(&plan).last(), Some(&"attention"), "{plan}");
    // The scores of `f16` attention are not `f16`.
    let half = device.tensor(&[1u32; 9], &[1, 1, 9, 1]).expect("data").cast(DType::F16);
    let half = half.expect("recorded");
    half.run().expect("it runs on the reference");
    let half = half.attention(&half, &half, AttentionOptions::default()).expect("recorded");
    let plan = planned(&device, &half);
    assert_eq!(kinds(&plan), ["matmul", "row", "matmul"], "{plan}");
    let temporaries = plan.slots.iter().filter(|s| matches!(s.storage, SlotStorage::Temporary(_)));
    assert!(temporaries.clone().count() > 0 && temporaries.clone().all(|s| s.dtype == DType::F32));
}

fn planned(device: &Device, result: &Tensor) -> Arc<Plan> {
    let mut batch = device.batch();
    batch.add(result).expect("it lives on this device");
    batch.plan().expect("it can be planned")
}

#[test]
fn a_product_of_few_results_and_a_long_sum_is_cut() {
    let few = |d: &Device, k: usize| {
        let (a, b) = (data(d, &[40, k])?, data(d, &[k, 128])?);
        a.matmul(&b)?.add(1.0)
    };
    let plan = plan("long-product", |d| Ok(vec![few(d, 4096)?]));
    let [Kernel::Matmul(parts), Kernel::Loop { space, .. }] =
        [0, 1].map(|at| (*plan.dispatches[at].kernel).clone())
    else {
        panic!("{plan}")
    };
    assert_eq!((plan.dispatches.len(), &parts.batch[..], parts.k), (2, &[8][..], 512), "{plan}");
    assert_eq!((space.rows(), space.columns()), (40 * 128, 8));
    // Not split: a short sum, a matmul with many results, or a device without this option.
    let device = choosing(KernelConfig::GPU);
    let plan = planned(&device, &few(&device, 1020).expect("recorded"));
    assert_eq!(kinds(&plan), ["matmul"]);
    let many = data(&device, &[4096, 1024]).expect("data");
    let many = many.matmul(&many.transpose(0, 1).expect("recorded")).expect("recorded");
    assert_eq!(kinds(&planned(&device, &many)), ["matmul"]);
    let device = choosing(KernelConfig { split_k_matmul: false, ..KernelConfig::GPU });
    assert_eq!(kinds(&planned(&device, &few(&device, 4096).expect("recorded"))), ["matmul"]);
}

/// Tests a gradient by weights of 3 x 3, whose channels are images.
#[test]
fn a_convolution_of_few_results_and_a_long_sum_is_cut() {
    let few = |d: &Device, images: usize| {
        let (x, g) = (data(d, &[16, images, 14, 14])?, data(d, &[32, images, 14, 14])?);
        let options = Conv2dOptions { padding: 1.into(), ..Conv2dOptions::default() };
        x.conv2d(&g, None, options)?.add(1.0)
    };
    let plan = plan("long-convolution", |d| Ok(vec![few(d, 64)?]));
    // The parts of the weights are copied together first.
    assert_eq!(kinds(&plan), ["map", "conv2d", "row"]);
    let Kernel::Conv2d(parts) = &*plan.dispatches[1].kernel else { panic!("{plan}") };
    assert_eq!((parts.params.groups, parts.channels), (16, 64));
    // A thread that works alone computes results of many channels and positions.
    let schedule = schedule(&plan.dispatches[1].kernel, &Limits::WEBGPU, KernelConfig::EMULATED);
    let Strategy::Product(product) = schedule.strategy else { panic!("{schedule:?}") };
    assert_eq!(product.tile, ProductTile::Registers { rows: 8, exchanged: false });
    // Not split: a short sum, a convolution with few results for each weight, or a device without this option.
    let device = choosing(KernelConfig::GPU);
    let (x, w) = (data(&device, &[4, 99, 5, 5]).unwrap(), data(&device, &[9, 99, 5, 5]).unwrap());
    let one = x.conv2d(&w, None, Conv2dOptions::default()).expect("recorded");
    assert_eq!(kinds(&planned(&device, &one)), ["conv2d"]);
    assert_eq!(kinds(&planned(&device, &few(&device, 5).expect("recorded"))), ["conv2d"]);
    let device = choosing(KernelConfig { split_k_conv: false, ..KernelConfig::GPU });
    assert_eq!(kinds(&planned(&device, &few(&device, 64).expect("recorded"))), ["conv2d"]);
}

#[test]
fn a_product_that_is_cut_keeps_its_shape() {
    let device = choosing(KernelConfig::GPU);
    let (a, b) = (data(&device, &[2, 8, 4096]).unwrap(), data(&device, &[2, 4096, 8]).unwrap());
    let other: Vec<f32> = (0..128).map(|i| i as f32).collect();
    let sum = a.matmul(&b).unwrap().add(&device.tensor(&other, &[2, 8, 8]).unwrap()).unwrap();
    let plan = planned(&device, &sum);
    assert_eq!(kinds(&plan), ["matmul", "row"], "{plan}");
    let expected: Vec<f32> = other.iter().map(|i| 4096.0 + i).collect();
    assert_eq!(sum.read_blocking::<f32>().unwrap(), expected);
}

#[test]
fn decoding_is_taken_apart_where_it_is_asked_for() {
    let apart = KernelConfig { fuse_short_attention: false, ..KernelConfig::GPU };
    let attend = |d: &Device, queries: usize| {
        let (q, k) = (data(d, &[1, 8, queries, 64])?, data(d, &[1, 2, 4096, 64])?);
        q.attention(&k, &k, AttentionOptions::default())
    };
    let plan = plan_on(choosing(apart), "decoding", |d| Ok(vec![attend(d, 1)?]));
    assert_eq!(kinds(&plan), ["matmul", "row", "matmul", "row"], "{plan}");
    // The queries of heads that share keys are rows of one product, and the sum over the keys is split into parts.
    let Kernel::Matmul(scores) = &*plan.dispatches[0].kernel else { panic!("{plan}") };
    assert_eq!((scores.m, scores.n, scores.k), (4, 4096, 64));
    let Kernel::Matmul(values) = &*plan.dispatches[2].kernel else { panic!("{plan}") };
    assert_eq!((values.m, values.n, values.k), (4, 64, 512));
    let device = choosing(apart);
    assert_eq!(kinds(&planned(&device, &attend(&device, 5).expect("recorded"))), ["attention"]);
    let device = choosing(KernelConfig::GPU);
    assert_eq!(kinds(&planned(&device, &attend(&device, 1).expect("recorded"))), ["attention"]);
}

#[test]
fn an_epilogue_is_done_before_several_users() {
    let plan = plan("epilogue-before-norm", |d| {
        let (x, w) = (data(d, &[12, 40])?, data(d, &[40, 40])?);
        let y = x.matmul(&w)?.add(&data(d, &[40])?)?.relu().add(&x)?;
        Ok(vec![y.layer_norm(&[-1], NormOptions::default())?])
    });
    assert_eq!(kinds(&plan), ["matmul", "row"]);
    assert_eq!(plan.dispatches[1].inputs.len(), 1, "the row program reads nothing else");
}

#[test]
fn results_of_one_shape_come_from_one_kernel() {
    let plan = plan("two-outputs", |d| {
        let x = data(d, &[40, 3])?;
        let y = x.exp();
        let z = y.mul(2.0)?.add(&x)?;
        Ok(vec![y, z])
    });
    assert_eq!(kinds(&plan), ["map"]);
    assert_eq!(program(&plan.dispatches[0].kernel).stores.len(), 2);
    assert_eq!(loads(program(&plan.dispatches[0].kernel)), 1);
}

#[test]
fn what_reads_the_elements_that_a_kernel_writes_is_part_of_it() {
    let plan = plan("follows", |d| {
        let x = data(d, &[8, 6])?;
        let y = x.gelu().exp();
        // Two kernels read `y`, so it is stored. A reshape does not move elements, but the slice does.
        let z = y.reshape(&[2, 4, 6])?.mul(2.0)?.add(1.0)?.tanh();
        let moved = y.slice(1, 1..5)?.sin();
        Ok(vec![y.sum(&[1])?, z, moved])
    });
    assert_eq!(kinds(&plan), ["map", "row", "map"]);
    assert_eq!(program(&plan.dispatches[0].kernel).stores.len(), 2);
}

#[test]
fn what_nothing_reads_any_more_is_not_stored() {
    let plan = plan("not-stored", |d| {
        let y = data(d, &[8, 6])?.gelu().exp();
        // Two kernels read `y` until they are merged.
        Ok(vec![y.tanh(), y.reshape(&[6, 8])?.sin()])
    });
    assert_eq!(kinds(&plan), ["map"]);
    assert_eq!(program(&plan.dispatches[0].kernel).stores.len(), 2);
    assert_eq!(plan.temporaries.len(), 0);
}

#[test]
fn a_step_of_a_recurrence_is_four_kernels() {
    const STEPS: usize = 6;
    let limits = Limits { buffers_per_kernel: 64, ..ReferenceBackend::LIMITS };
    let device = Device::from_backend(Box::new(ReferenceBackend::new(limits)), None);
    let plan = plan_on(device, "recurrence", |d| {
        let (w, x) = (data(d, &[16, 64])?, data(d, &[STEPS, 4, 64])?);
        let (mut h, mut c) = (d.zeros(&[4, 16])?, d.zeros(&[4, 16])?);
        for t in 0..STEPS {
            let gates = h.matmul(&w)?.add(&x.select(0, t as isize)?)?.chunk(4, 1)?;
            let (i, f, o) = (gates[0].sigmoid(), gates[1].sigmoid(), gates[3].sigmoid());
            c = f.mul(&c)?.add(&i.mul(&gates[2].tanh())?)?;
            h = o.mul(&c.tanh())?;
        }
        let loss = h.square().sum(())?;
        loss.grad(&[&w])
    });
    // Forward: the matmul and the gates. Backward: the same. A few more for the loss and the weight.
    assert!(plan.dispatches.len() <= 4 * STEPS + 6, "{plan}");
}

#[test]
fn a_row_program_writes_its_statistics_too() {
    let plan = plan("softmax-and-maximum", |d| {
        let x = data(d, &[6, 40])?;
        let max = x.max(Axes::from(1).keepdim(true))?;
        let exp = x.sub(&max)?.exp();
        Ok(vec![max, exp.div(&exp.sum(Axes::from(1).keepdim(true))?)?])
    });
    assert_eq!(kinds(&plan), ["row"]);
    assert_eq!(program(&plan.dispatches[0].kernel).stores.len(), 2);
}

#[test]
fn an_optimiser_step_over_one_parameter_is_one_kernel() {
    let plan = plan("adam-step", |d| {
        let (w, g) = (data(d, &[40, 30])?, data(d, &[40, 30])?);
        let (m, v) = (data(d, &[40, 30])?, data(d, &[40, 30])?);
        let m = m.mul(0.9)?.add(&g.mul(0.1)?)?;
        let v = v.mul(0.999)?.add(&g.square().mul(0.001)?)?;
        let step = m.div(&v.sqrt().add(1e-8)?)?.mul(1e-3)?;
        Ok(vec![w.sub(&step)?, m, v])
    });
    assert_eq!(kinds(&plan), ["map"]);
}

#[test]
fn a_long_chain_is_cut_into_few_kernels() {
    let plan = plan("long-chain", |d| {
        let mut x = data(d, &[100])?;
        for n in 0..300 {
            x = x.mul(f64::from(n))?.add(1.0)?;
        }
        Ok(vec![x])
    });
    assert!((2..=5).contains(&plan.dispatches.len()), "{plan}");
    assert!(plan.temporaries.len() <= 2, "temporaries are shared: {plan}");
}

#[test]
fn two_hundred_additions_are_one_kernel() {
    let plan = plan("two-hundred-additions", |d| {
        let (mut x, y) = (data(d, &[16])?, data(d, &[16])?);
        for _ in 0..200 {
            x = x.add(&y)?;
        }
        Ok(vec![x])
    });
    assert_eq!(plan.dispatches.len(), 1, "{plan}");
}

#[test]
fn a_sum_of_a_hundred_stays_within_the_buffers_of_a_kernel() {
    let plan = plan("sum-of-a-hundred", |d| {
        let mut sum = data(d, &[100])?;
        for _ in 1..100 {
            sum = sum.add(&data(d, &[100])?)?;
        }
        Ok(vec![sum])
    });
    assert!(plan.dispatches.len() <= 20, "{plan}");
    for dispatch in &plan.dispatches {
        assert!(dispatch.inputs.len() + dispatch.outputs.len() <= 8, "{plan}");
    }
}

#[test]
fn a_balanced_sum_of_sixty_four_stays_within_them_too() {
    let plan = plan("balanced-sum", |d| {
        let mut all: Vec<Tensor> = (0..64).map(|_| data(d, &[100])).collect::<Result<_>>()?;
        while all.len() > 1 {
            all = all.chunks(2).map(|p| p[0].add(&p[1])).collect::<Result<_>>()?;
        }
        Ok(all)
    });
    assert!(plan.dispatches.len() <= 22, "{plan}");
}

#[test]
fn reshapes_there_and_back_leave_plain_indices() {
    let plan = plan("reshapes", |d| {
        let x = data(d, &[4, 6, 10])?;
        let y = x.reshape(&[24, 10])?.mul(2.0)?.reshape(&[4, 6, 10])?.add(&x)?;
        Ok(vec![y.reshape(&[240])?.reshape(&[4, 60])?.relu()])
    });
    assert_eq!(kinds(&plan), ["map"]);
    let program = program(&plan.dispatches[0].kernel);
    assert!(indices_are_plain(program), "{program:#?}");
    assert_eq!((dims(&plan.dispatches[0].kernel), loads(program)), (vec![240], 1));
}

#[test]
fn heads_apart_and_together_leave_plain_indices() {
    let plan = plan("heads", |d| {
        let x = data(d, &[2, 16, 32])?;
        let heads = x.reshape(&[2, 16, 4, 8])?.permute(&[0, 2, 1, 3])?.mul(2.0)?;
        Ok(vec![heads.permute(&[0, 2, 1, 3])?.reshape(&[2, 16, 32])?])
    });
    assert_eq!(kinds(&plan), ["map"]);
    let program = program(&plan.dispatches[0].kernel);
    assert!(indices_are_plain(program), "{program:#?}");
    assert_eq!(dims(&plan.dispatches[0].kernel), [1024]);
}

#[test]
fn a_join_writes_its_parts_in_place() {
    let plan = plan("concat", |d| {
        let (x, y) = (data(d, &[4, 6])?, data(d, &[4, 2])?);
        Ok(vec![Tensor::concat(&[&x.mul(2.0)?, &y, &x.relu()], 1)?])
    });
    // One kernel computes parts of the same shape.
    assert_eq!(kinds(&plan), ["map", "map"]);
    assert_eq!(plan.temporaries.len(), 0);
    let stores = plan.dispatches.iter().flat_map(|d| &program(&d.kernel).stores);
    assert_eq!(stores.map(|store| store.index.offset).collect::<Vec<_>>(), [0, 8, 6]);
}

#[test]
fn temporaries_share_memory() {
    let plan = plan("shared-memory", |d| {
        let mut x = data(d, &[32, 32])?;
        let w = data(d, &[32, 32])?;
        for _ in 0..6 {
            x = x.matmul(&w)?.relu();
        }
        Ok(vec![x])
    });
    assert_eq!(plan.dispatches.len(), 6);
    assert_eq!(plan.temporaries.len(), 2);
    let uses = plan.slots.iter().filter(|s| matches!(s.storage, SlotStorage::Temporary(_))).count();
    assert_eq!(uses, 5);
}

#[test]
fn a_long_sum_is_taken_in_chunks() {
    let plan = plan("long-sum", |d| Ok(vec![data(d, &[1 << 20])?.mul(2.0)?.sum(&[])?]));
    assert_eq!(kinds(&plan), ["row", "row"]);
}

#[test]
fn a_long_row_is_few_kernels() {
    let plan = plan("long-softmax", |d| Ok(vec![data(d, &[1, 100_000])?.softmax(1)?]));
    assert!(plan.dispatches.len() <= 6, "{plan}");
}

#[test]
fn a_gathered_row_needs_no_copy_before_work() {
    let plan = plan("embedding", |d| {
        let (table, index) = (data(d, &[100, 16])?, d.tensor(&[1i32; 12], &[12])?);
        Ok(vec![table.index_select(0, &index)?.mul(2.0)?])
    });
    assert_eq!(kinds(&plan), ["map"]);
}

#[test]
fn cheap_work_is_done_again_rather_than_stored() {
    let plan = plan("done-again", |d| {
        let x = data(d, &[40, 30])?;
        let y = x.mul(2.0)?;
        Ok(vec![y.sum(&[1])?, y.transpose(0, 1)?.exp()])
    });
    assert_eq!(kinds(&plan), ["row", "map"]);
    assert_eq!(plan.temporaries.len(), 0);
}

#[test]
fn costly_work_with_two_readers_is_stored() {
    let plan = plan("stored", |d| {
        let x = data(d, &[40, 30])?;
        let y = x.gelu().exp().tanh();
        Ok(vec![y.sum(&[1])?, y.transpose(0, 1)?.exp()])
    });
    assert_eq!(plan.dispatches.len(), 3);
    assert_eq!(plan.temporaries.len(), 1);
}

#[test]
fn creation_needs_no_memory_but_the_result() {
    let plan = plan("creation", |d| {
        let x = d.uniform(&[10, 10], 0.0, 1.0, 7)?;
        Ok(vec![x.add(&d.eye(10)?)?.mul(&d.full(&[10], 3.0, DType::F32)?)?])
    });
    assert_eq!(kinds(&plan), ["map"]);
    assert_eq!(plan.inputs, 0);
}

#[test]
fn numbers_are_not_part_of_the_structure() {
    let device = reference::device();
    let x = data(&device, &[8]).expect("data");
    for rate in [0.1, 0.2, 0.3] {
        let y = x.mul(rate).and_then(|y| y.sub(rate)).expect("recorded");
        y.run().expect("it runs");
    }
    assert_eq!(device.stats().plans, 1);
}

#[test]
fn packed_weights_are_read_as_they_are() {
    for (name, rows) in [("packed-row", 1), ("packed-rows", 40)] {
        for barriers in [true, false] {
            let build = |d: &Device| {
                // As in models: 4 bits each, with a scale and a zero point for 32 elements of a row.
                let words = d.tensor(&vec![1u32; 128 * 32], &[128, 32])?;
                let zeros = d.tensor(&vec![1u32; 128], &[128, 1])?.unpack(4, false)?;
                let numbers = words.unpack(4, false)?;
                let weights = numbers.dequantize(
                    &data(d, &[128, 8])?,
                    DequantizeOptions { zero_point: Some(&zeros) },
                )?;
                let y = data(d, &[rows, 256])?.matmul(&weights.transpose(0, 1)?)?;
                Ok(vec![y.add(&data(d, &[128])?)?.gelu()])
            };
            let device = if barriers { reference::device() } else { without_barriers() };
            let name = if barriers { name.to_string() } else { format!("{name}-alone") };
            let plan = plan_on(device, &name, build);
            assert_eq!(plan.dispatches.len(), 1, "{name}");
            assert!(plan.temporaries.is_empty(), "{name}");
        }
    }
}

#[test]
fn packed_weights_of_several_products_take_no_memory_either() {
    let plan = plan("packed-shared", |d| {
        let words = d.tensor(&vec![1u32; 64 * 16], &[64, 16])?;
        let weights =
            words.unpack(8, true)?.dequantize(&data(d, &[64, 1])?, DequantizeOptions::default())?;
        let weights = weights.transpose(0, 1)?;
        Ok(vec![data(d, &[40, 64])?.matmul(&weights)?, data(d, &[9, 64])?.matmul(&weights)?])
    });
    assert_eq!(plan.dispatches.len(), 2);
    assert!(plan.temporaries.is_empty());
}

#[test]
fn what_is_no_smaller_is_computed_before() {
    // Integers as large as the result, and an exponential of each. Neither should be computed at every load.
    let plan = plan("not-packed", |d| {
        let whole = d.tensor(&vec![1i32; 64 * 64], &[64, 64])?;
        let weights =
            whole.dequantize(&data(d, &[64, 2])?, DequantizeOptions::default())?.exp().gelu();
        Ok(vec![data(d, &[40, 64])?.matmul(&weights)?])
    });
    assert_eq!(plan.dispatches.len(), 2);
}

#[test]
fn maps_that_read_along_another_axis_turn_tiles() {
    type Build = fn(&Device) -> Result<Tensor>;
    let builds: [(usize, Build); 8] = [
        (1, |d| data(d, &[40, 33])?.transpose(0, 1)),
        (1, |d| data(d, &[64, 64, 256])?.permute(&[2, 0, 1])?.add(1.0)),
        (1, |d| data(d, &[40, 33])?.transpose(0, 1)?.flip(&[1])?.add(&data(d, &[33, 40])?)),
        (2, |d| {
            let sum = data(d, &[40, 33])?.add(&data(d, &[40, 33])?)?.mul(&data(d, &[40, 33])?)?;
            sum.transpose(0, 1)
        }),
        // Too narrow.
        (0, |d| data(d, &[300, 15])?.transpose(0, 1)),
        (0, |d| data(d, &[15, 300])?.transpose(0, 1)),
        // Not transposed.
        (0, |d| data(d, &[64, 64])?.add(&data(d, &[64, 1])?)),
        // Indexed by values.
        (0, |d| {
            let index = d.tensor(&[1i32; 32], &[32])?;
            data(d, &[40, 33])?.transpose(0, 1)?.index_select(0, &index)
        }),
    ];
    for (at, (count, build)) in builds.into_iter().enumerate() {
        let device = reference::device();
        let result = build(&device).expect("it can be recorded");
        let mut batch = device.batch();
        batch.add(&result).expect("it lives on this device");
        let plan = batch.plan().expect("it can be planned");
        let tiles = |config| {
            let text = source(&plan.dispatches[0].kernel, config).text;
            text.matches("var<workgroup> tile").count()
        };
        assert_eq!(tiles(KernelConfig::GPU), count, "build {at}");
        assert_eq!(tiles(KernelConfig::EMULATED), 0, "build {at}");
    }
}
