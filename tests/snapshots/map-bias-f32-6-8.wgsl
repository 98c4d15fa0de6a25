@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 3>;
@group(0) @binding(1) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read> in1: array<vec4<f32>>;
@group(0) @binding(3) var<storage, read> in2: array<f32>;
@group(0) @binding(4) var<storage, read_write> out0: array<vec4<f32>>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  let n = group * 64u + lane;
  if (n >= 12u) {
    return;
  }
  let c1 = i32(n % 2u) * 4;
  let c0 = i32(n / 2u);
  let v0 = in0[u32(c0 * 8 + c1) >> 2u];
  let v1 = in1[u32(c1) >> 2u];
  let v2 = in2[u32(c0)];
  let v3 = bitcast<f32>(params[2].y);
  let v4 = v0 + v1;
  let v5 = v4 * vec4<f32>(v2);
  let v6 = v5 * vec4<f32>(v3);
  out0[u32(c0 * 8 + c1) >> 2u] = v6;
}
