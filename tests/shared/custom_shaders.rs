//! Tests compute shaders that users write in WGSL, compared with the same functions in `f64`.

use super::array::{integers, random, Array};
use super::check::{exact, near, said, typed, Check, Outcome, Suite};
use super::tolerance::Tolerance;
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{Error, ErrorKind, Result};
use warpweft::tensor::{Shader, Tensor};

/// Computes the sums and the differences of neighbors, weighted by a number.
const NEIGHBOURS: &str = "
struct Numbers { size: u32, weight: f32 }
@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> x: array<f32>;
@group(0) @binding(2) var<storage, read> y: array<f32>;
@group(0) @binding(3) var<storage, read_write> sums: array<f32>;
@group(0) @binding(4) var<storage, read_write> differences: array<f32>;

@compute @workgroup_size(64)
fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x >= numbers.size) { return; }
  let next = (id.x + 1u) % numbers.size;
  sums[id.x] = x[id.x] + numbers.weight * y[next];
  differences[id.x] = x[id.x] - numbers.weight * y[next];
}";

const BY: Tolerance = Tolerance { absolute: 1e-5, ..Tolerance::ROUNDED };

fn next(x: &Array<f64>) -> Array<f64> {
    Array::from_fn(&x.shape, |at| x.at(&[(at[0] + 1) % x.shape[0]]))
}

/// Returns the shader with its CPU fallback and its gradient.
async fn neighbours(device: &Device) -> std::result::Result<Shader, String> {
    let shader = device.shader(NEIGHBOURS).await.map_err(said)?;
    let shader = shader.with_fallback(|x, numbers| {
        let weighted = x[1].roll(-1, 0)?.mul(numbers[1])?;
        Ok(vec![x[0].add(&weighted)?, x[0].sub(&weighted)?])
    });
    Ok(shader.with_gradient(|_, outputs, of| {
        assert_eq!(outputs.len(), 2, "the shader's results");
        // For the weight 2, which all tests with gradients use.
        let by_y = of[0].sub(&of[1])?.mul(2.0)?.roll(1, 0)?;
        Ok(vec![of[0].add(&of[1])?, by_y])
    }))
}

fn run(shader: &Shader, x: &Tensor, y: &Tensor, weight: f64) -> Result<[Tensor; 2]> {
    let n = x.numel();
    let groups = n.div_ceil(64) as u32;
    let outputs: [(&str, &[usize]); 2] = [("sums", &[n]), ("differences", &[n])];
    let numbers = [("weight", weight), ("size", n as f64)];
    // Arguments are passed by name, in any order.
    let made = shader.run(&[("y", y), ("x", x)], &outputs, [groups, 1, 1], &numbers)?;
    Ok(made.try_into().expect("two results"))
}

/// Compares the results that `build` computes with the shader.
async fn check(device: Device, build: impl Fn(&Device, Shader) -> Result<Vec<Check>>) -> Outcome {
    let shader = neighbours(&device).await?;
    for check in build(&device, shader).map_err(said)? {
        check.run().await?;
    }
    Ok(())
}

pub fn add(suite: &mut Suite) {
    for n in [1, 3, 64, 257] {
        suite.steps(format!("a shader of {n} elements"), move |device| {
            check(device, move |device, shader| {
                let (x, y) = (random(&[n], -5.0, 5.0, 1), random(&[n], -5.0, 5.0, 2));
                let [sums, differences] = run(&shader, &x.f32(device)?, &y.f32(device)?, 3.0)?;
                let y = next(&y);
                Ok(vec![
                    near("sums", sums, x.zip(&y, |x, y| x + 3.0 * y), BY),
                    near("differences", differences, x.zip(&y, |x, y| x - 3.0 * y), BY),
                ])
            })
        });
    }
    suite.steps("a shader between other operations", |device| {
        check(device, |device, shader| {
            let (x, y) = (random(&[100], -5.0, 5.0, 1), random(&[100], -5.0, 5.0, 2));
            let before = x.f32(device)?.mul(2.0)?;
            let turned = y.f32(device)?.reshape(&[10, 10])?.transpose(0, 1)?.reshape(&[100])?;
            // One of the results is not used.
            let [sums, _] = run(&shader, &before, &turned, 0.5)?;
            let got = sums.exp().mul(0.25)?;
            let y = Array::from_fn(&[100], |at| y.at(&[at[0] % 10 * 10 + at[0] / 10]));
            let want = x.zip(&next(&y), |x, y| (2.0 * x + 0.5 * y).exp() / 4.0);
            let by = Tolerance { relative: 1e-4, ..BY };
            Ok(vec![near("sums", got, want, by)])
        })
    });
    suite.steps("a shader runs once for all its results", |device| async move {
        let shader = neighbours(&device).await?;
        let x = random(&[64], -5.0, 5.0, 1);
        let on = x.f32(&device).map_err(said)?;
        let [sums, differences] = run(&shader, &on, &on, 1.0).map_err(said)?;
        let before = device.stats();
        sums.read::<f32>().await.map_err(said)?;
        let between = device.stats();
        let want = x.zip(&next(&x), |x, y| x - y);
        near("differences", differences, want, BY).run().await?;
        let after = device.stats();
        let (first, then) = (between.kernels - before.kernels, after.kernels - between.kernels);
        match device.info().kind == DeviceKind::Cpu || (first, then) == (1, 0) {
            true => Ok(()),
            false => Err(format!("{first} kernels, and then {then}")),
        }
    });
    suite.steps("a shader that runs as it is recorded", |device| async move {
        let shader = neighbours(&device).await?;
        device.run_eagerly(true);
        let x = random(&[64], -5.0, 5.0, 1);
        let made = x.f32(&device).and_then(|on| {
            let [sums, differences] = run(&shader, &on.mul(2.0)?, &on, 1.0)?;
            let loss = sums.square().sum(&[])?;
            Ok([differences, loss.grad(&[&on])?.remove(0)])
        });
        device.run_eagerly(false);
        let [differences, gradient] = made.map_err(said)?;
        near("differences", differences, x.zip(&next(&x), |x, y| 2.0 * x - y), BY).run().await?;
        gradient.read::<f32>().await.map(drop).map_err(said)
    });
    suite.steps("a shader in a program", |device| {
        check(device, |device, shader| {
            let inputs: [(&[usize], DType); 2] = [(&[40], DType::F32), (&[40], DType::F32)];
            let program = device.compile(&inputs, |x| {
                let [sums, differences] = run(&shader, &x[0].add(1.0)?, &x[1], 2.0)?;
                Ok(vec![sums.mul(&differences)?])
            })?;
            let mut checks = Vec::new();
            for seed in 1..4 {
                let (x, y) = (random(&[40], -2.0, 2.0, seed), random(&[40], -2.0, 2.0, seed + 9));
                let got = program.run(&[&x.f32(device)?, &y.f32(device)?])?.remove(0);
                let want = x.zip(&next(&y), |x, y| (x + 1.0).powi(2) - 4.0 * y * y);
                checks.push(near(format!("seed {seed}"), got, want, BY));
            }
            Ok(checks)
        })
    });
    suite.steps("gradients of a shader", |device| {
        check(device, |device, shader| {
            let (x, y) = (random(&[33], -2.0, 2.0, 1), random(&[33], -2.0, 2.0, 2));
            let (on, other) = (x.f32(device)?, y.f32(device)?);
            let [sums, differences] = run(&shader, &on.square(), &other, 2.0)?;
            let loss = sums.square().sum(&[])?.add(&differences.mul(3.0)?.sum(&[])?)?;
            let [dx, dy] = &loss.grad(&[&on, &other])?[..] else { unreachable!("of two") };
            let only = sums.sum(&[])?.grad(&[&other])?.remove(0);
            let sum = x.zip(&next(&y), |x, y| x * x + 2.0 * y);
            let before = Array::from_fn(&[33], |at| sum.at(&[(at[0] + 32) % 33]));
            let by = Tolerance { absolute: 1e-3, ..BY };
            Ok(vec![
                near("by x", dx.clone(), sum.zip(&x, |s, x| (2.0 * s + 3.0) * 2.0 * x), by),
                near("by y", dy.clone(), before.map(|s| 2.0 * (2.0 * s - 3.0)), by),
                near("of one result", only, before.map(|_| 2.0), by),
            ])
        })
    });
    kinds(suite);
    refusals(suite);
    misuse(suite);
}

fn kinds(suite: &mut Suite) {
    suite.steps("a shader of integers, whose threads share memory", |device| async move {
        let source = "
            @group(0) @binding(1) var<storage, read> x: array<vec4<i32>>;
            @group(0) @binding(2) var<storage, read_write> y: array<i32>;
            var<workgroup> all: array<i32, 16>;
            @compute @workgroup_size(16)
            fn main(@builtin(local_invocation_index) n: u32, @builtin(workgroup_id) group: vec3<u32>) {
              let four = x[group.y * 16u + n];
              all[n] = four.x + four.y * four.z - four.w;
              workgroupBarrier();
              y[group.y * 16u + n] = all[15u - n];
            }";
        let shader = device.shader(source).await.map_err(said)?.with_fallback(|x, _| {
            let fours = x[0].reshape(&[2, 16, 4])?;
            let part = |n: isize| fours.slice(2, n..n + 1);
            let value = part(0)?.add(&part(1)?.mul(&part(2)?)?)?.sub(&part(3)?)?;
            Ok(vec![value.flip(&[1])?.reshape(&[32])?])
        });
        let x = integers(&[128], -9, 9, 1);
        let on = x.on(&device, DType::I32).map_err(said)?;
        let y = shader.run(&[("x", &on)], &[("y", &[32])], [1, 2, 1], &[]).map_err(said)?.remove(0);
        let want = Array::from_fn(&[32], |at| {
            let n = at[0] / 16 * 16 + 15 - at[0] % 16;
            let part = |i: usize| x.data[4 * n + i];
            part(0) + part(1) * part(2) - part(3)
        });
        exact("y", y, DType::I32, want).run().await
    });
    let half = suite.steps("a shader of halves", |device| async move {
        let source = "enable f16;
            @group(0) @binding(1) var<storage, read> x: array<f16>;
            @group(0) @binding(2) var<storage, read_write> y: array<f16>;
            @compute @workgroup_size(32) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
              if (id.x < 37u) { y[id.x] = x[id.x] * 2.0h; }
            }";
        let shader = device.shader(source).await.map_err(said)?;
        let shader = shader.with_fallback(|x, _| Ok(vec![x[0].mul(2.0)?]));
        let x = random(&[37], -4.0, 4.0, 1).rounded(DType::F16);
        let on = x.on(&device, DType::F16).map_err(said)?;
        let y = shader.run(&[("x", &on)], &[("y", &[37])], [2, 1, 1], &[]).map_err(said)?.remove(0);
        typed("y", y, DType::F16, x.map(|x| 2.0 * x), Tolerance::F16).run().await
    });
    half.half();
    suite.steps("a shader that reads and writes outside of its tensors", |device| async move {
        let source = "
            @group(0) @binding(1) var<storage, read> x: array<f32>;
            @group(0) @binding(2) var<storage, read_write> y: array<f32>;
            @compute @workgroup_size(4) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
              y[id.x] = x[id.x];
              y[id.x + 1000000000u] = x[id.x * 4000000000u + 4000000000u];
            }";
        let shader = device.shader(source).await.map_err(said)?;
        let shader = shader.with_fallback(|x, _| Ok(vec![x[0].clone()]));
        let x = random(&[4], -4.0, 4.0, 1);
        let on = x.f32(&device).map_err(said)?;
        let y = shader.run(&[("x", &on)], &[("y", &[4])], [1, 1, 1], &[]).map_err(said)?.remove(0);
        if device.info().kind == DeviceKind::Cpu {
            return near("y", y, x, BY).run().await;
        }
        // An index that is out of bounds may be clamped to any index inside.
        y.read::<f32>().await.map(drop).map_err(said)?;
        let after = device.tensor(&[1.0f32], &[1]).and_then(|x| x.add(1.0)).map_err(said)?;
        near("the device goes on", after, Array::new(&[1], vec![2.0]), BY).run().await
    });
}

fn refusals(suite: &mut Suite) {
    suite.steps("what is no shader, with line and column", |device| async move {
        let fine = "@group(0) @binding(1) var<storage, read_write> y: array<f32>;\n";
        let main = "@compute @workgroup_size(1) fn main() { y[0] = 1.0; }\n";
        let all = [
            (
                format!("{fine}@compute @workgroup_size(1) fn main() {{\n  y[0] = z;\n}}"),
                "line 3, column 10: ",
            ),
            (format!("{fine}{main}}}"), "line 3, column 1: "),
            (main.to_string(), "there must be an output"),
            (fine.to_string(), "there must be an entry point"),
            (
                format!("@group(0) @binding(2) var<storage, read_write> y: array<f32>;\n{main}"),
                "must be 1, got 2",
            ),
            (
                format!("@group(1) @binding(1) var<storage, read_write> y: array<f32>;\n{main}"),
                "line 1, column 1: ",
            ),
            (format!("{fine}{fine}{main}"), "bindings must be distinct, got 1 twice"),
            (
                format!("{fine}@group(0) @binding(2) var<storage, read> x: array<f32>;\n{main}"),
                "line 2, column 1: ",
            ),
            (
                format!(
                    "@group(0) @binding(1) var<storage, read_write> y: array<vec3<f32>>;\n{main}"
                ),
                "array<vec3<f32>>",
            ),
            (
                format!("@group(0) @binding(0) var<uniform> n: bool;\n{fine}{main}"),
                "must be f32, i32 or u32",
            ),
            (format!("override n = 1;\n{fine}{main}"), "`override`"),
            ("@group(0".to_string(), "there must be an output"),
            ("@group(0) @binding(1) var<".to_string(), "line 1, column 1"),
            (
                "@group(0) @binding(99999999999999999999999) var<storage> x: array<f32>;".into(),
                "@binding(n)",
            ),
        ];
        for (source, wanted) in all {
            let told = device.shader(&source).await;
            let compiled = wanted.starts_with("line 3");
            match told {
                Err(e)
                    if e.kind() == ErrorKind::InvalidArgument && e.message().contains(wanted) => {}
                Err(_) if cfg!(target_arch = "wasm32") && compiled => {}
                Ok(_) if cfg!(target_arch = "wasm32") && compiled => {
                    if device.info().kind != DeviceKind::Cpu {
                        return Err(format!("{source}: accepted"));
                    }
                }
                other => return Err(format!("{source}: {other:?} instead of {wanted}")),
            }
        }
        Ok(())
    });
}

fn misuse(suite: &mut Suite) {
    suite.steps("runs that a shader does not take", |device| async move {
        let shader = neighbours(&device).await?;
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let n = device.tensor(&[1, 2], &[2]).map_err(said)?;
        let empty = device.tensor::<f32>(&[], &[0]).map_err(said)?;
        let (two, one): (&[usize], [u32; 3]) = (&[2], [1; 3]);
        let both = [("x", &x), ("y", &x)];
        let outputs = [("sums", two), ("differences", two)];
        let numbers = [("size", 2.0), ("weight", 1.0)];
        let all: [(Result<Vec<Tensor>>, &str); 8] = [
            (shader.run(&[("x", &x)], &outputs, one, &numbers), "the input `y` must be given"),
            (
                shader.run(&[("x", &x), ("z", &x)], &outputs, one, &numbers),
                "must be one of `x`, `y`, got `z`",
            ),
            (
                shader.run(&[("x", &x), ("x", &x)], &outputs, one, &numbers),
                "the input `x` must be given once",
            ),
            (
                shader.run(&both, &[("sums", two)], one, &numbers),
                "the output `differences` must be given",
            ),
            (
                shader.run(&both, &outputs, one, &[("size", 2.0)]),
                "the number `weight` must be given",
            ),
            (
                shader.run(&[("x", &x), ("y", &n)], &outputs, one, &numbers),
                "`y` must be f32, got i32",
            ),
            (shader.run(&[("x", &x), ("y", &empty)], &outputs, one, &numbers), "must not be empty"),
            (shader.run(&both, &outputs, one, &[("size", 0.5), ("weight", 1.0)]), "0.5"),
        ];
        for (got, wanted) in all {
            match got {
                Err(error) if error.message().contains(wanted) => {}
                other => return Err(format!("{other:?} instead of {wanted}")),
            }
        }
        // The CPU fallback has no grid.
        let many = shader.run(&both, &outputs, [u32::MAX, 1, 1], &numbers).err();
        let limited = many.as_ref().is_some_and(|error: &Error| error.kind() == ErrorKind::Limit);
        match limited || device.limits().workgroups == u32::MAX {
            true => Ok(()),
            false => Err(format!("{many:?}")),
        }
    });
    suite.steps("a shader on a CPU, and gradients that nobody gave", |device| async move {
        let shader = device.shader(NEIGHBOURS).await.map_err(said)?;
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let error = match run(&shader, &x, &x, 1.0) {
            Err(error) => error.message().contains("`with_fallback`").then_some(error),
            Ok([sums, _]) => sums.sum(&[]).and_then(|loss| loss.grad(&[&x])).err(),
        };
        match error {
            Some(error) if error.kind() == ErrorKind::Unsupported => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}
