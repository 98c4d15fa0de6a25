@group(0) @binding(0) var<uniform> params: array<vec4<u32>, 1>;
@group(0) @binding(1) var<storage, read> in0: array<vec4<f32>>;
@group(0) @binding(2) var<storage, read_write> out0: array<vec4<f32>>;
@compute @workgroup_size(4)
fn main(@builtin(workgroup_id) group_id: vec3<u32>, @builtin(num_workgroups) groups: vec3<u32>, @builtin(local_invocation_index) lane: u32) {
  let group = group_id.x + group_id.y * groups.x;
  let row = group * 4u + lane;
  if (row >= 16u) {
    return;
  }
  let c0 = i32(row) * 4;
  var r1 = vec4<f32>(0f);
  for (var i2 = 0u; i2 < 4096u; i2 += 1024u) {
    let end2 = min(i2 + 1024u, 4096u);
    var r1_1 = vec4<f32>(0f);
    for (var i1 = i2; i1 < end2; i1 += 64u) {
      let end1 = min(i1 + 64u, end2);
      var r1_2 = vec4<f32>(0f);
      for (var j = i1; j < end1; j += 4u) {
        let j_0 = j + 0u;
        let c1_0 = i32(j_0);
        let j_1 = j + 1u;
        let c1_1 = i32(j_1);
        let j_2 = j + 2u;
        let c1_2 = i32(j_2);
        let j_3 = j + 3u;
        let c1_3 = i32(j_3);
        let v0_0 = in0[u32(c0 + c1_0 * 64) >> 2u];
        let v0_1 = in0[u32(c0 + c1_1 * 64) >> 2u];
        let v0_2 = in0[u32(c0 + c1_2 * 64) >> 2u];
        let v0_3 = in0[u32(c0 + c1_3 * 64) >> 2u];
        r1_2 = r1_2 + ((v0_0 + v0_1) + (v0_2 + v0_3));
      }
      r1_1 = r1_1 + r1_2;
    }
    r1 = r1 + r1_1;
  }
  let v1 = r1;
  out0[u32(c0) >> 2u] = v1;
}
