//! What the person wants: defaults, then `turnwire.toml`, then the environment, then the flags.
//!
//! Two steps: the file is read as it is written and checked, section by section (`file`),
//! then put together with the rest for the command that asks (`run`, `serve`, `backup`). Nothing past
//! this folder sees the raw form. A wrong setting stops the start, and all of them are told at
//! once.
//!
//! ```toml
//! [server]
//! listen = "127.0.0.1:7878"
//! api_keys_env = "TEAM_KEYS"             # the variable that has the keys, with commas between
//! hosts = ["chat.example.com"]           # names of this server, beside the loopback ones
//! origins = ["https://app.example.com"]  # web pages that may call it, beside its own
//! instructions = "Be brief."             # for /chat and /ws/chat
//!
//! [models.default]                       # any number of named models
//! kind = "chat_completions"              # or "openai_responses", "anthropic_messages"
//! base_url = "http://localhost:11434/v1"
//! model = "qwen3:8b"                     # the name sent to the server; left out, our own
//! api_key_env = "OPENAI_API_KEY"         # the variable that has the key
//! tool_calling = "json_schema"           # for a model that cannot call tools by itself
//!
//! [mcp_servers.everything]               # a program: only from this file, never from a request
//! command = "npx"
//! args = ["-y", "@modelcontextprotocol/server-everything"]
//! env = { TOKEN = "${EVERYTHING_TOKEN}" }
//!
//! [mcp_servers.docs]                     # an address
//! url = "https://docs.example.com/mcp"
//! bearer_token_env_var = "DOCS_TOKEN"
//! enabled_tools = ["search", "publish"]
//! require_approval = ["publish"]         # or "never", "always"
//! tools.search = { effect = "pure" }     # or "idempotent", "once"
//!
//! [approvals]
//! once = "always"                        # ask before calls that must not happen twice
//! expire_after_sec = 900                 # an unanswered question is a no
//! pin_definitions = true                 # a tool that changes waits for a person
//!
//! [mcp]
//! files = ["mcp.json"]                   # `mcpServers`, as other programs keep them
//!
//! [[mcp.on_request]]                     # servers that a request may bring, by `server_url`
//! url = "https://mcp.example.com/team"   # there and below; nowhere unless said
//! tenants = ["default"]                  # whose requests; everybody's unless said
//!
//! [functions.weather]                    # somebody's HTTP interface, as a tool
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
//! [egress]                               # for addresses that a model or a request names
//! open_networks = ["10.1.0.0/16"]        # closed unless named here
//! ports = [80, 443]
//!
//! [embeddings]                           # files are found by their meaning too
//! base_url = "http://localhost:11434/v1"
//! model = "all-minilm"
//! api_key_env = "OPENAI_API_KEY"
//!
//! [store]
//! url = "sqlite://turnwire.db"           # or "postgres://…", or "memory:"
//! url_env = "DATABASE_URL"               # better, if there is a password in it
//! lease_ms = 2000                        # how long a dead node's runs wait
//! retention_days = 7                     # how long finished runs are kept; 0: for ever
//! conversation_retention_days = 30       # how long unused conversations are kept; 0: for ever
//!
//! [fanout]
//! url = "redis://localhost:6379/"        # only useful with several nodes
//!
//! [limits]
//! max_turns = 32
//! wall_clock_sec = 1800
//! ```

mod approvals;
mod backup;
mod egress;
mod embeddings;
mod file;
mod functions;
mod limits;
mod lines;
mod mcp_files;
mod models;
mod run;
mod serve;
mod server;
mod store;
#[cfg(test)]
mod testing;
mod tool_server_login;
mod tool_servers;
mod web_search;
mod words;

pub(crate) use self::{
    approvals::ApprovalSettings,
    backup::BackupSettings,
    mcp_files::McpSettings,
    models::{
        DEFAULT_MODEL, Demo, Kind, ModelSettings, OtherNames, Provider, ServedModels, ToolCalling,
    },
    run::RunSettings,
    serve::ServeSettings,
    server::{listen_address, page_origin},
    tool_servers::filled,
    words::{did_you_mean, is_http_url},
};
