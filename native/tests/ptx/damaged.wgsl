// A shader with many constructs, which a test damages at random.
enable f16;
struct Item { p: vec3<f32>, id: u32, m: mat2x3<f32>, tail: array<vec4<u32>, 4> }
struct Sums { total: atomic<u32>, low: atomic<i32>, items: array<Item> }
override SCALE: f32 = 2.0;
@group(0) @binding(0) var<uniform> u: Item;
@group(0) @binding(1) var<storage, read> x: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> s: Sums;
@group(0) @binding(3) var<storage, read_write> h: array<vec2<f16>, 64>;
var<workgroup> tile: array<array<f32, 9>, 8>;
var<workgroup> flag: atomic<i32>;
var<private> seen: array<u32, 6>;
const TABLE = array<f32, 20>(1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0,
  1.0, 2.0, 3.0, 4.0, 5.0, 6.0, 7.0, 8.0, 9.0, 10.0);
fn weigh(p: ptr<function, array<f32, 5>>, n: i32) -> f32 {
  for (var k = 0; k < 5; k++) { if (k == n) { return (*p)[k]; } (*p)[k] += TABLE[n + k]; }
  return (*p)[u32(n) % 5u] * SCALE;
}
@compute @workgroup_size(32)
fn main(@builtin(global_invocation_id) id: vec3<u32>,
    @builtin(local_invocation_index) i: u32, @builtin(subgroup_invocation_id) lane: u32) {
  var a: array<f32, 5>;
  var v = x[id.x % arrayLength(&x)];
  for (var k = 0u; k < 4u; k++) { a[k] = v[k] + f32(seen[k]); seen[(k + i) % 6u] += 1u; }
  tile[i % 8u][i / 8u] = weigh(&a, i32(v.x)) + pow(v.y, 2.5) + sin(v.z);
  workgroupBarrier();
  var sum = 0.0;
  loop { if (sum > 10.0) { break; } sum += tile[u32(sum) % 8u][2]; continuing { v = v.yzwx; break if v.x < 0.5; } }
  switch (i % 5u) { case 0u: { sum = subgroupAdd(sum); } case 1u, 2u: { sum += 1.0; }
    default: { sum = select(sum, -sum, lane > 3u); } }
  let old = atomicAdd(&s.total, u32(sum)); atomicMax(&s.low, i32(old) / (i32(i) - 3));
  if (atomicCompareExchangeWeak(&flag, 0, 1).exchanged) {
    s.items[i].tail[old % 4u] = vec4<u32>(old, extractBits(old, 3u, i), 1u, 2u); }
  let m = u.m * vec2<f32>(1.0, 2.0); let q = transpose(u.m) * m;
  s.items[id.x].p = normalize(cross(m, u.p)) * length(q) + vec3<f32>(unpack4x8snorm(old).xyz);
  h[i] = vec2<f16>(f16(sum), h[i].x * 2.0h) + select(h[0], h[1], vec2<bool>(sum < 1.0, true));
  s.items[id.x].id = pack2x16float(vec2<f32>(frexp(sum).fract, modf(sum).whole)) ^ countOneBits(old) << (i & 7u);
}
