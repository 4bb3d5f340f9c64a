use super::{
    super::{
        ModelSettings, Provider,
        testing::{check_mistakes, check_run_problem, run_settings},
    },
    *,
};

const POOL: &str = r#"
[models.default]
kind = "chat_completions"
model = "qwen3"
api_key_env = "POOL_KEY"
connect_timeout_sec = 3
max_wait_ms = 500
[[models.default.upstreams]]
base_url = "http://user:secret@a:8000/v1"
weight = 3
max_concurrency = 64
[[models.default.upstreams]]
name = "spare"
base_url = "http://b/v1"
model = "qwen/qwen3"
api_key_env = "SPARE_KEY"
weight = 0
"#;
const KEYS: [(&str, &str); 2] = [("POOL_KEY", "k"), ("SPARE_KEY", "s")];

fn provider(text: &str, variables: &[(&str, &str)]) -> Provider {
    match run_settings(text, variables, None).unwrap().model {
        ModelSettings::Provider(provider) => provider,
        other @ ModelSettings::Scripted(_) => panic!("not a provider: {other:?}"),
    }
}

#[test]
fn a_model_may_be_in_several_places() {
    let provider = provider(POOL, &KEYS);
    let upstreams = [
        UpstreamSettings {
            name: "a:8000".to_owned(),
            base_url: "http://user:secret@a:8000/v1".to_owned(),
            api_key: Some("k".into()),
            model: Some("qwen3".to_owned()),
            weight: 3,
            max_concurrency: Some(64),
        },
        UpstreamSettings {
            name: "spare".to_owned(),
            base_url: "http://b/v1".to_owned(),
            api_key: Some("s".into()),
            model: Some("qwen/qwen3".to_owned()),
            weight: 0,
            max_concurrency: None,
        },
    ];
    assert_eq!(provider.upstreams, upstreams);
    let timeouts = ModelTimeouts {
        connect: Some(Duration::from_secs(3)),
        first_content: Some(Duration::from_secs(30)),
        max_wait: Some(Duration::from_millis(500)),
    };
    assert_eq!(provider.timeouts, timeouts, "half of the silence that ends a request");
    let variables = [KEYS[0], KEYS[1], ("OPENAI_BASE_URL", "http://variable/v1")];
    assert_eq!(
        run_settings(POOL, &variables, None).unwrap().model,
        ModelSettings::Provider(provider)
    );
}

#[test]
fn a_model_in_one_place_is_a_list_of_one() {
    let text = "[models.default]\nkind = \"chat_completions\"\nbase_url = \"http://a/v1\"\n";
    let one = provider(text, &[]);
    assert_eq!(one.upstreams, [UpstreamSettings::at("http://a/v1".to_owned(), None)]);
    assert_eq!(one.timeouts, ModelTimeouts::default());
}

#[test]
fn mistakes_are_told_where_they_are() {
    check_mistakes(
        "[models.m]\nkind = \"chat_completions\"\nbase_url = \"http://a\"\n\
         first_content_timeout_sec = 60\n\
         [[models.m.upstreams]]\nname = \"x\"\nbase_url = \"a\"\n\
         [[models.m.upstreams]]\nname = \"x\"\nbase_url = \"http://a\"\nwieght = 2\nmax_concurrency = 0\n",
        &[],
        &[
            "models.m.base_url: give each of its upstreams a base_url instead",
            "models.m.upstreams[0].base_url: `a` is not an address; it should look like \
             http://localhost:11434/v1",
            "models.m.upstreams[1].max_concurrency: 0 is not a whole number from 1 on",
            "models.m.upstreams[1].wieght: there is no such setting; did you mean `weight`?",
            "models.m.upstreams[1].name: another upstream has this name",
            "models.m.first_content_timeout_sec: it has to be less than limits.model_silence_sec, \
             which is 60",
        ],
    );
}

#[test]
fn a_missing_key_names_its_upstream() {
    check_run_problem(
        POOL,
        &[("POOL_KEY", "k")],
        None,
        &[
            "models.default.upstreams[1].api_key_env: the environment variable `SPARE_KEY` is not \
             set",
            "hint: set it, or take the line out of the settings if the server needs no key",
        ],
    );
}
