// Attention in one pass over the keys (FlashAttention). A workgroup computes 32 rows, which are queries of the heads that share
// one key head. Eight threads share a row. Of each tile of 32 keys, a thread scores every eighth key. The running maximum
// starts at the lowest finite number, so that -Inf is never subtracted from -Inf.

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
const ROWS = REPEAT * QUERIES;
const TILES = (ROWS + 31u) / 32u;
const CHUNKS = (VALUE_SIZE + 31u) / 32u;
// The vec4s of a staged line of 32 elements, and one more to avoid bank conflicts.
const PITCH = 9u;

var<workgroup> left: array<vec4<f32>, 32u * PITCH>;
var<workgroup> right: array<vec4<f32>, 32u * PITCH>;
var<workgroup> parts: array<f32, 256>;

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
  // The first and the last query of the workgroup determine the range of keys.
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
      // A separate sum for the tile, because one long sum would collect a rounding error per key.
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
