// Attention for few queries, as in decoding. A workgroup computes one query of one head. Of each tile of 256 keys, a thread
// scores one key. Then each thread adds up four columns of the values, for a part of the keys. See attention.wgsl.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read> in2: array<f32>;
@group(0) @binding(4) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const KV_HEADS = 1u;
// The number of query heads per key head.
const REPEAT = 2u;
const QUERIES = 40u;
const KEYS = 50u;
const SIZE = 64u;
const VALUE_SIZE = 64u;
// KEYS - 1 and SIZE - 1, or 0 if there are none.
const LAST_KEY = 49u;
const LAST_D = 63u;
const CAUSAL = false;
// The number of keys that a query sees, up to its own position. 0 means no limit.
const WINDOW = 0u;
const MASK = false;

const LOWEST = -0x1.fffffep127f;
const SIZE_QUADS = LAST_D / 4u + 1u;
const VALUE_QUADS = (VALUE_SIZE + 3u) / 4u;
// The threads that share four columns. Each adds up a part of the keys.
const STRIPS = 256u / VALUE_QUADS;

var<workgroup> q: array<vec4<f32>, SIZE_QUADS>;
var<workgroup> weights: array<f32, 256>;
var<workgroup> parts: array<f32, 256>;
var<workgroup> sums: array<vec4<f32>, 256>;

fn load_q(batch: u32, head: u32, query: u32, d: u32) -> f32 {
  return in0[((batch * KV_HEADS * REPEAT + head) * QUERIES + query) * SIZE + d];
}

fn load_k(batch: u32, head: u32, key: u32, d: u32) -> f32 {
  return in1[((batch * KV_HEADS + head) * KEYS + key) * SIZE + d];
}

fn load_v(batch: u32, head: u32, key: u32, d: u32) -> f32 {
  return in2[((batch * KV_HEADS + head) * KEYS + key) * VALUE_SIZE + d];
}

fn load_mask(batch: u32, head: u32, query: u32, key: u32) -> f32 {
  return 0.0;
}

fn load_scale() -> f32 {
  return 0.125;
}

fn load_length() -> i32 {
  return i32(KEYS);
}

fn inside_q(batch: u32, head: u32, query: u32, d: u32) -> f32 {
  return select(0.0, load_q(batch, head, query, min(d, LAST_D)), d < SIZE);
}

fn inside_k(batch: u32, head: u32, key: u32, d: u32) -> f32 {
  return select(0.0, load_k(batch, head, min(key, LAST_KEY), min(d, LAST_D)), d < SIZE);
}

fn inside_v(batch: u32, head: u32, key: u32, d: u32) -> f32 {
  let value = load_v(batch, head, min(key, LAST_KEY), min(d, VALUE_SIZE - 1u));
  return select(0.0, value, key < KEYS && d < VALUE_SIZE);
}

fn q_vec4(batch: u32, head: u32, query: u32, d: u32) -> vec4<f32> {
  return vec4<f32>(inside_q(batch, head, query, d), inside_q(batch, head, query, d + 1u),
    inside_q(batch, head, query, d + 2u), inside_q(batch, head, query, d + 3u));
}

fn k_vec4(batch: u32, head: u32, key: u32, d: u32) -> vec4<f32> {
  return vec4<f32>(inside_k(batch, head, key, d), inside_k(batch, head, key, d + 1u),
    inside_k(batch, head, key, d + 2u), inside_k(batch, head, key, d + 3u));
}

fn v_vec4(batch: u32, head: u32, key: u32, d: u32) -> vec4<f32> {
  return vec4<f32>(inside_v(batch, head, key, d), inside_v(batch, head, key, d + 1u),
    inside_v(batch, head, key, d + 2u), inside_v(batch, head, key, d + 3u));
}

fn epilogue(batch: u32, head: u32, query: u32, d: u32, accumulator: f32) {
  out0[((batch * KV_HEADS * REPEAT + head) * QUERIES + query) * VALUE_SIZE + d] = accumulator;
}

fn finish(batch: u32, head: u32, query: u32, d: u32, sums: vec4<f32>) {
  for (var i = 0u; i < 4u && d + i < VALUE_SIZE; i++) {
    epilogue(batch, head, query, d + i, sums[i]);
  }
}

// The number of keys in use. Later ones are padding.
fn length() -> u32 {
  return min(u32(load_length()), KEYS);
}

// The first key that a query does not see. The last query has the position of the last key in use.
fn visible(query: u32) -> u32 {
  let own = query + length() + select(max(WINDOW, 1u), 1u, CAUSAL);
  return select(length(), min(max(own, QUERIES) - QUERIES, length()), CAUSAL || WINDOW > 0u);
}

// The first key that a query sees.
fn hidden(query: u32) -> u32 {
  return select(0u, max(query + 1u + length(), QUERIES + WINDOW) - QUERIES - WINDOW, WINDOW > 0u);
}

@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= BATCH * KV_HEADS * REPEAT * QUERIES) {
    return;
  }
  let query = group % QUERIES;
  let head = group / QUERIES % (KV_HEADS * REPEAT);
  let batch = group / (QUERIES * KV_HEADS * REPEAT);
  let kv_head = head / REPEAT;
  for (var i = lane; i < SIZE_QUADS; i += 256u) {
    q[i] = q_vec4(batch, head, query, 4u * i);
  }
  workgroupBarrier();
  let keys = visible(query);
  let scale = load_scale();
  let column = lane % VALUE_QUADS;
  let strip = lane / VALUE_QUADS;
  var highest = LOWEST;
  var total = 0.0;
  var sum = vec4<f32>();
  for (var first = hidden(query); first < keys; first += 256u) {
    let key = min(first + lane, LAST_KEY);
    let seen = first + lane < keys;
    var score = 0.0;
    for (var i = 0u; i < SIZE_QUADS; i++) {
      score += dot(q[i], k_vec4(batch, kv_head, key, 4u * i));
    }
    score *= scale;
    if (MASK) {
      score += load_mask(batch, head, query, key);
    }
    score = select(LOWEST, score, seen);
    parts[lane] = score;
    workgroupBarrier();
    for (var half = 128u; half > 0u; half = half / 2u) {
      if (lane < half) {
        parts[lane] = max(parts[lane], parts[lane + half]);
      }
      workgroupBarrier();
    }
    let maximum = max(highest, parts[0]);
    let weight = select(0.0, exp(score - maximum), seen);
    let fading = exp(highest - maximum);
    highest = maximum;
    total = total * fading + weight;
    weights[lane] = weight;
    workgroupBarrier();
    // A separate sum for the tile, because one long sum would collect a rounding error per key.
    var some = vec4<f32>();
    if (strip < STRIPS) {
      for (var k = strip; k < min(256u, keys - first); k += STRIPS) {
        some += weights[k] * v_vec4(batch, kv_head, first + k, 4u * column);
      }
    }
    sum = sum * fading + some;
  }
  parts[lane] = total;
  sums[lane] = sum;
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (lane < half) {
      parts[lane] += parts[lane + half];
    }
    workgroupBarrier();
  }
  if (lane < VALUE_QUADS) {
    for (var i = 1u; i < STRIPS; i++) {
      sum += sums[lane + i * VALUE_QUADS];
    }
    finish(batch, head, query, 4u * lane, select(sum / parts[0], vec4<f32>(), parts[0] == 0.0));
  }
}
