//! Tests the profiles of work and memory, on every backend.

use super::batches::ensure;
use super::check::{said, Suite};
use warpweft::backend::Clock;
use warpweft::tensor::Variable;

pub fn cases(suite: &mut Suite) {
    suite.steps("a profile says what each kernel did", |device| async move {
        let x = device.uniform(&[16, 24], -1.0, 1.0, 1).map_err(said)?;
        let w = device.uniform(&[24, 8], -1.0, 1.0, 2).map_err(said)?;
        let work = async {
            let y = x.matmul(&w)?.relu();
            y.read::<f32>().await.map(drop)
        };
        let ((), profile) = device.profile(work).await.map_err(said)?;
        let flops: u64 = profile.kernels().iter().map(|kernel| kernel.work.flops).sum();
        let product = profile.kernels().iter().find(|kernel| kernel.kind == "matmul");
        let product = product.ok_or_else(|| format!("no product: {profile}"))?;
        // Two operations for each multiply-add, one for relu.
        ensure(product.work.flops == 128 * (2 * 24 + 1), format!("{flops} operations: {profile}"))?;
        ensure(product.work.written == 4 * 128, format!("bytes: {profile}"))?;
        ensure(profile.device_time() <= profile.total(), format!("times: {profile}"))?;
        let clock = profile.clock();
        let timed = profile.kernels().iter().all(|kernel| kernel.timed == kernel.runs);
        ensure(
            timed == (clock != Clock::Submissions && clock != Clock::None),
            format!("{profile}"),
        )?;
        let trace = profile.to_chrome_trace();
        ensure(trace.contains("\"name\":\"matmul[16,24]x[24,8] + relu\""), trace)
    });
    suite.steps("memory is what holds it", |device| async move {
        let x = device.tensor(&[1.0f32; 1024], &[1024]).map_err(said)?;
        let variable = Variable::new(&device.tensor(&[2.0f32; 2048], &[2048]).map_err(said)?);
        let y = x.exp();
        y.run().map_err(said)?;
        let memory = device.memory();
        let used = memory.tensors + memory.variables + memory.constants + memory.pending;
        let all = used + memory.temporaries + memory.pooled;
        ensure(all == device.stats().bytes, format!("{} bytes: {memory}", device.stats().bytes))?;
        // A buffer from the pool has the size of its size class.
        let held = [memory.tensors, memory.variables].iter().all(|n| (8192..=10240).contains(n));
        ensure(held, memory.to_string())?;
        ensure(memory.largest[0].holder == "variable", memory.to_string())?;
        drop((x, variable, y));
        let memory = device.memory();
        ensure((memory.tensors, memory.variables) == (0, 0), memory.to_string())
    });
}
