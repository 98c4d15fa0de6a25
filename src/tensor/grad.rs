//! Gradients in reverse mode. A gradient is an ordinary tensor: recorded, computed when it is read, and differentiable again.

use super::{capture, with_op_name, Tensor, Variable};
use crate::dtype::DType;
use crate::error::{Error, Result};
use crate::graph::NodeId;

#[cfg_attr(feature = "js", warpweft_macros::js)]
impl Tensor {
    /// Returns the gradients of this tensor, which has one element, with respect to each tensor in `wrt`. Each gradient has
    /// the shape and type of that tensor.
    ///
    /// If this tensor does not depend on a tensor in `wrt`, that gradient is zeros. Nothing is computed yet. Read the
    /// gradients, or add them to a batch.
    ///
    /// If several elements are the largest or smallest, the gradient is divided equally among them. At kinks, gradients
    /// are those of PyTorch. They are 0 for `abs` and `relu` at 0, and half for each operand of `maximum` and `minimum`
    /// at equal values. Comparisons, rounding, indices and conditions have gradient 0.
    ///
    /// The gradient of a gather is a matrix product with a one-hot matrix that is never stored. Its cost is the number of
    /// indices times the extent of the axis. The gradient of attention stores the matrix of scores.
    ///
    /// A computed tensor keeps its history as long as it is held, and a tensor that it was computed from is held too. You can
    /// therefore read a loss and then take its gradients. Intermediate values are computed again, and the data for that stays
    /// in memory. A tensor from [`Tensor::detach`] has no history.
    ///
    /// After a computed tensor is dropped, gradients pass through it for 64 more batches, as long as all such tensors with
    /// their histories take at most 16 MiB (or a quarter of the memory in use, if that is more) and 65,536 operations. Then
    /// its history is dropped, and a gradient that would pass through it is an error. A tensor is computed when it is read,
    /// run or submitted. A batch that has to recompute an expensive node also stores it, so that node then counts as computed.
    ///
    /// # Errors
    /// `Shape` if this tensor does not have exactly one element; `DType` unless all tensors are floats; `InvalidArgument`
    /// if they are on two devices; `InvalidState` if the gradient would pass a computed tensor that was dropped long ago, or if
    /// an optimizer step has used up this tensor; `Limit` if an intermediate value is too large. While a program is compiled,
    /// `InvalidState` if the gradient by a variable would pass a tensor from outside that was computed from that variable.
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

    /// Returns the gradients of this number by the values of variables. A variable that this number does not depend on
    /// has `None`, which differs from a gradient of zeros. Errors call a variable `what`.
    ///
    /// # Errors
    /// The errors of [`Tensor::grad`]; `InvalidState` if an earlier value of a variable was used, or if dropped history leaves
    /// that open.
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

    /// Rejects a tensor that does not have exactly one element.
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

    /// Returns the vector-Jacobian product: the gradients of `sum(self * seed)` by each tensor in `wrt`. The seed has the
    /// shape and type of this tensor.
    ///
    /// # Errors
    /// `Shape` or `DType` if the seed has another shape or type; the errors of [`Tensor::grad`].
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

    /// Returns the vector-Jacobian product of several results: the gradients of the sum of all `result * seed` by each
    /// tensor in `wrt`. (`vjp` in JAX, `grad` of several outputs in PyTorch.)
    ///
    /// # Errors
    /// `InvalidArgument` unless each result has one seed; the errors of [`Tensor::vjp`].
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
            return Err(Error::argument(format!(
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
            None => Err(Error::argument(format!("{name}: there must be a result, got none"))),
        }
    }

    /// Rejects a seed of another shape or type than this tensor.
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

    /// Returns the result of `work` on this tensor. For gradients, the intermediate values are recomputed instead of
    /// kept.
    ///
    /// Checkpointing saves the memory of intermediate values, and costs the time of computing them twice. Values and
    /// gradients are the same as without it, also by variables that `work` uses. (`torch.utils.checkpoint` in PyTorch,
    /// `jax.checkpoint`; Chen et al. 2016.) [`nn::Checkpoint`](crate::nn::Checkpoint) does the same as a layer.
    ///
    /// Wrap groups of a few layers. The input of each group is kept, and only one group at a time has its intermediate
    /// values in memory.
    ///
    /// A second derivative by the result itself is incomplete, as in PyTorch. The formulas of derivatives use the
    /// recomputed result, so it misses the terms that depend on the original one.
    ///
    /// # Errors
    /// The errors of `work`; `InvalidArgument` if its result is on another device.
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

    /// Marks this tensor as a [`checkpoint`](Self::checkpoint). Gradients recompute the operations recorded from `since`
    /// on.
    #[cfg_attr(feature = "js", js(skip))]
    pub(crate) fn set_checkpoint(&self, since: u64) -> Result<()> {
        self.device.set_checkpoint(self.node()?, since);
        Ok(())
    }

    /// Returns the same values without a history, so that gradients do not pass. Operations on the result treat it as a
    /// constant.
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

    /// Returns the gradients, or `None` by tensors that this one does not depend on. If `by_variables`, `wrt` are values
    /// of variables that the caller has checked.
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

    /// Rejects gradients that would continue outside the program that is being compiled. Tensors that a program captures
    /// are constants inside it, so the gradient would be 0. `nodes` are the tensors to differentiate by, and errors call
    /// a variable `what`.
    ///
    /// # Errors
    /// `InvalidState` if this tensor was computed from a captured tensor that depends on one of `nodes`, or if dropped history
    /// leaves that open.
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
        Err(Error::state(format!(
            "{op}: inside a program, a gradient must not pass through a tensor from outside, got one that was computed from \
             {what} {n} {shape} outside; compute it in the program, take the gradient outside, or `detach` it"
        )))
    }

    /// Returns the node of a float tensor on this device. Rejects other tensors.
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
