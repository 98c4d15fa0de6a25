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
  let row_lane = lane;
  let c0 = i32(row);
  let v1 = 50000f;
  let v8 = bitcast<f32>(params[1].x);
  var r2 = vec4<f32>(0f);
  for (var j = row_lane; j < 12288u; j += 1024u) {
    let j_0 = j + 0u;
    let c1_0 = i32(j_0) * 4;
    let j_1 = j + 256u;
    let c1_1 = i32(j_1) * 4;
    let j_2 = j + 512u;
    let c1_2 = i32(j_2) * 4;
    let j_3 = j + 768u;
    let c1_3 = i32(j_3) * 4;
    let v0_0 = in0[u32(c0 * 50000 + c1_0) >> 2u];
    let v0_1 = in0[u32(c0 * 50000 + c1_1) >> 2u];
    let v0_2 = in0[u32(c0 * 50000 + c1_2) >> 2u];
    let v0_3 = in0[u32(c0 * 50000 + c1_3) >> 2u];
    r2 = r2 + ((v0_0 + v0_1) + (v0_2 + v0_3));
  }
  for (var j = 12288u + row_lane; j < 12500u; j += 256u) {
    let c1 = i32(j) * 4;
    let v0 = in0[u32(c0 * 50000 + c1) >> 2u];
    r2 = r2 + v0;
  }
  part_f32_0[lane] = (r2.x + r2.y) + (r2.z + r2.w);
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (row_lane < half) {
      part_f32_0[lane] = part_f32_0[lane] + part_f32_0[lane + half];
    }
    workgroupBarrier();
  }
  let v2 = part_f32_0[0];
  workgroupBarrier();
  let v3 = v2 / v1;
  var r6 = vec4<f32>(0f);
  for (var j = row_lane; j < 12288u; j += 1024u) {
    let j_0 = j + 0u;
    let c1_0 = i32(j_0) * 4;
    let j_1 = j + 256u;
    let c1_1 = i32(j_1) * 4;
    let j_2 = j + 512u;
    let c1_2 = i32(j_2) * 4;
    let j_3 = j + 768u;
    let c1_3 = i32(j_3) * 4;
    let v0_0 = in0[u32(c0 * 50000 + c1_0) >> 2u];
    let v0_1 = in0[u32(c0 * 50000 + c1_1) >> 2u];
    let v0_2 = in0[u32(c0 * 50000 + c1_2) >> 2u];
    let v0_3 = in0[u32(c0 * 50000 + c1_3) >> 2u];
    let v4_0 = v0_0 - vec4<f32>(v3);
    let v4_1 = v0_1 - vec4<f32>(v3);
    let v4_2 = v0_2 - vec4<f32>(v3);
    let v4_3 = v0_3 - vec4<f32>(v3);
    let v5_0 = v4_0 * v4_0;
    let v5_1 = v4_1 * v4_1;
    let v5_2 = v4_2 * v4_2;
    let v5_3 = v4_3 * v4_3;
    r6 = r6 + ((v5_0 + v5_1) + (v5_2 + v5_3));
  }
  for (var j = 12288u + row_lane; j < 12500u; j += 256u) {
    let c1 = i32(j) * 4;
    let v0 = in0[u32(c0 * 50000 + c1) >> 2u];
    let v4 = v0 - vec4<f32>(v3);
    let v5 = v4 * v4;
    r6 = r6 + v5;
  }
  part_f32_0[lane] = (r6.x + r6.y) + (r6.z + r6.w);
  workgroupBarrier();
  for (var half = 128u; half > 0u; half = half / 2u) {
    if (row_lane < half) {
      part_f32_0[lane] = part_f32_0[lane] + part_f32_0[lane + half];
    }
    workgroupBarrier();
  }
  let v6 = part_f32_0[0];
  let v7 = v6 / v1;
  let v9 = v7 + v8;
  let v10 = inverseSqrt(v9);
  for (var j = row_lane; j < 12288u; j += 1024u) {
    let j_0 = j + 0u;
    let c1_0 = i32(j_0) * 4;
    let j_1 = j + 256u;
    let c1_1 = i32(j_1) * 4;
    let j_2 = j + 512u;
    let c1_2 = i32(j_2) * 4;
    let j_3 = j + 768u;
    let c1_3 = i32(j_3) * 4;
    let v0_0 = in0[u32(c0 * 50000 + c1_0) >> 2u];
    let v0_1 = in0[u32(c0 * 50000 + c1_1) >> 2u];
    let v0_2 = in0[u32(c0 * 50000 + c1_2) >> 2u];
    let v0_3 = in0[u32(c0 * 50000 + c1_3) >> 2u];
    let v4_0 = v0_0 - vec4<f32>(v3);
    let v4_1 = v0_1 - vec4<f32>(v3);
    let v4_2 = v0_2 - vec4<f32>(v3);
    let v4_3 = v0_3 - vec4<f32>(v3);
    let v11_0 = v4_0 * vec4<f32>(v10);
    let v11_1 = v4_1 * vec4<f32>(v10);
    let v11_2 = v4_2 * vec4<f32>(v10);
    let v11_3 = v4_3 * vec4<f32>(v10);
    let v12_0 = in1[u32(c1_0) >> 2u];
    let v12_1 = in1[u32(c1_1) >> 2u];
    let v12_2 = in1[u32(c1_2) >> 2u];
    let v12_3 = in1[u32(c1_3) >> 2u];
    let v13_0 = in2[u32(c1_0) >> 2u];
    let v13_1 = in2[u32(c1_1) >> 2u];
    let v13_2 = in2[u32(c1_2) >> 2u];
    let v13_3 = in2[u32(c1_3) >> 2u];
    let v14_0 = v11_0 * v12_0;
    let v14_1 = v11_1 * v12_1;
    let v14_2 = v11_2 * v12_2;
    let v14_3 = v11_3 * v12_3;
    let v15_0 = v14_0 + v13_0;
    let v15_1 = v14_1 + v13_1;
    let v15_2 = v14_2 + v13_2;
    let v15_3 = v14_3 + v13_3;
    out0[u32(c0 * 50000 + c1_0) >> 2u] = v15_0;
    out0[u32(c0 * 50000 + c1_1) >> 2u] = v15_1;
    out0[u32(c0 * 50000 + c1_2) >> 2u] = v15_2;
    out0[u32(c0 * 50000 + c1_3) >> 2u] = v15_3;
  }
  for (var j = 12288u + row_lane; j < 12500u; j += 256u) {
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
  if (row_lane == 0u) {
    out1[u32(c0)] = v3;
  }
}
