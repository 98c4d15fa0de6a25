//! Compute shaders that users write in WGSL.

use crate::backend::{Pending, Shared};
use crate::device::Device;
use crate::dtype::DType;
use crate::error::{Error, ErrorKind, Result};
use crate::graph::Pullback;
use crate::op::custom::Binding;
use crate::op::{Shader as Source, ShaderCall};
use crate::shape::Shape;
use crate::tensor::{number_bits, Tensor};
use std::fmt;
use std::sync::{Arc, Mutex, PoisonError};

/// A function of tensors that replaces the shader on a CPU.
trait Fallback: Shared {
    fn run(&self, inputs: &[Tensor], params: &[f64]) -> Result<Vec<Tensor>>;
}

impl<F: Fn(&[Tensor], &[f64]) -> Result<Vec<Tensor>> + Shared> Fallback for F {
    fn run(&self, inputs: &[Tensor], params: &[f64]) -> Result<Vec<Tensor>> {
        self(inputs, params)
    }
}

/// A function that returns the gradients by a shader's inputs.
trait Gradient: Shared {
    fn by(&self, inputs: &[Tensor], outputs: &[Tensor], of: &[Tensor]) -> Result<Vec<Tensor>>;
}

impl<F: Fn(&[Tensor], &[Tensor], &[Tensor]) -> Result<Vec<Tensor>> + Shared> Gradient for F {
    fn by(&self, inputs: &[Tensor], outputs: &[Tensor], of: &[Tensor]) -> Result<Vec<Tensor>> {
        self(inputs, outputs, of)
    }
}

/// Recorded gradients, by the shapes of inputs and results.
type PullbackCache = Mutex<Vec<(Vec<Shape>, Arc<Pullback>)>>;

/// The most recorded gradients to keep.
const MAX_CACHED_PULLBACKS: usize = 16;

/// A gradient function, and its recordings.
struct Given {
    by: Box<dyn Gradient>,
    known: PullbackCache,
}

impl Device {
    /// Compiles a compute shader written in WGSL, whose entry point is `main`.
    ///
    /// In group 0 it binds, in this order:
    ///
    /// - at 0 a uniform with its numbers, if there are any: one number, or a structure of `f32`, `i32` and `u32`;
    /// - the inputs, `var<storage, read>`;
    /// - the outputs, `var<storage, read_write>`.
    ///
    /// Inputs and outputs are arrays of `f32`, `i32`, `u32` or `f16`, or of `vec2` and `vec4` of these.
    ///
    /// Elements that the shader does not write are undefined. Buffers may be longer than their tensors, so pass sizes as
    /// numbers or constants, and do not use `arrayLength`. Accesses outside a buffer are clamped or ignored, as WebGPU
    /// specifies.
    ///
    /// Shaders run on GPUs only. A CPU uses [`Shader::with_fallback`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let shader = device.shader("
    ///     @group(0) @binding(0) var<uniform> size: u32;
    ///     @group(0) @binding(1) var<storage, read> x: array<f32>;
    ///     @group(0) @binding(2) var<storage, read_write> reversed: array<f32>;
    ///     @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3<u32>) {
    ///         if (id.x < size) { reversed[id.x] = x[size - 1u - id.x]; }
    ///     }").await?.with_fallback(|x, _| Ok(vec![x[0].flip(&[0])?]));
    /// let x = device.tensor(&[1.0f32, 2.0, 3.0], &[3])?;
    /// let y = shader.run(&[("x", &x)], &[("reversed", &[3])], [1, 1, 1], &[("size", 3.0)])?;
    /// assert_eq!(y[0].read::<f32>().await?, [3.0, 2.0, 1.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    ///
    /// # Errors
    /// `InvalidArgument` with line and column if the source is not such a shader. In a browser, the message is that of its
    /// compiler.
    pub fn shader(&self, source: &str) -> Pending<Result<Shader>> {
        let (device, source) = (self.clone(), parse_shader(source));
        Box::pin(async move {
            let source = source?;
            let checked = device.check_source(source.source());
            let compiled = checked.is_some();
            if compiled && source.f16 && !device.limits().f16 {
                let message =
                    format!("shader: the device must have f16, got {}", device.info().name);
                return Err(Error::new(ErrorKind::Unsupported, message));
            }
            if let Some(checked) = checked {
                let prefixed =
                    |error: Error| Error::new(error.kind(), format!("shader: {}", error.message()));
                checked.await.map_err(prefixed)?;
            }
            let source = Arc::new(source);
            Ok(Shader { device, source, compiled, gradient: None, fallback: None })
        })
    }
}

fn parse_shader(source: &str) -> Result<Source> {
    let parsed = Source::parse(source)?;
    #[cfg(all(not(target_arch = "wasm32"), any(feature = "gpu", feature = "cpu")))]
    crate::op::custom::check_shader(&parsed)?;
    Ok(parsed)
}

/// A compute shader written in WGSL, from [`Device::shader`]. Clones share it.
#[derive(Clone)]
pub struct Shader {
    device: Device,
    source: Arc<Source>,
    /// Whether the device accepts WGSL.
    compiled: bool,
    gradient: Option<Arc<Given>>,
    fallback: Option<Arc<dyn Fallback>>,
}

impl Shader {
    /// The names and types of the tensors that the shader reads, in order.
    pub fn inputs(&self) -> Vec<(&str, DType)> {
        self.source.inputs.iter().map(|binding| (&binding.name[..], binding.dtype)).collect()
    }

    /// The names and types of the tensors that the shader writes, in order.
    pub fn outputs(&self) -> Vec<(&str, DType)> {
        self.source.outputs.iter().map(|binding| (&binding.name[..], binding.dtype)).collect()
    }

    /// The names and types of the numbers in the uniform, in order.
    pub fn params(&self) -> Vec<(&str, DType)> {
        self.source.params.iter().map(|binding| (&binding.name[..], binding.dtype)).collect()
    }

    /// Adds a gradient to the shader. The function gets the inputs, the results and the gradients of the results, in the
    /// order of their bindings. It returns the gradient by each input. Gradients by integers are ignored.
    ///
    /// The function is called once for each combination of shapes, with placeholders, and must not use other tensors.
    pub fn with_gradient(
        &self,
        gradient: impl Fn(&[Tensor], &[Tensor], &[Tensor]) -> Result<Vec<Tensor>> + Shared + 'static,
    ) -> Shader {
        let given = Given { by: Box::new(gradient), known: PullbackCache::default() };
        Shader { gradient: Some(Arc::new(given)), ..self.clone() }
    }

    /// Adds a function of tensors that replaces the shader on a CPU. It gets the inputs and numbers, in the order of
    /// their bindings. Gradients are then those of this function.
    pub fn with_fallback(
        &self,
        fallback: impl Fn(&[Tensor], &[f64]) -> Result<Vec<Tensor>> + Shared + 'static,
    ) -> Shader {
        Shader { fallback: Some(Arc::new(fallback)), ..self.clone() }
    }

    /// Records a run of the shader. Returns the results, in the order of their bindings.
    ///
    /// `inputs` and `params` are the tensors and numbers by name, and `outputs` has the shapes of the results.
    /// `workgroups` is the number of workgroups along each dimension.
    ///
    /// # Errors
    /// `InvalidArgument` for names that are unknown or missing, and for tensors on another device; `DType` if a tensor has
    /// another type than its binding; `Shape` for tensors without elements; `Limit` for more workgroups or tensors than the
    /// device supports; `Unsupported` on a CPU without a fallback.
    pub fn run(
        &self,
        inputs: &[(&str, &Tensor)],
        outputs: &[(&str, &[usize])],
        workgroups: [u32; 3],
        params: &[(&str, f64)],
    ) -> Result<Vec<Tensor>> {
        let mut tensors = Vec::with_capacity(inputs.len());
        for tensor in match_by_name("input", &self.source.inputs, inputs)? {
            if !self.device.is_same(&tensor.device) {
                return Err(Error::wrong_device("shader", "an input"));
            }
            tensors.push(tensor.clone());
        }
        let mut shapes = Vec::with_capacity(outputs.len());
        for dims in match_by_name("output", &self.source.outputs, outputs)? {
            shapes.push(Shape::new("shader", dims)?);
        }
        let numbers = match_by_name("number", &self.source.params, params)?;
        let most = self.device.limits().workgroups;
        if let Some(count) = workgroups.iter().find(|&&count| count > most) {
            let message = format!(
                "shader: there must be at most {most} workgroups along each dimension on this device, got {count}"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let shader = self.source.clone();
        let call = Arc::new(ShaderCall { shader, outputs: shapes, workgroups });
        let (buffers, most) =
            (inputs.len() + outputs.len(), self.device.limits().buffers_per_kernel);
        if buffers > most {
            let message = format!(
                "shader: there must be at most {most} tensors on this device, got {buffers}"
            );
            return Err(Error::new(ErrorKind::Limit, message));
        }
        let mut types: Vec<_> = tensors.iter().map(|tensor| (tensor.shape, tensor.dtype)).collect();
        types.extend(self.source.params.iter().map(|number| (Shape::SCALAR, number.dtype)));
        call.check(&types)?;
        let mut bits = Vec::with_capacity(numbers.len());
        for (binding, &number) in self.source.params.iter().zip(&numbers) {
            bits.push(number_bits("shader", binding.dtype, number)?);
        }
        if !self.compiled {
            return self.fall_back(&call, &tensors, &numbers);
        }
        let mut nodes = Vec::with_capacity(tensors.len() + numbers.len());
        for tensor in &tensors {
            nodes.push(tensor.node()?);
        }
        let mut held = Vec::with_capacity(numbers.len());
        for (binding, bits) in self.source.params.iter().zip(bits) {
            let node = self.device.scalar(binding.dtype, bits);
            held.push(Tensor::adopt(&self.device, node));
            nodes.push(node);
        }
        let pullback = match &self.gradient {
            Some(given) => Some(self.pullback(given, &call, &tensors)?),
            None => None,
        };
        let made = self.device.record_shader(&call, &nodes, pullback)?;
        Ok(made.into_iter().map(|node| Tensor::adopt(&self.device, node)).collect())
    }

    fn fall_back(
        &self,
        call: &ShaderCall,
        tensors: &[Tensor],
        numbers: &[f64],
    ) -> Result<Vec<Tensor>> {
        let Some(fallback) = &self.fallback else {
            let message = "shader: a shader is not supported on the CPU; give it a fallback made of tensor operations: \
                `with_fallback` (`fallback` in JavaScript)";
            return Err(Error::new(ErrorKind::Unsupported, message));
        };
        let results = fallback.run(tensors, numbers)?;
        let want: Vec<_> = (0..call.outputs.len()).map(|n| call.output(n)).collect();
        let have: Vec<_> = results.iter().map(|x| (x.shape, x.dtype)).collect();
        if have == want {
            return Ok(results);
        }
        let list = |kinds: &[(Shape, DType)]| {
            let kinds: Vec<_> =
                kinds.iter().map(|(shape, dtype)| format!("{dtype} {shape}")).collect();
            if kinds.is_empty() {
                "none".to_string()
            } else {
                kinds.join(", ")
            }
        };
        let (want, have) = (list(&want), list(&have));
        Err(Error::argument(format!(
            "shader: the fallback must return the outputs {want}, got {have}"
        )))
    }

    /// Returns the recorded gradient for inputs of these shapes.
    fn pullback(
        &self,
        given: &Given,
        call: &ShaderCall,
        tensors: &[Tensor],
    ) -> Result<Arc<Pullback>> {
        let key: Vec<Shape> = tensors.iter().map(|x| x.shape).chain(call.outputs.clone()).collect();
        let lock = || given.known.lock().unwrap_or_else(PoisonError::into_inner);
        if let Some((_, known)) = lock().iter().find(|(shapes, _)| *shapes == key) {
            return Ok(known.clone());
        }
        let stand_in =
            |shape, dtype| Tensor::adopt(&self.device, self.device.placeholder(shape, dtype));
        let inputs: Vec<Tensor> = tensors.iter().map(|x| stand_in(x.shape, x.dtype)).collect();
        let results = || -> Vec<Tensor> {
            let all = (0..call.outputs.len()).map(|n| call.output(n));
            all.map(|(shape, dtype)| stand_in(shape, dtype)).collect()
        };
        let (outputs, of) = (results(), results());
        // On an eager device, constants in the function would be computed at once.
        let gradients = self.device.lazily(|| given.by.by(&inputs, &outputs, &of))?;
        if gradients.len() != inputs.len() {
            let (have, want) = (gradients.len(), inputs.len());
            return Err(Error::argument(format!(
                "shader: there must be one gradient for each of {want} inputs, got {have}"
            )));
        }
        let (mut nodes, mut operands) = (Vec::new(), Vec::new());
        for (gradient, input) in gradients.iter().zip(&inputs) {
            if input.dtype.is_float()
                && (gradient.shape, gradient.dtype) != (input.shape, input.dtype)
            {
                let message = format!(
                    "shader: a gradient must have the dtype and shape of its input, got {} {} for {} {}",
                    gradient.dtype, gradient.shape, input.dtype, input.shape
                );
                return Err(Error::shape(message));
            }
            nodes.push(gradient.node()?);
        }
        for operand in inputs.iter().chain(&outputs).chain(&of) {
            operands.push(operand.node()?);
        }
        let pullback = Arc::new(self.device.pullback(&operands, &nodes)?);
        let mut known = lock();
        if known.len() == MAX_CACHED_PULLBACKS {
            known.remove(0);
        }
        known.push((key, pullback.clone()));
        Ok(pullback)
    }
}

/// Returns the values given by name, in the order of the bindings.
fn match_by_name<T: Copy>(kind: &str, wanted: &[Binding], given: &[(&str, T)]) -> Result<Vec<T>> {
    let names = || {
        let names: Vec<String> = wanted.iter().map(|b| format!("`{}`", b.name)).collect();
        names.join(", ")
    };
    if let Some((name, _)) = given.iter().find(|(name, _)| !wanted.iter().any(|b| b.name == *name))
    {
        return Err(Error::argument(format!(
            "shader: a {kind} must be one of {}, got `{name}`",
            names()
        )));
    }
    let mut found = Vec::with_capacity(wanted.len());
    for binding in wanted {
        let mut all = given.iter().filter(|(name, _)| *name == binding.name);
        match (all.next(), all.next()) {
            (Some((_, value)), None) => found.push(*value),
            (None, _) => {
                let message =
                    format!("shader: the {kind} `{}` must be given, got none", binding.name);
                return Err(Error::argument(message));
            }
            _ => {
                let message = format!(
                    "shader: the {kind} `{}` must be given once, got it twice",
                    binding.name
                );
                return Err(Error::argument(message));
            }
        }
    }
    Ok(found)
}

impl fmt::Debug for Shader {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Shader({:?} -> {:?})", self.inputs(), self.outputs())
    }
}
