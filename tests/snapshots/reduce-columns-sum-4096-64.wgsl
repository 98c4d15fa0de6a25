@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;
var<workgroup> part_f32_0: array<f32, 256>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  let row_lane = lane / 16u;
  let any_row = group * 16u + lane % 16u;
  let row = min(any_row, 63u);
  let valid = any_row < 64u;
  let c0 = i32(row);
  var r1 = f32(0f);
  for (var i1 = row_lane; i1 < 4096u; i1 += 1024u) {
    let end1 = min(i1 + 1024u, 4096u);
    var r1_1 = f32(0f);
    for (var j = i1; j < end1; j += 64u) {
      let j_0 = j + 0u;
      let c1_0 = i32(j_0);
      let j_1 = j + 16u;
      let c1_1 = i32(j_1);
      let j_2 = j + 32u;
      let c1_2 = i32(j_2);
      let j_3 = j + 48u;
      let c1_3 = i32(j_3);
      let v0_0 = in0[u32(c0 + c1_0 * 64)];
      let v0_1 = in0[u32(c0 + c1_1 * 64)];
      let v0_2 = in0[u32(c0 + c1_2 * 64)];
      let v0_3 = in0[u32(c0 + c1_3 * 64)];
      r1_1 = r1_1 + ((v0_0 + v0_1) + (v0_2 + v0_3));
    }
    r1 = r1 + r1_1;
  }
  part_f32_0[lane] = r1;
  workgroupBarrier();
  for (var half = 8u; half > 0u; half = half / 2u) {
    if (row_lane < half) {
      part_f32_0[lane] = part_f32_0[lane] + part_f32_0[lane + half * 16u];
    }
    workgroupBarrier();
  }
  let v1 = part_f32_0[lane % 16u];
  if (row_lane == 0u && valid) {
    out0[u32(c0)] = v1;
  }
}
