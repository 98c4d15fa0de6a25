// Attention of f16 tensors on tensor cores, in one pass over the keys (FlashAttention). The functions `ptx_...` are
// instructions of NVIDIA GPUs (ptx/lower/tensor_cores.rs). Codegen replaces the constants and the operands, as in
// shaders/attention.wgsl, which has the same meaning.
//
// Problem. The scores of all queries and keys do not fit into fast memory.
//
// Idea. A workgroup has 64 rows, which are queries of the heads that share one key head. Each of its four warps has 16 rows. It
// walks over tiles of keys. While one tile is used, cp.async fills the memory of the next one:
//
//   scores  = q k^T, on tensor cores
//   weights = exp(scores - maximum so far)
//   sums    = sums * exp(old maximum - new maximum) + weights v, on tensor cores
//
// The sums of a fragment and the left operand of the next product have the same order in a warp's registers, so weights never
// leave the registers. A weight is not exact as f16. It is the sum of two f16, and both are multiplied with v. So the error
// is about that of f32. An infinite value makes NaN, because one of the two may be 0.
//
// Lines in shared memory are swizzled as in matmul.wgsl. Cost: two tiles of keys and values take up to 32 KiB.

enable f16;

@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f16>;
@group(0) @binding(2) var<storage, read> in1: array<f16>;
@group(0) @binding(3) var<storage, read> in2: array<f16>;
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
// The bytes of a copy: 16, 8 or 4, or 0 if threads load the operand.
const COPY_K = 16u;
const COPY_V = 16u;

const LOWEST = -0x1.fffffep127f;
// The weight of the highest score. Weights of many low scores are then not too small for f16.
const SHIFT = 16384.0;
const THREADS = 128u;
const ROWS = REPEAT * QUERIES;
const TILES = (ROWS + 63u) / 64u;
// The numbers in a line of keys and of values: 32, 64 or 128. The keys of a tile.
const WIDE = 32u + u32(SIZE > 32u) * 32u + u32(SIZE > 64u) * 64u;
const WIDE_V = 32u + u32(VALUE_SIZE > 32u) * 32u + u32(VALUE_SIZE > 64u) * 64u;
const TILE = 64u - u32(WIDE + WIDE_V > 128u) * 32u;
// The fragments of a row along the head, along a tile, and along the values.
const DEEP = (SIZE + 15u) / 16u;
const RIGHT = TILE / 8u;
const ALONG = WIDE_V / 8u;
// The bytes of a stage: keys and values, or all queries.
const STAGE = max(TILE * (WIDE + WIDE_V), 64u * WIDE) * 2u;
const VALUES = TILE * WIDE * 2u;
// The floats in a line of leaving results, with eight more to avoid bank conflicts.
const PITCH = 40u;

var<workgroup> stage: array<vec2<u32>, STAGE / 4u>;

fn load_q(batch: u32, head: u32, query: u32, d: u32) -> f32 {
  return f32(in0[((batch * KV_HEADS * REPEAT + head) * QUERIES + query) * SIZE + d]);
}

fn load_k(batch: u32, head: u32, key: u32, d: u32) -> f32 {
  return f32(in1[((batch * KV_HEADS + head) * KEYS + key) * SIZE + d]);
}

fn load_v(batch: u32, head: u32, key: u32, d: u32) -> f32 {
  return f32(in2[((batch * KV_HEADS + head) * KEYS + key) * VALUE_SIZE + d]);
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

fn copy_k(to: u32, batch: u32, head: u32, key: u32, d: u32, bytes: u32) {
  stage[to] = vec2<u32>(u32(in1[((batch * KV_HEADS + head) * KEYS + key) * SIZE + d]));
}

fn copy_v(to: u32, batch: u32, head: u32, key: u32, d: u32, bytes: u32) {
  stage[to] = vec2<u32>(u32(in2[((batch * KV_HEADS + head) * KEYS + key) * VALUE_SIZE + d]));
}

fn epilogue(batch: u32, head: u32, query: u32, d: u32, accumulator: f32) {
  out0[((batch * KV_HEADS * REPEAT + head) * QUERIES + query) * VALUE_SIZE + d] = accumulator;
}

fn finish(batch: u32, head: u32, query: u32, d: u32, sums: vec4<f32>) {
  for (var i = 0u; i < 4u && d + i < VALUE_SIZE; i++) {
    epilogue(batch, head, query, d + i, sums[i]);
  }
}

fn ptx_mma(a: vec4<u32>, b: vec2<u32>, c: vec4<f32>) -> vec4<f32> {
  return c;
}

fn ptx_ldmatrix(at: u32) -> vec4<u32> {
  return stage[at].xyxy;
}

fn ptx_ldmatrix_trans(at: u32) -> vec4<u32> {
  return stage[at].xyxy;
}

fn ptx_cp_async_commit_group() {
}

fn ptx_cp_async_wait_group_0() {
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

// The byte of a chunk of 16 bytes, in lines of `chunks`.
fn place(line: u32, chunk: u32, chunks: u32) -> u32 {
  let swizzle = select(line & 7u, line >> 1u & 3u, chunks == 4u);
  return 16u * (line * chunks + (chunk ^ swizzle));
}

// The bytes to copy at a position, of a piece of `bytes` bytes along an axis.
fn rest(position: u32, extent: u32, bytes: u32) -> u32 {
  return select(0u, 2u * min(bytes / 2u, extent - position), position < extent);
}

// Stores four numbers.
fn put(at: u32, line: u32, d: u32, wide: u32, quad: vec4<f32>) {
  stage[(at + place(line, d / 8u, wide / 8u) + d % 8u * 2u) / 8u] =
    vec2<u32>(pack2x16float(quad.xy), pack2x16float(quad.zw));
}

// Fills a stage with keys and values. Values from `keys` on are 0, because their weights are 0, and 0 * NaN is NaN.
fn fill_keys(at: u32, batch: u32, head: u32, first_key: u32, keys: u32, lane: u32) {
  const EACH_K = (COPY_K + 8u * u32(COPY_K == 0u)) / 2u;
  const EACH_V = (COPY_V + 8u * u32(COPY_V == 0u)) / 2u;
  for (var turn = 0u; turn < TILE * WIDE / EACH_K / THREADS; turn++) {
    let i = turn * THREADS + lane;
    let line = i / (WIDE / EACH_K);
    let d = i % (WIDE / EACH_K) * EACH_K;
    let key = first_key + line;
    if (COPY_K > 0u) {
      let to = at + place(line, d / 8u, WIDE / 8u) + d % 8u * 2u;
      copy_k(to, batch, head, key, d, select(0u, rest(d, SIZE, COPY_K), key < keys));
    } else {
      put(at, line, d, WIDE, k_vec4(batch, head, key, d));
    }
  }
  for (var turn = 0u; turn < TILE * WIDE_V / EACH_V / THREADS; turn++) {
    let i = turn * THREADS + lane;
    let line = i / (WIDE_V / EACH_V);
    let d = i % (WIDE_V / EACH_V) * EACH_V;
    let key = first_key + line;
    if (COPY_V > 0u) {
      let to = at + VALUES + place(line, d / 8u, WIDE_V / 8u) + d % 8u * 2u;
      copy_v(to, batch, head, key, d, select(0u, rest(d, VALUE_SIZE, COPY_V), key < keys));
    } else {
      let quad = select(vec4<f32>(), v_vec4(batch, head, key, d), key < keys);
      put(at + VALUES, line, d, WIDE_V, quad);
    }
  }
}

// The scores of a row with two neighboring keys.
fn masked(pair: vec2<f32>, batch: u32, head: u32, query: u32, key: u32, range: vec2<u32>) -> vec2<f32> {
  var scores = pair;
  if (MASK) {
    scores.x += load_mask(batch, head, query, min(key, LAST_KEY));
    scores.y += load_mask(batch, head, query, min(key + 1u, LAST_KEY));
  }
  let keys = vec2<u32>(key, key + 1u);
  return select(vec2<f32>(LOWEST), scores, (keys >= range.xx) & (keys < range.yy));
}

// The weights of a row with two neighboring keys.
fn weighted(scores: vec2<f32>, highest: f32, key: u32, range: vec2<u32>) -> vec2<f32> {
  let keys = vec2<u32>(key, key + 1u);
  let weights = SHIFT * exp(scores - highest);
  return select(vec2<f32>(), weights, (keys >= range.xx) & (keys < range.yy));
}

@compute @workgroup_size(THREADS)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>,
  @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= BATCH * KV_HEADS * TILES) {
    return;
  }
  let first = group % TILES * 64u;
  let kv_head = group / TILES % KV_HEADS;
  let batch = group / (TILES * KV_HEADS);
  let warp = lane / 32u;
  let own = lane % 32u;
  // The first and the last query of the workgroup determine the range of keys.
  let last = min(first + 63u, ROWS - 1u);
  let one_head = first / QUERIES == last / QUERIES;
  // params[0].x is 0. It prevents that the loop is unrolled.
  let keys = visible(select(QUERIES - 1u, last % QUERIES, one_head)) + params[0].x;
  let unseen = hidden(select(0u, first % QUERIES, one_head)) / TILE * TILE;
  let scale = load_scale();
  // The two rows of a thread's fragments.
  let row_0 = min(first + 16u * warp + own / 4u, ROWS - 1u);
  let row_1 = min(first + 16u * warp + own / 4u + 8u, ROWS - 1u);
  let head_0 = kv_head * REPEAT + row_0 / QUERIES;
  let head_1 = kv_head * REPEAT + row_1 / QUERIES;
  let query_0 = row_0 % QUERIES;
  let query_1 = row_1 % QUERIES;
  let range_0 = vec2<u32>(hidden(query_0), visible(query_0));
  let range_1 = vec2<u32>(hidden(query_1), visible(query_1));
  // All queries, in the second stage.
  for (var turn = 0u; turn < 16u * WIDE / THREADS; turn++) {
    let i = turn * THREADS + lane;
    let line = i / (WIDE / 4u);
    let d = i % (WIDE / 4u) * 4u;
    let row = min(first + line, ROWS - 1u);
    let quad = q_vec4(batch, kv_head * REPEAT + row / QUERIES, row % QUERIES, d);
    put(STAGE, line, d, WIDE, quad);
  }
  if (unseen < keys) {
    fill_keys(0u, batch, kv_head, unseen, keys, lane);
  }
  ptx_cp_async_commit_group();
  workgroupBarrier();
  var queries: array<vec4<u32>, DEEP>;
  for (var i = 0u; i < DEEP; i++) {
    queries[i] = ptx_ldmatrix(STAGE + place(16u * warp + own % 16u, 2u * i + own / 16u, WIDE / 8u));
  }
  var highest = vec2<f32>(LOWEST);
  var total = vec2<f32>();
  var sums: array<vec4<f32>, ALONG>;
  var at = 0u;
  for (var first_key = unseen; first_key < keys; first_key += TILE) {
    ptx_cp_async_wait_group_0();
    workgroupBarrier();
    if (first_key + TILE < keys) {
      fill_keys(STAGE - at, batch, kv_head, first_key + TILE, keys, lane);
    }
    ptx_cp_async_commit_group();
    var scores: array<vec4<f32>, RIGHT>;
    var maximum = highest;
    for (var j = 0u; j < RIGHT; j += 2u) {
      var near = vec4<f32>();
      var far = vec4<f32>();
      for (var i = 0u; i < DEEP; i++) {
        let line = 8u * j + own % 8u + own / 16u * 8u;
        let b = ptx_ldmatrix(at + place(line, 2u * i + own / 8u % 2u, WIDE / 8u));
        near = ptx_mma(queries[i], b.xy, near);
        far = ptx_mma(queries[i], b.zw, far);
      }
      scores[j] = near * scale;
      scores[j + 1u] = far * scale;
    }
    for (var j = 0u; j < RIGHT; j++) {
      let key = first_key + 8u * j + own % 4u * 2u;
      let upper = masked(scores[j].xy, batch, head_0, query_0, key, range_0);
      let lower = masked(scores[j].zw, batch, head_1, query_1, key, range_1);
      scores[j] = vec4<f32>(upper, lower);
      maximum = max(maximum, vec2<f32>(max(upper.x, upper.y), max(lower.x, lower.y)));
    }
    maximum = max(maximum, subgroupShuffleXor(maximum, 1u));
    maximum = max(maximum, subgroupShuffleXor(maximum, 2u));
    let fading = exp(highest - maximum);
    highest = maximum;
    total *= fading;
    for (var n = 0u; n < ALONG; n++) {
      sums[n] *= fading.xxyy;
    }
    // A separate sum for the tile, because one long sum would collect a rounding error per key.
    var part = vec2<f32>();
    for (var j = 0u; j < RIGHT; j += 2u) {
      var high: array<u32, 4>;
      var low: array<u32, 4>;
      for (var i = 0u; i < 2u; i++) {
        let key = first_key + 8u * (j + i) + own % 4u * 2u;
        let upper = weighted(scores[j + i].xy, highest.x, key, range_0);
        let lower = weighted(scores[j + i].zw, highest.y, key, range_1);
        part += vec2<f32>(upper.x + upper.y, lower.x + lower.y);
        high[2u * i] = pack2x16float(upper);
        high[2u * i + 1u] = pack2x16float(lower);
        low[2u * i] = pack2x16float(upper - unpack2x16float(high[2u * i]));
        low[2u * i + 1u] = pack2x16float(lower - unpack2x16float(high[2u * i + 1u]));
      }
      let a = vec4<u32>(high[0], high[1], high[2], high[3]);
      let small = vec4<u32>(low[0], low[1], low[2], low[3]);
      for (var n = 0u; n < ALONG; n += 2u) {
        let line = 8u * j + own % 16u;
        let b = ptx_ldmatrix_trans(at + VALUES + place(line, n + own / 16u, WIDE_V / 8u));
        sums[n] = ptx_mma(small, b.xy, ptx_mma(a, b.xy, sums[n]));
        sums[n + 1u] = ptx_mma(small, b.zw, ptx_mma(a, b.zw, sums[n + 1u]));
      }
    }
    total += part;
    at = STAGE - at;
  }
  total += subgroupShuffleXor(total, 1u);
  total += subgroupShuffleXor(total, 2u);
  // All warps have read the last stage.
  workgroupBarrier();
  // Each warp hands 32 columns at a time from fragments to neighbors of a row, in its own part of the memory.
  let strip = warp * 16u * PITCH;
  for (var c = 0u; c < WIDE_V / 32u; c++) {
    for (var j = 0u; j < 4u; j++) {
      let values = sums[4u * c + j];
      let to = (strip + own / 4u * PITCH + 8u * j) / 2u + own % 4u;
      stage[to] = bitcast<vec2<u32>>(select(values.xy / total.x, vec2<f32>(), total.x == 0.0));
      stage[to + 4u * PITCH] =
        bitcast<vec2<u32>>(select(values.zw / total.y, vec2<f32>(), total.y == 0.0));
    }
    subgroupBarrier();
    for (var i = own; i < 128u; i += 32u) {
      let row = first + 16u * warp + i / 8u;
      let read = (strip + i / 8u * PITCH + i % 8u * 4u) / 2u;
      let quad = vec4<f32>(bitcast<vec2<f32>>(stage[read]), bitcast<vec2<f32>>(stage[read + 1u]));
      let d = 32u * c + i % 8u * 4u;
      if (row < ROWS && d < VALUE_SIZE) {
        finish(batch, kv_head * REPEAT + row / QUERIES, row % QUERIES, d, quad);
      }
    }
    subgroupBarrier();
  }
}
