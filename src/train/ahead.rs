//! How far recording may be ahead of the device.

use crate::backend::Pending;
use crate::device::Device;
use crate::error::Result;
use std::collections::VecDeque;

/// Steps that may be submitted and not done: enough that the device never waits for the next one, and so few that memory and
/// the time until something is read stay small.
const STEPS: usize = 3;

/// The submissions that are waited for before the next is made.
#[derive(Default)]
pub(super) struct Ahead(VecDeque<Pending<Result<()>>>);

impl Ahead {
    /// Something was submitted.
    pub fn push(&mut self, device: &Device) {
        self.0.push_back(device.sync());
    }

    /// Waits until few enough are not done. It goes on where it was if it is dropped while it waits.
    pub async fn wait(&mut self) -> Result<()> {
        while self.0.len() >= STEPS {
            let Some(first) = self.0.front_mut() else { break };
            let done = first.as_mut().await;
            self.0.pop_front();
            done?;
        }
        Ok(())
    }
}
