// Attention where threads that meet cost more than they save (a CPU that plays a GPU): a thread has one query of one head,
// and goes through the keys by itself. See attention.wgsl.

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read> in2: array<f32>;
@group(0) @binding(4) var<storage, read_write> out0: array<f32>;

const BATCH = 1u;
const KV_HEADS = 1u;
// Query heads of a key head.
const REPEAT = 2u;
const QUERIES = 40u;
const KEYS = 50u;
const SIZE = 64u;
const VALUE_SIZE = 64u;
// KEYS - 1 and SIZE - 1, or 0 where there are none.
const LAST_KEY = 49u;
const LAST_D = 63u;
const CAUSAL = false;
// How far a query sees, its own place included; 0 for any distance.
const WINDOW = 0u;
const MASK = false;

// Threads of a workgroup.
const THREADS = 16u;
const LOWEST = -0x1.fffffep127f;
const SIZE_QUADS = LAST_D / 4u + 1u;
const VALUE_QUADS = (VALUE_SIZE + 3u) / 4u;

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

fn quad_q(batch: u32, head: u32, query: u32, d: u32) -> vec4<f32> {
  return vec4<f32>(inside_q(batch, head, query, d), inside_q(batch, head, query, d + 1u),
    inside_q(batch, head, query, d + 2u), inside_q(batch, head, query, d + 3u));
}

fn quad_k(batch: u32, head: u32, key: u32, d: u32) -> vec4<f32> {
  return vec4<f32>(inside_k(batch, head, key, d), inside_k(batch, head, key, d + 1u),
    inside_k(batch, head, key, d + 2u), inside_k(batch, head, key, d + 3u));
}

fn quad_v(batch: u32, head: u32, key: u32, d: u32) -> vec4<f32> {
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

// The first key that a query does not see: the last query's own place is the last key's.
fn visible(query: u32) -> u32 {
  let own = query + KEYS + select(max(WINDOW, 1u), 1u, CAUSAL);
  return select(KEYS, min(max(own, QUERIES) - QUERIES, KEYS), CAUSAL || WINDOW > 0u);
}

// The first key that it sees.
fn hidden(query: u32) -> u32 {
  return select(0u, max(query + 1u + KEYS, QUERIES + WINDOW) - QUERIES - WINDOW, WINDOW > 0u);
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  let row = group * THREADS + lane;
  if (row >= BATCH * KV_HEADS * REPEAT * QUERIES) {
    return;
  }
  let query = row % QUERIES;
  let head = row / QUERIES % (KV_HEADS * REPEAT);
  let batch = row / (QUERIES * KV_HEADS * REPEAT);
  let kv_head = head / REPEAT;
  var q: array<vec4<f32>, SIZE_QUADS>;
  for (var i = 0u; i < SIZE_QUADS; i++) {
    q[i] = quad_q(batch, head, query, 4u * i);
  }
  let keys = visible(query);
  let scale = load_scale();
  var sums: array<vec4<f32>, VALUE_QUADS>;
  var highest = LOWEST;
  var total = 0.0;
  for (var key = hidden(query); key < keys; key++) {
    var parts = vec4<f32>();
    for (var i = 0u; i < SIZE_QUADS; i++) {
      parts += q[i] * quad_k(batch, kv_head, key, 4u * i);
    }
    var score = (parts.x + parts.y + parts.z + parts.w) * scale;
    if (MASK) {
      score += load_mask(batch, head, query, key);
    }
    // What was summed so far fades only where a score is the highest yet.
    if (score > highest) {
      let fading = exp(highest - score);
      highest = score;
      total *= fading;
      for (var i = 0u; i < VALUE_QUADS; i++) {
        sums[i] *= fading;
      }
    }
    let weight = exp(score - highest);
    total += weight;
    for (var i = 0u; i < VALUE_QUADS; i++) {
      sums[i] += weight * quad_v(batch, kv_head, key, 4u * i);
    }
  }
  for (var i = 0u; i < VALUE_QUADS; i++) {
    finish(batch, head, query, 4u * i, select(sums[i] / total, vec4<f32>(), total == 0.0));
  }
}
