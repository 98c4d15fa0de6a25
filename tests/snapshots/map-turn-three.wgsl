@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read> in1: array<f32>;
@group(0) @binding(3) var<storage, read> in2: array<f32>;
@group(0) @binding(4) var<storage, read> in3: array<f32>;
@group(0) @binding(5) var<storage, read_write> out0: array<f32>;
var<workgroup> tile1: array<f32, 1056>;
var<workgroup> tile3: array<f32, 1056>;
@compute @workgroup_size(256)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  if (group >= 40u) {
    return;
  }
  let side = lane % 32u;
  let c0 = i32(group / 8u);
  let c2_tile = i32(group % 4u);
  let c1_tile = i32(group / 4u % 2u);
  for (var i = 0u; i < 32u; i += 8u) {
    let line = i + lane / 32u;
    let c2 = c2_tile * 32 + i32(line);
    let c1 = c1_tile * 32 + i32(side);
    if (c2 < 100) {
      let v1 = in1[u32(c0 * 6400 + c1 + c2 * 64)];
      tile1[line * 33u + side] = v1;
      let v3 = in2[u32(c0 * 6400 + c1 + c2 * 64)];
      tile3[line * 33u + side] = v3;
    }
  }
  workgroupBarrier();
  for (var i = 0u; i < 32u; i += 8u) {
    let line = i + lane / 32u;
    let c1 = c1_tile * 32 + i32(line);
    let c2 = c2_tile * 32 + i32(side);
    if (c2 < 100) {
      let v0 = in0[u32(c0 * 6400 + c1 * 100 + c2)];
      let v1 = tile1[side * 33u + line];
      let v2 = v0 + v1;
      let v3 = tile3[side * 33u + line];
      let v4 = v2 + v3;
      let v5 = in3[u32(c0 * 6400 + c1 + c2 * 64)];
      let v6 = v4 + v5;
      let v7 = c2;
      let v8 = f32(v7);
      let v9 = v6 * v8;
      out0[u32(c0 * 6400 + c1 * 100 + c2)] = v9;
    }
  }
}
