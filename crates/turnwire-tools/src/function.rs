//! A Rust function as a tool.
//!
//! The function takes its arguments as a type of its own. The schema for the model is derived from
//! that type, so the two cannot diverge.

use std::{borrow::Cow, fmt, time::Duration};

use async_trait::async_trait;
use futures::{FutureExt, future::BoxFuture};
use schemars::{JsonSchema, Schema, SchemaGenerator, json_schema};
use serde::{Deserialize, de::DeserializeOwned};
use serde_json::{Map, Value};
use turnwire_contract::{Effect, Tool, ToolContext, ToolError, ToolOutput, ToolRequest, ToolSpec};

use crate::{Result, output::IntoToolOutput, schema::schema_of};

/// A typed async function that the model can call.
///
/// `A` is a struct that implements `Deserialize` and `JsonSchema`. The doc comments on its fields
/// are the descriptions for the model. Use [`NoArguments`] for a function without arguments.
///
/// ```
/// use std::time::Duration;
/// use turnwire_contract::Effect;
/// use turnwire_tools::FunctionTool;
///
/// #[derive(serde::Deserialize, schemars::JsonSchema)]
/// struct Divide {
///     /// The dividend.
///     dividend: f64,
///     /// The divisor; not 0.
///     divisor: f64,
/// }
///
/// let divide = FunctionTool::new("divide", "Divides two numbers.", |numbers: Divide| async move {
///     if numbers.divisor == 0.0 {
///         return Err("nothing can be divided by 0");
///     }
///     Ok(numbers.dividend / numbers.divisor)
/// })
/// .effect(Effect::Pure)
/// .parallel()
/// .timeout(Duration::from_secs(5))
/// .label(|numbers| format!("{} / {}", numbers.dividend, numbers.divisor));
/// ```
///
/// The defaults are conservative: a call is never repeated ([`Effect::Once`]) and never concurrent
/// with another.
///
/// A function of another shape does not compile. Its arguments need a schema:
///
/// ```compile_fail,E0277
/// use turnwire_tools::FunctionTool;
///
/// struct Opaque;
/// FunctionTool::new("opaque", "Has no schema.", |_: Opaque| async move { "done" });
/// ```
///
/// It takes one argument:
///
/// ```compile_fail,E0593
/// use turnwire_tools::{FunctionTool, NoArguments};
///
/// FunctionTool::new("two", "Takes too many.", |_: NoArguments, _: NoArguments| async move { 2 });
/// ```
///
/// Its result implements [`IntoToolOutput`]:
///
/// ```compile_fail,E0277
/// use turnwire_tools::{FunctionTool, NoArguments};
///
/// struct Opaque;
/// FunctionTool::new("opaque", "Cannot be read.", |_: NoArguments| async move { Opaque });
/// ```
pub struct FunctionTool<A> {
    spec: ToolSpec,
    work: Work<A>,
    label: Option<Label<A>>,
    short_result: Option<ShortResult>,
}

/// The function, with its type erased.
type Work<A> =
    Box<dyn Fn(A, CallEnvironment) -> BoxFuture<'static, Result<ToolOutput>> + Send + Sync>;
type Label<A> = Box<dyn Fn(&A) -> String + Send + Sync>;
type ShortResult = Box<dyn Fn(&ToolOutput) -> String + Send + Sync>;

/// What a function can use besides its arguments.
struct CallEnvironment {
    idempotency_key: String,
    context: ToolContext,
}

impl<A> FunctionTool<A>
where
    A: DeserializeOwned + JsonSchema + 'static,
{
    /// Creates a tool from a function of its arguments.
    ///
    /// The function returns its result directly, or a `Result` with any error that implements
    /// `Display`. The model gets the text of the error, so it should say what to do.
    pub fn new<F, Fut>(name: impl Into<String>, description: impl Into<String>, function: F) -> Self
    where
        F: Fn(A) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolOutput> + Send + 'static,
    {
        Self::of(name.into(), description.into(), move |arguments, _| function(arguments))
    }

    /// Creates a tool that can report progress and check for cancellation.
    ///
    /// ```
    /// use turnwire_contract::ToolContext;
    /// use turnwire_tools::FunctionTool;
    ///
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Crawl {
    ///     /// URLs of the pages.
    ///     pages: Vec<String>,
    /// }
    ///
    /// let crawl = FunctionTool::with_context(
    ///     "crawl",
    ///     "Reads pages.",
    ///     |crawl: Crawl, context: ToolContext| async move {
    ///         let total = crawl.pages.len() as f64;
    ///         for (done, page) in crawl.pages.iter().enumerate() {
    ///             context.progress_with(done as f64, total, format!("reading {page}")).await;
    ///         }
    ///         format!("read {total} pages")
    ///     },
    /// );
    /// ```
    pub fn with_context<F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        F: Fn(A, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolOutput> + Send + 'static,
    {
        Self::of(name.into(), description.into(), move |arguments, rest| {
            function(arguments, rest.context)
        })
    }

    /// Creates a tool whose calls may be repeated after a crash, because it uses the idempotency
    /// key of the call, which is the same for every attempt: [`Effect::Idempotent`].
    ///
    /// ```
    /// use turnwire_contract::ToolContext;
    /// use turnwire_tools::FunctionTool;
    ///
    /// # async fn pay(_cents: u64, _key: &str) -> String { String::new() }
    /// #[derive(serde::Deserialize, schemars::JsonSchema)]
    /// struct Order {
    ///     cents: u64,
    /// }
    ///
    /// let order = FunctionTool::with_key(
    ///     "order",
    ///     "Orders lunch.",
    ///     |order: Order, key: String, _: ToolContext| async move { pay(order.cents, &key).await },
    /// );
    /// ```
    pub fn with_key<F, Fut>(
        name: impl Into<String>,
        description: impl Into<String>,
        function: F,
    ) -> Self
    where
        F: Fn(A, String, ToolContext) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolOutput> + Send + 'static,
    {
        Self::of(name.into(), description.into(), move |arguments, rest| {
            function(arguments, rest.idempotency_key, rest.context)
        })
        .effect(Effect::Idempotent)
    }

    fn of<F, Fut>(name: String, description: String, function: F) -> Self
    where
        F: Fn(A, CallEnvironment) -> Fut + Send + Sync + 'static,
        Fut: Future<Output: IntoToolOutput> + Send + 'static,
    {
        Self {
            spec: ToolSpec { parameters: schema_of::<A>(), ..ToolSpec::new(name, description) },
            work: Box::new(move |arguments, rest| {
                function(arguments, rest).map(IntoToolOutput::into_tool_output).boxed()
            }),
            label: None,
            short_result: None,
        }
    }

    /// Sets the effect class, which decides whether a call may be repeated.
    pub fn effect(mut self, effect: Effect) -> Self {
        self.spec.effect = effect;
        self
    }

    /// Allows concurrent execution with other calls of the same answer.
    pub fn parallel(mut self) -> Self {
        self.spec.parallel = true;
        self
    }

    /// Requires approval for each call.
    pub fn needs_approval(mut self) -> Self {
        self.spec.needs_approval = true;
        self
    }

    /// Sets the maximum time without a report, in place of the run's limit.
    pub fn timeout(mut self, timeout: Duration) -> Self {
        self.spec.timeout = Some(timeout);
        self
    }

    /// Sets the arguments to use in labels, most significant first.
    pub fn telling<N: Into<String>>(mut self, arguments: impl IntoIterator<Item = N>) -> Self {
        self.spec.telling_arguments = arguments.into_iter().map(Into::into).collect();
        self
    }

    /// Sets the function that describes the arguments for display.
    pub fn label<S: Into<String>>(
        mut self,
        label: impl Fn(&A) -> S + Send + Sync + 'static,
    ) -> Self {
        self.label = Some(Box::new(move |arguments| label(arguments).into()));
        self
    }

    /// Sets the function that describes the result for display.
    pub fn short_result<S: Into<String>>(
        mut self,
        short_result: impl Fn(&ToolOutput) -> S + Send + Sync + 'static,
    ) -> Self {
        self.short_result = Some(Box::new(move |output| short_result(output).into()));
        self
    }
}

#[async_trait]
impl<A> Tool for FunctionTool<A>
where
    A: DeserializeOwned + 'static,
{
    fn spec(&self) -> &ToolSpec {
        &self.spec
    }

    async fn call(&self, request: ToolRequest, context: ToolContext) -> Result<ToolOutput> {
        let ToolRequest { arguments, idempotency_key, .. } = request;
        let working = (self.work)(typed(arguments)?, CallEnvironment { idempotency_key, context });
        working.await
    }

    fn label(&self, arguments: &Map<String, Value>) -> Option<String> {
        let label = self.label.as_ref()?;
        // Invalid arguments have no label. The call itself reports the error.
        typed(arguments.clone()).ok().map(|arguments| label(&arguments))
    }

    fn short_result(&self, output: &ToolOutput) -> Option<String> {
        self.short_result.as_ref().map(|short_result| short_result(output))
    }
}

impl<A> fmt::Debug for FunctionTool<A> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("FunctionTool").field("spec", &self.spec).finish_non_exhaustive()
    }
}

/// Deserializes the arguments. The error contains the path of the invalid field.
pub(crate) fn typed<A: DeserializeOwned>(arguments: Map<String, Value>) -> Result<A> {
    serde_path_to_error::deserialize(Value::Object(arguments))
        .map_err(|error| ToolError::InvalidArguments(error.to_string()))
}

/// Arguments of a function that takes none.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
pub struct NoArguments {}

impl JsonSchema for NoArguments {
    fn schema_name() -> Cow<'static, str> {
        "NoArguments".into()
    }

    fn json_schema(_: &mut SchemaGenerator) -> Schema {
        json_schema!({ "type": "object", "properties": {} })
    }
}

#[cfg(test)]
#[path = "function_tests.rs"]
mod tests;
