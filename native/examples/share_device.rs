//! An app that shares its wgpu device: tensors compute an image on it, and the app's render pipeline draws the image from the
//! same memory.
//! `cargo run -p warpweft-native --example share_device --features wgpu-interop`

use pollster::block_on;
use std::error::Error;
use warpweft_native::interop::wgpu;
use warpweft_native::prelude::*;

/// The width and height in pixels.
const SIZE: usize = 64;

/// Draws a triangle that covers everything, with the color of each pixel from the buffer.
const SHADER: &str = "
    @group(0) @binding(0) var<storage, read> image: array<f32>;

    @vertex fn vertex(@builtin(vertex_index) i: u32) -> @builtin(position) vec4f {
        return vec4f(vec2f(f32(i & 1u) * 4.0 - 1.0, f32(i >> 1u) * 4.0 - 1.0), 0.0, 1.0);
    }

    @fragment fn fragment(@builtin(position) at: vec4f) -> @location(0) vec4f {
        let first = 3u * (u32(at.y) * 64u + u32(at.x));
        return vec4f(image[first], image[first + 1u], image[first + 2u], 1.0);
    }";

const FORMAT: wgpu::TextureFormat = wgpu::TextureFormat::Rgba8Unorm;

type Outcome<T> = std::result::Result<T, Box<dyn Error>>;

/// The objects that an app has anyway.
struct App {
    device: wgpu::Device,
    queue: wgpu::Queue,
    pipeline: wgpu::RenderPipeline,
}

impl App {
    fn new(device: wgpu::Device, queue: wgpu::Queue) -> App {
        let module = device.create_shader_module(wgpu::ShaderModuleDescriptor {
            label: None,
            source: wgpu::ShaderSource::Wgsl(SHADER.into()),
        });
        let pipeline = device.create_render_pipeline(&wgpu::RenderPipelineDescriptor {
            label: None,
            layout: None,
            vertex: wgpu::VertexState {
                module: &module,
                entry_point: None,
                compilation_options: Default::default(),
                buffers: &[],
            },
            fragment: Some(wgpu::FragmentState {
                module: &module,
                entry_point: None,
                compilation_options: Default::default(),
                targets: &[Some(FORMAT.into())],
            }),
            primitive: Default::default(),
            depth_stencil: None,
            multisample: Default::default(),
            multiview_mask: None,
            cache: None,
        });
        App { device, queue, pipeline }
    }

    /// Draws the image into a texture. Returns its pixels, four bytes each.
    fn draw(&self, image: &wgpu::Buffer) -> Outcome<Vec<u8>> {
        let (device, side) = (&self.device, SIZE as u32);
        let size = wgpu::Extent3d { width: side, height: side, depth_or_array_layers: 1 };
        let texture = device.create_texture(&wgpu::TextureDescriptor {
            label: None,
            size,
            mip_level_count: 1,
            sample_count: 1,
            dimension: wgpu::TextureDimension::D2,
            format: FORMAT,
            usage: wgpu::TextureUsages::RENDER_ATTACHMENT | wgpu::TextureUsages::COPY_SRC,
            view_formats: &[],
        });
        let view = texture.create_view(&Default::default());
        let group = device.create_bind_group(&wgpu::BindGroupDescriptor {
            label: None,
            layout: &self.pipeline.get_bind_group_layout(0),
            entries: &[wgpu::BindGroupEntry { binding: 0, resource: image.as_entire_binding() }],
        });
        let mut encoder = device.create_command_encoder(&Default::default());
        {
            let mut pass = encoder.begin_render_pass(&wgpu::RenderPassDescriptor {
                color_attachments: &[Some(wgpu::RenderPassColorAttachment {
                    view: &view,
                    depth_slice: None,
                    resolve_target: None,
                    ops: Default::default(),
                })],
                ..Default::default()
            });
            pass.set_pipeline(&self.pipeline);
            pass.set_bind_group(0, &group, &[]);
            pass.draw(0..3, 0..1);
        }
        let bytes = device.create_buffer(&wgpu::BufferDescriptor {
            label: None,
            size: u64::from(4 * side * side),
            usage: wgpu::BufferUsages::MAP_READ | wgpu::BufferUsages::COPY_DST,
            mapped_at_creation: false,
        });
        let layout = wgpu::TexelCopyBufferLayout {
            offset: 0,
            bytes_per_row: Some(4 * side),
            rows_per_image: None,
        };
        let target = wgpu::TexelCopyBufferInfo { buffer: &bytes, layout };
        encoder.copy_texture_to_buffer(texture.as_image_copy(), target, size);
        self.queue.submit([encoder.finish()]);
        bytes.map_async(wgpu::MapMode::Read, .., |mapped| mapped.expect("it is the app's"));
        device.poll(wgpu::PollType::wait_indefinitely())?;
        let pixels = bytes.get_mapped_range(..)?.to_vec();
        Ok(pixels)
    }
}

/// Computes rings of three colors, `[SIZE, SIZE, 3]` from 0 to 1.
fn rings(device: &Device) -> Result<Tensor> {
    let line = device.linspace(-1.0, 1.0, SIZE)?;
    let (x, y) = (line.reshape(&[1, SIZE, 1])?, line.reshape(&[SIZE, 1, 1])?);
    let radius = x.square().add(&y.square())?.sqrt();
    let phases = device.tensor(&[0.0f32, 2.0, 4.0], &[1, 1, 3])?;
    radius.mul(12.0)?.add(&phases)?.sin().mul(0.5)?.add(0.5)
}

/// Draws, and compares each pixel with the result of the CPU. Returns the number of correct pixels and of all pixels, or `None`
/// without an adapter.
pub fn run() -> Outcome<Option<(usize, usize)>> {
    let instance = wgpu::Instance::new(wgpu::InstanceDescriptor::new_without_display_handle());
    let Ok(adapter) = block_on(instance.request_adapter(&Default::default())) else {
        return Ok(None);
    };
    let (gpu, queue) = block_on(adapter.request_device(&Default::default()))?;
    let app = App::new(gpu.clone(), queue.clone());

    let device = Device::from_wgpu(&adapter, gpu, queue)?;
    let image = rings(&device)?.wgpu_buffer()?;
    let pixels = app.draw(&image)?;

    let expected: Vec<f32> = rings(&Device::with_blocking(Preference::Cpu)?)?.read_blocking()?;
    let right = |(pixel, colour): (&[u8], &[f32])| {
        let near = |(&byte, &part): (&u8, &f32)| (f32::from(byte) - part * 255.0).abs() < 1.0;
        pixel.iter().zip(colour).all(near) && pixel[3] == 255
    };
    let both = || pixels.chunks_exact(4).zip(expected.chunks_exact(3));
    Ok(Some((both().filter(|&pair| right(pair)).count(), both().count())))
}

#[allow(dead_code)]
fn main() -> Outcome<()> {
    match run()? {
        None => println!("there is no GPU that wgpu knows of"),
        Some((right, all)) => println!("{right} of {all} pixels are as computed"),
    }
    Ok(())
}
