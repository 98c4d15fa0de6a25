@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out0: array<vec4<f32>>;
var<workgroup> part_f32_0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= 2u) {
    return;
  }
  let row = group;
  let row_lane = lane;
  let c0 = i32(row);
  let j_0 = row_lane;
  let c1_0 = i32(j_0) * 4;
  var r1 = vec4<f32>(bitcast<f32>(params[0].y));
  let v0_0 = in0[u32(c0 * 1024 + c1_0) >> 2u];
  r1 = max_nan4(r1, v0_0);
  part_f32_0[lane] = max_nan((max_nan(r1.x, r1.y)), (max_nan(r1.z, r1.w)));
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (row_lane < half) {
      part_f32_0[lane] = max_nan(part_f32_0[lane], part_f32_0[lane + half]);
    }
    workgroupBarrier();
  }
  let v1 = part_f32_0[0];
  workgroupBarrier();
  var r4 = vec4<f32>(0f);
  let v2_0 = v0_0 - vec4<f32>(v1);
  let v3_0 = keep_nan4(v2_0, exp(v2_0));
  r4 = r4 + v3_0;
  part_f32_0[lane] = (r4.x + r4.y) + (r4.z + r4.w);
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (row_lane < half) {
      part_f32_0[lane] = part_f32_0[lane] + part_f32_0[lane + half];
    }
    workgroupBarrier();
  }
  let v4 = part_f32_0[0];
  let v5_0 = v3_0 / vec4<f32>(v4);
  out0[u32(c0 * 1024 + c1_0) >> 2u] = v5_0;
}
fn is_nan(x: f32) -> bool {
  return (bitcast<u32>(x) & u32(0x7fffffffu)) > u32(0x7f800000u);
}
fn is_nan4(x: vec4<f32>) -> vec4<bool> {
  return (bitcast<vec4<u32>>(x) & vec4<u32>(0x7fffffffu)) > vec4<u32>(0x7f800000u);
}
fn max_nan(x: f32, y: f32) -> f32 {
  return select(select(max(x, y), y, is_nan(y)), x, is_nan(x));
}
fn max_nan4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  return select(select(max(x, y), y, is_nan4(y)), x, is_nan4(x));
}
fn keep_nan4(x: vec4<f32>, y: vec4<f32>) -> vec4<f32> {
  return select(y, x, is_nan4(x));
}
