//! Tests the lifetimes of WGSL functions that users write, and invalid texts.

use std::panic::catch_unwind;
use std::sync::Arc;
use warpweft::backend::cpu::CpuBackend;
use warpweft::backend::{Backend, CacheLimits};
use warpweft::dtype::DType;
use warpweft::graph::Graph;
use warpweft::op::custom::{check_shader, compiled};
use warpweft::op::{Element, Op, Shader};
use warpweft::plan::plan;
use warpweft::shape::Shape;

const SOURCE: &str = "
const half = 0.5;
struct Two { a: f32, b: f32 }
/* helps */ fn helper(t: Two) -> f32 { if (t.a > half) { return t.b; } return -t.a * 1.5e-3; }
fn f(x: f32, n: i32) -> f32 {
  var sum = 0.0;
  for (var i = 0; i < 4; i++) { sum += select(x, f32(n), (i & 1) == 0) / f32(i + 1); }
  return helper(Two(sum, x)) + clamp(x, -1.0, 1.0);
}";

const SHADER: &str = "
struct Numbers { size: u32, scale: f32 }
@group(0) @binding(0) var<uniform> numbers: Numbers;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
  if (id.x < numbers.size) { y[id.x] = dot(x[id.x], vec4(numbers.scale)); }
}";

#[test]
fn a_function_is_freed_with_its_last_user() {
    let element = Element::parse(SOURCE).and_then(compiled).expect("it compiles");
    assert!(element.steps.is_ok(), "{:?}", element.steps);
    let element = Arc::new(element);
    let alive = Arc::downgrade(&element);
    let backend = CpuBackend::new();
    let mut graph = Graph::default();
    let shape = Shape::new("x", &[4]).expect("a shape");
    let (x, n) = (graph.source(shape, DType::F32), graph.source(shape, DType::I32));
    let y = graph.record(Op::Element(element), &[x, n]).expect("it fits");
    let taken = graph.trace(&[y]);
    let batch = Arc::new(plan(&taken.trace, backend.limits()).expect("a plan"));
    let buffers: Vec<_> =
        batch.slots.iter().map(|s| backend.allocate(s.bytes).expect("memory")).collect();
    let bytes: Vec<u8> = [1.0f32, -2.0, 0.25, 3.0].iter().flat_map(|x| x.to_le_bytes()).collect();
    backend.write(buffers[0], 0, &bytes).expect("it is there");
    backend.run(&batch, &buffers, &[]).expect("it runs");
    graph.release(y);
    drop(taken);
    assert!(alive.upgrade().is_some(), "the plan uses it");
    backend.release(&batch);
    drop(batch);
    assert!(alive.upgrade().is_some(), "the prepared kernel is kept");
    backend.set_cache_limits(&CacheLimits { pipelines: 0, ..CacheLimits::default() });
    assert!(alive.upgrade().is_none(), "nothing uses it");
}

/// Checks that a text causes an error or none, but no panic.
fn survives(text: &str) {
    let ran = catch_unwind(|| {
        let _ = Element::parse(text).and_then(compiled);
        if let Ok(shader) = Shader::parse(text) {
            let _ = check_shader(&shader);
        }
    });
    let begin: String = text.chars().take(300).collect();
    assert!(ran.is_ok(), "it panics on {begin}");
}

#[test]
fn nonsense_is_refused() {
    let mut state = 1u64;
    let mut random = |below: usize| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        (state >> 33) as usize % below
    };
    let words = [
        "{", "}", "(", ")", "fn", "var", "let", "@", "<", ">", "=", "/*", "//", "0x", "é",
        "\u{202e}", "1e", ".",
    ];
    for source in [SOURCE, SHADER] {
        let chars: Vec<char> = source.chars().collect();
        for _ in 0..600 {
            let mut text = chars.clone();
            for _ in 0..=random(3) {
                let at = random(text.len());
                match random(4) {
                    0 => drop(text.drain(at..(at + 1 + random(20)).min(text.len()))),
                    1 => text.splice(at..at, words[random(words.len())].chars()).for_each(drop),
                    2 => text[at] = char::from(32 + random(95) as u8),
                    _ => {
                        let part: Vec<char> = text[at..(at + random(40)).min(text.len())].to_vec();
                        let to = random(text.len());
                        text.splice(to..to, part).for_each(drop);
                    }
                }
            }
            survives(&text.into_iter().collect::<String>());
        }
    }
}

#[test]
fn what_is_too_deep_or_too_long_is_refused() {
    let body = |body: &str| format!("fn f(x: f32) -> f32 {{ {body} return x; }}");
    let chain: String = (1..2000)
        .map(|n| format!("fn f{n}(x: f32) -> f32 {{ return f{}(x); }}\n", n - 1))
        .collect();
    let doubling: String = (1..40)
        .map(|n| format!("fn f{n}(x: f32) -> f32 {{ return f{0}(x) + f{0}(-x); }}\n", n - 1))
        .collect();
    let first = "fn f0(x: f32) -> f32 { return sin(x); }\n";
    let all = [
        body(&format!("let y = {}x{};", "(".repeat(50_000), ")".repeat(50_000))),
        body(&format!("let y = {}x;", "-".repeat(50_000))),
        body(&format!("let y = {}true;", "!".repeat(900))),
        body(&format!("let y = x{};", " + x".repeat(50_000))),
        body(&format!("let y = x{};", " + x".repeat(490))),
        body(&"if (x > 1.0) { ".repeat(20_000)),
        body(&format!("if (x > 1.0) {{ }} {}", "else if (x > 2.0) { } ".repeat(20_000))),
        body(&format!("if (x > 1.0) {{ }} {}", "else if (x > 2.0) { } ".repeat(199))),
        body("var i = 0; while (x > 0.0) { i++; }"),
        body("for (var i = 0; i < 1000000000; i++) { }"),
        body("var a: array<f32, 100000000>;"),
        format!("{first}{chain}"),
        format!("{first}{doubling}"),
        "x".repeat(2 << 20),
    ];
    for text in all {
        survives(&text);
        let element = Element::parse(&text).and_then(compiled);
        // A valid function has no steps, or few.
        if let Ok(Element { steps: Ok(steps), .. }) = element {
            assert!(steps.len() <= 4100, "{} steps", steps.len());
        }
    }
}
