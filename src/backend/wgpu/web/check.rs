//! Validation of custom WGSL by the browser.

use super::Gpu;
use crate::backend::Pending;
use crate::error::{Error, Result};
use std::borrow::Cow;
use wgpu::CompilationMessageType;

impl Gpu {
    /// Compiles a module, and returns the first error of the browser with its line and column.
    pub(in super::super) fn check(&self, text: &str) -> Pending<Result<()>> {
        self.flush();
        self.scopes.push();
        let module = self.device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(Cow::Borrowed(text)),
        });
        let failed = self.scopes.quiet();
        Box::pin(async move {
            let info = module.get_compilation_info().await;
            let first = info
                .messages
                .into_iter()
                .find(|message| matches!(message.message_type, CompilationMessageType::Error));
            if let Some(message) = first {
                let position = message
                    .location
                    .map(|at| format!("line {}, column {}: ", at.line_number, at.line_position));
                return Err(Error::argument(position.unwrap_or_default() + &message.message));
            }
            failed.await.map_or(Ok(()), Err)
        })
    }
}
