@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 2>;
@group(0) @binding(1) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> in2: array<vec4<f32>>;
@group(0) @binding(4) var<storage, read_write> out0: array<vec4<f32>>;
@group(0) @binding(5) var<storage, read_write> out1: array<f32>;
var<workgroup> part_f32_0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= 2u) {
    return;
  }
  let row = group;
  let strip = lane;
  let c0 = i32(row);
  let v1 = 50000f;
  let v8 = bitcast<f32>(params[1].x);
  var r2 = vec4<f32>(0f);
  for (var j = strip; j < 12500u; j += 256u) {
    let c1 = i32(j) * 4;
    let v0 = in0[u32(c0 * 50000 + c1) >> 2u];
    r2 = r2 + v0;
  }
  part_f32_0[lane] = (r2.x + r2.y) + (r2.z + r2.w);
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (strip < half) {
      part_f32_0[lane] = part_f32_0[lane] + part_f32_0[lane + half];
    }
    workgroupBarrier();
  }
  let v2 = part_f32_0[0];
  workgroupBarrier();
  let v3 = v2 / v1;
  var r6 = vec4<f32>(0f);
  for (var j = strip; j < 12500u; j += 256u) {
    let c1 = i32(j) * 4;
    let v0 = in0[u32(c0 * 50000 + c1) >> 2u];
    let v4 = v0 - vec4<f32>(v3);
    let v5 = v4 * v4;
    r6 = r6 + v5;
  }
  part_f32_0[lane] = (r6.x + r6.y) + (r6.z + r6.w);
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (strip < half) {
      part_f32_0[lane] = part_f32_0[lane] + part_f32_0[lane + half];
    }
    workgroupBarrier();
  }
  let v6 = part_f32_0[0];
  let v7 = v6 / v1;
  let v9 = v7 + v8;
  let v10 = inverseSqrt(v9);
  for (var j = strip; j < 12500u; j += 256u) {
    let c1 = i32(j) * 4;
    let v0 = in0[u32(c0 * 50000 + c1) >> 2u];
    let v4 = v0 - vec4<f32>(v3);
    let v11 = v4 * vec4<f32>(v10);
    let v12 = in1[u32(c1) >> 2u];
    let v13 = in2[u32(c1) >> 2u];
    let v14 = v11 * v12;
    let v15 = v14 + v13;
    out0[u32(c0 * 50000 + c1) >> 2u] = v15;
  }
  if (strip == 0u) {
    out1[u32(c0)] = v3;
  }
}
