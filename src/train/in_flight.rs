//! Limits how many training steps are in flight.

use crate::backend::Pending;
use crate::device::Device;
use crate::error::Result;
use std::collections::VecDeque;

/// The most steps that may be submitted and not finished. Three are enough that the device never waits for the next step. A
/// low limit bounds memory, and the latency of a read.
const MAX_STEPS_IN_FLIGHT: usize = 3;

/// The submissions in flight, oldest first.
#[derive(Default)]
pub(super) struct InFlight(VecDeque<Pending<Result<()>>>);

impl InFlight {
    /// Adds the last submission.
    pub fn push(&mut self, device: &Device) {
        self.0.push_back(device.synchronize());
    }

    /// Waits until fewer steps than the limit are in flight. Dropping the future loses no submission.
    pub async fn wait(&mut self) -> Result<()> {
        while self.0.len() >= MAX_STEPS_IN_FLIGHT {
            let Some(first) = self.0.front_mut() else { break };
            let done = first.as_mut().await;
            self.0.pop_front();
            done?;
        }
        Ok(())
    }
}
