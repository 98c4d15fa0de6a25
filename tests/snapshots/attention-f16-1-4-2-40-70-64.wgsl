enable f16;
@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 2>;
@group(0) @binding(1) var<storage, read> in0: array<vec4<f16>>;
@group(0) @binding(2) var<storage, read> in1: array<vec4<f16>>;
@group(0) @binding(3) var<storage, read> in2: array<vec4<f16>>;
@group(0) @binding(4) var<storage, read> in3: array<f16>;
@group(0) @binding(5) var<storage, read_write> out0: array<vec4<f16>>;
const BATCH = 1u;
const KV_HEADS = 2u;
const REPEAT = 2u;
const QUERIES = 40u;
const KEYS = 70u;
const SIZE = 64u;
const VALUE_SIZE = 64u;
const LAST_KEY = 69u;
const LAST_D = 63u;
const CAUSAL = true;
const WINDOW = 0u;
const MASK = true;
const LOWEST = -0x1.fffffep127f;
const ROWS = REPEAT * QUERIES;
const TILES = (ROWS + 31u) / 32u;
const CHUNKS = (VALUE_SIZE + 31u) / 32u;
const PITCH = 9u;
var<workgroup> left: array<vec4<f32>, 32u * PITCH>;
var<workgroup> right: array<vec4<f32>, 32u * PITCH>;
var<workgroup> parts: array<f32, 256>;
fn load_mask(batch: u32, head: u32, query: u32, key: u32) -> f32 {
  let c2 = i32(query);
  let c3 = i32(key);
  let v0 = f32(in3[u32(c2 * 70 + c3)]);
  return v0;
}
fn load_scale() -> f32 {
  let v0 = bitcast<f32>(params[1].x);
  return v0;
}
fn load_length() -> i32 {
  return i32(KEYS);
}
fn q_vec4(any_batch: u32, any_head: u32, any_query: u32, any_d: u32) -> vec4<f32> {
  let batch = any_batch;
  let head = any_head;
  let query = any_query;
  let d = min(any_d, 60u);
  let c1 = i32(head);
  let c2 = i32(query);
  let c3 = i32(d);
  let v0 = vec4<f32>(in0[u32(c1 * 2560 + c2 * 64 + c3) >> 2u]);
  return select(vec4<f32>(), v0, any_d < 64u);
}
fn k_vec4(any_batch: u32, any_head: u32, any_key: u32, any_d: u32) -> vec4<f32> {
  let batch = any_batch;
  let head = any_head;
  let key = min(any_key, 69u);
  let d = min(any_d, 60u);
  let c1 = i32(head);
  let c2 = i32(key);
  let c3 = i32(d);
  let v0 = vec4<f32>(in1[u32(c1 * 4480 + c2 * 64 + c3) >> 2u]);
  return select(vec4<f32>(), v0, any_key < 70u && any_d < 64u);
}
fn v_vec4(any_batch: u32, any_head: u32, any_key: u32, any_d: u32) -> vec4<f32> {
  let batch = any_batch;
  let head = any_head;
  let key = min(any_key, 69u);
  let d = min(any_d, 60u);
  let c1 = i32(head);
  let c2 = i32(key);
  let c3 = i32(d);
  let v0 = vec4<f32>(in2[u32(c1 * 4480 + c2 * 64 + c3) >> 2u]);
  return select(vec4<f32>(), v0, any_key < 70u && any_d < 64u);
}
fn finish(batch: u32, head: u32, query: u32, d: u32, accumulator: vec4<f32>) {
  if (d < 64u) {
    let c1 = i32(head);
    let c2 = i32(query);
    let c3 = i32(d);
    let v0 = accumulator;
    out0[u32(c1 * 2560 + c2 * 64 + c3) >> 2u] = vec4<f16>(v0);
  }
}
fn length() -> u32 {
  return min(u32(load_length()), KEYS);
}
fn visible(query: u32) -> u32 {
  let own = query + length() + select(max(WINDOW, 1u), 1u, CAUSAL);
  return select(length(), min(max(own, QUERIES) - QUERIES, length()), CAUSAL || WINDOW > 0u);
}
fn hidden(query: u32) -> u32 {
  return select(0u, max(query + 1u + length(), QUERIES + WINDOW) - QUERIES - WINDOW, WINDOW > 0u);
}
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
@builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= BATCH * KV_HEADS * TILES) {
    return;
  }
  let first = group % TILES * 32u;
  let kv_head = group / TILES % KV_HEADS;
  let batch = group / (TILES * KV_HEADS);
  let row = lane / 8u;
  let part = lane % 8u;
  let at = min(first + row, ROWS - 1u);
  let head = kv_head * REPEAT + at / QUERIES;
  let query = at % QUERIES;
  let last = min(first + 31u, ROWS - 1u);
  let one_head = first / QUERIES == last / QUERIES;
  let keys = visible(select(QUERIES - 1u, last % QUERIES, one_head));
  let unseen = hidden(select(0u, first % QUERIES, one_head)) / 32u * 32u;
  let scale = load_scale();
  var highest = LOWEST;
  var total = 0.0;
  var sums: array<vec4<f32>, CHUNKS>;
  for (var first_key = unseen; first_key < keys; first_key += 32u) {
    var scores = vec4<f32>();
    for (var d = 0u; d < SIZE; d += 32u) {
      workgroupBarrier();
      left[row * PITCH + part] = q_vec4(batch, head, query, d + 4u * part);
      right[row * PITCH + part] = k_vec4(batch, kv_head, first_key + row, d + 4u * part);
      workgroupBarrier();
      for (var i = 0u; i < 8u; i++) {
        let q = left[row * PITCH + i];
        scores += vec4<f32>(dot(q, right[part * PITCH + i]), dot(q, right[(part + 8u) * PITCH + i]),
        dot(q, right[(part + 16u) * PITCH + i]), dot(q, right[(part + 24u) * PITCH + i]));
      }
    }
    scores *= scale;
    let key = vec4<u32>(first_key + part) + vec4<u32>(0u, 8u, 16u, 24u);
    if (MASK) {
      let near = min(key, vec4<u32>(LAST_KEY));
      scores += vec4<f32>(load_mask(batch, head, query, near.x), load_mask(batch, head, query, near.y),
      load_mask(batch, head, query, near.z), load_mask(batch, head, query, near.w));
    }
    let seen = (key < vec4<u32>(visible(query))) & (key >= vec4<u32>(hidden(query)));
    scores = select(vec4<f32>(LOWEST), scores, seen);
    parts[lane] = max(max(scores.x, scores.y), max(scores.z, scores.w));
    workgroupBarrier();
    var maximum = highest;
    for (var i = 0u; i < 8u; i++) {
      maximum = max(maximum, parts[row * 8u + i]);
    }
    let weights = select(vec4<f32>(), exp(scores - maximum), seen);
    let fading = exp(highest - maximum);
    highest = maximum;
    total = total * fading + (weights.x + weights.y) + (weights.z + weights.w);
    left[row * PITCH + part] = weights;
    for (var c = 0u; c < CHUNKS; c++) {
      workgroupBarrier();
      let values = v_vec4(batch, kv_head, first_key + row, 32u * c + 4u * part);
      right[row * PITCH + part] = select(vec4<f32>(), values, first_key + row < keys);
      workgroupBarrier();
      var sum = vec4<f32>();
      for (var i = 0u; i < 8u; i++) {
        let w = left[row * PITCH + i];
        sum += w.x * right[i * PITCH + part];
        sum += w.y * right[(i + 8u) * PITCH + part];
        sum += w.z * right[(i + 16u) * PITCH + part];
        sum += w.w * right[(i + 24u) * PITCH + part];
      }
      sums[c] = sums[c] * fading + sum;
    }
  }
  workgroupBarrier();
  parts[lane] = total;
  workgroupBarrier();
  total = 0.0;
  for (var i = 0u; i < 8u; i++) {
    total += parts[row * 8u + i];
  }
  if (first + row < ROWS) {
    for (var c = 0u; c < CHUNKS; c++) {
      let result = select(sums[c] / total, vec4<f32>(), total == 0.0);
      finish(batch, head, query, 32u * c + 4u * part, result);
    }
  }
}
