//! Temporary.
use std::time::Instant;
use warpweft_native::device::Preference;
use warpweft_native::prelude::*;

fn main() -> Result<()> {
    for preference in [Preference::Cpu, Preference::Software] {
        let device = Device::with_sync(preference)?;
        println!("{}", device.info().name);
        let most: usize = std::env::args().nth(1).and_then(|s| s.parse().ok()).unwrap_or(1000);
        for steps in [100, 1000, 4000].into_iter().filter(|&s| s <= most) {
            measure(&device, steps)?;
        }
    }
    Ok(())
}

fn measure(device: &Device, steps: usize) -> Result<()> {
    let (width, batch) = (64, 8);
    let w = device.normal(&[width, width], 0.0, 0.1, 1)?;
    let u = device.normal(&[width, width], 0.0, 0.1, 2)?;
    let b = device.normal(&[width], 0.0, 0.1, 3)?;
    let x = device.normal(&[steps, batch, width], 0.0, 1.0, 4)?;
    for t in [&w, &u, &b, &x] {
        t.read_sync::<f32>()?;
    }
    let once = |which: usize| -> Result<()> {
        let before = device.stats();
        let start = Instant::now();
        let mut h = device.zeros(&[batch, width])?;
        for t in 0..steps {
            h = (x.select(0, t as isize)?.matmul(&w)? + h.matmul(&u)? + &b).tanh();
        }
        let loss = h.square().sum(())?;
        let recorded = start.elapsed();
        let wrt: Vec<&Tensor> = match which {
            0 => vec![],
            1 => vec![&w, &u, &b],
            _ => vec![&w, &u, &b, &x],
        };
        let mut grads = if which == 0 { vec![] } else { loss.grad(&wrt)? };
        let graded = start.elapsed();
        grads.push(loss.clone());
        let mut batch = device.batch();
        for g in &grads {
            batch.add(g)?;
        }
        let plan = batch.plan()?;
        let planned = start.elapsed();
        batch.run()?;
        for g in &grads {
            g.read_sync::<f32>()?;
        }
        let all = start.elapsed();
        let after = device.stats();
        println!(
            "{steps} steps, wrt {which}: {} kernels, {} pipelines, record {:.1} grad {:.1} plan {:.1} run {:.1} ms, peak {} MB",
            plan.dispatches.len(),
            after.pipelines - before.pipelines,
            recorded.as_secs_f64() * 1e3,
            (graded - recorded).as_secs_f64() * 1e3,
            (planned - graded).as_secs_f64() * 1e3,
            (all - planned).as_secs_f64() * 1e3,
            after.peak_bytes >> 20
        );
        if std::env::var("LABELS").is_ok() {
            let mut counts = std::collections::BTreeMap::new();
            for d in &plan.dispatches {
                *counts.entry(d.label.clone()).or_insert(0) += 1;
            }
            for (label, n) in counts {
                println!("   {n} x {}", label.chars().take(160).collect::<String>());
            }
        }
        Ok(())
    };
    for which in 0..3 {
        once(which)?;
        once(which)?;
    }
    Ok(())
}
