//! Tests batches, compiled programs and several reads at once, and what they cost.

use super::array::{encode, integers, random, Array};
use super::check::{near, said, Outcome, Suite};
use super::tolerance::Tolerance;
use std::sync::{Arc, Mutex, PoisonError};
use warpweft::backend::{Compiling, DeviceKind};
use warpweft::device::{CacheLimits, Device, Preference, Stats};
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::{NormOptions, Tensor};

/// Returns the counters that must stay constant in a loop after its first steps.
fn made(stats: Stats) -> [(&'static str, u64); 4] {
    [
        ("plans", stats.plans),
        ("pipelines", stats.pipelines),
        ("buffers", stats.buffers),
        ("bind groups", stats.bind_groups),
    ]
}

/// Checks that nothing was created between two statistics.
pub fn nothing_new(before: Stats, after: Stats) -> Outcome {
    let pairs = made(before).into_iter().zip(made(after));
    let grown: Vec<String> = pairs
        .filter(|(b, a)| b != a)
        .map(|((what, before), (_, after))| format!("{} new {what}", after - before))
        .collect();
    if grown.is_empty() {
        Ok(())
    } else {
        Err(grown.join(", "))
    }
}

pub fn ensure(holds: bool, what: impl Into<String>) -> Outcome {
    if holds {
        Ok(())
    } else {
        Err(what.into())
    }
}

fn small_model(device: &Device) -> Result<[Tensor; 4]> {
    Ok([
        random(&[12, 16], -0.5, 0.5, 1).f32(device)?,
        random(&[16], -0.5, 0.5, 2).f32(device)?,
        random(&[16, 5], -0.5, 0.5, 3).f32(device)?,
        random(&[5], -0.5, 0.5, 4).f32(device)?,
    ])
}

fn forward(x: &Tensor, model: &[Tensor; 4]) -> Result<Tensor> {
    let hidden = x.matmul(&model[0])?.add(&model[1])?.relu();
    hidden.matmul(&model[2])?.add(&model[3])?.softmax(-1)
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("batches");
    one_submission(&mut suite);
    super::eager::cases(&mut suite);
    super::profile::cases(&mut suite);
    several_reads(&mut suite);
    read_at_once(&mut suite);
    caches(&mut suite);
    programs(&mut suite);
    readiness(&mut suite);
    plain_results(&mut suite);
    loops(&mut suite);
    dropped(&mut suite);
    refused(&mut suite);
    same_bits(&mut suite);
    suite
}

fn one_submission(suite: &mut Suite) {
    suite.steps("nothing runs until something is read", |device| async move {
        let before = device.stats();
        let x = integers(&[40], -9, 9, 1);
        let got = x.f32(&device).and_then(|a| a.mul(2.0)?.add(1.0)).map_err(said)?;
        ensure(device.stats().submits == before.submits, "something ran")?;
        near("2 x + 1", got, x.map(|x| 2.0 * x + 1.0), Tolerance::EXACT).run().await?;
        let after = device.stats();
        ensure(after.submits == before.submits + 1, "more than one submission")?;
        ensure(after.kernels == before.kernels + 1, "more than one kernel")
    });
    suite.steps("a batch is one submission", |device| async move {
        let x = integers(&[40, 3], -9, 9, 2);
        let a = x.f32(&device).map_err(said)?;
        let sums = a.sum(&[1]).map_err(said)?;
        let (doubled, top) = (a.mul(2.0).map_err(said)?, a.max(&[0]).map_err(said)?);
        let mut batch = device.batch();
        for result in [&sums, &doubled, &top, &sums] {
            batch.add(result).map_err(said)?;
        }
        let plan = batch.plan().map_err(said)?;
        ensure(plan.outputs.len() == 3, format!("{} results", plan.outputs.len()))?;
        let before = device.stats();
        batch.run().map_err(said)?;
        batch.run().map_err(said)?;
        let after = device.stats();
        ensure(after.submits == before.submits + 1, "not one submission")?;
        let kernels = (after.kernels - before.kernels) as usize;
        ensure(kernels == plan.dispatches.len(), "the plan says another number of kernels")?;
        let sum = x.reduce(&[1], |x| x.iter().sum()).squeeze(&[1]);
        let most = |x: &[f64]| x.iter().copied().fold(f64::NEG_INFINITY, f64::max);
        near("doubled", doubled, x.map(|x| 2.0 * x), Tolerance::EXACT).run().await?;
        near("sums", sums, sum, Tolerance::EXACT).run().await?;
        near("top", top, x.reduce(&[0], most).squeeze(&[0]), Tolerance::EXACT).run().await?;
        ensure(device.stats().submits == after.submits, "reading ran something again")
    });
    suite.steps("submit runs what is held", |device| async move {
        let x = integers(&[40], -9, 9, 3);
        let a = x.f32(&device).map_err(said)?;
        let (b, c) = (a.mul(2.0).map_err(said)?, a.exp());
        drop(c.add(1.0).map_err(said)?);
        let before = device.stats();
        device.submit().map_err(said)?;
        device.synchronize().await.map_err(said)?;
        let after = device.stats();
        ensure(after.submits == before.submits + 1, "not one submission")?;
        near("2 x", b, x.map(|x| 2.0 * x), Tolerance::EXACT).run().await?;
        near("exp", c, x.map(f64::exp), Tolerance::F32).run().await?;
        ensure(device.stats().submits == after.submits, "something was left to run")
    });
    suite.steps("an empty batch", |device| async move {
        let before = device.stats().submits;
        device.batch().run().map_err(said)?;
        device.submit().map_err(said)?;
        ensure(device.stats().submits == before, "something ran")
    });
}

fn read_at_once(suite: &mut Suite) {
    suite.steps("several tensors are read by one call", |device| async move {
        let x = integers(&[33, 7], -9, 9, 40);
        let a = x.f32(&device).map_err(said)?;
        let (doubled, sums) = (a.mul(2.0).map_err(said)?, a.sum(&[1]).map_err(said)?);
        let empty = device.zeros(&[0]).map_err(said)?;
        let before = device.stats();
        let read = device.read::<f32>(&[&doubled, &sums, &a, &empty, &doubled]);
        let during = device.stats();
        ensure(during.submits == before.submits + 1, "not one submission")?;
        drop((doubled, sums, empty));
        // Writes to the memory of the dropped tensors at once.
        let noise = device.full(&[33, 7], -1.0, DType::F32).map_err(said)?;
        noise.run().map_err(said)?;
        let got = read.await.map_err(said)?;
        let twice = x.map(|x| 2.0 * x).data;
        let summed = x.reduce(&[1], |x| x.iter().sum::<f64>()).data;
        let want = [twice.clone(), summed, x.data.clone(), Vec::new(), twice];
        ensure(got.len() == want.len(), format!("{} results", got.len()))?;
        for (n, (got, want)) in got.iter().zip(&want).enumerate() {
            let same = got.len() == want.len();
            let same = same && got.iter().zip(want).all(|(g, w)| f64::from(*g) == *w);
            ensure(same, format!("result {n} is {got:?}, not {want:?}"))?;
        }
        let none = device.read::<f32>(&[]).await.map_err(said)?;
        ensure(none.is_empty(), "something was read of nothing")
    });
    suite.steps("tensors of several types are read as they are stored", |device| async move {
        let x = integers(&[5], -9, 9, 41);
        let a = x.f32(&device).map_err(said)?;
        let (whole, positive) = (a.cast(DType::I32).map_err(said)?, a.gt(0.0).map_err(said)?);
        let got = device.read_bytes(&[&positive, &a, &whole]).await.map_err(said)?;
        let want = [
            encode(DType::Bool, &x.map(|x| f64::from(u8::from(x > 0.0))).data),
            encode(DType::F32, &x.data),
            encode(DType::I32, &x.data),
        ];
        ensure(got == want, format!("{got:?}, not {want:?}"))
    });
    suite.steps("a call that reads several refuses what it can not read", |device| async move {
        let (a, whole) =
            (device.ones(&[3]).map_err(said)?, device.ones((&[3], DType::I32)).map_err(said)?);
        let other = Device::with(Preference::Cpu).await;
        if let Ok(other) = other {
            let there = other.ones(&[3]).map_err(said)?;
            let refused = device.read::<f32>(&[&a, &there]).await;
            ensure(
                refused.is_err_and(|e| e.kind() == ErrorKind::InvalidArgument),
                "another device's",
            )?;
        }
        let refused = device.read::<f32>(&[&a, &whole]).await;
        ensure(refused.is_err_and(|e| e.kind() == ErrorKind::DType), "another type")?;
        let refused = device.read_bytes(&[&a, &whole.exp()]).await;
        ensure(refused.is_err_and(|e| e.message().starts_with("exp:")), "an error it carries")?;
        let got = device.read::<f32>(&[&a]).await.map_err(said)?;
        ensure(got == [vec![1.0; 3]], "the device does not go on")
    });
}

fn caches(suite: &mut Suite) {
    suite.steps("shapes that come once are forgotten", |device| async move {
        let usual = device.cache_limits();
        ensure(usual == CacheLimits::default(), "the limits are not the usual ones")?;
        let limits = CacheLimits {
            plans: 12,
            pipelines: 10,
            bind_groups: 9,
            pooled_bytes: 8 << 10,
            ..usual
        };
        device.set_cache_limits(limits);
        let program =
            device.compile(&[(&[3], DType::F32)], |x| Ok(vec![x[0].square()])).map_err(said)?;
        let before = device.stats();
        for n in 1..=60 {
            let x = integers(&[n], -9, 9, n as u32);
            let a = x.f32(&device).map_err(said)?;
            let sum = a.mul(2.0).and_then(|a| a.sum(&[])).map_err(said)?;
            let got = sum.item::<f32>().await.map_err(said)?;
            let want: f64 = x.data.iter().map(|x| 2.0 * x).sum();
            ensure(f64::from(got) == want, format!("{n}: {got}, not {want}"))?;
            let now = device.stats();
            let held = [now.plans_held, now.pipelines_held, now.bind_groups_held];
            let few = held.iter().zip([12, 10, 9]).all(|(held, most)| *held <= most);
            let small = now.pooled_bytes <= limits.pooled_bytes;
            ensure(few && small, format!("{held:?} and {} bytes at {n}", now.pooled_bytes))?;
        }
        let after = device.stats();
        let made = after.plans - before.plans;
        let evicted = after.plans_evicted - before.plans_evicted;
        ensure(made == 60 && evicted >= 48, format!("{evicted} of {made} plans were evicted"))?;
        // The plan of this program was evicted long ago.
        let x = device.tensor(&[1.0f32, -2.0, 3.0], &[3]).map_err(said)?;
        let y = program.run(&[&x]).map_err(said)?;
        let got = y[0].read::<f32>().await.map_err(said)?;
        ensure(got == [1.0, 4.0, 9.0], format!("the program gives {got:?}"))?;
        device.set_cache_limits(usual);
        ensure(device.cache_limits() == usual, "the limits do not come back")
    });
}

fn several_reads(suite: &mut Suite) {
    suite.steps("several reads at once, awaited in any order", |device| async move {
        let x = integers(&[100], -9, 9, 4);
        let a = x.f32(&device).map_err(said)?;
        let tensors: Vec<Tensor> = (0..5).map(|n| a.mul(n)).collect::<Result<_>>().map_err(said)?;
        let reads: Vec<_> = tensors.iter().map(Tensor::read::<f32>).collect();
        drop(tensors);
        for (n, read) in reads.into_iter().enumerate().rev() {
            let got = read.await.map_err(said)?;
            let right = got.iter().zip(&x.data).all(|(g, x)| f64::from(*g) == x * n as f64);
            ensure(right, format!("the {n}-th differs"))?;
        }
        Ok(())
    });
    suite.steps("a batch tells what it planned, and runs nothing for it", |device| async move {
        let a = random(&[8, 16], -1.0, 1.0, 4).f32(&device).map_err(said)?;
        let before = device.stats().submits;
        let mut batch = device.batch();
        let chain = a.exp().mul(2.0).and_then(|x| x.add(1.0)).map_err(said)?;
        batch.add(&chain).map_err(said)?;
        batch.add(&a.transpose(0, 1).and_then(|x| x.sum(&[1])).map_err(said)?).map_err(said)?;
        let plan = batch.plan().map_err(said)?;
        let text = plan.to_string();
        // exp, mul, add; transpose, sum, and the reshape that drops the summed axis. Two results, no temporaries.
        let bytes = (8 * 16 + 16) * 4;
        let counts = format!("6 operations, 2 kernels, 2 buffers, {bytes} bytes");
        ensure(text.starts_with(&counts), format!("it says {text}, not {counts}"))?;
        ensure(
            text.contains("exp + mul + add"),
            format!("it does not say what is in a kernel: {text}"),
        )?;
        ensure(plan.dispatches.len() == 2 && plan.bytes_written() == bytes, "its counts")?;
        ensure(device.stats().submits == before, "something ran")
    });
    suite.steps("one tensor read twice at once", |device| async move {
        let a = integers(&[33], -9, 9, 5).f32(&device).map_err(said)?.exp();
        let (one, two) = (a.read::<f32>(), a.read::<f32>());
        ensure(two.await.map_err(said)? == one.await.map_err(said)?, "they differ")
    });
    suite.steps("a read that nobody awaits", |device| async move {
        let x = integers(&[33], -9, 9, 6);
        let a = x.f32(&device).and_then(|a| a.mul(3.0)).map_err(said)?;
        for _ in 0..5 {
            drop(a.read::<f32>());
        }
        near("3 x", a, x.map(|x| 3.0 * x), Tolerance::EXACT).run().await
    });
}

fn readiness(suite: &mut Suite) {
    suite.steps("a program that is ready runs without compiling", |device| async move {
        let model = small_model(&device).map_err(said)?;
        for one in &model {
            one.run().map_err(said)?;
        }
        let step = |x: &[Tensor]| Ok(vec![forward(&x[0], &model)?]);
        let program = device.compile(&[(&[9, 12], DType::F32)], step).map_err(said)?;
        let input = random(&[9, 12], -1.0, 1.0, 77).f32(&device).map_err(said)?;
        let before = device.stats();
        let heard: Arc<Mutex<Vec<Compiling>>> = Arc::default();
        let told = heard.clone();
        let tell =
            move |progress| told.lock().unwrap_or_else(PoisonError::into_inner).push(progress);
        device.on_compile(Some(Arc::new(tell)));
        program.ready().await.map_err(said)?;
        device.on_compile(None);
        let ready = device.stats();
        ensure(ready.submits == before.submits, "it ran")?;
        let total = match device.info().kind {
            DeviceKind::Cpu => 0,
            _ => (ready.pipelines - before.pipelines) as usize,
        };
        let mut heard = heard.lock().map(|heard| heard.clone()).map_err(|e| e.to_string())?;
        heard.sort_by_key(|progress| progress.done);
        let want: Vec<_> = (1..=total).map(|done| Compiling { done, total }).collect();
        ensure(heard == want, format!("{heard:?} instead of {want:?} was heard"))?;
        let got = program.run(&[&input]).map_err(said)?.remove(0);
        let made = device.stats().pipelines - ready.pipelines;
        ensure(made == 0, format!("{made} pipelines when it ran"))?;
        program.ready().await.map_err(said)?;
        let (got, want) = (got.read::<f32>(), forward(&input, &model).map_err(said)?);
        let (got, want) = (got.await.map_err(said)?, want.read::<f32>().await.map_err(said)?);
        ensure(got == want, "it differs from what it stands for")?;
        let named = device.compile_dynamic(&[(&["n".into()], DType::F32)], |x| Ok(x.to_vec()));
        match named.map_err(said)?.ready().await {
            Err(error) if error.kind() == ErrorKind::InvalidState => Ok(()),
            other => Err(format!("with a named axis: {other:?}")),
        }
    });
}

fn programs(suite: &mut Suite) {
    suite.steps("a program, replayed with new inputs, makes nothing new", |device| async move {
        let model = small_model(&device).map_err(said)?;
        let program = device
            .compile(&[(&[7, 12], DType::F32)], |x| Ok(vec![forward(&x[0], &model)?]))
            .map_err(said)?;
        let mut settled = device.stats();
        for step in 0..24 {
            let x = random(&[7, 12], -1.0, 1.0, 10 + step);
            let input = x.f32(&device).map_err(said)?;
            let got = program.run(&[&input]).map_err(said)?.remove(0);
            let (got, want) = (got.read::<f32>(), forward(&input, &model).map_err(said)?);
            let (got, want) = (got.await.map_err(said)?, want.read::<f32>().await.map_err(said)?);
            ensure(got == want, format!("step {step} differs from what it stands for"))?;
            if step == 7 {
                settled = device.stats();
            }
        }
        nothing_new(settled, device.stats())
    });
    suite.steps("a program of several inputs and results", |device| async move {
        let program = device
            .compile(&[(&[4], DType::F32), (&[3, 4], DType::F32), (&[], DType::I32)], |x| {
                let scale = x[2].cast(DType::F32)?;
                Ok(vec![x[1].mul(&x[0])?.sum(&[1])?, x[0].mul(&scale)?, x[2].add(1)?])
            })
            .map_err(said)?;
        ensure(!program.plan().map_err(said)?.to_string().is_empty(), "its plan says nothing")?;
        for seed in 0..3 {
            let (x, y) = (integers(&[4], -9, 9, seed), integers(&[3, 4], -9, 9, seed + 9));
            let (a, b) = (x.f32(&device).map_err(said)?, y.f32(&device).map_err(said)?);
            let n = device.tensor(&[seed as i32], &[]).map_err(said)?;
            let mut got = program.run(&[&a, &b, &n]).map_err(said)?.into_iter();
            let mut next = || got.next().ok_or_else(|| "too few results".to_string());
            let sums = y.zip(&x, |y, x| y * x).reduce(&[1], |p| p.iter().sum()).squeeze(&[1]);
            near("sums", next()?, sums, Tolerance::EXACT).run().await?;
            let scaled = x.map(|x| x * f64::from(seed));
            near("scaled", next()?, scaled, Tolerance::EXACT).run().await?;
            ensure(next()?.item::<i32>().await.map_err(said)? == seed as i32 + 1, "the number")?;
        }
        Ok(())
    });
    suite.steps("a program's results feed it again", |device| async move {
        let step = |x: &[Tensor]| Ok(vec![x[0].mul(0.5)?.add(1.0)?]);
        let program = device.compile(&[(&[300], DType::F32)], step).map_err(said)?;
        let x = integers(&[300], -64, 64, 12);
        let mut state = x.f32(&device).map_err(said)?;
        let mut want = x;
        let mut settled = device.stats();
        for n in 0..20 {
            state = program.run(&[&state]).map_err(said)?.remove(0);
            want = want.map(|x| f64::from((x * 0.5 + 1.0) as f32));
            if n == 4 {
                settled = device.stats();
            }
        }
        nothing_new(settled, device.stats())?;
        near("state", state, want, Tolerance::EXACT).run().await
    });
    suite.steps("a program keeps what it uses", |device| async move {
        let program = {
            let weight = integers(&[3], 1, 9, 13).f32(&device).map_err(said)?;
            let doubled = weight.mul(2.0).map_err(said)?;
            doubled.run().map_err(said)?;
            device
                .compile(&[(&[3], DType::F32)], |x| Ok(vec![x[0].mul(&doubled)?.add(&weight)?]))
                .map_err(said)?
        };
        let w = integers(&[3], 1, 9, 13);
        let x = Array::new(&[3], vec![1.0, 2.0, 3.0]);
        // If the program had freed the memory of its constant, this would overwrite it.
        let noise = device.full(&[3], 77.0, DType::F32).map_err(said)?;
        noise.run().map_err(said)?;
        let got = program.run(&[&x.f32(&device).map_err(said)?]).map_err(said)?.remove(0);
        near("result", got, x.zip(&w, |x, w| x * 2.0 * w + w), Tolerance::EXACT).run().await
    });
}

/// Tests that a program may return any tensor that a batch accepts.
fn plain_results(suite: &mut Suite) {
    suite.steps("results that are inputs, constants or named twice", |device| async move {
        let fixed = device.tensor(&[7.0f32], &[1]).map_err(said)?;
        let build = |x: &[Tensor]| {
            let (sum, twice) = (x[0].add(&x[1])?, x[0].mul(2.0)?);
            let [by_x, by_y] = &sum.sum(&[])?.grad(&[&x[0], &x[1]])?[..] else { unreachable!() };
            let all = [by_x, &x[1], &sum, by_y, &fixed, &twice, &sum, &x[1]];
            Ok(all.into_iter().cloned().collect())
        };
        let two: (&[usize], DType) = (&[2], DType::F32);
        let program = device.compile(&[two, two], build).map_err(said)?;
        drop(fixed);
        ensure(
            program.plan().map_err(said)?.outputs.len() <= 4,
            "what is named twice is computed twice",
        )?;
        for seed in 0..3 {
            let (x, y) = (integers(&[2], -9, 9, seed), integers(&[2], -9, 9, seed + 9));
            let (a, b) = (x.f32(&device).map_err(said)?, y.f32(&device).map_err(said)?);
            let got = program.run(&[&a, &b]).map_err(said)?;
            drop((a, b));
            let (sum, ones) = (x.zip(&y, |x, y| x + y), x.map(|_| 1.0));
            let (fixed, twice) = (Array::new(&[1], vec![7.0]), x.map(|x| 2.0 * x));
            let want = [&ones, &y, &sum, &ones, &fixed, &twice, &sum, &y];
            ensure(got.len() == want.len(), format!("{} results", got.len()))?;
            for (n, (got, want)) in got.into_iter().zip(want).enumerate() {
                near(format!("result {n}"), got, want.clone(), Tolerance::EXACT).run().await?;
            }
        }
        let same = device.compile(&[two], |x| Ok(x.to_vec())).map_err(said)?;
        let (x, before) = (device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?, device.stats());
        let got = same.run(&[&x]).map_err(said)?.remove(0);
        ensure(device.stats() == before, "returning an input runs or holds something")?;
        near("x", got, Array::new(&[2], vec![1.0, 2.0]), Tolerance::EXACT).run().await
    });
}

fn loops(suite: &mut Suite) {
    suite.steps("a loop with a changing number makes nothing new", |device| async move {
        let x = integers(&[50], -9, 9, 14);
        let a = x.f32(&device).map_err(said)?;
        let mut settled = device.stats();
        for step in 0..24 {
            let rate = 1.0 / f64::from(1 << (step % 8));
            let got = a.mul(rate).and_then(|a| a.sub(rate)).map_err(said)?;
            near("step", got, x.map(|x| x * rate - rate), Tolerance::EXACT).run().await?;
            if step == 7 {
                settled = device.stats();
            }
        }
        nothing_new(settled, device.stats())
    });
    suite.steps("a training-like loop holds its memory", |device| async move {
        let mut model = small_model(&device).map_err(said)?;
        let mut settled = device.stats();
        for step in 0..40 {
            // Measured before a step, when no tensor of the previous step is alive.
            if step == 19 {
                settled = device.stats();
            }
            let x = random(&[7, 12], -1.0, 1.0, step).f32(&device).map_err(said)?;
            let loss = forward(&x, &model).and_then(|y| y.log().mean(&[])).map_err(said)?;
            let mut batch = device.batch();
            for weight in &mut model {
                *weight = weight.sub(&weight.mul(1e-3).map_err(said)?).map_err(said)?;
                batch.add(weight).map_err(said)?;
            }
            batch.add(&loss).and_then(|b| b.run()).map_err(said)?;
            ensure(loss.item::<f32>().await.map_err(said)?.is_finite(), "the loss is lost")?;
        }
        let after = device.stats();
        nothing_new(settled, after)?;
        ensure(after.bytes == settled.bytes, "more bytes are allocated")?;
        ensure(after.nodes == settled.nodes, "more nodes are alive")
    });
    suite.steps("a long chain is freed and runs", |device| async move {
        let mut state = device.zeros(&[4]).map_err(said)?;
        for _ in 0..2000 {
            state = state.add(1.0).map_err(said)?;
        }
        let want = Array::new(&[4], vec![2000.0; 4]);
        near("count", state, want, Tolerance::EXACT).run().await?;
        let mut unread = device.zeros(&[4]).map_err(said)?;
        for _ in 0..20_000 {
            unread = unread.add(1.0).map_err(said)?;
        }
        drop(unread);
        Ok(())
    });
    suite.steps("memory is given back", |device| async move {
        let bytes = device.stats().bytes;
        let a = device.zeros(&[100_000]).map_err(said)?;
        a.run().map_err(said)?;
        ensure(device.stats().used_bytes >= 400_000, "it takes no memory")?;
        drop(a);
        device.synchronize().await.map_err(said)?;
        device.trim();
        let stats = device.stats();
        ensure(stats.pooled_bytes == 0, "something is pooled still")?;
        ensure(stats.bytes <= bytes, format!("{} bytes are held, {bytes} before", stats.bytes))
    });
}

fn dropped(suite: &mut Suite) {
    suite.steps("tensors dropped while a read is in flight", |device| async move {
        for seed in 0..10 {
            let x = integers(&[500], -9, 9, seed);
            let read = {
                let a = x.f32(&device).map_err(said)?;
                let y = a.mul(2.0).and_then(|y| y.add(&a)).map_err(said)?;
                y.read::<f32>()
            };
            // Writes to the freed memory at once.
            let noise = device.full(&[500], -1.0, DType::F32).map_err(said)?;
            noise.run().map_err(said)?;
            let got = read.await.map_err(said)?;
            let right = got.iter().zip(&x.data).all(|(g, x)| f64::from(*g) == 3.0 * x);
            ensure(right, "something else was read")?;
        }
        Ok(())
    });
    suite.steps("inputs dropped before the batch runs", |device| async move {
        let x = integers(&[64, 64], -9, 9, 15);
        let y = {
            let a = x.f32(&device).map_err(said)?;
            let b = a.transpose(0, 1).and_then(|t| t.add(1.0)).map_err(said)?;
            b.mul(&a).map_err(said)?
        };
        let noise = device.full(&[64, 64], -1.0, DType::F32).map_err(said)?;
        noise.run().map_err(said)?;
        let want = x.permute(&[1, 0]).zip(&x, |t, x| (t + 1.0) * x);
        near("(xT + 1) x", y, want, Tolerance::EXACT).run().await
    });
    suite.steps("a result that is also an input of others", |device| async move {
        let x = integers(&[33], -9, 9, 16);
        let a = x.f32(&device).map_err(said)?;
        let b = a.mul(2.0).map_err(said)?;
        let c = b.add(1.0).map_err(said)?;
        let first: Vec<f32> = b.read().await.map_err(said)?;
        drop(b);
        ensure(first.iter().zip(&x.data).all(|(g, x)| f64::from(*g) == 2.0 * x), "2 x")?;
        near("2 x + 1", c, x.map(|x| 2.0 * x + 1.0), Tolerance::EXACT).run().await
    });
    // Random programs found both faults.
    suite.steps("results joined in the batch they are results of", |device| async move {
        let x = integers(&[2, 3], -9, 9, 17);
        let build = || {
            let a = x.f32(&device)?;
            let b = a.mul(2.0)?;
            let joined = |x, y, axis| Tensor::concat(&[x, y], axis);
            Ok([joined(&b, &b, 0)?, joined(&a, &b, 1)?, joined(&b, &a, 0)?, b])
        };
        let got = build().map_err(said)?;
        let mut batch = device.batch();
        for tensor in &got {
            batch.add(tensor).map_err(said)?;
        }
        batch.run().map_err(said)?;
        let twice = x.map(|x| 2.0 * x);
        let join =
            |a: &Array<f64>, b: &Array<f64>, axis| Array::concat(&[a.clone(), b.clone()], axis);
        let want =
            [join(&twice, &twice, 0), join(&x, &twice, 1), join(&twice, &x, 0), twice.clone()];
        for (n, (got, want)) in got.into_iter().zip(want).enumerate() {
            near(format!("result {n}"), got, want, Tolerance::EXACT).run().await?;
        }
        // In a batch with only the joined tensor, no other kernel could write `b`.
        for pair in [0, 1, 2] {
            let all = build().map_err(said)?;
            let (joined, b) = (all[pair].clone(), all[3].clone());
            drop(all);
            let mut batch = device.batch();
            batch.add(&joined).and_then(|batch| batch.add(&b)?.run()).map_err(said)?;
            near(format!("2 x beside {pair}"), b, twice.clone(), Tolerance::EXACT).run().await?;
        }
        Ok(())
    });
    suite.steps("results padded and cut in the batch they are results of", |device| async move {
        let x = integers(&[4, 1], -9, 9, 18);
        let build = || {
            let a = x.f32(&device)?.mul(2.0)?;
            let moved = a.pad(&[(0, 0), (1, 0)], 5.0)?.slice(1, ..1)?.add(1.0)?;
            let down = a.pad(&[(2, 0), (0, 0)], 5.0)?.slice(0, ..4)?.add(1.0)?;
            Ok([(a.clone(), moved), (a, down)])
        };
        let twice = x.map(|x| 2.0 * x);
        let down = twice.pad(&[(2, 0), (0, 0)], 5.0).slice(0, 0, 4, 1).map(|v| v + 1.0);
        let want = [twice.map(|_| 6.0), down];
        for (n, want) in want.into_iter().enumerate() {
            let [first, second] = build().map_err(said)?;
            let (a, moved) = if n == 0 { first } else { second };
            let mut batch = device.batch();
            batch.add(&moved).and_then(|batch| batch.add(&a)?.run()).map_err(said)?;
            near(format!("2 x, {n}"), a, twice.clone(), Tolerance::EXACT).run().await?;
            near(format!("moved, {n}"), moved, want, Tolerance::EXACT).run().await?;
        }
        Ok(())
    });
    suite.steps("a tensor outlives its device's handles", |device| async move {
        let a = device.ones(&[3]).map_err(said)?;
        drop(device);
        near("ones", a, Array::new(&[3], vec![1.0; 3]), Tolerance::EXACT).run().await
    });
}

fn refused(suite: &mut Suite) {
    suite.steps("an error is carried to the read", |device| async move {
        let whole = device.tensor(&[1i32, 2], &[2]).map_err(said)?;
        let bad = whole.exp();
        ensure(bad.error().is_some_and(|e| e.kind() == ErrorKind::DType), "no error")?;
        let next = bad.sqrt();
        let read = next.read::<f32>().await;
        ensure(read.is_err_and(|e| e.message().starts_with("exp:")), "it was forgotten")?;
        let sum = bad.add(1.0);
        ensure(sum.is_err_and(|e| e.kind() == ErrorKind::DType), "it was lost in a sum")?;
        // The device still works.
        near(
            "exp",
            device.zeros(&[2]).map_err(said)?.exp(),
            Array::new(&[2], vec![1.0; 2]),
            Tolerance::F32,
        )
        .run()
        .await
    });
    suite.steps("programs refuse what they were not made for", |device| async move {
        let program =
            device.compile(&[(&[3], DType::F32)], |x| Ok(vec![x[0].mul(2.0)?])).map_err(said)?;
        let (other, whole) =
            (device.zeros(&[4]).map_err(said)?, device.tensor(&[1i32; 3], &[3]).map_err(said)?);
        let fine = device.zeros(&[3]).map_err(said)?;
        let kind = |r: Result<Vec<Tensor>>| {
            r.err().map(|e| (e.kind(), e.message().starts_with("program:")))
        };
        ensure(kind(program.run(&[])) == Some((ErrorKind::InvalidArgument, true)), "no inputs")?;
        ensure(
            kind(program.run(&[&fine, &fine])) == Some((ErrorKind::InvalidArgument, true)),
            "two inputs",
        )?;
        ensure(kind(program.run(&[&other])) == Some((ErrorKind::Shape, true)), "a shape")?;
        ensure(kind(program.run(&[&whole])) == Some((ErrorKind::DType, true)), "a type")?;
        ensure(program.run(&[&fine]).is_ok(), "the right input")
    });
    suite.steps("an input of a program has no data outside", |device| async move {
        let mut leaked = None;
        let program = device
            .compile(&[(&[3], DType::F32)], |x| {
                leaked = Some(x[0].clone());
                Ok(vec![x[0].mul(2.0)?])
            })
            .map_err(said)?;
        let leaked = leaked.ok_or("it was not called")?;
        ensure(leaked.exp().read::<f32>().await.is_err(), "it was read")?;
        ensure(leaked.read::<f32>().await.is_err(), "it was read itself")?;
        ensure(program.run(&[&leaked]).is_err(), "it was run on")
    });
}

/// The numbers of runs: 5 everywhere, and 100 where a run is fast.
const TIMES: [usize; 2] = [5, 100];

fn same_bits(suite: &mut Suite) {
    type Work = fn(&Tensor) -> Result<Tensor>;
    const WORK: &[(&str, Work)] = &[
        ("sums", |x| x.sum(&[])),
        ("rows", |x| x.sum(&[1])),
        ("softmax", |x| x.softmax(1)),
        ("columns", |x| x.mean(&[0])),
        ("matmul", |x| x.matmul(&x.transpose(0, 1)?)),
        ("layer norm", |x| x.layer_norm(&[1], NormOptions::default())),
        ("a chain", |x| x.gelu().mul(&x.exp())?.sum(&[0])),
        ("a sum that is scattered", |x| {
            let index = x.mul(5.0)?.cast(DType::I32)?.bitwise_and(7)?;
            x.device().zeros(&[33, 257])?.scatter_add(0, &index, x)
        }),
        ("a gradient of products", |x| {
            let weights = x.matmul(&x.transpose(0, 1)?)?.softmax(1)?;
            Ok(weights.matmul(x)?.square().sum(&[])?.grad(&[x])?.remove(0))
        }),
        ("a gradient of a sort", |x| {
            let sorted = x.sort(1, true)?.0;
            Ok(sorted.mul(&sorted.cumsum(1)?)?.sum(&[])?.grad(&[x])?.remove(0))
        }),
        ("a gradient of a norm", |x| {
            Ok(x.layer_norm(&[1], NormOptions::default())?.tanh().sum(&[])?.grad(&[x])?.remove(0))
        }),
    ];
    for (&(name, work), times) in WORK.iter().flat_map(|work| TIMES.map(|times| (work, times))) {
        let name = format!("the same bits, {times} times: {name}");
        let check = move |device: Device| async move {
            let x = random(&[33, 257], -3.0, 3.0, 17).f32(&device).map_err(said)?;
            let one = work(&x).map_err(said)?.read_bytes().await.map_err(said)?;
            // Other tensors in the batch must not change the order of a sum.
            let company = x.exp().sum(&[]).map_err(said)?;
            let again = work(&x).map_err(said)?;
            let mut batch = device.batch();
            batch.add(&company).and_then(|b| b.add(&again)).map_err(said)?;
            batch.run().map_err(said)?;
            ensure(
                one == again.read_bytes().await.map_err(said)?,
                "in a batch it gives other bits",
            )?;
            for n in 1..times {
                let more = work(&x).map_err(said)?.read_bytes().await.map_err(said)?;
                ensure(one == more, format!("run {n} gives other bits"))?;
            }
            Ok(())
        };
        suite.steps(name, check).big = times > TIMES[0];
    }
}
