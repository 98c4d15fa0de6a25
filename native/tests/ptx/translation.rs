//! The text of translations: instructions, options, the interface, and errors.

use crate::common::{kernel, kernel_with, run_kernel};
use warpweft_native::cuda::ptx;
use warpweft_native::cuda::ptx::{Bounds, Options};

fn options(sm: u32) -> Options {
    Options { sm, ..Options::default() }
}

fn error(wgsl: &str) -> String {
    ptx::translate(wgsl, &options(80)).unwrap_err().to_string()
}

const COPY: &str = "
@group(0) @binding(0) var<storage, read> x: array<vec4<f32>>;
@group(1) @binding(2) var<storage, read_write> y: array<vec4<f32>>;
@compute @workgroup_size(8, 4)
fn main(@builtin(global_invocation_id) id: vec3<u32>) { y[id.x] = x[id.x] * 2.0; }";

#[test]
fn vectors_are_loaded_as_vectors() {
    let text = kernel(COPY).ptx;
    for expected in [
        "ld.global.nc.v4.b32",
        "st.global.v4.b32",
        ".reqntid 8, 4, 1",
        "mul.rn.f32",
        ".target sm_80",
    ] {
        assert!(text.contains(expected), "{expected} in\n{text}");
    }
}

#[test]
fn versions_follow_the_architecture() {
    for (sm, version, target) in
        [(75, "7.0", "sm_75"), (90, "7.8", "sm_90"), (95, "7.8", "sm_90"), (120, "8.7", "sm_120")]
    {
        let text = kernel_with(COPY, &options(sm)).ptx;
        assert!(text.starts_with(&format!(".version {version}\n.target {target}\n")), "{text}");
    }
    let error = ptx::translate(COPY, &options(70)).unwrap_err().to_string();
    assert_eq!(error, "ptx: sm must be from 75 to 121, got 70");
}

#[test]
fn bindings_are_listed_in_order() {
    let kernel = kernel(COPY);
    assert_eq!(kernel.workgroup_size, [8, 4, 1]);
    let listed: Vec<_> =
        kernel.bindings.iter().map(|b| (b.group, b.binding, b.is_read_only, b.min_bytes)).collect();
    assert_eq!(listed, [(0, 0, true, 16), (1, 2, false, 16)]);
    assert!(kernel.ptx.contains("param_3") && !kernel.ptx.contains("param_4"));
}

#[test]
fn accesses_are_clamped() {
    let wgsl = "
@group(0) @binding(0) var<storage, read> x: array<u32>;
@group(0) @binding(1) var<storage, read_write> y: array<u32>;
var<workgroup> w: array<u32, 4>;
@compute @workgroup_size(1)
fn main() {
  var local: array<u32, 20>;
  let far = x[0];
  local[far] = 5u; w[far] = 6u; y[far] = 7u;
  y[0] = local[19]; y[1] = w[3]; y[2] = x[far] + x[1000];
  let neg = -i32(x[1]);
  y[3] = x[neg];
}";
    let checked = kernel(wgsl);
    let out = run_kernel(&checked, 1, &[vec![1000, 3, 40], vec![0; 6]]);
    assert_eq!(out[1], [5, 6, 80, 40, 0, 7]);
    let unchecked = kernel_with(wgsl, &Options { bounds: Bounds::Unchecked, ..options(80) });
    assert!(checked.ptx.contains("min.u32") && !unchecked.ptx.contains("min.u32"));
}

#[test]
fn overrides_and_entry_points() {
    let wgsl = "
override SIZE: u32 = 4u;
@id(7) override SCALE: f32;
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
var<workgroup> tile: array<f32, SIZE>;
@compute @workgroup_size(SIZE)
fn main(@builtin(local_invocation_index) i: u32) { tile[i] = SCALE; workgroupBarrier(); y[i] = tile[SIZE - 1u - i] * f32(i); }
@compute @workgroup_size(2)
fn other() { y[1] = 1.0; }";
    let mut with = options(80);
    with.overrides.insert("SIZE".to_string(), 8.0);
    with.overrides.insert("7".to_string(), 0.5);
    let kernel = ptx::translate_entry(wgsl, "main", &with).unwrap();
    assert_eq!(
        (kernel.workgroup_size, kernel.shared_bytes, kernel.dynamic_shared_bytes),
        ([8, 1, 1], 32, 0)
    );
    let out = run_kernel(&kernel, 1, &[vec![0; 8]]);
    let expected: Vec<u32> = (0..8).map(|i| (i as f32 * 0.5).to_bits()).collect();
    assert_eq!(out[0], expected);
    // The other entry point does not need the override without a value.
    let other = ptx::translate_entry(wgsl, "other", &options(80)).unwrap();
    assert_eq!(other.workgroup_size, [2, 1, 1]);
    assert!(ptx::translate(wgsl, &options(80)).is_err());
}

#[test]
fn large_workgroup_memory_is_dynamic() {
    let wgsl = |count: u32| {
        format!(
            "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
            var<workgroup> tile: array<f32, {count}>;
            @compute @workgroup_size(32) fn main(@builtin(local_invocation_index) i: u32) {{
              tile[{count}u - 1u - i] += f32(i); workgroupBarrier(); y[i] = tile[{count}u - 32u + i] + tile[i]; }}"
        )
    };
    let kernel = kernel(&wgsl(16_384));
    assert_eq!((kernel.shared_bytes, kernel.dynamic_shared_bytes), (65_536, 65_536));
    assert!(kernel.ptx.contains(".extern .shared"));
    let out = run_kernel(&kernel, 1, &[vec![0; 32]]);
    assert_eq!(out[0], (0..32).map(|i| (31.0 - i as f32).to_bits()).collect::<Vec<_>>());
    assert!(error(&wgsl(100_000)).contains("workgroup memory must have at most"));
    let quiet = Options { zero_workgroup_memory: false, ..options(80) };
    assert!(!kernel_with(&wgsl(64), &quiet).ptx.contains("st.shared.v4"));
}

#[test]
fn constant_loops_are_unrolled_and_arrays_are_in_registers() {
    let wgsl = "
@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1)
fn main() {
  var a: array<array<f32, 8>, 8>;
  for (var i = 0; i < 8; i++) { for (var j = 0; j < 8; j++) { a[i][j] = y[i * 8 + j] * f32(j); } }
  var sum = 0.0;
  for (var i = 0; i < 8; i++) { for (var j = 0; j < 8; j++) { sum += a[j][i]; } }
  y[0] = sum;
}";
    let kernel = kernel(wgsl);
    assert_eq!(kernel.local_bytes, 0);
    assert!(!kernel.ptx.contains("bra"), "{}", kernel.ptx);
    let rolled = kernel_with(wgsl, &Options { max_unrolled: 0, ..options(80) });
    assert!(rolled.local_bytes >= 256 && rolled.ptx.contains("bra"));
    let input: Vec<u32> = (0..64).map(|i| (i as f32).to_bits()).collect();
    let unrolled = run_kernel(&kernel, 1, std::slice::from_ref(&input));
    assert_eq!(unrolled, run_kernel(&rolled, 1, &[input]));
}

#[test]
fn unsupported_wgsl_is_an_error_with_its_location() {
    let matrices = "enable wgpu_cooperative_matrix;
@group(0) @binding(0) var<storage, read> x: array<f32>;
@compute @workgroup_size(32)
fn main() {
  var m = coopLoad<coop_mat8x8<f32, A>>(&x[0], 8u);
}";
    assert!(
        error(matrices).starts_with("ptx: cooperative matrices are not supported, at line 5"),
        "{}",
        error(matrices)
    );
    let texture = "@group(0) @binding(0) var t: texture_2d<f32>;
@group(0) @binding(1) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() { y[0] = textureLoad(t, vec2(0, 0), 0).x; }";
    assert!(error(texture).contains("textures are not supported"), "{}", error(texture));
    assert!(error("fn f() {}").contains("a shader must have a compute entry point"));
    assert!(error("@compute @workgroup_size(2048) fn f() {}").contains("from 1 to 1024 threads"));
    assert!(error("@vertex fn f() -> @builtin(position) vec4<f32> { return vec4(); }")
        .contains("compute entry point"));
}

#[test]
fn invalid_and_hostile_wgsl_is_an_error() {
    assert!(error("").contains("entry point"));
    assert!(error("@compute @workgroup_size(1) fn f() { let x = 1 + ; }").contains("at line 1"));
    assert!(error("@compute @workgroup_size(1) fn f() { let x: i32 = 1.5; }").contains("at line 1"));
    // Every call doubles the size.
    let mut text =
        "@group(0) @binding(0) var<storage, read_write> y: array<f32>; fn f0() { y[0] += 1.0; }"
            .to_string();
    for n in 1..24 {
        text += &format!("fn f{n}() {{ f{0}(); f{0}(); }}", n - 1);
    }
    text += "@compute @workgroup_size(1) fn main() { f23(); }";
    assert!(error(&text).contains("instructions"), "{}", error(&text));
    // A loop that does not end, and loops that take long without any instruction.
    let endless = "@compute @workgroup_size(1) fn main() { loop { if (false) { break; } } }";
    assert!(ptx::translate(endless, &options(80)).is_ok());
    let long = "@group(0) @binding(0) var<storage, read_write> y: array<i32>;
@compute @workgroup_size(1) fn main() { var n = 0;
for (var i = 0; i < 4000; i++) { for (var j = 0; j < 4000; j++) { for (var k = 0; k < 4000; k++) { n += 1; } } } y[0] = n; }";
    assert!(kernel(long).ptx.contains("bra"));
    let huge = "var<private> a: array<u32, 10000000>; @group(0) @binding(0) var<storage, read_write> y: array<u32>;
@compute @workgroup_size(1) fn main() { y[0] = a[y[1]]; }";
    assert!(error(huge).contains("must take at most"), "{}", error(huge));
    let copied = "@group(0) @binding(0) var<storage, read_write> y: array<array<u32, 100000>, 2>;
@compute @workgroup_size(1) fn main() { y[0] = y[1]; }";
    assert!(error(copied).contains("a value must have at most 4096 scalars"), "{}", error(copied));
}

#[test]
fn products_and_sums_can_be_fused() {
    let wgsl = "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn main() {
    var sum = y[9]; for (var k = 0u; k < 8u; k++) { sum += y[k] * y[k + 1u]; }
    let p = y[2] * y[3]; y[0] = sum; y[1] = p + 1.0; y[2] = p; }";
    let fused = kernel_with(wgsl, &Options { fuse_multiply_add: true, ..options(80) });
    assert_eq!(fused.ptx.matches("fma.rn.f32").count(), 8);
    assert_eq!(fused.ptx.matches("mul.rn.f32").count(), 1);
    let input: Vec<u32> = (0..10).map(|i| (1.0 / (i as f32 + 3.0)).to_bits()).collect();
    let y: Vec<f32> = input.iter().map(|bits| f32::from_bits(*bits)).collect();
    let sum = (0..8).fold(y[9], |sum, k| y[k].mul_add(y[k + 1], sum));
    assert_eq!(run_kernel(&fused, 1, &[input])[0][0], sum.to_bits());
}

#[test]
fn names_that_ptx_reserves() {
    for name in ["add", "shared_memory", "größe", "param_0", "main", "tid"] {
        let wgsl = format!(
            "@group(0) @binding(0) var<storage, read_write> y: array<f32>;
@compute @workgroup_size(1) fn {name}() {{ y[0] = 1.0; }}"
        );
        let kernel = kernel(&wgsl);
        assert_eq!(kernel.name, name);
        assert!(kernel.symbol.is_ascii());
        assert_eq!(run_kernel(&kernel, 1, &[vec![0]])[0], [1f32.to_bits()]);
    }
}
