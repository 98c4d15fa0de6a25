//! Sharing with an app: its device, and buffers of both sides.

use super::adapters::on;
use super::deferred::DeferredResult;
use super::error_log::lock;
use super::platform;
use super::WgpuBackend;
use crate::backend::{BufferId, Info};
use crate::error::{Error, ErrorKind, Result};
use crate::kernel::Limits;

impl WgpuBackend {
    /// Creates a backend on a device that an app opened. The app keeps the device.
    ///
    /// # Errors
    /// `NoDevice` if the device cannot compute, or belongs to another adapter; `Limit` if it was opened with too low limits.
    pub fn lent(
        adapter: &wgpu::Adapter,
        device: wgpu::Device,
        queue: wgpu::Queue,
    ) -> Result<WgpuBackend> {
        let operation = "from_wgpu";
        let (info, could) = platform::known(adapter, &device)
            .map_err(|why| Error::new(ErrorKind::NoDevice, format!("{operation}: {why}")))?;
        WgpuBackend::on_lent(info, &could, (device, queue), operation)
    }

    /// Creates a backend on a device with known limits. Errors name `operation`.
    pub(super) fn on_lent(
        info: Info,
        could: &Limits,
        opened: (wgpu::Device, wgpu::Queue),
        operation: &str,
    ) -> Result<WgpuBackend> {
        let has = platform::has(&opened.0, could);
        let needed = [
            // A result and the operands of most operations. Operations with more operands return an error.
            ("storage buffers per shader stage", has.buffers_per_kernel as u64, 4),
            ("invocations per workgroup", has.workgroup_size.into(), 256),
            ("bytes of workgroup storage", has.workgroup_bytes.into(), 16 << 10),
        ];
        if let Some((limit, has, needed)) = needed.iter().find(|(_, has, needed)| has < needed) {
            let message =
                format!("{operation}: the device must be opened with {needed} {limit}, got {has}");
            return Err(Error::new(ErrorKind::Limit, message));
        }
        on(info, could, opened, true)
    }

    /// Borrows a buffer of the app. It must be freed as often as it is borrowed, and the app's buffer stays as it is.
    ///
    /// # Errors
    /// `InvalidArgument` if the buffer belongs to another device or was destroyed. In a browser this error comes later.
    pub fn take(&self, buffer: &wgpu::Buffer) -> Result<BufferId> {
        let operation = "tensor_from_wgpu";
        self.gpu.errors.check(operation)?;
        let mut state = lock(&self.state);
        let there = match state.buffers.borrowed(buffer) {
            Some(_) => DeferredResult::default(),
            None => self.probe(operation, buffer)?,
        };
        state.buffers.borrow(buffer, there)
    }

    /// Binds a buffer once to test whether it can be bound.
    fn probe(&self, operation: &str, buffer: &wgpu::Buffer) -> Result<DeferredResult> {
        let there = DeferredResult::default();
        let device = &self.gpu.device;
        let (_, error) = self.gpu.watch(operation, Some(&there), || {
            let layout = device.create_bind_group_layout(&wgpu::BindGroupLayoutDescriptor {
                label: None,
                entries: &[wgpu::BindGroupLayoutEntry {
                    binding: 0,
                    visibility: wgpu::ShaderStages::COMPUTE,
                    ty: wgpu::BindingType::Buffer {
                        ty: wgpu::BufferBindingType::Storage { read_only: true },
                        has_dynamic_offset: false,
                        min_binding_size: None,
                    },
                    count: None,
                }],
            });
            let binding =
                wgpu::BufferBinding { buffer, offset: 0, size: wgpu::BufferSize::new(16) };
            let resource = wgpu::BindingResource::Buffer(binding);
            device.create_bind_group(&wgpu::BindGroupDescriptor {
                label: None,
                layout: &layout,
                entries: &[wgpu::BindGroupEntry { binding: 0, resource }],
            })
        });
        match error {
            // The buffer is wrong, not the device.
            Some(error) => Err(Error::argument(error.message())),
            None => Ok(there),
        }
    }

    /// Returns a buffer as a wgpu buffer.
    ///
    /// # Errors
    /// The error of the buffer's contents, as far as it is known.
    pub fn show(&self, id: BufferId) -> Result<wgpu::Buffer> {
        let operation = "wgpu_buffer";
        self.gpu.errors.check(operation)?;
        let state = lock(&self.state);
        let memory = state.buffers.get(operation, id)?;
        match memory.written.error() {
            Some(error) => Err(error.clone()),
            None => Ok(memory.held.buffer.clone()),
        }
    }
}
