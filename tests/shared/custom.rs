//! Tests elementwise functions that users write in WGSL, compared with the same functions in `f64`.

use super::array::{integers, random, Array};
use super::check::{exact, near, said, typed, Check, Outcome, Suite};
use super::tolerance::Tolerance;
use warpweft::backend::DeviceKind;
use warpweft::device::Device;
use warpweft::dtype::DType;
use warpweft::error::{ErrorKind, Result};
use warpweft::tensor::{ElementFunction, Operand, Tensor};

const SOFT_CLIP: &str =
    "fn soft_clip(x: f32, limit: f32) -> f32 { return x / (1.0 + abs(x) / limit); }";

const BY: Tolerance = Tolerance { absolute: 1e-6, ..Tolerance::ROUNDED };

fn soft_clip(x: f64, limit: f64) -> f64 {
    x / (1.0 + x.abs() / limit)
}

/// Whether the device rejects WGSL functions: the CPU in a browser has no WGSL compiler.
fn is_refused(device: &Device) -> bool {
    cfg!(target_arch = "wasm32") && device.info().kind == DeviceKind::Cpu
}

/// Compares the results of `build`. On a device without WGSL functions, checks the error instead.
async fn check<const N: usize>(
    device: Device,
    sources: [&str; N],
    build: impl Fn(&Device, [ElementFunction; N]) -> Result<Vec<Check>>,
) -> Outcome {
    let mut functions = Vec::new();
    for source in sources {
        functions.push(device.element_function(source).await.map_err(said)?);
    }
    let functions = functions.try_into().expect("as many");
    match build(&device, functions) {
        Ok(_) if is_refused(&device) => Err("it was not refused".into()),
        Err(error) if is_refused(&device) => match error.message().contains("`with_fallback`") {
            true => Ok(()),
            false => Err(said(error)),
        },
        Ok(checks) => {
            for check in checks {
                check.run().await?;
            }
            Ok(())
        }
        Err(error) => Err(said(error)),
    }
}

pub fn cases() -> Suite {
    let mut suite = Suite::new("custom");
    elements(&mut suite);
    programs(&mut suite);
    types(&mut suite);
    language(&mut suite);
    built_in(&mut suite);
    names(&mut suite);
    gradients(&mut suite);
    refusals(&mut suite);
    super::custom_shaders::add(&mut suite);
    suite
}

fn elements(suite: &mut Suite) {
    for n in [1, 3, 4, 257, 1024] {
        suite.steps(format!("a function of {n} elements"), move |device| {
            check(device, [SOFT_CLIP], move |device, [f]| {
                let x = random(&[n], -5.0, 5.0, 1);
                let got = f.call(&[(&x.f32(device)?).into(), Operand::from(2.0)])?;
                Ok(vec![near("soft_clip", got, x.map(|x| soft_clip(x, 2.0)), BY)])
            })
        });
    }
    suite.steps("a function broadcasts, and shares a kernel with its neighbours", |device| {
        check(device, [SOFT_CLIP], |device, [f]| {
            let (x, limit) = (random(&[5, 1, 8], -5.0, 5.0, 1), random(&[3, 8], 1.0, 4.0, 2));
            let scaled = x.f32(device)?.mul(3.0)?;
            let got = f.call(&[&scaled, &limit.f32(device)?])?.exp().sum(&[2])?;
            let want = x.map(|x| 3.0 * x).zip(&limit, |x, l| soft_clip(x, l).exp());
            let sums =
                Array::from_fn(&[5, 3], |at| (0..8).map(|i| want.at(&[at[0], at[1], i])).sum());
            let mut batch = device.batch();
            batch.add(&got)?;
            let kernels = batch.plan()?.dispatches.len();
            let count = device.full(&[], kernels as f64, DType::F32)?;
            Ok(vec![
                near("kernels", count, Array::new(&[], vec![1.0]), Tolerance::EXACT),
                near("the sum", got, sums, Tolerance { absolute: 1e-4, ..Tolerance::ROUNDED }),
            ])
        })
    });
    suite.steps("a function after a product of matrices", |device| {
        check(device, [SOFT_CLIP], |device, [f]| {
            let (x, w) = (integers(&[9, 7], -3, 3, 1), integers(&[7, 5], -3, 3, 2));
            let product = x.f32(device)?.matmul(&w.f32(device)?)?;
            let got = f.call(&[(&product).into(), Operand::from(4.0)])?;
            let want = Array::from_fn(&[9, 5], |at| {
                let sum = (0..7).map(|k| x.at(&[at[0], k]) * w.at(&[k, at[1]])).sum();
                soft_clip(sum, 4.0)
            });
            Ok(vec![near("soft_clip", got, want, BY)])
        })
    });
}

fn programs(suite: &mut Suite) {
    suite.steps("a function in a program", |device| {
        check(device, [SOFT_CLIP], |device, [f]| {
            let program = device.compile(&[(&[6], DType::F32), (&[], DType::F32)], {
                let f = f.clone();
                move |x| Ok(vec![f.call(&[&x[0], &x[1]])?.add(1.0)?])
            })?;
            let mut checks = Vec::new();
            for round in 1..4 {
                let x = random(&[6], -5.0, 5.0, round);
                let limit = device.full(&[], f64::from(round), DType::F32)?;
                let got = program.run(&[&x.f32(device)?, &limit])?.remove(0);
                let want = x.map(|x| soft_clip(x, f64::from(round)) + 1.0);
                checks.push(near(format!("round {round}"), got, want, BY));
            }
            Ok(checks)
        })
    });
    suite.steps("numbers to a function are data", |device| {
        check(device, [SOFT_CLIP], |device, [f]| {
            let x = random(&[40], -5.0, 5.0, 1);
            let on = x.f32(device)?;
            let run = |limit: f64| f.call(&[(&on).into(), Operand::from(limit)]);
            run(1.0)?.run()?;
            let before = device.stats();
            let got = run(3.0)?;
            got.run()?;
            let after = device.stats();
            let more = (after.pipelines - before.pipelines) as f64;
            let more = device.full(&[], more, DType::F32)?;
            Ok(vec![
                near("soft_clip", got, x.map(|x| soft_clip(x, 3.0)), BY),
                near("further kernels", more, Array::new(&[], vec![0.0]), Tolerance::EXACT),
            ])
        })
    });
}

fn types(suite: &mut Suite) {
    suite.steps("integers and truth values", |device| {
        let sources = [
            "fn f(a: i32, b: u32, c: bool) -> i32 { return select(a >> 1u, i32(b % 7u), c) ^ 3; }",
            "fn is_odd(a: i32) -> bool { return (a & 1) != 0; }",
            "fn halve(a: i32) -> f32 { return f32(a) / 2.0; }",
            "fn bits(a: f32) -> u32 { return u32(a * 3.0); }",
            "fn exponent(a: f32) -> i32 { return i32((bitcast<u32>(a) >> 23u) & 255u) - 127; }",
        ];
        check(device, sources, |device, [f, odd, halve, bits, exponent]| {
            let (a, b) = (integers(&[33], -99, 99, 1), integers(&[33], 0, 99, 2));
            let (on, other) = (a.on(device, DType::I32)?, b.on(device, DType::U32)?);
            let chosen = on.gt(0)?;
            let want = a.zip(&b, |a, b| {
                let value = if a > 0.0 { b as i64 % 7 } else { a as i64 >> 1 };
                (value as i32 ^ 3) as f64
            });
            Ok(vec![
                exact("f", f.call(&[&on, &other, &chosen])?, DType::I32, want),
                exact("odd", odd.call(&[&on])?, DType::Bool, a.map(|a| (a % 2.0).abs())),
                exact("halves", halve.call(&[&on])?, DType::F32, a.map(|a| a / 2.0)),
                exact("bits", bits.call(&[&b.f32(device)?])?, DType::U32, b.map(|b| 3.0 * b)),
                exact(
                    "exponents",
                    exponent.call(&[&b.f32(device)?.add(1)?])?,
                    DType::I32,
                    b.map(|b| (b + 1.0).log2().floor()),
                ),
            ])
        })
    });
    let half = suite.steps("halves to a function of f32", |device| {
        check(device, [SOFT_CLIP], |device, [f]| {
            let x = random(&[37], -5.0, 5.0, 1).rounded(DType::F16);
            let got = f.call(&[(&x.on(device, DType::F16)?).into(), Operand::from(2.0)])?;
            let want = x.map(|x| soft_clip(x, 2.0));
            Ok(vec![typed("soft_clip", got, DType::F16, want, Tolerance::F16)])
        })
    });
    half.half();
}

/// Tests the language features that a function may use.
fn language(suite: &mut Suite) {
    suite.steps("choices, loops, vectors, helpers", |device| {
        let sources = [
            // Returns early, inside a loop.
            "fn steps(x: f32) -> f32 {\n  if (x < 0.0) { return -1.0; }\n  var v = x;\n  \
             for (var i = 0; i < 6; i++) {\n    if (v < 1.0) { return f32(i); }\n    v = v * 0.5;\n  }\n  return 6.0;\n}",
            "const WEIGHTS = vec3<f32>(0.5, 0.25, 2.0);\nstruct Pair { f: f32, g: f32 }\n\
             fn helper(p: Pair) -> f32 { return p.f * 2.0 + p.g; }\n\
             fn mixed(x: f32) -> f32 {\n  let v = vec3(x, x + 1.0, x * x);\n  var a = array<f32, 3>();\n  \
             for (var i = 0u; i < 3u; i++) { a[i] = v[i] * WEIGHTS[i]; }\n  \
             return helper(Pair(dot(v.zyx, WEIGHTS), a[0] + a[1] - a[2])) + clamp(x, -1.0, 1.0);\n}",
            "fn skips(x: f32) -> f32 {\n  var sum = 0.0;\n  var n = 0;\n  while (true) {\n    n += 1;\n    \
             if (n > 8) { break; }\n    if (f32(n) < x) { continue; }\n    sum += f32(n);\n    \
             if (sum > 12.0) { break; }\n  }\n  return sum;\n}",
        ];
        check(device, sources, |device, [steps, mixed, skips]| {
            let x = random(&[203], -3.0, 40.0, 1);
            let on = x.f32(device)?;
            let stepped = x.map(|x| {
                if x < 0.0 {
                    return -1.0;
                }
                (0..6).find(|&i| x * 0.5f64.powi(i) < 1.0).map_or(6.0, f64::from)
            });
            let mix = x.map(|x| {
                let (v, w) = ([x, x + 1.0, x * x], [0.5, 0.25, 2.0]);
                let dot = v[2] * w[0] + v[1] * w[1] + v[0] * w[2];
                2.0 * dot + v[0] * w[0] + v[1] * w[1] - v[2] * w[2] + x.clamp(-1.0, 1.0)
            });
            let skip = x.map(|x| {
                let mut sum = 0.0;
                for n in 1..=8 {
                    if f64::from(n) >= x && sum <= 12.0 {
                        sum += f64::from(n);
                    }
                }
                sum
            });
            let by = Tolerance { absolute: 1e-3, ..Tolerance::ROUNDED };
            Ok(vec![
                near("steps", steps.call(&[&on])?, stepped, Tolerance::EXACT),
                near("mixed", mixed.call(&[&on])?, mix, by),
                near("skips", skips.call(&[&on])?, skip, Tolerance::EXACT),
            ])
        })
    });
    suite.steps("NaN and Inf come and go", |device| {
        let sources = ["fn keep(x: f32) -> f32 { return select(x, 7.0, x == 1.0); }"];
        check(device, sources, |device, [f]| {
            let x = vec![f64::NAN, f64::INFINITY, f64::NEG_INFINITY, 1.0, -0.0];
            let x = Array::new(&[5], x);
            let want = x.map(|x| if x == 1.0 { 7.0 } else { x });
            Ok(vec![exact("keep", f.call(&[&x.f32(device)?])?, DType::F32, want)])
        })
    });
}

fn built_in(suite: &mut Suite) {
    suite.steps("built-in functions", |device| {
        type Built = (&'static str, fn(f64) -> f64);
        let all: [Built; 24] = [
            ("abs(x)", f64::abs),
            ("ceil(x)", f64::ceil),
            ("floor(x)", f64::floor),
            ("trunc(x)", f64::trunc),
            ("fract(x)", |x| x - x.floor()),
            ("sign(x)", |x| if x == 0.0 { 0.0 } else { x.signum() }),
            ("sqrt(abs(x))", |x| x.abs().sqrt()),
            ("inverseSqrt(abs(x) + 1.0)", |x| 1.0 / (x.abs() + 1.0).sqrt()),
            ("exp(x)", f64::exp),
            ("exp2(x)", f64::exp2),
            ("log(abs(x) + 0.5)", |x| (x.abs() + 0.5).ln()),
            ("log2(abs(x) + 0.5)", |x| (x.abs() + 0.5).log2()),
            ("sin(x)", f64::sin),
            ("cos(x)", f64::cos),
            ("tanh(x)", f64::tanh),
            ("atan(x)", f64::atan),
            ("min(x, 0.5) * max(x, -0.5)", |x| x.min(0.5) * x.max(-0.5)),
            ("clamp(x, -1.0, 0.5)", |x| x.clamp(-1.0, 0.5)),
            ("saturate(x)", |x| x.clamp(0.0, 1.0)),
            ("mix(1.0, 3.0, x)", |x| 1.0 + 2.0 * x),
            ("step(0.25, x)", |x| f64::from(x >= 0.25)),
            ("smoothstep(-1.0, 1.0, x)", |x| {
                let t = ((x + 1.0) / 2.0).clamp(0.0, 1.0);
                t * t * (3.0 - 2.0 * t)
            }),
            ("fma(x, 2.0, 1.0) + radians(x)", |x| 2.0 * x + 1.0 + x.to_radians()),
            ("length(vec2(x, 1.0)) + pow(abs(x) + 0.5, 1.5)", |x| {
                x.hypot(1.0) + (x.abs() + 0.5).powf(1.5)
            }),
        ];
        let sources = all.map(|(body, _)| format!("fn f(x: f32) -> f32 {{ return {body}; }}"));
        async move {
            let sources: [&str; 24] = std::array::from_fn(|n| sources[n].as_str());
            check(device, sources, |device, functions| {
                let x = random(&[64], -2.0, 2.0, 7);
                let on = x.f32(device)?;
                let mut checks = Vec::new();
                for ((body, wanted), f) in all.into_iter().zip(functions) {
                    // The GPU's own functions. WGSL allows an error of 2^-11 for sine and cosine, and of 4,096 units in the
                    // last place for `atan`.
                    let loose = ["sin(", "cos(", "atan("].iter().any(|name| body.starts_with(name));
                    let absolute = if loose { 5e-4 } else { 1e-5 };
                    let by = Tolerance { absolute, ..Tolerance::ROUNDED };
                    checks.push(near(body, f.call(&[&on])?, x.map(wanted), by));
                }
                Ok(checks)
            })
            .await
        }
    });
}

fn names(suite: &mut Suite) {
    suite.steps("two functions of one name, and names that kernels have", |device| {
        let sources = [
            "fn f(x: f32) -> f32 { return x + 1.0; }",
            "fn f(x: f32) -> f32 { return x * 2.0; }",
            "const in0 = 4.0; fn params(v0: f32) -> f32 { return v0 * in0; }\n\
             fn out0(group: f32) -> f32 { let main = params(group); return main - 1.0; }\n\
             /* a comment { /* in another */ */ fn main(n: f32, c0: f32) -> f32 { return out0(n) + c0; } // }",
            "fn at(user0_at: f32) -> f32 { let value = user0_at * 3.0; return value; }",
        ];
        check(device, sources, |device, [one, two, main, other]| {
            let x = random(&[4, 8], -5.0, 5.0, 1);
            let on = x.f32(device)?;
            let got = two.call(&[&one.call(&[&on])?])?;
            let got = main.call(&[&got, &other.call(&[&on])?])?;
            let want = x.map(|x| ((x + 1.0) * 2.0) * 4.0 - 1.0 + 3.0 * x);
            let by = Tolerance { absolute: 1e-4, ..Tolerance::ROUNDED };
            Ok(vec![near("one kernel of four functions", got, want, by)])
        })
    });
}

fn gradients(suite: &mut Suite) {
    let sources = [
        "fn area(x: f32, y: f32) -> f32 { return x * x * y; }",
        "fn by_x(x: f32, y: f32) -> f32 { return 2.0 * x * y; }",
        // Takes the parameters and also the result.
        "fn by_y(x: f32, y: f32, area: f32) -> f32 { return area / y; }",
        "fn by_xx(x: f32, y: f32) -> f32 { return 2.0 * y; }",
        "fn by_xy(x: f32, y: f32) -> f32 { return 2.0 * x; }",
    ];
    suite.steps("gradients of a function, and theirs", move |device| {
        check(device, sources, |device, [area, by_x, by_y, by_xx, by_xy]| {
            let by_x = by_x.with_gradients(&[&by_xx, &by_xy])?;
            let area = area.with_gradients(&[&by_x, &by_y])?;
            let (x, y) = (random(&[6, 5], 1.0, 2.0, 1), random(&[5], 1.0, 2.0, 2));
            let (on, other) = (x.f32(device)?, y.f32(device)?);
            let loss = area.call(&[&on, &other])?.mul(3.0)?.sum(&[])?;
            let [dx, dy] = &loss.grad(&[&on, &other])?[..] else { unreachable!("of two") };
            let dxx = dx.sum(&[])?.grad(&[&on])?.remove(0);
            let want =
                Array::from_fn(&[5], |at| (0..6).map(|i| 3.0 * x.at(&[i, at[0]]).powi(2)).sum());
            let by = Tolerance { absolute: 1e-4, ..Tolerance::ROUNDED };
            Ok(vec![
                near("by x", dx.clone(), x.zip(&y, |x, y| 6.0 * x * y), by),
                near("by y", dy.clone(), want, by),
                near("by x twice", dxx, x.zip(&y, |_, y| 6.0 * y), by),
            ])
        })
    });
    suite.steps("gradients that nobody gave", |device| async move {
        let f = device.element_function(SOFT_CLIP).await.map_err(said)?;
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let clipped = f.call(&[(&x).into(), Operand::from(1.0)]);
        let clipped = match clipped {
            Err(_) if is_refused(&device) => return Ok(()),
            other => other.map_err(said)?,
        };
        let error = clipped.sum(&[]).and_then(|loss| loss.grad(&[&x])).err();
        match error {
            Some(error) if error.message().contains("soft_clip") => Ok(()),
            other => Err(format!("{other:?}")),
        }
    });
}

fn refusals(suite: &mut Suite) {
    suite.steps("what is no function of elements, with line and column", |device| async move {
        let all = [
            ("", "there must be a function"),
            ("fn f(x: f32) -> f32 {\n  return y;\n}", "line 2, column 10: "),
            ("fn f(x: f32) -> f32 {\n  let a = 1.0\n  return x;\n}", "line 3, column 3: "),
            (
                "// \u{e9}\u{e9}\nfn f(x: f32) -> f32 { let é = 1.0; return x + b; }",
                "line 2, column 47: ",
            ),
            ("fn f(x: f32) -> f32 { let enum = 1.0; return x; }", "line 1, column 27: "),
            ("fn f(x: f32) -> i32 { return x; }", "line 1, "),
            ("fn f() -> f32 { return 1.0; }", "must have a parameter"),
            (
                "fn f(x: vec2<f32>) -> f32 { return x.x; }",
                "line 1, column 9: the type must be f32, i32, u32 or bool, got `vec2`",
            ),
            ("fn f(x: f32) { }", "must have a result"),
            (
                "enable f16;\nfn f(x: f32) -> f32 { return x; }",
                "line 1, column 1: declarations must be fn",
            ),
            ("@group(0) @binding(0) var<storage> a: array<f32>;", "line 1, column 1: attributes"),
            ("fn f(x: f32) -> f32 { workgroupBarrier(); return x; }", "`workgroupBarrier`"),
            ("fn f(x: f32) -> f32 { return x; } }", "column 35: declarations must be fn"),
            ("fn f(x: f32) -> f32 { return params[0]; }", "params"),
            ("fn f(x: f32) -> f32 { return f(x); }", "line 1, "),
            ("fn f(x: f32) -> f32 { return \"a\"; }", "must be those of WGSL"),
            ("/* no end", "a comment that does not end"),
            ("alias f32 = i32; fn f(x: f32) -> f32 { return x; }", "must not be those of types"),
            ("fn", "must be followed by a name"),
            ("fn f(", "a parameter must be written"),
        ];
        for (source, wanted) in all {
            // The CPU in a browser only checks the tokens.
            let told = device.element_function(source).await;
            let words = ["line 2, ", "line 3, ", "line 1, column 27", "params"];
            let only_compiled = words.iter().any(|w| wanted.starts_with(w)) || wanted == "line 1, ";
            match told {
                Err(e)
                    if e.kind() == ErrorKind::InvalidArgument && e.message().contains(wanted) => {}
                // Compilers report different positions within a statement.
                Err(e) if cfg!(target_arch = "wasm32") && e.message().contains(", column ") => {}
                Ok(_) if is_refused(&device) && only_compiled => {}
                other => return Err(format!("{source}: {other:?} instead of {wanted}")),
            }
        }
        Ok(())
    });
    suite.steps("operands that a function does not take", |device| async move {
        let f = device.element_function(SOFT_CLIP).await.map_err(said)?;
        let x = device.tensor(&[1.0f32, 2.0], &[2]).map_err(said)?;
        let y = device.tensor(&[1.0f32, 2.0, 3.0], &[3]).map_err(said)?;
        let n = device.tensor(&[1, 2], &[2]).map_err(said)?;
        let numbers: [Operand; 2] = [1.0.into(), 2.0.into()];
        let all = [
            (f.call(&[&x]), ErrorKind::InvalidArgument),
            (f.call(&numbers), ErrorKind::InvalidArgument),
            (f.call(&[&x, &y]), ErrorKind::Shape),
            (f.call(&[&x, &n]), ErrorKind::DType),
        ];
        for (got, wanted) in all {
            match got {
                Err(error) if error.kind() == wanted => {}
                Err(_) if is_refused(&device) => {}
                other => return Err(format!("{other:?} instead of {wanted:?}")),
            }
        }
        Ok(())
    });
    suite.steps("a function in tensors in its place", |device| async move {
        // Our CPU does not implement this function, but every GPU does.
        let source = "fn ones(x: u32) -> u32 { return countOneBits(x); }";
        let ones = device.element_function(source).await.map_err(said)?;
        let x = device.tensor(&[0u32, 1, 255, u32::MAX], &[4]).map_err(said)?;
        let alone = ones.call(&[&x]);
        if device.info().kind == DeviceKind::Cpu {
            let error = alone.err().ok_or("it was not refused")?;
            let said = error.message().contains("`with_fallback`");
            if !said || !cfg!(target_arch = "wasm32") && !error.message().contains("countOneBits") {
                return Err(error.to_string());
            }
        }
        let ones = ones.with_fallback(|x: &[Tensor]| {
            let mut sum = x[0].bitwise_and(1)?;
            for n in 1..32 {
                sum = sum.add(&x[0].bitwise_right_shift(n)?.bitwise_and(1)?)?;
            }
            Ok(sum)
        });
        let got = ones.call(&[&x]).map_err(said)?;
        let want = Array::new(&[4], vec![0.0, 1.0, 8.0, 32.0]);
        exact("ones", got, DType::U32, want).run().await
    });
}
