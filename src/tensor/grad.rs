//! Gradients in reverse mode. A gradient is an ordinary tensor: recorded, computed when it is read, and differentiable again.

use super::{capture, with_op_name, Tensor, Variable};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// The gradients of this number by each of `wrt`: one tensor for each, of its shape and type. What does not go into
    /// it has a gradient of zeros. Nothing is computed yet: add the gradients to a batch, or read them.
    ///
    /// Of equal largest or smallest elements each has its share. Where a function has a kink, its gradient is the one
    /// PyTorch takes: 0 for `abs` and `relu` at 0, half for each operand of `maximum` and `minimum` that are equal; and
    /// 0 for comparisons, rounding and what chooses (indices, conditions). Gathering adds gradients up by a product with
    /// ones, whose steps are as many as indices times positions; attention's gradient holds the matrix of scores in memory.
    ///
    /// A tensor that was read before remembers how it was made, as long as it is held and one of the tensors that went
    /// into it is held: reading a loss and then taking its gradients works, and what lies between is computed again.
    /// The data this needs is kept until then; [`Tensor::detach`] lets it go. History ends at what was computed and is
    /// not held any more: gradients by what was there before are an error. Computed is what was read, run or flushed, and
    /// what a second batch had to compute again for something that was not read yet.
    ///
    /// # Errors
    /// `Shape` if this does not have exactly one element; `DType` unless all are of floats; `Data` if they live on two
    /// devices, or if a tensor on the way was computed and is not held any more, or was computed by a program; in a program
    /// that is being compiled, if a tensor from outside on the way was computed from a variable that the gradient is by;
    /// `Limit` if a gradient's intermediate is too large.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let w = device.tensor(&[1.0f32, -2.0, 3.0], &[3])?;
    /// let loss = w.square().sum(&[])?;
    /// let [gradient] = &loss.grad(&[&w])?[..] else { unreachable!() };
    /// assert_eq!(gradient.read::<f32>().await?, [2.0, -4.0, 6.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn grad(&self, wrt: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.check_one_element("grad")?;
        fill_missing(self.gradients("grad", None, wrt, false)?, wrt)
    }

    /// The gradients by the values of variables that this number was computed from; nothing where nothing of a variable goes
    /// into it: that is not a gradient of zeros. `what` is what a variable is called in errors.
    ///
    /// # Errors
    /// As [`Tensor::grad`]; `Data` if an earlier value of a variable was used, or that cannot be known.
    #[cfg_attr(feature = "js", js(skip))]
    pub(crate) fn gradients_by(
        &self,
        op: &str,
        what: &str,
        variables: &[&Variable],
    ) -> Result<Vec<Option<Tensor>>> {
        self.check_one_element(op)?;
        let values = self.values_by(op, what, variables)?;
        self.gradients(op, None, &values.iter().collect::<Vec<_>>(), true)
    }

    /// Refuses what is more than one number.
    fn check_one_element(&self, op: &str) -> Result<()> {
        self.node()?;
        if self.numel() == 1 {
            return Ok(());
        }
        let shape = self.shape;
        let message = format!(
            "{op}: the tensor must have one element, got shape {shape}; sum it, or pass a seed"
        );
        Err(Error::shape(message))
    }

    /// The vector-Jacobian product: the gradients by each of `wrt` of the sum of this times `seed`, which has its shape
    /// and type.
    ///
    /// # Errors
    /// `Shape` or `DType` if the seed is not like this; as [`Tensor::grad`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let seed = device.tensor(&[10.0f32, 100.0], &[2])?;
    /// let gradients = x.square().vjp(&seed, &[&x])?;
    /// assert_eq!(gradients[0].read::<f32>().await?, [20.0, 400.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn vjp(&self, seed: &Tensor, wrt: &[&Tensor]) -> Result<Vec<Tensor>> {
        self.check_seed("vjp", seed)?;
        fill_missing(self.gradients("vjp", Some(seed), wrt, false)?, wrt)
    }

    /// The vector-Jacobian product of several results: the gradients by each of `wrt` of the sum of all results, each
    /// times its seed. (`vjp` of JAX, `grad` of several outputs in PyTorch.)
    ///
    /// # Errors
    /// `Data` unless there is one seed for each; as [`Tensor::vjp`].
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::{device::{Device, Preference}, tensor::Tensor};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[2.0f32], &[1])?;
    /// let seed = device.ones(&[1])?;
    /// let results = [&x.square(), &x.exp2()];
    /// let gradients = Tensor::vjp_all(&results, &[&seed, &seed.mul(0.0)?], &[&x])?;
    /// assert_eq!(gradients[0].read::<f32>().await?, [4.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn vjp_all(results: &[&Tensor], seeds: &[&Tensor], wrt: &[&Tensor]) -> Result<Vec<Tensor>> {
        let name = "vjp_all";
        if results.len() != seeds.len() {
            let (results, seeds) = (results.len(), seeds.len());
            return Err(Error::data(format!(
                "{name}: there must be one seed for each result, got {seeds} seeds for {results} results"
            )));
        }
        let mut sum: Option<Tensor> = None;
        for (result, seed) in results.iter().zip(seeds) {
            result.check_seed(name, seed)?;
            let part = with_op_name(name, || {
                result.check_float(name)?;
                let part = result.mul(*seed)?.cast(DType::F32)?.sum(())?;
                sum.as_ref().map_or_else(|| Ok(part.clone()), |sum| sum.add(&part))
            })?;
            sum = Some(part);
        }
        match sum {
            Some(sum) => fill_missing(sum.gradients(name, None, wrt, false)?, wrt),
            None => Err(Error::data(format!("{name}: there must be a result, got none"))),
        }
    }

    /// Refuses a seed that is not like this.
    fn check_seed(&self, name: &str, seed: &Tensor) -> Result<()> {
        if seed.shape != self.shape {
            let must = "the seed must have the shape of its result";
            return Err(Error::shapes(name, must, &self.shape, &seed.shape));
        }
        if seed.dtype != self.dtype {
            let message = format!(
                "{name}: a seed must have the dtype of its result, got {} for {}; cast it",
                seed.dtype, self.dtype
            );
            return Err(Error::dtype(message));
        }
        Ok(())
    }

    /// What `work` makes of this tensor, computed again for gradients rather than kept until then: the values in between take
    /// no memory while the rest of a net is computed, and time for computing them twice. (`torch.utils.checkpoint` in
    /// PyTorch, `jax.checkpoint`; Chen and others 2016.) Values and gradients are the same as without, those of
    /// variables that `work` uses included. Only a second derivative by the result itself misses what the formulas of
    /// derivatives take of it, since they take what was computed again.
    /// [`nn::Checkpoint`](crate::nn::Checkpoint) is the same as a layer.
    ///
    /// What is wrapped is best a part of some layers: their input is kept for each part, and what one part has in between
    /// lies in memory once.
    ///
    /// # Errors
    /// Those of `work`; `Data` if its result lives on another device.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[1.0f32, 2.0], &[2])?;
    /// let y = x.checkpoint(|x| x.square().exp().sum(()))?;
    /// let gradient = y.grad(&[&x])?.remove(0).read::<f32>().await?;
    /// assert!((gradient[1] / (4.0 * 4.0f32.exp()) - 1.0).abs() < 1e-5);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    #[cfg_attr(feature = "js", js(skip))]
    pub fn checkpoint(&self, work: impl FnOnce(&Tensor) -> Result<Tensor>) -> Result<Tensor> {
        let since = self.device.recorded();
        let result = work(self)?;
        if !self.device.is_same(&result.device) {
            return Err(Error::wrong_device("checkpoint", "the result"));
        }
        result.set_checkpoint(since)?;
        Ok(result)
    }

    /// See [`checkpoint`](Self::checkpoint): what was recorded from the `since`-th on is computed again.
    #[cfg_attr(feature = "js", js(skip))]
    pub(crate) fn set_checkpoint(&self, since: u64) -> Result<()> {
        self.device.set_checkpoint(self.node()?, since);
        Ok(())
    }

    /// The same values, that gradients do not pass: a constant to whatever is made of it.
    ///
    /// ```
    /// # pollster::block_on(async {
    /// # use warpweft::device::{Device, Preference};
    /// let device = Device::with(Preference::Cpu).await?;
    /// let x = device.tensor(&[3.0f32], &[1])?;
    /// let loss = x.mul(&x.square().detach())?;
    /// assert_eq!(loss.grad(&[&x])?[0].read::<f32>().await?, [9.0]);
    /// # Ok::<(), warpweft::error::Error>(()) }).unwrap();
    /// ```
    pub fn detach(&self) -> Tensor {
        let same = self.alias().and_then(Tensor::into_detached);
        same.unwrap_or_else(|error| Tensor::failed(self, error))
    }

    /// `by_variables` says that `wrt` are values of variables, and were checked.
    fn gradients(
        &self,
        name: &str,
        seed: Option<&Tensor>,
        wrt: &[&Tensor],
        by_variables: bool,
    ) -> Result<Vec<Option<Tensor>>> {
        self.check_float(name)?;
        let of = self.node()?;
        let mut nodes: Vec<NodeId> = Vec::with_capacity(wrt.len());
        for other in wrt {
            nodes.push(self.float_node_on_same_device(name, other)?);
        }
        let seed = seed.map(|seed| self.float_node_on_same_device(name, seed)).transpose()?;
        if !by_variables {
            self.check_captured(name, "variable", &nodes)?;
        }
        let found = with_op_name(name, || self.device.grad(of, seed, &nodes, by_variables))?;
        let mut gradients = Vec::with_capacity(found.len());
        for node in found {
            gradients.push(node.map(|node| Tensor::adopt(&self.device, node)));
        }
        Ok(gradients)
    }

    /// Refuses gradients that end at tensors which the program that is being compiled captures, and that would go on to a
    /// variable outside: inside they would be 0. `nodes` are what the gradients are by, and `what` a variable is called in
    /// errors.
    ///
    /// # Errors
    /// `Data` if this was computed from such a tensor, or that cannot be known.
    pub(in crate::tensor) fn check_captured(
        &self,
        op: &str,
        what: &str,
        nodes: &[NodeId],
    ) -> Result<()> {
        let outside = capture::outside(&self.device, nodes);
        if outside.is_empty() {
            return Ok(());
        }
        let values: Vec<NodeId> = outside.iter().map(|(_, value)| *value).collect();
        let of = self.node()?;
        let Some(at) = with_op_name(op, || self.device.reached(of, &values))? else {
            return Ok(());
        };
        let (n, value) = outside[at];
        let (shape, _) = self.device.describe(value);
        Err(Error::data(format!(
            "{op}: tensors that a program captures are constants in it, got one that was computed outside from {what} {n} \
             {shape}, which the gradient is by; compute it in the program, take the gradient outside, or `detach` it"
        )))
    }

    /// The node of another tensor of floats on the same device.
    fn float_node_on_same_device(&self, name: &str, other: &Tensor) -> Result<NodeId> {
        let node = other.node()?;
        other.check_float(name)?;
        if !self.device.is_same(&other.device) {
            return Err(Error::wrong_device(name, "a tensor"));
        }
        Ok(node)
    }
}

/// Replaces missing gradients by zeros.
fn fill_missing(gradients: Vec<Option<Tensor>>, wrt: &[&Tensor]) -> Result<Vec<Tensor>> {
    let or_zeros = |(gradient, of): (Option<Tensor>, &&Tensor)| match gradient {
        Some(gradient) => Ok(gradient),
        None => of.full_like_named("grad", 0.0),
    };
    gradients.into_iter().zip(wrt).map(or_zeros).collect()
}
