@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<f32>;
@group(0) @binding(2) var<storage, read_write> out0: array<f32>;
@compute @workgroup_size(64)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  let n = group * 64u + lane;
  if (n >= 36u) {
    return;
  }
  let c1 = i32(n % 12u);
  let c0 = i32(n / 12u);
  let v0 = c1;
  let v1 = 4i;
  let v2 = 10i;
  let v3 = v1 <= v0;
  let v4 = v0 < v2;
  let v5 = v3 & v4;
  let v6 = in0[u32(c0 * 6 + c1 - 4)];
  let v7 = 0f;
  let v8 = select(v7, v6, v5);
  out0[u32(c0 * 12 + c1)] = v8;
}
