//! Settings: defaults, then `turnwire.toml`, then the environment, then the flags.
//!
//! The file is parsed and validated by section (`file`), then combined with the rest for each
//! command (`run`, `serve`, `store_command`). The raw form is private to this module. Invalid
//! settings stop the start, and all errors are reported at once.
//!
//! ```toml
//! [server]
//! listen = "127.0.0.1:7878"
//! api_keys_env = "TEAM_KEYS"             # variable with the keys, separated by commas
//! hosts = ["chat.example.com"]           # names of this server, in addition to loopback
//! origins = ["https://app.example.com"]  # allowed web pages, in addition to its own
//! instructions = "Be brief."             # for /chat and /ws/chat
//!
//! [models.default]                       # any number of named models
//! kind = "chat_completions"              # or "openai_responses", "anthropic_messages"
//! base_url = "http://localhost:11434/v1"
//! model = "qwen3:8b"                     # name on the server; defaults to the requested name
//! api_key_env = "OPENAI_API_KEY"         # variable with the key
//! tool_calling = "json_schema"           # for a model without tool support
//!
//! [[models.pool.upstreams]]              # a model in several places
//! base_url = "http://gpu-1:8000/v1"
//! weight = 3
//! max_concurrency = 64
//!
//! [mcp_servers.everything]               # a program; never from a request
//! command = "npx"
//! args = ["-y", "@modelcontextprotocol/server-everything"]
//! env = { TOKEN = "${EVERYTHING_TOKEN}" }
//!
//! [mcp_servers.docs]                     # a URL
//! url = "https://docs.example.com/mcp"
//! bearer_token_env_var = "DOCS_TOKEN"
//! enabled_tools = ["search", "publish"]
//! require_approval = ["publish"]         # or "never", "always"
//! tools.search = { effect = "pure" }     # or "idempotent", "once"
//!
//! [approvals]
//! once = "always"                        # approval for calls that must not happen twice
//! expire_after_sec = 900                 # unanswered requests are denied
//! pin_definitions = true                 # a changed tool needs approval
//! unknown_outcomes = "ask"               # a person settles them; by default the model is told
//!
//! [mcp]
//! files = ["mcp.json"]                   # `mcpServers` of other programs
//!
//! [[mcp.on_request]]                     # servers that a request may supply as `server_url`
//! url = "https://mcp.example.com/team"   # this URL and below; none by default
//! tenants = ["default"]                  # all tenants by default
//!
//! [functions.weather]                    # an HTTP API as a tool
//! description = "Tells the weather of a city."
//! method = "GET"
//! url = "https://api.example.com/weather/{city}?units={units}"
//! parameters = { type = "object", properties = { city = {}, units = {} }, required = ["city"] }
//! header_env = { Authorization = "WEATHER_AUTHORIZATION" }
//! effect = "pure"
//!
//! [web_search]
//! provider = "searxng"                   # or "brave", "tavily", with api_key_env
//! base_url = "http://localhost:8888"
//!
//! [egress]                               # for URLs from a model or a request
//! open_networks = ["10.1.0.0/16"]        # private networks are denied by default
//! ports = [80, 443]
//!
//! [[webhooks]]                           # a receiver of events of runs
//! url = "https://example.com/turnwire"
//! secret_env = "WEBHOOK_SECRET"          # variable with the secret, `whsec_…`
//! events = ["response.failed"]           # all by default
//! tenant = "acme"                        # the tenant `default` by default
//!
//! [embeddings]                           # search files by meaning
//! base_url = "http://localhost:11434/v1"
//! model = "all-minilm"
//! api_key_env = "OPENAI_API_KEY"
//!
//! [store]
//! url = "sqlite://turnwire.db"           # or "postgres://…", or "memory:"
//! url_env = "DATABASE_URL"               # for a URL with a password
//! lease_ms = 2000                        # time until runs of a dead node are taken over
//! retention_days = 7                     # retention of finished runs; 0: forever
//! conversation_retention_days = 30       # retention of unused conversations; 0: forever
//! compact_after_seconds = 600            # when journals of finished runs are compacted; 0: never
//!
//! [fanout]
//! url = "redis://localhost:6379/"        # only useful with several nodes
//!
//! [limits]
//! max_turns = 32
//! wall_clock_sec = 1800
//! ```

mod access;
mod approvals;
mod audit;
mod changes;
mod egress;
mod embeddings;
mod file;
mod functions;
pub(crate) mod fuzzing;
mod limits;
mod lines;
mod mcp;
mod mcp_files;
mod model_kind;
mod models;
mod oidc;
mod origins;
mod quotas;
mod run;
mod schema;
mod secrets;
mod sections;
mod serve;
mod server;
mod shape;
mod store;
mod store_command;
mod syntax;
#[cfg(test)]
mod testing;
mod tool_server_login;
mod tool_servers;
mod upstreams;
mod web_search;
mod webhooks;
mod words;

#[cfg(test)]
pub(crate) use self::upstreams::ModelTimeouts;
pub(crate) use self::{
    approvals::ApprovalSettings,
    file::DEFAULT_FILE,
    mcp_files::McpSettings,
    model_kind::Kind,
    models::{DEFAULT_MODEL, Demo, ModelSettings, OtherNames, Provider, ServedModels, ToolCalling},
    origins::{Setting, Source, settings_in_force},
    run::RunSettings,
    sections::settings_schema,
    serve::ServeSettings,
    store_command::{store_of_command, url_of_store},
    tool_servers::filled,
    upstreams::UpstreamSettings,
    words::{did_you_mean, is_http_url, key_name},
};
